"""Answers of commands that search, on an idle machine and beside busy processes: the same bytes.

python -m tests.benchmarks.bench_same_answers [BUSY] ends with 1 where an answer differs. BUSY: busy
processes, by default 8; 0 compares two runs as the machine is. Measured times are left out.
"""

import multiprocessing
import subprocess
import sys

from tests.docs.pages import without_measurements

INT8 = ("--element-bytes", "1")
EFFORT = ("--effort", "300ms")
SEARCHED = (
    "keyword_spotting",
    "mobilenet_v1",
    "person_detection",
    "resnet18",
    "densenet121",
    "mobilenet_v2:width=1/4",
    "squeezenet1_1:resolution=39",
    "samos_example",
)
SMALL = ("--generations", "2", "--population", "8")
COMMANDS = [
    ("fit", "person_detection", *INT8, "--ram", "12kB", *EFFORT),
    ("fit", "mobilenet_v2", *INT8, "--ram", "150kB", *EFFORT),
    ("fit", "resnet8", *INT8, "--ram", "9kB", "--reserve", "1kB", *EFFORT),
    ("fit", "squeezenet1_1", *INT8, *EFFORT),
    ("fit", "efficientnet_b0", *INT8, "--ram", "287kB", *EFFORT),
    ("fit", "keyword_spotting", "resnet8", *INT8, "--ram", "20kB", *EFFORT),
    ("fit", "resnet8", *INT8, "--memory", "sram=8kB", "--memory", "psram=1MB:slow", *EFFORT),
    ("plan", "fusion", "resnet8", "--ram", "150kB", "--effort", "20ms"),
    ("plan", "fusion", "mobilenet_v2", *INT8, "--front", "--effort", "300ms"),
    ("cnn", "memory", "keyword_spotting", "resnet8", "--effort", "5ms"),
    *(("fit", name, *INT8, "--effort", "100ms") for name in SEARCHED),
    *(("fit", name, *INT8, "--input", "rows", "--effort", "50ms") for name in SEARCHED[:4]),
    *(("plan", "arena", name, *INT8, "--effort", "100ms") for name in SEARCHED),
    ("plan", "arena", "resnet8", *INT8, "--method", "cp-sat", "--effort", "100ms"),
    ("plan", "reuse", "keyword_spotting+samos_example", *SMALL),
    ("plan", "reuse", "resnet8+keyword_spotting", *SMALL, "--seed", "2"),
    ("plan", "fusion", "squeezenet1_1", *INT8, "--ram", "600kB", "--effort", "50ms"),
    ("plan", "traffic", "resnet8", "--buffer", "16kB"),
    ("plan", "traffic", "mobilenet_v1", "--buffer", "64kB"),
    ("fifo", "finn", "models/fifo/residual.onnx"),
    ("pareto", "models/graphs/h263decoder.xml"),
    ("pareto", "models/graphs/modem.xml"),
    ("buffers", "models/graphs/satellite.xml"),
]


def answers():
    """Return the exit code and the output of each command, without measured times."""
    found = []
    for words in COMMANDS:
        done = subprocess.run(
            [sys.executable, "-m", "csdf", *words], capture_output=True, text=True, check=False
        )
        shown = without_measurements(done.stdout).splitlines()
        found.append((done.returncode, [line for line in shown if not line.startswith("  time ")]))
    return found


def spin():
    """Keep a core busy."""
    while True:
        pass


def main(busy=8):
    """Compare the answers; return how many differ."""
    idle = answers()
    processes = [multiprocessing.Process(target=spin, daemon=True) for _ in range(busy)]
    for process in processes:
        process.start()
    try:
        loaded = answers()
    finally:
        for process in processes:
            process.kill()
    different = [
        words for words, one, other in zip(COMMANDS, idle, loaded, strict=True) if one != other
    ]
    print(f"{len(COMMANDS)} commands, {busy} busy processes: {len(different)} answers differ")
    for words in different:
        print(f"  csdf {' '.join(words)}")
    return len(different)


if __name__ == "__main__":
    sys.exit(min(1, main(*map(int, sys.argv[1:2]))))

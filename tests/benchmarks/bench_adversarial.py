"""Large graphs made to hurt through the commands: outcome, seconds and memory of each.

    python tests/benchmarks/bench_adversarial.py [--time-limit 10s] [--size small|large] [GRAPH ...]

A command without a budget is ended after ten times the patience that one with a budget gets.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from csdf.io.json_graph import graph_to_json
from tests.adversarial.graphs import CASES

COMMANDS = {
    "analyze": ("analyze", "{file}", "--time-limit", "{budget}"),
    "buffers": ("buffers", "{file}", "--time-limit", "{budget}"),
    "pareto": ("pareto", "{file}", "--time-limit", "{budget}"),
    "schedule": ("schedule", "{file}"),
    "periodic": ("schedule", "{file}", "--kind", "periodic"),
    "convert": ("convert", "{file}", "{folder}/out.xml"),
    "hsdf": ("convert", "{file}", "{folder}/out.json", "--hsdf"),
}
OUTCOMES = {0: "answered", 1: "no", 2: "refused", 3: "unknown", 124: "ENDED"}
LONGEST = 120  # seconds


def main():
    options = _options()
    print(f"{'graph':<16} {'size':>20} {'command':<9} {'outcome':<9} {'s':>6} {'MiB':>5}  says")
    with tempfile.TemporaryDirectory() as folder:
        for name in options.graph or CASES:
            case = CASES[name]
            size = getattr(case, options.size)
            path = Path(folder) / "graph.json"
            path.write_text(graph_to_json(case.make(size)))
            for command, words in COMMANDS.items():
                filled = [
                    word.format(file=path, folder=folder, budget=options.time_limit)
                    for word in words
                ]
                print(f"{name:<16} {size:>20} {command:<9} {_run(filled, folder)}", flush=True)


def _options():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("graph", nargs="*", choices=[*CASES, []], metavar="GRAPH")
    parser.add_argument("--time-limit", default="10s")
    parser.add_argument("--size", choices=("small", "large"), default="large")
    return parser.parse_args()


def _run(words, folder):
    """Run a command in a process of its own: outcome, seconds, peak memory, last words."""
    remarks = Path(folder) / "remarks"
    begin = time.perf_counter()
    with remarks.open("w") as error, open(os.devnull, "w") as nothing:
        process = subprocess.Popen(
            [shutil.which("timeout"), str(LONGEST), sys.executable, "-m", "csdf", *words],
            stdout=nothing,
            stderr=error,
        )
        _, status, used = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - begin
    code = os.waitstatus_to_exitcode(status)
    text = remarks.read_text()
    outcome = "TRACEBACK" if "Traceback" in text else OUTCOMES.get(code, str(code))
    last = text.splitlines()[-1][:100] if text else ""
    return f"{outcome:<9} {seconds:>6.1f} {used.ru_maxrss // 1024:>5}  {last}"


if __name__ == "__main__":
    main()

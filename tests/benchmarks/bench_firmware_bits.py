"""Outputs of libraries, compared bit by bit between compilers, optimisations and cores.

Run `python -m tests.benchmarks.bench_firmware_bits FILE [FILE ...]`. Of each file the plan of the
least memory, the input by row where it can be. The test program is built in all ways, here and for
emulated cores; it compares with golden outputs where the file has some, or else with those of
cnn2csdf, and prints a hash of its outputs:

    =  the outputs are right, and have the bits of the first column
    ~  they are right up to rounding, with other bits: real numbers only
    x  they differ
    .  the board has too little memory

The micro:bit (Cortex-M0) has 256 KiB of flash and 16 KiB of RAM; `M0+` is code for that core on a
larger one (Cortex-M3). Needs Debian's make, gcc-multilib, clang, gcc-arm-none-eabi,
libnewlib-arm-none-eabi, qemu-system-arm.
"""

import re
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from cnn2csdf.readers.model_files import read_model
from cnn2csdf.simplify import simplified
from cnn2csdf.stored_tensors import stores_integers
from csdf.errors import CsdfError
from planners.code.library import write_library
from planners.memory.answer import ROWS
from planners.memory.fit import fit
from tests.benchmarks.bench_firmware_kernels import require_golden
from tests.cnn2csdf.readers.test_states import FOLDER as STATEFUL
from tests.cnn2csdf.readers.test_states import as_frame, golden_runs
from tests.cnn2csdf.readers.test_tflite_golden import READ, frames_and_outputs, golden_model

FRAMES = 4  # of a network that keeps a state
GCC = ("-O0", "-O1", "-O3 -march=native", "-Ofast -flto", "-m32 -O2")
CLANG = ("-O2", "-Ofast")
HERE = {
    **{f"gcc {flags}": ("CC=gcc", f"CFLAGS={flags}") for flags in GCC},
    **{f"clang {flags}": ("CC=clang", f"CFLAGS={flags}") for flags in CLANG},
}
BOARDS = {  # name: machine of QEMU, flags of the core, and of the compiler
    "micro:bit -Os": ("microbit", "-mcpu=cortex-m0 -mthumb -mfloat-abi=soft", "-Os"),
    "M0+ -O2": ("mps2-an385", "-mcpu=cortex-m0plus -mthumb -mfloat-abi=soft", "-O2"),
    "M4 -O2": ("mps2-an386", "-mcpu=cortex-m4 -mthumb -mfloat-abi=hard -mfpu=fpv4-sp-d16", "-O2"),
    "M7 -Ofast -flto": (
        "mps2-an500",
        "-mcpu=cortex-m7 -mthumb -mfloat-abi=hard -mfpu=fpv5-d16",
        "-Ofast -flto",
    ),
    "M33 -O1": ("mps2-an505", "-mcpu=cortex-m33 -mthumb -mfloat-abi=hard -mfpu=fpv5-sp-d16", "-O1"),
    "M55 -O3": ("mps3-an547", "-mcpu=cortex-m55 -mthumb -mfloat-abi=hard", "-O3"),
}
MEMORY = {  # where it is not that of the test program's linker script for the Cortex-M4
    "microbit": (
        ("0x00000000, LENGTH = 4M", "0x00000000, LENGTH = 256K"),
        ("0x20000000, LENGTH = 4M", "0x20000000, LENGTH = 16K"),
        ("16K; stack_top", "1536; stack_top"),
    ),
    "mps2-an505": (
        ("0x00000000, LENGTH", "0x10000000, LENGTH"),
        ("0x20000000, LENGTH", "0x38000000, LENGTH"),
        ("0x21000000, LENGTH", "0x80000000, LENGTH"),
    ),
}
HASHED = """
static uint32_t hash_of(uint32_t hash, const void *found, size_t bytes)
{
    size_t i;
    for (i = 0; i < bytes; i++) {
        hash = (hash ^ ((const unsigned char *)found)[i]) * 16777619u;
    }
    return hash;
}

int main(void)
{
    int failed = net_test();
    uint32_t hash = 2166136261u;
PORTS
    say(failed ? "differ " : "equal ");
    say_number(hash);
    say("\\n");
    return failed;
}
#endif
"""


def main(files):
    print(f"| network | {' | '.join((*HERE, *BOARDS))} |")
    print("|---" * (1 + len(HERE) + len(BOARDS)) + "|")
    differing = 0
    for file in files:
        try:
            row = row_of(file)
        except CsdfError as error:
            row = [f"refused: {error}"]
        differing += row.count("x")
        print(f"| {Path(file).name} | {' | '.join(row)} |", flush=True)
    print(f"\n{differing} differences")
    return differing > 0


def row_of(file):
    model, frames, wanted = model_of(Path(file))
    with TemporaryDirectory() as folder:
        library = write_library(model, least(model.network), folder, name="net", frames=frames)
        if any(layer.quantization for layer in model.network.layers):
            require_golden(library, wanted)
        write_hashing(library, folder)
        said = [built_and_run(folder, "build/test", words) for words in HERE.values()]
        said += [on_board(folder, *words) for words in BOARDS.values()]
    return [cell(one, said[0]) for one in said]


def model_of(path):
    """The model of a file, and golden frames with their outputs if it has some."""
    name = path.stem
    if path.parent == STATEFUL:
        model = read_model(path, with_weights=True)
        inputs, outputs = next(golden_runs(name, FRAMES))
        (output,) = model.network.outputs
        frames = [as_frame(model, one) for one in inputs]
        return simplified(model), frames, [{output.name: one.reshape(-1)} for one in outputs]
    is_golden = path.suffix == ".tflite" and name in READ
    model = simplified(golden_model(name) if is_golden else read_model(path, with_weights=True))
    return (model, *(frames_and_outputs(name, model.network) if is_golden else (None, None)))


def least(network):
    size = None if stores_integers(network) else 4
    with suppress(CsdfError):  # of inputs that cannot come row by row
        return fit(network, input=ROWS, element_bytes=size).least.plan
    return fit(network, element_bytes=size).least.plan


def write_hashing(library, folder):
    text = Path(folder, "test", "main.c").read_text()
    ports = "\n".join(
        f"    hash = hash_of(hash, found_{one.parameter}, sizeof found_{one.parameter});"
        for one in library.written.outputs
    )
    text = text[: text.index("int main(void)")] + HASHED.replace("PORTS", ports).lstrip()
    Path(folder, "test", "bits.c").write_text(text)


def built_and_run(folder, target, words, run=("./build/test",)):
    """Return the words of the program; None where the board has too little memory."""
    Path(folder, target).unlink(missing_ok=True)
    built = subprocess.run(
        ["make", "-s", "-C", folder, target, "TESTS=test/bits.c", *words],
        capture_output=True,
        text=True,
    )
    if "overflowed by" in built.stderr:
        return None
    if built.returncode:
        raise SystemExit(f"make {' '.join(words)}: {built.stderr}")
    ran = subprocess.run(run, cwd=folder, capture_output=True, text=True)
    return ran.stdout + ran.stderr


def on_board(folder, machine, core, flags):
    script = Path(folder, "target", "target_m4.ld").read_text()
    target = "m55" if machine == "mps3-an547" else "any"
    for before, after in MEMORY.get(machine, ()):
        assert before in script
        script = script.replace(before, after)
    Path(folder, "target", "target_any.ld").write_text(script)
    subprocess.run(["rm", "-rf", f"{folder}/build/{target}"], check=True)
    words = (
        f"TARGET={target}",
        f"CORE_{target}={core}",
        f"ARM_CFLAGS={flags}",
        *("QUARTERS=4",),
    )
    elf = f"build/{target}/target.elf"
    run = ("qemu-system-arm", "-M", machine, "-nographic", "-monitor", "none", "-serial", "none")
    semihosting = ("-semihosting-config", "enable=on,target=native", "-kernel", elf)
    return built_and_run(folder, elf, words, (*run, *semihosting))


def cell(said, first):
    if said is None:
        return "."
    found = re.fullmatch(r"equal (\d+)\s*", said)
    if found is None:
        return "x"
    return "=" if said.split() == first.split() else "~"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Time of ESP-NN's C forms beside the kernels of this package, and what its ESP32-S3 forms do.

Run `python -m tests.benchmarks.bench_esp_nn --esp-nn FOLDER FILE [FILE ...]`, where FOLDER has ESP-NN
at commit d45b843c. First, for each int8 file and plan, thousand instructions of a frame on RISC-V
(rv32imc, -O2, in QEMU) and whether the outputs are equal: with own kernels, with ESP-NN's reference
forms, and with its optimised C forms. Then random layers with the C parts of its convolutions for the
ESP32-S3, with plain loops in place of their assembly, which nothing here runs. Needs
riscv64-unknown-elf-gcc with picolibc, qemu-system-riscv32, and gcc with -m32.
"""

import argparse
import subprocess
import tempfile
from pathlib import Path

from cnn2csdf.readers.model_files import read_model
from cnn2csdf.simplify import simplified
from planners.code.library import write_library
from planners.code.parts import CMSIS_NN, OWN, source
from planners.memory.fit import fit
from tests.benchmarks import instruction_counts

HERE = Path(__file__).parent / "esp_nn"
LAYERS = 20_000
RISCV = "riscv64-unknown-elf-gcc -march=rv32imc -misa-spec=2.2 -mabi=ilp32 -mcmodel=medany -O2 -w"
LINKED = (
    "-ffunction-sections -fdata-sections -nostartfiles -Wl,--gc-sections --specs=picolibc.specs"
)
TARGET = instruction_counts.HERE  # start and memory of the emulated core
EMULATED = "qemu-system-riscv32 -M virt -m 64M -bios none -nographic -semihosting -icount shift=0"
FORMS = {  # kernels of the library, and what ESP-NN is compiled with
    "own kernels": (OWN, []),
    "reference forms": (CMSIS_NN, []),
    "optimised forms": (CMSIS_NN, ["-DCONFIG_NN_OPTIMIZED"]),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--esp-nn", metavar="FOLDER", type=Path, required=True)
    parser.add_argument("files", metavar="FILE", nargs="+")
    options = parser.parse_args()
    print("", "network", "plan", *FORMS, "", sep=" | ")
    for file in options.files:
        model = simplified(read_model(file, with_weights=True))
        found = fit(model.network)
        plans = {way.name: way.plan for way in found.methods}
        for name in ("layer by layer", "row by row", "least"):
            plan = found.least.plan if name == "least" else plans[name]
            counts = [counted(model, plan, form, options.esp_nn) for form in FORMS]
            print("", Path(file).stem, name, *counts, "", sep=" | ", flush=True)
    print(random_layers(options.esp_nn))


def compiled(words, sources, esp_nn, program):
    """Compile C with the headers of ESP-NN."""
    headers = ["-include", "string.h", f"-I{esp_nn}/include", f"-I{esp_nn}/src/common"]
    subprocess.run([*words.split(), *headers, *sources, "-o", program, "-lm"], check=True)


def counted(model, plan, form, esp_nn):
    """Whether the outputs of a frame are equal, and thousand instructions, in words."""
    kernels, flags = FORMS[form]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_library(model, plan, folder, name="net", kernels=kernels)
        started = folder / "started.c"
        started.write_text(source("say.c") + (HERE / "rv32.c").read_text())
        sources = [started, TARGET / "riscv32_target.c", *folder.glob("src/*.c")]
        sources += [folder / "test" / "main.c"]
        if kernels == CMSIS_NN:
            sources += [*esp_nn.glob("src/*/*_ansi.c"), *esp_nn.glob("src/*/*_opt.c")]
        more = [*(f"-I{one}" for one in (folder / "include", folder / "target", HERE)), *flags]
        more += ["-DON_TARGET", "-DNO_MAIN", "-T", TARGET / "riscv32.ld"]
        compiled(f"{RISCV} {LINKED}", [*more, *sources], esp_nn, folder / "program")
        words = [*EMULATED.split(), "-kernel", folder / "program"]
        ran = subprocess.run(
            words, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120
        )
        return (ran.stdout + ran.stderr).strip()


def random_layers(esp_nn):
    """The counts of random layers with the C parts for the ESP32-S3."""
    with tempfile.TemporaryDirectory() as name:
        program = Path(name) / "program"
        parts = ("conv_esp32s3", "depthwise_conv_s8_esp32s3", "conv_ansi", "depthwise_conv_ansi")
        sources = [esp_nn / "src" / "convolution" / f"esp_nn_{part}.c" for part in parts]
        sources += [HERE / "esp32s3.c", *esp_nn.glob("src/convolution/*_opt.c")]
        compiled("gcc -m32 -O1 -w -fno-strict-aliasing", sources, esp_nn, program)
        return subprocess.run(
            [program, str(LAYERS)], check=True, capture_output=True, text=True
        ).stdout


if __name__ == "__main__":
    main()

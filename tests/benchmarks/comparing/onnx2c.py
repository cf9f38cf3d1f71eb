"""Networks in real numbers as onnx2c writes them: memory, flash, instructions, time here.

onnx2c is a program that its user builds; it is asked for C from the same weights, as an ONNX file.
"""

import re
import subprocess

import numpy as np

from cnn2csdf.onnx_files.writer import onnx_bytes
from planners.code.parts import source
from tests.benchmarks.comparing.firmware import (
    TARGETS,
    TIMED,
    core_flags,
    made,
    number,
    prepare,
    said,
    sizes,
)


def measured(program, model, frame, outputs, folder):
    """Bytes, time and instructions of onnx2c's C, whose outputs are compared with the network's."""
    (given,), (wanted,) = frame.values(), outputs.values()
    prepare(folder)
    (folder / "net.onnx").write_bytes(onnx_bytes(model))
    ran = subprocess.run([program, folder / "net.onnx"], capture_output=True, text=True, check=True)
    (folder / "net.c").write_text(ran.stdout)
    (folder / "main.c").write_text(_program(given, wanted))
    found = {"stack": []}
    for target in TARGETS:
        compiled = folder / f"{target}.o"
        words = ["arm-none-eabi-gcc", "-O2", "-w", *core_flags(folder, target)]
        subprocess.run([*words, "-c", folder / "net.c", "-o", compiled], check=True)
        words = [f"TARGET={target}", f"OBJECTS={compiled}", f"TESTS={folder}/main.c"]
        text = made(folder, "instructions", *words)
        found[target] = number(text, "thousand instructions")
        found["stack"].append(number(text, "stack"))
    ((text, data, bss),) = sizes(folder / f"{TARGETS[0]}.o")
    files = [folder / "net.c", folder / "main.c"]
    subprocess.run(["gcc", "-O2", "-w", *files, "-lm", "-o", folder / "here"], check=True)
    time = re.search(r"milliseconds: ([0-9.]+)", said([folder / "here"]))[1]
    return found | {
        "arena": data + bss,
        "state": [0] * len(TARGETS),
        "code": text + data,  # with the parameters
        "parameters": 0,
        "here": float(time),
    }


def _program(given, wanted):
    """C that runs a frame, compares, and counts instructions or measures time."""
    return f"""#define _POSIX_C_SOURCE 199309L
#include <math.h>
#include <stdint.h>
{source("say.c")}
void entry(const float *input, float *output);
static const float given[] = {{{_numbers(given)}}};
static const float wanted[] = {{{_numbers(wanted)}}};
static float found[{wanted.size}];
#define FRAME entry(given, found)
#ifndef ON_TARGET
{TIMED}
#endif
int main(void)
{{
    int place, failed = 0;
    FRAME;
    for (place = 0; place < {wanted.size}; place++) {{
        failed |= !(fabsf(found[place] - wanted[place]) <= {1e-4 * np.abs(wanted).max():.9g}f);
    }}
    say(failed ? "outputs differ" : "outputs equal");
#ifdef ON_TARGET
    say("\\nstack: ");
    say_number(stack_bytes());
    {{
        uint64_t before = instructions();
        FRAME;
        say("\\nthousand instructions: ");
        say_number((instructions() - before) / 1000);
    }}
    say("\\n");
#else
    printf("\\nmilliseconds: %f\\n", least_time());
#endif
    return failed;
}}
"""


def _numbers(array):
    """The numbers of a tensor, channels first, as ONNX has them."""
    return ", ".join(f"{float(one)!r}f" for one in array.reshape(-1))

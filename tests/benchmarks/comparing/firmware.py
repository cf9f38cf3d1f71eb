"""Programs for emulated microcontrollers and for here: how they are built, run and measured."""

import re
import subprocess

from planners.code.makefile import makefile, target_files

TARGETS = ("m4", "m55")
TIMED = """
#include <stdio.h>
#include <time.h>
static double least_time(void) /* of 20 calls of FRAME, in milliseconds of the processor */
{
    double least = 1e9;
    int call;
    for (call = 0; call < 20; call++) {
        struct timespec from, to;
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &from);
        FRAME;
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &to);
        {
            double seconds = (double)(to.tv_sec - from.tv_sec);
            double took = seconds * 1e3 + (double)(to.tv_nsec - from.tv_nsec) / 1e6;
            least = took < least ? took : least;
        }
    }
    return least;
}
"""


def prepare(folder):
    """Write a library's Makefile and the files of its targets into a folder."""
    for name, text in {"Makefile": makefile([]), **target_files()}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    for target in TARGETS:
        (folder / f"build/{target}-counted").mkdir(parents=True, exist_ok=True)


def core_flags(folder, target):
    """Flags of the compiler for a target, as the Makefile there has them."""
    words = ["--eval", "flags: ; @echo $(CORE_$(TARGET)) $(SECTIONS)", "flags"]
    ran = subprocess.run(
        ["make", "-s", "-C", folder, f"TARGET={target}", *words],
        capture_output=True,
        text=True,
        check=True,
    )
    return ran.stdout.split()


def made(folder, *words):
    """Run make and the program that it builds, which is to find equal outputs; return the text."""
    return said(["make", "-s", "-C", folder, *words])


def said(words):
    ran = subprocess.run(words, capture_output=True, text=True)
    text = ran.stdout + ran.stderr
    if ran.returncode or "outputs equal" not in text:
        raise SystemExit(f"{' '.join(map(str, words))}: {text}")
    return text


def number(text, what):
    """The number behind some words."""
    return int(re.search(rf"{what}: (\d+)", text)[1])


def sizes(*objects):
    """Bytes of .text, .data and .bss of each object."""
    ran = subprocess.run(["arm-none-eabi-size", *objects], capture_output=True, text=True)
    return [[int(word) for word in line.split()[:3]] for line in ran.stdout.splitlines()[1:]]

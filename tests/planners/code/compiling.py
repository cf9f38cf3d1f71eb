"""Libraries compiled and run: many of them in one program, under sanitizers."""

import os
import re
import shutil
import subprocess

import pytest

from planners.code.library import library
from planners.code.makefile import BENCH, EXAMPLE, MAIN, PROOF
from planners.code.several import write_libraries

COMPILER = shutil.which("gcc") or shutil.which("cc")
FLAGS = ("-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-Wconversion", "-Wshadow", "-O0")
SANITIZERS = (
    "-fsanitize=address,undefined",
    "-fno-sanitize=null,object-size",  # the address sanitizer sees their use
    "-fsanitize-undefined-trap-on-error",
    *("--param", "asan-instrumentation-with-call-threshold=0"),  # a third faster to compile
)
TALKING = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all")  # a third slower to compile
COMPILERS = {  # and what they look for at run time; trapping needs no library
    name: sanitizers
    for name, sanitizers in {
        "gcc": SANITIZERS,
        "clang": ("-fsanitize=undefined", "-fsanitize-trap=all"),
    }.items()
    if shutil.which(name)
}
needs_compiler = pytest.mark.skipif(
    COMPILER is None, reason="no C compiler (gcc or cc) is installed to build the libraries with"
)


def program(files):
    """Words for a compiler that build the program of a written folder, without a target's."""
    others = (BENCH, EXAMPLE, PROOF, "target/target.c")
    return ["-Iinclude", *(name for name in files if name.endswith(".c") and name not in others)]


def inlined(files, path):
    """A C file of a library with the kernels that it includes in place."""
    folder = path.rpartition("/")[0]
    return re.sub(
        r'^#include "(csdf_\w+\.h|\w+_weights\.h)"$',
        lambda match: files[f"{folder}/{match[1]}"],
        files[path],
        flags=re.MULTILINE,
    )


def libraries(cases, **options):
    """A library for each model and plan, named by its number."""
    return [
        library(model, plan, name=f"net{number}", **options)
        for number, (model, plan) in enumerate(cases)
    ]


def run_all(made, folder, flags=(*FLAGS, *SANITIZERS)):
    """The names of libraries whose outputs differ, of many in one program.

    Fails with the message of the compiler or of a sanitizer.
    """
    lines = ["#include <stdio.h>"]
    for one in made:
        pieces = (f"src/{one.name}.c", f"src/{one.name}_weights.c", MAIN)
        (folder / f"{one.name}.h").write_text(one.files[f"include/{one.name}.h"])
        text = "\n".join(inlined(one.files, name) for name in pieces)
        (folder / f"all_of_{one.name}.c").write_text(text)
        lines.append(f"int {one.name}_test(void);")
    calls = [
        f'    printf("{one.name} begins\\n");\n    fflush(stdout);\n'
        f'    if ({one.name}_test()) printf("{one.name} differs\\n");'
        for one in made
    ]
    lines += ["int main(void)", "{", *calls, "    return 0;", "}"]
    (folder / "all.c").write_text("\n".join(lines) + "\n")
    ran = _built_and_run(folder, flags)
    if ran.returncode < 0 and set(SANITIZERS) <= set(flags):  # a trap says nothing of its place
        ran = _built_and_run(
            folder, [flag for flag in flags if flag not in SANITIZERS] + [*TALKING]
        )
    assert ran.returncode == 0, ran.stdout[-200:] + ran.stderr[:4000]
    return [line.split()[0] for line in ran.stdout.splitlines() if line.endswith("differs")]


def _built_and_run(folder, flags):
    sources = [name for name in sorted(os.listdir(folder)) if name.endswith(".c")]
    built = subprocess.run(
        [COMPILER, *flags, "-DNO_MAIN", *sources, "-lm", "-o", "all"],
        cwd=folder,
        capture_output=True,
        text=True,
    )
    assert built.returncode == 0, built.stderr[:4000]
    return subprocess.run(["./all"], cwd=folder, capture_output=True, text=True)


def run_in_turn(members, folder):
    """Return the message of a program in which networks take turns; None where outputs are equal.

    Raises what write_libraries raises, and fails with the message of the compiler.
    """
    files = write_libraries(members, folder).files
    words = [COMPILER, *FLAGS, *TALKING, *program(files), "-lm", "-o", "turns"]
    built = subprocess.run(words, cwd=folder, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr[:4000]
    ran = subprocess.run(["./turns"], cwd=folder, capture_output=True, text=True)
    return None if ran.returncode == 0 else ran.stdout[-200:] + ran.stderr[:4000]

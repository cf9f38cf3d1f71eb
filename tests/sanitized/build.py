"""Compiled kernels that end the process where a sum, product or shift leaves 64 bits.

They lie in a folder of their own, beside those in the checkout, which stay as they are. A module runs
with them in a process of its own, since an overflow ends the process by a signal; so does an index
outside an array, which a compiled function cannot raise. To try one by hand:

    CSDF_KERNELS=sanitized python setup.py build_ext --build-lib LIB --build-temp TEMP
    python -m tests.sanitized.build LIB tests.sanitized.graphs analyze 0 1000
"""

import faulthandler
import importlib
import os
import runpy
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
HOMES = ("csdf.kernels.compiled", "planners.kernels.compiled")  # packages of compiled kernels


def build(folder):
    """Build the kernels into a folder."""
    subprocess.run(
        [
            sys.executable, "setup.py", "--quiet", "build_ext",
            "--build-lib", str(folder), "--build-temp", str(folder / "temporary"),
        ],
        cwd=ROOT, env={**os.environ, "CSDF_KERNELS": "sanitized"}, check=True,
    )  # fmt: skip


def run(folder, module, *words):
    """Run a module with the kernels in the folder; return the process that ended."""
    return subprocess.run(
        [sys.executable, "-m", "tests.sanitized.build", str(folder), module, *map(str, words)],
        cwd=ROOT, env={**os.environ, "CSDF_KERNELS": "sanitized"}, capture_output=True, text=True,
        check=False,
    )  # fmt: skip


def take(folder):
    """Let this process import the kernels in the folder, and end where one of them fails."""
    for name in HOMES:
        inside = Path(folder, *name.split("."))
        if inside.is_dir():
            importlib.import_module(name).__path__.insert(0, str(inside))
    faulthandler.enable()
    sys.unraisablehook = _end


def _end(unraisable):
    print(
        f"{unraisable.err_msg}: {unraisable.exc_value!r} in {unraisable.object!r}", file=sys.stderr
    )
    os.abort()


if __name__ == "__main__":
    take(sys.argv[1])
    sys.argv = sys.argv[2:]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)

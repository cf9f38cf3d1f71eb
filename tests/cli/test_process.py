"""The command as a process of its own: what it loads, where it may write, who reads it."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import csdf
from tests.cli.running import GRAPHS

PACKAGE = Path(csdf.__file__).parent
COMMAND = "import sys; from csdf.cli.main import main; sys.exit(main())"


def run_python(code, *words, home=PACKAGE.parent, **options):
    """Run Python with the package of that folder."""
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(home), "HOME": "/dev/null"}
    return subprocess.run(
        [sys.executable, "-c", code, *map(str, words)],
        env=environment, text=True, capture_output=True, timeout=60, check=False, **options,
    )  # fmt: skip


def test_a_small_analysis_loads_neither_the_compiler_nor_numpy():
    code = """
import sys
from csdf.cli.main import main
code = main()
print(*sorted({"numba", "numpy", "llvmlite"} & set(sys.modules)), file=sys.stderr)
sys.exit(code)
"""
    ended = run_python(code, "analyze", GRAPHS / "h263decoder.xml")
    assert (ended.returncode, ended.stderr) == (0, "\n")


def test_the_package_face_loads_nothing_but_itself():
    code = "import csdf, sys; print([m for m in sys.modules if m.startswith('csdf.')])"
    assert run_python(code).stdout == "[]\n"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_a_full_disk_is_reported_in_one_line():
    with open("/dev/full", "w") as full:
        ended = subprocess.run(
            [sys.executable, "-c", COMMAND, "analyze", GRAPHS / "modem.xml"],
            env={"PYTHONPATH": str(PACKAGE.parent)}, stdout=full, stderr=subprocess.PIPE,
            text=True, timeout=60, check=False,
        )  # fmt: skip
    assert ended.returncode == 2
    assert ended.stderr == ("csdf analyze: the output cannot be written: No space left on device\n")


@pytest.mark.parametrize(
    "words",
    [("generate", "1"), ("--help",), ("plan", "--help"), ("analyze", "--help")],
    ids=" ".join,
)
def test_a_reader_that_goes_away_is_no_error(words):
    reader, writer = os.pipe()
    os.close(reader)
    ended = subprocess.run(
        [sys.executable, "-c", COMMAND, *words],
        env={"PYTHONPATH": str(PACKAGE.parent)}, stdout=writer, stderr=subprocess.PIPE,
        text=True, timeout=60, check=False,
    )  # fmt: skip
    os.close(writer)
    assert (ended.returncode, ended.stderr) == (0, "")


def test_compiled_kernels_run_where_no_cache_can_be_written(tmp_path):
    # Permissions do not bind the superuser, so the folders are made impossible: __pycache__ beside
    # the kernels is a file, and HOME is no folder.
    shutil.copytree(PACKAGE, tmp_path / "csdf", ignore=shutil.ignore_patterns("__pycache__"))
    blocked = tmp_path / "csdf" / "kernels" / "__pycache__"
    blocked.write_text("")
    code = """
import json
from csdf.kernels import self_timed
from csdf.kernels.compile import COMPILED
run = COMPILED.kernel(self_timed.pack_state)
state = COMPILED.blank(3)
ring = [COMPILED.array(row) for row in ([0], [1], [0], [1], [4], [7], [7], [5])]
length = run(*ring, 5, state)
print(json.dumps([length, [int(one) for one in state], self_timed.__file__]))
"""
    ended = run_python(code, home=tmp_path, cwd=tmp_path)
    assert ended.stderr == ""
    length, state, home = json.loads(ended.stdout)
    # One actor, which started at 5, and one channel with one batch of 4 tokens at 7: the start,
    # the number of batches and the time of the newest, relative to 5; then the batch, cut off.
    assert (length, state) == (5, [0, 1, 2])
    assert home.startswith(str(tmp_path))
    assert blocked.read_text() == ""

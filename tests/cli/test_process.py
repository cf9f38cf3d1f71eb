"""The command as a process of its own: what it loads, where it may write, who reads it."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import csdf
from csdf.kernels import compile as compiler
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


def test_an_analysis_loads_none_of_the_heavy_libraries():
    code = """
import sys
from csdf.cli.main import main
code = main()
print(*sorted({"numpy", "scipy", "matplotlib", "networkx"} & set(sys.modules)), file=sys.stderr)
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


@pytest.mark.parametrize("built", [True, False], ids=["built", "not built"])
def test_the_version_says_which_kernels_run(tmp_path, built):
    # Without the folder of compiled modules it is a package that was built without a compiler.
    left_out = ("__pycache__",) if built else ("__pycache__", "*.so", "*.pyd")
    shutil.copytree(PACKAGE, tmp_path / "csdf", ignore=shutil.ignore_patterns(*left_out))
    ended = run_python(COMMAND, "--version", home=tmp_path, cwd=tmp_path)
    has_compiled = built and compiler.has_compiled()
    kernels = "compiled kernels" if has_compiled else "plain kernels, slower"
    assert ended.stdout == f"csdf {csdf.__version__}, {kernels}\n"
    ran = run_python(COMMAND, "analyze", GRAPHS / "modem.xml", home=tmp_path, cwd=tmp_path)
    assert (ran.returncode, ran.stderr) == (0, "")


def test_plain_kernels_can_be_asked_for():
    environment = {"PYTHONPATH": str(PACKAGE.parent), "CSDF_KERNELS": "plain"}
    ended = subprocess.run(
        [sys.executable, "-c", COMMAND, "--version"],
        env=environment, text=True, capture_output=True, timeout=60, check=False,
    )  # fmt: skip
    assert ended.stdout.endswith(", plain kernels, slower\n")

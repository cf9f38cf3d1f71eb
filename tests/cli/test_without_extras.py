"""After `pip install .` alone every command works, and says which extra a file needs."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXTRAS = (  # of pyproject.toml, as they are imported
    *("onnx", "onnxruntime", "ortools", "yaml", "dask", "distributed"),
    *("hypothesis", "pytest", "jsonschema", "numba", "flatbuffers"),
)
BEGIN = f"""
import sys
from importlib.abc import MetaPathFinder

class Missing(MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name.partition(".")[0] in {EXTRAS}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Missing())
from csdf.cli.main import main
"""


def run_bare(code, *words):
    return subprocess.run(
        [sys.executable, "-c", BEGIN + code, *map(str, words)],
        cwd=ROOT, text=True, capture_output=True, timeout=120, check=False,
    )  # fmt: skip


def test_every_command_explains_itself_without_extras():
    ended = run_bare("from csdf.cli.about.completion import leaves; print(len(list(leaves())))")
    assert ended.stderr == ""
    assert int(ended.stdout) > 20


def test_shells_are_completed_without_extras():
    ended = run_bare("sys.exit(main())", "completion", "bash")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "fifo" in ended.stdout


@pytest.mark.parametrize(
    ("words", "remark"),
    [
        (("fifo", "finn", "models/fifo/residual.onnx"), "models/fifo/residual.onnx: ONNX files"),
        (("cnn", "show", "net.onnx"), "net.onnx: ONNX files"),
        (("cnn", "convert", "resnet8", "-o", "{folder}/net.onnx"), "net.onnx: ONNX files"),
    ],
)
def test_a_file_that_needs_an_extra_says_how_to_get_it(words, remark, tmp_path):
    ended = run_bare("sys.exit(main())", *(one.format(folder=tmp_path) for one in words))
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.count("\n") == 1
    assert f"{remark} need onnx: pip install onnx" in ended.stderr


def test_depths_of_hls4ml_need_no_extra():
    ended = run_bare("sys.exit(main())", "fifo", "hls4ml", "--help")
    assert (ended.returncode, ended.stderr) == (0, "")

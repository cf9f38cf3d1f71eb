"""Whatever a file holds, its reader returns a value or says in one line what is wrong with it.

Each reader meets its mutants in a process of its own, two at a time; `run_reader.py` is the checker.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fuzz.readers import readers
from tests.fuzz.run_reader import answer_of

ROOT = Path(__file__).parents[2]
CASES = os.environ.get("CSDF_MUTANTS", "350")  # 10,000 and more before a release
NAMES = tuple(readers(Path()))


@pytest.fixture(scope="module")
def ended(tmp_path_factory):
    """The process that ran all readers, and the folder with their answers."""
    folder = tmp_path_factory.mktemp("fuzz")
    words = [sys.executable, "-m", "tests.fuzz.run_reader", "0", CASES, str(folder)]
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    ran = subprocess.run(words, cwd=ROOT, env=environment, capture_output=True, text=True)
    return ran, folder


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_changed_file_is_read_or_refused_in_one_line(ended, name):
    if name.startswith("onnx"):
        pytest.importorskip("onnx")
    if name.startswith("tflite"):
        pytest.importorskip("flatbuffers")
    if name == "application yaml":
        pytest.importorskip("yaml")
    ran, folder = ended
    found = json.loads(answer_of(folder, name).read_text())
    assert found["code"] == 0, ran.stderr[-2000:]
    assert not found["faults"]
    # Mutants that are all refused at the first byte would prove nothing.
    assert found["values"] > found["cases"] / 200
    assert found["mebibytes"] < 2048

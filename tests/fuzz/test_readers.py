"""Whatever a file holds, its reader returns a value or says in one line what is wrong with it.

Each reader meets its mutants in a process of its own, two at a time; `run_reader.py` is the checker.
"""

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.fuzz.readers import readers

ROOT = Path(__file__).parents[2]
CASES = int(os.environ.get("CSDF_MUTANTS", "350"))  # 10,000 and more before a release
SLOW = {"application yaml": 300}  # each of its cases takes milliseconds
NAMES = tuple(readers(Path()))


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """The end of each reader's run, by its name."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OPENBLAS_NUM_THREADS": "1"}

    def run(name):
        folder = tmp_path_factory.mktemp("fuzz")
        cases = SLOW.get(name, CASES)
        words = [name, "0", str(cases), str(folder)]
        return subprocess.run(
            [sys.executable, ROOT / "tests" / "fuzz" / "run_reader.py", *words],
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )

    with ThreadPoolExecutor(2) as pool:
        yield {name: pool.submit(run, name) for name in NAMES}


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_changed_file_is_read_or_refused_in_one_line(runs, name):
    if name.startswith("onnx"):
        pytest.importorskip("onnx")
    if name.startswith("tflite"):
        pytest.importorskip("flatbuffers")
    if name == "application yaml":
        pytest.importorskip("yaml")
    ended = runs[name].result()
    assert ended.returncode == 0, ended.stderr[-2000:]
    found = json.loads(ended.stdout)
    assert not found["faults"]
    # Mutants that are all refused at the first byte would prove nothing.
    assert found["values"] > found["cases"] / 200
    assert found["mebibytes"] < 2048

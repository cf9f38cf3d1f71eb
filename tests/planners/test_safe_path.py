"""Processes that planners start run this project's modules, not files of the current folder."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from planners.primitives.profiling import import_path

HOME = Path(__file__).parents[2]
PLANTED = (
    "csdf",
    "numpy",
    "pickle",
    "random",
    "selectors",
    "signal",
    "socket",
    "struct",
    "tempfile",
)
MEASURING = """
from cnn2csdf import operators as op
from cnn2csdf.builder import NetworkBuilder
from planners.primitives.profiling import Effort
from planners.primitives.profiling import profile_network

builder = NetworkBuilder("small")
builder.output(builder.add(op.Activation(function="relu"), builder.input((1, 2, 2)), name="layer"))
effort = Effort(repetitions=1, least=1, evicted_bytes=64)
print(len(profile_network(builder.network(), effort=effort).layers) > 0)
"""
EVALUATING = """
from evolution_problems import Knapsack, none
from planners.reuse.process_pool import process_pool

if __name__ == "__main__":
    with process_pool(Knapsack(), workers=1) as pool:
        print(len(list(pool.scores([(0,) * 8], none))) == 1)
"""


@pytest.mark.slow
@pytest.mark.parametrize("code", [MEASURING, EVALUATING], ids=["measuring", "evaluating"])
def test_a_worker_runs_no_file_of_the_current_folder(tmp_path, code):
    script, here = tmp_path / "bin" / "command.py", tmp_path / "here"
    script.parent.mkdir()
    here.mkdir()
    script.write_text(code)
    for name in PLANTED:  # what Python's own library and ours would import, were they found here
        (here / f"{name}.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'a').write('{name} ')")
    found = [HOME, HOME / "tests" / "planners" / "reuse" / "front"]
    ended = subprocess.run(
        [sys.executable, script], cwd=here, text=True, capture_output=True, timeout=120, check=False,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(map(str, found))},
    )  # fmt: skip
    assert (ended.stdout, ended.stderr) == ("True\n", "")
    assert not (tmp_path / "ran").exists()


def test_where_modules_are_found_does_not_depend_on_the_current_folder(monkeypatch):
    monkeypatch.setattr(sys, "path", ["", "/somewhere"])
    assert import_path() == ["/somewhere", str(HOME)]
    monkeypatch.setattr(sys, "path", [str(HOME), "/somewhere"])
    assert import_path() == [str(HOME), "/somewhere"]

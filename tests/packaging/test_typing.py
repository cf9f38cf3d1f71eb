"""Type checkers of users pass what README and the pages show."""

import json
import os
import shutil
import subprocess
import sys

import pytest

import csdf
from tests.docs.pages import ROOT, blocks_of


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("programs")
    for page in (ROOT / "README.md", *(ROOT / "docs").glob("*.md")):
        blocks = [block.body for block in blocks_of(page) if block.kind == "python"]
        if blocks:
            (folder / f"{page.stem}.py").write_text("\n".join(blocks))
    assert len([*folder.iterdir()]) > 15
    return folder


def checked(folder, *command):
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)


@pytest.mark.slow
def test_strict_types_of_mypy_pass_on_what_the_pages_call(programs):
    pytest.importorskip("mypy", reason="needs mypy, of the extra test")
    # The settings and the cache of the project's own check, which has read all packages before.
    mypy = (sys.executable, "-m", "mypy", "--strict")
    answer = checked(ROOT, *mypy, *sorted(map(str, programs.iterdir())))
    assert answer.stdout.startswith("Success"), answer.stdout


@pytest.mark.slow
def test_pyright_passes_what_the_pages_call_and_knows_every_public_type(programs):
    if not shutil.which("pyright"):
        pytest.skip("needs pyright (npm install -g pyright)")
    pyright = ("pyright", "--pythonpath", sys.executable)
    answer = checked(programs, *pyright, ".")
    assert "\n0 errors" in f"\n{answer.stdout}", answer.stdout
    known = checked(programs, *pyright, "--ignoreexternal", "--verifytypes", "csdf", "--outputjson")
    symbols = {
        one["name"]: one["isTypeKnown"]
        for one in json.loads(known.stdout)["typeCompleteness"]["symbols"]
    }
    public = [f"csdf.{name}" for name in csdf.__all__]
    assert [name for name in public if name in symbols and not symbols[name]] == []
    assert sum(name in symbols for name in public) > 100


def test_every_public_name_is_exported_for_type_checkers():
    for package in ("csdf", "cnn2csdf", "planners"):
        text = (ROOT / package / "__init__.py").read_text()
        names = __import__(package).__all__
        assert [name for name in names if f"import {name} as {name}\n" not in text] == []

"""Type checkers of users pass what README and the pages show."""

import os
import subprocess
import sys

import pytest

from tests.docs.pages import ROOT, blocks_of


@pytest.mark.slow
def test_strict_types_pass_on_what_the_pages_call(tmp_path):
    pytest.importorskip("mypy", reason="needs mypy, of the extra test")
    for page in (ROOT / "README.md", *(ROOT / "docs").glob("*.md")):
        blocks = [block.body for block in blocks_of(page) if block.kind == "python"]
        if blocks:
            (tmp_path / f"{page.stem}.py").write_text("\n".join(blocks))
    programs = sorted(map(str, tmp_path.iterdir()))
    assert len(programs) > 15
    silent = "--follow-imports=silent"  # about the packages themselves others ask
    checked = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", silent, "--config-file=", *programs],
        cwd=tmp_path,
        env={**os.environ, "MYPYPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert checked.stdout.startswith("Success"), checked.stdout


def test_every_public_name_is_exported_for_type_checkers():
    for package in ("csdf", "cnn2csdf", "planners"):
        text = (ROOT / package / "__init__.py").read_text()
        names = __import__(package).__all__
        assert [name for name in names if f"import {name} as {name}\n" not in text] == []

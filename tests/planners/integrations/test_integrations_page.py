"""The files that docs/integrations.md gives do what it says, with the real tools."""

import contextlib
import json
import runpy

import pytest

from tests.docs.pages import ROOT, blocks_of

PAGE = ROOT / "docs" / "integrations.md"
FILES = {block.file: block.body for block in blocks_of(PAGE) if block.file}
NEEDED = {"export.py": "executorch", "convert.py": "hls4ml", "try.py": "qonnx"}


@pytest.mark.slow
@pytest.mark.parametrize("name", NEEDED)
def test_a_file_of_the_page_runs(name, tmp_path, capsys):
    pytest.importorskip(NEEDED[name], reason=f"needs {NEEDED[name]}, as the page installs it")
    (tmp_path / "models").symlink_to(ROOT / "models")
    (tmp_path / name).write_text(FILES[name])
    with contextlib.chdir(tmp_path):
        runpy.run_path(name)
    if name == "export.py":
        assert (tmp_path / "net.pte").stat().st_size > 4 * 64 * 256  # its weights, at least
    elif name == "convert.py":
        text = (tmp_path / "prj" / "firmware" / "myproject.cpp").read_text()
        assert "#pragma HLS STREAM" in text
    else:
        assert json.loads(capsys.readouterr().out)["bits"] == 194

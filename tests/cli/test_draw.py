"""`csdf draw`, and the same picture in notebooks."""

import io
import sys
from xml.etree import ElementTree

import pytest

import csdf
from tests.cli.running import GRAPHS

EXAMPLE = GRAPHS / "csdf_example.xml"
SVG = "{http://www.w3.org/2000/svg}"


def critical(text):
    return [
        one.get("data-name")
        for one in ElementTree.fromstring(text).iter(f"{SVG}g")
        if one.get("class") == "node critical"
    ]


@pytest.mark.parametrize(
    ("name", "limiting"), [("csdf_example", ["a"]), ("deadlocked", ["a", "b"]), ("modem", ["filt"])]
)
def test_a_picture_shows_every_actor_and_marks_what_limits_them(run, tmp_path, name, limiting):
    path = tmp_path / "graph.svg"
    code, output, remarks = run("draw", GRAPHS / f"{name}.xml", "-o", path)
    assert (code, output, remarks) == (0, "", f"csdf draw: wrote {path}\n")
    text = path.read_text()
    assert critical(text) == limiting
    assert "var(" not in text
    for actor in csdf.read_graph(GRAPHS / f"{name}.xml").actors:
        assert f'data-name="{actor.name}"' in text


def test_a_picture_is_named_after_the_graph_and_may_be_a_page(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run("draw", EXAMPLE)[0] == 0
    assert (tmp_path / "csdf_example.svg").read_text().startswith("<svg")
    assert run("draw", EXAMPLE, "-o", "page.html")[0] == 0
    assert (tmp_path / "page.html").read_text().startswith("<!DOCTYPE html>")
    code, _, remarks = run("draw", EXAMPLE, "-o", "picture.bmp")
    assert (code, "expected the suffix .svg or .html" in remarks) == (2, True)


def test_a_notebook_shows_the_same_picture(run, tmp_path):
    run("draw", EXAMPLE, "-o", tmp_path / "graph.svg")
    picture = csdf.read_graph(EXAMPLE).draw()
    assert picture._repr_svg_() == (tmp_path / "graph.svg").read_text()


class Standard:
    def __init__(self, path):
        self.buffer = io.BytesIO(path.read_bytes())


@pytest.mark.parametrize("command", [("analyze",), ("buffers", "--json"), ("pareto",)])
def test_a_graph_comes_from_standard_input_too(run, monkeypatch, command):
    from_file = run(*command, EXAMPLE)
    monkeypatch.setattr(sys, "stdin", Standard(EXAMPLE))
    code, output, _ = run(*command, "-")
    assert (code, output.splitlines()[0]) == (0, from_file[1].splitlines()[0])


def test_a_schedule_is_drawn_with_a_row_for_each_actor(run, tmp_path):
    path = tmp_path / "schedule.svg"
    code, output, remarks = run("schedule", EXAMPLE, "--iterations", "2", "--plot", path)
    assert (code, f"wrote {path}" in remarks) == (0, True)
    assert output.startswith("csdf_example: self-timed schedule, period 12")
    labels = [f"<!-- {name} -->" for name in "abc"]
    assert all(label in path.read_text() for label in labels)

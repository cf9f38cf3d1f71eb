"""Pictures that cannot be drawn are refused before the work that they would show."""

import json

import pytest

from csdf.cli import loading
from csdf.errors import CsdfError
from csdf.io.latex import escaped
from tests.cli.running import GRAPHS


def test_without_the_drawing_library_the_message_says_how_to_get_it(monkeypatch):
    monkeypatch.setattr(loading, "find_spec", lambda name: None)
    with pytest.raises(CsdfError, match=r"pip install matplotlib"):
        loading.drawing("csdf.draw.charts")


PLOTS = [
    ("pareto", GRAPHS / "csdf_example.xml"),
    ("sensitivity", GRAPHS / "csdf_example.xml", "--parameter", "a"),
    ("map", GRAPHS / "csdf_example.xml", "--processors", 2),
    ("plan", "arena", "samos_example"),
    ("plan", "traffic", "samos_example", "--sweep", "1kB:2kB"),
    ("plan", "fusion", "samos_example", "--ram", "1MB"),
    ("plan", "reuse", "samos_example", "--generations", 1, "--population", 4),
    ("cnn", "memory", "samos_example"),
    ("fit", "samos_example"),
    ("fifo", "finn", GRAPHS.parent / "fifo" / "residual.onnx"),
]


@pytest.mark.parametrize("words", PLOTS, ids=lambda words: "-".join(map(str, words[:2])))
def test_without_the_drawing_library_the_answer_is_printed_first(run, monkeypatch, tmp_path, words):
    monkeypatch.setattr(loading, "find_spec", lambda name: None)
    path = tmp_path / "picture.svg"
    code, output, remarks = run(*words, "--json", "--plot", path)
    assert code == 2
    assert "error" not in json.loads(output)
    assert remarks.endswith("--plot needs matplotlib: pip install matplotlib\n")
    assert not path.exists()


def test_the_module_that_draws_is_loaded_on_demand():
    assert loading.drawing("csdf.draw.charts").front_picture


@pytest.mark.parametrize(("path", "suffix"), [("a.b/c.SVG", "svg"), ("plain", "")])
def test_a_suffix_is_what_follows_the_last_dot_of_the_name(path, suffix):
    assert loading.suffix_of(path) == suffix


@pytest.mark.parametrize(("column", "points"), [("ieee", 252), ("acm-wide", 504)])
def test_a_picture_is_as_wide_as_a_column_of_a_paper(run, tmp_path, column, points):
    path = tmp_path / "front.svg"
    words = ("pareto", GRAPHS / "csdf_example.xml", "--plot", path, "--column", column)
    assert run(*words)[0] == 0
    assert f'width="{points}pt"' in path.read_text()  # 3.5 and 7 inches of 72 points each
    assert run("pareto", GRAPHS / "csdf_example.xml", "--plot", path)[0] == 0
    assert f'width="{points}pt"' not in path.read_text()


def test_no_cell_is_an_option_of_the_line_break_before_it():
    assert escaped('[fir] *"x"') == "{[}fir] {*}''x''"


def test_a_front_is_a_table_of_latex(run, tmp_path):
    path = tmp_path / "front.tex"
    assert run("pareto", GRAPHS / "csdf_example.xml", "--table", path)[0] == 0
    rows = path.read_text().splitlines()
    assert r"size (tokens) & period & alpha & beta \\" in rows
    assert r"11 & $17$ & 5 & 6 \\" in rows

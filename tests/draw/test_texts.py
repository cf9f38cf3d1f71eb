"""Texts in pictures are names out of files, and nothing else."""

import re
import warnings
from itertools import pairwise
from xml.etree import ElementTree

import pytest

pytest.importorskip("matplotlib")

from matplotlib import rc_context
from matplotlib.figure import Figure

from planners.arena.command.picture import DrawnBuffer, arena_picture, draw_arena, draw_boxes
from planners.traffic.command.picture import TrafficBar, bars_picture


def drawn(title, suffix="svg"):
    boxes = [DrawnBuffer(title, 0, 9, 0, 9)]
    return arena_picture(title, boxes, bound=9, capacity=None, suffix=suffix)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["$", "a$b$", r"$\frac$", "$x^$", "100 $ and 5 $"])
@pytest.mark.parametrize("suffix", ["svg", "png", "pdf"])
def test_a_dollar_begins_no_formula(name, suffix):
    assert drawn(name, suffix)
    if suffix == "svg":
        assert f"<!-- {name} -->" in drawn(name)


def test_names_at_an_axis_are_no_formulas_either():
    picture = bars_picture("t", [TrafficBar("$a_$\x1b", 1, 1, 1, 0, 3)], "svg")
    assert r"<!-- $a_$\x1b -->" in picture
    ElementTree.fromstring(picture)


@pytest.mark.parametrize(
    "name", ["\x00", "\x1b[2J", "\x9b", "\u202e", "\ufffe", "]]>", "--", "<&>"]
)
def test_any_name_gives_a_well_formed_picture(name):
    ElementTree.fromstring(drawn(f"a{name}b"))
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]", drawn(f"a{name}b"))


def test_a_picture_is_legible_on_a_phone_and_has_dark_colours():
    picture = arena_picture(
        "many words " * 9, [DrawnBuffer("a", 0, 9, 0, 9)], bound=9, capacity=9, suffix="svg"
    )
    width = float(re.search(r'width="([0-9.]+)pt"', picture)[1])
    assert 8 * 400 / width > 8  # letters of 8 points where the picture has 400 pixels
    assert "@media (prefers-color-scheme: dark) {svg.csdf {" in picture  # no other svg of a page
    assert '<svg class="csdf" ' in picture
    titles = re.findall("<!-- .*words many.* -->", picture)
    assert len(titles) > 1  # a long title has several lines


def test_letters_that_the_font_lacks_are_drawn_without_a_word():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert drawn("名前", "png")


def test_no_setting_hands_names_to_latex(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))  # it would not be found
    with rc_context({"text.usetex": True}):
        assert drawn("a_b$\\input{x}", "png")


@pytest.mark.parametrize("suffix", ["pgf", "tex"])
def test_a_picture_for_latex_needs_none_here_and_its_names_are_no_commands(
    suffix, monkeypatch, tmp_path
):
    monkeypatch.setenv("PATH", str(tmp_path))  # LaTeX would not be found
    picture = bars_picture("t", [TrafficBar(r"\input{x}_$^~", 1, 1, 1, 0, 3)], suffix)
    name = r"\textbackslash{}input\{x\}\_\$\textasciicircum{}\textasciitilde{}"
    assert f"{name}}}" in picture
    assert r"\input{x}" not in picture
    assert picture.count(r"\begin{pgfpicture}") == picture.count(r"\end{pgfpicture}") == 1


def test_the_line_of_live_bytes_does_not_cross_the_name_of_a_buffer():
    axes = Figure().add_subplot()
    boxes = [DrawnBuffer("a", 0, 4, 0, 8), DrawnBuffer("b", 1, 3, 8, 8)]
    draw_arena(axes, boxes)
    assert [text.get_text() for text in axes.texts] == ["a", "b"]
    for text in axes.texts:
        assert text.get_zorder() > max(line.get_zorder() for line in axes.lines)
        assert text.get_bbox_patch().get_facecolor()[3] == 1  # opaque


def test_neighbours_have_different_colours():
    # A buffer below all others, and the ninth of eight colours: both would have the first colour.
    row = [DrawnBuffer(str(time), time, time + 1, 9, 1) for time in range(9)]
    axes = Figure().add_subplot()
    draw_boxes(axes, [DrawnBuffer("below", 0, 9, 0, 9), *row], 9, 10)
    first, *others = map(tuple, axes.collections[0].get_facecolor())
    assert first not in others
    assert all(color != after for color, after in pairwise(others))

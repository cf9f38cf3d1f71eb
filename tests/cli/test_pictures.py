"""Pictures that cannot be drawn are refused before the work that they would show."""

import pytest

from csdf.cli import pictures
from csdf.errors import CsdfError, UnwritableFile


def test_no_picture_needs_nothing(monkeypatch):
    monkeypatch.setattr(pictures, "find_spec", lambda name: None)
    pictures.require_drawing(None)


def test_without_the_drawing_library_the_message_says_how_to_get_it(monkeypatch):
    monkeypatch.setattr(pictures, "find_spec", lambda name: None)
    with pytest.raises(CsdfError, match=r"pip install matplotlib"):
        pictures.require_drawing("front.svg")


@pytest.mark.parametrize("path", ["front.gif", "front"])
def test_an_unknown_format_is_refused_with_those_known(path):
    with pytest.raises(UnwritableFile, match=f"{path}: cannot draw .*png, svg, pdf, html"):
        pictures.require_drawing(path)


def test_the_module_that_draws_is_loaded_on_demand():
    assert pictures.drawing("csdf.draw.front").front_picture


@pytest.mark.parametrize(("path", "suffix"), [("a.b/c.SVG", "svg"), ("plain", "")])
def test_a_suffix_is_what_follows_the_last_dot_of_the_name(path, suffix):
    assert pictures.suffix_of(path) == suffix

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from csdf.draw.report.markup import Html, element, joined, json_element, quoted_data
from tests.draw.report.html_reader import ReadPage

HARMFUL = "<script>alert(1)</script>&\"'"


def test_text_is_escaped_and_html_is_not():
    inner = element("b", "a < b")
    assert inner == "<b>a &lt; b</b>"
    assert element("p", inner, " & c") == "<p><b>a &lt; b</b> &amp; c</p>"


def test_attributes_are_escaped_named_and_left_out():
    made = element("a", class_="x", data_name='"<', hidden=True, title=None)
    assert made == '<a class="x" data-name="&quot;&lt;" hidden></a>'


def test_an_empty_element_is_not_closed():
    assert element("meta", charset="utf-8") == '<meta charset="utf-8">'


def test_joined_parts_stay_html():
    assert joined([Html("<b>"), "<i>", 3]) == "<b>&lt;i&gt;3"


@pytest.mark.slow
@given(text=st.text())
def test_any_text_is_escaped_within_its_element(text):
    page = ReadPage(element("div", text, id="x"))
    assert [tag for tag, _ in page.tags] == ["div"]
    assert page.problems == []


@pytest.mark.slow
@given(value=st.recursive(st.text() | st.integers() | st.none(), lambda one: st.lists(one)))
def test_data_for_scripts_comes_back_and_cannot_end_its_element(value):
    made = json_element("data", [value, HARMFUL])
    inner = made.removeprefix('<script type="application/json" id="data">').removesuffix(
        "</script>"
    )
    assert not set(inner) & set("<>&")
    assert json.loads(inner) == [value, HARMFUL]


def test_characters_that_act_or_that_html_forbids_are_shown():
    assert element("b", "a\x00b\x0bc\ud800\u202e") == r"<b>a\x00b\x0bc\ud800\u202e</b>"
    assert element("b", "a\ufdd0") == "<b>a\ufffd</b>"


def test_texts_for_scripts_are_quoted_like_those_of_elements():
    data = {"name": "a\u202e", "rows": [("b\x1b", 3), None]}
    assert quoted_data(data) == {"name": r"a\u202e", "rows": [[r"b\x1b", 3], None]}

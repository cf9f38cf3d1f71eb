"""Texts that become numbers: exact, or refused before they fill the memory."""

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import csdf
from csdf.errors import InvalidGraph
from csdf.model.exact import MalformedText, exact, natural, rational, signed_rational, whole

HOSTILE = {
    "1e999999999": "has more than 3 digits in its exponent",
    "1e-999999999": "has more than 3 digits in its exponent",
    "1.5E+99999": "has more than 3 digits in its exponent",
    "9" * 1001: "has more than 1000 characters",
    "1/" + "9" * 2000: "has more than 1000 characters",
    "1/0": "is not",
    "1/000": "is not",
    "": "is not",
    ".": "is not",
    "e5": "is not",
    "nan": "is not",
    "inf": "is not",
    "1_000": "is not",
    "\u0661": "is not",  # a digit of another script
    "\u00b2": "is not",  # which str.isdigit takes for one
    "0x10": "is not",
    "3/1.5": "is not",
}


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("parse", [rational, signed_rational])
def test_a_text_that_is_no_number_to_compute_with_is_refused(parse, text):
    with pytest.raises(MalformedText, match=HOSTILE[text]) as caught:
        parse(text)
    assert len(str(caught.value)) < 100


@pytest.mark.parametrize("text", [*HOSTILE, "1.5", "1e3", "3/2"])
@pytest.mark.parametrize("parse", [natural, whole])
def test_a_text_that_is_no_whole_number_is_refused(parse, text):
    with pytest.raises(MalformedText):
        parse(text)


@given(st.text(alphabet="0123456789./eE+- ", max_size=8))
def test_what_is_accepted_is_what_python_reads(text):
    try:
        found = signed_rational(text)
    except MalformedText:
        return
    assert found == Fraction(text)


@given(st.fractions())
def test_every_fraction_reads_back(value):
    assert signed_rational(str(value)) == value
    if value >= 0:
        assert rational(str(value)) == value


@pytest.mark.parametrize(
    ("text", "number"),
    [(" 7 ", 7), ("1.5", "3/2"), (".5", "1/2"), ("2.", 2), ("6/4", "3/2"), ("3e-2", "3/100")],
)
def test_the_forms_that_are_documented_are_read(text, number):
    assert rational(text) == Fraction(number)


@pytest.mark.parametrize("parse", [natural, rational])
def test_a_negative_number_is_called_that(parse):
    with pytest.raises(MalformedText, match="'-3' is negative"):
        parse("-3")
    assert whole("-3") == signed_rational("-3") == -3


@pytest.mark.parametrize("value", ["1e999999999", Decimal("1e999999999"), "x", None, 1.5, True])
def test_python_refuses_such_a_time_by_the_name_of_its_actor(value):
    with pytest.raises(InvalidGraph, match="actor 'a': duration"):
        exact(value, "actor 'a': duration", InvalidGraph)


def test_a_decimal_is_exact():
    assert exact(Decimal("0.1"), "time") == Fraction(1, 10)


def test_integers_of_numpy_do_not_overflow_and_decimals_are_taken():
    builder = csdf.GraphBuilder("loop").actor("a", np.int64(2**62), overlap=False)
    graph = builder.channel("a", 1, "a", 1, initial_tokens=1).graph()
    assert csdf.throughput(graph, budget=np.int64(60)).period == 2**62
    assert exact(np.int64(2**62), "time") * 4 == 2**64
    for period in (np.int64(2**62), Decimal(2**62)):
        assert csdf.smallest_storage(graph, period=period).point.period == 2**62

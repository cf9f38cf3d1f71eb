"""Numbers that the C computes with, against what they stand for, without a compiler."""

from fractions import Fraction
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cnn2csdf.dtypes import Arithmetic, Element, Quantization
from cnn2csdf.integers import multiplier
from csdf.errors import UnsupportedOperator
from planners.code.calls.rescaling import averaging
from planners.code.rules import rule_of


def spans_of(rule, places, limit):
    """The first place and the one behind the last that a rule gives for each place."""
    if rule.pairs:
        return [(first, last + 1) for first, last in rule.pairs]
    found = []
    for place in range(places):
        ends = [(rule.slope * place + end) // rule.divisor for end in (rule.first, rule.last)]
        if rule.is_clamped:
            ends = [min(max(end, 0), limit - 1) for end in ends]
        found.append((ends[0], ends[1] + 1))
    return found


sizes = st.integers(1, 12)


@given(sizes, st.integers(1, 4), st.integers(1, 3), st.integers(1, 2), st.integers(0, 3))
def test_the_rule_of_a_window_is_in_numbers(places, kernel, stride, dilation, padding):
    reach = (kernel - 1) * dilation
    spans = [(row * stride - padding, row * stride - padding + reach + 1) for row in range(places)]
    limit = spans[-1][1] + padding
    rule = rule_of(spans, limit)
    assert not rule.pairs
    assert spans_of(rule, places, limit) == spans


@given(sizes, sizes, st.sampled_from(["floor", "half pixel", "align corners"]))
def test_the_rule_of_a_resized_map_is_that_of_its_places(places, limit, kind):
    def nearest(row):
        if kind == "floor":
            return row * limit // places
        if kind == "half pixel":  # floor((row + 1/2) * limit / places)
            return (2 * row + 1) * limit // (2 * places)
        return (row * (limit - 1) + (places - 1) // 2) // max(1, places - 1)

    spans = [(nearest(row), nearest(row) + 1) for row in range(places)]
    rule = rule_of(spans, limit)
    assert not rule.pairs
    assert spans_of(rule, places, limit) == spans


@given(st.lists(st.integers(0, 6), min_size=1, max_size=8), st.integers(1, 3))
def test_a_rule_of_any_places_gives_just_them(firsts, length):
    limit = 9
    spans = [(first, min(first + length, limit)) for first in firsts]
    assert spans_of(rule_of(spans, limit), len(spans), limit) == spans


@given(st.integers(-9, 9), st.integers(3, 9), sizes)
def test_a_rule_beyond_the_ends_stands_for_the_nearest_place(shift, limit, places):
    spans = [(min(max(row + shift, 0), limit - 1),) * 2 for row in range(places)]
    spans = [(first, last + 1) for first, last in spans]
    rule = rule_of(spans, limit)
    assert not rule.pairs
    assert spans_of(rule, places, limit) == spans


def averaging_node(given_scale, scale, arithmetic=Arithmetic.FIXED_POINT, element=Element.INT8):
    """A layer that reads integers of one scale and has a result of another."""
    types = [
        Quantization(element=element, scales=(one,), zero_point=zero, arithmetic=arithmetic)
        for one, zero in ((given_scale, 3), (scale, -4))
    ]

    def refusal(why):
        return UnsupportedOperator(why)

    return SimpleNamespace(
        input_types=(types[0],), layer=SimpleNamespace(quantization=types[1]), element=element,
        refusal=refusal,
    )  # fmt: skip


def averaged(count, given_scale, scale):
    """The numbers for the mean of so many integers of one scale in steps of another."""
    return list(averaging(averaging_node(given_scale, scale), count).values())


@given(st.integers(1, 5000), st.floats(2**-30, 4.0), st.floats(0.01, 0.1))
def test_a_mean_has_the_multiplier_of_its_scales_divided_by_the_number(count, given_scale, scale):
    # TensorFlow Lite's reduce.cc: multiplier << shift, divided by the number and cut off, with
    # shift = 63 - leading zeros of the number, at most 32 and at most 31 + the exponent.
    numbers, factor, exponent, *zeros = averaged(count, given_scale, scale)
    integer, power = multiplier(given_scale / scale)
    exact = Fraction(integer * 2**40) * Fraction(2) ** (power - 40) / count
    step = Fraction(2) ** exponent
    assert (numbers, zeros) == (count, [3, -4])
    assert factor * step <= exact < (factor + 1) * step
    shift = power - exponent
    assert 2**shift <= count or shift == 0
    assert shift == 31 + power or 2 ** (shift + 1) > count
    assert exponent >= -31


def test_sums_beyond_32_bits_are_refused_by_their_number():
    assert averaged(2**23, 0.5, 0.5)[0] == 2**23  # times 2**8 is 2**31
    with pytest.raises(UnsupportedOperator, match=str(2**23 + 1)):
        averaged(2**23 + 1, 0.5, 0.5)


def test_single_precision_has_means_only():
    node = averaging_node(0.5, 0.25, Arithmetic.SINGLE_PRECISION)
    assert averaging(node, 4) == {
        "count": 4, "given": 0.5, "result": 0.25, "zero_in": 3, "zero_out": -4,
    }  # fmt: skip
    with pytest.raises(UnsupportedOperator, match="sums in single precision"):
        averaging(node, 4, is_sum=True)

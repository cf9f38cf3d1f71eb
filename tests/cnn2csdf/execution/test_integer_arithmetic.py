"""Integers of quantised layers, beside exact fractions and real numbers."""

from dataclasses import replace
from fractions import Fraction
from math import exp, floor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cnn2csdf import operators as op
from cnn2csdf.builder import NetworkBuilder
from cnn2csdf.dtypes import Arithmetic, Element, Quantization, Stored
from cnn2csdf.execution.layer_by_layer import run_layer_by_layer
from cnn2csdf.fixed_point.functions import exponential, reciprocal_of_one_plus, softmax_int8
from cnn2csdf.integers import (
    dequantized,
    divided_by_power,
    high_product,
    multiplier,
    multiplier_single_rounding,
    quantized,
    rescaled,
    rescaled_single_rounding,
    rescaled_sums,
    rescaled_wide,
    rescaled_with_further,
)
from cnn2csdf.network import Network
from cnn2csdf.weights import Model
from csdf.errors import UnsupportedOperator

words = st.integers(-(2**31) + 1, 2**31 - 1)


def rounded(number):
    """The nearest whole number; halves away from zero."""
    return floor(abs(number) + Fraction(1, 2)) * (1 if number >= 0 else -1)


def test_sums_in_single_precision_round_halves_to_even_whatever_the_weights():
    result = Quantization(
        element=Element.INT8, scales=(1.0,), arithmetic=Arithmetic.SINGLE_PRECISION
    )
    found = rescaled_sums(np.array([1, 3, -1]), [0.5], result, rounds_once=True)
    assert found.tolist() == [0, 2, 0]


@settings(deadline=None)
@given(words, words)
def test_a_high_product_is_the_rounded_half_of_the_bits(left, right):
    assert high_product(left, right) == rounded(Fraction(left * right, 2**31))


@settings(deadline=None)
@given(words, st.integers(0, 31))
def test_a_division_by_a_power_rounds_halves_away_from_zero(value, exponent):
    assert divided_by_power(value, exponent) == rounded(Fraction(value, 2**exponent))


@settings(deadline=None)
@given(st.floats(1e-9, 1e4))
def test_a_multiplier_is_within_a_step_of_its_number(number):
    integer, exponent = multiplier(number)
    assert 2**30 <= integer < 2**31
    found = Fraction(integer) * Fraction(2) ** (exponent - 31)
    assert abs(found - Fraction(number)) <= Fraction(2) ** (exponent - 32)


@settings(deadline=None)
@given(
    st.floats(2.0**-34, 8) | st.integers(-34, 3).map(lambda power: 2.0**power),
    st.integers(-128, 127),
    st.lists(st.integers(-257, 257), min_size=1),
    words,
)
def test_a_multiplier_rounded_once_gives_the_products_in_double_precision(
    ratio, zero_point, levels, word
):
    limits = -128 - zero_point, 127 - zero_point
    multiplied = multiplier_single_rounding(ratio, *limits)
    # Sums next to halves, where one step of a multiplier is seen, and any sum.
    near = [int((level + 0.5) / ratio) + step for level in levels for step in (-1, 0, 1)]
    sums = np.clip([*near, word], -(2**31), 2**31 - 1)
    integer, exponent, further = multiplied
    found = np.clip(rescaled_with_further(sums, integer, exponent, further), *limits)
    assert np.array_equal(found, np.clip(rescaled_single_rounding(sums, ratio), *limits))
    products = [Fraction(float(total) * ratio) for total in sums]
    exact = [min(max(rounded(product), limits[0]), limits[1]) for product in products]
    assert found.tolist() == exact


@pytest.mark.parametrize("ratio", [2.0**-16, 1e-4, 0.3, 3.0, 2.0**20])
def test_a_multiplier_for_results_of_16_bits_gives_the_products_of_clipped_sums(ratio):
    limits = -(2**15), 2**15 - 1
    integer, exponent, further = multiplier_single_rounding(ratio, *limits)
    end = 2 ** max(16 - exponent, 0)
    sums = np.random.default_rng(0).integers(-(2**47), 2**47, 10**4)
    sums = np.concatenate([sums, sums % (4 * end) - 2 * end])
    clipped = rescaled_with_further(np.clip(sums, -end, end), integer, exponent, further)
    expected = np.clip(rescaled_single_rounding(sums, ratio), *limits)
    assert np.array_equal(np.clip(clipped, *limits), expected)
    assert len(set(expected.tolist())) > 1


def test_a_ratio_too_small_for_clipped_sums_of_32_bits_is_refused_with_this_reason():
    least, most = -(2**15), 2**15 - 1
    assert multiplier_single_rounding(2.0**-16, least, most)
    with pytest.raises(UnsupportedOperator, match="16-bit results take sums of over 32 bits"):
        multiplier_single_rounding(2.0**-16 * (1 - 2**-20), least, most)


@pytest.mark.filterwarnings("error")
def test_infinities_are_stored_as_the_limits():
    types = Quantization(element=Element.INT8, scales=(0.5,))
    assert quantized(np.array([np.inf, -np.inf, 0.75]), types).tolist() == [127, -128, 2]


def test_sums_of_64_bits_wrap_and_have_ratios_below_2_to_the_14():
    sums = np.array([-(2**40), -3, 2**40, 2**40 + 2**33])
    assert rescaled_wide(sums, *multiplier(0.25)).tolist() == [0, -1, 0, -(2**31)]
    assert rescaled_wide([-1, 1], *multiplier(2.0**13)).tolist() == [-(2**13), 2**13]
    with pytest.raises(UnsupportedOperator, match="a ratio of scales of 2 \\*\\* 14 or more"):
        rescaled_wide([-1, 1], *multiplier(2.0**14))


def test_the_number_below_one_is_rounded_up_into_the_next_exponent():
    assert multiplier(1 - 2**-40) == (2**30, 1)
    assert multiplier(0.0) == (0, 0)
    assert multiplier(2.0**-40) == (0, 0)


@settings(deadline=None)
@given(st.integers(-(2**20), 2**20), st.floats(1e-4, 8))
def test_rescaling_is_within_one_of_the_real_product(value, factor):
    assert abs(int(rescaled(value, *multiplier(factor))) - value * factor) <= 1


@settings(deadline=None)
@given(st.integers(-(2**31), 0))
def test_an_exponential_is_near_the_real_one(value):
    # A polynomial of the fourth degree: good for 8 bits, not for all 31.
    assert abs(int(exponential(np.array(value))) / 2**31 - exp(value / 2**26)) < 1e-6


@settings(deadline=None)
@given(st.integers(0, 2**31 - 1))
def test_a_reciprocal_is_near_the_real_one(value):
    found = int(reciprocal_of_one_plus(np.array(value))) / 2**31
    assert abs(found - 1 / (1 + value / 2**31)) < 1e-8


@settings(deadline=None)
@given(st.lists(st.integers(-128, 127), min_size=1, max_size=20), st.floats(0.01, 1))
def test_a_softmax_of_integers_is_within_a_step_of_the_real_one(values, scale):
    scale = float(np.float32(scale))
    found = softmax_int8(np.array(values, np.int64), scale, 0)
    powers = np.exp((np.array(values) - max(values)) * scale)
    wanted = powers / powers.sum() * 256 - 128
    assert np.max(np.abs(found - np.minimum(wanted, 127))) <= 1


@settings(deadline=None)
@given(st.integers(-128, 127), st.floats(1e-3, 10), st.integers(-128, 127))
def test_an_integer_made_real_and_stored_again_is_the_same(value, scale, zero):
    types = Quantization(element=Element.INT8, scales=(float(np.float32(scale)),), zero_point=zero)
    assert quantized(dequantized(np.array([value], np.int8), types), types) == [value]


def test_a_fully_connected_layer_multiplies_its_scales_in_double_precision():
    # As TensorFlow Lite Micro, kernels/kernel_util.cc, PopulateConvolutionQuantizationParams. The sum
    # times 64, which is rounded first, lies just below a half: 2464 - 1/2 - 0.000045. So it is 2463,
    # and 38 in the output. A product of scales in single precision lies above: 2464, and 39.
    given, weight, result = 0.03218943998217583, 0.03859628736972809, 0.08750157803297043
    exact = Fraction(given) * Fraction(weight) / Fraction(result)
    single = Fraction(float(np.float32(given) * np.float32(weight))) / Fraction(result)
    assert 2711 * exact * 64 < 2464 - Fraction(1, 2) < 2711 * single * 64
    builder = NetworkBuilder("sum")
    builder.output(builder.add(op.FullyConnected(units=1), builder.input((1,)), name="sum"))
    scales = {"given": given, "matrix": weight, "result": result}
    types = {
        name: Quantization(element=Element.INT8, scales=(scale,)) for name, scale in scales.items()
    }
    stored = (
        Stored(role="matrix", element=Element.INT8, quantization=types["matrix"]),
        Stored(role="bias", element=Element.INT32),
    )
    first, layer, last = builder.network().layers
    network = Network(
        name="sum",
        layers=(
            replace(first, element=Element.INT8, quantization=types["given"]),
            replace(layer, element=Element.INT8, quantization=types["result"], stored=stored),
            replace(last, element=Element.INT8, quantization=types["result"]),
        ),
    )
    weights = {"sum": {"matrix": np.zeros((1, 1), np.int8), "bias": np.array([2711], np.int32)}}
    frame = {first.name: np.zeros(1, np.int8)}
    outputs = run_layer_by_layer(Model(network=network, weights=weights), frame)
    assert [int(one) for one in outputs[last.name]] == [38]
    layer = network.layer("sum")
    (in_c,) = layer.operator.sum_ratios(layer.types([types["given"]]), layer.shape)
    assert multiplier(in_c) == multiplier(float(exact))

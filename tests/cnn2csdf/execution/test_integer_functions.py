"""Functions of stored integers against the real functions that they stand for.

Whichever way they are computed, the result is the real one, rounded, or a neighbour of it: what is
rounded on the way has more bits than the result.
"""

import numpy as np
import pytest

from cnn2csdf.dtypes import Element, Quantization
from cnn2csdf.fixed_point.functions import FUNCTIONS, prelu

REAL = {
    "abs": np.abs,
    "elu": lambda x: np.where(x < 0, 0.7 * np.expm1(x), x),
    "hard swish": lambda x: x * np.clip(x + 3, 0, 6) / 6,
    "leaky relu": lambda x: np.where(x < 0, 0.125 * x, x),
    "relu": lambda x: np.maximum(x, 0),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "tanh": np.tanh,
}
PARAMETERS = {"elu": (0.7,), "leaky relu": (0.125,)}
OWN = {"sigmoid": (1 / 256, -128), "tanh": (1 / 128, 0)}  # scales and zero points of their results
SCALES = (0.0019, 0.0067, 0.024, 0.031, 0.09, 0.4)
BYTES = np.arange(-128, 128, dtype=np.int8)


def types(scale, zero_point=0, element=Element.INT8):
    return Quantization(element=element, scales=(float(np.float32(scale)),), zero_point=zero_point)


def rounded(real, result):
    limits = np.iinfo(result.element.value)
    return np.clip(np.rint(real / result.scale) + result.zero_point, limits.min, limits.max)


def off(found, real, result):
    """How far integers are from the real numbers, rounded, at most."""
    return int(np.abs(found.astype(np.int64) - rounded(real, result)).max())


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("name", REAL)
def test_a_function_of_bytes_is_the_real_one_to_a_step(name, scale):
    for zero_point in (-128, -5, 0, 77):
        given = types(scale, zero_point)
        result = types(*OWN.get(name, (scale * 1.3, 4)))
        real = REAL[name]((BYTES.astype(np.float64) - zero_point) * given.scale)
        found = FUNCTIONS[name](BYTES, given, result, *PARAMETERS.get(name, ()))
        assert off(found, real, result) <= 1


@pytest.mark.parametrize("scale", [2**-15, 2**-13, 2**-12, 0.0003, 0.0011])
@pytest.mark.parametrize(("name", "steps"), [("sigmoid", 1), ("tanh", 2)])
def test_a_curve_of_16_bits_is_the_real_one_to_some_steps(name, steps, scale):
    # Between places of a table 1 / 24 apart it is a straight line, off by 1 / 24**2 / 8 times the
    # second derivative, at most 0.097: 2.1e-5, less than a step of 2**-15; tanh is twice a sigmoid.
    given, result = types(scale, element=Element.INT16), types(2**-15, element=Element.INT16)
    values = np.arange(-(2**15), 2**15, 7).astype(np.int16)
    real = REAL[name](values.astype(np.float64) * given.scale)
    assert off(FUNCTIONS[name](values, given, result), real, result) <= steps


def test_a_slope_for_each_channel_is_the_real_one_to_a_step():
    given, trained, result = types(0.03, -7), types(0.02, 3), types(0.05, 9)
    slopes = np.array([-128, -3, 0, 3, 50, 127], np.int8)[:, None]
    real = (BYTES.astype(np.float64) + 7) * given.scale
    real = np.where(real < 0, real * (slopes.astype(np.float64) - 3) * trained.scale, real)
    found = prelu(BYTES[None, :], slopes, given, trained, result)
    assert off(found, real, result) <= 1


def test_limits_are_kept_in_the_scale_of_the_input():
    given = types(0.05, -20)
    found = FUNCTIONS["clip"](BYTES, given, given, -0.5, 2.0)
    assert (found.min(), found.max()) == (-30, 20)  # -0.5 / 0.05 - 20, and 2 / 0.05 - 20
    assert np.array_equal(np.clip(BYTES, -30, 20), found)
    assert FUNCTIONS["clip"](BYTES, given, given, -np.inf, np.inf) is BYTES

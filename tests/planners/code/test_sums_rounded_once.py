"""Sums of fully connected layers rounded once, as LiteRT does: C against the whole network."""

from dataclasses import replace

import numpy as np
import pytest

from cnn2csdf import operators as op
from cnn2csdf.builder import NetworkBuilder
from cnn2csdf.dtypes import Arithmetic, Element, Quantization, Runtime, Stored
from cnn2csdf.fixed_point.flash import flash_bytes
from cnn2csdf.parameters import parameter_bytes
from cnn2csdf.readers.tflite.reader import parse_tflite
from cnn2csdf.weights import Model
from csdf.errors import UnsupportedOperator
from planners.code.library import library
from planners.memory.fit import fit
from tests.cnn2csdf.readers.test_tflite_operators import ROUNDED_ONCE, frames_of, ours
from tests.cnn2csdf.readers.tflite_cases import case
from tests.planners.code.compiling import FLAGS, needs_compiler, run_all

UNITS, COLUMNS = 256, 8
SHORT = float(np.float32(1.7e-4))
HALVES, LONG = 2.0**-10, float(np.float32(1.7e-7))  # scales of weights; the second has 24 bits


def with_scale(scale, element=Element.INT8):
    """A fully connected layer whose sums are its biases, at and next to halves of results."""
    random = np.random.default_rng(0)
    builder = NetworkBuilder("net")
    is_short = element is Element.INT16
    types = Quantization(element=element, scales=(1.0,), zero_point=0 if is_short else -3)
    given = types if scale == HALVES else replace(types, scales=(float(np.float32(1.9)),))
    source = builder.input((COLUMNS,), element=element, quantization=given)
    once = Quantization(element=Element.INT8, scales=(scale,), arithmetic=Arithmetic.ROUNDED_ONCE)
    stored = (
        Stored(role="matrix", element=Element.INT8, quantization=once),
        Stored(role="bias", element=Element.INT64 if is_short else Element.INT32),
    )
    product = op.FullyConnected(units=UNITS, has_bias=True)
    layer = builder.add(product, source, element=element, quantization=types, stored=stored)
    builder.output(layer)
    # Biases at halves and next to them, where the sums of products do not hide them.
    most = 33000 if is_short else 130
    halves = (random.integers(-most, most, UNITS) + 0.5) / (given.scale * scale)
    number = np.int64 if is_short else np.int32
    bias = np.floor(halves).astype(number) + random.integers(-1, 2, UNITS, number)
    matrix = np.zeros((UNITS, COLUMNS), np.int8)
    weights = {layer: {"matrix": matrix, "bias": bias}}
    return Model(network=builder.network(), weights=weights)


def made(model, number=0, frames=None):
    plan = fit(model.network, budget=1).least.plan
    return library(model, plan, name=f"net{number}", frames=frames)


@needs_compiler
@pytest.mark.parametrize("scale", [HALVES, LONG], ids=["halves", "more bits"])
def test_products_in_double_precision_and_c_give_the_same_bytes(scale, tmp_path):
    assert run_all([made(with_scale(scale))], tmp_path, FLAGS) == []


@needs_compiler
@pytest.mark.parametrize("scale", [HALVES, SHORT, 1.9, 2.0**20], ids=str)
def test_products_of_int16_and_c_give_the_same_numbers(scale, tmp_path):
    assert run_all([made(with_scale(scale, Element.INT16))], tmp_path, FLAGS) == []


def test_a_ratio_that_no_multiplier_of_62_bits_has_is_refused():
    with pytest.raises(UnsupportedOperator, match="--runtime tflite-micro"):
        made(with_scale(LONG, Element.INT16))


def test_flash_counts_further_bits_of_multipliers_where_there_are_some():
    networks = [with_scale(scale).network for scale in (HALVES, LONG)]
    plain, long = (flash_bytes(network) - parameter_bytes(network) for network in networks)
    assert (plain, long) == (5 * UNITS, 9 * UNITS)


@needs_compiler
@pytest.mark.slow
def test_files_rounded_as_litert_does_give_the_same_bytes_in_c(tmp_path):
    libraries = []
    for number, (kind, dtype, seed, _) in enumerate(ROUNDED_ONCE):
        if dtype == "int16" and kind != "FULLY_CONNECTED":
            continue  # products of several vectors of int16 have no C
        content = case(kind, dtype, seed)
        model = parse_tflite(content, "one.tflite", with_weights=True, runtime=Runtime.LITERT)
        frames = [ours(model.network, frames_of(model.network, seed))]
        libraries.append(made(model, number, frames))
    assert run_all(libraries, tmp_path) == []

"""Sums of fully connected layers rounded once, as LiteRT does: C against the whole network."""

from dataclasses import replace

import numpy as np
import pytest

from cnn2csdf import operators as op
from cnn2csdf.builder import NetworkBuilder
from cnn2csdf.dtypes import Arithmetic, Element, Quantization, Runtime, Stored
from cnn2csdf.fixed_point.flash import rescaling_bytes
from cnn2csdf.readers.tflite.reader import parse_tflite
from cnn2csdf.weights import Model
from planners.code.library import library
from planners.memory.fit import fit
from tests.cnn2csdf.readers.test_tflite_operators import IN_LITERT, frames_of, ours
from tests.cnn2csdf.readers.tflite_cases import case
from tests.planners.code.compiling import FLAGS, needs_compiler, run_all

UNITS, COLUMNS = 256, 8
HALVES, LONG = 2.0**-10, float(np.float32(1.7e-7))  # scales of weights; the second has 24 bits


def with_scale(scale):
    """A fully connected layer whose sums are its biases, at and next to halves of results."""
    random = np.random.default_rng(0)
    builder = NetworkBuilder("net")
    types = Quantization(element=Element.INT8, scales=(1.0,), zero_point=-3)
    given = types if scale == HALVES else replace(types, scales=(float(np.float32(1.9)),))
    source = builder.input((COLUMNS,), element=Element.INT8, quantization=given)
    once = Quantization(element=Element.INT8, scales=(scale,), arithmetic=Arithmetic.ROUNDED_ONCE)
    stored = (
        Stored(role="matrix", element=Element.INT8, quantization=once),
        Stored(role="bias", element=Element.INT32),
    )
    product = op.FullyConnected(units=UNITS, has_bias=True)
    layer = builder.add(product, source, element=Element.INT8, quantization=types, stored=stored)
    builder.output(layer)
    # Biases at halves and next to them, where the sums of products do not hide them.
    halves = (random.integers(-130, 130, UNITS) + 0.5) / (given.scale * scale)
    bias = np.floor(halves).astype(np.int32) + random.integers(-1, 2, UNITS, np.int32)
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


def test_flash_counts_further_bits_of_multipliers_where_there_are_some():
    plain, long = (rescaling_bytes(with_scale(scale).network) for scale in (HALVES, LONG))
    assert (plain, long) == (5 * UNITS, 9 * UNITS)


@needs_compiler
@pytest.mark.slow
def test_files_rounded_as_litert_does_give_the_same_bytes_in_c(tmp_path):
    libraries = []
    for number, seed in enumerate(IN_LITERT):
        content = case("FULLY_CONNECTED of vectors", "int8", seed)
        model = parse_tflite(content, "one.tflite", with_weights=True, runtime=Runtime.LITERT)
        frames = [ours(model.network, frames_of(model.network, seed))]
        libraries.append(made(model, number, frames))
    assert run_all(libraries, tmp_path) == []

"""Filters over time, and integers of 8, 16 and 32 bits in one library: the whole network's bytes."""

from dataclasses import replace

import numpy as np
import pytest

from cnn2csdf import operators as op
from cnn2csdf.builder import NetworkBuilder
from cnn2csdf.dtypes import Element, Quantization, Stored
from cnn2csdf.network import Network
from cnn2csdf.weights import Model, random_weights
from csdf.errors import UnsupportedOperator
from planners.code.frames import random_frame
from planners.code.library import library
from planners.memory.answer import INPUTS
from planners.memory.fit import fit
from tests.planners.code.compiling import needs_compiler, run_all
from tests.planners.code.test_quantised_libraries import least
from tests.planners.memory.streamed import random_plan

pytestmark = pytest.mark.slow

WINDOW = op.Window(kernel=(3, 3), padding=(1, 1, 1, 1))
INT8, INT16, INT32 = Element.INT8, Element.INT16, Element.INT32


def filters(seed):
    """Two filters over time, of different ranks, with states of 8 and of 16 bits; shares in 16."""
    source = np.random.default_rng(seed)
    elements, first, second, rank = (int(one) for one in source.integers(1, 10, 4))
    builder = NetworkBuilder("filters")
    last = builder.input((elements if seed % 2 else 8,))
    for units, rank_of in ((first, 1 + rank % 3), (second, 1 + rank % 2)):
        element = (INT8, INT16)[int(source.integers(2))]
        scale = float(np.float32(source.uniform(0.02, 0.06) / (1 if element is INT8 else 100)))
        zero_point = int(source.integers(-60, 60))
        state = Quantization(element=element, scales=(scale,), zero_point=zero_point)
        operator = op.QuantizedSvdf(units=units, rank=rank_of, places=3, state=state)
        last = builder.add(operator, last, name=f"filter {units} {rank_of} {last}")
    builder.output(last)
    builder.output(builder.add(op.Softmax(axis=0), last, name="shares"))
    return quantised(builder.network(), {"shares": INT16}, seed)


def widths(seed):
    """A map of 16 bits in 8, and back in 16 and in 32, with a convolution between; shares in 16."""
    builder = NetworkBuilder("widths")
    one = builder.add(op.Conversion(), builder.input((5, 7, 6), name="given"), name="narrow")
    last = builder.add(op.Convolution(filters=6, window=WINDOW), one, name="between")
    builder.output(builder.add(op.Conversion(), last, name="in 16"))
    builder.output(builder.add(op.Conversion(), last, name="in 32"))
    builder.output(builder.add(op.Softmax(axis=0), last, name="shares"))
    elements = {"given": INT16, "in 16": INT16, "in 32": INT32, "shares": INT16}
    return quantised(builder.network(), elements, seed)


def quantised(given, elements, seed):
    """The network in integers of drawn scales, some of other elements than 8 bits."""
    source = np.random.default_rng(seed)
    types, layers = {}, []
    for layer in given.layers:
        element = elements.get(layer.name, INT8)
        scale = float(np.float32(source.uniform(0.01, 0.06)))
        zero_point = int(source.integers(-20, 20))
        if element is not INT8:
            scale, zero_point = scale / 200, 0
        if isinstance(layer.operator, op.Softmax):
            zero_point = -(2**15)
        found = Quantization(element=element, scales=(scale,), zero_point=zero_point)
        if layer.is_output:
            found = types[layer.inputs[0]]
        types[layer.name] = found
        layers.append(
            replace(
                layer,
                element=found.element,
                stored=tuple(_stored(layer, source)),
                quantization=found,
            )
        )
    network = Network(name="wide", layers=tuple(layers))
    return Model(network=network, weights=random_weights(network, seed))


def _stored(layer, source):
    match layer.operator:
        case op.QuantizedSvdf():
            roles, largest = ("matrix", "filters"), 0.02  # some of what is kept saturates
        case op.Convolution():
            roles, largest = ("kernel",), 0.05
        case _:
            return
    for role in roles:
        scale = float(np.float32(source.uniform(largest / 5, largest)))
        types = Quantization(element=INT8, scales=(scale,))
        yield Stored(role=role, element=INT8, quantization=types)
    yield Stored(role="bias", element=INT32)


@needs_compiler
@pytest.mark.parametrize("model_of", [filters, widths])
def test_integers_of_several_widths_give_the_bytes_of_the_whole_network(model_of, tmp_path):
    made = []
    for seed in range(2, 7):
        model = model_of(seed)
        frames = [random_frame(model.network, one) for one in range(3)]
        plan = random_plan(model.network, seed, is_streamed=seed > 4, element_bytes=None)
        made.append(library(model, plan, name=f"net{seed}", frames=frames))
    for input_ in INPUTS:
        made.append(library(model, least(model.network, input_), name=f"least_{input_}"))
    assert run_all(made, tmp_path) == []


def test_inputs_and_outputs_are_integers_of_their_own_width():
    model = widths(0)
    written = library(model, least(model.network, "resident"), name="net", frames=[]).written
    assert [port.kind for port in written.inputs] == ["int16_t"]
    assert [port.kind for port in written.outputs] == ["int16_t", "int32_t", "int16_t"]
    assert "typedef int8_t net_element;" in written.header


@pytest.mark.parametrize("seed", range(4))
def test_the_flash_of_filters_is_that_of_the_library(seed):
    # of the places in time only the last is written
    model = filters(seed)
    found = fit(model.network, searched=())
    written = library(model, found.methods[0].plan, name="net", frames=[]).written
    assert found.flash_bytes == written.weight_bytes


@pytest.mark.parametrize(
    "operator",
    [
        op.Convolution(filters=2, window=WINDOW),
        op.Pooling(function="max", window=WINDOW),
        op.Activation(function="tanh"),
        op.Reduction(function="mean", axes=(1, 2)),
        op.GlobalPooling(function="max"),
        op.Pad(padding=(1, 1, 1, 1)),
        op.Resize(size=(9, 9), function="nearest"),
        op.Softmax(axis=0),
    ],
)
def test_layers_of_16_bits_among_those_of_8_are_refused_by_name(operator):
    builder = NetworkBuilder("refused")
    last = builder.add(operator, builder.input((2, 5, 5), name="given"), name="the layer")
    builder.output(builder.add(op.Conversion(), last, name="narrow"))
    model = quantised(builder.network(), {"given": INT16, "the layer": INT16}, 0)
    for way in fit(model.network, searched=()).methods:
        with pytest.raises(UnsupportedOperator, match="'the layer': no C code"):
            library(model, way.plan, frames=[])

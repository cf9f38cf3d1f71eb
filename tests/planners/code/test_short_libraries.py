"""Networks of 16-bit integers in C: the bytes of the whole network, and so TensorFlow Lite Micro's."""

from dataclasses import replace

import numpy as np
import pytest

from cnn2csdf import operators as op
from cnn2csdf.builder import NetworkBuilder
from cnn2csdf.dtypes import Element, Quantization, Stored
from cnn2csdf.network import Network
from cnn2csdf.readers.tflite.reader import parse_tflite
from cnn2csdf.simplify import simplified
from cnn2csdf.weights import Model, random_weights
from csdf.errors import UnsupportedOperator
from planners.code.frames import random_frame
from planners.code.library import library
from planners.memory.answer import INPUTS
from planners.memory.fit import fit
from tests.cnn2csdf.readers.tflite_cases import NAMES, case
from tests.planners.code.compiling import needs_compiler, run_all
from tests.planners.memory.streamed import random_plan

pytestmark = pytest.mark.slow

WINDOW = op.Window(kernel=(3, 3), padding=(1, 1, 1, 1))
KINDS = [kind for kind, dtype in NAMES if dtype == "int16"]
REFUSED = {"ABS", "BATCH_MATMUL", "FULLY_CONNECTED of vectors"}
SEEDS = 1
CURVES = ("sigmoid", "tanh")


@needs_compiler
def test_each_operator_of_16_bits_gives_the_bytes_of_the_reader_or_is_refused(tmp_path):
    made, refused = [], set()
    for number, kind in enumerate(KINDS):
        for seed in range(SEEDS):
            content = case(kind, "int16", seed)
            model = simplified(parse_tflite(content, "one.tflite", with_weights=True))
            frames = [random_frame(model.network, one) for one in range(2)]
            try:
                plan = fit(model.network, input=INPUTS[number % 2], searched=()).methods[0].plan
                made.append(library(model, plan, name=f"net{number}_{seed}", frames=frames))
            except UnsupportedOperator:
                refused.add(kind)
    assert refused == REFUSED
    assert len(made) == SEEDS * (len(KINDS) - len(REFUSED))
    assert run_all(made, tmp_path) == []


def network():
    """Convolutions of all kinds, branches, pools, curves, units and shares."""
    builder = NetworkBuilder("short")
    one = builder.input((6, 9, 8))
    first = builder.add(op.Convolution(filters=10, window=WINDOW), one)
    first = builder.add(op.Activation(function="relu"), first)
    deep = builder.add(op.Convolution(filters=10, groups=10, window=WINDOW), first)
    deep = builder.add(op.Activation(function="clip", parameters=(0.0, 6.0)), deep)
    both = builder.add(op.Elementwise(function="add"), first, deep)
    pooled = builder.add(
        op.Pooling(function="average", window=op.Window(kernel=(2, 2), stride=(2, 2))), both
    )
    grouped = builder.add(op.Convolution(filters=6, groups=2, window=WINDOW), pooled)
    gate = builder.add(op.Reduction(function="mean", axes=(1, 2)), grouped)
    gate = builder.add(op.Activation(function="sigmoid"), gate)
    scaled = builder.add(op.Elementwise(function="multiply"), grouped, gate)
    bounded = builder.add(op.Activation(function="tanh"), scaled)
    joined = builder.add(op.Concatenation(axis=0), bounded, bounded)
    window = op.Window(kernel=(3, 2), stride=(1, 2), padding=(0, 1, 1, 0))
    turned = builder.add(op.TransposedConvolution(filters=7, window=window), joined)
    turned = builder.add(op.Activation(function="relu"), turned)
    units = builder.add(op.FullyConnected(units=7), turned)
    builder.output(builder.add(op.Softmax(axis=0), units))
    return builder.network()


def quantised(given, seed, bias):
    """The network in integers of 16 bits, without zero points; biases of that type, or none."""
    source, layers, types = np.random.default_rng(seed), [], {}
    for layer in given.layers:
        is_clip = layer.operator.in_words() == "clip"
        keeps = is_clip or layer.operator.moves or isinstance(layer.operator, op.Pooling)
        scale = float(np.float32(source.uniform(1e-4, 4e-4)))
        found = Quantization(element=Element.INT16, scales=(scale,))
        if isinstance(layer.operator, op.Softmax) or layer.operator.in_words() in CURVES:
            found = Quantization(element=Element.INT16, scales=(1 / 32768,))
        types[layer.name] = types[layer.inputs[0]] if keeps and layer.inputs else found
        layers.append(
            replace(
                layer,
                element=Element.INT16,
                stored=tuple(_stored(layer, source, bias)),
                quantization=types[layer.name],
            )
        )
    found = Network(name="short", layers=tuple(layers))
    return Model(network=found, weights=random_weights(found, seed))


def _stored(layer, source, bias):
    match layer.operator:
        case (
            op.Convolution(filters=count)
            | op.TransposedConvolution(filters=count)
            | op.FullyConnected(units=count)
        ):
            role = "matrix" if isinstance(layer.operator, op.FullyConnected) else "kernel"
            many = count if source.integers(2) else 1
            scales = tuple(float(np.float32(one)) for one in source.uniform(0.001, 0.01, many))
            types = Quantization(element=Element.INT8, scales=scales)
            yield Stored(role=role, element=Element.INT8, quantization=types)
            yield Stored(role="bias", element=bias)


@needs_compiler
def test_networks_of_16_bits_give_the_bytes_of_the_whole_network(tmp_path):
    made = []
    for seed in range(2, 7):
        model = quantised(network(), seed, (Element.INT64, Element.INT32)[seed % 2])
        model = simplified(model, ("fuse-activation",)) if seed % 3 else model
        plan = random_plan(model.network, seed, is_streamed=seed > 3, element_bytes=2)
        made.append(library(model, plan, name=f"net{seed}"))
    for input_ in INPUTS:
        plan = fit(model.network, input=input_).least.plan
        made.append(library(model, plan, name=f"least_{input_}"))
    assert run_all(made, tmp_path) == []


@needs_compiler
def test_biases_beyond_32_bits_give_the_bytes_of_the_whole_network(tmp_path):
    builder = NetworkBuilder("biased")
    operator = op.Convolution(filters=4, window=op.Window(kernel=(1, 1)))
    builder.output(builder.add(operator, builder.input((2, 3, 3)), name="conv"))
    model = quantised(builder.network(), 0, Element.INT64)
    # A scale at which each of these biases is a result of its own.
    wide = Quantization(element=Element.INT16, scales=(1.0,))
    layers = [
        layer if layer.is_input else replace(layer, quantization=wide)
        for layer in model.network.layers
    ]
    bias = np.array([-(2**34), -(2**33), -(2**31), 2**33])
    weights = model.weights["conv"] | {"bias": bias}
    model = Model(
        network=Network(name="biased", layers=tuple(layers)),
        weights=model.weights | {"conv": weights},
    )
    plan = fit(model.network, searched=()).methods[0].plan
    assert run_all([library(model, plan, name="net")], tmp_path) == []


def test_the_flash_of_16_bit_integers_is_that_of_the_library():
    for bias in (Element.INT64, Element.INT32):
        model = quantised(network(), 0, bias)
        found = fit(model.network, searched=())
        written = library(model, found.methods[0].plan, name="net", frames=[]).written
        assert found.flash_bytes == written.weight_bytes

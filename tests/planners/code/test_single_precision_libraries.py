"""Integers that are rescaled in single precision, as ONNX Runtime does, in C: the same bytes."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cnn2csdf import operators as op
from cnn2csdf.builder import NetworkBuilder
from cnn2csdf.dtypes import Arithmetic, Element, Quantization, Stored
from cnn2csdf.execution.layer_by_layer import run_layer_by_layer
from cnn2csdf.network import Network
from cnn2csdf.onnx_files.reader import read_onnx
from cnn2csdf.operators.moves import to_memory_order
from cnn2csdf.simplify import simplified
from cnn2csdf.weights import Model, random_weights
from planners.code.frames import random_frame
from planners.code.library import library
from planners.code.makefile import MAIN
from planners.code.unsigned_as_signed import as_signed
from planners.memory.answer import INPUTS
from planners.memory.fit import fit
from tests.planners.code.compiling import needs_compiler, run_all
from tests.planners.code.test_quantised_libraries import summing, wide
from tests.planners.memory.streamed import random_plan

pytestmark = pytest.mark.slow

WINDOW = op.Window(kernel=(3, 3), padding=(1, 1, 1, 1))
# A compiler that may make one operation of a product and a sum, where the processor has one.
HAS_FUSED = "fma" in Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else False
FUSING = ("-std=gnu99", "-O3", "-march=native", "-ffp-contract=fast", "-w")


def quantised(network, seed, element=Element.INT8):
    """The network with integers everywhere, of a scale and zero point of their own."""
    source = np.random.default_rng(seed)
    types, layers = {}, []
    for layer in network.layers:
        found = types[layer.inputs[0]] if layer.is_output else drawn_types(source, element)
        types[layer.name] = found
        layers.append(
            replace(layer, element=element, quantization=found, stored=tuple(stored(layer, source)))
        )
    network = Network(name="single", layers=tuple(layers))
    return Model(network=network, weights=random_weights(network, seed))


def drawn_types(source, element):
    scale = float(np.float32(source.uniform(0.02, 0.09)))
    middle = 128 if element is Element.UINT8 else 0
    return Quantization(
        element=element,
        scales=(scale,),
        zero_point=middle + int(source.integers(-30, 30)),
        arithmetic=Arithmetic.SINGLE_PRECISION,
    )


def stored(layer, source):
    match layer.operator:
        case op.Convolution(filters=count) | op.FullyConnected(units=count):
            role = "kernel" if isinstance(layer.operator, op.Convolution) else "matrix"
            many = count if source.integers(2) else 1
            scales = tuple(float(np.float32(one)) for one in source.uniform(0.001, 0.02, many))
            types = Quantization(
                element=Element.INT8, scales=scales, arithmetic=Arithmetic.SINGLE_PRECISION
            )
            yield Stored(role=role, element=Element.INT8, quantization=types)
            yield Stored(role="bias", element=Element.INT32)


def everything(dims=(6, 9, 8)):
    """Each operator that the runtime has between integers, in one network with branches."""
    builder = NetworkBuilder("everything")
    one = builder.input(dims)
    first = builder.add(op.Convolution(filters=6, window=WINDOW), one)
    first = builder.add(op.BatchNormalization(), first)
    deep = builder.add(op.Convolution(filters=6, groups=6, window=WINDOW), first)
    deep = builder.add(op.Activation(function="leaky relu", parameters=(0.125,)), deep)
    both = builder.add(op.Elementwise(function="add"), first, deep)
    both = builder.add(op.Elementwise(function="subtract"), both, one)
    both = builder.add(op.Elementwise(function="maximum"), both, first)
    pooled = builder.add(
        op.Pooling(
            function="average",
            window=op.Window(kernel=(3, 2), stride=(2, 2), padding=(1, 0, 1, 1)),
            counts_padding=True,
        ),
        both,
    )
    pooled = builder.add(op.Pooling(function="average", window=WINDOW), pooled)
    largest = builder.add(op.Pooling(function="max", window=WINDOW), pooled)
    sloped = builder.add(op.Activation(function="prelu"), largest)
    joined = builder.add(op.Concatenation(axis=0), sloped, pooled, largest)
    cut = builder.add(op.Slice(axis=0, start=1, stop=16), joined)
    grouped = builder.add(op.Convolution(filters=9, groups=3, window=WINDOW), cut)
    gate = builder.add(op.GlobalPooling(function="average"), grouped)
    gate = builder.add(op.Activation(function="sigmoid"), gate)
    scaled = builder.add(op.Elementwise(function="multiply"), grouped, gate)
    scaled = builder.add(op.Elementwise(function="multiply", constant=(9, 1, 1)), scaled)
    scaled = builder.add(op.Elementwise(function="divide", constant=(1,)), scaled)
    resized = builder.add(op.Resize(size=(7, 6), function="nearest"), scaled)
    last = builder.add(op.Convolution(filters=10, window=op.Window(kernel=(1, 1))), resized)
    builder.output(builder.add(op.Softmax(axis=0), last))
    units = builder.add(op.FullyConnected(units=7), last)
    builder.output(builder.add(op.Softmax(axis=0), units))
    builder.output(builder.add(op.Reduction(function="mean", axes=(1, 2)), last))
    return builder.network()


def alone():
    """Each activation that becomes a table, on its own."""
    builder = NetworkBuilder("alone")
    source = builder.input((4, 5, 6))
    for function, count in op.ACTIVATIONS.items():
        if function not in ("prelu", "log", "sqrt", "reciprocal"):  # of which some are not defined
            operator = op.Activation(function=function, parameters=(-0.3, 0.4)[:count])
            builder.output(builder.add(operator, source))
    return builder.network()


def libraries():
    """Networks under random plans, with signed and with unsigned integers."""
    for seed in range(6):
        element = Element.UINT8 if seed % 4 > 1 else Element.INT8
        network = wide() if seed % 3 == 2 else everything()
        model = quantised(network, seed, element)
        if seed % 2:
            model = simplified(model, ("fuse-activation",))
        plan = random_plan(model.network, seed, is_streamed=seed % 3 == 0, element_bytes=1)
        yield library(model, plan, name=f"net{seed}")
    for number, kind in enumerate(("mean", "pool", "units"), start=8):
        model = quantised(summing(kind), number)
        for input_ in INPUTS:
            plan = fit(model.network, input=input_).least.plan
            yield library(model, plan, name=f"net{number}_{input_}")
    model = quantised(alone(), 20)
    plan = random_plan(model.network, 20, is_streamed=False, element_bytes=1)
    yield library(model, plan, name="net20")


@needs_compiler
def test_networks_give_the_bytes_of_the_whole_network(tmp_path):
    made = list(libraries())
    (tmp_path / "plain").mkdir()
    assert run_all(made, tmp_path / "plain") == []
    # products and sums are rounded each, whatever the compiler would rather do
    (tmp_path / "fused").mkdir()
    assert run_all(made[::3], tmp_path / "fused", FUSING) == []


def halves():
    """A model of all 256 integers, times a factor, plus an offset: every second is halfway.

    (0.1 * q * 0.7 + 0.07) / 0.14 is (q + 1) / 2, so the last bit of each operation decides.
    """
    builder = NetworkBuilder("halves")
    builder.output(builder.add(op.BatchNormalization(epsilon=0.0), builder.input((1, 16, 16))))
    model = quantised(builder.network(), 0)
    layers = []
    for layer, scale in zip(model.network.layers, (0.1, 0.14, 0.14), strict=True):
        types = replace(layer.quantization, scales=(float(np.float32(scale)),), zero_point=0)
        layers.append(replace(layer, quantization=types))
    numbers = {"scale": 0.7, "shift": 0.07, "mean": 0.0, "variance": 1.0}
    arrays = {role: np.array([number], np.float32) for role, number in numbers.items()}
    weights = {layers[1].name: arrays}
    return Model(network=replace(model.network, layers=tuple(layers)), weights=weights)


@needs_compiler
def test_halves_are_rounded_alike_whatever_the_compiler_fuses(tmp_path):
    model = halves()
    frame = {model.network.inputs[0].name: np.arange(-128, 128, dtype=np.int8).reshape(1, 16, 16)}
    plan = fit(model.network, searched=()).methods[0].plan
    made = library(model, plan, name="halves", frames=[frame])
    assert run_all([made], tmp_path, FUSING) == []
    # without a rounding of its own for each operation the same compiler gives other bytes
    (tmp_path / "loose").mkdir()
    kept, lost = "volatile float kept", "float kept"
    loose = {name: text.replace(kept, lost) for name, text in made.files.items()}
    differing = run_all([replace(made, files=loose)], tmp_path / "loose", FUSING)
    assert differing == ["halves"] or not HAS_FUSED


@needs_compiler
@pytest.mark.parametrize("form", ["QDQ", "QOperator"])
def test_files_of_the_runtimes_tool_give_the_bytes_of_the_whole_network(form, tmp_path):
    quantized = pytest.importorskip("tests.cnn2csdf.onnx_files.test_onnx_quantized")
    made = []
    for number, activations in enumerate(("QInt8", "QUInt8")):
        folder = tmp_path / activations
        folder.mkdir()
        path, _ = quantized.quantized_file(
            "resnet8",
            folder,
            form,
            per_channel=bool(number),
            activation_type=quantized.quantization.QuantType[activations],
        )
        model = simplified(read_onnx(path, with_weights=True))
        frames = [random_frame(model.network, seed) for seed in range(2)]
        for input_ in INPUTS[number::2]:
            plan = fit(model.network, input=input_).least.plan
            made.append(library(model, plan, name=f"net{number}_{input_}", frames=frames))
    (tmp_path / "all").mkdir()
    assert run_all(made, tmp_path / "all") == []


def test_unsigned_integers_as_signed_ones_are_the_same_less_128():
    model = quantised(everything(), 3, Element.UINT8)
    frame = random_frame(model.network, 0)
    signed = {name: (array.astype(int) - 128).astype(np.int8) for name, array in frame.items()}
    found = run_layer_by_layer(as_signed(model), signed)
    for name, array in run_layer_by_layer(model, frame).items():
        assert array.dtype == np.uint8
        assert np.array_equal(array.astype(int) - 128, found[name])
    made = library(model, fit(model.network, budget=0).least.plan, name="net", frames=[frame])
    ports = (*made.written.inputs, *made.written.outputs)
    assert {port.kind for port in ports} == {"uint8_t"}
    header = made.files["include/net.h"]
    name = ports[0].parameter
    zero_point = model.network.inputs[0].quantization.zero_point
    assert f"#define NET_{name.upper()}_ZERO_POINT {zero_point}\n" in header
    assert f"const uint8_t *{name}" in header
    assert "int8 here" not in header
    first = ", ".join(map(str, to_memory_order(frame[ports[0].layer])[:5]))
    assert f"{first}," in made.files[MAIN]


def test_unsigned_integers_that_are_read_with_the_caller_are_signed_there():
    model = quantised(everything(), 3, Element.UINT8)
    plan = fit(model.network, budget=0, input="external").least.plan
    made = library(model, plan, name="net", frames=[])
    assert {port.kind for port in made.written.inputs} == {"int8_t"}
    (name,) = (port.parameter for port in made.written.inputs)
    words = "uint8 in the file, int8 here, which is the value minus 128"
    assert f"{words}, is {name}" in made.files["include/net.h"]

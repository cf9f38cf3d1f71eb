"""Models of the field in C, against golden outputs of TensorFlow Lite Micro, bit by bit."""

from dataclasses import replace

import numpy as np
import pytest

from cnn2csdf import operators as op
from cnn2csdf.builder import NetworkBuilder
from cnn2csdf.dtypes import Element, Quantization, Stored
from cnn2csdf.execution.layer_by_layer import run_layer_by_layer
from cnn2csdf.network import Network
from cnn2csdf.operators.moves import from_memory_order
from cnn2csdf.readers.model_files import read_model
from cnn2csdf.rewrite_names import REWRITE_NAMES
from cnn2csdf.simplify import simplified
from cnn2csdf.weights import Model, random_weights
from csdf.errors import ExecutionError, UnsupportedOperator
from planners.code.frames import random_frame
from planners.code.library import library
from planners.code.makefile import MAIN
from planners.memory.answer import INPUTS
from planners.memory.fit import fit
from tests.cnn2csdf.readers.test_tflite_golden import (
    ATTENTION,
    READ,
    frames_and_outputs,
    golden_model,
)
from tests.planners.code.compiling import needs_compiler, run_all
from tests.planners.memory.streamed import random_plan
from tests.shared_data import each

pytestmark = pytest.mark.slow

QUICK = ("ad01_int8", "kws_int8", "micro_speech_int8", "hello_world_int8", "simple_add_int8")


def golden_library(name, plan_of, number):
    model = simplified(golden_model(name))
    frames, outputs = frames_and_outputs(name, model.network)
    made = library(model, plan_of(model.network), name=f"net{number}", frames=frames)
    return made, outputs


def least(network, input_):
    return fit(network, input=input_).least.plan


@needs_compiler
@each("name", [name for name in QUICK if name in READ])
def test_a_model_in_the_least_memory_gives_the_golden_bytes(name, tmp_path):
    made = []
    for number, input_ in enumerate(INPUTS):
        one, outputs = golden_library(name, lambda net, way=input_: least(net, way), number)
        # the program compares with the reference of this package, which golden tests cover; the
        # bytes it compares with have to be the golden ones
        for frame, wanted in enumerate(outputs):
            for port in one.written.outputs:
                assert listed(one.files[MAIN], f"{port.array}_{frame}") == stored(
                    wanted[port.layer]
                )
        made.append(one)
    assert run_all(made, tmp_path) == []


def attention_library(file, number, steps):
    """A library in the fewest MACs for a golden frame, and its golden result."""
    model = simplified(read_model(str(ATTENTION / file), with_weights=True), steps)
    if file.endswith(".tflite"):
        golden = np.load(ATTENTION / file.replace(".tflite", "_tflm.npz"))
        frame, wanted = golden["x_walk"][0], golden["y_walk"][0]
    else:
        golden = np.load(ATTENTION / file.replace("_int8.onnx", ".npz"))
        frame, wanted = golden["x_0"], golden["y_int8_plain_0"]
    (source,) = model.network.inputs
    dims = source.shape.dims
    is_turned = source.operator.file_dims is not None  # tokens are rows
    frame = from_memory_order(frame.reshape(-1), dims) if is_turned else frame.reshape(dims)
    plan = fit(model.network).best.plan
    return library(model, plan, name=f"net{number}", frames=[{source.name: frame}]), wanted


TWO_FORMS = ("encoder_d64_h8_t256_int8.onnx", "encoder_d96_h4_t128_int8.tflite")
FORMS = [(one.name, REWRITE_NAMES) for one in sorted(ATTENTION.glob("[cm]*_int8.onnx"))]
FORMS += [(name, steps) for name in TWO_FORMS for steps in ((), REWRITE_NAMES)]


@needs_compiler
@each("file", sorted({name for name, _ in FORMS if (ATTENTION / name).exists()}))
def test_attention_gives_the_golden_bytes_in_the_dims_of_the_file_and_by_tokens(file, tmp_path):
    made = []
    for number, steps in enumerate({steps for name, steps in FORMS if name == file}):
        one, wanted = attention_library(file, number, steps)
        (port,) = one.written.outputs
        expected = listed(one.files["test/main.c"], f"{port.array}_0", float)
        lies = stored(wanted[0]) if wanted.ndim == 4 else wanted.reshape(-1).tolist()
        assert np.array_equal(np.array(expected, wanted.dtype), np.array(lies, wanted.dtype))
        made.append(one)
    assert run_all(made, tmp_path) == []


def listed(text, array, number=int):
    """The numbers of an array in C."""
    start = text.index(f" {array}[")
    inside = text[text.index("{", start) + 1 : text.index("}", start)]
    found = (one.strip().rstrip("f") for one in inside.replace("\n", " ").split(","))
    return [number(one) for one in found if one]


def stored(array):
    return (array.transpose(1, 2, 0) if array.ndim == 3 else array).reshape(-1).tolist()


def quantised(network, seed):
    """The network with integers everywhere, of drawn scales and zero points."""
    source = np.random.default_rng(seed)
    types = {}
    layers = []
    for layer in network.layers:
        given = [types[name] for name in layer.inputs]
        keeps = layer.operator.moves or isinstance(layer.operator, op.Pooling | op.Pad | op.Resize)
        if keeps and given:
            found = given[0]
        else:
            scale = float(np.float32(source.uniform(0.02, 0.09)))
            zero_point = int(source.integers(-30, 30))
            found = Quantization(element=Element.INT8, scales=(scale,), zero_point=zero_point)
        if isinstance(layer.operator, op.Softmax):
            found = Quantization(element=Element.INT8, scales=(1 / 256,), zero_point=-128)
        types[layer.name] = found
        layers.append(
            replace(
                layer,
                element=Element.INT8,
                stored=tuple(_stored(layer, source)),
                quantization=found,
            )
        )
    network = Network(name="quantised", layers=tuple(layers))
    return Model(network=network, weights=random_weights(network, seed))


def _stored(layer, source):
    match layer.operator:
        case (
            op.Convolution(filters=count)
            | op.TransposedConvolution(filters=count)
            | op.FullyConnected(units=count)
        ):
            role = "matrix" if isinstance(layer.operator, op.FullyConnected) else "kernel"
            many = count if source.integers(2) else 1
            scales = tuple(float(np.float32(one)) for one in source.uniform(0.001, 0.02, many))
            yield Stored(
                role=role,
                element=Element.INT8,
                quantization=Quantization(element=Element.INT8, scales=scales),
            )
            yield Stored(role="bias", element=Element.INT32)
        case op.Activation(function="prelu"):
            types = Quantization(element=Element.INT8, scales=(0.03125,), zero_point=-4)
            yield Stored(role="slope", element=Element.INT8, quantization=types)
        case op.Elementwise(constant=tuple()):
            types = Quantization(element=Element.INT8, scales=(0.0625,), zero_point=3)
            yield Stored(role="constant", element=Element.INT8, quantization=types)


def everything(dims=(6, 9, 8)):
    """Each operator that has an integer form, in one network with branches."""
    builder = NetworkBuilder("everything")
    window = op.Window(kernel=(3, 3), padding=(1, 1, 1, 1))
    one = builder.input(dims)
    first = builder.add(op.Convolution(filters=6, window=window), one)
    first = builder.add(op.Activation(function="relu"), first)
    deep = builder.add(op.Convolution(filters=6, groups=6, window=window), first)
    deep = builder.add(op.Activation(function="clip", parameters=(0.0, 6.0)), deep)
    both = builder.add(op.Elementwise(function="add"), first, deep)
    both = builder.add(op.Elementwise(function="subtract"), both, one)
    padded = builder.add(op.Pad(padding=(0, 1, 1, 0)), both)
    pooled = builder.add(
        op.Pooling(function="average", window=op.Window(kernel=(2, 2), stride=(2, 2))), padded
    )
    largest = builder.add(op.Pooling(function="max", window=window), pooled)
    grouped = builder.add(op.Convolution(filters=9, groups=3, window=window), largest)
    gate = builder.add(op.Reduction(function="mean", axes=(1, 2)), grouped)
    scaled = builder.add(op.Elementwise(function="multiply"), grouped, gate)
    scaled = builder.add(op.Elementwise(function="multiply", constant=(9, 1, 1)), scaled)
    resized = builder.add(op.Resize(size=(7, 6), function="nearest"), scaled)
    window = op.Window(kernel=(3, 2), stride=(2, 1), padding=(1, 0, 0, 1))
    turned = op.TransposedConvolution(filters=10, groups=2, window=window)
    turned = builder.add(turned, builder.add(op.Slice(axis=0, start=3, stop=9), resized))
    turned = builder.add(op.Activation(function="relu"), turned)
    cut = builder.add(op.Slice(axis=0, start=1, stop=8), turned)
    last = builder.add(op.Convolution(filters=10, window=op.Window(kernel=(1, 1))), cut)
    shares = builder.add(op.Softmax(axis=0), last)
    units = builder.add(op.FullyConnected(units=7), last)
    builder.output(shares)
    builder.output(builder.add(op.Softmax(axis=0), units))
    return builder.network()


def wide():
    """Channels in whole blocks and beyond, which are summed four by four and eight by eight."""
    builder = NetworkBuilder("wide")
    window = op.Window(kernel=(3, 3), padding=(1, 1, 1, 1))
    last = builder.add(op.Convolution(filters=8, window=window), builder.input((3, 7, 6)))
    last = builder.add(op.Convolution(filters=8, groups=8, window=window), last)
    last = builder.add(op.Activation(function="clip", parameters=(-0.5, 1.0)), last)
    last = builder.add(op.Convolution(filters=20, window=window), last)
    last = builder.add(op.Activation(function="relu"), last)
    last = builder.add(op.Convolution(filters=20, groups=20, window=window), last)
    last = builder.add(op.Convolution(filters=6, window=op.Window(kernel=(1, 1))), last)
    builder.output(builder.add(op.FullyConnected(units=9), last))
    builder.output(builder.add(op.Convolution(filters=12, groups=3, window=window), last))
    return builder.network()


@needs_compiler
def test_every_integer_operator_gives_the_bytes_of_the_whole_network(tmp_path):
    made = []
    for seed in range(4):
        model = quantised(everything(), seed)
        model = simplified(model, ("fuse-activation",)) if seed % 2 else model
        plan = random_plan(model.network, seed, is_streamed=seed % 3 == 0, element_bytes=1)
        made.append(library(model, plan, name=f"net{seed}"))
    for seed in range(2, 4):
        model = quantised(wide(), seed)
        model = simplified(model, ("fuse-activation",)) if seed % 2 else model
        plan = random_plan(model.network, seed, is_streamed=seed > 1, element_bytes=1)
        made.append(library(model, plan, name=f"wide{seed}"))
    for number, kind in enumerate(("mean", "pool", "units"), start=6):
        model = quantised(summing(kind), number)
        for input_ in INPUTS:
            plan = least(model.network, input_)
            made.append(library(model, plan, name=f"net{number}_{input_}"))
    assert run_all(made, tmp_path) == []


def summing(kind):
    """A convolution before something that adds up its input row by row."""
    builder = NetworkBuilder(kind)
    window = op.Window(kernel=(3, 3), padding=(1, 1, 1, 1))
    last = builder.add(op.Convolution(filters=10, window=window), builder.input((3, 6, 6)))
    operator = {
        "mean": op.Reduction(function="mean", axes=(1, 2)),
        "pool": op.Pooling(function="average", window=op.Window(kernel=(6, 6))),
        "units": op.FullyConnected(units=9),
    }[kind]
    builder.output(builder.add(operator, last))
    return builder.network()


def active(function, parameters=()):
    """An activation between integers of different scales, behind a convolution and alone."""
    builder = NetworkBuilder("active")
    window = op.Window(kernel=(3, 3), padding=(1, 1, 1, 1))
    source = builder.input((4, 5, 6))
    operator = op.Activation(function=function, parameters=parameters)
    alone = builder.add(operator, source)
    behind = builder.add(operator, builder.add(op.Convolution(filters=5, window=window), source))
    builder.output(alone)
    builder.output(behind)
    return builder.network()


@needs_compiler
def test_activations_give_the_bytes_of_the_whole_network(tmp_path):
    made = []
    for number, (function, count) in enumerate(op.ACTIVATIONS.items()):
        model = quantised(active(function, (-0.3, 0.4)[:count]), number)
        plan = random_plan(model.network, number, is_streamed=False, element_bytes=1)
        try:
            run_layer_by_layer(model, random_frame(model.network, 0))
        except ExecutionError:  # has no integer form
            with pytest.raises((ExecutionError, UnsupportedOperator), match=function):
                library(model, plan)
            continue
        made.append(library(model, plan, name=f"net{number}"))
    assert len(made) >= 2
    assert run_all(made, tmp_path) == []


def test_an_operator_without_an_integer_form_is_refused_by_name():
    builder = NetworkBuilder("refused")
    builder.output(
        builder.add(op.Activation(function="gelu"), builder.input((2, 3, 4)), name="the gelu")
    )
    model = quantised(builder.network(), 0)
    plan = random_plan(model.network, 0, is_streamed=False, element_bytes=1)
    frames = []
    with pytest.raises(UnsupportedOperator, match=r"'the gelu'.*gelu"):
        library(model, plan, frames=frames)

"""LSTM with weights of int8, and SVDF of floating point with weights of either type.

litert_recurrent_outputs.json holds outputs of the reference kernels of ai-edge-litert 2.3
(OpResolverType.BUILTIN_REF) for three invocations of the files of `recurrent_case`.
"""

import json
from pathlib import Path

import numpy as np
import pytest

from cnn2csdf.execution.layer_by_layer import first_states, run_layer_by_layer
from cnn2csdf.readers.tflite.reader import parse_tflite
from csdf.errors import CsdfError, UnsupportedOperator
from tests.cnn2csdf.readers.tflite_models import Node, Tensor, constant, tflite_bytes

RECORDED = json.loads((Path(__file__).parent / "litert_recurrent_outputs.json").read_text())
KINDS = ("LSTM", "SVDF of float32", "SVDF of int8")
INVOCATIONS = 3


def recurrent_case(kind, seed, *, frames=None, change=lambda tensors: None):
    """A file with states, and a frame for each invocation; change: of the tensors."""
    random = np.random.default_rng(seed)
    draw = lambda low, high: int(random.integers(low, high + 1))  # noqa: E731

    def weights(name, dims, *, is_integer=True):
        if not is_integer:
            return constant(name, random.standard_normal(dims).astype(np.float32))
        array = random.integers(-127, 128, dims).astype(np.int8)
        return constant(name, array, [float(np.float32(random.uniform(0.003, 0.01)))])

    elements, limit, offset = draw(1, 9), float(draw(0, 1)), draw(0, 1)
    if kind == "LSTM":
        units = draw(1, 7)
        frames = draw(1, 4) if frames is None else frames
        shapes = [(units, elements)] * 4 + [(units, units)] * 4
        tensors = [Tensor("x", (1, frames, elements))]
        tensors += [weights(f"w{place}", dims) for place, dims in enumerate(shapes)]
        tensors += [weights(f"b{gate}", (units,), is_integer=False) for gate in range(4)]
        tensors += [Tensor(name, (1, units), is_variable=True) for name in ("hidden", "cells")]
        tensors.append(Tensor("y", (1, frames, units)))
        inputs = [*range(9), -1, -1, -1, *range(9, 13), -1, -1, 13, 14]
        node = Node(
            "UNIDIRECTIONAL_SEQUENCE_LSTM",
            inputs,
            [15],
            [(0, "b", 4), (1, "f", limit), (4, "b", offset)],
        )
        dims = (1, frames, elements)
    else:
        rank, units, places = draw(1, 3), draw(1, 4), draw(1, 6)
        is_integer = kind.endswith("int8")
        tensors = [
            Tensor("x", (1, elements)),
            weights("features", (rank * units, elements), is_integer=is_integer),
            weights("times", (rank * units, places), is_integer=is_integer),
            weights("b", (units,), is_integer=False),
            Tensor("state", (1, rank * units * places), is_variable=True),
            Tensor("y", (1, units)),
        ]
        bias = 3 if draw(0, 2) else -1
        options = [(0, "i", rank), (1, "b", draw(0, 1)), (2, "b", offset)]
        node, dims = Node("SVDF", [0, 1, 2, bias, 4], [5], options), (1, elements)
    change(tensors)
    content = tflite_bytes(tensors, [node], [0], [len(tensors) - 1])
    values = random.standard_normal((INVOCATIONS, *dims)).astype(np.float32)
    return content, values


def outputs_of(content, values):
    """The outputs of successive invocations."""
    model = parse_tflite(content, "a.tflite", with_weights=True)
    states, dims = first_states(model), model.network.inputs[0].shape.dims
    return [
        next(iter(run_layer_by_layer(model, {"x": frame.reshape(dims)}, states).values()))
        for frame in values
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_a_recurrent_operator_gives_the_recorded_outputs(kind):
    for seed, expected in enumerate(RECORDED[kind]):
        content, values = recurrent_case(kind, seed)
        results = np.array([output.reshape(-1) for output in outputs_of(content, values)])
        expected = np.array(expected, np.float32)
        limit = 2e-6 * max(1.0, float(np.abs(expected).max()))
        assert np.abs(results - expected).max() <= limit, seed


def quantized(values):
    largest = np.abs(values).max()
    return np.rint(values * (127 / largest)) * (largest / 127) if largest else values


def test_an_lstm_with_weights_of_int8_is_that_of_its_real_weights_for_rounded_vectors():
    content, values = recurrent_case("LSTM", 5)
    model = parse_tflite(content, "a.tflite", with_weights=True)
    products = [
        layer for layer in model.network.layers if "matrix" in model.weights.get(layer.name, {})
    ]
    assert {layer.stored_as("matrix").element.value for layer in products} == {"int8"}
    matrices = [
        model.weights[layer.name]["matrix"] * np.array(layer.operator.scales)[:, None]
        for layer in products[:2]
    ]
    bias = model.weights[products[0].name]["bias"]
    units = len(bias) // 4
    hidden, cell = np.zeros(units), np.zeros(units)
    limit = (
        1.0 if any("clip" in layer.operator.in_words() for layer in model.network.layers) else 9.0
    )
    for frame, result in zip(values, outputs_of(content, values), strict=True):
        for vector, output in zip(frame[0], result.reshape(-1, units), strict=True):
            sums = matrices[0] @ quantized(vector) + bias
            sums += matrices[1] @ quantized(hidden)
            enter, forget, new, out = sums.reshape(4, units)
            gate = lambda x: 1 / (1 + np.exp(-x))  # noqa: E731
            cell = np.clip(gate(forget) * cell + gate(enter) * np.tanh(new), -limit, limit)
            hidden = gate(out) * np.tanh(cell)
            assert np.abs(hidden - output).max() < 0.02


def test_a_sequence_too_long_for_weights_of_int8_is_refused():
    content, _ = recurrent_case("LSTM", 1, frames=65)
    with pytest.raises(UnsupportedOperator, match="weights of int8 for 65 frames; at most 64"):
        parse_tflite(content, "a.tflite")


def named(*names):
    """Give the tensors of states these names."""

    def change(tensors):
        states = [tensor for tensor in tensors if tensor.is_variable]
        for tensor, name in zip(states, names, strict=True):
            tensor.name = name

    return change


def test_states_of_one_name_are_two_states():
    apart, values = recurrent_case("LSTM", 1)
    alike, _ = recurrent_case("LSTM", 1, change=named("state", "state"))
    assert np.array_equal(outputs_of(alike, values), outputs_of(apart, values))


def two_filters(state, dtype="float32"):
    """Two SVDFs, the second with the tensor of that number as its state."""
    scales = () if dtype == "float32" else (0.1,)
    times = "int16" if scales else dtype
    tensors = [
        Tensor("x", (1, 3), dtype, scales),
        constant("features", np.eye(3, dtype=dtype), scales),
        constant("times", np.array([[1, 2, 4, 8]] * 3, times), scales),
        constant("b", np.zeros(3, "int32" if scales else dtype)),
        Tensor("state", (1, 12), times, scales, is_variable=True),
        Tensor("state", (1, 12), times, scales, is_variable=True),
        Tensor("between", (1, 3), dtype, scales),
        Tensor("y", (1, 3), dtype, scales),
    ]
    options = [(0, "i", 1), (1, "b", int(bool(scales)))]
    nodes = [
        Node("SVDF", [0, 1, 2, 3, 4], [6], options),
        Node("SVDF", [6, 1, 2, 3, state], [7], options),
    ]
    return tflite_bytes(tensors, nodes, [0], [7])


def test_filters_whose_states_have_one_name_keep_their_own_frames():
    times, values = np.array([1, 2, 4, 8]), np.arange(9, dtype=np.float32).reshape(3, 1, 3)
    lines = np.zeros((2, 3, 4))
    for frame, result in zip(values, outputs_of(two_filters(5), values), strict=True):
        for line in lines:
            line[:] = np.concatenate([line[:, 1:], frame.reshape(3, 1)], axis=1)
            frame = line @ times
        assert np.array_equal(result, frame)


@pytest.mark.parametrize("dtype", ["float32", "int8"])
def test_one_state_of_two_operators_is_refused(dtype):
    parse_tflite(two_filters(5, dtype), "a.tflite")
    with pytest.raises(UnsupportedOperator, match=r"the state 'state' \(input 4\) is that of ano"):
        parse_tflite(two_filters(4, dtype), "a.tflite")


@pytest.mark.parametrize(
    ("dtype", "zero", "scales", "message"),
    [
        ("uint8", 128, (0.5,), r"weights of uint8 for an input of float32 \(hybrid\)"),
        ("int16", 0, (0.5,), r"weights of int16 for an input of float32 \(hybrid\)"),
        ("int8", 7, (0.5,), "weights of int8 with a zero point of 7"),
        ("int8", 0, (0.5,) * 99, "99 scales of weights for"),
    ],
)
def test_weights_of_a_filter_over_time_that_are_stored_otherwise_are_refused(
    dtype, zero, scales, message
):
    def change(tensors):
        tensors[1] = constant("features", np.ones(tensors[1].dims, dtype), scales, zero)

    content, _ = recurrent_case("SVDF of int8", 0, change=change)
    with pytest.raises(CsdfError, match=message):
        parse_tflite(content, "a.tflite")


@pytest.mark.parametrize("place", [1, 4, 5, 8])
def test_an_lstm_with_a_matrix_without_a_scale_is_refused(place):
    def change(tensors):
        tensors[place].scales = ()

    content, _ = recurrent_case("LSTM", 1, change=change)
    with pytest.raises(UnsupportedOperator, match="weights that are not all int8"):
        parse_tflite(content, "a.tflite")

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
from csdf.errors import UnsupportedOperator
from tests.cnn2csdf.readers.tflite_models import Node, Tensor, constant, tflite_bytes

RECORDED = json.loads((Path(__file__).parent / "litert_recurrent_outputs.json").read_text())
KINDS = ("LSTM", "SVDF of float32", "SVDF of int8")
INVOCATIONS = 3


def recurrent_case(kind, seed, *, frames=None):
    """A file with states, and a frame for each invocation."""
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

"""Operators of TensorFlow Lite files between real numbers, truth values and whole numbers."""

import numpy as np
import pytest

from cnn2csdf.execution.layer_by_layer import run_layer_by_layer
from cnn2csdf.readers.tflite.model_file import graphs_of
from cnn2csdf.readers.tflite.reader import parse_tflite
from csdf.errors import CsdfError
from tests.cnn2csdf.readers.tflite_models import Tensor, constant, one_node
from tests.cnn2csdf.readers.tflite_real_cases import CASES, Draw, gather_points, real_case


def frames_of(content, seed):
    """Small whole numbers for each input, with the axes of the file."""
    generator = np.random.default_rng(seed)
    model = parse_tflite(content, "a.tflite", with_weights=True)
    frames = []
    for layer in model.network.inputs:
        dims = layer.shape.dims
        order = (*dims[1:], dims[0]) if len(dims) == 3 else dims
        numbers = generator.integers(-4, 5, order)
        frames.append((numbers > 0 if layer.element.value == "bool" else numbers).astype("f4"))
    return model, frames


def outputs_of(model, frames):
    """Outputs with the axes of layers."""
    inputs = zip(model.network.inputs, frames, strict=True)
    frame = {
        layer.name: np.moveaxis(array, 2, 0) if array.ndim == 3 else array
        for layer, array in inputs
    }
    return list(run_layer_by_layer(model, frame).values())


def is_equal(result, expected):
    """Whether an output is that of the file, there with channels last and a batch of one."""
    if expected.ndim == 4 and expected.shape[0] == 1:
        expected = np.moveaxis(expected[0], 2, 0)
    return np.array_equal(result.reshape(-1), expected.reshape(-1).astype(np.float32))


@pytest.mark.parametrize("kind", CASES)
def test_an_operator_of_real_numbers_gives_what_numpy_gives(kind):
    for seed in range(40):
        content, answer = real_case(kind, seed)
        model, frames = frames_of(content, seed)
        graph = graphs_of(content)[0]
        dims = [graph.tensors[number].dims for number in graph.inputs]
        operands = [frame.reshape(size) for frame, size in zip(frames, dims, strict=True)]
        for result, expected in zip(outputs_of(model, frames), answer(*operands), strict=True):
            assert is_equal(result, np.asarray(expected)), seed


def test_elements_are_gathered_at_positions_that_the_frame_gives():
    for seed in range(40):
        content, answer, positions = gather_points(Draw(seed), has_constant_positions=False)
        model = parse_tflite(content, "a.tflite", with_weights=True)
        values, places = model.network.inputs
        order = values.shape.dims
        order = (*order[1:], order[0]) if len(order) == 3 else order
        frame = Draw(seed).numbers(order)
        coordinates = positions[0].astype(np.float32)
        if len(places.shape.dims) == 3:
            coordinates = coordinates.reshape(places.shape.dims)
        (result,) = outputs_of(model, [frame, coordinates])
        (expected,) = answer(frame[None])
        assert is_equal(result, expected), seed


def operand(name, array):
    return constant(name, np.array(array))


@pytest.mark.parametrize(
    ("kind", "inputs", "output", "message"),
    [
        (
            "PACK",
            [Tensor("x", (1, 3)), operand("k", np.zeros(2, "f4"))],
            (1, 2, 3),
            "a constant of",
        ),
        (
            "GATHER_ND",
            [Tensor("x", (1, 3)), operand("p", np.zeros((2, 2), "f4"))],
            (2,),
            "positions",
        ),
        (
            "GATHER_ND",
            [Tensor("x", (1, 3)), operand("p", np.zeros((2, 9), "i4"))],
            (2,),
            "positions",
        ),
        ("TILE", [Tensor("x", (1, 3)), operand("t", np.zeros(2, "i4"))], (1, 3), "times a tensor"),
        ("BROADCAST_TO", [Tensor("x", (1, 3)), operand("d", np.ones(2, "i4"))], (1, 4), "a tensor"),
        ("CUMSUM", [Tensor("x", (1, 3)), operand("a", np.ones(2, "i4"))], (1, 3), "2 axes"),
        (
            "BATCH_MATMUL",
            [Tensor("x", (1, 3)), operand("v", np.ones(3, "f4"))],
            (1, 1),
            "one matrix",
        ),
    ],
)
def test_operands_that_do_not_fit_are_refused_by_the_operator(kind, inputs, output, message):
    content = one_node(kind, inputs, Tensor("y", output), [(0, "i", 2), (1, "i", 1)])
    with pytest.raises(CsdfError, match=rf"operator 0 \({kind}\).*{message}"):
        parse_tflite(content, "a")

"""TensorFlow Lite files that leave dims of their inputs open, and sizes given for these."""

from dataclasses import replace

import numpy as np
import pytest

from cnn2csdf.execution.layer_by_layer import run_layer_by_layer
from cnn2csdf.readers.tflite.model_file import parse_graph
from cnn2csdf.readers.tflite.reader import CONVERTERS, parse_tflite
from cnn2csdf.readers.tflite.resizing import resized
from csdf.errors import CsdfError, UnreadableFile, UnsupportedOperator
from tests.cnn2csdf.readers import tflite_cases
from tests.cnn2csdf.readers.tflite_models import Node, Tensor, constant, tflite_bytes
from tests.cnn2csdf.readers.tflite_real_cases import CASES, real_case
from tests.shared_data import SHARED, each

RANDOM = np.random.default_rng(0)
WEIGHTS = {
    "kernel": RANDOM.standard_normal((4, 3, 3, 3)).astype(np.float32),
    "matrix": RANDOM.standard_normal((2, 4)).astype(np.float32),
}
STATEFUL = SHARED / "networks" / "stateful"
RECURRENT = [
    name
    for name in ("dtln_noise_suppression", "keyword_svdf_state16", "mnist_lstm_int8")
    if (STATEFUL / f"{name}.tflite").exists()
]


def forgetful(graph):
    """The graph where all tensors of the frame have other sizes."""
    ends = {*graph.inputs, *(number for node in graph.nodes for number in node.outputs)}
    tensors = [
        replace(tensor, dims=(99,) * len(tensor.dims)) if number in ends else tensor
        for number, tensor in enumerate(graph.tensors)
    ]
    return replace(graph, tensors=tuple(tensors))


def require_same_dims(content, kind):
    graph = parse_graph(content)
    shapes = {graph.tensors[number].name: graph.tensors[number].dims for number in graph.inputs}
    result = resized(forgetful(graph), shapes, CONVERTERS)
    for tensor, expected in zip(result.tensors, graph.tensors, strict=True):
        assert tensor.dims == expected.dims, kind


@pytest.mark.parametrize(("kind", "dtype"), tflite_cases.NAMES)
def test_dims_of_an_integer_operator_follow_from_its_inputs(kind, dtype):
    for seed in range(3):
        content = tflite_cases.case(kind, dtype, seed)
        require_same_dims(content, kind)


@pytest.mark.parametrize("kind", CASES)
def test_dims_of_a_real_operator_follow_from_its_inputs(kind):
    for seed in range(6):
        content = real_case(kind, seed)[0]
        require_same_dims(content, kind)


@each("name", RECURRENT)
def test_dims_after_recurrent_layers_follow_from_the_operators(name):
    require_same_dims((STATEFUL / f"{name}.tflite").read_bytes(), name)


def test_a_constant_of_as_many_rows_as_a_matrix_fits_it():
    tensors = [
        Tensor("x", (1, 3)),
        constant("rows", np.ones((4, 3), np.float32)),
        Tensor("sum", (4, 3)),
    ]
    content = tflite_bytes(tensors, [Node("ADD", [0, 1], [2], [(0, "b", 0)])], [0], [2])
    result = resized(forgetful(parse_graph(content)), {"x": (4, 3)}, CONVERTERS)
    assert result.tensors[2].dims == (4, 3)


def classifier(height, width, *, signature=()):
    """A convolution, a pooling whose size is that of the map, a reshape by arithmetic, and a layer."""
    rows, columns = -(-height // 2), -(-width // 2)
    tensors = [
        Tensor("x", (1, height, width, 3), signature=signature),
        constant("w", WEIGHTS["kernel"]),
        constant("b", np.zeros(4, np.float32)),
        Tensor("map", (1, rows, columns, 4)),
        Tensor("shape", (4,), "int32"),
        constant("begin", np.array([3], np.int32)),
        constant("end", np.array([4], np.int32)),
        constant("step", np.array([1], np.int32)),
        Tensor("channels", (), "int32"),
        constant("rest", np.array(-1, np.int32)),
        Tensor("dims", (2,), "int32"),
        Tensor("pixels", (rows * columns, 4)),
        constant("m", WEIGHTS["matrix"]),
        Tensor("scores", (rows * columns, 2)),
    ]
    shrunk = [(0, "i", 0), (1, "i", 0), (2, "i", 0), (3, "i", 0), (4, "i", 1)]
    nodes = [
        Node("CONV_2D", [0, 1, 2], [3], [(0, "b", 0), (1, "i", 2), (2, "i", 2), (3, "b", 1)]),
        Node("SHAPE", [3], [4]),
        Node("STRIDED_SLICE", [4, 5, 6, 7], [8], shrunk),
        Node("PACK", [9, 8], [10], [(0, "i", 2), (1, "i", 0)]),
        Node("RESHAPE", [3, 10], [11]),
        Node("FULLY_CONNECTED", [11, 12, -1], [13], [(0, "b", 0)]),
    ]
    return tflite_bytes(tensors, nodes, [0], [13])


OPEN = classifier(1, 1, signature=(-1, -1, -1, 3))


@pytest.mark.parametrize("size", [(5, 7), (8, 8), (32, 3)], ids=str)
def test_a_file_with_open_dims_gives_the_outputs_of_one_with_fixed_dims(size):
    frame = np.random.default_rng(1).standard_normal((3, *size)).astype(np.float32)
    fixed = parse_tflite(classifier(*size), "a.tflite", with_weights=True)
    opened = parse_tflite(OPEN, "a.tflite", shapes={"x": (1, *size, 3)}, with_weights=True)
    (expected,) = run_layer_by_layer(fixed, {"x": frame}).values()
    (result,) = run_layer_by_layer(opened, {"x": frame}).values()
    assert result.shape == (-(-size[0] // 2) * -(-size[1] // 2), 2)
    assert np.array_equal(result, expected)


def test_open_dims_of_an_image_are_listed_with_words_that_read_the_file():
    with pytest.raises(UnreadableFile) as raised:
        parse_tflite(OPEN, "a.tflite")
    assert str(raised.value) == (
        "a.tflite: input 'x' of shape 1x?x?x3: dims 1, 2 are open; give sizes, as in "
        "--shape x=1xHxWx3; --shape x=1x224x224x3 is read, for example"
    )


def test_lines_of_text_of_open_width_need_a_size():
    content = classifier(48, 1, signature=(-1, 48, -1, 3))
    with pytest.raises(UnreadableFile, match=r"of shape 1x48x\?x3: dims 2 are open"):
        parse_tflite(content, "a.tflite")


def test_a_sequence_that_is_too_short_needs_a_length():
    tensors = [
        Tensor("x", (1, 1), signature=(1, -1)),
        constant("dims", np.array([1, 1, -1, 1], np.int32)),
        Tensor("map", (1, 1, 1, 1)),
        constant("w", np.ones((2, 1, 200, 1), np.float32)),
        Tensor("y", (1, 1, 1, 2)),
    ]
    options = [(0, "b", 1), (1, "i", 9), (2, "i", 1)]
    nodes = [Node("RESHAPE", [0, 1], [2]), Node("CONV_2D", [2, 3, -1], [4], options)]
    content = tflite_bytes(tensors, nodes, [0], [4])
    words = "give sizes, as in --shape x=1xN; --shape x=1x512 is read, for example"
    with pytest.raises(CsdfError, match=words):
        parse_tflite(content, "a.tflite")
    network = parse_tflite(content, "a.tflite", shapes={"x": (1, 512)}).network
    assert network.layers[-1].shape.dims == (2, 1, 35)


def test_a_size_of_the_last_conversion_is_taken_for_open_dims():
    content = classifier(6, 4, signature=(-1, -1, -1, 3))
    assert parse_tflite(content, "a.tflite").network.inputs[0].shape.dims == (3, 6, 4)
    shapes = {"x": (1, 9, 9, 3)}
    assert parse_tflite(content, "a.tflite", shapes=shapes).network.inputs[0].shape.dims == (
        3,
        9,
        9,
    )


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        ({"y": (1, 8, 8, 3)}, "there is no input 'y' to give a shape; inputs: 'x'"),
        ({"x": (1, 8, 8)}, "input 'x' has 4 dims, the shape given for it 3"),
        ({"x": (2, 8, 8, 3)}, "expected a batch of 1"),
        (
            {"x": (1, 2**31, 2**31, 3)},
            "input 'x' of 13835058055282163712 elements; expected at most",
        ),
    ],
)
def test_sizes_that_the_file_does_not_take_are_refused_in_a_line(shapes, message):
    with pytest.raises((UnreadableFile, UnsupportedOperator), match=message) as raised:
        parse_tflite(OPEN, "a.tflite", shapes=shapes)
    assert "\n" not in str(raised.value)


def test_a_reshape_to_fixed_dims_does_not_take_another_size():
    tensors = [
        Tensor("x", (1, 4, 4, 3), signature=(1, -1, -1, 3)),
        constant("dims", np.array([1, 48], np.int32)),
        Tensor("y", (1, 48)),
    ]
    content = tflite_bytes(tensors, [Node("RESHAPE", [0, 1], [2])], [0], [2])
    with pytest.raises(UnreadableFile, match=r"operator 0 \(RESHAPE\): tensors of 1x5x5x3"):
        parse_tflite(content, "a.tflite", shapes={"x": (1, 5, 5, 3)})

"""Slopes of any shape, tables of integers, scattered updates, and weights that have no meaning.

Each kind was compared with LiteRT's reference kernels on 200 random files; none differed.
"""

import numpy as np
import pytest

from cnn2csdf.dtypes import Runtime
from cnn2csdf.execution.layer_by_layer import run_layer_by_layer
from cnn2csdf.readers.tflite.reader import parse_tflite
from csdf.errors import UnreadableFile, UnsupportedOperator
from planners.code.library import library
from planners.memory.fit import fit
from tests.cnn2csdf.readers.test_tflite_more_operators import outputs_of
from tests.cnn2csdf.readers.tflite_models import CODES, Node, Tensor, constant, tflite_bytes
from tests.planners.code.compiling import needs_compiler, run_all

CODES |= {"SCATTER_ND": 122}
STEPS = [(1, "i", 1), (2, "i", 1)]  # strides of a window
BIAS_TYPE, INT32 = 6, 2


def sloped(shape, dims=(1, 3, 4, 5), seed=0):
    """A file of a PRELU, its frame, and the output."""
    random = np.random.default_rng(seed)
    slopes = random.standard_normal(shape).astype(np.float32)
    frame = random.standard_normal(dims).astype(np.float32)
    tensors = [Tensor("x", dims), constant("slope", slopes), Tensor("y", dims)]
    content = tflite_bytes(tensors, [Node("PRELU", [0, 1], [2])], [0], [2])
    return content, frame, np.where(frame >= 0, frame, frame * slopes)


def looked_up(kind, seed=0):
    """A file of rows of a table of integers, the numbers of the rows, and the output."""
    random, limits = np.random.default_rng(seed), np.iinfo(kind)
    table = random.integers(limits.min, limits.max, (7, 5), kind, endpoint=True)
    numbers = random.integers(0, 7, (1, 4)).astype(np.int32)
    types = {"scales": (0.05,), "zero": 0 if kind == "int16" else 3}
    tensors = [constant("table", table, **types), Tensor("x", (1, 4), "int32")]
    tensors.append(Tensor("y", (1, 4, 5), kind, **types))
    nodes = [Node("GATHER", [0, 1], [2], [(0, "i", 0)])]
    return tflite_bytes(tensors, nodes, [1], [2]), numbers, table[numbers]


def scattered(positions, dims, seed=0, **types):
    """A file that scatters updates, the updates, and the output."""
    indices = np.array(positions, np.int32)
    width = dims[indices.shape[-1] :]
    random = np.random.default_rng(seed)
    updates = random.integers(-9, 10, (*indices.shape[:-1], *width)).astype(np.float32)
    result = np.zeros(dims, np.float32)
    result[tuple(np.moveaxis(indices, -1, 0))] = updates
    tensors = [constant("at", indices), Tensor("x", updates.shape, **types)]
    tensors += [constant("dims", np.array(dims, np.int32)), Tensor("y", dims, **types)]
    return tflite_bytes(tensors, [Node("SCATTER_ND", [0, 1, 2], [3])], [1], [3]), updates, result


CASES = {
    "slopes of all elements": sloped((3, 4, 5)),
    "slopes of rows": sloped((3, 1, 1)),
    "one slope": sloped((1, 1, 1)),
    "slopes of a vector": sloped((1,), (1, 6)),
    "slopes of columns of a square": sloped((4,), (1, 4, 4)),
    "rows of int8": looked_up("int8"),
    "rows of uint8": looked_up("uint8"),
    "rows of int16": looked_up("int16"),
    "scattered elements": scattered([[[0, 2], [1, 0], [1, 3]]], (2, 4)),
    "scattered slices": scattered([[[2], [0]]], (4, 2, 3)),
    "scattered pixels": scattered([[[0, 1, 1], [0, 0, 2]]], (1, 3, 4, 5)),
    "a permutation": scattered([[[2], [0], [1]]], (3, 4)),
}


@pytest.mark.parametrize("name", CASES)
def test_slopes_tables_and_scattered_updates_give_what_their_description_says(name):
    content, frame, expected = CASES[name]
    (result,) = outputs_of(content, frame)
    in_file = np.moveaxis(result, 0, 2) if expected.ndim == 4 else result
    assert np.array_equal(in_file.reshape(expected.shape), expected)


@needs_compiler
@pytest.mark.slow
def test_slopes_tables_and_scattered_updates_are_the_same_in_c(tmp_path):
    made = []
    for number, (content, _, _) in enumerate(CASES.values()):
        model = parse_tflite(content, "one.tflite", with_weights=True)
        is_real = all(layer.quantization is None for layer in model.network.layers)
        plan = fit(model.network, element_bytes=4 if is_real else None, budget=1).least.plan
        made.append(library(model, plan, name=f"net{number}"))
    assert run_all(made, tmp_path) == []


@pytest.mark.parametrize(
    ("positions", "dims", "error", "message"),
    [
        ([[[1], [1]]], (3, 2), UnsupportedOperator, "positions that repeat"),
        ([[[3]]], (3, 2), UnreadableFile, "a position outside"),
        ([[[-1]]], (3, 2), UnreadableFile, "a position outside"),
        ([[[0, 0]]], (2**15, 2**15), UnsupportedOperator, "positions of shape"),
    ],
)
def test_positions_that_cannot_be_scattered_to_end_in_one_message(positions, dims, error, message):
    indices = np.array(positions, np.int32)
    tensors = [constant("at", indices), Tensor("x", (1, 1, *dims[indices.shape[-1] :]))]
    tensors += [constant("dims", np.array(dims, np.int32)), Tensor("y", dims)]
    if indices.shape[1] == 2:
        tensors[1] = Tensor("x", (1, 2, 2))
    content = tflite_bytes(tensors, [Node("SCATTER_ND", [0, 1, 2], [3])], [1], [3])
    with pytest.raises(error, match=message):
        parse_tflite(content, "one.tflite")


def test_a_scattered_result_of_another_shape_than_the_file_says_is_refused():
    tensors = [constant("at", np.array([[1]], np.int32)), Tensor("x", (1, 3))]
    tensors += [constant("dims", np.array([2, 3], np.int32)), Tensor("y", (3, 2))]
    content = tflite_bytes(tensors, [Node("SCATTER_ND", [0, 1, 2], [3])], [1], [3])
    with pytest.raises(UnsupportedOperator, match="the file says"):
        parse_tflite(content, "one.tflite")


def test_scattered_integers_with_a_zero_point_are_refused():
    content, _, _ = scattered([[[1]]], (3, 2), dtype="int8", scales=(0.5,), zero=4)
    with pytest.raises(UnsupportedOperator, match="zero point"):
        parse_tflite(content, "one.tflite")


def test_slopes_of_columns_of_integers_are_refused():
    types = {"dtype": "int8", "scales": (0.1,)}
    slope = constant("slope", np.array([1, 2, 3, 4], np.int8), (0.1,))
    tensors = [Tensor("x", (1, 4, 4), **types), slope, Tensor("y", (1, 4, 4), **types)]
    content = tflite_bytes(tensors, [Node("PRELU", [0, 1], [2])], [0], [2])
    with pytest.raises(UnsupportedOperator, match="slopes of shape"):
        parse_tflite(content, "one.tflite")


@pytest.mark.parametrize("source", ["float32", "int8"])
@pytest.mark.parametrize("kind", ["CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED"])
def test_weights_of_integers_without_a_scale_are_refused(kind, source):
    types = {} if source == "float32" else {"dtype": source, "scales": (0.1,)}
    dims, kernel, out = {
        "CONV_2D": ((1, 4, 4, 2), (3, 1, 1, 2), (1, 4, 4, 3)),
        "DEPTHWISE_CONV_2D": ((1, 4, 4, 2), (1, 1, 1, 2), (1, 4, 4, 2)),
        "FULLY_CONNECTED": ((1, 8), (3, 8), (1, 3)),
    }[kind]
    options = [(0, "b", 0)] if kind == "FULLY_CONNECTED" else [*STEPS, (3, "i", 1)]
    tensors = [Tensor("x", dims, **types), constant("w", np.ones(kernel, np.int8))]
    tensors.append(Tensor("y", out, **types))
    content = tflite_bytes(tensors, [Node(kind, [0, 1], [2], options)], [0], [2])
    with pytest.raises(UnsupportedOperator, match="'w' of int8 without a scale"):
        parse_tflite(content, "one.tflite")


def narrow_biases(options):
    """A convolution of int16 with biases of int32."""
    kernel = constant("w", np.ones((3, 1, 1, 2), np.int8), [0.01])
    bias = constant("b", np.array([5, 6, 7], np.int32), [0.001])
    tensors = [Tensor("x", (1, 4, 4, 2), "int16", (0.1,)), kernel, bias]
    tensors.append(Tensor("y", (1, 4, 4, 3), "int16", (0.1,)))
    return tflite_bytes(tensors, [Node("CONV_2D", [0, 1, 2], [3], options)], [0], [3])


def test_biases_that_litert_reads_as_wider_ones_are_refused():
    content = narrow_biases(STEPS)
    with pytest.raises(UnsupportedOperator, match="without quantized_bias_type"):
        parse_tflite(content, "one.tflite", runtime=Runtime.LITERT)
    # TensorFlow Lite Micro looks at the type of the tensor.
    outputs = []
    for options in (STEPS, [*STEPS, (BIAS_TYPE, "b", INT32)]):
        model = parse_tflite(narrow_biases(options), "one.tflite", with_weights=True)
        frame = np.arange(32, dtype=np.int16).reshape(2, 4, 4)
        outputs += run_layer_by_layer(model, {"x": frame}).values()
    assert np.array_equal(*outputs)
    parse_tflite(narrow_biases([*STEPS, (BIAS_TYPE, "b", INT32)]), "one.tflite",
                 runtime=Runtime.LITERT)  # fmt: skip

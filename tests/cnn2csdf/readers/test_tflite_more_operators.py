"""Operators of TensorFlow Lite files for embeddings, classifiers and sparse networks."""

import numpy as np
import pytest

from cnn2csdf.execution.layer_by_layer import run_layer_by_layer
from cnn2csdf.readers.tflite.reader import parse_tflite
from csdf.errors import UnreadableFile, UnsupportedOperator
from tests.cnn2csdf.readers.tflite_models import Node, Tensor, constant, one_node, tflite_bytes


def drawn(seed):
    random = np.random.default_rng(seed)
    return random, lambda low, high: int(random.integers(low, high + 1))


def case(kind, seed):
    """A file of one operator, its frames by name with the axes of the file, and the outputs."""
    random, draw = drawn(seed)
    dims = tuple(draw(1, 6) for _ in range(draw(1, 3)))
    values = (random.integers(-8, 9, (1, *dims)) / np.float32(4)).astype(np.float32)
    source, options, constants = Tensor("x", values.shape), [], []
    if kind == "L2_NORMALIZATION":
        lengths = np.sqrt((values.astype(np.float64) ** 2).sum(-1, keepdims=True))
        results = [values / np.maximum(lengths, 1e-6)]
    elif kind == "TOPK_V2":
        count = draw(1, dims[-1])
        constants = [constant("k", np.array(count, np.int32))]
        order = np.argsort(-values, axis=-1, kind="stable")[..., :count]
        results = [np.take_along_axis(values, order, -1), order.astype(np.int32)]
    elif kind == "REVERSE_V2":
        axes = sorted({draw(1, len(dims)) for _ in range(2)})
        constants = [constant("axes", np.array(axes, np.int32))]
        results = [np.flip(values, axes)]
    else:
        table = random.standard_normal((5, 3)).astype(np.float32)
        values = random.integers(0, 5, (1, draw(1, 6))).astype(np.int32)
        results = [table[values]]
        looked_up = [constant("table", table), Tensor("x", values.shape, "int32")]
        if kind == "EMBEDDING_LOOKUP":
            values, results = values[0], [table[values[0]]]
            looked_up = [Tensor("x", values.shape, "int32"), looked_up[0]]
        tensors = [*looked_up, Tensor("y", results[0].shape)]
        number = next(place for place, tensor in enumerate(tensors) if tensor.name == "x")
        options = [(0, "i", 0)] if kind == "GATHER" else []
        content = tflite_bytes(tensors, [Node(kind, [0, 1], [2], options)], [number], [2])
        return content, values, results
    outputs = [
        Tensor(f"y{place}", result.shape, "int32" if result.dtype.kind == "i" else "float32")
        for place, result in enumerate(results)
    ]
    return one_node(kind, [source, *constants], outputs, options), values, results


def one_hot_file(values, depth, on=1.0, width=None):
    """A file of ones along a new last axis; width: of the output, by default the depth."""
    constants = [
        constant("depth", np.array(depth, np.int32)),
        *(constant(name, np.array(value, np.float32)) for name, value in (("on", on), ("off", 0))),
    ]
    source, output = (
        Tensor("x", values.shape, "int32"),
        Tensor("y", (*values.shape, width or depth)),
    )
    return one_node("ONE_HOT", [source, *constants], output, [(0, "i", -1)])


@pytest.mark.parametrize("dims", [(1, 5), (1, 3, 4), (1, 2, 3, 2)], ids=str)
def test_numbers_become_ones_along_a_new_axis(dims):
    depth = 6
    # Numbers beyond both ends mark nothing.
    values = np.random.default_rng(0).integers(-2, depth + 2, dims).astype(np.int32)
    model = parse_tflite(one_hot_file(values, depth), "one.tflite", with_weights=True)
    (source,) = model.network.inputs
    frame = np.moveaxis(values[0], 2, 0) if len(dims) == 4 else values[0]
    (result,) = run_layer_by_layer(model, {"x": frame.reshape(source.shape.dims)}).values()
    expected = (values[0][..., None] == np.arange(depth)).astype(np.float32)
    if len(dims) == 3:
        expected = np.moveaxis(expected, 2, 0)
    assert np.array_equal(result, expected.reshape(result.shape))


def test_ones_of_another_value_are_refused():
    content = one_hot_file(np.zeros((1, 3), np.int32), 4, on=2.0)
    with pytest.raises(UnsupportedOperator, match="values of 2 and 0, expected 1 and 0"):
        parse_tflite(content, "one.tflite")


@pytest.mark.parametrize("depth", [0, -3, 2**31 - 1])
def test_a_depth_beyond_all_tables_ends_in_one_message(depth):
    content = one_hot_file(np.zeros((1, 3), np.int32), depth, width=4)
    with pytest.raises(UnsupportedOperator, match=f"a depth of {depth}"):
        parse_tflite(content, "one.tflite")


KINDS = (
    *("L2_NORMALIZATION", "TOPK_V2", "REVERSE_V2"),
    *("EMBEDDING_LOOKUP", "GATHER"),
)


def ours_of(values, layer):
    """A frame as a layer has it."""
    is_map = values.ndim == 4
    array = np.moveaxis(values[0], 2, 0) if is_map else values
    return array.reshape(layer.shape.dims)


def outputs_of(content, values):
    model = parse_tflite(content, "one.tflite", with_weights=True)
    (layer,) = model.network.inputs
    return list(run_layer_by_layer(model, {layer.name: ours_of(values, layer)}).values())


@pytest.mark.parametrize("kind", KINDS)
def test_an_operator_computes_what_its_description_says(kind):
    for seed in range(20):
        content, values, expected = case(kind, seed)
        for result, wanted in zip(outputs_of(content, values), expected, strict=True):
            in_file = np.moveaxis(result, 0, 2) if wanted.ndim == 4 else result
            np.testing.assert_allclose(in_file.reshape(wanted.shape), wanted, rtol=1e-5, atol=1e-6)


def compressed(dense, block):
    """The elements of a matrix stored row by row in blocks of columns, and its sparsity."""
    rows, columns = dense.shape
    blocks = dense.reshape(rows, columns // block, block)
    kept = blocks.any(2)
    segments = np.concatenate([[0], kept.sum(1).cumsum()]).astype(np.int32)
    indices = kept.nonzero()[1]
    kinds = (np.int32, np.uint16, np.uint8)
    levels = [rows, tuple(array.astype(kinds[rows % 3]) for array in (segments, indices)), block]
    return blocks[kept].reshape(-1), ([0, 1, 2], [1], levels)


def sparse_file(dense, block):
    values, sparsity = compressed(dense, block)
    matrix = Tensor("w", dense.shape, str(dense.dtype), array=values, sparsity=sparsity)
    tensors = [Tensor("x", (1, dense.shape[1])), matrix, Tensor("dense", dense.shape),
               Tensor("y", (1, len(dense)))]  # fmt: skip
    nodes = [Node("DENSIFY", [1], [2]), Node("FULLY_CONNECTED", [0, 2], [3], [(0, "b", 0)])]
    return tflite_bytes(tensors, nodes, [0], [3])


@pytest.mark.parametrize("seed", range(12))
def test_a_sparse_matrix_multiplies_as_the_dense_one(seed):
    random, draw = drawn(seed)
    rows, block = draw(1, 6), draw(1, 3)
    dense = random.integers(-2, 3, (rows, block * draw(1, 4))).astype(np.float32)
    dense[random.uniform(size=dense.shape) < 0.6] = 0
    dense[0, 0] = 1
    values = random.integers(-3, 4, (1, dense.shape[1])).astype(np.float32)
    (result,) = outputs_of(sparse_file(dense, block), values)
    assert np.array_equal(result.reshape(-1), dense @ values[0])


def test_a_damaged_sparse_matrix_ends_in_one_message():
    dense = np.eye(4, 6, dtype=np.float32)
    values, (order, blocks, levels) = compressed(dense, 2)
    segments, indices = levels[1]
    for damaged in (
        (order[:2], blocks, levels),
        (order, [5], levels),
        (order, blocks, [4, (segments[:-1], indices), 2]),
        (order, blocks, [4, (segments + 1, indices), 2]),
        (order, blocks, [4, (segments, indices + 9), 2]),
        (order, blocks, [4, (np.uint8([0, 2, 2, 3, 4]), np.uint8([1, 1, 0, 1])), 2]),
        (order, blocks, [4, (segments, indices), (np.uint8(range(0, 9, 2)), np.uint8([0, 1] * 4))]),
        (order, blocks, [2**31 - 1, (segments, indices), 2]),
        (order, blocks, [4, (segments, indices), 2**30]),
    ):
        matrix = Tensor("w", dense.shape, array=values, sparsity=damaged)
        tensors = [Tensor("x", (1, 6)), matrix, Tensor("y", (1, 4))]
        content = tflite_bytes(tensors, [Node("FULLY_CONNECTED", [0, 1], [2])], [0], [2])
        with pytest.raises(UnreadableFile, match="a sparse constant does not fit"):
            parse_tflite(content, "a")


def unit_vectors(seed, dtype):
    """A file of a normalisation of bytes, whose results are 128ths, and its frame."""
    random, draw = drawn(seed)
    limits, middle = np.iinfo(dtype), 128 if dtype == "uint8" else 0
    dims = (1, *(draw(1, 4) for _ in range(draw(0, 2))), draw(1, 40))
    zero = draw(limits.min, limits.max)
    spread = draw(1, 128)
    values = np.clip(zero + random.integers(-spread, spread + 1, dims), limits.min, limits.max)
    source = Tensor("x", dims, dtype, (0.5,), zero)
    result = Tensor("y", dims, dtype, (1 / 128,), middle)
    content = one_node("L2_NORMALIZATION", [source], result, [(0, "b", 0)])
    lengths = np.sqrt(((values - zero) ** 2.0).sum(-1, keepdims=True))
    exact = (values - zero) / np.maximum(lengths, 1e-6)
    return content, values.astype(dtype), np.clip(128 * exact + middle, limits.min, limits.max)


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_vectors_of_bytes_are_within_a_step_of_unit_vectors(dtype):
    for seed in range(20):
        content, values, exact = unit_vectors(seed, dtype)
        (result,) = outputs_of(content, values)
        in_file = np.moveaxis(result, 0, 2) if values.ndim == 4 else result
        assert np.abs(in_file.reshape(exact.shape) - exact).max() <= 1


def test_a_softmax_with_a_beta_scales_its_input_first():
    frame = np.linspace(-1, 2, 6, dtype=np.float32)
    results = []
    for beta, scale in ((2.0, 1), (1.0, 2)):
        content = one_node("SOFTMAX", [Tensor("x", (1, 6))], Tensor("y", (1, 6)), [(0, "f", beta)])
        (result,) = outputs_of(content, frame * np.float32(scale))
        results.append(result)
    assert np.array_equal(*results)


def test_a_beta_of_quantised_integers_is_refused():
    operands = Tensor("x", (1, 6), "int8", (0.1,)), Tensor("y", (1, 6), "int8", (1 / 256,), -128)
    content = one_node("SOFTMAX", [operands[0]], operands[1], [(0, "f", 2.0)])
    with pytest.raises(UnsupportedOperator, match=r"beta is 2\.0, expected 1 for quantised"):
        parse_tflite(content, "one.tflite")

"""MediaPipe's max pooling that tells where maxima are, and its inverse."""

import struct

import numpy as np
import pytest

from cnn2csdf import operators as op
from cnn2csdf.execution.layer_by_layer import run_layer_by_layer
from cnn2csdf.readers.tflite.reader import parse_tflite
from csdf.errors import UnreadableFile, UnsupportedOperator
from tests.cnn2csdf.execution.single_layers import SingleLayer, row_by_row
from tests.cnn2csdf.readers.tflite_models import Node, Tensor, one_node, tflite_bytes

SAME, VALID = 1, 2
POOLING, UNPOOLING = "CUSTOM:MaxPoolingWithArgmax2D", "CUSTOM:MaxUnpooling2D"


def options(padding, stride, size):
    return struct.pack("<10i", padding, stride[1], stride[0], size[1], size[0], 0, 0, 0, 0, 0)


def pooled(maps, size, stride, padding):
    """Maximum and its number in each window, pixel by pixel."""
    places, before = [], []
    for length, step, taps in zip(maps.shape, stride, size, strict=False):
        count = -(-length // step) if padding == SAME else (length - taps) // step + 1
        places.append(count)
        before.append(max((count - 1) * step + taps - length, 0) // 2 if padding == SAME else 0)
    values = np.zeros((*places, maps.shape[2]), np.float32)
    numbers = np.zeros_like(values)
    for y, x, c in np.ndindex(*values.shape):
        best = -np.inf
        for j, i in np.ndindex(*size):
            row, column = y * stride[0] - before[0] + j, x * stride[1] - before[1] + i
            inside = 0 <= row < maps.shape[0] and 0 <= column < maps.shape[1]
            if inside and maps[row, column, c] > best:
                best, numbers[y, x, c] = maps[row, column, c], np.float32(j * size[1] + i)
        values[y, x, c] = best
    return values, numbers + np.float32(0.1)


def pooling_file(dims, size, stride, padding, out):
    tensors = [Tensor("x", (1, *dims)), Tensor("y", (1, *out)), Tensor("n", (1, *out))]
    node = Node(POOLING, [0], [1, 2], custom=options(padding, stride, size))
    return tflite_bytes(tensors, [node], [0], [1, 2])


@pytest.mark.parametrize("seed", range(20))
def test_maxima_and_their_numbers_are_those_of_each_window(seed):
    random = np.random.default_rng(seed)
    draw = lambda low, high: int(random.integers(low, high + 1))  # noqa: E731
    size, stride, padding = (draw(1, 3), draw(1, 3)), (draw(1, 3), draw(1, 3)), draw(1, 2)
    maps = random.integers(-3, 4, (draw(3, 7), draw(3, 7), draw(1, 3))).astype(np.float32)
    expected = pooled(maps, size, stride, padding)
    content = pooling_file(maps.shape, size, stride, padding, expected[0].shape)
    model = parse_tflite(content, "a", with_weights=True)
    results = run_layer_by_layer(model, {"x": np.moveaxis(maps, 2, 0)}).values()
    for result, wanted in zip(results, expected, strict=True):
        assert np.array_equal(np.moveaxis(result, 0, 2), wanted)


@pytest.mark.parametrize("size", [(2, 2), (1, 3), (3, 2)])
def test_unpooling_puts_maxima_back_where_they_were(size):
    random = np.random.default_rng(1)
    maps = random.standard_normal((4 * size[0], 5 * size[1], 3)).astype(np.float32)
    values, numbers = pooled(maps, size, size, VALID)
    tensors = [Tensor("v", (1, *values.shape)), Tensor("n", (1, *values.shape))]
    content = one_node(
        UNPOOLING, tensors, Tensor("y", (1, *maps.shape)), custom=options(SAME, size, size)
    )
    model = parse_tflite(content, "a", with_weights=True)
    frame = {"v": np.moveaxis(values, 2, 0), "n": np.moveaxis(numbers, 2, 0)}
    (result,) = run_layer_by_layer(model, frame).values()
    tops = maps.reshape(4, size[0], 5, size[1], 3).max((1, 3), keepdims=True)
    kept = np.where(maps.reshape(4, size[0], 5, size[1], 3) == tops, tops, 0).reshape(maps.shape)
    assert np.array_equal(np.moveaxis(result, 0, 2), kept)


def test_unpooling_of_overlapping_windows_is_refused_by_their_size():
    tensors = [Tensor("v", (1, 2, 2, 1)), Tensor("n", (1, 2, 2, 1))]
    content = one_node(
        UNPOOLING, tensors, Tensor("y", (1, 6, 6, 1)), custom=options(SAME, (2, 2), (3, 3))
    )
    with pytest.raises(UnsupportedOperator, match=r"windows of \(3, 3\) with steps of \(2, 2\)"):
        parse_tflite(content, "a")


def test_options_of_a_pooling_that_are_damaged_end_in_one_message():
    for custom, message in (
        (b"\1\0\0\0", "4 bytes of options; expected 24"),
        (options(SAME, (2**31 - 1, 1), (2, 2)), "strides and sizes"),
        (options(9, (1, 1), (2, 2)), "padding 9"),
    ):
        node = Node(POOLING, [0], [1, 2], custom=custom)
        tensors = [Tensor(name, (1, 4, 4, 1)) for name in "xyn"]
        with pytest.raises(UnreadableFile, match=message):
            parse_tflite(tflite_bytes(tensors, [node], [0], [1, 2]), "a")


@pytest.mark.parametrize("kind", ["pooling", "unpooling"])
def test_rows_one_by_one_are_those_of_the_whole(kind):
    if kind == "pooling":
        window = op.Window(kernel=(3, 2), stride=(2, 1), padding=(1, 1, 1, 0))
        single = SingleLayer(op.PlaceOfMaximum(window=window), (2, 7, 5))
    else:
        single = SingleLayer(op.Unpooling(block=(3, 2)), (2, 4, 5), (2, 4, 5))
    assert np.array_equal(row_by_row(single), single.whole())

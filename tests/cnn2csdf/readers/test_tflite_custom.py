"""Operators of TensorFlow Lite files that are no part of its schema, and whose source is public."""

import struct

import numpy as np
import pytest

from cnn2csdf.execution.layer_by_layer import run_layer_by_layer
from cnn2csdf.readers.tflite.reader import parse_tflite
from csdf.errors import UnreadableFile
from tests.cnn2csdf.readers.tflite_models import Tensor, constant, one_node

SAME, VALID = 1, 2
TRANSPOSED = "CUSTOM:Convolution2DTransposeBias"


def scattered(maps, kernel, bias, stride, is_same):
    """Each pixel times each filter, added to the result one by one, as MediaPipe computes."""
    height, width, _ = maps.shape
    filters, rows, columns, _ = kernel.shape
    trims = [
        max(0, size - (length - 1) % step - 1) if is_same else 0
        for size, length, step in ((rows, height, stride[0]), (columns, width, stride[1]))
    ]
    sizes = [
        step * (length - 1) + size - trim
        for size, length, step, trim in zip(
            (rows, columns), (height, width), stride, trims, strict=True
        )
    ]
    result = np.zeros((*sizes, filters)) + bias
    for y, x in np.ndindex(height, width):
        for j, i in np.ndindex(rows, columns):
            row = y * stride[0] - trims[0] // 2 + j
            column = x * stride[1] - trims[1] // 2 + i
            if 0 <= row < sizes[0] and 0 <= column < sizes[1]:
                result[row, column] += kernel[:, j, i] @ maps[y, x]
    return result


@pytest.mark.parametrize("seed", range(20))
def test_the_transposed_convolution_of_mediapipe_gives_sums_of_scattered_products(seed):
    random = np.random.default_rng(seed)
    draw = lambda low, high: int(random.integers(low, high + 1))  # noqa: E731
    stride, is_same = (draw(1, 3), draw(1, 3)), bool(draw(0, 1))
    maps = random.integers(-3, 4, (draw(1, 5), draw(1, 5), draw(1, 3)))
    kernel = random.integers(-3, 4, (draw(1, 3), draw(1, 4), draw(1, 4), maps.shape[2]))
    kernel = kernel[:, : max(stride[0], kernel.shape[1]), : max(stride[1], kernel.shape[2])]
    if kernel.shape[1] < stride[0] or kernel.shape[2] < stride[1]:
        stride = (min(stride[0], kernel.shape[1]), min(stride[1], kernel.shape[2]))
    bias = random.integers(-3, 4, len(kernel))
    expected = scattered(maps, kernel, bias, stride, is_same)
    content = one_node(
        TRANSPOSED,
        [Tensor("x", (1, *maps.shape)), constant("w", kernel.astype(np.float32)),
         constant("b", bias.astype(np.float32))],
        Tensor("y", (1, *expected.shape)),
        custom=struct.pack("<iii", SAME if is_same else VALID, stride[1], stride[0]),
    )  # fmt: skip
    model = parse_tflite(content, "a", with_weights=True)
    (result,) = run_layer_by_layer(model, {"x": np.moveaxis(maps, 2, 0)}).values()
    assert np.array_equal(np.moveaxis(result, 0, 2), expected)


def test_options_that_are_too_short_are_refused_by_their_size():
    tensors = [Tensor("x", (1, 2, 2, 1)), constant("w", np.ones((1, 2, 2, 1), np.float32))]
    content = one_node(TRANSPOSED, tensors, Tensor("y", (1, 4, 4, 1)), custom=b"\1\0\0\0")
    with pytest.raises(UnreadableFile, match=r"4 bytes of options; expected 12"):
        parse_tflite(content, "a")

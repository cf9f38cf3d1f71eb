"""MIRROR_PAD of TensorFlow Lite files, with the border itself or without, as NumPy pads."""

import numpy as np
import pytest

from cnn2csdf.execution.layer_by_layer import run_layer_by_layer
from cnn2csdf.readers.tflite.reader import parse_tflite
from csdf.errors import UnreadableFile
from tests.cnn2csdf.readers.tflite_models import Tensor, constant, one_node


def mirrored(dims, amounts, mode):
    """A file that pads rows, columns and channels."""
    after = tuple(size + sum(amount) for size, amount in zip(dims, amounts, strict=True))
    return one_node(
        "MIRROR_PAD",
        [Tensor("x", dims), constant("amounts", np.array(amounts, np.int32))],
        Tensor("y", after),
        [(0, "b", mode)],
    )


@pytest.mark.parametrize(("number", "mode", "most"), [(0, "reflect", 1), (1, "symmetric", 0)])
def test_a_mirrored_border_is_that_of_numpy(number, mode, most):
    random = np.random.default_rng(number)
    for _ in range(20):
        dims = (1, *random.integers(2, 6, 2).tolist(), 3)
        amounts = [
            (0, 0),
            *(tuple(random.integers(0, n - most + 1, 2).tolist()) for n in dims[1:3]),
        ]
        amounts.append((0, 0))
        model = parse_tflite(mirrored(dims, amounts, number), "one.tflite", with_weights=True)
        frame = random.standard_normal(dims[1:]).astype(np.float32)
        (source,) = model.network.inputs
        (found,) = run_layer_by_layer(model, {source.name: frame.transpose(2, 0, 1)}).values()
        expected = np.pad(frame, amounts[1:], mode=mode)
        assert np.array_equal(found.transpose(1, 2, 0), expected)


def test_an_unknown_mirror_is_refused():
    content = mirrored((1, 3, 3, 1), [(0, 0), (1, 1), (1, 1), (0, 0)], 2)
    with pytest.raises(UnreadableFile, match="mode 2; expected 0 or 1"):
        parse_tflite(content, "one.tflite")

"""Weights of int8 for inputs of floating point, as dynamic-range exports of TensorFlow Lite have.

litert_hybrid_outputs.json holds outputs of the reference kernels of ai-edge-litert 2
(OpResolverType.BUILTIN_REF) for files and frames of `hybrid_case`.
"""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cnn2csdf.execution.layer_by_layer import run_layer_by_layer
from cnn2csdf.readers.tflite.reader import parse_tflite
from csdf.errors import UnsupportedOperator
from tests.cnn2csdf.readers.tflite_models import Tensor, constant, one_node
from tests.shared_data import SHARED

FOLDER = SHARED / "networks" / "tflite"
RECORDED = json.loads((Path(__file__).parent / "litert_hybrid_outputs.json").read_text())
KINDS = ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED", "FULLY_CONNECTED of vectors")


def hybrid_case(kind, seed):
    """A file of one operator, and its frame with the axes of the file."""
    random = np.random.default_rng(seed)
    draw = lambda low, high: int(random.integers(low, high + 1))  # noqa: E731

    def weights(dims, axis, count):
        by_channel = kind != "CONV_2D" or draw(0, 1)
        array = random.integers(-127, 128, dims).astype(np.int8)
        scales = random.uniform(0.001, 0.02, count if by_channel else 1).astype(np.float32)
        made = constant("w", array, scales.tolist())
        made.axis = axis
        return made

    units = draw(1, 6)
    bias = constant("b", random.standard_normal(units).astype(np.float32))
    if kind.startswith("FULLY"):
        columns = draw(1, 20)
        rows = (draw(2, 5),) if kind.endswith("vectors") else ()
        dims, out = (1, *rows, columns), (1, *rows, units)
        array = random.integers(-127, 128, (units, columns)).astype(np.int8)
        matrix = constant("w", array, [float(np.float32(random.uniform(0.001, 0.02)))])
        options = [(0, "b", draw(0, 1)), (2, "b", int(bool(rows))), (3, "b", draw(0, 1))]
        operands = [Tensor("x", dims), matrix, bias]
    else:
        kernel, stride, is_same = (draw(1, 3), draw(1, 3)), draw(1, 2), draw(0, 1)
        dims = (1, draw(4, 7), draw(4, 7), draw(1, 4))
        sizes = [
            -(-size // stride) if is_same else -(-(size - k + 1) // stride)
            for size, k in zip(dims[1:3], kernel, strict=True)
        ]
        options = [(0, "b", 1 - is_same), (1, "i", stride), (2, "i", stride)]
        if kind == "CONV_2D":
            trained = weights((units, *kernel, dims[3]), 0, units)
            options += [(3, "b", draw(0, 1)), (4, "i", 1), (5, "i", 1)]
        else:
            multiple = draw(1, 2)
            units = dims[3] * multiple
            bias = constant("b", random.standard_normal(units).astype(np.float32))
            trained = weights((1, *kernel, units), 3, units)
            options += [(3, "i", multiple), (4, "b", draw(0, 1)), (5, "i", 1), (6, "i", 1)]
        operands, out = [Tensor("x", dims), trained, bias], (1, *sizes, units)
    content = one_node(kind.partition(" ")[0], operands, Tensor("y", out), options)
    frame = (random.standard_normal(dims) * 3 + draw(-2, 2)).astype(np.float32)
    return content, frame


def embedding_case(scales, zero=0, axis=0):
    """A file that looks up rows of a table of int8 in floating point, its table, and its frame."""
    random = np.random.default_rng(len(scales))
    table = constant("w", random.integers(-128, 128, (5, 4)).astype(np.int8), scales, zero)
    table = replace(table, axis=axis)
    frame = np.array([4, 0, 2, 2, 1, 3], np.int32)
    operands = [Tensor("x", frame.shape, "int32"), table]
    return one_node("EMBEDDING_LOOKUP", operands, Tensor("y", (6, 4))), table.array, frame


BY_ROW = (0.01, 0.02, 0.5, 0.007, 0.3)


@pytest.mark.parametrize("scales", [(0.013,), BY_ROW], ids=("one scale", "by row"))
def test_rows_of_a_table_of_int8_are_multiplied_by_their_scales(scales):
    # Bit by bit the output of LiteRT's reference kernel, which was run on these files.
    content, table, frame = embedding_case(scales)
    model = parse_tflite(content, "a", with_weights=True)
    (layer,) = model.network.inputs
    indices = frame.reshape(layer.shape.dims)
    (result,) = run_layer_by_layer(model, {layer.name: indices}).values()
    factors = np.broadcast_to(np.array(scales, np.float32), 5)[:, None]
    assert np.array_equal(result.reshape(6, 4), (table * factors)[frame])
    assert result.dtype == np.float32


@pytest.mark.parametrize(
    "types",
    [
        {"scales": (0.013,), "zero": 3},
        {"scales": BY_ROW, "axis": 1},
    ],
    ids=("zero point", "along columns"),
)
def test_a_table_of_int8_that_litert_refuses_is_refused(types):
    with pytest.raises(UnsupportedOperator, match="a table of int8; expected"):
        parse_tflite(embedding_case(**types)[0], "a")


def result_of(content, frame):
    """The output of a file with the axes of the file, flat."""
    model = parse_tflite(content, "a", with_weights=True)
    (layer,) = model.network.inputs
    value = np.moveaxis(frame[0], 2, 0) if frame.ndim == 4 else frame[0]
    (result,) = run_layer_by_layer(model, {layer.name: value}).values()
    return (np.moveaxis(result, 0, 2) if result.ndim == 3 else result).reshape(-1)


@pytest.mark.parametrize("kind", KINDS)
def test_a_product_with_weights_of_int8_gives_the_recorded_outputs(kind):
    for seed, expected in enumerate(RECORDED[kind]):
        result, expected = result_of(*hybrid_case(kind, seed)), np.array(expected, np.float32)
        limit = 1e-6 * np.abs(expected).max()
        assert np.abs(result - expected).max() <= limit


@pytest.mark.parametrize("kind", KINDS)
def test_a_product_with_weights_of_int8_is_near_that_of_real_weights(kind):
    content, frame = hybrid_case(kind, 3)
    model = parse_tflite(content, "a", with_weights=True)
    (layer,) = (layer for layer in model.network.layers if layer.stored)
    assert layer.stored_as("kernel" if "CONV" in kind else "matrix").element.value == "int8"
    result = result_of(content, frame)
    smaller = result_of(content, frame * np.float32(0.5))
    assert np.abs(result).max() > 0
    assert not np.array_equal(result, smaller)


def test_a_keyword_spotter_with_weights_of_int8_gives_the_outputs_beside_it():
    if not (FOLDER / "kws_fp32.tflite").exists():
        pytest.skip(f"the file is not in {FOLDER}")
    golden = np.load(FOLDER / "golden" / "kws_fp32.npz")
    content = (FOLDER / "kws_fp32.tflite").read_bytes()
    for frame in range(3):
        expected = golden[f"y0_{frame}"].reshape(-1)
        assert np.abs(result_of(content, golden[f"x0_{frame}"]) - expected).max() <= 1e-6


def test_equal_scales_of_all_channels_are_one_scale():
    random = np.random.default_rng(0)
    frame = random.standard_normal((1, 4, 4, 2)).astype(np.float32)
    array, results = random.integers(-127, 128, (3, 2, 2, 2)).astype(np.int8), []
    for scales in ((0.01,), (0.01,) * 3, (0.01, 0.01, 0.02)):
        operands = [
            Tensor("x", frame.shape),
            constant("w", array, scales),
            constant("b", np.zeros(3, np.float32)),
        ]
        options = [(0, "b", 1), (1, "i", 1), (2, "i", 1)]
        content = one_node("CONV_2D", operands, Tensor("y", (1, 3, 3, 3)), options)
        results.append(result_of(content, frame).reshape(9, 3)[:, 0])
    assert np.array_equal(results[0], results[1])
    assert not np.array_equal(results[0], results[2])


def test_a_frame_of_zeros_gives_the_biases():
    for kind in KINDS:
        content, frame = hybrid_case(kind, 5)
        result = result_of(content, np.zeros_like(frame))
        assert np.isfinite(result).all()

"""ONNX operators that are read as compositions, against the reference implementation of the package."""

import numpy as np
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

from cnn2csdf.execution.layer_by_layer import run_layer_by_layer
from cnn2csdf.onnx_files.reader import read_onnx
from cnn2csdf.operators import MatrixProduct
from csdf.errors import UnsupportedOperator
from tests.cnn2csdf.onnx_models import graph_model, numbers, one_node, saved

MAPS = (1, 4, 3, 5)
OTHERS = {
    "ReduceSumSquare": one_node("ReduceSumSquare", opset=13, inputs={"x": MAPS}, axes=[1, 3]),
    "ReduceSumSquare 18": one_node(
        "ReduceSumSquare", np.array([2]), opset=18, inputs={"x": MAPS}, keepdims=0
    ),
    "ReduceL1": one_node("ReduceL1", opset=13, inputs={"x": MAPS}, axes=[2]),
    "ReduceLogSum": one_node("ReduceLogSum", opset=13, inputs={"x": MAPS}, axes=[1]),
    "GroupNormalization": one_node(
        "GroupNormalization", numbers((4,), 1), numbers((4,), 2), opset=21,
        inputs={"x": MAPS}, num_groups=2,
    ),
    "RMSNormalization": one_node(
        "RMSNormalization", numbers((5,), 1), opset=23, inputs={"x": MAPS}, axis=-1
    ),
    "MeanVarianceNormalization": one_node(
        "MeanVarianceNormalization", opset=13, inputs={"x": MAPS}, axes=[0, 2, 3]
    ),
    "LpNormalization": one_node("LpNormalization", inputs={"x": MAPS}, axis=1, p=2),
    "LpNormalization by magnitudes": one_node("LpNormalization", inputs={"x": MAPS}, axis=2, p=1),
    "Trilu": one_node("Trilu", inputs={"x": MAPS}, upper=0),
    "Trilu above a diagonal": one_node("Trilu", np.array(1), inputs={"x": MAPS}, upper=1),
    "Shrink": one_node("Shrink", inputs={"x": MAPS}, lambd=0.3, bias=0.1),
    "BatchNormalization": graph_model(
        [
            helper.make_node("ReduceMean", ["x"], ["mean"], axes=[0, 2, 3], keepdims=0),
            helper.make_node("Abs", ["mean"], ["variance"]),
            helper.make_node("BatchNormalization", ["x", "s", "b", "mean", "variance"], ["y"]),
        ],
        inputs={"x": MAPS},
        constants={"s": numbers((4,), 1), "b": numbers((4,), 2)},
        opset=15,
    ),
}  # fmt: skip


def outputs(model, frame, folder):
    """Outputs of the network, and of the reference implementation."""
    (expected,) = ReferenceEvaluator(model).run(None, frame)
    network = read_onnx(saved(model, folder), with_weights=True)
    dims = {layer.name: layer.shape.dims for layer in network.network.inputs}
    given = {name: array.reshape(dims[name]) for name, array in frame.items()}
    (result,) = run_layer_by_layer(network, given).values()
    return result.reshape(expected.shape), expected


@pytest.mark.parametrize("name", OTHERS)
def test_an_operator_is_the_composition_that_its_text_says(name, tmp_path):
    # The reference implementation sums powers of negative numbers, not of magnitudes.
    is_positive = name in ("ReduceLogSum", "LpNormalization by magnitudes")
    frame = {"x": numbers(MAPS, 5, low=0.1 if is_positive else -1.0)}
    result, expected = outputs(OTHERS[name], frame, tmp_path)
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("axis", [-1, 0, 1])
@pytest.mark.parametrize("kind", [TensorProto.INT64, TensorProto.INT32, TensorProto.UINT8])
def test_a_one_hot_marks_the_number_also_from_the_end(kind, axis, tmp_path):
    model = one_node(
        "OneHot", np.array(6), np.array([-1, 3], np.float32), inputs={"x": (1, 5)}, axis=axis
    )
    model.graph.input[0].type.tensor_type.elem_type = kind
    dtype = helper.tensor_dtype_to_np_dtype(kind)
    # Beyond both ends nothing is marked.
    indices = [0, 5, 6, 3, 9] if kind == TensorProto.UINT8 else [0, 5, 6, -1, -7]
    result, _ = outputs(model, {"x": np.array([indices], dtype)}, tmp_path)
    marks = [place if place >= 0 else place + 6 for place in indices]
    expected = np.where(np.array(marks)[:, None] == np.arange(6), 3, -1)
    wanted = np.moveaxis(expected[None], -1, axis)
    assert np.array_equal(result, wanted)


def test_a_one_hot_of_a_depth_from_the_frame_is_refused(tmp_path):
    inputs = {"x": (1, 5), "depth": (1,)}
    node = helper.make_node("OneHot", ["x", "depth", "values"], ["y"])
    constants = {"values": np.array([0, 1], np.float32)}
    model = graph_model([node], inputs=inputs, constants=constants)
    with pytest.raises(UnsupportedOperator, match="a depth or values"):
        read_onnx(saved(model, tmp_path))


def test_the_length_of_zeros_divides_nothing(tmp_path):
    model = one_node("LpNormalization", inputs={"x": (1, 4)}, axis=1, p=2)
    network = read_onnx(saved(model, tmp_path), with_weights=True)
    (result,) = run_layer_by_layer(network, {"x": np.zeros(4, np.float32)}).values()
    assert result.tolist() == [0, 0, 0, 0]


PRODUCTS = {  # of attention and its projections, as exporters of Keras and einops write them
    "abc,cde->abde": ((1, 3, 4), (4, 2, 5)),
    "abcd,cde->abe": ((1, 3, 2, 4), (2, 4, 5)),
    "aecd,abcd->acbe": ((1, 5, 2, 4), (1, 3, 2, 4)),
    "acbe,aecd->abcd": ((1, 2, 3, 5), (1, 5, 2, 4)),
    "nchw,cd->ndhw": ((1, 4, 3, 3), (4, 5)),
    "bti,io->bto": ((1, 5, 6), (6, 3)),
}


@pytest.mark.parametrize("equation", PRODUCTS)
def test_an_einsum_that_is_a_product_of_matrices_becomes_one(equation, tmp_path):
    first, second = PRODUCTS[equation]
    if second[0] == 1:
        model = one_node("Einsum", inputs={"x": first, "z": second}, equation=equation)
        frame = {"x": numbers(first, 1), "z": numbers(second, 2)}
    else:
        model = one_node("Einsum", numbers(second, 2), inputs={"x": first}, equation=equation)
        frame = {"x": numbers(first, 1)}
    result, expected = outputs(model, frame, tmp_path)
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-6)
    layers = read_onnx(saved(model, tmp_path)).network.layers
    assert any(isinstance(layer.operator, MatrixProduct) for layer in layers)


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_a_sequence_with_frames_first_is_no_batch(kind, tmp_path):
    rows = {"LSTM": 4, "GRU": 3, "RNN": 1}[kind] * 6
    weights = numbers((1, rows, 5), 1), numbers((1, rows, 6), 2), numbers((1, 2 * rows), 3)
    model = one_node(kind, *weights, inputs={"x": (9, 1, 5)}, hidden_size=6)
    result, expected = outputs(model, {"x": numbers((9, 1, 5), 4)}, tmp_path)
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-6)


def test_a_sum_over_the_pixels_of_two_maps_stays_a_layer_that_adds_rows(tmp_path):
    model = one_node("Einsum", inputs={"x": MAPS, "z": (1, 6, 3, 5)}, equation="bchw,bdhw->bcd")
    layers = read_onnx(saved(model, tmp_path)).network.layers
    assert [layer.operator.in_words() for layer in layers[2:-1]] == ["einsum chw,dhw->cd"]

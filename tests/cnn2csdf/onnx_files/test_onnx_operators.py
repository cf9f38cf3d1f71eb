"""Nodes become layers: their geometry, their attributes and their weights."""

from math import inf

import numpy as np
import pytest
from onnx import helper
from onnx.reference import ReferenceEvaluator

from cnn2csdf import operators as op
from cnn2csdf.execution.layer_by_layer import run_layer_by_layer
from cnn2csdf.onnx_files.reader import read_onnx
from csdf.errors import UnreadableFile, UnsupportedOperator
from tests.cnn2csdf.onnx_models import graph_model, numbers, one_node, saved


def model_of(model, folder):
    return read_onnx(saved(model, folder), with_weights=True)


def operators(model, folder):
    """The operators between the input and the output."""
    layers = model_of(model, folder).network.layers
    return [layer.operator for layer in layers if not layer.is_end]


def ints(*values):
    return np.array(values, np.int64)


def test_onnx_lists_padding_as_top_left_bottom_right(tmp_path):
    model = one_node("Conv", numbers((4, 3, 3, 2)), pads=[1, 2, 3, 4], strides=[2, 1])
    (found,) = operators(model, tmp_path)
    window = op.Window(kernel=(3, 2), stride=(2, 1), padding=(1, 2, 3, 4))
    assert found == op.Convolution(filters=4, window=window, has_bias=False)


@pytest.mark.parametrize(
    ("auto_pad", "padding"),
    [  # 6 rows by 3 with stride 2: ceil(6 / 2) = 3 windows cover 7, one row more; 7 columns: none,
        # since 4 windows of 2 cover 8, one column more
        ("SAME_UPPER", (0, 0, 1, 1)),
        ("SAME_LOWER", (1, 1, 0, 0)),
        ("VALID", (0, 0, 0, 0)),
    ],
)
def test_automatic_padding_becomes_numbers(auto_pad, padding, tmp_path):
    model = one_node("MaxPool", kernel_shape=[3, 2], strides=[2, 2], auto_pad=auto_pad)
    (found,) = operators(model, tmp_path)
    assert found.window.padding == padding


def test_ceil_mode_becomes_an_overhang(tmp_path):
    model = one_node("MaxPool", kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1)
    (found,) = operators(model, tmp_path)
    # Rows 0-2, 2-4 and 4-6 of 0-5: one beyond. Columns 0-2, 2-4, 4-6 of 0-6: none.
    assert found.window.overhang == (1, 0)


def test_gemm_is_fully_connected_with_its_factors_in_the_weights(tmp_path):
    matrix, bias = numbers((6, 5)), numbers(5, 1)
    model = one_node("Gemm", matrix, bias, inputs={"x": (1, 6)}, alpha=0.5, beta=2.0)
    found = model_of(model, tmp_path)
    assert found.network.layers[1].operator == op.FullyConnected(units=5)
    assert np.array_equal(found.weights["the node"]["matrix"], 0.5 * matrix.T)
    assert np.array_equal(found.weights["the node"]["bias"], 2 * bias)


def test_a_product_with_a_matrix_of_weights_depends_on_the_rank(tmp_path):
    matrix = numbers((6, 5))
    assert operators(one_node("MatMul", matrix, inputs={"x": (1, 6)}), tmp_path) == [
        op.FullyConnected(units=5, has_bias=False)
    ]
    assert operators(one_node("MatMul", matrix, inputs={"x": (1, 4, 6)}), tmp_path) == [
        op.MatrixProduct(units=5)
    ]


def test_a_mean_over_rows_and_columns_is_a_global_pooling(tmp_path):
    pooling = op.GlobalPooling(function="average")
    model = one_node("ReduceMean", opset=11, axes=[-1, -2])
    assert operators(model, tmp_path) == [pooling]
    model = one_node("ReduceMean", opset=11, axes=[2, 3], keepdims=0)
    assert operators(model, tmp_path) == [pooling, op.Reshape(dims=(3,))]


def test_softmax_spans_the_axes_behind_before_opset_13(tmp_path):
    assert operators(one_node("Softmax", opset=11), tmp_path) == [op.Softmax(axis=0, last=2)]
    assert operators(one_node("Softmax", opset=13), tmp_path) == [op.Softmax(axis=2)]
    flat = one_node("Softmax", opset=11, inputs={"x": (1, 9, 1, 1)})
    assert operators(flat, tmp_path) == [op.Softmax(axis=0)]


def test_clip_without_a_limit_has_none(tmp_path):
    (found,) = operators(one_node("Clip", None, np.float32(6)), tmp_path)
    assert found.parameters == (-inf, 6)
    (found,) = operators(one_node("Clip", opset=7, min=0.0), tmp_path)
    assert found.parameters == (0, inf)


def test_an_attribute_is_the_decimal_that_was_meant(tmp_path):
    (found,) = operators(one_node("LeakyRelu", alpha=0.1), tmp_path)
    assert found.parameters == (0.1,)


def test_a_split_is_a_slice_for_each_output(tmp_path):
    model = one_node("Split", ints(2, 4), outputs=("y", "z"), axis=2)
    assert operators(model, tmp_path) == [
        op.Slice(axis=1, start=0, stop=2),
        op.Slice(axis=1, start=2, stop=6),
    ]


def test_a_slice_of_two_axes_is_two_slices(tmp_path):
    model = one_node("Slice", ints(1, 0), ints(-1, 100), ints(2, 3), ints(1, 3))
    assert operators(model, tmp_path) == [
        op.Slice(axis=1, start=1, stop=5),
        op.Slice(axis=2, start=0, stop=7, step=3),
    ]


def test_the_constant_of_a_subtraction_may_come_first(tmp_path):
    node = helper.make_node("Sub", ["c", "x"], ["y"], name="the node")
    found = model_of(graph_model([node], constants={"c": numbers((1, 3, 1, 1))}), tmp_path)
    expected = op.Elementwise(function="subtract", constant=(3, 1, 1), constant_first=True)
    assert found.network.layers[1].operator == expected
    assert found.weights["the node"]["constant"].shape == (3, 1, 1)


def test_a_shape_computed_in_the_graph_is_a_constant(tmp_path):
    nodes = [
        helper.make_node("Shape", ["x"], ["dims"]),
        helper.make_node("Gather", ["dims", "one"], ["channels"]),
        helper.make_node("Concat", ["unit", "channels", "rest"], ["target"], axis=0),
        helper.make_node("Reshape", ["x", "target"], ["y"]),
    ]
    constants = {"one": ints(1), "unit": ints(1), "rest": ints(-1)}
    assert operators(graph_model(nodes, constants=constants), tmp_path) == [
        op.Reshape(dims=(3, 42))
    ]


def test_weights_that_the_graph_computes_are_constants(tmp_path):
    kernel = numbers((3, 2, 3, 4))
    nodes = [
        helper.make_node("Transpose", ["k"], ["turned"], perm=[3, 0, 1, 2]),
        helper.make_node("Mul", ["turned", "two"], ["w"]),
        helper.make_node("Conv", ["x", "w"], ["y"], name="conv"),
    ]
    constants = {"k": kernel, "two": np.float32(2)}
    found = model_of(graph_model(nodes, constants=constants), tmp_path)
    assert np.array_equal(found.weights["conv"]["kernel"], 2 * kernel.transpose(3, 0, 1, 2))


def test_nodes_in_the_wrong_order_are_sorted_and_unneeded_ones_left_out(tmp_path):
    nodes = [
        helper.make_node("Relu", ["a"], ["y"], name="second"),
        helper.make_node("Det", ["a"], ["unread"], name="unneeded"),
        helper.make_node("Neg", ["x"], ["a"], name="first"),
    ]
    layers = model_of(graph_model(nodes), tmp_path).network.layers
    assert [layer.name for layer in layers] == ["x", "first", "second", "y"]


def test_layers_of_nameless_nodes_are_called_as_their_tensors(tmp_path):
    nodes = [helper.make_node("Relu", ["x"], ["a"]), helper.make_node("Relu", ["a"], ["y"])]
    layers = model_of(graph_model(nodes), tmp_path).network.layers
    assert [layer.name for layer in layers] == ["x", "a", "y", "y output"]


def test_two_nodes_of_one_name_become_two_layers(tmp_path):
    nodes = [
        helper.make_node("Relu", ["x"], ["a"], name="same"),
        helper.make_node("Relu", ["a"], ["y"], name="same"),
    ]
    layers = model_of(graph_model(nodes), tmp_path).network.layers
    assert [layer.name for layer in layers] == ["x", "same", "same 2", "y"]


def test_initializers_among_the_inputs_are_no_inputs(tmp_path):
    model = one_node("Add", numbers((3, 1, 1)))
    model.graph.input.append(helper.make_tensor_value_info("c0", 1, [3, 1, 1]))
    assert [layer.name for layer in model_of(model, tmp_path).network.inputs] == ["x"]


def test_without_weights_there_are_none(tmp_path):
    assert read_onnx(saved(one_node("Conv", numbers((4, 3, 3, 3))), tmp_path)).weights is None


@pytest.mark.parametrize(
    ("rows", "scale", "resized"),
    [
        # 2.3 in single precision is 2.2999999523. The product with 10 lies between two numbers of
        # single precision 2 ** -19 apart, nearer to 23 than to the one below.
        (10, 2.3, 23),
        # 1.4 is 1.3999999762; 25 times that, 34.9999994, is nearer to 35 than to 35 - 2 ** -18.
        (25, 1.4, 35),
        # 1 / 3 is 0.3333333433: 9 rows are 3.00000009, which rounds to 3, and 10 are 3.33.
        (9, 1 / 3, 3),
        (10, 1 / 3, 3),
    ],
)
@pytest.mark.parametrize(("op_type", "opset"), [("Resize", 10), ("Resize", 18), ("Upsample", 9)])
@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_the_rows_of_a_resize_are_a_product_in_single_precision(
    op_type, opset, mode, rows, scale, resized, tmp_path
):
    scales = np.array([1, 1, scale, 1], np.float32)
    constants = [None, scales] if opset > 10 else [scales]
    model = one_node(op_type, *constants, opset=opset, inputs={"x": (1, 1, rows, 2)}, mode=mode)
    (found,) = operators(model, tmp_path)
    assert found.size == (resized, 2)


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_a_resize_that_keeps_the_size_keeps_the_elements(mode, tmp_path):
    # 5 rows times 1.15 are 5.75, 5 whole ones; ONNX Runtime copies them, and looks at no scale.
    scales = np.array([1, 1, 1.15, 1], np.float32)
    model = model_of(
        one_node("Resize", None, scales, inputs={"x": (1, 1, 5, 2)}, mode=mode), tmp_path
    )
    frame = numbers((1, 5, 2))
    (found,) = run_layer_by_layer(model, {"x": frame}).values()
    assert np.array_equal(found, frame)


def test_a_range_of_reals_is_counted_in_double_precision(tmp_path):
    # In single precision 12.6 + 0.4 is 13, and 13 / 0.5 is 26; -0.4 is -0.4000000060 and 12.6 is
    # 12.6000003815, which are 13.0000003874 apart: a 27th number.
    start, limit, delta = (np.array(one, np.float32) for one in (-0.4, 12.6, 0.5))
    nodes = [
        helper.make_node("Range", ["start", "limit", "delta"], ["steps"]),
        helper.make_node("Add", ["x", "steps"], ["y"]),
    ]
    constants = {"start": start, "limit": limit, "delta": delta}
    model = model_of(graph_model(nodes, inputs={"x": (1, 27)}, constants=constants), tmp_path)
    (found,) = run_layer_by_layer(model, {"x": np.zeros(27, np.float32)}).values()
    assert found[0] == np.float32(-0.4)
    assert len(found) == 27


def test_a_range_of_more_numbers_than_a_dim_holds_is_refused(tmp_path):
    nodes = [
        helper.make_node("Range", ["start", "limit", "delta"], ["steps"]),
        helper.make_node("Add", ["x", "steps"], ["y"]),
    ]
    constants = {"start": np.float64(0), "limit": np.float64(1e308), "delta": np.float64(1e-300)}
    constants = {name: np.array(number) for name, number in constants.items()}
    model = graph_model(nodes, inputs={"x": (1, 27)}, constants=constants)
    with pytest.raises(UnreadableFile, match="a dim of 2147483648"):
        model_of(model, tmp_path)


def test_a_constant_that_would_be_resized_to_other_rows_is_refused(tmp_path):
    # 10 rows times 2.3: the onnx package computes 22, see above.
    nodes = [
        helper.make_node("Resize", ["maps", "", "scales"], ["resized"], mode="nearest"),
        helper.make_node("Add", ["x", "resized"], ["y"]),
    ]
    constants = {"maps": numbers((1, 1, 10, 2)), "scales": np.array([1, 1, 2.3, 1], np.float32)}
    model = graph_model(nodes, inputs={"x": (1, 1, 23, 2)}, constants=constants)
    with pytest.raises(UnreadableFile, match=r"'resized'.*\(1, 1, 22, 2\).*\(1, 1, 23, 2\)"):
        model_of(model, tmp_path)


@pytest.mark.parametrize("op_type", ["MaxPool", "AveragePool"])
def test_no_window_of_a_pooling_begins_behind_the_maps(op_type, tmp_path):
    # Windows begin at rows -1, 1, 3 and 5: in 5 rows the last would lie in the padding below. Six
    # columns have windows at -1, 1, 3 and 5, which is the last column.
    attributes = {"kernel_shape": [2, 2], "strides": [2, 2], "pads": [1, 1, 1, 1], "ceil_mode": 1}
    model = one_node(op_type, opset=19, inputs={"x": (1, 1, 5, 6)}, **attributes)
    assert model_of(model, tmp_path).network.outputs[0].shape.dims == (1, 3, 4)


TOKENS, HEADS, WIDTH = 5, 4, 6
MASKS = {
    "none": None,
    "added": numbers((TOKENS, TOKENS), 3),
    "kept": np.tri(TOKENS, k=1) > 0,
}


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("shared", [1, 2], ids=["heads of their own", "heads that share keys"])
@pytest.mark.parametrize("attributes", [{}, {"is_causal": 1, "softcap": 2.0, "scale": 0.3}])
@pytest.mark.parametrize("has_axis", [False, True])
def test_attention_is_that_of_onnx(mask, shared, attributes, has_axis, tmp_path):
    counts = HEADS, HEADS // shared, HEADS // shared
    inputs = {
        name: (1, heads, TOKENS, WIDTH) if has_axis else (1, TOKENS, heads * WIDTH)
        for name, heads in zip("qkv", counts, strict=True)
    }
    if not has_axis:
        attributes = {**attributes, "q_num_heads": counts[0], "kv_num_heads": counts[1]}
    constants = [] if MASKS[mask] is None else [MASKS[mask]]
    model = one_node("Attention", *constants, opset=23, inputs=inputs, **attributes)
    frame = {name: numbers(dims, place) for place, (name, dims) in enumerate(inputs.items())}
    (expected,) = ReferenceEvaluator(model).run(None, frame)
    found = run_layer_by_layer(
        model_of(model, tmp_path), {name: array[0] for name, array in frame.items()}
    )
    (result,) = found.values()
    np.testing.assert_allclose(result.reshape(expected.shape), expected, atol=1e-5)


@pytest.mark.parametrize(
    ("constants", "attributes", "words"),
    [
        ([None, None, None, np.array([2])], {}, "nonpad_kv_seqlen"),
        ([], {"left_window_size": 1}, "a window of keys"),
    ],
)
def test_attention_to_a_part_of_the_keys_is_refused(constants, attributes, words, tmp_path):
    inputs = dict.fromkeys("qkv", (1, HEADS, TOKENS, WIDTH))
    model = one_node("Attention", *constants, opset=25, inputs=inputs, **attributes)
    with pytest.raises(UnsupportedOperator, match=words):
        model_of(model, tmp_path)


def test_attention_to_keys_of_earlier_tokens_is_refused(tmp_path):
    inputs = dict.fromkeys(("q", "k", "v", "past_k", "past_v"), (1, HEADS, TOKENS, WIDTH))
    node = helper.make_node("Attention", ["q", "k", "v", "", "past_k", "past_v"], ["y"])
    model = graph_model([node], inputs=inputs, opset=23)
    with pytest.raises(UnsupportedOperator, match="keys and values of earlier tokens"):
        model_of(model, tmp_path)

"""Inputs with open dims, scalar inputs, several states; operators that ONNX Runtime adds."""

import numpy as np
import onnx
import pytest
from onnx import helper

from cnn2csdf.execution.layer_by_layer import run_layer_by_layer
from cnn2csdf.onnx_files.reader import read_onnx
from csdf.errors import UnreadableFile
from tests.cnn2csdf.onnx_files.test_onnx_bad_models import refusal
from tests.cnn2csdf.onnx_models import graph_model, one_node, runtime_outputs, saved


def test_sizes_that_the_metadata_name_are_proposed_first(tmp_path):
    model = one_node("Relu", inputs={"x": ["N", 3, "H", "W"]})
    helper.set_model_props(model, {"imgsz": "[96, 160]"})
    assert "--shape H=96 --shape W=160 is read, for example" in refusal(model, tmp_path)


def test_all_inputs_with_open_dims_are_listed_at_once(tmp_path):
    nodes = [
        helper.make_node("Constant", [], ["rate"], value_int=16000),
        helper.make_node("Equal", ["sr", "rate"], ["is fast"]),
        helper.make_node("Cast", ["is fast"], ["factor"], to=onnx.TensorProto.FLOAT),
        helper.make_node("Mul", ["x", "factor"], ["scaled"]),
        helper.make_node("Concat", ["scaled", "z"], ["y"], axis=1),
    ]
    model = graph_model(nodes, inputs={"x": ["N", "length"], "z": ["N", None]})
    scalar = helper.make_tensor_value_info("sr", onnx.TensorProto.INT64, [])
    model.graph.input.append(scalar)
    message = refusal(model, tmp_path)
    for words in ("'length'", "input 'z' of shape 1x?", "input 'sr' is a single number"):
        assert words in message
    assert "--shape length=512 --shape z=1x512 --constant sr=16000 is read" in message
    path = saved(model, tmp_path)
    network = read_onnx(path, shapes={"length": (8,), "z": (1, 4)}, constants={"sr": 16000}).network
    assert network.outputs[0].shape.dims == (12,)
    with pytest.raises(UnreadableFile, match="no input 'rate' to be a constant; inputs: 'x', 'z'"):
        read_onnx(path, constants={"rate": 1})


def test_a_dim_below_zero_is_open_and_a_batch_of_it_is_one(tmp_path):
    model = one_node("Relu", inputs={"x": [-1, 3, -1, -1]})
    assert "--shape x=1x3x224x224 is read, for example" in refusal(model, tmp_path)
    network = read_onnx(saved(model, tmp_path), shapes={"x": (1, 3, 8, 4)}).network
    assert network.outputs[0].shape.dims == (3, 8, 4)
    (source,) = read_onnx(saved(one_node("Relu", inputs={"x": [-1, 5]}), tmp_path)).network.inputs
    assert source.shape.dims == (5,)


def test_a_rate_of_samples_that_nothing_compares_is_one_of_speech(tmp_path):
    model = graph_model([helper.make_node("Mul", ["x", "sr"], ["y"])], inputs={"x": (1, 4)})
    model.graph.input.append(helper.make_tensor_value_info("sr", onnx.TensorProto.FLOAT, []))
    assert "--constant sr=16000 is read, for example" in refusal(model, tmp_path)


def test_two_states_beside_a_frame_are_no_batch(tmp_path):
    nodes = [
        helper.make_node("Constant", [], ["first"], value_int=0),
        helper.make_node("Gather", ["state", "first"], ["hidden"], axis=0),
        helper.make_node("Add", ["x", "hidden"], ["sum"]),
        helper.make_node("Constant", [], ["axes"], value_ints=[0]),
        helper.make_node("Unsqueeze", ["sum", "axes"], ["one"]),
        helper.make_node("Concat", ["one", "one"], ["y"], axis=0),
    ]
    model = graph_model(nodes, inputs={"x": ["batch", 5], "state": [2, "batch", 5]})
    model = read_onnx(saved(model, tmp_path), with_weights=True)
    assert [layer.shape.dims for layer in model.network.inputs] == [(5,), (2, 1, 5)]
    frame = {"x": np.arange(5.0), "state": np.arange(10.0).reshape(2, 1, 5)}
    (result,) = run_layer_by_layer(model, frame).values()
    assert np.array_equal(result, np.stack([[np.arange(5.0) * 2]] * 2))


def test_a_damaged_constant_beside_a_scalar_input_ends_in_one_message(tmp_path):
    nodes = [
        helper.make_node("Constant", [], ["rate"], value_int=16000),
        helper.make_node("Equal", ["sr", "rate"], ["y"]),
    ]
    model = graph_model(nodes, inputs={"x": ["N", "length"]})
    model.graph.input.append(helper.make_tensor_value_info("sr", onnx.TensorProto.INT64, []))
    model.graph.node[0].attribute[0].type = onnx.AttributeProto.TENSOR
    assert "input 'sr' is a single number" in refusal(model, tmp_path)


RUNTIME = "com.microsoft"
DRAWN = np.random.default_rng(0)
VECTOR = DRAWN.standard_normal(5).astype(np.float32)
ADDED = {  # operators that are no part of the standard, or newer than the opset of the file
    "LayerNormalization": (1, [VECTOR, VECTOR], {"epsilon": 0.01}, ""),
    "Gelu": (1, [], {}, RUNTIME),
    "BiasGelu": (1, [VECTOR], {}, RUNTIME),
    "FastGelu": (1, [VECTOR], {}, RUNTIME),
    "QuickGelu": (1, [], {"alpha": 1.3}, RUNTIME),
    "SkipLayerNormalization": (2, [VECTOR, VECTOR, VECTOR], {"epsilon": 0.01}, RUNTIME),
}


@pytest.mark.parametrize("kind", ADDED)
def test_an_operator_of_the_runtime_gives_what_the_runtime_gives(kind, tmp_path):
    count, constants, attributes, domain = ADDED[kind]
    frame = {name: DRAWN.standard_normal((1, 4, 5)).astype(np.float32) for name in "xz"[:count]}
    inputs = dict.fromkeys(frame, (1, 4, 5))
    model = one_node(kind, *constants, opset=12, inputs=inputs, **attributes)
    model.graph.node[0].domain = domain
    if domain:
        model.opset_import.append(helper.make_opsetid(domain, 1))
    path = saved(model, tmp_path)
    ours = read_onnx(path, with_weights=True)
    (result,) = run_layer_by_layer(ours, {name: one[0] for name, one in frame.items()}).values()
    (expected,) = runtime_outputs(path, frame)
    np.testing.assert_allclose(result, expected[0], rtol=1e-5, atol=1e-5)

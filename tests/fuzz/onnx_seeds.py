"""Small ONNX models that use many operators."""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

node = helper.make_node
W = np.full((4, 3, 3, 3), 0.5, np.float32)


def _model(nodes, constants, *, dims=(1, 3, 8, 8), opset=17):
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, dims)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.asarray(one), name) for name, one in constants.items()],
    )
    opsets = [helper.make_opsetid("", opset)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()


def _classifier():
    four = np.ones(4, np.float32)
    return _model(
        [
            node("Conv", ["x", "w", "b"], ["1"], name="c", pads=[1, 1, 1, 1], strides=[2, 2]),
            node("BatchNormalization", ["1", "b", "b", "b", "b"], ["2"], epsilon=1e-5),
            node("Relu", ["2"], ["3"]),
            node("MaxPool", ["3"], ["4"], kernel_shape=[2, 2], strides=[2, 2]),
            node("Flatten", ["4"], ["5"], axis=1),
            node("Gemm", ["5", "m", "n"], ["6"], transB=1),
            node("Softmax", ["6"], ["y"], axis=1),
        ],
        {"w": W, "b": four, "m": np.ones((5, 16), np.float32), "n": np.ones(5, np.float32)},
    )


def _branches():
    return _model(
        [
            node("Conv", ["x", "w"], ["1"], auto_pad="SAME_UPPER"),
            node("Conv", ["x", "d"], ["2"], group=3, kernel_shape=[1, 1]),
            node("Concat", ["1", "2"], ["3"], axis=1),
            node("Split", ["3"], ["4", "5"], axis=1, num_outputs=2),
            node("Add", ["4", "5"], ["6"]),
            node("AveragePool", ["6"], ["7"], kernel_shape=[3, 3], pads=[1, 1, 1, 1], ceil_mode=1),
            node("Clip", ["7", "low", "high"], ["8"]),
            node("GlobalAveragePool", ["8"], ["9"]),
            node("LRN", ["9"], ["y"], size=5),
        ],
        {
            "w": np.ones((3, 3, 3, 3), np.float32),
            "d": np.ones((3, 1, 1, 1), np.float32),
            "low": np.float32(0),
            "high": np.float32(6),
        },
        opset=18,
    )


def _shapes():
    """Operators whose results depend on numbers in the file."""
    return _model(
        [
            node("Pad", ["x", "pads"], ["1"], mode="constant"),
            node("Resize", ["1", "", "scales"], ["2"], mode="nearest"),
            node("Slice", ["2", "from", "to", "axes"], ["3"]),
            node("Transpose", ["3"], ["4"], perm=[0, 2, 3, 1]),
            node("Shape", ["4"], ["s"]),
            node("Gather", ["s", "zero"], ["n"], axis=0),
            node("Unsqueeze", ["n", "zero"], ["u"]),
            node("Concat", ["u", "rest"], ["to shape"], axis=0),
            node("Reshape", ["4", "to shape"], ["5"]),
            node("ConstantOfShape", ["five"], ["fill"]),
            node("Mul", ["5", "fill"], ["6"]),
            node("ReduceMean", ["6"], ["y"], axes=[1], keepdims=1),
        ],
        {
            "pads": np.array([0, 0, 1, 1, 0, 0, 1, 1]),
            "scales": np.array([1, 1, 2, 2], np.float32),
            "from": np.array([0]),
            "to": np.array([10]),
            "axes": np.array([2]),
            "zero": np.array(0),
            "rest": np.array([-1]),
            "five": np.array([1]),
        },
        opset=17,
    )


def _matrices():
    return _model(
        [
            node("MatMul", ["x", "m"], ["1"]),
            node("LayerNormalization", ["1", "g"], ["2"], axis=-1),
            node("PRelu", ["2", "slope"], ["3"]),
            node("Cast", ["3"], ["4"], to=1),
            node("Expand", ["slope", "grown"], ["5"]),
            node("Sub", ["4", "5"], ["6"]),
            node("ConvTranspose", ["6", "t"], ["7"], strides=[2, 2], output_padding=[1, 1]),
            node("DepthToSpace", ["7"], ["8"], blocksize=2),
            node("InstanceNormalization", ["8", "one", "one"], ["9"]),
            node("LeakyRelu", ["9"], ["10"], alpha=0.1),
            node("Pow", ["10", "two"], ["y"]),
        ],
        {
            "m": np.ones((8, 6), np.float32),
            "g": np.ones(6, np.float32),
            "slope": np.ones((3, 1, 1), np.float32),
            "grown": np.array([3, 8, 6]),
            "t": np.ones((3, 4, 3, 3), np.float32),
            "one": np.ones(1, np.float32),
            "two": np.float32(2),
        },
    )


def _integers():
    """Operators between integers, in both forms."""
    scales = {"s": np.float32(0.05), "z": np.uint8(120), "t": np.float32(0.02), "o": np.int8(0)}
    return _model(
        [
            node("QuantizeLinear", ["x", "s", "z"], ["1"]),
            node("QLinearConv", ["1", "s", "z", "w", "t", "o", "s", "z", "b"], ["2"], name="c"),
            node("DequantizeLinear", ["2", "s", "z"], ["3"]),
            node("MaxPool", ["3"], ["4"], kernel_shape=[2, 2], strides=[2, 2]),
            node("QuantizeLinear", ["4", "s", "z"], ["5"]),
            node("DequantizeLinear", ["5", "s", "z"], ["6"]),
            node("DequantizeLinear", ["w", "many", "none"], ["7"], axis=0),
            node("Conv", ["6", "7"], ["8"], name="d"),
            node("Relu", ["8"], ["9"]),
            node("QuantizeLinear", ["9", "s", "z"], ["10"]),
            node("DequantizeLinear", ["10", "s", "z"], ["y"]),
        ],
        {
            **scales,
            "w": np.ones((4, 4, 1, 1), np.int8),
            "b": np.ones(4, np.int32),
            "many": np.full(4, 0.02, np.float32),
            "none": np.zeros(4, np.int8),
        },
        dims=(1, 4, 8, 8),
    )


def _choices():
    """Places, comparisons, repetitions, and a choice that no frame changes."""

    def branch(name, op_type):
        result = helper.make_tensor_value_info("o", TensorProto.FLOAT, None)
        return helper.make_graph([node(op_type, ["x"], ["o"])], name, [], [result])

    then, other = branch("then", "Round"), branch("else", "Sin")
    return _model(
        [
            node("If", ["yes"], ["0"], then_branch=then, else_branch=other),
            node("Gather", ["0", "places"], ["1"], axis=1),
            node("Greater", ["1", "half"], ["2"]),
            node("Where", ["2", "1", "half"], ["3"]),
            node("ReduceMean", ["3"], ["4"], axes=[2, 3], keepdims=1),
            node("Expand", ["4", "dims"], ["5"]),
            node("Tile", ["5", "times"], ["6"]),
            node("Concat", ["6", "token"], ["7"], axis=3),
            node("Resize", ["7", "", "", "size"], ["8"], mode="cubic"),
            node("CumSum", ["8", "one"], ["9"]),
            node("TopK", ["9", "two"], ["10", "i"], axis=2),
            node("Einsum", ["10", "10"], ["11"], equation="bchw,bdhw->bcd"),
            node("ReduceMax", ["11"], ["y"], axes=[2], keepdims=0),
        ],
        {
            "yes": np.array(1, bool),
            "places": np.array([2, 0, 1]),
            "half": np.float32(0.5),
            "dims": np.array([1, 3, 4, 2]),
            "times": np.array([1, 1, 2, 1]),
            "token": np.ones((1, 3, 8, 1), np.float32),
            "size": np.array([1, 3, 6, 5]),
            "one": np.array(1),
            "two": np.array([2]),
        },
    )


def _lines():
    """Windows over lines, and recurrent layers behind them."""
    return _model(
        [
            node("Conv", ["x", "w"], ["1"], strides=[2], pads=[1, 1]),
            node("Relu", ["1"], ["2"]),
            node("MaxPool", ["2"], ["3"], kernel_shape=[2], strides=[1]),
            node("Transpose", ["3"], ["4"], perm=[2, 0, 1]),
            node("LSTM", ["4", "a", "r", "b"], ["5"], hidden_size=2, direction="bidirectional"),
            node("Reshape", ["5", "dims"], ["6"]),
            node("GRU", ["6", "g", "h"], ["", "y"], hidden_size=2),
        ],
        {
            "w": np.ones((4, 3, 3), np.float32),
            "a": np.ones((2, 8, 4), np.float32),
            "r": np.ones((2, 8, 2), np.float32),
            "b": np.ones((2, 16), np.float32),
            "dims": np.array([3, 1, 4]),
            "g": np.ones((1, 6, 4), np.float32),
            "h": np.ones((1, 6, 2), np.float32),
        },
        dims=(1, 3, 8),
    )


def _dynamic():
    """Integers whose scale is found at run time."""
    return _model(
        [
            node("DynamicQuantizeLinear", ["x"], ["q", "s", "z"]),
            node("ConvInteger", ["q", "w", "z", "o"], ["1"], name="c", pads=[1] * 4),
            node("Cast", ["1"], ["2"], to=1),
            node("Mul", ["s", "t"], ["3"]),
            node("Mul", ["2", "3"], ["4"]),
            node("Relu", ["4"], ["5"]),
            node("Flatten", ["5"], ["6"]),
            node("DynamicQuantizeLinear", ["6"], ["r", "u", "v"]),
            node("MatMulInteger", ["r", "m", "v", "o"], ["7"]),
            node("Cast", ["7"], ["8"], to=1),
            node("Mul", ["8", "u"], ["y"]),
        ],
        {
            "w": np.ones((2, 3, 3, 3), np.int8),
            "o": np.int8(0),
            "t": np.float32(0.02),
            "m": np.ones((128, 5), np.int8),
        },
    )


def quantised_seeds():
    """The bytes of models between integers."""
    return [_integers(), _dynamic()]


def onnx_seeds():
    """The bytes of the models."""
    made = [
        _classifier(),
        _branches(),
        _shapes(),
        _matrices(),
        _integers(),
        _choices(),
        _lines(),
    ]
    for content in made:
        onnx.shape_inference.infer_shapes(onnx.load_from_string(content), strict_mode=True)
    return made

"""The same file in ONNX Runtime and read here: every form of every operator gives the same."""

import numpy as np
import pytest
from onnx import helper

from cnn2csdf.execution.layer_by_layer import run_layer_by_layer
from cnn2csdf.onnx_files.reader import read_onnx
from cnn2csdf.onnx_files.runtime import cropped_windows
from csdf.cli.main import main
from tests.cnn2csdf.onnx_models import graph_model, numbers, one_node, runtime_outputs, saved

LIST = np.int64
FLOAT = np.float32
KERNEL = numbers((4, 3, 3, 2), 1)
BIAS = numbers(4, 2)
THREE = [numbers(3, seed, 0.5, 1.5) for seed in range(4)]
VECTOR = {"x": (1, 6)}
NO_REGION = np.zeros(0, FLOAT)
ROWS = {"x": (1, 5, 6)}
TALL, FIT = {"x": (1, 3, 12, 3)}, {"x": (1, 3, 13, 3)}
SEVEN = {"x": (1, 8, 6, 4)}


def ints(*values):
    return np.array(values, LIST)


def scalar(value):
    return np.array(value, FLOAT)


def window_cases():
    for opset in (7, 11, 22):
        yield one_node("Conv", KERNEL, BIAS, opset=opset)
        yield one_node("Conv", KERNEL, opset=opset, pads=[1, 0, 2, 1], strides=[2, 1])
        yield one_node("MaxPool", opset=opset, kernel_shape=[2, 3], pads=[1, 1, 0, 1])
        yield one_node("AveragePool", opset=opset, kernel_shape=[3, 2], pads=[1, 0, 1, 1])
    for auto_pad in ("SAME_UPPER", "SAME_LOWER", "VALID"):
        yield one_node("Conv", KERNEL, auto_pad=auto_pad, strides=[2, 2])
        yield one_node("MaxPool", kernel_shape=[3, 2], auto_pad=auto_pad, strides=[2, 3])
        yield one_node("AveragePool", kernel_shape=[3, 2], auto_pad=auto_pad, strides=[2, 3])
    yield one_node("Conv", KERNEL, dilations=[2, 3], pads=[1, 2, 2, 1])
    yield one_node("Conv", numbers((6, 1, 3, 3), 3), numbers(6, 4), group=3)
    yield one_node("Conv", numbers((6, 4, 1, 1), 3), group=2, inputs=SEVEN)
    for ceil_mode in (0, 1):
        for pads in ([0, 0, 0, 0], [1, 1, 1, 1]):
            forms = {"kernel_shape": [3, 3], "strides": [2, 2], "pads": pads}
            yield one_node("MaxPool", ceil_mode=ceil_mode, **forms)
            yield one_node("AveragePool", ceil_mode=ceil_mode, opset=19, **forms)
            yield one_node(
                "AveragePool", ceil_mode=ceil_mode, opset=19, count_include_pad=1, **forms
            )
    yield one_node("MaxPool", kernel_shape=[2, 2], dilations=[2, 3], strides=[1, 2])
    yield one_node("AveragePool", opset=19, kernel_shape=[2, 2], dilations=[2, 3])
    yield one_node("GlobalAveragePool")
    yield one_node("GlobalMaxPool")
    backwards = numbers((3, 2, 3, 4), 5)
    yield one_node("ConvTranspose", backwards, numbers(2, 6))
    yield one_node("ConvTranspose", backwards, strides=[2, 3], pads=[1, 0, 1, 2])
    yield one_node("ConvTranspose", backwards, strides=[2, 3], output_padding=[1, 2])
    yield one_node("ConvTranspose", backwards, strides=[2, 2], output_shape=[11, 12])
    yield one_node("ConvTranspose", backwards, strides=[2, 2], output_shape=[12, 13])
    yield one_node("ConvTranspose", backwards, strides=[2, 2], auto_pad="SAME_UPPER")
    yield one_node("ConvTranspose", backwards, strides=[2, 2], auto_pad="SAME_LOWER")
    yield one_node("ConvTranspose", backwards, strides=[2, 2], auto_pad="VALID")
    yield one_node("ConvTranspose", numbers((4, 3, 2, 2), 7), inputs={"x": (1, 4, 3, 3)}, group=2)
    yield one_node("ConvTranspose", backwards, dilations=[2, 1])


def rows_by_gemm(*constants, **attributes):
    """A Gemm of five vectors at once; a reshape before it drops the axis of the frames."""
    named = {"rows": ints(5, 6)} | {f"c{place}": one for place, one in enumerate(constants)}
    nodes = [
        helper.make_node("Reshape", ["x", "rows"], ["r"]),
        helper.make_node("Gemm", ["r", *list(named)[1:]], ["y"], **attributes),
    ]
    return graph_model(nodes, inputs=ROWS, constants=named)


def product_cases():
    matrix, bias = numbers((6, 5), 1), numbers(5, 2)
    for opset in (7, 9, 11, 13):
        yield one_node("Gemm", matrix, bias, inputs=VECTOR, opset=opset, alpha=0.5, beta=2.0)
    yield one_node("Gemm", matrix.T.copy(), bias[None], inputs=VECTOR, transB=1)
    yield one_node("Gemm", matrix, scalar(3.0), inputs=VECTOR)
    yield one_node("Gemm", matrix, inputs=VECTOR)
    yield rows_by_gemm(matrix, bias, alpha=0.5, beta=2.0)
    yield rows_by_gemm(matrix.T.copy(), transB=1)
    yield one_node("MatMul", matrix, inputs=VECTOR)
    yield one_node("MatMul", matrix, inputs=ROWS)
    yield one_node("MatMul", matrix[None], inputs=ROWS)
    yield one_node("MatMul", inputs={"x": (1, 5, 6), "z": (1, 6, 4)})
    yield one_node("MatMul", inputs={"x": (1, 2, 5, 6), "z": (1, 1, 6, 4)})


def normalization_cases():
    for opset in (7, 9, 15):
        yield one_node("BatchNormalization", *THREE, opset=opset, epsilon=0.01)
    yield one_node(
        "BatchNormalization", *[numbers(6, seed, 0.5, 1) for seed in range(4)], inputs=VECTOR
    )
    yield one_node("InstanceNormalization", THREE[0], THREE[1])
    yield one_node("LayerNormalization", numbers(7, 1), numbers(7, 2))
    yield one_node("LayerNormalization", numbers((6, 7), 1), axis=2, epsilon=0.1)
    yield one_node("LayerNormalization", numbers(7, 1), numbers((6, 1), 2), axis=-2)
    yield one_node("LRN", size=3)
    yield one_node("LRN", size=5, alpha=0.1, beta=0.5, bias=2.0)
    for op_type in ("Softmax", "LogSoftmax"):
        for axis in (1, 2, 3):
            yield one_node(op_type, opset=9, axis=axis)
            yield one_node(op_type, opset=13, axis=axis)
        yield one_node(op_type, opset=9)
        yield one_node(op_type, opset=13)
        yield one_node(op_type, opset=11, inputs=VECTOR)
    for op_type in ("ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin", "ReduceL2"):
        for keeps in (0, 1):
            yield one_node(op_type, opset=11, axes=[2, 3], keepdims=keeps)
            yield one_node(op_type, ints(-1, -2), opset=18, keepdims=keeps)
            yield one_node(op_type, ints(1), opset=18, keepdims=keeps)
    yield one_node("ReduceMean", opset=13, axes=[3], keepdims=0)


ACTIVATIONS = (
    ("Relu", {}),
    ("LeakyRelu", {}),
    ("LeakyRelu", {"alpha": 0.3}),
    ("Sigmoid", {}),
    ("HardSigmoid", {}),
    ("HardSigmoid", {"alpha": 0.3, "beta": 0.4}),
    ("HardSwish", {}),
    ("Elu", {"alpha": 0.7}),
    ("Selu", {}),
    ("Celu", {"alpha": 2.0}),
    ("Tanh", {}),
    ("Softplus", {}),
    ("Softsign", {}),
    ("ThresholdedRelu", {"alpha": 0.5}),
    ("Exp", {}),
    ("Abs", {}),
    ("Neg", {}),
    ("Identity", {}),
    ("Dropout", {}),
)


def activation_cases():
    for op_type, attributes in ACTIVATIONS:
        yield one_node(op_type, **attributes)
    yield one_node("Mish", opset=18)
    yield one_node("Gelu", opset=20)
    yield one_node("Dropout", opset=7, ratio=0.4)
    yield one_node("Dropout", scalar(0.4), np.array(False), opset=13)  # noqa: FBT003
    yield one_node("Clip", opset=7, min=-0.2, max=0.5)
    yield one_node("Clip", opset=7, max=0.5)
    yield one_node("Clip", scalar(-0.2), scalar(0.5))
    yield one_node("Clip", None, scalar(0.5))
    yield one_node("Clip", scalar(-0.2))
    yield one_node("PRelu", numbers((3, 1, 1), 1))
    yield one_node("PRelu", scalar([0.3]))
    yield one_node("PRelu", numbers(6, 1), inputs=VECTOR)
    yield one_node("Cast", to=1)


def elementwise_cases():
    channels = numbers((3, 1, 1), 3, 0.5, 1.5)
    for op_type in ("Add", "Sub", "Mul", "Div"):
        for opset in (7, 14):
            yield one_node(op_type, channels, opset=opset)
            yield one_node(op_type, scalar(2.0), opset=opset)
        yield one_node(op_type, channels[None])
        yield one_node(op_type, numbers((6, 7), 3, 0.5, 1.5))
        yield one_node(op_type, inputs={"x": (1, 3, 6, 7), "z": (1, 3, 1, 1)})
        yield reversed_operands(op_type, channels)
        yield one_node(op_type, numbers((3, 6), 4, 0.5, 1.5), inputs=VECTOR)
    yield one_node("Pow", scalar(2.0))
    yield reversed_operands("Pow", scalar(2.0))
    for op_type in ("Sum", "Mean", "Max", "Min"):
        yield one_node(op_type, inputs={"x": (1, 3, 6, 7), "z": (1, 3, 6, 7), "w": (1, 3, 1, 7)})
        yield one_node(op_type, numbers((1, 3, 1, 1), 1))
        yield one_node(op_type)


def reversed_operands(op_type, constant):
    nodes = [helper.make_node(op_type, ["c", "x"], ["y"])]
    return graph_model(nodes, constants={"c": constant})


def moving_cases():
    two = {"x": (1, 3, 6, 7), "z": (1, 3, 2, 7)}
    yield one_node("Concat", inputs=two, axis=2)
    yield one_node("Concat", inputs=two, axis=-2)
    yield one_node("Slice", opset=9, starts=[1, -3], ends=[3, 100], axes=[1, 2])
    yield one_node("Slice", opset=9, starts=[0, 1], ends=[1, 3])
    yield one_node("Slice", ints(1), ints(-1), ints(3), ints(2))
    yield one_node("Slice", ints(1, 0), ints(2**62, 3), ints(-1, 2), ints(3, 2))
    yield one_node("Slice", ints(0), ints(9), ints(2))
    yield one_node("Split", opset=9, outputs=("y", "v"), axis=1, split=[1, 2])
    yield one_node("Split", ints(2, 4), opset=13, outputs=("y", "v"), axis=-2)
    yield one_node("Split", opset=18, outputs=("y", "v", "w"), axis=2, num_outputs=3)
    yield one_node("Flatten")
    yield one_node("Flatten", axis=2)
    yield one_node("Reshape", ints(1, -1))
    yield one_node("Reshape", ints(0, 3, 42))
    yield one_node("Reshape", ints(-1))
    yield one_node("Reshape", ints(3, 1, -1))
    yield one_node("Squeeze", opset=11, inputs={"x": (1, 3, 1, 1)}, axes=[2, 3])
    yield one_node("Squeeze", ints(2), inputs={"x": (1, 3, 1, 4)})
    yield one_node("Squeeze", inputs={"x": (1, 3, 1, 4)})
    yield one_node("Unsqueeze", opset=11, axes=[2])
    yield one_node("Unsqueeze", ints(0))
    yield one_node("Transpose", perm=[0, 2, 3, 1])
    yield one_node("Transpose", perm=[2, 0, 1, 3])
    yield one_node("Transpose")
    yield one_node("DepthToSpace", inputs=SEVEN, blocksize=2)
    yield one_node("DepthToSpace", inputs=SEVEN, blocksize=2, mode="CRD")
    yield one_node("SpaceToDepth", inputs=SEVEN, blocksize=2)
    yield one_node("Expand", ints(1, 3, 6, 7))
    for mode in ("constant", "reflect", "edge"):
        yield one_node("Pad", opset=9, mode=mode, pads=[0, 0, 1, 2, 0, 0, 2, 1])
        yield one_node("Pad", ints(0, 0, 1, 2, 0, 0, 2, 1), mode=mode)
    yield one_node("Pad", ints(0, 0, 1, 2, 0, 0, 2, 1), scalar(3.0))
    yield one_node("Pad", ints(1, 2), scalar(3.0), ints(3), opset=18)
    yield one_node("Pad", ints(0, 0, -1, 0, 0, 0, 0, -2))
    yield one_node("Pad", ints(0, 2, 0, 1, 0, 1, 0, 0), scalar(-1.0))
    for dims, pads in (((1, 5), (0, 2, 0, 1)), ((1, 4, 6), (0, 1, 0, 0, 2, 3))):
        yield one_node("Pad", ints(*pads), scalar(2.0), inputs={"x": dims})
    wide = (1, 2, 3, 4, 5)
    yield one_node("Pad", ints(0, 0, 0, 1, 0, 0, 0, 0, 2, 1), scalar(2.0), inputs={"x": wide})


def resize_cases():
    scales = np.array([1, 1, 2, 3], FLOAT)
    for mode in ("nearest", "linear"):
        yield one_node("Upsample", opset=7, mode=mode, scales=[1.0, 1.0, 2.0, 3.0])
        yield one_node("Upsample", scales, opset=9, mode=mode)
        yield one_node("Resize", scales, opset=10, mode=mode)
        yield one_node("Resize", NO_REGION, scales, opset=11, mode=mode)
        for places in ("half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric"):
            forms = {"mode": mode, "coordinate_transformation_mode": places}
            yield one_node("Resize", None, None, ints(1, 3, 9, 4), opset=13, **forms)
    for rounding in ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil"):
        yield one_node(
            "Resize", None, None, ints(1, 3, 9, 4), nearest_mode=rounding, mode="nearest"
        )
    yield one_node("Resize", None, None, ints(4, 9), opset=18, axes=[2, 3], mode="linear")
    one_axis_smaller = np.array([1, 1, 2 / 3, 2], FLOAT)
    yield one_node("Resize", one_axis_smaller, opset=10, mode="nearest")
    parts_of_rows = np.array([1, 1, 1.3, 0.7], FLOAT)
    for mode in ("nearest", "linear"):
        yield one_node("Upsample", opset=7, mode=mode, scales=[1.0, 1.0, 1.3, 1.2])
        yield one_node("Resize", NO_REGION, parts_of_rows, opset=13, mode=mode)


CASES = {
    "windows": window_cases,
    "products": product_cases,
    "normalizations": normalization_cases,
    "activations": activation_cases,
    "elementwise": elementwise_cases,
    "moves": moving_cases,
    "resizes": resize_cases,
}


def labelled(cases):
    for family, generate in cases.items():
        for place, model in enumerate(generate()):
            node, version = model.graph.node[0], model.opset_import[0].version
            yield pytest.param(model, id=f"{family}-{node.op_type}-{version}-{place}")


@pytest.mark.parametrize("model", list(labelled(CASES)))
def test_a_node_gives_what_the_runtime_gives(model, tmp_path):
    path = saved(model, tmp_path)
    frame = {
        one.name: numbers([dim.dim_value for dim in one.type.tensor_type.shape.dim], seed, -4, 4)
        for seed, one in enumerate(model.graph.input)
    }
    expected = runtime_outputs(path, frame)
    found = run_layer_by_layer(
        read_onnx(path, with_weights=True), {name: one[0] for name, one in frame.items()}
    )
    for ours, theirs in zip(found.values(), expected, strict=True):
        assert ours.size == theirs.size
        np.testing.assert_allclose(ours.reshape(theirs.shape), theirs, rtol=2e-5, atol=2e-5)


def test_a_stride_beyond_a_same_window_is_named_and_not_called_different(tmp_path, capsys):
    # Rows: 12 with stride 4 and a window of 1 are 3 places, which end 3 rows before the end. ONNX
    # Runtime takes these as a padding of -1 and -2 and begins with the second row.
    network = saved(
        one_node(
            "Conv", numbers((2, 3, 1, 3), 1), auto_pad="SAME_UPPER", strides=[4, 1], inputs=TALL
        ),
        tmp_path,
        "cropped.onnx",
    )
    assert main(["cnn", "verify", network]) == 0
    printed = capsys.readouterr()
    assert "equal" in printed.out
    assert "ONNX Runtime crops the input (microsoft/onnxruntime#10086)" in printed.err
    plain = saved(
        one_node(
            "Conv", numbers((2, 3, 1, 3), 1), auto_pad="SAME_UPPER", strides=[4, 1], inputs=FIT
        ),
        tmp_path,
        "plain.onnx",
    )
    assert cropped_windows(plain) == ()

"""Quantised ONNX: integers between layers, beside ONNX Runtime on the same file."""

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from cnn2csdf import operators as op
from cnn2csdf.catalogue.networks import from_catalogue
from cnn2csdf.dtypes import Element
from cnn2csdf.execution.calibration import calibrated_weights
from cnn2csdf.execution.compare import random_frames
from cnn2csdf.execution.layer_by_layer import run_layer_by_layer
from cnn2csdf.execution.streaming_executor import run_row_by_row
from cnn2csdf.granularity import ROWS
from cnn2csdf.lowering import lower
from cnn2csdf.onnx_files.reader import read_onnx
from cnn2csdf.onnx_files.writer import onnx_bytes
from cnn2csdf.parameters import parameter_bytes
from cnn2csdf.rewrite_names import REWRITE_NAMES
from cnn2csdf.simplify import REWRITES, simplified
from cnn2csdf.weights import Model
from csdf.analysis.bound_channels import with_capacities
from csdf.analysis.self_timed import self_timed_execution
from csdf.errors import UnreadableFile, UnsupportedOperator
from csdf.search.trade_off import smallest_storage
from tests.cnn2csdf.onnx_models import runtime_outputs, saved
from tests.shared_data import SHARED, each

quantization = pytest.importorskip("onnxruntime.quantization")

NETWORKS = {
    "resnet8": "",
    "squeezenet1_1": "resolution=64",
    "mobilenet_v2": "width=1/4,resolution=32",
    "resnet18": "resolution=32",
}
QUICK_AND_SLOW = [
    "resnet8",
    *(pytest.param(name, marks=pytest.mark.slow) for name in list(NETWORKS)[1:]),
]
STEP = 1 / 255  # of the softmax at the end: shares of one in 8 bits


class Frames(quantization.CalibrationDataReader):
    """Random frames from which the runtime takes the ranges of tensors."""

    def __init__(self, network):
        frames = random_frames(network, 3, 1)
        self._frames = iter([{k: v[None] for k, v in frame.items()} for frame in frames])

    def get_next(self):
        return next(self._frames, None)


def quantized_file(name, folder, form, **options):
    network = from_catalogue(f"{name}:{NETWORKS[name]}".rstrip(":"))
    model = REWRITES["eliminate-nop"](
        Model(network=network, weights=calibrated_weights(network, 0))
    )
    path = str(folder / "integers.onnx")
    quantization.quantize_static(
        saved(onnx_bytes(model), folder, "real.onnx"),
        path,
        Frames(model.network),
        quant_format=quantization.QuantFormat[form],
        weight_type=quantization.QuantType.QInt8,
        **options,
    )
    return path, parameter_bytes(simplified(model, ("fuse-bn",)).network)


def by_rows(model, frames):
    graph = lower(model.network, ROWS)
    bounded = with_capacities(graph, smallest_storage(graph).point.capacities)
    firings = self_timed_execution(bounded, iterations=len(frames)).firings
    return run_row_by_row(model, bounded, firings, frames).outputs


@pytest.mark.parametrize(("form", "per_channel"), [("QDQ", True), ("QOperator", False)])
@pytest.mark.parametrize("name", QUICK_AND_SLOW[:-1])
def test_a_quantised_network_by_rows_gives_the_runtimes_outputs(name, form, per_channel, tmp_path):
    activations = quantization.QuantType.QInt8 if per_channel else quantization.QuantType.QUInt8
    path, _ = quantized_file(
        name, tmp_path, form, per_channel=per_channel, activation_type=activations
    )
    model = read_onnx(path, with_weights=True)
    frames = random_frames(model.network, 2, 5)
    for frame, found in zip(frames, by_rows(model, frames), strict=True):
        expected = runtime_outputs(path, {k: v[None] for k, v in frame.items()})
        whole = run_layer_by_layer(model, frame)
        for ours, theirs in zip(found.values(), expected, strict=True):
            # The runtime computes softmax and some sums of integers in single precision.
            assert np.abs(ours - theirs.reshape(ours.shape)).max() <= 1.01 * STEP
        for name_of_output, array in found.items():
            assert np.array_equal(array, whole[name_of_output])


def test_buffers_and_weights_of_a_quantised_network_are_counted_in_bytes(tmp_path):
    path, _ = quantized_file(
        "resnet8", tmp_path, "QDQ", activation_type=quantization.QuantType.QUInt8
    )
    network = read_onnx(path).network
    inside = [one for one in network.layers if not one.is_end]
    # All but the first, which stores the frame as integers, and the last, which makes them real.
    assert {one.element for one in inside[:-1]} == {Element.UINT8}
    kernels = [
        one.stored_as("kernel") for one in inside if isinstance(one.operator, op.Convolution)
    ]
    assert {one.element for one in kernels} == {Element.INT8}


def scales(**values):
    return [numpy_helper.from_array(np.array(value), name) for name, value in values.items()]


F, U, S = np.float32, np.uint8, np.int8
NODES = {
    "add": ("QLinearAdd", "x xs xz w ws wz ys yz", {}, (1, 4, 3, 5)),
    "multiply": ("QLinearMul", "x xs xz w ws wz ys yz", {}, (1, 4, 3, 5)),
    "sigmoid": ("QLinearSigmoid", "x xs xz ss sz", {}, (1, 4, 3, 5)),
    "leaky": ("QLinearLeakyRelu", "x xs xz ys yz", {"alpha": 0.125}, (1, 4, 3, 5)),
    "average": (
        "QLinearAveragePool", "x xs xz ys yz", {"kernel_shape": [2, 2], "strides": [1, 2]},
        (1, 4, 2, 2),
    ),
    "global": ("QLinearGlobalAveragePool", "x xs xz ys yz", {"channels_last": 0}, (1, 4, 1, 1)),
    "concat": ("QLinearConcat", "ys yz x xs xz v ws wz", {"axis": 1}, (1, 8, 3, 5)),
    "softmax": ("QLinearSoftmax", "x xs xz ss sz", {"axis": 1, "opset": 12}, (1, 4, 3, 5)),
    "softmax of the last axis": ("QLinearSoftmax", "x xs xz ss sz", {"opset": 11}, (1, 4, 3, 5)),
}  # fmt: skip


@pytest.mark.parametrize("name", NODES)
def test_an_operator_between_integers_is_within_a_step_of_the_runtime(name, tmp_path):
    kind, inputs, attributes, dims = NODES[name]
    generator = np.random.default_rng(0)
    x = generator.integers(0, 256, (1, 4, 3, 5)).astype(U)
    frames = {one: x for one in ("x", "v") if one in inputs.split()}
    constants = scales(
        xs=F(0.05), xz=U(120), ws=F(0.03), wz=U(7), ys=F(0.07), yz=U(130), ss=F(1 / 256), sz=U(0),
        w=generator.integers(0, 256, (1, 4, 3, 5)).astype(U),
    )  # fmt: skip
    node = helper.make_node(kind, inputs.split(), ["q"], domain="com.microsoft", **attributes)
    output = "ss sz" if "ss sz" in inputs else "ys yz"
    real = helper.make_node("DequantizeLinear", ["q", *output.split()], ["y"])
    graph = helper.make_graph(
        [node, real],
        "one",
        [helper.make_tensor_value_info(one, TensorProto.UINT8, x.shape) for one in frames],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, dims)],
        constants,
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    path = saved(helper.make_model(graph, opset_imports=opsets, ir_version=9), tmp_path)
    (expected,) = runtime_outputs(path, frames)
    model = read_onnx(path, with_weights=True)
    (found,) = run_layer_by_layer(model, {one: array[0] for one, array in frames.items()}).values()
    step = 1 / 256 if output == "ss sz" else 0.07
    assert model.network.layer("x").element is Element.UINT8
    assert np.abs(found - expected[0]).max() <= 1.01 * step


@pytest.mark.parametrize("name", ["average", "global"])
def test_a_pooling_between_integers_with_channels_last_is_refused(name, tmp_path):
    kind, inputs, attributes, _ = NODES[name]
    attributes = {**attributes, "channels_last": 1}
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node(kind, inputs.split(), ["y"], domain="com.microsoft", **attributes)],
        "channels",
        [value("x", TensorProto.UINT8, (1, 4, 3, 5))],
        [value("y", TensorProto.UINT8, (1, None, None, 5))],
        scales(xs=F(0.05), xz=U(120), ys=F(0.07), yz=U(130)),
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    path = saved(helper.make_model(graph, opset_imports=opsets, ir_version=9), tmp_path)
    with pytest.raises(UnsupportedOperator, match=rf"{kind}\): channels_last = 1 is not supported"):
        read_onnx(path)


def test_a_scale_that_depends_on_the_frame_is_refused(tmp_path):
    nodes = [
        helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "s", "z"]),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["y"]),
    ]
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes, "dynamic",
        [value("x", TensorProto.FLOAT, (1, 4))], [value("y", TensorProto.FLOAT, (1, 4))],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    with pytest.raises(UnsupportedOperator, match="a scale that is computed from the frame"):
        read_onnx(saved(model, tmp_path))


@pytest.mark.parametrize("options", [{}, {"per_channel": True}], ids=["tensor", "channel"])
@pytest.mark.parametrize("weights", ["QInt8", "QUInt8"])
@pytest.mark.parametrize("name", QUICK_AND_SLOW[:-1])
def test_a_network_quantised_at_run_time_by_rows_gives_the_runtimes_outputs(
    name, weights, options, tmp_path
):
    network = from_catalogue(f"{name}:{NETWORKS[name]}".rstrip(":"))
    model = REWRITES["eliminate-nop"](
        Model(network=network, weights=calibrated_weights(network, 0))
    )
    path = str(tmp_path / "dynamic.onnx")
    quantization.quantize_dynamic(
        saved(onnx_bytes(model), tmp_path, "real.onnx"),
        path,
        weight_type=quantization.QuantType[weights],
        **options,
    )
    model = read_onnx(path, with_weights=True)
    elements = {one.name: one.element for one in model.network.layers}
    assert {Element.UINT8, Element.INT32, Element.FLOAT32} == set(elements.values())
    frames = random_frames(model.network, 1, 5)
    (found,) = by_rows(model, frames)
    expected = runtime_outputs(path, {k: v[None] for k, v in frames[0].items()})
    for ours, theirs in zip(found.values(), expected, strict=True):
        np.testing.assert_allclose(ours, theirs.reshape(ours.shape), atol=1e-6)


class Numbers(quantization.CalibrationDataReader):
    """Random frames for the input x."""

    def __init__(self, dims):
        generator = np.random.default_rng(0)
        self._frames = iter([{"x": generator.normal(size=dims).astype(F)} for _ in range(3)])

    def get_next(self):
        return next(self._frames, None)


def small_file(folder, opset):
    """A network with one of most operators that the runtime has between integers."""
    generator = np.random.default_rng(1)

    def numbers(name, *dims):
        return numpy_helper.from_array(generator.normal(0, 0.3, dims).astype(F), name)

    make = helper.make_node
    nodes = [
        make("Conv", ["x", "w1", "b1"], ["c1"], pads=[1] * 4),
        make("LeakyRelu", ["c1"], ["l1"], alpha=0.1),
        make("AveragePool", ["l1"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
        make("Conv", ["p", "w2"], ["c2"], group=4, pads=[1] * 4),
        make("Sigmoid", ["c2"], ["s"]),
        make("Mul", ["c2", "s"], ["m"]),
        make("Add", ["m", "p"], ["a"]),
        make("Concat", ["a", "p"], ["cc"], axis=1),
        make("GlobalAveragePool", ["cc"], ["g"]),
        make("Flatten", ["g"], ["f"]),
        make("Gemm", ["f", "w3", "b3"], ["z"], transB=1),
        make("Softmax", ["z"], ["y"], axis=1),
    ]
    graph = helper.make_graph(
        nodes,
        "small",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, 3, 12, 12))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, (1, 5))],
        [numbers("w1", 4, 3, 3, 3), numbers("b1", 4), numbers("w2", 4, 1, 3, 3),
         numbers("w3", 5, 8), numbers("b3", 5)],
    )  # fmt: skip
    opsets = [helper.make_opsetid("", opset)]
    return saved(helper.make_model(graph, opset_imports=opsets, ir_version=8), folder, "small.onnx")


@pytest.mark.parametrize("per_channel", [False, True])
@pytest.mark.parametrize("form", ["QDQ", "QOperator"])
@pytest.mark.parametrize("opset", [10, 12, 13, 21])
def test_files_of_old_and_new_opsets_are_within_a_step_of_the_runtime(
    opset, form, per_channel, tmp_path
):
    path = str(tmp_path / "integers.onnx")
    quantization.quantize_static(
        small_file(tmp_path, opset),
        path,
        Numbers((1, 3, 12, 12)),
        quant_format=quantization.QuantFormat[form],
        per_channel=per_channel,
        activation_type=quantization.QuantType.QInt8,
        weight_type=quantization.QuantType.QInt8,
    )
    model = read_onnx(path, with_weights=True)
    (frame,) = random_frames(model.network, 1, 5)
    (found,) = run_layer_by_layer(model, frame).values()
    if form == "QDQ" and per_channel and opset < 13:
        return  # an axis came with opset 13: written by the runtime's tool, refused by the runtime
    (expected,) = runtime_outputs(path, {"x": frame["x"][None]})
    assert np.abs(found - expected[0]).max() <= 1.01 * STEP
    if form == "QOperator":
        assert np.array_equal(found, expected[0])


@pytest.mark.parametrize("alpha", [1.0, 2.0, 3.0])
@pytest.mark.parametrize("stored", ["", " ys yz"], ids=["real", "integers"])
def test_alpha_of_a_product_between_integers_multiplies_its_bias(alpha, stored, tmp_path):
    constants = scales(
        xs=F(0.5), xz=U(128), w=np.array([[100, -50], [-45, 20]], S), ws=F(0.25), wz=S(0),
        b=np.array([8, -20], np.int32), ys=F(0.125), yz=U(100),
    )  # fmt: skip
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "xs", "xz"], ["q"]),
        helper.make_node(
            "QGemm", f"q xs xz w ws wz b{stored}".split(), ["p" if stored else "y"],
            domain="com.microsoft", alpha=alpha,
        ),
    ]  # fmt: skip
    if stored:
        nodes.append(helper.make_node("DequantizeLinear", ["p", "ys", "yz"], ["y"]))
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes, "product", [value("x", TensorProto.FLOAT, (1, 2))],
        [value("y", TensorProto.FLOAT, (1, 2))], constants,
    )  # fmt: skip
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    path = saved(helper.make_model(graph, opset_imports=opsets, ir_version=9), tmp_path)
    x = np.array([[0.5, 1]], F)
    (expected,) = runtime_outputs(path, {"x": x})
    (found,) = run_layer_by_layer(read_onnx(path, with_weights=True), {"x": x[0]}).values()
    assert found.tolist() == expected[0].tolist() == [alpha * 2.25, alpha * -3.75]


@pytest.mark.parametrize("scale", [0.002, 1e-6, 1e-9])
@pytest.mark.parametrize("kind", ["Conv", "Gemm"])
def test_a_bias_in_another_scale_than_the_products_is_rounded_to_theirs(kind, scale, tmp_path):
    dims = {"Conv": (3, 2, 2, 2), "Gemm": (4, 3)}[kind]
    weights = np.random.default_rng(0).integers(-127, 128, dims).astype(S)
    nodes = [
        helper.make_node("DequantizeLinear", ["w", "ws", "wz"], ["f"]),
        helper.make_node("DequantizeLinear", ["b", "bs"], ["c"]),
        helper.make_node(kind, ["r", "f", "c"], ["s"]),
    ]
    constants = {"w": weights, "ws": F(scale), "wz": S(0), "bs": F(0.3)}
    constants["b"] = np.array([3, -9, 8], np.int32)
    frame, result = {"Conv": ((2, 3, 3), (3, 2, 2)), "Gemm": ((4,), (3,))}[kind]
    if scale == 1e-9:  # -2.7 / (0.05 * 1e-9)
        with pytest.raises(UnsupportedOperator, match="the bias does not fit into int32"):
            between_integers(nodes, frame, result, tmp_path, **constants)
        return
    network, found, expected = between_integers(nodes, frame, result, tmp_path, **constants)
    (product,) = (layer for layer in network.layers if layer.operator.weight_role)
    assert product.quantization is not None
    assert np.abs(found.astype(int) - expected).max() == 0
    assert len(np.unique(expected)) > 2


PRODUCTS = {
    "DynamicQuantizeMatMul": "x w ws wz b",
    "MatMulIntegerToFloat": "q w xs ws xz wz b",
}


@pytest.mark.parametrize("kind", PRODUCTS)
def test_a_product_of_the_runtime_is_its_steps(kind, tmp_path):
    generator = np.random.default_rng(0)
    constants = scales(
        w=generator.integers(-128, 128, (6, 4)).astype(S), ws=F(0.03), wz=S(3), xs=F(0.05),
        xz=U(120), b=generator.normal(size=4).astype(F),
    )  # fmt: skip
    is_real = kind.startswith("Dynamic")
    nodes = [helper.make_node(kind, PRODUCTS[kind].split(), ["y"], domain="com.microsoft")]
    if not is_real:  # the frame is real, its scale is a constant
        nodes.insert(0, helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "xs2", "xz2"]))
        nodes[1].input[2], nodes[1].input[4] = "xs2", "xz2"
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes, "product", [value("x", TensorProto.FLOAT, (1, 5, 6))],
        [value("y", TensorProto.FLOAT, (1, 5, 4))], constants,
    )  # fmt: skip
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    path = saved(helper.make_model(graph, opset_imports=opsets, ir_version=9), tmp_path)
    x = generator.normal(size=(1, 5, 6)).astype(F)
    (expected,) = runtime_outputs(path, {"x": x})
    (found,) = run_layer_by_layer(read_onnx(path, with_weights=True), {"x": x[0]}).values()
    np.testing.assert_allclose(found, expected[0], rtol=1e-5, atol=1e-5)


def test_zero_points_of_weights_are_one_or_one_for_each_channel(tmp_path):
    constants = scales(w=np.ones((2, 3, 1, 1), S), o=np.zeros(5, S))
    nodes = [
        helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "s", "z"]),
        helper.make_node("ConvInteger", ["q", "w", "z", "o"], ["y"], name="c"),
    ]
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes, "zeros", [value("x", TensorProto.FLOAT, (1, 3, 2, 2))],
        [value("y", TensorProto.INT32, (1, 2, 2, 2))], constants,
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    with pytest.raises(UnreadableFile, match="5 zero points of weights for 2 channels"):
        read_onnx(saved(model, tmp_path), with_weights=True)


ATTENTION = SHARED / "networks" / "attention"


@pytest.mark.parametrize("steps", [(), REWRITE_NAMES], ids=["as in the file", "tokens as rows"])
@each("file", sorted(path.name for path in ATTENTION.glob("*_int8.onnx")))
def test_attention_in_integers_gives_the_bits_of_the_unoptimised_runtime(file, steps):
    read = read_onnx(str(ATTENTION / file), with_weights=True)
    model, (source,) = simplified(read, steps), read.network.inputs
    golden = np.load(ATTENTION / file.replace("_int8.onnx", ".npz"))
    for number in range(2):
        frame = golden[f"x_{number}"].reshape(source.shape.dims)
        (found,) = run_layer_by_layer(model, {source.name: frame}).values()
        wanted = golden[f"y_int8_plain_{number}"]
        assert np.array_equal(found.reshape(wanted.shape), wanted)


def between_integers(nodes, dims, result, folder, **constants):
    """A file that makes x real, does what the nodes say to r, and stores s; and both sides of it."""
    arrays = dict(zs=F(0.05), zz=S(3), qs=F(0.03), qz=S(-7), **constants)
    model = helper.make_graph(
        [
            helper.make_node("DequantizeLinear", ["x", "zs", "zz"], ["r"]),
            *nodes,
            helper.make_node("QuantizeLinear", ["s", "qs", "qz"], ["y"]),
        ],
        "one",
        [helper.make_tensor_value_info("x", TensorProto.INT8, (1, *dims))],
        [helper.make_tensor_value_info("y", TensorProto.INT8, (1, *result))],
        scales(**arrays),
    )
    opsets = [helper.make_opsetid("", 17)]
    path = saved(helper.make_model(model, opset_imports=opsets, ir_version=9), folder)
    frame = np.random.default_rng(1).integers(-128, 128, (1, *dims)).astype(S)
    runtime = pytest.importorskip("onnxruntime")
    options = runtime.SessionOptions()
    options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    session = runtime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    (expected,) = session.run(None, {"x": frame})
    read = read_onnx(path, with_weights=True)
    (found,) = run_layer_by_layer(read, {"x": frame[0]}).values()
    return read.network, found[None], expected


def test_products_near_a_half_are_rounded_as_the_runtime_rounds_them(tmp_path):
    # 200 columns in two blocks, and so many results that some lie within the error of a half.
    generator = np.random.default_rng(4)
    matrix = generator.integers(-127, 128, (200, 160)).astype(S)
    nodes = [
        helper.make_node("DequantizeLinear", ["m", "ms", "mz"], ["real"]),
        helper.make_node("MatMul", ["r", "real"], ["s"]),
    ]
    network, found, expected = between_integers(
        nodes, (150, 200), (150, 160), tmp_path, m=matrix, ms=F(0.01), mz=S(0)
    )
    assert [one.element for one in network.layers] == [Element.INT8] * 3
    assert np.array_equal(found, expected)


@pytest.mark.filterwarnings("error")
def test_roots_of_negative_numbers_are_stored_as_the_minimum(tmp_path):
    nodes = [helper.make_node("Sqrt", ["r"], ["s"])]
    _, found, expected = between_integers(nodes, (4, 64), (4, 64), tmp_path)
    assert np.array_equal(found, expected)


def test_functions_of_one_element_in_a_row_are_one_layer_between_integers(tmp_path):
    nodes = [
        helper.make_node("Div", ["r", "root"], ["d"]),
        helper.make_node("Erf", ["d"], ["s"]),
    ]
    network, found, expected = between_integers(nodes, (4, 64), (4, 64), tmp_path, root=F(2**0.5))
    assert len(network.layers) == 3
    assert np.abs(found.astype(int) - expected).max() <= 1  # both approximate the function
    assert (found != expected).mean() < 0.02


@pytest.mark.parametrize("groups", [1, 40])
def test_windows_over_lines_are_layers_between_integers(groups, tmp_path):
    generator = np.random.default_rng(4)
    taps = 1 if groups == 1 else 15
    kernel = generator.integers(-127, 128, (80, 80 // groups, taps)).astype(S)
    conv = {"group": groups, "pads": [taps // 2] * 2}
    nodes = [
        helper.make_node("DequantizeLinear", ["m", "ms", "mz"], ["real"]),
        helper.make_node("Conv", ["r", "real"], ["s"], name="c", **conv),
    ]
    network, found, expected = between_integers(
        nodes, (80, 150), (80, 150), tmp_path, m=kernel, ms=F(0.01), mz=S(0)
    )
    assert {one.element for one in network.layers} == {Element.INT8}
    if groups == 1:  # a product of matrices: rounded as the runtime rounds
        assert np.array_equal(found, expected)
    assert np.abs(found.astype(int) - expected).max() <= 1
    # One sum in 60 is a half, as 0.05 * 0.01 / 0.03 is 1/60; reals are a little off from some.
    assert (found != expected).mean() < 0.005


def test_constants_are_quantized_to_the_type_that_the_node_states(tmp_path):
    quantize = helper.make_node("QuantizeLinear", ["c", "s"], ["q"], output_dtype=TensorProto.INT8)
    model = helper.make_graph(
        [
            quantize,
            helper.make_node("DequantizeLinear", ["q", "s"], ["r"]),
            helper.make_node("Add", ["x", "r"], ["y"]),
        ],
        "one",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, 3))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, (1, 3))],
        scales(c=np.array([-3, 0.5, 99], np.float32), s=np.array(0.5, np.float32)),
    )
    opsets = [helper.make_opsetid("", 21)]
    path = saved(helper.make_model(model, opset_imports=opsets, ir_version=10), tmp_path)
    read = read_onnx(path, with_weights=True)
    (found,) = run_layer_by_layer(read, {"x": np.zeros(3, np.float32)}).values()
    assert found.tolist() == [-3, 0.5, 63.5]


def on_stored_integers(node, folder, *, begins_with_integers=False, **constants):
    """A file where a node reads integers q and writes integers r of the same scale and zero point."""
    x = ("q", TensorProto.UINT8) if begins_with_integers else ("x", TensorProto.FLOAT)
    nodes = [node, helper.make_node("DequantizeLinear", ["r", "qs", "qz"], ["y"])]
    if not begins_with_integers:
        nodes.insert(0, helper.make_node("QuantizeLinear", ["x", "qs", "qz"], ["q"]))
    graph = helper.make_graph(
        nodes,
        "stored",
        [helper.make_tensor_value_info(*x, (1, 2, 3, 3))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        scales(qs=F(0.05), qz=U(100), **constants),
    )
    opsets = [helper.make_opsetid("", 18)]
    return saved(helper.make_model(graph, opset_imports=opsets, ir_version=8), folder)


AROUND = np.array([0, 0, 1, 0, 0, 0, 0, 2])
STORED = {
    "pad with 0": (helper.make_node("Pad", ["q", "around"], ["r"]), {"around": AROUND}),
    "pad with 160": (
        helper.make_node("Pad", ["q", "around", "fill"], ["r"]),
        {"around": AROUND, "fill": U(160)},
    ),
    "transpose": (helper.make_node("Transpose", ["q"], ["r"], perm=[0, 2, 3, 1]), {}),
    "maxima": (helper.make_node("MaxPool", ["q"], ["r"], kernel_shape=[2, 2]), {}),
}


@pytest.mark.parametrize("name", STORED)
@pytest.mark.parametrize("begins_with_integers", [False, True], ids=["real", "integers"])
def test_integers_are_moved_as_they_are_stored(name, begins_with_integers, tmp_path):
    node, constants = STORED[name]
    path = on_stored_integers(
        node, tmp_path, begins_with_integers=begins_with_integers, **constants
    )
    if begins_with_integers and node.op_type == "Pad":  # read before the scale is known
        with pytest.raises(UnsupportedOperator, match="pad of integers as they are stored"):
            read_onnx(path)
        return
    model = read_onnx(path, with_weights=True)
    (frame,) = random_frames(model.network, 1, 3)
    (expected,) = runtime_outputs(path, {name: array[None] for name, array in frame.items()})
    (found,) = run_layer_by_layer(model, frame).values()
    assert np.array_equal(found, expected[0])


@pytest.mark.parametrize("kind", ["Clip", "Max", "Abs", "Add"])
def test_functions_of_integers_as_they_are_stored_are_refused(kind, tmp_path):
    names = {"Clip": ["q", "", "b"], "Max": ["q", "b"], "Abs": ["q"], "Add": ["q", "b"]}[kind]
    path = on_stored_integers(helper.make_node(kind, names, ["r"]), tmp_path, b=U(120))
    with pytest.raises(UnsupportedOperator, match="of integers as they are stored"):
        read_onnx(path)


@pytest.mark.parametrize("target", ["FLOAT", "INT64", "BOOL"])
@pytest.mark.parametrize("kind", ["Cast", "Equal"])
def test_casts_and_comparisons_of_integers_as_they_are_stored_are_refused(kind, target, tmp_path):
    element = getattr(TensorProto, target)
    stored = helper.make_node("QuantizeLinear", ["x", "qs", "qz"], ["q"])
    cast = helper.make_node("Cast", ["q"], ["y"], to=element)
    nodes = [stored, cast]
    if kind == "Equal":
        cast.input[0] = "c"
        nodes.insert(1, helper.make_node("Equal", ["q", "q"], ["c"]))
    graph = helper.make_graph(
        nodes,
        "stored",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, 2, 3, 3))],
        [helper.make_tensor_value_info("y", element, None)],
        scales(qs=F(0.05), qz=U(100)),
    )
    opsets = [helper.make_opsetid("", 18)]
    path = saved(helper.make_model(graph, opset_imports=opsets, ir_version=8), tmp_path)
    words = "equal" if kind == "Equal" else "is not zero" if target == "BOOL" else "cast"
    expected = f"{words} of integers as they are stored; expected DequantizeLinear before it"
    with pytest.raises(UnsupportedOperator, match=f"{expected}$"):
        read_onnx(path)

"""Quantised ONNX: integers between layers, beside ONNX Runtime on the same file."""

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from cnn2csdf import operators as op
from cnn2csdf.catalogue.networks import from_catalogue
from cnn2csdf.elements import Element
from cnn2csdf.execution.by_parts import run_by_parts
from cnn2csdf.execution.calibration import calibrated_weights
from cnn2csdf.execution.compare import random_frames
from cnn2csdf.execution.whole import run_whole
from cnn2csdf.granularity import ROWS
from cnn2csdf.lowering import lower
from cnn2csdf.onnx_files.reader import read_onnx
from cnn2csdf.onnx_files.writer import onnx_bytes
from cnn2csdf.parameters import parameter_bytes
from cnn2csdf.simplify import drop_identities, simplified
from cnn2csdf.weights import Model
from csdf.analysis.bounded import with_capacities
from csdf.analysis.self_timed import self_timed_execution
from csdf.errors import UnsupportedOperator
from csdf.search.trade_off import smallest_storage
from tests.cnn2csdf.onnx_models import runtime_outputs, saved

quantization = pytest.importorskip("onnxruntime.quantization")

NETWORKS = {
    "resnet8": "",
    "squeezenet1_1": "resolution=64",
    "mobilenet_v2": "width=1/4,resolution=32",
    "resnet18": "resolution=32",
}
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
    model = drop_identities(Model(network=network, weights=calibrated_weights(network, 0)))
    path = str(folder / "integers.onnx")
    quantization.quantize_static(
        saved(onnx_bytes(model), folder, "real.onnx"),
        path,
        Frames(model.network),
        quant_format=quantization.QuantFormat[form],
        weight_type=quantization.QuantType.QInt8,
        **options,
    )
    return path, parameter_bytes(simplified(model, ("fold",)).network)


def by_rows(model, frames):
    graph = lower(model.network, ROWS)
    bounded = with_capacities(graph, smallest_storage(graph).point.capacities)
    firings = self_timed_execution(bounded, iterations=len(frames)).firings
    return run_by_parts(model, bounded, firings, frames).outputs


@pytest.mark.parametrize("per_channel", [False, True])
@pytest.mark.parametrize("form", ["QDQ", "QOperator"])
@pytest.mark.parametrize("name", NETWORKS)
def test_a_quantised_network_by_rows_gives_the_runtimes_outputs(name, form, per_channel, tmp_path):
    activations = quantization.QuantType.QInt8 if per_channel else quantization.QuantType.QUInt8
    path, _ = quantized_file(
        name, tmp_path, form, per_channel=per_channel, activation_type=activations
    )
    model = read_onnx(path, with_weights=True)
    frames = random_frames(model.network, 2, 5)
    for frame, found in zip(frames, by_rows(model, frames), strict=True):
        expected = runtime_outputs(path, {k: v[None] for k, v in frame.items()})
        whole = run_whole(model, frame)
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
    inside = [one for one in network.layers if not isinstance(one.operator, op.Input | op.Output)]
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
    output = "ss sz" if name == "sigmoid" else "ys yz"
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
    (found,) = run_whole(model, {one: array[0] for one, array in frames.items()}).values()
    step = 1 / 256 if name == "sigmoid" else 0.07
    assert model.network.layer("x").element is Element.UINT8
    assert np.abs(found - expected[0]).max() <= 1.01 * step


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
    with pytest.raises(UnsupportedOperator, match="DynamicQuantizeLinear"):
        read_onnx(saved(model, tmp_path))

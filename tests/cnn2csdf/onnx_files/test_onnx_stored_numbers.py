"""Sizes of elements and parameters as an ONNX file stores them."""

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from cnn2csdf.dtypes import Element
from cnn2csdf.lowering import lower
from cnn2csdf.onnx_files.reader import read_onnx
from cnn2csdf.onnx_files.writer import onnx_bytes
from cnn2csdf.parameters import parameter_bytes, uniform_bytes
from cnn2csdf.simplify import simplified
from tests.cnn2csdf.onnx_models import saved

KERNEL = 16 * 16 * 3 * 3 + 16  # numbers of the kernel and its bias


def constants(element, generator=None):
    generator = generator or np.random.default_rng(0)
    return [
        numpy_helper.from_array(generator.uniform(-1, 1, dims).astype(element), name)
        for name, dims in {"w": (16, 16, 3, 3), "b": (16,), "s": (16,)}.items()
    ]


def model_of(nodes, outputs, *, kind=TensorProto.FLOAT, element=np.float32):
    graph = helper.make_graph(
        nodes,
        "levels",
        [helper.make_tensor_value_info("x", kind, (1, 16, 8, 8))],
        [helper.make_tensor_value_info(name, kind, None) for name in outputs],
        constants(element),
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def conv(source, target, kernel="w"):
    return helper.make_node("Conv", [source, kernel, "b"], [target], pads=[1] * 4)


def levels(kernels=("w", "w", "w"), **options):
    """A convolution shared by three levels of a pyramid."""
    pool = {"kernel_shape": [2, 2], "strides": [2, 2]}
    nodes = [
        helper.make_node("Identity", ["w"], ["copy"]),
        helper.make_node("MaxPool", ["x"], ["half"], **pool),
        helper.make_node("MaxPool", ["half"], ["quarter"], **pool),
    ]
    for source, target, kernel in zip(
        ("x", "half", "quarter"), ("l0", "l1", "l2"), kernels, strict=True
    ):
        nodes.append(conv(source, target, kernel))
    return model_of(nodes, ("l0", "l1", "l2"), **options)


def test_a_kernel_on_three_levels_is_stored_once(tmp_path):
    network = read_onnx(saved(levels(), tmp_path)).network
    assert parameter_bytes(network) == 4 * KERNEL
    assert parameter_bytes(network, 1) == KERNEL


def test_a_kernel_under_another_name_is_the_same_kernel(tmp_path):
    network = read_onnx(saved(levels(("w", "copy", "w")), tmp_path)).network
    assert parameter_bytes(network) == 4 * KERNEL


def test_a_shared_kernel_is_still_shared_after_fusing_and_writing(tmp_path):
    model = simplified(read_onnx(saved(levels(), tmp_path), with_weights=True))
    path = tmp_path / "again.onnx"
    path.write_bytes(onnx_bytes(model))
    assert parameter_bytes(read_onnx(str(path)).network) == 4 * KERNEL


def normalized(pairs):
    """A shared kernel, with a scale a channel behind each use."""
    nodes = []
    for place, scale in enumerate(pairs):
        nodes.append(conv("x", f"c{place}"))
        nodes.append(helper.make_node("Unsqueeze", [scale, "axes"], [f"s{place}"]))
        nodes.append(helper.make_node("Mul", [f"c{place}", f"s{place}"], [f"m{place}"]))
    model = model_of(nodes, [f"m{place}" for place in range(len(pairs))])
    model.graph.initializer.append(numpy_helper.from_array(np.array([1, 2]), "axes"))
    return model


@pytest.mark.parametrize(("scales", "kernels"), [(("s", "s"), 1), (("s", "b"), 2)])
def test_folding_shares_a_kernel_only_where_it_folds_the_same_scale(scales, kernels, tmp_path):
    network = simplified(read_onnx(saved(normalized(scales), tmp_path))).network
    assert parameter_bytes(network) == kernels * 4 * KERNEL


def test_half_precision_counts_two_bytes(tmp_path):
    half = levels(kind=TensorProto.FLOAT16, element=np.float16)
    network = read_onnx(saved(half, tmp_path)).network
    assert {layer.element for layer in network.layers} == {Element.FLOAT16}
    assert parameter_bytes(network) == 2 * KERNEL
    assert {channel.token_size for channel in lower(network).channels if channel.token_size} >= {2}
    assert uniform_bytes(network) == 2
    assert parameter_bytes(network, 4) == 4 * KERNEL


def test_each_tensor_counts_with_its_own_elements(tmp_path):
    nodes = [
        helper.make_node("Cast", ["x"], ["half"], to=TensorProto.FLOAT16),
        conv("half", "conv"),
        helper.make_node("Cast", ["conv"], ["y"], to=TensorProto.FLOAT),
    ]
    model = model_of(nodes, ["y"], element=np.float16)
    model.graph.output[0].type.tensor_type.elem_type = TensorProto.FLOAT
    network = simplified(read_onnx(saved(model, tmp_path))).network
    sizes = {
        (one.producer, one.consumer): one.token_size
        for one in lower(network).channels
        if not one.is_self_loop
    }
    assert list(sizes.values()) == [4, 2, 2, 4]  # x, half, conv, y
    assert uniform_bytes(network) is None

"""The nine networks inside the onnx package: what is read, and that it computes the same."""

from math import prod

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from cnn2csdf.execution.layer_by_layer import run_layer_by_layer
from cnn2csdf.onnx_files.reader import read_onnx
from cnn2csdf.onnx_files.writer import onnx_bytes
from cnn2csdf.operators import ChannelShuffle
from cnn2csdf.parameters import layer_parameters
from tests.cnn2csdf.onnx_models import (
    NETWORKS,
    network_path,
    network_with_random_weights,
    numbers,
    runtime_outputs,
    saved,
)

PUBLISHED = {  # parameters, from model cards and papers
    "vgg19": 143_667_240,  # torchvision
    "resnet50": 25_557_032 + 2 * 26_560,  # torchvision; the means and variances of 26560 maps
    "squeezenet": 1_235_496,  # torchvision, SqueezeNet 1.1
    "bvlc_alexnet": 60_965_224,  # Caffe's reference network
}


def constant_sizes(graph):
    """Numbers in each tensor that no frame changes, from the shapes in the file."""
    arrays = {one.name: numpy_helper.to_array(one) for one in graph.initializer}
    sizes = {name: array.size for name, array in arrays.items()}
    for node in graph.node:  # of these, one fills and the others only rename the dims
        if node.op_type == "ConstantOfShape":
            sizes[node.output[0]] = prod(int(size) for size in arrays[node.input[0]])
        elif all(name in sizes for name in node.input):
            sizes[node.output[0]] = sizes[node.input[0]]
    return sizes


def layer_nodes(graph):
    sizes = constant_sizes(graph)
    return [node for node in graph.node if node.output[0] not in sizes]


def stored_parameters(graph):
    """Numbers that the layers read, reading by reading, without the dims of reshapes."""
    sizes = constant_sizes(graph)
    layers = [node for node in layer_nodes(graph) if node.op_type != "Reshape"]
    return sum(sizes.get(name, 0) for node in layers for name in node.input)


@pytest.mark.parametrize("name", NETWORKS)
def test_every_node_but_weights_is_a_layer(name):
    graph = onnx.load(network_path(name)).graph
    network = read_onnx(str(network_path(name))).network
    layers = len(layer_nodes(graph))
    # A shuffle is three nodes; then there are one input and one output.
    shuffles = sum(isinstance(layer.operator, ChannelShuffle) for layer in network.layers)
    assert len(network.layers) == layers - 2 * shuffles + 2


def test_shufflenet_shuffles_in_each_of_its_sixteen_units():
    layers = read_onnx(str(network_path("shufflenet"))).network.layers
    groups = [one.operator.groups for one in layers if isinstance(one.operator, ChannelShuffle)]
    # ShuffleNet (Zhang et al., CVPR 2018), table 1: stages of 4, 8 and 4 units, and 272 maps in
    # the first for 4 groups, halved here to 136.
    assert groups == [4] * (4 + 8 + 4)


@pytest.mark.parametrize("name", NETWORKS)
def test_the_parameters_are_those_in_the_file(name):
    network = read_onnx(str(network_path(name))).network
    total = sum(layer_parameters(network).values())
    assert total == stored_parameters(onnx.load(network_path(name)).graph)
    assert total == PUBLISHED.get(name, total)


@pytest.mark.parametrize("name", NETWORKS)
def test_a_network_sorts_into_a_thousand_classes(name):
    network = read_onnx(str(network_path(name))).network
    assert [layer.shape.dims for layer in network.inputs] == [(3, 224, 224)]
    assert [layer.shape.elements for layer in network.outputs] == [1000]


# Their layers are of the kinds that others have; their weights take the time.
WITH_MANY_WEIGHTS = ("bvlc_alexnet", "vgg19", "zfnet512")


@pytest.mark.slow
@pytest.mark.parametrize("name", [one for one in NETWORKS if one not in WITH_MANY_WEIGHTS])
def test_a_network_computes_what_the_runtime_computes(name, tmp_path):
    path = network_with_random_weights(name, tmp_path)
    show_what_softmax_reads(path)
    frame = numbers((1, 3, 224, 224), 1)
    model = read_onnx(path, with_weights=True)
    (source,) = model.network.inputs
    expected = runtime_outputs(path, {source.name: frame})[-1]
    found = list(run_layer_by_layer(model, {source.name: frame[0]}).values())[-1].reshape(
        expected.shape
    )
    assert len(np.unique(expected)) > 500  # not collapsed
    assert np.abs(found - expected).max() < 1e-5 * np.abs(expected).max()


def show_what_softmax_reads(path):
    """Make the tensor before a final softmax an output: behind it, most are nearly zero."""
    model = onnx.load(path)
    last = model.graph.node[-1]
    if last.op_type == "Softmax":
        model.graph.output.append(helper.make_tensor_value_info(last.input[0], 1, None))
        onnx.save(model, path)


@pytest.mark.parametrize("name", ["squeezenet", "shufflenet", "inception_v1"])
def test_a_network_written_and_read_again_is_the_same(name, tmp_path):
    first = read_onnx(str(network_path(name)), with_weights=True)
    second = read_onnx(saved(onnx_bytes(first), tmp_path), with_weights=True)
    kept = {layer.name: layer for layer in second.network.layers}
    for layer in first.network.layers:
        assert kept[layer.name].operator == layer.operator
        assert kept[layer.name].shape == layer.shape
        for role, array in first.weights.get(layer.name, {}).items():
            assert np.array_equal(second.weights[layer.name][role], array)

"""Networks written as ONNX: read again they are the same, and the runtime computes the same."""

from dataclasses import replace

import numpy as np
import onnx
import pytest

from cnn2csdf import operators as op
from cnn2csdf.builder import NetworkBuilder
from cnn2csdf.execution.layer_by_layer import run_layer_by_layer
from cnn2csdf.network import Network
from cnn2csdf.onnx_files.reader import read_onnx
from cnn2csdf.onnx_files.writer import onnx_bytes
from cnn2csdf.weights import Model, random_weights
from csdf.errors import InvalidNetwork
from tests.cnn2csdf.onnx_models import numbers, runtime_outputs, saved

MAP = (8, 6, 10)
WINDOW = op.Window(kernel=(3, 2), stride=(2, 1), dilation=(1, 2), padding=(1, 0, 2, 1))
HANGING = op.Window(kernel=(3, 3), stride=(2, 2), overhang=(1, 1))
CROPPING = op.Window(kernel=(2, 2), padding=(-1, 1, 0, -2))

SAME = {  # an operator and the dims it reads, written as one node
    "convolution": (op.Convolution(filters=4, window=WINDOW, groups=2), MAP),
    "no bias": (op.Convolution(filters=4, window=WINDOW, has_bias=False), MAP),
    "transposed": (
        op.TransposedConvolution(
            filters=4, window=replace(WINDOW, dilation=(1, 1)), groups=2, extra=(1, 0)
        ),
        MAP,
    ),
    "max": (op.Pooling(function="max", window=WINDOW), MAP),
    "ceil": (op.Pooling(function="average", window=HANGING), MAP),
    "counted": (
        op.Pooling(function="average", window=op.Window(kernel=(3, 3), padding=(1, 1, 1, 1)),
                   counts_padding=True),
        MAP,
    ),
    "global": (op.GlobalPooling(function="average"), MAP),
    "vector": (op.FullyConnected(units=5), (7,)),
    "product": (op.MatrixProduct(units=5), (4, 7)),
    "batch": (op.BatchNormalization(epsilon=0.01), MAP),
    "instance": (op.InstanceNormalization(), MAP),
    "layer": (op.LayerNormalization(axis=1), MAP),
    "layer without shift": (op.LayerNormalization(axis=2, has_bias=False), MAP),
    "response": (op.LocalResponseNormalization(size=5, alpha=0.1), MAP),
    "relu": (op.Activation(function="relu"), MAP),
    "leaky": (op.Activation(function="leaky relu", parameters=(0.1,)), MAP),
    "prelu": (op.Activation(function="prelu"), MAP),
    "clip": (op.Activation(function="clip", parameters=(-0.1, 0.5)), MAP),
    "half clip": (op.Activation(function="clip", parameters=(0.0, float("inf"))), MAP),
    "silu": (op.Activation(function="silu"), MAP),
    "gelu": (op.Activation(function="gelu"), MAP),
    "mish": (op.Activation(function="mish"), MAP),
    "selu": (op.Activation(function="selu", parameters=(1.5, 1.1)), MAP),
    "constant": (op.Elementwise(function="divide", constant=(8, 1, 1)), MAP),
    "first": (op.Elementwise(function="power", constant=(1,), constant_first=True), MAP),
    "slice": (op.Slice(axis=2, start=1, stop=9, step=3), MAP),
    "shuffle": (op.ChannelShuffle(groups=4), MAP),
    "nearest": (op.Resize(size=(9, 7), function="nearest", rounding="prefer ceil"), MAP),
    "linear": (op.Resize(size=(9, 7), function="linear", coordinates="half pixel"), MAP),
    "pad": (op.Pad(padding=(1, 0, -2, 3), value=2.0), MAP),
    "pad of channels": (op.Pad(padding=(1, 0, 0, 3), value=2.0, channels=(2, 1)), MAP),
    "edge": (op.Pad(padding=(1, 0, 2, 3), mode="edge"), MAP),
    "space": (op.SpaceToDepth(block=2), MAP),
    "depth": (op.DepthToSpace(block=2, order="channel first"), MAP),
    "reshape": (op.Reshape(dims=(48, 10)), MAP),
    "transpose": (op.Transpose(permutation=(2, 0, 1)), MAP),
    "dropout": (op.Identity(kind="dropout"), MAP),
    "softmax": (op.Softmax(axis=0), MAP),
    "logarithm": (op.Softmax(axis=0, is_logarithm=True), (9,)),
    "sum": (op.Reduction(function="sum", axes=(0, 2)), MAP),
    "cubic": (op.Resize(size=(9, 7), function="cubic", coordinates="half pixel"), MAP),
    "tanh gelu": (op.Activation(function="gelu tanh"), MAP),
    "round": (op.Activation(function="round"), MAP),
    "sine": (op.Activation(function="sin"), MAP),
    "repeat": (op.Repeat(axis=1, times=3), MAP),
    "gather": (op.Gather(axis=1, places=(2, 0, 5, 5)), MAP),
    "backwards": (op.Gather(axis=2, places=(9, 5, 1)), MAP),
    "token": (op.ConstantConcatenation(axis=1, constants=((0, (8, 1, 10)),)), MAP),
    "product of maps": (
        op.TensorProduct(terms=("abc", "dac"), result="abd", constants=((1, (4, 8, 10)),)), MAP
    ),
    "first of equal": (op.Ranking(axis=2, count=3), MAP),
    "running": (op.RunningSum(axis=0, is_reversed=True), MAP),
    "length": (op.Reduction(function="l2", axes=(1,), keeps=False), MAP),
}  # fmt: skip
COMPOSED = {  # written as several nodes, read as several layers
    "product of rows": (
        op.TensorProduct(terms=("abc", "dc"), result="abd", constants=((1, (4, 10)),)),
        MAP,
    ),
    "not equal": (op.Elementwise(function="not equal", constant=(8, 1, 1)), MAP),
    "floor divide": (op.Elementwise(function="floor divide", constant=(8, 1, 1)), MAP),
    "crop": (op.Convolution(filters=4, window=CROPPING), MAP),
    "crop and pool": (op.Pooling(function="average", window=CROPPING), MAP),
    "zeros below": (op.Convolution(filters=4, window=HANGING), MAP),
    "half a ceiling": (op.Pooling(function="max", window=replace(HANGING, overhang=(1, 0))), MAP),
    "flattened": (op.FullyConnected(units=5), MAP),
    "darknet": (op.SpaceToDepth(block=2, order="darknet"), MAP),
    "wide softmax": (op.Softmax(axis=1, last=2), MAP),
    "truncate": (op.Activation(function="truncate"), MAP),
    "is not zero": (op.Activation(function="is not zero"), MAP),
    "not": (op.Activation(function="not"), MAP),
    "erf": (op.Activation(function="erf"), MAP),
    "zero for nan": (op.Activation(function="zero for nan"), MAP),
    "embedding": (op.Embedding(entries=9, width=3), (1, 6, 7)),
    "scaled embedding": (op.ScaledEmbedding(entries=9, width=3, scales=(0.5,)), (1, 6, 7)),
    "embedding scaled by row": (
        op.ScaledEmbedding(entries=3, width=2, scales=(0.5, 1.5, -2.0)),
        (1, 6, 7),
    ),
    "greater": (op.Elementwise(function="greater", constant=(8, 1, 1)), MAP),
    "less first": (op.Elementwise(function="less", constant=(1,), constant_first=True), MAP),
    "where": (op.Choice(constants=((1, (1,)), (2, (8, 1, 1)))), MAP),
    "where trained": (op.Choice(constants=((0, (8, 6, 1)), (2, (1,)))), MAP),
    "place of max": (op.ExtremePlace(function="max", axis=0), MAP),
    "last place of min": (op.ExtremePlace(function="min", axis=1, takes_last=True), MAP),
    "places": (op.Ranking(axis=0, count=2, takes_largest=False, gives_places=True), MAP),
    "lstm": (op.Recurrence(kind="lstm", units=5, direction="bidirectional"), (7, 1, 3)),
    "gru": (op.Recurrence(kind="gru", units=5, resets_after=True, has_state=True), (7, 2, 3)),
    "rnn": (op.Recurrence(kind="rnn", units=5, direction="reverse", gives="last"), (7, 1, 3)),
    "cell": (
        op.Recurrence(kind="lstm", units=4, gives="cell", has_cell=True, has_state=True),
        (6, 2, 3),
    ),
    "full": (op.Reduction(function="max", axes=(0, 1, 2), keeps=False), MAP),
}


def one_layer(operator, dims):
    builder = NetworkBuilder("one")
    builder.output(builder.add(operator, builder.input(dims, name="in"), name="the layer"))
    network = builder.network()
    return Model(network=network, weights=random_weights(network, 1))


def computed(model, frame):
    return list(run_layer_by_layer(model, frame).values())


def check_the_runtime_agrees(model, folder):
    path = saved(onnx_bytes(model), folder)
    onnx.checker.check_model(path, full_check=True)
    frame = {one.name: numbers(one.shape.dims, 3, 0.1, 2) for one in model.network.inputs}
    expected = runtime_outputs(path, {name: one[None] for name, one in frame.items()})
    again = computed(read_onnx(path, with_weights=True), frame)
    for ours, theirs, read in zip(computed(model, frame), expected, again, strict=True):
        np.testing.assert_allclose(ours, theirs[0], rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(ours, read, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", SAME)
def test_a_layer_read_again_is_the_same(name, tmp_path):
    model = one_layer(*SAME[name])
    again = read_onnx(saved(onnx_bytes(model), tmp_path), with_weights=True)
    assert again.network.layers == model.network.layers
    for role, array in model.weights["the layer"].items():
        assert np.array_equal(again.weights["the layer"][role], array)


@pytest.mark.parametrize("name", [*SAME, *COMPOSED])
def test_the_runtime_computes_the_same(name, tmp_path):
    check_the_runtime_agrees(one_layer(*(SAME | COMPOSED)[name]), tmp_path)


def branches():
    builder = NetworkBuilder("branches")
    left, right = builder.input((4, 5, 6), name="a"), builder.input((4, 5, 1), name="b")
    total = builder.add(op.Elementwise(function="add"), left, right, name="total")
    most = builder.add(op.Elementwise(function="maximum"), left, right, total)
    scaled = builder.add(op.Elementwise(function="multiply", constant=(4, 1, 1)), most, left)
    joined = builder.add(op.Concatenation(axis=1), scaled, total)
    product = builder.add(op.MatrixProduct(), left, builder.add(
        op.Transpose(permutation=(0, 2, 1)), left))  # fmt: skip
    for source in (joined, joined, product, left):
        builder.output(source)
    return builder.network()


def test_branches_and_several_outputs_are_kept(tmp_path):
    network = branches()
    model = Model(network=network, weights=random_weights(network, 1))
    check_the_runtime_agrees(model, tmp_path)
    again = read_onnx(saved(onnx_bytes(model), tmp_path)).network
    assert [one.name for one in again.outputs] == [one.name for one in network.outputs]
    assert [one.name for one in again.inputs] == ["a", "b"]


def test_a_second_output_of_a_node_has_a_name_of_its_own(tmp_path):
    builder = NetworkBuilder("ranks")
    top = builder.add(op.Ranking(axis=0, count=3), builder.input((8, 1, 1)), name="top")
    builder.output(builder.add(op.Activation(function="relu"), top, name="top 1"))
    check_the_runtime_agrees(Model(network=builder.network(), weights={}), tmp_path)


@pytest.mark.parametrize("given", [("state", "cell"), ("cell",), ("state",)])
def test_states_of_a_recurrence_that_are_inputs_are_read(given, tmp_path):
    builder = NetworkBuilder("states")
    sources = [builder.input(dims, name=name) for name, dims in zip(
        ("frames", *given), [(7, 1, 3), *[(1, 1, 5)] * len(given)], strict=True)]  # fmt: skip
    operator = op.Recurrence(kind="lstm", units=5, given=given, has_state="state" not in given)
    builder.output(builder.add(operator, *sources))
    network = builder.network()
    check_the_runtime_agrees(Model(network=network, weights=random_weights(network, 1)), tmp_path)


def test_a_limit_of_cells_is_refused():
    with pytest.raises(InvalidNetwork, match="'the layer': a recurrence with a limit of its cells"):
        onnx_bytes(one_layer(op.Recurrence(kind="lstm", units=5, cell_limit=3.0), (7, 1, 3)))


def test_elements_at_positions_of_the_frame_are_kept(tmp_path):
    builder = NetworkBuilder("points")
    values, other = builder.input((4, 3, 5), name="a"), builder.input((7, 6), name="b")
    row = builder.add(op.ExtremePlace(function="max", axis=1), other)
    place = builder.add(op.Elementwise(function="minimum", constant=(1,)), row)
    positions = builder.add(op.Concatenation(axis=1), place, place)
    builder.output(builder.add(op.GatherPoints(), values, positions))
    network = builder.network()
    weights = {place: {"constant": np.array([2], np.float32)}}
    check_the_runtime_agrees(Model(network=network, weights=weights), tmp_path)


def test_fused_operators_become_nodes_of_their_own(tmp_path):
    plain = one_layer(op.Convolution(filters=4, window=WINDOW), MAP).network
    epilogue = (op.BatchNormalization(), op.Activation(function="silu"))
    layers = [
        replace(layer, epilogue=epilogue) if layer.name == "the layer" else layer
        for layer in plain.layers
    ]
    network = Network(name="fused", layers=tuple(layers))
    model = Model(network=network, weights=random_weights(network, 1))
    check_the_runtime_agrees(model, tmp_path)
    again = read_onnx(saved(onnx_bytes(model), tmp_path)).network
    assert [layer.operator for layer in again.layers[2:4]] == list(epilogue)
    assert again.layers[1].name == "the layer"


def test_the_same_model_gives_the_same_bytes():
    assert onnx_bytes(one_layer(*SAME["batch"])) == onnx_bytes(one_layer(*SAME["batch"]))


def test_a_network_without_weights_is_refused():
    model = Model(network=one_layer(*SAME["relu"]).network)
    with pytest.raises(InvalidNetwork, match="without weights"):
        onnx_bytes(model)


def test_an_operator_that_onnx_lacks_is_refused_by_its_layer():
    window = replace(HANGING, overhang=(1, 0))
    pooling = op.Pooling(function="average", window=window, counts_padding=True)
    with pytest.raises(InvalidNetwork, match="layer 'the layer': an overhang of"):
        onnx_bytes(one_layer(pooling, MAP))


def test_an_operator_without_a_node_is_refused_by_its_layer():
    places = op.PlaceOfMaximum(window=op.Window(kernel=(2, 2), stride=(2, 2)))
    with pytest.raises(InvalidNetwork, match="layer 'the layer': ONNX has no operator for"):
        onnx_bytes(one_layer(places, MAP))


def test_a_function_of_two_elements_that_onnx_lacks_is_refused_by_its_layer():
    angle = op.Elementwise(function="arc tangent", constant=(1,))
    with pytest.raises(InvalidNetwork, match="layer 'the layer': 'arc tangent' of floating point"):
        onnx_bytes(one_layer(angle, MAP))

"""Files that cannot be read: one message each that names what is wrong, and nothing else."""

import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper

from cnn2csdf.onnx_files.reader import read_onnx
from csdf.errors import CsdfError, InvalidNetwork, UnreadableFile, UnsupportedOperator
from tests.cnn2csdf.onnx_models import graph_model, network_path, numbers, one_node, saved

RELU = one_node("Relu")


def refusal(model, folder, error=UnreadableFile, **options):
    """The message about a model, without the path in front."""
    path = saved(model, folder)
    with pytest.raises(error) as found:
        read_onnx(path, **options)
    message = str(found.value)
    assert message.startswith(f"{path}: ")
    assert "\n" not in message
    return message.removeprefix(f"{path}: ")


def changed(model, change):
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    change(copy)
    return copy


@pytest.mark.parametrize("content", [b"\xff\x00garbage", RELU.SerializeToString()[:-3]])
def test_what_is_no_protobuf_is_called_corrupt(content, tmp_path):
    assert refusal(content, tmp_path) == "is not an ONNX model, or a corrupt one"


def test_an_empty_file_is_called_empty(tmp_path):
    assert refusal(b"", tmp_path) == "is empty; expected an ONNX model"


def test_another_message_is_no_model(tmp_path):
    assert "there is no graph" in refusal(onnx.ModelProto(ir_version=8), tmp_path)


def test_a_folder_and_a_missing_file_are_told_apart(tmp_path):
    with pytest.raises(UnreadableFile, match="is a folder"):
        read_onnx(str(tmp_path))
    with pytest.raises(UnreadableFile, match="No such file"):
        read_onnx(str(tmp_path / "none.onnx"))


def test_a_cycle_is_named(tmp_path):
    nodes = [
        helper.make_node("Add", ["x", "b"], ["a"], name="first"),
        helper.make_node("Relu", ["a"], ["b"], name="second"),
        helper.make_node("Relu", ["b"], ["y"], name="third"),
    ]
    message = refusal(graph_model(nodes), tmp_path)
    assert message == "the graph has a cycle: 'first' -> 'second' -> 'first'"


@pytest.mark.parametrize(
    ("dims", "complaint"),
    [
        (["N", 3, 6, 7], "the batch is not fixed ('N'); give all dims, as in --shape x=1x3x6x7"),
        ([1, 3, None, 7], "dim 2 is not fixed ('?'); give all dims, as in --shape x=1x3x224x7"),
        (None, "its shape is not in the file; give it, as in --shape x=1x3x224x224"),
        ([4, 3, 6, 7], "has a batch of 4, expected one frame; give all dims, as in --shape x="),
        ([0, 3, 6, 7], "holds nothing; give all dims, as in --shape x=1x3x6x7"),
        ([1, 3, 0, 7], "holds nothing; give all dims"),
        ([1], "no axis besides the batch"),
    ],
)
def test_an_input_whose_dims_are_not_those_of_a_frame_says_what_to_give(dims, complaint, tmp_path):
    message = refusal(one_node("Relu", inputs={"x": dims}), tmp_path)
    assert "input 'x'" in message
    assert complaint in message


def test_a_shape_can_be_given_for_what_is_open(tmp_path):
    path = saved(one_node("Relu", inputs={"x": ["N", 3, "H", "W"]}), tmp_path)
    network = read_onnx(path, shapes={"x": (1, 3, 10, 12)}).network
    assert [layer.shape.dims for layer in network.layers] == [(3, 10, 12)] * 3


def test_a_given_shape_replaces_a_batch_that_is_fixed(tmp_path):
    path = saved(one_node("Relu", inputs={"x": [8, 3, 6, 7]}), tmp_path)
    assert read_onnx(path, shapes={"x": (1, 3, 6, 7)}).network.inputs[0].shape.dims == (3, 6, 7)


def test_a_shape_for_what_is_no_input_names_the_inputs(tmp_path):
    message = refusal(RELU, tmp_path, shapes={"data": (1, 3, 6, 7)})
    assert message == "there is no input 'data' to give a shape; inputs: 'x'"
    assert "4 dims, the shape given for it 2" in refusal(RELU, tmp_path, shapes={"x": (1, 3)})


def test_an_unknown_operator_is_named_with_its_node_domain_and_opset(tmp_path):
    node = helper.make_node("Fancy", ["x"], ["y"], name="the node", domain="com.example")
    model = graph_model([node])
    model.opset_import.append(helper.make_opsetid("com.example", 3))
    assert refusal(model, tmp_path, UnsupportedOperator) == (
        "node 'the node': operator 'Fancy' of domain 'com.example', opset 3, is not supported"
    )


@pytest.mark.parametrize("op_type", ["Det", "NonZero", "LSTM", "RandomNormalLike"])
def test_an_operator_of_onnx_that_is_no_layer_is_named(op_type, tmp_path):
    model = graph_model([helper.make_node(op_type, ["x"], ["y"])])
    assert refusal(model, tmp_path, UnsupportedOperator) == (
        f"node 'y': operator '{op_type}' of domain 'ai.onnx', opset 17, is not supported"
    )


def test_a_subgraph_is_refused(tmp_path):
    inner = helper.make_graph(
        [helper.make_node("Identity", ["x"], ["inner"])],
        "branch",
        [],
        [helper.make_tensor_value_info("inner", TensorProto.FLOAT, None)],
    )
    node = helper.make_node("If", ["c"], ["y"], then_branch=inner, else_branch=inner)
    model = graph_model([node], constants={"c": np.array(True)})  # noqa: FBT003
    assert "graphs inside" in refusal(model, tmp_path, UnsupportedOperator)


UNSUPPORTED = {
    "no square block": (one_node("MaxPool", kernel_shape=[2], inputs={"x": (1, 3, 8)}), "1x3x8"),
    "1-D convolution": (
        one_node("Conv", numbers((4, 3, 3)), inputs={"x": (1, 3, 8)}),
        "works on 1 x channels x height x width only, found 1x3x8",
    ),
    "weights from the frame": (
        one_node("Conv", inputs={"x": (1, 3, 6, 7), "w": (1, 3, 3, 3)}),
        "the kernel 'w' is computed from the frame",
    ),
    "backwards": (
        one_node("Slice", *(np.array([n]) for n in (-1, 0, 2, -1))),
        "a step of -1 is not supported",
    ),
    "cubic": (
        one_node("Resize", None, None, np.array([1, 3, 9, 9]), mode="cubic"),
        "mode 'cubic' is not supported",
    ),
    "padded channels": (
        one_node("Pad", np.array([0, 1, 0, 0, 0, 0, 0, 0])),
        "padding of another axis",
    ),
    "indices": (
        one_node("MaxPool", kernel_shape=[2, 2], outputs=("y", "i")),
        "its output 'i' is not supported",
    ),
    "integers": (one_node("Cast", to=7), "a cast to INT64 is not supported"),
    "batch": (
        one_node("Concat", inputs={"x": (1, 3), "z": (1, 3)}, axis=0),
        "works along the batch axis",
    ),
    "tanh": (
        one_node("Gelu", opset=20, approximate="tanh"),
        "approximate = 'tanh' is not supported",
    ),
}


@pytest.mark.parametrize("name", UNSUPPORTED)
def test_an_unsupported_form_of_an_operator_is_said(name, tmp_path):
    model, complaint = UNSUPPORTED[name]
    message = refusal(model, tmp_path, UnsupportedOperator)
    assert message.startswith("node 'the node' (")
    assert complaint in message


UNREADABLE = {
    "two writers": (
        graph_model([helper.make_node("Relu", ["x"], ["y"])] * 2),
        "writes 'y', which is already there",
    ),
    "missing tensor": (
        graph_model([helper.make_node("Add", ["x", "z"], ["y"])]),
        "reads 'z', which nothing produces",
    ),
    "missing output": (
        graph_model([helper.make_node("Relu", ["x"], ["z"])]),
        "output 'y' is not produced by any node",
    ),
    "no input": (
        graph_model([helper.make_node("Relu", ["c"], ["y"])], inputs={}, constants={"c": [1.0]}),
        "the graph has no input",
    ),
    "input unused": (
        graph_model([helper.make_node("Relu", ["c"], ["y"])], constants={"c": [1.0]}),
        "no output depends on an input",
    ),
    "old opset": (one_node("Relu", opset=6), "opset 6 is too old; expected 7 to"),
    "new opset": (one_node("Relu", opset=999), "opset 999 is newer than the onnx package"),
    "no output": (changed(RELU, lambda m: m.graph.ClearField("output")), "has no output"),
    "sparse": (
        changed(RELU, lambda m: m.graph.sparse_initializer.add().values.MergeFrom(
            TensorProto(name="s")
        )),
        "initializer 's' is sparse",
    ),
    "wrong channels": (
        one_node("Conv", numbers((4, 2, 3, 3))),
        "the weights are for 2 channels, the input is 3x6x7",
    ),
    "wrong matrix": (
        one_node("Gemm", numbers((5, 4)), inputs={"x": (1, 6)}),
        "node 'the node' (Gemm, opset 17): ",
    ),
    "axes beyond count": (
        changed(one_node("Reshape", np.array([1, -1])), lambda m: m.graph.initializer[0].MergeFrom(
            TensorProto(dims=[2**28])
        )),
        f"{2 * 2**28} axes in 'c0', expected at most 64",
    ),
    "nothing left": (
        one_node("Slice", *(np.array([n]) for n in (3, 3, 2))),
        "tensor 'y' of shape 1x3x0x7 holds nothing",
    ),
    "a split into more outputs than parts": (  # inference of shapes would end the process
        one_node("Split", outputs=("y", "z"), axis=1, num_outputs=1, opset=18),
        "node 'the node' (Split, opset 18): num_outputs is 1 for 2 outputs",
    ),
    "a dim with which sums overflow": (  # likewise, in the Slice behind it
        one_node("Slice", *(np.array([n]) for n in (1, 5, 2, 2)), inputs={"x": (1, 3, 2**62, 7)}),
        "input 'x' has a dim of 4611686018427387904; expected 0 to 2147483647",
    ),
    "a negative dim": (
        one_node("Pad", np.array([0, 0, -9, 0, 0, 0, 0, 0])),
        "node 'the node' (Pad, opset 17): ",
    ),
    "shapes do not fit": (
        one_node("Add", inputs={"x": (1, 3, 6, 7), "z": (1, 3, 5, 7)}),
        "node 'the node' (Add, opset 17): ",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", UNREADABLE)
def test_a_wrong_model_says_what_is_wrong(name, tmp_path):
    model, complaint = UNREADABLE[name]
    assert complaint in refusal(model, tmp_path)


def test_a_window_larger_than_its_map_is_an_error(tmp_path):
    model = one_node("Conv", numbers((4, 3, 9, 9)))
    with pytest.raises((UnreadableFile, InvalidNetwork), match="the node"):
        read_onnx(saved(model, tmp_path))


def test_weights_in_a_missing_file_are_missed_only_when_wanted(tmp_path):
    model = one_node("Conv", numbers((4, 3, 3, 3)))
    kernel = model.graph.initializer[0]
    kernel.ClearField("raw_data")
    kernel.data_location = TensorProto.EXTERNAL
    kernel.external_data.add(key="location", value="weights.bin")
    assert read_onnx(saved(model, tmp_path)).network.layers[1].shape.dims == (4, 4, 5)
    message = refusal(model, tmp_path, with_weights=True)
    assert "weights 'c0' are in the file 'weights.bin' beside the model" in message


def test_weights_in_a_file_beside_the_model_are_read(tmp_path):
    kernel = numbers((40, 3, 3, 3))
    onnx.save(
        one_node("Conv", kernel),
        str(tmp_path / "model.onnx"),
        save_as_external_data=True,
        location="weights.bin",
    )
    model = read_onnx(str(tmp_path / "model.onnx"), with_weights=True)
    assert np.array_equal(model.weights["the node"]["kernel"], kernel)


def is_read_or_refused(path, **options):
    """Whether there is a network or a message about the file; another exception passes through."""
    try:
        return bool(read_onnx(path, **options).network.layers)
    except CsdfError as error:
        return str(error).startswith(path)


SEEDS = [
    one_node("Conv", numbers((4, 3, 3, 3)), numbers(4), pads=[1, 0, 1, 0]).SerializeToString(),
    one_node("Slice", *(np.array([n]) for n in (1, 5, 2, 2))).SerializeToString(),
    one_node("Reshape", np.array([1, -1])).SerializeToString(),
    one_node("AveragePool", kernel_shape=[2, 2], ceil_mode=1).SerializeToString(),
    network_path("squeezenet").read_bytes()[:4000],
]


@pytest.mark.slow
@settings(
    max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    seed=st.sampled_from(SEEDS),
    edits=st.lists(
        st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 8), st.binary(max_size=6)),
        min_size=1,
        max_size=4,
    ),
    with_weights=st.booleans(),
)
def test_changed_bytes_give_a_network_or_a_refusal(seed, edits, with_weights, tmp_path):
    content = bytearray(seed)
    for place, removed, added in edits:
        start = int(place * len(content))
        content[start : start + removed] = added
    path = saved(bytes(content), tmp_path)
    assert is_read_or_refused(path, with_weights=with_weights)


@settings(
    max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    seed=st.sampled_from(SEEDS[:4]),
    place=st.integers(0, 5),
    value=st.integers(-(2**63), 2**63 - 1) | st.integers(-3, 9),
)
def test_changed_attributes_and_dims_give_a_network_or_a_refusal(seed, place, value, tmp_path):
    model = onnx.load_from_string(seed)
    numbers_in_it = [
        *(one.ints for one in model.graph.node[0].attribute if one.ints),
        *(one.dims for one in model.graph.initializer),
    ]
    if numbers_in_it:
        chosen = numbers_in_it[place % len(numbers_in_it)]
        chosen[place % len(chosen)] = value
    dims = model.graph.input[0].type.tensor_type.shape.dim
    dims[place % len(dims)].dim_value = value if not place else dims[place % len(dims)].dim_value
    path = saved(model, tmp_path)
    assert is_read_or_refused(path, with_weights=True)

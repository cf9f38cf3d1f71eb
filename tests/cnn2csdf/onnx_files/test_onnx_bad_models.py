"""Files that cannot be read: one message each that names what is wrong, and nothing else."""

import gzip
import os

import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper

from cnn2csdf.onnx_files.reader import read_onnx
from cnn2csdf.readers.plain_onnx import read_plain_onnx
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


def test_a_plain_graph_is_read_from_a_gzip_file_of_several_members(tmp_path):
    content, path = RELU.SerializeToString(), tmp_path / "parts.onnx.gz"
    path.write_bytes(gzip.compress(content[:9]) + gzip.compress(content[9:]))
    assert [node.op_type for node in read_plain_onnx(str(path)).nodes] == ["Relu"]
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(UnreadableFile, match="not a whole gzip file"):
        read_plain_onnx(str(path))


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


def test_a_cycle_of_onnx_nodes_is_refused_with_their_names(tmp_path):
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
        (
            [1, 3, "rows", 7],
            "dim 2 ('rows') is not fixed; give sizes, as in --shape rows=H; "
            "--shape rows=224 is read, for example",
        ),
        (
            [1, 3, "rows", "columns"],
            "dim 2 ('rows') and dim 3 ('columns') are not fixed; give sizes, as in --shape rows=H "
            "--shape columns=W; --shape rows=224 --shape columns=224 is read, for example",
        ),
        ([1, 3, None, 7], "dim 2 ('?') is not fixed; give sizes, as in --shape x=1x3xHx7"),
        (["N", None], "dim 1 ('?') is not fixed; give sizes, as in --shape x=1xN"),
        (None, "its shape is not in the file; give sizes, as in --shape x=1xCxHxW"),
        (
            [2, 3, 6, 7],
            "of shape 2x3x6x7: a batch of 2; networks run here one frame at a time, so export with "
            "a batch of 1, or try --shape x=1x3x6x7",
        ),
        ([0, 3, 6, 7], "holds nothing; give all dims, as in --shape x=1x3x6x7"),
        ([1, 3, 0, 7], "holds nothing; give all dims"),
    ],
)
def test_an_input_whose_dims_are_not_those_of_a_frame_says_what_to_give(dims, complaint, tmp_path):
    message = refusal(one_node("Relu", inputs={"x": dims}), tmp_path)
    assert "input 'x'" in message
    assert complaint in message


def dims_read(dims, folder, **shapes):
    path = saved(one_node("Relu", inputs={"x": dims}), folder)
    return read_onnx(path, shapes=shapes).network.inputs[0].shape.dims


def test_a_batch_left_open_is_one(tmp_path):
    assert dims_read(["N", 3, 6, 7], tmp_path) == (3, 6, 7)
    assert dims_read([None, 3, 6, 7], tmp_path) == (3, 6, 7)


def test_a_dim_left_open_can_be_set_by_its_name(tmp_path):
    dims = ["N", 3, "height", "width"]
    assert dims_read(dims, tmp_path, height=(10,), width=(12,)) == (3, 10, 12)
    assert dims_read(dims, tmp_path, height=(10,), width=(12,), N=(1,)) == (3, 10, 12)
    with pytest.raises(UnreadableFile, match="a batch of 2; networks run here one frame"):
        dims_read(dims, tmp_path, height=(10,), width=(12,), N=(2,))
    with pytest.raises(UnreadableFile, match="'height' is one dim of an input; give one number"):
        dims_read(dims, tmp_path, height=(1, 2))
    with pytest.raises(UnreadableFile, match=r"no input 'h' .* open dims: 'N', 'height', 'width'"):
        dims_read(dims, tmp_path, h=(10,))


def test_the_sizes_in_a_message_are_read(tmp_path):
    path = saved(one_node("Relu", inputs={"x": ["N", "C", "H", "W"]}), tmp_path)
    with pytest.raises(UnreadableFile, match="--shape C=3 --shape H=224 --shape W=224 is read"):
        read_onnx(path)
    shapes = {"C": (3,), "H": (224,), "W": (224,)}
    assert read_onnx(path, shapes=shapes).network.inputs[0].shape.dims == (3, 224, 224)
    message = refusal(one_node("Relu", inputs={"x": None}), tmp_path)
    assert "224" not in message


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


@pytest.mark.parametrize("op_type", ["Det", "NonZero", "GridSample", "RandomNormalLike"])
def test_an_operator_of_onnx_that_is_no_layer_is_named(op_type, tmp_path):
    model = graph_model([helper.make_node(op_type, ["x"], ["y"])])
    assert refusal(model, tmp_path, UnsupportedOperator) == (
        f"node 'y': operator '{op_type}' of domain 'ai.onnx', opset 17, is not supported"
    )


def test_all_operators_that_are_not_supported_are_said_at_once(tmp_path):
    nodes = [
        helper.make_node("Det", ["x"], ["1"], name="first"),
        helper.make_node("Fancy", ["x"], ["2"], name="second", domain="com.example"),
        helper.make_node("Relu", ["2"], ["3"], name="behind"),
        helper.make_node("Det", ["x"], ["4"], name="third"),
        helper.make_node("Det", ["3"], ["5"], name="fourth"),
        helper.make_node("Pad", ["x", "amounts"], ["6"], name="fifth", mode="wrap"),
        helper.make_node("Sum", ["1", "3", "4", "5", "6"], ["y"], name="last"),
    ]
    model = graph_model(nodes, constants={"amounts": np.zeros(8, np.int64)}, opset=19)
    model.opset_import.append(helper.make_opsetid("com.example", 3))
    assert refusal(model, tmp_path, UnsupportedOperator) == (
        "5 nodes are not supported: operator 'Det' of domain 'ai.onnx', opset 19 (node 'first' and "
        "2 others); operator 'Fancy' of domain 'com.example', opset 3 (node 'second'); "
        "Pad: mode 'wrap' is not supported (node 'fifth')"
    )


def test_a_choice_by_the_frame_and_a_loop_are_refused(tmp_path):
    inner = helper.make_graph(
        [helper.make_node("Identity", ["x"], ["inner"])],
        "branch",
        [],
        [helper.make_tensor_value_info("inner", TensorProto.FLOAT, None)],
    )
    nodes = [
        helper.make_node("ReduceMax", ["x"], ["m"], keepdims=0),
        helper.make_node("Cast", ["m"], ["c"], to=TensorProto.BOOL),
        helper.make_node("If", ["c"], ["y"], then_branch=inner, else_branch=inner, name="choice"),
    ]
    assert refusal(graph_model(nodes), tmp_path, UnsupportedOperator) == (
        "node 'choice' (If, opset 17): its condition is computed from the frame; "
        "--until c reads the other 2 operators"
    )
    loop = helper.make_node("Loop", ["n", ""], ["y"], body=inner, name="round")
    model = graph_model([loop], constants={"n": np.array(3)})
    assert "graphs inside" in refusal(model, tmp_path, UnsupportedOperator)


UNSUPPORTED = {
    "3-D convolution": (
        one_node("Conv", numbers((4, 3, 3, 3, 3)), inputs={"x": (1, 3, 8, 8, 8)}),
        "works on 1 x channels x height x width only, found 1x3x8x8x8",
    ),
    "weights from the frame": (
        one_node("Conv", inputs={"x": (1, 3, 6, 7), "w": (1, 3, 3, 3)}),
        "the kernel 'w' is computed from the frame",
    ),
    "antialias": (
        one_node("Resize", None, None, np.array([1, 3, 9, 9]), mode="cubic", antialias=1, opset=19),
        "antialias is not supported",
    ),
    "dots in an equation": (
        one_node("Einsum", inputs={"x": (1, 3, 4), "z": (1, 4, 3)}, equation="...ij,...jk->...ik"),
        "an ellipsis in equation '...ij,...jk->...ik' is not supported",
    ),
    "padded batch": (
        one_node("Pad", np.array([1, 0, 0, 0, 0, 0, 0, 0])),
        "padding of the batch by (1, 0)",
    ),
    "indices": (
        one_node("MaxPool", kernel_shape=[2, 2], outputs=("y", "i")),
        "its output 'i' is not supported",
    ),
    "unsigned integers": (one_node("Cast", to=12), "a cast to UINT32 is not supported"),
    "integers that might not fit": (
        graph_model(
            [
                helper.make_node("Cast", ["x"], ["i"], to=TensorProto.INT64),
                helper.make_node("Cast", ["i"], ["y"], to=TensorProto.INT8, name="the node"),
            ]
        ),
        "a cast of integers to INT8, which might not hold them, is not supported",
    ),
    "places that might not fit": (
        graph_model(
            [
                helper.make_node("ArgMax", ["x"], ["p"], axis=1),
                helper.make_node("Cast", ["p"], ["y"], to=TensorProto.INT8, name="the node"),
            ],
            inputs={"x": (1, 129, 3, 3)},
        ),
        "which might not hold them",
    ),
    "batch": (
        one_node("Softmax", inputs={"x": (1, 3)}, axis=0),
        "works along the batch axis",
    ),
    "a triangle of a vector": (
        one_node("Trilu", inputs={"x": (4,)}),
        "a triangle of a tensor of rank 1; expected 2 or more",
    ),
    "no diagonal": (
        one_node("Trilu", np.zeros(0, np.int64)),
        "a diagonal of 0 numbers of int64; expected an integer",
    ),
    "a real diagonal": (
        one_node("Trilu", np.array([np.nan], np.float32)),
        "a diagonal of 1 number of float32; expected an integer",
    ),
    "another approximation": (
        one_node("Gelu", opset=20, approximate="erf"),
        "approximate = 'erf' is not supported",
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
    "an equation that is none": (  # inference of shapes would never end
        one_node("Einsum", equation="Conv\xff"),
        "equation 'Conv\xff' for 1 input",
    ),
    "a letter of no operand": (
        one_node("Einsum", numbers((4, 5)), inputs={"x": (1, 4)}, equation="ij,jk->ikz"),
        "node 'the node' (Einsum, opset 17): ",
    ),
    "a recurrence without inputs": (
        graph_model([
            helper.make_node("LSTM", [], ["z"], hidden_size=3, name="the node"),
            helper.make_node("Relu", ["x"], ["y"]),
        ], outputs=("y", "z")),
        "node 'the node' (LSTM, opset 17): ",
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


def test_an_attribute_that_names_one_of_a_function_is_refused(tmp_path):
    def refer(model):
        (alpha,) = model.graph.node[0].attribute
        alpha.ref_attr_name = "slope"

    model = changed(one_node("LeakyRelu", alpha=0.5), refer)
    assert "attribute 'alpha' has no value" in refusal(model, tmp_path)


def test_weights_in_a_missing_file_are_missed_only_when_wanted(tmp_path):
    model = one_node("Conv", numbers((4, 3, 3, 3)))
    kernel = model.graph.initializer[0]
    kernel.ClearField("raw_data")
    kernel.data_location = TensorProto.EXTERNAL
    kernel.external_data.add(key="location", value="weights.bin")
    assert read_onnx(saved(model, tmp_path)).network.layers[1].shape.dims == (4, 4, 5)
    message = refusal(model, tmp_path, with_weights=True)
    assert "weights 'c0' are in the file 'weights.bin' beside the model" in message
    os.mkfifo(tmp_path / "weights.bin")
    assert "is a pipe or a device" in refusal(model, tmp_path, with_weights=True)


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
    max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
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
    max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
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


def test_a_ranking_of_no_elements_is_refused_with_the_length_of_its_axis(tmp_path):
    model = one_node(
        "TopK", np.array([0]), outputs=("y", "places"), axis=1, inputs={"x": (1, 4, 6, 5)}
    )
    message = refusal(model, tmp_path, UnsupportedOperator)
    assert "k = 0 of 4 elements along the axis, expected 1 to 4" in message

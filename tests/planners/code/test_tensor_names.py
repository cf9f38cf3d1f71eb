"""Names of tensors in C: those of the file, shortened, or renamed by the user."""

import re

import pytest

from cnn2csdf import operators as op
from cnn2csdf.builder import NetworkBuilder
from csdf.errors import InvalidArgument
from planners.code.c_text import identifier
from planners.code.library import library
from planners.code.names import LONGEST_NAME, TensorNames, require_renamed, short_forms
from planners.code.packaging import Package
from tests.cli.running import run
from tests.cnn2csdf.readers.tflite_models import Node, Tensor, tflite_bytes
from tests.planners.code.test_writing_libraries import planned, small
from tests.shared_data import SHARED

__all__ = ["run"]


def best(tensor):
    return next(short_forms(tensor))


def chain(*names):
    """A network of layers with these names, the first an input."""
    builder = NetworkBuilder("net")
    last = builder.input((2, 4, 4), name=names[0])
    for name in names[1:]:
        last = builder.add(op.Activation(function="relu"), last, name=name)
    builder.output(last)
    return builder.network()


@pytest.mark.parametrize(
    ("tensor", "name"),
    [
        ("input_1", "input_1"),
        ("StatefulPartitionedCall:0", "output"),
        ("StatefulPartitionedCall:0 output", "output"),
        ("serving_default_fixed_input:0", "fixed_input"),
        ("functional_1/activation_7/Relu", "activation_7_relu"),
        ("model/conv2d/Relu;model/conv2d/BiasAdd;model/conv2d/Conv2D", "model_conv2d_relu"),
        ("/model/layer1/layer1.0/conv1/Conv_output_0", "layer1_0_conv1_conv"),
        ("functional_1/average_pooling2d/AvgPool", "average_pooling2d"),
        ("tfl.unidirectional_sequence_lstm rows", "sequence_lstm_rows"),
        ("a" * 40, "a" * 24),
    ],
)
def test_a_long_name_becomes_its_last_words(tensor, name):
    assert best(tensor) == name


def test_short_names_stay_and_long_ones_never_collide():
    names = ["x", "relu", *(f"tower_{i}/some_quite_long_block_name/Relu" for i in range(9))]
    names += ["tower_9/relu"]  # as short as what others become
    tensors = TensorNames(chain(*names))
    short = [tensors[name] for name in names]
    assert short[:2] == ["x", "relu"]
    assert short[-1] == "tower_9_relu"
    assert len(set(short)) == len(names)
    assert max(map(len, short)) <= LONGEST_NAME + 2
    assert short == [identifier(name) for name in short]


def test_a_renamed_tensor_has_this_name_in_header_and_tables():
    package = Package(renamed=(("conv", "edges"),))
    files = library(small(), planned(small()), package=package).files
    text = "".join(files[f"src/small{end}"] for end in (".c", "_weights.c"))
    assert re.search(r"const float small_w_edges_kernel\[", text)
    assert "small_w_conv_" not in text


def test_wrong_renames_are_refused_by_name():
    with pytest.raises(InvalidArgument, match=r"no tensor 'cnov'.*such as 'conv'"):
        require_renamed(["conv", "x"], [("cnov", "edges")])
    with pytest.raises(InvalidArgument, match=r"'Edges' is no name in C.*such as edges"):
        require_renamed(["conv"], [("conv", "Edges")])
    with pytest.raises(InvalidArgument, match="'conv' has this name; give another"):
        require_renamed(["conv", "x"], [("conv", "edges"), ("x", "edges")])
    with pytest.raises(InvalidArgument, match="x=last: the name 'first' is given for it, too"):
        require_renamed(["conv", "x"], [("x", "first"), ("x", "last")])
    with pytest.raises(
        InvalidArgument, match=r"no tensor 'z'; expected one of the file, such as 'y'"
    ):
        require_renamed(["y output"], [("z", "last")])
    names = TensorNames(chain("x", "y"), [("x", "state")])
    with pytest.raises(InvalidArgument, match="rename x=state: the library has this name already"):
        names.of_port("x", ["state"])


def ends(*outputs):
    """A network of one layer, y of x, with outputs of these layers."""
    builder = NetworkBuilder("net")
    builder.add(op.Activation(function="relu"), builder.input((2, 4, 4), name="x"), name="y")
    for layer in outputs:
        builder.output(layer, name=f"{layer} output")
    return builder.network()


def test_an_output_is_renamed_by_its_tensor_where_no_layer_has_that_name():
    require_renamed(["x", "y output"], [("y", "last")])
    assert TensorNames(ends("y"), [("y", "last")])["y output"] == "last"


def test_a_renamed_input_that_goes_out_as_it_is_has_two_names():
    names = TensorNames(ends("x", "y"), [("x", "frame")])
    assert [names[port] for port in ("x", "x output")] == ["frame", "frame_output"]
    assert names.of_port("x output", ["frame"]) == "frame_output"
    renamed = [("x", "frame"), ("x output", "same")]
    for order in (renamed, renamed[::-1]):
        names = TensorNames(ends("x", "y"), order)
        assert [names[port] for port in ("x", "x output")] == ["frame", "same"]


def test_deploy_gives_a_renamed_input_and_the_output_of_it_two_names(run, tmp_path):
    tensors = [Tensor("x", (1, 4)), Tensor("y", (1, 4))]
    path = tmp_path / "same.tflite"
    path.write_bytes(tflite_bytes(tensors, [Node("RELU", [0], [1])], [0], [0, 1]))
    code, _, remarks = run("deploy", path, "--rename", "x=frame", "-o", tmp_path / "c")
    assert code == 0, remarks
    header = (tmp_path / "c" / "include" / "same.h").read_text()
    assert "const float *frame, float *frame_output, float *y_output)" in header


def test_deploy_renames_an_output_of_a_file_by_its_tensor(run, tmp_path):
    file = SHARED / "networks" / "tflite" / "hello_world_float.tflite"
    if not file.exists():
        pytest.skip(f"the network is not at {file}")
    code, _, remarks = run(
        "deploy", file, "--rename", "StatefulPartitionedCall:0=sine", "-o", tmp_path / "c"
    )
    assert code == 0, remarks
    header = (tmp_path / "c" / "include" / "hello_world_float.h").read_text()
    assert "float *sine)" in header
    assert "/* serving_default_dense_input:0 */\n#define HELLO_WORLD_FLOAT_DENSE_INPUT_" in header
    code, _, remarks = run("deploy", file, "--rename", "sine", "-o", tmp_path / "d")
    assert code == 2
    assert "'sine'; expected OLD=NEW" in remarks

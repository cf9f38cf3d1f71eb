"""Several nodes that are one layer."""

import ast
from dataclasses import replace

import numpy as np
import pytest
from onnx import helper, numpy_helper

from cnn2csdf import operators as op
from cnn2csdf.execution.layer_by_layer import run_layer_by_layer
from cnn2csdf.onnx_files.graph_values import GraphValues
from cnn2csdf.onnx_files.nodes import node_of
from cnn2csdf.onnx_files.patterns import PATTERNS, layer_nodes
from cnn2csdf.onnx_files.reader import infer_types, read_onnx
from csdf.errors import UnsupportedOperator
from tests.cnn2csdf.onnx_models import graph_model, numbers, runtime_outputs, saved


def node(op_type, inputs, output, **attributes):
    return helper.make_node(op_type, inputs.split(), [output], **attributes)


def scalar(value):
    return np.array(value, np.float32)


FRAME = numbers((1, 6, 4, 5), 1, -3, 3)
INPUT = {"x": FRAME.shape}


def single_operator(nodes, folder, **constants):
    """The single operator that the nodes become; it computes what the runtime makes of the nodes."""
    path = saved(graph_model(nodes, inputs=INPUT, constants=constants), folder)
    model = read_onnx(path, with_weights=True)
    (found,) = run_layer_by_layer(model, {"x": FRAME[0]}).values()
    (expected,) = runtime_outputs(path, {"x": FRAME})
    np.testing.assert_allclose(found[None], expected, rtol=2e-5, atol=2e-5)
    (_, layer, _) = model.network.layers
    return layer.operator


def layer_count(nodes, folder, **options):
    path = saved(graph_model(nodes, **options), folder)
    return len(read_onnx(path).network.layers)


@pytest.mark.parametrize("product", ["x s", "s x"])
def test_x_times_its_sigmoid_is_silu(product, tmp_path):
    nodes = [node("Sigmoid", "x", "s"), node("Mul", product, "y")]
    assert single_operator(nodes, tmp_path) == op.Activation(function="silu")


def test_x_times_its_hard_sigmoid_is_hard_swish(tmp_path):
    nodes = [node("HardSigmoid", "x", "s", alpha=1 / 6), node("Mul", "x s", "y")]
    assert single_operator(nodes, tmp_path) == op.Activation(function="hard swish")


def test_x_times_another_hard_sigmoid_is_not(tmp_path):
    nodes = [node("HardSigmoid", "x", "s"), node("Mul", "x s", "y")]
    assert layer_count(nodes, tmp_path) == 4


def test_x_times_tanh_of_softplus_is_mish(tmp_path):
    nodes = [node("Softplus", "x", "s"), node("Tanh", "s", "t"), node("Mul", "x t", "y")]
    assert single_operator(nodes, tmp_path) == op.Activation(function="mish")


GELUS = {
    "half last": [node("Mul", "x sum", "p"), node("Mul", "p half", "y")],
    "half with x": [node("Mul", "half x", "p"), node("Mul", "p sum", "y")],
    "half with the error function": [node("Mul", "half sum", "p"), node("Mul", "x p", "y")],
}


@pytest.mark.parametrize("form", GELUS)
def test_gelu_by_the_error_function(form, tmp_path):
    nodes = [node("Div", "x root", "d"), node("Erf", "d", "e"), node("Add", "e one", "sum")]
    constants = {"root": scalar(2**0.5), "one": scalar(1), "half": scalar(0.5)}
    found = single_operator([*nodes, *GELUS[form]], tmp_path, **constants)
    assert found == op.Activation(function="gelu")


CUBES = {
    "power": [node("Pow", "x three", "cube")],
    "products": [node("Mul", "x x", "square"), node("Mul", "square x", "cube")],
}


@pytest.mark.parametrize("form", CUBES)
def test_gelu_by_tanh_written_out(form, tmp_path):
    nodes = [
        *CUBES[form],
        node("Mul", "cube part", "c"), node("Add", "x c", "s"), node("Mul", "s root", "t"),
        node("Tanh", "t", "u"), node("Add", "u one", "sum"), node("Mul", "x half", "h"),
        node("Mul", "h sum", "y"),
    ]  # fmt: skip
    constants = {
        "three": scalar(3), "part": scalar(0.044715), "root": scalar((2 / np.pi) ** 0.5),
        "one": scalar(1), "half": scalar(0.5),
    }  # fmt: skip
    found = single_operator(nodes, tmp_path, **constants)
    assert found == op.Activation(function="gelu tanh")


@pytest.mark.parametrize("square", ["Pow", "Mul"])
def test_a_normalisation_of_the_last_axis_written_out(square, tmp_path):
    nodes = [
        node("ReduceMean", "x", "m", axes=[-1]), node("Sub", "x m", "d"),
        node(square, "d two" if square == "Pow" else "d d", "q"),
        node("ReduceMean", "q", "v", axes=[-1]), node("Add", "v e", "w"), node("Sqrt", "w", "r"),
        node("Div", "d r", "n"), node("Mul", "n g", "p"), node("Add", "p b", "y"),
    ]  # fmt: skip
    constants = {"two": scalar(2), "e": scalar(1e-5), "g": numbers(5), "b": numbers(5, 1)}
    found = single_operator(nodes, tmp_path, **constants)
    assert found == op.LayerNormalization(axis=2, epsilon=pytest.approx(1e-5))


@pytest.mark.parametrize(
    ("square", "operands", "axis"), [("Mul", "d d", -2), ("Mul", "d two", -1), ("Pow", "d d", -1)]
)
def test_a_normalisation_around_another_mean_stays_as_it_is(square, operands, axis, tmp_path):
    nodes = [
        node("ReduceMean", "x", "m", axes=[-1]), node("Sub", "x m", "d"), node(square, operands, "q"),
        node("ReduceMean", "q", "v", axes=[axis]), node("Add", "v e", "w"), node("Sqrt", "w", "r"),
        node("Div", "d r", "n"), node("Mul", "n g", "p"), node("Add", "p b", "y"),
    ]  # fmt: skip
    constants = {"two": scalar(2), "e": scalar(1e-5), "g": numbers(4), "b": numbers(4, 1)}
    model = graph_model(nodes, inputs={"x": (1, 6, 4, 4)}, constants=constants)
    operators = [one.operator for one in read_onnx(saved(model, tmp_path)).network.layers]
    assert not any(isinstance(one, op.LayerNormalization) for one in operators)


def test_a_gate_that_another_node_reads_stays_a_layer(tmp_path):
    nodes = [node("Sigmoid", "x", "s"), node("Mul", "x s", "p"), node("Add", "p s", "y")]
    assert layer_count(nodes, tmp_path) == 5


@pytest.mark.parametrize("dims", [(4, 1, 1), (1, 4, 1, 1), ()])
def test_a_constant_per_channel_after_a_convolution_is_its_bias(dims, tmp_path):
    nodes = [node("Conv", "x w", "c", name="conv"), node("Add", "c b", "y")]
    found = single_operator(nodes, tmp_path, w=numbers((4, 6, 1, 1)), b=numbers(dims, 2))
    assert found == op.Convolution(filters=4, window=op.Window(kernel=(1, 1)))


@pytest.mark.parametrize("product", ["Gemm", "MatMul"])
def test_a_constant_added_to_a_product_is_its_bias(product, tmp_path):
    nodes = [node(product, "x w", "p", name="fc"), node("Add", "b p", "y")]
    constants = {"w": numbers((6, 5)), "b": numbers(5, 1)}
    model = graph_model(nodes, inputs={"x": (1, 6)}, constants=constants)
    found = read_onnx(saved(model, tmp_path), with_weights=True)
    assert found.network.layer("fc").operator == op.FullyConnected(units=5)
    assert np.array_equal(found.weights["fc"]["bias"], constants["b"])


def test_a_product_of_two_vectors_is_refused_by_its_name(tmp_path):
    nodes = [node("MatMul", "x w", "p", name="fc"), node("Add", "p b", "y")]
    constants = {"w": numbers(6), "b": scalar(1)}
    path = saved(graph_model(nodes, inputs={"x": (6,)}, constants=constants), tmp_path)
    with pytest.raises(UnsupportedOperator, match="'fc'"):
        read_onnx(path)


def test_the_factor_of_a_missing_bias_does_not_scale_the_added_one(tmp_path):
    nodes = [node("Gemm", "x w", "p", name="fc", beta=3.0), node("Add", "p b", "y")]
    constants = {"w": numbers((6, 5)), "b": numbers(5, 1)}
    model = graph_model(nodes, inputs={"x": (1, 6)}, constants=constants)
    found = read_onnx(saved(model, tmp_path), with_weights=True)
    assert np.array_equal(found.weights["fc"]["bias"], constants["b"])


@pytest.mark.parametrize(
    ("dims", "second"),
    [((4, 4, 5), "y"), ((5,), "y"), ((4, 1, 1), "c")],
    ids=["one a place", "one a column", "read by another"],
)
def test_another_addition_stays_a_layer(dims, second, tmp_path):
    nodes = [node("Conv", "x w", "c"), node("Add", "c b", "a"), node("Neg", "a", "y")]
    if second == "c":
        nodes[2] = node("Mul", "a c", "y")
    constants = {"w": numbers((4, 6, 1, 1)), "b": numbers(dims)}
    # Input, convolution, addition, the last one, output.
    assert layer_count(nodes, tmp_path, inputs=INPUT, constants=constants) == 5


@pytest.mark.parametrize("middle", [(1, 3, 2, 4, 5), (1, 3, 2, 20)])
def test_channels_cut_turned_and_joined_are_a_shuffle(middle, tmp_path):
    order = [0, 2, 1, *range(3, len(middle))]
    nodes = [
        node("Reshape", "x cut", "a"),
        node("Transpose", "a", "b", perm=order),
        node("Reshape", "b join", "y"),
    ]
    constants = {"cut": np.array(middle), "join": np.array(FRAME.shape)}
    assert single_operator(nodes, tmp_path, **constants) == op.ChannelShuffle(groups=3)


def test_the_same_nodes_with_another_order_are_no_shuffle(tmp_path):
    nodes = [
        node("Reshape", "x cut", "a"),
        node("Transpose", "a", "b", perm=[0, 1, 3, 2, 4]),
        node("Reshape", "b join", "y"),
    ]
    constants = {"cut": np.array([1, 3, 2, 4, 5]), "join": np.array(FRAME.shape)}
    assert layer_count(nodes, tmp_path, inputs=INPUT, constants=constants) == 5


OPSETS = {"": 11}
KERNEL = np.ones((2, 6, 1, 1), np.float32)


def parsed(text):
    """The nodes and constants of an example, such as `y = Add(x, 1.0); z = Relu(y)`."""
    nodes, constants = [], {"w": KERNEL}
    for statement in ast.parse(text).body:
        call, inputs = statement.value, []
        for argument in call.args:
            if isinstance(argument, ast.Name):
                inputs.append(argument.id)
                continue
            value = np.array(ast.literal_eval(argument))
            inputs.append(ast.unparse(argument))
            constants[inputs[-1]] = value.astype(np.float32) if value.dtype.kind == "f" else value
        attributes = {word.arg: ast.literal_eval(word.value) for word in call.keywords}
        names = [target.id for target in statement.targets]
        nodes.append(helper.make_node(call.func.id, inputs, names, **attributes))
    return nodes, constants


def shown(proto):
    """A node as examples write it, without its name."""
    values = {one.name: helper.get_attribute_value(one) for one in proto.attribute}
    return proto.op_type, list(proto.input), list(proto.output), values


@pytest.mark.parametrize(
    "rule", sorted({*sum(PATTERNS.values(), ())}, key=lambda one: one.__name__)
)
def test_the_example_in_the_docstring_is_what_a_rule_does(rule):
    before, after = " ".join(rule.__doc__.partition("before:")[2].split()).split("after:")
    protos, constants = parsed(before.strip())
    stored = [numpy_helper.from_array(array, name) for name, array in constants.items()]
    values = GraphValues(stored, folder="", opsets=OPSETS)
    for name in ("x", "z"):
        values.add_input(name, 1, FRAME.shape)
    nodes, _ = infer_types([node_of(proto, OPSETS) for proto in protos], values, OPSETS)
    (layer,), _ = layer_nodes(nodes, ["y"], values)
    (expected,), _ = parsed(after.strip())
    assert shown(layer.proto) == shown(expected)
    kept, _ = layer_nodes(nodes, ["y"], values, finds_patterns=False)
    assert len(kept) > 1
    of_a_package = [*nodes[:-1], replace(nodes[-1], domain="acme")]
    assert len(layer_nodes(of_a_package, ["y"], values)[0]) == len(kept)

"""Operators at the edges of networks: whole and by rows they give what ONNX Runtime gives."""

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from cnn2csdf import operators as op
from cnn2csdf.execution.compare import random_frames
from cnn2csdf.execution.layer_by_layer import run_layer_by_layer
from cnn2csdf.execution.streaming_executor import run_row_by_row
from cnn2csdf.lowering import lower
from cnn2csdf.onnx_files.reader import read_onnx
from cnn2csdf.simplify import simplified
from csdf.analysis.bound_channels import with_capacities
from csdf.analysis.self_timed import self_timed_execution
from csdf.search.trade_off import smallest_storage
from tests.cnn2csdf.onnx_models import graph_model, numbers, one_node, runtime_outputs, saved

node = helper.make_node
SEEDS = range(3)


def ints(*values):
    return np.array(values, np.int64)


def scalar(value):
    return np.array(value, np.float32)


def with_places(model):
    """The model with places in its outputs declared as the integers that they are."""
    places = {one.output[0] for one in model.graph.node if one.op_type in ("ArgMax", "ArgMin")}
    places |= {one.output[1] for one in model.graph.node if one.op_type == "TopK"}
    for output in model.graph.output:
        if output.name in places:
            output.type.tensor_type.elem_type = TensorProto.INT64
    return model


def agree(model, folder, seed=0):
    """Whole, by rows and in ONNX Runtime; returns the network as it runs."""
    path = saved(with_places(model), folder)
    read = simplified(read_onnx(path, with_weights=True), ("eliminate-nop",))
    (frame,) = random_frames(read.network, 1, seed)
    given = {name: one[None] for name, one in frame.items()}
    expected = runtime_outputs(path, given)
    graph = lower(read.network)
    bounded = with_capacities(graph, smallest_storage(graph).point.capacities)
    firings = self_timed_execution(bounded, iterations=1).firings
    parts = run_row_by_row(read, bounded, firings, [frame]).outputs[0]
    for found in (run_layer_by_layer(read, frame), parts):
        for (name, ours), theirs in zip(found.items(), expected, strict=True):
            wanted = np.asarray(theirs, np.float32).reshape(ours.shape)
            np.testing.assert_allclose(ours, wanted, rtol=1e-5, atol=1e-5, err_msg=name)
    return read.network


def phases(network, name):
    return len(lower(network).actor(name).durations)


MAP = {"x": (1, 4, 6, 5)}
LINES = {"x": (1, 4, 9)}
TWO = {"x": (1, 4, 6, 5), "z": (1, 4, 6, 5)}
CASES = {
    "round": one_node("Round", inputs=MAP),
    "floor": one_node("Floor", inputs=MAP),
    "ceil": one_node("Ceil", inputs=MAP),
    "sin": one_node("Sin", inputs=MAP),
    "cos": one_node("Cos", inputs=MAP),
    "sign": one_node("Sign", inputs=MAP),
    "erf": one_node("Erf", inputs=MAP),
    "gelu by tanh": one_node("Gelu", inputs=MAP, opset=20, approximate="tanh"),
    "places of rows": one_node("Gather", ints(4, 0, -1), inputs=MAP, axis=2),
    "rows in order": one_node("Gather", ints(0, 0, 3, 5), inputs=MAP, axis=2),
    "maps": one_node("Gather", ints(3, 1, 2), inputs=MAP, axis=1),
    "one map": one_node("Gather", np.array(2), inputs=MAP, axis=1),
    "one column": one_node("Gather", np.array(-1), inputs=MAP, axis=3),
    "places of two axes": one_node("Gather", ints([0, 2], [3, 1]), inputs=MAP, axis=3),
    "the frame": one_node("Gather", np.array(0), inputs=MAP, axis=0),
    "slice backwards": one_node("Slice", ints(-1), ints(-9), ints(2), ints(-2), inputs=MAP),
    "expand": one_node("Expand", ints(1, 4, 6, 5), inputs={"x": (1, 4, 1, 1)}),
    "expand to more axes": one_node("Expand", ints(3, 1, 6, 4), inputs={"x": (1, 6, 1)}),
    "expand one row": one_node("Expand", ints(1, 4, 7, 5), inputs={"x": (1, 4, 1, 5)}),
    "tile": one_node("Tile", ints(1, 2, 3, 2), inputs=MAP),
    "tile columns": one_node("Tile", ints(1, 1, 1, 3), inputs=MAP),
    "arg max of maps": one_node("ArgMax", inputs=MAP, axis=1, keepdims=0),
    "arg max of rows": one_node("ArgMax", inputs=MAP, axis=2),
    "arg min of columns": one_node("ArgMin", inputs=MAP, axis=-1, keepdims=0),
    "running sum": one_node("CumSum", np.array(1), inputs=MAP, exclusive=1),
    "running sum of rows": one_node("CumSum", np.array(2), inputs=MAP, reverse=1),
    "modulo of integers": graph_model(
        [
            node("Mul", ["x", "ten"], ["t"]),
            node("Cast", ["t"], ["i"], to=TensorProto.INT64),
            node("Mod", ["i", "seven"], ["m"]),
            node("Sub", ["m", "seven"], ["above"]),
            node("Mod", ["hundred", "above"], ["n"]),
            node("Cast", ["n"], ["y"], to=TensorProto.FLOAT),
        ],
        inputs=MAP,
        # A remainder has the sign of the divisor: between -6 and 0, and 7 more is above zero.
        constants={"ten": scalar(10.0), "seven": ints(-7), "hundred": ints(100)},
    ),
    "quotients and means of integers": graph_model(
        [
            node("Mul", ["x", "ten"], ["t"]),
            node("Cast", ["t"], ["i"], to=TensorProto.INT64),
            node("Div", ["i", "seven"], ["quotient"]),
            node("ReduceMean", ["i"], ["mean"], axes=[1]),
            node("Sub", ["quotient", "mean"], ["n"]),
            node("Cast", ["n"], ["y"], to=TensorProto.FLOAT),
        ],
        inputs=MAP,
        constants={"ten": scalar(10.0), "seven": ints(-7)},
    ),
    "powers of integers": graph_model(
        [
            node("Mul", ["x", "ten"], ["t"]),
            node("Abs", ["t"], ["a"]),
            node("Cast", ["a"], ["i"], to=TensorProto.INT64),
            node("Add", ["i", "two"], ["n"]),
            node("Pow", ["n", "exponents"], ["roots"]),
            node("Pow", ["n", "two"], ["squares"]),
            node("Abs", ["x"], ["e"]),
            node("Pow", ["n", "e"], ["others"]),
            node("Add", ["roots", "squares"], ["sums"]),
            node("Add", ["sums", "others"], ["all"]),
            node("Cast", ["all"], ["y"], to=TensorProto.FLOAT),
        ],
        inputs=MAP,
        constants={
            "ten": scalar(10.0), "two": ints(2),
            "exponents": np.array([0.5, -1, 2.5, 2, 0], np.float32),
        },
    ),
    "where with constants": graph_model(
        [
            node("Greater", ["x", "low"], ["c"]),
            node("Where", ["c", "x", "slope"], ["y"]),
        ],
        inputs=MAP,
        constants={"low": scalar(0.1), "slope": numbers((4, 1, 1))},
    ),
    "comparisons before opset 16": graph_model(
        [
            node("GreaterOrEqual", ["x", "low"], ["c"]),
            node("Where", ["c", "x", "low"], ["r"]),
            node("LessOrEqual", ["r", "slope"], ["d"]),
            node("Where", ["d", "r", "slope"], ["y"]),
        ],
        inputs=MAP,
        constants={"low": scalar(0.1), "slope": numbers((4, 1, 1))},
        opset=12,
    ),
    "where the constant is chosen": graph_model(
        [node("Where", ["c", "x", "low"], ["y"])],
        inputs=MAP,
        constants={"c": numbers((6, 5)) > 0, "low": scalar(-3)},
    ),
    "logic": graph_model(
        [
            node("Less", ["x", "z"], ["a"]),
            node("Equal", ["x", "x"], ["b"]),
            node("And", ["a", "b"], ["c"]),
            node("Not", ["c"], ["d"]),
            node("Or", ["d", "a"], ["e"]),
            node("Xor", ["e", "a"], ["f"]),
            node("Cast", ["f"], ["g"], to=TensorProto.FLOAT),
            node("Mul", ["g", "x"], ["y"]),
        ],
        inputs=TWO,
    ),
    "truncated": graph_model(
        [
            node("Cast", ["x"], ["i"], to=TensorProto.INT64),
            node("Cast", ["i"], ["y"], to=TensorProto.FLOAT),
        ],
        inputs=MAP,
    ),
    "small integers": graph_model(
        [
            node("Cast", ["x"], ["i"], to=TensorProto.INT8),
            node("Cast", ["i"], ["k"], to=TensorProto.INT16),
            node("Cast", ["k"], ["y"], to=TensorProto.FLOAT),
        ],
        inputs=MAP,
    ),
    "classes of places": graph_model(
        [
            node("ArgMax", ["x"], ["p"], axis=1, keepdims=0),
            node("Cast", ["p"], ["c"], to=TensorProto.UINT8),
            node("Cast", ["c"], ["y"], to=TensorProto.FLOAT),
        ],
        inputs=MAP,
    ),
    "token in front": one_node("Concat", numbers((1, 1, 8)), inputs={"x": (1, 5, 8)}, axis=1),
    "rows behind": one_node("Concat", numbers((1, 4, 2, 5)), inputs=MAP, axis=2),
    "cubic": one_node("Resize", None, None, ints(1, 4, 11, 3), inputs=MAP, mode="cubic"),
    "cubic aligned": one_node(
        "Resize", None, None, ints(1, 4, 12, 10), inputs=MAP, mode="cubic",
        coordinate_transformation_mode="align_corners", cubic_coeff_a=-0.5,
    ),
    "cubic inside": one_node(
        "Resize", None, None, ints(1, 4, 9, 10), inputs=MAP, mode="cubic", exclude_outside=1,
    ),
    "cubic by scales": one_node(
        "Resize", None, np.array([1, 1, 1.7, 0.6], np.float32), inputs=MAP, mode="cubic",
    ),
    "lines": one_node(
        "Conv", numbers((6, 2, 3)), numbers(6), inputs=LINES, group=2, strides=[2], pads=[1, 0],
    ),
    "lines with padding found": one_node(
        "Conv", numbers((6, 4, 4)), inputs=LINES, auto_pad="SAME_UPPER"
    ),
    "lines spread": one_node(
        "ConvTranspose", numbers((4, 3, 3)), inputs=LINES, strides=[2], output_padding=[1],
    ),
    "largest of lines": one_node("MaxPool", inputs=LINES, kernel_shape=[3], dilations=[2]),
    "mean of lines": one_node("AveragePool", inputs=LINES, kernel_shape=[2], strides=[2]),
    "mean of all of a line": one_node("GlobalAveragePool", inputs=LINES),
    "lines in a chain": graph_model(
        [
            node("Conv", ["x", "k"], ["1"], pads=[1, 1], name="first"),
            node("BatchNormalization", ["1", "s", "b", "m", "v"], ["2"]),
            node("Relu", ["2"], ["3"]),
            node("Add", ["3", "e"], ["4"]),
            node("Conv", ["4", "k"], ["5"], pads=[1, 1], name="second"),
            node("Add", ["5", "3"], ["6"]),
            node("Transpose", ["6"], ["y"], perm=[0, 2, 1]),
        ],
        inputs=LINES,
        constants={
            "k": numbers((4, 4, 3)),
            "e": numbers((4, 9), 9),
            **{name: numbers(4, place, 0.5, 1.5) for place, name in enumerate("sbmv")},
        },
    ),
    "many vectors normalised": graph_model(
        [
            node("Reshape", ["x", "rows"], ["r"]),
            node("BatchNormalization", ["r", "s", "b", "m", "v"], ["y"]),
        ],
        inputs={"x": (1, 7, 5)},
        constants={
            "rows": ints(7, 5),
            **{name: numbers(5, place, 0.5, 1.5) for place, name in enumerate("sbmv")},
        },
    ),
}  # fmt: skip
EQUATIONS = {  # equation: dims of the operands; those behind the first are constants where odd
    "bchw,bdhw->bcd": ((1, 4, 3, 5), (1, 6, 3, 5)),
    "bij,bjk->bik": ((1, 4, 3), (1, 3, 5)),
    "bhid,bhjd->bhij": ((1, 2, 4, 3), (1, 2, 5, 3)),
    "bhwc,hkc->bhwk": ((1, 4, 6, 3), (4, 5, 3)),
    "bij,bij->b": ((1, 4, 3), (1, 4, 3)),
    "bij,kj": ((1, 4, 3), (5, 3)),
    "bij->bji": ((1, 4, 3),),
}


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", CASES)
def test_whole_and_by_rows_it_is_what_the_runtime_gives(name, seed, tmp_path):
    agree(CASES[name], tmp_path, seed)


@pytest.mark.parametrize("equation", EQUATIONS)
@pytest.mark.parametrize("is_trained", [False, True])
def test_sums_of_products_are_those_of_the_runtime(equation, is_trained, tmp_path):
    first, *others = EQUATIONS[equation]
    has_batch = all(dims[0] == 1 for dims in others)
    if is_trained or not has_batch:
        model = one_node("Einsum", *map(numbers, others), inputs={"x": first}, equation=equation)
    else:
        inputs = {"x": first} | {f"z{place}": dims for place, dims in enumerate(others)}
        model = one_node("Einsum", inputs=inputs, equation=equation)
    agree(model, tmp_path)


GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("kind", GATES)
@pytest.mark.parametrize("is_full", [False, True])
def test_recurrent_layers_give_what_the_runtime_gives(kind, direction, is_full, tmp_path):
    units, elements, sequences = 5, 3, 2
    ways = 2 if direction == "bidirectional" else 1
    rows = GATES[kind] * units
    constants = {
        "w": numbers((ways, rows, elements), 1),
        "r": numbers((ways, rows, units), 2),
        "b": numbers((ways, 2 * rows), 3),
        "h": numbers((ways, sequences, units), 4),
        "c": numbers((ways, sequences, units), 5),
        "dims": ints(6, sequences, elements),
    }
    outputs = ["y", "last", "cell"][: 3 if kind == "LSTM" else 2]
    states = ["", "h", "c"][: len(outputs)]
    read = ["frames", "w", "r", *(["b", *states] if is_full else [])]
    forms = {"linear_before_reset": int(is_full)} if kind == "GRU" else {}
    nodes = [
        node("Reshape", ["x", "dims"], ["frames"]),
        node(kind, read, outputs, hidden_size=units, direction=direction, **forms),
    ]
    inputs = {"x": (1, 6 * sequences, elements)}
    model = graph_model(nodes, inputs=inputs, outputs=outputs, constants=constants)
    agree(model, tmp_path)


@pytest.mark.parametrize("largest", [0, 1])
@pytest.mark.parametrize("axis", [1, 2, 3])
def test_the_first_of_a_ranking_and_their_places(axis, largest, tmp_path):
    model = one_node(
        "TopK", ints(3), inputs=MAP, outputs=("y", "places"), axis=axis, largest=largest
    )
    agree(model, tmp_path)


def test_of_equal_elements_the_lower_place_comes_first(tmp_path):
    same = graph_model(
        [
            node("Floor", ["x"], ["f"]),
            node("TopK", ["f", "k"], ["y", "places"], axis=1),
            node("ArgMax", ["f"], ["last"], axis=1, select_last_index=1),
        ],
        inputs=MAP,
        outputs=("y", "places", "last"),
        constants={"k": ints(4)},
    )
    agree(same, tmp_path)


@pytest.mark.parametrize("reduction", ["ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin"])
def test_tensors_stacked_and_reduced_are_one_layer_by_rows(reduction, tmp_path):
    opset = 18
    nodes = [
        node("Unsqueeze", ["x", "axis"], ["1"]),
        node("Unsqueeze", ["z", "axis"], ["2"]),
        node("Concat", ["1", "2"], ["3"], axis=0),
        node(reduction, ["3", "axis"], ["y"], keepdims=0, name="joined"),
    ]
    model = graph_model(nodes, inputs=TWO, constants={"axis": ints(0)}, opset=opset)
    network = agree(model, tmp_path)
    assert isinstance(network.layer("joined").operator, op.Elementwise)
    assert phases(network, "joined") == 6


def choice(condition, nodes):
    """An If around two graphs that read what stands around them."""

    def branch(name, nodes, result):
        outputs = [helper.make_tensor_value_info(result, TensorProto.FLOAT, None)]
        kept = numpy_helper.from_array(numbers((4, 1, 1), 7), "kept")
        return helper.make_graph(nodes, name, [], outputs, [kept])

    then = branch("then", [node("Mul", ["x", "kept"], ["r"]), node("Relu", ["r"], ["o"])], "o")
    other = branch("else", [node("Sub", ["kept", "x"], ["o"])], "o")
    chosen = node("If", [condition], ["i"], then_branch=then, else_branch=other, name="choice")
    return [*nodes, chosen, node("Sigmoid", ["i"], ["y"])]


@pytest.mark.parametrize("is_true", [False, True])
def test_a_choice_that_no_frame_changes_is_the_graph_chosen(is_true, tmp_path):
    model = graph_model(choice("c", []), inputs=MAP, constants={"c": np.array(is_true)})
    network = agree(model, tmp_path)
    kinds = [type(layer.operator) for layer in network.layers]
    assert len(kinds) == (5 if is_true else 4)


def test_a_choice_by_a_shape_is_made(tmp_path):
    nodes = [
        node("Shape", ["x"], ["s"]),
        node("Gather", ["s", "two"], ["h"], axis=0),
        node("Equal", ["h", "six"], ["c"]),
    ]
    constants = {"two": np.array(2), "six": np.array(6)}
    network = agree(graph_model(choice("c", nodes), inputs=MAP, constants=constants), tmp_path)
    assert "choice/branch/r" in [layer.name for layer in network.layers]


def test_choices_inside_one_another_are_made(tmp_path):
    def graph(name, nodes):
        outputs = [helper.make_tensor_value_info("o", TensorProto.FLOAT, None)]
        return helper.make_graph(nodes, name, [], outputs)

    relu, negative = (graph(kind, [node(kind, ["x"], ["o"])]) for kind in ("Relu", "Neg"))
    inner = node("If", ["d"], ["o"], then_branch=relu, else_branch=negative, name="inner")
    outer = graph("outer", [inner])
    chosen = node("If", ["c"], ["y"], then_branch=outer, else_branch=relu, name="choice")
    constants = {"c": np.array(1, bool), "d": np.array(0, bool)}
    network = agree(graph_model([chosen], inputs=MAP, constants=constants), tmp_path)
    assert any(layer.operator == op.Activation(function="negative") for layer in network.layers)


BY_ROWS = {  # a case and how many phases its layer has: the rows of what it writes
    "round": 6,
    "rows in order": 4,
    "maps": 6,
    "expand one row": 7,
    "tile columns": 6,
    "arg max of rows": 1,
    "running sum": 6,
    "where the constant is chosen": 6,
    "rows behind": 8,
    "cubic": 11,
    "places of rows": 1,  # rows that change their order need all of them
}


@pytest.mark.parametrize("name", BY_ROWS)
def test_it_works_by_rows_where_rows_stay_in_order(name, tmp_path):
    network = simplified(read_onnx(saved(CASES[name], tmp_path)), ("eliminate-nop",)).network
    assert phases(network, network.layers[1].name) == BY_ROWS[name]


def test_windows_over_lines_work_by_rows(tmp_path):
    model = saved(CASES["lines in a chain"], tmp_path)
    network = simplified(read_onnx(model), ("eliminate-nop",)).network
    assert [phases(network, name) for name in ("first", "second")] == [9, 9]
    assert [one.shape.dims for one in (*network.inputs, *network.outputs)] == [(4, 9), (9, 4)]


def test_integers_and_truth_values_count_their_own_bytes(tmp_path):
    model = graph_model(
        [node("Greater", ["x", "low"], ["c"]), node("ArgMax", ["x"], ["y"], axis=1),
         node("Cast", ["c"], ["z"], to=TensorProto.FLOAT)],
        inputs=MAP, outputs=("y", "z"), constants={"low": scalar(0)},
    )  # fmt: skip
    network = read_onnx(saved(model, tmp_path)).network
    found = {layer.name: layer.element_bytes for layer in network.layers}
    assert (found["c"], found["y"], found["z"]) == (1, 8, 4)

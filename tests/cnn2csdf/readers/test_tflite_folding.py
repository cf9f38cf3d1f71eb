"""TensorFlow Lite files whose constants are computed: shapes by arithmetic, weights of two bytes."""

from ast import literal_eval
from dataclasses import replace
from itertools import starmap

import numpy as np
import pytest

from cnn2csdf.execution.layer_by_layer import run_layer_by_layer
from cnn2csdf.readers.tflite.folding import ELEMENT_LIMIT, FOLDING_RULES, folded
from cnn2csdf.readers.tflite.model_file import parse_graph
from cnn2csdf.readers.tflite.reader import parse_tflite
from csdf.errors import UnreadableFile
from tests.cnn2csdf.readers.tflite_models import Node, Tensor, constant, tflite_bytes

SLICE_ONE = [(0, "i", 0), (1, "i", 0), (2, "i", 0), (3, "i", 0), (4, "i", 1)]  # axis 0 shrinks
PACK_TWO = [(0, "i", 2), (1, "i", 0)]


def integers(name, *values):
    return constant(name, np.array(values, np.int32))


def with_reshape(shape_nodes, shape_tensors, frame_dims, result_dims):
    """A file that reshapes its input to dims computed by nodes; the first tensors are x and y."""
    tensors = [Tensor("x", frame_dims), Tensor("y", result_dims), *shape_tensors]
    nodes = [*shape_nodes, Node("RESHAPE", [0, len(tensors) - 1], [1])]
    return tflite_bytes(tensors, nodes, [0], [1])


def test_a_reshape_by_the_shape_of_its_input_is_read():
    tensors = [
        Tensor("shape", (4,), "int32"),
        integers("begin", 3),
        integers("end", 4),
        integers("step", 1),
        Tensor("channels", (), "int32"),
        integers("rest", -1),
        Tensor("rest scalar", (), "int32"),
        Tensor("zero", (0,), "int32"),
        Tensor("dims", (2,), "int32"),
    ]
    nodes = [
        Node("SHAPE", [0], [2]),
        Node("STRIDED_SLICE", [2, 3, 4, 5], [6], SLICE_ONE),
        Node("RESHAPE", [7, 9], [8]),
        Node("PACK", [8, 6], [10], PACK_TWO),
    ]
    model = parse_tflite(with_reshape(nodes, tensors, (1, 2, 3, 4), (6, 4)), "a", with_weights=True)
    frame = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    (result,) = run_layer_by_layer(model, {"x": np.moveaxis(frame, 2, 0)}).values()
    assert np.array_equal(result, frame.reshape(6, 4))


@pytest.mark.parametrize(
    ("kind", "inputs", "expected"),
    [
        ("FILL", [integers("d", 3), constant("v", np.float32(2.5))], [2.5, 2.5, 2.5]),
        ("RANGE", [constant(n, np.float32(v)) for n, v in zip("abc", (1, 2.5, 0.5), strict=True)],
         [1, 1.5, 2]),
        ("TILE", [constant("v", np.array([7], np.float32)), integers("t", 3)], [7, 7, 7]),
        ("BROADCAST_TO", [constant("v", np.array([4], np.float32)), integers("d", 3)], [4, 4, 4]),
        ("DEQUANTIZE", [constant("v", np.array([1, 0.5, 3], np.float16))], [1, 0.5, 3]),
        ("DEQUANTIZE", [constant("v", np.array([3, 5, 1], np.uint8), (0.5,), 3)], [0, 1, -1]),
    ],
)  # fmt: skip
def test_an_operand_that_is_computed_from_constants_is_added(kind, inputs, expected):
    count = len(inputs)
    tensors = [*inputs, Tensor("c", (3,)), Tensor("x", (1, 3)), Tensor("y", (1, 3))]
    nodes = [
        Node(kind, list(range(count)), [count]),
        Node("ADD", [count + 1, count], [count + 2], [(0, "b", 0)]),
    ]
    content = tflite_bytes(tensors, nodes, [count + 1], [count + 2])
    model = parse_tflite(content, "a", with_weights=True)
    (result,) = run_layer_by_layer(model, {"x": np.zeros(3, np.float32)}).values()
    assert result.tolist() == expected


def test_a_convolution_with_weights_of_two_bytes_is_read():
    weights = np.random.default_rng(0).standard_normal((4, 3, 3, 2)).astype(np.float16)
    tensors = [
        constant("w16", weights),
        constant("b16", np.array([1, 2, 3, 4], np.float16)),
        Tensor("w", (4, 3, 3, 2)),
        Tensor("b", (4,)),
        Tensor("x", (1, 5, 5, 2)),
        Tensor("y", (1, 3, 3, 4)),
    ]
    nodes = [
        Node("DEQUANTIZE", [0], [2]),
        Node("DEQUANTIZE", [1], [3]),
        Node("CONV_2D", [4, 2, 3], [5], [(0, "b", 1), (1, "i", 1), (2, "i", 1)]),
    ]
    model = parse_tflite(tflite_bytes(tensors, nodes, [4], [5]), "a", with_weights=True)
    kernel = model.weights["y"]["kernel"]
    assert np.array_equal(kernel, np.moveaxis(weights.astype(np.float32), 3, 1))
    assert model.weights["y"]["bias"].tolist() == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("nodes", "tensors", "message"),
    [
        ([Node("FILL", [2, 3], [4])],
         [integers("d", 2**31 - 1, 9), integers("v", 1), Tensor("dims", (2,), "int32")],
         "its constants do not fit: a constant of 2147483647x9 elements"),
        ([Node("FILL", [2, 3], [4])] * 9,
         [integers("d", 2**24), constant("v", np.int8(1)), Tensor("dims", (2,), "int8")],
         f"expected at most {ELEMENT_LIMIT}"),
        ([Node("TILE", [2, 3], [4])],
         [integers("d", 1, 2), integers("v", -1), Tensor("dims", (2,), "int32")],
         "a constant of -2 elements"),
        ([Node("STRIDED_SLICE", [2, 3], [4], SLICE_ONE)],
         [integers("d", 1, 2), integers("v", 0), Tensor("dims", (2,), "int32")],
         "its constants do not fit"),
        ([Node("PACK", [2, 3], [4], PACK_TWO)],
         [integers("d", 1, 2), integers("v", 0), Tensor("dims", (2,), "int32")],
         "its constants do not fit"),
        ([Node("SPLIT", [2, 3], [4])],
         [integers("d", 7), integers("v", 0, 1), Tensor("dims", (2,), "int32")],
         "its constants do not fit"),
        ([Node("FLOOR_MOD", [2, 3], [4])],
         [integers("d", 7, 5), integers("v", 2, 0), Tensor("dims", (2,), "int32")],
         "a division by zero"),
    ],
)  # fmt: skip
def test_constants_that_do_not_fit_or_are_huge_are_refused_in_a_line(nodes, tensors, message):
    with pytest.raises(UnreadableFile, match=message) as raised:
        parse_tflite(with_reshape(nodes, tensors, (1, 4), (1, 4)), "a")
    assert "\n" not in str(raised.value)


def constant_of_example(number, value):
    """A constant: whole numbers in 4 bytes, real numbers in single precision."""
    array = np.array(value)
    types = {"f": np.float32, "i": np.int32}
    return constant(f"c{number}", array.astype(types.get(array.dtype.kind, array.dtype)))


@pytest.mark.parametrize("kind", FOLDING_RULES)
def test_the_example_of_a_rule_is_what_it_evaluates(kind):
    sides = (literal_eval(f"({side},)") for side in FOLDING_RULES[kind].example.split("->"))
    (*inputs, last), results = sides
    options = last if isinstance(last, dict) else {}
    inputs += [] if options else [last]
    inputs = [constant_of_example(number, value) for number, value in enumerate(inputs)]
    outputs = [
        replace(constant_of_example(number, value), name=f"y{number}", array=None)
        for number, value in enumerate(results, len(inputs))
    ]
    count = len(inputs)
    numbers = range(count, count + len(outputs))
    # Options that are missing have the value 0; a node needs a table to have any.
    fields = [(field, "i", value) for field, value in options.items()] or [(9, "i", 0)]
    node = Node(kind, list(range(count)), [*numbers], fields)
    graph = folded(parse_graph(tflite_bytes([*inputs, *outputs], [node], [], [*numbers])))
    assert graph.nodes == ()
    for number, value in zip(numbers, results, strict=True):
        tensor = graph.tensors[number]
        assert tensor.array().tolist() == value
        assert tensor.buffer not in {tensor.buffer for tensor in graph.tensors[:number]}


def folded_constant(kind, inputs, result, options=()):
    """The constant that replaces a node, as nested lists; None where the node is kept."""
    tensors = [*(constant_of_example(number, value) for number, value in enumerate(inputs)), result]
    count = len(inputs)
    node = Node(kind, list(range(count)), [count], list(options))
    graph = folded(parse_graph(tflite_bytes(tensors, [node], [], [count])))
    return None if graph.nodes else graph.tensors[count].array().tolist()


@pytest.mark.parametrize(
    ("activation", "expected"),
    [(0, [-7, 2, 9]), (1, [0, 2, 9]), (2, [-1, 1, 1]), (3, [0, 2, 6]), (4, None)],
)
@pytest.mark.parametrize(
    ("kind", "second"),
    [("ADD", [0, 0, 0]), ("SUB", [0, 0, 0]), ("MUL", [1, 1, 1]), ("DIV", [1, 1, 1])],
)
@pytest.mark.parametrize("element", ["int32", "float32"])
def test_the_activation_behind_a_function_of_constants_is_folded(
    kind, second, element, activation, expected
):
    inputs = [np.array(values, element) for values in ([-7, 2, 9], second)]
    result = Tensor("y", (3,), element)
    assert folded_constant(kind, inputs, result, [(0, "b", activation)]) == expected


@pytest.mark.parametrize(("activation", "expected"), [(1, [0, 2]), (3, [0, 2]), (4, None)])
def test_the_activation_behind_joined_constants_is_folded(activation, expected):
    options = [(0, "i", 0), (1, "b", activation)]
    result = Tensor("y", (2,), "int32")
    assert folded_constant("CONCATENATION", [[-1], [2]], result, options) == expected


def test_a_condition_with_one_axis_selects_along_the_first_axis():
    inputs = [[True, False], [[1, 2], [3, 4]], [[5, 6], [7, 8]]]
    result = Tensor("y", (2, 2), "int32")
    assert folded_constant("SELECT", inputs, result) == [[1, 2], [7, 8]]
    assert folded_constant("SELECT_V2", inputs, result) == [[1, 6], [3, 8]]


def test_the_limit_of_gathered_constants_counts_their_result():
    count = 2**14  # so source and positions together have more than ELEMENT_LIMIT pairs
    positions = [place % 3 for place in range(count)]
    result = Tensor("y", (count,), "int32")
    gathered = folded_constant(
        "GATHER", [range(count), positions], result, [(1, "i", 0), (0, "i", 0)]
    )
    assert count**2 > ELEMENT_LIMIT
    assert gathered == positions


def test_ends_of_a_folded_slice_count_from_its_begins_only_with_an_offset():
    def sliced(begin, begin_mask, offset):
        numbers = ([5, 6, 7, 8], [begin], [2], [1])
        tensors = [*starmap(constant_of_example, enumerate(numbers)), Tensor("y", (1,), "int32")]
        options = [(6, "b", 1), (5, "b", 1), (0, "i", begin_mask)]  # byte 1 follows the offset
        node = Node("STRIDED_SLICE", [0, 1, 2, 3], [4], options)
        content = bytearray(tflite_bytes(tensors, [node], [], [4]))
        content[parse_graph(bytes(content)).nodes[0].options._place(5)] = offset
        graph = folded(parse_graph(bytes(content)))
        return None if graph.nodes else graph.tensors[4].array().tolist()

    assert sliced(1, 0, offset=0) == [6]
    assert sliced(1, 0, offset=1) == [6, 7]
    assert sliced(1, 1, offset=1) == [5, 6]
    assert sliced(-3, 0, offset=1) is None


@pytest.mark.parametrize(
    ("element", "expected"),
    [
        ("uint8", [0, 255, 0, 2]),
        ("int32", [-(2**31), 2**31 - 1, 0, 2]),
        ("int64", [-(2**63), 2**63 - 1, 0, 2]),
    ],
)
def test_a_cast_of_real_constants_to_integers_saturates(element, expected):
    values = [-np.inf, 1e30, np.nan, 2.75]
    assert folded_constant("CAST", [values], Tensor("y", (4,), element)) == expected


def test_a_mean_of_integer_constants_is_exact_and_rounded_towards_zero():
    tensors = [
        constant("x", np.array([[2**53 + 1, 2**53 + 1], [-3, -4]])),
        integers("axes", 1),
        Tensor("y", (2,), "int64"),
    ]
    node = Node("MEAN", [0, 1], [2], [(0, "b", 0), (9, "i", 0)])
    graph = folded(parse_graph(tflite_bytes(tensors, [node], [], [2])))
    assert graph.tensors[2].array().tolist() == [2**53 + 1, -3]


def test_an_axis_of_a_reduction_of_constants_may_be_listed_twice():
    values, result = [[1, 5], [3, 2]], Tensor("y", (2,), "int32")
    assert folded_constant("SUM", [values, [1, -1, 1]], result, [(9, "i", 0)]) == [6, 5]


def test_a_quotient_by_an_infinite_constant_is_zero():
    infinite = [[-7.0, np.inf], [np.inf, 2.0]]
    assert folded_constant("FLOOR_DIV", infinite, Tensor("y", (2,))) == [0.0, np.inf]


def test_a_folded_range_adds_its_step_again_and_again():
    # As LiteRT: 0.1 six times is 0.6, and the next sum is rounded up.
    added = folded_constant("RANGE", [0.0, 1.0, 0.1], Tensor("y", (10,)))
    assert added[7] == np.float32(0.70000005) != np.float32(0.7)
    # In single precision 0.6 / 0.2 is 3, in double precision more than 3.
    assert len(folded_constant("RANGE", [0.0, 0.6, 0.2], Tensor("y", (3,)))) == 3


def test_an_axis_that_shrinks_begins_at_zero_by_the_mask():
    numbers, result = ([5, 6, 7, 8], [1], [2], [1]), Tensor("y", (), "int32")
    shrink = (4, "i", 1)
    assert folded_constant("STRIDED_SLICE", numbers, result, [shrink]) == 6
    assert folded_constant("STRIDED_SLICE", numbers, result, [(0, "i", 1), shrink]) == 5


@pytest.mark.parametrize(("scale", "folds"), [(0.5, True), (0.25, False)])
def test_only_integers_of_one_scale_are_joined(scale, folds):
    tensors = [
        constant("a", np.array([3], np.uint8), (0.5,)),
        constant("b", np.array([4], np.uint8), (scale,)),
        Tensor("y", (2,), "uint8", (0.5,)),
    ]
    node = Node("CONCATENATION", [0, 1], [2], [(0, "i", 0)])
    graph = folded(parse_graph(tflite_bytes(tensors, [node], [], [2])))
    assert (graph.nodes == ()) == folds

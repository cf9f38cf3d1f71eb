"""Choices between two graphs (IF) of a TensorFlow Lite file."""

import numpy as np
import pytest

from cnn2csdf.execution.layer_by_layer import run_layer_by_layer
from cnn2csdf.readers.tflite.reader import parse_tflite
from csdf.errors import UnreadableFile, UnsupportedOperator
from tests.cnn2csdf.readers.tflite_models import Node, Tensor, constant, tflite_bytes

FRAME = (1, 3)
BRANCHES = [(0, "i", 1), (1, "i", 2)]


def branch(kind):
    """A graph of one function."""
    return [Tensor("a", FRAME), Tensor("b", FRAME)], [Node(kind, [0], [1])], [0], [1]


def file_with_choice(condition, before=(), others=None, options=BRANCHES):
    """A file whose IF chooses between an absolute value and a negative one."""
    tensors = [Tensor("x", FRAME), condition, Tensor("y", FRAME), constant("zero", np.zeros(1, "f4")),
               constant("axes", np.array([1], np.int32)), Tensor("most", (1,))]  # fmt: skip
    nodes = [*before, Node("IF", [1, 0], [2], list(options))]
    others = [branch("ABS"), branch("NEG")] if others is None else others
    return tflite_bytes(tensors, nodes, [0], [2], others)


def outcome(content, values):
    model = parse_tflite(content, "a", with_weights=True)
    frame = {model.network.inputs[0].name: np.array(values, np.float32)}
    (result,) = run_layer_by_layer(model, frame).values()
    return model, result.tolist()


CONDITION = [Node("REDUCE_MAX", [0, 4], [5], [(0, "b", 0)]), Node("GREATER", [5, 3], [1])]


@pytest.mark.parametrize(("value", "expected"), [(True, [1, 2, 3]), (False, [-1, 2, -3])])
def test_a_constant_condition_leaves_one_graph(value, expected):
    content = file_with_choice(constant("c", np.array([value])))
    model, result = outcome(content, [1, -2, 3])
    assert result == expected
    kinds = [layer.operator.in_words() for layer in model.network.layers]
    assert ("abs" in kinds) == value
    assert ("negative" in kinds) != value


def test_a_condition_of_the_frame_leaves_both_graphs_and_a_choice():
    content = file_with_choice(Tensor("c", (1,), "bool"), CONDITION)
    assert outcome(content, [1, -2, 3])[1] == [1, 2, 3]
    assert outcome(content, [-1, -2, -3])[1] == [1, 2, 3]
    assert outcome(content, [-1, -2, 0])[1] == [1, 2, 0]


def test_a_choice_inside_a_choice_is_opened():
    tensors = [Tensor("a", FRAME), constant("c", np.array([False])), Tensor("b", FRAME)]
    inner = (tensors, [Node("IF", [1, 0], [2], [(0, "i", 1), (1, "i", 3)])], [0], [2])
    others = [branch("ABS"), inner, branch("RELU")]
    content = file_with_choice(constant("c", np.array([False])), others=others)
    assert outcome(content, [1, -2, 3])[1] == [1, 0, 3]


def choices_inside(levels, width=1):
    """A file with this many choices inside one another, each level with `width` of the next."""
    condition = constant("c", np.array([True]))
    tensors = [Tensor("a", FRAME), condition, Tensor("b", FRAME)]
    others = [
        (tensors, [Node("IF", [1, 0], [2], [(0, "i", one), (1, "i", one)])] * width, [0], [2])
        for one in range(2, levels + 1)
    ]
    return file_with_choice(
        condition, others=[*others, branch("ABS")], options=[(0, "i", 1), (1, "i", 1)]
    )


def test_choices_are_opened_up_to_the_deepest():
    assert outcome(choices_inside(32), [1, -2, 3])[1] == [1, 2, 3]
    with pytest.raises(UnsupportedOperator, match="more than 32 choices"):
        parse_tflite(choices_inside(33), "a")


def test_constant_conditions_make_no_more_operators_than_others():
    with pytest.raises(UnsupportedOperator, match="more than 20000 operators"):
        parse_tflite(choices_inside(16, width=2), "a")


def test_graphs_that_do_not_fit_are_refused_by_name():
    condition = Tensor("c", (1,), "bool")
    content = file_with_choice(condition, CONDITION, options=[(0, "i", 1), (1, "i", 7)])
    with pytest.raises(UnreadableFile, match=r"operator 2 \(IF\) chooses graph 7 of 3"):
        parse_tflite(content, "a")
    wide = ([Tensor("a", FRAME), Tensor("b", FRAME)], [Node("ADD", [0, 1], [0])], [0, 1], [0])
    content = file_with_choice(condition, CONDITION, others=[wide, wide])
    with pytest.raises(UnreadableFile, match="1 inputs and 1 outputs, but graph 1 has 2 and 1"):
        parse_tflite(content, "a")


def test_a_graph_that_chooses_itself_ends_in_one_message():
    tensors = [Tensor("a", FRAME), constant("c", np.array([True])), Tensor("b", FRAME)]
    own = (tensors, [Node("IF", [1, 0], [2], [(0, "i", 1), (1, "i", 1)])], [0], [2])
    content = file_with_choice(constant("c", np.array([True])), others=[own, own])
    with pytest.raises(UnsupportedOperator, match="more than 32 choices"):
        parse_tflite(content, "a")
    tensors = [Tensor("a", FRAME), Tensor("c", (1, 3), "bool"), Tensor("b", FRAME)]
    nodes = [
        Node("GREATER", [0, 0], [1]),
        *[Node("IF", [1, 0], [2], [(0, "i", 1), (1, "i", 1)])] * 9,
    ]
    content = file_with_choice(
        Tensor("c", (1,), "bool"), CONDITION, [(tensors, nodes, [0], [2])] * 2
    )
    with pytest.raises(UnsupportedOperator, match=r"more than 20000 operators"):
        parse_tflite(content, "a")

"""The network between two tensors of a file, and refusals that list all obstacles with a way out."""

import re
import shlex

import numpy as np
import pytest
from onnx import helper

from cnn2csdf.execution.layer_by_layer import run_layer_by_layer
from cnn2csdf.onnx_files.reader import read_onnx
from cnn2csdf.readers.model_files import read_model
from cnn2csdf.readers.tflite.reader import parse_tflite
from csdf.errors import UnreadableFile, UnsupportedOperator
from tests.cnn2csdf.onnx_models import graph_model, saved
from tests.cnn2csdf.readers.tflite_models import CODES, Node, Tensor, constant, tflite_bytes

CODES.setdefault("UNIQUE", 103)
FRAME = (1, 4)


def chain(*kinds):
    """A file of functions of single elements, one after another: x, t0, t1, ..."""
    names = ["x", *(f"t{number}" for number in range(len(kinds)))]
    nodes = [Node(kind, [place], [place + 1]) for place, kind in enumerate(kinds)]
    return tflite_bytes([Tensor(name, FRAME) for name in names], nodes, [0], [len(kinds)])


def words_of(message):
    """The words of the command line that a refusal proposes, as arguments of a reader."""
    (words,) = re.findall(r"; ((?:--\w+ [^;]+?)+) reads the other", message)
    arguments = shlex.split(words)
    sides = {"--from": "inputs", "--until": "outputs"}
    options = {}
    for option, value in zip(arguments[::2], arguments[1::2], strict=True):
        options.setdefault(sides[option], []).append(value)
    return options


def test_the_part_between_two_tensors_is_read():
    content = chain("RELU", "ABS", "TANH", "RELU6")
    model = parse_tflite(content, "a", inputs=["t0"], outputs=["t2"], with_weights=True)
    frame = np.array([-2, -0.5, 0.5, 2], np.float32)
    (name,) = (layer.name for layer in model.network.inputs)
    (result,) = run_layer_by_layer(model, {name: frame}).values()
    assert np.array_equal(result, np.tanh(np.abs(frame)))


@pytest.mark.parametrize(
    ("kinds", "proposed"),
    [
        (["RELU", "ABS", "UNIQUE"], {"outputs": ["t1"]}),
        (["UNIQUE", "ABS", "RELU"], {"inputs": ["t0"]}),
        (["RELU", "ABS", "UNIQUE", "ABS"], {"outputs": ["t1"]}),
        (["RELU", "UNIQUE", "ABS", "UNIQUE", "RELU", "TANH"], {"inputs": ["t3"]}),
    ],
)
def test_a_refusal_proposes_the_words_that_read_the_larger_part(kinds, proposed):
    content = chain(*kinds)
    with pytest.raises(UnsupportedOperator, match=r"UNIQUE \(.x, ") as refusal:
        parse_tflite(content, "a")
    assert words_of(str(refusal.value)) == proposed
    assert parse_tflite(content, "a", **proposed).network.layers


@pytest.mark.parametrize("refused_is_read", [True, False])
def test_the_words_for_a_tail_leave_out_outputs_before_the_refused_operator(refused_is_read):
    # x: early outputs t0 and t1, then UNIQUE (an output too, or not), then a tail of three operators.
    names = ["x", "t0", "t1", "u", "a", "b", "c"]
    kinds = ["RELU", "ABS", "UNIQUE", "ABS", "TANH", "RELU"]
    nodes = [Node(kind, [place], [place + 1]) for place, kind in enumerate(kinds)]
    outputs = [2, *([3] if refused_is_read else []), 6]
    content = tflite_bytes([Tensor(name, FRAME) for name in names], nodes, [0], outputs)
    with pytest.raises(UnsupportedOperator) as refusal:
        parse_tflite(content, "a")
    words = words_of(str(refusal.value))
    assert words == {"inputs": ["u"], "outputs": ["c"]}
    assert str(refusal.value).endswith("reads the other 3 operators")
    # Its input and output are layers, too.
    assert len(parse_tflite(content, "a", **words).network.layers) == 5


def test_all_obstacles_are_listed_with_the_share_of_the_work_elsewhere():
    weights = [constant(name, np.ones((4, 4), np.float32)) for name in "vw"]
    tensors = [Tensor(name, FRAME) for name in "xabcd"] + weights
    nodes = [
        Node("FULLY_CONNECTED", [0, 5], [1], [(0, "b", 0)]),
        Node("UNIQUE", [1], [2]),
        Node("WHERE", [2], [3]),
        Node("FULLY_CONNECTED", [3, 6], [4], [(0, "b", 0)]),
    ]
    with pytest.raises(UnsupportedOperator) as refusal:
        parse_tflite(tflite_bytes(tensors, nodes, [0], [4]), "a")
    message = str(refusal.value)
    assert "UNIQUE (1x, operator 1), WHERE (1x, operator 2)" in message
    assert "100.0% of the MACs are in other operators" in message
    assert "\n" not in message


def test_a_refused_operator_at_both_ends_leaves_no_words():
    with pytest.raises(UnsupportedOperator) as refusal:
        parse_tflite(chain("UNIQUE", "UNIQUE"), "a")
    assert "--" not in str(refusal.value)


def test_a_name_that_no_tensor_has_says_which_may_be_meant():
    tensors = [Tensor(name, FRAME) for name in ("x", "hidden2", "y")]
    nodes = [Node("RELU", [0], [1]), Node("ABS", [1], [2])]
    content = tflite_bytes(tensors, nodes, [0], [2])
    with pytest.raises(UnreadableFile, match=r"there is no tensor 'hidden1'; did you mean"):
        parse_tflite(content, "a", outputs=["hidden1"])
    with pytest.raises(UnreadableFile, match="are named in ONNX and"):
        read_model("resnet8", outputs=["x"])


def onnx_chain(folder, *kinds, opset=17):
    names = ["x", *(f"t{number}" for number in range(len(kinds) - 1)), "y"]
    nodes = [
        helper.make_node(kind, [names[place]], [names[place + 1]], name=f"node {place}")
        for place, kind in enumerate(kinds)
    ]
    return saved(graph_model(nodes, inputs={"x": FRAME}, opset=opset), folder)


def test_the_part_between_two_tensors_of_an_onnx_file_is_read(tmp_path):
    path = onnx_chain(tmp_path, "Relu", "Abs", "Tanh", "Neg")
    model = read_onnx(path, outputs=["t1"])
    assert [layer.name for layer in model.network.layers] == ["x", "node 0", "node 1", "t1"]
    model = read_onnx(path, inputs=["t1"], shapes={"t1": FRAME}, with_weights=True)
    frame = np.array([-2, -0.5, 0.5, 2], np.float32)
    (result,) = run_layer_by_layer(model, {"t1": frame}).values()
    assert np.array_equal(result, -np.tanh(frame))


def test_a_refusal_of_an_onnx_tail_proposes_the_words(tmp_path):
    path = onnx_chain(tmp_path, "Relu", "Abs", "Hardmax")
    with pytest.raises(UnsupportedOperator, match="Hardmax") as refusal:
        read_onnx(path)
    assert words_of(str(refusal.value)) == {"outputs": ["t1"]}

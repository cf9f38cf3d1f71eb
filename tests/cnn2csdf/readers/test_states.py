"""Networks that keep a state: outputs of TensorFlow Lite Micro, invocation after invocation."""

import json
from types import SimpleNamespace

import numpy as np
import pytest

from cnn2csdf.execution.layer_by_layer import first_states, run_layer_by_layer
from cnn2csdf.lowering import lower
from cnn2csdf.readers.model_files import read_model
from cnn2csdf.readers.tflite.model_file import TfliteGraph, TfliteNode
from cnn2csdf.readers.tflite.reader import parse_tflite, part_of
from cnn2csdf.rings import rings_of
from csdf.analysis.consistency import repetition_vector
from tests.cnn2csdf.readers.tflite_models import Node, Tensor, constant, tflite_bytes
from tests.shared_data import SHARED, each

FOLDER = SHARED / "networks" / "stateful"
NAMES = sorted(path.stem for path in FOLDER.glob("*.tflite"))
MANY = 80  # more than the rows that any window has
FEW = 8  # invocations of a quick test


def as_frame(model, tensor):
    """A tensor of the file as the frame of a model: without a batch, channels first."""
    (layer,) = model.network.inputs
    dims = layer.shape.dims
    if len(dims) != 3:
        return {layer.name: tensor.reshape(dims)}
    return {layer.name: np.moveaxis(tensor.reshape(dims[1], dims[2], dims[0]), 2, 0)}


def as_in_file(outputs):
    (output,) = outputs.values()
    return (np.moveaxis(output, 0, 2) if output.ndim == 3 else output).reshape(-1)


def lstm_file(frames, *, keeps):
    """An LSTM of real numbers over so many frames; keeps: whether its states are variables."""
    random, units, elements = np.random.default_rng(0), 3, 4
    shapes = [(units, elements)] * 4 + [(units, units)] * 4 + [(units,)] * 4
    weights = [
        constant(f"w{place}", random.standard_normal(shape).astype(np.float32))
        for place, shape in enumerate(shapes)
    ]
    states = [Tensor(name, (1, units), is_variable=keeps) for name in ("hidden", "cells")]
    tensors = [Tensor("x", (1, frames, elements)), *weights, *states]
    tensors.append(Tensor("y", (1, frames, units)))
    inputs = [*range(9), -1, -1, -1, *range(9, 13), -1, -1, 13, 14]
    node = Node("UNIDIRECTIONAL_SEQUENCE_LSTM", inputs, [15], [(0, "b", 4)])
    return tflite_bytes(tensors, [node], [0], [15])


def test_an_lstm_of_real_numbers_goes_on_where_the_frame_before_ended():
    frames = np.random.default_rng(1).standard_normal((6, 4)).astype(np.float32)
    whole = parse_tflite(lstm_file(6, keeps=False), "whole.tflite", with_weights=True)
    (expected,) = run_layer_by_layer(whole, {"x": frames}).values()
    model = parse_tflite(lstm_file(2, keeps=True), "parts.tflite", with_weights=True)
    states = first_states(model)
    outputs = [
        next(iter(run_layer_by_layer(model, {"x": frames[at : at + 2]}, states).values()))
        for at in (0, 2, 4)
    ]
    np.testing.assert_allclose(np.concatenate(outputs), expected, atol=1e-6)


def golden_runs(name, most):
    golden = np.load(FOLDER / f"{name}.npz")
    for run in ("random", "walk", "speech"):
        if f"x_{run}" in golden:
            yield golden[f"x_{run}"][:most], golden[f"y_{run}"][:most]


def require_golden(name, most=None):
    model = read_model(FOLDER / f"{name}.tflite", with_weights=True)
    for inputs, outputs in golden_runs(name, most):
        states = first_states(model)
        for given, wanted in zip(inputs, outputs, strict=True):
            found = as_in_file(run_layer_by_layer(model, as_frame(model, given), states))
            assert found.tolist() == wanted.reshape(-1).tolist()


@each("name", NAMES)
def test_invocations_give_the_outputs_of_tflite_micro(name):
    require_golden(name, FEW)


@pytest.mark.slow
@each("name", NAMES)
def test_many_invocations_give_the_outputs_of_tflite_micro(name):
    require_golden(name, MANY)


@each("name", NAMES)
def test_no_more_stays_than_a_window_needs(name):
    # The table of the page: counted by hand, and run in these bytes by another program.
    network = read_model(FOLDER / f"{name}.tflite").network
    wanted = json.loads((FOLDER / "models.json").read_text())[name]["kept"]
    assert network.kept_bytes() == wanted


@each("name", ["mww_v2x_okay_computer"])
def test_kept_rows_are_initial_tokens(name):
    network = read_model(FOLDER / f"{name}.tflite").network
    graph = lower(network)
    held = sum(
        one.initial_tokens * one.token_size
        for one in graph.channels
        if not one.name.endswith(" state")
    )
    assert held == network.kept_bytes()
    assert set(repetition_vector(graph).values()) == {1}  # a hop is an iteration


@each("name", ["mww_v2x_okay_computer"])
def test_windows_of_different_heights_have_rings_of_their_own(name):
    network = read_model(FOLDER / f"{name}.tflite").network
    heights = {network.layer(one.previous).shape.rows for one in rings_of(network).values()}
    # kernels of 5, 7 and 11, 9 and 15, 23 rows: one less stays of each; 2 of 5 where 3 rows are new
    assert heights == {2, 4, 6, 10, 8, 14, 22}


def test_a_part_has_the_assignments_of_all_variables_it_depends_on():
    # y reads a variable that is assigned from a second variable, which the input is assigned to.
    steps = (
        ("VAR_HANDLE", (), (0,)),
        ("VAR_HANDLE", (), (1,)),
        ("READ_VARIABLE", (0,), (2,)),
        ("READ_VARIABLE", (1,), (3,)),
        ("ASSIGN_VARIABLE", (0, 3), ()),
        ("ASSIGN_VARIABLE", (1, 4), ()),
        ("ABS", (4,), (5,)),
    )
    nodes = tuple(
        TfliteNode(number=number, kind=kind, inputs=inputs, outputs=outputs, options=None)
        for number, (kind, inputs, outputs) in enumerate(steps)
    )
    tensors = tuple(SimpleNamespace(name=name) for name in ("a", "b", "y", "z", "x", "other"))
    graph = TfliteGraph(
        tensors=tensors, nodes=nodes, inputs=(4,), outputs=(2, 5), handles={0: "a", 1: "b"}
    )
    part = part_of(graph, [], ["y"])
    assert part.nodes == nodes[:-1]
    assert (part.inputs, part.outputs) == ((4,), (2,))

"""Recurrent layers of ONNX whose states come in and go out, frame after frame, beside ONNX itself."""

import numpy as np
import pytest
from onnx import helper
from onnx.reference import ReferenceEvaluator

from cnn2csdf.execution.layer_by_layer import first_states, run_layer_by_layer
from cnn2csdf.readers.model_files import read_model
from cnn2csdf.rings import with_states
from csdf.cli.main import main
from tests.cnn2csdf.onnx_models import graph_model, numbers, saved

UNITS, ELEMENTS, FRAMES = 4, 3, 6
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}


def detector(kind):
    """A recurrent layer, its states as inputs and outputs, and a probability."""
    states = ["h", "c"] if kind == "LSTM" else ["h"]
    rows = GATES[kind] * UNITS
    nodes = [
        helper.make_node(
            kind,
            ["x", "w", "r", "b", "", *states],
            ["", *(f"{name}n" for name in states)],
            hidden_size=UNITS,
        ),
        helper.make_node("Squeeze", ["hn", "axes"], ["last"]),
        helper.make_node("Gemm", ["last", "m"], ["sum"], transB=1),
        helper.make_node("Sigmoid", ["sum"], ["y"]),
    ]
    return graph_model(
        nodes,
        inputs={"x": (1, 1, ELEMENTS), **dict.fromkeys(states, (1, 1, UNITS))},
        outputs=("y", *(f"{name}n" for name in states)),
        constants={
            "w": numbers((1, rows, ELEMENTS), 1),
            "r": numbers((1, rows, UNITS), 2),
            "b": numbers((1, 2 * rows), 3),
            "m": numbers((1, UNITS), 4),
            "axes": np.array([0]),
        },
    )


@pytest.mark.parametrize("kind", GATES)
def test_states_are_those_of_the_frame_before(kind, tmp_path):
    path = saved(detector(kind), tmp_path)
    names = ("h", "c") if kind == "LSTM" else ("h",)
    pairs = {name: f"{name}n" for name in names}
    model = with_states(read_model(path, with_weights=True), pairs)
    states, runtime = first_states(model), ReferenceEvaluator(path)
    theirs = {name: np.zeros((1, 1, UNITS), np.float32) for name in names}
    (layer,) = model.network.inputs
    for number in range(FRAMES):
        frame = numbers((1, 1, ELEMENTS), 10 + number)
        wanted, *after = runtime.run(None, {"x": frame, **theirs})
        theirs = dict(zip(names, after, strict=True))
        found = run_layer_by_layer(model, {"x": frame.reshape(layer.shape.dims)}, states)
        assert found["y output"].reshape(-1) == pytest.approx(wanted.reshape(-1), abs=1e-6)


def test_the_command_pairs_inputs_with_outputs(tmp_path, capsys):
    path = saved(detector("GRU"), tmp_path)
    assert main(["fit", path, "--state", "h=hn", "--json"]) == 0
    # 4 units of 4 bytes stay.
    assert '"kept_bytes": 16' in capsys.readouterr().out
    assert main(["fit", path, "--state", "h=y"]) == 2
    assert "expected the same shape and type" in capsys.readouterr().err

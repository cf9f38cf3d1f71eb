"""Selections and fronts as JSON values, rows and tables."""

import json

from planners.primitives.selection.problem import Objective, selection_problem
from planners.primitives.selection.trade_off import trade_off
from tests.planners.primitives.selection.synthetic import network_of, profile_of


def front_of(name):
    network = network_of(name)
    return trade_off(selection_problem(network, profile_of(network)), Objective.NETWORK)


def test_a_front_is_rows_of_growing_memory_and_shrinking_time():
    front = front_of("squeezenet1_0")
    rows = front.to_records()
    assert len(rows) == len(front.pairs) > 1
    assert rows == json.loads(json.dumps(front.to_json()))
    assert [row["memory_bytes"] for row in rows] == sorted({row["memory_bytes"] for row in rows})
    assert rows[-1]["nanoseconds"] == front.fastest.nanoseconds
    assert "<svg" in front._repr_html_()


def test_a_selection_states_its_totals():
    front = front_of("squeezenet1_0")
    selection = front.selection(front.fastest)
    found = json.loads(json.dumps(selection.to_json()))
    assert [row["layer"] for row in found["layers"]] == list(selection.problem.layers)
    parts = (*found["layers"], *found["transformations"])
    assert sum(part["nanoseconds"] for part in parts) == found["nanoseconds"]
    # The sum over the network: workspaces, weights, and maps in a second layout.
    assert found["memory_bytes"] == (
        found["workspace_bytes"] + found["weight_bytes"] + found["transformed_tensor_bytes"]
    )
    workspace = selection.to_json(Objective.WORKSPACE)["memory_bytes"]
    assert workspace == found["largest_workspace_bytes"]
    assert selection.problem.layers[1] in selection._repr_html_()

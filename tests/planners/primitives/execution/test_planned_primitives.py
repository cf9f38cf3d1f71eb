"""Selections of primitives in the form of all plans: checked, and run in the planned bytes."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cnn2csdf.execution.layer_by_layer import run_layer_by_layer
from csdf.errors import ExecutionError, InvalidPlan
from planners.memory.plan_runs import run_plan
from planners.plan.carried_out import require_carried_out
from planners.plan.executor import PlanMachine
from planners.plan.plan import Kind
from planners.plan.text import format_plans, parse_plans
from planners.primitives import planned as planned_module
from planners.primitives.library.layers import layer_variants, prepared_layer
from planners.primitives.library.winograd import ROUNDING
from planners.primitives.planned import planned_primitives, run_planned
from planners.primitives.profile import Variant
from planners.primitives.profiling import random_frame
from tests.planners.primitives.execution.test_selected_networks import SMALL, plain
from tests.planners.primitives.outputs import largest_difference

FRAME = random_frame(SMALL.network, 2)


def planned(ways):
    """The plan of a selection, with the workspaces that the primitives declare."""
    network = SMALL.network
    workspaces = {
        layer.name: prepared_layer(SMALL, layer, ways[layer.name]).workspace_bytes
        for layer in network.layers
    }
    return planned_primitives(network, ways, workspaces)


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_any_selection_runs_in_the_bytes_of_its_plan(data):
    network = SMALL.network
    ways = {
        layer.name: data.draw(st.sampled_from(layer_variants(network, layer)))
        for layer in network.layers
    }
    plan = planned(ways)
    assert parse_plans(format_plans([plan]), "plan.json") == (plan,)
    expected = run_layer_by_layer(SMALL, FRAME)
    assert largest_difference(run_planned(SMALL, plan, FRAME), expected) < ROUNDING
    assert largest_difference(run_plan(SMALL, plan, FRAME).outputs, expected) < ROUNDING
    machine = PlanMachine(network, plan)
    machine.run()
    assert machine.arena.written_end == plan.arena_bytes


def lowered():
    """All convolutions as products of lowered matrices where they can be, in one layout."""
    ways = plain(SMALL.network)
    for layer in SMALL.network.layers:
        if ("im2col", "CHW", "CHW") in layer_variants(SMALL.network, layer):
            ways[layer.name] = Variant("im2col", "CHW", "CHW")
    return ways


def changed(plan, name, **values):
    assert name in [one.name for one in plan.buffers]
    return replace(
        plan,
        buffers=tuple(replace(one, **values) if one.name == name else one for one in plan.buffers),
    )


def test_the_workspace_of_a_layer_is_its_own():
    plan = planned(lowered())
    assert any(one.kind is Kind.SCRATCH for one in plan.buffers)
    scratch = next(one for one in plan.buffers if one.name == "workspace of branch3")
    with pytest.raises(InvalidPlan, match="of 'first'"):
        require_carried_out(SMALL.network, changed(plan, "map of first", offset=scratch.offset))


def test_a_workspace_smaller_than_its_primitive_needs_is_refused():
    plan = planned(lowered())
    wrong = changed(plan, "workspace of branch3", size=64)
    require_carried_out(SMALL.network, wrong)  # nobody else has the bytes
    with pytest.raises(InvalidPlan, match="has a workspace of 64 bytes; 'im2col' needs"):
        run_planned(SMALL, wrong, FRAME)


def test_a_map_in_two_buffers_is_refused_by_primitives():
    """A primitive writes one buffer; the copy for one reader would stay poisoned."""
    plan = planned(plain(SMALL.network))
    first = next(buffer for buffer in plan.buffers if buffer.name == "map of first")
    copy = replace(first, name="copy", offset=plan.arena_bytes, readers=("branch3",))
    arena_bytes = plan.arena_bytes + first.size
    two = replace(plan, buffers=(*plan.buffers, copy), arena_bytes=arena_bytes)
    require_carried_out(SMALL.network, two)
    with pytest.raises(
        InvalidPlan, match=r"'first' writes 2 buffers \(whole, whole\); expected one"
    ):
        run_planned(SMALL, two, FRAME)


def test_a_map_in_another_layout_than_its_reader_wants_is_refused():
    plan = planned(lowered())
    with pytest.raises(InvalidPlan, match="but buffer 'map of first' has it in HWC"):
        require_carried_out(SMALL.network, changed(plan, "map of first", layout="HWC"))
    ways = lowered() | {"pooled": Variant("layer", "HWC", "HWC")}
    turned = planned(ways)
    number = next(n for n, one in enumerate(turned.groups) if one.stages[0].result == "pooled")
    groups = list(turned.groups)
    groups[number] = replace(groups[number], transfers=())
    with pytest.raises(InvalidPlan, match="but does not take it over"):
        require_carried_out(SMALL.network, replace(turned, groups=tuple(groups)))


def test_a_transfer_to_no_buffer_is_named_by_the_executor():
    turned = planned(lowered() | {"pooled": Variant("layer", "HWC", "HWC")})
    groups = [
        replace(group, transfers=tuple(replace(copy, target="nowhere") for copy in group.transfers))
        for group in turned.groups
    ]
    number = next(n for n, group in enumerate(groups, 1) if group.transfers)
    with pytest.raises(ExecutionError, match=f"group {number} copies from '.*' to 'nowhere'"):
        PlanMachine(SMALL.network, replace(turned, groups=tuple(groups))).run()


def test_a_primitive_that_writes_beyond_its_bytes_is_found_out(monkeypatch):
    plan = planned(plain(SMALL.network))

    def greedy(model, layer, way):
        found = prepared_layer(model, layer, way)

        def run(inputs, workspace, output):
            found.run(inputs, workspace, output)
            if layer.name == "branch3":
                inputs[0].reshape(-1)[:1] = np.float32(3)

        return found._replace(run=run)

    monkeypatch.setattr(planned_module, "prepared_layer", greedy)
    with pytest.raises(ExecutionError, match="layer 'branch3' writes to byte"):
        run_planned(SMALL, plan, FRAME)

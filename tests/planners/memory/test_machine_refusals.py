"""Plans with a fault: the machine refuses each of them, without computing anything."""

from dataclasses import replace
from itertools import combinations

import pytest

from cnn2csdf.catalogue.networks import from_catalogue
from cnn2csdf.simplify import simplified
from cnn2csdf.weights import Model
from csdf.errors import ExecutionError
from planners.memory.fit import fit
from planners.plan.executor import PlanMachine
from planners.plan.plan import Kind, StreamBuffer
from tests.planners.memory.test_stateful import changing_places, paired


@pytest.fixture(scope="module")
def network():
    return simplified(Model(network=from_catalogue("resnet8:resolution=16"))).network


@pytest.fixture(scope="module")
def plan(network):
    """Strips and lines, with a pool."""
    found = fit(network, input="rows")
    return next(way.plan for way in found.methods if way.name == "line buffers + strips")


def test_the_plan_itself_passes(network, plan):
    PlanMachine(network, plan).run()


def _with(plan, kind, **changes):
    """The plan with its largest buffer of a kind changed."""
    largest = max((one for one in plan.buffers if one.kind is kind), key=lambda one: one.size)
    changed = {name: change(largest) for name, change in changes.items()}
    buffers = tuple(replace(one, **changed) if one is largest else one for one in plan.buffers)
    return replace(plan, buffers=buffers)


def test_a_line_that_is_a_row_short_is_refused(network, plan):
    short = _with(plan, Kind.LINE, rows=lambda one: one.rows - 1)
    with pytest.raises(ExecutionError):
        PlanMachine(network, short).run()


def test_a_pool_that_is_a_byte_short_is_refused(network, plan):
    short = _with(plan, Kind.STAGING, size=lambda one: one.size - 1)
    with pytest.raises(ExecutionError):
        PlanMachine(network, short).run()


def test_a_line_that_lies_over_another_is_refused(network, plan):
    lines = [one for one in plan.buffers if one.kind is Kind.LINE and one.size]
    first, second = next(pair for pair in combinations(lines, 2) if pair[0].begin == pair[1].begin)
    over = replace(first, offset=second.offset)
    buffers = tuple(over if one is first else one for one in plan.buffers)
    with pytest.raises(ExecutionError):
        PlanMachine(network, replace(plan, buffers=buffers)).run()


def test_a_tensor_of_the_arena_behind_its_end_is_refused(network):
    found = fit(network, input="external", output="external").least.plan
    line = next(one for one in found.buffers if one.kind is Kind.LINE and one.size)
    outside = next(one for one in found.buffers if one.kind is Kind.EXTERNAL)
    behind = replace(line, offset=outside.offset)
    buffers = tuple(behind if one is line else one for one in found.buffers)
    PlanMachine(network, found).run()
    with pytest.raises(ExecutionError, match="leave the arena"):
        PlanMachine(network, replace(found, buffers=buffers)).run()


def test_an_arena_that_is_a_byte_short_is_refused(network, plan):
    with pytest.raises(ExecutionError):
        PlanMachine(network, replace(plan, arena_bytes=plan.arena_bytes - 1)).run()


def test_a_copy_of_a_state_that_no_layer_has_is_refused_by_name(network, plan):
    last = len(plan.groups) - 1
    name = plan.groups[last].stages[0].result
    copy = StreamBuffer.of_group(Kind.STATE_COPY, name, last, size=1)
    with pytest.raises(ExecutionError, match=f"no buffer for the state of '{name}'"):
        PlanMachine(network, replace(plan, buffers=(*plan.buffers, copy))).run()


def test_a_variable_updated_from_a_tensor_in_lines_is_refused():
    network = paired("changing places", changing_places).network
    plan = fit(network, element_bytes=4).best.plan
    in_lines = tuple(
        replace(one, kind=Kind.LINE) if one.name == "elementwise 2" else one for one in plan.buffers
    )
    with pytest.raises(ExecutionError, match="does not lie whole"):
        PlanMachine(network, replace(plan, buffers=in_lines)).run()

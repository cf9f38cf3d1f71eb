"""When a plan uses its buffers: found by carrying it out, against what the arena planned."""

from itertools import starmap

import pytest

from cnn2csdf import operators as op
from cnn2csdf.builder import NetworkBuilder
from cnn2csdf.catalogue.networks import from_catalogue
from cnn2csdf.granularity import ROWS
from cnn2csdf.simplify import simplified
from cnn2csdf.weights import Model
from planners.arena.command.picture import DrawnBuffer
from planners.memory.command.lifetimes import firings_and_lives
from planners.memory.fit import fit
from planners.memory.plain_plans import whole_arena
from planners.plan.executor import PlanMachine
from tests.planners.memory.plain import ordered_plan, rows_plan, whole_plan


@pytest.fixture(scope="module")
def network():
    return simplified(Model(network=from_catalogue("resnet8:resolution=16"))).network


def lives(network, plan):
    return list(starmap(DrawnBuffer, firings_and_lives(network, plan)[1]))


def test_buffers_of_whole_layers_live_as_long_as_the_arena_planned(network):
    arena = whole_arena(network)
    found = {one.name: one for one in lives(network, whole_plan(network))}
    # The arena counts steps from the input on; the first layer is its step 1, and firing 0.
    for buffer in arena.problem.buffers:
        life = found[buffer.name]
        assert (life.offset, life.size) == (arena.offsets[buffer.name], buffer.size)
        assert max(buffer.start - 1, 0) == life.start
        assert life.end <= buffer.end - 1


def test_ring_buffers_that_share_bytes_live_at_different_times(network):
    found = lives(network, ordered_plan(network, ROWS))
    for place, one in enumerate(found):
        for other in found[place + 1 :]:
            share = one.offset < other.offset + other.size and other.offset < one.offset + one.size
            assert not (share and one.start < other.end and other.start < one.end)


def test_firings_are_those_that_the_executor_carries_out(network):
    for plan in (ordered_plan(network, ROWS), rows_plan(network), whole_plan(network)):
        machine = PlanMachine(network, plan)
        machine.run()
        order, _ = firings_and_lives(network, plan)
        assert len(order) == machine.firings


def test_an_output_in_the_middle_of_a_network_stays_until_the_frame_ends():
    builder = NetworkBuilder("middle")
    first = builder.add(op.FullyConnected(units=11), builder.input((4,)))
    builder.output(builder.add(op.FullyConnected(units=7), first, name="early"))
    builder.output(builder.add(op.FullyConnected(units=5), first, name="late"))
    plan = fit(builder.network(), element_bytes=1, searched=()).methods[0].plan
    ends = {one.name: (one.offset, one.offset + one.size) for one in plan.buffers if one.size}
    early, late = ends["early"], ends["late"]
    assert early[1] <= late[0] or late[1] <= early[0]
    assert plan.arena_bytes == 11 + 7 + 5  # what is read for the late one, and both outputs

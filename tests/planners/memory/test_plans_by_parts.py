"""Arenas of whole layers and by parts as plans: checked, run, spoiled."""

from dataclasses import replace
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cnn2csdf import operators as op
from cnn2csdf.builder import NetworkBuilder
from cnn2csdf.catalogue.networks import from_catalogue
from cnn2csdf.execution.layer_by_layer import run_layer_by_layer
from cnn2csdf.granularity import ROWS, Granularity
from cnn2csdf.simplify import simplified
from cnn2csdf.weights import Model
from csdf.errors import InvalidPlan
from planners.memory.plain_plans import whole_arena
from planners.plan.carried_out import require_carried_out
from planners.plan.executor import PlanMachine
from planners.plan.firing import turns_of
from planners.plan.plan import Kind, Turns
from planners.plan.text import format_plans, parse_plans
from tests.cnn2csdf.execution.random_networks import models
from tests.planners.memory.plain import ordered_plan, whole_plan
from tests.planners.memory.streamed import outputs, random_frame


def works(network):
    """Whether there is a layer between input and output."""
    ends = {layer.name for layer in (*network.inputs, *network.outputs)}
    return any(layer.name not in ends for layer in network.layers)


def touched(network, plan):
    machine = PlanMachine(network, plan)
    machine.run()
    return machine.arena.written_end


def require_equal(model, plan, seed):
    frame = random_frame(model.network, seed)
    expected = run_layer_by_layer(model, frame)
    for name, found in outputs(model, plan, frame).items():
        np.testing.assert_allclose(found, expected[name], rtol=1e-4, atol=1e-4)


@settings(max_examples=25)
@given(
    model=models(),
    seed=st.integers(0, 2**32),
    rows=st.integers(1, 4),
    bytes_=st.sampled_from([4, None]),
)
def test_any_network_by_parts_runs_in_its_arena_as_the_whole(model, seed, rows, bytes_):
    if not works(model.network):
        return
    plan = ordered_plan(model.network, Granularity(rows=rows), element_bytes=bytes_)
    assert parse_plans(format_plans([plan]), "plan.json") == (plan,)
    require_carried_out(model.network, plan)
    require_equal(model, plan, seed)
    reads_once = all(len(set(one.inputs)) == len(one.inputs) for one in model.network.layers)
    if reads_once:  # else it reads the largest of its rings alone
        assert touched(model.network, plan) == plan.arena_bytes


@settings(max_examples=20)
@given(model=models(), seed=st.integers(0, 2**32))
def test_any_network_of_whole_layers_runs_in_its_arena_as_the_whole(model, seed):
    if not works(model.network):
        return
    plan = whole_plan(model.network)
    assert plan.arena_bytes == whole_arena(model.network).peak
    require_carried_out(model.network, plan)
    require_equal(model, plan, seed)
    assert touched(model.network, plan) == plan.arena_bytes


@pytest.fixture(scope="module")
def network():
    return simplified(Model(network=from_catalogue("resnet8:resolution=16"))).network


@pytest.fixture(scope="module")
def plan(network):
    return ordered_plan(network, ROWS)


def with_order(plan, results):
    (group,) = plan.groups
    return replace(plan, groups=(replace(group, order=turns_of(results)),))


def order_of(plan):
    return list(plan.groups[0].firings)


def with_ring(plan, change, *, among=lambda one: True):
    """The plan with the largest of some rings changed."""
    rings = [one for one in plan.buffers if one.kind is Kind.RING and among(one)]
    largest = max(rings, key=lambda one: one.size)
    return replace(
        plan,
        buffers=tuple(
            replace(one, **change(one)) if one is largest else one for one in plan.buffers
        ),
    )


def a_row_less(ring):
    return {"rows": ring.rows - 1, "size": ring.size // ring.rows * (ring.rows - 1)}


def test_turns_repeat_what_was_there():
    source = Random(7)
    for _ in range(300):
        pieces = [[source.choice("abc") for _ in range(source.randint(1, 6))] for _ in range(4)]
        results = [one for piece in pieces for one in piece * source.randint(1, 5)]
        turns = turns_of(results)
        assert [name for turn in turns for name in turn.times * turn.results] == results
        assert sum(one.firings for one in turns) == len(results)
    # 5 and then 20 times the same, and what is left over.
    assert turns_of(list("aaaaa" + "bc" * 20 + "d")) == (
        Turns(times=5, results=("a",)),
        Turns(times=20, results=("b", "c")),
        Turns(times=1, results=("d",)),
    )


def test_a_plan_whose_firings_are_late_is_refused(network, plan):
    results = order_of(plan)
    with pytest.raises(InvalidPlan, match="is to be made before"):
        require_carried_out(network, with_order(plan, results[::-1]))
    ahead = sorted(results, key=lambda name: name != plan.groups[0].streamed_input)
    with pytest.raises(InvalidPlan, match="do not hold"):  # all rows come before any is read
        require_carried_out(network, with_order(plan, ahead))


def test_a_plan_with_a_firing_more_or_less_is_refused(network, plan):
    results = order_of(plan)
    for wrong in (results[1:], [*results, results[-1]], [*results, "no stage"]):
        with pytest.raises(InvalidPlan, match="it is made in"):
            require_carried_out(network, with_order(plan, wrong))


def test_a_ring_that_is_a_row_short_is_refused(network, plan):
    for ring in plan.buffers:
        if ring.kind is Kind.RING and ring.rows > 1:
            short = with_ring(plan, a_row_less, among=lambda one, ring=ring: one is ring)
            with pytest.raises(InvalidPlan):
                require_carried_out(network, short)


def test_a_ring_that_lies_over_what_its_layer_reads_is_refused(network, plan):
    places = {one.tensor: one.offset for one in plan.buffers if one.kind is Kind.RING}
    for ring in plan.buffers:
        for source in network.layer(ring.tensor).inputs if ring.kind is Kind.RING else ():
            over = with_ring(
                plan,
                lambda one, source=source: {"offset": places[source]},
                among=lambda one, ring=ring: one is ring,
            )
            with pytest.raises(InvalidPlan, match=r"cannot be carried out|leaves the arena"):
                require_carried_out(network, over)


def test_a_ring_for_a_layer_that_does_not_read_it_is_refused(network, plan):
    wrong = with_ring(plan, lambda _: {"readers": ("softmax",)})
    with pytest.raises(InvalidPlan, match="does not read"):
        require_carried_out(network, wrong)


def test_a_tensor_in_several_rings_is_read_where_the_plan_says():
    builder = NetworkBuilder("skip")
    tall = op.Window(kernel=(5, 1), padding=(2, 0, 2, 0))
    source = builder.add(op.Activation(function="relu"), builder.input((4, 12, 6)))
    wide = builder.add(op.Convolution(filters=4, window=tall), source)
    builder.output(builder.add(op.Elementwise(function="add"), source, wide))
    network = builder.network()
    plan = ordered_plan(network, Granularity(rows=1, layers={source: 1}))
    require_carried_out(network, plan)
    several = [one for one in plan.buffers if one.readers]
    assert [one.tensor for one in several] == [source, source]
    swapped = {several[0].name: several[1].readers, several[1].name: several[0].readers}
    wrong = replace(
        plan,
        buffers=tuple(
            replace(one, readers=swapped.get(one.name, one.readers)) for one in plan.buffers
        ),
    )
    with pytest.raises(InvalidPlan, match="do not hold"):
        require_carried_out(network, wrong)


@pytest.mark.parametrize(
    ("name", "stays"), [("resnet8:resolution=16", True), ("yolo_v2_beginning:resolution=64", False)]
)
def test_results_that_are_maps_go_out_row_by_row_and_others_stay(name, stays):
    network = simplified(Model(network=from_catalogue(name))).network
    plan = ordered_plan(network, ROWS)
    kinds = [one.kind for one in plan.buffers]
    assert (Kind.WHOLE in kinds, Kind.EXTERNAL in kinds) == (stays, not stays)
    require_carried_out(network, plan)

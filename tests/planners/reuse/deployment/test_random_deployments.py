"""Random applications, planned, executed in their arena, and compared with each network alone."""

from dataclasses import replace
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from cnn2csdf import operators as op
from cnn2csdf.builder import NetworkBuilder
from planners.plan.executor import PlanMachine
from planners.plan.text import format_plans, parse_plans
from planners.reuse.application import Application
from planners.reuse.evaluation import Evaluator
from tests.cnn2csdf.execution.random_networks import models
from tests.planners.reuse.deployment.deployed import (
    TOLERANCE,
    as_published,
    by_offsets,
    checked,
    run,
)
from tests.planners.reuse.front.small_applications import divided

ALLELES = (None, 1, 2, 3)


@st.composite
def members(draw, name):
    """A network in up to three partitions, with its weights; its inputs or outputs may be outside."""
    model = draw(models(layers=4))
    network, weights = replace(model.network, name=name), model.weights
    ends = draw(st.sampled_from([(), network.inputs, network.outputs]))
    outside = frozenset(layer.name for layer in ends)
    count = len(network.layers) - len(outside)
    cuts = draw(st.sets(st.integers(1, max(count - 1, 1)), max_size=2))
    places = sorted({0, count} | {cut for cut in cuts if cut < count})
    sizes = [end - begin for begin, end in pairwise(places)]
    return divided(network, sizes, outside), weights


@st.composite
def applications(draw):
    """Draw one to three networks, and which of their partitions are pipelined, or run in parallel."""
    drawn = [draw(members(f"net {number}")) for number in range(draw(st.integers(1, 3)))]
    chosen = [one for one, _ in drawn]
    names = [[partition.name for partition in one.partitions] for one in chosen]
    if draw(st.booleans()):
        parallel = [frozenset(name for some in names[:2] for name in some)]
    else:
        begins = [draw(st.integers(0, len(some))) for some in names]
        parallel = [
            frozenset(some[begin:])
            for some, begin in zip(names, begins, strict=True)
            if some[begin:]
        ]
    application = Application(name="drawn", members=tuple(chosen), parallel=tuple(parallel))
    weights = {member.name: own for member, own in drawn}
    genes = tuple(draw(st.sampled_from(ALLELES)) for _ in application.layers)
    return application, weights, genes


def touched(network, plan):
    """The end of the bytes that a frame writes."""
    machine = PlanMachine(network, plan)
    machine.run()
    return machine.arena.written_end


@settings(max_examples=30, deadline=None)
@given(drawn=applications(), data=st.data())
def test_outputs_are_those_of_each_network_alone_in_the_planned_bytes(drawn, data):
    application, weights, genes = drawn
    make = data.draw(st.sampled_from([as_published, by_offsets]))
    plan = make(Evaluator(application), genes)
    plans = checked(application, plan)
    assert run(application, plan, weights=weights) < TOLERANCE
    for member, one in zip(application.members, plans, strict=True):
        names = [layer.inputs for layer in member.network.layers]
        reads_once = all(len(set(inputs)) == len(inputs) for inputs in names)
        assert touched(member.network, one) <= one.arena_bytes
        if reads_once:  # else the smaller of two buffers for the same rows is left out
            assert touched(member.network, one) == one.arena_bytes
    assert max((one.arena_bytes for one in plans), default=0) == plan.memory.peak
    assert parse_plans(format_plans(plans), "plan.json") == plans


@settings(max_examples=25, deadline=None)
@given(
    genes=st.lists(st.sampled_from(ALLELES), min_size=7, max_size=7),
    cut=st.integers(1, 7),
    is_pipelined=st.booleans(),
    make=st.sampled_from([as_published, by_offsets]),
)
def test_several_inputs_come_when_their_turn_is(genes, cut, is_pipelined, make):
    builder = NetworkBuilder("two cameras")
    window = op.Window(kernel=(3, 3), padding=(1, 1, 1, 1))
    left, right = builder.input((2, 9, 8)), builder.input((3, 18, 16))
    half = builder.add(op.Convolution(filters=2, window=replace(window, stride=(2, 2))), right)
    both = builder.add(op.Elementwise(function="add"), left, half)
    last = builder.add(op.Convolution(filters=3, window=window), both)
    builder.output(both)
    builder.output(last)
    network = builder.network()
    member = divided(network, (cut, 7 - cut) if cut < 7 else (7,))
    names = frozenset(one.name for one in member.partitions)
    application = Application(
        name="drawn", members=(member,), parallel=(names,) if is_pipelined else ()
    )
    plan = make(Evaluator(application), tuple(genes))
    (one,) = checked(application, plan)
    assert run(application, plan) < TOLERANCE
    assert touched(network, one) == one.arena_bytes == plan.memory.peak

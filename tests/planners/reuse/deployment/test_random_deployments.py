"""Random applications, planned, executed in their arena, and compared with each network alone."""

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planners.reuse.application.application import Application, divided
from planners.reuse.cost.evaluation import Evaluator
from tests.cnn2csdf.execution.random_networks import models
from tests.planners.reuse.deployment.deployed import TOLERANCE, as_published, by_offsets, run

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


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(drawn=applications(), frames_a_turn=st.integers(1, 3), data=st.data())
def test_outputs_are_those_of_each_network_alone(drawn, frames_a_turn, data):
    application, weights, genes = drawn
    make = data.draw(st.sampled_from([as_published, by_offsets]))
    plan = make(Evaluator(application), genes)
    found = run(application, plan, weights=weights, frames_a_turn=frames_a_turn)
    assert found < TOLERANCE

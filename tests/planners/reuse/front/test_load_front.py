"""The front of loads against enumeration of all chromosomes."""

import pytest

from csdf.errors import GaveUp
from csdf.time_limit import Stop
from figures.published.reuse_example import worked_example
from planners.published.todaes import as_published
from planners.reuse.evaluation import Costs, Evaluator
from planners.reuse.load_front import load_front
from tests.planners.reuse.front.small_applications import (
    all_genes,
    alone,
    branched,
    front_of,
    pipelined,
    plain,
    residual,
)

APPLICATIONS = {
    "residual": alone(residual()),
    "branched": alone(branched()),
    "pipelined": pipelined(residual(), 3),
    "cut skip": pipelined(residual(), 4),
    "worked example": worked_example(),
    "worked example, published rates": as_published(worked_example()),
}


def load_and_periods(evaluator, genes):
    return (evaluator.plan(genes).live_load, *evaluator.evaluate(genes)[1:])


@pytest.mark.parametrize("name", APPLICATIONS)
def test_no_chromosome_has_a_smaller_load_in_the_same_time(name):
    evaluator = Evaluator(APPLICATIONS[name])
    found = load_front(evaluator)
    expected = front_of(
        load_and_periods(evaluator, genes) for genes in all_genes(APPLICATIONS[name])
    )
    points = sorted(load_and_periods(evaluator, genes) for _, genes in found)
    assert points == expected


@pytest.mark.parametrize("name", APPLICATIONS)
def test_the_loads_of_stretches_are_those_of_the_whole_chromosome(name):
    evaluator = Evaluator(APPLICATIONS[name])
    found = load_front(evaluator)
    assert all(load == evaluator.plan(genes).live_load for load, genes in found)


def test_several_kinds_of_parts_are_exact_too():
    application = alone(plain("plain"))
    evaluator = Evaluator(application)
    found = load_front(evaluator, (1, 3))
    expected = front_of(
        load_and_periods(evaluator, genes) for genes in all_genes(application, (None, 1, 3))
    )
    points = sorted(load_and_periods(evaluator, genes) for _, genes in found)
    assert points == expected


def test_loads_are_true_where_not_all_genes_of_a_segment_are_tried(monkeypatch):
    monkeypatch.setattr("planners.reuse.load_front.MOST_CHOICES", 1)
    evaluator = Evaluator(alone(branched()))
    found = load_front(evaluator)
    assert all(load == evaluator.plan(genes).live_load for load, genes in found)


def test_a_stop_ends_the_front_of_live_bytes():
    def watch(_):
        raise GaveUp("enough")

    with pytest.raises(GaveUp, match="enough"):
        load_front(Evaluator(alone(residual())), budget=Stop(report=watch))


def test_measured_times_decide_where_there_are_some():
    # All layers take one nanosecond, whole or by rows: nothing is lost by the least load.
    application = alone(residual())
    network = application.members[0].network
    times = {layer.name: {1: 1, layer.shape.rows: 1} for layer in network.layers}
    found = load_front(Evaluator(application, Costs(measured={network.name: times})))
    assert len(found) == 1
    assert len(load_front(Evaluator(application))) > 1

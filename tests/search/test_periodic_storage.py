"""Storage and periods of periodic schedules: an error in one direction, proved for what they are."""

from fractions import Fraction
from itertools import product

import pytest

from csdf.analysis.bounded import with_capacities
from csdf.analysis.schedules import periodic_throughput, strictly_periodic_schedule
from csdf.analysis.throughput import throughput
from csdf.errors import CsdfError, GaveUp
from csdf.generation.random_graphs import random_graph
from csdf.generation.shape import GraphShape
from csdf.search.trade_off import pareto_front, smallest_storage
from csdf.search.variables import Choice
from tests.research_data import Named, graph_of, listed
from tests.shared_data import each

SHAPE = GraphShape(actors=2, extra_channels=0, most_phases=2, most_repetitions=3, most_rate=3)
TIGHT = GraphShape(actors=4, extra_channels=3, most_phases=3)
ORACLES = [Named(one, one["graph"]) for one in listed("phases/sizing_oracles.json")]


@each("oracle", ORACLES)
def test_sizes_and_periods_are_those_of_the_oracle(oracle):
    graph = graph_of(oracle["json"])
    assert throughput(graph).period == Fraction(oracle["period"])
    assert periodic_throughput(graph, 1).period == Fraction(oracle["one_periodic_period"])
    for known in oracle["sizes"]:
        found = smallest_storage(graph, Choice(copies=1), period=known["period"])
        assert (found.status, found.point.size) == ("optimal", known["smallest"])


def test_a_few_smallest_sizes_are_those_of_all_distributions():
    assert sum(brute_force_agrees(seed) for seed in range(12)) > 4


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 500, 100))
def test_smallest_sizes_are_those_of_all_distributions(first):
    assert sum(brute_force_agrees(seed) for seed in range(first, first + 100)) > 40


def brute_force_agrees(seed):
    """Whether there was something to compare: the smallest of all capacities up to a bound."""
    graph = random_graph(seed, SHAPE)
    free = strictly_periodic_schedule(graph)
    if free is None:
        return False
    required = free.period * (1 + seed % 2)
    found = smallest_storage(graph, Choice(copies=1), period=required)
    assert found.status == "optimal"
    if found.point.size > 24:
        return False
    names = list(found.point.capacities)
    assert runs(graph, found.point.capacities, required), seed
    starts = [graph.channel(name).initial_tokens for name in names]
    for sizes in product(*(range(start, found.point.size) for start in starts)):
        if sum(sizes) < found.point.size:
            assert not runs(graph, dict(zip(names, sizes, strict=True)), required), (seed, sizes)
    return True


def runs(graph, capacities, required):
    schedule = strictly_periodic_schedule(with_capacities(graph, capacities))
    return schedule is not None and schedule.period <= required


@pytest.mark.parametrize("seed", range(25))
def test_periods_and_sizes_err_in_one_direction(seed):
    graph = random_graph(seed, SHAPE)
    exact = throughput(graph).period
    for copies in (1, 2, 100):
        try:
            found = periodic_throughput(graph, copies)
        except GaveUp:
            assert copies < 3
            continue
        assert found.period >= exact
        assert not found.is_exact or found.period == exact
        front = pareto_front(graph, Choice(copies=copies), points=4)
        for point in front.points:
            truth = smallest_storage(graph, period=point.period).point.size
            assert point.size >= truth
    assert periodic_throughput(graph, 100).period == exact


def test_no_such_schedule_is_no_deadlock():
    # Found among random graphs: it runs, but no schedule repeats every cycle at equal distance.
    graph = next(
        graph
        for seed in range(200)
        if strictly_periodic_schedule(graph := random_graph(seed, TIGHT)) is None
    )
    assert throughput(graph).deadlock is None
    with pytest.raises(GaveUp, match="no schedule repeats 1 cycle"):
        periodic_throughput(graph, 1)
    found = smallest_storage(graph, Choice(copies=1))
    assert found.status == "infeasible"
    assert "deadlock" not in str(found.reason)


def test_no_copies_are_refused():
    graph = random_graph(1, SHAPE)
    with pytest.raises(CsdfError, match="at least 1"):
        Choice(copies=0)
    with pytest.raises(CsdfError, match="at least 1"):
        periodic_throughput(graph, 0)

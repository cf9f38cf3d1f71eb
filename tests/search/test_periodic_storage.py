"""Storage and periods of periodic schedules: an error in one direction, proved for what they are."""

from fractions import Fraction
from itertools import product

import pytest

from csdf.analysis.bound_channels import with_capacities
from csdf.analysis.consistency import repetition_vector
from csdf.analysis.schedule_checker import check_periodic_schedule
from csdf.analysis.schedules import (
    periodic_schedule,
    periodic_throughput,
    strictly_periodic_schedule,
)
from csdf.analysis.throughput import throughput
from csdf.errors import CsdfError, GaveUp
from csdf.generation import GraphShape, random_graph
from csdf.search.trade_off import pareto_front, smallest_storage
from csdf.search.variables import SearchSpace
from csdf.time_limit import Stop
from tests.research_data import Named, graph_of, listed
from tests.shared_data import each

SHAPE = GraphShape(actors=2, extra_channels=0, max_phases=2, max_repetitions=3, max_rate=3)
TIGHT = GraphShape(actors=4, extra_channels=3, max_phases=3)
RUNS_OTHERWISE = GraphShape(actors=6, extra_channels=4, max_repetitions=6)
ORACLES = [Named(one, one["graph"]) for one in listed("phases/sizing_oracles.json")]


@each("oracle", ORACLES)
def test_sizes_and_periods_are_those_of_the_oracle(oracle):
    graph = graph_of(oracle["json"])
    assert throughput(graph).period == Fraction(oracle["period"])
    assert periodic_throughput(graph, 1).period == Fraction(oracle["one_periodic_period"])
    for known in oracle["sizes"]:
        found = smallest_storage(graph, SearchSpace(copies=1), period=known["period"])
        assert (found.status, found.point.size) == ("optimal", known["smallest"])
        # Kiter counts self-loops too, at 2 each, and has a line for each of its answers.
        if known["kiter_ilp"]:
            assert found.point.size == int(known["kiter_ilp"])
        if known["kiter_lp"]:
            assert found.point.size <= int(known["kiter_lp"])


@each("oracle", ORACLES)
def test_sizes_shrink_from_one_cycle_to_several_to_the_self_timed_execution(oracle):
    graph = graph_of(oracle["json"])
    for known in oracle["sizes"]:
        sizes = [
            smallest_storage(graph, choice, period=known["period"]).point.size
            for choice in (
                SearchSpace(copies=1),
                SearchSpace(copies=2),
                SearchSpace(copies=100),
                SearchSpace(),
            )
        ]
        # Schedules that repeat 2 cycles need not contain those that repeat 1 where 2 does not divide
        # the cycles of an iteration; those of whole iterations contain all.
        assert max(sizes) in sizes[:2]
        assert sizes[2] == sizes[3] == min(sizes)


@each("oracle", ORACLES)
def test_a_schedule_of_so_many_cycles_has_the_period_of_its_kind(oracle):
    graph = graph_of(oracle["json"])
    for copies in (1, 2, 100):
        schedule = periodic_schedule(graph, copies=copies)
        assert schedule.period == periodic_throughput(graph, copies).period
        cycles = repetition_vector(graph)
        for actor in graph.actors:
            most = min(copies, cycles[actor.name] // actor.phases) * actor.phases
            assert len(schedule.starts[actor.name]) == most
        check_periodic_schedule(graph, schedule, firings=30)


def test_the_smallest_sizes_agree_with_enumeration():
    assert sum(brute_force_agrees(seed) for seed in range(12)) > 4


def test_the_smallest_sizes_for_two_cycles_agree_with_enumeration():
    assert sum(brute_force_agrees(seed, copies=2) for seed in range(12)) > 4


@pytest.mark.slow
@pytest.mark.parametrize("copies", [1, 2])
@pytest.mark.parametrize("first", range(0, 500, 100))
def test_smallest_sizes_are_those_of_all_distributions(first, copies):
    assert sum(brute_force_agrees(seed, copies) for seed in range(first, first + 100)) > 40


def brute_force_agrees(seed, copies=1):
    """Whether there was something to compare: the smallest of all capacities up to a bound."""
    graph = random_graph(seed, SHAPE)
    free = periodic_schedule(graph, copies=copies)
    if free is None:
        return False
    required = free.period * (1 + seed % 2)
    found = smallest_storage(graph, SearchSpace(copies=copies), period=required)
    assert found.status == "optimal"
    if found.point.size > 24:
        return False
    names = list(found.point.capacities)
    assert runs(graph, copies, found.point.capacities, required), seed
    starts = [graph.channel(name).initial_tokens for name in names]
    for sizes in product(*(range(start, found.point.size) for start in starts)):
        if sum(sizes) < found.point.size:
            assert not runs(graph, copies, dict(zip(names, sizes, strict=True)), required), (
                seed,
                sizes,
            )
    return True


def runs(graph, copies, capacities, required):
    schedule = periodic_schedule(with_capacities(graph, capacities), copies=copies)
    return schedule is not None and schedule.period <= required


@pytest.mark.parametrize("copies", [1, 2])
@pytest.mark.parametrize("seed", [6, 23, 28, 48])
def test_the_smallest_capacities_have_a_schedule_of_so_many_cycles(seed, copies):
    # The smallest live capacities of these graphs have none, at least with one copy.
    graph = random_graph(seed, RUNS_OTHERWISE)
    found = smallest_storage(graph, SearchSpace(copies=copies))
    assert found.status == "optimal"
    assert periodic_schedule(with_capacities(graph, found.point.capacities), copies=copies)
    first = pareto_front(graph, SearchSpace(copies=copies), points=1).points[0]
    assert found.point.size == first.size >= smallest_storage(graph).point.size


@pytest.mark.parametrize("seed", [6, 23, 28, 48])
def test_a_front_that_is_ended_at_once_shows_no_capacities_without_such_a_schedule(seed):
    graph = random_graph(seed, RUNS_OTHERWISE)
    start = pareto_front(graph, SearchSpace(copies=1), budget=Stop(steps=2)).start
    if start is not None:
        schedule = periodic_schedule(with_capacities(graph, start.capacities), copies=1)
        assert schedule.period == start.period


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
        front = pareto_front(graph, SearchSpace(copies=copies), points=4)
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
    found = smallest_storage(graph, SearchSpace(copies=1))
    assert found.status == "infeasible"
    assert "deadlock" not in str(found.reason)


def test_no_copies_are_refused():
    graph = random_graph(1, SHAPE)
    with pytest.raises(CsdfError, match="at least 1"):
        SearchSpace(copies=0)
    with pytest.raises(CsdfError, match="at least 1"):
        periodic_throughput(graph, 0)

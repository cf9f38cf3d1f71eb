from fractions import Fraction
from pathlib import Path

import pytest

from csdf.analysis.bound_channels import with_capacities
from csdf.analysis.throughput import throughput
from csdf.errors import GaveUp
from csdf.generation import GraphShape, random_graph
from csdf.io.graph_files import read_graph
from csdf.model.builder import GraphBuilder
from csdf.search.evaluator import CapacityEvaluator
from csdf.search.least import narrowing
from csdf.search.trade_off import pareto_front, sufficient_capacities
from csdf.search.variables import SearchSpace, prepared
from csdf.time_limit import Stop

EXAMPLE = Path(__file__).parents[2] / "models" / "graphs" / "csdf_example.xml"
SHAPE = GraphShape(actors=4, max_phases=2, max_repetitions=3, max_rate=4)


def test_the_example_is_as_fast_as_without_bounds_from_sixteen_places_on():
    # The last point of its published front is (16, 12); narrowing happens to find it.
    point = sufficient_capacities(read_graph(EXAMPLE))
    assert (point.size, point.period) == (16, 12)


def test_no_single_capacity_can_be_less():
    for seed in range(30):
        graph = random_graph(seed, SHAPE)
        point = sufficient_capacities(graph)
        best = throughput(graph).period
        assert throughput(with_capacities(graph, point.capacities)).period == best
        for name, capacity in point.capacities.items():
            if capacity == graph.channel(name).initial_tokens:
                continue
            less = with_capacities(graph, {**point.capacities, name: capacity - 1})
            assert throughput(less).period != best


def test_narrowing_is_never_below_the_front():
    for seed in range(30):
        graph = random_graph(seed, SHAPE)
        front = pareto_front(graph)
        assert sufficient_capacities(graph).size >= front.points[-1].size


def test_a_period_that_no_capacities_reach_has_none():
    assert sufficient_capacities(read_graph(EXAMPLE), period=Fraction(11)) is None


@pytest.mark.parametrize(("time", "size"), [(0, 4), (1, None)])
def test_a_period_of_zero_needs_cycles_without_time(time, size):
    # Without bounds firings overlap, so the period is 0; a space makes a cycle of both actors.
    graph = GraphBuilder().actor("a", 0).actor("b", time).channel("a", 2, "b", 3).graph()
    assert throughput(graph).period == 0
    point = sufficient_capacities(graph)
    assert (point and (point.size, point.period)) == (size and (size, 0))


def test_without_effort_nothing_is_found():
    graph = read_graph(EXAMPLE)
    _, variables, _ = prepared(graph, SearchSpace())
    evaluator = CapacityEvaluator(graph, variables)
    # The least capacities, 5 and 6, do not reach period 12.
    assert next(narrowing(evaluator, variables, lambda period: period == 12)) is None


def test_a_budget_ends_the_narrowing():
    with pytest.raises(GaveUp, match="2 steps"):
        sufficient_capacities(read_graph(EXAMPLE), budget=Stop(steps=2))

"""Fronts that end where somebody asks for it, and fronts that have no end."""

from dataclasses import replace
from fractions import Fraction

import pytest

from csdf.analysis.bound_channels import without_auto_concurrency
from csdf.analysis.throughput import throughput
from csdf.errors import CsdfError
from csdf.generation import GraphShape, random_graph
from csdf.model.builder import GraphBuilder
from csdf.search.memory_cost import memory_front
from csdf.search.trade_off import pareto_front, smallest_storage
from csdf.search.variables import SearchSpace
from tests.search.front_graphs import known_points

SHAPE = GraphShape(actors=3, extra_channels=0, max_repetitions=5, max_rate=5)


def branched(seed):
    """Return a graph that has distributions of one size with several periods."""
    shape = GraphShape(actors=4, extra_channels=1, max_repetitions=4, max_rate=5)
    return random_graph(seed, shape)


def coarse(depth, _width):
    """Return a cost that many depths share."""
    return -(-depth // 3)


def endless():
    """n places let n tokens pass in 2 time units, so that no size is the last."""
    return GraphBuilder().actor("a", 1).actor("b", 1).channel("a", 1, "b", 1).graph()


def test_a_front_without_end_shows_its_first_points_and_says_why():
    front = pareto_front(endless())
    assert known_points(front) == [(n, Fraction(2, n)) for n in range(1, 21)]
    assert not front.is_complete
    assert not front.is_at_limit
    assert "the front has no end" in str(front.reason)
    assert "2 actors without a self-loop (a, b)" in str(front.reason)


def test_with_one_firing_at_a_time_the_front_ends():
    assert known_points(pareto_front(without_auto_concurrency(endless()))) == [(1, 2), (2, 1)]


def test_a_number_of_points_is_all_that_is_searched():
    front = pareto_front(endless(), points=3)
    assert known_points(front) == [(1, 2), (2, 1), (3, Fraction(2, 3))]
    assert front.is_at_limit


def test_no_point_is_larger_than_asked_for():
    front = pareto_front(endless(), max_size=5)
    assert [size for size, _ in known_points(front)] == [1, 2, 3, 4, 5]
    assert front.is_at_limit


def test_sizes_too_small_to_run_have_no_point():
    front = pareto_front(endless(), max_size=0)
    assert (front.points, front.is_at_limit, front.is_complete) == ((), True, False)


@pytest.mark.parametrize("seed", range(12))
def test_a_part_of_a_front_is_the_part_of_the_whole(seed):
    graph = random_graph(seed, SHAPE)
    whole = known_points(pareto_front(graph))
    assert known_points(pareto_front(graph, points=2)) == whole[:2]
    for size in {whole[0][0], whole[-1][0], (whole[0][0] + whole[-1][0]) // 2}:
        assert known_points(pareto_front(graph, max_size=size)) == [
            one for one in whole if one[0] <= size
        ]


@pytest.mark.parametrize(
    "graph", [*(random_graph(seed, SHAPE) for seed in range(10)), *map(branched, (14, 27, 37))]
)
@pytest.mark.parametrize("gap", ["5%", "1/3"])
def test_a_gap_leaves_points_out_and_lists_none_that_is_not_optimal(graph, gap):
    whole, rough = pareto_front(graph), pareto_front(graph, gap=gap)
    factor = {"5%": Fraction(21, 20), "1/3": Fraction(4, 3)}[gap]
    assert rough.is_complete
    assert rough.gap == factor - 1
    assert len(rough.points) <= len(whole.points)
    assert {*known_points(rough)} <= {*known_points(whole)}
    for size, period in known_points(whole):
        listed = min(one for known, one in known_points(rough) if known <= size)
        assert listed <= factor * period


@pytest.mark.parametrize("seed", [27, 37])
def test_a_gap_lists_only_optimal_points_of_memories_too(seed):
    graph, space = branched(seed), SearchSpace(unit="bits")
    graph = replace(graph, channels=tuple(replace(c, token_size=1) for c in graph.channels))
    whole, rough = (memory_front(graph, space, coarse, gap=gap) for gap in (0, "20%"))
    assert {*known_points(rough)} <= {*known_points(whole)}


@pytest.mark.parametrize(
    ("wanted", "said"),
    [({"points": 0}, "points is 0"), ({"max_size": -1}, "max_size is -1"), ({"gap": "-5%"}, "gap"),
     ({"gap": 0.1}, "write a float as a text"), ({"budget": -1}, "budget is -1")],
)  # fmt: skip
def test_an_extent_that_cannot_be_is_refused(wanted, said):
    with pytest.raises(CsdfError, match=said):
        pareto_front(endless(), **wanted)


def test_a_budget_ends_a_search_with_what_is_known():
    shape = GraphShape(actors=30, extra_channels=30, max_repetitions=12, max_rate=12)
    graph = random_graph(1, shape)
    assert not pareto_front(graph, budget=0.05).is_complete
    best = throughput(graph).period
    found = smallest_storage(graph, period=best, budget=0.0)
    assert found.status in ("feasible", "unknown")

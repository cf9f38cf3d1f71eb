"""Cutting planes: their bounds enclose the minimum by brute force and by best-first search."""

from fractions import Fraction
from math import inf

import pytest

from csdf.analysis.bound_channels import with_capacities
from csdf.analysis.throughput import throughput
from csdf.errors import GaveUp
from csdf.generation import GraphShape, random_graph
from csdf.search import named_search, parted_exploration
from csdf.search.cutting_planes import CuttingPlanes
from csdf.search.searched_graph import SearchedGraph
from csdf.search.trade_off import pareto_front, smallest_storage
from csdf.search.variables import SearchSpace, size_of
from csdf.status import Status
from csdf.time_limit import Stop
from tests.search.front_graphs import (
    SHAPES,
    brute_points,
    drawn,
    front_of,
    known_points,
    largest_size,
)

each_shape = pytest.mark.parametrize("shape", SHAPES)


def planes_of(graph):
    searched = SearchedGraph(graph, SearchSpace())
    evaluator = searched.evaluator()
    planes = CuttingPlanes(evaluator, searched.variables, seconds=lambda: inf, look=lambda: None)
    return searched, planes


@each_shape
def test_the_bounds_enclose_the_minimum_of_brute_force_for_each_period(shape):
    for seed, graph, front in drawn(shape, 3):
        searched, planes = planes_of(graph)
        if not front.points:
            continue
        for size, period in brute_points(graph, front):
            required = Fraction(period)
            *_, last = planes.bounds(
                lambda one, most=required: one is not None and one <= most, None
            )
            assert last.lower_bound <= size <= size_of(searched.variables, last.capacities), seed
            point = searched.point(last.capacities, None)
            bounded = with_capacities(graph, point.capacities)
            assert throughput(bounded).period <= required


@each_shape
def test_fronts_by_cutting_planes_agree_with_brute_force(shape, monkeypatch):
    monkeypatch.setattr(named_search, "PLANES_CHANNELS", 0)
    monkeypatch.setattr(named_search, "PLANES_WORK", 0)
    monkeypatch.setattr(named_search.NamedSearch, "_patience_for_planes", lambda _: 0)
    for seed, graph, front in drawn(shape, 3):
        again = front_of(graph)
        size = min(largest_size(front), largest_size(again))
        points = [point for point in known_points(again) if point[0] <= size]
        assert points == [point for point in brute_points(graph, front) if point[0] <= size], seed
        for point in (one for one in front.points[:4] if one.period):
            smallest = smallest_storage(graph, period=point.period)
            assert (smallest.status, smallest.size) == (Status.OPTIMAL, point.size)


def evaluations(count):
    """A stop after so many evaluations, by their number."""

    def look(progress):
        if (progress.done or 0) >= count:
            raise GaveUp("enough")

    return Stop(report=look)


def test_a_graph_of_60_actors_has_a_first_answer_and_a_gap_without_a_clock():
    graph = random_graph(1, GraphShape(actors=60, extra_channels=30))
    period = throughput(graph).period
    answer = smallest_storage(graph, period=period, budget=evaluations(300))
    assert answer.status in (Status.FEASIBLE, Status.OPTIMAL)
    assert answer.gap < Fraction(1, 10)
    bounded = with_capacities(graph, answer.capacities)
    assert throughput(bounded).period == period
    again = smallest_storage(graph, period=period, budget=evaluations(300))
    assert (again.size, again.lower_bound) == (answer.size, answer.lower_bound)


def test_orbits_join_the_variables_that_generators_take_to_each_other():
    orbits = parted_exploration._orbits(5, [(1, 0, 2, 3, 4), (0, 2, 1, 3, 4)])
    assert orbits[0] == orbits[1] == orbits[2]
    assert len({orbits[2], orbits[3], orbits[4]}) == 3


def test_the_front_of_100_actors_begins_with_a_live_distribution_and_a_close_bound():
    graph = random_graph(1, GraphShape(actors=100, extra_channels=100, max_phases=3))
    front = pareto_front(graph, budget=evaluations(300))
    assert front.start.size <= Fraction(26, 25) * front.lower_bound
    bounded = with_capacities(graph, front.start.capacities)
    assert throughput(bounded).period == front.start.period


def test_a_front_that_is_ended_lists_unproved_points_down_to_the_shortest_period():
    graph = random_graph(1, GraphShape(actors=80, extra_channels=80))
    front = pareto_front(graph, budget=evaluations(150))
    assert front.points == ()
    assert front.unproved[0] == front.start
    assert front.unproved[-1].period == front.best_period
    sizes = [point.size for point in front.unproved]
    assert sizes == sorted({*sizes})
    assert sizes[0] >= front.lower_bound
    for point in front.unproved:
        bounded = with_capacities(graph, point.capacities)
        assert throughput(bounded).period == point.period
    periods = [point.period for point in front.unproved]
    assert periods == sorted({*periods}, reverse=True)

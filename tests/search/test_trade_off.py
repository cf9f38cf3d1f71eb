"""Fronts: complete, exact, and what is left of them when a search is ended."""

from dataclasses import replace
from fractions import Fraction
from random import Random

import pytest

from csdf.analysis.bound_channels import bound_channels, with_capacities
from csdf.analysis.throughput import throughput
from csdf.errors import CsdfError, GaveUp, InvalidGraph
from csdf.generation import random_graph
from csdf.model.builder import GraphBuilder
from csdf.search.searched_graph import useful_growth
from csdf.search.trade_off import pareto_front, smallest_storage
from csdf.search.variables import SearchSpace
from csdf.time_limit import Stop
from tests.reference import brute_front, slow_simulation
from tests.search.front_graphs import (
    SHAPES,
    Limit,
    brute_points,
    count_of_distributions,
    drawn,
    front_of,
    known_points,
    largest_size,
)

each_shape = pytest.mark.parametrize("shape", SHAPES)


def drawn_few(count=6):
    """Some graphs of every shape."""
    return [graph for shape in SHAPES for _, graph, _ in drawn(shape, count)]


def pair(**channel):
    """An actor that makes a token in 1 time unit, one that takes it in 1; one firing at a time."""
    builder = GraphBuilder().actor("a", 1, overlap=False).actor("b", 1, overlap=False)
    return builder.channel("a", 1, "b", 1, name="ab", **channel).graph()


def test_a_second_place_lets_two_actors_work_at_once():
    # With one place they take turns, 1 + 1; with two each works all the time.
    front = pareto_front(pair())
    assert known_points(front) == [(1, 2), (2, 1)]
    assert front.is_complete
    assert front.best_period == 1
    assert [dict(point.capacities) for point in front.points] == [{"ab": 1}, {"ab": 2}]
    assert front.points[0].throughput == Fraction(1, 2)


def test_what_never_runs_has_an_empty_front():
    graph = pair()
    back = replace(graph.channel("ab"), name="ba", producer="b", consumer="a")
    front = pareto_front(replace(graph, channels=(*graph.channels, back)))
    assert (front.points, front.is_complete, front.best_period) == ((), True, None)


def test_a_graph_without_channels_needs_no_storage():
    front = pareto_front(GraphBuilder().actor("a", 3, overlap=False).graph())
    assert known_points(front) == [(0, 3)]
    assert front.is_complete


def test_what_takes_no_time_has_one_point_of_period_0():
    front = pareto_front(GraphBuilder().actor("a", 0).actor("b", 0).channel("a", 2, "b", 1).graph())
    assert known_points(front) == [(2, 0)]
    assert front.points[0].throughput is None
    assert front.is_complete


def test_unlimited_concurrency_has_a_front_without_end():
    # A token's place is in use for 1 + 1 time units: n places let n tokens pass in 2.
    graph = GraphBuilder().actor("a", 1).actor("b", 1).channel("a", 1, "b", 1).graph()
    front = pareto_front(graph, budget=Stop(report=Limit(50)))
    assert not front.is_complete
    assert front.best_period == 0
    assert len(front.points) > 3
    assert known_points(front) == [(n, Fraction(2, n)) for n in range(1, front.lower_bound)]


@pytest.mark.slow
@each_shape
def test_no_distribution_improves_on_the_front(shape):
    points = 0
    for seed, graph, front in drawn(shape, 10):
        assert known_points(front) == brute_points(graph, front), seed
        if front.is_complete:
            assert front.points[-1].period == slow_simulation.period_of(plain(graph)), seed
        points += len(front.points)
    assert points > 15


def plain(graph):
    """The graph without any bound."""
    channels = tuple(replace(one, capacity=None, release=None) for one in graph.channels)
    return replace(graph, channels=channels)


def test_points_come_by_size_and_are_ever_faster():
    for graph in drawn_few():
        front = front_of(graph)
        pairs = list(zip(front.points, front.points[1:], strict=False))
        assert all(one.size < other.size for one, other in pairs)
        assert all(one.period > other.period for one, other in pairs)


def test_the_capacities_of_a_point_have_its_size_and_its_period():
    for graph in drawn_few():
        between = {channel.name for channel in graph.channels if not channel.is_self_loop}
        for point in front_of(graph).points:
            assert set(point.capacities) == between
            assert sum(point.capacities.values()) == point.size
            assert throughput(with_capacities(graph, point.capacities)).period == point.period


@pytest.mark.slow
def test_the_order_of_the_channels_changes_no_point():
    for graph in drawn_few():
        other = replace(graph, channels=graph.channels[::-1])
        front, turned = front_of(graph), front_of(other)
        if front.is_complete:
            assert known_points(front) == known_points(turned)


def test_slower_actors_change_the_periods_alone():
    for graph in drawn_few(3):
        slower = replace(graph, time_unit=graph.time_unit * Fraction(7, 3))
        front = front_of(slower)
        expected = [
            (size, period * Fraction(7, 3)) for size, period in known_points(front_of(graph))
        ]
        assert known_points(front) == expected


def test_capacities_of_the_graph_do_not_limit_the_search():
    tight = pair(capacity=1)
    assert known_points(pareto_front(tight)) == [(1, 2), (2, 1)]


@pytest.mark.slow
def test_sizes_in_bytes_count_the_size_of_each_token():
    checked = 0
    for graph in drawn_few(4):
        channels = tuple(
            replace(channel, token_size=1 + 2 * (place % 2))
            for place, channel in enumerate(graph.channels)
        )
        weighted = replace(graph, channels=channels)
        sizes = [one.token_size for one in channels if not one.is_self_loop]
        front = front_of(weighted, SearchSpace(unit="bytes"))
        if count_of_distributions(graph, largest_size(front)) < 5000:
            brute = brute_front.front_of(weighted, largest_size(front), weights=sizes)
            assert known_points(front) == brute
            checked += 1
    assert checked > 20


def test_bytes_need_token_sizes():
    with pytest.raises(CsdfError, match="'ab' has no token size"):
        pareto_front(pair(), SearchSpace(unit="bytes"))
    with pytest.raises(CsdfError, match="unit 'gates'"):
        SearchSpace(unit="gates")


def first_channel(graph):
    return next(channel for channel in graph.channels if not channel.is_self_loop)


@pytest.mark.slow
def test_fixed_channels_keep_their_capacity_and_count():
    for graph in drawn_few(4):
        name = first_channel(graph).name
        points = front_of(graph).points
        capacity = points[len(points) // 2].capacities[name]
        front = front_of(graph, SearchSpace(fixed={name: capacity}))
        assert all(point.capacities[name] == capacity for point in front.points)
        assert all(sum(point.capacities.values()) == point.size for point in front.points)
        others = [[one.name] for one in graph.channels if not one.is_self_loop and one.name != name]
        if others:
            bounded = with_capacities(graph, {name: capacity})
            brute = brute_front.front_of(bounded, largest_size(front) - capacity, groups=others)
            assert known_points(front) == [(size + capacity, period) for size, period in brute]


def test_excluded_channels_stay_as_they_are_and_do_not_count():
    for graph in drawn_few(4):
        name = first_channel(graph).name
        others = [[one.name] for one in graph.channels if not one.is_self_loop and one.name != name]
        front = front_of(graph, SearchSpace(excluded=[name]))
        assert all(name not in point.capacities for point in front.points)
        if others:
            brute = brute_front.front_of(graph, largest_size(front), groups=others)
            assert known_points(front) == brute


@pytest.mark.slow
def test_shared_channels_have_one_capacity_that_counts_for_each():
    for graph in drawn_few(4):
        names = [channel.name for channel in graph.channels if not channel.is_self_loop]
        shared, alone = names[:2], [[name] for name in names[2:]]
        front = front_of(graph, SearchSpace(shared=[shared]))
        for point in front.points:
            assert len({point.capacities[name] for name in shared}) == 1
        brute = brute_front.front_of(graph, largest_size(front), groups=[shared, *alone])
        assert known_points(front) == brute


def test_self_loops_are_searched_where_they_are_asked_for():
    # Each loop needs a place for its token and one for the token that a firing makes; the rest is ab.
    front = pareto_front(pair(), SearchSpace(with_self_loops=True))
    assert known_points(front) == [(5, 2), (6, 1)]


@pytest.mark.slow
def test_no_distribution_with_self_loops_improves_on_the_front():
    checked = 0
    for graph in drawn_few(4):
        front = front_of(graph, SearchSpace(with_self_loops=True))
        if count_of_distributions(graph, largest_size(front), graph.channels) < 500:
            brute = brute_front.front_of(
                graph,
                largest_size(front),
                groups=[[channel.name] for channel in graph.channels],
                period_of=period_in_bounded_loops,
            )
            assert known_points(front) == brute
            checked += 1
    assert checked > 5


def period_in_bounded_loops(graph):
    return slow_simulation.period_of(bound_channels(graph, with_self_loops=True))


def test_a_fixed_self_loop_counts_and_holds_where_self_loops_are_bounded():
    name = next(channel.name for channel in pair().channels if channel.is_self_loop)
    # A place for the token alone: no firing finds room for the token that it makes.
    front = pareto_front(pair(), SearchSpace(fixed={name: 1}, with_self_loops=True))
    assert (front.points, front.best_period) == ((), None)
    front = pareto_front(pair(), SearchSpace(fixed={name: 2}, with_self_loops=True))
    assert known_points(front) == [(5, 2), (6, 1)]


def test_choices_name_each_channel_once_and_only_channels_of_the_graph():
    with pytest.raises(CsdfError, match="'ab' is named twice"):
        SearchSpace(fixed={"ab": 2}, excluded=["ab"])
    with pytest.raises(InvalidGraph, match="there is no channel 'ba'"):
        pareto_front(pair(), SearchSpace(excluded=["ba"]))


@pytest.mark.slow
@pytest.mark.parametrize("error", [GaveUp, KeyboardInterrupt])
def test_an_ended_search_leaves_a_proved_part_of_the_front(error):
    for shape in SHAPES:
        for seed in range(2):
            graph = random_graph(seed, SHAPES[shape])
            counter = Limit(100)
            points = known_points(pareto_front(graph, budget=Stop(report=counter)))
            for calls in range(1, counter.calls + 1):
                ended = pareto_front(graph, budget=Stop(report=Limit(calls, error)))
                found = known_points(ended)
                where = (shape, seed, calls)
                assert not ended.is_complete, where
                assert str(ended.reason).startswith("enough"), where
                assert found == points[: len(found)], where
                missing = points[len(found) :]
                assert all(size >= ended.lower_bound for size, _ in missing), where


def test_the_watch_sees_progress():
    seen = []
    front = pareto_front(pair(), budget=Stop(report=seen.append))
    assert [progress.found for progress in seen] == sorted(progress.found for progress in seen)
    assert seen[0].found == 0
    assert all(progress.lower_bound <= front.points[-1].size for progress in seen)


def periods_of(graph, capacities):
    """Period with these capacities, None for a deadlock; channels without a number are unbounded."""
    return throughput(with_capacities(graph, capacities)).period


@each_shape
@pytest.mark.parametrize("seed", range(4))
def test_the_period_stays_until_a_critical_channel_has_its_useful_growth(seed, shape):
    graph = random_graph(seed, SHAPES[shape])
    graph = replace(
        graph, channels=tuple(replace(one, capacity=None, release=None) for one in graph.channels)
    )
    names = [one.name for one in graph.channels if not one.is_self_loop]
    generator = Random(seed)
    least = smallest_storage(graph).capacities
    best = throughput(graph).period
    for more in (0, 1, 3):
        capacities = {name: least[name] + generator.randint(0, more) for name in names}
        bounded = with_capacities(graph, capacities)
        period, growth = throughput(bounded).period, useful_growth(bounded)
        assert growth or period == best
        if growth:
            short = {name: capacities[name] + steps - 1 for name, steps in growth.items()}
            assert periods_of(graph, short) == period
    deadlocked = with_capacities(
        graph, {name: graph.channel(name).initial_tokens for name in names}
    )
    assert throughput(deadlocked).period is not None or useful_growth(deadlocked)


def test_a_channel_of_even_rates_grows_by_two_tokens():
    graph = GraphBuilder().actor("a", 2).actor("b", 3).channel("a", 2, "b", 2, name="ab").graph()
    # One firing at a time fits: 5 time units for an iteration. A capacity of 3 behaves like 2.
    assert useful_growth(with_capacities(graph, {"ab": 2})) == {"ab": 2}
    assert useful_growth(with_capacities(graph, {"ab": 3})) == {"ab": 1}
    assert useful_growth(graph) == {}

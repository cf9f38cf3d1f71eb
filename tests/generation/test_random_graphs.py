from dataclasses import replace
from functools import cache
from math import gcd

import networkx
import pytest

from csdf.analysis.consistency import repetition_vector
from csdf.analysis.liveness import deadlock
from csdf.analysis.throughput import throughput
from csdf.errors import InvalidGraph
from csdf.generation import GraphShape, random_graph
from tests.analysis.graph_shapes import SHAPES
from tests.reference import slow_simulation

each_shape = pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
SEEDS = range(100)


@cache
def graphs(shape):
    return [random_graph(seed, shape) for seed in SEEDS]


def between_actors(graph):
    return [channel for channel in graph.channels if not channel.is_self_loop]


def as_networkx(graph):
    found = networkx.MultiDiGraph()
    found.add_nodes_from(actor.name for actor in graph.actors)
    found.add_edges_from((channel.producer, channel.consumer) for channel in graph.channels)
    return found


@each_shape
def test_every_graph_is_connected_consistent_and_live(shape):
    for graph in graphs(shape):
        assert networkx.is_weakly_connected(as_networkx(graph))
        assert repetition_vector(graph)
        assert deadlock(graph) is None


@each_shape
def test_every_graph_runs_for_ever_in_the_slow_simulation(shape):
    for graph in graphs(shape)[:20]:
        assert slow_simulation.period_of(graph) is not None


@each_shape
def test_the_same_seed_gives_the_same_graph(shape):
    assert [random_graph(seed, shape) for seed in SEEDS[:20]] == graphs(shape)[:20]


def test_other_seeds_give_other_graphs():
    assert len({replace(graph, name="") for graph in graphs(GraphShape())}) == len(SEEDS)


@each_shape
def test_numbers_stay_within_the_shape(shape):
    for graph in graphs(shape):
        firings = repetition_vector(graph)
        assert len(graph.actors) == shape.actors
        for actor in graph.actors:
            assert 1 <= len(actor.durations) <= shape.max_phases
            assert firings[actor.name] <= shape.max_repetitions
            for duration in actor.durations:
                assert shape.min_duration <= duration <= shape.max_duration
        for channel in graph.channels:
            assert max(channel.production + channel.consumption) <= shape.max_rate


@each_shape
def test_random_graphs_reach_every_duration_and_number_of_phases(shape):
    made = graphs(shape)
    durations = {d for graph in made for actor in graph.actors for d in actor.durations}
    phases = {len(actor.durations) for graph in made for actor in graph.actors}
    assert durations == set(range(shape.min_duration, shape.max_duration + 1))
    assert phases == set(range(1, shape.max_phases + 1))


@each_shape
def test_strong_connection_is_as_asked(shape):
    is_strong = {networkx.is_strongly_connected(as_networkx(graph)) for graph in graphs(shape)}
    assert is_strong == {True} if shape.is_strongly_connected else False in is_strong


@each_shape
def test_channels_between_actors_are_bounded_as_asked(shape):
    bounded = [c.capacity is not None for graph in graphs(shape) for c in between_actors(graph)]
    assert all(bounded) if shape.is_bounded else not any(bounded)


@each_shape
def test_windows_are_there_as_asked(shape):
    windows = [
        channel.release_rates != channel.consumption
        for graph in graphs(shape)
        for channel in graph.channels
    ]
    assert any(windows) == shape.has_late_release


@each_shape
def test_self_loops_are_there_as_asked(shape):
    for graph in graphs(shape):
        loops = [channel for channel in graph.channels if channel.is_self_loop]
        assert len(loops) == (shape.actors if shape.has_self_loops else 0)
        assert all(1 <= loop.initial_tokens <= shape.max_concurrency for loop in loops)


def test_the_number_of_channels_is_as_asked():
    for graph in graphs(GraphShape(actors=6, extra_channels=4)):
        assert len(between_actors(graph)) == 6 + 4
    for graph in graphs(GraphShape(actors=6, extra_channels=4, is_strongly_connected=False)):
        assert len(between_actors(graph)) == 5 + 4


def test_parallel_channels_can_be_avoided():
    shape = GraphShape(actors=4, extra_channels=5, has_parallel_channels=False)
    for graph in graphs(shape):
        pairs = {frozenset((c.producer, c.consumer)) for c in between_actors(graph)}
        assert len(pairs) == len(between_actors(graph))


def test_parallel_channels_occur():
    pairs = [[(c.producer, c.consumer) for c in between_actors(g)] for g in graphs(GraphShape())]
    assert any(len(set(ends)) < len(ends) for ends in pairs)


def test_some_phases_move_nothing():
    made = graphs(GraphShape(max_phases=3))
    assert any(0 in channel.production for graph in made for channel in graph.channels)
    assert any(0 in channel.consumption for graph in made for channel in graph.channels)


def test_a_shape_of_one_for_all_gives_hsdf():
    for graph in graphs(GraphShape(max_repetitions=1, max_rate=1)):
        assert set(repetition_vector(graph).values()) == {1}
        assert all(c.production == c.consumption == (1,) for c in graph.channels)


def test_rates_share_few_factors_with_large_repetitions():
    made = graphs(GraphShape(max_repetitions=50, max_rate=50))
    assert any(gcd(*c.production, *c.consumption) == 1 for g in made for c in between_actors(g))
    assert max(max(repetition_vector(graph).values()) for graph in made) > 25


def test_without_early_tokens_no_token_is_idle_on_a_ring_of_hsdf():
    shape = GraphShape(max_repetitions=1, max_rate=1, extra_channels=0, has_self_loops=False)
    for graph in graphs(shape):
        # A ring needs one token; the whole time of the ring is then its period.
        assert sum(channel.initial_tokens for channel in graph.channels) == 1
        assert throughput(graph).period == sum(actor.durations[0] for actor in graph.actors)


def test_a_large_graph_is_made():
    assert len(random_graph(1, GraphShape(actors=200, extra_channels=200)).actors) == 200


@pytest.mark.parametrize(
    ("wrong", "complaint"),
    [
        ({"actors": 0}, "actors is 0; expected at least 1"),
        (
            {"actors": 0, "max_rate": True, "min_duration": 11},
            "actors is 0; expected at least 1; max_rate is True; expected int; "
            "max_duration is 10; expected at least min_duration, which is 11",
        ),
        ({"extra_channels": -1}, "extra_channels is -1; expected at least 0"),
        ({"actors": 2.5}, "actors is 2.5; expected int"),
        ({"is_bounded": 1}, "is_bounded is 1; expected bool"),
        ({"min_duration": 11}, "max_duration is 10; expected at least min_duration"),
        ({"max_phases": 7}, "max_repetitions is 6; expected at least max_phases"),
        ({"max_repetitions": 9}, "max_rate is 6; expected at least max_repetitions"),
        ({"has_late_release": True}, "has_late_release without is_bounded"),
    ],
)
def test_an_impossible_shape_is_refused(wrong, complaint):
    with pytest.raises(InvalidGraph, match=complaint):
        GraphShape(**wrong)

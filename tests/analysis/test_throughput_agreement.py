"""Two methods, two slow references: one number."""

from dataclasses import replace
from itertools import chain, islice, product

import pytest

from csdf.analysis.bound_channels import bound_channels
from csdf.analysis.throughput import METHODS, throughput
from csdf.generation import GraphShape, random_graph
from tests.analysis.graph_shapes import SHAPES
from tests.reference import brute_cycle_ratio, slow_simulation

LARGER = (
    GraphShape(actors=8, extra_channels=6, max_phases=3, max_extra_initial_tokens=10),
    GraphShape(actors=10, extra_channels=4, is_strongly_connected=False, is_bounded=True),
    GraphShape(actors=6, max_repetitions=30, max_rate=30, max_extra_initial_tokens=30),
    GraphShape(actors=6, has_self_loops=False, max_phases=4, min_duration=0),
)
each_shape = pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)


def without_tokens_of_one_channel(graph, seed):
    """The graph, perhaps deadlocked."""
    chosen = seed % len(graph.channels)
    channels = list(graph.channels)
    channels[chosen] = replace(channels[chosen], initial_tokens=0)
    return replace(graph, channels=tuple(channels))


@pytest.mark.slow
def test_both_methods_agree_on_1000_graphs():
    shapes = (*SHAPES.values(), *LARGER)
    cases = islice(product(range(1000), shapes), 1000)
    for seed, shape in cases:
        graph = random_graph(seed, shape)
        periods = {method: throughput(graph, method=method).period for method in METHODS}
        assert len(set(periods.values())) == 1, (seed, shape, periods)
        assert periods["auto"] is not None, (seed, shape)


@each_shape
def test_the_slow_simulation_agrees(shape):
    for seed in range(10_000, 10_060):
        graph = random_graph(seed, shape)
        assert throughput(graph).period == slow_simulation.period_of(graph), seed


@each_shape
def test_the_slow_simulation_agrees_where_tokens_are_missing(shape):
    answers = set()
    for seed in range(20_000, 20_040):
        graph = without_tokens_of_one_channel(random_graph(seed, shape), seed)
        slow = slow_simulation.period_of(graph)
        for method in METHODS:
            found = throughput(graph, method=method)
            assert found.period == slow, (seed, method)
            assert (found.deadlock is None) == (slow is not None), (seed, method)
        answers.add(slow is None)
    assert True in answers


@each_shape
def test_the_largest_ratio_over_all_firings_agrees(shape):
    for seed in range(30_000, 30_025):
        graph = random_graph(seed, shape)
        brute = brute_cycle_ratio.period_of(bound_channels(graph))
        assert throughput(graph).period == brute, seed


def test_the_shapes_meet_every_kind_of_answer():
    graphs = chain(*([random_graph(n, shape) for n in range(40)] for shape in SHAPES.values()))
    periods = [throughput(graph).period for graph in graphs]
    assert any(period == 0 for period in periods)
    assert any(period and period.denominator > 1 for period in periods)

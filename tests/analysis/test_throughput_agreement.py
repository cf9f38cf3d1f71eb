"""Two methods, two slow references: one number."""

from dataclasses import replace
from itertools import chain, islice, product
from math import gcd
from random import Random

import pytest

from csdf.analysis.bound_channels import bound_channels
from csdf.analysis.throughput import METHODS, throughput
from csdf.generation import GraphShape, random_graph
from csdf.model.builder import GraphBuilder
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


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_constraints_of_all_firings_give_the_period_of_refined_ones(monkeypatch, shape):
    for seed in range(12):
        graph = random_graph(seed, shape)
        periods = []
        for schedules in (0, 10**9):
            monkeypatch.setattr("csdf.analysis.throughput.FIRST_SCHEDULES", schedules)
            periods.append(throughput(graph, method="periodic").period)
        assert periods[0] == periods[1], seed


def short_channels_on_a_ring(actors, seed=1):
    """A ring of actors with 1 to 4 firings each, and as many channels to one of the next eight."""
    draw = Random(seed)
    cycles = [draw.randint(1, 4) for _ in range(actors)]
    builder = GraphBuilder()
    for actor in range(actors):
        builder.actor(str(actor), draw.randint(1, 10))
    for i in range(2 * actors):
        producer = i % actors
        consumer = (producer + (1 if i < actors else draw.randint(1, 8))) % actors
        common = gcd(cycles[producer], cycles[consumer])
        made, taken = cycles[consumer] // common, cycles[producer] // common
        tokens = draw.randint(1, 3) * (made + taken)
        builder.channel(str(producer), made, str(consumer), taken, initial_tokens=tokens)
    return builder.graph()


def test_a_ring_of_many_actors_with_short_channels_has_its_exact_period():
    # One critical cycle after another would be refined; of 10,000 actors none was exact in 100 s.
    graph = short_channels_on_a_ring(60)
    found = throughput(graph)
    assert found.method == "periodic"
    assert found.period == throughput(graph, method="execution").period

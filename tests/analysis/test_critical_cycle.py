"""A critical cycle proves its period: what is not on it cannot matter."""

from dataclasses import replace
from fractions import Fraction

import pytest

from csdf.analysis.bound_channels import bound_channels
from csdf.analysis.throughput import throughput
from csdf.generation import random_graph
from csdf.model.builder import GraphBuilder
from tests.analysis.graph_shapes import SHAPES
from tests.reference import brute_cycle_ratio, slow_simulation

each_method = pytest.mark.parametrize("method", ["auto", "periodic", "execution"])
each_shape = pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)


def alone(graph, cycle):
    """The graph of nothing but the cycle's actors and channels."""
    unbounded = bound_channels(graph)
    return replace(
        unbounded,
        actors=tuple(unbounded.actor(name) for name in cycle.actors),
        channels=tuple(unbounded.channel(name) for name in cycle.channels),
    )


def iterations_in_one(graph, part):
    """How many iterations of the part make one of the graph."""
    name = part.actors[0].name
    return Fraction(slow_simulation.firings_of(graph)[name], slow_simulation.firings_of(part)[name])


@pytest.mark.slow
@each_method
@each_shape
def test_the_cycle_alone_has_the_period_of_the_graph(shape, method):
    for seed in range(40_000, 40_025):
        graph = random_graph(seed, shape)
        found = throughput(graph, method=method)
        if not found.period:
            assert found.critical_cycle is None
            continue
        part = alone(graph, found.critical_cycle)
        repeats = iterations_in_one(graph, part)
        assert repeats * brute_cycle_ratio.period_of(part) == found.period, seed
        assert repeats * slow_simulation.period_of(part) == found.period, seed


@each_method
@each_shape
def test_time_over_tokens_is_the_period(shape, method):
    for seed in range(50_000, 50_050):
        found = throughput(random_graph(seed, shape), method=method)
        if found.critical_cycle is not None:
            assert found.critical_cycle.time / found.critical_cycle.tokens == found.period


def renamed(channel):
    """The channel with its name as a file has it: a plain string."""
    return replace(channel, name="".join(channel.name))


@each_method
def test_the_cycle_names_the_space_of_a_full_channel(method):
    graph = (
        GraphBuilder()
        .actor("a", 2)
        .actor("b", 3)
        .channel("a", 1, "b", 1, capacity=1, name="c")
        .graph()
    )
    cycle = throughput(graph, method=method).critical_cycle
    assert set(cycle.actors) == {"a", "b"}
    assert set(cycle.channels) == {"c", "c (space)"}
    assert cycle.capacities == ("c",)
    given = replace(
        bound_channels(graph), channels=tuple(map(renamed, bound_channels(graph).channels))
    )
    same = throughput(given, method=method).critical_cycle
    assert (set(same.channels), same.capacities) == (set(cycle.channels), ())
    assert (cycle.time, cycle.tokens) == (5, 1)


@each_method
def test_the_cycle_leaves_out_what_is_fast(method):
    graph = (
        GraphBuilder()
        .actor("slow", 9, overlap=False)
        .actor("quick", 1, overlap=False)
        .channel("slow", 1, "quick", 1)
        .channel("quick", 1, "slow", 1, initial_tokens=2)
        .graph()
    )
    # The self-loop of "slow" takes 9 for its token; the large cycle 10 for two.
    cycle = throughput(graph, method=method).critical_cycle
    assert cycle.channels == ("slow self-loop",)


@each_method
def test_a_longer_firing_on_the_cycle_lengthens_the_period_by_as_much(method):
    graph = (
        GraphBuilder()
        .actor("a", 2)
        .actor("b", 3)
        .channel("a", 1, "b", 1)
        .channel("b", 1, "a", 1, initial_tokens=1)
        .graph()
    )
    before = throughput(graph, method=method)
    actors = (replace(graph.actors[0], durations=(12,)), graph.actors[1])
    after = throughput(replace(graph, actors=actors), method=method)
    assert after.period - before.period == 10

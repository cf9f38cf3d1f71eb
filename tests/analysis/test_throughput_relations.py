"""Changes of a graph that keep its period, and changes that move it as they should."""

from dataclasses import replace
from fractions import Fraction
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from csdf.analysis.bound_channels import bound_channels, limit_concurrency, with_capacities
from csdf.analysis.throughput import throughput
from csdf.generation import random_graph
from csdf.model.graph import Graph
from tests.analysis.graph_shapes import SHAPES

graphs = st.builds(random_graph, st.integers(0, 10**9), st.sampled_from(list(SHAPES.values())))
bounded_graphs = st.builds(
    random_graph,
    st.integers(0, 10**9),
    st.sampled_from([shape for shape in SHAPES.values() if shape.is_bounded]),
)
each_graph = settings(max_examples=25, deadline=None, derandomize=True, database=None)


def period(graph):
    return throughput(graph).period


def with_channel(graph, place, **changes):
    channels = list(graph.channels)
    place %= len(channels)
    channels[place] = replace(channels[place], **changes)
    return replace(graph, channels=tuple(channels))


def scaled(graph, factor):
    actors = [
        replace(actor, durations=tuple(factor * d for d in actor.durations))
        for actor in graph.actors
    ]
    return replace(graph, actors=tuple(actors))


def shuffled_and_renamed(graph, random):
    name = {actor.name: f"new {i}" for i, actor in enumerate(graph.actors)}
    actors = [replace(actor, name=name[actor.name]) for actor in graph.actors]
    channels = [
        replace(
            channel,
            name=f"renamed {channel.name}",
            producer=name[channel.producer],
            consumer=name[channel.consumer],
        )
        for channel in graph.channels
    ]
    random.shuffle(actors)
    random.shuffle(channels)
    return Graph(name="other", actors=tuple(actors), channels=tuple(channels))


@given(graphs, st.integers(2, 1000))
@each_graph
def test_scaling_all_durations_scales_the_period(graph, factor):
    assert period(scaled(graph, factor)) == factor * period(graph)


@given(graphs, st.fractions(min_value=Fraction(1, 100), max_value=100))
@each_graph
def test_the_period_is_in_the_units_of_the_user(graph, unit):
    found = throughput(replace(graph, time_unit=unit))
    assert found.period == unit * period(graph)
    if found.critical_cycle is not None:
        assert found.critical_cycle.time / found.critical_cycle.tokens == found.period


@given(graphs, st.integers())
@each_graph
def test_names_and_order_do_not_matter(graph, seed):
    assert period(shuffled_and_renamed(graph, Random(seed))) == period(graph)


@given(graphs, st.integers(0, 100), st.integers(1, 5))
@each_graph
def test_more_initial_tokens_never_increase_the_period(graph, place, more):
    channel = graph.channels[place % len(graph.channels)]
    capacity = None if channel.capacity is None else channel.capacity + more
    richer = with_channel(
        graph, place, initial_tokens=channel.initial_tokens + more, capacity=capacity
    )
    assert period(richer) <= period(graph)


@given(bounded_graphs, st.integers(0, 100), st.integers(1, 5))
@each_graph
def test_a_larger_capacity_never_increases_the_period(graph, place, more):
    bounded = [channel for channel in graph.channels if channel.capacity is not None]
    channel = bounded[place % len(bounded)]
    roomier = with_capacities(graph, {channel.name: channel.capacity + more})
    assert period(roomier) <= period(graph)


@given(bounded_graphs)
@each_graph
def test_removing_all_capacities_never_increases_the_period(graph):
    channels = [replace(channel, capacity=None, release=None) for channel in graph.channels]
    assert period(replace(graph, channels=tuple(channels))) <= period(graph)


@given(bounded_graphs)
@each_graph
def test_giving_space_back_at_once_never_increases_the_period(graph):
    # One firing of an actor at a time. Where firings overlap, a later one that ends earlier gives
    # its own space back earlier, and to shift space from one to the other can go either way.
    graph = limit_concurrency(graph, {actor.name: 1 for actor in graph.actors})
    channels = [replace(channel, release=None) for channel in graph.channels]
    assert period(replace(graph, channels=tuple(channels))) <= period(graph)


@given(bounded_graphs)
@each_graph
def test_a_capacity_is_a_reverse_channel(graph):
    assert period(bound_channels(graph)) == period(graph)


@given(graphs, st.integers(0, 100), st.integers(1, 5))
@each_graph
def test_a_longer_duration_never_decreases_the_period(graph, place, more):
    place %= len(graph.actors)
    actor = graph.actors[place]
    actors = list(graph.actors)
    actors[place] = replace(actor, durations=tuple(d + more for d in actor.durations))
    assert period(replace(graph, actors=tuple(actors))) >= period(graph)


@given(graphs, st.integers(0, 100), st.integers(1, 4))
@each_graph
def test_a_limit_on_concurrency_never_decreases_the_period(graph, place, limit):
    actor = graph.actors[place % len(graph.actors)]
    unlimited = replace(
        graph, channels=tuple(c for c in graph.channels if not c.name.endswith(" (limit)"))
    )
    assert period(limit_concurrency(unlimited, {actor.name: limit})) >= period(unlimited)

from dataclasses import replace
from math import gcd

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from csdf.analysis.consistency import cycle_vector, repetition_vector
from csdf.errors import InconsistentGraph
from csdf.generation import random_graph
from csdf.model.builder import GraphBuilder
from tests.analysis.graph_shapes import SHAPES
from tests.reference import slow_simulation

graphs = st.builds(random_graph, st.integers(0, 10**9), st.sampled_from(list(SHAPES.values())))
strongly_connected_graphs = st.builds(
    random_graph,
    st.integers(0, 10**9),
    st.sampled_from([shape for shape in SHAPES.values() if shape.is_strongly_connected]),
)
each_graph = settings(max_examples=25, deadline=None, derandomize=True, database=None)


def test_the_vector_counts_firings_not_phase_cycles():
    graph = GraphBuilder().actor("a", [1, 1]).actor("b", 3).channel("a", [1, 2], "b", 2).graph()
    # One phase cycle of a yields 3 tokens, one of b takes 2: two cycles of a (4 firings) feed
    # three of b (3 firings).
    assert repetition_vector(graph) == {"a": 4, "b": 3}
    assert cycle_vector(graph) == {"a": 2, "b": 3}


def test_parts_that_are_not_connected_are_scaled_on_their_own():
    builder = GraphBuilder()
    for name in "abcd":
        builder.actor(name, 1)
    graph = builder.channel("a", 4, "b", 6).channel("c", 5, "d", 1).graph()
    assert repetition_vector(graph) == {"a": 3, "b": 2, "c": 1, "d": 5}


def test_an_actor_alone_fires_its_phases_once():
    assert repetition_vector(GraphBuilder().actor("a", [1, 2, 3]).graph()) == {"a": 3}


def test_counts_have_no_largest_value():
    builder = GraphBuilder().actor("a0", 1)
    for n in range(1, 31):
        builder.actor(f"a{n}", 1).channel(f"a{n - 1}", 10, f"a{n}", 1)
    assert repetition_vector(builder.graph())["a30"] == 10**30


def test_a_contradiction_names_its_channel_and_both_demands():
    graph = (
        GraphBuilder()
        .actor("a", 1)
        .actor("b", 1)
        .channel("a", 2, "b", 1, name="there")
        .channel("b", 3, "a", 5, name="back")
        .graph()
    )
    # By "there", b fires twice for each a; then "back" gets 2 * 3 tokens, and a takes 5.
    with pytest.raises(InconsistentGraph) as caught:
        repetition_vector(graph)
    error = caught.value
    assert (error.channel, error.producer, error.consumer) == ("back", "b", "a")
    assert (error.produced, error.consumed) == (6, 5)
    assert all(part in str(error) for part in ("'back'", "'a' consumes 5", "'b' produces 6 tokens"))


def test_a_self_loop_must_return_what_it_takes():
    graph = GraphBuilder().actor("a", 1).channel("a", 2, "a", 3, name="c").graph()
    with pytest.raises(InconsistentGraph, match="'c'"):
        repetition_vector(graph)


@given(graphs)
@each_graph
def test_one_iteration_returns_every_channel_to_its_initial_tokens(graph):
    firings = repetition_vector(graph)
    for channel in graph.channels:
        made = firings[channel.producer] * sum(channel.production)
        taken = firings[channel.consumer] * sum(channel.consumption)
        phases = len(channel.production), len(channel.consumption)
        assert made * phases[1] == taken * phases[0]


@given(graphs)
@each_graph
def test_no_smaller_vector_balances_a_connected_graph(graph):
    assert gcd(*cycle_vector(graph).values()) == 1


@given(graphs)
@each_graph
def test_the_slow_reference_agrees(graph):
    assert repetition_vector(graph) == slow_simulation.firings_of(graph)


@given(strongly_connected_graphs, st.integers(0, 100))
@each_graph
def test_changing_one_rate_of_a_cycle_is_noticed(graph, place):
    place %= len(graph.channels)
    channel = graph.channels[place]
    more = (channel.production[0] + 1, *channel.production[1:])
    channels = list(graph.channels)
    channels[place] = replace(channel, production=more)
    with pytest.raises(InconsistentGraph) as caught:
        cycle_vector(replace(graph, channels=tuple(channels)))
    assert caught.value.produced != caught.value.consumed

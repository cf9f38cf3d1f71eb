"""Graphs made from graphs keep what they promise to keep."""

import pytest

from csdf.analysis import expansion
from csdf.analysis.bound_channels import limit_concurrency
from csdf.analysis.consistency import repetition_vector
from csdf.analysis.expansion import hsdf, merge_parallel_channels, unfold
from csdf.analysis.throughput import throughput
from csdf.errors import CsdfError
from csdf.model.builder import GraphBuilder
from tests.schedules.drawn_graphs import DRAWN

drawn = pytest.mark.parametrize("graph", DRAWN.values(), ids=DRAWN)
FREE = {name: graph for name, graph in DRAWN.items() if "overlap" in name}  # without self-loops
unlimited = pytest.mark.parametrize("graph", FREE.values(), ids=FREE)


def period(graph):
    return throughput(graph).period


@drawn
def test_the_hsdf_graph_has_the_same_period(graph):
    assert period(hsdf(graph)) == period(graph)


@drawn
def test_the_hsdf_graph_fires_everything_once(graph):
    expanded = hsdf(graph)
    assert set(repetition_vector(expanded).values()) == {1}
    assert all(channel.production == channel.consumption == (1,) for channel in expanded.channels)


@drawn
@pytest.mark.parametrize("factor", [1, 2, 3])
def test_unfolding_multiplies_the_period(graph, factor):
    assert period(unfold(graph, factor)) == factor * period(graph)


@drawn
def test_merging_parallel_channels_keeps_the_period(graph):
    assert period(merge_parallel_channels(graph)) == period(graph)


@unlimited
def test_a_limit_that_is_never_reached_keeps_the_period(graph):
    # All tokens together allow far less than 10000 firings of an actor at once.
    limits = dict.fromkeys(repetition_vector(graph), 10_000)
    assert period(limit_concurrency(graph, limits)) == period(graph)


@unlimited
def test_one_firing_at_a_time_never_shortens_the_period(graph):
    limits = dict.fromkeys(repetition_vector(graph), 1)
    one_at_a_time = period(limit_concurrency(graph, limits))
    work = [
        count // actor.phases * sum(actor.durations)
        for actor, count in zip(graph.actors, repetition_vector(graph).values(), strict=True)
    ]
    assert one_at_a_time >= max(*work, period(graph))


def test_the_hsdf_graph_of_a_small_graph():
    graph = (
        GraphBuilder().actor("a", 1).actor("b", 2).channel("a", 2, "b", 1, initial_tokens=1).graph()
    )
    expanded = hsdf(graph)
    # a fires once, b twice. Its first firing takes the initial token, left from the iteration
    # before (token 2 of a); its second takes token 1 of a.
    assert [actor.name for actor in expanded.actors] == ["a#0", "b#0", "b#1"]
    assert [
        (channel.producer, channel.consumer, channel.initial_tokens)
        for channel in expanded.channels
    ] == [("a#0", "b#0", 1), ("a#0", "b#1", 0)]


def test_the_hsdf_graph_of_a_deadlocked_graph_deadlocks():
    graph = GraphBuilder().actor("a", 1).channel("a", 2, "a", 2, initial_tokens=1).graph()
    assert throughput(hsdf(graph)).deadlock is not None


def test_an_expansion_beyond_its_limit_is_refused(monkeypatch):
    monkeypatch.setattr(expansion, "EXPANSION_LIMIT", 3)
    graph = GraphBuilder().actor("a", 1).actor("b", 1).channel("a", 3, "b", 1).graph()
    with pytest.raises(CsdfError, match="4 firings per iteration; at most 3"):
        hsdf(graph)


def test_unfolding_by_nothing_is_refused():
    with pytest.raises(CsdfError, match="factor is 0; expected an integer of at least 1"):
        unfold(DRAWN["plain, seed 0"], 0)


def test_only_the_tightest_of_proportional_channels_is_kept():
    graph = (
        GraphBuilder()
        .actor("a", 1)
        .actor("b", 1)
        .channel("a", 1, "b", 2, initial_tokens=3, name="loose")
        .channel("a", 2, "b", 4, initial_tokens=5, name="tight")
        .channel("a", 1, "b", 2, initial_tokens=0, capacity=9, name="bounded")
        .channel("b", 2, "a", 1, initial_tokens=9, name="other way")
        .graph()
    )
    # In units of the common rate, `tight` has 5 // 2 = 2 tokens, `loose` 3; a capacity is a
    # constraint of its own.
    kept = [channel.name for channel in merge_parallel_channels(graph).channels]
    assert kept == ["tight", "bounded", "other way"]

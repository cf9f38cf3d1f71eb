"""Capacities, and what they become: reverse channels whose tokens are free space."""

import pytest

from csdf.analysis.bound_channels import bound_channels, limit_concurrency, with_capacities
from csdf.errors import InvalidGraph
from csdf.model.builder import GraphBuilder
from csdf.model.graph import space_channel, with_space_channels


def pair(**options):
    return GraphBuilder().actor("a", 1).actor("b", [1, 1]).channel("a", 3, "b", (2, 1), **options)


def test_the_space_of_a_channel_flows_from_consumer_to_producer():
    channel = pair(initial_tokens=2).graph().channel("a to b")
    space = space_channel(channel, 7, "free")
    assert (space.name, space.producer, space.consumer) == ("free", "b", "a")
    # The consumer gives back what it takes, the producer claims what it makes; 7 - 2 are free.
    assert (space.production, space.consumption, space.initial_tokens) == ((2, 1), (3,), 5)


def test_a_window_gives_space_back_at_its_release_rates():
    channel = pair(release=(0, 3)).graph().channel("a to b")
    assert space_channel(channel, 6, "free").production == (0, 3)


def test_only_named_and_bounded_channels_get_a_reverse_channel():
    graph = pair(capacity=4).channel("a", 3, "b", (2, 1), capacity=5).graph()
    opened = with_space_channels(graph, {"a to b"}, suffix=" back")
    assert [channel.name for channel in opened.channels] == ["a to b", "a to b back", "a to b 2"]
    assert [channel.capacity for channel in opened.channels] == [None, None, 5]


def test_a_taken_name_is_avoided():
    graph = pair(capacity=4).channel("a", 3, "b", (2, 1), name="a to b back").graph()
    opened = with_space_channels(graph, {"a to b"}, suffix=" back")
    assert [channel.name for channel in opened.channels][1] == "a to b back_2"


def test_self_loops_stay_unbounded_unless_asked_for():
    graph = GraphBuilder().actor("a", 1).channel("a", 1, "a", 1, initial_tokens=1, capacity=2)
    assert len(bound_channels(graph.graph()).channels) == 1
    both = bound_channels(graph.graph(), with_self_loops=True)
    assert [channel.initial_tokens for channel in both.channels] == [1, 1]


def test_a_graph_without_capacities_is_its_own_bounded_form():
    graph = pair().graph()
    assert bound_channels(graph) is graph


def test_capacities_are_set_by_name_and_all_others_kept():
    graph = pair(capacity=4).channel("b", (1, 2), "a", 3, capacity=9).graph()
    changed = with_capacities(graph, {"a to b": 6})
    assert {channel.name: channel.capacity for channel in changed.channels} == {
        "a to b": 6,
        "b to a": 9,
    }


def test_wrong_capacities_are_refused():
    with pytest.raises(InvalidGraph, match="there is no channel 'z'"):
        with_capacities(pair().graph(), {"z": 1})
    with pytest.raises(InvalidGraph, match="capacity 1 is less than its 2 initial tokens"):
        with_capacities(pair(initial_tokens=2).graph(), {"a to b": 1})


def test_a_limit_is_a_self_loop_with_that_many_tokens():
    loop = limit_concurrency(pair().graph(), {"b": 3}).channel("b (limit)")
    assert (loop.production, loop.consumption, loop.initial_tokens) == ((1, 1), (1, 1), 3)


def test_a_limit_of_none_at_once_is_refused():
    with pytest.raises(InvalidGraph, match="actor 'b': a limit of 0 firings at once; at least 1"):
        limit_concurrency(pair().graph(), {"b": 0})

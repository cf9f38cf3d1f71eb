import pytest

from csdf.analysis.bound_channels import bound_channels, limit_concurrency, with_capacities
from csdf.analysis.throughput import throughput
from csdf.errors import InvalidGraph
from csdf.model.builder import GraphBuilder


def pair(**options):
    return (
        GraphBuilder()
        .actor("a", [1, 1])
        .actor("b", [1, 1])
        .channel("a", [3, 1], "b", [2, 2], name="c", **options)
        .graph()
    )


def test_a_capacity_becomes_a_channel_of_free_space():
    graph = bound_channels(pair(initial_tokens=2, capacity=7))
    space = graph.channel("c (space)")
    assert (space.producer, space.consumer) == ("b", "a")
    assert (space.production, space.consumption) == ((2, 2), (3, 1))
    assert space.initial_tokens == 7 - 2
    assert graph.channel("c").capacity is None


def test_space_comes_back_at_the_release_rates():
    graph = bound_channels(pair(capacity=7, release=[1, 3]))
    assert graph.channel("c (space)").production == (1, 3)
    assert graph.channel("c").release is None


def test_a_graph_without_capacities_stays_as_it_is():
    assert bound_channels(pair()) == pair()


def test_self_loops_stay_unbounded_unless_asked_for():
    builder = GraphBuilder().actor("a", 1)
    graph = builder.channel("a", 1, "a", 1, initial_tokens=1, capacity=2, name="c").graph()
    assert [c.name for c in bound_channels(graph).channels] == ["c"]
    with_loops = bound_channels(graph, with_self_loops=True)
    assert [c.name for c in with_loops.channels] == ["c", "c (space)"]


def test_capacities_are_set_on_the_named_channels_only():
    assert with_capacities(pair(capacity=9), {}).channel("c").capacity == 9
    assert with_capacities(pair(capacity=9), {"c": 5}).channel("c").capacity == 5


def test_an_unknown_channel_has_no_capacity():
    with pytest.raises(InvalidGraph, match="'nowhere'"):
        with_capacities(pair(), {"nowhere": 1})


def test_a_capacity_below_the_initial_tokens_is_refused():
    with pytest.raises(InvalidGraph, match="capacity 3 is less than its 4 initial tokens"):
        with_capacities(pair(initial_tokens=4), {"c": 3})


def test_a_limit_is_a_self_loop_of_that_many_tokens():
    graph = limit_concurrency(pair(), {"b": 3})
    loop = graph.channel("b (limit)")
    assert (loop.producer, loop.consumer, loop.initial_tokens) == ("b", "b", 3)
    assert loop.production == loop.consumption == (1, 1)


def test_a_limit_of_none_at_once_is_refused():
    with pytest.raises(InvalidGraph, match="'b': a limit of 0"):
        limit_concurrency(pair(), {"b": 0})


def test_a_limit_on_an_unknown_actor_is_refused():
    with pytest.raises(InvalidGraph, match="'nobody'"):
        limit_concurrency(pair(), {"nobody": 1})


def test_an_actor_that_is_limited_can_be_limited_further():
    builder = GraphBuilder().actor("a", 6)
    twice = limit_concurrency(limit_concurrency(builder.graph(), {"a": 3}), {"a": 2})
    # Two firings of 6 time units go on at once: one ends every 3.
    assert throughput(twice).period == 3

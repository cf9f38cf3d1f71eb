from dataclasses import replace

import pytest

from csdf.analysis.bound_channels import bound_channels
from csdf.analysis.liveness import deadlock
from csdf.errors import GaveUp
from csdf.generation import random_graph
from csdf.model.builder import GraphBuilder
from csdf.time_limit import Stop
from tests.analysis.graph_shapes import SHAPES
from tests.reference import slow_simulation

each_shape = pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)


def starved(seed, shape):
    """A random graph with half of its tokens, and without room to spare."""
    graph = random_graph(seed, shape)
    channels = []
    for channel in graph.channels:
        tokens = channel.initial_tokens // 2
        capacity = channel.capacity and max(channel.capacity // 2, tokens)
        channels.append(replace(channel, initial_tokens=tokens, capacity=capacity))
    return replace(graph, channels=tuple(channels))


def two_on_a_cycle(tokens):
    return (
        GraphBuilder()
        .actor("a", 1)
        .actor("b", 1)
        .channel("a", 2, "b", 3, name="there")
        .channel("b", 3, "a", 2, name="back", initial_tokens=tokens)
        .graph()
    )


def test_a_cycle_with_enough_tokens_is_live():
    # a takes 2 and 2, b gives 3 back once 3 of the 4 have come: then 1 + 3 tokens serve the third.
    assert deadlock(two_on_a_cycle(4)) is None


def test_a_cycle_with_too_few_tokens_blocks_all_its_actors():
    found = deadlock(two_on_a_cycle(3))
    # a fires once and has 1 token for 2; b has 2 tokens for 3.
    waits = {(one.actor, one.channel, one.tokens, one.needed, one.producer) for one in found.cycle}
    assert waits == {("a", "back", 1, 2, "b"), ("b", "there", 2, 3, "a")}


def test_the_words_for_it_name_who_waits_for_whom_and_for_what():
    text = str(deadlock(two_on_a_cycle(3)))
    assert "a waits for b on back: has 1, needs 2" in text
    assert "b waits for a on there: has 2, needs 3" in text


def test_an_empty_self_loop_blocks_its_actor():
    graph = GraphBuilder().actor("a", 1).channel("a", 1, "a", 1, name="loop").graph()
    (one,) = deadlock(graph).cycle
    assert (one.actor, one.channel, one.producer) == ("a", "loop", "a")


def test_a_late_phase_may_block_a_graph_that_has_started():
    graph = (
        GraphBuilder()
        .actor("a", [1, 1])
        .channel("a", [1, 3], "a", [1, 3], initial_tokens=1)
        .graph()
    )
    # The first phase takes 1 and returns 1; the second needs 3.
    (one,) = deadlock(graph).cycle
    assert (one.tokens, one.needed) == (1, 3)


def test_a_channel_without_enough_space_is_named_as_space():
    graph = (
        GraphBuilder()
        .actor("a", 1)
        .actor("b", 1)
        .channel("a", 2, "b", 3, capacity=3, name="c")
        .graph()
    )
    # 2 + 3 - gcd = 4 is the least: with 3, after one firing of a there is space for 1.
    waits = {(one.actor, one.channel, one.tokens, one.needed) for one in deadlock(graph).cycle}
    assert waits == {("a", "c (space)", 1, 2), ("b", "c", 2, 3)}


def test_a_capacity_of_p_plus_c_minus_gcd_is_enough_for_one_channel():
    for made in range(1, 7):
        for taken in range(1, 7):
            least = next(
                capacity
                for capacity in range(20)
                if deadlock(
                    GraphBuilder()
                    .actor("a", 1)
                    .actor("b", 1)
                    .channel("a", made, "b", taken, capacity=capacity)
                    .graph()
                )
                is None
            )
            common = next(n for n in range(6, 0, -1) if made % n == 0 and taken % n == 0)
            # Adé, Lauwereins, Peperstraete, DAC 1997: the least capacity of one SDF channel.
            assert least == made + taken - common


def test_one_dead_part_makes_the_graph_dead():
    graph = (
        GraphBuilder()
        .actor("dead", 1)
        .actor("alive", 1, overlap=False)
        .channel("dead", 1, "dead", 1)
        .graph()
    )
    assert {one.actor for one in deadlock(graph).cycle} == {"dead"}


def test_a_vector_beyond_any_execution_is_decided_by_whole_cycles():
    builder = GraphBuilder().actor("a0", 1, overlap=False)
    for n in range(1, 9):
        builder.actor(f"a{n}", 1, overlap=False).channel(f"a{n - 1}", 1000, f"a{n}", 1)
    assert deadlock(builder.graph()) is None


@each_shape
def test_the_answer_is_that_of_the_slow_simulation(shape):
    answers = set()
    for seed in range(60_000, 60_060):
        graph = starved(seed, shape)
        slow = slow_simulation.period_of(graph)
        assert (deadlock(graph) is None) == (slow is not None), seed
        answers.add(slow is None)
    assert True in answers


@each_shape
def test_the_blocking_cycle_closes_and_each_actor_on_it_lacks_tokens(shape):
    for seed in range(70_000, 70_060):
        graph = starved(seed, shape)
        found = deadlock(graph)
        if found is None:
            continue
        unbounded = bound_channels(graph)
        followers = found.cycle[1:] + found.cycle[:1]
        for one, follower in zip(found.cycle, followers, strict=True):
            channel = unbounded.channel(one.channel)
            assert one.tokens < one.needed
            assert one.needed in channel.consumption
            assert (one.actor, one.producer) == (channel.consumer, channel.producer)
            assert one.producer == follower.actor


@each_shape
def test_tokens_on_the_blocking_channels_in_the_end_revive_the_graph(shape):
    for seed in range(80_000, 80_030):
        graph = bound_channels(starved(seed, shape))
        for _ in range(500):
            found = deadlock(graph)
            if found is None:
                break
            missing = {one.channel: one.needed - one.tokens for one in found.cycle}
            channels = [
                replace(c, initial_tokens=c.initial_tokens + missing.get(c.name, 0))
                for c in graph.channels
            ]
            graph = replace(graph, channels=tuple(channels))
        assert deadlock(graph) is None, seed


def test_a_watch_ends_the_search_for_a_deadlock():
    # Co-prime rates: an iteration has 20,011 + 20,021 firings. p + q - 1 tokens are just enough for
    # one of the two to be enabled always, so that few firings go together.
    p, q = 20_011, 20_021
    builder = GraphBuilder().actor("a", 1).actor("b", 1).channel("a", p, "b", q)
    graph = builder.channel("b", q, "a", p, initial_tokens=p + q - 1).graph()
    looks = []

    def look(_):
        looks.append(1)
        if len(looks) == 2:
            raise GaveUp("enough")

    assert deadlock(graph) is None
    with pytest.raises(GaveUp, match="enough"):
        deadlock(graph, budget=Stop(report=look))
    assert len(looks) == 2

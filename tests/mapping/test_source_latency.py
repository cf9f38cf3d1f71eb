"""Latency and jitter behind a source of a given rate: by hand, by execution and by longest paths."""

import random
from fractions import Fraction

import pytest

from csdf.analysis.bound_channels import bound_channels, with_capacities
from csdf.analysis.consistency import repetition_vector
from csdf.analysis.latency import dependency_latency
from csdf.analysis.throughput import throughput
from csdf.errors import CsdfError, InvalidGraph
from csdf.generation import GraphShape, random_graph
from csdf.mapping.latency import source_latency
from csdf.mapping.model import Connection, Core, Mapping, Platform, StaticOrder
from csdf.model.builder import GraphBuilder
from csdf.search.latency_storage import Pairing, ReleasePaths


def pipeline():
    """a (2) -> b (5) -> c (1), one firing of each at a time."""
    return (
        GraphBuilder("pipeline")
        .actor("a", 2, overlap=False)
        .actor("b", 5, overlap=False)
        .actor("c", 1, overlap=False)
        .channel("a", 1, "b", 1, name="ab")
        .channel("b", 1, "c", 1, name="bc")
        .graph()
    )


def test_a_slow_source_has_the_latency_of_the_path_to_the_sink():
    found = source_latency(pipeline(), "a", "c", 10)
    assert (found.latency, found.max_release_delay, found.jitter) == (8, 0, 0)


def test_a_source_as_fast_as_the_graph_is_answered_in_the_same_time():
    assert source_latency(pipeline(), "a", "c", 5).latency == 8


def test_a_source_faster_than_the_graph_has_no_latency():
    found = source_latency(pipeline(), "a", "c", 4)
    assert (found.min_period, found.latency, found.jitter) == (5, None, None)


def test_little_room_makes_the_source_wait():
    """Room for one token on ab: a starts again when b has taken it away, at the end of b."""
    tight = with_capacities(pipeline(), {"ab": 1})
    # a 0-2, b 2-7, a 7-9, ...: period 7. At that pace nobody waits.
    assert throughput(tight).period == 7
    found = source_latency(tight, "a", "c", 7)
    assert (found.latency, found.max_release_delay) == (8, 0)
    assert source_latency(tight, "a", "c", 6).latency is None


def test_bursts_of_the_sink_are_jitter():
    """Each firing of a makes two tokens; b takes 1 for each, one after the other."""
    graph = (
        GraphBuilder("burst").actor("a", 2).actor("b", 1, overlap=False)
        .channel("a", 2, "b", 1).graph()
    )  # fmt: skip
    # Ends at 3, 4, 13, 14, ... of an even 0, 5, 10, 15: 3, -1, 3, -1.
    found = source_latency(graph, "a", "b", 10)
    assert (found.latency, found.jitter, found.steady_jitter) == (4, 4, 4)


def test_tokens_at_the_start_make_jitter_that_does_not_last():
    """The first output needs no input and comes at 3; b is then free for the first input, of 2."""
    graph = (
        GraphBuilder("early").actor("a", 2, overlap=False).actor("b", 3, overlap=False)
        .channel("a", 1, "b", 1, initial_tokens=1).graph()
    )  # fmt: skip
    found = source_latency(graph, "a", "b", 10)
    # Outputs end at 3, 6, 15, 25: of 0, 10, 20, 30 that is 3, -4, -5, -5.
    assert (found.distance, found.latency, found.dependency_latency) == (1, 3, 6)
    assert (found.jitter, found.steady_jitter) == (8, 0)


def test_static_orders_count():
    cores = (Core(name="p"), Core(name="q"))
    ends = (("p", "q"), ("q", "p"))
    platform = Platform(
        name="two",
        cores=cores,
        connections=tuple(Connection(source=a, target=b, latency=3) for a, b in ends),
    )
    orders = {"p": StaticOrder(periodic=("a", "c")), "q": StaticOrder(periodic=("b",))}
    mapping = Mapping(binding={"a": "p", "b": "q", "c": "p"}, orders=orders)
    # a 2, over 3, b 5, back 3, c 1: p takes the next a when c has ended.
    found = source_latency(pipeline(), "a", "c", 20, platform=platform, mapping=mapping)
    assert (found.min_period, found.latency, found.max_release_delay) == (14, 14, 0)


def test_wheels_that_start_together_count():
    graph = GraphBuilder("one").actor("a", 3, overlap=False).graph()
    platform = Platform(name="shared", cores=(Core(name="p", wheel=10, slice=2),))
    mapping = Mapping(binding={"a": "p"}, orders={"p": StaticOrder(periodic=("a",))})
    # Released at 0, 20, ...: two units at once, the third at 10: 11.
    found = source_latency(graph, "a", "a", 20, platform=platform, mapping=mapping)
    assert found.latency == 11


@pytest.mark.parametrize(
    ("words", "error", "message"),
    [
        (("z", "c", 5), InvalidGraph, "no actor"),
        (("a", "c", 0), CsdfError, "expected more than 0"),
        (("c", "a", 5), CsdfError, "'a' never needs a firing of 'c'"),
    ],
)
def test_what_has_no_latency_is_refused(words, error, message):
    with pytest.raises(error, match=message):
        source_latency(pipeline(), *words)


def random_question(seed):
    draw = random.Random(seed)
    shape = GraphShape(actors=draw.randint(2, 5), max_phases=1 + seed % 3)
    graph = random_graph(seed, shape)
    names = [actor.name for actor in graph.actors]
    least = throughput(graph).period
    period = least * draw.choice([1, 1, 2]) + draw.choice([0, 1, Fraction(1, 3)])
    return graph, draw.choice(names), draw.choice(names), period


def compare(seed):
    """Execution until a state recurs, and longest paths over the firings of one iteration."""
    graph, source, sink, period = random_question(seed)
    found = source_latency(graph, source, sink, period)
    for distance, latency in ((0, found.latency), (found.distance, found.dependency_latency)):
        pairing = Pairing(source=source, sink=sink, distance=distance)
        paths = ReleasePaths(graph, repetition_vector(graph), pairing, period)
        channels = bound_channels(graph).channels
        path = paths.latency(channels)
        assert path.latency == latency, seed
        assert {*path.channels} <= {channel.name for channel in channels}, seed


@pytest.mark.parametrize("seed", range(60))
def test_execution_and_longest_paths_agree(seed):
    compare(seed)


@pytest.mark.slow
def test_execution_and_longest_paths_agree_on_250_graphs():
    for seed in range(1000, 1250):
        compare(seed)


def test_work_that_takes_no_time_is_answered_at_once():
    graph = (
        GraphBuilder("instant").actor("a", 0, overlap=False).actor("b", 0, overlap=False)
        .channel("a", 1, "b", 1).graph()
    )  # fmt: skip
    assert source_latency(graph, "a", "b", 5).latency == 0


def far_apart():
    """A source of two phases and its sink, which has 40 tokens, 20 iterations, before it needs one."""
    return (
        GraphBuilder("far").actor("a", [1, 1], overlap=False).actor("b", 2, overlap=False)
        .channel("a", [1, 1], "b", 1, initial_tokens=40)
        .channel("b", 1, "a", [1, 1], initial_tokens=2).graph()
    )  # fmt: skip


def test_a_sink_twenty_iterations_ahead_is_paired_with_what_it_needs():
    found = dependency_latency(far_apart(), "a", "b")
    assert found.distance == 20
    # Alone: a ends at 1 and 2, b takes 2 behind each of them, one after the other: 1 + 2 + 2.
    assert found.minimal == 5
    # b works without a pause, so that its firings 40 and 41 end at 82 and 84; from the second iteration
    # on a waits for b: it starts at 4n - 2, and what needs it ends at 4n + 84.
    assert found.self_timed == 86


def test_static_orders_are_followed_to_the_iteration_that_needs_the_source():
    cores = (Core(name="p"), Core(name="q"))
    mapping = Mapping(
        binding={"a": "p", "b": "q"},
        orders={"p": StaticOrder(periodic=("a", "a")), "q": StaticOrder(periodic=("b", "b"))},
    )
    found = source_latency(
        far_apart(), "a", "b", 4, platform=Platform(name="two", cores=cores), mapping=mapping
    )
    # Released at 0, 2, 4, ..., while b ends its firings at 2, 4, ...: tokens do not run out. Firing
    # 41 + 2n of b ends at 84 + 4n, and iteration n was released at 4n.
    assert (found.distance, found.dependency_latency) == (20, 84)


def test_a_phase_that_waits_for_the_one_before_it_adds_no_channel_to_the_path():
    # a ends at 2; the second phase of b takes nothing, starts no earlier than the first, and takes 7.
    graph = (
        GraphBuilder("silent").actor("a", 2, overlap=False).actor("b", [1, 7])
        .channel("a", 1, "b", [1, 0], name="ab").graph()
    )  # fmt: skip
    pairing = Pairing(source="a", sink="b", distance=0)
    path = ReleasePaths(graph, repetition_vector(graph), pairing, Fraction(5))
    assert path.latency(graph.channels) == (9, ("ab",))

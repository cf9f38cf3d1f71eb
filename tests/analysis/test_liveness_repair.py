"""Tokens that make a graph live: the same as by a new search for a deadlock after each repair."""

from dataclasses import replace
from hashlib import sha256
from random import Random

import pytest

from csdf.analysis.bound_channels import bound_channels
from csdf.analysis.liveness import deadlock
from csdf.analysis.liveness_repair import added_tokens
from csdf.generation import GraphShape, random_graph
from csdf.model.builder import GraphBuilder
from tests.both_kernels import BOTH, use


def repaired_one_deadlock_at_a_time(graph, random):
    """Return the tokens added to each channel, by a whole analysis after each repair."""
    added = dict.fromkeys((channel.name for channel in graph.channels), 0)
    tokens = {channel.name: channel.initial_tokens for channel in graph.channels}
    while (blocking := deadlock(with_tokens(graph, tokens))) is not None:
        blocked = blocking.cycle[random.randrange(len(blocking.cycle))]
        tokens[blocked.channel] += blocked.needed - blocked.tokens
        added[blocked.channel] += blocked.needed - blocked.tokens
    return added


def with_tokens(graph, tokens):
    channels = tuple(replace(c, initial_tokens=tokens[c.name]) for c in graph.channels)
    return replace(graph, channels=channels)


SHAPES = {
    "rings": GraphShape(actors=12, extra_channels=12, max_repetitions=4),
    "phases": GraphShape(actors=8, extra_channels=8, max_phases=3),
    "capacities": GraphShape(actors=6, extra_channels=5, is_bounded=True),
    "trees": GraphShape(actors=8, extra_channels=6, is_strongly_connected=False),
}


@pytest.mark.parametrize("backend", BOTH)
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("seed", range(4))
def test_a_repair_that_continues_adds_the_tokens_of_one_that_starts_again(
    shape, seed, backend, monkeypatch
):
    use(monkeypatch, backend)
    bounded = bound_channels(random_graph(seed, shape))
    empty = with_tokens(bounded, dict.fromkeys((c.name for c in bounded.channels), 0))
    added = added_tokens(empty, Random(seed).randrange)
    assert added == repaired_one_deadlock_at_a_time(empty, Random(seed))
    assert deadlock(with_tokens(empty, added)) is None


def test_a_live_graph_needs_no_tokens():
    graph = GraphBuilder().actor("a", 1).actor("b", 1).channel("a", 2, "b", 3, name="ab").graph()
    assert added_tokens(graph, Random(1).randrange) == {"ab": 0}


def test_a_thousand_actors_with_a_thousand_more_channels_are_drawn_at_once():
    shape = GraphShape(actors=1000, extra_channels=1000, max_repetitions=4)
    assert deadlock(random_graph(1, shape)) is None


def test_a_seed_draws_the_graph_that_it_drew_before_the_cycles_were_followed_by_a_kernel():
    shape = GraphShape(actors=300, extra_channels=900, max_phases=2)
    tokens = [channel.initial_tokens for channel in random_graph(1, shape).channels]
    digest = sha256(repr(tokens).encode()).hexdigest()
    assert digest == "2717b383ea236d4ed4fbe66a9cc51dabe8649381dbca59e89ecc660613755033"

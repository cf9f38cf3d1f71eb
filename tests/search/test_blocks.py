"""Pieces of a graph that are live, or not, each on its own."""

import random

import networkx
import pytest

from csdf.analysis.bound_channels import with_capacities
from csdf.analysis.liveness import deadlock
from csdf.generation import GraphShape, random_graph
from csdf.model.builder import GraphBuilder
from csdf.search.biconnected import live_blocks
from csdf.search.variables import capacity_step, least_capacity

SHAPE = GraphShape(actors=6, extra_channels=2, max_phases=3, is_strongly_connected=False)


def diamonds():
    """a to d over b and c, then d to e, then e to f twice."""
    builder = GraphBuilder("diamonds")
    for name in "abcdef":
        builder.actor(name, 1, overlap=False)
    for producer, consumer in ("ab", "ac", "bd", "cd", "de", "ef", "ef"):
        builder.channel(producer, 1, consumer, 1)
    return builder.graph()


def between_actors(graph):
    return {channel.name for channel in graph.channels if not channel.is_self_loop}


def test_a_chain_of_diamonds_falls_apart_between_them():
    found = sorted(sorted(between_actors(block)) for block in live_blocks(diamonds()))
    assert found == [["a to b", "a to c", "b to d", "c to d"], ["d to e"], ["e to f", "e to f 2"]]


def test_every_piece_has_the_self_loops_of_its_actors():
    for block in live_blocks(diamonds()):
        loops = {one.producer for one in block.channels if one.is_self_loop}
        assert loops == {actor.name for actor in block.actors}


def test_channels_that_share_a_capacity_stay_together():
    found = live_blocks(diamonds(), [("a to b", "e to f")])
    assert sorted(len(between_actors(block)) for block in found) == [1, 6]


def test_an_actor_without_channels_is_a_piece():
    graph = GraphBuilder("alone").actor("a", 1, overlap=False).actor("b", 1).graph()
    assert [[actor.name for actor in block.actors] for block in live_blocks(graph)] == [
        ["a"], ["b"],
    ]  # fmt: skip


@pytest.mark.parametrize("seed", range(40))
def test_pieces_are_the_biconnected_components_of_networkx(seed):
    graph = random_graph(seed, GraphShape(actors=9, is_strongly_connected=False))
    pairs = networkx.Graph(
        (one.producer, one.consumer) for one in graph.channels if not one.is_self_loop
    )
    expected = {frozenset(found) for found in networkx.biconnected_components(pairs)}
    blocks = live_blocks(graph)
    found = {frozenset(actor.name for actor in block.actors) for block in blocks}
    assert {names for names in found if len(names) > 1} == expected
    listed = [name for block in blocks for name in between_actors(block)]
    assert sorted(listed) == sorted(between_actors(graph))


def test_a_bounded_graph_is_live_if_and_only_if_every_piece_is():
    answers = set()
    for seed in range(300):
        generator = random.Random(seed)
        graph = random_graph(seed, SHAPE)
        capacities = {
            one.name: least_capacity(one) + generator.randrange(3) * capacity_step(one)
            for one in graph.channels
            if not one.is_self_loop
        }
        bounded = with_capacities(graph, capacities)
        is_live = deadlock(bounded) is None
        assert all(deadlock(block) is None for block in live_blocks(bounded)) == is_live, seed
        answers.add(is_live)
    assert answers == {True, False}

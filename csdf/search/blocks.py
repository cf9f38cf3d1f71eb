"""A graph in pieces that are live, or not, each on its own.

Where a graph is stuck, each actor waits for a neighbour, for tokens or for space, and some of them
in a circle. A circle without repetition stays inside one block: a largest set of channels of which
any two lie on a common undirected cycle. Alone, that block reaches the same state and is stuck too.
So a graph is live if and only if every block is, and the smallest storage without deadlock is the
sum over the blocks. (For a period this does not hold: critical cycles may pass an actor twice.)

Source of the decomposition: Hopcroft, Tarjan, Efficient algorithms for graph manipulation,
CACM 16(6), 1973.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from csdf.model.graph import Channel, Graph


def live_blocks(graph: Graph, together: Sequence[Collection[str]] = ()) -> list[Graph]:
    """Return subgraphs such that the graph is live if and only if each of them is.

    Each channel between two actors is in just one of them, a self-loop in every one that has its
    actor. together: names of channels that have to be in one piece. O(actors + channels).
    """
    blocks = _joined(list(_blocks(graph)), together)
    alone = {actor.name for actor in graph.actors}.difference(
        end for block in blocks for channel in block for end in (channel.producer, channel.consumer)
    )
    pieces = [_subgraph(graph, block, ()) for block in blocks]
    return pieces + [_subgraph(graph, (), (name,)) for name in sorted(alone)]


def _subgraph(graph: Graph, block: Collection[Channel], others: Collection[str]) -> Graph:
    names = {end for channel in block for end in (channel.producer, channel.consumer)}.union(others)
    kept = {channel.name for channel in block}
    return replace(
        graph,
        actors=tuple(actor for actor in graph.actors if actor.name in names),
        channels=tuple(
            channel
            for channel in graph.channels
            if channel.name in kept or (channel.is_self_loop and channel.producer in names)
        ),
        origin=None,
    )


def _joined(
    blocks: list[list[Channel]], together: Sequence[Collection[str]]
) -> list[list[Channel]]:
    """The blocks, those that share a group of channels as one."""
    for group in together:
        touched = [block for block in blocks if any(one.name in group for one in block)]
        apart = [block for block in blocks if not any(one.name in group for one in block)]
        blocks = [*apart, [channel for block in touched for channel in block]] if touched else apart
    return blocks


def _blocks(graph: Graph) -> Iterator[list[Channel]]:
    """Biconnected components of the undirected graph, as channels; self-loops are left out."""
    neighbours: dict[str, list[Channel]] = {actor.name: [] for actor in graph.actors}
    for channel in graph.channels:
        if not channel.is_self_loop:
            neighbours[channel.producer].append(channel)
            neighbours[channel.consumer].append(channel)
    depth: dict[str, int] = {}
    for root in neighbours:
        if root not in depth:
            yield from _blocks_from(root, neighbours, depth)


def _blocks_from(
    root: str, neighbours: dict[str, list[Channel]], depth: dict[str, int]
) -> Iterator[list[Channel]]:
    """Depth first: a block ends where nothing below an actor reaches above it."""
    depth[root] = 0
    highest = {root: 0}  # least depth that an actor, or what is below it, reaches
    used: set[str] = set()
    stack: list[Channel] = []  # channels of blocks that have not ended
    path = [(root, iter(neighbours[root]))]
    begins: list[int] = []  # where on the stack the channels below each actor of the path begin
    while path:
        here, channels = path[-1]
        channel = next((one for one in channels if one.name not in used), None)
        if channel is None:
            path.pop()
            if path:
                above, begin = path[-1][0], begins.pop()
                highest[above] = min(highest[above], highest[here])
                if highest[here] >= depth[above]:
                    yield stack[begin:]
                    del stack[begin:]
            continue
        used.add(channel.name)
        there = channel.consumer if channel.producer == here else channel.producer
        stack.append(channel)
        if there in depth:
            highest[here] = min(highest[here], depth[there])
        else:
            begins.append(len(stack) - 1)
            depth[there] = highest[there] = len(path)
            path.append((there, iter(neighbours[there])))

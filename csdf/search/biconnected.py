"""Biconnected components of a graph: its minimum live storage is the sum over the components.

In a deadlock each actor waits for a neighbour, for tokens or for space, so some actors wait for
each other in a cycle. A simple cycle lies inside one component: a maximal set of channels in
which any two lie on a common simple undirected cycle. On its own, the component reaches the same
state and deadlocks too. Hence a graph is live if and only if every component is, and the minimum
storage without deadlock is the sum over the components. This does not hold for a period: critical
cycles may pass an actor twice.

Source of the decomposition: Hopcroft, Tarjan, Efficient algorithms for graph manipulation, CACM
16(6), 1973.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from csdf.model.graph import Channel, Graph


def live_blocks(graph: Graph, together: Sequence[Collection[str]] = ()) -> list[Graph]:
    """Return subgraphs such that the graph is live if and only if each of them is.

    Each channel between two actors is in exactly one subgraph, a self-loop in every subgraph with its
    actor. together: groups of channel names that remain in one subgraph. O(actors + channels).
    """
    blocks = _joined(list(_blocks(graph)), together)
    alone = {actor.name for actor in graph.actors}.difference(
        end for block in blocks for channel in block for end in (channel.producer, channel.consumer)
    )
    actors = {actor.name: number for number, actor in enumerate(graph.actors)}
    channels = {channel.name: number for number, channel in enumerate(graph.channels)}
    loops: dict[str, list[Channel]] = {}
    for channel in graph.channels:
        if channel.is_self_loop:
            loops.setdefault(channel.producer, []).append(channel)

    def piece(block: Collection[Channel], others: Collection[str]) -> Graph:
        """Return the subgraph with these channels and actors, in the order of the graph."""
        names = {end for channel in block for end in (channel.producer, channel.consumer)}
        names.update(others)
        # A self-loop limits its actor wherever the actor occurs,
        # so every component of it gets a copy.
        kept = [*block, *(loop for name in names for loop in loops.get(name, ()))]
        return replace(
            graph,
            actors=tuple(graph.actor(name) for name in sorted(names, key=actors.__getitem__)),
            channels=tuple(sorted(kept, key=lambda channel: channels[channel.name])),
            origin=None,
        )

    return [piece(block, ()) for block in blocks] + [piece((), (name,)) for name in sorted(alone)]


def _joined(
    blocks: list[list[Channel]], together: Sequence[Collection[str]]
) -> list[list[Channel]]:
    """Return the blocks; blocks that share a group of channels are merged."""
    for group in together:
        touched = [block for block in blocks if any(channel.name in group for channel in block)]
        apart = [block for block in blocks if not any(channel.name in group for channel in block)]
        blocks = [*apart, [channel for block in touched for channel in block]] if touched else apart
    return blocks


def _blocks(graph: Graph) -> Iterator[list[Channel]]:
    """Yield the biconnected components of the undirected graph, as channels without self-loops."""
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
    """Search depth first: a block ends at an actor if no channel below the actor leads above it."""
    depth[root] = 0
    highest = {root: 0}  # minimum depth reached from the subtree of an actor
    used: set[str] = set()
    stack: list[Channel] = []  # channels of blocks that have not ended
    path = [(root, iter(neighbours[root]))]
    begins: list[int] = []  # where on the stack the channels below each actor of the path begin
    while path:
        here, channels = path[-1]
        channel = next((channel for channel in channels if channel.name not in used), None)
        if channel is None:
            path.pop()
            if path:
                above, begin = path[-1][0], begins.pop()
                highest[above] = min(highest[above], highest[here])
                # Hopcroft and Tarjan: `above` is an articulation point of this subtree, so that the
                # channels on the stack since the subtree began are one component.
                if highest[here] >= depth[above]:
                    yield stack[begin:]
                    del stack[begin:]
            continue
        # Channels are marked, not actors: parallel channels form a cycle of two.
        used.add(channel.name)
        there = channel.consumer if channel.producer == here else channel.producer
        stack.append(channel)
        if there in depth:
            # A back edge: it closes an undirected cycle up to the depth of its other end.
            highest[here] = min(highest[here], depth[there])
        else:
            begins.append(len(stack) - 1)
            depth[there] = highest[there] = len(path)
            path.append((there, iter(neighbours[there])))

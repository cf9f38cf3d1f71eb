"""Strongly connected components: the parts of a graph that can hold each other back."""

from __future__ import annotations

from collections.abc import Sequence

from csdf.model.indexed import IndexedGraph


def strong_components(actors: int, successors: Sequence[Sequence[int]]) -> list[int]:
    """Return for each actor the number of its strongly connected component.

    successors: for each actor those that it feeds. Numbers are in reverse topological order: no
    channel leads from a component to one with a larger number. O(actors + channels).
    Source: Tarjan, Depth-first search and linear graph algorithms, SIAM J. Computing 1(2), 1972;
    the recursion is written out, so depth has no limit.
    """
    component = [-1] * actors
    low = [-1] * actors
    seen_at = [-1] * actors
    next_child = [0] * actors
    open_actors: list[int] = []
    clock = 0
    found = 0
    for root in range(actors):
        if seen_at[root] >= 0:
            continue
        path = [root]
        while path:
            actor = path[-1]
            if seen_at[actor] < 0:
                seen_at[actor] = low[actor] = clock
                clock += 1
                open_actors.append(actor)
            if next_child[actor] < len(successors[actor]):
                child = successors[actor][next_child[actor]]
                next_child[actor] += 1
                if seen_at[child] < 0:
                    path.append(child)
                elif component[child] < 0:
                    low[actor] = min(low[actor], seen_at[child])
                continue
            path.pop()
            if path:
                low[path[-1]] = min(low[path[-1]], low[actor])
            if low[actor] == seen_at[actor]:
                while component[actor] < 0:
                    component[open_actors.pop()] = found
                found += 1
    return component


def cyclic_components(graph: IndexedGraph) -> list[tuple[list[int], list[int]]]:
    """Return actors and inner channels of every strongly connected component that has a channel."""
    actors = range(len(graph.phases))
    successors: list[list[int]] = [[] for _ in actors]
    for producer, consumer in zip(graph.producer, graph.consumer, strict=True):
        successors[producer].append(consumer)
    component = strong_components(len(actors), successors)
    members: dict[int, tuple[list[int], list[int]]] = {}
    for channel, (producer, consumer) in enumerate(
        zip(graph.producer, graph.consumer, strict=True)
    ):
        if component[producer] == component[consumer]:
            members.setdefault(component[producer], ([], []))[1].append(channel)
    for actor in actors:
        if component[actor] in members:
            members[component[actor]][0].append(actor)
    return [members[number] for number in sorted(members)]

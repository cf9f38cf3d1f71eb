"""Strongly connected components (Tarjan): the parts of a graph that can hold each other back."""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd
from typing import NamedTuple

from csdf.model.indexed import IndexedGraph


def strong_components(actors: int, successors: Sequence[Sequence[int]]) -> list[int]:
    """Return for each actor the number of its strongly connected component.

    successors: for each actor its consumers. Numbers are in reverse topological order: no
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
    number = 0
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
                    component[open_actors.pop()] = number
                number += 1
    return component


class Component(NamedTuple):
    """A strongly connected component that has a channel, in the numbers of the whole graph.

    repeats: iterations of the component alone in one of the graph. cycles: of each of its actors in one
    iteration of the component.
    """

    actors: Sequence[int]
    channels: Sequence[int]
    repeats: int
    cycles: Sequence[int]


def cyclic_components(graph: IndexedGraph, cycles: Sequence[int]) -> list[Component]:
    """Return the strongly connected components that have a channel.

    cycles: of each actor in one iteration of the graph.
    """
    successors: list[list[int]] = [[] for _ in graph.phases]
    ends = list(zip(graph.producer, graph.consumer, strict=True))
    for producer, consumer in ends:
        successors[producer].append(consumer)
    number = strong_components(len(successors), successors)
    channels: dict[int, list[int]] = {}
    for channel, (producer, consumer) in enumerate(ends):
        if number[producer] == number[consumer]:
            channels.setdefault(number[producer], []).append(channel)
    actors: dict[int, list[int]] = {}
    for actor, label in enumerate(number):
        actors.setdefault(label, []).append(actor)
    components = []
    for label in sorted(channels):
        repeats = gcd(*(cycles[actor] for actor in actors[label]))
        alone = [cycles[actor] // repeats for actor in actors[label]]
        components.append(Component(actors[label], channels[label], repeats, alone))
    return components

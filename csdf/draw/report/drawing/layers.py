"""Layers of a drawing: cycles opened where tokens wait, and every edge leading on."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heapify, heappop, heappush

Edge = tuple[int, int]


def linear_order(nodes: int, edges: Sequence[Edge], feedback: Sequence[bool]) -> list[int]:
    """Return for each node its place in an order in which few edges lead back.

    A node comes after those it depends on. Where all wait for one another, the one comes next that
    lacks the fewest edges without initial tokens: in a live graph it usually lacks none. Ties by
    number. O(edges log nodes).
    """
    followers: list[list[tuple[int, bool]]] = [[] for _ in range(nodes)]
    lacking = [[0, 0] for _ in range(nodes)]  # edges without and with tokens
    for (source, target), has_tokens in zip(edges, feedback, strict=True):
        if source != target:
            followers[source].append((target, has_tokens))
            lacking[target][has_tokens] += 1
    waiting = [(*lacking[node], node) for node in range(nodes)]
    heapify(waiting)
    place = [-1] * nodes
    count = 0
    while waiting:
        *seen, node = heappop(waiting)
        if place[node] >= 0 or seen != lacking[node]:
            continue  # an entry from before it lacked less
        place[node] = count
        count += 1
        for target, has_tokens in followers[node]:
            if place[target] < 0:
                lacking[target][has_tokens] -= 1
                heappush(waiting, (*lacking[target], target))
    return place


def layers_of(nodes: int, edges: Sequence[Edge], order: Sequence[int]) -> list[int]:
    """Return the layer of each node; every edge, which must lead on in the order, goes to a later one.

    As early as possible, but a node that nothing leads to stands just before what it leads to.
    """
    followers: list[list[int]] = [[] for _ in range(nodes)]
    has_source = [False] * nodes
    for source, target in edges:
        followers[source].append(target)
        has_source[target] = True
    layer = [0] * nodes
    for node in sorted(range(nodes), key=order.__getitem__):
        for target in followers[node]:
            layer[target] = max(layer[target], layer[node] + 1)
    for node in range(nodes):
        if not has_source[node] and followers[node]:
            layer[node] = min(layer[target] for target in followers[node]) - 1
    return layer

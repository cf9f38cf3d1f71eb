"""Topological orders by simple rules: those of other tools, and starting points of the search."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator, Sequence
from random import Random

from planners.order.problem import NumberedGraph


def breadth_first(graph: NumberedGraph) -> list[int]:
    """Return the order of Kahn's algorithm with a queue: steps in the order in which they are ready."""
    waiting = [len(before) for before in graph.before]
    ready = deque(step for step, count in enumerate(waiting) if count == 0)
    order = []
    while ready:
        step = ready.popleft()
        order.append(step)
        for later in graph.after[step]:
            waiting[later] -= 1
            if waiting[later] == 0:
                ready.append(later)
    return order


def reverse_post_order(graph: NumberedGraph, *, largest_first: bool) -> list[int]:
    """Return the steps in the post-order of a depth-first search from the last steps to predecessors.

    largest_first: predecessors with more bytes of results first, else in the order of the file.
    """
    size = [sum(graph.sizes[tensor] for tensor in tensors) for tensors in graph.writes]
    order: list[int] = []
    is_met = [False] * graph.steps
    for last in (step for step in range(graph.steps) if not graph.after[step]):
        is_met[last] = True
        stack: list[tuple[int, Iterator[int]]] = [(last, iter(graph.before[last]))]
        while stack:
            step, sources = stack[-1]
            source = next((source for source in sources if not is_met[source]), None)
            if source is None:
                order.append(step)
                stack.pop()
                continue
            is_met[source] = True
            before = graph.before[source]
            if largest_first:
                before = sorted(before, key=lambda earlier: (-size[earlier], earlier))
            stack.append((source, iter(before)))
    return order


def file_order(graph: NumberedGraph) -> list[int]:
    """Return the order of the file, each step preceded by its missing predecessors."""
    order: list[int] = []
    is_met = [False] * graph.steps
    for first in range(graph.steps):
        stack = [] if is_met[first] else [first]
        while stack:
            step = stack[-1]
            missing = [source for source in graph.before[step] if not is_met[source]]
            if missing:
                stack += reversed(missing)
                continue
            stack.pop()
            if not is_met[step]:
                is_met[step] = True
                order.append(step)
    return order


def random_order(before: Sequence[Collection[int]], random: Random) -> list[int]:
    """Return a random topological order, with probability 1/2 depth first.

    before: the predecessors of each number, without duplicates.
    """
    is_depth_first = random.random() < 0.5
    after: list[list[int]] = [[] for _ in before]
    for number, sources in enumerate(before):
        for source in sources:
            after[source].append(number)
    missing = list(map(len, before))
    # The length of the order at which each number became ready.
    ready = {number: 0 for number, count in enumerate(missing) if not count}
    order: list[int] = []
    while ready:
        candidates = list(ready)
        if is_depth_first:
            latest = max(ready.values())
            candidates = [number for number, since in ready.items() if since == latest]
        order.append(random.choice(candidates))
        del ready[order[-1]]
        for later in after[order[-1]]:
            missing[later] -= 1
            if not missing[later]:
                ready[later] = len(order)
    return order

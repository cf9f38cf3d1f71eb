"""A topological order: each layer follows the layers that it reads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from graphlib import CycleError, TopologicalSorter
from heapq import heappop, heappush


def reading_order(sources: Mapping[int, Iterable[int]]) -> list[int]:
    """Return the numbers in topological order; among candidates, the smallest number comes first.

    Numbers on a cycle, and numbers that depend on a cycle, are left out.
    """
    sorter = TopologicalSorter(sources)
    with suppress(CycleError):
        sorter.prepare()
    order: list[int] = []
    ready = sorted(sorter.get_ready())
    while ready:
        order.append(heappop(ready))
        sorter.done(order[-1])
        for number in sorter.get_ready():
            heappush(ready, number)
    return order

"""A topological order: each layer behind the layers that it reads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from graphlib import CycleError, TopologicalSorter
from heapq import heappop, heappush


def reading_order(sources: Mapping[int, Iterable[int]]) -> list[int]:
    """Return the numbers, each behind its sources, the smallest first where there is a choice.

    Numbers on a cycle, and those that depend on one, are left out.
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

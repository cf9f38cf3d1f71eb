"""The order of the layers of a partition in which whole tensors need least room at once.

Layers side by side on branches may be carried out in several orders. A layer needs the edges that are
in use when it fires: those from it and from layers before it, to it and to layers that have not fired.
Which these are depends on the set of layers before it alone, so the least peak over all orders is a
path over such sets. Gates, with all other layers before or behind them, cut the sets into small ones.
Source of the recurrence: Ahn et al., Ordering Chaos, MLSys 2020, section 3.1 (zero-indegree sets).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from planners.reuse.application import Application, Partition
from planners.reuse.evaluation import Evaluator

MOST_SETS = 2_000  # of layers, kept after each layer; beyond it those with the least peak


class _Flow(NamedTuple):
    """An edge with its ends as places in the partition; None outside of it. Size in elements."""

    producer: int | None
    consumer: int | None
    elements: int


class _Way(NamedTuple):
    """The best order found of a set of layers."""

    peak: int
    order: tuple[int, ...]


class _Orders:
    """The orders of one partition."""

    def __init__(self, flows: Sequence[_Flow], above: Sequence[int]) -> None:
        self._flows = flows
        self._above = above

    def best(self) -> tuple[int, ...]:
        """Return the order with the least peak; the one that is there, if it is as good."""
        ways = {0: _Way(0, ())}
        for _ in self._above:
            ways = _kept(self._longer(ways))
        found = next(iter(ways.values()))
        stated = range(len(self._above))
        is_as_good = max(self._load((1 << n) - 1, (2 << n) - 1) for n in stated) <= found.peak
        return tuple(stated) if is_as_good else found.order

    def _longer(self, ways: dict[int, _Way]) -> dict[int, _Way]:
        """The best order of each set with one layer more."""
        found: dict[int, _Way] = {}
        for fired, way in ways.items():
            for layer, above in enumerate(self._above):
                if not fired >> layer & 1 and not above & ~fired:
                    reached = fired | 1 << layer
                    peak = max(way.peak, self._load(fired, reached))
                    candidate = _Way(peak, (*way.order, layer))
                    found[reached] = min(found.get(reached, candidate), candidate)
        return found

    def _load(self, before: int, reached: int) -> int:
        return sum(
            flow.elements
            for flow in self._flows
            if (flow.producer is None or reached >> flow.producer & 1)
            and (flow.consumer is None or not before >> flow.consumer & 1)
        )


def _kept(ways: dict[int, _Way]) -> dict[int, _Way]:
    if len(ways) <= MOST_SETS:
        return ways
    return dict(sorted(ways.items(), key=lambda one: one[1])[:MOST_SETS])


def in_best_order(application: Application) -> Application:
    """Return the application with the layers of each partition in the order of the least peak.

    Exact for layers that all work as a whole, as long as no more than MOST_SETS sets of layers are
    possible after a number of layers; else a beam search. O(sets * layers * edges).
    """
    partitions = iter(_partitions(Evaluator(application)))
    members = tuple(
        replace(member, partitions=tuple(next(partitions) for _ in member.partitions))
        for member in application.members
    )
    return replace(application, members=members)


def _partitions(evaluator: Evaluator) -> Iterator[Partition]:
    for number, (_, partition) in enumerate(evaluator.application.partitions):
        flows = [
            _Flow(stay.first, stay.last, edge.elements)
            for edge, stay in evaluator.models[number].residents.values()
        ]
        order = _Orders(flows, evaluator.models[number].above).best()
        yield replace(partition, layers=tuple(partition.layers[place] for place in order))

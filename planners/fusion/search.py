"""The best configurations of a chain: least time under a memory limit, and the front of the two.

The memory of a configuration is the most that any of its groups needs; its cost is the sum. So the
best ways to work the first sections are extended by one group after the other, and of those that
end with the same section only the pairs of memory and cost survive that no other improves on.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from planners.fusion.choices import NOTHING, Cost, Option
from planners.fusion.configurations import Configuration, Group
from planners.fusion.ways import Way


class FusionPoint(NamedTuple):
    """A configuration with the most bytes alive in it and its cost."""

    memory: int
    cost: Cost
    groups: Configuration
    parts: int  # groups that work by parts


def front(options: Iterable[Option], sections: int) -> list[FusionPoint]:
    """Return the points no other improves on, by growing memory and falling cost.

    Empty where no groups of the options cover all sections. Dynamic programming over cuts, exact in
    the memory and cost that the options state.
    """
    by_end: list[list[Option]] = [[] for _ in range(sections + 1)]
    for option in options:
        by_end[option.group.upto].append(option)
    best: list[list[FusionPoint]] = [[FusionPoint(0, NOTHING, (), 0)]]
    for upto in range(1, sections + 1):
        best.append(_extended(best, _useful(by_end[upto])))
    return best[-1]


def _extended(
    best: Sequence[Sequence[FusionPoint]], options: Sequence[Option]
) -> list[FusionPoint]:
    """The points that end with these options and that no other improves on.

    Of configurations that are equal otherwise, those with fewer groups that work by parts stay.
    """
    candidates = [
        (
            max(point.memory, option.memory),
            point.cost.nanoseconds + option.cost.nanoseconds,
            point.cost.multiply_accumulates + option.cost.multiply_accumulates,
            point.parts + (option.group.way is not Way.WHOLE),
            number,
            place,
        )
        for number, option in enumerate(options)
        for place, point in enumerate(best[option.group.first])
    ]
    kept: list[FusionPoint] = []
    for memory, nanoseconds, work, parts, number, place in sorted(candidates):
        cost = Cost(nanoseconds, work)
        if not kept or cost < kept[-1].cost:
            group = options[number].group
            kept.append(FusionPoint(memory, cost, (*best[group.first][place].groups, group), parts))
    return kept


def best_under(points: Sequence[FusionPoint], memory: int) -> FusionPoint | None:
    """Return the point of least cost within a memory limit; None if none fits."""
    place = bisect_right(points, memory, key=lambda point: point.memory)
    return points[place - 1] if place else None


def merged(groups: Configuration) -> Configuration:
    """Return the configuration with neighbouring groups that work layer by layer made one."""
    found: list[Group] = []
    for group in groups:
        if found and group.way is Way.WHOLE and found[-1].way is Way.WHOLE:
            before = found.pop()
            group = Group(first=before.first, upto=group.upto, way=Way.WHOLE, grid=group.grid)
        found.append(group)
    return tuple(found)


def _useful(options: Sequence[Option]) -> list[Option]:
    """The options of each group that no other of the same group improves on."""
    by_first: dict[int, list[Option]] = {}
    for option in options:
        by_first.setdefault(option.group.first, []).append(option)
    return [option for same in by_first.values() for option in _lowest(same)]


def _lowest(options: Sequence[Option]) -> list[Option]:
    kept: list[Option] = []
    for option in sorted(options, key=lambda one: (one.memory, one.cost)):
        if not kept or option.cost < kept[-1].cost:
            kept.append(option)
    return kept

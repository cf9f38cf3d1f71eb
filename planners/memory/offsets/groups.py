"""Groups of a plan, and the groups in which tensors lie whole."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from planners.streaming.course import Course
from planners.streaming.stages import Geometry


class WorkingGroup(NamedTuple):
    """Stages that work at the same time, or none, while the input is collected.

    arriving: the input, where it comes row by row.
    """

    geometry: tuple[Geometry, ...]
    arriving: str | None

    @property
    def result(self) -> str:
        """The tensor that the group makes."""
        if not self.geometry:
            assert self.arriving is not None
            return self.arriving
        return self.geometry[-1].firings.result


def lifetimes(course: Course, groups: Sequence[WorkingGroup]) -> dict[str, tuple[int, int]]:
    """Return the tensors that lie whole, with the first group and one past the last that has them."""
    begin: dict[str, int] = {}
    first = groups[0]
    passing = first.arriving if first.geometry else None  # the input, if it never lies whole
    if passing is None:
        begin[course.at(0)] = 0
    begin |= dict.fromkeys(course.others, 0)
    made = {
        one.firings.result: number for number, group in enumerate(groups) for one in group.geometry
    }
    end: dict[str, int] = {}
    for number, group in enumerate(groups):
        for one in group.geometry:
            for reading in one.firings.readings:
                if made.get(reading.tensor, -1) != number:
                    end[reading.tensor] = number + 1
    for name, number in made.items():
        is_last = name == groups[number].result
        if name in end or name in course.results or is_last:
            begin[name] = number
    last = len(groups)
    return {
        name: (number, last if name in course.results else end.get(name, number + 1))
        for name, number in begin.items()
        if name != passing
    }


def lives_of_lines(
    groups: Sequence[WorkingGroup], names: Collection[str]
) -> dict[str, tuple[int, int]]:
    """Return the lives of those tensors that a stage makes for its own group."""
    return {
        one.firings.result: (number, number + 1)
        for number, group in enumerate(groups)
        for one in group.geometry
        if one.firings.result in names
    }

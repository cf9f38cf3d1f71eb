"""The parts of a schedule as the judge sees them: places that are needed and made, as arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from planners.traffic.fused.group import FusedGroup, FusedLayer
from planners.traffic.fused.schedule import AGAIN, FusedSchedule

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class PartOfMaps:
    """Of each map, which places a part needs and makes, and which later parts need.

    later: any; inside: those in the same row or column of parts; beyond: the others.
    """

    outer: int
    needed: Sequence[Array]
    made: Sequence[Array]
    later: Sequence[Array]
    inside: Sequence[Array]
    beyond: Sequence[Array]


def longest_row(where: Array) -> int:
    """Return the most places of one row."""
    return int(where.sum(axis=1).max())


def rows_of(where: Array) -> list[Array]:
    """Return each row that has any of these places, on its own."""
    found = []
    for row in np.flatnonzero(where.any(axis=1)):
        one = np.zeros_like(where)
        one[row] = where[row]
        found.append(one)
    return found


def parts_of(schedule: FusedSchedule) -> list[PartOfMaps]:
    """Return all parts in their order: what they need and make is a rectangle of rows and columns."""
    outer, inner = (0, 1) if schedule.columns_first else (1, 0)
    along_outer, along_inner = _along(schedule, outer, 0), _along(schedule, inner, 1)
    found = []
    for place, one in enumerate(along_outer):
        for other in along_inner:
            rows, columns = (one, other) if schedule.columns_first else (other, one)
            needed, made = (
                [
                    np.outer(row, column)
                    for row, column in zip(rows[kind], columns[kind], strict=True)
                ]
                for kind in (0, 1)
            )
            found.append((place, needed, made))
    return _with_later(schedule.group, found)


def _along(schedule: FusedSchedule, axis: int, place: int) -> list[tuple[list[Array], list[Array]]]:
    """The elements of each map that each part along one axis needs and makes."""
    group, count = schedule.group, schedule.parts[axis]
    sizes = [group.dims(number)[1 + axis] for number in range(group.length + 1)]
    seen, ends = [np.zeros(size, dtype=bool) for size in sizes], group.ends
    found = []
    for part in range(count):
        needed: dict[int, Array] = {}
        made: dict[int, Array] = {}
        for number in range(group.length, -1, -1):
            wanted = np.zeros(sizes[number], dtype=bool)
            if number in ends:
                wanted[sizes[-1] * part // count : sizes[-1] * (part + 1) // count] = True
            for reader, layer in enumerate(group.layers, 1):
                if number in group.read_by(reader):
                    wanted |= _windows(layer, axis, made[reader])
                if (number, reader) in group.skips:
                    wanted |= made[reader]
            borders = schedule.borders if number else schedule.input_borders
            is_again = borders[place] is AGAIN
            needed[number], made[number] = wanted, wanted if is_again else wanted & ~seen[number]
            seen[number] |= wanted
        found.append(([needed[one] for one in sorted(needed)], [made[one] for one in sorted(made)]))
    return found


def _windows(layer: FusedLayer, axis: int, made: Array) -> Array:
    """The places of the input that these places of the output need, along one axis."""
    reach = layer.columns if axis else layer.rows
    found = np.zeros(reach.inputs, dtype=bool)
    for step in range(reach.kernel):
        under = np.flatnonzero(made) * reach.stride - reach.padding + step * reach.dilation
        found[under[(under >= 0) & (under < reach.inputs)]] = True
    return found


def _with_later(
    group: FusedGroup, found: Sequence[tuple[int, list[Array], list[Array]]]
) -> list[PartOfMaps]:
    maps = range(group.length + 1)
    inside = [np.zeros(group.dims(number)[1:], dtype=bool) for number in maps]
    beyond = [np.zeros(group.dims(number)[1:], dtype=bool) for number in maps]
    parts, row = [], -1
    for outer, needed, made in reversed(found):
        if outer != row:
            beyond = [one | other for one, other in zip(beyond, inside, strict=True)]
            inside = [np.zeros_like(one) for one in inside]
            row = outer
        later = [one | other for one, other in zip(beyond, inside, strict=True)]
        parts.append(PartOfMaps(outer, needed, made, later, inside, beyond))
        inside = [one | other for one, other in zip(inside, needed, strict=True)]
    return parts[::-1]

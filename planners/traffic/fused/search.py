"""The schedule of a group that moves least: all cuts, borders and holds of the model.

Cuts are even. Along one axis all of them are looked at; along both, of those whose largest part is
equally long only the one of the fewest parts, for there are too many. What each schedule moves
without its weights is counted first; what it holds, only where it could move less than the best one
found.

Answers of a search for the least traffic of a group.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product
from typing import Any, NamedTuple

from csdf.time_limit import Budget, stop_of
from planners.plan.regions import COLUMNS, ROWS
from planners.traffic.fused.accounting import (
    CutTables,
    Moved,
    Need,
    layer_needs,
    least_need,
    moved,
    needs,
    operations,
)
from planners.traffic.fused.bounds import least_moved
from planners.traffic.fused.group import FusedGroup
from planners.traffic.fused.schedule import (
    AGAIN,
    INPUT_BORDERS,
    KEPT,
    MAP_BORDERS,
    FusedSchedule,
    Hold,
    can_hold_one_map,
)

Parts = tuple[int, int]  # along rows, along columns


class Room(NamedTuple):
    """The elements that a schedule holds, and the weights of each layer that stay between parts."""

    held: int
    kept_weights: tuple[int, ...]


def room_for_weights(
    wanted: tuple[Need, ...],
    weights: tuple[int, ...],
    buffer: int,
    parts: int,
    sizes: tuple[int, ...] = (),
) -> Room | None:
    """Return the weights that can stay in a buffer, as many as save something; None if none fits.

    A layer whose weights all stay needs no place for them to pass through. A byte of weights that
    stays saves the same in every layer, so the least peak without them is best: the lowest
    level at which all those layers can keep their weights that would be above it otherwise. Only
    where weights have several sizes, which a rest may not be a multiple of, a higher level may keep
    more: then all are tried.
    weights: bytes. sizes: of one weight of each layer, each of which divides the larger ones; none
    given: 1.
    """
    sizes = sizes or (1,) * len(weights)
    lowest, best = max(need.full for need in wanted), None
    for level in sorted({lowest, *(max(lowest, need.streamed) for need in wanted)}):
        kept = [
            own if need.streamed > level else 0 for own, need in zip(weights, wanted, strict=True)
        ]
        left = buffer - level - sum(kept)
        if left < 0:
            continue
        _fill(kept, left, weights if parts > 1 else (), sizes)
        if best is None or sum(kept) > sum(best.kept_weights):
            best = Room(level + sum(kept), tuple(kept))
        if len(set(sizes)) == 1:
            break
    return best


def _fill(kept: list[int], left: int, weights: tuple[int, ...], sizes: tuple[int, ...]) -> None:
    """Keep as many more weights as there is room for: the largest first, smaller ones fill the rest."""
    for number in sorted(range(len(weights)), key=lambda one: -sizes[one]):
        extra = min(left, weights[number] - kept[number])
        extra -= extra % sizes[number]
        kept[number] += extra
        left -= extra


class _Candidate:
    """A schedule without its weights; what it holds is counted when it is first asked for."""

    def __init__(self, schedule: FusedSchedule, maps_moved: int) -> None:
        self.schedule = schedule
        self.maps_moved = maps_moved
        self._needs: tuple[Need, ...] | int = 0

    def needs(self, tables: CutTables, limit: int) -> tuple[Need, ...] | None:
        """Return what each layer needs; None where that is above the limit."""
        if isinstance(self._needs, int) and self._needs <= limit:
            self._needs = needs(self.schedule, tables, limit)
        return None if isinstance(self._needs, int) else self._needs


class GroupSearch:
    """Finds the best schedule of one group for one buffer after another."""

    def __init__(self, group: FusedGroup) -> None:
        self.group = group
        self.bound = least_moved(group)
        self._tables = CutTables(group)
        self._weights = sum(self._tables.weights)
        self._sizes = tuple(layer.weight_bytes for layer in group.layers)
        self._grids = sorted(grids(group), key=lambda parts: (parts[0] * parts[1], parts))
        self._finest: Parts = group.dims(group.length)[1:]
        self._candidates: dict[Parts, list[_Candidate]] = {}
        self._least_needs: dict[Parts, int] = {}

    def best(
        self, buffer: int, below: int | None = None, budget: Budget = None
    ) -> FusedTraffic | None:
        """Return the schedule that moves least in a buffer of so many bytes.

        None where none fits, or none moves less than `below` bytes. budget: a stop,
        or seconds; ends the search by GaveUp.
        """
        stop = stop_of(budget)
        least, found = below, None
        most_room = buffer - self._least_need(self._finest)
        for parts in self._grids:
            stop.look()
            if not self._could_be_less(parts, most_room, least):
                continue
            left = buffer - self._least_need(parts)
            if not self._could_be_less(parts, left, least):
                continue
            weights = self._least_weights(parts, left)
            for one in self._of(parts):
                if least is not None and one.maps_moved + weights >= least:
                    break
                room = self._room(one, buffer, least)
                if room is None:
                    continue
                again = self._weights - sum(room.kept_weights)
                total = one.maps_moved + self._weights + (one.schedule.count - 1) * again
                if least is None or total < least:
                    least = total
                    found = replace(one.schedule, kept_weights=room.kept_weights)
        return None if found is None else answer_of(found, self._tables, self.bound)

    def could_fit(self, buffer: int) -> bool:
        """Whether the finest cut leaves the maps enough room; if not, no longer group's does."""
        return self._least_need(self._finest) <= buffer

    def _room(self, one: _Candidate, buffer: int, least: int | None) -> Room | None:
        """Return which weights stay; None where the schedule does not fit, or cannot move less."""
        limit, again = buffer, one.schedule.count - 1
        if least is not None and again:
            # It moves less only with so many weights in the buffer, which the maps must leave room.
            too_much = one.maps_moved + one.schedule.count * self._weights - least
            limit -= max(0, too_much // again + 1)
        wanted = one.needs(self._tables, limit)
        if wanted is None:
            return None
        return room_for_weights(
            wanted, self._tables.weights, buffer, one.schedule.count, self._sizes
        )

    def _could_be_less(self, parts: Parts, room: int, least: int | None) -> bool:
        """Whether this cut could move less with so much room for weights."""
        if room < 0 or least is None:
            return room >= 0
        return self.bound - self._weights + self._least_weights(parts, room) < least

    def _least_weights(self, parts: Parts, room: int) -> int:
        """Bytes of weights that this cut moves with so much room for them."""
        again = self._weights - min(room, self._weights)
        return self._weights + (parts[0] * parts[1] - 1) * again

    def _least_need(self, parts: Parts) -> int:
        """Bytes that the maps between the layers need with this cut, at least."""
        if parts not in self._least_needs:
            is_known = not can_hold_one_map(self.group)
            self._least_needs[parts] = least_need(parts, self._tables) if is_known else 0
        return self._least_needs[parts]

    def _of(self, parts: Parts) -> list[_Candidate]:
        if parts not in self._candidates:
            found = [
                _Candidate(one, moved(one, self._tables).total - self._weights * one.count)
                for one in _schedules(self.group, parts)
            ]
            self._candidates[parts] = sorted(found, key=lambda one: one.maps_moved)
        return self._candidates[parts]


def answer_of(
    schedule: FusedSchedule, tables: CutTables | None = None, bound: int | None = None
) -> FusedTraffic:
    """Return what a schedule moves and holds, with the weights it says it keeps."""
    tables = CutTables(schedule.group) if tables is None else tables
    kept = schedule.kept_weights or (0,) * schedule.group.length
    level = max(
        need.full if own >= weights else need.streamed
        for need, own, weights in zip(
            layer_needs(schedule, tables), kept, tables.weights, strict=True
        )
    )
    return FusedTraffic(
        schedule=schedule,
        moved=moved(schedule, tables),
        held=level + sum(kept),
        bound=least_moved(schedule.group) if bound is None else bound,
        operations=operations(schedule, tables),
        necessary=sum(layer.outputs * layer.operations for layer in schedule.group.layers),
    )


def part_counts(length: int) -> tuple[int, ...]:
    """Return for each size of the largest even part the fewest parts of it, fewest first."""
    fewest: dict[int, int] = {}
    for parts in range(1, length + 1):
        fewest.setdefault(-(-length // parts), parts)
    return tuple(fewest.values())


def grids(group: FusedGroup) -> set[Parts]:
    """Return the cuts that are looked at: along one axis all, along both those of `part_counts`."""
    _, rows, columns = group.dims(group.length)
    both = set(product(part_counts(rows), part_counts(columns)))
    down = {(parts, 1) for parts in range(1, rows + 1)}
    return both | down | {(1, parts) for parts in range(1, columns + 1)}


def _schedules(group: FusedGroup, parts: Parts) -> Iterator[FusedSchedule]:
    """Every schedule with that cut that differs from the others."""
    is_cut = [count > 1 for count in parts]
    orders = (True, False) if all(is_cut) else (is_cut[COLUMNS] or not is_cut[ROWS],)
    holds = tuple(Hold) if can_hold_one_map(group) else (Hold.ALL_MAPS,)
    is_outer_cut = all(is_cut)
    borders = [one for one in MAP_BORDERS if is_outer_cut or one[0] is one[1]]
    of_input = [one for one in INPUT_BORDERS if is_outer_cut or one[0] is one[1]]
    if not any(is_cut):
        borders, of_input = borders[:1], [(KEPT, KEPT), (AGAIN, AGAIN)]
    for order, border, input_border, hold in product(orders, borders, of_input, holds):
        yield FusedSchedule(
            group=group,
            parts=parts,
            columns_first=order,
            borders=border,
            input_borders=input_border,
            hold=hold,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class FusedTraffic:
    """A schedule of a group with what it moves and holds, in bytes.

    held: the most that must find room at a time. bound: what every schedule of the group moves, as
    one or in groups, with a buffer of any size. operations, necessary: products it makes, and those
    of the layers on their own.
    """

    schedule: FusedSchedule
    moved: Moved
    held: int
    bound: int
    operations: int
    necessary: int

    @property
    def total(self) -> int:
        """Bytes between buffer and DRAM."""
        return self.moved.total

    @property
    def gap(self) -> Fraction:
        """How far the traffic is above the bound: (found - bound) / bound."""
        return Fraction(self.total - self.bound, self.bound)

    def to_json(self) -> dict[str, Any]:
        """Return how the group runs, and what it makes twice, as a JSON value."""
        schedule = self.schedule
        return {
            "parts": list(schedule.parts),
            "columns_first": schedule.columns_first,
            "borders": [border.value for border in schedule.borders],
            "input_borders": [border.value for border in schedule.input_borders],
            "hold": schedule.hold.value,
            "kept_weights": list(schedule.kept_elements),
            "multiply_accumulates": self.operations,
            "redundant_multiply_accumulates": self.operations - self.necessary,
        }

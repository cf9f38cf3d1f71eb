"""The schedule of a group that moves least: all cuts, halo and holds of the model.

Tilings are uniform. Along one axis all of them are looked at; along both, of those whose largest tile
is equally long only the one of the fewest tiles, for there are too many. What each schedule moves
without its weights is counted first; what it holds, only where it could move less than the best one
found.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product
from typing import Any, NamedTuple

from csdf.time_limit import Budget, stop_of
from planners.plan.regions import COLUMNS, ROWS
from planners.traffic.fused.accounting import (
    CutTables,
    Moved,
    WorkingBytes,
    axes_of,
    layer_needs,
    least_need,
    moved,
    needs,
    operations,
)
from planners.traffic.fused.axis_cuts import weights_of
from planners.traffic.fused.bounds import least_moved
from planners.traffic.fused.group import FusedGroup
from planners.traffic.fused.schedule import (
    CACHED,
    INPUT_HALOS,
    MAP_HALOS,
    RELOADED,
    FusedSchedule,
    Halos,
    Hold,
    can_hold_one_map,
)

Tiles = tuple[int, int]  # along rows, along columns

CUT_EFFORT = 80  # microseconds of a usual machine, to look at the schedules of a cut


class Room(NamedTuple):
    """The elements that a schedule holds, and the weights of each layer that stay between tiles."""

    held: int
    kept_weights: tuple[int, ...]


def room_for_weights(
    wanted: tuple[WorkingBytes, ...],
    weights: tuple[int, ...],
    buffer: int,
    tiles: int,
    sizes: tuple[int, ...] = (),
) -> Room | None:
    """Return the weights that can stay in a buffer, as many as save something; None if none fits.

    A layer whose weights all stay needs no place for them to pass through. A byte of weights that
    stays saves the same in every layer, so the least peak without them is best: the lowest
    level at which all those layers can keep their weights that would be above it otherwise. Only
    where weights have several sizes, which a rest may not be a multiple of, a higher level may keep
    more: then all are tried.
    weights: bytes. sizes: of one weight of each layer; each size divides the larger sizes; none
    given: 1.
    """
    sizes = sizes or (1,) * len(weights)
    lowest, best = max(need.full for need in wanted), None
    for level in sorted({lowest, *(max(lowest, need.streamed) for need in wanted)}):
        kept = [
            weight if need.streamed > level else 0
            for weight, need in zip(weights, wanted, strict=True)
        ]
        left = buffer - level - sum(kept)
        if left < 0:
            continue
        _fill(kept, left, weights if tiles > 1 else (), sizes)
        if best is None or sum(kept) > sum(best.kept_weights):
            best = Room(level + sum(kept), tuple(kept))
        if len(set(sizes)) == 1:
            break
    return best


def _fill(kept: list[int], left: int, weights: tuple[int, ...], sizes: tuple[int, ...]) -> None:
    """Keep as many more weights as there is room for: the largest first, smaller ones fill the rest."""
    for number in sorted(range(len(weights)), key=lambda number: -sizes[number]):
        extra = min(left, weights[number] - kept[number])
        extra -= extra % sizes[number]
        kept[number] += extra
        left -= extra


class _ScheduleCandidate:
    """A schedule without its weights; what it holds is counted when it is first asked for."""

    def __init__(self, schedule: FusedSchedule, maps_moved: int) -> None:
        self.schedule = schedule
        self.maps_moved = maps_moved
        self._needs: tuple[WorkingBytes, ...] | int = 0

    def needs(self, tables: CutTables, limit: int) -> tuple[WorkingBytes, ...] | None:
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
        self._grids = sorted(grids(group), key=lambda tiles: (tiles[0] * tiles[1], tiles))
        self._finest: Tiles = group.dims(group.length)[1:]
        self._candidates: dict[Tiles, list[_ScheduleCandidate]] = {}
        self._least_needs: dict[Tiles, int] = {}

    def best(
        self, buffer: int, below: int | None = None, budget: Budget = None
    ) -> FusedTraffic | None:
        """Return the schedule that moves least in a buffer of this many bytes.

        None where none fits, or none moves less than `below` bytes. budget: a stop,
        or seconds; ends the search by GaveUp.
        """
        stop = stop_of(budget)
        least, schedule = below, None
        most_room = buffer - self._least_need(self._finest)
        for tiles in self._grids:
            stop.look()
            stop.spend(CUT_EFFORT)
            if not self._could_be_less(tiles, most_room, least):
                continue
            left = buffer - self._least_need(tiles)
            if not self._could_be_less(tiles, left, least):
                continue
            weights = self._least_weights(tiles, left)
            for candidate in self._of(tiles):
                if least is not None and candidate.maps_moved + weights >= least:
                    break
                room = self._room(candidate, buffer, least)
                if room is None:
                    continue
                again = self._weights - sum(room.kept_weights)
                total = (
                    candidate.maps_moved + self._weights + (candidate.schedule.count - 1) * again
                )
                if least is None or total < least:
                    least = total
                    schedule = replace(candidate.schedule, kept_weights=room.kept_weights)
        return None if schedule is None else answer_of(schedule, self._tables, self.bound)

    def could_fit(self, buffer: int) -> bool:
        """Whether the finest cut leaves the maps enough room; if not, no longer group's does."""
        return self._least_need(self._finest) <= buffer

    def _room(self, one: _ScheduleCandidate, buffer: int, least: int | None) -> Room | None:
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

    def _could_be_less(self, tiles: Tiles, room: int, least: int | None) -> bool:
        """Whether this cut could move less with so much room for weights."""
        if room < 0 or least is None:
            return room >= 0
        return self.bound - self._weights + self._least_weights(tiles, room) < least

    def _least_weights(self, tiles: Tiles, room: int) -> int:
        """Bytes of weights that this cut moves with so much room for them."""
        again = self._weights - min(room, self._weights)
        return self._weights + (tiles[0] * tiles[1] - 1) * again

    def _least_need(self, tiles: Tiles) -> int:
        """Bytes that the maps between the layers need with this cut, at least."""
        if tiles not in self._least_needs:
            is_known = not can_hold_one_map(self.group)
            self._least_needs[tiles] = least_need(tiles, self._tables) if is_known else 0
        return self._least_needs[tiles]

    def _of(self, tiles: Tiles) -> list[_ScheduleCandidate]:
        if tiles not in self._candidates:
            candidates = [
                _ScheduleCandidate(
                    schedule, moved(schedule, self._tables).total - self._weights * schedule.count
                )
                for schedule in _schedules(self.group, tiles)
            ]
            self._candidates[tiles] = sorted(candidates, key=lambda candidate: candidate.maps_moved)
        return self._candidates[tiles]


def answer_of(
    schedule: FusedSchedule, tables: CutTables | None = None, bound: int | None = None
) -> FusedTraffic:
    """Return what a schedule moves and holds, with the weights it says it keeps."""
    tables = CutTables(schedule.group) if tables is None else tables
    kept = schedule.kept_weights or (0,) * schedule.group.length
    level = max(
        need.full if weight >= weights else need.streamed
        for need, weight, weights in zip(
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


def tile_counts(length: int) -> tuple[int, ...]:
    """Return for each size of the largest even tile the fewest tiles of it, fewest first."""
    fewest: dict[int, int] = {}
    for tiles in range(1, length + 1):
        fewest.setdefault(-(-length // tiles), tiles)
    return tuple(fewest.values())


def grids(group: FusedGroup) -> set[Tiles]:
    """Return the cuts that are looked at: along one axis all, along both those of `tile_counts`."""
    _, rows, columns = group.dims(group.length)
    both = set(product(tile_counts(rows), tile_counts(columns)))
    down = {(tiles, 1) for tiles in range(1, rows + 1)}
    return both | down | {(1, tiles) for tiles in range(1, columns + 1)}


def _schedules(group: FusedGroup, tiles: Tiles) -> Iterator[FusedSchedule]:
    """Every schedule with that cut that differs from the others."""
    is_cut = [count > 1 for count in tiles]
    orders = (True, False) if all(is_cut) else (is_cut[COLUMNS] or not is_cut[ROWS],)
    holds = tuple(Hold) if can_hold_one_map(group) else (Hold.ALL_MAPS,)
    is_outer_cut = all(is_cut)
    halos = [halo for halo in MAP_HALOS if is_outer_cut or halo[0] is halo[1]]
    of_input = [halo for halo in INPUT_HALOS if is_outer_cut or halo[0] is halo[1]]
    if not any(is_cut):
        halos, of_input = halos[:1], [(CACHED, CACHED), (RELOADED, RELOADED)]
    for order, halo, input_halo, hold in product(orders, halos, of_input, holds):
        yield FusedSchedule(
            group=group,
            tiles=tiles,
            columns_first=order,
            halo=halo,
            input_halo=input_halo,
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
            "tiles": list(schedule.tiles),
            "columns_first": schedule.columns_first,
            "halo": [halo.value for halo in schedule.halo],
            "input_halo": [halo.value for halo in schedule.input_halo],
            "hold": schedule.hold.value,
            "kept_weights": list(schedule.kept_elements),
            "multiply_accumulates": self.operations,
            "redundant_multiply_accumulates": self.operations - self.necessary,
        }

    def in_short(self) -> str:
        """Return the tiling, what becomes of halos, and how much of the weights is stationary."""
        schedule, weights = self.schedule, sum(weights_of(self.schedule.group))
        hold = ", map by map" if schedule.hold is Hold.ONE_MAP else ""
        if schedule.count == 1:
            return f"one tile{hold}"
        kept = sum(schedule.kept_weights)
        share = "all" if kept == weights else f"{kept / weights:.0%} of the" if kept else "no"
        return (
            f"{schedule.tiles[0]}x{schedule.tiles[1]} tiles, halo {_halo(schedule.halo)}, "
            f"input halo {_halo(schedule.input_halo)}, {share} weights stationary{hold}"
        )

    def listing(self, names: Sequence[str]) -> str:
        """Return the loops, a line a layer; names: of the layers."""
        return listing(self.schedule, names)


def _halo(halo: Halos) -> str:
    return " and ".join(dict.fromkeys(side.value for side in halo))


def listing(schedule: FusedSchedule, names: Sequence[str]) -> str:
    """Return the loops of a schedule, a line a layer; sizes are those of the largest tile."""
    group, tables = schedule.group, CutTables(schedule.group)
    rows, columns = schedule.tiles
    lines = [
        f"{kept} of {weights // layer.weight_bytes} weights of {name} stationary"
        for kept, weights, layer, name in zip(
            schedule.kept_elements, tables.weights, group.layers, names, strict=False
        )
        if kept
    ]
    order = "next to each other first" if schedule.columns_first else "below each other first"
    is_cut = schedule.count > 1
    lines.append(
        f"for each of {rows}x{columns} tiles of the output, {order}" if is_cut else "one tile"
    )
    sizes, outputs = list(_sizes(schedule, tables)), group.outputs
    if schedule.hold is Hold.ONE_MAP:
        lines += [f"  load the input {sizes[0]}", f"  for each map of {names[0]}"]
        lines += [
            f"    {name}: one map of {size}" for name, size in zip(names, sizes[1:-1], strict=False)
        ]
        lines += [f"    {names[-1]}: add it to all of {sizes[-1]}", "  write them"]
        return "\n".join(lines)
    lines += [
        f"  {name}: {_reads(group, number, names)}"
        f"{'makes and writes' if number in outputs else 'makes'} {size}"
        for number, (name, size) in enumerate(zip(names, sizes[1:], strict=True), 1)
    ]
    return "\n".join(lines)


def _reads(group: FusedGroup, number: int, names: Sequence[str]) -> str:
    """Return where a layer finds what it reads; nothing where the layer before it makes that."""
    read = group.read_by(number)
    if number == 1:
        waits = group.input_waits
        return "from the input, which waits, " if waits else "from each map of the input in turn, "
    if read == (number - 1,):
        return ""
    sources = (names[map_number - 1] if map_number else "the input" for map_number in read)
    return f"from {' and '.join(sources)}, "


def _sizes(schedule: FusedSchedule, tables: CutTables) -> Iterator[str]:
    """Maps x rows x columns of what the largest tile makes of each map."""
    axes = axes_of(schedule)
    cuts = {key[0]: tables.cut(*key) for key in axes}
    for number in range(tables.group.length + 1):
        rows, columns = (
            max(places_made.bit_count() for places_made in cuts[axis].made[number])
            for axis in sorted(cuts)
        )
        yield f"{tables.group.dims(number)[0]}x{rows}x{columns}"

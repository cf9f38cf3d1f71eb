"""Bytes that a schedule of a group moves and holds, counted in bytes without running it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from planners.tiling.regions import COLUMNS, ROWS
from planners.traffic.fused.axis_cuts import (
    AxisTotals,
    Inner,
    Outer,
    present,
)
from planners.traffic.fused.cut_tables import CutTables, Sizes
from planners.traffic.fused.group import FusedLayer
from planners.traffic.fused.schedule import AGAIN, KEPT, SENT, Border, FusedSchedule, Hold


class Moved(NamedTuple):
    """Bytes that cross between buffer and DRAM.

    input: read, with operands that come from beside the group. borders: written and read back.
    """

    input: int
    weights: int
    output: int
    borders_written: int
    borders_read: int

    @property
    def total(self) -> int:
        """Bytes in all."""
        return sum(self)


class Need(NamedTuple):
    """Bytes that must find room while one layer works, without weights that stay.

    streamed: with what its weights pass through; full: where all of its weights stay.
    """

    streamed: int
    full: int


class Axes(NamedTuple):
    """The two axes of a schedule as keys of its tables: axis, parts, borders, of the input."""

    outer: tuple[int, int, Border, Border]
    inner: tuple[int, int, Border, Border]


def axes_of(schedule: FusedSchedule) -> Axes:
    """Return which axis is the outer one, with its parts and borders."""
    outer, inner = (ROWS, COLUMNS) if schedule.columns_first else (COLUMNS, ROWS)
    return Axes(
        (outer, schedule.parts[outer], schedule.borders[0], schedule.input_borders[0]),
        (inner, schedule.parts[inner], schedule.borders[1], schedule.input_borders[1]),
    )


def moved(schedule: FusedSchedule, tables: CutTables) -> Moved:
    """Return what crosses between buffer and DRAM, in bytes."""
    group, axes = schedule.group, axes_of(schedule)
    outer, inner = tables.totals(*axes.outer), tables.totals(*axes.inner)
    beside = sum(
        sum(layer.beside_bytes) * layer.filters * outer[number].made * inner[number].made
        for number, layer in enumerate(group.layers, 1)
    )
    written, read = _borders(schedule, tables.sizes, outer, inner)
    return Moved(
        input=tables.sizes.maps[0] * outer[0].made * inner[0].made + beside,
        weights=_weights_moved(schedule, tables),
        output=tables.outputs,
        borders_written=written,
        borders_read=read,
    )


def _weights_moved(schedule: FusedSchedule, tables: CutTables) -> int:
    kept = sum(schedule.kept_weights)
    return schedule.count * sum(tables.weights) - (schedule.count - 1) * kept


def _borders(
    schedule: FusedSchedule, sizes: Sizes, outer: Sequence[AxisTotals], inner: Sequence[AxisTotals]
) -> tuple[int, int]:
    """Bytes of borders that go to DRAM, and that come back."""
    if SENT not in schedule.borders:
        return 0, 0
    written = read = 0
    for number in sizes.inner:
        maps = sizes.maps[number]
        one, other = outer[number], inner[number]
        if schedule.borders[1] is KEPT:
            written += maps * one.shared * other.distinct
            read += maps * (one.needed - one.distinct) * other.distinct
        else:
            alone = (one.distinct - one.shared) * (other.distinct - other.shared)
            written += maps * (one.distinct * other.distinct - alone)
            read += maps * (one.needed * other.needed - one.distinct * other.distinct)
    return written, read


def operations(schedule: FusedSchedule, tables: CutTables) -> int:
    """Return the products of all layers, those of borders computed again too."""
    axes = axes_of(schedule)
    outer, inner = tables.totals(*axes.outer), tables.totals(*axes.inner)
    return sum(
        layer.filters * layer.operations * outer[number].made * inner[number].made
        for number, layer in enumerate(schedule.group.layers, 1)
    )


def least_need(parts: tuple[int, int], tables: CutTables) -> int:
    """Return bytes that the part around the middle holds of the maps between layers, at least.

    Whatever the borders, with all maps of a layer at a time: what a part needs of a map is there
    while a layer reads it, and nobody needs less than where each place is made once. A finer cut
    needs no more, for its part around the middle is inside this one; a group with more layers in
    front of these needs no less.
    """
    rows, columns = (tables.cut(axis, count, KEPT, KEPT).needed for axis, count in enumerate(parts))
    sizes, lengths = tables.sizes, tables.group.dims(tables.group.length)[1:]
    row, column = (
        ((length // 2 + 1) * count - 1) // length
        for length, count in zip(lengths, parts, strict=True)
    )
    there = [0] * (len(sizes.layers) + 1)  # while each layer works
    for number in (0, *sizes.inner) if sizes.input_waits else sizes.inner:
        places = rows[number][row].bit_count() * columns[number][column].bit_count()
        for step in range(max(number, 1), sizes.last_readers[number] + 1):
            there[step] += sizes.maps[number] * places
    return max(there)


def needs(schedule: FusedSchedule, tables: CutTables, limit: int) -> tuple[Need, ...] | int:
    """Return for each layer the most bytes that must find room while it works.

    Where that is above `limit` even with all weights in their place, it ends early, and the answer
    is one number that is needed at least.
    """
    most = [Need(0, 0)] * schedule.group.length
    for part in _parts(schedule, tables):
        for number, need in enumerate(part):
            if need.full > limit:
                return need.full
            worst = most[number]
            if need.full > worst.full or need.streamed > worst.streamed:
                most[number] = Need(max(worst.streamed, need.streamed), max(worst.full, need.full))
    return tuple(most)


def layer_needs(schedule: FusedSchedule, tables: CutTables) -> tuple[Need, ...]:
    """Return for each layer the most bytes that must find room while it works."""
    return tuple(
        Need(max(need.streamed for need in of_layer), max(need.full for need in of_layer))
        for of_layer in zip(*_parts(schedule, tables), strict=True)
    )


def _parts(schedule: FusedSchedule, tables: CutTables) -> Iterator[Iterator[Need]]:
    """Return what each layer needs, for each part that differs from others."""
    axes = axes_of(schedule)
    steps = _one_map_steps if schedule.hold is Hold.ONE_MAP else _all_maps_steps
    for outer in tables.outer(*axes.outer):
        for inner in tables.inner(*axes.inner):
            yield steps(tables.sizes, _Part(schedule, outer, inner))


class _Part:
    """A part: what it finds, holds and leaves of each map."""

    def __init__(
        self, schedule: FusedSchedule, outer: Sequence[Outer], inner: Sequence[Inner]
    ) -> None:
        self.maps = list(map(present, outer, inner))
        self.reads_rows = schedule.input_borders == (AGAIN, AGAIN)
        self._across = inner if schedule.columns_first else outer
        self._down = outer if schedule.columns_first else inner

    def row(self, number: int) -> int:
        """Elements of one row that a part makes of a map."""
        return self._across[number].made if self._down[number].made else 0


def _all_maps_steps(sizes: Sizes, part: _Part) -> Iterator[Need]:
    for step, layer in enumerate(sizes.layers, 1):
        fixed = part.row(step) * layer.widest_beside
        for number in sizes.inner:
            one = part.maps[number]
            if step < number:
                there = one.before
            else:
                there = one.held if step <= sizes.last_readers[number] else one.after
            fixed += sizes.maps[number] * there
        first = part.maps[0]
        if sizes.input_waits:
            fixed += sizes.maps[0] * (first.held if step <= sizes.last_readers[0] else first.after)
        elif step == 1:
            yield _first(layer, sizes, part, fixed)
            continue
        else:
            fixed += sizes.maps[0] * first.after
        if sizes.last_readers[step] == step:
            yield _end(layer, step, sizes, part, fixed)
        else:
            yield Need(fixed + sizes.vectors[step - 1], fixed)


def _first(layer: FusedLayer, sizes: Sizes, part: _Part, fixed: int) -> Need:
    """The input comes map by map past one vector, or row by row past all vectors of its map."""
    one, each, vector = part.maps[0], sizes.elements[0], sizes.vectors[0]
    tile = ((layer.channels - 1) * max(one.before, one.after) + one.held) * each
    if not part.reads_rows:
        return Need(fixed + tile + vector, fixed + tile)
    row = part.row(0) * each
    by_row = row + layer.filters // layer.groups * vector
    return Need(fixed + min(tile + vector, by_row), fixed + row)


def _end(layer: FusedLayer, number: int, sizes: Sizes, part: _Part, fixed: int) -> Need:
    """The output leaves map by map past one vector, or row by row past all vectors of its filter."""
    each, vector = sizes.elements[number], sizes.vectors[number - 1]
    row = part.row(number) * each
    by_row = row + layer.channels // layer.groups * vector
    return Need(fixed + min(part.maps[number].held * each + vector, by_row), fixed + row)


def _one_map_steps(sizes: Sizes, part: _Part) -> Iterator[Need]:
    last = len(sizes.layers)
    maps = [
        (one.before * each, one.held * each, one.after * each)
        for one, each in zip(part.maps[1:last], sizes.elements[1:last], strict=True)
    ]
    waiting = max(sum(before for before, _, _ in maps), sum(after for _, _, after in maps))
    fixed = sizes.maps[0] * part.maps[0].held + sizes.maps[last] * part.maps[last].held
    fixed += (sizes.layers[0].filters - 1) * waiting
    for step, layer in enumerate(sizes.layers, 1):
        of_map = sum(
            before if number > step else held if number >= step - 1 else after
            for number, (before, held, after) in enumerate(maps, 1)
        )
        beside = part.row(last) * layer.widest_beside
        yield Need(fixed + of_map + sizes.vectors[step - 1] + beside, fixed + of_map + beside)

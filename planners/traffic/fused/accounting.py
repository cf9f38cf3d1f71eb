"""Traffic and buffer bytes of the tilings of a fused group, counted without executing them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, TypeVar

from planners.plan.regions import COLUMNS, ROWS
from planners.traffic.fused.axis_cuts import (
    AxisCut,
    AxisTotals,
    Inner,
    Outer,
    axis_cut,
    axis_totals,
    inner_profiles,
    made_of,
    outer_profiles,
    present,
    weights_of,
)
from planners.traffic.fused.group import FusedGroup, FusedLayer
from planners.traffic.fused.schedule import CACHED, RELOADED, SPILLED, FusedSchedule, Hold
from planners.traffic.nest import Halo


class Moved(NamedTuple):
    """Bytes that cross between buffer and DRAM.

    input: read, with operands that come from beside the group. halo: written and read back.
    """

    input: int
    weights: int
    output: int
    halo_written: int
    halo_read: int

    @property
    def total(self) -> int:
        """Bytes in all."""
        return sum(self)


class WorkingBytes(NamedTuple):
    """Bytes that must find room while one layer works, without weights that stay.

    streamed: with what its weights pass through; full: where all of its weights stay.
    """

    streamed: int
    full: int


class ScheduleAxes(NamedTuple):
    """The two axes of a schedule as keys of its tables: axis, tiles, halo, of the input."""

    outer: _AxisKey
    inner: _AxisKey


def axes_of(schedule: FusedSchedule) -> ScheduleAxes:
    """Return which axis is the outer one, with its tiles and halo."""
    outer, inner = (ROWS, COLUMNS) if schedule.columns_first else (COLUMNS, ROWS)
    return ScheduleAxes(
        (outer, schedule.tiles[outer], schedule.halo[0], schedule.input_halo[0]),
        (inner, schedule.tiles[inner], schedule.halo[1], schedule.input_halo[1]),
    )


def moved(schedule: FusedSchedule, tables: CutTables) -> Moved:
    """Return what crosses between buffer and DRAM, in bytes."""
    group, axes = schedule.group, axes_of(schedule)
    outer, inner = tables.totals(*axes.outer), tables.totals(*axes.inner)
    beside = sum(
        sum(layer.beside_bytes) * layer.filters * outer[number].made * inner[number].made
        for number, layer in enumerate(group.layers, 1)
    )
    written, read = _halo(schedule, tables.sizes, outer, inner)
    return Moved(
        input=tables.sizes.maps[0] * outer[0].made * inner[0].made + beside,
        weights=_weights_moved(schedule, tables),
        output=tables.outputs,
        halo_written=written,
        halo_read=read,
    )


def _weights_moved(schedule: FusedSchedule, tables: CutTables) -> int:
    kept = sum(schedule.kept_weights)
    return schedule.count * sum(tables.weights) - (schedule.count - 1) * kept


def _halo(
    schedule: FusedSchedule, sizes: Sizes, outer: Sequence[AxisTotals], inner: Sequence[AxisTotals]
) -> tuple[int, int]:
    """Bytes of halo that go to DRAM, and that come back."""
    if SPILLED not in schedule.halo:
        return 0, 0
    written = read = 0
    for number in sizes.inner:
        maps = sizes.maps[number]
        outer_axis, inner_axis = outer[number], inner[number]
        if schedule.halo[1] is CACHED:
            written += maps * outer_axis.shared * inner_axis.distinct
            read += maps * (outer_axis.needed - outer_axis.distinct) * inner_axis.distinct
        else:
            alone = (outer_axis.distinct - outer_axis.shared) * (
                inner_axis.distinct - inner_axis.shared
            )
            written += maps * (outer_axis.distinct * inner_axis.distinct - alone)
            read += maps * (
                outer_axis.needed * inner_axis.needed - outer_axis.distinct * inner_axis.distinct
            )
    return written, read


def operations(schedule: FusedSchedule, tables: CutTables) -> int:
    """Return the products of all layers, those of halo computed again too."""
    axes = axes_of(schedule)
    outer, inner = tables.totals(*axes.outer), tables.totals(*axes.inner)
    return sum(
        layer.filters * layer.operations * outer[number].made * inner[number].made
        for number, layer in enumerate(schedule.group.layers, 1)
    )


def least_need(tiles: tuple[int, int], tables: CutTables) -> int:
    """Return bytes that the tile around the middle holds of the maps between layers, at least.

    Whatever the halo, with all maps of a layer at a time: the buffer holds the tile's part of a map
    while a layer reads it. The minimum is the case where each position is computed once. A finer cut
    needs no more, for its tile around the middle is inside this one; a group with more layers in
    front of these needs no less.
    """
    rows, columns = (
        tables.cut(axis, count, CACHED, CACHED).needed for axis, count in enumerate(tiles)
    )
    sizes, lengths = tables.sizes, tables.group.dims(tables.group.length)[1:]
    row, column = (
        ((length // 2 + 1) * count - 1) // length
        for length, count in zip(lengths, tiles, strict=True)
    )
    there = [0] * (len(sizes.layers) + 1)  # while each layer works
    for number in (0, *sizes.inner) if sizes.input_waits else sizes.inner:
        places = rows[number][row].bit_count() * columns[number][column].bit_count()
        for step in range(max(number, 1), sizes.last_readers[number] + 1):
            there[step] += sizes.maps[number] * places
    return max(there)


def needs(schedule: FusedSchedule, tables: CutTables, limit: int) -> tuple[WorkingBytes, ...] | int:
    """Return for each layer the most bytes that must find room while it works.

    Where that is above `limit` even with all weights in their place, it ends early, and the answer
    is one number that is needed at least.
    """
    most = [WorkingBytes(0, 0)] * schedule.group.length
    for tile in _tiles(schedule, tables):
        for number, need in enumerate(tile):
            if need.full > limit:
                return need.full
            worst = most[number]
            if need.full > worst.full or need.streamed > worst.streamed:
                most[number] = WorkingBytes(
                    max(worst.streamed, need.streamed), max(worst.full, need.full)
                )
    return tuple(most)


def layer_needs(schedule: FusedSchedule, tables: CutTables) -> tuple[WorkingBytes, ...]:
    """Return for each layer the most bytes that must find room while it works."""
    return tuple(
        WorkingBytes(max(need.streamed for need in of_layer), max(need.full for need in of_layer))
        for of_layer in zip(*_tiles(schedule, tables), strict=True)
    )


def _tiles(schedule: FusedSchedule, tables: CutTables) -> Iterator[Iterator[WorkingBytes]]:
    """Return what each layer needs, for each tile that differs from others."""
    axes = axes_of(schedule)
    steps = _one_map_steps if schedule.hold is Hold.ONE_MAP else _all_maps_steps
    for outer in tables.outer(*axes.outer):
        for inner in tables.inner(*axes.inner):
            yield steps(tables.sizes, _Tile(schedule, outer, inner))


class _Tile:
    """A tile: what it finds, holds and leaves of each map."""

    def __init__(
        self, schedule: FusedSchedule, outer: Sequence[Outer], inner: Sequence[Inner]
    ) -> None:
        self.maps = list(map(present, outer, inner))
        self.reads_rows = schedule.input_halo == (RELOADED, RELOADED)
        self._across = inner if schedule.columns_first else outer
        self._down = outer if schedule.columns_first else inner

    def row(self, number: int) -> int:
        """Elements of one row that a tile makes of a map."""
        return self._across[number].made if self._down[number].made else 0


def _all_maps_steps(sizes: Sizes, tile: _Tile) -> Iterator[WorkingBytes]:
    for step, layer in enumerate(sizes.layers, 1):
        fixed = tile.row(step) * layer.widest_beside
        for number in sizes.inner:
            map_sizes = tile.maps[number]
            if step < number:
                there = map_sizes.before
            else:
                there = map_sizes.held if step <= sizes.last_readers[number] else map_sizes.after
            fixed += sizes.maps[number] * there
        first = tile.maps[0]
        if sizes.input_waits:
            fixed += sizes.maps[0] * (first.held if step <= sizes.last_readers[0] else first.after)
        elif step == 1:
            yield _first(layer, sizes, tile, fixed)
            continue
        else:
            fixed += sizes.maps[0] * first.after
        if sizes.last_readers[step] == step:
            yield _end(layer, step, sizes, tile, fixed)
        else:
            yield WorkingBytes(fixed + sizes.vectors[step - 1], fixed)


def _first(layer: FusedLayer, sizes: Sizes, tile: _Tile, fixed: int) -> WorkingBytes:
    """The input comes map by map past one vector, or row by row past all vectors of its map."""
    map_sizes, element_bytes, vector = tile.maps[0], sizes.elements[0], sizes.vectors[0]
    through = (
        (layer.channels - 1) * max(map_sizes.before, map_sizes.after) + map_sizes.held
    ) * element_bytes
    if not tile.reads_rows:
        return WorkingBytes(fixed + through + vector, fixed + through)
    row = tile.row(0) * element_bytes
    by_row = row + layer.filters // layer.groups * vector
    return WorkingBytes(fixed + min(through + vector, by_row), fixed + row)


def _end(layer: FusedLayer, number: int, sizes: Sizes, tile: _Tile, fixed: int) -> WorkingBytes:
    """The output leaves map by map past one vector, or row by row past all vectors of its filter."""
    element_bytes, vector = sizes.elements[number], sizes.vectors[number - 1]
    row = tile.row(number) * element_bytes
    by_row = row + layer.channels // layer.groups * vector
    return WorkingBytes(
        fixed + min(tile.maps[number].held * element_bytes + vector, by_row), fixed + row
    )


def _one_map_steps(sizes: Sizes, tile: _Tile) -> Iterator[WorkingBytes]:
    last = len(sizes.layers)
    maps = [
        (
            map_sizes.before * element_bytes,
            map_sizes.held * element_bytes,
            map_sizes.after * element_bytes,
        )
        for map_sizes, element_bytes in zip(tile.maps[1:last], sizes.elements[1:last], strict=True)
    ]
    waiting = max(sum(before for before, _, _ in maps), sum(after for _, _, after in maps))
    fixed = sizes.maps[0] * tile.maps[0].held + sizes.maps[last] * tile.maps[last].held
    fixed += (sizes.layers[0].filters - 1) * waiting
    for step, layer in enumerate(sizes.layers, 1):
        of_map = sum(
            before if number > step else held if number >= step - 1 else after
            for number, (before, held, after) in enumerate(maps, 1)
        )
        beside = tile.row(last) * layer.widest_beside
        yield WorkingBytes(
            fixed + of_map + sizes.vectors[step - 1] + beside, fixed + of_map + beside
        )


Profile = TypeVar("Profile", Outer, Inner)
_AxisKey = tuple[int, int, Halo, Halo]  # axis, tiles, halo of maps, halo of the input


class Sizes(NamedTuple):
    """The needs of every tile of a group.

    maps: bytes at one position of all feature maps of each map; elements: bytes of one element of
    each map; vectors: bytes of a kernel of each layer that participate. inner: maps that layers of the
    group make and read.
    """

    layers: tuple[FusedLayer, ...]
    maps: tuple[int, ...]
    elements: tuple[int, ...]
    vectors: tuple[int, ...]
    last_readers: tuple[int, ...]
    inner: tuple[int, ...]
    input_waits: bool


class CutTables:
    """The cuts of one group, each made once."""

    def __init__(self, group: FusedGroup) -> None:
        self.group, numbers = group, range(group.length + 1)
        self.sizes = Sizes(
            group.layers,
            tuple(group.dims(number)[0] * group.element_bytes(number) for number in numbers),
            tuple(map(group.element_bytes, numbers)),
            tuple(
                layer.live_kernels(made) * layer.weight_bytes
                for layer, made in zip(group.layers, made_of(group)[1:], strict=True)
            ),
            group.last_readers,
            group.inner,
            group.input_waits,
        )
        self.outputs = sum(map(group.bytes, group.outputs))
        self.weights = weights_of(group)
        self._cuts: dict[tuple[int, int, bool, bool], AxisCut] = {}
        self._totals: dict[tuple[int, int, bool, bool], tuple[AxisTotals, ...]] = {}
        self._outer: dict[_AxisKey, list[tuple[Outer, ...]]] = {}
        self._inner: dict[_AxisKey, list[tuple[Inner, ...]]] = {}

    def cut(self, axis: int, tiles: int, halo: Halo, input_halo: Halo) -> AxisCut:
        """Return the cut of an axis."""
        key = axis, tiles, halo.is_once, input_halo.is_once
        if key not in self._cuts:
            self._cuts[key] = axis_cut(
                self.group, axis, tiles, makes_once=key[2], reads_once=key[3]
            )
        return self._cuts[key]

    def totals(self, axis: int, tiles: int, halo: Halo, input_halo: Halo) -> tuple[AxisTotals, ...]:
        """Return the totals of every map."""
        key = axis, tiles, halo.is_once, input_halo.is_once
        if key not in self._totals:
            cut = self.cut(axis, tiles, halo, input_halo)
            numbers = range(self.group.length + 1)
            self._totals[key] = tuple(axis_totals(cut, number) for number in numbers)
        return self._totals[key]

    def outer(self, *key: *_AxisKey) -> list[tuple[Outer, ...]]:
        """Return what differs between tiles along the outer axis, for all maps at once."""
        if key not in self._outer:
            self._outer[key] = self._profiles(key, outer_profiles)
        return self._outer[key]

    def inner(self, *key: *_AxisKey) -> list[tuple[Inner, ...]]:
        """Return what differs between tiles along the inner axis, for all maps at once."""
        if key not in self._inner:
            self._inner[key] = self._profiles(key, inner_profiles)
        return self._inner[key]

    def _profiles(
        self, key: _AxisKey, of_map: Callable[[AxisCut, int, Halo], list[Profile]]
    ) -> list[tuple[Profile, ...]]:
        """The tiles that differ, the tiles that probably hold most first."""
        cut, numbers = self.cut(*key), range(self.group.length + 1)
        *_, halo, input_halo = key
        maps = [of_map(cut, number, halo if number else input_halo) for number in numbers]
        tiles = dict.fromkeys(zip(*maps, strict=True))
        return sorted(tiles, key=lambda tile: -sum(map(sum, tile)))

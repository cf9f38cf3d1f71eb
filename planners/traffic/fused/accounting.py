"""DRAM traffic and buffer bytes of a schedule of a fused group, counted without executing it.

Takes a schedule and the tables of its group; gives the bytes moved (`moved`), the bytes in the buffer
while each layer executes (`peak_bytes_by_layer`), and the MACs (`operations`).

Tiles are products of positions along two axes, so all counts are sums of products of the numbers
in `AxisTotals` (traffic) or of two profiles (buffer). Tiles with equal profiles need equal
buffers; only tiles that differ are examined. `CutTables` caches the cuts of one group for all its
schedules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from typing import NamedTuple, TypeVar

from planners.plan.regions import COLUMNS, ROWS
from planners.traffic.fused.axis_cuts import (
    AxisCut,
    AxisTotals,
    InnerProfile,
    OuterProfile,
    axis_cut,
    axis_totals,
    buffered_elements,
    computed_areas,
    inner_profiles,
    outer_profiles,
    weights_of,
)
from planners.traffic.fused.group import FusedGroup, FusedLayer
from planners.traffic.fused.schedule import CACHED, RELOADED, SPILLED, FusedSchedule, MapsPerPass
from planners.traffic.nest import Halo


class DramTraffic(NamedTuple):
    """Bytes that cross between buffer and DRAM.

    input: bytes of the input and of operands from DRAM, read.
    weights: bytes of weights, read.
    output: bytes of results, written.
    halo_written, halo_read: bytes of spilled halos, written and read back.
    """

    input: int
    weights: int
    output: int
    halo_written: int
    halo_read: int

    @property
    def total(self) -> int:
        """All bytes, read and written."""
        return sum(self)


class WorkingBytes(NamedTuple):
    """Buffer bytes in use while one layer executes, without stationary weights.

    streamed: if the layer has weights that each tile loads, through a buffer of one kernel.
    full: if all weights of the layer are stationary.
    """

    streamed: int
    full: int


AxisKey = tuple[int, int, Halo, Halo]  # axis, tiles, halo of maps, halo of the input


def axes_of(schedule: FusedSchedule) -> tuple[AxisKey, AxisKey]:
    """Return the outer and the inner axis of a schedule, as keys of the tables in `CutTables`."""
    outer, inner = (ROWS, COLUMNS) if schedule.columns_first else (COLUMNS, ROWS)
    return (
        (outer, schedule.tiles[outer], schedule.halo[0], schedule.input_halo[0]),
        (inner, schedule.tiles[inner], schedule.halo[1], schedule.input_halo[1]),
    )


def moved(schedule: FusedSchedule, tables: CutTables) -> DramTraffic:
    """Return the bytes that a schedule moves between buffer and DRAM."""
    outer, inner = (tables.totals(*axis) for axis in axes_of(schedule))
    operand_bytes = sum(
        sum(layer.bytes_by_operand)
        * layer.filters
        * outer[number].computed
        * inner[number].computed
        for number, layer in enumerate(schedule.group.layers, 1)
    )
    written, read = _halo(schedule, tables, outer, inner)
    # Each tile loads all weights; stationary weights are loaded once.
    stationary = sum(schedule.stationary_bytes)
    return DramTraffic(
        input=tables.position_bytes[0] * outer[0].computed * inner[0].computed + operand_bytes,
        weights=schedule.count * sum(tables.weights) - (schedule.count - 1) * stationary,
        output=tables.outputs,
        halo_written=written,
        halo_read=read,
    )


def _halo(
    schedule: FusedSchedule,
    tables: CutTables,
    outer: Sequence[AxisTotals],
    inner: Sequence[AxisTotals],
) -> tuple[int, int]:
    """Bytes of halos that are spilled to DRAM, and that are read back.

    Tiles are products of the cuts of both axes, so of a map they need outer.distinct * inner.distinct
    distinct positions, and outer.needed * inner.needed summed over the tiles.
    """
    if SPILLED not in schedule.halo:
        return 0, 0
    written = read = 0
    for number in tables.inner:
        position_bytes = tables.position_bytes[number]
        outer_axis, inner_axis = outer[number], inner[number]
        if schedule.halo[1] is CACHED:
            # Along the inner axis the halo stays in the buffer: only positions shared along the outer
            # axis are spilled, and read by each outer tile but the first.
            written += position_bytes * outer_axis.shared * inner_axis.distinct
            rereads = outer_axis.needed - outer_axis.distinct
            read += position_bytes * rereads * inner_axis.distinct
        else:
            # All positions are spilled except those of one tile only, which are shared along neither
            # axis; each tile but the first that needs a position reads it.
            distinct = outer_axis.distinct * inner_axis.distinct
            unshared = (outer_axis.distinct - outer_axis.shared) * (
                inner_axis.distinct - inner_axis.shared
            )
            written += position_bytes * (distinct - unshared)
            read += position_bytes * (outer_axis.needed * inner_axis.needed - distinct)
    return written, read


def operations(schedule: FusedSchedule, tables: CutTables) -> int:
    """Return the MACs of all layers, including recomputed halos."""
    outer, inner = (tables.totals(*axis) for axis in axes_of(schedule))
    return sum(
        layer.filters * layer.operations * outer[number].computed * inner[number].computed
        for number, layer in enumerate(schedule.group.layers, 1)
    )


def minimum_working_bytes(tiles: tuple[int, int], tables: CutTables) -> int:
    """Return a lower bound on the buffer bytes of inner maps, for all schedules with these tiles.

    With all feature maps at a time, the buffer holds the tile's rectangle of a map while a layer
    reads the map, whatever becomes of halos. The rectangle is smallest if each position is
    computed once. Of the tiles, the one around the middle is examined. The bound is monotonic:
    the middle tile of a finer cut lies inside this one, and further layers before these only add
    maps.
    """
    rows, columns = (
        tables.cut(axis, count, CACHED, CACHED).needed for axis, count in enumerate(tiles)
    )
    lengths = tables.group.dims(tables.group.length)[1:]
    row, column = (
        ((length // 2 + 1) * count - 1) // length
        for length, count in zip(lengths, tiles, strict=True)
    )
    live_bytes = [0] * (tables.group.length + 1)  # while each layer executes
    for number in (0, *tables.inner) if tables.input_waits else tables.inner:
        positions = rows[number][row].bit_count() * columns[number][column].bit_count()
        for step in range(max(number, 1), tables.last_readers[number] + 1):
            live_bytes[step] += tables.position_bytes[number] * positions
    return max(live_bytes)


def peak_bytes_by_layer(
    schedule: FusedSchedule, tables: CutTables, limit: int | None = None
) -> tuple[WorkingBytes, ...]:
    """Return for each layer its peak buffer bytes over all tiles.

    If a layer exceeds `limit` even with all its weights stationary, the remaining tiles are left out,
    and the result is a lower bound.
    """
    peaks = [WorkingBytes(0, 0)] * schedule.group.length
    for tile in _tiles(schedule, tables):
        for number, needed in enumerate(tile):
            peak = peaks[number]
            if needed.full > peak.full or needed.streamed > peak.streamed:
                peaks[number] = WorkingBytes(
                    max(peak.streamed, needed.streamed), max(peak.full, needed.full)
                )
                if limit is not None and needed.full > limit:
                    return tuple(peaks)
    return tuple(peaks)


def _tiles(schedule: FusedSchedule, tables: CutTables) -> Iterator[Iterator[WorkingBytes]]:
    """Working bytes of every layer, for each tile whose profiles differ from earlier tiles."""
    outer_axis, inner_axis = axes_of(schedule)
    steps = _one_map_steps if schedule.maps_per_pass is MapsPerPass.ONE else _all_maps_steps
    for outer in tables.outer_profiles(*outer_axis):
        for inner in tables.inner_profiles(*inner_axis):
            yield steps(tables, _Tile(schedule, outer, inner))


class _Tile:
    """Buffered elements of every map before, during and after one tile.

    reads_rows: whether the input may be read row by row, as nothing of it stays in the buffer.
    """

    def __init__(
        self, schedule: FusedSchedule, outer: Sequence[OuterProfile], inner: Sequence[InnerProfile]
    ) -> None:
        self.maps = list(map(buffered_elements, outer, inner))
        self.reads_rows = schedule.input_halo == (RELOADED, RELOADED)
        self._across = inner if schedule.columns_first else outer
        self._down = outer if schedule.columns_first else inner

    def row(self, number: int) -> int:
        """Elements of one row of a map that the tile computes."""
        return self._across[number].computed if self._down[number].computed else 0


def _all_maps_steps(tables: CutTables, tile: _Tile) -> Iterator[WorkingBytes]:
    """Working bytes of each layer if all feature maps of a layer are computed at a time."""
    for step, layer in enumerate(tables.group.layers, 1):
        fixed = tile.row(step) * layer.widest_operand
        for number in tables.inner:
            map_elements = tile.maps[number]
            if step < number:
                buffered = map_elements.before
            elif step <= tables.last_readers[number]:
                buffered = map_elements.during
            else:
                buffered = map_elements.after
            fixed += tables.position_bytes[number] * buffered
        input_elements = tile.maps[0]
        if tables.input_waits:
            fixed += tables.position_bytes[0] * (
                input_elements.during if step <= tables.last_readers[0] else input_elements.after
            )
        elif step == 1:
            yield _first(layer, tables, tile, fixed)
            continue
        else:
            fixed += tables.position_bytes[0] * input_elements.after
        if tables.last_readers[step] == step:
            yield _end(layer, step, tables, tile, fixed)
        else:
            yield WorkingBytes(fixed + tables.kernel_bytes[step - 1], fixed)


def _first(layer: FusedLayer, tables: CutTables, tile: _Tile, fixed: int) -> WorkingBytes:
    """Working bytes of the first layer, which streams the input from DRAM.

    The input arrives map by map, with one kernel vector at a time; or row by row, with the
    vectors of all filters that read its map.
    """
    input_elements = tile.maps[0]
    element_bytes, vector = tables.element_bytes[0], tables.kernel_bytes[0]
    # One map is complete, of the others only the cached halo is in the buffer.
    other_maps = (layer.channels - 1) * max(input_elements.before, input_elements.after)
    streamed_input = (other_maps + input_elements.during) * element_bytes
    if not tile.reads_rows:
        return WorkingBytes(fixed + streamed_input + vector, fixed + streamed_input)
    row = tile.row(0) * element_bytes
    by_row = row + layer.filters // layer.groups * vector
    return WorkingBytes(fixed + min(streamed_input + vector, by_row), fixed + row)


def _end(
    layer: FusedLayer, number: int, tables: CutTables, tile: _Tile, fixed: int
) -> WorkingBytes:
    """Working bytes of a layer whose result only goes to DRAM.

    The result leaves map by map, with one kernel vector at a time; or row by row, with the
    vectors of all channels that a filter reads.
    """
    element_bytes, vector = tables.element_bytes[number], tables.kernel_bytes[number - 1]
    row = tile.row(number) * element_bytes
    by_row = row + layer.channels // layer.groups * vector
    return WorkingBytes(
        fixed + min(tile.maps[number].during * element_bytes + vector, by_row), fixed + row
    )


def _one_map_steps(tables: CutTables, tile: _Tile) -> Iterator[WorkingBytes]:
    """Working bytes of each layer if one feature map passes through all layers at a time."""
    last = len(tables.group.layers)
    maps = [
        [elements * element_bytes for elements in tile.maps[number]]
        for number, element_bytes in enumerate(tables.element_bytes[1:last], 1)
    ]
    other_maps = max(sum(before for before, _, _ in maps), sum(after for _, _, after in maps))
    fixed = (
        tables.position_bytes[0] * tile.maps[0].during
        + tables.position_bytes[last] * tile.maps[last].during
    )
    fixed += (tables.group.layers[0].filters - 1) * other_maps
    for step, layer in enumerate(tables.group.layers, 1):
        current_map = sum(
            before if number > step else during if number >= step - 1 else after
            for number, (before, during, after) in enumerate(maps, 1)
        )
        operand_row = tile.row(last) * layer.widest_operand
        yield WorkingBytes(
            fixed + current_map + tables.kernel_bytes[step - 1] + operand_row,
            fixed + current_map + operand_row,
        )


Profile = TypeVar("Profile", OuterProfile, InnerProfile)


class CutTables:
    """The axis cuts of one group with their totals and profiles, and sizes that no tiling changes.

    position_bytes: for each map, bytes of all its feature maps at one position.
    element_bytes: for each map, bytes per element.
    kernel_bytes: for each layer, bytes of the kernel over one map, without positions that only meet
    padding.
    weights: for each layer, bytes of the weights that take part in the result.
    outputs: bytes written to DRAM.
    last_readers, inner, input_waits: those of the group.
    outer_profiles, inner_profiles: the distinct profiles of tiles along an axis, each for all maps;
    arguments as of `cut`.
    """

    def __init__(self, group: FusedGroup) -> None:
        self.group, numbers = group, range(group.length + 1)
        self.element_bytes = tuple(map(group.element_bytes, numbers))
        self.position_bytes = tuple(
            group.dims(number)[0] * self.element_bytes[number] for number in numbers
        )
        self.kernel_bytes = tuple(
            layer.live_kernels(computed) * layer.weight_bytes
            for layer, computed in zip(group.layers, computed_areas(group)[1:], strict=True)
        )
        self.last_readers, self.inner = group.last_readers, group.inner
        self.input_waits = group.input_waits
        self.outputs = sum(map(group.bytes, group.outputs))
        self.weights = weights_of(group)
        self._cut, self._totals = cache(partial(axis_cut, group)), cache(self._totals_of_maps)
        self.outer_profiles = cache(lambda *axis: self._profiles(axis, outer_profiles))
        self.inner_profiles = cache(lambda *axis: self._profiles(axis, inner_profiles))

    def cut(self, axis: int, tiles: int, halo: Halo, input_halo: Halo) -> AxisCut:
        """Return the cut of an axis into tiles."""
        return self._cut(axis, tiles, makes_once=halo.is_once, reads_once=input_halo.is_once)

    def totals(self, axis: int, tiles: int, halo: Halo, input_halo: Halo) -> tuple[AxisTotals, ...]:
        """Return the totals of every map along an axis."""
        return self._totals(axis, tiles, makes_once=halo.is_once, reads_once=input_halo.is_once)

    def _totals_of_maps(
        self, axis: int, tiles: int, *, makes_once: bool, reads_once: bool
    ) -> tuple[AxisTotals, ...]:
        cut = self._cut(axis, tiles, makes_once=makes_once, reads_once=reads_once)
        return tuple(axis_totals(cut, number) for number in range(self.group.length + 1))

    def _profiles(
        self, key: AxisKey, profiles_of_map: Callable[[AxisCut, int, Halo], list[Profile]]
    ) -> list[tuple[Profile, ...]]:
        """Distinct profiles, largest sums first: these tiles probably need the most bytes."""
        cut, numbers = self.cut(*key), range(self.group.length + 1)
        *_, halo, input_halo = key
        maps = [profiles_of_map(cut, number, halo if number else input_halo) for number in numbers]
        tiles = dict.fromkeys(zip(*maps, strict=True))
        return sorted(tiles, key=lambda tile: -sum(map(sum, tile)))

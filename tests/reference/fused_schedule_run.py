"""The checker of fused schedules: runs one on numbers, in a buffer that it fills and empties itself.

It knows what a schedule says, and shares no code with what predicts or chooses schedules. An element
that is not in the buffer is NaN, and so is every result computed from it. Numbers are
small integers modulo a prime: their sums are exact.

The tiles of a schedule as the checker sees them: places that are needed and made, as arrays.

The arithmetic of the checker: what a layer makes of numbers, at some places.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from csdf.errors import ExecutionError
from planners.traffic.fused.group import FusedGroup, FusedLayer
from planners.traffic.fused.schedule import (
    CACHED,
    RECOMPUTED,
    RELOADED,
    SPILLED,
    FusedSchedule,
    Halos,
    MapsPerPass,
)

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class FusedRun:
    """The counts of a run, in bytes. peak: the most in the buffer at a time."""

    input: int
    weights: int
    output: int
    halo_written: int
    halo_read: int
    peak: int


def run_schedule(schedule: FusedSchedule, buffer: int, seed: int = 0) -> FusedRun:
    """Return what the schedule moves in a buffer of so many bytes, on random numbers.

    Raises ExecutionError where the buffer overflows, an operand is not there, or an output is
    wrong, missing or written twice.
    """
    run = _Run(schedule, buffer, np.random.default_rng(seed))
    for number in range(len(run.tiles)):
        run.run_tile(number)
    run.check()
    return FusedRun(peak=run.peak, **run.moved)


class _Run:
    """The buffer, DRAM, and the counters. Weights that are not brought in are zero here."""

    def __init__(self, schedule: FusedSchedule, buffer: int, random: np.random.Generator) -> None:
        group = schedule.group
        self.schedule, self.group, self.buffer = schedule, group, buffer
        self.tiles = tiles_of(schedule)
        sizes = [group.dims(number) for number in range(group.length + 1)]
        self.maps = [np.full(size, np.nan) for size in sizes]  # in the buffer
        self.dram = [np.full(size, np.nan) for size in sizes]
        self.written = {number: np.full(sizes[number], np.nan) for number in group.written}
        self.dram[0] = random.integers(0, PRIME, sizes[0]).astype(float)
        self.trained = [random_kernel(one, random) for one in group.layers]
        tiles = zip(*(tile.made for tile in self.tiles), strict=True)
        made = [np.any(maps, axis=0) for maps in tiles]
        live = list(map(live_places, group.layers, made[1:]))
        self.sizes = [group.input_bytes, *(layer.output_bytes for layer in group.layers)]
        self.vectors = [
            int(np.count_nonzero(one)) * layer.weight_bytes
            for one, layer in zip(live, group.layers, strict=True)
        ]
        self.weights = [one * kept for one, kept in zip(self.trained, live, strict=True)]
        self.beside = [
            random.integers(0, PRIME, (one.dram_operands, *size)).astype(float)
            for one, size in zip(group.layers, sizes[1:], strict=True)
        ]
        self.ends, self.last_readers = group.ends, group.last_readers
        self.kept = schedule.stationary_bytes or (0,) * group.length
        self.loaded = [False] * group.length
        self.present = 0
        self.peak = 0
        self.slot = 0  # beside the maps: weights in passing, rows in passing
        counters = ("input", "weights", "output", "halo_written", "halo_read")
        self.moved = dict.fromkeys(counters, 0)

    def look(self) -> None:
        """Count what is in the buffer."""
        held = self.present + self.slot + sum(self.kept)
        self.peak = max(self.peak, held)
        if held > self.buffer:
            raise ExecutionError(f"{held} bytes in a buffer of {self.buffer}")

    def put(self, number: int, maps: slice, where: Array, values: Array | float) -> None:
        """Put elements of some feature maps into the buffer."""
        held = self.maps[number][maps]
        before = int(np.count_nonzero(~np.isnan(held)))
        held[:, where] = values
        change = int(np.count_nonzero(~np.isnan(held))) - before
        self.present += change * self.sizes[number]
        self.look()

    def drop(self, number: int, maps: slice, stays: Array) -> None:
        """Drop the elements of some feature maps but for those that stay."""
        held = self.maps[number][maps]
        before = int(np.count_nonzero(~np.isnan(held)))
        held[:, ~stays] = np.nan
        change = int(np.count_nonzero(~np.isnan(held))) - before
        self.present += change * self.sizes[number]

    def stays(self, number: int, tile: TileOfMaps) -> Array:
        """Which places of a map wait for later tiles."""
        halo = self._halo(number)
        if halo == (CACHED, CACHED):
            return tile.later[number]
        if halo[1] is CACHED:
            return tile.inside[number]
        return np.zeros_like(tile.later[number])

    def _halo(self, number: int) -> Halos:
        return self.schedule.halo if number else self.schedule.input_halo

    def fetch(self, number: int, maps: slice, where: Array, counter: str) -> None:
        """Read elements from DRAM that are not in the buffer."""
        missing = where & np.isnan(self.maps[number][maps][0])
        values = self.dram[number][maps][:, missing]
        if np.isnan(values).any():
            raise ExecutionError(f"map {number} is read from DRAM before it is there")
        self.moved[counter] += values.size * self.sizes[number]
        self.put(number, maps, missing, values)

    def load_weights(self, layer: int) -> bool:
        """Count the weights that a tile brings in; return whether all of them stay."""
        filters, width, _ = self.weights[layer].shape
        total, kept = filters * width * self.vectors[layer], self.kept[layer]
        self.moved["weights"] += total - (kept if self.loaded[layer] else 0)
        self.loaded[layer] = True
        return bool(kept >= total)

    def run_tile(self, number: int) -> None:
        """Run one tile."""
        tile = self.tiles[number]
        if self.schedule.maps_per_pass is MapsPerPass.ONE:
            self._run_by_map(tile)
            return
        for layer in range(self.group.length):
            self._run_layer(layer, tile)
            for one in range(layer + 1):
                if self.last_readers[one] == layer + 1:
                    self.drop(one, slice(None), self.stays(one, tile))

    def _run_layer(self, layer: int, tile: TileOfMaps) -> None:
        """Run a layer of a tile: all feature maps."""
        one, every = self.group.layers[layer], slice(None)
        is_full = self.load_weights(layer)
        is_end = layer + 1 in self.ends
        streams_input = layer == 0 and not self.group.input_waits
        row = longest_row(tile.made[layer + 1])
        self.slot = row * one.widest_operand
        if layer == 0 and not streams_input:
            self.fetch(0, every, tile.needed[0], "input")
        if not is_end:
            self._arrive(layer + 1, every, tile)
        if streams_input:
            sums = self._stream_input(tile, is_full=is_full)
        else:
            vector = 0 if is_full else self.vectors[layer]
            if is_end:
                size = one.output_bytes
                by_row = row * size + vector * (one.channels // one.groups)
                by_map = int(tile.made[layer + 1].sum()) * size + vector
                self.slot += by_row if is_full else min(by_row, by_map)
            else:
                self.slot += vector
            self.look()
            source = self._source(layer + 1, self.maps)
            sums = sums_of(one, self.weights[layer], source, tile.made[layer + 1])
        values = self._with_operands(layer, every, tile, sums)
        self.slot = 0
        self._finish(layer + 1, every, tile, values)

    def _source(self, layer: int, maps: Sequence[Array]) -> Array:
        """Return the places that a layer slides over."""
        return np.concatenate([maps[one] for one in self.group.read_by(layer)])

    def _arrive(self, number: int, maps: slice, tile: TileOfMaps) -> None:
        """Make room for what the tile makes of a map, and read back what was sent."""
        if self._halo(number)[0] is SPILLED:
            old = tile.needed[number] & ~tile.made[number]
            self.fetch(number, maps, old, "halo_read")
        self.put(number, maps, tile.made[number], 0.0)

    def _stream_input(self, tile: TileOfMaps, *, is_full: bool) -> Array:
        """The sums of the first layer, its input passing by map, or by row of a map."""
        one, vector = self.group.layers[0], 0 if is_full else self.vectors[0]
        row = longest_row(tile.needed[0])
        by_row = row * self.sizes[0] + vector * (one.filters // one.groups)
        by_map = int(tile.needed[0].sum()) * self.sizes[0] + vector
        is_by_row = self.schedule.input_halo == (RELOADED, RELOADED) and by_row < by_map
        sums = np.zeros((one.filters, int(tile.made[1].sum())))
        room = self.slot
        for channel in range(one.channels):
            maps = slice(channel, channel + 1)
            self.slot = room + vector * (one.filters // one.groups if is_by_row else 1)
            pieces = rows_of(tile.needed[0]) if is_by_row else [tile.needed[0]]
            for piece in pieces:
                self.fetch(0, maps, piece, "input")
                sums += sums_of_map(
                    one, self.weights[0], self.maps[0], tile.made[1], channel, piece
                )
                if is_by_row:
                    self.drop(0, maps, self.stays(0, tile))
            self.drop(0, maps, self.stays(0, tile))
        self.slot = room
        return sums

    def _with_operands(self, layer: int, maps: slice, tile: TileOfMaps, sums: Array) -> Array:
        """The sums with what is added element by element."""
        made = tile.made[layer + 1]
        sizes = self.group.layers[layer].bytes_by_operand
        for operand, size in zip(self.beside[layer], sizes, strict=True):
            values = operand[maps][:, made]
            self.moved["input"] += values.size * size
            sums = sums + values
        for source, reader in self.group.skips:
            if reader == layer + 1:
                sums = sums + self.maps[source][maps][:, made]
        return sums % PRIME

    def _finish(self, number: int, maps: slice, tile: TileOfMaps, values: Array) -> None:
        """Leave what was made of a map in the buffer, in DRAM, or both."""
        if np.isnan(values).any():
            raise ExecutionError(f"layer {number} read elements that were not in the buffer")
        made = tile.made[number]
        if number in self.ends:
            if not np.isnan(self.dram[number][maps][:, made]).all():
                raise ExecutionError("an output was written twice")
            self.moved["output"] += values.size * self.sizes[number]
            self.dram[number][maps][:, made] = values
            return
        self.put(number, maps, made, values)
        halo = self._halo(number)
        if halo[0] is SPILLED:
            leaves = tile.beyond[number] if halo[1] is CACHED else tile.later[number]
            leaves = made & leaves
            self.dram[number][maps][:, leaves] = self.maps[number][maps][:, leaves]
            self.moved["halo_written"] += values.shape[0] * int(leaves.sum()) * self.sizes[number]
        if number in self.group.written:
            self._write_inside(number, maps, made)

    def _write_inside(self, number: int, maps: slice, made: Array) -> None:
        """Write a map that others read, each element once, whatever its halo did."""
        copy = self.written[number]
        fresh = made & np.isnan(copy[maps][0])
        copy[maps][:, fresh] = self.maps[number][maps][:, fresh]
        self.moved["output"] += (copy[maps].shape[0]) * int(fresh.sum()) * self.sizes[number]

    def _run_by_map(self, tile: TileOfMaps) -> None:
        """Run a tile: all layers for one feature map, then for the next."""
        last, every = self.group.length, slice(None)
        self.fetch(0, every, tile.needed[0], "input")
        is_full = [self.load_weights(layer) for layer in range(last)]
        self.put(last, every, tile.made[last], 0.0)
        sums = np.zeros((self.group.layers[-1].filters, int(tile.made[last].sum())))
        for one in range(self.group.dims(1)[0]):
            sums += self._run_map(one, tile, is_full)
        values = self._with_operands(last - 1, every, tile, sums)
        self._finish(last, every, tile, values)
        self.slot = 0
        self.drop(last, every, np.zeros_like(tile.made[last]))
        self.drop(0, every, self.stays(0, tile))

    def _run_map(self, one: int, tile: TileOfMaps, is_full: list[bool]) -> Array:
        """Run a feature map through all layers; return what it adds to the last one's sums."""
        last, maps = self.group.length, slice(one, one + 1)
        sums = np.zeros(0)
        for number, layer in enumerate(self.group.layers, 1):
            self.slot = 0
            made, source, weights = (
                tile.made[number],
                self.maps[number - 1],
                self.weights[number - 1],
            )
            if number < last:
                self._arrive(number, maps, tile)
            self.slot = 0 if is_full[number - 1] else self.vectors[number - 1]
            self.slot += longest_row(made) * layer.widest_operand
            self.look()
            if number < last:
                values = sums_of(layer, weights, source, made, one)
                self._finish(number, maps, tile, values % PRIME)
            else:
                sums = sums_of_map(layer, weights, source, made, one)
            if number > 1:
                self.drop(number - 1, maps, self.stays(number - 1, tile))
        return sums

    def check(self) -> None:
        """Raise ExecutionError unless all outputs are those of the layers run as a whole."""
        whole = whole_maps(self.group, self.dram[0], self.trained, self.beside)
        found = {**self.written, **{end: self.dram[end] for end in self.ends}}
        for end, values in found.items():
            if not np.array_equal(values, whole[end]):
                raise ExecutionError(f"map {end} in DRAM is not what its layer makes")


@dataclass(frozen=True, slots=True)
class TileOfMaps:
    """Of each map, which places a tile needs and makes, and which later tiles need.

    later: any; inside: those in the same row or column of tiles; beyond: the others.
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


def tiles_of(schedule: FusedSchedule) -> list[TileOfMaps]:
    """Return all tiles in their order: what they need and make is a rectangle of rows and columns."""
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
    """The elements of each map that each tile along one axis needs and makes."""
    group, count = schedule.group, schedule.tiles[axis]
    sizes = [group.dims(number)[1 + axis] for number in range(group.length + 1)]
    seen, ends = [np.zeros(size, dtype=bool) for size in sizes], group.ends
    found = []
    for tile in range(count):
        needed: dict[int, Array] = {}
        made: dict[int, Array] = {}
        for number in range(group.length, -1, -1):
            wanted = np.zeros(sizes[number], dtype=bool)
            if number in ends:
                wanted[sizes[-1] * tile // count : sizes[-1] * (tile + 1) // count] = True
            for reader, layer in enumerate(group.layers, 1):
                if number in group.read_by(reader):
                    wanted |= _windows(layer, axis, made[reader])
                if (number, reader) in group.skips:
                    wanted |= made[reader]
            halo = schedule.halo if number else schedule.input_halo
            is_again = halo[place] in (RECOMPUTED, RELOADED)
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
) -> list[TileOfMaps]:
    maps = range(group.length + 1)
    inside = [np.zeros(group.dims(number)[1:], dtype=bool) for number in maps]
    beyond = [np.zeros(group.dims(number)[1:], dtype=bool) for number in maps]
    tiles, row = [], -1
    for outer, needed, made in reversed(found):
        if outer != row:
            beyond = [one | other for one, other in zip(beyond, inside, strict=True)]
            inside = [np.zeros_like(one) for one in inside]
            row = outer
        later = [one | other for one, other in zip(beyond, inside, strict=True)]
        tiles.append(TileOfMaps(outer, needed, made, later, inside, beyond))
        inside = [one | other for one, other in zip(inside, needed, strict=True)]
    return tiles[::-1]


PRIME = 251


def kernel_area(layer: FusedLayer) -> int:
    """Return the places of a kernel."""
    return layer.rows.kernel * layer.columns.kernel


def random_kernel(layer: FusedLayer, random: np.random.Generator) -> Array:
    """Return weights of all filters: (filters, channels of a group, places of the kernel)."""
    shape = layer.filters, layer.channels // layer.groups, kernel_area(layer)
    return random.integers(0, PRIME, shape).astype(float)


def live_places(layer: FusedLayer, made: Array) -> Array:
    """Return which places of a kernel do not see padding alone, for what is made at all."""
    under = _under(layer, np.ones((layer.rows.inputs, layer.columns.inputs)), made, None)
    return np.logical_and(under.any(axis=1), layer.has_weights)


def sums_of(
    layer: FusedLayer, weights: Array, source: Array, made: Array, only: int | None = None
) -> Array:
    """Return what a layer makes at some places: (filters, places); of one filter, if it is named."""
    sums = np.zeros((layer.filters, int(made.sum())))
    per_group = layer.filters // layer.groups
    width = layer.channels // layer.groups
    channels = range(layer.channels)
    if only is not None:
        first = only // per_group * width
        channels = range(first, first + width)
    for channel in channels:
        sums += sums_of_map(layer, weights, source, made, channel)
    return sums if only is None else sums[only : only + 1]


def sums_of_map(
    layer: FusedLayer,
    weights: Array,
    source: Array,
    made: Array,
    channel: int,
    seen: Array | None = None,
) -> Array:
    """Return what one feature map, or its places `seen`, adds to what a layer makes."""
    width, per_group = layer.channels // layer.groups, layer.filters // layer.groups
    first = channel // width * per_group
    under = _under(layer, source[channel], made, seen)
    reached = np.flatnonzero(under.any(axis=0))  # one row of the input reaches few places
    sums = np.zeros((layer.filters, under.shape[1]))
    kernel = weights[first : first + per_group, channel % width]
    if not layer.has_weights:
        kernel = np.ones_like(kernel)
    sums[first : first + per_group, reached] = kernel @ under[:, reached]
    return sums


def _under(layer: FusedLayer, source: Array, made: Array, seen: Array | None) -> Array:
    """Return the input under each element of the kernel, (area, places); 0 beyond the edges."""
    rows, columns = np.nonzero(made)
    found = np.zeros((kernel_area(layer), len(rows)))
    for number in range(kernel_area(layer)):
        down, across = divmod(number, layer.columns.kernel)
        y = rows * layer.rows.stride - layer.rows.padding + down * layer.rows.dilation
        x = columns * layer.columns.stride - layer.columns.padding
        x = x + across * layer.columns.dilation
        inside = (y >= 0) & (y < source.shape[0]) & (x >= 0) & (x < source.shape[1])
        if seen is not None:
            inside[inside] = seen[y[inside], x[inside]]
        found[number, inside] = source[y[inside], x[inside]]
    return found


def whole_maps(
    group: FusedGroup, frame: Array, weights: Sequence[Array], beside: Sequence[Array]
) -> list[Array]:
    """Return all maps of a group, each layer run as a whole; beside: operands of each layer."""
    whole = [frame]
    for number, one in enumerate(group.layers, 1):
        every = np.ones(group.dims(number)[1:], dtype=bool)
        source = np.concatenate([whole[read] for read in group.read_by(number)])
        sums = sums_of(one, weights[number - 1], source, every).reshape(group.dims(number))
        sums += beside[number - 1].sum(axis=0)
        for added, reader in group.skips:
            if reader == number:
                sums += whole[added]
        whole.append(sums % PRIME)
    return whole

"""Memory and cost of tiled groups that end with the same section, for many tilings in one pass.

A grid divides the result of a group into tiles. Backwards from the result, each tile needs a
rectangle of every tensor; where windows overlap, the rectangles of neighbouring tiles overlap as
well (halo). A tile recomputes its halo, or reads the halo from a cache that earlier tiles have
filled. Tiles are executed in row-major order.

The input and the result of a group are stored whole. Each inner tensor has a tile buffer of the
size of its largest tile. With a halo cache, each inner tensor has two more buffers: rows that the
tiles below need, as wide as the map, and columns that the next tile needs.

One backward pass covers the tiles of all groups: the rectangle of a tensor does not depend on the
section where its group begins. Rows and columns are independent, so sizes, time and MACs of a
tiling are products: arrays (D, A), with a row for each number of tiles down and a column for each
number across.

Example: two 3x3 convolutions with padding 1 on 8x8 maps, result in 2x2 tiles of 4x4 pixels. Each
tile needs 5x5 pixels of the inner tensor, because the window adds 1 row and 1 column towards the
neighbour. With recomputation, 4 x 25 = 100 inner pixels are computed instead of 64. With a halo
cache, 64 are computed, and the tiles share 2 rows and 2 columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np

from cnn2csdf.geometry import Range
from cnn2csdf.network import Layer, Network
from cnn2csdf.weights import Array
from planners.arena.problem import Buffer
from planners.kernels import ranges
from planners.memory.answer import ScratchCount
from planners.memory.order import TopologicalOrder
from planners.memory.times import TileTimes, tile_lengths
from planners.plan.plan import Kind, Mode, Stage, Tiles
from planners.plan.regions import (
    COLUMNS,
    ROWS,
    Bands,
    Needs,
    TileRanges,
    bands,
    can_be_tiled,
    even_ends,
    fresh,
    largest_shared,
    multiply_accumulates_of_pixel,
)


def scratch_elements(scratch: ScratchCount, network: Network, layer: Layer, pixels: int) -> int:
    """Return the elements of scratch for this number of output pixels of a layer."""
    bank = layer.operator.filter_bank
    if bank is None or scratch is not ScratchCount.IM2COL:
        return 0
    channels = network.input_shapes(layer)[0].channels // bank.groups
    return pixels * channels * prod(bank.window.kernel)


def scratch_bytes(
    scratch: ScratchCount, network: Network, layer: Layer, pixels: int, element_bytes: int | None
) -> int:
    """Return the bytes of scratch; its elements have the size of those of the layer's input."""
    unit = element_bytes or network.layer(layer.inputs[0]).element_bytes
    return scratch_elements(scratch, network, layer, pixels) * unit


def even_tiles(layer: Layer, down: int, across: int, *, halo_cached: bool = False) -> Tiles:
    """Return tiles of nearly equal size over the output of a layer."""
    shape = layer.shape
    ends = even_ends(shape.height, down), even_ends(shape.width, across)
    return Tiles(row_ends=ends[0], column_ends=ends[1], halo_cached=halo_cached)


def tiled_stage(layers: Sequence[Layer], tiles: Tiles) -> Stage:
    """Return a stage that computes these layers tile by tile."""
    names = tuple(layer.name for layer in layers)
    return Stage(layers=names, rows=layers[-1].shape.rows, mode=Mode.TILES, tiles=tiles)


def alive(layers: Sequence[Layer], sizes: Mapping[str, Any]) -> Iterator[Any]:
    """Yield for each layer the sum of the sizes of the tensors live during the execution of the layer.

    A tensor from outside the layers is live from the start. Example: layers a, b with sizes x = 100
    (input), a = 40, b = 30: 140, then 70.
    """
    begin, end = lives(layers)
    for step in range(len(layers)):
        yield sum(size for name, size in sizes.items() if begin.get(name, 0) <= step <= end[name])


def lives(layers: Sequence[Layer]) -> tuple[dict[str, int], dict[str, int]]:
    """Return the index of the layer that produces each tensor, and the index of its last consumer."""
    begin = {layer.name: step for step, layer in enumerate(layers)}
    end = dict(begin)
    for step, layer in enumerate(layers):
        end |= dict.fromkeys(layer.inputs, step)
    return begin, end


def tile_buffers(
    tiles: TileRanges, scratch: ScratchCount, element_bytes: int | None
) -> Iterator[tuple[Kind, str, Buffer]]:
    """Yield the buffers of a tiled group between its input and its result: kind, tensor, buffer.

    Lifetimes are in steps, one for each layer.
    """
    network, layers, halo_cached = tiles.network, tiles.layers, tiles.tiles.halo_cached
    _, last = lives(layers)
    for step, layer in enumerate(layers):
        name, unit = layer.name, element_bytes or layer.element_bytes
        rows, columns = tiles.rows[name], tiles.columns[name]
        spans: dict[Kind, tuple[int, int, int]] = {}  # elements of a channel, and lifetime
        if layer is not layers[-1]:
            spans[Kind.TILE] = longest(rows) * longest(columns), step, last[name] + 1
            if halo_cached:
                width = columns[-1][1] - columns[0][0]
                spans[Kind.TILE_ROWS] = largest_shared(rows) * width, 0, len(layers)
                cached_columns = longest(rows) * largest_shared(columns)
                spans[Kind.TILE_COLUMNS] = cached_columns, 0, len(layers)
        for kind, (pixels, start, end) in spans.items():
            if size := layer.shape.channels * pixels * unit:
                yield kind, name, _buffer(name, kind, size, start, end, unit)
        pixels = longest(tiles.computed_rows(name)) * longest(tiles.computed_columns(name))
        if size := scratch_bytes(scratch, network, layer, pixels, element_bytes):
            unit = element_bytes or network.layer(layer.inputs[0]).element_bytes
            yield Kind.SCRATCH, name, _buffer(name, Kind.SCRATCH, size, step, step + 1, unit)


def _buffer(tensor: str, kind: Kind, size: int, start: int, end: int, alignment: int) -> Buffer:
    name = f"{tensor} {kind.value}"
    return Buffer(name=name, size=size, start=start, end=end, alignment=alignment)


def longest(tiles: Sequence[Range]) -> int:
    """Return the maximum extent of a tile along an axis."""
    return max(end - first for first, end in tiles)


# Rows of an array (5, N) with the tiles of a tensor along one axis, for N numbers of tiles: the maximum
# extent of a tile; the maximum of positions cached for the next tile; the extent of all tiles; the
# maximum, and the sum, of positions that a tile computes.
HELD, SHARED, SPAN, COMPUTED, TOTAL = range(5)


class SectionCosts(NamedTuple):
    """Costs of a section inside a tiled group, for all tilings: arrays (D, A).

    peak: maximum of live bytes. peak_at_begin: the same if the section begins the group, so that its
    input has no tile buffer. caches: bytes of the halo caches of the tensors that its layers produce.
    """

    peak: Array
    peak_at_begin: Array
    caches: Array
    nanoseconds: Array
    macs: Array


class TiledGroups:
    """The tiled groups of a network that is a chain of sections."""

    def __init__(
        self,
        layer_order: TopologicalOrder,
        tilings: Sequence[tuple[int, int]],
        times: TileTimes,
        scratch: ScratchCount,
    ) -> None:
        """Set the tilings, as numbers of tiles down and across; (1, 1) is no tiling."""
        self._layer_order, self._times, self._scratch = layer_order, times, scratch
        self._network, self._element_bytes = layer_order.network, times.element_bytes
        self._needs = Needs(layer_order.network)
        self._pairs = sorted(set(tilings) - {(1, 1)})

    def ending(
        self, upto: int, *, halo_cached: bool
    ) -> Iterator[tuple[int, Tiles, tuple[int, ...]]]:
        """Yield the groups that end before section `upto`, for each first section with all tilings.

        Each group is a triple: index of the first section; tiles; and bytes in addition to its two
        ends, nanoseconds and MACs.
        """
        layer_order, first = self._layer_order, upto
        while first and all(
            can_be_tiled(self._network, layer) for layer in layer_order.between(first - 1, first)
        ):
            first -= 1
        result = self._network.layer(layer_order.at(upto))
        shape = result.shape
        pairs = [pair for pair in self._pairs if pair[0] <= shape.height and pair[1] <= shape.width]
        if first == upto or not pairs:
            return
        layers = layer_order.between(first, upto)
        counts = [sorted({pair[axis] for pair in pairs}) for axis in (ROWS, COLUMNS)]
        tilings = [
            (
                counts[ROWS].index(down),
                counts[COLUMNS].index(across),
                even_tiles(result, down, across, halo_cached=halo_cached),
            )
            for down, across in pairs
        ]
        # For each axis, and each number of tiles along it, the ranges of all tensors.
        ranges_along = tuple(
            [bands(self._needs, layers, even_ends(extent, count), axis) for count in counts[axis]]
            for axis, extent in ((ROWS, shape.height), (COLUMNS, shape.width))
        )
        # Of the sections from `begin` on, but the peak of those after `begin`.
        peak = caches = nanoseconds = macs = np.zeros(tuple(map(len, counts)), np.int64)
        for begin in reversed(range(first, upto)):
            section = self._section(begin, result.name, ranges_along, halo_cached=halo_cached)
            caches = caches + section.caches
            nanoseconds = nanoseconds + section.nanoseconds
            macs = macs + section.macs
            size = caches + np.maximum(peak, section.peak_at_begin)
            for row, column, tiles in tilings:
                numbers = (array[row, column] for array in (size, nanoseconds, macs))
                yield begin, tiles, tuple(map(int, numbers))
            peak = np.maximum(peak, section.peak)

    def _section(
        self, number: int, result: str, ranges_along: tuple[list[Bands], ...], *, halo_cached: bool
    ) -> SectionCosts:
        """Return the costs of a section inside a group.

        result: of the whole group, which has no tile buffer.
        ranges_along: for each axis, and each number of tiles along it, the ranges of all tensors.
        """
        layers, source = self._layer_order.between(number, number + 1), self._layer_order.at(number)
        names = (source, *(layer.name for layer in layers))
        along = [
            {
                name: _along([ranges_of[name] for ranges_of in axis], halo_cached=halo_cached)
                for name in names
            }
            for axis in ranges_along
        ]
        kind = self._number_type(layers, along)
        rows, columns = (
            {name: np.array(table, kind).T for name, table in tables.items()} for tables in along
        )
        tile_bytes, cache_bytes = {}, {}
        for name in names:
            if name != result:
                pixel = self._pixel_bytes(name)
                row, column = rows[name], columns[name]
                tile_bytes[name] = pixel * np.multiply.outer(row[HELD], column[HELD])
                cache_bytes[name] = pixel * (
                    np.multiply.outer(row[SHARED], column[SPAN])
                    + np.multiply.outer(row[HELD], column[SHARED])
                )
        nothing = np.zeros_like(cache_bytes.pop(source))  # the source belongs to the section before
        scratch = [
            scratch_bytes(self._scratch, self._network, layer, 1, self._element_bytes)
            * np.multiply.outer(rows[layer.name][COMPUTED], columns[layer.name][COMPUTED])
            for layer in layers
        ]
        peak_at_begin = peak = total_macs = nothing
        live_bytes = alive(layers, tile_bytes)
        live_at_begin = alive(layers, tile_bytes | {source: nothing})
        for needed, live, live_if_first in zip(scratch, live_bytes, live_at_begin, strict=True):
            peak = np.maximum(peak, live + needed)
            peak_at_begin = np.maximum(peak_at_begin, live_if_first + needed)
        for layer in layers:
            macs_each = multiply_accumulates_of_pixel(self._network, layer)
            total = np.multiply.outer(rows[layer.name][TOTAL], columns[layer.name][TOTAL])
            total_macs = total_macs + macs_each * total
        times = (
            self._nanoseconds(layer, ranges_along, halo_cached=halo_cached) for layer in layers
        )
        return SectionCosts(
            peak=peak,
            peak_at_begin=peak_at_begin,
            caches=sum(cache_bytes.values(), nothing),
            nanoseconds=sum(times, nothing),
            macs=total_macs,
        )

    def _pixel_bytes(self, name: str) -> int:
        layer = self._network.layer(name)
        return layer.shape.channels * (self._element_bytes or layer.element_bytes)

    def _number_type(
        self, layers: Sequence[Layer], along: Sequence[Mapping[str, Sequence[Sequence[int]]]]
    ) -> Any:
        """Return the NumPy type that holds the bytes and MACs of all sections together.

        The largest number of each table bounds all products of a row and a column of a tensor.
        """
        most_pixels = {
            name: prod(max(max(row) for row in tables[name]) for tables in along)
            for name in along[0]
        }
        buffer_bytes = sum(2 * most_pixels[name] * self._pixel_bytes(name) for name in most_pixels)
        scratch_and_macs = sum(
            most_pixels[layer.name]
            * (
                scratch_bytes(self._scratch, self._network, layer, 1, self._element_bytes)
                + multiply_accumulates_of_pixel(self._network, layer)
            )
            for layer in layers
        )
        return ranges.number_type(
            (buffer_bytes + scratch_and_macs) * 2 * self._layer_order.sections
        )

    def _nanoseconds(
        self, layer: Layer, ranges_along: tuple[list[Bands], ...], *, halo_cached: bool
    ) -> Array:
        """Return the time of a layer in all tiles, (D, A), for all tilings in one array operation.

        The tiles of all tilings along an axis are concatenated; a reduction sums those of each tiling.
        """
        begins, lengths = [], []
        for axis, ranges_by_count in zip((ROWS, COLUMNS), ranges_along, strict=True):
            tables = [
                tile_lengths(
                    self._needs,
                    layer,
                    fresh(ranges_of[layer.name]) if halo_cached else ranges_of[layer.name],
                    axis,
                )
                for ranges_of in ranges_by_count
            ]
            begins.append(np.cumsum([0, *(len(table) for table in tables[:-1])]))
            lengths.append([length for table in tables for length in table])
        times = self._times.of_layer(layer, *lengths)
        down: Array = np.add.reduceat(times, begins[0], axis=0)
        both: Array = np.add.reduceat(down, begins[1], axis=1)
        return both


def _along(tilings: Sequence[tuple[Range, ...]], *, halo_cached: bool) -> list[tuple[int, ...]]:
    """The numbers of HELD to TOTAL, a row for each number of tiles."""
    rows: list[tuple[int, ...]] = []
    for tiles in tilings:
        own_tiles = fresh(tiles) if halo_cached else tiles
        shared = largest_shared(tiles) if halo_cached else 0
        span = tiles[-1][1] - tiles[0][0]
        total = sum(end - first for first, end in own_tiles)
        rows.append((longest(tiles), shared, span, longest(own_tiles), total))
    return rows

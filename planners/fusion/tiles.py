"""Memory and cost of tiled groups that end with the same section, for many tilings in one pass.

A tiling divides the result of a group into tiles. Backwards from the result, each tile needs a
rectangle of every tensor; where windows overlap, the rectangles of neighbouring tiles overlap as
well (halo). A tile recomputes its halo, or reads the halo from a cache that earlier tiles have
filled. Tiles are executed in row-major order.

The input and the result of a group are stored whole. Each inner tensor has a tile buffer of the
size of its largest tile. With a halo cache, each inner tensor has two more buffers: rows that the
tiles below need, as wide as the map, and columns that the next tile needs.

One backward pass covers the groups of all first sections: the rectangle of a tensor does not depend
on the section where its group begins. Rows and columns are independent, so sizes, time and MACs are
products of a number that depends on the tiles down and a number that depends on the tiles across. All
arrays have the shape (D, A), with a row for each number of tiles down and a column for each number of
tiles across; or (D, 1) and (1, A), which NumPy broadcasts.

Example: two 3x3 convolutions with padding 1 on 8x8 maps, result in 2x2 tiles of 4x4 pixels. Each
tile needs 5x5 pixels of the inner tensor, because the window adds 1 row and 1 column towards the
neighbour. With recomputation, 4 x 25 = 100 inner pixels are computed instead of 64. With a halo
cache, 64 are computed, and successive tiles share 2 rows and 2 columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from itertools import accumulate, chain
from math import prod
from operator import add
from typing import Any

import numpy as np

from cnn2csdf.geometry import Range
from cnn2csdf.network import Layer
from cnn2csdf.parameters import network_multiply_accumulates
from cnn2csdf.weights import Array
from planners.fusion.groups import FusionPoint, SectionRange, Terms, even_tiles
from planners.kernels import ranges
from planners.memory.answer import GroupMode
from planners.memory.order import TopologicalOrder
from planners.memory.stages import StageTable
from planners.memory.times import Lengths, TileTimes, tile_lengths
from planners.plan.plan import Kind, StreamBuffer
from planners.plan.regions import (
    COLUMNS,
    ROWS,
    Needs,
    TileRanges,
    bands,
    can_be_tiled,
    even_ends,
    fresh,
    largest_shared,
    length,
    multiply_accumulates_of_pixel,
)


def live_sizes(layers: Sequence[Layer], sizes: Mapping[str, Any]) -> Iterator[Any]:
    """Yield for each layer the sum of the sizes of the tensors live during the execution of the layer.

    sizes: numbers, or arrays of one shape. A tensor from outside the layers is live from the start.
    Example: layers a, b with sizes x = 100 (input), a = 40, b = 30: 140, then 70.
    """
    producers = {layer.name: step for step, layer in enumerate(layers)}
    last_steps = last_uses(layers)
    for step in range(len(layers)):
        yield sum(
            size
            for name, size in sizes.items()
            if producers.get(name, 0) <= step <= last_steps[name]
        )


def last_uses(layers: Sequence[Layer]) -> dict[str, int]:
    """Return for each tensor the index of the last layer that produces or reads it."""
    last_steps: dict[str, int] = {}
    for step, layer in enumerate(layers):
        last_steps |= dict.fromkeys((layer.name, *layer.inputs), step)
    return last_steps


def longest(tiles: Sequence[Range]) -> int:
    """Return the maximum extent of a tile along an axis."""
    return max(end - first for first, end in tiles)


def tile_buffers(tiles: TileRanges, terms: Terms, table: StageTable) -> Iterator[StreamBuffer]:
    """Yield the buffers of a tiled group between its input and its result, without offsets.

    `begin` and `end` of a buffer are steps of a tile, one for each layer, instead of groups.
    """
    layers, last_steps = tiles.layers, last_uses(tiles.layers)
    for step, layer in enumerate(layers):
        name, end = layer.name, len(layers)
        rows, columns = tiles.rows[name], tiles.columns[name]
        pixel_bytes = layer.shape.channels * table.bytes_of(name)
        if layer is not layers[-1]:
            size = pixel_bytes * longest(rows) * longest(columns)
            yield StreamBuffer.of_group(Kind.TILE, name, step, last_steps[name] + 1, size=size)
            if tiles.tiles.halo_cached:
                size = pixel_bytes * largest_shared(rows) * _span(columns)
                yield StreamBuffer.of_group(Kind.TILE_ROWS, name, 0, end, size=size)
                size = pixel_bytes * longest(rows) * largest_shared(columns)
                yield StreamBuffer.of_group(Kind.TILE_COLUMNS, name, 0, end, size=size)
        pixels = longest(tiles.computed_rows(name)) * longest(tiles.computed_columns(name))
        size = terms.scratch_bytes(tiles.network, layer, pixels)
        scratch = StreamBuffer.of_group(Kind.SCRATCH, name, step, size=size)
        yield replace(scratch, readers=(name,))


def _span(tiles: Sequence[Range]) -> int:
    """The extent from the first tile to the last."""
    return tiles[-1][1] - tiles[0][0]


class AxisTiles:
    """The tiles of all tensors of a group along one axis, for each number of tiles.

    Methods other than `lengths` return an array with an entry for each number of tiles: (D, 1) for
    rows, (1, A) for columns.
    """

    def __init__(
        self,
        needs: Needs,
        layers: Sequence[Layer],
        counts: Sequence[int],
        axis: int,
        number_type: Any,
        *,
        halo_cached: bool,
    ) -> None:
        """Set the layers. counts: the numbers of tiles into which the result is divided."""
        extent = length(layers[-1].shape, axis)
        self._needs, self._axis, self._type = needs, axis, number_type
        self._halo_cached = halo_cached
        # For each number of tiles, the ranges of each tensor.
        self._needed = [bands(needs, layers, even_ends(extent, count), axis) for count in counts]
        self._computed = [
            {name: fresh(tiles) if halo_cached else tiles for name, tiles in needed.items()}
            for needed in self._needed
        ]

    def _array(self, positions: Iterable[int]) -> Array:
        shape = (-1, 1) if self._axis == ROWS else (1, -1)
        return np.array([*positions], self._type).reshape(shape)

    def held(self, tensor: str) -> Array:
        """Return the positions that the largest tile holds."""
        return self._array(longest(needed[tensor]) for needed in self._needed)

    def spanned(self, tensor: str) -> Array:
        """Return the positions from the first tile to the last."""
        return self._array(_span(needed[tensor]) for needed in self._needed)

    def cached(self, tensor: str) -> Array:
        """Return the largest overlap of successive tiles; 0 without a halo cache."""
        overlap = largest_shared if self._halo_cached else lambda _: 0
        return self._array(overlap(needed[tensor]) for needed in self._needed)

    def computed(self, tensor: str) -> Array:
        """Return the most positions that a tile computes."""
        return self._array(longest(computed[tensor]) for computed in self._computed)

    def total(self, tensor: str) -> Array:
        """Return the sum of the positions that the tiles compute."""
        return self._array(
            sum(end - first for first, end in computed[tensor]) for computed in self._computed
        )

    def lengths(self, layer: Layer) -> tuple[list[Lengths], list[int]]:
        """Return the lengths of the tiles of a layer for all numbers of tiles, in one list.

        The second list has the index of the first tile of each number of tiles.
        """
        tables = [
            tile_lengths(self._needs, layer, computed[layer.name], self._axis)
            for computed in self._computed
        ]
        first_tiles = [*accumulate(map(len, tables[:-1]), initial=0)]
        return [*chain.from_iterable(tables)], first_tiles


class TiledGroups:
    """The tiled groups of a network that is a chain of sections, with all tilings of the terms."""

    def __init__(
        self, layer_order: TopologicalOrder, terms: Terms, table: StageTable, times: TileTimes
    ) -> None:
        self._layer_order, self._terms, self._table = layer_order, terms, table
        self._times, self._network = times, layer_order.network
        self._needs = Needs(layer_order.network)
        self._tilings = sorted(set(terms.tilings) - {(1, 1)})  # (1, 1) is no tiling
        # Bytes and MACs of all sections together: of a tensor, a tile and two halo caches are at most
        # the whole tensor each, and a tile computes at most the whole tensor.
        most_tiles = max(map(prod, self._tilings), default=1)
        largest = network_multiply_accumulates(self._network) * most_tiles
        for layer in self._network.layers:
            pixels = layer.shape.height * layer.shape.width
            largest += terms.scratch_bytes(self._network, layer, pixels)
            largest += 3 * table.tensor_bytes(layer.name)
        self._number_type = ranges.number_type(largest)

    def ending(self, upto: int, mode: GroupMode) -> Iterator[FusionPoint]:
        """Yield the groups that end before section `upto`, the shortest first, with all tilings."""
        layer_order, first = self._layer_order, upto
        while first and all(
            can_be_tiled(self._network, layer) for layer in layer_order.between(first - 1, first)
        ):
            first -= 1
        result = self._network.layer(layer_order.at(upto))
        height, width = result.shape.height, result.shape.width
        tilings = [
            (down, across) for down, across in self._tilings if down <= height and across <= width
        ]
        if first == upto or not tilings:
            return
        halo_cached = mode is GroupMode.CACHED
        layers = layer_order.between(first, upto)
        rows_count, columns_count = (sorted(set(counts)) for counts in zip(*tilings, strict=True))
        rows, columns = (
            AxisTiles(self._needs, layers, counts, axis, self._number_type, halo_cached=halo_cached)
            for axis, counts in ((ROWS, rows_count), (COLUMNS, columns_count))
        )
        grids = [
            (
                (rows_count.index(down), columns_count.index(across)),
                even_tiles(result, down, across, halo_cached=halo_cached),
            )
            for down, across in tilings
        ]
        whole_result = self._table.tensor_bytes(layer_order.at(upto))
        # Sums over the sections from `begin` on; the peak is over the sections after `begin`.
        peak = caches = nanoseconds = macs = np.zeros((1, 1), np.int64)
        for begin in reversed(range(first, upto)):
            source, layers = layer_order.at(begin), layer_order.between(begin, begin + 1)
            tiled = [layer.name for layer in layers if layer is not result]
            caches = sum((self._cache_bytes(name, rows, columns) for name in tiled), caches)
            nanoseconds = sum(
                (self._nanoseconds(layer, rows, columns) for layer in layers), nanoseconds
            )
            macs = sum((self._macs(layer, rows, columns) for layer in layers), macs)
            peak_at_begin, peak_inside = self._peaks(source, layers, tiled, rows, columns)
            inner_bytes = caches + np.maximum(peak, peak_at_begin)
            whole_bytes = self._table.tensor_bytes(source) + whole_result
            for index, tiles in grids:
                memory = whole_bytes + int(inner_bytes[index])
                group = SectionRange(begin, upto, mode, tiles)
                yield FusionPoint(memory, int(nanoseconds[index]), int(macs[index]), (group,))
            peak = np.maximum(peak, peak_inside)

    def _peaks(
        self,
        source: str,
        layers: Sequence[Layer],
        tiled: Sequence[str],
        rows: AxisTiles,
        columns: AxisTiles,
    ) -> tuple[Array, Array]:
        """Maximum of live bytes of a section that begins a group, and of a section inside a group.

        source: the input of the section, which is stored whole at the begin of a group, and has a tile
        buffer inside. tiled: the results of the layers that have a tile buffer.
        """
        scratch = [
            self._terms.scratch_bytes(self._network, layer, 1)
            * (rows.computed(layer.name) * columns.computed(layer.name))
            for layer in layers
        ]
        tile_bytes = {
            name: self._pixel_bytes(name) * rows.held(name) * columns.held(name)
            for name in (source, *tiled)
        }
        at_begin = {name: tile_bytes[name] for name in tiled}
        peak_at_begin, peak_inside = (
            reduce(np.maximum, map(add, live_sizes(layers, sizes), scratch))
            for sizes in (at_begin, tile_bytes)
        )
        return peak_at_begin, peak_inside

    def _cache_bytes(self, tensor: str, rows: AxisTiles, columns: AxisTiles) -> Array:
        """Bytes of the halo caches of a tensor: rows as wide as the map, and columns of a tile."""
        cached_rows = rows.cached(tensor) * columns.spanned(tensor)
        cached_columns = rows.held(tensor) * columns.cached(tensor)
        cached: Array = self._pixel_bytes(tensor) * (cached_rows + cached_columns)
        return cached

    def _macs(self, layer: Layer, rows: AxisTiles, columns: AxisTiles) -> Array:
        """Multiply-accumulates of a layer in all its tiles."""
        pixels: Array = rows.total(layer.name) * columns.total(layer.name)
        return multiply_accumulates_of_pixel(self._network, layer) * pixels

    def _pixel_bytes(self, tensor: str) -> int:
        return self._network.layer(tensor).shape.channels * self._table.bytes_of(tensor)

    def _nanoseconds(self, layer: Layer, rows: AxisTiles, columns: AxisTiles) -> Array:
        """Return the time of a layer in all its tiles, for all tilings in one array operation."""
        row_lengths, first_rows = rows.lengths(layer)
        column_lengths, first_columns = columns.lengths(layer)
        times = self._times.of_layer(layer, row_lengths, column_lengths)
        # Sums over the tiles of each tiling, which are adjacent rows and columns.
        times_of_rows: Array = np.add.reduceat(times, first_rows, axis=0)
        return np.add.reduceat(times_of_rows, first_columns, axis=1)

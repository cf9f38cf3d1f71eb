"""All tiled groups that end with one section: what their tiles hold and cost, for many grids at once.

One walk backwards through the chain gives the tiles of all groups: what a tile holds of a tensor
does not depend on where its group begins. Rows and columns are independent of each other, so that
sizes, time and work of a grid are products of what its rows and its columns say: arrays (D, A), a
row for each number of tiles down, a column for each number across.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import lcm, prod
from operator import mul
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cnn2csdf.network import Layer, Network, Shape
from cnn2csdf.parameters import layer_parameter_bytes, operations
from cnn2csdf.platforms import NANOSECONDS, Platform
from csdf.kernels.compile import SAFE
from planners.fusion.configurations import Chain, Section
from planners.fusion.tiles import Grid, last_steps, longest, per_place, scratch_bytes
from planners.fusion.ways import Scratch
from planners.kernels import ranges
from planners.tiling.regions import (
    COLUMNS,
    ROWS,
    Bands,
    Needs,
    Range,
    bands,
    can_be_tiled,
    even_ends,
    fresh,
    largest_shared,
    length,
)

Lengths = tuple[int, ...]  # places along an axis: of the output, then of each input


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """A platform in whole numbers: Platform.nanoseconds, without fractions.

    A phase takes (launch + max(operations * operation, bytes * byte)) / scale nanoseconds, rounded
    up, at least one.
    """

    scale: int
    launch: int
    operation: int
    byte: int

    def nanoseconds(self, work: int, moved: int) -> int:
        """Time of so many operations and bytes."""
        busy = self.launch + max(work * self.operation, moved * self.byte)
        return max(1, -(-busy // self.scale))


def price_of(platform: Platform) -> Price:
    """Return the platform in whole numbers."""
    parts = (
        platform.launch * NANOSECONDS,
        NANOSECONDS / platform.operations_per_second,
        NANOSECONDS / platform.bytes_per_second,
    )
    scale = lcm(*(part.denominator for part in parts))
    launch, operation, byte = (int(part * scale) for part in parts)
    return Price(scale=scale, launch=launch, operation=operation, byte=byte)


def lengths(
    needs: Needs, layer: Layer, ranges: Sequence[Range], axis: int
) -> Mapping[Lengths, int]:
    """Return how many tiles along an axis compute so many places from so many of each input."""
    inputs = needs.of(layer, axis)
    found: dict[Lengths, int] = {}
    for one in ranges:
        if one[0] < one[1]:
            read = [need.clipped(one) for need in inputs]
            places = (one[1] - one[0], *(end - first for first, end in read))
            found[places] = found.get(places, 0) + 1
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerCost:
    """The needs of all tiles together for one layer.

    element_bytes: of each element and each trained number; None: as the network stores them.
    """

    network: Network
    layer: Layer
    price: Price
    element_bytes: int | None

    def whole(self) -> int:
        """Nanoseconds of the layer as a whole."""
        inputs = self.network.input_shapes(self.layer)
        elements = [shape.elements for shape in (self.layer.shape, *inputs)]
        moved = sum(map(mul, elements, self.sizes)) + self.parameter_bytes
        return self.price.nanoseconds(operations(self.layer, inputs), moved)

    def tiled(self, rows: Mapping[Lengths, int], columns: Mapping[Lengths, int]) -> int:
        """Nanoseconds of all tiles, given how many have which lengths along each axis."""
        inputs = self.network.input_shapes(self.layer)
        shape = self.layer.shape
        maps = [one.channels for one in (shape, *inputs)]
        place = list(map(mul, maps, self.sizes))  # bytes of one place of each tensor
        work = operations(self.layer, inputs) // (shape.height * shape.width)
        parameters, total = self.parameter_bytes, 0
        for heights, down in rows.items():
            for widths, across in columns.items():
                moved = sum(map(prod, zip(place, heights, widths, strict=True))) + parameters
                each = self.price.nanoseconds(work * heights[0] * widths[0], moved)
                total += each * down * across
        return total

    @property
    def sizes(self) -> tuple[int, ...]:
        """Bytes of an element of what the layer writes, and of each of its inputs."""
        layers = (self.layer, *map(self.network.layer, self.layer.inputs))
        return tuple(self.element_bytes or one.element_bytes for one in layers)

    @property
    def parameter_bytes(self) -> int:
        """Bytes of the trained numbers of the layer."""
        inputs = self.network.input_shapes(self.layer)
        return layer_parameter_bytes(self.layer, inputs, self.element_bytes)


Numbers = NDArray[Any]  # int64, or Python's integers where those might be too small


class Tilings(NamedTuple):
    """Grids to look at, and the numbers of tiles along each axis that occur in them."""

    pairs: frozenset[tuple[int, int]]
    down: tuple[int, ...]
    across: tuple[int, ...]

    @classmethod
    def of(cls, pairs: Sequence[tuple[int, int]]) -> Tilings:
        """Return the tilings of these pairs, without the pair of one and one, which tiles nothing."""
        found = frozenset(pair for pair in pairs if pair != (1, 1))
        return cls(
            found,
            tuple(sorted({down for down, _ in found})),
            tuple(sorted({across for _, across in found})),
        )


class TiledOption(NamedTuple):
    """A group from section `first` on, with the most bytes alive besides its input and output."""

    first: int
    grid: Grid
    bytes: int
    nanoseconds: int
    multiply_accumulates: int


class _Along(NamedTuple):
    """Tiles of one tensor along one axis; (N,) for each of N numbers of tiles."""

    held: Numbers  # most places that one tile holds
    shared: Numbers  # most places that one tile keeps for the next
    span: Numbers  # places that all tiles hold
    computed: Numbers  # most places that one tile computes
    total: Numbers  # places that all tiles compute, one after another


class _Lengths(NamedTuple):
    """The distinct lengths of tiles along one axis, E in all, one number of tiles after another."""

    places: Numbers  # (E, 1 + inputs): of the output, and of each input
    tiles: Numbers  # (E,) that are so long
    begin: Numbers  # (N,) where each number of tiles begins


class _Section(NamedTuple):
    """A section inside a group, (D, A): bytes alive at most, without those kept; and its cost.

    begun: alive where the section begins the group, so that its input is no tile. kept: of what its
    own layers write.
    """

    alive: Numbers
    begun: Numbers
    kept: Numbers
    nanoseconds: Numbers
    multiply_accumulates: Numbers


class TilesTo:
    """The tiled groups that end with one section."""

    def __init__(
        self,
        needs: Needs,
        chain: Chain,
        upto: int,
        tilings: Tilings,
        price: Price,
        *,
        scratch: Scratch,
        element_bytes: int | None,
    ) -> None:
        self._chain, self._upto, self._tilings = chain, upto, tilings
        self._network, self._needs, self._scratch = chain.network, needs, scratch
        self._first = _tiled_from(chain, upto)
        self._layers = chain.layers(self._first, upto)
        self._price, self._element_bytes = price, element_bytes
        if not self._layers:
            return
        shape = self._layers[-1].shape
        self._down = [tiles for tiles in tilings.down if tiles <= shape.height]
        self._across = [tiles for tiles in tilings.across if tiles <= shape.width]
        self._rows = self._bands(self._down, ROWS)
        self._is_square = self._down == self._across and all(map(needs.is_square, self._layers))
        self._columns = self._rows if self._is_square else self._bands(self._across, COLUMNS)

    def _bands(self, counts: Sequence[int], axis: int) -> list[Bands]:
        extent = length(self._layers[-1].shape, axis)
        return [
            bands(self._needs, self._layers, even_ends(extent, tiles), axis) for tiles in counts
        ]

    def groups(self, *, keeps: bool) -> Iterator[TiledOption]:
        """Yield the groups, for each beginning all grids."""
        if not self._layers or not self._down or not self._across:
            return
        shape = self._layers[-1].shape
        grids = [
            (
                row,
                column,
                Grid(rows=even_ends(shape.height, down), columns=even_ends(shape.width, across)),
            )
            for row, down in enumerate(self._down)
            for column, across in enumerate(self._across)
            if (down, across) in self._tilings.pairs
        ]
        alive = kept = nanoseconds = work = np.zeros((len(self._down), len(self._across)), np.int64)
        for first in reversed(range(self._first, self._upto)):
            found = self._section(self._chain.sections[first], keeps=keeps)
            nanoseconds = nanoseconds + found.nanoseconds
            work = work + found.multiply_accumulates
            size = kept + found.kept + np.maximum(alive, found.begun)
            for row, column, grid in grids:
                yield TiledOption(
                    first,
                    grid,
                    int(size[row, column]),
                    int(nanoseconds[row, column]),
                    int(work[row, column]),
                )
            alive = np.maximum(alive, found.alive)
            kept = kept + found.kept

    def _section(self, section: Section, *, keeps: bool) -> _Section:
        layers = [self._network.layer(name) for name in section.layers]
        names = (section.source, *section.layers)
        down, across = (
            {name: _along(held, name, keeps=keeps) for name in names}
            for held in (self._rows, self._columns)
        )
        kind = self._kind(layers, down, across)
        rows, columns = (
            {name: _Along(*np.array(table, kind).T) for name, table in tables.items()}
            for tables in (down, across)
        )
        tile, kept = {}, {}
        for name in rows:
            if name != self._layers[-1].name:
                layer = self._network.layer(name)
                place = layer.shape.channels * (self._element_bytes or layer.element_bytes)
                row, column = rows[name], columns[name]
                tile[name] = place * np.multiply.outer(row.held, column.held)
                kept[name] = place * (
                    np.multiply.outer(row.shared, column.span)
                    + np.multiply.outer(row.held, column.shared)
                )
        nothing = np.zeros_like(kept.pop(section.source))
        scratch = [
            scratch_bytes(self._network, layer, 1, self._scratch, self._element_bytes)
            * np.multiply.outer(rows[layer.name].computed, columns[layer.name].computed)
            for layer in layers
        ]
        return _Section(
            _most_alive(section, layers, tile, scratch),
            _most_alive(section, layers, tile | {section.source: nothing}, scratch),
            sum(kept.values(), nothing),
            sum((self._nanoseconds(layer, keeps=keeps) for layer in layers), nothing),
            sum(
                (
                    per_place(self._network, layer)
                    * np.multiply.outer(rows[layer.name].total, columns[layer.name].total)
                    for layer in layers
                ),
                nothing,
            ),
        )

    def _kind(self, layers: Sequence[Layer], *tables: Mapping[str, list[tuple[int, ...]]]) -> Any:
        """Return the numpy type that holds the bytes and the work of all sections together."""
        network, given = self._network, self._element_bytes
        most = {
            name: prod(max(max(row) for row in table[name]) for table in tables)
            for name in tables[0]
        }
        bytes_ = sum(
            2 * most[name] * (layer := network.layer(name)).shape.channels
            * (given or layer.element_bytes)
            for name in most
        )  # fmt: skip
        spent = sum(
            most[one.name]
            * (scratch_bytes(network, one, 1, self._scratch, given) + per_place(network, one))
            for one in layers
        )
        return ranges.number_type((bytes_ + spent) * 2 * len(self._chain.sections))

    def _nanoseconds(self, layer: Layer, *, keeps: bool) -> Numbers:
        """(D, A): the time of a layer in all tiles, LayerCost.tiled for all grids at once."""
        inputs = self._network.input_shapes(layer)
        shape, price = layer.shape, self._price
        cost = LayerCost(
            network=self._network, layer=layer, price=price, element_bytes=self._element_bytes
        )
        kind = np.int64 if self._fits(layer, inputs, cost) else object
        rows = columns = self._lengths(self._rows, layer, ROWS, kind, keeps=keeps)
        if not self._is_square:
            columns = self._lengths(self._columns, layer, COLUMNS, kind, keeps=keeps)
        moved: Numbers = (
            np.zeros((len(rows.tiles), len(columns.tiles)), kind) + cost.parameter_bytes
        )
        for index, one in enumerate((shape, *inputs)):
            moved = moved + one.channels * cost.sizes[index] * np.multiply.outer(
                rows.places[:, index], columns.places[:, index]
            )
        each = operations(layer, inputs) // (shape.height * shape.width)
        work = each * np.multiply.outer(rows.places[:, 0], columns.places[:, 0])
        busy = price.launch + np.maximum(work * price.operation, moved * price.byte)
        times = np.maximum(-(-busy // price.scale), 1) * np.multiply.outer(
            rows.tiles, columns.tiles
        )
        down: Numbers = np.add.reduceat(times, rows.begin, axis=0)
        both: Numbers = np.add.reduceat(down, columns.begin, axis=1)
        return both

    def _fits(self, layer: Layer, inputs: Sequence[Shape], cost: LayerCost) -> bool:
        """Whether 64 bits hold the time of all tiles: none takes longer than the whole layer."""
        tiles = max(self._down) * max(self._across)
        elements = layer.shape.elements + sum(shape.elements for shape in inputs)
        moved = elements * max(cost.sizes) + cost.parameter_bytes
        busy = self._price.launch + max(
            operations(layer, inputs) * self._price.operation,
            moved * self._price.byte,
        )
        return busy * tiles * len(self._chain.network.layers) <= SAFE

    def _lengths(
        self, found: Sequence[Bands], layer: Layer, axis: int, kind: Any, *, keeps: bool
    ) -> _Lengths:
        tables = [
            lengths(self._needs, layer, _computed(one[layer.name], keeps=keeps), axis)
            for one in found
        ]
        begin = np.cumsum([0, *(len(table) for table in tables[:-1])])
        return _Lengths(
            np.array([places for table in tables for places in table], kind),
            np.array([tiles for table in tables for tiles in table.values()], kind),
            begin,
        )


def _along(found: Sequence[Bands], name: str, *, keeps: bool) -> list[tuple[int, ...]]:
    """The numbers of _Along, a row for each number of tiles."""
    held = [one[name] for one in found]
    computed = [_computed(tiles, keeps=keeps) for tiles in held]
    return [
        (
            longest(tiles),
            largest_shared(tiles) * keeps,
            tiles[-1][1] - tiles[0][0],
            longest(own),
            sum(end - first for first, end in own),
        )
        for tiles, own in zip(held, computed, strict=True)
    ]


def _computed(tiles: tuple[Range, ...], *, keeps: bool) -> tuple[Range, ...]:
    return fresh(tiles) if keeps else tiles


def _most_alive(
    section: Section,
    layers: Sequence[Layer],
    tile: Mapping[str, Numbers],
    scratch: Sequence[Numbers],
) -> Numbers:
    """Most bytes alive at one step of the section; its result lives to the end."""
    last = {**last_steps(layers), section.result: len(layers) - 1}
    born = {section.source: 0, **{layer.name: step for step, layer in enumerate(layers)}}
    most = np.zeros_like(scratch[0])
    for step, needed in enumerate(scratch):
        alive = [size for name, size in tile.items() if born[name] <= step <= last[name]]
        most = np.maximum(most, sum(alive, needed))
    return most


def _tiled_from(chain: Chain, upto: int) -> int:
    """The first section of the longest tiled group that ends there; `upto` if there is none."""
    first = upto
    while first and all(
        can_be_tiled(chain.network, layer) for layer in chain.layers(first - 1, first)
    ):
        first -= 1
    return first

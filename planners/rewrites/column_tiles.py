"""Tiles of columns: a network in which each tile of a span of layers has copies of these layers.

A tile is a range of columns of the result of the span, in all rows. The copies compute the columns that
the tile needs, so neighbouring tiles recompute the halo that they share. A tile begins with slices of
the tensors that the span reads. The result of the span is the concatenation of the results of the
tiles along the columns. So the rows in the line buffers of a tile are shorter than full rows.

A single tile has all columns. It is useful as well: it reads each row of several whole tensors once,
and passes on, row by row, a result that the span itself also reads.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

from cnn2csdf import operators as op
from cnn2csdf.geometry import Range
from cnn2csdf.network import Layer, Network
from cnn2csdf.parameters import with_named_arrays
from planners.plan.plan import Mode, Stage
from planners.plan.regions import COLUMNS, Needs, can_be_tiled, even_ends, hull, network_of
from planners.rewrites.layer_copies import COLUMNS as COLUMNS_OF_MAP
from planners.rewrites.layer_copies import (
    Copy,
    LayerCopies,
    Rewritten,
    replaced_layers,
    side_by_side,
)


class ColumnTile(NamedTuple):
    """The layers of one tile, in execution order.

    slices: columns of the tensors that the span reads. layers: the copies of the layers of the span.
    cuts: for each copy, the slices executed before it, where it needs fewer columns of a tensor than
    the tile computes. results: the results of the tile. slice_of: for each copy that computes more
    columns than its result, or is also read inside the tile, the slice that is the result.
    """

    slices: tuple[str, ...]
    layers: tuple[str, ...]
    cuts: Mapping[str, tuple[str, ...]]
    results: tuple[str, ...]
    slice_of: Mapping[str, str]


def in_columns(
    network: Network, inside: Sequence[str], tiles: int, only: int | None = None
) -> Rewritten[ColumnTile] | None:
    """Return the network where some layers run in tiles of columns; None where they cannot.

    inside: layers in topological order. The results of this span are the tensors that a layer outside
    it reads, and the tensors without a reader.
    only: index of the one tile to copy, to determine its size. The layers that read the results are
    then left out. The network must be a part (part_of), where these are outputs.
    """
    names_of_layers = {layer.name for layer in network.layers}
    if not inside or not names_of_layers.issuperset(inside) or len(set(inside)) < len(inside):
        return None
    layers = [network.layer(name) for name in inside]
    for number, layer in enumerate(layers):
        if set(layer.inputs) & set(inside[number:]) or not works_by_columns(network, layer):
            return None
    readers = network.consumers
    results = [
        layer
        for layer in layers
        if not readers[layer.name] or set(readers[layer.name]) - set(inside)
    ]
    if not 1 <= tiles <= min(result.shape.width for result in results):
        return None
    return _Tiling(network, layers, results).rewritten(tiles, only)


def part_of(network: Network, inside: Sequence[str]) -> Network:
    """Return some layers as a network, whose inputs are the tensors that they read."""
    readers = network.consumers
    results = [name for name in inside if set(readers[name]) - set(inside)]
    layers = [network.layer(name) for name in inside]
    return network_of(network, layers, {name: f"{name}, result" for name in results})


def _in_order(layers: Sequence[Layer]) -> tuple[Layer, ...]:
    """Sort layers topologically, outputs last; otherwise the order is stable."""
    left = {layer.name: layer for layer in layers if not layer.is_output}
    ordered = dict[str, Layer]()
    while left:
        for name, layer in list(left.items()):
            if ordered.keys() >= set(layer.inputs):
                ordered[name] = left.pop(name)
    outputs = (layer for layer in layers if layer.is_output)
    return (*ordered.values(), *outputs)


def works_by_columns(network: Network, layer: Layer) -> bool:
    """Return whether columns of the result of a layer need only columns of its inputs."""
    if not layer.inputs:
        return False
    if _enlargement(network, layer):
        return layer.shape.is_map and not layer.epilogue
    if not can_be_tiled(network, layer):
        return False
    window = layer.operator.sliding_window
    if window is not None:
        return not any(window.overhang)
    shapes = network.input_shapes(layer)
    return layer.operator.keeps_columns and all(
        shape.width == layer.shape.width for shape in shapes
    )


def _enlargement(network: Network, layer: Layer) -> int:
    """The number of copies that a resize makes of each column; 0 where it is not an integer."""
    factors = layer.operator.enlargement(network.input_shapes(layer)[0])
    _, of_columns = factors or (0, 0)
    return of_columns


class _Tiling:
    """A span of layers, cut into tiles of columns."""

    def __init__(self, network: Network, layers: Sequence[Layer], results: Sequence[Layer]) -> None:
        self._network, self._layers, self._results = network, layers, results
        self._inside = {layer.name for layer in layers}
        self._needs = Needs(network)
        self._added = LayerCopies(network)

    def rewritten(self, count: int, only: int | None) -> Rewritten[ColumnTile] | None:
        """Return the network with copies for `count` tiles; None if a copy is impossible.

        only: as in in_columns.
        """
        columns = {
            result.name: list(pairwise((0, *even_ends(result.shape.width, count))))
            for result in self._results
        }
        tiles = []
        for number in range(count) if only is None else (only,):
            tile = self._tile(number + 1, {name: spans[number] for name, spans in columns.items()})
            if tile is None:
                return None
            tiles.append(tile)
        added = list(self._added.made.values())
        if only is not None:
            rest = (layer for layer in self._network.layers if not self._reads_or_is_inside(layer))
            network = replace(self._network, layers=(*rest, *added))
            return Rewritten(network=network, copies=self._added.copies, parts=tuple(tiles))
        for index, result in enumerate(self._results):
            added.append(
                side_by_side(result, [tile.results[index] for tile in tiles], COLUMNS_OF_MAP)
            )
        last = self._layers[-1].name
        # Sorted, as layers outside the span, but between its layers, may read its results.
        layers = replaced_layers(self._network, last, added, without=self._inside)
        network = replace(self._network, layers=_in_order(layers))
        return Rewritten(network=network, copies=self._added.copies, parts=tuple(tiles))

    def _reads_or_is_inside(self, layer: Layer) -> bool:
        """Whether a layer belongs to the span or reads a tensor of it."""
        return not self._inside.isdisjoint((layer.name, *layer.inputs))

    def _needed(self, layer: Layer, wanted: Range) -> Iterator[tuple[str, Range]]:
        """The columns of each input that some columns of a layer need, not clipped."""
        if factor := _enlargement(self._network, layer):
            first, end = wanted
            yield layer.inputs[0], (first // factor, -(-end // factor))
            return
        for need in self._needs.of(layer, COLUMNS):
            yield need.source, need.of(wanted)

    def _columns(
        self, wanted: Mapping[str, Range]
    ) -> tuple[dict[str, Range], dict[tuple[str, str], Range]] | None:
        """The columns that each layer of a tile computes, and that a layer reads of an input, by both.

        wanted: of the results of the tile. None where a layer reads only padding.
        """
        computed, read = dict(wanted), dict[tuple[str, str], Range]()
        for layer in reversed(self._layers):
            # An enlargement computes all columns of each column that it reads.
            if factor := _enlargement(self._network, layer):
                first, end = computed[layer.name]
                computed[layer.name] = first // factor * factor, -(-end // factor) * factor
            for source, (before, upto) in self._needed(layer, computed[layer.name]):
                first, end = max(before, 0), min(upto, self._network.layer(source).shape.width)
                if first >= end:
                    return None
                span = first, end
                read[layer.name, source] = hull(read.get((layer.name, source), span), span)
                if source in self._inside:
                    computed[source] = hull(computed.get(source, span), span)
        return computed, read

    def _tile(self, number: int, wanted: Mapping[str, Range]) -> ColumnTile | None:
        """The layers of a tile that computes the wanted columns; None where a copy is impossible."""
        columns = self._columns(wanted)
        if columns is None:
            return None
        computed, read = columns
        names: dict[tuple[str, Range], str] = {}  # of tensors of the tile
        slices, layers, cuts = list[str](), list[str](), dict[str, tuple[str, ...]]()
        for layer in self._layers:
            sources, before = list[str](), list[str]()
            for source in layer.inputs:
                span = read[layer.name, source]
                if (source, span) not in names:
                    width = self._network.layer(source).shape.width
                    whole_span = computed.get(source, (0, width))
                    base = names.get((source, whole_span), source)
                    cut = self._slice(base, _within(whole_span, span), source, number)
                    names[source, span] = cut
                    (before if source in self._inside else slices).append(cut)
                sources.append(names[source, span])
            copy = self._copy(layer, computed[layer.name], sources, number)
            if copy is None:
                return None
            names[layer.name, computed[layer.name]] = copy
            layers.append(copy)
            cuts[copy] = tuple(before)
        results, slice_of = [], dict[str, str]()
        for name, span in wanted.items():
            copy = names[name, computed[name]]
            if span != computed[name] or self._inside.intersection(self._network.consumers[name]):
                slice_of[copy] = self._slice(copy, _within(computed[name], span), name, number)
            results.append(slice_of.get(copy, copy))
        return ColumnTile(tuple(slices), tuple(layers), cuts, tuple(results), slice_of)

    def _slice(self, base: str, span: Range, source: str, number: int) -> str:
        """Add a slice of some columns of a tensor; return its name."""
        wanted = f"{source} for {self._layers[-1].name}, columns {number}"
        return self._added.cut(base, COLUMNS_OF_MAP, span, wanted, source)

    def _copy(
        self, layer: Layer, columns: Range, sources: Sequence[str], number: int
    ) -> str | None:
        """Add the copy of a layer for some columns; None where its width would be another."""
        operator, window = layer.operator, layer.operator.sliding_window
        first, end = columns
        if window is not None:
            _, (begin, upto) = next(self._needed(layer, columns))
            width, rows = self._network.input_shapes(layer)[0].width, window.rows
            padding = rows.before, max(0, -begin), rows.after, max(0, upto - width)
            operator = operator.with_window(replace(window, padding=padding))
        elif _enlargement(self._network, layer):
            operator = op.Resize(size=(layer.shape.height, end - first), function="nearest")
        copied = replace(
            with_named_arrays(self._network, layer), operator=operator, inputs=tuple(sources)
        )
        if self._added.shape_of(copied).dims != (*layer.shape.dims[:2], end - first):
            return None
        return self._added.add(copied, f"{layer.name}, columns {number}", Copy(layer.name))


def _within(whole: Range, span: Range) -> Range:
    """A range of columns, counted from the first column of a wider range."""
    (begin, _), (first, end) = whole, span
    return first - begin, end - begin


def stages_of_tile(
    network: Network, tile: ColumnTile, inside: Sequence[str], stages: Sequence[Stage]
) -> list[Stage] | None:
    """Return the stages of the span, applied to a tile; None where a stage cuts columns.

    network: the network that contains the tile. inside: the layers of the span. Slices are stages by
    themselves.
    """
    names = dict(zip(inside, tile.layers, strict=True))
    on_tile = [Stage(layers=(name,)) for name in tile.slices]
    for stage in stages:
        layers = tuple(names[name] for name in stage.layers)
        cuts = [cut for name in layers for cut in tile.cuts[name]]
        if stage.mode is not Mode.ROWS:
            return None
        if any(network.layer(cut).inputs[0] in layers for cut in cuts):
            return None
        results = [tile.slice_of[name] for name in layers if name in tile.slice_of]
        on_tile += [Stage(layers=(cut,)) for cut in cuts]
        accumulating = stage.accumulating_layer and names[stage.accumulating_layer]
        on_tile.append(replace(stage, layers=layers, accumulating_layer=accumulating))
        on_tile += [Stage(layers=(result,)) for result in results]
    return on_tile

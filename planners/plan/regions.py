"""Regions of tensors: the rows and columns of its inputs that a layer needs, and the tiles of groups.

Rows follow the row rule of cnn2csdf; columns follow the same rule, of the layer turned around its
diagonal. Example: output rows (0, 4) of a 3x3 convolution with padding 1 need rows (-1, 5), clipped to
(0, 5). The result of a group is cut into tiles along an axis. From the result back, each tile needs a
range of every tensor (`bands`); the ranges of neighbouring tiles overlap in halos. A tile computes all
of its range, or the part that no earlier tile has computed (`fresh`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

from cnn2csdf.geometry import Range, Region
from cnn2csdf.network import Layer, Network, Shape
from cnn2csdf.operators import Input, Output
from cnn2csdf.parameters import multiply_accumulates
from cnn2csdf.weights import Model
from csdf.errors import InvalidNetwork, InvalidPlan
from csdf.names import longer_name
from planners.plan.plan import Stage, Tiles

RangeNeeded = Callable[[Range], Range]  # of the output -> of the input, not clipped

ROWS, COLUMNS = 0, 1  # axes


def length(shape: Shape, axis: int) -> int:
    """Return the rows, or the columns, of a tensor."""
    return shape.height if axis == ROWS else shape.width


def can_be_tiled(network: Network, layer: Layer) -> bool:
    """Whether each rectangle of its output needs no more than a rectangle of each input."""
    shapes = (*network.input_shapes(layer), layer.shape)
    if not all(shape.is_map for shape in shapes):
        return False
    return all(operator.is_tileable for operator in (layer.operator, *layer.epilogue))


def range_needed(layer: Layer, index: int, inputs: Sequence[Shape], axis: int) -> RangeNeeded:
    """Return which range of input `index` a range of the output needs, along one axis.

    Both ends are monotonic in the ends of the output range. Raises InvalidNetwork for a layer that
    needs all of its input.
    """
    operator = layer.operator
    if axis == COLUMNS:
        needed = operator.columns_needed(index, inputs, layer.shape)
    else:
        needed = operator.rows_needed(index, inputs, layer.shape)
    if needed is None:
        raise InvalidNetwork(f"layer {layer.name!r} needs all of its input at once")

    def range_of_input(wanted: Range) -> Range:
        first, end = wanted
        (begin, _), (_, upto) = needed(first), needed(end - 1)
        return begin, upto

    return range_of_input


class AxisNeed(NamedTuple):
    """The demand of a layer on one input along an axis of `limit` positions."""

    source: str
    of: RangeNeeded
    limit: int

    def clipped(self, wanted: Range) -> Range:
        """Return the range of the input that a range of the output needs."""
        return clipped(self.of(wanted), self.limit)

    def padding(self, wanted: Range) -> Range:
        """Return the needed positions before and after the clipped range.

        A number is negative where the clipped range, the nearest position, is outside the needed range.
        """
        (first, end), (begin, upto) = self.of(wanted), self.clipped(wanted)
        return begin - first, end - upto


class Needs:
    """Cache of the demands of all layers of a network on their inputs."""

    def __init__(self, network: Network) -> None:
        self.network = network
        self._found: dict[tuple[str, int], tuple[AxisNeed, ...]] = {}

    def of(self, layer: Layer, axis: int) -> tuple[AxisNeed, ...]:
        """Return the demand of a layer on each input. Raises InvalidNetwork if it needs all of one."""
        key = layer.name, axis
        if key not in self._found:
            inputs = self.network.input_shapes(layer)
            self._found[key] = tuple(
                AxisNeed(
                    source, range_needed(layer, index, inputs, axis), length(inputs[index], axis)
                )
                for index, source in enumerate(layer.inputs)
            )
        return self._found[key]


def even_ends(extent: int, tiles: int) -> tuple[int, ...]:
    """Return the ends of this number of tiles, whose sizes differ by one position at most.

    Raises InvalidPlan for more tiles than positions.
    """
    if not 1 <= tiles <= extent:
        raise InvalidPlan(f"{tiles} tiles over {extent} places; expected 1 to {extent}")
    return tuple(extent * (tile + 1) // tiles for tile in range(tiles))


def clipped(wanted: Range, limit: int) -> Range:
    """Return the range clipped to [0, limit); at least one position, the nearest if disjoint."""
    first, end = wanted
    first = min(max(first, 0), limit - 1)
    return first, max(first + 1, min(end, limit))


def hull(first: Range, second: Range) -> Range:
    """Return the smallest range that contains both."""
    (begin, end), (begin_of_second, end_of_second) = first, second
    return min(begin, begin_of_second), max(end, end_of_second)


Bands = dict[str, tuple[Range, ...]]  # by tensor: the range of each tile along an axis


def bands(needs: Needs, layers: Sequence[Layer], ends: Sequence[int], axis: int) -> Bands:
    """Return the range of each tile along an axis, for each tensor that the layers read or write.

    ends: of the tiles of the last layer. For a tensor with several readers, the range is the hull of
    the ranges that the readers need.
    """
    ranges: Bands = {layers[-1].name: tuple(pairwise((0, *ends)))}
    for layer in reversed(layers):  # each after all layers that read its result
        for need in needs.of(layer, axis):
            needed = tuple(map(need.clipped, ranges[layer.name]))
            before = ranges.get(need.source, needed)
            ranges[need.source] = tuple(map(hull, before, needed))
    return ranges


def fresh(ranges: Sequence[Range]) -> tuple[Range, ...]:
    """Return the part of each tile's range that no earlier tile holds; it may be empty.

    Example: ((0, 5), (3, 8)) becomes ((0, 5), (5, 8)).
    """
    bounds_of_parts, upto = [], 0
    for first, end in ranges:
        begin = min(max(first, upto), end)
        bounds_of_parts.append((begin, end))
        upto = max(upto, end)
    return tuple(bounds_of_parts)


def largest_shared(ranges: Sequence[Range]) -> int:
    """Return the maximum overlap of successive tiles, in positions."""
    return max((max(0, end - begin) for (_, end), (begin, _) in pairwise(ranges)), default=0)


def _shared(ranges: Sequence[Range], tile: int) -> Range | None:
    """The positions that a tile shares with the next tile along an axis; None without any."""
    if tile + 1 == len(ranges):
        return None
    (_, end), (begin, _) = ranges[tile], ranges[tile + 1]
    return (begin, end) if begin < end else None


class TileRanges:
    """The rectangles of a stage of tiles; a tile is indexed by its tile row and tile column."""

    def __init__(self, network: Network, stage: Stage, needs: Needs | None = None) -> None:
        """Raise InvalidNetwork for a layer that needs all of an input at once."""
        assert stage.tiles is not None
        self.network = network
        self.tiles: Tiles = stage.tiles
        self.layers = [network.layer(name) for name in stage.layers]
        needs = needs or Needs(network)
        self.rows = bands(needs, self.layers, self.tiles.row_ends, ROWS)
        self.columns = bands(needs, self.layers, self.tiles.column_ends, COLUMNS)

    def held(self, name: str, down: int, across: int) -> Region:
        """Return the region of a tensor that a tile holds."""
        return Region(self.rows[name][down], self.columns[name][across])

    def computed(self, name: str, down: int, across: int) -> Region:
        """Return the region of a tensor that a tile computes."""
        return Region(self.computed_rows(name)[down], self.computed_columns(name)[across])

    def computed_rows(self, name: str) -> tuple[Range, ...]:
        """Return the rows of a tensor that each tile down computes."""
        return fresh(self.rows[name]) if self.tiles.halo_cached else self.rows[name]

    def computed_columns(self, name: str) -> tuple[Range, ...]:
        """Return the columns of a tensor that each tile across computes."""
        return fresh(self.columns[name]) if self.tiles.halo_cached else self.columns[name]

    def rows_below(self, name: str, down: int) -> Region | None:
        """Return the rows, of the whole width, that tiles share with those below them."""
        rows, columns = _shared(self.rows[name], down), self.columns[name]
        return None if rows is None else Region(rows, hull(columns[0], columns[-1]))

    def columns_beside(self, name: str, down: int, across: int) -> Region | None:
        """Return the columns that a tile shares with the next one."""
        columns = _shared(self.columns[name], across)
        return None if columns is None else Region(self.rows[name][down], columns)

    @property
    def work(self) -> int:
        """Multiply-accumulates of all tiles together."""
        return sum(map(self.work_of, self.layers))

    def work_of(self, layer: Layer) -> int:
        """Multiply-accumulates of a layer in all tiles."""
        rows, columns = self.computed_rows(layer.name), self.computed_columns(layer.name)
        pixels = sum(end - first for first, end in rows) * sum(
            end - first for first, end in columns
        )
        return multiply_accumulates_of_pixel(self.network, layer) * pixels


def multiply_accumulates_of_pixel(network: Network, layer: Layer) -> int:
    """Return the multiply-accumulates of one pixel of all channels of the output of a layer."""
    pixels = layer.shape.height * layer.shape.width
    return multiply_accumulates(layer, network.input_shapes(layer)) // pixels


def network_of(
    network: Network, layers: Sequence[Layer], output_names: Mapping[str, str]
) -> Network:
    """Return layers as a network, whose inputs are the tensors that they read of other layers.

    output_names: names of the outputs, by the layer whose result each is.
    """
    inside = {layer.name for layer in layers}
    sources = dict.fromkeys(name for layer in layers for name in layer.inputs if name not in inside)
    inputs = [
        replace(source, operator=Input(dims=source.shape.dims), inputs=(), epilogue=(), stored=())
        for source in map(network.layer, sources)
    ]
    outputs = [
        replace(
            network.layer(name),
            name=output,
            operator=Output(),
            inputs=(name,),
            epilogue=(),
            stored=(),
        )
        for name, output in output_names.items()
    ]
    return Network(name=network.name, layers=(*inputs, *layers, *outputs))


def layer_range(model: Model, first: int, upto: int | None) -> Model:
    """Return layers [first, upto) of a model, counted without inputs and outputs.

    Raises InvalidNetwork if the range is empty or too long, unless its layers read a single tensor, and
    if a layer outside reads another tensor than the last.
    """
    network = model.network
    working = [layer for layer in network.layers if not layer.is_end]
    chosen = working[first:upto]
    if not chosen or (upto is not None and upto > len(working)):
        raise InvalidNetwork(
            f"layers {first}:{'' if upto is None else upto} of {network.name!r}, "
            f"which has {len(working)}"
        )
    inside = {layer.name for layer in chosen}
    read = sorted({source for layer in chosen for source in layer.inputs if source not in inside})
    left = [
        layer.name
        for layer in chosen[:-1]
        if any(reader not in inside for reader in network.consumers[layer.name])
    ]
    if len(read) != 1 or left:
        raise InvalidNetwork(
            f"layers {first}:{'' if upto is None else upto} of {network.name!r} are no part of a "
            f"chain: they read {', '.join(map(repr, read))}"
            + (f", and {', '.join(map(repr, left))} are read outside" if left else "")
        )
    weights = model.weights
    if weights is not None:
        weights = {name: arrays for name, arrays in weights.items() if name in inside}
    output = longer_name("result", {*read, *inside}, by=" ")
    part = network_of(network, chosen, {chosen[-1].name: output})
    return Model(network=part, weights=weights)

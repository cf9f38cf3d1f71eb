"""Regions of maps: which rows and columns of its inputs a layer needs for some of its output.

Rows follow the row rule of cnn2csdf; columns follow the same rule, of the layer turned around its
diagonal.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

from cnn2csdf import operators as op
from cnn2csdf.network import Layer, Network, Shape
from csdf.errors import InvalidNetwork, InvalidPlan

Range = tuple[int, int]  # first, and one past the last
RangeNeeded = Callable[[Range], Range]  # of the output -> of the input, not clipped

ROWS, COLUMNS = 0, 1  # axes


class Region(NamedTuple):
    """A rectangle of every feature map of a tensor."""

    rows: Range
    columns: Range

    @property
    def height(self) -> int:
        """Rows."""
        return self.rows[1] - self.rows[0]

    @property
    def width(self) -> int:
        """Columns."""
        return self.columns[1] - self.columns[0]

    @property
    def places(self) -> int:
        """Elements of one feature map."""
        return self.height * self.width


def length(shape: Shape, axis: int) -> int:
    """Return the rows, or the columns, of a tensor."""
    return shape.height if axis == ROWS else shape.width


def whole_region(shape: Shape) -> Region:
    """Return the region that is the whole tensor."""
    return Region((0, shape.height), (0, shape.width))


def can_be_tiled(network: Network, layer: Layer) -> bool:
    """Whether each rectangle of its output needs no more than a rectangle of each input."""
    shapes = (*network.input_shapes(layer), layer.shape)
    if not all(shape.is_map for shape in shapes):
        return False
    if not all(_is_flat(operator) for operator in (layer.operator, *layer.epilogue)):
        return False
    match layer.operator:
        case op.Convolution(window=window) | op.Pooling(window=window):
            return min(window.padding) >= 0
        case op.Pad(mode="constant", padding=padding):
            return min(padding) >= 0
        case op.Concatenation(axis=0) | op.Slice(axis=0) | op.SpaceToDepth(order="block first"):
            return True
        case op.Elementwise() | op.ChannelShuffle() | op.Conversion():
            return True
    return isinstance(layer.operator, op.POINTWISE)


def _is_flat(operator: op.Operator) -> bool:
    """Whether a trained operand, if it has one, is the same at every place."""
    match operator:
        case op.Elementwise(constant=tuple(dims)):
            return all(size == 1 for size in dims[-2:])
    return True


def range_needed(layer: Layer, index: int, inputs: Sequence[Shape], axis: int) -> RangeNeeded:
    """Return which range of input `index` a range of the output needs, along one axis.

    Both ends grow with the ends asked for, or stay. Raises InvalidNetwork for a layer that needs
    all of its input.
    """
    operator, output = layer.operator, layer.shape
    if axis == COLUMNS:
        operator, output = _turned(operator), _turned_shape(output)
        inputs = [_turned_shape(shape) for shape in inputs]
    needed = operator.rows_needed(index, inputs, output)
    if needed is None:
        raise InvalidNetwork(f"layer {layer.name!r} needs all of its input at once")
    return lambda wanted: (needed(wanted[0])[0], needed(wanted[1] - 1)[1])


class Need(NamedTuple):
    """The needs of a layer of one input along an axis, which has `limit` places."""

    source: str
    of: RangeNeeded
    limit: int

    def clipped(self, wanted: Range) -> Range:
        """Return what of the input a range of the output needs."""
        return clipped(self.of(wanted), self.limit)


class Needs:
    """The needs of the layers of a network of their inputs, each looked up once."""

    def __init__(self, network: Network) -> None:
        self.network = network
        self._found: dict[tuple[str, int], tuple[Need, ...]] = {}

    def of(self, layer: Layer, axis: int) -> tuple[Need, ...]:
        """Return what a layer needs of each input. Raises InvalidNetwork if it needs all of one."""
        key = layer.name, axis
        if key not in self._found:
            inputs = self.network.input_shapes(layer)
            self._found[key] = tuple(
                Need(source, range_needed(layer, index, inputs, axis), length(inputs[index], axis))
                for index, source in enumerate(layer.inputs)
            )
        return self._found[key]

    def is_square(self, layer: Layer) -> bool:
        """Whether columns follow the same rule as rows."""
        shapes = (*self.network.input_shapes(layer), layer.shape)
        is_same = all(shape.height == shape.width for shape in shapes)
        return is_same and layer.operator == _turned(layer.operator)


def even_ends(extent: int, tiles: int) -> tuple[int, ...]:
    """Return where so many tiles end that differ by one place at most.

    Raises InvalidPlan for more tiles than places.
    """
    if not 1 <= tiles <= extent:
        raise InvalidPlan(f"{tiles} tiles over {extent} places; expected 1 to {extent}")
    return tuple(extent * (tile + 1) // tiles for tile in range(tiles))


def clipped(wanted: Range, limit: int) -> Range:
    """Return what of a range lies in [0, limit); at least one place, the nearest if none does."""
    first = min(max(wanted[0], 0), limit - 1)
    return first, max(first + 1, min(wanted[1], limit))


def hull(one: Range, other: Range) -> Range:
    """Return the smallest range that holds both."""
    return min(one[0], other[0]), max(one[1], other[1])


def _turned(operator: op.Operator) -> op.Operator:
    """The operator on maps turned around their diagonal."""
    match operator:
        case op.Convolution(window=window) | op.Pooling(window=window):
            return replace(operator, window=window.turned)
        case op.Pad(padding=(top, left, bottom, right)):
            return replace(operator, padding=(left, top, right, bottom))
    return operator


def _turned_shape(shape: Shape) -> Shape:
    channels, height, width = shape.dims
    return Shape(dims=(channels, width, height))

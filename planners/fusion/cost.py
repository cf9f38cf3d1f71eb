"""The cost of tiles in time: each layer of each tile is a phase of the platform."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import lcm, prod

from cnn2csdf.durations import NANOSECONDS, Platform
from cnn2csdf.network import Layer, Network
from cnn2csdf.parameters import operations, parameter_shapes
from planners.tiling.regions import Needs, Range

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
    """Return what all tiles together need for one layer."""

    network: Network
    layer: Layer
    price: Price
    element_bytes: int

    def whole(self) -> int:
        """Nanoseconds of the layer as a whole."""
        inputs = self.network.input_shapes(self.layer)
        elements = sum(shape.elements for shape in inputs) + self.layer.shape.elements
        moved = (elements + self.parameters) * self.element_bytes
        return self.price.nanoseconds(operations(self.layer, inputs), moved)

    def tiled(self, rows: Mapping[Lengths, int], columns: Mapping[Lengths, int]) -> int:
        """Nanoseconds of all tiles, given how many have which lengths along each axis."""
        inputs = self.network.input_shapes(self.layer)
        shape = self.layer.shape
        channels = (shape.channels, *(one.channels for one in inputs))
        work = operations(self.layer, inputs) // (shape.height * shape.width)
        parameters, total = self.parameters, 0
        for heights, down in rows.items():
            for widths, across in columns.items():
                elements = sum(map(prod, zip(channels, heights, widths, strict=True)))
                moved = (elements + parameters) * self.element_bytes
                each = self.price.nanoseconds(work * heights[0] * widths[0], moved)
                total += each * down * across
        return total

    @property
    def parameters(self) -> int:
        """Trained numbers of the layer."""
        shapes = parameter_shapes(self.layer, self.network.input_shapes(self.layer))
        return sum(prod(dims) for dims in shapes.values())

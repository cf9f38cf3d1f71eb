"""The cost of tiles in time: each layer of each tile is a phase of the platform."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import lcm, prod
from operator import mul

from cnn2csdf.network import Layer, Network
from cnn2csdf.parameters import layer_parameter_bytes, operations
from cnn2csdf.platforms import NANOSECONDS, Platform
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

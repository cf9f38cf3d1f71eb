"""The buffers of a group of layers, with their lifetimes in steps: one step for each layer.

The input of a group lies whole in memory and is read where it lies; the output lies whole, and
each tile writes its piece where it belongs. In between a tile has one buffer for what it holds of
each tensor, as large as the largest tile needs it; all tiles use the same buffers. Where tiles keep
what others computed, two more buffers of each tensor hold it: the rows that the tiles below need
(`lines`, as wide as the map), and the columns that the next tile needs (`edge`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import prod
from typing import NamedTuple

from cnn2csdf.network import Layer, Network
from cnn2csdf.operators import Convolution
from planners.fusion.tiles import TiledGroup, fresh, largest_shared
from planners.fusion.ways import Scratch
from planners.plan import Buffer
from planners.tiling.regions import Range


class Sizes(NamedTuple):
    """Elements of one tensor of a tiled group: of a tile, and of what tiles keep for others."""

    tile: int
    lines: int
    edge: int

    @property
    def kept(self) -> int:
        """Elements that stay from tile to tile."""
        return self.lines + self.edge


def sizes(channels: int, rows: Sequence[Range], columns: Sequence[Range], *, keeps: bool) -> Sizes:
    """Return the buffers of a tensor of which tiles hold these rows and columns."""
    height, width = longest(rows), longest(columns)
    if not keeps:
        return Sizes(channels * height * width, 0, 0)
    span = columns[-1][1] - columns[0][0]
    return Sizes(
        channels * height * width,
        channels * largest_shared(rows) * span,
        channels * height * largest_shared(columns),
    )


def longest(ranges: Sequence[Range]) -> int:
    """Return the most places that one tile has along an axis."""
    return max(end - first for first, end in ranges)


def scratch_elements(network: Network, layer: Layer, places: int, scratch: Scratch) -> int:
    """Return the elements of scratch for so many output places of a layer."""
    match layer.operator:
        case Convolution(window=window, groups=groups) if scratch is Scratch.IM2COL:
            channels = network.input_shapes(layer)[0].channels // groups
            return places * channels * prod(window.kernel)
    return 0


def scratch_bytes(
    network: Network, layer: Layer, places: int, scratch: Scratch, element_bytes: int | None
) -> int:
    """Return the bytes of scratch for so many output places: elements of the input of the layer.

    element_bytes: of every element; None: as the network stores them.
    """
    elements = scratch_elements(network, layer, places, scratch)
    return elements * (element_bytes or network.layer(layer.inputs[0]).element_bytes)


def tile_name(layer: str) -> str:
    """Name of the buffer for what a tile holds of the output of a layer."""
    return f"{layer} tile"


def lines_name(layer: str) -> str:
    """Name of the buffer for rows of the output of a layer that tiles below need."""
    return f"{layer} lines"


def edge_name(layer: str) -> str:
    """Name of the buffer for columns of the output of a layer that the next tile needs."""
    return f"{layer} edge"


def scratch_name(layer: str) -> str:
    """Name of the scratch of a layer."""
    return f"{layer} scratch"


def tiled_buffers(
    group: TiledGroup, scratch: Scratch, *, begin: int, element_bytes: int | None
) -> Iterator[Buffer]:
    """Yield the buffers of a group but its input and output; its first step is at time `begin`."""
    last = last_steps(group.layers)
    end = begin + len(group.layers)
    for step, layer in enumerate(group.layers):
        rows, columns = group.rows[layer.name], group.columns[layer.name]
        size = element_bytes or layer.element_bytes
        if layer is not group.layers[-1]:
            found = sizes(layer.shape.channels, rows, columns, keeps=group.keeps)
            yield Buffer(
                name=tile_name(layer.name),
                size=found.tile * size,
                start=begin + step,
                end=begin + last[layer.name] + 1,
                alignment=size,
            )
            for name, elements in (
                (lines_name(layer.name), found.lines),
                (edge_name(layer.name), found.edge),
            ):
                if elements:
                    yield Buffer(
                        name=name, size=elements * size, start=begin, end=end, alignment=size
                    )
        if group.keeps:
            rows, columns = fresh(rows), fresh(columns)
        places = longest(rows) * longest(columns)
        yield from _scratch(
            group.network, layer, places, scratch, at=begin + step, element_bytes=element_bytes
        )


def _scratch(
    network: Network,
    layer: Layer,
    places: int,
    scratch: Scratch,
    *,
    at: int,
    element_bytes: int | None,
) -> Iterator[Buffer]:
    """The scratch of a layer at one step, where it has some."""
    size = scratch_bytes(network, layer, places, scratch, element_bytes)
    if size:
        yield Buffer(
            name=scratch_name(layer.name),
            size=size,
            start=at,
            end=at + 1,
            alignment=element_bytes or network.layer(layer.inputs[0]).element_bytes,
        )


def last_steps(layers: Sequence[Layer]) -> Mapping[str, int]:
    """Return for each tensor the step of the last layer that reads it, or writes it."""
    last: dict[str, int] = {}
    for step, layer in enumerate(layers):
        last[layer.name] = step
        for source in layer.inputs:
            last[source] = step
    return last


def whole_buffers(
    network: Network,
    layers: Sequence[Layer],
    scratch: Scratch,
    *,
    begin: int,
    element_bytes: int | None,
) -> Iterator[Buffer]:
    """Yield the buffers of layers that work on whole maps, but for input and output."""
    last = last_steps(layers)
    for step, layer in enumerate(layers):
        places = layer.shape.height * layer.shape.width
        size = element_bytes or layer.element_bytes
        if layer is not layers[-1]:
            yield Buffer(
                name=layer.name,
                size=layer.shape.elements * size,
                start=begin + step,
                end=begin + last[layer.name] + 1,
                alignment=size,
            )
        yield from _scratch(
            network, layer, places, scratch, at=begin + step, element_bytes=element_bytes
        )

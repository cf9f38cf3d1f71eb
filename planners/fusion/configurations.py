"""How a chain is to be worked: groups of sections, each with its way of working.

A network as a chain of sections: between two of them a single tensor is alive.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from cnn2csdf.granularity import require_few_parts
from cnn2csdf.network import Layer, Network
from cnn2csdf.operators import Output
from csdf.errors import InvalidNetwork, InvalidPlan, counted
from planners.fusion.tiles import Grid, even_grid
from planners.fusion.ways import Way
from planners.memory.order import Course, course_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Sections [first, upto) that work together; the grid is one tile where the way has no tiles."""

    first: int
    upto: int
    way: Way
    grid: Grid

    def __post_init__(self) -> None:
        if not 0 <= self.first < self.upto:
            raise InvalidPlan(f"a group of sections {self.first} to {self.upto}")

    @property
    def is_tiled(self) -> bool:
        """Whether it works tile by tile."""
        return self.way in (Way.RECOMPUTE, Way.KEEP)

    def __str__(self) -> str:
        return f"{self.grid} {self.way.value}" if self.is_tiled else self.way.value


Configuration = tuple[Group, ...]


def check_configuration(chain: Chain, groups: Sequence[Group]) -> None:
    """Raise InvalidPlan unless the groups cover the sections of the chain, each once, in order."""
    ends = [0, *(group.upto for group in groups)]
    firsts = [*(group.first for group in groups), len(chain.sections)]
    if ends != firsts:
        raise InvalidPlan(
            f"groups of sections {', '.join(f'{one.first}:{one.upto}' for one in groups)}; expected "
            f"each of 0:{len(chain.sections)} once, in order"
        )


def configuration(
    chain: Chain, cuts: Sequence[int], tiles: Sequence[tuple[int, int]], way: Way = Way.RECOMPUTE
) -> Configuration:
    """Return groups with even grids: a cut before each of these sections, tiles down and across.

    One tile is the way WHOLE. Raises InvalidPlan where there are not as many grids as groups.
    """
    ends = (0, *cuts, len(chain.sections))
    if len(tiles) != len(ends) - 1:
        raise InvalidPlan(f"{len(tiles)} grids for {len(ends) - 1} groups")
    groups = tuple(
        Group(
            first=first,
            upto=upto,
            way=Way.WHOLE if tile == (1, 1) else way,
            grid=even_grid(chain.network.layer(chain.sections[upto - 1].result), *tile),
        )
        for (first, upto), tile in zip(pairwise(ends), tiles, strict=True)
    )
    check_configuration(chain, groups)
    return groups


def single(chain: Chain, first: int, upto: int, way: Way) -> Group:
    """Return a group without tiles."""
    result = chain.network.layer(chain.sections[upto - 1].result)
    return Group(first=first, upto=upto, way=way, grid=even_grid(result, 1, 1))


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """Layers that can only be fused together: one tensor goes in, one comes out.

    source: the layer that writes what goes in; the last layer writes what comes out.
    """

    source: str
    layers: tuple[str, ...]

    @property
    def result(self) -> str:
        """The layer whose tensor comes out."""
        return self.layers[-1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Chain:
    """A network with one input and one output, cut wherever a single tensor is alive."""

    network: Network
    course: Course
    sections: tuple[Section, ...]

    def layers(self, first: int, upto: int) -> tuple[Layer, ...]:
        """The layers of sections [first, upto), in order."""
        return tuple(
            self.network.layer(name)
            for section in self.sections[first:upto]
            for name in section.layers
        )

    @property
    def frame(self) -> str:
        """The input layer."""
        return self.sections[0].source

    @property
    def result(self) -> str:
        """The layer whose tensor is the output of the network."""
        return self.sections[-1].result


def chain_of(network: Network) -> Chain:
    """Return the network as a chain of the shortest sections.

    Raises InvalidNetwork for several inputs or outputs, for a layer that nobody reads, and for rows
    that are too many to be listed.
    """
    require_few_parts(network)
    if len(network.inputs) != 1 or len(network.outputs) != 1:
        raise InvalidNetwork(
            f"network {network.name!r} has {counted(len(network.inputs), 'input')} and "
            f"{counted(len(network.outputs), 'output')}; fused tiles need one of each"
        )
    layers = [layer for layer in network.layers if not isinstance(layer.operator, Output)]
    if network.outputs[0].inputs != (layers[-1].name,):
        raise InvalidNetwork(
            f"network {network.name!r}: its output is not that of its last layer, "
            f"{layers[-1].name!r}"
        )
    if len(layers) == 1:
        raise InvalidNetwork(f"network {network.name!r} has no layer between input and output")
    for layer in layers:
        if not network.consumers[layer.name]:
            raise InvalidNetwork(f"layer {layer.name!r} is read by nobody")
    course = course_of(network)
    sections = tuple(
        Section(source=course.layers[before], layers=course.layers[before + 1 : end + 1])
        for before, end in pairwise(course.cuts)
    )
    return Chain(network=network, course=course, sections=sections)

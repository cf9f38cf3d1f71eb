"""Groups of sections, configurations of groups, and the terms of their costs.

A separator is a point of the execution order where a single tensor is live. A section is the part of
the order between two consecutive separators. A group is a range of sections with a mode: layer by
layer, row by row, or tile by tile. A configuration is a sequence of groups that covers the order.

Example: a chain of layers a, b, c has the sections 0, 1, 2 with a layer each. The groups [0, 2) in 2x2
tiles and [2, 3) layer by layer are a configuration: a and b are fused, and c is executed whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import prod
from typing import NamedTuple

from cnn2csdf.network import Layer, Network
from cnn2csdf.platforms import Platform
from csdf.arguments import public
from csdf.errors import InvalidPlan
from planners.memory.answer import GroupMode, ScratchCount
from planners.memory.order import TopologicalOrder
from planners.memory.times import Work
from planners.plan.accumulators import sums_over_rows
from planners.plan.plan import Mode, Stage, Tiles
from planners.plan.regions import even_ends

UP_TO_FIVE = tuple((down, across) for down in range(1, 6) for across in range(1, 6))


@public
@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """The cost model, and the tilings and modes that the search considers.

    element_bytes: of each element and each parameter; None: as the network stores them. tilings: tiles
    down and across; modes: execution modes of groups. measured: measured times of layers; they replace
    the operations and bytes of the platform (`planners.memory.times.measured_work`).
    """

    platform: Platform
    scratch: ScratchCount = ScratchCount.NONE
    element_bytes: int | None = 4
    tilings: tuple[tuple[int, int], ...] = UP_TO_FIVE
    modes: frozenset[GroupMode] = frozenset(GroupMode)
    measured: Work | None = field(default=None, hash=False)

    def scratch_bytes(self, network: Network, layer: Layer, pixels: int) -> int:
        """Return the scratch of a layer for this number of output pixels, in elements of its input."""
        elements = scratch_elements(self.scratch, network, layer, pixels)
        if not elements:
            return 0
        return elements * (self.element_bytes or network.layer(layer.inputs[0]).element_bytes)


def scratch_elements(scratch: ScratchCount, network: Network, layer: Layer, pixels: int) -> int:
    """Return the elements of scratch for this number of output pixels of a layer."""
    bank = layer.operator.filter_bank
    if bank is None or scratch is not ScratchCount.IM2COL:
        return 0
    channels = network.input_shapes(layer)[0].channels // bank.groups
    return pixels * channels * prod(bank.window.kernel)


class SectionRange(NamedTuple):
    """Sections [first, upto), with their mode; a single tile if the mode is not tiled."""

    first: int
    upto: int
    mode: GroupMode
    tiles: Tiles

    @property
    def is_tiled(self) -> bool:
        """Whether the sections execute tile by tile."""
        return self.mode in (GroupMode.RECOMPUTED, GroupMode.CACHED)

    def __str__(self) -> str:
        return f"{self.tiles} {self.mode.value}" if self.is_tiled else self.mode.value


Configuration = tuple[SectionRange, ...]


class FusionPoint(NamedTuple):
    """A group, or a configuration of groups, with its peak memory in bytes, its time and its MACs."""

    memory: int
    nanoseconds: int
    multiply_accumulates: int
    groups: Configuration

    @property
    def cost(self) -> tuple[int, int]:
        """Time and MACs, which add up over groups and compare lexicographically."""
        return self.nanoseconds, self.multiply_accumulates


def even_tiles(layer: Layer, down: int, across: int, *, halo_cached: bool = False) -> Tiles:
    """Return tiles of nearly equal size over the output of a layer."""
    return Tiles(
        row_ends=even_ends(layer.shape.height, down),
        column_ends=even_ends(layer.shape.width, across),
        halo_cached=halo_cached,
    )


def group_of(
    layer_order: TopologicalOrder,
    first: int,
    upto: int,
    mode: GroupMode,
    tiles: tuple[int, int] = (1, 1),
) -> SectionRange:
    """Return sections with tiles of nearly equal size. tiles: numbers down and across."""
    is_cached = mode is GroupMode.CACHED
    result = layer_order.network.layer(layer_order.at(upto))
    return SectionRange(first, upto, mode, even_tiles(result, *tiles, halo_cached=is_cached))


def configuration(
    layer_order: TopologicalOrder,
    cuts: Sequence[int],
    tiles: Sequence[tuple[int, int]],
    mode: GroupMode = GroupMode.RECOMPUTED,
) -> Configuration:
    """Return groups of even tiles. cuts: first sections of all groups but the first.

    tiles: for each group, tiles down and across; a single tile is the mode WHOLE. Raises InvalidPlan if
    the numbers of tilings and groups differ.
    """
    ends = (0, *cuts, layer_order.sections)
    if len(tiles) != len(ends) - 1:
        raise InvalidPlan(f"{len(tiles)} grids for {len(ends) - 1} groups")
    groups = tuple(
        group_of(layer_order, first, upto, GroupMode.WHOLE if tile == (1, 1) else mode, tile)
        for (first, upto), tile in zip(pairwise(ends), tiles, strict=True)
    )
    require_covering(layer_order, groups)
    return groups


def require_covering(layer_order: TopologicalOrder, groups: Sequence[SectionRange]) -> None:
    """Raise InvalidPlan unless the groups cover the sections of the chain, each once, in order."""
    ends = [0, *(group.upto for group in groups)]
    firsts = [*(group.first for group in groups), layer_order.sections]
    if ends != firsts or ends != sorted(set(ends)):
        sections = ", ".join(f"{group.first}:{group.upto}" for group in groups)
        raise InvalidPlan(
            f"groups of sections {sections}; expected each of 0:{layer_order.sections} once, in order"
        )


def merged(groups: Configuration) -> Configuration:
    """Return the configuration with adjacent layer-by-layer groups merged."""
    joined: list[SectionRange] = []
    for group in groups:
        if joined and group.mode is joined[-1].mode is GroupMode.WHOLE:
            first = joined.pop().first
            group = group._replace(first=first)
        joined.append(group)
    return tuple(joined)


def whole_stages(layers: Sequence[Layer]) -> Iterator[Stage]:
    """Yield a stage for each layer that computes all its rows in one firing."""
    for layer in layers:
        yield Stage(layers=(layer.name,), rows=layer.shape.rows)


def row_stages(network: Network, layers: Sequence[Layer]) -> Iterator[Stage]:
    """Yield a row-by-row stage for each layer; a reduction accumulates."""
    for layer in layers:
        is_fold = sums_over_rows(network, layer)
        yield Stage(layers=(layer.name,), mode=Mode.ACCUMULATING if is_fold else Mode.ROWS)


def tiled_stage(layers: Sequence[Layer], tiles: Tiles) -> Stage:
    """Return a stage that computes these layers tile by tile."""
    names = tuple(layer.name for layer in layers)
    return Stage(layers=names, rows=layers[-1].shape.rows, mode=Mode.TILES, tiles=tiles)

"""Tiles of a fused group along one axis: the positions each tile needs and computes of every map.

The last map is cut into even tiles; windows propagate the cut backwards to the input. Two layers
with 3-wide windows and padding 1 on 8 columns, cut into 2 tiles, give for the first tile

    map 2: columns 0-3,    map 1: columns 0-4,    input: columns 0-5

and the second tile needs columns 3-7 of map 1. Its columns 3-4 are a halo: the first tile has
computed them. They are computed once and cached or spilled, or computed by both tiles.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from operator import or_
from typing import NamedTuple

from cnn2csdf.geometry import PositionSet, ReceptiveField
from planners.plan.regions import COLUMNS, ROWS
from planners.traffic.fused.group import Boxes, FusedGroup, shares
from planners.traffic.nest import Halo

Cut = tuple[PositionSet, ...]  # for each tile, a set of positions along the axis


@dataclass(frozen=True, slots=True, kw_only=True)
class AxisCut:
    """Positions of every map (0 is the input) along one axis, by tile.

    needed: positions that the layers reading the map need for the tile.
    computed: positions that the tile computes itself, or, of the input, loads. If halos are
    computed once these are the needed positions that no earlier tile needs; otherwise all needed
    positions.
    """

    needed: tuple[Cut, ...]
    computed: tuple[Cut, ...]


def axis_cut(
    group: FusedGroup, axis: int, tiles: int, *, makes_once: bool, reads_once: bool
) -> AxisCut:
    """Return the cut of all maps that follows from `tiles` even tiles of the output.

    makes_once: halos of computed maps are not recomputed; reads_once: halos of the input are not
    loaded again.
    """

    def source_positions(number: int, computed: Cut) -> Iterator[tuple[int, Cut]]:
        """The positions of earlier maps that a map is computed from."""
        if number:
            layer = group.layers[number - 1]
            windows = _under_windows(layer.rows if axis == ROWS else layer.columns, computed)
            yield from ((source, windows) for source in group.read_by(number))
        yield from ((source, computed) for source, reader in group.skips if reader == number)

    def computed_positions(number: int, needed: Cut) -> Cut:
        return _first_needed(needed) if (makes_once if number else reads_once) else needed

    numbers = range(group.length + 1)
    needed = {end: shares(group.dims(end)[1 + axis], tiles) for end in group.ends}
    computed: dict[int, Cut] = {}
    for number in reversed(numbers):  # each map after all maps computed from it
        computed[number] = computed_positions(number, needed[number])
        for source, positions in source_positions(number, computed[number]):
            before = needed.get(source, positions)
            needed[source] = tuple(map(or_, before, positions))
    return AxisCut(
        needed=tuple(needed[number] for number in numbers),
        computed=tuple(computed[number] for number in numbers),
    )


@lru_cache(maxsize=10_000)
def computed_areas(group: FusedGroup) -> tuple[Boxes, ...]:
    """Return rows and columns computed of each map, which no choice of tiles or halos changes."""
    cuts = [axis_cut(group, axis, 1, makes_once=True, reads_once=True) for axis in (ROWS, COLUMNS)]
    areas = zip(*(cut.computed for cut in cuts), strict=True)
    return tuple(((rows[0], columns[0]),) for rows, columns in areas)


def computes_all_written(group: FusedGroup) -> bool:
    """Whether every map written for outside layers is computed entirely: no stride leaves gaps."""
    areas = computed_areas(group) if group.written else ()
    return all(areas[number] == group.layers[number - 1].full_box for number in group.written)


def weights_of(group: FusedGroup) -> tuple[int, ...]:
    """Return for each layer the bytes of the weights that take part in the result."""
    pairs = zip(group.layers, computed_areas(group)[1:], strict=True)
    return tuple(layer.weights(outputs) * layer.weight_bytes for layer, outputs in pairs)


@lru_cache(maxsize=100_000)
def _under_windows(reach: ReceptiveField, outputs: Cut) -> Cut:
    """For each tile, the input positions under the windows of its outputs (cached across groups)."""
    return tuple(map(reach.needed, outputs))


@lru_cache(maxsize=100_000)
def _first_needed(needed: Cut) -> Cut:
    """For each tile, the needed positions that no earlier tile needs."""
    new_positions, earlier = [], 0
    for positions in needed:
        new_positions.append(positions & ~earlier)
        earlier |= positions
    return tuple(new_positions)


class AxisTotals(NamedTuple):
    """Numbers of positions of one map along an axis, over all tiles.

    needed, computed: summed over the tiles.
    distinct: positions that at least one tile needs.
    shared: positions that at least two tiles need.
    """

    needed: int
    computed: int
    distinct: int
    shared: int


def axis_totals(cut: AxisCut, number: int) -> AxisTotals:
    """Return how many positions of a map the tiles need and compute."""
    distinct = shared = 0
    for positions in cut.needed[number]:
        shared |= distinct & positions
        distinct |= positions
    return AxisTotals(
        needed=sum(positions.bit_count() for positions in cut.needed[number]),
        computed=sum(positions.bit_count() for positions in cut.computed[number]),
        distinct=distinct.bit_count(),
        shared=shared.bit_count(),
    )


class OuterProfile(NamedTuple):
    """Numbers of positions of one map in one tile along the outer axis, by lifetime in the buffer.

    Old positions were computed by earlier tiles; new ones are computed by, or loaded for, this
    tile. Kept positions are needed by a later tile along the axis; the last use of the others is
    here.
    computed: those of the new positions that this tile computes itself.
    """

    old_kept: int = 0
    old_last: int = 0
    new_kept: int = 0
    new_last: int = 0
    computed: int = 0


class InnerProfile(NamedTuple):
    """Numbers of positions of one map in one tile along the inner axis, by availability and need.

    A map whose halo is not cached has new and computed positions only.

    needed_by_any: positions that any tile of the axis needs.
    from_here, later: positions that this or a later tile needs; that a later tile needs.
    before, up_to: positions computed by earlier tiles; by earlier tiles and this one.
    old: positions of `before` that are in `from_here`.
    kept: positions of `up_to` that are in `later`.
    new: positions that become available with this tile.
    computed: those of the new positions that this tile computes itself.
    """

    needed_by_any: int = 0
    from_here: int = 0
    later: int = 0
    before: int = 0
    up_to: int = 0
    old: int = 0
    kept: int = 0
    new: int = 0
    computed: int = 0


def outer_profiles(cut: AxisCut, number: int, halo: Halo) -> list[OuterProfile]:
    """Return the profile of a map in each tile; if the halo is not cached, all positions are new."""
    needed, computed = cut.needed[number], cut.computed[number]
    if halo is not Halo.CACHED:
        return [
            OuterProfile(new_last=positions.bit_count(), computed=new.bit_count())
            for positions, new in zip(needed, computed, strict=True)
        ]
    needed_from = _needed_from(needed)
    profiles, before = [], 0
    for tile, (positions, new) in enumerate(zip(needed, computed, strict=True)):
        later = needed_from[tile + 1]
        profiles.append(
            OuterProfile(
                old_kept=(before & later).bit_count(),
                old_last=(before & positions & ~later).bit_count(),
                new_kept=(new & later).bit_count(),
                new_last=(new & ~later).bit_count(),
                computed=new.bit_count(),
            )
        )
        before |= new
    return profiles


def inner_profiles(cut: AxisCut, number: int, halo: Halo) -> list[InnerProfile]:
    """Return the profile of a map in each tile; if the halo is not cached, all positions are new."""
    needed, computed = cut.needed[number], cut.computed[number]
    if halo is not Halo.CACHED:
        return [
            InnerProfile(new=positions.bit_count(), computed=new.bit_count())
            for positions, new in zip(needed, computed, strict=True)
        ]
    needed_from = _needed_from(needed)
    profiles, before = [], 0
    for tile, new in enumerate(computed):
        up_to = before | new
        profiles.append(
            InnerProfile(
                needed_by_any=needed_from[0].bit_count(),
                from_here=needed_from[tile].bit_count(),
                later=needed_from[tile + 1].bit_count(),
                before=before.bit_count(),
                up_to=up_to.bit_count(),
                old=(before & needed_from[tile]).bit_count(),
                kept=(up_to & needed_from[tile + 1]).bit_count(),
                new=new.bit_count(),
                computed=new.bit_count(),
            )
        )
        before = up_to
    return profiles


def _needed_from(needed: Sequence[PositionSet]) -> list[PositionSet]:
    """For each tile, the positions that it or a later tile needs; a last, empty set at the end."""
    unions = [0]
    for positions in reversed(needed):
        unions.append(unions[-1] | positions)
    return unions[::-1]


class BufferedElements(NamedTuple):
    """Elements of one feature map in the buffer: before, during and after a tile's execution."""

    before: int
    during: int
    after: int


def buffered_elements(outer: OuterProfile, inner: InnerProfile) -> BufferedElements:
    """Return the buffered elements of one feature map: a sum of rectangles of outer x inner positions.

    An outer position with a given lifetime is buffered along the entire inner axis, along the part
    that earlier inner tiles have produced, or along the part that inner tiles still need.
    """
    old_kept, old_last = outer.old_kept * inner.needed_by_any, outer.old_last
    new_kept, new_last = outer.new_kept, outer.new_last
    return BufferedElements(
        before=old_kept
        + old_last * inner.from_here
        + new_kept * inner.before
        + new_last * inner.old,
        during=old_kept
        + old_last * inner.from_here
        + new_kept * inner.up_to
        + new_last * (inner.old + inner.new),
        after=old_kept + old_last * inner.later + new_kept * inner.up_to + new_last * inner.kept,
    )

"""A group cut into tiles along one axis: what each tile needs of every map, and what it makes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from operator import or_
from typing import NamedTuple

from cnn2csdf.geometry import Places, ReceptiveField
from planners.plan.regions import COLUMNS, ROWS, cut_back
from planners.traffic.fused.group import Boxes, FusedGroup, shares
from planners.traffic.nest import Halo

Cut = tuple[Places, ...]  # places of each tile


@dataclass(frozen=True, slots=True, kw_only=True)
class AxisCut:
    """needed, made: of each map (0 is the input) and each tile, places along the axis.

    What is made of the input is what arrives of it. Places are made once, by the first tile that
    needs them, or by every tile that needs them.
    """

    needed: tuple[Cut, ...]
    made: tuple[Cut, ...]


def axis_cut(
    group: FusedGroup, axis: int, tiles: int, *, makes_once: bool, reads_once: bool
) -> AxisCut:
    """Return what `tiles` uniform tiles of the output need and make, along one axis."""

    def asks(number: int, made: Cut) -> Iterator[tuple[int, Cut]]:
        if number:
            layer = group.layers[number - 1]
            seen = _seen(layer.rows if axis == ROWS else layer.columns, made)
            yield from ((source, seen) for source in group.read_by(number))
        yield from ((source, made) for source, reader in group.skips if reader == number)

    def makes(number: int, needed: Cut) -> Cut:
        return _fresh(needed) if (makes_once if number else reads_once) else needed

    numbers = range(group.length + 1)
    ends = {end: shares(group.dims(end)[1 + axis], tiles) for end in group.ends}
    needed, made = cut_back(ends, reversed(numbers), asks, union=or_, makes=makes)
    return AxisCut(
        needed=tuple(needed[number] for number in numbers),
        made=tuple(made[number] for number in numbers),
    )


@lru_cache(maxsize=10_000)
def made_of(group: FusedGroup) -> tuple[Boxes, ...]:
    """Return rows and columns that a schedule makes of each map, whatever its tiles and halo."""
    cuts = [axis_cut(group, axis, 1, makes_once=True, reads_once=True) for axis in (ROWS, COLUMNS)]
    areas = zip(*(cut.made for cut in cuts), strict=True)
    return tuple(((rows[0], columns[0]),) for rows, columns in areas)


def makes_what_it_writes(group: FusedGroup) -> bool:
    """Whether all of each map that others read is made: no window skips a position of it."""
    made = made_of(group) if group.written else ()
    return all(made[number] == group.layers[number - 1].whole for number in group.written)


def weights_of(group: FusedGroup) -> tuple[int, ...]:
    """Return the bytes of the weights of each layer that a schedule reads: the participating ones."""
    pairs = zip(group.layers, made_of(group)[1:], strict=True)
    return tuple(layer.weights(made) * layer.weight_bytes for layer, made in pairs)


@lru_cache(maxsize=100_000)
def _seen(reach: ReceptiveField, made: Cut) -> Cut:
    """Of each tile, what the windows of a layer see; groups with the same end ask alike."""
    return tuple(map(reach.needed, made))


@lru_cache(maxsize=100_000)
def _fresh(needed: Cut) -> Cut:
    """Of each tile, what no tile before it needs."""
    new_places, seen = [], 0
    for places_needed in needed:
        new_places.append(places_needed & ~seen)
        seen |= places_needed
    return tuple(new_places)


class AxisTotals(NamedTuple):
    """Positions of one map, over all tiles.

    shared: positions that several tiles need.
    """

    needed: int
    made: int
    distinct: int
    shared: int


def axis_totals(cut: AxisCut, number: int) -> AxisTotals:
    """Return how many positions of a map the tiles need and make."""
    distinct = shared = 0
    for places_needed in cut.needed[number]:
        shared |= distinct & places_needed
        distinct |= places_needed
    return AxisTotals(
        needed=sum(places_needed.bit_count() for places_needed in cut.needed[number]),
        made=sum(places_made.bit_count() for places_made in cut.made[number]),
        distinct=distinct.bit_count(),
        shared=shared.bit_count(),
    )


class Outer(NamedTuple):
    """Positions of one map and tile along the outer axis, by how long they stay.

    old: places made by earlier tiles. new: places that come with this tile. stay: some later tile
    along the axis needs these places as well. go: no later tile does. made: how many of the new
    places this tile makes itself.
    """

    old_stay: int
    old_go: int
    new_stay: int
    new_go: int
    made: int


class Inner(NamedTuple):
    """Positions of one map and tile along the inner axis.

    before, upto: made by earlier tiles; with this one. wanted, later: needed from this tile on;
    after it. old, left: of `before` those wanted; of `upto` those needed later. new: come now.
    made: the new positions that this tile computes.
    """

    all: int
    wanted: int
    later: int
    before: int
    upto: int
    old: int
    left: int
    new: int
    made: int


def outer_profiles(cut: AxisCut, number: int, halo: Halo) -> list[Outer]:
    """Return the positions of a map for each tile; where the halo is not cached, all is new."""
    needed, made = cut.needed[number], cut.made[number]
    if halo is not Halo.CACHED:
        pairs = zip(needed, made, strict=True)
        return [
            Outer(0, 0, 0, places_cut.bit_count(), new.bit_count()) for places_cut, new in pairs
        ]
    later = _later(needed)
    axis_cuts, before = [], 0
    for tile, (need, new) in enumerate(zip(needed, made, strict=True)):
        stay = later[tile + 1]
        axis_cuts.append(
            Outer(
                (before & stay).bit_count(),
                (before & need & ~stay).bit_count(),
                (new & stay).bit_count(),
                (new & ~stay).bit_count(),
                new.bit_count(),
            )
        )
        before |= new
    return axis_cuts


def inner_profiles(cut: AxisCut, number: int, halo: Halo) -> list[Inner]:
    """Return the positions of a map for each tile; where the halo is not cached, all is new."""
    needed, made = cut.needed[number], cut.made[number]
    if halo is not Halo.CACHED:
        pairs = zip(needed, made, strict=True)
        return [
            Inner(0, 0, 0, 0, 0, 0, 0, places_cut.bit_count(), new.bit_count())
            for places_cut, new in pairs
        ]
    later = _later(needed)
    axis_cuts, before = [], 0
    for tile, new in enumerate(made):
        upto = before | new
        counts = (
            later[0],
            later[tile],
            later[tile + 1],
            before,
            upto,
            before & later[tile],
            upto & later[tile + 1],
            new,
            new,
        )
        axis_cuts.append(Inner(*(count.bit_count() for count in counts)))
        before = upto
    return axis_cuts


def _later(needed: Sequence[Places]) -> list[Places]:
    """For each tile, the places that it or a later one needs; none at the end."""
    unions = [0]
    for places_needed in reversed(needed):
        unions.append(unions[-1] | places_needed)
    return unions[::-1]


class Present(NamedTuple):
    """Elements of one feature map that are in the buffer for a tile.

    before: kept from earlier tiles; held: while it works; after: kept for later ones.
    """

    before: int
    held: int
    after: int


def present(outer: Outer, inner: Inner) -> Present:
    """Return what the buffer holds of one feature map: rectangles of places, summed up."""
    stay, go = outer.old_stay * inner.all, outer.old_go
    new_stay, new_go = outer.new_stay, outer.new_go
    return Present(
        stay + go * inner.wanted + new_stay * inner.before + new_go * inner.old,
        stay + go * inner.wanted + new_stay * inner.upto + new_go * (inner.old + inner.new),
        stay + go * inner.later + new_stay * inner.upto + new_go * inner.left,
    )

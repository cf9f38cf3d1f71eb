"""Groups of layers cut into parts along an axis: what each part needs of every map and makes of it.

The outputs of a group are cut into parts. From there the needs are walked back to the inputs, map by
map. What a part makes of a map may be all that it needs, or only what no part before it has made;
what it makes decides what it needs of the maps before. Parts are ranges where a group holds
rectangles, or sets of places where gaps count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import TypeVar

from cnn2csdf.network import Layer
from planners.tiling.regions import Needs, Range, hull

Map = TypeVar("Map")
Part = TypeVar("Part")
Parts = tuple[Part, ...]  # in the order of work
Bands = dict[str, tuple[Range, ...]]  # by tensor: for each tile along an axis, what it holds


def cut_back(
    ends: Mapping[Map, Parts[Part]],
    order: Iterable[Map],
    asks: Callable[[Map, Parts[Part]], Iterable[tuple[Map, Parts[Part]]]],
    *,
    union: Callable[[Part, Part], Part],
    makes: Callable[[Map, Parts[Part]], Parts[Part]],
) -> tuple[dict[Map, Parts[Part]], dict[Map, Parts[Part]]]:
    """Return what each part needs, and what it makes, of the maps of a group.

    ends: the parts of the maps that no layer of the group reads. order: each map after those that
    are made of it. asks: what parts made of a map need of other maps. makes: what is made of a map
    of which so much is needed.
    """
    needed, made = dict(ends), {}
    for one in order:
        made[one] = makes(one, needed[one])
        for source, asked in asks(one, made[one]):
            known = needed.get(source)
            needed[source] = asked if known is None else tuple(map(union, known, asked))
    return needed, made


def bands(needs: Needs, layers: Sequence[Layer], ends: Sequence[int], axis: int) -> Bands:
    """Return what each tile along an axis holds of each tensor that the layers read or write.

    ends: of the tiles of the last layer. Of a tensor with several readers a tile holds all from the
    first to the last place that any of them needs.
    """
    made_by = {layer.name: layer for layer in layers}

    def asks(name: str, held: tuple[Range, ...]) -> Iterator[tuple[str, tuple[Range, ...]]]:
        for need in needs.of(made_by[name], axis):
            yield need.source, tuple(map(need.clipped, held))

    whole = {layers[-1].name: tuple(zip((0, *ends), ends, strict=False))}
    return cut_back(whole, reversed(made_by), asks, union=hull, makes=lambda _, held: held)[0]


def fresh(ranges: Sequence[Range]) -> tuple[Range, ...]:
    """Return what each tile holds that no tile before it does; maybe nothing."""
    found, upto = [], 0
    for first, end in ranges:
        begin = min(max(first, upto), end)
        found.append((begin, end))
        upto = max(upto, end)
    return tuple(found)


def largest_shared(ranges: Sequence[Range]) -> int:
    """Return the most places that a tile shares with the next one."""
    pairs = pairwise(ranges)
    return max((max(0, one[1] - other[0]) for one, other in pairs), default=0)

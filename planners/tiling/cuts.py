"""Groups of layers cut into parts along an axis: what each part needs of every map and makes of it.

The outputs of a group are cut into parts. From there the needs are walked back to the inputs, map by
map. What a part makes of a map may be all that it needs, or only what no part before it has made;
what it makes decides what it needs of the maps before. Parts are ranges where a group holds
rectangles, or sets of places where gaps count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

Map = TypeVar("Map")
Part = TypeVar("Part")
Parts = tuple[Part, ...]  # in the order of work


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

"""Tile sizes worth trying for each loop of a convolution."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from planners.traffic.footprints import Axis, Reads, reads

Option = tuple[int, ...]  # as planners.kernels.loop_nests lays it out


def tile_sizes(length: int) -> tuple[int, ...]:
    """Return the smallest tile for each number of tiles, largest first.

    Of two with the same number the larger one only takes more room, where tiles do not overlap.
    O(square root of the length).
    """
    tiles = [length]
    while tiles[-1] > 1:
        trips = -(-length // (tiles[-1] - 1))  # the next number of tiles that there is
        tiles.append(-(-length // trips))
    return tuple(tiles)


@lru_cache(maxsize=1000)
def axis_options(axis: Axis) -> tuple[Option, ...]:
    """Return pairs of tile sizes along rows or columns of the maps, uncut first.

    Those with as many tiles as another pair are left out where they hold no less and read no less,
    whichever of the two loops cut the input. Nearly always the smallest tiles remain; at the padding
    larger ones may read less, or hold less.
    """
    kept: dict[tuple[int, int], list[Option]] = {}
    for places in range(1, axis.outputs + 1):
        for kernel in range(1, max(1, len(axis.live)) + 1):
            option = _option(axis, places, kernel)
            alike = kept.setdefault((option[2], option[3]), [])
            if not any(_is_no_worse(known, option) for known in alike):
                alike.append(option)
    return tuple(option for trips in sorted(kept) for option in kept[trips])


def _is_no_worse(known: Option, option: Option) -> bool:
    return all(one <= other for one, other in zip(known, option, strict=True))


def _option(axis: Axis, places: int, kernel: int) -> Option:
    cuts = tuple(_ways_to_cut(axis, places, kernel))
    return (
        places,
        kernel,
        -(-axis.outputs // places),
        -(-max(1, len(axis.live)) // kernel),
        *(one.largest for one in cuts),
        *(one.reloaded for one in cuts),
        *(one.by_outputs for one in cuts),
        *(one.by_kernel for one in cuts),
    )


def _ways_to_cut(axis: Axis, places: int, kernel: int) -> Iterator[Reads]:
    """The reads of input tiles where no loop cuts them, output places, kernel places, and both."""
    for kernel_tile in (max(1, len(axis.live)), kernel):
        for tile in (axis.outputs, places):
            yield reads(axis, tile, kernel_tile)

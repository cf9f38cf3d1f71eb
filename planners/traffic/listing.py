"""A loop nest as text: what runs in what, and where tiles come in and go out."""

from __future__ import annotations

from collections.abc import Iterator

from planners.traffic.convolution import Convolution
from planners.traffic.counting import largest_tile
from planners.traffic.nest import MOVES, Array, Halo, Loop, LoopNest, lengths
from planners.traffic.nested import NestedTiles, largest_extents

INDENT = "  "
_WORDS = {Array.INPUT: "input", Array.WEIGHTS: "weights", Array.OUTPUT: "output"}


def listing(convolution: Convolution, nest: LoopNest | NestedTiles) -> str:
    """Return the nest, one line a loop or a transfer; loops of a single tile are left out.

    Tiles are given at their largest: channels x rows x columns of the input, filters x channels x
    kernel rows x kernel columns of the weights, filters x rows x columns of the output.
    """
    if isinstance(nest, NestedTiles):
        return _nested_listing(convolution, nest)
    nest = nest.canonical(convolution)
    before: list[str] = []
    after: list[str] = []
    depth = 0
    if convolution.groups > 1:
        before.append(f"for each of {convolution.groups} groups")
        depth = 1
    for level in range(len(Loop) + 1):
        before += [INDENT * depth + line for line in _entering(convolution, nest, level)]
        if nest.levels[Array.OUTPUT] == level:
            after.append(INDENT * depth + f"write {_tile(convolution, nest, Array.OUTPUT)}")
        if level < len(Loop) and nest.trips(convolution)[nest.order[level]] > 1:
            before.append(INDENT * depth + _loop(convolution, nest, nest.order[level]))
            depth += 1
    return "\n".join([*before, INDENT * depth + "multiply and add", *reversed(after)])


def _loop(convolution: Convolution, nest: LoopNest, loop: Loop) -> str:
    length, tile = lengths(convolution)[loop], nest.tiles[loop]
    if tile == 1:
        return f"for each of {length} {loop.words}"
    last = length % tile
    remainder = f", the last of {last}" if last else ""
    return f"for {nest.trips(convolution)[loop]} tiles of {tile} {loop.words}{remainder}"


def _entering(convolution: Convolution, nest: LoopNest, level: int) -> Iterator[str]:
    for array in (Array.OUTPUT, Array.WEIGHTS, Array.INPUT):
        if nest.levels[array] == level:
            yield f"{_deed(convolution, nest, array)} {_tile(convolution, nest, array)}"


def _tile(convolution: Convolution, nest: LoopNest, array: Array) -> str:
    whole = "all of the " if nest.levels[array] == 0 else ""
    extents = " x ".join(str(size) for size in largest_tile(convolution, nest, array))
    return f"{whole}{_WORDS[array]} {extents}"


def _deed(convolution: Convolution, nest: LoopNest, array: Array) -> str:
    outside = nest.outside(array)
    trips = nest.trips(convolution)
    if array is Array.OUTPUT:
        returns = any(trips[loop] > 1 for loop in outside if loop not in MOVES[array])
        return "clear, or read back," if returns else "clear"
    slides = array is Array.INPUT and nest.halo is Halo.KEPT and outside
    return "load what is new of" if slides and outside[-1] is not Loop.CHANNELS else "load"


def _nested_listing(convolution: Convolution, nest: NestedTiles) -> str:
    before: list[str] = []
    after: list[str] = []
    depth = 0
    if convolution.groups > 1:
        before.append(f"for each of {convolution.groups} groups")
        depth = 1
    for place, array in enumerate(nest.order):
        for loop, within, tile in band_loops(convolution, nest, place):
            before.append(INDENT * depth + nested_loop(loop, within, tile))
            depth += 1
        extents = " x ".join(map(str, largest_extents(convolution, nest, array)))
        before.append(INDENT * depth + f"{_nested_deed(convolution, nest, place)} {extents}")
        if array is Array.OUTPUT:
            after.append(INDENT * depth + f"write output {extents}")
    return "\n".join([*before, INDENT * depth + "multiply and add", *reversed(after)])


def band_loops(
    convolution: Convolution, nest: NestedTiles, place: int
) -> Iterator[tuple[Loop, int, int]]:
    """Each loop of a band that has several tiles: what it cuts, and into what."""
    array = nest.order[place]
    for loop in sorted(MOVES[array], key=lambda one: (one is nest.slides, one)):
        first, _ = nest.movers(loop)
        within = lengths(convolution)[loop] if first is array else nest.tiles[first][loop]
        if nest.tiles[array][loop] < within:
            yield loop, within, nest.tiles[array][loop]


def nested_loop(loop: Loop, within: int, tile: int) -> str:
    """Return a loop of a band in words."""
    if tile == 1:
        return f"for each of {within} {loop.words}"
    last = f", the last of {within % tile}" if within % tile else ""
    return f"for {-(-within // tile)} tiles of {tile} {loop.words}{last}"


def _nested_deed(convolution: Convolution, nest: NestedTiles, place: int) -> str:
    array = nest.order[place]
    if array is Array.OUTPUT:
        around = [loop for one in range(place) for loop, *_ in band_loops(convolution, nest, one)]
        comes_back = any(loop not in MOVES[array] for loop in around)
        return "clear, or read back, output" if comes_back else "clear output"
    slides = array is Array.INPUT and nest.slides is not None
    return f"load what is new of {_WORDS[array]}" if slides else f"load {_WORDS[array]}"

"""A loop nest as text: what runs in what, and where tiles come in and go out."""

from __future__ import annotations

from collections.abc import Iterator

from planners.traffic.convolution import Convolution
from planners.traffic.counting import largest_tile
from planners.traffic.nest import MOVES, Array, Halo, Loop, LoopNest, lengths

INDENT = "  "
_WORDS = {Array.INPUT: "input", Array.WEIGHTS: "weights", Array.OUTPUT: "output"}


def listing(convolution: Convolution, nest: LoopNest) -> str:
    """Return the nest, one line a loop or a transfer; loops of a single tile are left out.

    Tiles are given at their largest: channels x rows x columns of the input, filters x channels x
    kernel rows x kernel columns of the weights, filters x rows x columns of the output.
    """
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

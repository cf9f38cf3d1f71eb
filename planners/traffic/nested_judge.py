"""The judge of nests with two levels of tiles: walks one, with the buffer as sets of elements."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product

from planners.traffic.convolution import ArrayBytes, Convolution, array_bytes
from planners.traffic.nest import MOVES, Array, Loop
from planners.traffic.nested import NestedTiles
from planners.traffic.simulator import BufferState, Walk, whole_loops

Ranges = Mapping[Loop, range]


def walk_nested(
    convolution: Convolution,
    nest: NestedTiles,
    *,
    buffer_bytes: int,
    element_bytes: int | ArrayBytes,
) -> Walk:
    """Walk the nest, band by band; slow.

    Raises InvalidPlan as `walk` does: where the buffer overflows, or an operand is missing.
    """
    state = BufferState(convolution, buffer_bytes, array_bytes(element_bytes))
    for group in range(convolution.groups):
        _run(state, nest, 0, whole_loops(convolution), group)
        state.leave()
    state.check_complete()
    return state.result()


def _run(state: BufferState, nest: NestedTiles, depth: int, ranges: Ranges, group: int) -> None:
    """Run the bands from one on, inside the tiles that those around it stand at."""
    if depth == len(nest.order):
        state.check_room(ranges)
        state.multiply(ranges, group)
        return
    array = nest.order[depth]
    for is_step, tile in _band(nest, array, ranges):
        state.replace(array, tile, group, keeps=is_step and array is Array.INPUT)
        _run(state, nest, depth + 1, tile, group)


def _band(nest: NestedTiles, array: Array, ranges: Ranges) -> Iterator[tuple[bool, Ranges]]:
    """The tiles of an array, and whether just the sliding loop made a step to reach each."""
    loops = sorted(MOVES[array], key=lambda loop: loop is nest.slides)
    cuts = []
    for loop in loops:
        size, places = nest.tiles[array][loop], ranges[loop]
        cuts.append([places[at : at + size] for at in range(0, len(places), size)])
    before: tuple[range, ...] = ()
    for tile in product(*cuts):
        is_step = bool(before) and before[:-1] == tile[:-1] and loops[-1] is nest.slides
        yield is_step, {**ranges, **dict(zip(loops, tile, strict=True))}
        before = tile

"""The loop nests of a convolution up to what they move, whatever their tiles are.

How much a nest holds and moves depends on its order and levels only through this: which loops lie
outside the level of each array, and which of those go round it: loops that do not move it, outside
one that does. Of the orders and levels with the same of these one is enough, and of two where one is
never better the other one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import permutations, product
from typing import NamedTuple

from planners.traffic.nest import MOVES, Array, Halo, Loop

Loops = int  # a set of loops, bit 1 << loop for each
NO_LOOP = len(Loop)
_CHANNELS = 1 << Loop.CHANNELS
_MOVES = tuple(sum(1 << loop for loop in MOVES[array]) for array in Array)


class Structure(NamedTuple):
    """The meaning of an order and levels for the three arrays.

    moved_by: by array, the loops outside its level that reach other tiles of it. rounds: those that
    go round it. slides: the innermost loop that moves the input, NO_LOOP where no halo is kept.
    """

    order: tuple[Loop, ...]
    levels: tuple[int, int, int]
    moved_by: tuple[Loops, Loops, Loops]
    rounds: tuple[Loops, Loops, Loops]
    slides: int


@cache
def structures(loops: frozenset[Loop], halo: Halo) -> tuple[Structure, ...]:
    """Return a structure for each way to move the arrays that is not always beaten.

    loops: those longer than one iteration; the others do not matter, and stand innermost. Another
    way beats one with the same loops that move the input, but for the channels, if no array has
    more loops going round it, none has fewer loops moving it, and it keeps the same halo:
    - its tiles are no larger: a loop that moves an array cuts what is held of it;
    - what one round brings in is as much: tiles of weights, outputs and channels do not overlap;
    - it has no more rounds.
    Loops that move the input along rows or columns are not compared, as halos come with them.
    """
    found: dict[tuple[object, ...], Structure] = {}
    for order in permutations(sorted(loops)):
        for one in _of_order(order, halo):
            found.setdefault((one.moved_by, one.rounds, one.slides), one)
    return tuple(_undominated(found.values()))


def _of_order(order: tuple[Loop, ...], halo: Halo) -> Iterator[Structure]:
    """The structures of an order, but for levels that another of the same order beats."""
    rest = tuple(loop for loop in Loop if loop not in order)
    deepest = [_deepest(order, array) for array in (Array.WEIGHTS, Array.OUTPUT)]
    for inputs, weights, outputs in product(_levels(order, Array.INPUT), *deepest):
        slides = order[inputs[0] - 1] if inputs[0] and halo is Halo.KEPT else NO_LOOP
        yield Structure(
            order=order + rest,
            levels=(inputs[0], weights[0], outputs[0]),
            moved_by=(inputs[1], weights[1], outputs[1]),
            rounds=(inputs[2], weights[2], outputs[2]),
            slides=NO_LOOP if slides == Loop.CHANNELS else slides,  # no halo along channels
        )


def _levels(order: Sequence[Loop], array: Array) -> list[tuple[int, Loops, Loops]]:
    """Levels of an array with the loops that move it and those that go round it.

    Level 0, or right behind a loop that moves it: any other is one of these in effect.
    """
    outside, found = 0, [(0, 0, 0)]
    for level, loop in enumerate(order, start=1):
        outside |= 1 << loop
        if loop in MOVES[array]:
            found.append((level, outside & _MOVES[array], outside & ~_MOVES[array]))
    return found


def _deepest(order: Sequence[Loop], array: Array) -> list[tuple[int, Loops, Loops]]:
    """For each set of loops that go round, the level with the most loops that move the array."""
    return list(
        {rounds: (level, by, rounds) for level, by, rounds in _levels(order, array)}.values()
    )


def _undominated(found: Iterable[Structure]) -> Iterator[Structure]:
    alike: dict[Loops, list[Structure]] = {}
    for one in found:
        alike.setdefault(one.moved_by[Array.INPUT] & ~_CHANNELS, []).append(one)
    for group in alike.values():
        for one in group:
            if not any(_beats(other, one) for other in group if other is not one):
                yield one


def _beats(one: Structure, other: Structure) -> bool:
    """Whether it is never worse; no two structures have all of these the same."""
    return (
        other.slides in (one.slides, NO_LOOP)
        and all(a & ~b == 0 for a, b in zip(one.rounds, other.rounds, strict=True))
        and all(b & ~a == 0 for a, b in zip(one.moved_by, other.moved_by, strict=True))
    )

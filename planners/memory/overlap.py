"""How far the result of a group may lie over its input, row by row as the input's rows die."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from planners.streaming.firing import Firings, firing_order


class Pace(NamedTuple):
    """How far stages are with the tensor that the first of them reads.

    For each firing of the last stage: needed, rows that have come by then; dead, rows that neither
    this firing nor anything after it reads; and made, rows of the result after it. over: dead rows
    after each firing, from none on.
    """

    needed: tuple[int, ...]
    dead: tuple[int, ...]
    made: tuple[int, ...]
    over: tuple[int, ...]


def pace_of(stages: Sequence[Firings], source: str) -> Pace:
    """Return the pace of stages that are carried out in the firing order."""
    fired = [0] * len(stages)
    readers = [
        (place, reading)
        for place, stage in enumerate(stages)
        for reading in stage.readings
        if reading.tensor == source
    ]
    needed, dead, over = [0], [], [0]
    last = len(stages) - 1
    for place in firing_order(stages):
        for reader, reading in readers:
            if reader == place:
                needed[-1] = max(needed[-1], reading.upto[fired[place]])
        if place == last:
            dead.append(min(reading.first[fired[reader]] for reader, reading in readers))
            needed.append(needed[-1])
        fired[place] += 1
        if place == last:
            over.append(min(reading.first[fired[reader]] for reader, reading in readers))
    return Pace(tuple(needed[:-1]), tuple(dead), stages[last].made[1:], tuple(over))


def least_lead(paces: Sequence[Pace], source_row: int, result_row: int) -> int:
    """Return how many bytes the input of a group has to begin behind its result, at least.

    paces: of the moves of the group, each of which reads only what the one before it makes. The
    result lies below: when rows of it are written, its end must not lie beyond the first byte of
    the input that this firing or a later one reads. source_row, result_row: bytes of a row.
    """
    dead, over = paces[0].dead, paces[0].over
    for before, pace in pairwise(paces):
        fired = [bisect_left((0, *before.made), rows) for rows in pace.needed]
        dead = tuple(over[count] for count in fired)
        over = (0, *dead)
    return max(
        0,
        *(
            made * result_row - gone * source_row
            for made, gone in zip(paces[-1].made, dead, strict=True)
        ),
    )

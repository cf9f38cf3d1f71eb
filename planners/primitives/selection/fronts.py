"""Sets of pairs of time and memory in which no pair improves on another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from planners.kernels import ranges
from planners.primitives.selection.objective import Objective

Numbers = NDArray[Any]  # int64, or Python's integers where those might be too small


class PairFront(NamedTuple):
    """Pairs by growing memory and falling time; both strictly."""

    nanoseconds: Numbers
    memory: Numbers

    @property
    def size(self) -> int:
        """Number of pairs."""
        return len(self.memory)


NOTHING = PairFront(np.zeros(1, np.int64), np.zeros(1, np.int64))  # costs nothing, needs nothing


def front_of(nanoseconds: Sequence[int] | Numbers, memory: Sequence[int] | Numbers) -> PairFront:
    """Return the pairs that no other improves on, of equal ones one."""
    times, sizes = _numbers(nanoseconds), _numbers(memory)
    order = np.argsort(sizes, kind="stable")
    times, sizes = times[order], sizes[order]
    least = np.minimum.accumulate(times)
    is_faster = np.empty(len(times), bool)
    is_faster[:1] = True
    np.less(times[1:], least[:-1], out=is_faster[1:])
    times, sizes = times[is_faster], sizes[is_faster]
    is_last = np.empty(len(times), bool)  # of those with equal memory: the fastest
    is_last[-1:] = True
    np.not_equal(sizes[1:], sizes[:-1], out=is_last[:-1])
    return PairFront(times[is_last], sizes[is_last])


def _numbers(values: Sequence[int] | Numbers) -> Numbers:
    if isinstance(values, np.ndarray):
        return values
    return np.array(values, ranges.number_type(max(values, default=0)))


def _summable(first: PairFront, second: PairFront) -> tuple[PairFront, PairFront]:
    """Return both with numbers of a type that holds their sums."""
    largest = max(int(one.max()) for column in zip(first, second, strict=True) for one in column)
    if ranges.number_type(2 * largest) is not object:
        return first, second
    found = (PairFront(*(column.astype(object) for column in one)) for one in (first, second))
    return next(found), next(found)


def least(fronts: Sequence[PairFront]) -> PairFront:
    """Return the best of several fronts together."""
    if len(fronts) == 1:
        return fronts[0]
    return front_of(
        np.concatenate([one.nanoseconds for one in fronts]),
        np.concatenate([one.memory for one in fronts]),
    )


def added(first: PairFront, second: PairFront, objective: Objective) -> PairFront:
    """Return the front of doing both: times add up, memory as the objective says."""
    first, second = _summable(first, second)
    if objective is Objective.WORKSPACE:
        return _shared(first, second)
    large, small = (first, second) if first.size >= second.size else (second, first)
    if small.size == 1:
        return PairFront(large.nanoseconds + small.nanoseconds, large.memory + small.memory)
    return front_of(
        np.add.outer(small.nanoseconds, large.nanoseconds).ravel(),
        np.add.outer(small.memory, large.memory).ravel(),
    )


def _shared(first: PairFront, second: PairFront) -> PairFront:
    """Both in one memory: at each size the best of each that fits."""
    sizes = np.union1d(first.memory, second.memory)
    sizes = sizes[sizes >= max(first.memory[0], second.memory[0])]
    times = sum(
        one.nanoseconds[np.searchsorted(one.memory, sizes, side="right") - 1]
        for one in (first, second)
    )
    return front_of(times, sizes)


class Pair(NamedTuple):
    """A pair of time and memory."""

    nanoseconds: int
    memory: int

    def to_json(self) -> dict[str, int]:
        """Return the pair as a JSON value."""
        return {"memory_bytes": self.memory, "nanoseconds": self.nanoseconds}


def best_within(front: PairFront, memory: int) -> Pair | None:
    """Return the pair of least time within a memory; None if none fits."""
    place = int(np.searchsorted(front.memory, memory, side="right")) - 1
    return None if place < 0 else pair(front, place)


def pair(front: PairFront, place: int) -> Pair:
    """Return one pair of a front."""
    return Pair(int(front.nanoseconds[place]), int(front.memory[place]))


def split(
    first: PairFront, second: PairFront, goal: Pair, objective: Objective
) -> tuple[Pair, Pair] | None:
    """Return a pair of each front that together take the time of the goal, and fit its memory.

    None if there are none. Quick where the second front is short.
    """
    for place in range(second.size):
        mine = pair(second, place)
        left = goal.memory
        if objective is Objective.NETWORK:
            left -= mine.memory
        elif mine.memory > left:
            break
        other = best_within(first, left)
        if other is not None and other.nanoseconds + mine.nanoseconds == goal.nanoseconds:
            return other, mine
    return None

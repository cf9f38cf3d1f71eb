"""Collatz-Wielandt bounds of the period from two states of one execution.

A state is a vector of times: of each token, and of each actor's latest start. An iteration maps it to
the next one; later times in give later times out, and all by t later gives all by t later. So if n
iterations made no time grow by less than l, the next n do not either, and so on for ever: the period
is at least l / n, and likewise at most the largest growth by n. In a strongly connected graph both come
closer and closer to the period.

Source: Cochet-Terrasson, Gaubert, Gunawardena, A constructive fixed point theorem for min-max
functions, Dynamics and Stability of Systems 14(4), 1999 (bounds of Collatz and Wielandt's kind).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction

Times = Sequence[Sequence[tuple[int, int]]]  # of each queue, its runs of equal times: length, time


def growth_bounds(before: Times, after: Times, iterations: int) -> tuple[Fraction, Fraction]:
    """Return a lower and an upper bound of the period from states so many iterations apart."""
    grown = [
        growth
        for earlier, later in zip(before, after, strict=True)
        for growth in _growths(earlier, later)
    ]
    return Fraction(min(grown), iterations), Fraction(max(grown), iterations)


def _growths(earlier: Sequence[tuple[int, int]], later: Sequence[tuple[int, int]]) -> Iterator[int]:
    """Yield by how much the times of a queue are later, place by place, once for equal places."""
    mine, others = iter(earlier), iter(later)
    left = right = time = other = 0
    while True:
        if not left:
            left, time = next(mine, (0, 0))
        if not right:
            right, other = next(others, (0, 0))
        same = min(left, right)
        if not same:
            return
        yield other - time
        left, right = left - same, right - same

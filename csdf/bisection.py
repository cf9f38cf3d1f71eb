"""Bisection: the smallest integer with a monotone property, one that all larger integers have."""

from __future__ import annotations

from collections.abc import Callable


def first_between(low: int, high: int, holds: Callable[[int], bool]) -> int:
    """Return the smallest integer with a property that `low` does not have and `high` has.

    The property is tested strictly between `low` and `high`.
    """
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def first_above_zero(holds: Callable[[int], bool]) -> int:
    """Return the smallest integer from 1 on with a property, by galloping: 1, 2, 4, ... are tested.

    Few tests where the result is small.
    """
    low, high = 0, 1
    while not holds(high):
        low, high = high, 2 * high
    return first_between(low, high, holds)

"""Row rules of layers as linear functions: floor((slope * row + first) / divisor).

A rule maps a row of the output to the first and the last row of an input that it depends on. The
coefficients are fitted to the range function of the layer and reproduce it for each row. If no
coefficients do, the rule lists the ranges. The same rules serve for columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from math import gcd
from typing import NamedTuple

Pairs = tuple[tuple[int, int], ...]


class Rule(NamedTuple):
    """The range of input positions that each output position depends on.

    A position is a row or a column. pairs: the first and last input position of each output
    position, where no linear function gives them. is_clamped: whether positions outside the input
    are clamped to its first or last position.
    """

    slope: int
    first: int
    last: int
    divisor: int
    is_clamped: bool = False
    pairs: Pairs = ()


def all_of(limit: int) -> Rule:
    """Return the rule of a layer whose outputs depend on the whole input."""
    return Rule(0, 0, limit - 1, 1)


def rule_of(spans: Sequence[tuple[int, int]], limit: int) -> Rule:
    """Return the rule from output positions to ranges of input positions.

    spans: of each output position the unclipped, half-open range. limit: size of the input.
    """
    places = len(spans)
    firsts, lasts = [first for first, _ in spans], [end - 1 for _, end in spans]
    for slope, divisor in _slopes(places, limit, firsts):
        first, last = _offset(firsts, slope, divisor), _offset(lasts, slope, divisor)
        if first is not None and last is not None:
            return Rule(slope, first, last, divisor)
    if all(0 <= place < limit for place in (*firsts, *lasts)):
        for slope, divisor in _slopes(places, limit, firsts):
            first = _offset(firsts, slope, divisor, limit)
            last = _offset(lasts, slope, divisor, limit)
            if first is not None and last is not None:
                return Rule(slope, first, last, divisor, is_clamped=True)
    clipped = tuple(
        (min(max(first, 0), limit - 1), min(max(last, 0), limit - 1))
        for first, last in zip(firsts, lasts, strict=True)
    )
    return Rule(0, 0, 0, 1, pairs=clipped)


def _slopes(places: int, limit: int, firsts: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Candidate slopes: the extreme steps, unit fractions, and the scale factors of resizing."""
    steps = [two - first for first, two in pairwise(firsts)] or [0]
    yield from dict.fromkeys((step, 1) for step in (min(steps), max(steps)))
    yield from ((1, divisor) for divisor in range(2, 17))
    for above, below in ((limit, places), (limit - 1, places - 1)):
        if above > 0 and below > 0:
            common = gcd(above, below)
            for times in (1, 2):
                yield above // common * times, below // common * times
                yield above * times, below * times


def _offset(found: Sequence[int], slope: int, divisor: int, limit: int | None = None) -> int | None:
    """An offset with divisor * found[i] <= slope * i + offset < divisor * (found[i] + 1) for all i.

    limit: size of the input if positions are clamped; then value 0 has no lower bound and value
    limit - 1 no upper bound. None if no offset satisfies all inequalities.
    """
    low = [
        divisor * place - slope * number
        for number, place in enumerate(found)
        if limit is None or place > 0
    ]
    high = [
        divisor * (place + 1) - slope * number - 1
        for number, place in enumerate(found)
        if limit is None or place < limit - 1
    ]
    least, most = max(low, default=None), min(high, default=None)
    if least is None or most is None:
        return most if least is None else least
    return least if least <= most else None

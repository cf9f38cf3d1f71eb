"""Spans of rows or columns that firings need of a tensor."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from planners.streaming.firing import Reading
from planners.tiling.regions import Range, hull


def within(span: Range, limit: int) -> Range:
    """Return the part of a range in [0, limit); empty at the nearest place where there is none."""
    first = min(max(span[0], 0), limit)
    return first, max(first, min(span[1], limit))


def rows_behind(row_of: tuple[Range, ...], span: Range | None) -> Range | None:
    """Return rows of an input for a range of rows of the output: needs grow with the row."""
    if span is None or span[0] == span[1]:
        return None
    first, end = row_of[span[0]][0], row_of[span[1] - 1][1]
    return (first, end) if first < end else None


def joined(one: Range | None, other: Range | None) -> Range | None:
    """Return the hull of two ranges, either of which may be missing."""
    if one is None or other is None:
        return one or other
    return hull(one, other)


def reading_of(tensor: str, spans: Sequence[Range], limit: int) -> Reading:
    """Return what firings need, given the range that each needs; an empty range needs nothing."""
    uptos = [end if first < end else 0 for first, end in spans]
    firsts = [first if first < end else limit for first, end in spans]
    firsts.append(limit)
    return Reading(
        tensor=tensor,
        upto=tuple(accumulate(uptos, max)),
        first=tuple(reversed(tuple(accumulate(reversed(firsts), min)))),
    )

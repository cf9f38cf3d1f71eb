"""The ways to lay a network into memory, and the least of them.

Layers work whole or by parts, and buffers lie apart or in one arena. Buffers apart are the accounting
of SAMOS 2020: each has bytes of its own for the whole frame. In one arena buffers that are not needed
at the same time share bytes, as in any runtime; a saving counts only against the least of these ways.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

WHOLE_ARENA = "whole layers, one arena"
WHOLE_APART = "whole layers, each tensor apart"
PARTS_ARENA = "by parts, one arena"
PARTS_APART = "by parts, each buffer apart"
FIT_ARENA = "lines and strips, one arena (csdf fit)"
RINGS = "each tensor has a ring of rows of its own, and the input comes by rows"  # by parts
LINES = "the input is whole unless --input says otherwise, and lines share staged rows"


class MemoryWay(NamedTuple):
    """A way, and its bytes. lower_bound: no buffers of this kind are smaller, as far as proved."""

    title: str
    buffers: int
    lower_bound: int
    parameters: int

    @property
    def total(self) -> int:
        """Bytes of buffers and parameters."""
        return self.buffers + self.parameters

    @property
    def is_whole(self) -> bool:
        """Whether all layers work as a whole."""
        return self.title in (WHOLE_ARENA, WHOLE_APART)


def least_way(ways: Sequence[MemoryWay]) -> MemoryWay:
    """Return the way with the smallest buffers; of equal ones whole layers, then the first."""
    return min(ways, key=lambda way: (way.buffers, not way.is_whole))


def reduction(ways: Sequence[MemoryWay]) -> Fraction:
    """Return the part of the memory that other ways save over the least way of whole layers.

    Parameters count. 0 where the least way of all is one of whole layers, or only they are known.
    """
    whole = [way for way in ways if way.is_whole]
    if not whole:
        return Fraction(0)
    return 1 - Fraction(least_way(ways).total, max(1, least_way(whole).total))

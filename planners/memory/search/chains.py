"""Groups and chains of groups, with what they need: values."""

from __future__ import annotations

from typing import NamedTuple

from planners.memory.search.moves import Move


class GroupWay(NamedTuple):
    """A group: its bytes, what lies whole at its ends included, its work, its cuts and moves.

    pool: bytes that come and go, in one piece; lines: all others inside. lead: bytes by which what the
    group reads has to begin behind its result, to lie over it.
    """

    memory: int
    work: int
    begin: int
    end: int
    moves: tuple[Move, ...]
    is_apart: bool = False  # whether its layers work one after the other, each as a whole
    lines: int = 0
    pool: int = 0
    lead: int = 0


def collecting(size: int) -> GroupWay:
    """Return the group in which no layer works: the input comes row by row until it lies whole.

    size: bytes of the input.
    """
    return GroupWay(size, 0, 0, 0, ())


class PlanWay(NamedTuple):
    """A chain of groups with its peak and its work."""

    memory: int
    work: int
    groups: tuple[GroupWay, ...]

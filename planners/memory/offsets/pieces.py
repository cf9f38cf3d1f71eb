"""Pieces that are placed in an arena, and leads: how far a piece may lie over another."""

from __future__ import annotations

from typing import NamedTuple


class GroupBytes(NamedTuple):
    """Bytes over some groups. is_inner: whether they are of one group alone."""

    name: str
    size: int
    begin: int
    end: int
    alignment: int
    is_inner: bool = False

    def meets(self, other: GroupBytes) -> bool:
        """Whether a group has both."""
        return self.begin < other.end and other.begin < self.end


class Lead(NamedTuple):
    """A buffer may lie over another if that begins at least so many bytes behind it."""

    below: str
    above: str
    bytes: int

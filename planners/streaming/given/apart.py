"""Groups that work at the same time in one arena have bytes of their own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import NamedTuple

from csdf.errors import InvalidPlan
from planners.streaming.plan import StreamBuffer, StreamingPlan


class _Place(NamedTuple):
    """A group of a plan."""

    plan: StreamingPlan
    group: int

    def __str__(self) -> str:
        return f"group {self.group + 1} of network {self.plan.network!r}"

    @property
    def buffers(self) -> Iterator[StreamBuffer]:
        """The buffers with bytes of the arena that the group has."""
        return (one for one in self.plan.buffers if self.plan.is_live(one, self.group))


def require_apart(plans: Sequence[StreamingPlan]) -> None:
    """Raise InvalidPlan where groups that may work at the same time have a byte in common.

    plans: of networks in one arena, with offsets from its first byte. Compares all pairs.
    """
    places = [_Place(plan, number) for plan in plans for number in range(len(plan.groups))]
    for one, other in combinations(places, 2):
        at_once = one.plan.groups[one.group].at_once
        if at_once is not None and at_once == other.plan.groups[other.group].at_once:
            _require_no_byte_in_common(one, other)


def _require_no_byte_in_common(one: _Place, other: _Place) -> None:
    for first in one.buffers:
        for second in other.buffers:
            ends = min(first.offset + first.size, second.offset + second.size)
            if max(first.offset, second.offset) < ends:
                raise InvalidPlan(
                    f"{one} and {other} may work at the same time, but buffers {first.name!r} and "
                    f"{second.name!r} have byte {max(first.offset, second.offset)} in common"
                )

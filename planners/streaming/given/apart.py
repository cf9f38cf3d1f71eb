"""Groups that work at the same time in one arena: bytes of their own, tensors handed over."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import NamedTuple

from csdf.errors import InvalidPlan
from planners.streaming.plan import Kind, StreamBuffer, StreamingPlan


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


def require_hand_overs(plan: StreamingPlan) -> None:
    """Raise InvalidPlan unless each copy is from one whole buffer of a tensor to another one."""
    for number, group in enumerate(plan.groups):
        for copy in group.hand_overs:
            named = f"group {number + 1} takes over {copy.source!r} in {copy.target!r}"
            source, target = (_whole(plan, name, named) for name in (copy.source, copy.target))
            if source.tensor != target.tensor or source is target:
                raise InvalidPlan(f"{named}; expected two buffers of one tensor")
            if not target.begin <= number < target.end:
                raise InvalidPlan(
                    f"{named}, which lives from group {target.begin + 1} on, or ended"
                )

    _require_filled(plan)


def _require_filled(plan: StreamingPlan) -> None:
    """Require that a buffer which is there only behind the making of its tensor takes it over."""
    made = {
        one.stage.result: number for number, group in enumerate(plan.groups) for one in group.stages
    }
    for buffer in plan.buffers:
        taken = {copy.target for copy in plan.groups[buffer.begin].hand_overs}
        is_late = buffer.kind is Kind.WHOLE and made.get(buffer.tensor, 0) < buffer.begin
        if is_late and buffer.name not in taken:
            raise InvalidPlan(
                f"buffer {buffer.name!r} begins with group {buffer.begin + 1}, behind the making of "
                f"{buffer.tensor!r}, but does not take it over"
            )


def _whole(plan: StreamingPlan, name: str, named: str) -> StreamBuffer:
    found = [one for one in plan.buffers if one.name == name and one.has_all_rows]
    if len(found) != 1:
        raise InvalidPlan(f"{named}: {len(found)} buffers with all rows have the name {name!r}")
    return found[0]

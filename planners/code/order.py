"""The order in which the stages of a plan fire, and rings that a tensor has for some of its readers."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple, Protocol

from csdf.errors import InvalidPlan
from planners.streaming.plan import StreamBuffer, StreamingPlan
from planners.streaming.running_stage import RunningStage

MOST_TURNS = 65535  # of firings that repeat, and times: they are counted in 16 bits


class Order(NamedTuple):
    """The order of a plan in C: turns, and the numbers of their stages, one behind the other."""

    turns: list[str]
    stages: list[int]


class OrderedStage(Protocol):
    """A stage with its number among all stages."""

    @property
    def running(self) -> RunningStage:
        """The stage at work."""

    @property
    def number(self) -> int:
        """The number among all stages."""

    @property
    def group(self) -> int:
        """The number of its group."""

    @property
    def is_hand_over(self) -> bool:
        """Whether it copies a tensor before its group works."""


def order_of(plan: StreamingPlan, stages: Sequence[OrderedStage]) -> Order:
    """Return the order in which the stages of a plan fire; an empty one where they ask one another.

    stages: those of all groups, copies first in each. Raises InvalidPlan for a group of several stages
    without an order beside groups that have one.
    """
    found = Order([], [])
    if not any(group.order or group.hand_overs for group in plan.groups):
        return found
    for number, group in enumerate(plan.groups):
        here = [one for one in stages if one.group == number]
        known = {one.running.result: one.number for one in here}
        for copy in here:
            if copy.is_hand_over:
                _add(found, 1, [copy.number])
        fired = [one for one in here if not one.is_hand_over]
        if not group.order:
            if len(fired) > 1:
                raise InvalidPlan(
                    f"no C code for group {number + 1}, several stages without an order, beside "
                    "groups with one"
                )
            _add(found, len(fired[0].running.targets), [fired[0].number])
        for turns in group.order:
            _add(found, turns.times, [known[name] for name in turns.results])
    return found


def _add(order: Order, times: int, numbers: Sequence[int]) -> None:
    if times > MOST_TURNS or len(numbers) > MOST_TURNS:
        raise InvalidPlan(f"turns of more than {MOST_TURNS} firings, or times")
    order.turns.append(f"{{{len(order.stages)}, {len(numbers)}, {times}}},")
    order.stages.extend(numbers)


def require_in_c(plan: StreamingPlan, inputs: Collection[str]) -> None:
    """Raise InvalidPlan, with the reason, for a plan that the scheduler cannot carry out.

    inputs: of the network.
    """
    for one in (stage for group in plan.groups for stage in group.stages):
        if one.stage.result in inputs:
            raise InvalidPlan(
                f"no C code for input {one.stage.result!r}, one of several, as it comes by rows"
            )
        if one.primitive is not None:
            raise InvalidPlan(
                f"no C code for {one.stage.result!r} by primitive {one.primitive.name!r}"
            )


class Places(NamedTuple):
    """The buffers of tensors: for each its first, in which it is made, and all further ones."""

    first: dict[str, StreamBuffer]
    further: tuple[StreamBuffer, ...]


def places_of(plan: StreamingPlan, made: Mapping[str, int]) -> Places:
    """Return where tensors lie. made: the group that makes each; of inputs the first."""
    first = {}
    for tensor, group in made.items():
        if written := plan.written(tensor, group):
            first[tensor] = written[0]
    further = [one for one in plan.buffers if one.has_rows and one.tensor in first]
    return Places(first, tuple(one for one in further if one is not first[one.tensor]))

"""The order in which the stages of a plan fire, and rings that a tensor has for some of its readers."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from csdf.errors import InvalidPlan
from planners.streaming.plan import Kind, StreamBuffer, StreamingPlan

MOST_TURNS = 65535  # of firings that repeat, and times: they are counted in 16 bits


class Order(NamedTuple):
    """The order of a plan in C: turns, and the results of their stages, one behind the other."""

    turns: list[str]
    results: list[str]


def order_of(plan: StreamingPlan, inputs: Collection[str]) -> Order:
    """Return the order in which the stages of a plan fire; an empty one where they ask one another.

    inputs: of the network. Raises InvalidPlan for an order in one of several groups.
    """
    found = Order([], [])
    made = {one.stage.result for group in plan.groups for one in group.stages}
    for name in sorted(made.intersection(inputs)):
        raise InvalidPlan(f"no C code for input {name!r}, one of several, as it comes by rows")
    for one in (stage for group in plan.groups for stage in group.stages):
        if one.primitive is not None:
            raise InvalidPlan(
                f"no C code for {one.stage.result!r} by primitive {one.primitive.name!r}"
            )
    for number, group in enumerate(plan.groups):
        if group.hand_overs:
            raise InvalidPlan(f"no C code for buffers that group {number + 1} takes over")
        if group.arriving is not None and plan.is_copied(number):
            raise InvalidPlan(f"no C code for rows of {group.arriving!r} copied from where it lies")
    if len(plan.groups) > 1 and any(group.order for group in plan.groups):
        raise InvalidPlan("no C code for a plan of several groups of which one has an order")
    for turns in plan.groups[0].order:
        if turns.times > MOST_TURNS or len(turns.results) > MOST_TURNS:
            raise InvalidPlan(f"turns of more than {MOST_TURNS} firings, or times")
        found.turns.append(f"{{{len(found.results)}, {len(turns.results)}, {turns.times}}},")
        found.results.extend(turns.results)
    return found


def copies_of(plan: StreamingPlan) -> tuple[StreamBuffer, ...]:
    """Return the rings of each tensor but its first."""
    found: dict[str, list[StreamBuffer]] = {}
    for one in plan.buffers:
        if one.kind in (Kind.WHOLE, Kind.RING):
            found.setdefault(one.tensor, []).append(one)
    return tuple(copy for places in found.values() for copy in places[1:])

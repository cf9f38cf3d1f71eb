"""The checker of memory plans: complete, and without code of the planners."""

from __future__ import annotations

from csdf.arguments import Natural, public
from csdf.errors import InvalidPlan
from csdf.status import Status
from planners.arena.problem import Buffer, MemoryPlan


@public
def check_plan(plan: MemoryPlan, *, capacity: Natural | None = None) -> None:
    """Raise InvalidPlan if two conflicting buffers share bytes, or a limit is violated.

    All pairs of buffers are compared, O(n^2). Also checked: alignment, fixed offsets, the capacity, and
    whether the bound and the status agree with the peak.
    """
    buffers = plan.problem.buffers
    for buffer in buffers:
        _check_place(plan, buffer, capacity)
    rules = {}
    for rule in ("conflicts", "may_overlap", "in_place"):
        pairs = getattr(plan.problem, rule)
        rules[rule] = {*pairs, *((second, first) for first, second in pairs)}  # in both orders
    for position, first in enumerate(buffers):
        for second in buffers[position + 1 :]:
            _check_pair(plan, rules, first, second)
    if plan.peak < plan.lower_bound:
        raise InvalidPlan(f"peak {plan.peak} is below its lower bound {plan.lower_bound}")
    if plan.status == Status.OPTIMAL and plan.peak != plan.lower_bound:
        raise InvalidPlan(f"called optimal at {plan.peak}, but only {plan.lower_bound} is proved")


def _check_place(plan: MemoryPlan, buffer: Buffer, capacity: int | None) -> None:
    if buffer.name not in plan.offsets:
        raise InvalidPlan(f"buffer {buffer.name!r} has no offset")
    offset = plan.offsets[buffer.name]
    if offset < 0 or offset % buffer.alignment != 0:
        raise InvalidPlan(
            f"buffer {buffer.name!r} lies at {offset}; expected a multiple of {buffer.alignment}"
        )
    if buffer.offset is not None and offset != buffer.offset:
        raise InvalidPlan(f"buffer {buffer.name!r} lies at {offset}; expected {buffer.offset}")
    is_needed = buffer.size > 0 and buffer.end > buffer.start
    if capacity is not None and is_needed and offset + buffer.size > capacity:
        raise InvalidPlan(
            f"buffer {buffer.name!r} ends at {offset + buffer.size}, beyond capacity {capacity}"
        )


def _check_pair(
    plan: MemoryPlan, rules: dict[str, set[tuple[str, str]]], first: Buffer, second: Buffer
) -> None:
    if first.size == 0 or second.size == 0:
        return
    if first.start == first.end or second.start == second.end:
        return
    pair = (first.name, second.name)
    meets = first.start < second.end and second.start < first.end
    if pair in rules["may_overlap"] or not (meets or pair in rules["conflicts"]):
        return
    first_offset, second_offset = plan.offsets[first.name], plan.offsets[second.name]
    if first_offset + first.size <= second_offset or second_offset + second.size <= first_offset:
        return
    if pair in rules["in_place"] and first_offset == second_offset:
        return
    raise InvalidPlan(
        f"buffers {first.name!r} ({first_offset} to {first_offset + first.size}) and {second.name!r} "
        f"({second_offset} to {second_offset + second.size}) share bytes at a time when both are needed"
    )

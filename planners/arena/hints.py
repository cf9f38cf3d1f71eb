"""A plan like an older one: hints are followed where that costs no byte."""

from __future__ import annotations

from dataclasses import replace

from planners.arena.blocks import Blocks, blocks_of
from planners.arena.greedy import Greedy
from planners.plan import MemoryPlan, Problem


def with_hints(plan: MemoryPlan) -> MemoryPlan:
    """Return a plan with the same peak in which as many hints as possible are followed.

    Hints are taken in the order of the buffers and dropped where they collide; the plan stays as it
    is if the other buffers do not find room around what is hinted.
    """
    buffers = plan.problem.buffers
    if not plan.has_offsets or all(b.hint is None or not b.takes_room for b in buffers):
        return plan
    blocks = blocks_of(_hinted(plan.problem, plan.peak))
    if not blocks.can_be:
        return plan
    for offsets in Greedy(blocks).standard_plans():
        if blocks.peak(offsets) <= plan.peak:
            return replace(plan, offsets={**plan.offsets, **_in_bytes(blocks, offsets)})
    return plan


def _hinted(problem: Problem, peak: int) -> Problem:
    """Return the problem with hints as fixed offsets, without those that collide or end too high."""
    plain = blocks_of(problem)
    number_of = {members[0].name: number for number, members in enumerate(plain.members)}
    taken: dict[int, tuple[int, int]] = {}  # from where to where, by number
    for number, (buffer,) in enumerate(plain.members):
        if buffer.offset is not None:
            taken[number] = buffer.offset, buffer.offset + buffer.size
    for number, (buffer,) in enumerate(plain.members):
        if buffer.hint is None or number in taken or buffer.hint + buffer.size > peak:
            continue
        begin, end = buffer.hint, buffer.hint + buffer.size
        near = (taken[other] for other in plain.neighbours(number) if other in taken)
        if all(end <= low or high <= begin for low, high in near):
            taken[number] = begin, end
    buffers = tuple(
        replace(buffer, offset=taken[number_of[buffer.name]][0])
        if number_of.get(buffer.name) in taken
        else buffer
        for buffer in problem.buffers
    )
    return replace(problem, buffers=buffers)


def _in_bytes(blocks: Blocks, offsets: list[int]) -> dict[str, int]:
    return {
        members[0].name: at * blocks.unit
        for members, at in zip(blocks.members, offsets, strict=True)
    }

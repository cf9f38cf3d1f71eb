"""Networks that take turns in several memories: retained buffers apart, transient buffers shared.

Each network is planned alone. Its retained buffers, state and resident weights, then have bytes of
their own at the begin of each memory; the transient buffers of all networks share the bytes after
them. A network that needs more than the retained buffers of the others leave is planned again, within
smaller memories.

Example: two networks with 1 kB and 2 kB of resident weights and 5 kB and 4 kB of transient buffers
take 1 + 2 + max(5, 4) = 8 kB.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from cnn2csdf.platforms import STACK, BoardMemory
from planners.arena.problem import Problem
from planners.memory.answer import Fit
from planners.memory.placement import arena_buffer
from planners.memory.several_networks import (
    ALIGNMENT,
    stack_and_reserve,
    with_states_apart,
    within_one_ram,
)
from planners.memory.stateful import arena_within_steps
from planners.plan.plan import Kind, Memory, StreamBuffer, StreamingPlan

MOST_PASSES = 2  # over all networks; another pass changes a plan only if resident weights grow


def taking_turns(
    fits: Sequence[Fit], again: Callable[[int, Mapping[str, Any]], Fit]
) -> Sequence[Fit]:
    """Return the answers for networks that take turns, in one arena or in several memories.

    again: computes the answer for a network, by its number, to a request with these changes. It is
    called for a network that needs more bytes than the others leave.
    """
    if any(fit.slow is not None for fit in fits):
        return _in_shared_memories(fits, again)

    def within(number: int, ram: int) -> Fit:
        return again(number, {"ram": ram})

    return with_states_apart(within_one_ram(fits, within), within)


class _Region(NamedTuple):
    """The buffers of a plan in one memory, in two parts with offsets from the begin of each part.

    retained: buffers that the next frame reads. transient: the other buffers.
    """

    memory: Memory
    retained: tuple[StreamBuffer, ...]
    transient: tuple[StreamBuffer, ...]

    @property
    def retained_bytes(self) -> int:
        """Bytes of the retained buffers, aligned."""
        return _aligned_end(self.retained)

    @property
    def needed_bytes(self) -> int:
        """Bytes of all buffers of the network."""
        return self.retained_bytes + self.transient_bytes

    @property
    def transient_bytes(self) -> int:
        """Bytes of the transient buffers, aligned."""
        return _aligned_end(self.transient)


def _in_shared_memories(
    fits: Sequence[Fit], again: Callable[[int, Mapping[str, Any]], Fit]
) -> Sequence[Fit]:
    """Return the answers with all plans in the same memories; not yet all if a network has no plan."""
    if len(fits) < 2 or any(fit.best is None for fit in fits):
        return fits
    answers = list(fits)
    regions = [_regions(fit.best.plan) for fit in fits if fit.best is not None]
    for number in MOST_PASSES * list(range(len(fits))):
        limits = _memories_left(answers, regions, number)
        left = {memory.name: memory.size for memory in limits}
        if any(region.needed_bytes > left[region.memory.name] for region in regions[number]):
            fit, before = again(number, {"memories": limits}), answers[number]
            traffic = fit.slow and before.slow and fit.slow._replace(memories=before.slow.memories)
            answers[number] = replace(fit, slow=traffic, hop=before.hop)
            if fit.best is None:
                return answers
            regions[number] = _regions(fit.best.plan)
    return [
        replace(fit, methods=(best,), best=best)
        for number, fit in enumerate(answers)
        if fit.best is not None
        for best in (replace(fit.best, plan=_combined_plan(fit.best.plan, regions, number)),)
    ]


def _memories_left(
    fits: Sequence[Fit], regions: Sequence[Sequence[_Region]], number: int
) -> list[BoardMemory]:
    """Return the memories less what the other networks retain, and less what their stacks exceed."""
    traffic = fits[number].slow
    assert traffic is not None
    neighbours = [index for index in range(len(fits)) if index != number]
    reserved = sum(
        fit.best.state_bytes
        for fit in (fits[index] for index in neighbours)
        if fit.best is not None
    )
    deepest = max(stack_and_reserve(fits[index]) for index in neighbours)
    reserved += max(0, deepest - stack_and_reserve(fits[number]))
    taken = {
        region.memory.name: sum(regions[index][place].retained_bytes for index in neighbours)
        for place, region in enumerate(regions[number])
    }
    memories = []
    for memory in traffic.memories:
        left = memory.size - taken.get(memory.name, 0) - (reserved if STACK in memory.holds else 0)
        left -= 0 if memory.is_flash else left % ALIGNMENT
        memories.append(replace(memory, size=max(1, left)))
    return memories


def _regions(plan: StreamingPlan) -> list[_Region]:
    """Return the buffers of a plan by memory.

    If a retained buffer is above a transient buffer, both parts are placed anew: only plans with the
    state at the bottom of their arena have buffers that share bytes while both are live.
    """
    regions = []
    for memory, begin in plan.placed_memories:
        inside = [
            replace(buffer, offset=buffer.offset - begin if buffer.size else 0)
            for buffer in plan.buffers
            if plan.memory_of(buffer) == memory
        ]
        retained = [buffer for buffer in inside if _is_retained(buffer)]
        transient = [buffer for buffer in inside if not _is_retained(buffer)]
        top = max((buffer.offset + buffer.size for buffer in retained), default=0)
        low = min((buffer.offset for buffer in transient if buffer.size), default=top)
        if low < top:
            regions.append(_Region(memory, _placed_anew(retained), _placed_anew(transient)))
            continue
        shift = low - low % ALIGNMENT
        shifted = (
            replace(buffer, offset=buffer.offset - shift) if buffer.size else buffer
            for buffer in transient
        )
        regions.append(_Region(memory, tuple(retained), tuple(shifted)))
    return regions


def _is_retained(buffer: StreamBuffer) -> bool:
    return buffer.persists or buffer.kind is Kind.RESIDENT


def _placed_anew(buffers: Sequence[StreamBuffer]) -> tuple[StreamBuffer, ...]:
    """Return the buffers with the offsets of a small arena for their lifetimes."""
    sized = [buffer for buffer in buffers if buffer.size]
    problem = Problem(
        name="memory",
        buffers=tuple(arena_buffer(buffer, ALIGNMENT) for buffer in sized),
    )
    arena = arena_within_steps(problem)
    return tuple(
        replace(buffer, offset=arena.offsets[buffer.name] if buffer.size else 0)
        for buffer in buffers
    )


def _aligned_end(buffers: Iterable[StreamBuffer]) -> int:
    end = max((buffer.offset + buffer.size for buffer in buffers), default=0)
    return end + -end % ALIGNMENT


def _combined_plan(
    plan: StreamingPlan, regions: Sequence[Sequence[_Region]], number: int
) -> StreamingPlan:
    """Return the plan of a network, by its number, with its buffers in the memories of all networks."""
    placed: dict[str, StreamBuffer] = {}
    memories: list[Memory] = []
    begin = 0
    for of_networks in zip(*regions, strict=True):
        region = of_networks[number]
        before = begin + sum(region.retained_bytes for region in of_networks[:number])
        top = begin + sum(region.retained_bytes for region in of_networks)
        for base, part in ((before, region.retained), (top, region.transient)):
            placed |= {buffer.name: replace(buffer, offset=buffer.offset + base) for buffer in part}
        end = top + max(region.transient_bytes for region in of_networks)
        memories.append(replace(region.memory, size=end - begin))
        begin = end
    # External buffers are after all memories, at offsets aligned as before.
    shift = begin - plan.arena_bytes // ALIGNMENT * ALIGNMENT
    buffers = tuple(
        placed.get(buffer.name) or replace(buffer, offset=buffer.offset + shift)
        for buffer in plan.buffers
    )
    return replace(plan, buffers=buffers, arena_bytes=begin, memories=tuple(memories))

"""Depths of one call without a search: the occupancy of each FIFO, and reduction one by one.

Occupancy takes one simulation, or a few; reduction takes some for each FIFO. So an answer never has the
depths of the source, however soon the effort for a proof is spent.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from planners.fifo.design import LEAST_DEPTH
from planners.fifo.event_graph import Spend, spend_nothing
from planners.fifo.hls.call import CallModel

Depths = tuple[int, ...]


def total_cost(model: CallModel, depths: Sequence[int], objective: str) -> int:
    """Return what depths cost."""
    return sum(model.price(index, depth, objective) for index, depth in enumerate(depths))


def occupied_depths(model: CallModel, spend: Spend = spend_nothing) -> Depths:
    """Return the most words that each FIFO holds where none is ever full.

    Depths above those of shift registers are memories, which are read later and may hold more: the
    simulation is repeated with these memories until no more are added.
    """
    memories = model.fixed_memories
    while True:
        held = model.occupancies(memories, spend=spend)
        depths = tuple(max(LEAST_DEPTH, words) for words in held)
        deep = model.memories(depths)
        added = tuple(old or new for old, new in zip(memories, deep, strict=True))
        # Fixed point: memories are only added, so there are at most as many rounds as places.
        if added == memories:
            return depths
        memories = added


def reduced(
    model: CallModel, depths: Depths, goal: int | None, spend: Spend = spend_nothing
) -> Depths:
    """Return depths that reach the goal, that are minimal one by one."""
    return [depths, *reductions(model, depths, goal, spend)][-1]


def reductions(
    model: CallModel, depths: Depths, goal: int | None, spend: Spend = spend_nothing
) -> Iterator[Depths]:
    """Yield ever smaller depths that reach the goal; of the last ones no single one can be less.

    A place that becomes a shift register is read earlier, and others may then be less: places are
    bisected in sequence, the largest first, until none has changed since it was tried.
    """
    current, trials = depths, 0
    in_turn = sorted(
        range(len(depths)), key=lambda index: -model.price(index, depths[index], "bits")
    )
    while trials < len(in_turn):
        index = in_turn[0]
        in_turn = [*in_turn[1:], index]
        trials += 1
        minimum = _least_of_place(model, current, index, goal, spend)
        if minimum < current[index]:
            current = (*current[:index], minimum, *current[index + 1 :])
            # A change of one place can make others reducible: all are tried again.
            trials = 1
            yield current


def _least_of_place(
    model: CallModel, depths: Depths, index: int, goal: int | None, spend: Spend
) -> int:
    """Return the minimum depth at one index that reaches the goal, with these depths at all others.

    More depth is never slower within a kind of memory, so each kind is bisected by itself.
    """

    def suffices(depth: int) -> bool:
        trial = (*depths[:index], depth, *depths[index + 1 :])
        cycles = model.outcome(trial, limit=goal, spend=spend).cycles
        return cycles is not None and (goal is None or cycles <= goal)

    high, shallow = depths[index], model.first_memory(index) - 1
    # Times are monotone within each kind only: the largest shift register is tried before bisection
    # among memories.
    if high > shallow >= LEAST_DEPTH and suffices(shallow):
        high = shallow
    low = LEAST_DEPTH - 1 if high <= shallow else max(shallow, LEAST_DEPTH - 1)
    if high - low < 2 or not suffices(high - 1):
        return high
    high -= 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if suffices(middle) else (middle, high)
    return high

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
    return sum(model.price(place, depth, objective) for place, depth in enumerate(depths))


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
    current, tried = depths, 0
    in_turn = sorted(
        range(len(depths)), key=lambda place: -model.price(place, depths[place], "bits")
    )
    while tried < len(in_turn):
        place = in_turn[0]
        in_turn = [*in_turn[1:], place]
        tried += 1
        least = _least_of_place(model, current, place, goal, spend)
        if least < current[place]:
            current = (*current[:place], least, *current[place + 1 :])
            # A change of one place can make others reducible: all are tried again.
            tried = 1
            yield current


def _least_of_place(
    model: CallModel, depths: Depths, place: int, goal: int | None, spend: Spend
) -> int:
    """Return the least depth of one place that reaches the goal, the others having these depths.

    More depth is never slower within a kind of memory, so each kind is bisected by itself.
    """

    def suffices(depth: int) -> bool:
        trial = (*depths[:place], depth, *depths[place + 1 :])
        cycles = model.outcome(trial, limit=goal, spend=spend).cycles
        return cycles is not None and (goal is None or cycles <= goal)

    high, shallow = depths[place], model.first_memory(place) - 1
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

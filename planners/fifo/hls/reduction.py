"""Depths of a call without a search: the occupancy of each FIFO, then the reduction of single depths.

The occupancies need a few simulations, and the reduction a few for each FIFO. So these depths are
available however small the effort of a search is.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence

from csdf.bisection import first_between
from planners.fifo.design import LEAST_DEPTH
from planners.fifo.event_graph import Spend, spend_nothing
from planners.fifo.hls.call import CallModel

Depths = tuple[int, ...]


def total_cost(model: CallModel, depths: Sequence[int], objective: str) -> int:
    """Return the cost of depths in the unit of the objective."""
    return sum(model.price(index, depth, objective) for index, depth in enumerate(depths))


def occupied_depths(model: CallModel, spend: Spend = spend_nothing) -> Depths:
    """Return the maximum occupancy of each FIFO if all FIFOs are unbounded.

    A FIFO that is deeper than a shift register is a memory. Its words are read later, which may raise
    occupancies: the simulation is repeated with these memories until no memory is added.
    """
    memories = model.fixed_memories
    while True:
        held = model.occupancies(memories, spend=spend)
        depths = tuple(max(LEAST_DEPTH, words) for words in held)
        deep = model.memories(depths)
        added = tuple(old or new for old, new in zip(memories, deep, strict=True))
        # Fixed point: memories are only added, so there are at most as many rounds as FIFOs.
        if added == memories:
            return depths
        memories = added


def reductions(
    model: CallModel, depths: Depths, goal: int | None, spend: Spend = spend_nothing
) -> Iterator[Depths]:
    """Yield decreasing depths that reach the goal; no single depth of the last can be reduced.

    If a FIFO becomes a shift register, its words are read earlier, and other depths may become
    reducible. So the depths are bisected cyclically, the largest FIFO first, until none changes.
    """
    current, unchanged = depths, 0  # FIFOs tried since the last change
    order = deque(
        sorted(range(len(depths)), key=lambda index: -model.price(index, depths[index], "bits"))
    )
    while unchanged < len(order):
        index = order[0]
        order.rotate(-1)
        unchanged += 1
        minimum = _minimum_depth(model, current, index, goal, spend)
        if minimum < current[index]:
            current = (*current[:index], minimum, *current[index + 1 :])
            unchanged = 1
            yield current


def _minimum_depth(
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
    # Times are monotone within each kind only: first the largest shift register, then memories.
    if high > shallow >= LEAST_DEPTH and suffices(shallow):
        high = shallow
    low = LEAST_DEPTH - 1 if high <= shallow else max(shallow, LEAST_DEPTH - 1)
    if high - low < 2 or not suffices(high - 1):
        return high
    return first_between(low, high - 1, suffices)

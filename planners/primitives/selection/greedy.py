"""The greedy choice of TASO: from the fastest selection down, the largest layer first.

Source: Wen, Anderson, Radu, O'Boyle and Gregg, TASO: Time and Space Optimization for
Memory-Constrained DNN Inference, SBAC-PAD 2020, section 5.3.2.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from planners.primitives.selection.fronts import Pair
from planners.primitives.selection.problem import Selection
from planners.primitives.selection.trade_off import TradeOff


def greedy_steps(front: TradeOff) -> Iterator[Selection]:
    """Yield the fastest selection, and what each replacement makes of it, to the last one.

    The layer whose primitive has the largest footprint takes the fastest of its candidates with a
    smaller one. What happens where it has none is not printed: the next largest layer is taken.
    Changes of layout follow from the choices; the printed rule does not look at them.
    """
    of_layer, problem = front.objective.of_layer, front.problem
    found = front.selection(front.fastest)
    while True:
        yield found
        chosen = list(found.chosen)
        for place in sorted(range(len(chosen)), key=lambda one: (-of_layer(chosen[one]), one)):
            smaller = [
                one for one in problem.candidates[place] if of_layer(one) < of_layer(chosen[place])
            ]
            if smaller:
                chosen[place] = min(smaller, key=lambda one: (one.nanoseconds, of_layer(one)))
                break
        else:
            return
        found = replace(found, chosen=tuple(chosen))


def greedy(front: TradeOff, memory: int) -> Selection | None:
    """Return the first of the greedy steps within a memory; None where there is none."""
    fitting = (one for one in greedy_steps(front) if one.memory(front.objective) <= memory)
    return next(fitting, None)


def greedy_pairs(front: TradeOff, memories: Iterable[int]) -> Iterator[Pair]:
    """Yield the time at each memory within which a greedy step is."""
    steps = [(one.memory(front.objective), one.nanoseconds) for one in greedy_steps(front)]
    for memory in memories:
        time = next((time for needed, time in steps if needed <= memory), None)
        if time is not None:
            yield Pair(time, memory)

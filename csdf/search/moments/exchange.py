"""Smaller live capacities near known ones: space of some channels is exchanged for less in others.

Large neighbourhood search. A few channels are cut to their least capacity, or part of the way. A run
adds space wherever it deadlocks, and the result is narrowed. If it is no larger than before, the next
exchange begins from it, so that the search moves on among capacities of one size.

Source: Shaw, Using constraint programming and local search methods to solve vehicle routing problems,
CP 1998 (parts of a solution are taken away and found again).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from random import Random

from csdf.search.narrowing import Distribution
from csdf.search.variables import Variable, size_of

KEPT = (0, 50, 80, 90)  # per cent of what a channel has above its least capacity
MOST_CHANNELS = 3  # that give up space at once

Regrown = Callable[[Sequence[int]], Distribution | None]


def exchanges(
    variables: Sequence[Variable],
    known: Distribution,
    regrown: Regrown,
    random: Random,
    tries: int,
) -> Iterator[Distribution]:
    """Yield after each try the smallest capacities so far.

    known: live capacities. regrown: live capacities that are made of some that may be too small.
    """

    def size(capacities: Distribution) -> int:
        return size_of(variables, capacities)

    here = best = known
    for _ in range(tries):
        start = _reduced(variables, here, random)
        found = None if start is None else regrown(start)
        if found is not None and size(found) <= size(here):
            here = found
            best = min(best, here, key=size)
        yield best


def _reduced(
    variables: Sequence[Variable], capacities: Distribution, random: Random
) -> list[int] | None:
    """The capacities with less in a few channels; None if there is nothing to give up."""
    more = [place for place, one in enumerate(variables) if capacities[place] > one.least]
    if not more:
        return None
    reduced = list(capacities)
    for place in random.sample(more, random.randint(1, min(MOST_CHANNELS, len(more)))):
        one = variables[place]
        steps = (capacities[place] - one.least) // one.step * random.choice(KEPT) // 100
        reduced[place] = one.least + steps * one.step
    return reduced

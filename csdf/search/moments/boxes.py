"""Bound tightening of capacity boxes in the branch and bound on live storage.

A box holds a lower and an upper bound of each capacity. Live capacities below a given size are never
lost. If the upper bounds deadlock, every point of the box does. If they deadlock with one capacity at
its lower bound, the lower bound of that capacity is raised.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from csdf.search.moments.windows import Firings
from csdf.search.variables import Variable, size_of

ANY = 1 << 40  # tokens, more than an iteration of moderate size has


class Box(NamedTuple):
    """The capacities of at least `least` and at most `most`."""

    least: tuple[int, ...]
    most: tuple[int, ...]

    def raised(self, place: int, least: int) -> Box:
        """Return the part of the box with at least so much at one position."""
        return Box((*self.least[:place], least, *self.least[place + 1 :]), self.most)

    def lowered(self, place: int, most: int) -> Box:
        """Return the part of the box with at most so much at one position."""
        return Box(self.least, (*self.most[:place], most, *self.most[place + 1 :]))


def affordable(variables: Sequence[Variable], box: Box, size: int) -> Box | None:
    """Return the box without capacities that alone make a distribution larger than a size."""
    spare = size - size_of(variables, box.least)
    if spare < 0:
        return None
    steps = [spare // (one.weight * one.step) if one.weight else ANY for one in variables]
    most = (
        min(high, low + count * one.step)
        for one, low, high, count in zip(variables, *box, steps, strict=True)
    )
    return Box(box.least, tuple(most))


def live_part(
    firings: Firings,
    variables: Sequence[Variable],
    box: Box,
    size: int,
    places: Iterable[int],
    *,
    look: Callable[[], None],
) -> Box | None:
    """Return a box with all live capacities of this one up to a size; None if there are none.

    The capacities at these positions are raised to the least that is live with all others at their
    most. look: called between runs; may end the work by raising.
    """
    smaller = affordable(variables, box, size)
    if smaller is None or not firings.is_live(smaller.most):
        return None
    raised = smaller
    for place in places:
        look()
        raised = raised.raised(place, _least(firings, variables, smaller, place))
    return affordable(variables, raised, size)


def _least(firings: Firings, variables: Sequence[Variable], box: Box, place: int) -> int:
    """The least of one capacity that is live if all the others are at their most."""
    start, step = box.least[place], variables[place].step

    def is_enough(steps: int) -> bool:
        return firings.is_live(box.lowered(place, start + steps * step).most)

    low, high = -1, (box.most[place] - start) // step
    if high > 0 and is_enough(0):
        return start
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if is_enough(middle) else (middle, high)
    return start + high * step

"""Linear programs over the capacities of a box: minimum total and minimum of each, under constraints.

All bounds are computed in integers from the prices that a solver gives. A last column lets go of all
demands at a price that no small distribution has: so a program always has a solution, and where the
demands contradict each other its bound is too large.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from csdf.search.moments.boxes import Box
from csdf.search.moments.highs import solved
from csdf.search.moments.linear_bound import LinearProgram, Relaxed
from csdf.search.moments.single import Demand
from csdf.search.variables import Variable

DEAR = 16  # times the size that is the limit, for letting go of all demands


class Demanded:
    """Linear programs over capacities. size: no larger distribution is looked for.

    seconds: asks how long one may take. look: called meanwhile; may end the work by raising.
    """

    def __init__(
        self,
        variables: Sequence[Variable],
        seconds: Callable[[], float],
        look: Callable[[], None],
    ) -> None:
        self._variables = variables
        self._seconds = seconds
        self._look = look

    def least(self, box: Box, demands: Sequence[Demand], size: int) -> Relaxed | None:
        """Return the least size in the box, and capacities that have about that."""
        weights = [one.weight for one in self._variables]
        return solved(self._program(box, demands, weights, size), self._seconds(), self._look)

    def part(self, box: Box, demands: Sequence[Demand], size: int) -> Box | None:
        """Return a box with all capacities of this one that meet the demands up to a size."""
        for place in sorted({place for demand in demands for place, _ in demand.terms}):
            one = self._variables[place]
            low, high = box.least[place], box.most[place]
            if low < high and (found := self._extreme(box, demands, size, place, 1)) is not None:
                low += max(0, -(-(found - low) // one.step)) * one.step
            if low < high and (found := self._extreme(box, demands, size, place, -1)) is not None:
                high = min(high, low + (-found - low) // one.step * one.step)
            if low > high:
                return None
            box = box.raised(place, low).lowered(place, high)
        return box

    def _extreme(
        self, box: Box, demands: Sequence[Demand], size: int, place: int, sign: int
    ) -> int | None:
        """A lower bound of a capacity, or of what it is with the other sign."""
        costs = [0] * len(self._variables)
        costs[place] = sign
        program = self._program(box, demands, costs, size)
        weights = [(column, one.weight) for column, one in enumerate(self._variables)]
        program.add_row([*weights, (len(weights), -size)], size)
        found = solved(program, self._seconds(), self._look)
        return None if found is None else found.lower_bound

    def _program(
        self, box: Box, demands: Sequence[Demand], costs: Sequence[int], size: int
    ) -> LinearProgram:
        program = LinearProgram()
        for cost, low, high in zip(costs, *box, strict=True):
            program.add_column(cost, low, high)
        free = program.add_column(DEAR * (size + 1), 0, None)
        for demand in demands:
            terms = [(place, -factor) for place, factor in demand.terms]
            program.add_row([*terms, (free, -abs(demand.least) - 1)], -demand.least)
        return program

"""The smallest live capacities, by branch and bound over capacity boxes (LP relaxation).

A box holds a lower and an upper bound of each capacity; capacities are live if the graph completes an
iteration with them. A demand is a linear constraint that all live capacities of a box meet. Demands and
simulations tighten the box, and a tighter box gives stronger demands. A box whose lower bound reaches
the best known size is closed. The open box with the smallest bound is split at one capacity; its bound
is a lower bound of all live capacities.

A round of a box tightens it (`windows`), bounds its size by a linear program of its demands, and
derives further demands (`demands`) from moments, the starts of certain firings, at which the solution
lacks space.

Source: Land, Doig, An automatic method of solving discrete programming problems, Econometrica 28(3),
1960 (branch and bound). Ours is that a smaller box has fewer markings.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count

from csdf.search.liveness_bounds.demands import MomentShortfall, SumDemand
from csdf.search.liveness_bounds.linear_programs import LinearProgram, Relaxed, solved
from csdf.search.liveness_bounds.windows import (
    CapacityBox,
    IterationFirings,
    LiveBound,
    Moment,
    live_part,
)
from csdf.search.variables import Distribution, Variable, size_of

# A round costs a linear program for each moment. The root box gets most of the rounds, because all its
# parts inherit its demands.
FIRST_ROUNDS = 40
ROUNDS = 4  # in each other box
NEW_MOMENTS = 3  # moments added in a round: later rounds ask again, with better capacities
MOST_DEMANDS = 150  # of a box: more rows slow its linear programs
MOST_PARTS = 200  # boxes of the search tree that are bounded

Grow = Callable[[Sequence[float]], tuple[Distribution | None, Sequence[Moment]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class _BoundedBox:
    """A box of capacities with a lower bound on the size of the live capacities in it.

    relaxed: the smallest capacities that meet the demands, as fractions: the solution of the linear
    program. is_settled: whether these moments give no further demands.
    """

    box: CapacityBox
    bound: int = 0
    demands: tuple[SumDemand, ...] = ()
    moments: tuple[Moment, ...] = ()
    relaxed: tuple[float, ...] = ()
    is_settled: bool = False


class Branching:
    """A search for live capacities that are smaller than `best`.

    grow: enlarges the capacities of a linear program until they are live, or returns None; also returns
    the moments at which space was lacking. seconds: returns the time limit of one linear program. look:
    called between steps; may end the search by raising.
    """

    def __init__(
        self,
        firings: IterationFirings,
        variables: Sequence[Variable],
        best: Distribution,
        *,
        grow: Grow,
        seconds: Callable[[], float],
        look: Callable[[], None],
    ) -> None:
        self._firings, self._variables, self._grow = firings, variables, grow
        self._seconds, self._look = seconds, look
        self._programs = CapacityPrograms(variables, seconds, look)
        self.best = best

    @property
    def _size(self) -> int:
        """Return the largest size that improves on the best."""
        return size_of(self._variables, self.best) - 1

    def bounds(self, box: CapacityBox) -> Iterator[LiveBound]:
        """Yield increasing lower bounds. If the last is the size of the best, the best is optimal.

        box: all capacities that are searched.
        """
        numbers = count()
        queue: list[tuple[int, int, _BoundedBox]] = []
        for part in self._rounds(_BoundedBox(box=box), FIRST_ROUNDS):
            queue = [] if part is None else [(part.bound, next(numbers), part)]
            yield self._branched(queue)
        # Invariant of best-first branch and bound: the head's bound holds for all open boxes.
        while queue and queue[0][0] <= self._size and next(numbers) < MOST_PARTS:
            _, _, whole = heapq.heappop(queue)
            for half in self._halves(whole):
                *_, part = self._rounds(half, ROUNDS)
                if part is not None:
                    heapq.heappush(queue, (part.bound, next(numbers), part))
            yield self._branched(queue)

    def _branched(self, queue: Sequence[tuple[int, int, _BoundedBox]]) -> LiveBound:
        bound = self._size + 1
        return LiveBound(min(bound, queue[0][0]) if queue else bound, self.best)

    def _rounds(self, part: _BoundedBox, maximum: int) -> Iterator[_BoundedBox | None]:
        """Yield the part after each round; None at the end if no capacities in it can improve."""
        remaining: _BoundedBox | None = part
        for _ in range(maximum):
            remaining = None if remaining is None else self._round(remaining)
            yield remaining
            if remaining is None or remaining.is_settled:
                return

    def _round(self, part: _BoundedBox) -> _BoundedBox | None:
        """Tighten the box, bound it, and add demands; None if it has no smaller live capacities."""
        firings, variables, look = self._firings, self._variables, self._look
        indices = _positions(part.demands)
        box = live_part(firings, variables, part.box, self._size, indices, look=look)
        # Bound tightening: a smaller box has fewer markings,
        # so that the same moments give stronger demands.
        if box is not None and part.demands:
            box = self._programs.tightened(box, part.demands, self._size)
        if box is None:
            return None
        relaxed = self._programs.least(box, part.demands, self._size)
        if relaxed is None:  # out of time: the box keeps its bound, and gets no further demands
            return replace(part, box=box, relaxed=tuple(map(float, box.least)), is_settled=True)
        bound = max(part.bound, relaxed.lower_bound)
        if bound > self._size:
            return None
        capacities = tuple(relaxed.columns[: len(self._variables)])
        moments = (*part.moments, *self._new_moments(capacities, part.moments))
        violated = self._violated_demands(box, moments, capacities)
        if violated is None:
            return None
        demands = tuple(dict.fromkeys((*part.demands, *violated)))  # each of them once
        return _BoundedBox(
            box=box,
            bound=bound,
            demands=self._tightest(demands, capacities),
            moments=moments,
            relaxed=capacities,
            is_settled=set(violated) <= set(part.demands),
        )

    def _new_moments(self, relaxed: Sequence[float], present: Sequence[Moment]) -> list[Moment]:
        """Return moments at which these capacities lack space; live ones may become the best."""
        live, moments = self._grow(relaxed)
        if live is not None and size_of(self._variables, live) <= self._size:
            self.best = live
        return [moment for moment in moments if moment not in present][:NEW_MOMENTS]

    def _violated_demands(
        self, box: CapacityBox, moments: Sequence[Moment], relaxed: Sequence[float]
    ) -> list[SumDemand] | None:
        """Return demands that these capacities violate.

        None if a moment cannot be reached in the box.
        """
        violated = []
        for moment in moments:
            self._look()
            shortfall = MomentShortfall.of(self._firings, self._variables, moment, box.most)
            if shortfall is None:
                return None
            demand = shortfall.demand(relaxed, self._seconds(), self._look)
            violated += [] if demand is None else [demand]
        return violated

    def _tightest(
        self, demands: Sequence[SumDemand], relaxed: Sequence[float]
    ) -> tuple[SumDemand, ...]:
        """Return the MOST_DEMANDS demands with the least slack at these capacities."""

        def slack(demand: SumDemand) -> float:
            total = sum(factor * relaxed[index] for index, factor in demand.terms)
            return (total - demand.least) / sum(factor for _, factor in demand.terms)

        return tuple(sorted(demands, key=slack)[:MOST_DEMANDS])

    def _halves(self, part: _BoundedBox) -> tuple[_BoundedBox, ...]:
        """Return the part split at the capacity that raises the bound most; () if it is a point."""
        wide = [
            index for index, (low, high) in enumerate(zip(*part.box, strict=True)) if low < high
        ]
        named = set(_positions(part.demands)).intersection(wide)
        # Strong branching: each split is tried by its linear programs, and the split with the
        # larger minimum bound is taken. Capacities outside all demands do not change the bound.
        splits = [self._split(part, index) for index in sorted(named or wide)]
        return max(splits, key=lambda halves: self._gain(part, halves), default=())

    def _split(self, part: _BoundedBox, index: int) -> tuple[_BoundedBox, _BoundedBox]:
        """Split the part at one position: up to the relaxed capacity, and above it."""
        low, high, step = part.box.least[index], part.box.most[index], self._variables[index].step
        maximum = low + max(0, int((part.relaxed[index] - low) / step)) * step
        maximum = min(maximum, high - step)
        boxes = part.box.lowered(index, maximum), part.box.raised(index, maximum + step)
        first, second = (replace(part, box=box, is_settled=False) for box in boxes)
        return first, second

    def _gain(self, part: _BoundedBox, halves: tuple[_BoundedBox, _BoundedBox]) -> tuple[int, int]:
        """Return the smaller and the larger bound of the two halves."""
        bounds = []
        for half in halves:
            relaxed = self._programs.least(half.box, part.demands, self._size)
            is_live = self._firings.is_live(half.box.most)
            bound = part.bound if relaxed is None else relaxed.lower_bound
            bounds.append(min(bound, self._size + 1) if is_live else self._size + 1)
        return min(bounds), max(bounds)


def _positions(demands: Sequence[SumDemand]) -> list[int]:
    """Return the positions of the variables that demands name."""
    return sorted({index for demand in demands for index, _ in demand.terms})


BIG_M = 16  # cost of releasing all demands, in multiples of the largest size that is searched


class CapacityPrograms:
    """Linear programs over the capacities of a box: minimum size, and bounds of each capacity.

    size: the largest size that is searched. A last column (Big-M) releases all demands at BIG_M times
    this size. So each program has a solution, and a bound above `size` means that the box has no
    capacities that meet the demands.

    seconds: returns the time limit of one program. look: called meanwhile; may raise.
    """

    def __init__(
        self, variables: Sequence[Variable], seconds: Callable[[], float], look: Callable[[], None]
    ) -> None:
        self._variables = variables
        self._seconds = seconds
        self._look = look

    def least(self, box: CapacityBox, demands: Sequence[SumDemand], size: int) -> Relaxed | None:
        """Return a lower bound of the size in the box, and fractional capacities of about that size."""
        weights = [variable.weight for variable in self._variables]
        return solved(self._program(box, demands, weights, size), self._seconds(), self._look)

    def tightened(
        self, box: CapacityBox, demands: Sequence[SumDemand], size: int
    ) -> CapacityBox | None:
        """Return a smaller box with all capacities up to a size that meet the demands.

        Each capacity that a demand names gets the bounds of its linear programs, rounded to its steps.
        None if there are no such capacities.
        """
        for index in _positions(demands):
            step = self._variables[index].step
            low, high = box.least[index], box.most[index]
            if low < high:
                minimum = self._bound(box, demands, size, index, 1)
                if minimum is not None:
                    low += max(0, -(-(minimum - low) // step)) * step
            if low < high:
                negated = self._bound(box, demands, size, index, -1)
                if negated is not None:
                    high = min(high, low + (-negated - low) // step * step)
            if low > high:
                return None
            box = box.raised(index, low).lowered(index, high)
        return box

    def _bound(
        self, box: CapacityBox, demands: Sequence[SumDemand], size: int, index: int, sign: int
    ) -> int | None:
        """Return a lower bound of `sign` times a capacity: -1 gives the negated upper bound."""
        costs = [0] * len(self._variables)
        costs[index] = sign
        program = self._program(box, demands, costs, size)
        weights = [(column, variable.weight) for column, variable in enumerate(self._variables)]
        program.add_row([*weights, (len(weights), -size)], size)
        solution = solved(program, self._seconds(), self._look)
        return None if solution is None else solution.lower_bound

    def _program(
        self, box: CapacityBox, demands: Sequence[SumDemand], costs: Sequence[int], size: int
    ) -> LinearProgram:
        program = LinearProgram()
        for cost, low, high in zip(costs, *box, strict=True):
            program.add_column(cost, low, high)
        # Big-M column: the program stays feasible, so that the solver always returns prices.
        free = program.add_column(BIG_M * (size + 1), 0, None)
        for demand in demands:
            terms = [(index, -factor) for index, factor in demand.terms]
            program.add_row([*terms, (free, -abs(demand.least) - 1)], -demand.least)
        return program

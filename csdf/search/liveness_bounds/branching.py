"""The smallest live capacities, by branch and bound over capacity boxes (LP relaxation).

In each box linear constraints are learned that hold for all live capacities in it. By them, and by
runs, the box becomes smaller, and in a smaller box the same markings give stronger constraints. A box
whose bound is not below the best known size is closed. The others are split at one capacity, the box
with the smallest bound first: that bound is a lower bound of all live capacities.

A constraint, a demand, is a sum of capacities, each times its factor, that is at least a number. The
factors are prices of space. Whatever they are, some marking at the start of a firing has the least of
the space in use, weighted by them, and so much the capacities must have. That least is found exactly,
in integers. The markings, and mixtures of them, are the solutions of a linear program: a column for
each firing that may have happened says whether it has, or in what share of a mixture. Firings come in
the order that the tokens dictate, and the space, if no capacity is above its largest.

Source: Land, Doig, An automatic method of solving discrete programming problems, Econometrica 28(3),
1960 (branch and bound); Benders, Partitioning procedures for solving mixed-variables programming
problems, Numerische Mathematik 4, 1962 (demands as cuts). Ours is that a smaller box has fewer
markings.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count
from math import gcd
from typing import NamedTuple

from csdf.search.liveness_bounds.linear_programs import (
    LinearProgram,
    Relaxed,
    priced,
    priced_bound,
    solved,
)
from csdf.search.liveness_bounds.windows import (
    CapacityBox,
    Counted,
    FiringWindow,
    IterationFirings,
    LiveBound,
    Moment,
    live_part,
)
from csdf.search.variables import Distribution, Variable, size_of

FIRST_ROUNDS = 40  # of demands, in the box of all capacities
ROUNDS = 4  # of demands, in a part of that box
NEW_MOMENTS = 3  # of one round
MOST_DEMANDS = 150  # of a box
MOST_PARTS = 200  # boxes of the search tree that are bounded

Near = Callable[[Sequence[float]], tuple[Distribution | None, Sequence[Moment]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class _BoundedBox:
    """A box of capacities with a lower bound on the live capacities in it.

    near: approximately the smallest capacities that meet the demands. is_settled: whether these
    moments give no further demands.
    """

    box: CapacityBox
    bound: int = 0
    demands: tuple[SumDemand, ...] = ()
    moments: tuple[Moment, ...] = ()
    near: tuple[float, ...] = ()
    is_settled: bool = False


class Branching:
    """A search for live capacities that are smaller than the best ones known.

    near: makes live capacities of what a linear program means, and says at which moments space was
    lacking. seconds: asks how long a linear program may take. look: called between steps; may end the
    work by raising.
    """

    def __init__(
        self,
        firings: IterationFirings,
        variables: Sequence[Variable],
        best: Distribution,
        *,
        near: Near,
        seconds: Callable[[], float],
        look: Callable[[], None],
    ) -> None:
        self._firings, self._variables, self._near = firings, variables, near
        self._seconds, self._look = seconds, look
        self._programs = CapacityPrograms(variables, seconds, look)
        self.best = best

    @property
    def _size(self) -> int:
        """Return the size that capacities must not reach to improve on the best."""
        return size_of(self._variables, self.best) - 1

    def bounds(self, box: CapacityBox) -> Iterator[LiveBound]:
        """Yield bounds, better and better. The search has come to its end if the last is the size.

        box: of all capacities that are searched.
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
        """Yield the part after each round of demands; None at the end if nothing is left of it."""
        remaining: _BoundedBox | None = part
        for _ in range(maximum):
            remaining = None if remaining is None else self._round(remaining)
            yield remaining
            if remaining is None or remaining.is_settled:
                return

    def _round(self, part: _BoundedBox) -> _BoundedBox | None:
        """The part made smaller, with more demands; None if nothing in it is small enough."""
        firings, variables, look = self._firings, self._variables, self._look
        indices = _named(part.demands)
        box = live_part(firings, variables, part.box, self._size, indices, look=look)
        # Bound tightening: a smaller box has fewer markings,
        # so that the same moments give stronger demands.
        if box is not None and part.demands:
            box = self._programs.part(box, part.demands, self._size)
        if box is None:
            return None
        relaxed = self._programs.least(box, part.demands, self._size)
        if relaxed is None:  # no time for it
            return replace(part, box=box, near=tuple(map(float, box.least)), is_settled=True)
        bound = max(part.bound, relaxed.lower_bound)
        if bound > self._size:
            return None
        near = tuple(relaxed.columns[: len(self._variables)])
        moments = (*part.moments, *self._lacking(near, part.moments))
        # Benders' cuts: each moment is a subproblem whose dual
        # prices are a demand on the capacities.
        new = self._new_demands(box, moments, near)
        if new is None:
            return None
        present = dict.fromkeys(part.demands)
        demands = self._tightest(
            (*present, *(demand for demand in new if demand not in present)), near
        )
        return _BoundedBox(
            box=box,
            bound=bound,
            demands=demands,
            moments=moments,
            near=near,
            is_settled=present.keys() >= set(new),
        )

    def _lacking(self, near: Sequence[float], known: Sequence[Moment]) -> list[Moment]:
        """Moments at which these capacities lack space; live ones are made of them meanwhile."""
        live, moments = self._near(near)
        if live is not None and size_of(self._variables, live) <= self._size:
            self.best = live
        return [moment for moment in moments if moment not in known][:NEW_MOMENTS]

    def _new_demands(
        self, box: CapacityBox, moments: Sequence[Moment], near: Sequence[float]
    ) -> list[SumDemand] | None:
        """The demands of the moments that these capacities do not meet; None if one has no state."""
        new = []
        for moment in moments:
            self._look()
            single = SingleMoment.of(self._firings, self._variables, moment, box.most)
            if single is None:
                return None
            demand = single.demand(near, self._seconds(), self._look)
            new += [] if demand is None else [demand]
        return new

    def _tightest(
        self, demands: Sequence[SumDemand], near: Sequence[float]
    ) -> tuple[SumDemand, ...]:
        """The demands that these capacities only just meet, or do not."""

        def spare(demand: SumDemand) -> float:
            total = sum(factor * near[index] for index, factor in demand.terms)
            return (total - demand.least) / sum(factor for _, factor in demand.terms)

        return tuple(sorted(demands, key=spare)[:MOST_DEMANDS])

    def _halves(self, part: _BoundedBox) -> tuple[_BoundedBox, ...]:
        """The part split at the capacity that raises the bound most; none of a single distribution."""
        wide = [
            index for index, (low, high) in enumerate(zip(*part.box, strict=True)) if low < high
        ]
        named = set(_named(part.demands)).intersection(wide)
        # Strong branching: each split is tried by its linear programs, and the split with the
        # larger minimum bound is taken. Capacities outside all demands do not change the bound.
        splits = [self._split(part, index) for index in sorted(named or wide)]
        return max(splits, key=lambda halves: self._gain(part, halves), default=())

    def _split(self, part: _BoundedBox, index: int) -> tuple[_BoundedBox, _BoundedBox]:
        """The part with at most so much at one position as is near, and with more."""
        low, high, step = part.box.least[index], part.box.most[index], self._variables[index].step
        maximum = low + max(0, int((part.near[index] - low) / step)) * step
        maximum = min(maximum, high - step)
        boxes = part.box.lowered(index, maximum), part.box.raised(index, maximum + step)
        first, second = (replace(part, box=box, is_settled=False) for box in boxes)
        return first, second

    def _gain(self, part: _BoundedBox, halves: tuple[_BoundedBox, _BoundedBox]) -> tuple[int, int]:
        """How far the bounds of the lower and upper half are above the bound of the part."""
        bounds = []
        for half in halves:
            relaxed = self._programs.least(half.box, part.demands, self._size)
            is_live = self._firings.is_live(half.box.most)
            bound = part.bound if relaxed is None else relaxed.lower_bound
            bounds.append(min(bound, self._size + 1) if is_live else self._size + 1)
        return min(bounds), max(bounds)


def _named(demands: Sequence[SumDemand]) -> list[int]:
    """Return the positions of the variables of a demand."""
    return sorted({index for demand in demands for index, _ in demand.terms})


DEAR = 16  # times the size that is the limit, for letting go of all demands


class CapacityPrograms:
    """Linear programs over the capacities of a box: minimum total, and minimum of each, under demands.

    size: no larger distribution is looked for. A last column releases all demands at a price that no
    small distribution has: so a program always has a solution, and where the demands contradict each
    other its bound is too large.

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

    def least(self, box: CapacityBox, demands: Sequence[SumDemand], size: int) -> Relaxed | None:
        """Return the least size in the box, and capacities that have about that."""
        weights = [variable.weight for variable in self._variables]
        return solved(self._program(box, demands, weights, size), self._seconds(), self._look)

    def part(self, box: CapacityBox, demands: Sequence[SumDemand], size: int) -> CapacityBox | None:
        """Return a box with all capacities of this one that meet the demands up to a size."""
        for index in sorted({index for demand in demands for index, _ in demand.terms}):
            variable = self._variables[index]
            low, high = box.least[index], box.most[index]
            if low < high and (extreme := self._extreme(box, demands, size, index, 1)) is not None:
                low += max(0, -(-(extreme - low) // variable.step)) * variable.step
            if low < high and (extreme := self._extreme(box, demands, size, index, -1)) is not None:
                high = min(high, low + (-extreme - low) // variable.step * variable.step)
            if low > high:
                return None
            box = box.raised(index, low).lowered(index, high)
        return box

    def _extreme(
        self, box: CapacityBox, demands: Sequence[SumDemand], size: int, index: int, sign: int
    ) -> int | None:
        """A lower bound of a capacity, or of what it is with the other sign."""
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
        free = program.add_column(DEAR * (size + 1), 0, None)
        for demand in demands:
            terms = [(index, -factor) for index, factor in demand.terms]
            program.add_row([*terms, (free, -abs(demand.least) - 1)], -demand.least)
        return program


UNIT = 720_720  # of factors: prices are often fractions with a small denominator
SCALE = 1 << 34  # of prices within the program, as integers
LEAST = 1e-6  # tokens that are lacking; less is rounding


class SumDemand(NamedTuple):
    """A lower bound on a sum of capacities, each times its factor."""

    terms: tuple[tuple[int, int], ...]  # position, factor
    least: int


class SingleMoment:
    """The states at one moment if no capacity exceeds `room`. window: of the moment."""

    def __init__(
        self,
        firings: IterationFirings,
        variables: Sequence[Variable],
        moment: Moment,
        room: Sequence[int],
        window: FiringWindow,
    ) -> None:
        self._lacking = len(variables)
        self._program = LinearProgram()
        for variable in variables:
            self._program.add_column(variable.weight, 0, None)
        states = add_states(self._program, firings, window, room)
        self._order = len(self._program.rows)
        self._uses = [
            states.use(channel, moment)
            for channel in firings.channels
            if channel.variable is not None
        ]
        for use in self._uses:
            self._program.add_row([(use.variable, -1), *use.terms], -use.always)

    @classmethod
    def of(
        cls,
        firings: IterationFirings,
        variables: Sequence[Variable],
        moment: Moment,
        room: Sequence[int],
    ) -> SingleMoment | None:
        """Return the states of a moment; None if there are none: nothing in this room is live."""
        window = firings.window(moment, room)
        return None if window is None else cls(firings, variables, moment, room, window)

    def demand(
        self, capacities: Sequence[float], seconds: float, look: Callable[[], None]
    ) -> SumDemand | None:
        """Return a demand that these capacities do not meet; None if none was found."""
        limits = [float(limit) for limit in self._program.limits]
        for row, use in enumerate(self._uses, self._order):
            limits[row] += capacities[use.variable]
        dual = priced(self._program, limits, seconds, look)
        if dual is None or dual.cost < LEAST:
            return None
        order, room = dual.prices[: self._order], dual.prices[self._order :]
        # Any nonnegative integers are valid factors: rounding costs strength, not correctness.
        factors = [round(price * UNIT) for price in room]
        return self._exact(factors, [int(price * UNIT * SCALE) for price in order])

    def _exact(self, factors: Sequence[int], prices: Sequence[int]) -> SumDemand | None:
        """The demand of these factors. prices: of the rows of order, times unit and scale."""
        weighted = LinearProgram()
        for maximum in self._program.most:
            weighted.add_column(0, 0, maximum or 0)  # nothing is lacking
        for terms in self._program.rows[: self._order]:
            weighted.add_row(terms, 0)
        always, by_variable = 0, dict[int, int]()
        for factor, use in zip(factors, self._uses, strict=True):
            if factor:
                always += factor * use.always
                by_variable[use.variable] = by_variable.get(use.variable, 0) + factor
                for column, tokens in use.terms:
                    weighted.costs[column] += factor * tokens
        minimum = priced_bound(weighted, prices, SCALE)
        if minimum is None or not by_variable:
            return None
        shared = gcd(*by_variable.values())
        terms = tuple((index, factor // shared) for index, factor in sorted(by_variable.items()))
        return SumDemand(terms, -(-(minimum + always) // shared))


class Use(NamedTuple):
    """The space of a variable in use: `always`, and what columns add, each times its factor."""

    variable: int
    always: int
    terms: Sequence[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class States:
    """The states of a window. columns: where firing 0 of each actor is or would be."""

    window: FiringWindow
    columns: Sequence[int]

    def use(self, one: Counted, moment: Moment) -> Use:
        """Return the space in use on a channel, by the firing that starts as well."""
        fewest = self.window.fewest
        starts = fewest[one.consumer] + (one.consumer == moment.actor)
        used = one.taken[starts] - one.made[fewest[one.producer]] - one.tokens
        terms = [
            *self._terms(one.consumer, one.taken, 1),
            *self._terms(one.producer, one.made, -1),
        ]
        return Use(one.variable or 0, used, terms)

    def _terms(self, actor: int, counted: Sequence[int], sign: int) -> Iterator[tuple[int, int]]:
        """Yield what each firing that may have happened adds to a count of tokens."""
        for firing in range(self.window.fewest[actor], self.window.most[actor]):
            if tokens := counted[firing + 1] - counted[firing]:
                yield self.columns[actor] + firing, sign * tokens


def add_states(
    program: LinearProgram, firings: IterationFirings, window: FiringWindow, room: Sequence[int]
) -> States:
    """Add columns for the states of a window, and rows for the order of firings.

    room: the largest capacity of each variable.
    """
    columns = []
    for low, high in zip(window.fewest, window.most, strict=True):
        columns.append(len(program.costs) - low)
        for firing in range(low, high):
            here = program.add_column(0, 0, 1)
            if firing > low:
                program.add_row([(here, 1), (here - 1, -1)], 0)
    states = States(window, columns)
    for channel in firings.channels:
        _add_order(program, channel, states, channel.there(room))
    return states


def _add_order(program: LinearProgram, one: Counted, states: States, there: int) -> None:
    """Require that each firing of the consumer follows the firings that produce its tokens."""
    fewest, maximum = states.window
    latest = fewest[one.producer]
    for firing in range(fewest[one.consumer], maximum[one.consumer]):
        if one.taken[firing + 1] > one.taken[firing]:
            needed = bisect_left(one.made, one.taken[firing + 1] - there)
            if needed > latest:  # what needs no more follows from the order of the consumer
                latest = needed
                after = states.columns[one.consumer] + firing
                before = states.columns[one.producer] + needed - 1
                program.add_row([(after, 1), (before, -1)], 0)

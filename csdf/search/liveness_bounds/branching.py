"""The smallest live capacities, by branch and bound over capacity boxes (LP relaxation).

A box holds a lower and an upper bound of each capacity; capacities are live if the graph completes an
iteration with them. A demand is a linear constraint that all live capacities of a box meet. Demands and
simulations tighten the box, and a tighter box gives stronger demands. A box whose lower bound reaches
the best known size is closed. The open box with the smallest bound is split at one capacity; its bound
is a lower bound of all live capacities.

A demand is derived from a moment, the start of a certain firing. Suppose the firing can start with
(3, 0) or with (1, 3) tokens in the channels x and y. The factors 3 and 2 weigh both states by 9, so all
live capacities meet 3x + 2y >= 9. Any nonnegative factors give a valid demand: its right-hand side is
the minimum of the weighted tokens over the states. The factors are the dual prices of the linear
program that finds by how much given capacities fall short of every state. The minimum is then bounded
exactly, in integers.

In that linear program, a column for each firing is 1 if the firing precedes the moment, and 0 if not.
Rows order each firing after the producers of its tokens. The firings that differ between states
are those of the window of the moment (`windows`).

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
    CountedChannel,
    FiringWindow,
    IterationFirings,
    LiveBound,
    Moment,
    live_part,
)
from csdf.search.variables import Distribution, Variable, size_of

# The root box gets most of the rounds, because all its parts inherit its demands.
FIRST_ROUNDS = 40
ROUNDS = 4  # in each other box
# Each moment costs a linear program. Later rounds ask again, with better capacities.
NEW_MOMENTS = 3  # moments added in a round
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
            box = self._programs.part(box, part.demands, self._size)
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
        # Benders' cuts: each moment is a subproblem whose dual
        # prices are the factors of a demand on the capacities.
        new = self._new_demands(box, moments, capacities)
        if new is None:
            return None
        present = dict.fromkeys(part.demands)
        demands = self._tightest(
            (*present, *(demand for demand in new if demand not in present)), capacities
        )
        return _BoundedBox(
            box=box,
            bound=bound,
            demands=demands,
            moments=moments,
            relaxed=capacities,
            is_settled=present.keys() >= set(new),
        )

    def _new_moments(self, relaxed: Sequence[float], present: Sequence[Moment]) -> list[Moment]:
        """Return moments at which these capacities lack space; live ones may become the best."""
        live, moments = self._grow(relaxed)
        if live is not None and size_of(self._variables, live) <= self._size:
            self.best = live
        return [moment for moment in moments if moment not in present][:NEW_MOMENTS]

    def _new_demands(
        self, box: CapacityBox, moments: Sequence[Moment], relaxed: Sequence[float]
    ) -> list[SumDemand] | None:
        """Return demands that these capacities violate.

        None if a moment cannot be reached in the box.
        """
        new = []
        for moment in moments:
            self._look()
            single = SingleMoment.of(self._firings, self._variables, moment, box.most)
            if single is None:
                return None
            demand = single.demand(relaxed, self._seconds(), self._look)
            new += [] if demand is None else [demand]
        return new

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
    """Return the positions of the variables of the demands."""
    return sorted({index for demand in demands for index, _ in demand.terms})


BIG_M = 16  # cost of releasing all demands, in multiples of the largest size that is searched


class CapacityPrograms:
    """Linear programs over the capacities of a box: minimum size, and bounds of each capacity.

    size: the largest size that is searched. A last column (Big-M) releases all demands at BIG_M times
    this size. So each program has a solution, and a bound above `size` means that the box has no
    capacities that meet the demands.

    seconds: returns the time limit of one program. look: called meanwhile; may end the search by
    raising.
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
        """Return a lower bound of the size in the box, and fractional capacities of about that size."""
        weights = [variable.weight for variable in self._variables]
        return solved(self._program(box, demands, weights, size), self._seconds(), self._look)

    def part(self, box: CapacityBox, demands: Sequence[SumDemand], size: int) -> CapacityBox | None:
        """Return the smallest such box with all capacities up to a size that meet the demands.

        None if there are none.
        """
        for index in _positions(demands):
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


# Dual prices become integers in this unit. They are often fractions with a small denominator, and
# 720,720 is divisible by all numbers up to 16.
UNIT = 720_720
SCALE = 1 << 34  # of the prices of the order rows, on top of UNIT
LEAST = 1e-6  # tokens: a smaller shortfall is a rounding error of the solver


class SumDemand(NamedTuple):
    """A demand: the sum of capacities, each times its factor, is at least `least`."""

    terms: tuple[tuple[int, int], ...]  # position, factor
    least: int


class SingleMoment:
    """The states in which one firing can start, as a linear program of the tokens lacking space.

    Columns: first, for each variable, the tokens that exceed its capacity; then the firings of the
    window. Rows: first the order of firings; then, for each channel, the space in use.
    room: the largest capacity of each variable.
    """

    def __init__(
        self,
        firings: IterationFirings,
        variables: Sequence[Variable],
        moment: Moment,
        room: Sequence[int],
        window: FiringWindow,
    ) -> None:
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
        """Return the states of a moment; None if no capacities up to `room` are live."""
        window = firings.window(moment, room)
        return None if window is None else cls(firings, variables, moment, room, window)

    def demand(
        self, capacities: Sequence[float], seconds: float, look: Callable[[], None]
    ) -> SumDemand | None:
        """Return a demand that these capacities violate; None if the solver proposes none."""
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
        """Return the demand with these factors. prices: of the order rows, times UNIT and SCALE."""
        weighted = LinearProgram()
        # The program again, with the space in use as its cost. The columns of exceeding tokens, which
        # have no upper bound, are fixed to 0: they keep only the numbering of the columns.
        for maximum in self._program.most:
            weighted.add_column(0, 0, maximum or 0)
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
    """The tokens in the space of a variable: `always`, plus columns of firings times their factors."""

    variable: int
    always: int
    terms: Sequence[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class States:
    """The states of a window. columns: for each actor, the column of firing n less n."""

    window: FiringWindow
    columns: Sequence[int]

    def use(self, channel: CountedChannel, moment: Moment) -> Use:
        """Return the space in use on a channel, including the space that the firing itself claims."""
        fewest = self.window.fewest
        starts = fewest[channel.consumer] + (channel.consumer == moment.actor)
        used = (
            channel.consumed[starts] - channel.produced[fewest[channel.producer]] - channel.tokens
        )
        terms = [
            *self._terms(channel.consumer, channel.consumed, 1),
            *self._terms(channel.producer, channel.produced, -1),
        ]
        return Use(channel.variable or 0, used, terms)

    def _terms(self, actor: int, counted: Sequence[int], sign: int) -> Iterator[tuple[int, int]]:
        """Yield the column of each firing of the window, and the tokens that it moves."""
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
        _add_order(program, channel, states, room)
    return states


def _add_order(
    program: LinearProgram, channel: CountedChannel, states: States, room: Sequence[int]
) -> None:
    """Require that each firing of the consumer follows the firings that produce its tokens."""
    fewest, maximum = states.window
    initial = channel.tokens_at_start(room)
    latest = fewest[channel.producer]
    for firing in range(fewest[channel.consumer], maximum[channel.consumer]):
        if channel.consumed[firing + 1] > channel.consumed[firing]:
            needed = bisect_left(channel.produced, channel.consumed[firing + 1] - initial)
            # A firing that needs no later producer is ordered by the earlier firings of its actor.
            if needed > latest:
                latest = needed
                after = states.columns[channel.consumer] + firing
                before = states.columns[channel.producer] + needed - 1
                program.add_row([(after, 1), (before, -1)], 0)

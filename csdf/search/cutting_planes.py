"""Small sufficient capacities and a lower bound of their size, by cutting planes (LP relaxation).

For graphs of hundreds of actors, in which a best-first search evaluates too many distributions. Each
insufficient evaluation yields linear constraints, by cycles and by cuts, that hold for all sufficient
distributions. The minimum of a linear program under all of them is a lower bound; a best-first search
only adds up constraints without a common variable. The solution of the program is rounded up and
evaluated next, so that new constraints exclude it. In each round these capacities are raised until
they suffice, and then reduced by groups of channels: the smallest are the upper bound.

The solver computes in floating point; the bound is recomputed in integers from its prices. Work is
limited by evaluations and rounds, so the answer does not depend on the load of the machine.

Source: Kelley, The cutting-plane method for solving convex programs, J. SIAM 8(4), 1960; the
constraints are those of `csdf.search.learned_bounds`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import islice
from math import ceil, lcm
from typing import NamedTuple

from csdf.search.evaluator import CapacityEvaluator, Obstacles
from csdf.search.learned_bounds import CycleDemands, Demand, Sufficient
from csdf.search.liveness_bounds.linear_programs import LinearProgram, solved
from csdf.search.variables import Distribution, Variable, size_of

ROUNDS = 200  # linear programs, at most; most graphs of 100 actors end after 20
ROUND_EVALUATIONS = 40  # of one round, at least: half and double cost 5% more time on 300 actors
# At least this many evaluations of a round for each channel. On 2,000 channels a third of it, and
# double, raise the bound half as fast.
ROUND_SHARE = Fraction(3, 20)
# Evaluations for smaller capacities between two rounds: enough to end the reduction at 100 actors.
REDUCTION = 300
# The largest factor of a cut as a linear constraint: the solver would round larger factors away.
LARGEST_FACTOR = 1 << 30
NEAR = 1e-6  # a solver's value this close above a useful capacity counts as that capacity


class Bounds(NamedTuple):
    """A lower bound of the size of all sufficient distributions, and the smallest one so far."""

    lower_bound: int
    capacities: Distribution | None


class CuttingPlanes:
    """The constraints learned so far, for tests of sufficiency that only become stricter.

    seconds: returns the time limit of a linear program. look: called between steps; may raise.
    """

    def __init__(
        self,
        evaluator: CapacityEvaluator,
        variables: Sequence[Variable],
        *,
        seconds: Callable[[], float],
        look: Callable[[], None],
    ) -> None:
        self._evaluator, self._variables = evaluator, variables
        self._seconds, self._look = seconds, look
        self._least = [variable.least for variable in variables]
        self._steps = [variable.step for variable in variables]
        self._weights = [variable.weight for variable in variables]
        self._cycles = CycleDemands(self._steps, self._weights)
        self._cuts: dict[tuple[tuple[int, int], ...], None] = {}
        self._is_sufficient: Sufficient = lambda _: False
        self._evaluations = max(ROUND_EVALUATIONS, int(ROUND_SHARE * len(variables)))  # of a round
        self._bound = size_of(variables, self._least)
        self._best: Distribution | None = None

    def bounds(self, is_sufficient: Sufficient, start: Distribution | None) -> Iterator[Bounds]:
        """Yield the bounds after each evaluation, until they meet or no constraint is new.

        start: initial capacities, which need not suffice; sufficiently large capacities must.
        """
        self._is_sufficient, self._best = is_sufficient, None
        self._cycles.tighten(is_sufficient)
        # Kelley's method needs a first sufficient point;
        # its failed evaluations are the first constraints.
        for _ in self._grow(start or self._least):
            yield Bounds(self._bound, self._best)
        for _ in range(ROUNDS):
            relaxed = self._relaxed()
            yield Bounds(self._bound, self._best)
            # The bound meets the best size: no linear program can improve either of them.
            if relaxed is None or self._best is None or self._size(self._best) <= self._bound:
                return
            learned = self._learned
            for _ in self._round(self._rounded_up(relaxed)):
                yield Bounds(self._bound, self._best)
            # No new constraint: the next linear program would have the same solution.
            if self._learned == learned:
                return

    @property
    def _learned(self) -> int:
        """Version of the constraints, which tells whether a round has learned any."""
        return self._cycles.changes + len(self._cuts)

    def _size(self, capacities: Sequence[int]) -> int:
        return size_of(self._variables, capacities)

    def _grow(self, start: Sequence[int]) -> Iterator[None]:
        """Double the capacities on slow cycles until they suffice, then reduce some of them."""
        capacities = list(start)
        while holding := self._evaluated(capacities).holding:
            for index in {index for group in holding for index in group}:
                steps = (capacities[index] - self._least[index]) // self._steps[index]
                capacities[index] += max(1, steps) * self._steps[index]
            yield
        yield from islice(self._reduce(tuple(capacities), self._least), REDUCTION)

    def _round(self, capacities: list[int]) -> Iterator[None]:
        """Raise the capacities until they meet the constraints; reduce them if they suffice."""
        target = list(capacities)
        for _ in range(self._evaluations):
            holding = self._evaluated(capacities).holding
            if not holding:
                yield from islice(self._reduce(tuple(capacities), target), REDUCTION)
                return
            self._raise(capacities, holding)
            yield

    def _evaluated(self, capacities: Sequence[int]) -> Obstacles:
        """Return the obstacles of a distribution, and store a constraint for each."""
        self._look()
        obstacles = self._evaluator.obstacles(tuple(capacities), self._is_sufficient)
        for cycle in obstacles.cycles:
            self._cycles.add(cycle)
        for group in obstacles.holding:
            self._cuts[tuple((index, capacities[index]) for index in group)] = None
        return obstacles

    def _raise(self, capacities: list[int], holding: Sequence[Sequence[int]]) -> None:
        """Meet each demand, and leave each cut, at the channel where that costs least."""
        before = list(capacities)
        for demand in self._cycles.demands():
            lacking = demand.least - sum(
                factor * capacities[index] for index, factor in demand.terms
            )
            if lacking > 0:
                steps = {
                    index: -(-lacking // (factor * self._steps[index]))
                    for index, factor in demand.terms
                }
                self._raise_cheapest(capacities, steps)
        for group in holding:
            # A demand may already have raised a channel of this cut, and so left the cut.
            if all(capacities[index] == before[index] for index in group):
                self._raise_cheapest(capacities, dict.fromkeys(group, 1))

    def _raise_cheapest(self, capacities: list[int], steps: Mapping[int, int]) -> None:
        """Raise the channel whose steps cost least, preferably up to its capacity in the best."""
        best = self._best or capacities
        index = min(
            steps,
            key=lambda index: (
                capacities[index] + steps[index] * self._steps[index] > best[index],
                steps[index] * self._steps[index] * self._weights[index],
            ),
        )
        capacities[index] += steps[index] * self._steps[index]

    def _reduce(self, capacities: Distribution, target: Sequence[int]) -> Iterator[None]:
        """Reduce sufficient capacities by groups of channels, towards the target of each.

        A group that does not reach its targets is halved; a single channel is bisected.
        """
        self._keep(capacities)
        wide = [index for index, low in enumerate(target) if capacities[index] > low]
        wide.sort(key=lambda index: (capacities[index] - target[index]) * self._weights[index])
        groups = [wide] if wide else []
        while groups:
            group = groups.pop()
            trial = list(capacities)
            for index in group:
                trial[index] = target[index]
            if not self._evaluated(trial).holding:
                capacities = tuple(trial)
                self._keep(capacities)
            elif len(group) > 1:
                middle = len(group) // 2
                # Some channel of the group cannot be reduced to its target; halving isolates it.
                groups += [group[:middle], group[middle:]]
            else:
                for better in self._bisect(capacities, group[0], target[group[0]]):
                    capacities = better
                    yield
            yield

    def _bisect(self, capacities: Distribution, index: int, low: int) -> Iterator[Distribution]:
        """Yield decreasing sufficient capacities of one channel, for which `low` is insufficient."""
        step = self._steps[index]
        high = capacities[index]
        while high - low > step:
            # Capacities less than `step` tokens apart behave alike.
            middle = low + (high - low) // (2 * step) * step
            trial = (*capacities[:index], middle, *capacities[index + 1 :])
            if self._evaluated(trial).holding:
                low = middle
            else:
                high, capacities = middle, trial
                self._keep(capacities)
            yield capacities

    def _keep(self, capacities: Distribution) -> None:
        """Store sufficient capacities if they are smaller than the best."""
        if self._best is None or self._size(capacities) < self._size(self._best):
            self._best = capacities

    def _rounded_up(self, relaxed: Sequence[float]) -> list[int]:
        """Return the solution of the linear program, rounded up to useful capacities."""
        return [
            minimum + max(0, ceil((value - minimum) / step - NEAR)) * step
            for value, minimum, step in zip(relaxed, self._least, self._steps, strict=True)
        ]

    def _relaxed(self) -> Sequence[float] | None:
        """Solve the linear program, raise the lower bound, return the solution; None if out of time."""
        program = LinearProgram()
        for weight, minimum in zip(self._weights, self._least, strict=True):
            program.add_column(weight, minimum, None)
        for demand in self._constraints():
            terms = [(index, -factor) for index, factor in demand.terms]
            program.add_row(terms, -demand.least)
        relaxed = solved(program, self._seconds(), self._look)
        if relaxed is None:
            return None
        # Prices are inexact, so that the bound of a later program can be lower.
        self._bound = max(self._bound, relaxed.lower_bound)
        return relaxed.columns

    def _constraints(self) -> Iterator[Demand]:
        """Yield the demands of cycles, rounded up to useful sums, and of cuts."""
        for demand in self._cycles.demands():
            sum_of_least = self._sum_of_least(demand.terms)
            lacking = demand.least - sum_of_least
            if lacking > 0:
                # Chvatal-Gomory rounding: the sum changes in multiples of the unit, so the demand
                # may be rounded up to the next multiple without losing an integer solution.
                useful = -(-lacking // demand.unit) * demand.unit
                yield demand._replace(least=sum_of_least + useful)
        for number, cut in enumerate(self._cuts):
            # To leave the cut, a channel needs `rise` tokens above its minimum. In units of its rise,
            # the tokens of all channels above their minimum are at least 1 in total.
            rises = {index: limit + self._steps[index] - self._least[index] for index, limit in cut}
            whole = lcm(*rises.values())
            if whole <= LARGEST_FACTOR:
                terms = tuple((index, whole // rise) for index, rise in rises.items())
                yield Demand(terms, self._sum_of_least(terms) + whole, unit=1, row=number)

    def _sum_of_least(self, terms: Sequence[tuple[int, int]]) -> int:
        return sum(factor * self._least[index] for index, factor in terms)

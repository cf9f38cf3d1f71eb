"""Infeasible boxes (cuts) and linear bounds by critical cycles, learned in a storage search.

A cut states that at least one capacity of a set has to be larger. A cycle of dependencies exists in
every distribution: a consumer waits for the tokens that it consumes, a producer for the space that it
fills. A required period demands tokens and space on the cycle, so a sum of capacities. One demand
covers all corners of a trade-off along a path; a cut excludes a single corner.

For example, `a` of duration 2 produces 2 tokens, and `b` of duration 3 consumes 3, on an empty channel
of capacity c. In an iteration `a` fires 3 times, `b` 2 times, and 6 tokens pass. The cycle has time
2 + 3 and c tokens, which are c / 6 iterations, so a period of at most 6 demands 5 / (c / 6) <= 6, or
c >= 5. Around the cycle is a whole number of firings of `a`, at most 3 c / 6 of them. With 2 firings,
2/3 of an iteration, the period is 15/2. So 3 are needed, and c >= 6.

Source: Reiter, Scheduling parallel computations, Journal of the ACM 15(4), 1968 (cycles of marked
graphs). Ours is the count of firings where rates differ: rounding to whole ones makes a demand larger.
"""

from __future__ import annotations

from bisect import bisect
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import chain
from math import ceil, gcd, lcm
from typing import NamedTuple

from csdf.analysis.periodic import Circuit
from csdf.bisection import first_between
from csdf.kernels import compile as compiler
from csdf.kernels import cuts as cut_kernel
from csdf.kernels import cycles as kernel
from csdf.kernels import ranges
from csdf.log import Log
from csdf.model.indexed import IndexedGraph
from csdf.time_limit import Stop

LOG = Log("csdf.search")

Sufficient = Callable[[Fraction | None], bool]  # a test of a period; None is a deadlock
MOST_FIRINGS = 1 << 60  # on a cycle, that a demand counts at most


def fast_enough(required: Fraction | None) -> Sufficient:
    """Return the test of a period against the longest sufficient period; None: any but a deadlock."""
    return lambda period: period is not None and (required is None or period <= required)


class InsufficientRegion(NamedTuple):
    """A region without any sufficient distribution: each of its variables is at most its limit.

    limits: from the position of a variable to the largest capacity in the region; a variable without
    a limit may have any capacity. Every sufficient distribution exceeds at least one limit, or has a
    capacity below its minimum. minimums: pairs of a position and a capacity at which the storage has a
    longer read delay. With less capacity it is faster, so the region begins at these.
    """

    limits: Mapping[int, int]
    minimums: tuple[tuple[int, int], ...] = ()

    def moved(self, where: Mapping[int, int] | Sequence[int]) -> InsufficientRegion:
        """Return the limits of the region with other positions of its variables."""
        return InsufficientRegion({where[index]: limit for index, limit in self.limits.items()})

    def holds(self, capacities: Sequence[int]) -> bool:
        """Whether the distribution is in the region."""
        return all(capacities[index] <= limit for index, limit in self.limits.items()) and all(
            capacities[index] >= minimum for index, minimum in self.minimums
        )


class Cuts:
    """The cuts found so far.

    steps: distance between useful capacities of each variable. weights: cost of one token.
    """

    def __init__(self, steps: Sequence[int], weights: Sequence[int]) -> None:
        self._steps = list(steps)
        self._weights = list(weights)
        self._cuts: list[InsufficientRegion] = []
        # Cuts with few limits first: they leave the dual ascent the fewest choices.
        self._order: list[tuple[int, int]] = []  # number of limits, number of the cut
        self._dearest = max((0, *weights))  # no bound is more, with tokens that cost at least 1
        self._backend = compiler.backend(fits=True)
        self._table: _CutTable | None = None

    def __len__(self) -> int:
        return len(self._cuts)

    def __iter__(self) -> Iterator[InsufficientRegion]:
        return iter(self._cuts)

    def add(self, cut: InsufficientRegion) -> None:
        """Add a region."""
        number = len(self._cuts)
        self._cuts.append(cut)
        LOG.debug("cut %d: one of the variables above %s", number + 1, cut.limits)
        key = (len(cut.limits), number)
        position = bisect(self._order, key)
        self._order.insert(position, key)
        self._dearest += sum(
            (limit + self._steps[index]) * max(1, self._weights[index])
            for index, limit in cut.limits.items()
        )
        self._require_room(())
        if self._table is not None and not self._table.add(number, cut, position):
            self._table = None

    def bound(self, capacities: Sequence[int]) -> tuple[int, InsufficientRegion | None]:
        """Return a lower bound on the cost of leaving all cuts that contain these capacities.

        A dual ascent in integers over these cuts, those with the fewest limits first. Also returns the
        first of them, or None.
        """
        if not self._cuts:
            return 0, None
        self._require_room(capacities)
        if self._table is None:
            self._table = _CutTable(
                self._backend, self._steps, self._weights, self._cuts, self._order
            )
        total, first = self._table.leaving_cost(capacities)
        return total, None if first < 0 else self._cuts[first]

    def _require_room(self, capacities: Sequence[int]) -> None:
        """Use unbounded integers from now on if a sum may exceed 64 bits."""
        largest = ranges.largest_in_cuts(self._dearest, capacities, self._steps)
        if self._backend.is_compiled and largest > compiler.INT64_SUM_LIMIT:
            self._backend, self._table = compiler.PLAIN, None


class _CutTable:
    """The cuts as arrays of the kernel, with free rows for as many again."""

    def __init__(
        self,
        backend: compiler.Backend,
        steps: Sequence[int],
        weights: Sequence[int],
        cuts: Sequence[InsufficientRegion],
        order: Sequence[tuple[int, int]],
    ) -> None:
        self._backend = backend
        self._variables = len(steps)
        # Doubling: copying costs amortised constant time a cut.
        self._room = 2 * len(cuts) + 16
        self._limits = backend.array([-1] * (self._room * self._variables))
        self._order = backend.array([0] * self._room)
        self._table = backend.kernel(cut_kernel.Table)(
            backend.array(steps), backend.array(weights), self._limits, self._order, backend.blank
        )
        self._count = len(cuts)
        self._run = backend.kernel(cut_kernel.leaving_cost)
        for number, cut in enumerate(cuts):
            self._write(number, cut)
        self._order[: len(order)] = backend.array([number for _, number in order])

    def add(self, number: int, cut: InsufficientRegion, index: int) -> bool:
        """Add a cut, at this position of the order; False if no row is free."""
        if number >= self._room:
            return False
        self._write(number, cut)
        # Insertion in place keeps the kernel's table; a new table copies all limits.
        later = self._backend.array([number]) + self._order[index : self._count]
        self._order[index : self._count + 1] = later
        self._count += 1
        return True

    def _write(self, number: int, cut: InsufficientRegion) -> None:
        for index, limit in cut.limits.items():
            self._limits[number * self._variables + index] = limit

    def leaving_cost(self, capacities: Sequence[int]) -> tuple[int, int]:
        total = self._run(self._table, self._backend.array(capacities), self._count)
        return int(total), self._table.first


class DependencyCycle(NamedTuple):
    """A cycle of dependencies between actors of one phase.

    time: of its firings, in sequence. tokens: on the cycle, in iterations, without the capacities
    that are searched. shares: pairs of the position of a variable and the tokens, in iterations, that
    a token of its capacity adds. firings: of each of its actors in an iteration, without repetition.
    """

    time: int
    tokens: Fraction
    shares: tuple[tuple[int, Fraction], ...]
    firings: tuple[int, ...]

    def moved(self, where: Mapping[int, int] | Sequence[int]) -> DependencyCycle:
        """Return the cycle with other positions of its variables."""
        return self._replace(
            shares=tuple(sorted((where[index], share) for index, share in self.shares))
        )

    @property
    def places(self) -> set[int]:
        """Positions of the variables on the cycle."""
        return {index for index, _ in self.shares}


class Demand(NamedTuple):
    """A linear constraint: the sum of capacities, each times its factor, is at least `least`.

    unit: the sum changes in multiples of this number. row: index of the demand in the table.
    """

    terms: tuple[tuple[int, int], ...]  # position, factor
    least: int
    unit: int
    row: int


class CycleDemands:
    """The cycles of dependencies found so far, and their demands for the periods that are searched.

    steps: distance between useful capacities of each variable. weights: cost of one token.
    """

    def __init__(self, steps: Sequence[int], weights: Sequence[int]) -> None:
        self._steps = list(steps)
        self._weights = list(weights)
        # For each of the `firings` of a cycle, the minimum number of these on the cycle.
        self._minimum_firings: dict[DependencyCycle, list[int]] = {}
        self._demands: dict[tuple[tuple[int, int], ...], Demand] = {}
        self._rows: list[Demand] = []
        self._is_sufficient: Sufficient | None = None
        self._factors = 0  # the largest sum of a demand's factors and unit
        self._cost = max((0, *steps, *weights))  # the largest of a demand, met from nothing
        self._backend = compiler.backend(fits=True)
        self._table: _DemandTable | None = None
        self.changes = 0  # of the demands

    def __len__(self) -> int:
        return len(self._demands)

    def __iter__(self) -> Iterator[DependencyCycle]:
        return iter(self._minimum_firings)

    def demands(self) -> Iterator[Demand]:
        """Yield the demands of the cycles for the periods that are searched."""
        yield from self._rows

    def add(self, cycle: DependencyCycle) -> None:
        """Store a cycle if it passes through the space of a searched channel."""
        if cycle.shares and cycle not in self._minimum_firings:
            self._minimum_firings[cycle] = [1] * len(cycle.firings)
            if self._is_sufficient is not None:
                self._demand(cycle, self._is_sufficient)

    def tighten(self, is_sufficient: Sufficient) -> None:
        """Update the demands to a test of sufficiency that is at least as strict as the last one."""
        self._is_sufficient = is_sufficient
        for cycle in self._minimum_firings:
            self._demand(cycle, is_sufficient)

    def _demand(self, cycle: DependencyCycle, is_sufficient: Sufficient) -> None:
        """Compute the demand of a cycle, and store it unless an equal or stronger demand exists."""
        minimums = self._minimum_firings[cycle]
        for index, firings in enumerate(cycle.firings):
            minimums[index] = _smallest_divisor(
                cycle.time * firings, minimums[index], is_sufficient
            )
        # Around the cycle is a whole number of firings of each actor on it: each count that is
        # rounded up is a bound, and the largest is the strongest.
        iterations = max(map(Fraction, minimums, cycle.firings)) - cycle.tokens
        # The sum of shares times capacities is at least `iterations`; scaled, the factors are
        # integers without a common divisor.
        shares = [share for _, share in cycle.shares]
        scale = Fraction(
            lcm(*(share.denominator for share in shares)),
            gcd(*(share.numerator for share in shares)),
        )
        terms = tuple((index, int(share * scale)) for index, share in cycle.shares)
        minimum = ceil(iterations * scale)
        previous = self._demands.get(terms)
        if previous is None or previous.least < minimum:
            # The sum changes only in multiples of this unit, by which the kernel rounds up.
            unit = gcd(*(factor * self._steps[index] for index, factor in terms))
            row = len(self._rows) if previous is None else previous.row
            self._store(Demand(terms, minimum, unit, row))

    def _store(self, demand: Demand) -> None:
        """Add a demand, or replace a weaker demand by it."""
        self._demands[demand.terms] = demand
        self._rows[demand.row : demand.row + 1] = [demand]
        self.changes += 1
        factors = sum(factor for _, factor in demand.terms) + demand.unit
        cost = (abs(demand.least) + demand.unit) * max((1, *self._weights)) + factors
        self._factors, self._cost = max(self._factors, factors), max(self._cost, cost)
        self._require_room(())
        if self._table is not None and not self._table.add(demand):
            self._table = None

    def _require_room(self, capacities: Sequence[int]) -> None:
        """Use unbounded integers from now on if a sum may exceed 64 bits."""
        variables = len(self._weights)
        largest = ranges.largest_in_demands(self._factors, self._cost, variables, capacities)
        if self._backend.is_compiled and largest > compiler.INT64_SUM_LIMIT:
            self._backend, self._table = compiler.PLAIN, None

    def bound(self, capacities: Sequence[int]) -> tuple[int, InsufficientRegion | None]:
        """Return a lower bound on the cost of all demands, and a cut of the most expensive demand.

        The cut contains these capacities; no distribution in the cut meets that demand.
        """
        if not self._rows:
            return 0, None
        self._require_room(capacities)
        if self._table is None:
            self._table = _DemandTable(self._backend, self._weights, self._rows)
        total, first, missing = self._table.meeting_cost(capacities)
        return total, None if missing <= 0 else self._split(capacities, missing, self._rows[first])

    def _split(self, capacities: Sequence[int], missing: int, demand: Demand) -> InsufficientRegion:
        """Return a cut at these capacities, with the largest term raised while the demand is unmet.

        missing: by which the sum falls short of the demand.
        """
        limits = {index: capacities[index] for index, _ in demand.terms}
        index, factor = max(demand.terms, key=lambda term: term[1] * capacities[term[0]])
        step = self._steps[index]
        unmet_steps = (missing - 1) // (factor * step)
        limits[index] += unmet_steps * step
        return InsufficientRegion(limits)


class _DemandTable:
    """The demands as arrays of the kernel, with free rows for as many again."""

    def __init__(
        self, backend: compiler.Backend, weights: Sequence[int], rows: Sequence[Demand]
    ) -> None:
        self._backend = backend
        self._variables = len(weights)
        self._room = 2 * len(rows) + 16
        self._factors = backend.blank(self._room * self._variables)
        self._least = backend.blank(self._room)
        self._unit = backend.array([1] * self._room)
        self._count = 0
        self._table = backend.kernel(kernel.Demands)(
            backend.array(weights), self._factors, self._least, self._unit, backend.blank
        )
        self._run = backend.kernel(kernel.meeting_cost)
        for demand in rows:
            self.add(demand)

    def add(self, demand: Demand) -> bool:
        """Write a demand into its row; False if no row is free."""
        if demand.row >= self._room:
            return False
        for index, factor in demand.terms:
            self._factors[demand.row * self._variables + index] = factor
        self._least[demand.row], self._unit[demand.row] = demand.least, demand.unit
        self._count = max(self._count, demand.row + 1)
        return True

    def meeting_cost(self, capacities: Sequence[int]) -> tuple[int, int, int]:
        """Return the bound, the row of the most expensive demand, and its shortfall, or 0."""
        total = self._run(self._table, self._backend.array(capacities), self._count)
        first = self._table.first
        return int(total), first, self._table.lacking if first >= 0 else 0


def _smallest_divisor(time: int, minimum: int, is_sufficient: Sufficient) -> int:
    """Return the smallest integer from `minimum` on by which time is divided to a sufficient period."""

    def suffices(firings: int) -> bool:
        return is_sufficient(Fraction(time, firings))

    if time == 0 or suffices(minimum):
        return minimum
    low, high = minimum, 2 * minimum
    # Galloping from the previous count: tests only become stricter, so that the count never falls.
    while not suffices(high) and high < MOST_FIRINGS:
        low, high = high, 2 * high
    return first_between(low, high, suffices)


HOPS_PER_LOOK = 10_000  # hops of one cycle, or cycles, between two looks at the stop

Hop = tuple[int, int]  # an actor, and the channel from it to the next one


class CycleDecomposition:
    """Decomposes critical cycles of one graph into simple cycles, in terms of the variables.

    A critical cycle may pass an actor several times. The part between two passes is a cycle too,
    often with a stronger demand. cycles: phase cycles of each actor in an iteration. spaces: by space
    channel, its variable and the initial tokens of the bounded channel. is_timed: count durations.
    """

    def __init__(
        self,
        graph: IndexedGraph,
        cycles: Sequence[int],
        spaces: Mapping[int, tuple[int, int]],
        *,
        is_timed: bool,
    ) -> None:
        self._graph = graph
        self._cycles = cycles
        self._spaces = spaces
        self._is_timed = is_timed

    def of(self, circuit: Circuit, stop: Stop) -> tuple[DependencyCycle, ...]:
        """Return the critical cycle and its simple cycles; () where an actor has several phases.

        Edges that only order the firings of an actor are omitted: the channels alone form a cycle.
        """
        hops = [hop for hop in zip(circuit.actors, circuit.channels, strict=True) if hop[1] >= 0]
        if not hops or any(self._graph.phases[actor] > 1 for actor, _ in hops):
            return ()
        distinct: dict[tuple[Hop, ...], None] = {}
        cycles = chain((hops,), self._from_rarest(hops), _simple(hops))
        for number, hops_of_cycle in enumerate(cycles):
            if number % HOPS_PER_LOOK == 0 or len(hops_of_cycle) > HOPS_PER_LOOK:
                stop.look()
            # A long critical cycle mostly repeats one simple cycle.
            distinct[tuple(hops_of_cycle)] = None
        return tuple(dict.fromkeys(map(self._cycle, distinct)))

    def _from_rarest(self, hops: Sequence[Hop]) -> Iterator[Sequence[Hop]]:
        """Yield the parts of the cycle between firings of the actor with the fewest firings."""
        rarest = min((actor for actor, _ in hops), key=self._cycles.__getitem__)
        first, *later = (index for index, (actor, _) in enumerate(hops) if actor == rarest)
        turned = [*hops[first:], *hops[:first]]
        begins = [0, *(index - first for index in later)]
        for begin, end in zip(begins, [*begins[1:], len(hops)], strict=True):
            yield turned[begin:end]

    def _cycle(self, hops: Sequence[Hop]) -> DependencyCycle:
        """Return the time, tokens and variables of a cycle of channels."""
        graph = self._graph
        time, tokens = 0, Fraction(0)
        shares: dict[int, Fraction] = {}
        for (actor, channel), count in Counter(hops).items():
            time += count * graph.duration[graph.duration_start[actor]] if self._is_timed else 0
            passing = graph.produced(channel) * self._cycles[actor]
            if channel in self._spaces:
                variable, occupied = self._spaces[channel]
                tokens -= Fraction(count * occupied, passing)
                shares[variable] = shares.get(variable, Fraction(0)) + Fraction(count, passing)
            else:
                tokens += Fraction(count * graph.initial_tokens[channel], passing)
        firings = tuple(sorted({self._cycles[actor] for actor, _ in hops}))
        return DependencyCycle(time, tokens, tuple(sorted(shares.items())), firings)


def _simple(hops: Sequence[Hop]) -> Iterator[Sequence[Hop]]:
    """Yield the simple cycles within a cycle."""
    path: list[Hop] = []
    index: dict[int, int] = {}
    for hop in hops:
        if hop[0] in index:
            begin = index[hop[0]]
            yield path[begin:]
            for actor, _ in path[begin:]:
                del index[actor]
            del path[begin:]
        index[hop[0]] = len(path)
        path.append(hop)
    yield path

"""Best-first search over storage distributions, with learned infeasible boxes and cycle bounds.

Best first: the cheapest distribution that no cut excludes is evaluated. If it is not sufficient, one
critical cycle says why, and the channels whose space lies on it become a cut: every sufficient
distribution exceeds one of these capacities. Each of them, exceeded, is a new candidate. So whatever
is found first is the cheapest, and what the queue's head costs is a lower bound at any time.

Source: Stuijk, Geilen, Basten, Throughput-buffering trade-off exploration for CSDF and SDF graphs,
IEEE Trans. Computers 57(10), 2008 (storage dependencies, order by size). Ours are the cuts, each
enlarged to a largest insufficient region where that pays, and the bound that they give together; and
what cycles demand of all distributions, so that distributions that lack it are never evaluated.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

from csdf.search.evaluator import Evaluates, PeriodEvaluation
from csdf.search.learned_bounds import Cuts, Cycle, Cycles, InsufficientRegion, Sufficient
from csdf.search.symmetry import Permutation
from csdf.search.variables import Variable, size_of

QUEUE_NUMBERS = 40_000_000  # most capacities in the queue: about a gigabyte


class Known(NamedTuple):
    """The cuts and cycles that a search has found so far."""

    cuts: list[InsufficientRegion]
    cycles: list[Cycle]

    @property
    def joined(self) -> list[Collection[int]]:
        """Positions of the variables of each cut and cycle."""
        return [*(cut.limits for cut in self.cuts), *(cycle.places for cycle in self.cycles)]


class Exploration:
    """The queue of candidates, the cuts, and what is proved so far.

    A test of sufficiency may only become stricter from one `cheapest` to the next. symmetries: of
    the variables; of distributions that they take to one another only one is queued.
    """

    def __init__(
        self,
        evaluator: Evaluates,
        variables: Sequence[Variable],
        look: Callable[[], None],
        symmetries: Sequence[Permutation] = (),
    ) -> None:
        self.evaluator = evaluator
        self._variables = variables
        self._look = look
        self._symmetries = symmetries
        self._steps = [variable.step for variable in variables]
        self._weights = [variable.weight for variable in variables]
        self.cuts = Cuts(self._steps, self._weights)
        self.cycles = Cycles(self._steps, self._weights)
        minimum = tuple(variable.least for variable in variables)
        self.lower_bound = size_of(variables, minimum)
        # Of equal bounds the largest size comes first: less is left to be added, so a sufficient
        # distribution is near. The last number says with how much knowledge the bound was computed.
        self._queue = [(self.lower_bound, -self.lower_bound, minimum, 0)]
        self._seen = {minimum}
        self._learned: set[frozenset[tuple[int, int]]] = set()
        self._looked_at = 0
        self.is_full = False  # whether the search had to end for lack of memory

    @property
    def is_exhausted(self) -> bool:
        """Whether no distribution is left, whatever its size."""
        return not self._queue

    def cheapest(
        self, is_sufficient: Sufficient, limit: int | None = None
    ) -> tuple[int, ...] | None:
        """Return the cheapest sufficient distribution; None if there is none, or no memory left.

        None too where its cost is above the limit; the lower bound then is above it.
        """
        self.cycles.tighten(is_sufficient)
        while self._queue and not self.is_full:
            self._look()
            if limit is not None and self._queue[0][0] > limit:
                self.lower_bound = max(self.lower_bound, self._queue[0][0])
                return None
            bound, negative_size, capacities, known_then = heapq.heappop(self._queue)
            cost, cut = self._leaving(capacities)
            # Lazy evaluation of bounds: new cuts raise the bounds of queued candidates, and they
            # are computed again only when a candidate reaches the head.
            if known_then < self._news and cost - negative_size > bound:
                entry = (cost - negative_size, negative_size, capacities, self._news)
                heapq.heappush(self._queue, entry)
                continue
            # Invariant: every sufficient distribution that is not yet
            # returned costs at least the head's bound.
            self.lower_bound = max(self.lower_bound, bound)
            if cut is None:
                evaluation = self.evaluate(capacities)
                if is_sufficient(evaluation.period):
                    entry = (bound, negative_size, capacities, self._news)
                    heapq.heappush(self._queue, entry)
                    return capacities
                # A cut from a cycle's sum is larger than the box of the critical cycle, and costs
                # no further evaluation.
                _, cut = self.cycles.bound(capacities)  # by a cycle that is known from now on
                if cut is None:
                    cut = self._cut(capacities, evaluation.holding, is_sufficient)
                    self.learn(cut)
            self._branch(capacities, cut, bound, -negative_size)
        return None

    def known(self) -> Known:
        """Return what was found out so far."""
        return Known(list(self.cuts), list(self.cycles))

    @property
    def _news(self) -> int:
        """How much is known, to tell what is new."""
        return len(self.cuts) + self.cycles.changes

    def _leaving(self, capacities: Sequence[int]) -> tuple[int, InsufficientRegion | None]:
        """The least cost of leaving all that is too small, and a cut that holds here."""
        self._looked_at += len(self.cuts) + len(self.cycles) + 1
        cost, cut = self.cuts.bound(capacities)
        more, split = self.cycles.bound(capacities)
        return max(cost, more), cut if split is None or (cut is not None and more < cost) else split

    def evaluate(self, capacities: Sequence[int | None]) -> PeriodEvaluation:
        """Return the evaluation of a distribution, and learn its cycles."""
        evaluation = self.evaluator.evaluate(tuple(capacities))
        for cycle in evaluation.cycles:
            self.learn_cycle(cycle)
        return evaluation

    def learn_cycle(self, cycle: Cycle) -> None:
        """Record a cycle and its images under the symmetries."""
        self.cycles.add(cycle)
        for symmetry in self._symmetries:
            self.cycles.add(cycle.moved(symmetry))

    def learn(self, cut: InsufficientRegion) -> None:
        """Record a cut and its images under the symmetries."""
        for symmetry in (range(len(self._steps)), *self._symmetries):
            limits = {symmetry[index]: limit for index, limit in cut.limits.items()}
            if (limit_set := frozenset(limits.items())) not in self._learned:
                self._learned.add(limit_set)
                self.cuts.add(InsufficientRegion(limits))

    def _chosen(self, capacities: tuple[int, ...]) -> tuple[int, ...]:
        """The distribution, moved by symmetries as long as that makes it smaller in order."""
        chosen = capacities
        is_settled = False
        while not is_settled:
            is_settled = True
            for symmetry in self._symmetries:
                image = tuple(chosen[index] for index in symmetry)
                if image < chosen:
                    chosen, is_settled = image, False
        return chosen

    def _branch(
        self, capacities: tuple[int, ...], cut: InsufficientRegion, bound: int, size: int
    ) -> None:
        """Queue the candidates that leave the cut by one variable each."""
        for index, limit in cut.limits.items():
            steps = (limit - capacities[index]) // self._steps[index] + 1
            larger = capacities[index] + steps * self._steps[index]
            candidate = self._chosen((*capacities[:index], larger, *capacities[index + 1 :]))
            # Different cuts lead to the same distribution; without this test the queue would hold
            # it several times.
            if candidate not in self._seen:
                self._seen.add(candidate)
                cost, _ = self._leaving(candidate)
                larger_size = size + steps * self._steps[index] * self._weights[index]
                minimum = max(bound, larger_size + cost)
                entry = (minimum, -larger_size, candidate, self._news)
                heapq.heappush(self._queue, entry)
        self.is_full = len(self._seen) * len(capacities) > QUEUE_NUMBERS

    def _cut(
        self, capacities: Sequence[int], holding: Sequence[int], is_sufficient: Sufficient
    ) -> InsufficientRegion:
        """The region that a critical cycle excludes, enlarged where looking on costs more."""
        # An enlarged cut takes evaluations. It pays only where the time goes into scanning many
        # small cuts: both sides count elementary steps.
        if self._looked_at < self.evaluator.count * self.evaluator.firings:
            return InsufficientRegion({index: capacities[index] for index in holding})
        limits: list[int | None] = [None] * len(capacities)
        for index in holding:
            limits[index] = capacities[index]
        # Expensive channels first: the limits found first become the largest.
        for index in sorted(
            holding, key=lambda variable: -self._steps[variable] * self._weights[variable]
        ):
            limits[index] = self._largest(limits, index, is_sufficient)
        return InsufficientRegion(
            {index: limit for index, limit in enumerate(limits) if limit is not None}
        )

    def _largest(
        self, limits: list[int | None], index: int, is_sufficient: Sufficient
    ) -> int | None:
        """The largest capacity with which the limits of the other channels stay too small."""
        start, step = limits[index] or 0, self._steps[index]

        def suffices(steps: int | None) -> bool:
            self._look()
            trial = list(limits)
            trial[index] = None if steps is None else start + steps * step
            return is_sufficient(self.evaluate(trial).period)

        if not suffices(None):
            return None
        low, high = 0, 1
        # Galloping, then bisection: few evaluations where the limit is near.
        while not suffices(high):
            low, high = high, 2 * high
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if suffices(middle) else (middle, high)
        return start + low * step

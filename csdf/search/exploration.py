"""Best-first search over storage distributions, with learned infeasible boxes and cycle bounds.

The cheapest distribution that no cut excludes is evaluated. If it is not sufficient, the channels with
space on the critical cycle become a cut: every sufficient distribution exceeds one of these capacities.
The next candidates each exceed one of them. So the first sufficient distribution is the cheapest, and
the cost of the head of the queue is a lower bound at any time.

Source: Stuijk, Geilen, Basten, Throughput-buffering trade-off exploration for CSDF and SDF graphs,
IEEE Trans. Computers 57(10), 2008 (storage dependencies, order by size). Ours are the cuts, each
enlarged to a largest insufficient region where that pays, and their joint lower bound. Ours are also
the demands of cycles (`learned_bounds`): a distribution that violates a demand is never evaluated.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

from csdf.bisection import first_above_zero
from csdf.search.evaluator import Evaluates, PeriodEvaluation
from csdf.search.learned_bounds import (
    Cuts,
    CycleDemands,
    DependencyCycle,
    InsufficientRegion,
    Sufficient,
)
from csdf.search.symmetry import Permutation
from csdf.search.variables import Variable, size_of

QUEUE_NUMBERS = 40_000_000  # maximum number of capacities in the queue: about 1 GB


class Known(NamedTuple):
    """The cuts and cycles that a search has found so far."""

    cuts: list[InsufficientRegion]
    cycles: list[DependencyCycle]

    @property
    def joined(self) -> list[Collection[int]]:
        """Positions of the variables of each cut and cycle."""
        return [*(cut.limits for cut in self.cuts), *(cycle.places for cycle in self.cycles)]


class Exploration:
    """The queue of candidates, the cuts, and the lower bound so far.

    A test of sufficiency may only become stricter from one `cheapest` to the next. symmetries:
    permutations of the variables; of symmetric distributions, only one is queued.
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
        self.cycles = CycleDemands(self._steps, self._weights)
        minimum = tuple(variable.least for variable in variables)
        self.lower_bound = size_of(variables, minimum)
        # Entries: bound, negated size, capacities, version of the constraints that gave the bound. Of
        # equal bounds the largest size comes first: a sufficient distribution is near.
        self._queue = [(self.lower_bound, -self.lower_bound, minimum, 0)]
        self._seen = {minimum}
        self._learned: set[frozenset[tuple[int, int]]] = set()
        self._scanned = 0  # cuts and cycles compared with distributions
        self.is_full = False  # whether the queue has reached its memory limit

    @property
    def is_exhausted(self) -> bool:
        """Whether every distribution of any size was searched."""
        return not self._queue

    def cheapest(
        self, is_sufficient: Sufficient, limit: int | None = None
    ) -> tuple[int, ...] | None:
        """Return the cheapest sufficient distribution; None if there is none, or the queue is full.

        Also None if its cost is above the limit; the lower bound is then above the limit.
        """
        self.cycles.tighten(is_sufficient)
        while self._queue and not self.is_full:
            self._look()
            if limit is not None and self._queue[0][0] > limit:
                self.lower_bound = max(self.lower_bound, self._queue[0][0])
                return None
            bound, negative_size, capacities, version = heapq.heappop(self._queue)
            cost, cut = self._leaving(capacities)
            # Lazy evaluation of bounds: new cuts raise the bounds of queued candidates, and they
            # are computed again only when a candidate reaches the head.
            if version < self._version and cost - negative_size > bound:
                entry = (cost - negative_size, negative_size, capacities, self._version)
                heapq.heappush(self._queue, entry)
                continue
            # Invariant: every sufficient distribution that is not yet
            # returned costs at least the head's bound.
            self.lower_bound = max(self.lower_bound, bound)
            if cut is None:
                evaluation = self.evaluate(capacities)
                if is_sufficient(evaluation.period):
                    entry = (bound, negative_size, capacities, self._version)
                    heapq.heappush(self._queue, entry)
                    return capacities
                # The cut by the demand of a cycle, learned in this evaluation, is larger than the box
                # of the critical cycle, and costs no further evaluation.
                _, cut = self.cycles.bound(capacities)
                if cut is None:
                    cut = self._cut(capacities, evaluation.holding, is_sufficient)
                    self.learn(cut)
            self._branch(capacities, cut, bound, -negative_size)
        return None

    def known(self) -> Known:
        """Return the cuts and cycles so far."""
        return Known(list(self.cuts), list(self.cycles))

    @property
    def _version(self) -> int:
        """Version of the constraints: it grows with each cut and each demand."""
        return len(self.cuts) + self.cycles.changes

    def _leaving(self, capacities: Sequence[int]) -> tuple[int, InsufficientRegion | None]:
        """Return a lower bound of the additional cost that suffices, and a cut that holds here."""
        self._scanned += len(self.cuts) + len(self.cycles) + 1
        cost, cut = self.cuts.bound(capacities)
        more, split = self.cycles.bound(capacities)
        return max(cost, more), cut if split is None or (cut is not None and more < cost) else split

    def evaluate(self, capacities: Sequence[int | None]) -> PeriodEvaluation:
        """Return the evaluation of a distribution, and learn its cycles."""
        evaluation = self.evaluator.evaluate(tuple(capacities))
        for cycle in evaluation.cycles:
            self.learn_cycle(cycle)
        return evaluation

    def learn_cycle(self, cycle: DependencyCycle) -> None:
        """Record a cycle and its images under the symmetries."""
        self.cycles.add(cycle)
        for symmetry in self._symmetries:
            self.cycles.add(cycle.moved(symmetry))

    def learn(self, cut: InsufficientRegion) -> None:
        """Record a cut and its images under the symmetries."""
        for symmetry in (range(len(self._steps)), *self._symmetries):
            image = cut.moved(symmetry)
            if (limits := frozenset(image.limits.items())) not in self._learned:
                self._learned.add(limits)
                self.cuts.add(image)

    def _chosen(self, capacities: tuple[int, ...]) -> tuple[int, ...]:
        """Apply symmetries while they make the distribution lexicographically smaller."""
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
            # Different cuts lead to the same distribution, which is queued once.
            if candidate not in self._seen:
                self._seen.add(candidate)
                cost, _ = self._leaving(candidate)
                larger_size = size + steps * self._steps[index] * self._weights[index]
                minimum = max(bound, larger_size + cost)
                entry = (minimum, -larger_size, candidate, self._version)
                heapq.heappush(self._queue, entry)
        self.is_full = len(self._seen) * len(capacities) > QUEUE_NUMBERS

    def _cut(
        self, capacities: Sequence[int], holding: Sequence[int], is_sufficient: Sufficient
    ) -> InsufficientRegion:
        """Return the region that a critical cycle excludes, enlarged if there are many cuts."""
        # Enlarging takes evaluations. It pays only if scanning many small cuts takes longer than
        # the evaluations: both sides count elementary steps.
        if self._scanned < self.evaluator.count * self.evaluator.firings:
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
        """Return the largest insufficient capacity of a channel, with the limits of the others."""
        start, step = limits[index] or 0, self._steps[index]

        def suffices(steps: int | None) -> bool:
            self._look()
            trial = list(limits)
            trial[index] = None if steps is None else start + steps * step
            return is_sufficient(self.evaluate(trial).period)

        if not suffices(None):
            return None
        return start + (first_above_zero(suffices) - 1) * step

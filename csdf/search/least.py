"""The smallest sufficient distribution: a heuristic one at once, then the minimum, best first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from csdf.outcome import Reason, Status, because
from csdf.search.evaluator import Evaluates
from csdf.search.exploration import Exploration, Sufficient
from csdf.search.narrowing import Distribution, narrowing
from csdf.search.pareto import StorageWhy
from csdf.search.variables import Variable
from csdf.time_limit import ENDS, Progress, Stop, reason_of


@dataclass(frozen=True, slots=True, kw_only=True)
class LeastDistribution:
    """The result of a search: capacities in the order of its variables, None without any.

    size: of the capacities; where they are not proved to be the least it is `lower_bound` or more.
    """

    capacities: Distribution | None
    size: int | None
    lower_bound: int
    status: Status
    reason: Reason


def least_distribution(
    evaluator: Evaluates,
    variables: Sequence[Variable],
    is_sufficient: Sufficient,
    stop: Stop,
    *,
    refusal: Callable[[], Reason],
) -> LeastDistribution:
    """Return the least capacities that suffice, with a proof, or the best by the end of the stop.

    refusal: says why nothing suffices, asked where not even unlimited capacities do.
    """
    return _Search(evaluator, variables, is_sufficient, stop).answer(refusal)


class _Search:
    """The best distribution so far, and the exploration that proves."""

    def __init__(
        self,
        evaluator: Evaluates,
        variables: Sequence[Variable],
        is_sufficient: Sufficient,
        stop: Stop,
    ) -> None:
        self.evaluator = evaluator
        self.variables = variables
        self.is_sufficient = is_sufficient
        self.stop = stop
        self.exploration = Exploration(evaluator, variables, self._look)
        self.best: Distribution | None = None

    def _look(self) -> None:
        size = None if self.best is None else self.exploration.size(self.best)
        bound = self.exploration.lower_bound
        self.stop.look(Progress(done=self.evaluator.count, lower_bound=bound, best=size))

    def answer(self, refusal: Callable[[], Reason]) -> LeastDistribution:
        try:
            unlimited = (None,) * len(self.variables)
            if not self.is_sufficient(self.evaluator.evaluate(unlimited).period):
                return self._told(Status.INFEASIBLE, refusal())
            for trial in narrowing(self.evaluator, self.variables, self.is_sufficient):
                self.best = trial
                self._look()
            found = self.exploration.cheapest(self.is_sufficient)
        except ENDS as end:
            return self._ended(reason_of(end))
        if found is None:
            return self._ended(because(StorageWhy.IS_FULL))
        self.best = found
        return self._told(Status.OPTIMAL, because(StorageWhy.NO_SMALLER))

    def _ended(self, reason: Reason) -> LeastDistribution:
        if self.best is None:
            return self._told(Status.UNKNOWN, reason)
        if self.exploration.size(self.best) == self.exploration.lower_bound:
            return self._told(Status.OPTIMAL, because(StorageWhy.NO_SMALLER))
        return self._told(Status.FEASIBLE, reason)

    def _told(self, status: Status, reason: Reason) -> LeastDistribution:
        size = None if self.best is None else self.exploration.size(self.best)
        is_least = size is not None and status == Status.OPTIMAL
        return LeastDistribution(
            capacities=self.best,
            size=size,
            lower_bound=size if is_least and size is not None else self.exploration.lower_bound,
            status=status,
            reason=reason,
        )

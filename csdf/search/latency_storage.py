"""The least storage for throughput and latency together, behind a source of a given rate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from csdf.analysis.consistency import repetition_vector
from csdf.analysis.latencies.by_dependency import dependency_distance
from csdf.analysis.latencies.release_paths import LongestPath, Pairing, ReleasePaths
from csdf.errors import CsdfError
from csdf.model.exact import Exact, exact
from csdf.model.graph import Graph
from csdf.model.shown import Shown
from csdf.model.space import space_channel
from csdf.outcome import Reason, Status, Why, because
from csdf.search.evaluator import Evaluation, Evaluator
from csdf.search.least import least_distribution
from csdf.search.pareto import ParetoPoint, relative_gap
from csdf.search.trade_off import EVERYTHING
from csdf.search.variables import Choice, Variable, prepared
from csdf.stopping import Budget, Progress, stop_of

SEARCHED = " (searched space)"


class LatencyWhy(Why):
    """Why no storage suffices."""

    TOO_FAST = "the graph sustains no shorter period than {period}, with any storage"
    TOO_LATE = "with any storage the latency is at least {latency}"
    STUCK = "the graph deadlocks with any storage"


@dataclass(frozen=True, slots=True, kw_only=True)
class LatencyStorage(Shown):
    """The smallest storage for a period and a latency, or what is known about it.

    point: size, the period that the storage sustains, and capacities; None unless some are known.
    latency: with these capacities behind a source of the required period, from the release of an
    iteration of the source to the end of the sink's iteration that needs it, `distance` later.
    status: `optimal` and `infeasible` are proved; no size below `lower_bound` suffices.
    """

    point: ParetoPoint | None
    latency: Fraction | None
    distance: int
    lower_bound: int
    status: Status
    reason: Reason
    evaluations: int

    @property
    def gap(self) -> Fraction | None:
        """How far the size may be above the smallest, relative to the lower bound."""
        return relative_gap(self.point, self.lower_bound)

    def to_json(self) -> dict[str, Any]:
        """Return the answer as a JSON value; fractions as texts."""
        point = self.point
        period = None if point is None or point.period is None else str(point.period)
        return {
            "size": None if point is None else point.size,
            "capacities": {} if point is None else dict(point.capacities),
            "period": period,
            "latency": None if self.latency is None else str(self.latency),
            "distance": self.distance,
            "status": self.status.value,
            "reason": str(self.reason),
            "lower_bound": self.lower_bound,
            "gap": None if self.gap is None else str(self.gap),
            "evaluations": self.evaluations,
        }


def storage_for_latency(
    graph: Graph,
    source: str,
    sink: str,
    *,
    period: Exact,
    latency: Exact,
    choice: Choice = EVERYTHING,
    budget: Budget = None,
) -> LatencyStorage:
    """Return the smallest storage with which a source of that period is answered in time.

    The source is released evenly, once an iteration in `period`; its iteration n is answered by
    iteration n + distance of the sink, the first that needs it, at most `latency` after its release
    (`dependency_latency` of `source_latency`). More room never makes a firing later, so that a path of
    firings that comes too late says which channels have to grow, as a cycle does that is too slow.
    budget: a stop, or seconds; where it ends the search the smallest storage by then is returned,
    with the bound. Raises InconsistentGraph, InvalidGraph, CsdfError as the arguments deserve.
    """
    numbers = [exact(one, name) for one, name in ((period, "period"), (latency, "latency"))]
    if numbers[0] <= 0:
        raise CsdfError(f"period {period}; expected more than 0")
    if choice.copies is not None:
        raise CsdfError(
            "latencies are those of the self-timed execution, not of periodic schedules"
        )
    stop = stop_of(budget)
    bare, variables, fixed_size = prepared(graph, choice)
    inner = Evaluator(
        bare,
        variables,
        with_self_loops=choice.with_self_loops,
        look=lambda: stop.look(Progress(done=inner.count)),
    )
    pairing = Pairing(
        source=source, sink=sink, distance=dependency_distance(inner.bare, source, sink)
    )
    evaluator = _Evaluator(inner, variables, pairing, *numbers)
    found = least_distribution(
        evaluator, variables, lambda one: one is not None, stop, refusal=evaluator.refusal
    )
    capacities = found.capacities
    named = dict(choice.fixed or {})
    for variable, capacity in zip(variables, capacities or (), strict=capacities is not None):
        named |= {channel.name: capacity for channel in variable.channels}
    point = evaluator.point(capacities, named, fixed_size, found.size)
    return LatencyStorage(
        point=point,
        latency=None if capacities is None else evaluator.latency(capacities).latency,
        distance=pairing.distance,
        lower_bound=found.lower_bound + fixed_size,
        status=found.status,
        reason=found.reason,
        evaluations=inner.count,
    )


class _Evaluator:
    """Distributions under both requirements: the period is None where one of them is not met."""

    def __init__(
        self,
        inner: Evaluator,
        variables: Sequence[Variable],
        pairing: Pairing,
        period: Fraction,
        latency: Fraction,
    ) -> None:
        graph = inner.bare
        self._inner = inner
        self._variables = variables
        self._period = period / graph.time_unit
        self._unit = graph.time_unit
        self._required = latency
        self._paths = ReleasePaths(graph, repetition_vector(graph), pairing, period)
        self._known: dict[tuple[int | None, ...], Evaluation] = {}

    @property
    def count(self) -> int:
        """Distributions evaluated so far."""
        return self._inner.count

    @property
    def firings(self) -> int:
        """Firings of one iteration."""
        return self._inner.firings

    def evaluate(self, capacities: tuple[int | None, ...]) -> Evaluation:
        """Return the period where it and the latency suffice, else None and what holds them back."""
        if capacities not in self._known:
            self._known[capacities] = self._evaluated(capacities)
        return self._known[capacities]

    def _evaluated(self, capacities: tuple[int | None, ...]) -> Evaluation:
        found = self._inner.evaluate(capacities)
        if found.period is None or found.period > self._period:
            return Evaluation(None, found.holding)
        path = self.latency(capacities)
        if path.latency <= self._required:
            return found
        named = set(path.channels)
        holding = [
            place
            for place, variable in enumerate(self._variables)
            if any(f"{channel.name}{SEARCHED}" in named for channel in variable.channels)
        ]
        return Evaluation(None, tuple(holding))

    def latency(self, capacities: Sequence[int | None]) -> LongestPath:
        """Return the latency with these capacities, which sustain the period."""
        spaces = [
            space_channel(channel, capacity, f"{channel.name}{SEARCHED}")
            for variable, capacity in zip(self._variables, capacities, strict=True)
            if capacity is not None
            for channel in variable.channels
        ]
        return self._paths.latency((*self._inner.bare.channels, *spaces))

    def refusal(self) -> Reason:
        """Return why no storage suffices."""
        nothing: tuple[None, ...] = (None,) * len(self._variables)
        period = self._inner.evaluate(nothing).period
        if period is None:
            return because(LatencyWhy.STUCK)
        if period > self._period:
            return because(LatencyWhy.TOO_FAST, period=period * self._unit)
        return because(LatencyWhy.TOO_LATE, latency=self.latency(nothing).latency)

    def point(
        self,
        capacities: Sequence[int] | None,
        named: dict[str, int],
        fixed_size: int,
        size: int | None,
    ) -> ParetoPoint | None:
        """Return the distribution as a point, with the period that it sustains."""
        if capacities is None or size is None:
            return None
        period = self._inner.evaluate(tuple(capacities)).period
        return ParetoPoint(
            size=size + fixed_size,
            period=None if period is None else period * self._unit,
            capacities=named,
        )

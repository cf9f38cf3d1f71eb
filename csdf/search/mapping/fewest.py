"""The fewest processors on which a graph reaches a required period."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from csdf.analysis.liveness import deadlock
from csdf.analysis.mapping.throughput import MappedThroughput, mapped_throughput
from csdf.errors import CsdfError, Deadlocked
from csdf.model.exact import Exact, exact
from csdf.model.graph import Graph
from csdf.model.mapping import Core, Mapping, Platform
from csdf.model.shown import Shown
from csdf.outcome import Reason, Status, Why, because
from csdf.search.mapping.modulo import mapping_of, modulo_schedule
from csdf.search.mapping.problem import (
    MappingProblem,
    fewest_by_load,
    lower_bound,
    mapping_problem,
)
from csdf.search.mapping.search import (
    EXACT_FIRINGS,
    SECONDS,
    TRIES,
    allowed,
    by_load,
    loads_of,
    prover,
)
from csdf.time_limit import ENDS, Budget, Progress, Stop, reason_of, stop_of


class FewestWhy(Why):
    """Why the search for the fewest processors ended by itself."""

    NO_FEWER = "no fewer processors suffice, in orders of one iteration"
    TOO_SLOW = "no mapping onto these processors has a period below {bound}"
    NONE_AT_ALL = "no orders of one iteration on these processors have that period"
    NO_MORE_TRIES = "nothing better was found in {tries} bindings"


@dataclass(frozen=True, slots=True, kw_only=True)
class FewestProcessors(Shown):
    """The fewest processors for a required period, or what is known about them.

    mapping, found: onto `count` processors of the platform, and its throughput; None where no mapping
    is fast enough, or none is known. status: `optimal` where no fewer suffice in static orders of one
    iteration, whatever their prefixes; `infeasible` where not even all of them do. At least
    `lower_bound` processors are needed.
    """

    mapping: Mapping | None
    found: MappedThroughput | None
    count: int | None
    lower_bound: int
    status: Status
    reason: Reason

    def to_json(self) -> dict[str, Any]:
        """Return the answer as a JSON value."""
        return {
            "goal": "processors",
            "size": self.count,
            "unit": "processors",
            "lower_bound": self.lower_bound,
            "status": self.status.value,
            "reason": str(self.reason),
        }


def equal_processors(count: int) -> Platform:
    """Return a platform of so many equal processors, between which tokens move in no time."""
    cores = tuple(Core(name=f"p{number}") for number in range(count))
    return Platform(name="equal processors", cores=cores)


def fewest_processors(
    graph: Graph,
    platform: Platform | None = None,
    *,
    period: Exact,
    budget: Budget = SECONDS,
    seed: int = 0,
) -> FewestProcessors:
    """Return the fewest processors of a platform with which the period is at most the given one.

    All actors are bound. platform: by default equal processors, as many as there are actors. Fewer and
    fewer processors are tried by load and modulo scheduling; for up to sixty firings an iteration a
    constraint program (OR-Tools, extra: cp) decides what that leaves open. budget: a stop, or
    seconds; where it ends the search the fewest found are returned, with the bound.
    Raises InvalidMapping, InconsistentGraph, and Deadlocked.
    """
    required = exact(period, "period")
    if required <= 0:
        raise CsdfError(f"period {period}; expected more than 0")
    blocked = deadlock(graph)
    if blocked is not None:
        raise Deadlocked(f"graph {graph.name!r} deadlocks, however it is mapped: {blocked}")
    target = equal_processors(len(graph.actors)) if platform is None else platform
    return _Search(mapping_problem(graph, target), required, stop_of(budget), seed).answer()


class _Search:
    """The fewest processors so far, and the bound."""

    def __init__(self, problem: MappingProblem, required: Fraction, stop: Stop, seed: int) -> None:
        self.problem = problem
        self.required = required
        self.period = required / problem.time_unit
        self.stop = stop
        self.random = random.Random(seed)
        self.fewest = 1
        self.best: tuple[Mapping, MappedThroughput] | None = None
        self.tries = 0

    def answer(self) -> FewestProcessors:
        bound = lower_bound(self.problem)
        if bound > self.period:
            reason = because(FewestWhy.TOO_SLOW, bound=bound * self.problem.time_unit)
            return self._told(Status.INFEASIBLE, reason)
        self.fewest = fewest_by_load(self.problem, self.period)
        try:
            self._improve()
            self._prove()
        except ENDS as end:
            return self._told(Status.GAVE_UP, reason_of(end))
        if self.best is None and self.fewest > len(self.problem.platform.cores):
            return self._told(Status.INFEASIBLE, because(FewestWhy.NONE_AT_ALL))
        return self._told(Status.GAVE_UP, because(FewestWhy.NO_MORE_TRIES, tries=self.tries))

    def _told(self, status: Status, reason: Reason) -> FewestProcessors:
        mapping, found = self.best or (None, None)
        count = None if mapping is None else len(mapping.orders)
        if count is not None and count <= self.fewest:
            status, reason = Status.OPTIMAL, because(FewestWhy.NO_FEWER)
        elif count is not None:
            status = Status.FEASIBLE
        return FewestProcessors(
            mapping=mapping,
            found=found,
            count=count,
            lower_bound=self.fewest,
            status=status,
            reason=reason,
        )

    @property
    def _most(self) -> int:
        """How many processors there is still a question about, beyond the fewest."""
        cores = len(self.problem.platform.cores)
        return cores if self.best is None else len(self.best[0].orders) - 1

    def _look(self) -> None:
        known = "none" if self.best is None else str(len(self.best[0].orders))
        text = f"processors: at least {self.fewest}, found {known}"
        self.stop.look(Progress(done=self.tries, at=text))

    def _improve(self) -> None:
        """Try the fewest that the loads allow, then more; where cores differ, leave out one by one."""
        problem = self.problem
        cores = range(len(problem.platform.cores))
        if problem.has_equal_cores and not problem.platform.connections:
            for count in range(self.fewest, len(cores) + 1):
                if self._try_on(cores[:count]):
                    return
            return
        if self._try_on(cores):
            while any(self._try_on(rest) for rest in self._without_one()):
                pass

    def _without_one(self) -> Iterator[list[int]]:
        """Yield the processors of the best mapping without one of them, as long as these may do."""
        used = self._used()
        for core in used if len(used) > self.fewest else ():
            rest = [one for one in used if one != core]
            if all(allowed(self.problem, a, rest) for a in range(len(self.problem.actors))):
                yield rest

    def _used(self) -> list[int]:
        if self.best is None:
            raise AssertionError("a mapping was found")
        names = [core.name for core in self.problem.platform.cores]
        return sorted(names.index(core) for core in self.best[0].orders)

    def _try_on(self, cores: Sequence[int]) -> bool:
        """Look for a mapping of the required period onto these processors."""
        binding = by_load(self.problem, cores)
        least = Fraction(max(loads_of(self.problem, binding)))
        for attempt in range(TRIES):
            self._look()
            trial = binding if not attempt else self._neighbour(binding, cores)
            load = Fraction(max(loads_of(self.problem, trial)))
            if load <= max(least, self.period):
                binding, least = trial, load
            if load <= self.period and self._schedule(trial):
                return True
        return False

    def _neighbour(self, binding: tuple[int, ...], cores: Sequence[int]) -> tuple[int, ...]:
        """Return the binding with one actor moved, or two exchanged."""
        found = list(binding)
        one, other = (self.random.randrange(len(found)) for _ in range(2))
        own, its = (allowed(self.problem, actor, cores) for actor in (one, other))
        if found[other] in own and found[one] in its and self.random.random() < 0.5:
            found[one], found[other] = found[other], found[one]
        else:
            found[one] = self.random.choice(own)
        return tuple(found)

    def _schedule(self, binding: tuple[int, ...]) -> bool:
        self.tries += 1
        starts = modulo_schedule(self.problem, binding, self.period, self._look)
        return starts is not None and self._keep(binding, starts)

    def _keep(self, binding: Sequence[int], starts: Sequence[int]) -> bool:
        """Judge a schedule; keep it if it is fast enough, and on fewer processors than the best."""
        problem = self.problem
        mapping = mapping_of(problem, binding, starts, self.period.numerator)
        found = mapped_throughput(problem.graph, problem.platform, mapping, budget=self.stop)
        if found.period is None or found.period > self.required:
            return False
        if self.best is None or len(mapping.orders) < len(self.best[0].orders):
            self.best = (mapping, found)
        return True

    def _prove(self) -> None:
        """Ask the constraint program for ever more processors, from the fewest that may suffice on."""
        find_mapping = prover()
        if find_mapping is None or len(self.problem.firings) > EXACT_FIRINGS:
            return
        while self.fewest <= self._most:
            self._look()
            found = find_mapping(
                self.problem, self.period, self.stop.seconds_left, most_cores=self.fewest
            )
            if found.starts is None:
                if not found.is_proved:
                    return
                self.fewest += 1
            elif not self._keep(found.binding, found.starts):
                return

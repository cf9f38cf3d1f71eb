"""The search for a mapping: which processor executes what, and in which order, for the least period."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from importlib import import_module
from importlib.util import find_spec
from math import ceil
from typing import Any

from csdf.analysis.liveness import deadlock
from csdf.analysis.mapping.throughput import MappedThroughput, mapped_throughput
from csdf.errors import Deadlocked, GaveUp
from csdf.model.graph import Graph
from csdf.model.mapping import Mapping, Platform
from csdf.model.shown import Shown
from csdf.outcome import Status, told
from csdf.search.mapping.modulo import mapping_of, modulo_schedule
from csdf.search.mapping.problem import MappingProblem, lower_bound, mapping_problem
from csdf.time_limit import ENDS, Budget, Progress, Stop, stop_of

EXACT_FIRINGS = 60  # of an iteration; beyond, no proof is tried
FIRST = 2  # times the load: the period of the first schedule
STEPS = 24  # periods that are tried for one binding
TRIES = 400  # bindings that are tried without an improvement
SECONDS = 60.0  # of a search, unless told otherwise


@dataclass(frozen=True, slots=True, kw_only=True)
class BestMapping(Shown):
    """The best mapping that a search found.

    status: `optimal` where no mapping with static orders of one iteration, whatever their prefixes, has
    a smaller period; `feasible` with the gap to `lower_bound`. Times in units of the user.
    """

    mapping: Mapping
    found: MappedThroughput
    lower_bound: Fraction
    status: Status

    @property
    def period(self) -> Fraction:
        """Time of one iteration."""
        return self.found.period or Fraction(0)

    @property
    def gap(self) -> Fraction | None:
        """How much longer than the bound the period is, as a part of the bound."""
        bound = self.lower_bound
        return (self.period - bound) / bound if bound else None

    def to_json(self) -> dict[str, Any]:
        """Return the answer as a JSON value; fractions as texts."""
        return {
            **self.found.to_json(),
            "lower_bound": str(self.lower_bound),
            "gap": None if self.gap is None else str(self.gap),
            "status": self.status.value,
            "mapping": self.mapping.to_json(),
        }


def best_mapping(
    graph: Graph,
    platform: Platform,
    *,
    budget: Budget = SECONDS,
    seed: int = 0,
) -> BestMapping:
    """Search for the mapping with the smallest period; all actors are bound.

    First processors by load and orders by modulo scheduling, then other processors for single actors;
    each mapping is judged by `mapped_throughput`. For up to sixty firings an iteration a constraint
    program (OR-Tools, extra: cp) then looks for smaller periods, until it proves that there are none.
    budget: a stop, or seconds; an interrupt ends the search too, with the best mapping so far. seed:
    of the random choices.
    Raises InvalidMapping, InconsistentGraph, and Deadlocked.
    """
    blocked = deadlock(graph)
    if blocked is not None:
        raise Deadlocked(f"graph {graph.name!r} deadlocks, however it is mapped: {blocked}")
    search = _Search(graph, platform, stop_of(budget), seed)
    try:
        search.improve()
        search.prove()
    except ENDS:
        if search.best is None:
            raise
    return search.answer()


class _Search:
    """The best mapping so far, and the bound."""

    def __init__(self, graph: Graph, platform: Platform, stop: Stop, seed: int) -> None:
        self.problem = mapping_problem(graph, platform)
        self.bound = lower_bound(self.problem)
        self.stop = stop
        self.random = random.Random(seed)
        self.best: tuple[Fraction, Mapping, MappedThroughput] | None = None
        self.best_binding: tuple[int, ...] = ()
        self.tries = 0

    def _look(self) -> None:
        """End the work in time, once there is an answer."""
        if self.best is not None:
            best, bound = (
                Decimal(one.numerator) / one.denominator for one in (self.best[0], self.bound)
            )
            text = f"period {best:.6g}, bound {bound:.6g}, in units of {self.problem.time_unit}"
            self.stop.look(Progress(done=self.tries, at=text))

    def answer(self) -> BestMapping:
        if self.best is None:
            raise AssertionError("the first binding always has a mapping")
        period, mapping, found = self.best
        unit = self.problem.time_unit
        return BestMapping(
            mapping=mapping,
            found=found,
            lower_bound=self.bound * unit,
            status=Status.OPTIMAL if period == self.bound else Status.FEASIBLE,
        )

    def improve(self) -> None:
        """Have an answer at once; then try bindings by load, and ones that differ from the best."""
        first = by_load(self.problem)
        least = FIRST * max(self.bound, Fraction(max(loads_of(self.problem, first))))
        if not least or not self._schedule(first, least):
            self._schedule_in_turn(first)
        if self.best is None:
            raise GaveUp(told("no static orders were found"))
        self._try(first)
        idle = 0
        while self._may_improve() and idle < TRIES:
            self._look()
            idle = 0 if self._try(self._neighbour()) else idle + 1

    def _may_improve(self) -> bool:
        return self.best is None or self.best[0] > self.bound

    def _neighbour(self) -> tuple[int, ...]:
        """Return the best binding with one actor moved, or two exchanged."""
        binding = list(self.best_binding)
        actor = self.random.randrange(len(binding))
        other = self.random.randrange(len(binding))
        cores = self.problem.cores_of(actor)
        can_swap = binding[other] in cores and binding[actor] in self.problem.cores_of(other)
        if can_swap and self.random.random() < 0.5:
            binding[actor], binding[other] = binding[other], binding[actor]
        else:
            binding[actor] = self.random.choice(cores)
        return tuple(binding)

    def _try(self, binding: tuple[int, ...]) -> bool:
        """Schedule a binding for the least period that works; return whether it is a new best."""
        load = max(loads_of(self.problem, binding))
        if self.best is not None and load >= self.best[0]:
            return False
        for period in self._periods(max(self.bound, Fraction(load))):
            if self._schedule(binding, period):
                return True
        return False

    def _schedule(self, binding: tuple[int, ...], period: Fraction) -> bool:
        """Look for a schedule of that period; return whether it made a new best."""
        self.tries += 1
        starts = modulo_schedule(self.problem, binding, period, self._look)
        return starts is not None and self._keep(binding, starts, period)

    def _periods(self, least: Fraction) -> Iterator[Fraction]:
        """Yield periods from the least one on, ever further apart, below the best so far."""
        most = self.best[0] if self.best is not None else None
        step = Fraction(1, 64)
        period = least = least or Fraction(1)
        for _ in range(STEPS):
            if most is not None and period >= most:
                return
            yield period
            period = Fraction(ceil(least * (1 + step)))
            step = step * 3 / 2

    def _schedule_in_turn(self, binding: tuple[int, ...]) -> None:
        """Keep a schedule with a period in which one firing and one token can follow another.

        Firings without a duration take their turn too: at the same time they would have no order.
        """
        works = tuple(
            tuple(None if work is None else tuple(time or 1 for time in work) for work in row)
            for row in self.problem.works
        )
        problem = replace(self.problem, works=works)
        work = sum(problem.duration(f, binding[a]) for f, (a, _) in enumerate(problem.firings))
        sent = sum(
            problem.delay(one.channel, *(binding[problem.firings[f][0]] for f in one[:2]))
            for one in problem.dependencies
        )
        period = Fraction(2 * (work + sent) + 1)
        starts = modulo_schedule(problem, binding, period, self._look)
        if starts is not None:
            self._keep(binding, starts, period)

    def _keep(self, binding: tuple[int, ...], starts: Sequence[int], period: Fraction) -> bool:
        """Judge a schedule; keep it if it is better than the best."""
        mapping = mapping_of(self.problem, binding, starts, period.numerator)
        found = mapped_throughput(
            self.problem.graph,
            self.problem.platform,
            mapping,
            budget=self.stop if self.best else None,
        )
        if found.period is None:
            return False
        reached = found.period / self.problem.time_unit
        if self.best is not None and reached >= self.best[0]:
            return False
        self.best = (reached, mapping, found)
        self.best_binding = binding
        return True

    def prove(self) -> None:
        """Look for the next smaller period that a cycle can have, until there is none.

        A cycle's time is a sum of durations of firings that it visits once, and a period is at least
        the load shared by all processors, so that a cycle spans few iterations.
        """
        connections = self.problem.platform.connections
        if len(self.problem.firings) > EXACT_FIRINGS or not all(
            c.is_pipelined for c in connections
        ):
            return
        find_mapping = prover()
        if find_mapping is None:
            return
        while self.best is not None and self._may_improve():
            self._look()
            candidate = self._next_smaller(self.best[0])
            if not candidate:  # no program says whether all can happen at once
                return
            if candidate < self.bound:
                self.bound = self.best[0]
                return
            found = find_mapping(self.problem, candidate, self.stop.seconds_left)
            if found.starts is None:
                if found.is_proved:
                    self.bound = self.best[0]
                return
            if not self._keep(found.binding, found.starts, candidate):
                return

    def _next_smaller(self, period: Fraction) -> Fraction:
        """Return the largest period below this one that some cycle can set."""
        work = self._most_time()
        most = int(work / self.bound) if self.bound else 1
        return max(Fraction(ceil(period * span) - 1, span) for span in range(1, max(1, most) + 1))

    def _most_time(self) -> Fraction:
        """Return more than the time on any cycle that visits each firing and transfer once."""
        problem = self.problem
        cores = range(len(problem.platform.cores))
        work = sum(
            max(problem.duration(f, c) for c in problem.cores_of(actor))
            for f, (actor, _) in enumerate(problem.firings)
        )
        sent = sum(
            max(problem.delay(one.channel, a, b) for a in cores for b in cores)
            for one in problem.dependencies
        )
        return Fraction(work + sent)


def prover() -> Callable[..., Any] | None:
    """Return the search for a mapping of a given period; None where OR-Tools is not installed."""
    if find_spec("ortools") is None:
        return None
    found: Callable[..., Any] = import_module("csdf.search.mapping.exact").find_mapping
    return found


def by_load(problem: MappingProblem, cores: Collection[int] | None = None) -> tuple[int, ...]:
    """Bind the actors with the most work first, each where it ends the earliest.

    cores: processors that may be used, on which each actor can run somewhere; by default all.
    """
    loads = [0] * len(problem.platform.cores)
    binding = [0] * len(problem.actors)
    choices = [allowed(problem, actor, cores) for actor in range(len(binding))]
    work = {a: min(problem.load(a, c) for c in choices[a]) for a in range(len(binding))}
    for actor in sorted(work, key=lambda one: (-work[one], one)):
        core = min(choices[actor], key=lambda c: (loads[c] + problem.load(actor, c), c))
        binding[actor] = core
        loads[core] += problem.load(actor, core)
    return tuple(binding)


def allowed(problem: MappingProblem, actor: int, cores: Collection[int] | None) -> list[int]:
    """Return the processors among these on which an actor can run."""
    return [core for core in problem.cores_of(actor) if cores is None or core in cores]


def loads_of(problem: MappingProblem, binding: Sequence[int]) -> list[int]:
    """Return how long each processor works in one iteration."""
    loads = [0] * len(problem.platform.cores)
    for actor, core in enumerate(binding):
        loads[core] += problem.load(actor, core)
    return loads

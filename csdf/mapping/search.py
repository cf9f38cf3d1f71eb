"""Mapping search: bindings by load and local moves, static orders by iterative modulo scheduling.

The objective is the smallest period, or the fewest processors that reach a required period. Each
schedule is checked by `mapped_throughput`. For small graphs, and if OR-Tools is installed, a constraint
program decides the cases that remain open.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from importlib import import_module
from importlib.util import find_spec
from math import ceil
from random import Random
from typing import Any, ClassVar, NamedTuple

from csdf.analysis.liveness import deadlock
from csdf.arguments import public
from csdf.errors import Deadlocked, GaveUp
from csdf.mapping.model import Core, Mapping, Platform
from csdf.mapping.modulo import mapping_of, modulo_schedule
from csdf.mapping.problem import MappingProblem, fewest_by_load, lower_bound, mapping_problem
from csdf.mapping.throughput import MappedThroughput, mapped_throughput
from csdf.model.exact import Exact, exact_above_zero
from csdf.model.graph import Graph
from csdf.model.shown import Shown
from csdf.status import Reason, Status, Why, because, told
from csdf.time_limit import ENDS, Budget, Progress, Stop, reason_of, stop_of

EXACT_FIRINGS = 60  # maximum firings of an iteration for the constraint program
FIRST = 2  # the period of the first schedule, in multiples of the load
STEPS = 24  # periods that are tried for one binding
TRIES = 400  # bindings without an improvement before the search ends
SECONDS = 60.0  # default time limit


class FewestWhy(Why):
    """Why the search for the fewest processors ended by itself."""

    NO_FEWER = "no fewer processors suffice, in orders of one iteration"
    TOO_SLOW = "no mapping onto these processors has a period below {bound}"
    NONE_AT_ALL = "no orders of one iteration on these processors have that period"
    NO_MORE_TRIES = "nothing better was found in {tries} bindings"


@dataclass(frozen=True, slots=True, kw_only=True)
class BestMapping(Shown):
    """The best mapping of a search, and its throughput (`found`).

    status: `optimal` if no mapping with static orders of one iteration, with any prefixes, has a
    smaller period; else `feasible`, with the gap to `lower_bound`. Times in units of the user.
    """

    JSON: ClassVar[tuple[str, ...]] = ("lower_bound", "gap", "status", "mapping")

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
        """The period less the bound, divided by the bound."""
        bound = self.lower_bound
        return (self.period - bound) / bound if bound else None

    def to_json(self) -> Any:
        """Return the answer as a JSON value, the throughput first."""
        return self.found.to_json() | Shown.to_json(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class FewestProcessors(Shown):
    """The fewest processors for a required period, or bounds on their number.

    mapping, found: a mapping onto `count` processors of the platform, and its throughput; None if no
    mapping is fast enough, or none is known. status: `optimal` if fewer processors do not suffice for
    static orders of one iteration, with any prefixes; `infeasible` if all processors do not suffice. At
    least `lower_bound` processors are needed.
    """

    JSON: ClassVar[tuple[str, ...]] = (
        "goal", "size=count", "unit", "lower_bound", "status", "reason",
    )  # fmt: skip
    goal: ClassVar[str] = "processors"
    unit: ClassVar[str] = "processors"

    mapping: Mapping | None
    found: MappedThroughput | None
    count: int | None
    lower_bound: int
    status: Status
    reason: Reason


@public
def best_mapping(
    graph: Graph, platform: Platform, *, budget: Budget = SECONDS, seed: int = 0
) -> BestMapping:
    """Search for the mapping with the smallest period; all actors are bound.

    A first binding by load and static orders by modulo scheduling are improved by local moves. For up
    to sixty firings per iteration, a constraint program (OR-Tools, extra: cp) then searches smaller
    periods, until it proves that none is feasible. budget: a stop, or seconds; if it or Ctrl-C ends
    the search, the best mapping so far is returned. seed: of the random choices. Raises
    InvalidMapping, InconsistentGraph, and Deadlocked; before a first mapping, GaveUp if no static
    orders are computed, and KeyboardInterrupt.
    """
    _require_live(graph)
    search = _LeastPeriod(mapping_problem(graph, platform), stop_of(budget), seed)
    try:
        search.improve()
        search.prove()
    except ENDS:
        if search.best is None:
            raise
    return search.answer()


@public
def fewest_processors(
    graph: Graph,
    platform: Platform | None = None,
    *,
    period: Exact,
    budget: Budget = SECONDS,
    seed: int = 0,
) -> FewestProcessors:
    """Return the fewest processors of a platform with which the period is at most the given one.

    All actors are bound. platform: by default one processor for each actor, all equal. Numbers of
    processors are tried by load and modulo scheduling; for up to sixty firings per iteration, a
    constraint program (OR-Tools, extra: cp) decides the remaining numbers. budget: a stop, or seconds;
    if it ends the search, the smallest number so far and the bound are returned. Raises InvalidMapping,
    InconsistentGraph, and Deadlocked.
    """
    required = exact_above_zero(period, "period")
    _require_live(graph)
    target = equal_processors(len(graph.actors)) if platform is None else platform
    return _Fewest(mapping_problem(graph, target), stop_of(budget), seed, required).answer()


def largest_below(value: Fraction, denominator: int) -> Fraction:
    """Return the largest fraction below the value whose denominator is at most the given one.

    The predecessor in the Farey sequence: of neighbours p/q < a/b the difference aq - bp is 1.
    """
    a, b = value.numerator, value.denominator
    if b > denominator:
        return max(Fraction(ceil(value * q) - 1, q) for q in range(1, denominator + 1))
    # aq - bp = 1 means q = a^-1 (mod b): the largest such q within the limit is the neighbour.
    inverse = pow(a, -1, b) if b > 1 else 0
    q = denominator - (denominator - inverse) % b
    return Fraction(a * q - 1, b * q)


def equal_processors(count: int) -> Platform:
    """Return a platform of this many equal processors, between which tokens move in no time."""
    cores = tuple(Core(name=f"p{number}") for number in range(count))
    return Platform(name="equal processors", cores=cores)


def prover() -> Callable[..., Any] | None:
    """Return the search for a mapping of a given period; None where OR-Tools is not installed."""
    if find_spec("ortools") is None:
        return None
    solver: Callable[..., Any] = import_module("csdf.mapping.exact").find_mapping
    return solver


def _require_live(graph: Graph) -> None:
    blocked = deadlock(graph)
    if blocked is not None:
        raise Deadlocked(f"graph {graph.name!r} deadlocks, however it is mapped: {blocked}")


class _CheckedMapping(NamedTuple):
    """A mapping, and its throughput in its own static orders."""

    mapping: Mapping
    throughput: MappedThroughput


class _MappingSearch(ABC):
    """Searches bindings and their static orders; holds the best mapping so far."""

    def __init__(self, problem: MappingProblem, stop: Stop, seed: int) -> None:
        self.problem, self.stop, self.random = problem, stop, Random(seed)
        self.bound = lower_bound(problem)  # of the period, in time units of the problem
        self.best: _CheckedMapping | None = None
        self.tries = 0

    @abstractmethod
    def look(self) -> None:
        """Look at the stop and report progress."""

    @abstractmethod
    def keep(self, binding: Sequence[int], starts: Sequence[int], period: Fraction) -> bool:
        """Check a schedule and store it if it is the best; return whether it is."""

    def checked(
        self, binding: Sequence[int], starts: Sequence[int], period: Fraction, stop: Stop | None
    ) -> _CheckedMapping | None:
        """Return the mapping of a schedule; None if the prefix of an order would be too long."""
        problem = self.problem
        mapping = mapping_of(problem, binding, starts, period.numerator)
        if mapping is None:
            return None
        throughput = mapped_throughput(problem.graph, problem.platform, mapping, budget=stop)
        return _CheckedMapping(mapping, throughput)

    def schedule(self, binding: Sequence[int], period: Fraction) -> bool:
        """Search a schedule of this period and store it if it is the best; return whether it is."""
        self.tries += 1
        starts = modulo_schedule(self.problem, binding, period, self.look)
        return starts is not None and self.keep(binding, starts, period)

    def by_load(self, cores: Collection[int]) -> tuple[int, ...]:
        """Bind the actors by decreasing times, each to the processor that finishes it earliest.

        cores: permitted processors; each actor can run on at least one of them.
        """
        problem = self.problem
        loads = [0] * len(problem.platform.cores)
        binding = [0] * len(problem.actors)
        choices = [self.allowed(actor, cores) for actor in range(len(binding))]
        work = [
            min(problem.load(actor, core) for core in cores_of_actor)
            for actor, cores_of_actor in enumerate(choices)
        ]
        for actor in sorted(range(len(work)), key=lambda actor: (-work[actor], actor)):
            # List scheduling, longest processing time first, for heterogeneous processors.
            core = min(
                choices[actor], key=lambda core: (loads[core] + problem.load(actor, core), core)
            )
            binding[actor] = core
            loads[core] += problem.load(actor, core)
        return tuple(binding)

    def largest_load(self, binding: Sequence[int]) -> Fraction:
        """Return the load of the busiest processor: the time of its firings in one iteration."""
        loads = [0] * len(self.problem.platform.cores)
        for actor, core in enumerate(binding):
            loads[core] += self.problem.load(actor, core)
        return Fraction(max(loads))

    def neighbour(self, binding: Sequence[int], cores: Collection[int]) -> tuple[int, ...]:
        """Return a neighbouring binding: an actor moved to another processor, or two exchanged."""
        neighbour = list(binding)
        first, second = (self.random.randrange(len(neighbour)) for _ in range(2))
        first_cores, second_cores = (self.allowed(actor, cores) for actor in (first, second))
        if (
            neighbour[second] in first_cores
            and neighbour[first] in second_cores
            and self.random.random() < 0.5
        ):
            neighbour[first], neighbour[second] = neighbour[second], neighbour[first]
        else:
            neighbour[first] = self.random.choice(first_cores)
        return tuple(neighbour)

    def allowed(self, actor: int, cores: Collection[int]) -> list[int]:
        """Return the processors among these on which an actor can run."""
        return [core for core in self.problem.cores_of(actor) if core in cores]


class _LeastPeriod(_MappingSearch):
    """The mapping with the smallest period so far, and the bound."""

    def __init__(self, problem: MappingProblem, stop: Stop, seed: int) -> None:
        super().__init__(problem, stop, seed)
        self.cores = range(len(problem.platform.cores))
        self.period: Fraction | None = None  # of the best, in time units of the problem
        self.binding: tuple[int, ...] = ()

    def look(self) -> None:
        """Look at the stop, which may end the search only after a first mapping."""
        if self.period is not None:
            best, bound = (
                Decimal(value.numerator) / value.denominator for value in (self.period, self.bound)
            )
            text = f"period {best:.6g}, bound {bound:.6g}, in units of {self.problem.time_unit}"
            self.stop.look(Progress(done=self.tries, at=text))

    def answer(self) -> BestMapping:
        if self.best is None:
            raise AssertionError("the first binding always has a mapping")
        return BestMapping(
            mapping=self.best.mapping,
            found=self.best.throughput,
            lower_bound=self.bound * self.problem.time_unit,
            status=Status.OPTIMAL if self.period == self.bound else Status.FEASIBLE,
        )

    def improve(self) -> None:
        """Schedule the binding by load; then try neighbours of the best binding."""
        first = self.by_load(self.cores)
        minimum = FIRST * max(self.bound, self.largest_load(first))
        if not minimum or not self.schedule(first, minimum):
            self._schedule_sequentially(first)
        if self.best is None:
            raise GaveUp(told("no static orders were found"))
        self._try(first)
        idle = 0
        while self._may_improve() and idle < TRIES:
            self.look()
            idle = 0 if self._try(self.neighbour(self.binding, self.cores)) else idle + 1

    def _may_improve(self) -> bool:
        return self.period is None or self.period > self.bound

    def _try(self, binding: tuple[int, ...]) -> bool:
        """Schedule a binding for its smallest period; return whether it improves the best answer."""
        load = self.largest_load(binding)
        if self.period is not None and load >= self.period:
            return False
        return any(
            self.schedule(binding, period) for period in self._periods(max(self.bound, load))
        )

    def _periods(self, minimum: Fraction) -> Iterator[Fraction]:
        """Yield periods from the lower bound to the best period so far, at growing distances."""
        maximum = self.period
        step = Fraction(1, 64)
        period = minimum = minimum or Fraction(1)
        for _ in range(STEPS):
            if maximum is not None and period >= maximum:
                return
            yield period
            period = Fraction(ceil(minimum * (1 + step)))
            step = step * 3 / 2

    def _schedule_sequentially(self, binding: tuple[int, ...]) -> None:
        """Schedule with a period long enough for all firings and transfers in sequence.

        Firings of zero time count as one unit: simultaneous firings would have no order.
        """
        works = tuple(
            tuple(None if work is None else tuple(time or 1 for time in work) for work in row)
            for row in self.problem.works
        )
        problem = replace(self.problem, works=works)
        work = sum(problem.duration(f, binding[a]) for f, (a, _) in enumerate(problem.firings))
        sent = sum(
            problem.delay(
                dependency.channel, *(binding[problem.firings[f][0]] for f in dependency[:2])
            )
            for dependency in problem.dependencies
        )
        period = Fraction(2 * (work + sent) + 1)
        starts = modulo_schedule(problem, binding, period, self.look)
        if starts is not None:
            self.keep(binding, starts, period)

    def keep(self, binding: Sequence[int], starts: Sequence[int], period: Fraction) -> bool:
        """Check a schedule and store it if it has the smallest period; return whether it has."""
        checked = self.checked(binding, starts, period, self.stop if self.best else None)
        if checked is None or checked.throughput.period is None:
            return False
        reached = checked.throughput.period / self.problem.time_unit
        if self.period is not None and reached >= self.period:
            return False
        self.period, self.best, self.binding = reached, checked, tuple(binding)
        return True

    def prove(self) -> None:
        """Search for the next smaller period that a cycle can have, until none is feasible.

        The period is the time of a simple cycle divided by the iterations that it spans. The time is at
        most `longest_time`. With this time and the fewest iterations for a smaller period, a cycle has
        at most the next smaller period, so no cycle of that period spans more iterations.
        """
        connections = self.problem.platform.connections
        is_pipelined = all(connection.is_pipelined for connection in connections)
        is_small = len(self.problem.firings) <= EXACT_FIRINGS
        find_mapping = prover() if is_small and is_pipelined else None
        if find_mapping is None:
            return
        while self.period is not None and self._may_improve():
            self.look()
            spans = int(self.problem.longest_time / self.period) + 1
            candidate = largest_below(self.period, spans)
            if not candidate:  # the constraint program needs a positive period
                return
            if candidate < self.bound:
                self.bound = self.period
                return
            solution = find_mapping(self.problem, candidate, self.stop.seconds_left)
            if solution.starts is None:
                if solution.is_proved:
                    self.bound = self.period
                return
            if not self.keep(solution.binding, solution.starts, candidate):
                return


class _Fewest(_MappingSearch):
    """The fewest processors so far, and the bound of their number."""

    def __init__(self, problem: MappingProblem, stop: Stop, seed: int, required: Fraction) -> None:
        super().__init__(problem, stop, seed)
        self.required = required  # in units of the user
        self.period = required / problem.time_unit
        self.fewest = 1

    def answer(self) -> FewestProcessors:
        if self.bound > self.period:
            reason = because(FewestWhy.TOO_SLOW, bound=self.bound * self.problem.time_unit)
            return self._result(Status.INFEASIBLE, reason)
        self.fewest = fewest_by_load(self.problem, self.period)
        try:
            self._improve()
            self._prove()
        except ENDS as end:
            return self._result(Status.UNKNOWN, reason_of(end))
        if self.best is None and self.fewest > len(self.problem.platform.cores):
            return self._result(Status.INFEASIBLE, because(FewestWhy.NONE_AT_ALL))
        return self._result(Status.UNKNOWN, because(FewestWhy.NO_MORE_TRIES, tries=self.tries))

    def _result(self, status: Status, reason: Reason) -> FewestProcessors:
        mapping, throughput_of_best = self.best or (None, None)
        count = self._count
        if count is not None and count <= self.fewest:
            status, reason = Status.OPTIMAL, because(FewestWhy.NO_FEWER)
        elif count is not None:
            status = Status.FEASIBLE
        return FewestProcessors(
            mapping=mapping, found=throughput_of_best, count=count, lower_bound=self.fewest,
            status=status, reason=reason,
        )  # fmt: skip

    @property
    def _count(self) -> int | None:
        """The number of processors of the best mapping."""
        return None if self.best is None else len(self.best.mapping.orders)

    def look(self) -> None:
        maximum = "none" if self._count is None else str(self._count)
        text = f"processors: at least {self.fewest}, found {maximum}"
        self.stop.look(Progress(done=self.tries, at=text))

    def _improve(self) -> None:
        """Try increasing numbers of equal processors; of unequal processors, remove one by one."""
        problem = self.problem
        cores = range(len(problem.platform.cores))
        if problem.has_equal_cores and not problem.platform.connections:
            for count in range(self.fewest, len(cores) + 1):
                if self._try_on(cores[:count]):
                    return
            return
        if self._try_on(cores):
            while any(self._try_on(remaining_cores) for remaining_cores in self._without_one()):
                pass

    def _without_one(self) -> Iterator[list[int]]:
        """Yield the processors of the best mapping without one of them, if these may suffice."""
        if self.best is None:
            raise AssertionError("a mapping was found")
        names = [core.name for core in self.problem.platform.cores]
        used = sorted(names.index(core) for core in self.best.mapping.orders)
        for core in used if len(used) > self.fewest else ():
            remaining_cores = [core_used for core_used in used if core_used != core]
            if all(
                self.allowed(actor, remaining_cores) for actor in range(len(self.problem.actors))
            ):
                yield remaining_cores

    def _try_on(self, cores: Sequence[int]) -> bool:
        """Search a mapping of the required period onto these processors."""
        binding = self.by_load(cores)
        minimum = self.largest_load(binding)
        for attempt in range(TRIES):
            self.look()
            trial = binding if not attempt else self.neighbour(binding, cores)
            load = self.largest_load(trial)
            if load <= max(minimum, self.period):
                binding, minimum = trial, load
            if load <= self.period and self.schedule(trial, self.period):
                return True
        return False

    def keep(self, binding: Sequence[int], starts: Sequence[int], period: Fraction) -> bool:
        """Check a schedule; store it if it uses fewer processors; return whether it is fast enough."""
        checked = self.checked(binding, starts, period, self.stop)
        reached = None if checked is None else checked.throughput.period
        if checked is None or reached is None or reached > self.required:
            return False
        if self.best is None or len(checked.mapping.orders) < len(self.best.mapping.orders):
            self.best = checked
        return True

    def _prove(self) -> None:
        """Solve the constraint program for increasing numbers of processors."""
        find_mapping = prover()
        if find_mapping is None or len(self.problem.firings) > EXACT_FIRINGS:
            return
        cores = len(self.problem.platform.cores)
        while self.fewest <= (cores if self._count is None else self._count - 1):
            self.look()
            solution = find_mapping(
                self.problem, self.period, self.stop.seconds_left, most_cores=self.fewest
            )
            if solution.starts is None:
                if not solution.is_proved:
                    return
                self.fewest += 1
            elif not self.keep(solution.binding, solution.starts, self.period):
                return

"""CP-SAT model of a mapping with a required period: bindings, static orders and prefixes."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from ortools.sat.python import cp_model

from csdf.mapping.problem import MappingProblem

MOST = 2**58  # of a number in a constraint: the solver refuses programs whose sums may pass 64 bits


@dataclass(frozen=True, slots=True, kw_only=True)
class Feasibility:
    """The answer for one period.

    starts: times the denominator of the period, or None. is_proved: if None, whether none exists.
    """

    binding: tuple[int, ...]
    starts: tuple[int, ...] | None
    is_proved: bool


def find_mapping(
    problem: MappingProblem,
    period: Fraction,
    seconds: float | None,
    *,
    most_cores: int | None = None,
) -> Feasibility:
    """Look for a binding and starts that repeat with the period.

    most_cores: how many processors may have actors. The space is complete for static orders with one
    iteration in each periodic list and any prefix: every such order has a schedule whose starts lie
    within the sum of all times. Connections are taken for pipelined, so that a proof holds for
    unpipelined ones, but starts need to be checked.
    """
    distance = max((abs(dependency.distance) for dependency in problem.dependencies), default=0)
    if 3 * _horizon(problem, period) + distance * period.numerator > MOST:
        return Feasibility(binding=(), starts=None, is_proved=False)
    model = _Model(problem, period)
    if most_cores is not None:
        model.limit_cores(most_cores)
    solver = cp_model.CpSolver()
    if seconds is not None:
        solver.parameters.max_time_in_seconds = seconds
    solver.parameters.num_workers = 1
    solver.parameters.random_seed = 1
    status = solver.solve(model.model)
    if status in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return Feasibility(
            binding=tuple(
                next(core for core, chosen in row.items() if solver.boolean_value(chosen))
                for row in model.bound
            ),
            starts=tuple(solver.value(start) for start in model.starts),
            is_proved=True,
        )
    return Feasibility(binding=(), starts=None, is_proved=status == cp_model.INFEASIBLE)


def _horizon(problem: MappingProblem, period: Fraction) -> int:
    """Upper bound on the starts of a periodic schedule, times the denominator of the period."""
    return problem.longest_time * period.denominator + period.numerator


class _Model:
    """The variables and constraints of one period."""

    def __init__(self, problem: MappingProblem, period: Fraction) -> None:
        self.problem = problem
        self.scale = period.denominator
        self.period = period.numerator
        self.model = cp_model.CpModel()
        self.bound = [
            {core: self.model.new_bool_var(f"b{actor},{core}") for core in problem.cores_of(actor)}
            for actor in range(len(problem.actors))
        ]
        for row in self.bound:
            self.model.add_exactly_one(row.values())
        self.horizon = _horizon(problem, period)
        self.starts: list[Any] = []
        self.lasting: list[Any] = []
        self.intervals: dict[int, list[Any]] = {c: [] for c in range(len(problem.platform.cores))}
        for firing in range(len(problem.firings)):
            self._add_firing(firing)
        for intervals in self.intervals.values():
            self.model.add_no_overlap(intervals)
        self._add_loads()
        for dependency in problem.dependencies:
            self._add_dependency(dependency)
        self._break_symmetry()

    def limit_cores(self, maximum: int) -> None:
        """Bind actors to this many processors at most."""
        used = {core: self.model.new_bool_var(f"u{core}") for core in self.intervals}
        for row in self.bound:
            for core, chosen in row.items():
                self.model.add_implication(chosen, used[core])
        self.model.add(sum(used.values()) <= maximum)

    def _add_firing(self, firing: int) -> None:
        model, problem = self.model, self.problem
        actor, _ = problem.firings[firing]
        stage = model.new_int_var(0, self.horizon // self.period, f"k{firing}")
        offset = model.new_int_var(0, self.period - 1, f"o{firing}")
        start = model.new_int_var(0, self.horizon + self.period, f"s{firing}")
        # Modulo scheduling: the resource constraint concerns the offset, the precedence the start.
        model.add(start == stage * self.period + offset)
        self.starts.append(start)
        durations = {c: problem.duration(firing, c) * self.scale for c in self.bound[actor]}
        self.lasting.append(sum(self.bound[actor][c] * time for c, time in durations.items()))
        for core, duration in durations.items():
            if not duration:
                continue
            for shift in (0, self.period):  # twice, so that what reaches beyond the period is seen
                self.intervals[core].append(
                    model.new_optional_fixed_size_interval_var(
                        offset + shift,
                        duration,
                        self.bound[actor][core],
                        f"i{firing},{core},{shift}",
                    )
                )

    def _add_loads(self) -> None:
        # Redundant with no-overlap, but it gives the linear relaxation the load of each processor.
        for core in self.intervals:
            self.model.add(
                sum(
                    row[core] * self.problem.load(actor, core) * self.scale
                    for actor, row in enumerate(self.bound)
                    if core in row
                )
                <= self.period
            )

    def _add_dependency(self, one: Any) -> None:
        problem = self.problem
        before, after = (problem.firings[firing][0] for firing in (one.before, one.after))
        earliest = self.starts[one.before] + self.lasting[one.before] - one.distance * self.period
        self.model.add(self.starts[one.after] >= earliest)
        if before == after:
            return
        for source, leaving in self.bound[before].items():
            for target, arriving in self.bound[after].items():
                delay = problem.delay(one.channel, source, target) * self.scale
                if delay:
                    self.model.add(self.starts[one.after] >= earliest + delay).only_enforce_if(
                        leaving, arriving
                    )

    def _break_symmetry(self) -> None:
        """Take a new processor only after the earlier ones, where all processors are alike."""
        problem = self.problem
        if problem.platform.connections or not problem.has_equal_cores:
            return
        cores = range(len(problem.platform.cores))
        for actor, row in enumerate(self.bound):
            for core in cores:
                if core > actor:
                    # Of equal processors number c can only be opened by actor c or a later one.
                    self.model.add(row[core] == 0)
                elif core:
                    earlier = [self.bound[predecessor][core - 1] for predecessor in range(actor)]
                    self.model.add_bool_or([row[core].negated(), *earlier])

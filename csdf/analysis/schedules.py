"""Periodic schedules: start times that repeat, from the potentials of the cycle ratio."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import accumulate

from csdf.analysis.bound_channels import bound_channels
from csdf.analysis.components import Component
from csdf.analysis.consistency import cycle_vector, repetition_vector
from csdf.analysis.critical import named_cycle
from csdf.analysis.liveness import deadlock
from csdf.analysis.periodic import PeriodicProblem, PeriodicSolution, require_room
from csdf.analysis.self_timed import require_few
from csdf.analysis.throughput import Throughput
from csdf.arguments import Positive, public
from csdf.errors import GaveUp, counted
from csdf.model.graph import Graph
from csdf.model.indexed import indexed
from csdf.model.schedule import Firing, PeriodicSchedule
from csdf.time_limit import Budget, stop_of


@public
def strictly_periodic_schedule(graph: Graph) -> PeriodicSchedule | None:
    """Return the fastest schedule in which every cycle of an actor follows at equal distance.

    None if there is no such schedule; the graph may still be live, see `periodic_schedule`.
    Capacities count. Raises InconsistentGraph.
    Source: Bodin, Munier-Kordon, Dupont de Dinechin, Periodic schedules for cyclo-static dataflow,
    ESTIMedia 2013.
    """
    return periodic_schedule(graph, copies=1)


@public
def periodic_schedule(graph: Graph, *, copies: Positive | None = None) -> PeriodicSchedule | None:
    """Return a periodic schedule that reaches the graph's own period, or None for a deadlock.

    Each actor repeats as many of its cycles as the critical cycles need, no more. Capacities count.
    copies: the fastest schedule in which this many cycles of each actor repeat, or None if there is
    none; the graph itself may be faster. Raises InconsistentGraph.
    Source: Bodin et al., DAC 2016, section 4.
    """
    problem = _problem(graph)
    solution = _live_solution(problem, _copies(problem, 1 if copies is None else copies))
    while copies is None and not solution.is_exact:
        solution = _live_solution(problem, problem.refined(solution))
    return None if solution.period is None else _schedule(graph, problem, solution)


def _copies(problem: PeriodicProblem, maximum: int) -> list[int]:
    """The given number of cycles of each actor, but no more than it has in an iteration."""
    return [min(maximum, count) for count in problem.cycles]


@public
def periodic_throughput(graph: Graph, copies: Positive, *, budget: Budget = None) -> Throughput:
    """Return the least period of schedules in which this many cycles of each actor repeat.

    An upper bound: the graph is at least as fast, and the answer says where it is exact. It takes one
    computation, where the exact period may take many. Capacities count. Raises InconsistentGraph;
    GaveUp where there is no such schedule, though the graph may run, and where the budget ends it.
    Source: Bodin et al., ESTIMedia 2013 (1-periodic); DAC 2016 (K-periodic).
    """
    stop = stop_of(budget)
    problem = _problem(graph)
    layout = _copies(problem, copies)
    require_room(problem, layout)
    solution = _live_solution(problem, layout, stop)
    method = f"periodic-{copies}"
    if solution.period is None:
        if solution.is_exact:
            blocked = deadlock(graph, budget=stop)
            return Throughput(period=None, critical_cycle=None, deadlock=blocked, method=method)
        raise GaveUp(f"no schedule repeats {counted(copies, 'cycle')} of each actor; try more")
    actors, channels = range(len(problem.cycles)), range(len(problem.graph.producer))
    whole = Component(actors, channels, repeats=1, cycles=problem.cycles)
    time = solution.circuit.time * graph.time_unit
    cycle = named_cycle(problem.graph, whole, solution.circuit, time) if solution.period else None
    return Throughput(
        period=solution.period * graph.time_unit, critical_cycle=cycle, deadlock=None,
        method=method, is_exact=solution.is_exact,
    )  # fmt: skip


def _problem(graph: Graph) -> PeriodicProblem:
    return PeriodicProblem(indexed(bound_channels(graph)), list(cycle_vector(graph).values()))


def _live_solution(
    problem: PeriodicProblem, copies: Sequence[int], budget: Budget = None
) -> PeriodicSolution:
    """Solve; with zero durations first with unit times.

    A cycle of firings that wait for each other without tokens forbids every schedule. If it takes no
    time, its ratio is 0 to 0 and bounds no period; with unit times it is infeasible.
    """
    if 0 in problem.graph.duration:
        solution = problem.solve(copies, unit_times=True, budget=budget)
        if solution.period is None:
            return solution
    return problem.solve(copies, budget=budget)


def _schedule(
    graph: Graph, problem: PeriodicProblem, solution: PeriodicSolution
) -> PeriodicSchedule:
    period = solution.period or Fraction(0)
    # Starts are listed actor after actor: the phases of its first copy, of its second, ...
    sizes = [k * p for k, p in zip(solution.copies, problem.graph.phases, strict=True)]
    ends = list(accumulate(sizes))
    earliest = min(int(start) for start in solution.starts)
    scale = graph.time_unit / solution.scale
    starts = {
        actor.name: tuple(
            (int(start) - earliest) * scale for start in solution.starts[end - size : end]
        )
        for actor, size, end in zip(graph.actors, sizes, ends, strict=True)
    }
    recurrence = {
        actor.name: copies * period * graph.time_unit / cycles
        for actor, copies, cycles in zip(graph.actors, solution.copies, problem.cycles, strict=True)
    }
    return PeriodicSchedule(starts=starts, recurrence=recurrence, period=period * graph.time_unit)


def listed_firings(
    graph: Graph, schedule: PeriodicSchedule, *, iterations: int
) -> tuple[Firing, ...]:
    """Return the firings of the first iterations of a periodic schedule, by start time.

    Raises CsdfError where they are more than five million.
    """
    repetitions = repetition_vector(graph)
    require_few(sum(repetitions.values()) * iterations)
    firings = []
    for actor in graph.actors:
        for index in range(repetitions[actor.name] * iterations):
            start, phase = schedule.start(actor.name, index), index % actor.phases
            end = start + actor.durations[phase] * graph.time_unit
            firings.append(Firing(start=start, end=end, actor=actor.name, index=index, phase=phase))
    return tuple(sorted(firings))

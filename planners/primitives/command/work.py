"""The work of `csdf plan primitives`: primitives are timed, chosen, told and run."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator, Sequence
from importlib import import_module

from cnn2csdf.commands.cnn import chosen
from cnn2csdf.network import Network
from cnn2csdf.weights import Model
from csdf.cli import answers
from csdf.cli.frame import output
from csdf.cli.frame.long_work import stop_after
from csdf.outcome import Status
from csdf.stopping import ENDS, Stop, reason_of
from planners.primitives.command.answer import Report, as_json, as_text, plot
from planners.primitives.command.main import BUDGETS, PUBLISHED
from planners.primitives.command.profile import measured_run, profile_of
from planners.primitives.execution.as_plan import streaming_plan
from planners.primitives.profile import Profile
from planners.primitives.selection.accounting import as_published
from planners.primitives.selection.baselines import (
    Baseline,
    budgets,
    in_order,
    single_families,
)
from planners.primitives.selection.fronts import Pair
from planners.primitives.selection.greedy import greedy, greedy_pairs
from planners.primitives.selection.objective import Objective
from planners.primitives.selection.planning import Demand, SelectionAnswer, best_selection
from planners.primitives.selection.problem import SelectionProblem, selection_problem
from planners.primitives.selection.trade_off import TradeOff, trade_off
from planners.streaming.given.plan_text import format_plans


def work(options: argparse.Namespace) -> int:
    """Print the plan; return the exit code: 1 if none is within the limit, 3 if it gave up."""
    demand = Demand(
        objective=Objective(options.objective), memory=options.memory, nanoseconds=options.time
    )
    model = chosen.read(options, with_weights=options.run)
    try:
        profile = profile_of(model.network, options)
    except ENDS as end:
        print(
            f"csdf plan primitives: {Status.GAVE_UP}: {reason_of(end)} while measuring",
            file=sys.stderr,
        )
        return answers.GAVE_UP
    problem = selection_problem(model.network, profile)
    if options.accounting == PUBLISHED:
        problem = as_published(problem, model.network, demand.objective)
    report, front = _report(model, profile, problem, demand, options)
    print(json.dumps(as_json(report), indent=2) if options.json else as_text(report))
    if options.output:
        _write(options.output, model.network, report)
    if options.plot and front is not None:
        reached = greedy_pairs(front, budgets(front, BUDGETS))
        plot(options.plot, report._replace(front=report.front or front.pairs), tuple(reached))
    return _exit_code(report)


def _write(path: str, network: Network, report: Report) -> None:
    selection = report.answer.selection
    if selection is None:
        print(f"csdf plan primitives: {path} is not written: there is no plan", file=sys.stderr)
        return
    output.write("csdf plan primitives", path, format_plans([streaming_plan(network, selection)]))


def _report(
    model: Model,
    profile: Profile,
    problem: SelectionProblem,
    demand: Demand,
    options: argparse.Namespace,
) -> tuple[Report, TradeOff | None]:
    """The answer with all that is beside it, and the whole front, where it was found in time."""
    begin = time.perf_counter()
    stop = stop_after(options.budget, "selecting")
    answer, pairs = _answer(problem, demand, stop, options)
    seconds = time.perf_counter() - begin
    front = answer.front if options.solver == "dp" else _front(problem, demand, stop)
    run = None
    if options.run and answer.selection is not None:
        run = measured_run(model, answer.selection, options)
    report = Report(
        network=model.network,
        machine=profile.machine,
        demand=demand,
        answer=answer,
        baselines=() if front is None else _baselines(problem, demand, front, stop),
        front=pairs,
        shows_front=options.front,
        run=run,
        seconds=seconds,
    )
    return report, front


def _exit_code(report: Report) -> int:
    answer = report.answer
    if report.run is not None and not report.run.is_equal:
        return answers.NO
    if answer.selection is None or answer.status == Status.FEASIBLE:
        print(f"csdf plan primitives: {answer.status}: {answer.reason}", file=sys.stderr)
    if answer.selection is not None:
        return answers.ANSWERED
    return answers.GAVE_UP if answer.status == Status.GAVE_UP else answers.NO


def _answer(
    problem: SelectionProblem, demand: Demand, stop: Stop, options: argparse.Namespace
) -> tuple[SelectionAnswer, Sequence[Pair]]:
    """The answer, and the front where it is known."""
    if options.solver == "dp":
        answer = best_selection(problem, demand, stop)
        return answer, answer.front.pairs if answer.front is not None else ()
    solver = import_module("planners.primitives.selection.solver")
    answer = solver.solved_selection(problem, demand, stop)
    if not options.front:
        return answer, ()
    return answer, solver.solved_front(problem, demand.objective, BUDGETS, stop)


def _front(problem: SelectionProblem, demand: Demand, stop: Stop) -> TradeOff | None:
    """The whole front, if it is found in time."""
    try:
        return trade_off(problem, demand.objective, stop)
    except ENDS:
        return None


def _baselines(
    problem: SelectionProblem, demand: Demand, front: TradeOff, stop: Stop
) -> Sequence[Baseline]:
    """Return what others would choose, as far as that is found in time."""
    found: list[Baseline] = []
    try:
        found.extend(_each_baseline(problem, demand, front, stop))
    except ENDS:
        print("csdf plan primitives: not all of what others choose was found", file=sys.stderr)
    return found


def _each_baseline(
    problem: SelectionProblem, demand: Demand, front: TradeOff, stop: Stop
) -> Iterator[Baseline]:
    if demand.memory is not None:
        found = {
            "greedy": greedy(front, demand.memory),
            "in order": in_order(problem, demand.objective, demand.memory),
        }
        for name, selection in found.items():
            if selection is not None:
                yield Baseline(name=name, selection=selection)
    yield Baseline(name="time only", selection=front.selection(front.fastest))
    for one in single_families(problem, demand.objective, stop):
        yield Baseline(name=f"all {one.name}", selection=one.selection)

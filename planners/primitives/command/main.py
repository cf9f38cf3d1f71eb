"""`csdf plan primitives`: how each convolution is computed, for time and memory."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator, Sequence
from importlib import import_module

from cnn2csdf.commands.cnn import chosen
from cnn2csdf.commands.cnn import options as shared
from cnn2csdf.network import Network
from cnn2csdf.weights import Model
from csdf.cli import answers, parsers, pictures
from csdf.cli.frame import output
from csdf.cli.frame.long_work import stop_after
from csdf.errors import UnwritableFile
from csdf.outcome import Status
from csdf.stopping import ENDS, Stop, reason_of
from planners.primitives.command.answer import Report, as_json, as_text, plot
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
from planners.primitives.selection.planning import Demand, SelectionAnswer, best_selection
from planners.primitives.selection.problem import Objective, SelectionProblem, selection_problem
from planners.primitives.selection.trade_off import TradeOff, trade_off
from planners.streaming.given.plan_text import format_plans

PUBLISHED = "published"
BUDGETS = 50  # at which the solver gives its front, and the greedy choice is drawn


def main(argv: Sequence[str]) -> int:
    """Print the plan; return the exit code: 1 if none is within the limit, 3 if it gave up."""
    parser = command_parser()
    options = parser.parse_args(argv)
    if options.profile and options.save_profile:
        parser.error("--profile reads what --save-profile would measure and write; give one")
    pictures.require_drawing(options.plot)
    if options.output and pictures.suffix_of(options.output) != "json":
        raise UnwritableFile(f"{options.output}: expected .json")
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


def command_parser() -> argparse.ArgumentParser:
    """Return the parser of this command."""
    parser = parsers.new_parser(
        "csdf plan primitives",
        "Choose for each convolution how it is computed (direct, im2col, Winograd, ...) and in which "
        "layouts: the fastest network within a memory, or the smallest within a time, proved over "
        "all selections, from times measured on this machine or read from a table (after Wen et "
        "al., TASO, SBAC-PAD 2020). Without a limit: the fastest.",
        "csdf plan primitives resnet8 --memory 1MB --save-profile resnet8.csv --run",
        "csdf plan primitives resnet8 --profile resnet8.csv --front --plot front.svg",
        notes="Sizes: MB is 1,000,000 bytes and MiB 2^20; kB, KiB, GB, GiB and plain bytes too.",
    )
    shared.add_model_options(parser)
    _add_question_options(parser)
    _add_profile_options(parser)
    parsers.add_json_option(parser)
    parsers.add_plot_option(parser, "the front")
    parsers.add_output_option(
        parser, "the plan: maps, changed maps and workspaces in one arena, in JSON", required=False
    )
    return parser


def _add_question_options(parser: argparse.ArgumentParser) -> None:
    limits = parser.add_mutually_exclusive_group()
    limits.add_argument(
        "--memory",
        type=answers.size,
        metavar="SIZE",
        help="at most, of what --objective counts, weights among it; e.g. 20MB; minimises time",
    )
    limits.add_argument(
        "--time", type=_nanoseconds, metavar="TIME", help="limit, e.g. 50ms; minimises memory"
    )
    parser.add_argument(
        "--objective",
        choices=[one.value for one in Objective],
        default=Objective.NETWORK.value,
        help="what memory is: network (default): workspaces, weights and changed maps of all layers "
        "together; workspace: the largest workspace of a layer, which all use in turn",
    )
    parser.add_argument(
        "--accounting",
        choices=("own", PUBLISHED),
        default="own",
        help="own (default): all that a plan adds to the feature maps; published: as TASO's formulas 9 "
        "and 15 count, convolutions only and changes of layout free; the workspace is then the "
        "largest sum of input, output, weights and scratch",
    )
    parser.add_argument("--front", action="store_true", help="all pairs of memory and time")
    parser.add_argument(
        "--solver",
        choices=("dp", "ilp"),
        default="dp",
        help="dp (default): dynamic programming, the whole front at once; ilp: an integer program in "
        f"HiGHS, one for each question, its front at {BUDGETS} memories; both exact",
    )
    parsers.add_budget_option(
        parser, "for measuring, and for the search; then the best plan by then", default=None
    )


def _add_profile_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("times of primitives")
    group.add_argument(
        "--profile", metavar="FILE", help="a table (CSV) of a profile, instead of measuring now"
    )
    group.add_argument(
        "--save-profile",
        type=parsers.output_file,
        metavar="FILE",
        help="write what was measured, for later",
    )
    group.add_argument(
        "--repeats", type=answers.positive, metavar="N", default=5, help="median of; default 5"
    )
    group.add_argument(
        "--run",
        action="store_true",
        help="run the plan: time, and output against the whole network",
    )
    group.add_argument(
        "--seed", type=answers.integer, metavar="N", default=0, help="of frame and random weights"
    )


def _nanoseconds(text: str) -> int:
    value = answers.exact_seconds(text) * 10**9
    if value <= 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a time above zero, such as 50ms")
    if value.denominator != 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of nanoseconds")
    return int(value)


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

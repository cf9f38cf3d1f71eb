"""The work of `csdf plan primitives`: to measure, select, print, draw and run primitives."""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from cnn2csdf.commands.cnn import chosen
from cnn2csdf.commands.cnn.chosen import with_weights
from cnn2csdf.execution.compare import differences, worst_of
from cnn2csdf.execution.layer_by_layer import run_layers
from cnn2csdf.network import Network
from cnn2csdf.weights import Model
from csdf.cli import answers, loading
from csdf.cli.frame import output, terminal
from csdf.cli.frame.long_work import stop_after
from csdf.errors import UnreadableFile
from csdf.status import Status
from csdf.time_limit import ENDS, Progress, Stop, reason_of
from csdf.units import bytes_in_words, nanoseconds_in_words, time_in_words
from planners.plan.carried_out import format_own_plans
from planners.primitives.command.main import BUDGETS, PUBLISHED
from planners.primitives.execution import SelectedRun
from planners.primitives.planned import run_planned, streaming_plan
from planners.primitives.profile import LAYER, Profile, TimingMachine, read_profile, write_profile
from planners.primitives.profiling import (
    Effort,
    profile_network,
    random_frame,
    run_measured,
    this_machine,
)
from planners.primitives.selection.planning import (
    Constraint,
    SelectionAnswer,
    as_published,
    best_selection,
    budgets,
    greedy,
    greedy_pairs,
    in_order,
    single_families,
    without,
)
from planners.primitives.selection.problem import (
    Objective,
    Pair,
    Selection,
    SelectionProblem,
    alive_map_bytes,
    selection_problem,
)
from planners.primitives.selection.trade_off import TradeOff, trade_off

PROGRAM = "csdf plan primitives"
TOLERANCE = 1e-3  # of the largest output: single precision, Winograd and Fourier transforms
MOST_LINES = 24  # of a front in text


class Report(NamedTuple):
    """The printed answer.

    baselines: the selections of other methods, by name. pairs: of the front, empty if it is not known.
    seconds: of the search. run: of the selection; None without --run. relative_difference: the largest
    of the outputs of all runs. arena_bytes: of the written plan, which was run too; None without one.
    """

    network: Network
    machine: TimingMachine
    constraint: Constraint
    answer: SelectionAnswer
    baselines: Mapping[str, Selection]
    pairs: Sequence[Pair]
    shows_front: bool
    seconds: float
    run: SelectedRun | None = None
    relative_difference: float = 0.0
    arena_bytes: int | None = None

    @property
    def is_equal(self) -> bool:
        """Whether the outputs of all runs are those of a run without a plan."""
        return self.relative_difference <= TOLERANCE


def work(options: argparse.Namespace) -> int:
    """Print the plan; return the exit code: 1 if none is within the limit, 3 if it is unknown."""
    constraint = Constraint(
        objective=Objective(options.objective), memory=options.max_memory, nanoseconds=options.time
    )
    model = chosen.read(options, with_weights=options.run)
    network = model.network
    try:
        profile = _profile(network, options)
    except ENDS as end:
        output.remark(PROGRAM, f"{Status.UNKNOWN}: {reason_of(end)} while measuring")
        return answers.UNKNOWN
    problem = without(selection_problem(network, profile), options.without)
    if options.accounting == PUBLISHED:
        problem = as_published(problem, network, constraint.objective)
    begin = time.perf_counter()
    stop = stop_after(options.time_limit, "selecting")
    answer, pairs = _answer(problem, constraint, stop, options)
    seconds = time.perf_counter() - begin
    selection, front = answer.selection, answer.front
    if options.solver != "dp":
        try:
            front = trade_off(problem, constraint.objective, stop)
        except ENDS:
            front = None
    report = Report(
        network=network,
        machine=profile.machine,
        constraint=constraint,
        answer=answer,
        baselines={} if front is None else _baselines(problem, constraint, front, stop),
        pairs=pairs,
        shows_front=options.front,
        seconds=seconds,
    )
    if options.run and selection is not None:
        report = _with_run(report, model, selection, options)
    print(
        answers.json_text(_as_json(report))
        if options.json
        else answers.in_words(_lines(report), options)
    )
    if options.output and selection is None:
        output.remark(PROGRAM, f"{options.output} is not written: there is no plan")
    elif options.output and selection is not None:
        plan = streaming_plan(network, selection)
        output.write(PROGRAM, options.output, format_own_plans([(network, plan)]))
    if options.plot and front is not None:
        _plot(options.plot, report, front)
    if not report.is_equal:
        return answers.NO
    if answer.status == Status.FEASIBLE or (options.json and selection is None):
        output.remark(PROGRAM, f"{answer.status}: {answer.reason}")
    if selection is not None:
        return answers.ANSWERED
    return answers.UNKNOWN if answer.status == Status.UNKNOWN else answers.NO


def _profile(network: Network, options: argparse.Namespace) -> Profile:
    """Return the profile of a table, or a new measurement, which is written for --save-profile.

    Raises GaveUp or KeyboardInterrupt if the measurement is ended early.
    """
    if options.profile:
        return read_profile(options.profile)
    output.remark(PROGRAM, "measuring, one thread; --profile reads a table")

    def in_words(progress: Progress) -> str:
        return f"layer {(progress.done or 0) + 1} of {progress.total}: {progress.at}"

    effort = Effort(repetitions=options.repeats, seed=options.seed)
    stop = stop_after(options.time_limit, in_words)
    path = options.save_profile

    def keep(profile: Profile) -> None:
        write_profile(path, profile)
        count = len({layer.layer for layer in profile.layers})
        output.remark(
            PROGRAM,
            f"{path} keeps {count} of {len(network.layers)} layers; the same command goes on",
        )

    profile = profile_network(
        network,
        effort=effort,
        begun=_begun(network, path),
        keep=keep if path else None,
        budget=stop,
    )
    if path:
        write_profile(path, profile)
        output.remark(
            PROGRAM,
            f"wrote {path}: {len(profile.layers)} ways to run "
            f"{len(network.layers)} layers; read it with --profile",
        )
    return profile


def _begun(network: Network, path: str | None) -> Profile | None:
    """Return the unfinished profile of the network on this machine in a file; None without one."""
    try:
        profile_read = read_profile(path) if path and Path(path).exists() else None
    except UnreadableFile:  # the file is overwritten
        return None
    if profile_read is None or profile_read.is_whole:
        return None
    if (profile_read.network, profile_read.machine) != (network.name, this_machine()):
        output.remark(PROGRAM, f"{path} is of another network or machine; measuring all layers")
        return None
    count = len({layer.layer for layer in profile_read.layers})
    output.remark(PROGRAM, f"{path} has {count} of {len(network.layers)} layers; going on")
    return profile_read


def _answer(
    problem: SelectionProblem, constraint: Constraint, stop: Stop, options: argparse.Namespace
) -> tuple[SelectionAnswer, Sequence[Pair]]:
    """Return the answer, and the pairs of the front where they are known."""
    if options.solver == "dp":
        answer = best_selection(problem, constraint, stop)
        return answer, answer.front.pairs if answer.front is not None else ()
    solver = import_module("planners.primitives.selection.solver")
    answer = solver.solved_selection(problem, constraint, stop)
    if not options.front:
        return answer, ()
    return answer, solver.solved_front(problem, constraint.objective, BUDGETS, stop)


def _baselines(
    problem: SelectionProblem, constraint: Constraint, front: TradeOff, stop: Stop
) -> dict[str, Selection]:
    """Return the choices of other methods that are complete within the time limit, by name."""
    objective, baselines = constraint.objective, dict[str, Selection | None]()
    try:
        if constraint.memory is not None:
            baselines["greedy"] = greedy(front, constraint.memory)
            baselines["in order"] = in_order(problem, objective, constraint.memory)
        baselines["time only"] = front.selection(front.fastest)
        for family, selection in single_families(problem, objective, stop):
            baselines[f"all {family}"] = selection
    except ENDS:
        output.remark(PROGRAM, "not all selections for comparison were found")
    return {name: selection for name, selection in baselines.items() if selection is not None}


def _with_run(
    report: Report, model: Model, selection: Selection, options: argparse.Namespace
) -> Report:
    """Return the report with a run of the selection, compared with a run without a plan."""
    network = model.network
    model = with_weights(PROGRAM, model, options.seed)
    plan = streaming_plan(network, selection) if options.output else None
    frame = random_frame(network, options.seed)
    with answers.working("running the plan, and the network without a plan"):
        run = run_measured(model, selection.variants, frame, repeats=options.repeats)
        maps = run_layers(model, frame)
        outputs = [run.outputs]
        if plan is not None:
            outputs.append(run_planned(model, plan, frame))
    expected = {layer.name: maps[layer.name] for layer in network.outputs}
    return report._replace(
        run=run,
        relative_difference=worst_of(differences(outputs, [expected] * len(outputs))).relative,
        arena_bytes=None if plan is None else plan.arena_bytes,
    )


def _lines(report: Report) -> list[str]:
    """Return the lines of the answer: totals, layers, baselines, run and front."""
    selection, answer = report.answer.selection, report.answer
    if selection is None:
        lines = [f"{report.network.name}: {answer.status}: {answer.reason}"]
    else:
        objective = report.constraint.objective
        memory = selection.memory(objective)
        lines = [
            f"{report.network.name}: {_milliseconds(selection.nanoseconds)}, "
            f"{bytes_in_words(memory)} ({memory} bytes) of {objective.value} memory; "
            f"{answer.status}: {answer.reason}"
        ]
        lines += _layer_lines(selection)
        lines += _total_lines(report, selection)
        lines += _baseline_lines(report, selection)
        lines += _run_lines(report, selection)
    if report.shows_front:
        pairs, count = report.pairs, min(len(report.pairs), MOST_LINES)
        more = f", {count} of them below; --json has all" if count < len(pairs) else ""
        number = answers.counted(len(pairs), "point") if pairs else "not found in time"
        lines.append(f"  front: {number}{more}")
        for step in range(count):
            pair = pairs[step * (len(pairs) - 1) // max(1, count - 1)]
            lines.append(f"  {pair.memory:>12} bytes  {_milliseconds(pair.nanoseconds):>11}")
    return [*lines, answers.Detail(f"  search              {time_in_words(report.seconds)}")]


def _layer_lines(selection: Selection) -> list[str]:
    """Return a line for each convolution and each layout transformation, in the order of the layers."""
    rows: list[tuple[str, ...]] = [
        ("layer", "primitive", "layouts", "time", "workspace", "weights")
    ]
    changes: dict[int, list[tuple[str, ...]]] = {}
    for link, change in selection.changes:
        cells = (
            f"  input {link.index}, {change.producer}",
            "layout transformation",
            f"{change.source_layout} -> {change.target_layout}",
            _milliseconds(change.nanoseconds),
            bytes_in_words(change.workspace_bytes),
            "",
        )
        changes.setdefault(link.consumer, []).append(cells)
    for number, choice in enumerate(selection.chosen):
        if choice.primitive != LAYER or number in changes:
            cells = (
                choice.layer,
                "" if choice.primitive == LAYER else choice.primitive,
                f"{choice.input_layout} -> {choice.output_layout}",
                _milliseconds(choice.nanoseconds),
                bytes_in_words(choice.workspace_bytes),
                bytes_in_words(choice.parameter_bytes),
            )
            rows += [cells, *changes.get(number, [])]
    return terminal.aligned(rows, texts=(0, 1, 2), indent="  ")


def _total_lines(report: Report, selection: Selection) -> list[str]:
    convolutions = sum(choice.primitive != LAYER for choice in selection.chosen)
    transformations = answers.counted(len(list(selection.changes)), "layout transformation")
    return [
        f"  chosen              {answers.counted(convolutions, 'convolution')}, {transformations}, "
        f"which take {_milliseconds(selection.changing_nanoseconds)}",
        f"  workspaces          {bytes_in_words(sum(selection.workspaces))} in total, "
        f"{bytes_in_words(max(selection.workspaces))} the largest",
        f"  weights             {bytes_in_words(selection.parameter_bytes)}",
        f"  transformed tensors {bytes_in_words(selection.transformed_tensor_bytes)}",
        answers.Detail(
            f"  feature maps        {bytes_in_words(alive_map_bytes(report.network))} at once, the "
            "same for every selection and not counted"
        ),
    ]


def _baseline_lines(report: Report, selection: Selection) -> list[str]:
    """Return the selections of other methods, with the ratio of their objective to ours."""
    constraint, lines = report.constraint, ["  other selections"]
    width = max(map(len, report.baselines), default=0)
    what = "time" if constraint.nanoseconds is None else "memory"
    for name, baseline in report.baselines.items():
        pair = baseline.pair(constraint.objective)
        times = constraint.cost(baseline)[0] / max(1, constraint.cost(selection)[0])
        fits = "" if constraint.is_met_by(baseline) else "  does not fit"
        lines.append(
            f"    {name:<{width}}  {_milliseconds(pair.nanoseconds):>11}  "
            f"{bytes_in_words(pair.memory):>9}  {times:.3g}x the {what}{fits}"
        )
    return lines if report.baselines else []


def _run_lines(report: Report, selection: Selection) -> list[str]:
    """Return the time, the outputs and the bytes of the run; no line without a run."""
    run = report.run
    if run is None:
        return []
    off = run.nanoseconds / max(1, selection.nanoseconds) - 1
    verdict = "equal to the network as a whole" if report.is_equal else "DIFFERENT"
    lines = [
        f"  measured            {_milliseconds(run.nanoseconds)}, {off:+.1%} of what was predicted",
        f"  output              {verdict}, largest difference {report.relative_difference:.3g} of the "
        "largest output",
        f"  held                {bytes_in_words(run.memory_bytes)}: maps "
        f"{bytes_in_words(run.arena_bytes)} in one arena, one workspace "
        f"{bytes_in_words(run.workspace_bytes)}, weights {bytes_in_words(run.parameter_bytes)}",
    ]
    if report.arena_bytes is not None:
        arena = bytes_in_words(report.arena_bytes)
        lines.append(f"  as written          {verdict}, in one arena of {arena}")
    return lines


def _milliseconds(nanoseconds: int) -> str:
    return nanoseconds_in_words(nanoseconds, 4)


def _as_json(report: Report) -> dict[str, Any]:
    """Return the answer as a JSON value; times in nanoseconds."""
    answer, objective = report.answer, report.constraint.objective
    answer_row: dict[str, Any] = {
        "network": report.network.name,
        "objective": objective.value,
        "status": answer.status,
        "reason": str(answer.reason),
        "minimum": answer.least,
        "plan": None,
        "baselines": [
            {"name": name, **baseline.pair(objective).to_json()}
            for name, baseline in report.baselines.items()
        ],
        "machine": report.machine.to_json(),
    }
    if answer.selection is not None:
        maps = {"map_bytes": alive_map_bytes(report.network)}
        answer_row["plan"] = answer.selection.to_json(objective) | maps
    if report.shows_front:
        answer_row["front"] = [pair.to_json() for pair in report.pairs]
    if report.run is not None:
        answer_row["run"] = {
            "nanoseconds": report.run.nanoseconds,
            "is_equal": report.is_equal,
            "relative_difference": report.relative_difference,
            "map_bytes": report.run.arena_bytes,
            "workspace_bytes": report.run.workspace_bytes,
            "weight_bytes": report.run.parameter_bytes,
            "arena_bytes": report.arena_bytes,
        }
    return {**answer_row, "seconds": round(report.seconds, 6)}


def _plot(path: str, report: Report, front: TradeOff) -> None:
    """Draw the front with the choices of other methods, and the greedy choice at several budgets."""
    draw = loading.drawing("planners.primitives.command.picture")
    objective, selection = report.constraint.objective, report.answer.selection
    what = "memory of all layers" if objective is Objective.NETWORK else "largest workspace"
    panel = draw.Panel(
        title=f"{objective.value}: {what}",
        front=report.pairs or front.pairs,
        greedy=list(greedy_pairs(front, budgets(front, BUDGETS))),
        baselines=[
            (name, baseline.pair(objective))
            for name, baseline in report.baselines.items()
            if name != "greedy"
        ],
        limit=report.constraint.memory,
        chosen=None if selection is None else selection.pair(objective),
    )
    picture = draw.primitives_picture(
        f"{report.network.name}: time over memory",
        [panel],
        suffix=loading.suffix_of(path),
    )
    output.write(PROGRAM, path, picture)

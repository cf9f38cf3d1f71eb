"""The work of `csdf plan primitives`: primitives are timed, chosen, told and run.

Profiles of primitives for `csdf plan primitives`: read or measured; and the run of a plan.

The answer of `csdf plan primitives` in words, as JSON and as a picture.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import Any, NamedTuple

from cnn2csdf.commands.cnn import chosen
from cnn2csdf.commands.cnn.chosen import with_weights
from cnn2csdf.execution.layer_by_layer import run_layers
from cnn2csdf.network import Network
from cnn2csdf.weights import Model
from csdf.cli import answers, loading
from csdf.cli.frame import output, terminal
from csdf.cli.frame.long_work import stop_after
from csdf.status import Status
from csdf.time_limit import ENDS, Progress, Stop, reason_of
from csdf.units import bytes_in_words, nanoseconds_in_words, time_in_words
from planners.plan.text import format_plans
from planners.primitives.command.main import BUDGETS, PUBLISHED
from planners.primitives.execution import (
    largest_difference,
    run_planned,
    streaming_plan,
    ways_of_selection,
)
from planners.primitives.profile import (
    LAYER,
    LayerProfile,
    Machine,
    Profile,
    read_profile,
    write_profile,
)
from planners.primitives.profiling import (
    Effort,
    profile_network,
    random_frame,
    run_measured,
)
from planners.primitives.selection.planning import (
    Baseline,
    Demand,
    SelectionAnswer,
    as_published,
    best_selection,
    budgets,
    greedy,
    greedy_pairs,
    in_order,
    single_families,
)
from planners.primitives.selection.problem import (
    Objective,
    Selection,
    SelectionProblem,
    alive_map_bytes,
    selection_problem,
)
from planners.primitives.selection.trade_off import Pair, TradeOff, trade_off


def work(options: argparse.Namespace) -> int:
    """Print the plan; return the exit code: 1 if none is within the limit, 3 if it is unknown."""
    demand = Demand(
        objective=Objective(options.objective), memory=options.max_memory, nanoseconds=options.time
    )
    model = chosen.read(options, with_weights=options.run)
    try:
        profile = profile_of(model.network, options)
    except ENDS as end:
        print(
            f"csdf plan primitives: {Status.UNKNOWN}: {reason_of(end)} while measuring",
            file=sys.stderr,
        )
        return answers.UNKNOWN
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
    stop = stop_after(options.time_limit, "selecting")
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
    return answers.UNKNOWN if answer.status == Status.UNKNOWN else answers.NO


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


TOLERANCE = 1e-3  # of the largest output: single precision, Winograd and Fourier transforms


def profile_of(network: Network, options: argparse.Namespace) -> Profile:
    """Return the profile of a table, or what is measured now, written where the options say.

    Raises GaveUp or KeyboardInterrupt where measuring does not come to its end.
    """
    if options.profile:
        return read_profile(options.profile)
    print("csdf plan primitives: measuring, one thread; --profile reads a table", file=sys.stderr)
    stop = stop_after(options.time_limit, _in_words)
    effort = Effort(repetitions=options.repeats, seed=options.seed)
    profile = profile_network(network, effort=effort, budget=stop)
    if options.save_profile:
        write_profile(options.save_profile, profile)
        print(
            f"csdf plan primitives: wrote {options.save_profile}: {len(profile.layers)} ways to run "
            f"{len(network.layers)} layers; read it with --profile",
            file=sys.stderr,
        )
    return profile


def _in_words(progress: Progress) -> str:
    return f"layer {(progress.done or 0) + 1} of {progress.total}: {progress.at}"


def measured_run(model: Model, selection: Selection, options: argparse.Namespace) -> MeasuredRun:
    """Return what running the selection shows, and how far its output is from the usual one."""
    network = model.network
    model = with_weights("csdf plan primitives", model, options.seed)
    ways = ways_of_selection(selection)
    plan = streaming_plan(network, selection) if options.output else None
    frame = random_frame(network, options.seed)
    with answers.working("running the plan, and the whole network"):
        found = run_measured(model, ways, frame, repeats=options.repeats)
        maps = run_layers(model, frame)
        written = None if plan is None else run_planned(model, plan, frame)
    expected = {layer.name: maps[layer.name] for layer in network.outputs}
    difference = largest_difference(found.outputs, expected)
    if written is not None:
        difference = max(difference, largest_difference(written, expected))
    return MeasuredRun(
        nanoseconds=found.nanoseconds,
        is_equal=difference <= TOLERANCE,
        relative_difference=difference,
        map_bytes=found.arena_bytes,
        workspace_bytes=found.workspace_bytes,
        weight_bytes=found.parameter_bytes,
        arena_bytes=None if plan is None else plan.arena_bytes,
    )


MOST_LINES = 24  # of a front in text


class MeasuredRun(NamedTuple):
    """The findings of a run of the plan: its time and output, and all the bytes that it held.

    arena_bytes: of the plan that is written, which was run too; None where none is.
    """

    nanoseconds: int
    is_equal: bool
    relative_difference: float
    map_bytes: int
    workspace_bytes: int
    weight_bytes: int
    arena_bytes: int | None = None

    @property
    def memory(self) -> int:
        """All that was held."""
        return self.map_bytes + self.workspace_bytes + self.weight_bytes


class Report(NamedTuple):
    """All that is printed. front: empty where it is not known; seconds: of the search."""

    network: Network
    machine: Machine
    demand: Demand
    answer: SelectionAnswer
    baselines: Sequence[Baseline]
    front: Sequence[Pair]
    shows_front: bool
    run: MeasuredRun | None
    seconds: float


def as_text(report: Report) -> str:
    """Return the front as far as it was asked for, the choice per layer, and the totals."""
    lines = _front_lines(report.front) if report.shows_front else []
    selection = report.answer.selection
    if selection is not None:
        lines += _layer_lines(selection)
        lines += _total_lines(report, selection)
        lines += _baseline_lines(report, selection)
    if report.run is not None:
        lines += _run_lines(report.run, selection)
    return answers.one_text([*lines, f"  search              {time_in_words(report.seconds)}"])


def _front_lines(front: Sequence[Pair]) -> list[str]:
    places: Sequence[int] = range(len(front))
    if len(front) > MOST_LINES:
        last = MOST_LINES - 1
        places = [step * (len(front) - 1) // last for step in range(MOST_LINES)]
    lines = [
        f"  {front[place].memory:>12} bytes  {_milliseconds(front[place].nanoseconds):>11}"
        for place in places
    ]
    more = "" if len(front) <= MOST_LINES else f", {MOST_LINES} of them above; --json has all"
    return [*lines, f"front: {answers.counted(len(front), 'point')}{more}"]


def _layer_lines(selection: Selection) -> list[str]:
    """A line for each convolution and each change of layout, in the order of the layers."""
    rows: list[tuple[str, ...]] = [
        ("layer", "primitive", "layouts", "time", "workspace", "weights")
    ]
    changes: dict[int, list[tuple[str, ...]]] = {}
    for link, change in selection.changes:
        cells = (
            f"  input {link.index}, {change.producer}",
            "change of layout",
            f"{change.source_layout} -> {change.target_layout}",
            _milliseconds(change.nanoseconds),
            bytes_in_words(change.workspace_bytes),
            "",
        )
        changes.setdefault(link.consumer, []).append(cells)
    for number, one in enumerate(selection.chosen):
        if one.primitive != LAYER or number in changes:
            rows.append(_layer_cells(one))
        rows += changes.get(number, [])
    return terminal.aligned(rows, texts=(0, 1, 2), indent="  ")


def _layer_cells(one: LayerProfile) -> tuple[str, ...]:
    return (
        one.layer,
        "" if one.primitive == LAYER else one.primitive,
        f"{one.input_layout} -> {one.output_layout}",
        _milliseconds(one.nanoseconds),
        bytes_in_words(one.workspace_bytes),
        bytes_in_words(one.parameter_bytes),
    )


def _total_lines(report: Report, selection: Selection) -> list[str]:
    objective = report.demand.objective
    memory = selection.memory(objective)
    convolutions = sum(one.primitive != LAYER for one in selection.chosen)
    changes = len(list(selection.changes))
    computed, changed = (
        answers.counted(convolutions, "convolution"),
        answers.counted(changes, "change"),
    )
    counts = f"{computed}, {changed} of layout"
    return [
        f"{report.network.name}: {report.answer.status}: {counts}; {report.answer.reason}",
        f"  time                {_milliseconds(selection.nanoseconds)}, of it "
        f"{_milliseconds(selection.changing_nanoseconds)} in changes of layout",
        f"  memory ({objective.value + ')':<10}  {bytes_in_words(memory)} ({memory} bytes)",
        f"  workspaces          {bytes_in_words(sum(selection.workspaces))} one for each, "
        f"{bytes_in_words(max(selection.workspaces))} the largest",
        f"  weights             {bytes_in_words(selection.parameter_bytes)}",
        f"  changed maps        {bytes_in_words(selection.changed_map_bytes)}",
        f"  feature maps        {bytes_in_words(alive_map_bytes(report.network))} at once, the same "
        "for every selection and not counted",
    ]


def _baseline_lines(report: Report, selection: Selection) -> list[str]:
    if not report.baselines:
        return []
    width = max(len(one.name) for one in report.baselines)
    objective = report.demand.objective
    lines = ["  what others choose"]
    for one in report.baselines:
        memory, time = one.selection.memory(objective), one.selection.nanoseconds
        fits = "" if report.demand.is_met_by(one.selection) else "  does not fit"
        lines.append(
            f"    {one.name:<{width}}  {_milliseconds(time):>11}  {bytes_in_words(memory):>9}  "
            f"{_over(report, selection, one.selection)}{fits}"
        )
    return lines


def _over(report: Report, ours: Selection, other: Selection) -> str:
    """How many times as much another selection takes of what is minimised."""
    what = "time" if report.demand.nanoseconds is None else "memory"
    least, much = (report.demand.cost(one)[0] for one in (ours, other))
    return f"{much / max(1, least):.3g} times the {what}"


def _run_lines(run: MeasuredRun, selection: Selection | None) -> list[str]:
    predicted = 0 if selection is None else selection.nanoseconds
    off = run.nanoseconds / max(1, predicted) - 1
    verdict = "equal to the network as a whole" if run.is_equal else "DIFFERENT"
    return [
        f"  measured            {_milliseconds(run.nanoseconds)}, {off:+.1%} of what was predicted",
        f"  output              {verdict}, largest difference {run.relative_difference:.3g} of the "
        "largest output",
        f"  held                {bytes_in_words(run.memory)}: maps {bytes_in_words(run.map_bytes)} in "
        f"one arena, one workspace {bytes_in_words(run.workspace_bytes)}, weights "
        f"{bytes_in_words(run.weight_bytes)}",
        *(
            [f"  as written          {verdict}, in one arena of {bytes_in_words(run.arena_bytes)}"]
            if run.arena_bytes is not None
            else []
        ),
    ]


def _milliseconds(nanoseconds: int) -> str:
    return nanoseconds_in_words(nanoseconds, 4)


def as_json(report: Report) -> dict[str, Any]:
    """Return all of the answer under keys that stay; times in nanoseconds."""
    answer, objective = report.answer, report.demand.objective
    found: dict[str, Any] = {
        "network": report.network.name,
        "objective": objective.value,
        "status": answer.status,
        "reason": str(answer.reason),
        "minimum": answer.least,
        "plan": None,
        "baselines": [
            {
                "name": one.name,
                "nanoseconds": one.selection.nanoseconds,
                "memory_bytes": one.selection.memory(objective),
            }
            for one in report.baselines
        ],
        "machine": {
            "processor": report.machine.processor,
            "cores": report.machine.cores,
            "threads": report.machine.threads,
            "library": report.machine.library,
        },
    }
    if answer.selection is not None:
        found["plan"] = {
            **answer.selection.to_json(objective),
            "map_bytes": alive_map_bytes(report.network),
        }
    if report.shows_front:
        found["front"] = [one.to_json() for one in report.front]
    if report.run is not None:
        found["run"] = report.run._asdict()
    return {**found, "seconds": round(report.seconds, 6)}


def plot(path: str, report: Report, greedy: Sequence[Pair]) -> None:
    """Draw the front with what others choose; greedy: what that choice reaches at some budgets."""
    draw = loading.drawing("planners.primitives.command.picture")
    objective, selection = report.demand.objective, report.answer.selection
    panel = draw.Panel(
        title=f"{objective.value}: "
        + ("memory of all layers" if objective.value == "network" else "largest workspace"),
        front=[draw.DrawnPoint(one.memory, one.nanoseconds) for one in report.front],
        greedy=[draw.DrawnPoint(one.memory, one.nanoseconds) for one in greedy],
        baselines=[
            (one.name, draw.DrawnPoint(one.selection.memory(objective), one.selection.nanoseconds))
            for one in report.baselines
            if one.name != "greedy"
        ],
        limit=report.demand.memory,
        chosen=None
        if selection is None
        else draw.DrawnPoint(selection.memory(objective), selection.nanoseconds),
    )
    picture = draw.primitives_picture(
        f"{report.network.name}: time over memory",
        [panel],
        across="memory (MB = 1,000,000 bytes), log scale",
        up="time of a frame (ms), log scale",
        suffix=loading.suffix_of(path),
    )
    output.write("csdf plan primitives", path, picture)

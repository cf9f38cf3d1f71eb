"""The answer of `csdf plan primitives` in words, as JSON and as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from cnn2csdf.network import Network
from csdf.cli import answers, pictures
from csdf.cli.frame import output, tables
from csdf.words import bytes_in_words, nanoseconds_in_words, time_in_words
from planners.primitives.profile import LAYER, LayerProfile, Machine
from planners.primitives.selection.baselines import Baseline
from planners.primitives.selection.fronts import Pair
from planners.primitives.selection.planning import Demand, SelectionAnswer
from planners.primitives.selection.problem import Selection, alive_map_bytes

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
    return tables.aligned(rows, texts=(0, 1, 2), indent="  ")


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
        "least": answer.least,
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
    draw = pictures.drawing("planners.primitives.command.picture")
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
        suffix=pictures.suffix_of(path),
    )
    output.write("csdf plan primitives", path, picture)

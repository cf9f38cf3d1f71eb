"""Memory plans of a network on its page: the plan of csdf fit, or plans from files in comparison."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from pathlib import PurePath
from typing import Any, NamedTuple

from cnn2csdf.network import Network
from cnn2csdf.weights import Model
from csdf.draw.report.markup import Cell, Html, Row, element, sortable
from csdf.draw.report.page import change
from csdf.draw.report.sections import Section
from csdf.errors import counted
from csdf.time_limit import Stop
from planners.memory.alternatives import answer_with_alternatives
from planners.memory.answer import Fit, FitMethod
from planners.memory.command.beside import checked_fit
from planners.memory.loaded_plan import layer_times
from planners.memory.request import FitRequest
from planners.plan.plan import Kind, Mode, PlannedGroup, Stage, StreamingPlan
from planners.plan.text import worked_part
from planners.rewrites.rematerialisation import executed_layers

FIT = "csdf fit"
MILLISECONDS = "time of a frame (ms)"
PROOF = "buffers are"  # title of the column that says whether they are proved the smallest


class FitAnswer(NamedTuple):
    """The answer of csdf fit about a network and a plan. network: the layers that the plan executes.

    times: predicted nanoseconds of each layer in a frame; None if they are not predicted.
    """

    title: str
    network: Network
    fit: Fit
    times: Mapping[str, int] | None

    @property
    def method(self) -> FitMethod:
        """The method that the page shows."""
        return self.fit.shown

    @property
    def plan(self) -> StreamingPlan:
        """Its plan."""
        return self.method.plan


def answers_about_plans(
    model: Model, plans: Sequence[tuple[str, StreamingPlan]], **terms: Any
) -> tuple[FitAnswer, ...]:
    """Return the answers about plans of files. terms: arguments of `checked_fit`."""
    times = {name: terms[name] for name in ("platform", "durations")}
    answers = []
    for path, plan in plans:
        network = worked_part(model, plan).network
        fit = checked_fit(path, network, plan, **terms)
        answers.append(
            FitAnswer(PurePath(path).name, network, fit, layer_times(network, plan, **times))
        )
    return tuple(answers)


def answer_of_search(request: FitRequest, budget: Stop) -> FitAnswer:
    """Return the answer of `csdf fit`. Raises GaveUp or InvalidNetwork if there is no plan."""
    fit = answer_with_alternatives(request, budget)
    times = layer_times(
        request.network,
        fit.shown.plan,
        platform=request.platform,
        durations=request.durations,
    )
    return FitAnswer(FIT, request.network, fit, times)


def plans_section(answers: Sequence[FitAnswer]) -> Section:
    """Return the figures of all plans, and the layers that are executed differently."""
    return Section(
        "plans", "Plans side by side", element("div", _figures(answers), *_layers(answers))
    )


def _figures(answers: Sequence[FitAnswer]) -> Html:
    rows: list[tuple[str, Callable[[FitAnswer], int | str | None]]] = [
        (
            "RAM: arena, state and stack (bytes)",
            lambda answer: answer.method.needed_ram,
        ),
        ("RAM: the arena (bytes)", lambda answer: answer.method.ram_bytes),
        ("lower bound of RAM (bytes)", lambda answer: answer.fit.lower_bound),
        ("flash (bytes)", lambda answer: answer.fit.flash_bytes),
        (
            "to and from slow memory in a frame (bytes)",
            lambda answer: answer.plan.slow_bytes if answer.plan.memories else None,
        ),
        ("MACs of a frame", lambda answer: answer.plan.multiply_accumulates),
        ("MACs (1: computed once)", lambda answer: f"{float(answer.method.mac_ratio):.4g}x"),
        ("instructions of a frame", lambda answer: answer.fit.instructions(answer.method)),
        (MILLISECONDS, lambda answer: answer.method.nanoseconds),
        ("input", lambda answer: answer.fit.input),
        ("output", lambda answer: answer.fit.output),
        ("groups of layers", lambda answer: len(answer.plan.groups)),
    ]
    is_pair = len(answers) == 2
    head = ["figure", *(answer.title for answer in answers), *(["change"] if is_pair else [])]
    lines = []
    for title, value_of in rows:
        values = [value_of(answer) for answer in answers]
        if all(value is None for value in values):
            continue
        numbers = [Fraction(value) if isinstance(value, int) else None for value in values]
        cells = [
            "" if value is None
            else value if isinstance(value, str)
            else f"{value / 10**6:,.4g}" if title == MILLISECONDS
            else f"{value:,}"
            for value in values
        ]  # fmt: skip
        if is_pair:
            cells.append(change(*numbers))
        lines.append(number_row(title, cells))
    return number_table(head, lines, "plans compared", id="plan-figures")


def number_row(title: str, cells: Sequence[str | Html], kind: str | None = None) -> Html:
    """Return a row of `number_table`. cells: elements, or texts of numbers; kind: the CSS class."""
    tds = [
        cell if isinstance(cell, Html) else element("td", cell, class_="number") for cell in cells
    ]
    return element("tr", element("th", title, scope="row"), *tds, class_=kind)


def number_table(
    titles: Sequence[str], rows: Sequence[Html], label: str, **attributes: str
) -> Html:
    """Return a table of numbers; only the first column, and a column with the title PROOF, are text."""
    texts = (titles[0], PROOF)
    head = [
        element("th", title, scope="col", class_=None if title in texts else "number")
        for title in titles
    ]
    body = element("tbody", *rows)
    table = element("table", element("thead", element("tr", *head)), body, **attributes)
    return element("div", table, class_="scroller", tabindex=0, role="region", aria_label=label)


def _layers(answers: Sequence[FitAnswer]) -> Iterator[Html]:
    """Yield the layers that the plans execute differently, or whose output has another size."""
    methods = [executions(answer) for answer in answers]
    sizes = [_output_bytes(answer) for answer in answers]
    has_times = all(answer.times is not None for answer in answers)
    names = dict.fromkeys(layer.name for answer in answers for layer in answer.network.layers)
    rows, same = [], 0
    for name in names:
        texts = [method.get(name, "not executed") for method in methods]
        output_bytes = [size.get(name, 0) for size in sizes]
        if len(set(texts)) == len(set(output_bytes)) == 1:
            same += 1
            continue
        cells = [Cell(text=text) for text in (name, *texts)]
        cells += [Cell(text=f"{size:,}", value=size) for size in output_bytes]
        if has_times:
            times = [(answer.times or {}).get(name, 0) for answer in answers]
            cells += [Cell(text=f"{time / 1000:,.1f}", value=time) for time in times]
        rows.append(Row(cells=tuple(cells)))
    yield element("h3", "Layers that differ")
    if not rows:
        yield element("p", f"None: the plans execute all {counted(same, 'layer')} in the same way.")
        return
    yield element("p", f"Executed in the same way by all plans: {counted(same, 'layer')}.")
    headings = ["executed in", "output buffer (bytes) in", *(["time (µs) in"] if has_times else [])]
    titles = [f"{heading} {answer.title}" for heading in headings for answer in answers]
    yield sortable("plan-layers", "layer", ("layer", *titles), rows)


def executions(answer: FitAnswer) -> dict[str, str]:
    """Return how a plan executes each layer, in words."""
    copies = executed_layers(answer.network, answer.plan.rematerialised)[1]
    methods_of: dict[str, list[str]] = {}
    for group in answer.plan.groups:
        for stage in group.stages:
            for name in stage.layers:
                origin = copies[name].layer if name in copies else name
                methods_of.setdefault(origin, []).append(_execution(stage, group))
    return {
        name: " and ".join(dict.fromkeys(methods))
        + (", computed again" if len(methods) > 1 else "")
        for name, methods in methods_of.items()
    }


def _execution(stage: Stage, group: PlannedGroup) -> str:
    """Return how a stage executes its layers, in words."""
    if stage.tiles is not None:
        return f"{stage.tiles} tiles, halo {'cached' if stage.tiles.halo_cached else 'recomputed'}"
    if stage.mode is Mode.CHANNELS:
        return "feature map by feature map"
    if len(group.stages) == len(stage.layers) == 1:
        return "layer by layer"
    if stage.mode is Mode.ACCUMULATING:
        return "accumulators, row by row"
    if len(stage.layers) > 1:
        blocks = f", {stage.channel_blocks} channel blocks" if stage.channel_blocks > 1 else ""
        rows = counted(stage.rows, "row")
        return f"strips of {len(stage.layers)} layers, {rows} a firing{blocks}"
    return f"line buffers, {counted(stage.rows, 'row')} a firing"


def _output_bytes(answer: FitAnswer) -> dict[str, int]:
    """Return the bytes of the arena buffer of the output of each layer."""
    sizes: dict[str, int] = {}
    for buffer in answer.plan.buffers:
        if buffer.has_rows and buffer.kind is not Kind.EXTERNAL:
            sizes[buffer.tensor] = max(sizes.get(buffer.tensor, 0), buffer.size)
    return sizes

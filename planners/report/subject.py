"""Networks in a report: bars of memory by method, largest layers, tables of methods and layers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from operator import attrgetter

from cnn2csdf.network import Network
from cnn2csdf.operators.operator import describe
from cnn2csdf.parameters import layer_parameter_bytes, multiply_accumulates
from csdf.draw.report.findings import GraphFindings
from csdf.draw.report.markup import Cell, Html, Row, element, joined, sortable
from csdf.draw.report.sections import Contribution, Figure, PageFrame, Section
from csdf.errors import counted
from csdf.model.graph import Graph
from csdf.search.pareto import SmallestStorage
from csdf.status import Status
from csdf.units import bytes_in_words, nanoseconds_in_words, needed_bytes_in_words, percent
from planners.memory.answer import MemoryLimits
from planners.memory.plain_plans import MemoryComparison, Method
from planners.memory.times import apportioned
from planners.plan.plan import Kind, StreamingPlan
from planners.report import findings as words
from planners.report.findings import NO_LIMIT, LayerFigures, Mark, MemoryLimit, NetworkFindings
from planners.report.plans import FIT, PROOF, FitAnswer, number_row, number_table, plans_section
from planners.report.viewer import network_section


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkSubject:
    """A network with the answers of csdf fit and csdf cnn memory about it.

    element_bytes: of each element; None if each tensor has its own size. flash_by_layer: bytes of flash
    of each layer in the library of the core, as csdf fit counts them. limits: of the memory. basis:
    origin of the times. comparison: plans layer by layer and row by row; None with a reason. answers:
    of csdf fit, for its own plan or for the loaded plans. files: the table of durations, and the plans.
    terms: name and text of each assumption.
    """

    value: Network
    graph: Graph
    element_bytes: int | None
    flash_by_layer: Mapping[str, int]
    limits: MemoryLimits
    basis: str
    comparison: MemoryComparison | None
    reason: str
    answers: tuple[FitAnswer, ...]
    files: tuple[str, ...]
    terms: tuple[tuple[str, str], ...]
    unit: str = "bytes"
    time: str = "ns"
    smallest: SmallestStorage | None = None

    @property
    def flash(self) -> int:
        """Bytes of flash of all layers."""
        return sum(self.flash_by_layer.values())

    def surroundings(self, graph: GraphFindings, added: Sequence[Contribution]) -> PageFrame:
        """Return the parts of the page about memory, before and after the parts about the graph."""
        network, comparison = self.value, self.comparison
        methods = () if comparison is None else comparison.methods
        findings = NetworkFindings(
            name=network.name,
            layers=tuple(_layers(self)),
            flash=self.flash,
            answers=self.answers,
            basis=self.basis,
            methods=tuple(method._replace(parameters=self.flash) for method in methods),
            nanoseconds=None if comparison is None else comparison.nanoseconds,
            added=(
                Contribution(sections=(network_section(network, next(iter(self.answers), None)),)),
                *added,
            ),
            limit=_limit_of(self.limits, self.flash),
        )
        return network_surroundings(findings, graph)


def network_surroundings(findings: NetworkFindings, graph: GraphFindings) -> PageFrame:
    """Return the parts of the page about a network."""
    added, headlines = findings.added, tuple(words.headline(findings))
    lead = [
        *(element("p", text, class_="lead") for text in headlines),
        *(element("p", text, class_="verdict-line") for text in words.fitting(findings)),
        element("ul", *(element("li", text) for text in words.facts(findings))),
    ]
    sections = [section for part in added for section in part.sections]
    if findings.bars:
        sections.insert(0, Section("memory", "Memory", _memory(findings)))
    if len(findings.answers) > 1:
        sections.insert(0, plans_section(findings.answers))
    return PageFrame(
        name=findings.name,
        kind=f"network of {counted(len(findings.layers), 'layer')}; as a ",
        lead=tuple(lead),
        before=tuple(sections),
        after=(Section("table", "Layers", _layers_section(findings, graph.critical_actors)),),
        has_actors=False,
        data={name: value for part in added for name, value in part.data.items()},
        said=(*headlines, *words.fitting(findings)),
        verdict=words.verdict(findings),
        figures=tuple(_figures(findings)),
        noun="layer",
        is_no=words.status(findings) is Status.INFEASIBLE,
        is_unknown=words.status(findings) is Status.UNKNOWN
        or any(answer.fit.is_cut_short for answer in findings.answers),
    )


def _figures(findings: NetworkFindings) -> Iterator[Figure]:
    """Yield the figures by which two networks are compared."""
    counts = [("flash", findings.flash)]
    for answer in findings.answers[:1]:
        counts.append(("RAM (csdf fit)", answer.method.needed_ram))
        macs, time = answer.plan.multiply_accumulates, answer.method.nanoseconds
        yield Figure("MACs of a frame", Fraction(macs), f"{macs:,}")
        if time is not None:
            yield Figure("time of a frame", Fraction(time), nanoseconds_in_words(time))
    counts += [(f"{method.title}, with flash", method.total) for method in findings.methods]
    for title, count in counts:
        yield Figure(title, Fraction(count), bytes_in_words(count))


def _memory(findings: NetworkFindings) -> Html:
    parts: list[Html] = []
    if findings.answers and findings.answers[0].title == FIT:
        parts += [element("h3", "Plans that csdf fit finds"), fit_table(findings.answers[0])]
    parts += [element("h3", "RAM and flash"), memory_bars(findings)]
    if findings.methods:
        parts += [
            element("h3", "All layers alike"),
            element("p", ALIKE),
            methods_table(findings),
            element("h3", "Layers that read the largest buffers"),
            largest_layers(findings),
        ]
    return joined(parts)


ALIKE = (
    "These methods execute all layers alike. Layer by layer, the arena contains input and output. Row "
    "by row, the input arrives in rows and the output is external, as in csdf fit --input rows "
    "--output-memory external. csdf plan reuse mixes both, csdf plan fusion adds tiles."
)


def _layers(subject: NetworkSubject) -> Iterator[LayerFigures]:
    """Yield the figures of each layer; times are those of the first answer of csdf fit."""
    network, comparison, size = subject.value, subject.comparison, subject.element_bytes
    whole = {} if comparison is None else _tensor_bytes(comparison.whole.plan)
    rows = {} if comparison is None else _tensor_bytes(comparison.rows.plan)
    # Layers that only update a state variable stored as a ring of rows have no actor.
    phases = {actor.name: actor.phases for actor in subject.graph.actors}
    times: Mapping[str, int] = {}
    instructions: Mapping[str, int] = {}
    for answer in subject.answers[:1]:
        times = answer.times or {}
        total = answer.fit.instructions(answer.method)
        if times and total is not None:
            instructions = apportioned(
                total, {name: Fraction(time) for name, time in times.items()}
            )
    for layer in network.layers:
        inputs = network.input_shapes(layer)
        yield LayerFigures(
            name=layer.name,
            operator=describe(layer.operator, layer.epilogue),
            output=str(layer.shape),
            phases=phases.get(layer.name, 0),
            parameters=layer_parameter_bytes(layer, inputs, size),
            multiply_accumulates=multiply_accumulates(layer, inputs),
            output_bytes=layer.shape.elements * (size or layer.element_bytes),
            whole_buffers=sum(whole.get(name, 0) for name in set(layer.inputs)),
            row_buffers=sum(rows.get(name, 0) for name in set(layer.inputs)),
            flash=subject.flash_by_layer[layer.name],
            nanoseconds=times.get(layer.name),
            instructions=instructions.get(layer.name),
        )


def _tensor_bytes(plan: StreamingPlan) -> dict[str, int]:
    """Return the bytes of the arena buffer of each tensor."""
    return {
        buffer.tensor: buffer.size
        for buffer in plan.buffers
        if buffer.has_rows and buffer.kind is not Kind.EXTERNAL
    }


def _limit_of(limits: MemoryLimits, flash: int) -> MemoryLimit | None:
    """Return the limits of a network; flash: bytes of its parameters as stored in C."""
    if not limits.is_given:
        return None
    buffer_bytes = limits.room(flash, flash)
    marks = (
        ("--total-memory", limits.memory, 0),
        ("--ram, after the flash", limits.ram, flash),
        ("--flash, for parameters", limits.flash, 0),
    )
    return MemoryLimit(
        title=str(limits),
        missing_flash=0 if limits.flash is None else max(0, flash - limits.flash),
        buffer_bytes=NO_LIMIT if buffer_bytes is None else buffer_bytes,
        without_parameters=limits.memory if limits.ram is None and limits.flash is None else None,
        marks=tuple(
            Mark(f"{name}: {bytes_in_words(size)}", before + size)
            for name, size, before in marks
            if size is not None
        ),
    )


BARS = 12  # layers with a bar


def _bar(
    title: str,
    parts: Mapping[str, float],
    number: str,
    *,
    actor: str | None = None,
    marks: Sequence[Html] = (),
    verdict: Html | None = None,
    has_two_rows: bool = False,
) -> Html:
    """Return an entry of a list of bars: a title, a bar and a number.

    parts: width of each coloured part in percent of the full width, by CSS class. actor: the layer of
    the entry. marks: lines across the bar. verdict: after the number. has_two_rows: whether parts are
    drawn below each other.
    """
    kind = "bar-space two" if has_two_rows else "bar-space"
    drawn = [
        element("span", class_=f"bar {name}", style=f"width:{width:.3f}%")
        for name, width in parts.items()
    ]
    # A long name may be broken after each slash.
    breaking_title = [part for word in title.split("/") for part in (Html("/<wbr>"), word)][1:]
    return element(
        "li",
        element("span", breaking_title, class_="bar-title", data_actor=actor),
        element("span", *drawn, *marks, class_=kind, aria_hidden="true"),
        element("span", number, class_="bar-number"),
        verdict or element("span", class_="verdict"),
    )


def _keys(*keys: tuple[str, str], scale: str) -> Html:
    """Return the legend of bars. keys: meaning and CSS class of each colour; scale: the full width."""
    marks = [element("span", text, class_=f"key {name}") for text, name in keys]
    return element("p", *marks, element("span", scale), class_="keys")


def memory_bars(findings: NetworkFindings) -> Html:
    """Return a bar for each method, with its buffers and its flash."""
    limit = findings.limit
    marks = () if limit is None else limit.marks
    # Bytes of a bar of full width: the largest method or limit.
    maximum = max([1, *(bar.total for bar in findings.bars), *(mark.position for mark in marks)])
    lines = [
        element("span", class_="bar-limit", style=f"left:{100 * mark.position / maximum:.3f}%")
        for mark in marks
    ]
    rows = [
        _bar(
            bar.title,
            {"weights": 100 * bar.parameters / maximum, "buffers": 100 * bar.buffers / maximum},
            f"{needed_bytes_in_words(bar.buffers)} + {needed_bytes_in_words(bar.parameters)} = "
            f"{needed_bytes_in_words(bar.total)}",
            marks=lines,
            verdict=_verdict(bar, limit),
        )
        for bar in findings.bars
    ]
    keys = [("buffers", "buffers"), ("flash", "weights")]
    keys += [(mark.title, "limit") for mark in marks]
    scale = f"full width: {bytes_in_words(maximum)}"
    return joined([_keys(*keys, scale=scale), element("ul", *rows, class_="bars")])


def _verdict(method: Method, limit: MemoryLimit | None) -> Html:
    """Return whether a method fits; without a limit an empty element keeps the columns aligned."""
    if limit is None:
        return element("span", class_="verdict")
    is_good = method.buffers <= limit.buffer_bytes
    return element(
        "span", "fits" if is_good else "too large", class_=f"verdict {'yes' if is_good else 'no'}"
    )


def largest_layers(findings: NetworkFindings) -> Html:
    """Return bars of the layers with the largest buffers, row by row and layer by layer."""
    chosen = sorted(findings.layers, key=lambda layer: -layer.whole_buffers)[:BARS]
    sizes = [max(layer.whole_buffers, layer.row_buffers) for layer in chosen]
    maximum = max([1, *sizes])
    rows = [
        _bar(
            layer.name,
            {
                "whole": 100 * layer.whole_buffers / maximum,
                "buffers": 100 * layer.row_buffers / maximum,
            },
            f"{bytes_in_words(layer.whole_buffers)} whole, "
            f"{bytes_in_words(layer.row_buffers)} row by row",
            has_two_rows=True,
            actor=layer.name,
        )
        for layer in chosen
    ]
    scale = f"full width: {bytes_in_words(maximum)}"
    key = _keys(("whole", "whole"), ("row by row", "buffers"), scale=scale)
    return joined([key, element("ul", *rows, class_="bars")])


def _layers_section(findings: NetworkFindings, critical: Sequence[str]) -> Html:
    """Return bars of the layers with the most flash and the most time, and a table of all layers."""
    parts: list[Html] = []
    for title, kind, size_of, in_words in (
        ("Flash by layer, as C stores it", "weights", attrgetter("flash"), bytes_in_words),
        ("Time by layer", "buffers", attrgetter("nanoseconds"), nanoseconds_in_words),
    ):
        sizes = {layer.name: size_of(layer) or 0 for layer in findings.layers}
        total = sum(sizes.values())
        names = sorted((name for name in sizes if sizes[name]), key=lambda name: -sizes[name])
        if not names:
            continue
        bars = [
            _bar(
                name,
                {kind: 100 * sizes[name] / sizes[names[0]]},
                f"{in_words(sizes[name])}, {percent(Fraction(sizes[name], total))}",
                actor=name,
            )
            for name in names[:BARS]
        ]
        shown = "" if len(names) <= BARS else f"; the first {BARS} of {len(names)} layers"
        scale = f"full width: {in_words(sizes[names[0]])}; all together {in_words(total)}{shown}"
        parts += [element("h3", title), _keys(scale=scale), element("ul", *bars, class_="bars")]
    return joined([*parts, element("h3", "All layers"), layer_table(findings.layers, critical)])


def fit_table(answer: FitAnswer) -> Html:
    """Return the methods of `csdf fit`; the chosen one is marked."""
    titles = ("method", "RAM (bytes)", "arena (bytes)", "MACs (1: computed once)", "predicted (ms)")
    rows = []
    for method in answer.fit.methods:
        time = "" if method.nanoseconds is None else f"{method.nanoseconds / 10**6:,.4g}"
        sizes = (f"{method.needed_ram:,}", f"{method.ram_bytes:,}")
        cells = (*sizes, f"{float(method.mac_ratio):.4g}x", time)
        is_chosen = method == answer.method
        title = f"{method.name} (shown here)" if is_chosen else method.name
        rows.append(number_row(title, cells, "chosen" if is_chosen else None))
    return number_table(titles, rows, "methods of csdf fit", class_="plain")


def methods_table(findings: NetworkFindings) -> Html:
    """Return memory, frame rate and proof of each method of `csdf cnn memory` as a table."""
    titles = ("method", "buffers (bytes)", "flash (bytes)", "total (bytes)", "frames/s")
    whole_time, row_time = findings.nanoseconds or (None, None)
    times = [whole_time if method.is_whole else row_time for method in findings.methods]
    rows = [
        number_row(
            method.title,
            (
                *(f"{count:,}" for count in (method.buffers, method.parameters, method.total)),
                "" if time is None else words.frames(time),
                element("td", _proof(method)),
            ),
        )
        for method, time in zip(findings.methods, times, strict=True)
    ]
    return number_table((*titles, PROOF), rows, "memory and speed", class_="plain")


def _proof(method: Method) -> str:
    if method.buffers == method.lower_bound:
        return "the smallest, proved"
    gap = (method.buffers - method.lower_bound) / max(method.lower_bound, 1)
    return f"at most {gap:.2%} above the smallest arena"


def layer_table(layers: Sequence[LayerFigures], critical: Sequence[str]) -> Html:
    """Return the layers of a network in their order."""
    marked = set(critical)
    columns: list[tuple[str, Callable[[LayerFigures], int | None]]] = [
        ("MACs", attrgetter("multiply_accumulates")),
        ("instructions", attrgetter("instructions")),
        ("time (µs)", attrgetter("nanoseconds")),
        ("flash (bytes)", attrgetter("flash")),
        ("parts", attrgetter("phases")),
        ("output (bytes)", attrgetter("output_bytes")),
        ("inputs whole (bytes)", attrgetter("whole_buffers")),
        ("inputs row by row (bytes)", attrgetter("row_buffers")),
    ]
    shown = [column for column in columns if any(column[1](layer) is not None for layer in layers)]
    rows = [
        Row(
            cells=(
                *(Cell(text=text) for text in (layer.name, layer.operator, layer.output)),
                *(_count(title, value_of(layer) or 0) for title, value_of in shown),
            ),
            is_marked=layer.name in marked,
        )
        for layer in layers
    ]
    titles = ("layer", "operator", "output", *(title for title, _ in shown))
    return sortable("layers", "layer", titles, rows)


def _count(title: str, value: int) -> Cell:
    return Cell(
        text=f"{value / 1000:,.1f}" if title.startswith("time") else f"{value:,}", value=value
    )

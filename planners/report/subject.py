"""Networks on the page of a report: their layers, their memory by each method."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from operator import attrgetter

from cnn2csdf.commands.cnn import chosen
from cnn2csdf.commands.cnn import options as shared
from cnn2csdf.fixed_point.flash import flash_bytes
from cnn2csdf.lowering import lower
from cnn2csdf.network import Network
from cnn2csdf.operators.operator import describe
from cnn2csdf.parameters import layer_parameter_bytes, multiply_accumulates, parameter_bytes
from csdf.cli import answers
from csdf.cli.frame.long_work import limited_part
from csdf.draw.report.findings import GraphFindings
from csdf.draw.report.markup import Cell, Html, Row, element, joined, sortable
from csdf.draw.report.sections import Contribution, Figure, Section, Surroundings
from csdf.errors import CsdfError, counted
from csdf.model.graph import Graph
from csdf.search.pareto import SmallestStorage
from csdf.time_limit import Stop
from csdf.units import bytes_in_words, rate_in_words, time_in_words
from planners.arena.allocation import bytes_so_far
from planners.memory.answer import Limits
from planners.memory.command.beside import fit_beside
from planners.memory.plain_plans import (
    WHOLE_ARENA,
    MemoryComparison,
    Method,
    memory_comparison,
)
from planners.memory.several import Together
from planners.plan.plan import Kind
from planners.report import findings as words
from planners.report.findings import FIT, LayerFigures, Limit, Mark, NetworkFindings


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkSubject:
    """A network that works as the options say.

    comparison: layer by layer and row by row; None for a reason. fit: what csdf fit finds.
    """

    value: Network
    options: argparse.Namespace
    graph: Graph
    comparison: MemoryComparison | None
    reason: str
    fit: Together | None
    unit: str = "bytes"
    time: str = "ns"
    smallest: SmallestStorage | None = None

    @property
    def files(self) -> tuple[str, ...]:
        """The table of durations, where one was read."""
        return (self.options.durations,) if self.options.durations else ()

    @property
    def terms(self) -> tuple[tuple[str, str], ...]:
        """The size of an element and the platform."""
        return tuple(terms_of(self.options))

    def surroundings(self, graph: GraphFindings, added: Sequence[Contribution]) -> Surroundings:
        """Return what the page says about the memory, before and behind the parts about the graph."""
        network, size, found = self.value, self.options.element_bytes, self.comparison
        weights, stored = parameter_bytes(network, size), flash_bytes(network, size)
        methods = () if found is None else found.methods
        if self.fit is not None:
            methods += (Method(FIT, self.fit.ram_bytes, self.fit.lower_bound, weights),)
        point = None if graph.smallest is None else graph.smallest.point
        findings = NetworkFindings(
            name=network.name,
            layers=tuple(_layers(network, self.graph, found, size)),
            parameters=weights,
            methods=methods,
            nanoseconds=None if found is None else found.nanoseconds,
            pipelined=None if point is None else point.period,
            added=tuple(added),
            limit=_limit_of(self.options, weights, stored),
            stored=stored,
            kept=0 if found is None else found.plan().kept_bytes,
        )
        return network_surroundings(findings, graph)


def subject(options: argparse.Namespace, stop: Stop) -> NetworkSubject:
    """Return the network of the options with its memory layer by layer and row by row."""
    network = chosen.read(options, knows_state=True).network
    granularity, size = chosen.granularity_of(options), options.element_bytes
    durations = chosen.durations_of(network, options)
    graph = lower(network, granularity, durations=durations(granularity), element_bytes=size)
    comparison, reason = None, ""
    try:
        with limited_part(stop, 0.2, partial(bytes_so_far, WHOLE_ARENA)) as part:
            comparison = memory_comparison(
                network, granularity, durations, element_bytes=size, budget=part
            )
    except CsdfError as refusal:
        reason = str(refusal)
    limits = Limits(ram=options.ram, flash=options.flash, memory=options.memory)
    room = limits.room(parameter_bytes(network, size), flash_bytes(network, size))
    fit = None
    if room is None or room >= 0:  # else the parameters alone are too large
        fit = fit_beside(
            [network],
            stop.part(share=0.3),
            ram=room,
            element_bytes=size,
            is_streamed=not network.keeps_state,
            platform=shared.platform_of(options),
        )
    shared.remark_on_platform("csdf report", options)
    return NetworkSubject(
        value=network, options=options, graph=graph, comparison=comparison, reason=reason, fit=fit
    )


def network_surroundings(findings: NetworkFindings, graph: GraphFindings) -> Surroundings:
    """Return the parts of the page about a network."""
    added = findings.added
    layers = layer_table(findings.layers, graph.critical_actors)
    lead = [
        element("p", words.headline(findings), class_="lead"),
        *(element("p", text, class_="verdict-line") for text in words.fitting(findings)),
        element("ul", *(element("li", text) for text in words.facts(findings))),
        element("h3", "As a pipeline: a processor for each layer, separate buffers"),
    ]
    sections = [section for one in added for section in one.sections]
    if findings.methods:
        largest = element("h3", "Layers that read the largest buffers"), largest_layers(findings)
        content = joined([memory_bars(findings), methods_table(findings), *largest])
        sections.insert(0, Section("memory", "Memory", content))
    counts = [("parameters", findings.parameters)]
    counts += [(one.title, one.total) for one in findings.methods]
    return Surroundings(
        name=findings.name,
        kind=f"network of {counted(len(findings.layers), 'layer')}; as a ",
        lead=tuple(lead),
        before=tuple(sections),
        after=(Section("table", "Layers", layers),),
        has_actors=False,
        data={name: value for one in added for name, value in one.data.items()},
        said=(words.headline(findings), *words.fitting(findings)),
        verdict=words.verdict(findings),
        figures=tuple(
            Figure(title, Fraction(count), bytes_in_words(count)) for title, count in counts
        ),
        noun="layer",
        is_no=words.fits(findings) is False,
    )


def _layers(
    network: Network, graph: Graph, found: MemoryComparison | None, element_bytes: int | None
) -> Iterator[LayerFigures]:
    whole, rows = (
        {
            one.tensor: one.size
            for one in (() if found is None else plans(found).plan.buffers)
            if one.has_rows and one.kind is not Kind.EXTERNAL
        }
        for plans in (attrgetter("whole"), attrgetter("rows"))
    )
    actors = {one.name: one.durations for one in graph.actors}  # none for what lies in a ring
    for layer in network.layers:
        durations, inputs = actors.get(layer.name, ()), network.input_shapes(layer)
        yield LayerFigures(
            name=layer.name,
            operator=describe(layer.operator, layer.epilogue),
            output=str(layer.shape),
            phases=len(durations),
            parameters=layer_parameter_bytes(layer, inputs, element_bytes),
            multiply_accumulates=multiply_accumulates(layer, inputs),
            output_bytes=layer.shape.elements * (element_bytes or layer.element_bytes),
            whole_buffers=sum(whole.get(name, 0) for name in layer.inputs),
            row_buffers=sum(rows.get(name, 0) for name in layer.inputs),
            nanoseconds=sum(durations),
        )


def _limit_of(options: argparse.Namespace, weights: int, stored: int) -> Limit | None:
    """Return what the network should fit; weights: bytes of its parameters; stored: in flash."""
    limits = Limits(ram=options.ram, flash=options.flash, memory=options.memory)
    if not limits.is_given:
        return None
    room = limits.room(weights, stored)
    marks = (
        ("--total-memory", limits.memory, 0),
        ("--ram, behind the parameters", limits.ram, weights),
        ("--flash, for parameters", limits.flash, 0),
    )
    return Limit(
        title=str(limits),
        flash_lacks=0 if limits.flash is None else max(0, stored - limits.flash),
        room=sys.maxsize if room is None else room,  # flash alone leaves any room for buffers
        elsewhere=limits.memory if limits.ram is None and limits.flash is None else None,
        marks=tuple(
            Mark(f"{name}: {bytes_in_words(size)}", before + size)
            for name, size, before in marks
            if size is not None
        ),
    )


BARS = 12  # layers with a bar
LEGIBLE = 20  # the longest bar of a list has at least this part of the full width


def memory_bars(findings: NetworkFindings) -> Html:
    """Return a bar for each method to hold the network in memory: buffers upon parameters."""
    most = full_width(findings)
    limit = findings.limit
    rows = [
        element(
            "li",
            element("span", one.title, class_="bar-title"),
            element(
                "span",
                element("span", class_="bar weights", style=_width(one.parameters, most)),
                element("span", class_="bar buffers", style=_width(one.buffers, most)),
                *_marks(limit, most),
                class_="bar-space", aria_hidden="true",
            ),
            element(
                "span",
                f"{bytes_in_words(one.buffers)} + {bytes_in_words(one.parameters)} = "
                f"{bytes_in_words(one.total)}",
                class_="bar-number",
            ),
            _verdict(one, limit),
        )
        for one in findings.methods
    ]  # fmt: skip
    key = element(
        "p",
        element("span", "buffers", class_="key buffers"),
        element("span", "parameters", class_="key weights"),
        *(element("span", mark.title, class_="key limit") for mark in _all_marks(limit)),
        element("span", f"full width: {bytes_in_words(most)}"),
        class_="keys",
    )
    return joined([key, element("ul", *rows, class_="bars")])


def full_width(findings: NetworkFindings) -> int:
    """Return the bytes that a bar of full width stands for: one scale for all bars of a page."""
    places = [mark.place for mark in _all_marks(findings.limit)]
    return max([1, *(one.total for one in findings.methods), *places])


def _all_marks(limit: Limit | None) -> tuple[Mark, ...]:
    return () if limit is None else limit.marks


def _width(part: int, whole: float) -> str:
    return f"width:{100 * part / whole:.3f}%"


def _marks(limit: Limit | None, most: int) -> Iterator[Html]:
    for mark in _all_marks(limit):
        yield element("span", class_="bar-limit", style=f"left:{100 * mark.place / most:.3f}%")


def _verdict(one: Method, limit: Limit | None) -> Html:
    """Whether a method fits; empty without a limit, so that all rows have the same columns."""
    if limit is None:
        return element("span", class_="verdict")
    is_good = one.buffers <= limit.room
    return element(
        "span", "fits" if is_good else "too large", class_=f"verdict {'yes' if is_good else 'no'}"
    )


def largest_layers(findings: NetworkFindings) -> Html:
    """Return bars for the layers that read the largest buffers, row by row beside whole.

    On the scale of the other bars; where they would be too short to see, some times as long.
    """
    chosen = sorted(findings.layers, key=lambda layer: -layer.whole_buffers)[:BARS]
    longest = max((max(one.whole_buffers, one.row_buffers) for one in chosen), default=1) or 1
    factor = _factor(longest, full_width(findings))
    most = max(full_width(findings), longest) / factor
    rows = [
        element(
            "li",
            element("span", layer.name, class_="bar-title", data_actor=layer.name),
            element(
                "span",
                element("span", class_="bar whole", style=_width(layer.whole_buffers, most)),
                element("span", class_="bar buffers", style=_width(layer.row_buffers, most)),
                class_="bar-space two", aria_hidden="true",
            ),
            element(
                "span",
                f"{bytes_in_words(layer.whole_buffers)} whole, "
                f"{bytes_in_words(layer.row_buffers)} row by row",
                class_="bar-number",
            ),
            element("span", class_="verdict"),
        )
        for layer in chosen
    ]  # fmt: skip
    scale = "the scale of the bars above"
    key = element(
        "p",
        element("span", "whole", class_="key whole"),
        element("span", "row by row", class_="key buffers"),
        element("span", scale if factor == 1 else f"{factor} times {scale}"),
        class_="keys",
    )
    return joined([key, element("ul", *rows, class_="bars")])


def _factor(longest: int, most: int) -> int:
    """The largest round factor with which a bar has at most the full width; 1 if it is legible."""
    factor = 1
    if longest * LEGIBLE < most:
        while longest * factor * 10 <= most:
            factor *= 10
        factor *= max(step for step in (1, 2, 5) if longest * factor * step <= most)
    return factor


def methods_table(findings: NetworkFindings) -> Html:
    """Return the figures of `csdf cnn memory` as a table."""
    titles = ("", "buffers", "parameters", "total", "frames/s", "buffers are")
    rows = []
    for one in findings.methods:
        times = findings.nanoseconds
        speed = "" if times is None or one.title == FIT else words.frames(times[not one.is_whole])
        rows.append(
            element(
                "tr",
                element("th", one.title, scope="row"),
                *(_bytes(count) for count in (one.buffers, one.parameters, one.total)),
                element("td", speed, class_="number"),
                element("td", _proof(one)),
            )
        )
    head = element(
        "tr",
        *(
            element("th", title, scope="col", class_="number" if 0 < place < 5 else None)
            for place, title in enumerate(titles)
        ),
    )
    table = element("table", element("thead", head), element("tbody", *rows), class_="plain")
    return element(
        "div", table, class_="scroller", tabindex=0, role="region", aria_label="memory and speed"
    )


def _proof(one: Method) -> str:
    if one.title == FIT:
        bound = f"; no plan is below {bytes_in_words(one.lower_bound)}" if one.lower_bound else ""
        return f"the smallest found{bound}"
    if one.buffers == one.lower_bound:
        return "the smallest, proved"
    gap = (one.buffers - one.lower_bound) / max(one.lower_bound, 1)
    return f"at most {gap:.2%} above the smallest arena"


def _bytes(count: int) -> Html:
    return element("td", bytes_in_words(count), class_="number", title=f"{count} bytes")


def layer_table(layers: Sequence[LayerFigures], critical: Sequence[str]) -> Html:
    """Return the layers of a network in their order."""
    marked = set(critical)
    rows = [
        Row(
            cells=(
                Cell(text=layer.name),
                Cell(text=layer.operator),
                Cell(text=layer.output),
                Cell(text=str(layer.phases), value=layer.phases),
                _size(layer.parameters),
                Cell(text=str(layer.multiply_accumulates), value=layer.multiply_accumulates),
                _size(layer.output_bytes),
                _size(layer.whole_buffers),
                _size(layer.row_buffers),
                Cell(text=f"{layer.nanoseconds / 1000:.1f}", value=layer.nanoseconds),
            ),
            is_marked=layer.name in marked,
        )
        for layer in layers
    ]
    titles = (
        *("layer", "operator", "output", "parts", "parameters", "MACs", "output size"),
        *("inputs whole", "inputs row by row", "time (µs)"),
    )
    return sortable("layers", "layer", titles, rows)


def _size(count: int) -> Cell:
    return Cell(text=bytes_in_words(count), value=count)


def terms_of(options: argparse.Namespace) -> Iterator[tuple[str, str]]:
    """Yield what was assumed about a network, each with a name."""
    size = options.element_bytes
    if not os.path.exists(options.model):
        yield "network", f"{options.model} of the catalogue of this version"
    yield "element size", _size_in_words(size)
    yield "platform", _platform(options)


def _size_in_words(size: int | None) -> str:
    if size is None:
        return "each tensor and parameter as in the file"
    return f"{answers.counted(size, 'byte')}; parameters have the same"


def _platform(options: argparse.Namespace) -> str:
    if options.durations:
        return f"measured times of {options.durations}"
    chosen = shared.platform_of(options)
    replaced = (options.operations, options.bandwidth, options.launch)
    name = options.platform if replaced == (None, None, None) else f"{options.platform}, changed"
    if chosen.core is not None:
        return f"{name}, not calibrated: {chosen.core.in_words()}, the slow end"
    return (
        f"{name}: {rate_in_words(chosen.operations_per_second, 4)} operations/s, "
        f"{rate_in_words(chosen.bytes_per_second, 4)} bytes/s, "
        f"{time_in_words(chosen.launch, 4)} to start a phase"
    )

"""Networks on the page of a report: what is known about their layers and their memory.

The parts of the page about the memory of a network.

Assumptions of a page about a network: the size of an element, and the times of a platform.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

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
from csdf.errors import GaveUp, counted
from csdf.model.graph import Graph
from csdf.outcome import Status
from csdf.search.pareto import SmallestStorage
from csdf.time_limit import Progress, Stop
from csdf.words import bytes_in_words, rate_in_words, time_in_words
from planners.memory_ways import FIT_ARENA, Limits, MemoryWay
from planners.parts_memory import MemoryApart, NetworkMemory, memory_apart
from planners.report import findings as words
from planners.report.findings import LayerFigures, Limit, Mark, NetworkFindings


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkSubject:
    """A network that works as the options say. apart: None where it was not found in time."""

    value: Network
    options: argparse.Namespace
    graph: Graph
    apart: MemoryApart | None
    unit: str = "bytes"
    time: str = "ns"

    @property
    def smallest(self) -> SmallestStorage | None:
        """The smallest buffers by parts: the storage of the graph."""
        return None if self.apart is None else self.apart.by_parts.smallest

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
        weights = parameter_bytes(self.value, self.options.element_bytes)
        stored = flash_bytes(self.value, self.options.element_bytes)
        findings = NetworkFindings(
            name=self.value.name,
            layers=tuple(_layers(self.value, self.graph, self.apart, self.options.element_bytes)),
            parameters=weights,
            apart=self.apart,
            added=tuple(added),
            limit=_limit_of(self.options, weights, stored),
            stored=stored,
        )
        return network_surroundings(findings, graph)


def network_surroundings(findings: NetworkFindings, graph: GraphFindings) -> Surroundings:
    """Return the parts of the page about a network."""
    added = findings.added
    layers = layer_table(findings.layers, graph.critical_actors)
    return Surroundings(
        name=findings.name,
        kind=f"network of {counted(len(findings.layers), 'layer')}; as a ",
        lead=tuple(_lead(findings)),
        before=(*_memory(findings), *(section for one in added for section in one.sections)),
        after=(Section("table", "Layers", layers),),
        has_actors=False,
        data={name: value for one in added for name, value in one.data.items()},
        said=(words.headline(findings), *words.fitting(findings)),
        verdict=words.verdict(findings),
        figures=tuple(_figures(findings)),
        noun="layer",
        is_no=words.fits(findings) is False,
    )


def _figures(findings: NetworkFindings) -> Iterator[Figure]:
    """Parameters, and the memory of each way."""
    counts = [("parameters", findings.parameters)]
    counts += [(way.title, way.total) for way in findings.ways]
    for title, count in counts:
        yield Figure(title, Fraction(count), bytes_in_words(count))


def _lead(findings: NetworkFindings) -> Iterator[Html]:
    yield element("p", words.headline(findings), class_="lead")
    for text in words.fitting(findings):
        yield element("p", text, class_="verdict-line")
    yield element("ul", *(element("li", text) for text in words.facts(findings)))
    yield element("h3", "As a pipeline: a processor for each layer, each buffer apart")


def _memory(findings: NetworkFindings) -> Iterator[Section]:
    if not findings.ways:
        return
    content = joined(
        [
            memory_bars(findings),
            ways_table(findings),
            element("h3", "Layers that read the largest buffers"),
            largest_layers(findings),
        ]
    )
    yield Section("memory", "Memory", content)


def subject(options: argparse.Namespace, stop: Stop) -> NetworkSubject:
    """Return the network of the options with its memory as a whole and by parts."""
    network = chosen.read(options).network
    granularity = chosen.granularity_of(options)
    durations = chosen.durations_of(network, options)
    apart = None
    try:
        with limited_part(stop, 0.3, _in_words) as part:
            apart = memory_apart(
                network, granularity, durations,
                element_bytes=options.element_bytes, budget=part,
            )  # fmt: skip
    except GaveUp:
        pass  # the page says that the memory was not found
    graph = lower(
        network, granularity,
        durations=durations(granularity), element_bytes=options.element_bytes,
    )  # fmt: skip
    shared.remark_on_platform("csdf report", options)
    return NetworkSubject(value=network, options=options, graph=graph, apart=apart)


def _in_words(progress: Progress) -> str:
    return f"buffers: at least {progress.lower_bound} bytes"


def _layers(
    network: Network, graph: Graph, apart: MemoryApart | None, element_bytes: int | None
) -> Iterator[LayerFigures]:
    whole, parts = ({}, {}) if apart is None else (_read_bytes(memory.graph) for memory in apart)
    for layer in network.layers:
        durations, inputs = graph.actor(layer.name).durations, network.input_shapes(layer)
        yield LayerFigures(
            name=layer.name,
            operator=describe(layer.operator, layer.epilogue),
            output=str(layer.shape),
            phases=len(durations),
            parameters=layer_parameter_bytes(layer, inputs, element_bytes),
            multiply_accumulates=multiply_accumulates(layer, inputs),
            output_bytes=layer.shape.elements * (element_bytes or layer.element_bytes),
            whole_buffers=whole.get(layer.name, 0),
            parts_buffers=parts.get(layer.name, 0),
            nanoseconds=sum(durations),
        )


def _read_bytes(graph: Graph) -> dict[str, int]:
    """Bytes of the buffers that each layer reads."""
    found: dict[str, int] = {}
    for channel in graph.channels:
        if channel.capacity is not None:
            before = found.get(channel.consumer, 0)
            found[channel.consumer] = before + channel.capacity * (channel.token_size or 1)
    return found


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
    """Return a bar for each way to lay the network into memory: buffers upon parameters."""
    most = full_width(findings)
    limit = findings.limit
    rows = [
        element(
            "li",
            element("span", way.title, class_="bar-title"),
            element(
                "span",
                element("span", class_="bar weights", style=_width(way.parameters, most)),
                element("span", class_="bar buffers", style=_width(way.buffers, most)),
                *_marks(limit, most),
                class_="bar-space", aria_hidden="true",
            ),
            element(
                "span",
                f"{bytes_in_words(way.buffers)} + {bytes_in_words(way.parameters)} = "
                f"{bytes_in_words(way.total)}",
                class_="bar-number",
            ),
            _verdict(way, limit),
        )
        for way in findings.ways
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
    return max([1, *(way.total for way in findings.ways), *places])


def _all_marks(limit: Limit | None) -> tuple[Mark, ...]:
    return () if limit is None else limit.marks


def _width(part: int, whole: float) -> str:
    return f"width:{100 * part / whole:.3f}%"


def _marks(limit: Limit | None, most: int) -> Iterator[Html]:
    for mark in _all_marks(limit):
        yield element("span", class_="bar-limit", style=f"left:{100 * mark.place / most:.3f}%")


def _verdict(way: MemoryWay, limit: Limit | None) -> Html:
    """Whether a way fits; empty without a limit, so that all rows have the same columns."""
    if limit is None:
        return element("span", class_="verdict")
    is_good = way.buffers <= limit.room
    return element(
        "span", "fits" if is_good else "too large", class_=f"verdict {'yes' if is_good else 'no'}"
    )


def largest_layers(findings: NetworkFindings) -> Html:
    """Return bars for the layers that read the largest buffers, by parts beside as a whole.

    On the scale of the other bars; where they would be too short to see, some times as long.
    """
    chosen = sorted(findings.layers, key=lambda layer: -layer.whole_buffers)[:BARS]
    longest = max((max(one.whole_buffers, one.parts_buffers) for one in chosen), default=1) or 1
    factor = _factor(longest, full_width(findings))
    most = max(full_width(findings), longest) / factor
    rows = [
        element(
            "li",
            element("span", layer.name, class_="bar-title", data_actor=layer.name),
            element(
                "span",
                element("span", class_="bar whole", style=_width(layer.whole_buffers, most)),
                element("span", class_="bar buffers", style=_width(layer.parts_buffers, most)),
                class_="bar-space two", aria_hidden="true",
            ),
            element(
                "span",
                f"{bytes_in_words(layer.whole_buffers)} whole, "
                f"{bytes_in_words(layer.parts_buffers)} by parts",
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
        element("span", "by parts", class_="key buffers"),
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


def ways_table(findings: NetworkFindings) -> Html:
    """Return the figures of `csdf cnn memory` as a table."""
    titles = ("", "buffers", "parameters", "total", "frames/s", "pipelined frames/s", "buffers are")
    rows = [
        element(
            "tr",
            element("th", way.title, scope="row"),
            *(_bytes(count) for count in (way.buffers, way.parameters, way.total)),
            *(element("td", text, class_="number") for text in speed),
            element("td", proof),
        )
        for way, (speed, proof) in zip(findings.ways, _speeds(findings), strict=True)
    ]
    head = element(
        "tr",
        *(
            element("th", title, scope="col", class_="number" if 0 < place < 6 else None)
            for place, title in enumerate(titles)
        ),
    )
    table = element("table", element("thead", head), element("tbody", *rows), class_="plain")
    return element(
        "div", table, class_="scroller", tabindex=0, role="region", aria_label="memory and speed"
    )


def _speeds(findings: NetworkFindings) -> Iterator[tuple[tuple[str, str], str]]:
    """Speed and proof of each way; only with buffers apart is there a pipeline of layers."""
    apart = dict(findings.ways_apart)
    works = {way.is_whole: work for way, work in findings.ways_apart}
    for way in findings.ways:
        work = None if way.title == FIT_ARENA else works.get(way.is_whole)
        speed = ("", "") if work is None else words.frames(work)
        if way in apart:
            yield speed, _proof(apart[way])
        else:
            yield (speed[0], ""), _proof_of_arena(way)


def _proof_of_arena(way: MemoryWay) -> str:
    if way.title == FIT_ARENA:
        bound = f"; no plan is below {bytes_in_words(way.lower_bound)}" if way.lower_bound else ""
        return f"the least found{bound}"
    if way.buffers == way.lower_bound:
        return "the smallest arena, proved"
    gap = (way.buffers - way.lower_bound) / max(way.lower_bound, 1)
    return f"at most {gap:.2%} above the smallest arena"


def _bytes(count: int) -> Html:
    return element("td", bytes_in_words(count), class_="number", title=f"{count} bytes")


def _proof(way: NetworkMemory) -> str:
    if way.status is Status.OPTIMAL:
        return "the smallest, proved"
    return f"at most {float(way.gap or 0):.2%} above the smallest"


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
                _size(layer.parts_buffers),
                Cell(text=f"{layer.nanoseconds / 1000:.1f}", value=layer.nanoseconds),
            ),
            is_marked=layer.name in marked,
        )
        for layer in layers
    ]
    titles = (
        *("layer", "operator", "output", "parts", "parameters", "MACs", "output size"),
        *("inputs whole", "inputs by parts", "time (µs)"),
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
    return (
        f"{name}: {rate_in_words(chosen.operations_per_second, 4)} operations/s, "
        f"{rate_in_words(chosen.bytes_per_second, 4)} bytes/s, "
        f"{time_in_words(chosen.launch, 4)} to start a phase"
    )

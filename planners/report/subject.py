"""Networks on the page of a report: what is known about their layers and their memory."""

from __future__ import annotations

import argparse
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
from csdf.cli.frame.long_work import limited_part
from csdf.draw.report.findings import GraphFindings
from csdf.draw.report.markup import Html, element, joined
from csdf.draw.report.sections import Contribution, Figure, Section, Surroundings
from csdf.errors import GaveUp, counted
from csdf.model.graph import Graph
from csdf.search.pareto import SmallestStorage
from csdf.stopping import Progress, Stop
from csdf.words import bytes_in_words
from planners.limits import Limits
from planners.parts_memory import MemoryApart, memory_apart
from planners.report import sections, words
from planners.report.findings import LayerFigures, Limit, Mark, NetworkFindings
from planners.report.terms import terms_of


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
    layers = sections.layer_table(findings.layers, graph.critical_actors)
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
            sections.memory_bars(findings),
            sections.ways_table(findings),
            element("h3", "Layers that read the largest buffers"),
            sections.largest_layers(findings),
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
        ("--memory", limits.memory, 0),
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

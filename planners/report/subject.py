"""Networks as subjects of a report: how they are read, and what is known about their memory."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePath

from cnn2csdf.catalogue.networks import CATALOGUE
from cnn2csdf.commands.cnn import options as shared
from cnn2csdf.describe import describe
from cnn2csdf.lowering import lower
from cnn2csdf.network import Network
from cnn2csdf.parameters import layer_parameters, multiply_accumulates
from csdf.cli import answers
from csdf.cli.reporting.budget import Budget
from csdf.draw.report.findings import GraphFindings
from csdf.draw.report.markup import Html, element, joined
from csdf.draw.report.sections import Contribution, Section, Surroundings
from csdf.errors import CsdfError, GaveUp
from csdf.model.graph import Graph
from csdf.search.pareto import SmallestStorage
from csdf.search.trade_off import Progress
from planners.parts_memory import MemoryComparison, memory_comparison
from planners.report import sections, words
from planners.report.findings import LayerFigures, NetworkFindings

INPUT = "a network: .onnx, Darknet .cfg, JSON, or a name of the catalogue such as mobilenet_v2"
NAMES = tuple(CATALOGUE)
FILES = (".onnx", ".cfg", ".json")
GRAPHS = (".xml", ".csv")


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkSubject:
    """A network that works as the options say. memory: None where it was not found in time."""

    value: Network
    options: argparse.Namespace
    graph: Graph
    memory: MemoryComparison | None
    unit: str = "bytes"
    time: str = "ns"

    @property
    def smallest(self) -> SmallestStorage | None:
        """The smallest buffers by parts: the storage of the graph."""
        return None if self.memory is None else self.memory.by_parts.smallest

    def surroundings(self, graph: GraphFindings, added: Sequence[Contribution]) -> Surroundings:
        """Return what the page says about the memory, before and behind the parts about the graph."""
        findings = NetworkFindings(
            name=self.value.name,
            layers=tuple(_layers(self.value, self.graph, self.memory, self.options.element_bytes)),
            memory=self.memory,
            added=tuple(added),
            capacity=self.options.memory,
        )
        return network_surroundings(findings, graph)


def network_surroundings(findings: NetworkFindings, graph: GraphFindings) -> Surroundings:
    """Return the parts of the page about a network."""
    added = findings.added
    layers = sections.layer_table(findings.layers, graph.critical_actors)
    return Surroundings(
        name=findings.name,
        kind=f"network of {len(findings.layers)} layers; as a ",
        lead=tuple(_lead(findings)),
        before=(*_memory(findings), *(section for one in added for section in one.sections)),
        after=(Section("table", "Layers", layers),),
        has_actors=False,
        data={name: value for one in added for name, value in one.data.items()},
        said=(words.headline(findings), *words.fitting(findings)),
        is_no=words.fits(findings) is False,
    )


def _lead(findings: NetworkFindings) -> Iterator[Html]:
    yield element("p", words.headline(findings), class_="lead")
    for text in words.fitting(findings):
        yield element("p", text, class_="verdict-line")
    yield element("ul", *(element("li", text) for text in words.facts(findings)))
    yield element("h3", "As a pipeline, a processor for each layer")


def _memory(findings: NetworkFindings) -> Iterator[Section]:
    if findings.memory is None:
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


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add how the network is read, how it works, and the memory that it should fit."""
    shared.add_reading_options(parser)
    parser.add_argument(
        "--memory", type=answers.size, metavar="SIZE", help="does the network fit? e.g. 256kB, 1MiB"
    )
    shared.add_granularity_options(parser)
    shared.add_duration_options(parser)


def reads(name: str) -> bool:
    """Whether a name that is no graph's file is that of a network: a model file, or the catalogue."""
    suffix = PurePath(name).suffix.lower()
    return suffix in FILES or (suffix not in GRAPHS and not os.path.exists(name))


def refuse(options: argparse.Namespace) -> None:
    """Refuse, for a graph, the question that only a network answers. Raises CsdfError."""
    if options.memory is not None:
        raise CsdfError("--memory is for networks; the buffers of a graph are on its page")


def subject(options: argparse.Namespace, budget: Budget) -> NetworkSubject:
    """Return the network of the options with its memory as a whole and by parts."""
    network = shared.read(options).network
    granularity = shared.granularity_of(options)
    durations = shared.durations_of(network, options)
    memory = None
    try:
        with budget.limited(0.35):
            memory = memory_comparison(
                network, granularity, durations,
                element_bytes=options.element_bytes, watch=budget.watch(0.3, _in_words),
            )  # fmt: skip
    except GaveUp:
        pass  # the page says that the memory was not found
    graph = lower(
        network, granularity,
        durations=durations(granularity), element_bytes=options.element_bytes,
    )  # fmt: skip
    shared.remark_on_fusing("csdf report", network, options)
    return NetworkSubject(value=network, options=options, graph=graph, memory=memory)


def _in_words(progress: Progress) -> str:
    return f"buffers: at least {progress.lower_bound} bytes"


def _layers(
    network: Network, graph: Graph, comparison: MemoryComparison | None, element_bytes: int
) -> Iterator[LayerFigures]:
    parameters = layer_parameters(network)
    whole, parts = (
        {} if memory is None else _read_bytes(memory.graph, element_bytes)
        for memory in (
            (None, None) if comparison is None else (comparison.whole, comparison.by_parts)
        )
    )
    for layer in network.layers:
        durations = graph.actor(layer.name).durations
        yield LayerFigures(
            name=layer.name,
            operator=describe(layer.operator, layer.epilogue),
            output=str(layer.shape),
            phases=len(durations),
            parameters=parameters[layer.name] * element_bytes,
            multiply_accumulates=multiply_accumulates(layer, network.input_shapes(layer)),
            output_bytes=layer.shape.elements * element_bytes,
            whole_buffers=whole.get(layer.name, 0),
            parts_buffers=parts.get(layer.name, 0),
            nanoseconds=sum(durations),
        )


def _read_bytes(graph: Graph, element_bytes: int) -> dict[str, int]:
    """Bytes of the buffers that each layer reads."""
    found: dict[str, int] = {}
    for channel in graph.channels:
        if channel.capacity is not None:
            before = found.get(channel.consumer, 0)
            found[channel.consumer] = before + channel.capacity * element_bytes
    return found

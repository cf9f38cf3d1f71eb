"""Reader of ONNX files of FINN; reader and writer of its folding files: attributes of nodes in JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import PurePath
from typing import Any, NamedTuple

from cnn2csdf.readers.plain_onnx import PlainGraph, read_plain_onnx
from csdf.errors import InvalidGraph, UnreadableFile, counted
from csdf.io.files import read_bytes
from csdf.io.json_value import JsonValue
from planners.fifo.cores import FifoCore
from planners.fifo.design import Design, DesignLayer, Fifo
from planners.fifo.finn.layers import converter_cluster, knows, layer_cluster
from planners.fifo.finn.nodes import DOMAIN, FinnNode, operator_of
from planners.fifo.timing.cluster import Cluster, TimingOptions, WordPort

Folding = Mapping[str, Mapping[str, Any]]  # attributes by the names of nodes

FIFO = "StreamingFIFO"
CONVERTER = "StreamingDataWidthConverter"
CONVERTED = "(converter)"  # suffix of the names of added width converters
# ONNX operators that keep the order of elements.
SHAPES = ("Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity")
PASSED = ("TLastMarker", FIFO, *SHAPES)  # nodes that forward words unchanged
ESTIMATE = "cycles_estimate"


class End(NamedTuple):
    """A port of a node."""

    node: int
    port: int


class Stream(NamedTuple):
    """A stream from one layer to another, with the FIFO nodes that are on it."""

    start: End
    end: End
    fifos: tuple[FinnNode, ...] = ()


def read_design(path: str, options: TimingOptions, folding: Folding | None = None) -> Design:
    """Return the design in an ONNX file of FINN, in the folding of the file or another.

    folding: attributes by the names of nodes, "Defaults" for all. A width converter that neither file
    has, but the widths need, is put where FINN's InsertDWC would put it. Raises UnreadableFile.
    """
    graph = read_plain_onnx(path)
    nodes = [_folded(node, folding or {}) for node in _nodes(path, graph)]
    _require_names(path, nodes, folding or {})
    streams = _streams(path, graph, nodes)
    name = PurePath(path).name.removesuffix(".gz").removesuffix(".onnx")
    try:
        return _design(name, nodes, streams, options)
    except InvalidGraph as error:
        raise UnreadableFile(f"{path}: {error}") from None


def _nodes(path: str, graph: PlainGraph) -> list[FinnNode]:
    """Return all layers of the file. Raises UnreadableFile, naming all nodes without a timing."""
    nodes = []
    for number, node in enumerate(graph.nodes):
        if node.op_type == "StreamingDataflowPartition":
            child = node.attributes.get("model", "the file in its attribute model")
            raise UnreadableFile(
                f"{path}: node {node.name!r} is a StreamingDataflowPartition; the layers are in "
                f"{child}: give that file"
            )
        if node.op_type == "FINNLoop" or node.attributes.get("mlo_max_iter"):
            raise UnreadableFile(f"{path}: node {node.name!r} is a loop of layers; unroll it first")
        operator, style = operator_of(node.op_type)
        inputs = [name for name in node.inputs if name and name not in graph.parameters]
        is_external = node.attributes.get("mem_mode") == "external"
        nodes.append(
            FinnNode(
                name=node.name or f"{node.op_type}_{number}",
                operator=operator,
                style=style,
                written=node.op_type,
                attributes=node.attributes,
                inputs=tuple(inputs[:1] if is_external else inputs),
                outputs=tuple(name for name in node.outputs if name),
                file=path,
            )
        )
    if not any(node.domain.startswith(DOMAIN) for node in graph.nodes):
        raise UnreadableFile(
            f"{path}: no hardware layer of FINN in it (domain {DOMAIN}); "
            "this is a network, not a design"
        )
    unknown = [
        f"{node.name!r} ({node.written})"
        for node in nodes
        if not knows(node.operator) and node.operator not in PASSED
    ]
    if unknown:
        raise UnreadableFile(
            f"{path}: no timing is known for {', '.join(unknown)}; every node must be a hardware layer "
            "of FINN. Convert what is left to hardware layers, or cut the model before and after them"
        )
    return nodes


def _folded(node: FinnNode, folding: Folding) -> FinnNode:
    """Return the node with the attributes of a folding file.

    Its entry "Defaults" has for each attribute a pair: a value, and the operators that take it.
    """
    changed = dict(node.attributes)
    for attribute, entry in folding.get("Defaults", {}).items():
        if not (isinstance(entry, list) and len(entry) == 2 and isinstance(entry[1], list)):
            continue
        is_meant = {"all", node.operator, node.written} & set(map(str, entry[1]))
        if is_meant and node.has(attribute):
            changed[attribute] = entry[0]
    for attribute, value in folding.get(node.name, {}).items():
        changed[attribute] = tuple(value) if isinstance(value, list) else value
    return replace(node, attributes=changed)


def _require_names(path: str, nodes: Sequence[FinnNode], folding: Folding) -> None:
    names = [node.name for node in nodes]
    duplicate = next((name for name in names if names.count(name) > 1), None)
    if duplicate is not None:
        raise UnreadableFile(
            f"{path}: two nodes are named {duplicate!r}; run FINN's GiveUniqueNodeNames"
        )
    unknown = [
        name
        for name in folding
        if name not in {*names, "Defaults"}
        and operator_of(name.rpartition("_")[0])[0] not in (FIFO, CONVERTER)
    ]
    if unknown:
        raise UnreadableFile(
            f"the folding file has {', '.join(map(repr, unknown[:5]))}"
            f"{' and others' if len(unknown) > 5 else ''}, which {path} has not; "
            "it belongs to another model, or the nodes were renamed"
        )


def _streams(path: str, graph: PlainGraph, nodes: Sequence[FinnNode]) -> list[Stream]:
    """Return the streams between layers; nodes that forward words are part of a stream."""
    writers = {
        name: End(number, port)
        for number, node in enumerate(nodes)
        for port, name in enumerate(node.outputs)
    }
    readers: dict[str, list[int]] = {}
    for number, node in enumerate(nodes):
        for name in node.inputs:
            readers.setdefault(name, []).append(number)
            if name not in writers and name not in graph.inputs:
                raise UnreadableFile(
                    f"{path}: node {node.name!r} reads {name!r}, which nothing in the file makes"
                )
    forked = next((name for name, ends in readers.items() if len(ends) > 1), None)
    if forked is not None:
        raise UnreadableFile(
            f"{path}: stream {forked!r} has {len(readers[forked])} readers; a stream has one. "
            "Run FINN's InferDuplicateStreamsLayer"
        )
    streams = []
    for number, node in enumerate(nodes):
        for port, name in enumerate(node.inputs if node.operator not in PASSED else ()):
            passed: list[FinnNode] = []
            while name in writers and nodes[writers[name].node].operator in PASSED:
                before = nodes[writers[name].node]
                if before.operator == FIFO:
                    passed.insert(0, before)
                name = before.inputs[0] if before.inputs else ""
            if name in writers:  # else it is an input of the design
                end = End(number, port)
                streams.append(Stream(start=writers[name], end=end, fifos=tuple(passed)))
    return streams


def _design(
    name: str, nodes: Sequence[FinnNode], streams: Sequence[Stream], options: TimingOptions
) -> Design:
    layer_nodes = [number for number, node in enumerate(nodes) if node.operator not in PASSED]
    clusters: dict[int, Cluster] = {}
    # Width converters last, since their neighbours determine their widths.
    for number in sorted(layer_nodes, key=lambda number: nodes[number].operator == CONVERTER):
        node = nodes[number]
        if node.operator == CONVERTER:
            node = _fitted(number, nodes, streams, clusters)
        clusters[number] = layer_cluster(node, options)
    layers = [_layer(nodes[number], clusters[number]) for number in layer_nodes]
    count = len(layers)
    fifos: list[Fifo] = []
    for stream in streams:
        start, end = layer_nodes.index(stream.start.node), layer_nodes.index(stream.end.node)
        written = _output(nodes[stream.start.node], layers[start].cluster, stream.start.port)
        read = layers[end].cluster.inputs[stream.end.port]
        fifo = Fifo(
            name="", producer=start, output=stream.start.port, consumer=end, input=stream.end.port,
            bits=written.bits, words=written.words, given=_depth_in_file(nodes, stream),
            nodes=tuple(node.name for node in stream.fifos),
        )  # fmt: skip
        if written.words == read.words:
            fifos.append(fifo)
        else:
            fifos += _with_converter(fifo, read, layers, options)
    remarks: tuple[str, ...] = ()
    if len(layers) > count:
        remarks = (
            f"{counted(len(layers) - count, 'width converter')} added where widths differ, as "
            "InsertDWC of FINN does: the file has none there",
        )
    # FIFOs are named after their ends, with a number where two layers share several.
    names: dict[str, int] = {}
    for number, fifo in enumerate(fifos):
        ends = f"{layers[fifo.producer].name} to {layers[fifo.consumer].name}"
        names[ends] = names.get(ends, 0) + 1
        fifo_name = ends if names[ends] == 1 else f"{ends}, {names[ends]}"
        fifos[number] = replace(fifo, name=fifo_name)
    return Design(name=name, layers=tuple(layers), fifos=tuple(fifos), remarks=remarks)


def _with_converter(
    fifo: Fifo, read: WordPort, layers: list[DesignLayer], options: TimingOptions
) -> tuple[Fifo, Fifo]:
    """Add a width converter to the layers; return the FIFOs before and after it.

    fifo: between ports of different widths. read: the port of its consumer.
    """
    start, end = layers[fifo.producer], layers[fifo.consumer]
    total = max(fifo.words * fifo.bits, read.words * read.bits)
    if total % fifo.words or total % read.words:
        raise InvalidGraph(
            f"{start.name!r} writes {counted(fifo.words, 'word')} of {counted(fifo.bits, 'bit')}, but "
            f"{end.name!r} reads {read.words} of {read.bits}; no width converter joins them"
        )
    converter = FinnNode(
        name=f"{start.name} to {end.name} {CONVERTED}", operator=CONVERTER,
        style="", written=CONVERTER, attributes={}, inputs=(), outputs=(),
    )  # fmt: skip
    widths = total // fifo.words, total // read.words
    cluster = converter_cluster(converter, options, total, widths)
    middle = len(layers)
    layers.append(DesignLayer(name=converter.name, kind=CONVERTER, cluster=cluster))
    after = replace(
        fifo, producer=middle, output=0, bits=read.bits, words=read.words, given=None, nodes=()
    )
    return replace(fifo, consumer=middle, input=0), after


def _output(node: FinnNode, cluster: Cluster, port: int) -> WordPort:
    if port >= len(cluster.outputs):
        raise node.refusal(f"output {port} is read, but the layer has {len(cluster.outputs)}")
    return cluster.outputs[port]


def _fitted(
    number: int,
    nodes: Sequence[FinnNode],
    streams: Sequence[Stream],
    clusters: Mapping[int, Cluster],
) -> FinnNode:
    """A width converter with the widths of its neighbours, which a folding may have changed."""
    changed = dict(nodes[number].attributes)
    for start, end, _ in streams:
        if end.node == number and start.node in clusters:
            written = _output(nodes[start.node], clusters[start.node], start.port)
            changed["inWidth"] = written.bits
        if start.node == number and end.node in clusters:
            _require_inputs(nodes[end.node], clusters[end.node])
            changed["outWidth"] = clusters[end.node].inputs[end.port].bits
    return replace(nodes[number], attributes=changed)


def _require_inputs(node: FinnNode, cluster: Cluster) -> None:
    if len(cluster.inputs) != len(node.inputs):
        raise node.refusal(
            f"streams that come in: {len(node.inputs)}, but its attributes say {len(cluster.inputs)}"
        )


def _layer(node: FinnNode, cluster: Cluster) -> DesignLayer:
    _require_inputs(node, cluster)
    estimate = node.attributes.get(ESTIMATE)
    return DesignLayer(
        name=node.name,
        kind=node.written,
        cluster=cluster,
        estimate=estimate if isinstance(estimate, int) else None,
        folding=", ".join(f"{key} {node[key]}" for key in ("PE", "SIMD") if node.has(key)),
    )


def _depth_in_file(nodes: Sequence[FinnNode], stream: Stream) -> int | None:
    """Return the depth of a stream: the sum of its FIFO nodes, or the larger depth of its ends."""
    if stream.fifos:
        return sum(node.whole("depth") for node in stream.fifos)
    depths: list[int] = []
    for end, key in ((stream.start, "outFIFODepths"), (stream.end, "inFIFODepths")):
        depths += nodes[end.node].wholes(key, least=0)[end.port : end.port + 1]
    return max(depths, default=None)


def read_folding(path: str) -> dict[str, dict[str, Any]]:
    """Return the attributes of each node. Raises UnreadableFile."""
    document = JsonValue.parse(read_bytes(path).decode("utf-8", "replace"), path)
    if type(document.value) is not dict:
        raise document.refusal("expected an object with an object for each node")
    for name in document.value:
        if type(document[name].value) is not dict:
            raise document[name].refusal("expected an object with the attributes of a node")
    return dict(document.value)


def folding_text(
    design: Design, cores: Sequence[Sequence[FifoCore]], folding: Folding | None = None
) -> str:
    """Return a folding file with these cores: for existing FIFO nodes, and for InsertFIFO.

    The depth of a stream is written at both its ends; FINN uses the larger depth. Where the model has
    as many FIFO nodes on a stream as cores, each is told its depth and style; where it has fewer, the
    last one holds the rest.
    """
    document: dict[str, dict[str, Any]] = {
        name: dict(entry) for name, entry in (folding or {}).items()
    }
    document.setdefault("Defaults", {})
    ends: list[tuple[list[int], list[int]]] = []  # depths at the inputs and outputs of each layer
    for layer in design.layers:
        is_in_file = not layer.name.endswith(CONVERTED)
        entry = document.setdefault(layer.name, {}) if is_in_file else {}
        # Depth 2 where a port is one of the whole design.
        entry["inFIFODepths"] = [2] * len(layer.cluster.inputs)
        entry["outFIFODepths"] = [2] * len(layer.cluster.outputs)
        ends.append((entry["inFIFODepths"], entry["outFIFODepths"]))
    for fifo, row in zip(design.fifos, cores, strict=True):
        depth = sum(core.depth for core in row)
        ends[fifo.producer][1][fifo.output] = ends[fifo.consumer][0][fifo.input] = depth
        for name, core in zip(fifo.nodes, _shared(row, len(fifo.nodes)), strict=False):
            entry = document.setdefault(name, {})
            entry.update(depth=core.depth, impl_style=core.style, ram_style="auto")
    return json.dumps(document, indent=2) + "\n"


def _shared(row: Sequence[FifoCore], nodes: int) -> list[FifoCore]:
    """The cores for this many FIFO nodes in a row."""
    if not nodes or len(row) <= nodes:
        minimum = FifoCore(style="rtl", depth=2)
        return [*row, *[minimum] * (nodes - len(row))]
    remaining_depth = sum(core.depth for core in row[nodes - 1 :])
    return [
        *row[: nodes - 1],
        FifoCore(style="vivado", depth=1 << (remaining_depth - 1).bit_length()),
    ]


def fifo_depths(folding: Folding) -> dict[str, int]:
    """Return the depth of each FIFO node that a folding file names. Raises UnreadableFile."""
    depths = {}
    for name, entry in folding.items():
        if name.startswith("StreamingFIFO") and "depth" in entry:
            depth = entry["depth"]
            if type(depth) is not int or depth < 0:
                raise UnreadableFile(f"{name}: depth {depth!r}; expected an integer >= 0")
            depths[name] = depth
    return depths

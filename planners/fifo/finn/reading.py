"""A model that FINN writes becomes a design: layers, and the FIFOs between them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Any, NamedTuple

from cnn2csdf.readers.plain_onnx import PlainGraph, PlainNode, read_plain_onnx
from csdf.errors import InvalidGraph, UnreadableFile, counted
from planners.fifo.design import Design, Fifo, Layer
from planners.fifo.finn.layers import converter_cluster, knows, layer_cluster
from planners.fifo.finn.nodes import DOMAIN, Node, operator_of
from planners.fifo.timing.cluster import Cluster, TimingOptions

FIFO = "StreamingFIFO"
CONVERTER = "StreamingDataWidthConverter"
PASSED = ("TLastMarker", FIFO)  # words pass them as they are
SHAPES = ("Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity")  # of ONNX: order stays
FOLDED = ("PE", "SIMD", "parallel_window", "depth", "impl_style", "ram_style", "M")
ESTIMATE = "cycles_estimate"


class End(NamedTuple):
    """A port of a node."""

    node: int
    port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """A stream from one layer to another, with the FIFO nodes that are on it."""

    start: End
    end: End
    fifos: tuple[Node, ...] = ()


def read_design(
    path: str, options: TimingOptions, folding: Mapping[str, Mapping[str, Any]] | None = None
) -> Design:
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


def _nodes(path: str, graph: PlainGraph) -> list[Node]:
    """All layers of the file; of unknown ones all are named at once."""
    _require_hardware(path, graph)
    nodes = [_node(path, number, one, graph) for number, one in enumerate(graph.nodes)]
    unknown = [
        f"{node.name!r} ({node.written})"
        for node in nodes
        if not knows(node.operator) and node.operator not in (*PASSED, *SHAPES)
    ]
    if unknown:
        raise UnreadableFile(
            f"{path}: no timing is known for {', '.join(unknown)}; every node must be a hardware layer "
            "of FINN. Convert what is left to hardware layers, or cut the model before and after them"
        )
    return nodes


def _require_hardware(path: str, graph: PlainGraph) -> None:
    for one in graph.nodes:
        if one.op_type == "StreamingDataflowPartition":
            child = one.attributes.get("model", "the file in its attribute model")
            raise UnreadableFile(
                f"{path}: node {one.name!r} is a StreamingDataflowPartition; the layers are in "
                f"{child}: give that file"
            )
        if one.op_type == "FINNLoop" or one.attributes.get("mlo_max_iter"):
            raise UnreadableFile(f"{path}: node {one.name!r} is a loop of layers; unroll it first")
    if not any(one.domain.startswith(DOMAIN) for one in graph.nodes):
        raise UnreadableFile(
            f"{path}: no hardware layer of FINN in it (domain {DOMAIN}); "
            "this is a network, not a design"
        )


def _node(path: str, number: int, one: PlainNode, graph: PlainGraph) -> Node:
    operator, style = operator_of(one.op_type)
    is_external = one.attributes.get("mem_mode") == "external"
    inputs = [name for name in one.inputs if name and name not in graph.parameters]
    if is_external:
        inputs = inputs[:1]
    return Node(
        name=one.name or f"{one.op_type}_{number}",
        operator=operator,
        style=style,
        written=one.op_type,
        attributes=one.attributes,
        inputs=tuple(inputs),
        outputs=tuple(name for name in one.outputs if name),
        file=path,
    )


def _folded(node: Node, folding: Mapping[str, Mapping[str, Any]]) -> Node:
    """The node with what the folding file says about it."""
    changed = dict(node.attributes)
    for attribute, (value, operators) in _defaults(folding).items():
        if "all" in operators or node.operator in operators or node.written in operators:
            if node.has(attribute):
                changed[attribute] = value
    for attribute, value in folding.get(node.name, {}).items():
        changed[attribute] = tuple(value) if isinstance(value, list) else value
    return replace(node, attributes=changed)


def _defaults(folding: Mapping[str, Mapping[str, Any]]) -> dict[str, tuple[Any, tuple[str, ...]]]:
    """Return the "Defaults": for each attribute a value, and the operators that it is for."""
    found = {}
    for attribute, entry in folding.get("Defaults", {}).items():
        if isinstance(entry, list) and len(entry) == 2 and isinstance(entry[1], list):
            found[attribute] = entry[0], tuple(map(str, entry[1]))
    return found


def _require_names(
    path: str, nodes: Sequence[Node], folding: Mapping[str, Mapping[str, Any]]
) -> None:
    names = [node.name for node in nodes]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise UnreadableFile(
            f"{path}: two nodes are named {twice!r}; run FINN's GiveUniqueNodeNames"
        )
    strange = [
        name
        for name in folding
        if name not in names
        and name != "Defaults"
        and operator_of(name.rpartition("_")[0])[0] not in (FIFO, CONVERTER)
    ]
    if strange:
        raise UnreadableFile(
            f"the folding file has {', '.join(map(repr, strange[:5]))}"
            f"{' and others' if len(strange) > 5 else ''}, which {path} has not; "
            "it belongs to another model, or the nodes were renamed"
        )


def _streams(path: str, graph: PlainGraph, nodes: Sequence[Node]) -> list[Stream]:
    """The streams between layers; FIFO nodes and the like are part of them."""
    made = {
        name: End(number, port)
        for number, node in enumerate(nodes)
        for port, name in enumerate(node.outputs)
    }
    readers: dict[str, list[int]] = {}
    for number, node in enumerate(nodes):
        for name in node.inputs:
            readers.setdefault(name, []).append(number)
            if name not in made and name not in graph.inputs:
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
        if _is_passed(node):
            continue
        for port, name in enumerate(node.inputs):
            start, passed = _upstream(name, made, nodes)
            if start is not None:
                streams.append(Stream(start=start, end=End(number, port), fifos=passed))
    return streams


def _upstream(
    name: str, made: Mapping[str, End], nodes: Sequence[Node]
) -> tuple[End | None, tuple[Node, ...]]:
    """Return where a stream begins, and the FIFO nodes on the way; nowhere if it is an input of all."""
    passed: list[Node] = []
    while name in made and _is_passed(nodes[made[name].node]):
        node = nodes[made[name].node]
        if node.operator == FIFO:
            passed.insert(0, node)
        name = node.inputs[0] if node.inputs else ""
    return made.get(name), tuple(passed)


def _is_passed(node: Node) -> bool:
    return node.operator in PASSED or node.operator in SHAPES


def _design(
    name: str, nodes: Sequence[Node], streams: Sequence[Stream], options: TimingOptions
) -> Design:
    kept = [number for number, node in enumerate(nodes) if not _is_passed(node)]
    numbers = {number: place for place, number in enumerate(kept)}
    clusters = {
        number: layer_cluster(nodes[number], options)
        for number in kept
        if nodes[number].operator != CONVERTER
    }
    for number in kept:
        if number not in clusters:
            fitted = _fitted(number, nodes, streams, clusters)
            clusters[number] = layer_cluster(fitted, options)
    layers = [_layer(nodes[number], clusters[number]) for number in kept]
    fifos: list[Fifo] = []
    remarks: list[str] = []
    for stream in streams:
        start = numbers[stream.start.node]
        end = numbers[stream.end.node]
        _require_port(nodes[stream.start.node], layers[start].cluster, stream.start.port)
        written = layers[start].cluster.outputs[stream.start.port]
        read = layers[end].cluster.inputs[stream.end.port]
        if written.words == read.words:
            fifos.append(_fifo(nodes, stream, (start, end), written.bits, written.words))
            continue
        total = max(written.words * written.bits, read.words * read.bits)
        if total % written.words or total % read.words:
            raise InvalidGraph(
                f"{layers[start].name!r} writes {counted(written.words, 'word')} of "
                f"{counted(written.bits, 'bit')}, but "
                f"{layers[end].name!r} reads {read.words} of {read.bits}; no width converter joins them"
            )
        widths = total // written.words, total // read.words
        layers.append(_converter(layers[start].name, layers[end].name, total, widths, options))
        remarks.append(f"{layers[-1].name}: not in the file; the widths need it")
        middle = len(layers) - 1
        first = _fifo(nodes, stream, (start, middle), written.bits, written.words)
        fifos.append(replace(first, input=0))
        second = _fifo(nodes, stream, (middle, end), read.bits, read.words)
        fifos.append(replace(second, output=0, given=None, nodes=()))
    return Design(
        name=name, layers=tuple(layers), fifos=_named(layers, fifos), remarks=tuple(remarks)
    )


def _require_port(node: Node, cluster: Cluster, port: int) -> None:
    if port >= len(cluster.outputs):
        raise node.refusal(f"output {port} is read, but the layer has {len(cluster.outputs)}")


def _fitted(
    number: int, nodes: Sequence[Node], streams: Sequence[Stream], clusters: Mapping[int, Cluster]
) -> Node:
    """A width converter with the widths of its neighbours, which a folding may have changed."""
    changed = dict(nodes[number].attributes)
    for stream in streams:
        if stream.end.node == number and stream.start.node in clusters:
            _require_port(nodes[stream.start.node], clusters[stream.start.node], stream.start.port)
            changed["inWidth"] = clusters[stream.start.node].outputs[stream.start.port].bits
        if stream.start.node == number and stream.end.node in clusters:
            _require_inputs(nodes[stream.end.node], clusters[stream.end.node])
            changed["outWidth"] = clusters[stream.end.node].inputs[stream.end.port].bits
    return replace(nodes[number], attributes=changed)


def _require_inputs(node: Node, cluster: Cluster) -> None:
    if len(cluster.inputs) != len(node.inputs):
        raise node.refusal(
            f"streams that come in: {len(node.inputs)}, but its attributes say {len(cluster.inputs)}"
        )


def _layer(node: Node, cluster: Cluster) -> Layer:
    _require_inputs(node, cluster)
    estimate = node.attributes.get(ESTIMATE)
    folding = ", ".join(f"{key} {node[key]}" for key in ("PE", "SIMD") if node.has(key))
    return Layer(
        name=node.name,
        kind=node.written,
        cluster=cluster,
        estimate=estimate if isinstance(estimate, int) else None,
        folding=folding,
    )


def _converter(
    start: str, end: str, total: int, widths: tuple[int, int], options: TimingOptions
) -> Layer:
    name = f"{start} to {end} (converter)"
    node = Node(
        name=name,
        operator=CONVERTER,
        style="",
        written=CONVERTER,
        attributes={},
        inputs=(),
        outputs=(),
    )
    return Layer(name=name, kind=CONVERTER, cluster=converter_cluster(node, options, total, widths))


def _fifo(
    nodes: Sequence[Node], stream: Stream, layers: tuple[int, int], bits: int, words: int
) -> Fifo:
    start, end = nodes[stream.start.node], nodes[stream.end.node]
    return Fifo(
        name="",
        producer=layers[0],
        output=stream.start.port,
        consumer=layers[1],
        input=stream.end.port,
        bits=bits,
        words=words,
        given=_given(start, end, stream),
        nodes=tuple(node.name for node in stream.fifos),
    )


def _given(start: Node, end: Node, stream: Stream) -> int | None:
    """The depth that the file gives: of its FIFO nodes, or the larger one of both ends."""
    if stream.fifos:
        return sum(node.whole("depth") for node in stream.fifos)
    found = [
        depths[port]
        for node, port, key in (
            (start, stream.start.port, "outFIFODepths"),
            (end, stream.end.port, "inFIFODepths"),
        )
        if port < len(depths := node.wholes(key, least=0))
    ]
    return max(found, default=None)


def _named(layers: Sequence[Layer], fifos: Sequence[Fifo]) -> tuple[Fifo, ...]:
    """Name each FIFO after its ends, with a number where two layers share several."""
    names: dict[str, int] = {}
    found = []
    for fifo in fifos:
        name = f"{layers[fifo.producer].name} to {layers[fifo.consumer].name}"
        names[name] = names.get(name, 0) + 1
        found.append(replace(fifo, name=name if names[name] == 1 else f"{name}, {names[name]}"))
    return tuple(found)

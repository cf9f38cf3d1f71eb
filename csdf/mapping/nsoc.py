"""Reader and writer of SDF3 files with an application, a platform and a mapping (NSoC model)."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import NamedTuple, NoReturn

from lxml import etree

from csdf.arguments import Positive, public
from csdf.errors import InvalidGraph, UncountedSizes, UnwritableFile
from csdf.io import files
from csdf.io.sdf3 import document as sdf3_document
from csdf.io.sdf3 import reader as sdf3_reader
from csdf.io.sdf3 import source as sdf3_source
from csdf.io.sdf3.document import Sdf3Document
from csdf.io.sdf3.writer import DECLARATION, format_sdf3
from csdf.mapping.model import (
    Buffer,
    Connection,
    Core,
    InvalidMapping,
    Mapping,
    Platform,
    StaticOrder,
)
from csdf.model.exact import MalformedText, natural
from csdf.model.graph import Actor, Channel, Graph, Processor
from csdf.names import free_name


class MappedApplication(NamedTuple):
    """The contents of an SDF3 file with a mapping."""

    graph: Graph
    platform: Platform
    mapping: Mapping


@public
def read_nsoc(
    path: str | os.PathLike[str], most: Positive = files.LARGEST_FILE_BYTES
) -> MappedApplication:
    """Return the application, the platform and the mapping of an SDF3 file.

    In the model of SDF3, a connection transfers one token at a time, in its delay plus token size /
    bandwidth; each channel states the bandwidth that it needs. `bufferSize` is the capacity on each
    side. A slice is at the end of its TDMA wheel. The wheels of processors are not synchronised, so a
    token may wait for the rest of the wheel of its consumer. most: maximum bytes of the file. Raises
    UnreadableFile with the line.
    """
    name = os.fspath(path)
    content = files.read_bytes(path, most)
    document = sdf3_source.open_document(content, name, most)
    root = document.tree.getroot()
    platform = sdf3_document.only_of(root, ("architectureGraph",), name)
    mapping = sdf3_document.only_of(root, ("mapping",), name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UncountedSizes)  # here, bufferSize is read as buffers
        graph = sdf3_reader.parse_sdf3(content, name, most=most)
    try:
        return _DocumentReader(document, graph, platform, mapping).read()
    except (InvalidMapping, InvalidGraph) as error:
        raise document.refusal(mapping, str(error)) from None


class _DocumentReader:
    """Reads application, platform and mapping from one XML document."""

    def __init__(
        self,
        document: Sdf3Document,
        graph: Graph,
        platform: etree._Element,
        mapping: etree._Element,
    ) -> None:
        self.document = document
        self.graph = graph
        self.platform = platform
        self.mapping = mapping
        self.home: dict[str, str] = {}  # the processor of each tile

    def read(self) -> MappedApplication:
        slices = {}
        binding: dict[str, str] = {}
        orders = {}
        for tile, processor in self._processors(self.mapping):
            name = self.document.attribute(processor, "name", f"tile {tile!r}")
            slices[name] = self._number(processor, "timeslice")
            for actor in processor.iterchildren("actor"):
                binding[self.document.attribute(actor, "name", f"processor {name!r}")] = name
            order = self._order(processor, name)
            if order is not None:
                orders[name] = order
        platform = self._platform(slices, binding)
        mapping = Mapping(binding=binding, orders=orders, buffers=self._buffers(binding))
        return MappedApplication(self.graph, platform, mapping)

    def _processors(self, parent: etree._Element) -> Iterator[tuple[str, etree._Element]]:
        for tile in parent.iterchildren("tile"):
            name = self.document.attribute(tile, "name", "a tile")
            for processor in tile.iterchildren("processor"):
                yield name, processor

    def _number(self, element: etree._Element, key: str) -> int | None:
        text = element.get(key)
        if text is None:
            return None
        try:
            return natural(text)
        except MalformedText as error:
            raise self.document.refusal(element, f"<{element.tag}> {key}: {error}") from None

    def _order(self, processor: etree._Element, name: str) -> StaticOrder | None:
        schedule = self.document.only_child(processor, "schedule")
        if schedule is None:
            return None
        states = list(schedule.iterchildren("state"))
        actors = [
            self.document.attribute(state, "actor", f"processor {name!r}") for state in states
        ]
        begins = [
            i for i, state in enumerate(states) if state.get("startOfPeriodicRegime") == "true"
        ]
        begin = begins[0] if begins else 0
        if not actors:
            raise self.document.refusal(schedule, f"processor {name!r}: an empty schedule")
        return StaticOrder(prefix=tuple(actors[:begin]), periodic=tuple(actors[begin:]))

    def _platform(self, slices: dict[str, int | None], binding: dict[str, str]) -> Platform:
        cores = []
        types = {processor.name for actor in self.graph.actors for processor in actor.processors}
        for tile, processor in self._processors(self.platform):
            name = self.document.attribute(processor, "name", f"tile {tile!r}")
            self.home[tile] = name
            kind = self.document.attribute(processor, "type", f"processor {name!r}")
            arbitration = self.document.only_child(processor, "arbitration")
            wheel = None if arbitration is None else self._number(arbitration, "wheelsize")
            slice_ticks = slices.get(name)
            if wheel is None or slice_ticks is None or slice_ticks >= wheel:
                wheel = slice_ticks = None
            cores.append(
                Core(
                    name=name,
                    type=kind if kind in types else "",
                    wheel=wheel,
                    slice=slice_ticks,
                    offset=0 if wheel is None or slice_ticks is None else wheel - slice_ticks,
                )
            )
        return Platform(
            name=self.platform.get("name", "platform"),
            cores=tuple(cores),
            connections=self._connections(binding, {core.name: core for core in cores}),
        )

    def _connections(
        self, binding: dict[str, str], cores: dict[str, Core]
    ) -> tuple[Connection, ...]:
        bandwidths = self._bandwidths()
        connections = []
        for element in self.platform.iterchildren("connection"):
            where = f"connection {element.get('name')!r}"
            tiles = [self.document.attribute(element, key, where) for key in ("srcTile", "dstTile")]
            for tile in tiles:
                if tile not in self.home:
                    raise self.document.refusal(
                        element, f"there is no tile {tile!r} with a processor"
                    )
            ends = [self.home[tile] for tile in tiles]
            requested = {
                bandwidths[channel.name]
                for channel in self.graph.channels
                if [binding.get(channel.producer), binding.get(channel.consumer)] == ends
                and channel.name in bandwidths
            }
            if len(requested) > 1:
                raise self.document.refusal(
                    element,
                    f"{where}: its channels ask for different bandwidths, {sorted(requested)}",
                )
            connections.append(
                Connection(
                    source=ends[0],
                    target=ends[1],
                    latency=self._number(element, "delay") or 0,
                    bandwidth=requested.pop() if requested else None,
                    is_pipelined=False,
                    wait=cores[ends[1]].offset,
                )
            )
        return tuple(connections)

    def _properties(self, tag: str) -> Iterator[tuple[str, etree._Element | None]]:
        """Yield the names of channels with properties, each with the element `tag` if it has one."""
        properties = self.document.keyed(self.document.properties, "channelProperties", "channel")
        for name, element in properties.items():
            yield name, self.document.only_child(element, tag)

    def _bandwidths(self) -> dict[str, int]:
        bandwidths = {}
        for name, bandwidth in self._properties("bandwidth"):
            minimum = None if bandwidth is None else self._number(bandwidth, "min")
            if minimum:
                bandwidths[name] = minimum
        return bandwidths

    def _buffers(self, binding: dict[str, str]) -> dict[str, Buffer]:
        sizes = {}
        for name, size in self._properties("bufferSize"):
            if size is None:
                continue
            channel = self.graph.channel(name)
            memory = self._number(size, "mem") or self._number(size, "sz")
            if binding.get(channel.producer) == binding.get(channel.consumer):
                sizes[name] = Buffer(memory=memory)
            else:
                source, target = self._number(size, "src"), self._number(size, "dst")
                sizes[name] = Buffer(source=source, target=target)
        return sizes


AMPLE = 10**6  # memory, connections and bandwidth of a tile, which our model does not limit
WHOLE = 100  # time units of the wheel of a processor without a slice
UNTYPED = "p"  # the type of processors without a type


@public
def write_nsoc(
    path: str | os.PathLike[str], graph: Graph, platform: Platform, mapping: Mapping
) -> None:
    """Write application, architecture and mapping as SDF3 XML; `read_nsoc` reads them again.

    A processor becomes a tile. Raises UnwritableFile, without writing, for a mapping that the model of
    SDF3 (`read_nsoc`) cannot express: every actor is bound, a connection transfers one token at a time,
    a slice is at the end of its wheel, and arrived tokens may wait for the slice.
    """
    text = _Document(os.fspath(path), graph, platform, mapping).text()
    files.write_text(path, text)


class _Document:
    """Builds the XML document of an application, a platform and a mapping."""

    def __init__(self, path: str, graph: Graph, platform: Platform, mapping: Mapping) -> None:
        self.path = path
        self.platform = platform
        self.mapping = mapping
        types = {processor.name for actor in graph.actors for processor in actor.processors}
        self.untyped = free_name(UNTYPED, types, between="_")
        self.graph = replace(graph, actors=tuple(map(self._typed, graph.actors)))
        self.crossing = {
            channel.name: ends
            for channel in graph.channels
            if (ends := self._ends(channel))[0] != ends[1]
        }

    def _refuse(self, what: str) -> NoReturn:
        raise UnwritableFile(f"{self.path}: SDF3's mappings cannot say that {what}; write .json")

    def _typed(self, actor: Actor) -> Actor:
        if actor.name not in self.mapping.binding:
            self._refuse(f"actor {actor.name!r} is bound to no processor")
        kind = self._type(self.platform.core(self.mapping.binding[actor.name]))
        if any(processor.name == kind for processor in actor.processors):
            return actor
        processor = Processor(name=kind, durations=actor.durations, is_default=not actor.processors)
        return replace(actor, processors=(*actor.processors, processor))

    def _type(self, core: Core) -> str:
        return core.type or self.untyped

    def _ends(self, channel: Channel) -> tuple[str, str]:
        return self.mapping.binding[channel.producer], self.mapping.binding[channel.consumer]

    def text(self) -> str:
        """Return the file."""
        self._require_expressible()
        # Without capacities: sizes are those of the buffers, see `_buffer`.
        channels = tuple(replace(channel, capacity=None) for channel in self.graph.channels)
        document = sdf3_source.reopen_document(format_sdf3(replace(self.graph, channels=channels)))
        root = document.tree.getroot()
        for tag in ("architectureGraph", "mapping"):
            for element in list(root.iterchildren(tag)):
                sdf3_source.remove(element)
        for channel in self.graph.channels:
            self._set_properties(document, channel)
        root.append(self._architecture())
        root.append(self._mapping())
        etree.indent(document.tree, "  ")
        return f"{DECLARATION}{etree.tostring(root, encoding='unicode')}\n"

    def _require_expressible(self) -> None:
        for name in self.mapping.delays:
            self._refuse(f"channel {name!r} has a delay of its own")
        for core in self.platform.cores:
            if core.wheel is not None and core.offset != core.wheel - (core.slice or 0):
                self._refuse(
                    f"the slice of processor {core.name!r} begins at {core.offset} of its wheel, but "
                    f"only that it is at the end, at {core.wheel - (core.slice or 0)}"
                )
        for channel in self.graph.channels:
            self._require_expressible_channel(channel)
        for ends in dict.fromkeys(self.crossing.values()):
            connection = self.platform.connection(*ends)
            instant = Connection(source=ends[0], target=ends[1])
            self._require_expressible_connection(connection or instant)

    def _require_expressible_channel(self, channel: Channel) -> None:
        buffer, crosses = self._buffer(channel), channel.name in self.crossing
        connects = crosses and self.platform.connection(*self.crossing[channel.name]) is not None
        if crosses and not connects and buffer.memory is not None:
            self._refuse(f"channel {channel.name!r} has one buffer for two processors")
        if connects and channel.capacity is not None and channel.name not in self.mapping.buffers:
            self._refuse(f"channel {channel.name!r} has one capacity for both ends of a connection")
        bounds = buffer.memory if not crosses else buffer.target
        if bounds is not None and channel.release_rates != channel.consumption:
            self._refuse(f"channel {channel.name!r} releases its space at rates of its own")

    def _require_expressible_connection(self, connection: Connection) -> None:
        where = f"tokens from {connection.source!r} to {connection.target!r}"
        if connection.is_pipelined and (connection.latency or connection.bandwidth is not None):
            self._refuse(f'{where} follow one another at once, without "pipelined": false')
        target = self.platform.core(connection.target)
        wait = (target.wheel or 0) - (target.slice or 0)
        if connection.wait != wait:
            self._refuse(
                f"{where} wait for {connection.wait} when they arrive, but only for {wait}"
            )

    def _buffer(self, channel: Channel) -> Buffer:
        """Return the capacity of a channel in the mapping, or else in the graph."""
        capacity = None if channel.is_self_loop else channel.capacity
        return self.mapping.buffers.get(channel.name, Buffer(memory=capacity))

    def _set_properties(self, document: Sdf3Document, channel: Channel) -> None:
        """Set capacity and bandwidth of a channel; remove elements that are not needed."""
        parent = document.properties
        if parent is None:
            raise AssertionError("a file that was written has properties")
        properties = document.keyed(parent, "channelProperties", "channel")
        element = properties.get(channel.name)
        for old in () if element is None else list(element.iterchildren("bufferSize", "bandwidth")):
            sdf3_source.remove(old)
        wanted = {"bufferSize": self._sizes(channel), "bandwidth": self._bandwidth(channel)}
        for tag, attributes in wanted.items():
            if not attributes:
                continue
            if element is None:
                key = {"channel": channel.name}
                element = sdf3_source.append_child(parent, "channelProperties", key)
            etree.SubElement(element, tag, attributes)
        if channel.capacity is not None:  # of the graph without its mapping
            storage = None if element is None else element.find("storage")
            if element is None:
                key = {"channel": channel.name}
                element = sdf3_source.append_child(parent, "channelProperties", key)
            if storage is None:
                storage = etree.SubElement(element, "storage")
            storage.set("capacity", str(channel.capacity))

    def _sizes(self, channel: Channel) -> dict[str, str]:
        buffer = self._buffer(channel)
        rooms = (("mem", buffer.memory), ("src", buffer.source), ("dst", buffer.target))
        sizes = {key: room for key, room in rooms if room is not None}
        total = {"sz": sum(sizes.values())} if sizes else {}
        return {key: str(size) for key, size in (total | sizes).items()}

    def _bandwidth(self, channel: Channel) -> dict[str, str]:
        if channel.name not in self.crossing:
            return {}
        connection = self.platform.connection(*self.crossing[channel.name])
        if connection is None or connection.bandwidth is None:
            return {}
        return {"min": str(connection.bandwidth)}

    def _architecture(self) -> etree._Element:
        root = etree.Element("architectureGraph", {"name": self.platform.name})
        for core in self.platform.cores:
            tile = etree.SubElement(root, "tile", {"name": _tile(core.name)})
            attributes = {"name": core.name, "type": self._type(core)}
            processor = etree.SubElement(tile, "processor", attributes)
            wheel = {"type": "TDMA", "wheelsize": str(core.wheel or WHOLE)}
            etree.SubElement(processor, "arbitration", wheel)
            etree.SubElement(tile, "memory", {"name": "memory", "size": str(AMPLE)})
            keys = ("nrConnections", "inBandwidth", "outBandwidth")
            ample = dict.fromkeys(keys, str(AMPLE))
            etree.SubElement(tile, "networkInterface", {"name": "ni", **ample})
        for connection in self._connections():
            ends = {"srcTile": _tile(connection.source), "dstTile": _tile(connection.target)}
            attributes = {"name": _name(connection), **ends, "delay": str(connection.latency)}
            etree.SubElement(root, "connection", attributes)
        return root

    def _connections(self) -> Iterable[Connection]:
        """Return the connections; where the platform has none, connections without latency."""
        if self.platform.connections:
            return self.platform.connections
        pairs = dict.fromkeys(self.crossing.values())
        return [Connection(source=source, target=target) for source, target in pairs]

    def _mapping(self) -> etree._Element:
        names = {"appGraph": self.graph.name, "archGraph": self.platform.name}
        root = etree.Element("mapping", names)
        for core in self.platform.cores:
            tile = etree.SubElement(root, "tile", {"name": _tile(core.name)})
            slice_text = str(core.slice or WHOLE)
            attributes = {"name": core.name, "timeslice": slice_text}
            processor = etree.SubElement(tile, "processor", attributes)
            for actor, bound_core in self.mapping.binding.items():
                if bound_core == core.name:
                    etree.SubElement(processor, "actor", {"name": actor})
            order = self.mapping.orders.get(core.name)
            if order is not None:
                schedule = etree.SubElement(processor, "schedule")
                for index, actor in enumerate((*order.prefix, *order.periodic)):
                    begins = {"startOfPeriodicRegime": "true"} if index == len(order.prefix) else {}
                    etree.SubElement(schedule, "state", {"actor": actor, **begins})
            etree.SubElement(tile, "memory", {"name": "memory"})
            etree.SubElement(tile, "networkInterface", {"name": "ni"})
        for connection in self._connections():
            element = etree.SubElement(root, "connection", {"name": _name(connection)})
            for channel, ends in self.crossing.items():
                if ends == (connection.source, connection.target):
                    etree.SubElement(element, "channel", {"name": channel})
        return root


def _tile(core: str) -> str:
    return f"tile of {core}"


def _name(connection: Connection) -> str:
    return f"{connection.source} to {connection.target}"

"""SDF3's files with an application, a platform and a mapping (its NSoC model)."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from typing import NamedTuple

from lxml import etree

from csdf.errors import InvalidGraph, UncountedSizes
from csdf.io import files
from csdf.io.sdf3 import document as sdf3_document
from csdf.io.sdf3 import reader as sdf3_reader
from csdf.io.sdf3 import source as sdf3_source
from csdf.io.sdf3.document import Sdf3Document
from csdf.model.exact import MalformedText, natural
from csdf.model.graph import Graph
from csdf.model.mapping import (
    Buffer,
    Connection,
    Core,
    InvalidMapping,
    Mapping,
    Platform,
    StaticOrder,
)


class MappedApplication(NamedTuple):
    """The contents of an SDF3 file with a mapping."""

    graph: Graph
    platform: Platform
    mapping: Mapping


def read_nsoc(
    path: str | os.PathLike[str], most: int = files.LARGEST_FILE_BYTES
) -> MappedApplication:
    """Return the application, the platform and the mapping of an SDF3 file.

    As SDF3 has it: a token crosses a connection in its delay and its size
    over the bandwidth that the channel asks for, one token at a time; `bufferSize` is the room on
    each side. A slice lies at the end of its wheel. Wheels start at any time there, so that a
    token may have to wait for the rest of its consumer's wheel. most: bytes that the file may have.
    Raises UnreadableFile, naming the line.
    """
    name = os.fspath(path)
    content = files.read_bytes(path, most)
    document = sdf3_source.open_document(content, name, most)
    root = document.tree.getroot()
    platform = sdf3_document.only_of(root, ("architectureGraph",), name)
    mapping = sdf3_document.only_of(root, ("mapping",), name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UncountedSizes)  # these count as buffers
        graph = sdf3_reader.parse_sdf3(content, name, most=most)
    try:
        return _Reader(document, graph, platform, mapping).read()
    except (InvalidMapping, InvalidGraph) as error:
        raise document.refusal(mapping, str(error)) from None


class _Reader:
    """A document while it is being read."""

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
        self.home: dict[str, str] = {}  # of each tile its processor

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
        return MappedApplication(
            self.graph,
            platform,
            Mapping(binding=binding, orders=orders, buffers=self._buffers(binding)),
        )

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
        actors = [self.document.attribute(one, "actor", f"processor {name!r}") for one in states]
        begins = [i for i, one in enumerate(states) if one.get("startOfPeriodicRegime") == "true"]
        begin = begins[0] if begins else 0
        if not actors:
            raise self.document.refusal(schedule, f"processor {name!r}: an empty schedule")
        return StaticOrder(prefix=tuple(actors[:begin]), periodic=tuple(actors[begin:]))

    def _platform(self, slices: dict[str, int | None], binding: dict[str, str]) -> Platform:
        cores = []
        for tile, processor in self._processors(self.platform):
            name = self.document.attribute(processor, "name", f"tile {tile!r}")
            self.home[tile] = name
            kind = self.document.attribute(processor, "type", f"processor {name!r}")
            arbitration = self.document.only_child(processor, "arbitration")
            wheel = None if arbitration is None else self._number(arbitration, "wheelsize")
            own = slices.get(name)
            if wheel is None or own is None or own >= wheel:
                wheel = own = None
            cores.append(
                Core(
                    name=name,
                    type=kind if self._knows(kind) else "",
                    wheel=wheel,
                    slice=own,
                    offset=0 if wheel is None or own is None else wheel - own,
                )
            )
        return Platform(
            name=self.platform.get("name", "platform"),
            cores=tuple(cores),
            connections=self._connections(binding, {core.name: core for core in cores}),
        )

    def _knows(self, kind: str) -> bool:
        return any(one.name == kind for actor in self.graph.actors for one in actor.processors)

    def _connections(
        self, binding: dict[str, str], cores: dict[str, Core]
    ) -> tuple[Connection, ...]:
        bandwidths = self._bandwidths()
        found = []
        for element in self.platform.iterchildren("connection"):
            where = f"connection {element.get('name')!r}"
            ends = [
                self._core_of(element, self.document.attribute(element, key, where))
                for key in ("srcTile", "dstTile")
            ]
            asked = {
                bandwidths[channel.name]
                for channel in self.graph.channels
                if [binding.get(channel.producer), binding.get(channel.consumer)] == ends
                and channel.name in bandwidths
            }
            if len(asked) > 1:
                raise self.document.refusal(
                    element, f"{where}: its channels ask for different bandwidths, {sorted(asked)}"
                )
            found.append(
                Connection(
                    source=ends[0],
                    target=ends[1],
                    latency=self._number(element, "delay") or 0,
                    bandwidth=asked.pop() if asked else None,
                    is_pipelined=False,
                    wait=cores[ends[1]].offset,
                )
            )
        return tuple(found)

    def _core_of(self, element: etree._Element, tile: str) -> str:
        if tile not in self.home:
            raise self.document.refusal(element, f"there is no tile {tile!r} with a processor")
        return self.home[tile]

    def _bandwidths(self) -> dict[str, int]:
        found = {}
        properties = self.document.keyed(self.document.properties, "channelProperties", "channel")
        for name, element in properties.items():
            bandwidth = self.document.only_child(element, "bandwidth")
            least = None if bandwidth is None else self._number(bandwidth, "min")
            if least:
                found[name] = least
        return found

    def _buffers(self, binding: dict[str, str]) -> dict[str, Buffer]:
        found = {}
        properties = self.document.keyed(self.document.properties, "channelProperties", "channel")
        for name, element in properties.items():
            size = self.document.only_child(element, "bufferSize")
            if size is None:
                continue
            channel = self.graph.channel(name)
            is_inside = binding.get(channel.producer) == binding.get(channel.consumer)
            memory = self._number(size, "mem") or self._number(size, "sz")
            found[name] = (
                Buffer(memory=memory)
                if is_inside
                else Buffer(source=self._number(size, "src"), target=self._number(size, "dst"))
            )
        return found

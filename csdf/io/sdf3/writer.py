"""Writer of SDF3 XML that patches the original document of a graph.

A graph that was read from XML keeps its document: only elements and attributes that differ from the
graph are changed, so comments, layout and unknown elements stay. A new graph begins with an empty
document. Bounded channels are written with their capacity, or as a channel and a reverse channel whose
tokens are the free space.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection
from dataclasses import replace
from fractions import Fraction
from typing import Literal

from lxml import etree

from csdf.errors import InvalidGraph
from csdf.io import sequences
from csdf.io.sdf3 import actors as sdf3_actors
from csdf.io.sdf3 import document as sdf3_document
from csdf.io.sdf3 import reader as sdf3_reader
from csdf.io.sdf3 import source
from csdf.io.sdf3.document import Sdf3Document
from csdf.model.exact import MalformedText, natural
from csdf.model.graph import Actor, Channel, Graph, SpaceName, with_space_channels
from csdf.names import longer_name

Kind = Literal["sdf", "csdf"]
Capacities = Literal["property", "reverse"]

DECLARATION = '<?xml version="1.0" encoding="UTF-8"?>\n'
NEW_DOCUMENT = """\
<sdf3 type="{kind}" version="1.0"><applicationGraph name="">\
<{kind} name="" type="graph"/><{kind}Properties/></applicationGraph></sdf3>"""

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def format_sdf3(
    graph: Graph, *, kind: Kind | None = None, capacities: Capacities = "property"
) -> str:
    """Return the SDF3 text of a graph, with times in units of the user; it reads back as the graph.

    kind: None keeps the type of the origin if it can represent the graph.

    capacities: "property" writes <bufferSize>, which SDF3 does not treat as a limit; "reverse" writes
    reverse channels, which limit every program. A bounded channel with release rates always becomes a
    channel and a reverse channel, a self-loop never. In both cases an element <storage>, which other
    programs ignore, marks the capacities for the reader. If no channel has a capacity, <bufferSize>
    elements of other programs stay.

    Raises InvalidGraph for several phases in kind sdf, and for names that XML cannot hold.
    """
    for actor in graph.actors if kind == "sdf" else ():
        if actor.phases > 1:
            raise InvalidGraph(
                f"graph {graph.name!r} cannot be written as sdf: actor {actor.name!r} has "
                f"{actor.phases} phases; write csdf"
            )
    names = [graph.name, *(channel.name for channel in graph.channels)]
    for actor in graph.actors:
        names += [actor.name, *(processor.name for processor in actor.processors)]
    for name in filter(_NOT_XML.search, names):
        raise InvalidGraph(f"the name {name!r} holds a character that XML cannot hold")
    if capacities == "reverse":
        written = without_capacities(graph)
    elif capacities == "property":
        written = without_release_rates(graph)
    else:
        raise ValueError(f"capacities is {capacities!r}; expected 'property' or 'reverse'")
    is_new = graph.origin is None
    text = NEW_DOCUMENT.format(kind=kind or graph.kind) if is_new else graph.origin
    document = source.reopen_document(text or "")
    if kind is None and document.kind == "sdf" and graph.kind == "csdf":
        kind = "csdf"
    patch = Sdf3Patch(document)
    if kind is not None:
        patch.set_kind(kind)
    has_capacities = any(channel.capacity is not None for channel in graph.channels)
    patch.set_graph(written, has_capacities=has_capacities)
    if is_new:
        etree.indent(document.tree, "  ")
    return _text(document.tree)


def _text(tree: etree._ElementTree) -> str:
    """Return the document as text, with each comment around the root on its own line."""
    root = tree.getroot()
    nodes = [*reversed(list(root.itersiblings(preceding=True))), root, *root.itersiblings()]
    texts = (etree.tostring(node, encoding="unicode", with_tail=False) for node in nodes)
    return DECLARATION + "".join(f"{text}\n" for text in texts)


UNNAMED_PROCESSOR = "p"

Elements = dict[str, etree._Element]  # by name, in document order


class Sdf3Patch:
    """A document with indexes of its elements by name, whose methods change only what differs.

    Example: if a duration differs, `set_graph` changes one attribute `time`.
    """

    def __init__(self, document: Sdf3Document) -> None:
        actors = sdf3_actors.read_actor_texts(document, assume_zero_times=True)
        channels = sdf3_reader.read_channel_texts(document, actors)
        self._document = document
        self._structure = document.structure
        properties, tag = document.properties, f"{document.structure.tag}Properties"
        self._properties: etree._Element = (
            source.append_child(document.application, tag) if properties is None else properties
        )
        self._actors: Elements = {name: text.element for name, text in actors.items()}
        self._channels: Elements = {name: text.element for name, text in channels.items()}
        self._ports: dict[str, Elements] = {
            name: sdf3_actors.port_elements(text.element) for name, text in actors.items()
        }
        self._actor_properties = document.keyed(self._properties, "actorProperties", "actor")
        self._channel_properties = document.keyed(self._properties, "channelProperties", "channel")

    def set_kind(self, kind: str) -> None:
        """Rename the elements of the graph to `sdf` or `csdf`."""
        self._document.tree.getroot().set("type", kind)
        self._structure.tag = kind
        self._properties.tag = f"{kind}Properties"

    def set_graph(self, graph: Graph, *, has_capacities: bool) -> None:
        """Change the document to describe the graph.

        has_capacities: whether a channel has a capacity, or a reverse channel in place of it. The
        element <storage> has the attributes that SDF3 lacks: `spaceOf`, the channel whose free space a
        reverse channel holds; `capacity`; and `release`, release rates without a capacity. SDF3 and
        Kiter ignore it.
        """
        self._set_name(graph.name)
        self._remove_channels_not_in(graph)
        self._remove_actors_not_in(graph)
        for actor in graph.actors:
            self._set_actor(actor, _user_times(actor, graph.time_unit))
        for channel in graph.channels:
            self._set_channel(channel)
            storage = self._storage(channel.name)
            # Without capacities, <bufferSize> elements of other programs stay; an element <storage>
            # with a capacity shows that this module wrote the <bufferSize> of an earlier graph.
            if has_capacities or (storage is not None and "capacity" in storage.attrib):
                self._set_property(channel.name, "bufferSize", channel.capacity)
            properties: dict[str, str] = {}
            if isinstance(channel.name, SpaceName):
                properties["spaceOf"] = channel.name.channel
            if channel.capacity is not None:
                properties["capacity"] = str(channel.capacity)
            if channel.release not in (None, channel.consumption):
                properties["release"] = sequences.format_sequence(channel.release or ())
            self._set_storage(channel.name, properties)
        for actor in graph.actors:
            self._remove_unused_ports(actor)
            self._keep_phases(actor, _user_times(actor, graph.time_unit))
        source.put_in_order(self._structure, self._actors, [a.name for a in graph.actors])
        source.put_in_order(self._structure, self._channels, [c.name for c in graph.channels])
        self._set_throughput(graph.throughput_constraint)

    def _set_name(self, name: str) -> None:
        if sdf3_document.graph_name(self._document) != name:
            self._document.application.set("name", name)
            self._structure.set("name", name)

    def _remove_channels_not_in(self, graph: Graph) -> None:
        ends = {channel.name: (channel.producer, channel.consumer) for channel in graph.channels}
        for name, element in list(self._channels.items()):
            if (element.get("srcActor"), element.get("dstActor")) == ends.get(name):
                continue
            for side in ("src", "dst"):
                ports = self._ports[element.get(f"{side}Actor", "")]
                source.remove(ports.pop(element.get(f"{side}Port", "")))
            source.remove(self._channels.pop(name))
            if name not in ends and name in self._channel_properties:
                source.remove(self._channel_properties.pop(name))

    def _remove_actors_not_in(self, graph: Graph) -> None:
        names = {actor.name for actor in graph.actors}
        for name in [name for name in self._actors if name not in names]:
            source.remove(self._actors.pop(name))
            if name in self._actor_properties:
                source.remove(self._actor_properties.pop(name))

    def _set_actor(self, actor: Actor, times: dict[str, tuple[Fraction, ...]]) -> None:
        name = actor.name
        if name not in self._actors:
            attributes = {"name": name, "type": name}
            self._actors[name] = source.append_child(self._structure, "actor", attributes)
            self._ports[name] = {}
        if name not in self._actor_properties:
            self._actor_properties[name] = source.append_child(
                self._properties, "actorProperties", {"actor": name}
            )
        self._set_processors(actor, self._named(times, name))

    def _set_processors(self, actor: Actor, durations: dict[str, tuple[Fraction, ...]]) -> None:
        properties = self._actor_properties[actor.name]
        processors = self._processors(actor.name)
        for processor in [processor for processor in processors if processor not in durations]:
            source.remove(processors.pop(processor))
        choice = _chosen(actor) or next(iter(durations))
        for processor, values in durations.items():
            if processor not in processors:
                default = {"default": "true"} if processor == choice else {}
                attributes = {"type": processor} | default
                processors[processor] = source.append_child(properties, "processor", attributes)
            _set_time(processors[processor], values)
        source.put_in_order(properties, processors, durations)
        _choose(processors, choice)

    def _processors(self, actor: str) -> Elements:
        return self._document.keyed(self._actor_properties.get(actor), "processor", "type")

    def _named(
        self, times: dict[str, tuple[Fraction, ...]], actor: str
    ) -> dict[str, tuple[Fraction, ...]]:
        """Return the times under the name of the processor in the file, if the graph has none."""
        if list(times) != [UNNAMED_PROCESSOR]:
            return times
        processors = self._processors(actor)
        if not processors:
            return times
        return {_file_choice(processors): times[UNNAMED_PROCESSOR]}

    def _set_channel(self, channel: Channel) -> None:
        if channel.name not in self._channels:
            self._add_channel(channel)
        element = self._channels[channel.name]
        for side, rates in (("src", channel.production), ("dst", channel.consumption)):
            ports = self._ports[element.get(f"{side}Actor", "")]
            _set_sequence(ports[element.get(f"{side}Port", "")], "rate", rates)
        if not _has_value(element.get("initialTokens", "0"), channel.initial_tokens):
            element.set("initialTokens", str(channel.initial_tokens))
        self._set_token_size(element, channel)

    def _add_channel(self, channel: Channel) -> None:
        attributes = {"name": channel.name}
        for side, actor, direction, rates in (
            ("src", channel.producer, "out", channel.production),
            ("dst", channel.consumer, "in", channel.consumption),
        ):
            port = longer_name(f"{direction}_{channel.name}", self._ports[actor])
            self._ports[actor][port] = source.append_child(
                self._actors[actor],
                "port",
                {"name": port, "type": direction, "rate": sequences.format_sequence(rates)},
            )
            attributes |= {f"{side}Actor": actor, f"{side}Port": port}
        self._channels[channel.name] = source.append_child(self._structure, "channel", attributes)

    def _set_token_size(self, element: etree._Element, channel: Channel) -> None:
        """Set the element <tokenSize>, or the attribute `size` if the file has only that."""
        properties = self._channel_properties.get(channel.name)
        has_property = properties is not None and properties.find("tokenSize") is not None
        if has_property or "size" not in element.attrib:
            self._set_property(channel.name, "tokenSize", channel.token_size)
        elif not _has_value(element.get("size"), channel.token_size):
            element.set("size", str(channel.token_size))
        if channel.token_size is None and "size" in element.attrib:
            del element.attrib["size"]

    def _storage(self, channel: str) -> etree._Element | None:
        properties = self._channel_properties.get(channel)
        return None if properties is None else properties.find("storage")

    def _set_storage(self, channel: str, properties: dict[str, str]) -> None:
        element = self._storage(channel)
        if element is not None and dict(element.items()) != properties:
            source.remove(element)
            element = None
        if element is None and properties:
            source.append_child(self._properties_of(channel), "storage", properties)

    def _properties_of(self, channel: str) -> etree._Element:
        """Return the element with the properties of a channel, adding it if it does not exist."""
        element = self._channel_properties.get(channel)
        if element is None:
            attributes = {"channel": channel}
            element = source.append_child(self._properties, "channelProperties", attributes)
            self._channel_properties[channel] = element
        return element

    def _set_property(self, channel: str, tag: str, value: int | None) -> None:
        properties = self._channel_properties.get(channel)
        element = None if properties is None else properties.find(tag)
        if value is None:
            if element is not None:
                source.remove(element)
            return
        if element is None:
            element = source.append_child(self._properties_of(channel), tag)
        if not _has_value(element.get("sz"), value):
            element.set("sz", str(value))

    def _remove_unused_ports(self, actor: Actor) -> None:
        """Remove the ports whose rates do not fit the phases of the actor: no channel has them.

        The ports of channels have the rates of the graph by now.
        """
        for name, port in list(self._ports[actor.name].items()):
            if actor.phases % sequences.sequence_length(port.get("rate", "")):
                source.remove(self._ports[actor.name].pop(name))

    def _keep_phases(self, actor: Actor, times: dict[str, tuple[Fraction, ...]]) -> None:
        """Write times in full if no rate or time sequence of the file has the number of phases.

        Example: an actor of 3 phases whose rates are all 1 and whose times are 5, 5, 5. Abbreviated to
        `5`, its time would describe one phase, so it is written as `5,5,5`.
        """
        phases = 1
        for port in self._ports[actor.name].values():
            phases = math.lcm(phases, sequences.sequence_length(port.get("rate", "")))
        processors = self._processors(actor.name)
        for processor in processors.values():
            text = processor.find("executionTime").get("time", "")  # type: ignore[union-attr]
            phases = math.lcm(phases, sequences.sequence_length(text))
        if phases != actor.phases:
            for name, values in self._named(times, actor.name).items():
                time = processors[name].find("executionTime")
                time.set("time", sequences.format_sequence(values))  # type: ignore[union-attr]

    def _set_throughput(self, constraint: Fraction | None) -> None:
        if sdf3_document.throughput_constraint(self._document) == constraint:
            return
        element = self._properties
        for tag in ("graphProperties", "timeConstraints", "throughput"):
            child = element.find(tag)
            element = source.append_child(element, tag) if child is None else child
        if constraint is None:
            source.remove(element)
        else:
            element.text = sequences.format_decimal(constraint)


def _chosen(actor: Actor) -> str | None:
    chosen = sdf3_actors.chosen_processor([p.is_default for p in actor.processors])
    return None if chosen is None else actor.processors[chosen].name


def _user_times(actor: Actor, unit: Fraction) -> dict[str, tuple[Fraction, ...]]:
    """Return the times on each processor; the chosen processor has the durations of the actor."""
    durations = {processor.name: processor.durations for processor in actor.processors}
    durations[_chosen(actor) or UNNAMED_PROCESSOR] = actor.durations
    scaled = {time: time * unit for times in durations.values() for time in set(times)}
    return {name: tuple(scaled[time] for time in times) for name, times in durations.items()}


def _file_choice(processors: Elements) -> str:
    flags = [element.get("default") in ("true", "1") for element in processors.values()]
    return list(processors)[sdf3_actors.chosen_processor(flags) or 0]


def _choose(processors: Elements, name: str) -> None:
    """Make a processor the default of its actor."""
    if _file_choice(processors) != name:
        for processor, element in processors.items():
            element.set("default", "true" if processor == name else "false")


def _set_time(processor: etree._Element, values: tuple[Fraction, ...]) -> None:
    element = processor.find("executionTime")
    if element is None:
        element = source.append_child(processor, "executionTime")
    _set_sequence(element, "time", values)


def _set_sequence(
    element: etree._Element, key: str, values: tuple[int, ...] | tuple[Fraction, ...]
) -> None:
    """Set an attribute unless its text, repeated to the number of values, already means the values."""
    text, count = element.get(key), len(values)
    is_divisor = text is not None and count % sequences.sequence_length(text) == 0
    if text is None or not is_divisor or sequences.parse_times(text, count) != values:
        element.set(key, sequences.format_sequence(values))


def _has_value(text: str | None, value: int | None) -> bool:
    if text is None or value is None:
        return text is None and value is None
    try:
        return natural(text) == value
    except MalformedText:
        return False


SUFFIX = "_space"


def without_release_rates(graph: Graph) -> Graph:
    """Return the graph with reverse channels for the bounded channels that have release rates."""
    windows = [
        channel.name
        for channel in graph.channels
        if channel.capacity is not None and channel.release_rates != channel.consumption
    ]
    return _with_reverse_channels(graph, windows)


def without_capacities(graph: Graph) -> Graph:
    """Return the graph with reverse channels instead of all capacities, except of self-loops."""
    bounded = [channel.name for channel in graph.channels if channel.capacity is not None]
    return _with_reverse_channels(graph, bounded)


def _with_reverse_channels(graph: Graph, names: Collection[str]) -> Graph:
    """Replace the capacities of the named channels by reverse channels, except of self-loops.

    The capacity of a self-loop limits nothing by default, but a reverse channel would.
    """
    # with_space_channels drops the release rates of all other channels; here they are restored.
    kept_channels = {
        channel.name: channel
        for channel in graph.channels
        if channel.is_self_loop or channel.name not in names
    }
    with_spaces = with_space_channels(graph, {*names} - kept_channels.keys(), suffix=SUFFIX)
    channels = tuple(kept_channels.get(channel.name, channel) for channel in with_spaces.channels)
    return replace(with_spaces, channels=channels)

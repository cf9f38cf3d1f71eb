"""SDF3 XML to a graph; strict, exact, and with the file and line in every complaint."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from importlib import import_module
from typing import NamedTuple

from csdf.errors import InvalidGraph, Suspicious, UncountedSizes, UnreadableFile, counted
from csdf.gc_pause import gc_paused
from csdf.io import files, sequences
from csdf.io.sdf3 import actors as sdf3_actors
from csdf.io.sdf3 import document as sdf3_document
from csdf.io.sdf3 import initial_phases as sdf3_start
from csdf.io.sdf3.actors import ActorPort, ActorText, ProcessorTimes
from csdf.io.sdf3.document import Element, Sdf3Document, line_of
from csdf.model.exact import MalformedText, natural
from csdf.model.graph import Channel, Graph, short_sequences, space_channel


class SuspiciousFile(Suspicious):
    """A file that can be read, but that may not mean what its author thinks."""


class ChannelText(NamedTuple):
    """A channel as the file has it."""

    name: str
    element: Element
    properties: Element | None
    producer: ActorText
    consumer: ActorText
    source: ActorPort
    destination: ActorPort


def parse_sdf3(
    text: bytes,
    name: str = "<text>",
    *,
    assume_zero_times: bool = False,
    buffer_sizes: bool | None = None,
    most: int = files.LARGEST_FILE_BYTES,
) -> Graph:
    """Return the graph of an SDF3 text of the type sdf or csdf.

    Rational times are scaled to integers; the graph's time unit says by how much. Where several
    processors are the default of an actor the last one counts, as in SDF3; where a list of phases is
    shorter than other lists of its actor, it repeats. Both issue SuspiciousFile as a warning.
    Actor.processors is empty where there is no choice.
    assume_zero_times: an actor without an execution time takes no time, instead of an error.
    buffer_sizes: None takes the capacities and release rates that csdf.io.sdf3.writer has written in
    <storage>; True also takes the sz of <bufferSize> as a capacity; False reads as SDF3 does, where no
    size is a limit. Sizes that do not count are kept in the graph's origin alone, and UncountedSizes is
    issued as a warning. The attribute `size` of a channel is a token size in bytes.
    most: bytes of the text.

    Where actors have initial phases (`a;b`, as Kiter writes them) the graph is the one that these
    leave behind, see csdf.io.sdf3.initial_phases, and SuspiciousFile says so.

    Raises UnreadableFile with file, line and object; StuckStart for a deadlock in the initial phases.
    """
    with gc_paused():  # a reader makes no cycles, and of a large file it makes millions of objects
        files.require_size(text, name, most)
        options = {"assume_zero_times": assume_zero_times, "buffer_sizes": buffer_sizes}
        graph, remarks = _quickly_read(text, name, options) or _read(
            import_module("csdf.io.sdf3.source").open_document(text, name, most), **options
        )
    for remark in remarks:
        warnings.warn(f"{name}:{remark}", SuspiciousFile, stacklevel=2)
    if buffer_sizes is not True:
        sized, stated = sdf3_document.buffer_sizes(
            text.decode("utf-8", "replace") if graph.origin is None else graph.origin
        )
        uncounted = sized if buffer_sizes is False else sized - stated
        if uncounted > 0:
            channels = counted(uncounted, "channel")
            note = f"{name}: buffer sizes of {channels} do not count as capacities, as in SDF3"
            warnings.warn(UncountedSizes(note, uncounted), stacklevel=2)
    return graph


def _quickly_read(
    text: bytes, name: str, options: Mapping[str, bool | None]
) -> tuple[Graph, list[str]] | None:
    """Return what `_read` returns; None where a remark is due, because that takes lines."""
    document = sdf3_document.quick_document(text, name)
    if document is None:
        return None
    try:
        return _read(document, **options)
    except sdf3_document.Unlocated:
        return None


def _read(
    document: Sdf3Document, *, assume_zero_times: bool | None, buffer_sizes: bool | None
) -> tuple[Graph, list[str]]:
    """The graph of a document, and remarks on it."""
    actors = sdf3_actors.read_actor_texts(document, assume_zero_times=bool(assume_zero_times))
    channels = read_channel_texts(document, actors)
    remarks = [
        *_doubtful_defaults(actors),
        *_loose_ports(actors, channels),
        *_short_sequences(actors),
    ]
    graph = _graph(document, actors, channels, buffer_sizes=buffer_sizes)
    has_initial_phases = any(
        any(port.initial for port in text.ports.values())
        or any(part.initial for part in text.processors)
        for text in actors.values()
    )
    if not has_initial_phases:
        return graph if buffer_sizes is False else _with_space(graph, channels), remarks
    ends = {
        channel.name: ((channel.producer, channel.source), (channel.consumer, channel.destination))
        for channel in channels.values()
    }
    graph = sdf3_start.without_initial_phases(document, graph, ends)
    return graph, [*remarks, sdf3_start.REMARK]


def read_channel_texts(
    document: Sdf3Document, actors: dict[str, ActorText]
) -> dict[str, ChannelText]:
    """Return the channels of the file by name, each with the two ports it connects."""
    elements = document.keyed(document.structure, "channel", "name")
    properties = document.keyed(document.properties, "channelProperties", "channel")
    for name, element in properties.items():
        if name not in elements:
            raise document.refusal(element, f"<channelProperties>: there is no channel {name!r}")
    texts = {}
    for name, element in elements.items():
        texts[name] = _channel_text(document, name, element, properties.get(name), actors)
    _require_own_ports(document, texts)
    return texts


def _channel_text(
    document: Sdf3Document,
    name: str,
    element: Element,
    properties: Element | None,
    actors: dict[str, ActorText],
) -> ChannelText:
    get = element.get
    producer, consumer = actors.get(get("srcActor", "")), actors.get(get("dstActor", ""))
    source = None if producer is None else producer.ports.get(get("srcPort", ""))
    if producer is None or source is None or source.direction != "out":
        raise _wrong_end(document, element, actors, "srcActor", "srcPort", "out")
    destination = None if consumer is None else consumer.ports.get(get("dstPort", ""))
    if consumer is None or destination is None or destination.direction != "in":
        raise _wrong_end(document, element, actors, "dstActor", "dstPort", "in")
    return ChannelText(name, element, properties, producer, consumer, source, destination)


def _require_own_ports(document: Sdf3Document, texts: dict[str, ChannelText]) -> None:
    ports = {id(port) for text in texts.values() for port in (text.source, text.destination)}
    if len(ports) == 2 * len(texts):
        return
    port_owners: dict[int, str] = {}  # ports by identity
    for name, text in texts.items():
        for port in (text.source, text.destination):
            owner = port_owners.setdefault(id(port), name)
            if owner != name:
                raise document.refusal(
                    text.element,
                    f"channel {name!r}: its {port.label} already serves channel {owner!r}",
                )


def _wrong_end(
    document: Sdf3Document,
    element: Element,
    actors: dict[str, ActorText],
    actor_key: str,
    port_key: str,
    expected: str,
) -> UnreadableFile:
    where = f"channel {element.get('name')!r}"
    actor_name = document.attribute(element, actor_key, where)
    port_name = document.attribute(element, port_key, where)
    actor = actors.get(actor_name)
    if actor is None:
        return document.refusal(element, f"{where}: there is no actor {actor_name!r}")
    port = actor.ports.get(port_name)
    if port is None:
        return document.refusal(element, f"{where}: actor {actor_name!r} has no port {port_name!r}")
    return document.refusal(
        element,
        f"{where}: port {port_name!r} of actor {actor_name!r} has the type "
        f"{port.direction!r}; expected {expected!r}",
    )


def _doubtful_defaults(actors: dict[str, ActorText]) -> list[str]:
    remarks = []
    for actor in actors.values():
        if len(actor.processors) < 2:
            continue
        defaults = [processor.name for processor in actor.processors if processor.is_default]
        if len(defaults) > 1:
            remarks.append(
                f"{line_of(actor.processors[0].element)}: actor {actor.name!r} has "
                f"{len(defaults)} default processors ({', '.join(defaults)}); "
                f"the last one, {defaults[-1]!r}, is used"
            )
    return remarks


def _loose_ports(actors: dict[str, ActorText], channels: dict[str, ChannelText]) -> list[str]:
    used = {id(text.source) for text in channels.values()}
    used.update([id(text.destination) for text in channels.values()])
    if len(used) == sum(len(actor.ports) for actor in actors.values()):
        return []
    return [
        f"{line_of(elements[port.name])}: actor {actor.name!r}, {port.label} has no channel; "
        "it constrains nothing"
        for actor in actors.values()
        for elements in (sdf3_actors.port_elements(actor.element),)
        for port in actor.ports.values()
        if id(port) not in used
    ]


def _short_sequences(actors: dict[str, ActorText]) -> list[str]:
    remarks = []
    for actor in actors.values():
        if actor.phases == 1:
            continue
        parts: list[ActorPort | ProcessorTimes] = [*actor.ports.values(), *actor.processors]
        lengths = {part.label: sequences.sequence_length(part.sequence) for part in parts}
        remark = short_sequences(actor.name, lengths)
        if remark is not None:
            remarks.append(f"{line_of(actor.element)}: {remark}")
    return remarks


def _graph(
    document: Sdf3Document,
    actors: dict[str, ActorText],
    channels: dict[str, ChannelText],
    *,
    buffer_sizes: bool | None,
) -> Graph:
    times = sdf3_actors.read_times(document, actors)
    scale = sdf3_actors.time_scale(document, times)
    try:
        return Graph(
            name=sdf3_document.graph_name(document),
            actors=tuple(
                sdf3_actors.actor_of(text, times[name], scale) for name, text in actors.items()
            ),
            channels=tuple(
                _channel(document, text, buffer_sizes=buffer_sizes) for text in channels.values()
            ),
            time_unit=Fraction(1, scale),
            throughput_constraint=sdf3_document.throughput_constraint(document),
            origin=document.text,
        )
    except InvalidGraph as error:
        raise document.refusal(document.structure, str(error)) from None


def _with_space(graph: Graph, texts: Mapping[str, ChannelText]) -> Graph:
    """The graph with a capacity where <storage spaceOf="c"> says that a channel is the space of c.

    Only where it still is: in a file that was changed since, it is a channel as any other.
    """
    bounded_channels: dict[str, Channel] = {}
    spaces: set[str] = set()
    for name, text in texts.items():
        storage = None if text.properties is None else text.properties.find("storage")
        bounded = None if storage is None else storage.get("spaceOf")
        if bounded is None or bounded not in texts or bounded in bounded_channels:
            continue
        channel, space = graph.channel(bounded), graph.channel(name)
        capacity = channel.initial_tokens + space.initial_tokens
        has_own_rates = space.production != channel.consumption
        try:
            whole = replace(
                channel, capacity=capacity, release=space.production if has_own_rates else None
            )
        except InvalidGraph:
            continue
        if channel.capacity is None and space == space_channel(whole, capacity, name):
            bounded_channels[bounded] = whole
            spaces.add(name)
    if not bounded_channels:
        return graph
    channels = (
        bounded_channels.get(channel.name, channel)
        for channel in graph.channels
        if channel.name not in spaces
    )
    return replace(graph, channels=tuple(channels))


def _channel(document: Sdf3Document, text: ChannelText, *, buffer_sizes: bool | None) -> Channel:
    capacity, release = _storage(document, text, buffer_sizes=buffer_sizes)
    tokens = text.element.get("initialTokens", "0")
    production = rates(document, text.producer, text.source)
    consumption = rates(document, text.consumer, text.destination)
    try:
        return Channel(
            name=text.name,
            producer=text.producer.name,
            consumer=text.consumer.name,
            production=production,
            consumption=consumption,
            initial_tokens=natural_of(document, text.element, tokens, text.name, "initial tokens"),
            capacity=capacity,
            release=release,
            token_size=_token_size(document, text),
        )
    except InvalidGraph as error:
        raise document.refusal(text.element, str(error)) from None


def rates(document: Sdf3Document, actor: ActorText, port: ActorPort) -> tuple[int, ...]:
    """Return the tokens that each phase of an actor moves through a port."""
    try:
        return sequences.parse_rates(port.sequence, actor.phases)
    except MalformedText as error:
        where = f"actor {actor.name!r}, {port.label}"
        element = sdf3_actors.port_elements(actor.element)[port.name]
        raise document.refusal(element, f"{where}: rate {error}") from None


def natural_of(document: Sdf3Document, element: Element, text: str, channel: str, what: str) -> int:
    """Return the integer >= 0 that a text about a channel says, or blame its element."""
    try:
        return natural(text)
    except MalformedText as error:
        raise document.refusal(element, f"channel {channel!r}: {what} {error}") from None


def _token_size(document: Sdf3Document, text: ChannelText) -> int | None:
    element = None
    if text.properties is not None:
        element = document.only_child(text.properties, "tokenSize")
    if element is not None:
        size = document.attribute(element, "sz", f"channel {text.name!r}")
        return natural_of(document, element, size, text.name, "token size")
    attribute = text.element.get("size")
    if attribute is None:
        return None
    return natural_of(document, text.element, attribute, text.name, "token size")


def _storage(
    document: Sdf3Document, text: ChannelText, *, buffer_sizes: bool | None
) -> tuple[int | None, tuple[int, ...] | None]:
    """The capacity and the release rates of a channel. A capacity has to agree with <bufferSize>."""
    if buffer_sizes is False or text.properties is None:
        return None, None
    element = document.only_child(text.properties, "storage")
    stated = None if element is None else element.get("capacity")
    if element is None or stated is None:
        capacity = _buffer_size(document, text) if buffer_sizes else None
    else:
        capacity = natural_of(document, element, stated, text.name, "capacity")
        size = _buffer_size(document, text)
        is_mapped = "<mapping" in document.text  # there a size is that of the mapping's buffers
        if size not in (None, capacity) and not is_mapped:
            raise document.refusal(
                element,
                f"channel {text.name!r}: <storage> says the capacity {capacity}, <bufferSize> the size "
                f"{size}; make them equal, or remove <storage>",
            )
    release = None if element is None else element.get("release")
    if release is None:
        return capacity, None
    try:
        return capacity, sequences.parse_rates(release, text.consumer.phases)
    except MalformedText as error:
        where = f"channel {text.name!r}: release rate"
        raise document.refusal(element, f"{where} {error}") from None


def _buffer_size(document: Sdf3Document, text: ChannelText) -> int | None:
    element = document.only_child(text.properties, "bufferSize")
    size = None if element is None else element.get("sz")
    if element is None or size is None:
        return None
    return natural_of(document, element, size, text.name, "buffer size")

"""Places of all that is read of an SDF3 element, as numbers of pieces of its text.

Elements are those of csdf.io.sdf3.shapes, whose attributes are such numbers. All functions raise
Irregular where an element lacks something, has it twice, or says it in an unusual way.
"""

from __future__ import annotations

from typing import NamedTuple

from csdf.io.sdf3.document import Element, children
from csdf.io.sdf3.shapes import Irregular, optional_place, place

TimesPlaces = tuple[int, list[tuple[int, int | None, int]]]
ActorPlaces = tuple[int, list[tuple[int, int, int]]]
SizesPlaces = tuple[int, int | None, int | None]


def times_places(properties: Element) -> TimesPlaces:
    """Return the places of the actor, and of the type, the default and the time of each processor."""
    processors = []
    for processor in children(properties, "processor"):
        times = children(processor, "executionTime")
        if len(times) != 1:
            raise Irregular
        default = optional_place(processor, "default")
        processors.append((place(processor, "type"), default, place(times[0], "time")))
    return place(properties, "actor"), processors


def actor_places(actor: Element) -> ActorPlaces:
    """Return the places of the name, and of the name, the direction and the rates of each port."""
    ports = children(actor, "port")
    return place(actor, "name"), [
        (place(port, "name"), place(port, "type"), place(port, "rate")) for port in ports
    ]


def sizes_places(properties: Element) -> SizesPlaces:
    """Return the places of the channel, the size of a token and that of the buffer."""
    tokens, buffers = children(properties, "tokenSize"), children(properties, "bufferSize")
    if len(tokens) > 1 or len(buffers) > 1 or children(properties, "storage"):
        raise Irregular
    return (
        place(properties, "channel"),
        place(tokens[0], "sz") if tokens else None,
        optional_place(buffers[0], "sz") if buffers else None,
    )


class ChannelPlaces(NamedTuple):
    """The places of the attributes of a channel."""

    name: int
    producer: int
    source: int
    consumer: int
    destination: int
    tokens: int | None
    size: int | None


def channel_places(channel: Element) -> ChannelPlaces:
    """Return the places of the attributes of a channel that has no elements within."""
    if list(channel):
        raise Irregular
    keys = ("name", "srcActor", "srcPort", "dstActor", "dstPort")
    name, producer, source, consumer, destination = [place(channel, key) for key in keys]
    tokens, size = optional_place(channel, "initialTokens"), optional_place(channel, "size")
    return ChannelPlaces(name, producer, source, consumer, destination, tokens, size)

"""Large SDF3 files by the shapes of their elements, in half the time: one of each shape is parsed.

A large file was written by a program. Its elements of one tag differ in the values of their
attributes, and otherwise have few shapes. A shape is the text of an element without these values; the
parser says once where in the shape which attribute stands, and the values of all other elements of
that shape are cut out of the text.

The graph is the one that csdf.io.sdf3.reader makes of the file, or there is none: whatever is unusual,
doubtful or wrong is Irregular, nothing is guessed, and that reader is asked, which has the messages.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple
from xml.etree.ElementTree import ParseError, fromstring

from csdf.errors import CsdfError, InvalidGraph
from csdf.io import sequences
from csdf.io.sdf3 import actors as sdf3_actors
from csdf.io.sdf3.actors import ActorText, ProcessorTimes, Time
from csdf.io.sdf3.document import (
    Element,
    Unlocated,
    children,
    graph_name,
    is_utf8,
    quick_document,
    throughput_constraint,
)
from csdf.model.exact import MalformedText, natural
from csdf.model.graph import Actor, Channel, Graph, short_sequences

MOST_SHAPES = 500  # of one tag; more are cheaper for a parser
MARKER = "csdf-run-of-"
PLACEHOLDER = "\ue000"  # before the number of a piece
SPECIAL = bytes(range(32)) + b"<&"  # not in a value that is taken as it stands
_ORDINARY = bytes(code for code in range(256) if code not in SPECIAL)
_NO_CHARACTERS = ("\ufffe", "\uffff")  # to XML


class Irregular(CsdfError):
    """A text that is for a parser."""


class _End(NamedTuple):
    """The end of a channel at an actor, as the file has it; equal ends are kept once."""

    direction: str
    rates: str
    length: int
    single: tuple[int, ...]  # the rates if there is one


class _Actors(NamedTuple):
    """The actors, and what their channels need to know of them."""

    made: list[Actor]
    ports: dict[str, dict[str, _End]]  # by actor and name
    phases: dict[str, int]  # of the actors with more than one


Stated = tuple[ProcessorTimes, tuple[Time, ...]]  # equal times of an actor are kept once


def regular_graph(content: bytes, name: str, *, buffer_sizes: bool | None) -> Graph | None:
    """Return the graph of an SDF3 text of regular elements that deserves no remark, else None."""
    try:
        text = content.decode("utf-8").removeprefix("\ufeff")
        return _graph(content, text, name, buffer_sizes=buffer_sizes)
    except (UnicodeDecodeError, Irregular, Unlocated, MalformedText, InvalidGraph):
        return None
    except KeyError:  # an actor or a port that is not there
        return None


def _graph(content: bytes, text: str, name: str, *, buffer_sizes: bool | None) -> Graph:
    if not is_utf8(content):  # of which the frame below does not know
        raise Irregular
    ends_long = "</channel>" in text  # as some programs write elements without children
    times = Run(text, "actorProperties", "</actorProperties>", _times_places)
    actors = Run(text, "actor", "</actor>", _actor_places)
    channels = Run(text, "channel", "</channel>" if ends_long else "/>", _channel_places)
    sizes = Run(text, "channelProperties", "</channelProperties>", _sizes_places)
    runs = [run for run in (times, actors, channels, sizes) if run]
    rest = _without_runs(text, runs)
    document = quick_document(rest.encode(), name)
    if document is None or document.properties is None:
        raise Irregular
    for parent, run in (
        *((document.structure, run) for run in (actors, channels)),
        *((document.properties, run) for run in (times, sizes)),
    ):
        is_here = len(children(parent, run.marker_tag)) == 1
        if is_here != bool(run) or children(parent, run.tag):  # elsewhere, or outside of the run
            raise Irregular
    stated, of_actor = _read_times(times)
    scale = sdf3_actors.time_scale(document, {"": [values for _, values in stated]})
    read_actors = _read_actors(actors, stated, of_actor, scale, document.kind)
    read_channels = _read_channels(channels, read_actors, sizes, buffer_sizes=buffer_sizes)
    _require_plain_values(content, rest, runs)
    return Graph(
        name=graph_name(document),
        actors=tuple(read_actors.made),
        channels=tuple(read_channels),
        time_unit=Fraction(1, scale),
        throughput_constraint=throughput_constraint(document),
        origin=text,
    )


def _read_times(run: Run) -> tuple[list[Stated], dict[str, list[int]]]:
    """Return the times that are stated, and of each actor their numbers, one for each processor."""
    stated: list[Stated] = []
    numbers: dict[tuple[str, str, str], int] = {}
    of_actor: dict[str, list[int]] = {}
    for (actor_at, processors), pieces in run.elements():
        own = []
        for type_at, default_at, time_at in processors:
            default = "false" if default_at is None else pieces[default_at]
            key = processor, _, text = (pieces[type_at], default, pieces[time_at])
            number = numbers.get(key)
            if number is None:
                if default not in sdf3_actors.DEFAULTS:
                    raise Irregular
                is_default = sdf3_actors.DEFAULTS[default]
                times = sequences.parse_times(text, sequences.sequence_length(text))
                number = numbers[key] = len(stated)
                stated.append((ProcessorTimes(processor, is_default, "", text, None), times))
            own.append(number)
        actor = pieces[actor_at]
        if actor in of_actor:
            raise Irregular
        of_actor[actor] = own
        if len(own) != 1:  # refuse none, and processors of which it is not clear which counts
            known = [stated[number][0] for number in own]
            if not known or len({one.name for one in known}) != len(known):
                raise Irregular
            if sum(one.is_default for one in known) > 1:
                raise Irregular
    return stated, of_actor


def _read_actors(
    run: Run, stated: list[Stated], of_actor: dict[str, list[int]], scale: int, kind: str
) -> _Actors:
    found = _Actors([], {}, {})
    ends: dict[tuple[str, str], _End] = {}
    durations = [sdf3_actors.scaled(times, scale) for _, times in stated]
    rates = 0
    for (name_at, ports_at), pieces in run.elements():
        name = pieces[name_at]
        ports: dict[str, _End] = {}
        phases = 1
        for port_at, direction_at, rates_at in ports_at:
            key = direction, text = (pieces[direction_at], pieces[rates_at])
            end = ends.get(key)
            if end is None:
                if direction not in ("in", "out"):
                    raise Irregular
                length = sequences.sequence_length(text)
                single = sequences.parse_rates(text, 1) if length == 1 else ()
                end = ends[key] = _End(direction, text, length, single)
            ports[pieces[port_at]] = end
            if end.length != 1:
                phases = math.lcm(phases, end.length)
        if len(ports) != len(ports_at) or name in found.ports:
            raise Irregular
        found.ports[name] = ports
        numbers = of_actor[name]
        own = durations[numbers[0]]
        if phases == 1 and len(numbers) == 1 and len(own) == 1:
            found.made.append(Actor(name=name, durations=own))
        else:
            lengths = {port: end.length for port, end in ports.items()}
            lengths |= {f"processor {one}": len(durations[one]) for one in numbers}
            phases = found.phases[name] = math.lcm(*lengths.values())
            if phases > sequences.LARGEST_PHASE_COUNT or (phases > 1 and kind == "sdf"):
                raise Irregular
            if short_sequences(name, lengths) is not None:
                raise Irregular
            texts = tuple(stated[number][0] for number in numbers)
            lists = [stated[one][1] * (phases // len(durations[one])) for one in numbers]
            actor = ActorText(name, None, {}, texts, phases)
            found.made.append(sdf3_actors.actor_of(actor, lists, scale))
        rates += phases * (len(ports) + len(numbers))
        if rates > sdf3_actors.MOST_RATES:
            raise Irregular
    if len(found.ports) != len(of_actor):
        raise Irregular
    return found


def _read_channels(
    run: Run, actors: _Actors, sizes_run: Run, *, buffer_sizes: bool | None
) -> list[Channel]:
    """The channels; each takes its ports out of those of the actors."""
    sizes: dict[str, tuple[str | None, str | None]] = {}  # of a token, of the buffer
    for (channel_at, token_at, buffer_at), pieces in sizes_run.elements():
        channel = pieces[channel_at]
        if channel in sizes:
            raise Irregular
        sizes[channel] = (
            None if token_at is None else pieces[token_at],
            None if buffer_at is None else pieces[buffer_at],
        )
    channels = []
    ports, phases = actors.ports, actors.phases
    for at, pieces in run.elements():
        name_at, producer_at, source_at, consumer_at, destination_at, tokens_at, size_at = at
        name, producer, consumer = pieces[name_at], pieces[producer_at], pieces[consumer_at]
        source = ports[producer].pop(pieces[source_at])
        destination = ports[consumer].pop(pieces[destination_at])
        if source.direction != "out" or destination.direction != "in":
            raise Irregular
        size, capacity = sizes.pop(name, (None, None)) if sizes else (None, None)
        if size is None and size_at is not None:
            size = pieces[size_at]
        made, taken = phases.get(producer, 1), phases.get(consumer, 1)
        channels.append(
            Channel(
                name=name,
                producer=producer,
                consumer=consumer,
                production=source.single
                if made == 1
                else sequences.parse_rates(source.rates, made),
                consumption=destination.single
                if taken == 1
                else sequences.parse_rates(destination.rates, taken),
                initial_tokens=0 if tokens_at is None else natural(pieces[tokens_at]),
                capacity=natural(capacity) if buffer_sizes and capacity is not None else None,
                token_size=None if size is None else natural(size),
            )
        )
    if sizes or any(ports.values()):  # properties of no channel, or ports without
        raise Irregular
    return channels


def _places(element: Element, *keys: str) -> tuple[Any, ...]:
    """Return which piece the value of each attribute is; None for one left out, if it is `key?`.

    The attributes of the element are such numbers, or None for a value that is no piece. Raises
    Irregular where one is missing or no piece.
    """
    found = [element.get(key.removesuffix("?")) for key in keys]
    for key, place in zip(keys, found, strict=True):
        if place is None and (key.removesuffix("?") in element.attrib or not key.endswith("?")):
            raise Irregular
    return tuple(found)


def _times_places(properties: Element) -> tuple[Any, ...]:
    """The actor, and the type, the default and the time of each processor."""
    processors = []
    for processor in children(properties, "processor"):
        times = children(processor, "executionTime")
        if len(times) != 1:
            raise Irregular
        processors.append((*_places(processor, "type", "default?"), *_places(times[0], "time")))
    return *_places(properties, "actor"), processors


def _actor_places(actor: Element) -> tuple[Any, ...]:
    """The name, and the name, the direction and the rates of each port."""
    ports = [_places(port, "name", "type", "rate") for port in children(actor, "port")]
    return *_places(actor, "name"), ports


def _sizes_places(properties: Element) -> tuple[Any, ...]:
    """The channel, the size of a token and that of the buffer."""
    tokens, buffers = children(properties, "tokenSize"), children(properties, "bufferSize")
    if len(tokens) > 1 or len(buffers) > 1 or children(properties, "storage"):
        raise Irregular
    token = _places(tokens[0], "sz") if tokens else (None,)
    buffer = _places(buffers[0], "sz?") if buffers else (None,)
    return *_places(properties, "channel"), *token, *buffer


def _channel_places(channel: Element) -> tuple[Any, ...]:
    if list(channel):  # elements within
        raise Irregular
    ends = ("srcActor", "srcPort", "dstActor", "dstPort")
    return _places(channel, "name", *ends, "initialTokens?", "size?")


@dataclass(slots=True)
class _Shape:
    """A shape: what a reader makes of where its values are, and how many elements have it."""

    places: tuple[Any, ...]
    count: int = 0


class Run:
    """All elements of one tag, which follow one another in the text.

    closing: how each of them ends. places: makes of an element, whose attributes are numbers of
    pieces of its text, markup and values in turn, what the reader wants to know of the shape.
    """

    def __init__(
        self, text: str, tag: str, closing: str, places: Callable[[Element], tuple[Any, ...]]
    ) -> None:
        self.tag = tag
        self.marker_tag = f"{MARKER}{tag}"
        self.marker = f"<{self.marker_tag}/>"
        self._closing = closing
        self._places = places
        self._shapes: dict[str, _Shape] = {}
        self.begin = text.find(f"<{tag} ")
        end = text.find(closing, text.rfind(f"<{tag} "))
        if self.begin >= 0 and end < 0:
            raise Irregular
        self.end = end + len(closing) if self.begin >= 0 else self.begin
        self._text = text[self.begin : self.end] if self.begin >= 0 else ""
        self._quote = '"' if '"' in self._text else "'"

    def __bool__(self) -> bool:
        """Whether there is an element of the tag."""
        return bool(self._text)

    def elements(self) -> Iterator[tuple[tuple[Any, ...], list[str]]]:
        """Yield of each element where its values are, and its pieces."""
        quote, shapes = self._quote, self._shapes
        for block in self._text.split(self._closing)[:-1]:
            pieces = block.split(quote)
            shape = shapes.get(quote.join(pieces[::2]))
            if shape is None:
                shape = shapes[quote.join(pieces[::2])] = self._learned(pieces)
            shape.count += 1
            yield shape.places, pieces

    def _learned(self, pieces: list[str]) -> _Shape:
        """Return the shape of these pieces, which the parser finds."""
        if len(self._shapes) == MOST_SHAPES or len(pieces) % 2 == 0:
            raise Irregular
        if any(PLACEHOLDER in piece for piece in pieces[::2]):
            raise Irregular
        numbered = [
            f"{PLACEHOLDER}{number}" if number % 2 else piece for number, piece in enumerate(pieces)
        ]
        try:
            elements = list(fromstring(f"<_>{self._quote.join(numbered)}{self._closing}</_>"))
        except ParseError:
            raise Irregular from None
        if len(elements) != 1 or elements[0].tag != self.tag:
            raise Irregular
        element: Element = elements[0]
        values = 0
        for part in element.iter():
            for key, value in part.items():
                is_piece = value.startswith(PLACEHOLDER)
                part.set(key, int(value[1:]) if is_piece else None)
                values += is_piece
        if values != len(pieces) // 2:  # a piece is not exactly the value of an attribute
            raise Irregular
        return _Shape(self._places(element))

    def count(self, character: str) -> int:
        """Return how often a character is in the markup of the elements that were yielded."""
        return sum(
            shape.count * (markup.count(character) + self._closing.count(character))
            for markup, shape in self._shapes.items()
        )


def _without_runs(text: str, runs: Sequence[Run]) -> str:
    """Return the text with a marker in place of each run. Raises Irregular where they overlap."""
    rest, begin = "", 0
    for run in sorted(runs, key=lambda run: run.begin):
        if run.begin < begin:
            raise Irregular
        rest += text[begin : run.begin] + run.marker
        begin = run.end
    rest += text[begin:]
    if rest.count(MARKER) != len(runs):
        raise Irregular
    return rest


def _require_plain_values(content: bytes, rest: str, runs: Sequence[Run]) -> None:
    """Raise Irregular unless each character that XML treats specially is in markup.

    Such are `<` and `&`, breaks, which XML reads as spaces, and characters that it forbids. content:
    the whole text, all of whose elements were yielded; rest: what is not in the runs.
    """
    specials = content.translate(None, _ORDINARY)
    for code in set(specials):
        character = chr(code)
        markers = sum(run.marker.count(character) for run in runs)
        known = rest.count(character) - markers + sum(run.count(character) for run in runs)
        if specials.count(code) != known:
            raise Irregular
    if not content.isascii() and any(one.encode() in content for one in _NO_CHARACTERS):
        raise Irregular

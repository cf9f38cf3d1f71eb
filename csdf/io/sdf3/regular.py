"""Large SDF3 files by the shapes of their elements, in half the time; see csdf.io.sdf3.regular.

The graph is the one that csdf.io.sdf3.reader makes of the file, or there is none: for whatever is
unusual, doubtful or wrong that reader is asked, which has the messages.

Places of all that is read of an SDF3 element, as numbers of pieces of its text.

Elements are those of csdf.io.sdf3.regular, whose attributes are such numbers. All functions raise
Irregular where an element lacks something, has it twice, or says it in an unusual way.

Elements of a large XML text by their shapes: of each shape only one is parsed as XML.

A large file was written by a program. Its elements of one tag differ in the values of their attributes,
and otherwise have few shapes. A shape is the text of an element without these values; the parser says
once where in the shape which attribute stands, and the values of all other elements of that shape are
cut out of the text. Whatever does not fit into this picture is Irregular, and nothing is guessed: then
the whole text is for a parser.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import Any, Generic, NamedTuple, TypeVar
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


class _End(NamedTuple):
    """The end of a channel at an actor, as the file has it; equal ends are kept once."""

    direction: str
    rates: str
    length: int
    single: tuple[int, ...]  # the rates if there is one


class _Stated(NamedTuple):
    """The times of an actor on a processor; equal ones are kept once."""

    processor: str
    is_default: bool
    text: str
    times: tuple[Time, ...]


class _Times(NamedTuple):
    """The times of all actors."""

    stated: list[_Stated]
    of_actor: dict[str, tuple[int, ...]]  # numbers of what is stated, one for each processor


class _Sizes(NamedTuple):
    """The sizes that the properties of a channel state."""

    token: str | None
    buffer: str | None


class _Actors(NamedTuple):
    """The actors, and what their channels need to know of them."""

    made: list[Actor]
    ports: dict[str, dict[str, _End]]  # by actor and name
    phases: dict[str, int]  # of the actors with more than one


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
    times = Run(text, "actorProperties", "</actorProperties>", times_places)
    actors = Run(text, "actor", "</actor>", actor_places)
    ends_long = "</channel>" in text  # as some programs write elements without children
    channels = Run(text, "channel", "</channel>" if ends_long else "/>", channel_places)
    sizes = Run(text, "channelProperties", "</channelProperties>", sizes_places)
    runs: list[Run[Any]] = [run for run in (times, actors, channels, sizes) if run]
    rest = without_runs(text, runs)
    document = quick_document(rest.encode(), name)
    if document is None or document.properties is None:
        raise Irregular
    for parent, run in (
        *((document.structure, run) for run in (actors, channels)),
        *((document.properties, run) for run in (times, sizes)),
    ):
        _require_run(parent, run)
    read_times = _read_times(times)
    scale = sdf3_actors.time_scale(document, {"": [one.times for one in read_times.stated]})
    read_actors = _read_actors(actors, read_times, scale, document.kind)
    read_channels = _read_channels(
        channels, read_actors, _read_sizes(sizes), buffer_sizes=buffer_sizes
    )
    require_plain_values(content, rest, runs)
    return Graph(
        name=graph_name(document),
        actors=tuple(read_actors.made),
        channels=tuple(read_channels),
        time_unit=Fraction(1, scale),
        throughput_constraint=throughput_constraint(document),
        origin=text,
    )


def _require_run(parent: Element, run: Run[Any]) -> None:
    """Refuse a run that is elsewhere, and elements of its tag outside of it."""
    is_here = len(children(parent, run.marker_tag)) == 1
    if is_here != bool(run) or children(parent, run.tag):
        raise Irregular


def _read_times(run: Run[TimesPlaces]) -> _Times:
    stated: list[_Stated] = []
    numbers: dict[tuple[str, str, str], int] = {}
    of_actor: dict[str, tuple[int, ...]] = {}
    for (actor_at, processors), pieces in run.elements():
        own = []
        for type_at, default_at, time_at in processors:
            default = "false" if default_at is None else pieces[default_at]
            key = (pieces[type_at], default, pieces[time_at])
            number = numbers.get(key)
            if number is None:
                number = numbers[key] = len(stated)
                stated.append(_stated(*key))
            own.append(number)
        actor = pieces[actor_at]
        if actor in of_actor:
            raise Irregular
        of_actor[actor] = tuple(own)
        if len(own) != 1:
            _require_choice([stated[number] for number in own])
    return _Times(stated, of_actor)


def _stated(processor: str, default: str, text: str) -> _Stated:
    if default not in sdf3_actors.DEFAULTS:
        raise Irregular
    times = sequences.parse_times(text, sequences.sequence_length(text))
    return _Stated(processor, sdf3_actors.DEFAULTS[default], text, times)


def _require_choice(processors: list[_Stated]) -> None:
    """Refuse none, and processors of which it is not clear which counts."""
    names = {one.processor for one in processors}
    if len(names) != len(processors) or not processors:
        raise Irregular
    if sum(one.is_default for one in processors) > 1:
        raise Irregular


def _read_actors(run: Run[ActorPlaces], times: _Times, scale: int, kind: str) -> _Actors:
    found = _Actors([], {}, {})
    ends: dict[tuple[str, str], _End] = {}
    durations = [sdf3_actors.scaled(one.times, scale) for one in times.stated]
    rates = 0
    for (name_at, ports_at), pieces in run.elements():
        name = pieces[name_at]
        ports: dict[str, _End] = {}
        phases = 1
        for port_at, direction_at, rates_at in ports_at:
            key = (pieces[direction_at], pieces[rates_at])
            end = ends.get(key)
            if end is None:
                end = ends[key] = _end(*key)
            ports[pieces[port_at]] = end
            if end.length != 1:
                phases = math.lcm(phases, end.length)
        if len(ports) != len(ports_at) or name in found.ports:
            raise Irregular
        found.ports[name] = ports
        numbers = times.of_actor[name]
        own = durations[numbers[0]]
        if phases == 1 and len(numbers) == 1 and len(own) == 1:
            found.made.append(Actor(name=name, durations=own))
        else:
            phases = _phases(name, ports, [len(durations[number]) for number in numbers], kind)
            found.phases[name] = phases
            found.made.append(_actor(name, [times.stated[one] for one in numbers], phases, scale))
        rates += phases * (len(ports) + len(numbers))
        if rates > sdf3_actors.MOST_RATES:
            raise Irregular
    if len(found.ports) != len(times.of_actor):
        raise Irregular
    return found


def _end(direction: str, rates: str) -> _End:
    if direction not in ("in", "out"):
        raise Irregular
    length = sequences.sequence_length(rates)
    return _End(direction, rates, length, sequences.parse_rates(rates, 1) if length == 1 else ())


def _phases(name: str, ports: dict[str, _End], times: list[int], kind: str) -> int:
    """How many phases an actor has that may have more than one."""
    lengths = {port: end.length for port, end in ports.items()}
    lengths.update({f"processor {number}": length for number, length in enumerate(times)})
    phases = math.lcm(*lengths.values())
    if phases > sequences.LARGEST_PHASE_COUNT or (phases > 1 and kind == "sdf"):
        raise Irregular
    if short_sequences(name, lengths) is not None:
        raise Irregular
    return phases


def _actor(name: str, processors: list[_Stated], phases: int, scale: int) -> Actor:
    texts = tuple(
        ProcessorTimes(one.processor, one.is_default, "", one.text, None) for one in processors
    )
    lists = [one.times * (phases // len(one.times)) for one in processors]
    return sdf3_actors.actor_of(ActorText(name, None, {}, texts, phases), lists, scale)


def _read_sizes(run: Run[SizesPlaces]) -> dict[str, _Sizes]:
    sizes: dict[str, _Sizes] = {}
    for (channel_at, token_at, buffer_at), pieces in run.elements():
        channel = pieces[channel_at]
        if channel in sizes:
            raise Irregular
        sizes[channel] = _Sizes(
            None if token_at is None else pieces[token_at],
            None if buffer_at is None else pieces[buffer_at],
        )
    return sizes


def _read_channels(
    run: Run[ChannelPlaces], actors: _Actors, sizes: dict[str, _Sizes], *, buffer_sizes: bool | None
) -> list[Channel]:
    """The channels; each takes its ports out of those of the actors."""
    channels = []
    none = _Sizes(None, None)
    ports, phases = actors.ports, actors.phases
    for at, pieces in run.elements():
        name_at, producer_at, source_at, consumer_at, destination_at, tokens_at, size_at = at
        name, producer, consumer = pieces[name_at], pieces[producer_at], pieces[consumer_at]
        source = ports[producer].pop(pieces[source_at])
        destination = ports[consumer].pop(pieces[destination_at])
        if source.direction != "out" or destination.direction != "in":
            raise Irregular
        stated = sizes.pop(name, none) if sizes else none
        size = stated.token
        if size is None and size_at is not None:
            size = pieces[size_at]
        capacity = stated.buffer if buffer_sizes else None
        channels.append(
            Channel(
                name=name,
                producer=producer,
                consumer=consumer,
                production=_rates(source, phases.get(producer, 1)),
                consumption=_rates(destination, phases.get(consumer, 1)),
                initial_tokens=0 if tokens_at is None else natural(pieces[tokens_at]),
                capacity=None if capacity is None else natural(capacity),
                token_size=None if size is None else natural(size),
            )
        )
    if sizes or any(ports.values()):  # properties of no channel, or ports without
        raise Irregular
    return channels


def _rates(end: _End, phases: int) -> tuple[int, ...]:
    return end.single if phases == 1 else sequences.parse_rates(end.rates, phases)


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


ShapedElement = Any
Places = TypeVar("Places")  # of values in the pieces of an element: what a reader makes of a shape
Pieces = list[str]  # of an element's text: markup and values in turn

MOST_SHAPES = 500  # of one tag; more are cheaper for a parser
MARKER = "csdf-run-of-"
PLACEHOLDER = "\ue000"  # before the number of a piece
SPECIAL = bytes(range(32)) + b"<&"  # not in a value that is taken as it stands
_ORDINARY = bytes(code for code in range(256) if code not in SPECIAL)
_NO_CHARACTERS = ("\ufffe", "\uffff")  # to XML


class Irregular(CsdfError):
    """A text that is for a parser."""


class _Shape(Generic[Places]):
    """A shape: where its values are, and how many elements have it."""

    __slots__ = ("count", "places")

    def __init__(self, places: Places) -> None:
        self.places = places
        self.count = 0


class Run(Generic[Places]):
    """All elements of one tag, which follow one another in the text.

    closing: how each of them ends. places: makes of an element, whose attributes are numbers of
    pieces, what the reader wants to know of the shape; raises Irregular.
    """

    def __init__(
        self, text: str, tag: str, closing: str, places: Callable[[ShapedElement], Places]
    ) -> None:
        self.tag = tag
        self.marker_tag = f"{MARKER}{tag}"
        self.marker = f"<{self.marker_tag}/>"
        self._closing = closing
        self._places = places
        self._shapes: dict[str, _Shape[Places]] = {}
        self.begin = text.find(f"<{tag} ")
        last = text.rfind(f"<{tag} ")
        end = text.find(closing, last)
        if self.begin >= 0 and end < 0:
            raise Irregular
        self.end = end + len(closing) if self.begin >= 0 else self.begin
        self._text = text[self.begin : self.end] if self.begin >= 0 else ""
        self._quote = '"' if '"' in self._text else "'"

    def __bool__(self) -> bool:
        """Whether there is an element of the tag."""
        return bool(self._text)

    def elements(self) -> Iterator[tuple[Places, Pieces]]:
        """Yield of each element where its values are, and its pieces."""
        quote, shapes = self._quote, self._shapes
        for block in self._text.split(self._closing)[:-1]:
            pieces = block.split(quote)
            shape = shapes.get(quote.join(pieces[::2]))
            if shape is None:
                shape = self._learned(pieces)
            shape.count += 1
            yield shape.places, pieces

    def _learned(self, pieces: Pieces) -> _Shape[Places]:
        """Add the shape of these pieces to those that are known."""
        markup = self._quote.join(pieces[::2])
        if len(self._shapes) == MOST_SHAPES or PLACEHOLDER in markup or len(pieces) % 2 == 0:
            raise Irregular
        numbered = [
            f"{PLACEHOLDER}{number}" if number % 2 else piece for number, piece in enumerate(pieces)
        ]
        element = _only_element(f"{self._quote.join(numbered)}{self._closing}")
        if element.tag != self.tag:
            raise Irregular
        _number_values(element, len(pieces) // 2)
        shape = _Shape(self._places(element))
        self._shapes[markup] = shape
        return shape

    def count(self, character: str) -> int:
        """Return how often a character is in the markup of the elements that were yielded."""
        return sum(
            shape.count * (markup.count(character) + self._closing.count(character))
            for markup, shape in self._shapes.items()
        )


def _only_element(text: str) -> ShapedElement:
    """Return the element that is all of a text, but for text around it."""
    try:
        elements = list(fromstring(f"<_>{text}</_>"))
    except ParseError:
        raise Irregular from None
    if len(elements) != 1:
        raise Irregular
    return elements[0]


def _number_values(element: ShapedElement, values: int) -> None:
    """Put numbers of pieces for the values of all attributes, None for a value in the markup.

    Raises Irregular where a piece is not exactly the value of an attribute.
    """
    found = 0
    for part in element.iter():
        for key, value in part.items():
            is_piece = value.startswith(PLACEHOLDER)
            part.set(key, int(value[1:]) if is_piece else None)
            found += is_piece
    if found != values:
        raise Irregular


def place(element: ShapedElement, key: str) -> int:
    """Return which piece the value of an attribute is. Raises Irregular where there is none."""
    found: int | None = element.get(key)
    if found is None:
        raise Irregular
    return found


def optional_place(element: ShapedElement, key: str) -> int | None:
    """Return which piece the value of an attribute is; None for no such attribute."""
    return place(element, key) if key in element.attrib else None


def without_runs(text: str, runs: Sequence[Run[Any]]) -> str:
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


def require_plain_values(content: bytes, rest: str, runs: Sequence[Run[Any]]) -> None:
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

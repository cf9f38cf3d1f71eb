"""Large SDF3 files by the shapes of their elements, in half the time; see csdf.io.sdf3.shapes.

The graph is the one that csdf.io.sdf3.reader makes of the file, or there is none: for whatever is
unusual, doubtful or wrong that reader is asked, which has the messages.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, NamedTuple

from csdf.errors import InvalidGraph
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
from csdf.io.sdf3.places import (
    ActorPlaces,
    ChannelPlaces,
    SizesPlaces,
    TimesPlaces,
    actor_places,
    channel_places,
    sizes_places,
    times_places,
)
from csdf.io.sdf3.shapes import Irregular, Run, require_plain_values, without_runs
from csdf.model.exact import MalformedText, natural
from csdf.model.graph import Actor, Channel, Graph
from csdf.model.phases import short_sequences


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

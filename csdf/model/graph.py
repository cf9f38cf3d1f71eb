"""CSDF graphs as frozen values, valid from birth; capacities as reverse channels of free space."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, fields, replace
from fractions import Fraction
from math import lcm
from typing import Any

from csdf.errors import InvalidGraph, counted
from csdf.model.shown import Picture, Shown, picture
from csdf.names import expected_names, free_name

FORMAT = "csdf-graph"  # of the JSON document
VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Processor:
    """A processor type that could run an actor, and how long each phase takes on it."""

    name: str
    durations: tuple[int, ...]  # time units, one per phase
    is_default: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Actor:
    """A process that fires in a fixed cycle of phases."""

    name: str
    durations: tuple[int, ...]  # time units, one per phase
    processors: tuple[Processor, ...] = ()

    def __post_init__(self) -> None:
        if not self.durations:
            raise InvalidGraph(f"actor {self.name!r} has no phase; give at least one duration")
        _require_natural(self.durations, "actor", self.name, "duration")
        for processor in self.processors:
            if len(processor.durations) != len(self.durations):
                raise InvalidGraph(
                    f"actor {self.name!r}: "
                    f"{counted(len(processor.durations), 'duration')} on processor "
                    f"{processor.name!r}, but {counted(len(self.durations), 'phase')}"
                )

    @property
    def phases(self) -> int:
        """Number of entries in the cycle."""
        return len(self.durations)


@dataclass(frozen=True, slots=True, kw_only=True)
class Channel:
    """A queue from one producer to one consumer.

    A firing takes its tokens at its start and puts its tokens at its end. With a capacity, it claims
    the space of its output at its start; the consumer gives space back at the end of its firing, at
    the release rates: by default what it consumed, later for a sliding window.
    """

    name: str
    producer: str
    consumer: str
    production: tuple[int, ...]  # tokens, one per phase of the producer
    consumption: tuple[int, ...]  # tokens, one per phase of the consumer
    initial_tokens: int = 0
    capacity: int | None = None  # tokens
    release: tuple[int, ...] | None = None  # tokens of space, one per phase of the consumer
    token_size: int | None = None  # bytes

    def __post_init__(self) -> None:
        name = self.name
        _require_natural(self.production, "channel", name, "production rate")
        _require_natural(self.consumption, "channel", name, "consumption rate")
        if not any(self.production) or not any(self.consumption):
            side = "consumption" if any(self.production) else "production"
            raise InvalidGraph(
                f"channel {name!r}: all {side} rates are zero; no token can ever pass"
            )
        if type(self.initial_tokens) is not int or self.initial_tokens < 0:
            _require_natural((self.initial_tokens,), "channel", name, "initial tokens")
        if self.token_size is not None:
            _require_natural((self.token_size,), "channel", name, "token size")
        if self.capacity is not None:
            _require_natural((self.capacity,), "channel", name, "capacity")
            if self.capacity < self.initial_tokens:
                raise InvalidGraph(
                    f"channel {name!r}: capacity {self.capacity} is less than "
                    f"its {self.initial_tokens} initial tokens"
                )
        if self.release is not None:
            _require_window(self.release, self.consumption, name)

    @property
    def is_self_loop(self) -> bool:
        """Whether producer and consumer are the same actor."""
        return self.producer == self.consumer

    @property
    def release_rates(self) -> tuple[int, ...]:
        """Space given back at the end of each phase of the consumer."""
        return self.consumption if self.release is None else self.release


@dataclass(frozen=True, slots=True, kw_only=True)
class Graph(Shown):
    """Actors and the channels between them.

    time_unit: what one unit of an actor's duration is in the units of the user (a graph with times
    1/2 and 3 has durations 1 and 6 and the unit 1/2).
    throughput_constraint: iterations per unit of the user that the application asks for.
    origin: the text of the SDF3 file it was read from; writing patches that text, so nothing is lost.
    """

    name: str
    actors: tuple[Actor, ...]
    channels: tuple[Channel, ...] = ()
    time_unit: Fraction = Fraction(1)
    throughput_constraint: Fraction | None = None
    origin: str | None = field(default=None, compare=False, repr=False)
    _actors: dict[str, Actor] = field(init=False, compare=False, repr=False)
    _channels: dict[str, Channel] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        if not self.actors:
            raise InvalidGraph(f"graph {self.name!r} has no actor")
        if self.time_unit <= 0:
            raise InvalidGraph(f"graph {self.name!r}: time unit {self.time_unit} is not positive")
        object.__setattr__(self, "_actors", {actor.name: actor for actor in self.actors})
        object.__setattr__(self, "_channels", {channel.name: channel for channel in self.channels})
        if len(self._actors) != len(self.actors):
            _refuse_equal([actor.name for actor in self.actors], "actor")
        if len(self._channels) != len(self.channels):
            _refuse_equal([channel.name for channel in self.channels], "channel")
        phases = {actor.name: len(actor.durations) for actor in self.actors}.get
        for channel in self.channels:
            if phases(channel.producer) != len(channel.production):
                self._require_ends(channel)
            if phases(channel.consumer) != len(channel.consumption):
                self._require_ends(channel)

    def _require_ends(self, channel: Channel) -> None:
        for end, rates, kind in (
            (channel.producer, channel.production, "production"),
            (channel.consumer, channel.consumption, "consumption"),
        ):
            actor = self._actors.get(end)
            if actor is None:
                raise InvalidGraph(f"channel {channel.name!r}: there is no actor {end!r}")
            if len(rates) != len(actor.durations):
                raise InvalidGraph(
                    f"channel {channel.name!r}: {counted(len(rates), f'{kind} rate')}, "
                    f"but actor {end!r} has {counted(len(actor.durations), 'phase')}"
                )

    def draw(self) -> Picture:
        """Return a picture that a notebook shows: the graph, its critical cycle in red.

        `str` of it is SVG. Raises InconsistentGraph, and GaveUp where the critical cycle takes long.
        """
        return picture(self)

    def actor(self, name: str) -> Actor:
        """Return the actor of that name; raise InvalidGraph if there is none."""
        if name not in self._actors:
            expected = expected_names(name, self._actors)
            raise InvalidGraph(f"graph {self.name!r}: there is no actor {name!r}{expected}")
        return self._actors[name]

    def channel(self, name: str) -> Channel:
        """Return the channel of that name; raise InvalidGraph if there is none."""
        if name not in self._channels:
            expected = expected_names(name, self._channels)
            raise InvalidGraph(f"graph {self.name!r}: there is no channel {name!r}{expected}")
        return self._channels[name]

    def to_json(self) -> dict[str, Any]:
        """Return the document that csdf.io.json_graph writes and reads, as a JSON value."""
        constraint = self.throughput_constraint
        return {
            "format": FORMAT,
            "version": VERSION,
            "name": self.name,
            "time_unit": str(self.time_unit),
            "throughput_constraint": None if constraint is None else str(constraint),
            "actors": [_plain(actor) for actor in self.actors],
            "channels": [_plain(channel) for channel in self.channels],
            "origin": self.origin,
        }

    def to_records(self) -> list[dict[str, Any]]:
        """Return a row for each channel, with what its actors are, as for a data frame."""
        return [
            {field.name: getattr(channel, field.name) for field in fields(channel)}
            for channel in self.channels
        ]

    @property
    def kind(self) -> str:
        """`sdf` if every actor has one phase and no channel a window of its own, else `csdf`."""
        plain = all(len(actor.durations) == 1 for actor in self.actors)
        return "sdf" if plain else "csdf"


def _plain(part: Actor | Processor | Channel) -> dict[str, Any]:
    """Return the fields of a part as a JSON value."""
    row: dict[str, Any] = {}
    for attribute in fields(part):
        value = getattr(part, attribute.name)
        if attribute.name == "processors":
            value = [_plain(processor) for processor in value]
        row[attribute.name] = list(value) if isinstance(value, tuple) else value
    return row


def _require_natural(values: tuple[int, ...], kind: str, name: str, what: str) -> None:
    """Refuse what is no integer of at least 0; the text is made only where it is needed."""
    for value in values:
        if type(value) is not int:
            raise InvalidGraph(f"{kind} {name!r}: {what} {value!r} is not an integer")
        if value < 0:
            raise InvalidGraph(f"{kind} {name!r}: {what} {value} is negative")


def _require_window(release: tuple[int, ...], consumption: tuple[int, ...], name: str) -> None:
    _require_natural(release, "channel", name, "release rate")
    where = f"channel {name!r}"
    if len(release) != len(consumption):
        raise InvalidGraph(
            f"{where}: {len(release)} release rates for {len(consumption)} consumption rates"
        )
    kept = 0
    for phase, (taken, released) in enumerate(zip(consumption, release, strict=True)):
        kept += taken - released
        if kept < 0:
            raise InvalidGraph(f"{where}: phase {phase} releases space that it has not consumed")
    if kept:
        raise InvalidGraph(
            f"{where}: a cycle consumes {counted(sum(consumption), 'token')} "
            f"but releases {sum(release)}"
        )


def _refuse_equal(names: list[str], kind: str) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise InvalidGraph(f"two {kind}s are named {name!r}")
        seen.add(name)


def short_sequences(actor: str, lengths: Mapping[str, int]) -> str | None:
    """Return a remark on lists that are shorter than others of the actor and so repeat, or None.

    lengths: of each list, by what it is called. A single value stands for all phases by custom, and
    is not remarked upon; of two values for four phases two may be forgotten.
    """
    phases = lcm(*lengths.values()) if lengths else 1
    short = [what for what, length in lengths.items() if 1 < length < phases]
    if not short:
        return None
    listed = " and ".join(f"the {lengths[what]} values of {what}" for what in short[:3])
    rest = f" and those of {len(short) - 3} more" if len(short) > 3 else ""
    return f"actor {actor!r} has {phases} phases; {listed}{rest} repeat to fill them"


def in_finer_time(graph: Graph, parts: int) -> Graph:
    """Return the graph with this many parts of its time unit as unit; all times are the same."""

    def scaled(durations: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(duration * parts for duration in durations)

    actors = tuple(
        replace(
            actor,
            durations=scaled(actor.durations),
            processors=tuple(
                replace(processor, durations=scaled(processor.durations))
                for processor in actor.processors
            ),
        )
        for actor in graph.actors
    )
    return replace(graph, actors=actors, time_unit=graph.time_unit / parts, origin=None)


def self_loop(actor: Actor, tokens: int, name: str) -> Channel:
    """Return a channel of this many tokens; each firing of the actor holds one."""
    ones = (1,) * actor.phases
    return Channel(
        name=name, producer=actor.name, consumer=actor.name, production=ones, consumption=ones,
        initial_tokens=tokens,
    )  # fmt: skip


def space_channel(channel: Channel, capacity: int, name: str) -> Channel:
    """Return the reverse channel whose tokens are the free space of a channel of that capacity.

    The producer takes space at its start, the consumer puts it back at its end, at the release rates.
    Source: Stuijk, Geilen, Basten, IEEE Trans. Computers 57(10), 2008, section 3.
    """
    return Channel(
        name=name,
        producer=channel.consumer,
        consumer=channel.producer,
        production=channel.release_rates,
        consumption=channel.production,
        initial_tokens=capacity - channel.initial_tokens,
    )


class SpaceName(str):
    """The name of a reverse channel; channel: the name of the channel with the capacity.

    A channel of a file may have the same name, as a plain `str`.
    """

    __slots__ = ("channel",)
    channel: str

    @classmethod
    def of(cls, channel: str, name: str) -> SpaceName:
        """Return the name of the reverse channel of a channel."""
        space = cls(name)
        space.channel = channel
        return space


def with_space_channels(graph: Graph, names: Collection[str], *, suffix: str) -> Graph:
    """Return the graph with each named, bounded channel as a channel and its reverse channel.

    The reverse channel is called after its channel with the suffix, and a number where that is taken.
    Release rates of other channels are dropped: without a capacity they have no effect.
    """
    taken = {channel.name for channel in graph.channels}
    channels: list[Channel] = []
    for channel in graph.channels:
        if channel.name not in names or channel.capacity is None:
            channels.append(replace(channel, release=None))
            continue
        free = free_name(channel.name + suffix, taken, between="_")
        name = SpaceName.of(channel.name, free)
        taken.add(name)
        channels.append(replace(channel, capacity=None, release=None))
        channels.append(space_channel(channel, channel.capacity, name))
    return replace(graph, channels=tuple(channels))

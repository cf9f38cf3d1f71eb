"""Binding-aware graph of a mapped application: durations of its processors, transfers between them.

It says nothing of orders; csdf.mapping.throughput adds those.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from math import gcd

from csdf.analysis.bound_channels import bound_channels
from csdf.analysis.consistency import repetition_vector
from csdf.errors import counted
from csdf.mapping.model import (
    Buffer,
    Connection,
    Core,
    InvalidMapping,
    Mapping,
    Platform,
    StaticOrder,
)
from csdf.model.graph import (
    Actor,
    Channel,
    Graph,
    SpaceName,
    in_finer_time,
    self_loop,
    space_channel,
)
from csdf.names import free_name

# Suffixes to the name of a channel, for the actors and channels that model its transfer and buffers.
TRANSFER = " (transfer)"
WAIT = " (wait)"
MEMORY, SOURCE, TARGET = "memory", "source", "target"  # the fields of a Buffer
SPACE = {MEMORY: " (space)", SOURCE: " (space at its source)", TARGET: " (space at its target)"}


def durations_on(actor: Actor, core: Core) -> tuple[int, ...]:
    """Return the durations of an actor's phases on a processor, in time units of the graph.

    Raises InvalidMapping where the actor has durations for other types of processors only.
    """
    for processor in actor.processors:
        if processor.name == core.type:
            return processor.durations
    if not actor.processors or not core.type:
        return actor.durations
    types = ", ".join(repr(processor.name) for processor in actor.processors)
    raise InvalidMapping(
        f"actor {actor.name!r} cannot run on processor {core.name!r} of the type {core.type!r}; "
        f"it has durations for {types}"
    )


def response_time(duration: int, wheel: int, own: int) -> int:
    """Return the worst-case response time on a TDMA wheel W with the slice S: t + ceil(t/S) (W - S).

    In the worst case the firing is enabled just after its slice has ended.

    Source: Bekooij et al., Predictable embedded multiprocessor system design, SCOPES 2004.
    """
    return duration + -(-duration // own) * (wheel - own)


def response_times(actor: Actor, core: Core, factor: Fraction) -> tuple[int, ...]:
    """Return the response times of an actor's phases on a processor; without a slice, its durations.

    factor: ticks of the durations in a time unit of the user. Raises InvalidMapping as `durations_on`.
    """
    durations = durations_on(actor, core)
    if core.wheel is None or core.slice is None:
        return durations
    wheel, slice_ticks = int(core.wheel * factor), int(core.slice * factor)
    return tuple(response_time(duration, wheel, slice_ticks) for duration in durations)


def transfer_time(channel: Channel, connection: Connection) -> int:
    """Return the transfer time of a token of a channel, in time units of the user.

    Raises InvalidMapping for a channel without token size where the connection has a bandwidth.
    """
    if connection.bandwidth is None:
        return connection.latency
    if channel.token_size is None:
        raise InvalidMapping(
            f"channel {channel.name!r} has no token size, and the connection from "
            f"{connection.source!r} to {connection.target!r} has a bandwidth"
        )
    return connection.latency + -(-channel.token_size // connection.bandwidth)


def bound_graph(
    graph: Graph, platform: Platform, mapping: Mapping, *, is_conservative: bool
) -> Graph:
    """Return the graph with the durations, transfers and buffers of a mapping, without orders.

    A channel c over a connection that takes time becomes producer -> `c (transfer)` -> consumer. The
    transfer moves the greatest common divisor of the rates of c in a firing; a single token if c has
    buffers, or if the connection carries one token at a time. Capacities become reverse channels; a
    buffer of the mapping replaces the capacity in the graph.
    is_conservative: the durations on processors with a slice are response times.
    """
    scaled = in_finer_time(graph, graph.time_unit.numerator)
    factor = 1 / scaled.time_unit
    builder = _Binding(scaled, platform, mapping, factor)
    actors = tuple(builder.actor(actor, is_conservative=is_conservative) for actor in scaled.actors)
    channels = tuple(
        replace(channel, capacity=None) if channel.name in mapping.buffers else channel
        for channel in scaled.channels
    )
    bounded = bound_channels(replace(scaled, channels=channels, origin=None)).channels
    builder.used_names |= {actor.name for actor in actors} | {channel.name for channel in bounded}
    for channel in bounded:
        builder.add(channel)
    return Graph(
        name=graph.name,
        actors=actors + tuple(builder.transfers),
        channels=tuple(builder.channels),
        time_unit=scaled.time_unit,
    )


def buffer_sides(graph: Graph, platform: Platform, mapping: Mapping) -> dict[str, tuple[str, ...]]:
    """Return the buffers that each channel needs, except for self-loops.

    (`memory`,) if its tokens are available immediately; (`source`, `target`) if they are transferred.
    """
    binding = _Binding(graph, platform, mapping, Fraction(1))
    return {
        channel.name: binding.sides(channel)
        for channel in graph.channels
        if not channel.is_self_loop
    }


def buffered_channel(channel: Channel, side: str) -> Channel:
    """Return the channel whose tokens occupy the buffer on one side of a connection.

    The transfer moves a single token in each firing, as in `bound_graph` for channels with buffers.
    """
    if side == SOURCE:
        return replace(
            channel, consumption=(1,), consumer=f"{channel.name}{TRANSFER}", release=None
        )
    if side == TARGET:
        return replace(
            channel, production=(1,), producer=f"{channel.name}{TRANSFER}", initial_tokens=0
        )
    return channel


@dataclass
class _Binding:
    """The mapped graph while it is being built; all its channels are unbounded.

    Each capacity becomes a reverse channel, from the consumer to the producer. Its tokens are free
    space, and the release rates say how much of it each consumer firing frees.
    """

    graph: Graph
    platform: Platform
    mapping: Mapping
    factor: Fraction  # ticks of the graph in a time unit of the user
    channels: list[Channel] = field(default_factory=list)
    transfers: list[Actor] = field(default_factory=list)
    used_names: set[str] = field(default_factory=set)  # of all actors and channels

    def _free_name(self, wanted: str) -> str:
        """Return a name for a further actor or channel, with a number if it is used."""
        name = free_name(wanted, self.used_names, between="_")
        self.used_names.add(name)
        return name

    @cached_property
    def releases(self) -> dict[str, tuple[int, ...] | None]:
        """The release rates of each channel of the graph; None if they are its consumption rates.

        `bound_channels` replaces them by reverse channels where the graph has a capacity. A capacity of
        the mapping needs them, too.
        """
        return {channel.name: channel.release for channel in self.graph.channels}

    def sides(self, channel: Channel) -> tuple[str, ...]:
        """Return the fields of Buffer that apply to a channel."""
        return (MEMORY,) if self._connection(channel) is None else (SOURCE, TARGET)

    def actor(self, actor: Actor, *, is_conservative: bool) -> Actor:
        name = self.mapping.binding.get(actor.name)
        if name is None:
            return replace(actor, processors=())
        core = self.platform.core(name)
        if is_conservative:
            return Actor(name=actor.name, durations=response_times(actor, core, self.factor))
        return Actor(name=actor.name, durations=durations_on(actor, core))

    def add(self, channel: Channel) -> None:
        """Add a channel of the graph, with its transfer and the reverse channels of its buffers."""
        buffer = self.mapping.buffers.get(channel.name, Buffer())
        connection = self._connection(channel)
        if connection is None:
            self.channels.append(channel)
            released = replace(channel, release=self.releases.get(channel.name))
            self._limit(channel.name, released, buffer.memory, MEMORY)
            return
        self._add_transfer(channel, connection, buffer)

    def _connection(self, channel: Channel) -> Connection | None:
        """Return the connection of a channel; None if its tokens are available immediately."""
        if channel.name in self.mapping.delays:
            delay = self.mapping.delays[channel.name]
            return Connection(source="", target="", latency=delay) if delay else None
        cores = [self.mapping.binding.get(end) for end in (channel.producer, channel.consumer)]
        is_reverse = channel.name not in self.releases  # added by bound_channels for a capacity
        if None in cores or cores[0] == cores[1] or is_reverse:
            return None
        return self.platform.connection(str(cores[0]), str(cores[1]))

    def _add_transfer(self, channel: Channel, connection: Connection, buffer: Buffer) -> None:
        name = self._free_name(f"{channel.name}{TRANSFER}")
        is_one_by_one = not connection.is_pipelined
        has_buffer = buffer.source is not None or buffer.target is not None
        unit = gcd(*channel.production, *channel.consumption)
        at_once = 1 if is_one_by_one or has_buffer else unit
        tokens = channel.initial_tokens
        has_source = buffer.source is not None
        duration = int(transfer_time(channel, connection) * self.factor)
        transfer = Actor(name=name, durations=(duration,))
        self.transfers.append(transfer)
        first = replace(
            channel,
            name=self._free_name(f"{channel.name} (sent)"),
            consumer=name,
            consumption=(at_once,),
            initial_tokens=tokens if has_source else 0,
        )
        second = replace(
            channel,
            producer=self._waiting(channel.name, name, connection, at_once)
            if connection.wait
            else name,
            production=(at_once,),
            initial_tokens=0 if has_source else tokens,
        )
        self.channels += [first, second]
        self._limit(channel.name, first, buffer.source, SOURCE)
        released = replace(second, producer=name, release=self.releases.get(channel.name))
        self._limit(channel.name, released, buffer.target, TARGET)
        if is_one_by_one:
            self.channels.append(self_loop(transfer, 1, self._free_name(f"{name} (limit)")))

    def _waiting(self, channel: str, transfer: str, connection: Connection, at_once: int) -> str:
        """Add the actor that delays tokens of a transfer by the waiting time of the connection.

        Returns its name.
        """
        name = self._free_name(f"{channel}{WAIT}")
        self.transfers.append(Actor(name=name, durations=(int(connection.wait * self.factor),)))
        self.channels.append(
            Channel(
                name=self._free_name(f"{channel} (arrived)"),
                producer=transfer,
                consumer=name,
                production=(at_once,),
                consumption=(at_once,),
            )
        )
        return name

    def _limit(self, name: str, ends: Channel, capacity: int | None, side: str) -> None:
        """Add the reverse channel of a buffer, from the consumer to the producer of `ends`."""
        if capacity is None or ends.is_self_loop:
            return
        if capacity < ends.initial_tokens:
            raise InvalidMapping(
                f"channel {name!r}: a buffer of {counted(capacity, 'token')} for "
                f"{ends.initial_tokens} initial ones"
            )
        space = SpaceName.of(name, self._free_name(f"{name}{SPACE[side]}"))
        self.channels.append(space_channel(ends, capacity, space))


def require_valid(graph: Graph, platform: Platform, mapping: Mapping) -> None:
    """Raise InvalidMapping unless the mapping is one of this graph onto this platform.

    Each static order contains exactly the actors of its processor; its periodic part is a whole or
    fractional number of iterations of these actors.
    """
    actors = {actor.name for actor in graph.actors}
    for actor in mapping.binding:
        if actor not in actors:
            raise InvalidMapping(
                f"the binding names {actor!r}, which is no actor of {graph.name!r}"
            )
    channels = {channel.name for channel in graph.channels}
    for name in (*mapping.buffers, *mapping.delays):
        if name not in channels:
            raise InvalidMapping(f"there is no channel {name!r} in {graph.name!r}")
    used: dict[str, set[str]] = {}  # the actors of each processor
    for actor, core in mapping.binding.items():
        used.setdefault(core, set()).add(actor)
    for core in used:
        platform.core(core)
        if core not in mapping.orders:
            raise InvalidMapping(f"processor {core!r} has actors, but no static order")
    repetitions = repetition_vector(graph)
    for core in mapping.orders:
        platform.core(core)
        _require_order(core, mapping.orders[core], used.get(core, set()), repetitions)


def _require_order(
    core: str, order: StaticOrder, bound: set[str], repetitions: dict[str, int]
) -> None:
    for actor in (*order.prefix, *order.periodic):
        if actor not in bound:
            raise InvalidMapping(
                f"the order of processor {core!r} names {actor!r}, which is not bound to it"
            )
    counts = Counter(order.periodic)
    first = order.periodic[0]
    iterations = Fraction(counts[first], repetitions[first])
    for actor in sorted(bound):
        firings = counts[actor]
        if firings != iterations * repetitions[actor] or not firings:
            raise InvalidMapping(
                f"the order of processor {core!r} has {counted(firings, 'firing')} of {actor!r} "
                f"and {counts[first]} of {first!r}; an iteration has "
                f"{repetitions[actor]} and {repetitions[first]}"
            )

"""The graph of a mapped application: durations of its processors, transfers between them.

It says nothing of orders; csdf.analysis.mapping.orders adds those.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from fractions import Fraction
from math import gcd

from csdf.analysis.bounded import bound_channels
from csdf.analysis.consistency import repetition_vector
from csdf.errors import counted
from csdf.model.graph import Actor, Channel, Graph
from csdf.model.mapping import Buffer, Connection, Core, InvalidMapping, Mapping, Platform

TRANSFER = " (transfer)"  # what the name of a transfer actor adds to that of its channel
WAIT = " (wait)"
SPACE = " (space)"


def require_valid(graph: Graph, platform: Platform, mapping: Mapping) -> None:
    """Raise InvalidMapping unless the mapping is one of this graph onto this platform.

    Each order has to hold exactly the actors of its processor, in its periodic list all equally
    often against the repetition vector.
    """
    for actor, core in mapping.binding.items():
        if actor not in {one.name for one in graph.actors}:
            raise InvalidMapping(
                f"the binding names {actor!r}, which is no actor of {graph.name!r}"
            )
        platform.core(core)
    channels = {one.name for one in graph.channels}
    for name in (*mapping.buffers, *mapping.delays):
        if name not in channels:
            raise InvalidMapping(f"there is no channel {name!r} in {graph.name!r}")
    used = dict.fromkeys(mapping.binding.values())
    for core in used:
        if core not in mapping.orders:
            raise InvalidMapping(f"processor {core!r} has actors, but no static order")
    repetitions = repetition_vector(graph)
    for core in mapping.orders:
        platform.core(core)
        _require_order(core, mapping, repetitions)


def _require_order(core: str, mapping: Mapping, repetitions: dict[str, int]) -> None:
    order = mapping.orders[core]
    bound = {actor for actor, other in mapping.binding.items() if other == core}
    for actor in (*order.prefix, *order.periodic):
        if actor not in bound:
            raise InvalidMapping(
                f"the order of processor {core!r} names {actor!r}, which is not bound to it"
            )
    first = next(iter(order.periodic))
    iterations = Fraction(order.periodic.count(first), repetitions[first])
    for actor in bound:
        found = order.periodic.count(actor)
        if found != iterations * repetitions[actor] or not found:
            raise InvalidMapping(
                f"the order of processor {core!r} has {counted(found, 'firing')} of {actor!r} "
                f"and {order.periodic.count(first)} of {first!r}; an iteration has "
                f"{repetitions[actor]} and {repetitions[first]}"
            )


def durations_on(actor: Actor, core: Core) -> tuple[int, ...]:
    """Return the durations of an actor's phases on a processor, in time units of the graph.

    Raises InvalidMapping where the actor has durations for other types of processors only.
    """
    for one in actor.processors:
        if one.name == core.type:
            return one.durations
    if not actor.processors or not core.type:
        return actor.durations
    types = ", ".join(repr(one.name) for one in actor.processors)
    raise InvalidMapping(
        f"actor {actor.name!r} cannot run on processor {core.name!r} of the type {core.type!r}; "
        f"it has durations for {types}"
    )


def response_time(duration: int, wheel: int, own: int) -> int:
    """Return how long work takes at most that may begin just after its slice: t + ceil(t/S) (W - S).

    Source: Bekooij et al., Predictable embedded multiprocessor system design, SCOPES 2004.
    """
    return duration + -(-duration // own) * (wheel - own)


def transfer_time(channel: Channel, connection: Connection) -> int:
    """Return how long a token of a channel is on its way, in time units of the user.

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

    A crossing channel that takes time becomes producer -> transfer -> consumer; `c (transfer)` moves
    as many tokens at once as every firing moves a multiple of. Capacities become channels.
    is_conservative: the durations on processors with a slice are response times.
    """
    scaled = _in_integral_times(graph)
    factor = 1 / scaled.time_unit
    builder = _Binding(scaled, platform, mapping, factor)
    actors = tuple(builder.actor(one, is_conservative=is_conservative) for one in scaled.actors)
    for channel in bound_channels(scaled).channels:
        builder.add(channel)
    return Graph(
        name=graph.name,
        actors=actors + tuple(builder.transfers),
        channels=tuple(builder.channels),
        time_unit=scaled.time_unit,
    )


def _in_integral_times(graph: Graph) -> Graph:
    """Return the graph in a time unit of which each unit of the user is a multiple."""
    factor = graph.time_unit.numerator
    if factor == 1:
        return graph

    def scaled(durations: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(duration * factor for duration in durations)

    actors = tuple(
        replace(
            actor,
            durations=scaled(actor.durations),
            processors=tuple(
                replace(one, durations=scaled(one.durations)) for one in actor.processors
            ),
        )
        for actor in graph.actors
    )
    return replace(graph, actors=actors, time_unit=graph.time_unit / factor, origin=None)


@dataclass
class _Binding:
    """The mapped graph while it is being built; all its channels are unbounded."""

    graph: Graph
    platform: Platform
    mapping: Mapping
    factor: Fraction  # time units of the graph in one of the user
    channels: list[Channel] = field(default_factory=list)
    transfers: list[Actor] = field(default_factory=list)

    def actor(self, actor: Actor, *, is_conservative: bool) -> Actor:
        name = self.mapping.binding.get(actor.name)
        if name is None:
            return replace(actor, processors=())
        core = self.platform.core(name)
        durations = durations_on(actor, core)
        if is_conservative and core.wheel is not None and core.slice is not None:
            wheel, own = int(core.wheel * self.factor), int(core.slice * self.factor)
            durations = tuple(response_time(one, wheel, own) for one in durations)
        return Actor(name=actor.name, durations=durations)

    def add(self, channel: Channel) -> None:
        """Add a channel of the graph as it is, or as the transfer that it becomes."""
        buffer = self.mapping.buffers.get(channel.name, Buffer())
        connection = self._connection(channel)
        if connection is None:
            self.channels.append(channel)
            self._limit(channel, channel, buffer.memory, "")
            return
        self._add_transfer(channel, connection, buffer)

    def _connection(self, channel: Channel) -> Connection | None:
        """Return what the tokens of a channel pass; None if they are there at once."""
        if channel.name in self.mapping.delays:
            delay = self.mapping.delays[channel.name]
            return Connection(source="", target="", latency=delay) if delay else None
        cores = [self.mapping.binding.get(end) for end in (channel.producer, channel.consumer)]
        is_application = any(one.name == channel.name for one in self.graph.channels)
        if None in cores or cores[0] == cores[1] or not is_application:
            return None
        return self.platform.connection(str(cores[0]), str(cores[1]))

    def _add_transfer(self, channel: Channel, connection: Connection, buffer: Buffer) -> None:
        name = f"{channel.name}{TRANSFER}"
        is_one_by_one = not connection.is_pipelined
        at_once = 1 if is_one_by_one else self._unit(channel, buffer)
        tokens = channel.initial_tokens
        has_source = buffer.source is not None
        self.transfers.append(
            Actor(name=name, durations=(int(transfer_time(channel, connection) * self.factor),))
        )
        first = replace(
            channel,
            name=f"{channel.name} (sent)",
            consumer=name,
            consumption=(at_once,),
            initial_tokens=tokens if has_source else 0,
        )
        second = replace(
            channel,
            producer=self._waiting(channel.name, connection, at_once) if connection.wait else name,
            production=(at_once,),
            initial_tokens=0 if has_source else tokens,
        )
        self.channels += [first, second]
        self._limit(first, first, buffer.source, "source")
        self._limit(second, replace(second, producer=name), buffer.target, "target")
        if is_one_by_one:
            self.channels.append(
                Channel(
                    name=f"{name} (limit)",
                    producer=name,
                    consumer=name,
                    production=(1,),
                    consumption=(1,),
                    initial_tokens=1,
                )
            )

    def _waiting(self, channel: str, connection: Connection, at_once: int) -> str:
        """Add the actor that keeps tokens from being seen as they arrive; return its name."""
        name = f"{channel}{WAIT}"
        self.transfers.append(Actor(name=name, durations=(int(connection.wait * self.factor),)))
        self.channels.append(
            Channel(
                name=f"{channel} (arrived)",
                producer=f"{channel}{TRANSFER}",
                consumer=name,
                production=(at_once,),
                consumption=(at_once,),
            )
        )
        return name

    def _unit(self, channel: Channel, buffer: Buffer) -> int:
        if buffer.source is not None or buffer.target is not None:
            return 1
        return gcd(*channel.production, *channel.consumption)

    def _limit(self, channel: Channel, ends: Channel, capacity: int | None, side: str) -> None:
        """Add the reverse channel of a buffer, from the consumer to the producer of `ends`."""
        if capacity is None or channel.is_self_loop:
            return
        if capacity < channel.initial_tokens:
            raise InvalidMapping(
                f"channel {channel.name!r}: a buffer of {counted(capacity, 'token')} for "
                f"{channel.initial_tokens} initial ones"
            )
        self.channels.append(
            Channel(
                name=f"{channel.name}{SPACE}{f' ({side})' if side else ''}",
                producer=ends.consumer,
                consumer=ends.producer,
                production=ends.consumption,
                consumption=ends.production,
                initial_tokens=capacity - channel.initial_tokens,
            )
        )

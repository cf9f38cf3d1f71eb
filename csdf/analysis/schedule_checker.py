"""The checker of schedules: slow, complete, and sharing no code with what it checks."""

from __future__ import annotations

from collections.abc import Iterable

from csdf.arguments import Positive, public
from csdf.errors import InvalidSchedule, counted
from csdf.model.graph import Channel, Graph
from csdf.model.schedule import Firing, PeriodicSchedule


@public
def check_schedule(graph: Graph, firings: Iterable[Firing]) -> None:
    """Raise InvalidSchedule unless the firings obey the graph.

    Each actor's firings must be listed from index 0 on without a gap, with their phases and
    durations, none starting before its predecessor. At the start of a firing every token it takes
    must be there: all firings that make it, and those before it in the queue, must have ended. With a
    capacity, all the space that the firing fills must be free at that time. Compares every firing with
    all of its partners: O(n^2) in the firings at one channel.
    """
    by_actor: dict[str, list[Firing]] = {actor.name: [] for actor in graph.actors}
    for firing in firings:
        if firing.actor not in by_actor:
            raise InvalidSchedule(f"{_name(firing)}: the graph has no such actor")
        by_actor[firing.actor].append(firing)
    for name, listed in by_actor.items():
        listed.sort(key=lambda firing: firing.index)
        _check_actor(graph, name, listed)
    for channel in graph.channels:
        producers, consumers = by_actor[channel.producer], by_actor[channel.consumer]
        _check_tokens(channel, producers, consumers)
        if channel.capacity is not None and channel.producer != channel.consumer:
            _check_space(channel, producers, consumers)


@public
def check_periodic_schedule(graph: Graph, schedule: PeriodicSchedule, *, firings: Positive) -> None:
    """Raise InvalidSchedule unless the first firings of every actor obey the graph.

    firings: the number of phase cycles of each actor, so an actor with 3 phases has 3 * firings
    firings. Of these, firings that need tokens or space of later firings are not checked.
    """
    listed = [
        Firing(
            start=(start := schedule.start(actor.name, index)),
            end=start + actor.durations[index % actor.phases] * graph.time_unit,
            actor=actor.name,
            index=index,
            phase=index % actor.phases,
        )
        for actor in graph.actors
        for index in range(firings * actor.phases)
    ]
    reachable = _with_partners(graph, listed)
    check_schedule(graph, reachable)


def _with_partners(graph: Graph, firings: list[Firing]) -> list[Firing]:
    """Leave out firings that need a partner beyond the end of the list."""
    count = {actor.name: 0 for actor in graph.actors}
    for firing in firings:
        count[firing.actor] += 1
    changed = True
    while changed:
        changed = False
        for channel in graph.channels:
            produced = channel.initial_tokens + _total(channel.production, count[channel.producer])
            while count[channel.consumer] and (
                _total(channel.consumption, count[channel.consumer]) > produced
            ):
                count[channel.consumer] -= 1
                changed = True
            if channel.capacity is None or channel.producer == channel.consumer:
                continue
            space = channel.capacity + _total(channel.release_rates, count[channel.consumer])
            while count[channel.producer] and (
                channel.initial_tokens + _total(channel.production, count[channel.producer]) > space
            ):
                count[channel.producer] -= 1
                changed = True
    return [firing for firing in firings if firing.index < count[firing.actor]]


def _check_actor(graph: Graph, name: str, firings: list[Firing]) -> None:
    durations = graph.actor(name).durations
    for index, firing in enumerate(firings):
        if firing.index != index:
            raise InvalidSchedule(f"{name!r}: firing {index} is missing or listed twice")
        if firing.phase != index % len(durations):
            raise InvalidSchedule(f"{_name(firing)}: phase {firing.phase} out of turn")
        expected = durations[firing.phase] * graph.time_unit
        if firing.end - firing.start != expected:
            raise InvalidSchedule(
                f"{_name(firing)}: lasts {firing.end - firing.start}, expected {expected}"
            )
        if index and firing.start < firings[index - 1].start:
            raise InvalidSchedule(f"{_name(firing)}: starts before the firing before it")


def _check_tokens(channel: Channel, producers: list[Firing], consumers: list[Firing]) -> None:
    needed = 0
    for consumer in consumers:
        consumed = channel.consumption[consumer.phase]
        needed += consumed
        available = channel.initial_tokens
        for producer in producers:
            produced = channel.production[producer.phase]
            if produced and producer.end > consumer.start:
                break  # later tokens wait behind these
            available += produced
        if consumed and available < needed:
            raise InvalidSchedule(
                f"{_name(consumer)}: needs {counted(needed, 'token')} from the beginning on channel "
                f"{channel.name!r}, but only {available} are there at {consumer.start}"
            )


def _check_space(channel: Channel, producers: list[Firing], consumers: list[Firing]) -> None:
    claimed = channel.initial_tokens
    for producer in producers:
        produced = channel.production[producer.phase]
        claimed += produced
        released = 0
        for consumer in consumers:
            release = channel.release_rates[consumer.phase]
            if release and consumer.end > producer.start:
                break  # later space waits behind this
            released += release
        if produced and claimed - released > (channel.capacity or 0):
            raise InvalidSchedule(
                f"{_name(producer)}: fills channel {channel.name!r} to {claimed - released} "
                f"of {channel.capacity} at {producer.start}"
            )


def _total(rates: tuple[int, ...], firings: int) -> int:
    cycles, phases = divmod(firings, len(rates))
    return cycles * sum(rates) + sum(rates[:phases])


def _name(firing: Firing) -> str:
    return f"firing {firing.index} of {firing.actor!r}"

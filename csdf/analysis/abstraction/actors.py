"""Several actors as one that does their firings one after the other: never faster than the graph.

The order of the firings is that of their starts in the self-timed execution, so that it can be
carried out by a graph that is live: merging actors makes no deadlock. One firing of the merged actor
is a firing of one of them; it takes the tokens of that firing, lasts as long, and gives its tokens.
Each schedule of the new graph is a schedule of the given one in which these actors take turns, so that
its period is never below that of the given graph: it is the period with these actors on one processor
in this order. Channels between the merged actors are gone, for the order has their tokens ready; their
storage is not counted any more.

Sources: Sriram, Bhattacharyya, Embedded Multiprocessors, 2nd ed. 2009, chapter 5 (static orders);
Geilen, Reduction techniques for synchronous dataflow graphs, DAC 2009, section 4 (merging actors is
conservative).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from math import gcd

from csdf.analysis.bounded import bound_channels, limit_concurrency
from csdf.analysis.consistency import repetition_vector
from csdf.analysis.self_timed import self_timed_execution
from csdf.errors import CsdfError, Deadlocked, InvalidGraph, counted
from csdf.model.graph import Actor, Channel, Graph, require_graph
from csdf.model.schedule import Firing
from csdf.names import free_name
from csdf.stopping import Budget

MOST_PHASES = 100_000  # of a merged actor


def merge_actors(
    graph: Graph, names: Sequence[str], *, name: str | None = None, budget: Budget = None
) -> Graph:
    """Return the graph with the named actors as one that does their firings one after the other.

    name: of the new actor; by default the names with `+` between them. Its period is never below that
    of the given graph, and it is live where that is. budget: a stop, or seconds.
    Raises InvalidGraph for an unknown actor, one given twice, or actors that no channels connect;
    Deadlocked; CsdfError for a graph with too many firings an iteration.
    """
    require_graph(graph)
    chosen = _chosen(graph, names)
    order = _shortest(_order(graph, chosen, budget))
    others = [actor for actor in graph.actors if actor.name not in chosen]
    wanted = "+".join(chosen) if name is None else name
    merged = free_name(wanted, {actor.name for actor in others})
    durations = tuple(graph.actor(actor).durations[phase] for actor, phase in order)
    first = next(at for at, actor in enumerate(graph.actors) if actor.name in chosen)
    kept = sum(actor.name not in chosen for actor in graph.actors[:first])
    others.insert(kept, Actor(name=merged, durations=durations))
    sequential = replace(
        graph,
        name=f"{graph.name} (actors merged)",
        actors=tuple(others),
        channels=tuple(
            _moved(channel, order, chosen, merged)
            for channel in graph.channels
            if not (channel.producer in chosen and channel.consumer in chosen)
        ),
        origin=None,
    )
    return limit_concurrency(sequential, {merged: 1})


def _chosen(graph: Graph, names: Sequence[str]) -> dict[str, None]:
    """The names as keys, checked."""
    chosen = dict.fromkeys(names)
    for name in chosen:
        graph.actor(name)
    if len(chosen) < len(names):
        raise InvalidGraph(f"actors to merge: {', '.join(names)}; one is named twice")
    if len(chosen) < 2:
        raise InvalidGraph(f"{counted(len(chosen), 'actor')} to merge; at least 2")
    strangers = set(chosen) - _connected(graph, names[0])
    if strangers:
        raise InvalidGraph(
            f"actors {names[0]!r} and {min(strangers)!r}: no channels connect them, "
            "so that nothing says how often one fires for the other"
        )
    return chosen


def _connected(graph: Graph, first: str) -> set[str]:
    neighbours: dict[str, set[str]] = defaultdict(set)
    for channel in graph.channels:
        neighbours[channel.producer].add(channel.consumer)
        neighbours[channel.consumer].add(channel.producer)
    reached, waiting = {first}, [first]
    while waiting:
        found = neighbours[waiting.pop()] - reached
        reached |= found
        waiting += found
    return reached


def _order(graph: Graph, chosen: Mapping[str, None], budget: Budget) -> list[tuple[str, int]]:
    """Actor and phase of each firing of the chosen actors in one iteration, as they may follow."""
    repetitions = repetition_vector(graph)
    count = sum(repetitions[name] for name in chosen)
    if count > MOST_PHASES:
        raise CsdfError(
            f"the merged actor would have {count} phases, its firings in one iteration; "
            f"at most {MOST_PHASES}"
        )
    run = self_timed_execution(graph, iterations=1, budget=budget)
    if run.deadlock is not None:
        raise Deadlocked(f"no order of firings: the graph deadlocks: {run.deadlock}")
    in_turn = _in_turn(bound_channels(graph), run.firings)
    return [(one.actor, one.phase) for one in in_turn if one.actor in chosen]


def _in_turn(graph: Graph, firings: Sequence[Firing]) -> Iterator[Firing]:
    """Yield the firings by their starts; of those that start together, those that wait last."""
    run = _UntimedRun(graph)
    for _, together in groupby(firings, key=lambda one: one.start):
        waiting = sorted(together, key=lambda one: one.index)
        while waiting:
            fired = {id(one) for one in waiting if run.fire(one)}
            if not fired:
                raise AssertionError("firings that start together wait for one another")
            yield from (one for one in waiting if id(one) in fired)
            waiting = [one for one in waiting if id(one) not in fired]


class _UntimedRun:
    """A graph in which firings are tried one after the other."""

    def __init__(self, graph: Graph) -> None:
        self._tokens = {channel.name: channel.initial_tokens for channel in graph.channels}
        self._next = {actor.name: 0 for actor in graph.actors}
        self._inputs: dict[str, list[Channel]] = defaultdict(list)
        self._outputs: dict[str, list[Channel]] = defaultdict(list)
        for channel in graph.channels:
            self._inputs[channel.consumer].append(channel)
            self._outputs[channel.producer].append(channel)

    def fire(self, one: Firing) -> bool:
        """Do the firing if it is the next of its actor and its tokens are there; return whether."""
        tokens, inputs, phase = self._tokens, self._inputs[one.actor], one.phase
        if self._next[one.actor] != one.index or any(
            tokens[channel.name] < channel.consumption[phase] for channel in inputs
        ):
            return False
        for channel in inputs:
            tokens[channel.name] -= channel.consumption[phase]
        for channel in self._outputs[one.actor]:
            tokens[channel.name] += channel.production[phase]
        self._next[one.actor] += 1
        return True


def _shortest(order: Sequence[tuple[str, int]]) -> Sequence[tuple[str, int]]:
    """The shortest part of the order that, repeated, is the order."""
    rounds = gcd(*(order.count(one) for one in set(order)))
    for times in range(rounds, 1, -1):
        if rounds % times == 0:
            part = order[: len(order) // times]
            if list(part) * times == list(order):
                return part
    return order


def _moved(
    channel: Channel, order: Sequence[tuple[str, int]], chosen: Mapping[str, None], merged: str
) -> Channel:
    """The channel at the merged actor, which moves in each phase what that firing moved."""

    def rates(own: Sequence[int], end: str) -> tuple[int, ...]:
        return tuple(own[phase] if actor == end else 0 for actor, phase in order)

    if channel.producer in chosen:
        production = rates(channel.production, channel.producer)
        return replace(channel, producer=merged, production=production)
    if channel.consumer in chosen:
        return replace(
            channel,
            consumer=merged,
            consumption=rates(channel.consumption, channel.consumer),
            release=None if channel.release is None else rates(channel.release, channel.consumer),
        )
    return channel

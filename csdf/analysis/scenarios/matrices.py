"""The max-plus matrix of a scenario: when each token is there, as a function of the tokens before."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from csdf.analysis.bounded import bound_channels
from csdf.analysis.concurrency import is_single_firing_loop
from csdf.analysis.consistency import repetition_vector
from csdf.errors import CsdfError, InvalidGraph, counted
from csdf.model.graph import Actor, Channel, Graph
from csdf.model.scenarios import Scenario

Stamp = dict[str, int]  # when a token is there: the largest of old token + time over the entries

ORDER = " (order)"  # the name of a hidden token: the start of an actor's latest firing


class StuckScenario(CsdfError):
    """A scenario that cannot finish its iteration."""


class Matrix(NamedTuple):
    """What a scenario does with time stamps: new token = max over old tokens of old + time.

    rows: for each token that the scenario leaves the times by old tokens; a pair that does not
    depend on one another has no entry. optional: tokens that need not be there before.
    """

    taken: frozenset[str]
    rows: dict[str, Stamp]
    optional: frozenset[str]


def scenario_matrix(scenario: Scenario, time_scale: int = 1) -> Matrix:
    """Return the max-plus matrix of one execution of a scenario, by symbolic execution.

    time_scale: times are in units of 1 / time_scale of the user's. Raises StuckScenario.
    """
    graph = bound_channels(scenario.graph)
    return _SymbolicExecution(scenario, graph, int(graph.time_unit * time_scale)).matrix()


class _SymbolicExecution:
    """One iteration in which every token carries its time stamp as a function of the old ones."""

    def __init__(self, scenario: Scenario, graph: Graph, time: int) -> None:
        self.scenario = scenario
        self.graph = graph
        self.time = time
        self.queues: dict[str, deque[Stamp]] = {}
        for channel in graph.channels:
            names = _names(channel, scenario.taken)
            self.queues[channel.name] = deque({name: 0} if name else {} for name in names)
        self.inputs: dict[str, list[Channel]] = {actor.name: [] for actor in graph.actors}
        self.outputs: dict[str, list[Channel]] = {actor.name: [] for actor in graph.actors}
        for channel in graph.channels:
            self.inputs[channel.consumer].append(channel)
            self.outputs[channel.producer].append(channel)
        self.latest = {  # start of the latest firing of actors whose firings could overtake
            actor.name: {f"{actor.name}{ORDER}": 0}
            for actor in graph.actors
            if len(set(actor.durations)) > 1 and not self._is_one_at_a_time(actor)
        }
        self.optional = frozenset(name for stamp in self.latest.values() for name in stamp)
        self.taken = self.optional | {
            name for queue in self.queues.values() for stamp in queue for name in stamp
        }

    def _is_one_at_a_time(self, actor: Actor) -> bool:
        return any(is_single_firing_loop(channel) for channel in self.inputs[actor.name])

    def matrix(self) -> Matrix:
        self._fire_all()
        rows = {f"{actor}{ORDER}": stamp for actor, stamp in self.latest.items()}
        for channel in self.graph.channels:
            queue = self.queues[channel.name]
            names = _names(channel, self.scenario.left, len(queue))
            if len(names) != len(queue):
                raise InvalidGraph(
                    f"scenario {self.scenario.name!r}: it leaves "
                    f"{counted(len(queue), 'token')} on channel {channel.name!r}, "
                    f"but {len(names)} names for them"
                )
            rows.update((name, stamp) for name, stamp in zip(names, queue, strict=True) if name)
        return Matrix(self.taken, rows, self.optional)

    def _fire_all(self) -> None:
        wanted = dict(self.scenario.firings)
        if wanted.keys() != self.inputs.keys():
            wanted = {**repetition_vector(replace(self.graph, origin=None)), **wanted}
        done = dict.fromkeys(self.inputs, 0)
        waiting = list(self.inputs)
        while waiting:
            name = waiting.pop()
            actor = self.graph.actor(name)
            while done[name] < wanted[name] and self._is_enabled(actor, done[name]):
                self._fire(actor, done[name] % actor.phases)
                done[name] += 1
                waiting += {channel.consumer for channel in self.outputs[name]} - {name}
        for name, count in done.items():
            if count < wanted[name]:
                raise StuckScenario(self._complaint(name, count, wanted[name]))

    def _complaint(self, name: str, done: int, wanted: int) -> str:
        phase = done % self.graph.actor(name).phases
        lacking = next(
            channel
            for channel in self.inputs[name]
            if len(self.queues[channel.name]) < channel.consumption[phase]
        )
        return (
            f"scenario {self.scenario.name!r} deadlocks: actor {name!r} has fired {done} of "
            f"{counted(wanted, 'time')} and waits for "
            f"{counted(lacking.consumption[phase], 'token')} on "
            f"channel {lacking.name!r}, which holds {len(self.queues[lacking.name])}"
        )

    def _is_enabled(self, actor: Actor, firing: int) -> bool:
        phase = firing % actor.phases
        return all(
            len(self.queues[channel.name]) >= channel.consumption[phase]
            for channel in self.inputs[actor.name]
        )

    def _fire(self, actor: Actor, phase: int) -> None:
        start = dict(self.latest.get(actor.name, {}))
        for channel in self.inputs[actor.name]:
            queue = self.queues[channel.name]
            for _ in range(channel.consumption[phase]):
                for old, time in queue.popleft().items():
                    if time > start.get(old, -1):
                        start[old] = time
        if actor.name in self.latest:
            self.latest[actor.name] = start
        duration = actor.durations[phase] * self.time
        end = {old: time + duration for old, time in start.items()}
        for channel in self.outputs[actor.name]:
            self.queues[channel.name].extend([end] * channel.production[phase])


def _names(
    channel: Channel, given: Mapping[str, tuple[str, ...]], count: int | None = None
) -> tuple[str, ...]:
    """Return the names of the tokens on a channel, its own where none are given."""
    if channel.name in given:
        return given[channel.name]
    tokens = channel.initial_tokens if count is None else count
    return tuple(f"{channel.name}[{place}]" for place in range(tokens))

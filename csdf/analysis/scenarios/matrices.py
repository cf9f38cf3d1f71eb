"""The max-plus matrix of a scenario: when each token is there, as a function of the tokens before."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from csdf.analysis.bounded import bound_channels
from csdf.analysis.concurrency import is_single_firing_loop
from csdf.analysis.consistency import repetition_vector
from csdf.errors import CsdfError, InvalidGraph, counted
from csdf.model.graph import Channel, Graph
from csdf.model.indexed import indexed
from csdf.model.scenarios import Scenario
from csdf.model.untimed import ValuedRun

Stamp = dict[str, int]  # when a token is there: the largest of old token + time over the entries

ORDER = " (order)"  # the name of a hidden token: the start of an actor's latest firing


class StuckScenario(CsdfError):
    """A scenario that cannot finish its iteration."""


class Matrix(NamedTuple):
    """The effect of a scenario on time stamps: new token = max over old tokens of old + time.

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
    """An iteration in which every token carries its time stamp as a function of the old ones."""

    def __init__(self, scenario: Scenario, graph: Graph, time: int) -> None:
        self.scenario = scenario
        self.graph = graph
        self.time = time
        self.numbers = indexed(graph)
        single = {one.consumer for one in graph.channels if is_single_firing_loop(one)}
        # Start of the latest firing of actors whose firings could overtake. Those of equal length, too:
        # their tokens may come out of order, a phase may take none, another scenario may be faster.
        self.latest = {
            number: {f"{actor.name}{ORDER}": 0}
            for number, actor in enumerate(graph.actors)
            if actor.name not in single
        }
        self.optional = frozenset(name for stamp in self.latest.values() for name in stamp)
        self.run: ValuedRun[Stamp] = ValuedRun(
            self.numbers, self._wanted(), map(self._initial_stamps, graph.channels), self._end
        )
        self.taken = self.optional | {
            name for queue in self.run.queues for stamp, _ in queue for name in stamp
        }

    def _initial_stamps(self, channel: Channel) -> list[tuple[Stamp, int]]:
        return [({name: 0} if name else {}, 1) for name in _names(channel, self.scenario.taken)]

    def _wanted(self) -> list[int]:
        """Return the firings of each actor in the scenario."""
        wanted = dict(self.scenario.firings)
        if wanted.keys() != set(self.numbers.actor_names):
            wanted = {**repetition_vector(replace(self.graph, origin=None)), **wanted}
        return [wanted[name] for name in self.numbers.actor_names]

    def matrix(self) -> Matrix:
        self.run.exhaust()
        stuck = self.run.first_unfinished()
        if stuck is not None:
            raise StuckScenario(self._complaint(stuck))
        names_of = self.numbers.actor_names
        rows = {f"{names_of[actor]}{ORDER}": stamp for actor, stamp in self.latest.items()}
        channels = zip(self.graph.channels, self.run.queues, self.run.tokens, strict=True)
        for channel, queue, tokens in channels:
            names = _names(channel, self.scenario.left, tokens)
            if len(names) != tokens:
                raise InvalidGraph(
                    f"scenario {self.scenario.name!r}: it leaves "
                    f"{counted(tokens, 'token')} on channel {channel.name!r}, "
                    f"but {counted(len(names), 'name')} for them"
                )
            stamps = (stamp for stamp, count in queue for _ in range(count))
            rows.update((name, stamp) for name, stamp in zip(names, stamps, strict=True) if name)
        return Matrix(self.taken, rows, self.optional)

    def _complaint(self, actor: int) -> str:
        run = self.run
        channel = run.lacking(actor)
        if channel is None:
            raise AssertionError("a stuck actor lacks a token")
        return (
            f"scenario {self.scenario.name!r} deadlocks: actor {self.numbers.actor_names[actor]!r} "
            f"has fired {run.firings[actor]} of {counted(run.most[actor], 'time')} and waits for "
            f"{counted(run.needed(actor, channel), 'token')} on "
            f"channel {self.numbers.channel_names[channel]!r}, which holds {run.tokens[channel]}"
        )

    def _end(self, actor: int, phase: int, taken: list[Stamp]) -> Stamp:
        """Return when the firing ends that takes tokens of these stamps."""
        start = dict(self.latest.get(actor, {}))
        for stamp in taken:
            for old, time in stamp.items():
                if time > start.get(old, -1):
                    start[old] = time
        if actor in self.latest:
            self.latest[actor] = start
        duration = self.graph.actors[actor].durations[phase] * self.time
        return {old: time + duration for old, time in start.items()}


def _names(
    channel: Channel, given: Mapping[str, tuple[str, ...]], count: int | None = None
) -> tuple[str, ...]:
    """Return the names of the tokens on a channel, its own where none are given."""
    if channel.name in given:
        return given[channel.name]
    tokens = channel.initial_tokens if count is None else count
    return tuple(f"{channel.name}[{place}]" for place in range(tokens))

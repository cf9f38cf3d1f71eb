"""Live capacities by one untimed run: where it deadlocks, the cheapest space on the cycle grows.

Every channel begins with the least capacity that its own two actors can run with. Where no actor can
fire, actors wait for one another in a cycle, some of them for space. The cheapest space on the cycle
that lets its actor fire is added, and the run goes on. When every actor has completed an iteration the
channels are back at their initial tokens; with these capacities from the start all of this can happen
again and again.

Source: Parks, Bounded scheduling of process networks, 1995; Geilen, Basten, Requirements on the
execution of Kahn process networks, ESOP 2003 (space is added on the cycle, and only there).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random

from csdf.analysis.liveness import IterationRun
from csdf.model.graph import Graph
from csdf.search.learned_bounds import InsufficientRegion
from csdf.search.variables import Variable, with_searched_spaces
from csdf.time_limit import Stop

AT_RANDOM = 0.75  # of the spaces that grow, where that is asked for


class SequentialRun:
    """A graph whose capacities are tried out by runs of one iteration.

    graph: with its own capacities as channels, and none for the channels of the variables.
    cycles: of each actor in an iteration. stop: looked at between steps.
    """

    def __init__(
        self,
        graph: Graph,
        variables: Sequence[Variable],
        cycles: Sequence[int],
        stop: Stop,
    ) -> None:
        self._variables = variables
        self._cycles = list(cycles)
        self._stop = stop
        self.cuts: list[InsufficientRegion] = []
        self.moments: dict[tuple[int, int], int] = {}
        self._first = len(graph.channels)
        self.owners = [index for index, variable in enumerate(variables) for _ in variable.channels]
        bounded = [channel for variable in variables for channel in variable.channels]
        self.occupied = [channel.initial_tokens for channel in bounded]
        self.graph = with_searched_spaces(graph, bounded)
        self._spaces: list[list[int]] = [[] for _ in variables]
        for space, index in enumerate(self.owners):
            self._spaces[index].append(self._first + space)

    def grown(self, start: Sequence[int], random: Random | None = None) -> tuple[int, ...] | None:
        """Return live capacities, each at least its start; None where more space does not help.

        random: chooses, most often, which of the spaces grows; without it the cheapest does.
        Regions without any live distribution that the search passes are added to `cuts`.
        """
        capacities = list(start)
        run = self._begun(capacities)
        walk = _WaitingChain(run)
        self.moments = {}
        ready: Sequence[int] | None = None
        while not run.completes(ready):
            self._stop.look()
            cycle = walk.cycle()
            ways_out = self._ways_out(run, cycle)
            if not ways_out:
                return None
            # With one step less than each way out the cycle stays closed.
            limits = {
                index: capacities[index] + added - self._variables[index].step
                for index, added in ways_out.items()
            }
            self.cuts.append(InsufficientRegion(limits))
            # Parks grows the smallest full buffer; here the space with the least cost in the unit
            # of the search grows, by the minimum that lets its actor fire.
            index = min(
                ways_out, key=lambda variable: ways_out[variable] * self._variables[variable].weight
            )
            if random is not None and random.random() < AT_RANDOM:
                index = random.choice(list(ways_out))
            self._note(run, cycle, ways_out[index] * self._variables[index].weight)
            capacities[index] += ways_out[index]
            spaces = self._spaces[index]
            for space in spaces:
                run.tokens[space] += ways_out[index]
            ready = [self.graph.consumer[space] for space in spaces]  # may be able to fire by it
            walk.turn(next(name for name in cycle if name in spaces))
            walk.go_back(ready)
        return tuple(capacities)

    def is_live(self, capacities: Sequence[int]) -> bool:
        """Return whether all actors complete an iteration in these capacities."""
        return self._begun(capacities).completes()

    def _note(self, run: IterationRun, cycle: Sequence[int], cost: int) -> None:
        """Add the cost of space to the moments at which an actor keeps it, and lacks tokens."""
        for before, channel in zip([cycle[-1], *cycle], cycle, strict=False):
            if channel < self._first <= before:
                actor = self.graph.consumer[channel]
                moment = actor, run.firings[actor]
                self.moments[moment] = self.moments.get(moment, 0) + cost

    def _begun(self, capacities: Sequence[int]) -> IterationRun:
        run = IterationRun(self.graph, self._cycles, self._stop)
        for space, index in enumerate(self.owners):
            run.tokens[self._first + space] = capacities[index] - self.occupied[space]
        return run

    def _ways_out(self, run: IterationRun, cycle: Sequence[int]) -> dict[int, int]:
        """Variables whose space is lacking on a cycle, and how much more lets it end.

        With less of each of them the cycle stays closed, however much the others have.
        """
        ways: dict[int, int] = {}
        for channel in cycle:
            if channel >= self._first:
                index = self.owners[channel - self._first]
                step = self._variables[index].step
                missing = run.needed(self.graph.consumer[channel], channel) - run.tokens[channel]
                added = -(-missing // step) * step
                ways[index] = min(added, ways.get(index, added))
        return ways


def raised(
    variables: Sequence[Variable], cuts: Sequence[InsufficientRegion]
) -> tuple[Variable, ...]:
    """Return the variables, each at least what the cuts that name it alone demand."""
    lower = [variable.least for variable in variables]
    for cut in cuts:
        if len(cut.limits) == 1:
            ((index, limit),) = cut.limits.items()
            lower[index] = max(lower[index], limit + variables[index].step)
    return tuple(
        variable if variable.least == minimum else replace(variable, least=minimum)
        for variable, minimum in zip(variables, lower, strict=True)
    )


class _WaitingChain:
    """The chain of actors that wait for one another, from a stuck actor to the end or to a cycle.

    When actors have fired, the chain is kept up to the first of them, and followed again from there.
    """

    def __init__(self, run: IterationRun) -> None:
        self._run = run
        self._actors: list[int] = []
        self._lacking: list[int] = []  # channel on which each waits for the next
        self._place = [-1] * len(run.firings)

    def cycle(self) -> list[int]:
        """Return the channels of a cycle of actors that wait for one another; then `turn` it."""
        run = self._run
        self.go_back(run.fired)
        run.fired.clear()
        actor = run.graph.producer[self._lacking[-1]] if self._lacking else run.first_unfinished()
        while actor is not None and self._place[actor] < 0:
            channel = run.lacking(actor)
            if channel is None:
                raise AssertionError("a stuck actor lacks a token")
            self._place[actor] = len(self._actors)
            self._actors.append(actor)
            self._lacking.append(channel)
            actor = run.graph.producer[channel]
        if actor is None:
            raise AssertionError("who is stuck has firings left")
        begin = self._place[actor]
        for passed in self._actors[:begin]:
            self._place[passed] = -1
        del self._actors[:begin], self._lacking[:begin]
        return list(self._lacking)

    def turn(self, channel: int) -> None:
        """Let the cycle end with the actor that lacks this channel: it is the first to fire."""
        end = self._lacking.index(channel) + 1
        self._actors = self._actors[end:] + self._actors[:end]
        self._lacking = self._lacking[end:] + self._lacking[:end]
        for index, actor in enumerate(self._actors):
            self._place[actor] = index

    def go_back(self, changed: Sequence[int]) -> None:
        """Forget the walk from the actor on that waited for the first of these."""
        indices = [self._place[actor] for actor in changed if self._place[actor] >= 0]
        # The actor before the first changed actor may be able to fire now; earlier actors still
        # wait for the same channels.
        keep = max(0, min(indices, default=len(self._actors)) - 1)
        for actor in self._actors[keep:]:
            self._place[actor] = -1
        del self._actors[keep:], self._lacking[keep:]

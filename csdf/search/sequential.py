"""Live capacities by one untimed simulation: at each deadlock, the cheapest space on the cycle grows.

Every channel begins with the minimum capacity that its own two actors need. In a deadlock, actors wait
for each other in a cycle, and at least one of them waits for space. The cheapest space there that
lets its actor fire is added, and the simulation continues. When every actor has completed an iteration,
the channels hold their initial tokens again. So the graph with these capacities runs forever.

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

AT_RANDOM = 0.75  # probability of a random choice instead of the cheapest space, with `random`


class SequentialRun:
    """Simulations of one iteration of a graph with chosen capacities.

    graph: with its fixed capacities as channels, and no capacities on the channels of the variables.
    cycles: phase cycles of each actor in an iteration. stop: looked at between steps. cuts: regions
    without live capacities, from all simulations. moments: from the last simulation, the cost of the
    space added, by the actor and the number of its firings at a deadlock.
    """

    def __init__(
        self, graph: Graph, variables: Sequence[Variable], cycles: Sequence[int], stop: Stop
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
        """Return live capacities, each at least its start; None if a deadlock needs no space.

        random: chooses, with the probability AT_RANDOM, the space that grows, instead of the cheapest.
        Changes `cuts` and `moments`.
        """
        capacities = list(start)
        run = self._begun(capacities)
        walk = _WaitingChain(run)
        self.moments = {}
        ready: Sequence[int] | None = None
        while not run.completes(ready):
            self._stop.look()
            cycle = walk.cycle()
            shortages = self._shortages(run, cycle)
            if not shortages:
                return None
            # With one step less in each of these spaces the actors on the cycle remain blocked.
            limits = {
                index: capacities[index] + added - self._variables[index].step
                for index, added in shortages.items()
            }
            self.cuts.append(InsufficientRegion(limits))
            # Parks grows the smallest full buffer; here the space with the least cost in the unit
            # of the search grows, by the minimum that lets its actor fire.
            index = min(
                shortages,
                key=lambda variable: shortages[variable] * self._variables[variable].weight,
            )
            if random is not None and random.random() < AT_RANDOM:
                index = random.choice(list(shortages))
            self._note(run, cycle, shortages[index] * self._variables[index].weight)
            capacities[index] += shortages[index]
            spaces = self._spaces[index]
            for space in spaces:
                run.tokens[space] += shortages[index]
            ready = [self.graph.consumer[space] for space in spaces]
            walk.turn(next(name for name in cycle if name in spaces))
            walk.go_back(ready)
        return tuple(capacities)

    def is_live(self, capacities: Sequence[int]) -> bool:
        """Return whether all actors complete an iteration with these capacities."""
        return self._begun(capacities).completes()

    def _note(self, run: IterationRun, cycle: Sequence[int], cost: int) -> None:
        """Add the cost of space to the moments of actors that lack tokens and occupy such space."""
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

    def _shortages(self, run: IterationRun, cycle: Sequence[int]) -> dict[int, int]:
        """Return the variables whose space is lacking on a cycle, and the capacity that each lacks.

        The deadlock remains unless one of them gets that much more.
        """
        shortages: dict[int, int] = {}
        for channel in cycle:
            if channel >= self._first:
                index = self.owners[channel - self._first]
                step = self._variables[index].step
                missing = run.needed(self.graph.consumer[channel], channel) - run.tokens[channel]
                added = -(-missing // step) * step
                shortages[index] = min(added, shortages.get(index, added))
        return shortages


def raised(
    variables: Sequence[Variable], cuts: Sequence[InsufficientRegion]
) -> tuple[Variable, ...]:
    """Return the variables with minimum capacities raised by the cuts of a single variable."""
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
    """A chain of blocked actors, each waiting for the next, which ends in a cycle.

    When actors have fired, the chain is retained up to the first of them and extended from there.
    """

    def __init__(self, run: IterationRun) -> None:
        self._run = run
        self._actors: list[int] = []
        self._lacking: list[int] = []  # channel on which each actor waits for the next
        self._place = [-1] * len(run.firings)  # position of each actor in the chain, or -1

    def cycle(self) -> list[int]:
        """Return the channels of a cycle of blocked actors; call `turn` before the next call."""
        run = self._run
        self.go_back(run.fired)
        run.fired.clear()
        actor = run.graph.producer[self._lacking[-1]] if self._lacking else run.first_unfinished()
        while actor is not None and self._place[actor] < 0:
            channel = run.lacking(actor)
            if channel is None:
                raise AssertionError("a blocked actor lacks a token")
            self._place[actor] = len(self._actors)
            self._actors.append(actor)
            self._lacking.append(channel)
            actor = run.graph.producer[channel]
        if actor is None:
            raise AssertionError("a blocked actor has firings left")
        begin = self._place[actor]
        for passed in self._actors[:begin]:
            self._place[passed] = -1
        del self._actors[:begin], self._lacking[:begin]
        return list(self._lacking)

    def turn(self, channel: int) -> None:
        """Rotate the cycle to end with the actor that lacks this channel, which fires first."""
        end = self._lacking.index(channel) + 1
        self._actors = self._actors[end:] + self._actors[:end]
        self._lacking = self._lacking[end:] + self._lacking[:end]
        for index, actor in enumerate(self._actors):
            self._place[actor] = index

    def go_back(self, changed: Sequence[int]) -> None:
        """Drop the chain from the actor that waited for the first of these actors."""
        indices = [self._place[actor] for actor in changed if self._place[actor] >= 0]
        # The actor before the first changed actor may be able to fire now; earlier actors still
        # wait for the same channels.
        keep = max(0, min(indices, default=len(self._actors)) - 1)
        for actor in self._actors[keep:]:
            self._place[actor] = -1
        del self._actors[keep:], self._lacking[keep:]

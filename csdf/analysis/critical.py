"""Critical cycles: by the names of a graph, and walked backwards in an execution (Brent's method)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate
from types import SimpleNamespace

from csdf.analysis.components import Component
from csdf.analysis.execution import SteadyState
from csdf.analysis.periodic import Circuit
from csdf.kernels import causes as kernel
from csdf.kernels import compile as compiler
from csdf.kernels import ranges
from csdf.model.graph import SpaceName
from csdf.model.indexed import IndexedGraph
from csdf.model.shown import Shown


@dataclass(frozen=True, slots=True, kw_only=True)
class CriticalCycle(Shown):
    """A cycle of firings that no schedule can pass faster: the proof of a period.

    actors, channels: on the cycle, in its order, each named once. time: of the firings of the cycle;
    tokens: the iterations that it spans. The period is time / tokens.
    """

    actors: tuple[str, ...]
    channels: tuple[str, ...]
    time: Fraction
    tokens: int

    @property
    def capacities(self) -> tuple[str, ...]:
        """The channels of the graph whose capacity limits, those with reverse channels in the cycle."""
        return tuple(name.channel for name in self.channels if isinstance(name, SpaceName))


def named_cycle(
    graph: IndexedGraph, component: Component, circuit: Circuit, time: Fraction
) -> CriticalCycle:
    """Return a circuit of the component by the names of the graph; time: of its firings."""
    # `repeats` iterations of the component are an iteration of the graph. The circuit is repeated
    # until it spans whole iterations: by the denominator of `tokens`.
    tokens = circuit.height / component.repeats
    names = graph.actor_names, graph.channel_names
    actors = dict.fromkeys(names[0][component.actors[actor]] for actor in circuit.actors)
    channels = dict.fromkeys(
        names[1][component.channels[channel]] for channel in circuit.channels if channel >= 0
    )
    return CriticalCycle(
        actors=tuple(actors),
        channels=tuple(channels),
        time=time * tokens.denominator,
        tokens=tokens.numerator,
    )


def critical_circuit(graph: IndexedGraph, state: SteadyState) -> Circuit:
    """Return a cycle of firings in which each firing starts at the end of its predecessor.

    graph: the executed graph. Such a cycle exists, since every start has a cause: the walk from a
    firing to its cause, backwards in time, ends in a cycle. Brent's cycle detection gives its length,
    and two walkers at that distance meet at its begin. The time of the cycle over its iterations is the
    period. Actors and channels are named once each. O(firings in the steady state).
    """
    recorded = state.causes
    largest = ranges.largest_in_causes(
        graph, recorded.firings, time=state.time, begin=max(recorded.record, default=0)
    )
    backend = compiler.backend(fits=largest <= compiler.INT64_SUM_LIMIT)
    channels = range(len(graph.producer))
    columns = graph._asdict() | recorded._asdict()  # see `kernel.SteadyPart`
    columns |= {
        "time": state.time,
        "causes": backend.view(recorded.causes),
        "record": backend.view(recorded.record),
        "made_start": graph.production_start,
        "made": [total for c in channels for total in accumulate(graph.productions(c))],
        "taken_start": graph.consumption_start,
        "taken": [total for c in channels for total in accumulate(graph.consumptions(c))],
    }
    part = backend.kernel(kernel.SteadyPart)(SimpleNamespace(**columns), backend.array)
    begin = int(recorded.record[0]) if recorded.record_start[0] >= 0 else 0
    walker = backend.kernel(kernel.Walker)
    length = backend.kernel(kernel.cycle_length)(part, walker(0, 0, begin), walker(0, 0, begin))
    first, second = walker(0, 0, begin), walker(0, 0, begin)
    actor_step, channel_step = (backend.blank(len(node)) for node in (graph.phases, graph.producer))
    backend.kernel(kernel.go_round)(part, first, second, length, actor_step, channel_step)
    return Circuit(
        actors=_visited(actor_step),
        channels=_visited(channel_step),
        time=first.passed,
        height=Fraction(-first.rounds * state.iterations),
    )


def _visited(steps: Sequence[int]) -> tuple[int, ...]:
    """Return the visited nodes in the order of time. steps: of a walk backwards; 0: not visited."""
    visited = [node for node, step in enumerate(steps) if step]
    return tuple(sorted(visited, key=lambda node: -steps[node]))

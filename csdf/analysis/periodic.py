"""The K-periodic method: the period of a strongly connected graph by maximum cycle ratio.

A schedule that starts `copies` cycles of each actor freely and then repeats them has a smallest
period, an upper bound on the period of the graph, and a critical cycle that sets it. Where that
cycle's actors already have as many copies as the cycle alone would need, the bound is exact; if
not, they get them, and the search goes on. What is not critical is never expanded.

Source: Bodin, Munier-Kordon, Dupont de Dinechin, Optimal and fast throughput evaluation of CSDF,
DAC 2016, sections 3 and 4.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate
from math import gcd, lcm
from typing import Any, NamedTuple

from csdf.analysis.constraint_steps import ConstraintSteps
from csdf.errors import GaveUp
from csdf.kernels import compile as compiler
from csdf.kernels import periodic
from csdf.model.indexed import IndexedGraph, is_ordered


@dataclass(frozen=True, slots=True, kw_only=True)
class Circuit:
    """A cycle of phases in the constraints of a periodic schedule.

    actors: of each firing on it; channels: from each firing to the next, -1 where it is the order
    of the actor's own firings. time: time units; height: iterations.
    """

    actors: tuple[int, ...]
    channels: tuple[int, ...]
    time: int
    height: Fraction


@dataclass(frozen=True, slots=True, kw_only=True)
class PeriodicSolution:
    """The smallest period of a schedule with the given copies, or None where there is no schedule.

    starts: scaled start times of each phase of each copy, actor by actor: divide by `scale`.
    others: the actors of further cycles that stand in the way, unless it is exact.
    is_exact: whether its period, or its lack of one, is that of the graph.
    """

    copies: tuple[int, ...]
    period: Fraction | None
    circuit: Circuit
    starts: Any
    scale: int
    others: tuple[tuple[int, ...], ...]
    is_exact: bool
    work: int  # edges looked at


class _Layout(NamedTuple):
    """Arguments of the kernels that depend on the copies, not on the tokens."""

    nodes: int
    before_tokens: tuple[Any, ...]
    after_tokens: tuple[Any, ...]
    times: Any
    owner: Any  # of each node, its actor
    room: list[int]  # edges that the latest expansion needed, one entry


class PeriodicProblem:
    """The constraints of one graph, ready to be expanded for any number of copies.

    graph: strongly connected, without capacities. cycles: of each actor in one iteration.
    """

    def __init__(self, graph: IndexedGraph, cycles: Sequence[int]) -> None:
        self.graph = graph
        self.cycles = list(cycles)
        self.scale = lcm(*cycles)
        channels = range(len(graph.producer))
        self._produced = [graph.produced(channel) for channel in channels]
        self._consumed = [graph.consumed(channel) for channel in channels]
        ordered = [is_ordered(graph, actor) for actor in range(len(graph.phases))]
        self._is_ordered = [int(ordered[actor]) for actor in graph.producer]
        self._before = _running_sums(graph.production_start, graph.production, inclusive=False)
        self._upto = _running_sums(graph.consumption_start, graph.consumption, inclusive=True)
        self._latest: tuple[tuple[object, ...], _Layout] | None = None
        self._step = ConstraintSteps(graph, self._produced, self._consumed, self.scale, self.cycles)
        self._columns: tuple[compiler.Backend, Any, tuple[Any, ...], Any] | None = None

    def solve(
        self,
        copies: Sequence[int],
        low: Fraction = Fraction(0),
        *,
        tokens: Sequence[int] | None = None,
        unit_times: bool = False,
    ) -> PeriodicSolution:
        """Return the smallest period with so many copies of each actor.

        low: a proven lower bound of the period; cycles above it are reported as `others`.
        tokens: initial tokens of each channel, instead of the graph's own.
        unit_times: every firing lasts one unit, whatever the graph says.
        Raises GaveUp for numbers that nothing holds.
        """
        tokens = self.graph.initial_tokens if tokens is None else tokens
        for backend in dict.fromkeys((compiler.backend(fits=True), compiler.PLAIN)):
            try:
                solution = self._solve(copies, low, tokens, backend, unit_times=unit_times)
            except OverflowError:  # a number does not even fit into the arrays
                solution = None
            if solution is not None:
                return solution
        raise GaveUp(f"sums of more than {compiler.UNBOUNDED.bit_length()} bits")

    def _solve(
        self,
        copies: Sequence[int],
        low: Fraction,
        tokens: Sequence[int],
        backend: compiler.Backend,
        *,
        unit_times: bool,
    ) -> PeriodicSolution | None:
        """Solve on one backend; None where its numbers do not hold the sums."""
        if max(self.scale, int(low)) > backend.limit:
            return None
        layout = self._layout(copies, backend, unit_times=unit_times)
        edge_start, source, height, channel = self._edges(layout, tokens, backend)
        nodes = len(edge_start) - 1
        policy, value, cycle, order, mark = (backend.blank(nodes) for _ in range(5))
        others = backend.blank(2 * nodes)
        answer = backend.blank(5)
        status = backend.kernel(periodic.maximum_cycle_ratio)(
            edge_start, source, height, layout.times, int(low), self.scale, backend.limit,
            policy, value, cycle, others, order, mark, answer,
        )  # fmt: skip
        if status == periodic.OVERFLOW:
            return None
        edges = cycle[: answer[2]]
        circuit = Circuit(
            # Edges come from consumer to producer; in the order of time they read backwards.
            actors=tuple(reversed(backend.take(layout.owner, backend.take(source, edges)))),
            channels=tuple(reversed(backend.take(channel, edges))),
            time=int(answer[0]),
            height=Fraction(int(answer[1]), self.scale),
        )
        exact = self._is_exact(copies, circuit)
        feasible = status == periodic.OPTIMAL
        period = Fraction(circuit.time) / circuit.height if feasible else None
        return PeriodicSolution(
            copies=tuple(copies),
            period=period,
            circuit=circuit,
            starts=value,
            scale=(period / self.scale).denominator if period is not None else 1,
            others=()
            if exact
            else _separated(backend.take(others, range(answer[3])), source, layout.owner),
            is_exact=exact,
            work=len(source) + int(answer[4]),
        )

    def _edges(
        self, layout: _Layout, tokens: Sequence[int], backend: compiler.Backend
    ) -> tuple[Any, Any, Any, Any]:
        """Where each node's edges begin, and their sources, heights and channels."""
        expand = backend.kernel(periodic.expand)
        edge_start = backend.blank(layout.nodes + 1)
        arguments = (*layout.before_tokens, backend.array(tokens), *layout.after_tokens)
        room = layout.room[0]
        while True:
            source, height, channel = (backend.blank(room) for _ in range(3))
            edges = expand(*arguments, edge_start, source, height, channel)
            if edges <= room:
                return edge_start, source[:edges], height[:edges], channel[:edges]
            room = layout.room[0] = edges

    def _layout(
        self, copies: Sequence[int], backend: compiler.Backend, *, unit_times: bool
    ) -> _Layout:
        """What does not depend on tokens; that of the latest copies is kept."""
        key = (tuple(copies), backend, unit_times)
        if self._latest is None or self._latest[0] != key:
            self._latest = (key, self._new_layout(copies, backend, unit_times=unit_times))
        return self._latest[1]

    def _new_layout(
        self, copies: Sequence[int], backend: compiler.Backend, *, unit_times: bool
    ) -> _Layout:
        sizes = list(map(int.__mul__, copies, self.graph.phases))
        starts = [0, *accumulate(sizes)]
        self._step.adapt(copies)
        wrap = [self.scale * k // r for k, r in zip(copies, self.cycles, strict=True)]
        phases, rates, is_ordered = self._fixed(backend)
        return _Layout(
            nodes=starts[-1],
            before_tokens=(
                backend.array(starts[:-1]), phases, backend.array(copies), backend.array(wrap),
                *rates,
            ),
            after_tokens=(
                backend.array(self._step.tokens), backend.array(self._step.height), is_ordered,
            ),
            times=backend.array(self._times(copies, unit_times=unit_times)),
            owner=backend.array([a for a, size in enumerate(sizes) for _ in range(size)]),
            room=[2 * starts[-1] + len(self.graph.producer)],
        )  # fmt: skip

    def _fixed(self, backend: compiler.Backend) -> tuple[Any, tuple[Any, ...], Any]:
        """What no copies change, as this backend wants it: phases, rates, who fires in order."""
        if self._columns is None or self._columns[0] is not backend:
            graph = self.graph
            rates = (
                graph.input_start, graph.input_channel, graph.producer,
                self._produced, self._before, graph.production_start,
                self._consumed, self._upto, graph.consumption_start,
            )  # fmt: skip
            self._columns = (
                backend,
                backend.array(graph.phases),
                tuple(backend.array(column) for column in rates),
                backend.array(self._is_ordered),
            )
        return self._columns[1:]

    def _times(self, copies: Sequence[int], *, unit_times: bool) -> list[int]:
        graph = self.graph
        if unit_times:
            return [1] * sum(k * p for k, p in zip(copies, graph.phases, strict=True))
        times: list[int] = []
        for actor, start in enumerate(graph.duration_start):
            times += graph.duration[start : start + graph.phases[actor]] * copies[actor]
        return times

    def nodes(self, copies: Sequence[int]) -> int:
        """Return the size of the schedule: phases of all copies."""
        return sum(map(int.__mul__, copies, self.graph.phases))

    def needed_copies(self, actors: Sequence[int]) -> dict[int, int]:
        """Copies with which a cycle through these actors is exact."""
        distinct = set(actors)
        shared = gcd(*(self.cycles[actor] for actor in distinct))
        return {actor: self.cycles[actor] // shared for actor in distinct}

    def _is_exact(self, copies: Sequence[int], circuit: Circuit) -> bool:
        """Whether the critical cycle limits the graph itself, not only schedules of this kind."""
        needed = self.needed_copies(circuit.actors)
        return all(copies[actor] % count == 0 for actor, count in needed.items())

    def refined(self, solution: PeriodicSolution) -> list[int]:
        """Return more copies: as many as the critical cycle, and the others met, need."""
        copies = list(solution.copies)
        for actors in (solution.circuit.actors, *solution.others):
            for actor, count in self.needed_copies(actors).items():
                copies[actor] = lcm(copies[actor], count)
        return copies


def _running_sums(starts: Sequence[int], rates: Sequence[int], *, inclusive: bool) -> list[int]:
    """Sums of the rates since the start of each channel's cycle, with or without the entry itself."""
    sums = [0] * len(rates)
    ends = [*starts, len(rates)][1:]
    for start, end in zip(starts, ends, strict=True):
        total = 0
        for at in range(start, end):
            sums[at] = total
            total += rates[at]
            if inclusive:
                sums[at] = total
    return sums


def _separated(edges: list[int], source: Any, owner: Any) -> tuple[tuple[int, ...], ...]:
    """The distinct sets of actors on cycles whose edges are listed one after the other."""
    found: dict[frozenset[int], None] = {}
    actors: set[int] = set()
    for edge in edges:
        if edge >= 0:
            actors.add(int(owner[source[edge]]))
        else:
            found[frozenset(actors)] = None
            actors = set()
    return tuple(tuple(sorted(group)) for group in found)

"""Period of a strongly connected graph by K-periodic schedules: maximum cycle ratio, refined.

A K-periodic schedule chooses the start times of K phase cycles of each actor, its copies, and repeats
them. The smallest period of such schedules is the maximum cycle ratio of a constraint graph whose
nodes are the phases of all copies. It is an upper bound on the period of the graph, and its critical
cycle proves it. If the actors on this cycle have as many copies as the cycle alone needs, the bound is
exact; otherwise they get more copies, and the search continues. Actors that are not critical keep one.

Source: Bodin, Munier-Kordon, Dupont de Dinechin, Optimal and fast throughput evaluation of CSDF,
DAC 2016, sections 3 and 4.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate
from math import gcd, lcm
from types import SimpleNamespace
from typing import Any, NamedTuple

from csdf.errors import GaveUp
from csdf.kernels import compile as compiler
from csdf.kernels import periodic, ranges
from csdf.model.indexed import IndexedGraph, is_ordered
from csdf.status import Why, because
from csdf.time_limit import Budget, Stop, stop_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Circuit:
    """A cycle of phases in the constraints of a periodic schedule.

    actors: of each firing on it; channels: from each firing to the next, -1 where it is the order
    of the actor's own firings, which takes no time. phases: of each firing, where they are known.
    time: time units; height: iterations.
    """

    actors: tuple[int, ...]
    channels: tuple[int, ...]
    time: int
    height: Fraction
    phases: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PeriodicSolution:
    """The smallest period of a schedule with these copies, or None without a schedule.

    circuit: the critical cycle, or a cycle that no schedule allows. starts: scaled start times of each
    phase of each copy, actor by actor: divide by `scale`. separated: unless the solution is exact, the
    actors of further cycles above the lower bound; circuits: these cycles, if requested. is_exact:
    whether the period, or its absence, is that of the graph.
    """

    copies: tuple[int, ...]
    period: Fraction | None
    circuit: Circuit
    starts: Any
    scale: int
    separated: tuple[tuple[int, ...], ...]
    is_exact: bool
    work: int  # edges looked at
    # The policy: the constraint that decides each start, (nodes,); a further search may begin there.
    choice: Any
    circuits: tuple[Circuit, ...] = ()


class PeriodicProblem:
    """The constraints of one graph, expanded for any number of copies.

    Arrays that depend on the copies alone are cached for the latest copies; constraints are expanded
    from them for any tokens. graph: strongly connected, without capacities. cycles: of each actor in
    one iteration. has_one_timing: False if the problem is solved with other durations too.
    """

    def __init__(
        self, graph: IndexedGraph, cycles: Sequence[int], *, has_one_timing: bool = True
    ) -> None:
        self.graph = graph
        self.cycles = list(cycles)
        self.scale = lcm(*cycles)
        channels = range(len(graph.producer))
        self._produced = [graph.produced(channel) for channel in channels]
        self._consumed = [graph.consumed(channel) for channel in channels]
        ordered = [
            is_ordered(graph, actor, has_one_timing=has_one_timing)
            for actor in range(len(graph.phases))
        ]
        self._is_ordered = [int(ordered[actor]) for actor in graph.producer]
        upto = [list(accumulate(graph.productions(channel), initial=0)) for channel in channels]
        self._before = [made for sums in upto for made in sums[:-1]]
        self._upto = [total for c in channels for total in accumulate(graph.consumptions(c))]
        self._latest: tuple[tuple[object, ...], NodeArrays] | None = None
        self._step = _ConstraintSteps(
            graph, self._produced, self._consumed, self.scale, self.cycles
        )

    def solve(
        self,
        copies: Sequence[int],
        low: Fraction = Fraction(0),
        *,
        tokens: Sequence[int] | None = None,
        durations: Sequence[int] | None = None,
        unit_times: bool = False,
        nearby: PeriodicSolution | None = None,
        with_circuits: bool = False,
        budget: Budget = None,
    ) -> PeriodicSolution:
        """Return the smallest period with this many copies of each actor.

        low: a lower bound of the period; cycles above it are reported as `separated`, and as `circuits`
        with_circuits.
        tokens: initial tokens of each channel, durations: of each phase, actor by actor; instead of
        the graph's own.
        unit_times: every firing lasts one unit.
        nearby: a solution with as many copies, for other tokens or durations, at which the search
        begins: the period is the same, and computed faster if little has changed.
        budget: a stop, or seconds. Raises GaveUp with it, and for numbers of too many bits.
        """
        tokens = self.graph.initial_tokens if tokens is None else tokens
        times = () if unit_times else durations or self.graph.duration
        largest = max((self.scale, int(low), *times))
        if nearby is not None:
            unbounded = nearby.starts if isinstance(nearby.starts, list) else ()
            largest = max(largest, nearby.scale, max(unbounded, default=0))
        fits = largest <= compiler.INT64_SUM_LIMIT and self._fits(copies, tokens)
        stop = stop_of(budget)
        # int64 first; if a sum overflows, the search is repeated with Python integers.
        for backend in dict.fromkeys((compiler.backend(fits=fits), compiler.PLAIN)):
            has_others = durations is not None  # the graph's own may be too large for the backend
            layout = self._layout(copies, backend, unit_times=unit_times or has_others)
            if durations is not None:
                durations_of_nodes = backend.array(self._times(copies, durations))
                layout = layout._replace(times=durations_of_nodes)
            solution = self._solve(
                copies, low, tokens, backend, layout, nearby, stop, with_circuits=with_circuits
            )
            if solution is not None:
                return solution
        raise GaveUp(f"sums of more than {compiler.UNBOUNDED.bit_length()} bits")

    def _solve(
        self,
        copies: Sequence[int],
        low: Fraction,
        tokens: Sequence[int],
        backend: compiler.Backend,
        layout: NodeArrays,
        nearby: PeriodicSolution | None,
        stop: Stop,
        *,
        with_circuits: bool,
    ) -> PeriodicSolution | None:
        """Solve on one backend; None where its numbers do not hold the sums."""
        edges = self._edges(layout, tokens, backend, stop)
        cycle = backend.blank(layout.nodes)
        spare = backend.blank(2 * layout.nodes)
        value, choice = backend.blank(layout.nodes), backend.blank(layout.nodes)
        unit = 0
        if nearby is not None:
            value, choice = backend.array(nearby.starts), backend.array(nearby.choice)
            unit = nearby.scale
        elif not backend.is_compiled and layout.nodes >= MANY_NODES:
            rounded = _rounded_choice(edges, layout.times, stop)
            if rounded is not None:
                choice, unit = rounded, 1
        policy = backend.kernel(periodic.Policy)(value, cycle, spare, choice, backend.blank)
        policy.begin_with(unit)
        policy.within(int(low), self.scale, backend.limit)
        status = _run(policy, edges, layout.times, backend, stop)
        if status == periodic.OVERFLOW:
            return None
        # Edges lead from consumer to producer; reversed they follow time.
        critical = [int(edge) for edge in cycle[: policy.length]][::-1]
        circuit = self._circuit_of(critical, layout, edges, backend)
        exact = self.is_exact(copies, circuit)
        reported = backend.take(spare, range(policy.reported))
        feasible = status == periodic.OPTIMAL
        period = Fraction(circuit.time) / circuit.height if feasible else None
        return PeriodicSolution(
            copies=tuple(copies),
            period=period,
            circuit=circuit,
            starts=value,
            scale=(period / self.scale).denominator if period is not None else 1,
            separated=() if exact else _separated(reported, edges.source, layout.owner),
            is_exact=exact,
            work=edges.number + policy.work,
            choice=choice,
            circuits=tuple(
                self._circuit_of(listed[::-1], layout, edges, backend)
                for listed in (_split(reported) if with_circuits else ())
            ),
        )

    def _circuit_of(
        self, cycle: Sequence[int], layout: NodeArrays, edges: Any, backend: compiler.Backend
    ) -> Circuit:
        """Return the circuit of these edges, in the order of time."""
        nodes, channels = backend.take(edges.source, cycle), backend.take(edges.channel, cycle)
        times = zip(backend.take(layout.times, nodes), channels, strict=True)
        return self.circuit(
            nodes,
            channels,
            layout.starts,
            backend.take(layout.owner, nodes),
            time=sum(time for time, channel in times if channel >= 0),
            height=sum(backend.take(edges.height, cycle)),
        )

    def circuit(
        self,
        nodes: Sequence[int],
        channels: Sequence[int],
        starts: Sequence[int],
        actors: Sequence[int],
        *,
        time: int,
        height: int,
    ) -> Circuit:
        """Return a cycle of nodes in terms of the graph; its height comes in units of 1 / scale."""
        phases = self.graph.phases
        return Circuit(
            actors=tuple(actors),
            channels=tuple(channels),
            time=time,
            height=Fraction(height, self.scale),
            phases=tuple(
                (node - starts[actor]) % phases[actor]
                for node, actor in zip(nodes, actors, strict=True)
            ),
        )

    def fits(self, copies: Sequence[int]) -> bool:
        """Whether 64 bits hold the constraints with this many copies, and the times."""
        is_short = max(self.graph.duration) <= compiler.INT64_SUM_LIMIT
        return is_short and self._fits(copies, self.graph.initial_tokens)

    def constraints(
        self, copies: Sequence[int], backend: compiler.Backend, stop: Stop
    ) -> tuple[NodeArrays, Any]:
        """Return the constraints with this many copies, on a backend that holds them: see `fits`."""
        layout = self._layout(copies, backend, unit_times=False)
        return layout, self._edges(layout, self.graph.initial_tokens, backend, stop)

    def _fits(self, copies: Sequence[int], tokens: Sequence[int]) -> bool:
        """Whether 64 bits hold the constraints for this many initial tokens, times apart."""
        if self.scale > compiler.INT64_SUM_LIMIT or not all(map(int.__le__, copies, self.cycles)):
            return False
        self._step.adapt(copies)
        maximum = self._step.most_tokens
        return not tokens or -maximum <= min(tokens) <= max(tokens) <= maximum

    def _layout(
        self, copies: Sequence[int], backend: compiler.Backend, *, unit_times: bool
    ) -> NodeArrays:
        """Return the arrays that do not depend on tokens; those of the latest copies are cached."""
        key = (tuple(copies), backend, unit_times)
        if self._latest is not None and self._latest[0] == key:
            return self._latest[1]
        sizes = list(map(int.__mul__, copies, self.graph.phases))
        starts = [0, *accumulate(sizes)]
        self._step.adapt(copies)
        wrap = [self.scale * k // r for k, r in zip(copies, self.cycles, strict=True)]
        graph = self.graph
        columns = SimpleNamespace(  # of `periodic.ConstraintLayout`
            **graph._asdict(),
            node_start=starts[:-1],
            copies=copies,
            wrap_height=wrap,
            produced=self._produced,
            produced_before=self._before,
            consumed=self._consumed,
            consumed_upto=self._upto,
            step=self._step.tokens,
            step_height=self._step.height,
            is_ordered=self._is_ordered,
        )
        layout = NodeArrays(
            nodes=starts[-1],
            columns=backend.kernel(periodic.ConstraintLayout)(columns, backend.array),
            times=backend.array(
                [1] * starts[-1] if unit_times else self._times(copies, graph.duration)
            ),
            owner=backend.array([actor for actor, size in enumerate(sizes) for _ in range(size)]),
            starts=starts[:-1],
            room=[2 * starts[-1] + len(graph.producer)],
        )
        self._latest = key, layout  # only both together, whatever is raised in between
        return layout

    def _times(self, copies: Sequence[int], durations: Sequence[int]) -> list[int]:
        """Return the duration of each phase of each copy; durations: of each phase."""
        times: list[int] = []
        for actor, start in enumerate(self.graph.duration_start):
            phases = self.graph.phases[actor]
            times += list(durations[start : start + phases]) * copies[actor]
        return times

    def _edges(
        self, layout: NodeArrays, tokens: Sequence[int], backend: compiler.Backend, stop: Stop
    ) -> Any:
        """Return the constraints for this many initial tokens, as `periodic.Edges`. Raises GaveUp."""
        expand, make = backend.kernel(periodic.expand), backend.kernel(periodic.Edges)
        start, initial_tokens = backend.blank(layout.nodes + 1), backend.array(tokens)
        while True:
            edges = make(start, *(backend.blank(layout.room[0]) for _ in range(3)))
            while not expand(layout.columns, initial_tokens, edges, backend.fuel):
                stop.look()
            # The room is an estimate; if it is too small, the kernel counts the edges, and the second
            # expansion fits.
            if edges.number <= layout.room[0]:
                return edges
            layout.room[0] = edges.number

    def nodes(self, copies: Sequence[int]) -> int:
        """Return the size of the schedule: phases of all copies."""
        return sum(map(int.__mul__, copies, self.graph.phases))

    def needed_copies(self, actors: Sequence[int]) -> dict[int, int]:
        """Copies with which a cycle through these actors is exact."""
        distinct = set(actors)
        shared = gcd(*(self.cycles[actor] for actor in distinct))
        # A cycle through actors with a common divisor of their cycle
        # counts repeats that often in an iteration.
        return {actor: self.cycles[actor] // shared for actor in distinct}

    def is_exact(self, copies: Sequence[int], circuit: Circuit) -> bool:
        """Whether the critical cycle limits the graph itself, not only schedules of this kind."""
        needed = self.needed_copies(circuit.actors)
        return all(copies[actor] % count == 0 for actor, count in needed.items())

    def with_copies_for(self, copies: Sequence[int], cycles: Iterable[Sequence[int]]) -> list[int]:
        """Return more copies: as many as each cycle needs, given by its actors."""
        more = list(copies)
        for actors in cycles:
            for actor, count in self.needed_copies(actors).items():
                more[actor] = lcm(more[actor], count)
        return more

    def refined(self, solution: PeriodicSolution) -> list[int]:
        """Return more copies: as many as the critical cycle and all other cycles found need."""
        return self.with_copies_for(solution.copies, (solution.circuit.actors, *solution.separated))


def _run(policy: Any, edges: Any, times: Any, backend: compiler.Backend, stop: Stop) -> int:
    """Improve the policy until the kernel ends; return its status. Raises GaveUp."""
    search, status = backend.kernel(periodic.maximum_cycle_ratio), periodic.CHANGED
    while status == periodic.CHANGED:
        stop.look()
        status = search(edges, times, policy, backend.fuel)
    stop.look()
    return status


MANY_NODES = 2_000  # unbounded integers find the policy of fewer within a tenth of a second
LONGEST, LESS = 40, 8  # bits of the first attempt's numbers, and those that each attempt gives up


def _rounded_choice(edges: Any, times: Sequence[int], stop: Stop) -> list[int] | None:
    """Return the best policy for times and heights that are rounded until 64 bits hold all sums.

    Unbounded integers that begin from it end in a few steps instead of tens, and stay exact. None where
    nothing is compiled, and where rounding takes the height from a cycle.
    """
    backend = compiler.backend(fits=True)
    nodes, end, array = len(times), edges.number, backend.array
    start, source, channel = map(array, (edges.start, edges.source[:end], edges.channel[:end]))
    # Fewer bits in each attempt, until no sum overflows; the policy need not be exact, only near.
    for bits in range(LONGEST, LESS, -LESS) if backend.is_compiled else ():
        time, height = (array(_rounded(numbers, bits)) for numbers in (times, edges.height[:end]))
        rounded = backend.kernel(periodic.Edges)(start, source, height, channel)
        value, cycle, choice = (backend.blank(nodes) for _ in range(3))
        policy = backend.kernel(periodic.Policy)(
            value, cycle, backend.blank(1), choice, backend.blank
        )
        policy.within(0, 1, backend.limit)
        status = _run(policy, rounded, time, backend, stop)
        if status != periodic.OVERFLOW:
            return list(choice) if status == periodic.OPTIMAL else None
    return None


def _rounded(numbers: Sequence[int], bits: int) -> list[int]:
    """Return the numbers in a unit in which the largest has this many bits, rounded to the nearest."""
    off = max(0, max(map(abs, numbers)).bit_length() - bits)
    return [(number + (1 << off >> 1)) >> off for number in numbers]


def _separated(edges: list[int], source: Any, owner: Any) -> tuple[tuple[int, ...], ...]:
    """The distinct sets of actors on cycles whose edges are listed in sequence."""
    groups = (frozenset(int(owner[source[edge]]) for edge in cycle) for cycle in _split(edges))
    return tuple(tuple(sorted(group)) for group in dict.fromkeys(groups))


def _split(edges: Sequence[int]) -> Iterator[list[int]]:
    """Yield the distinct cycles of a list in which -1 ends each cycle."""
    begin, seen = 0, set[tuple[int, ...]]()
    for end, edge in enumerate(edges):
        if edge < 0:
            cycle = list(edges[begin:end])
            begin = end + 1
            if (key := tuple(cycle)) not in seen:
                seen.add(key)
                yield cycle


class NodeArrays(NamedTuple):
    """Arrays that depend on the copies, not on the tokens, as the kernels want them."""

    nodes: int
    columns: Any
    times: Any
    owner: Any  # of each node, its actor
    starts: list[int]  # the first node of each actor
    room: list[int]  # edges that the latest expansion needed, one entry


class _ConstraintSteps:
    """The distance between the constraints of each channel, for the latest copies.

    tokens: of each channel, the greatest common divisor of the tokens that the copies of both ends
    move; height: this distance in iterations, times `scale`. most_tokens: the maximum number of initial
    tokens of a channel at which 64 bits hold all constraints, or -1.
    """

    def __init__(
        self,
        graph: IndexedGraph,
        produced: Sequence[int],
        consumed: Sequence[int],
        scale: int,
        cycles: Sequence[int],
    ) -> None:
        self._graph = graph
        self._moved = list(zip(graph.producer, produced, graph.consumer, consumed, strict=True))
        # One iteration moves cycles * produced tokens and is `scale` units high.
        self._unit = [cycles[actor] * count for actor, count, _, _ in self._moved]
        self._scale = scale
        self._copies = [0] * len(cycles)
        self.tokens = [0] * len(self._moved)
        self.height = [0] * len(self._moved)
        self._most_tokens = [0] * len(self._moved)
        self.most_tokens = compiler.INT64_SUM_LIMIT

    def adapt(self, copies: Sequence[int]) -> None:
        """Count again where an end has other copies than before."""
        if self._copies == list(copies):
            return
        pairs = enumerate(zip(copies, self._copies, strict=True))
        changed = [actor for actor, (count, before) in pairs if count != before]
        self._copies = list(copies)
        for channel in self._channels_at(changed):
            producer, produced, consumer, consumed = self._moved[channel]
            produced_tokens = copies[producer] * produced
            consumed_tokens = copies[consumer] * consumed
            step = gcd(produced_tokens, consumed_tokens)
            height = self._scale * step // self._unit[channel]
            self.tokens[channel], self.height[channel] = step, height
            self._most_tokens[channel] = ranges.expandable_tokens(
                produced_tokens, consumed_tokens, step, height
            )
        self.most_tokens = min(self._most_tokens, default=compiler.INT64_SUM_LIMIT)

    def _channels_at(self, actors: Sequence[int]) -> Iterable[int]:
        """The channels that begin or end at one of the actors."""
        graph = self._graph
        if 2 * len(actors) > len(self._copies):
            return range(len(self._moved))
        sides = (
            (graph.input_start, graph.input_channel),
            (graph.output_start, graph.output_channel),
        )
        return {
            channel
            for actor in actors
            for start, listed in sides
            for channel in listed[start[actor] : start[actor + 1]]
        }


LARGEST_SCHEDULE = 10_000_000  # about 6 GB
LARGEST_PLAIN_SCHEDULE = 200_000  # where 64 bits do not hold the heights: some ten seconds


class RoomWhy(Why):
    """Why no periodic schedule is made."""

    TOO_LARGE = "the next periodic schedule has {firings} firings; at most {most}"


def require_room(problem: PeriodicProblem, copies: Sequence[int]) -> None:
    """Raise GaveUp if a schedule with this many copies of each actor is too large."""
    nodes = problem.nodes(copies)
    if nodes <= LARGEST_PLAIN_SCHEDULE:
        return
    maximum = LARGEST_SCHEDULE if problem.fits(copies) else LARGEST_PLAIN_SCHEDULE
    if nodes > maximum:
        raise GaveUp(because(RoomWhy.TOO_LARGE, firings=nodes, most=maximum))

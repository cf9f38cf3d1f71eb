"""How much longer firings may take before the period grows."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import lcm
from typing import NamedTuple

from csdf.analysis.period.periodic import Circuit, PeriodicProblem
from csdf.analysis.whatif.varying import VaryingComponent
from csdf.errors import GaveUp
from csdf.kernels import compile as compiler
from csdf.kernels import ranges
from csdf.kernels import slack as kernels
from csdf.model.indexed import is_one_at_a_time
from csdf.stopping import Stop

LARGEST = 500_000  # firings of a schedule that is made for one slack
SHARED = 50_000  # firings of a schedule that is kept for the next one


class Slack(NamedTuple):
    """How much longer some firings may take: for ever if the time is None.

    is_exact: if not, it is a lower bound. circuit: the cycle that allows no more.
    """

    time: Fraction | None
    is_exact: bool
    circuit: Circuit | None


class ComponentSlack:
    """The slack of firings in one strongly connected component, at a period that it can keep.

    period: of one iteration of the graph; it and slacks are in time units of the graph.
    """

    def __init__(self, component: VaryingComponent, period: Fraction, stop: Stop) -> None:
        self._problem = component.problem
        self._period = period / component.repeats
        self._stop = stop
        self._rooms = _Rooms(self._problem, component.copies, self._period, stop)
        graph = self._problem.graph
        self._loops = {
            actor: channel
            for channel, actor in enumerate(graph.producer)
            if is_one_at_a_time(graph, channel)
        }

    def slack(self, members: Sequence[tuple[int, int]]) -> Slack:
        """Return the slack of all firings of these actors (of the component) in these phases.

        Where the cycle that ends it goes through actors whose copies are fewer than it needs, it
        limits schedules of that kind only; then they get more.
        """
        rooms, known = self._rooms, self._loop_slack(members)
        while True:
            self._stop.look()
            found = rooms.least(members, known)
            if found.circuit is None or self._problem.is_exact(rooms.copies, found.circuit):
                return found
            copies = self._more_copies(rooms.copies, found.circuit)
            if self._problem.nodes(copies) > LARGEST:
                return found._replace(is_exact=False)
            rooms = _Rooms(self._problem, copies, self._period, self._stop)
            if self._problem.nodes(copies) <= SHARED:
                self._rooms = rooms

    def _loop_slack(self, members: Sequence[tuple[int, int]]) -> Slack:
        """The slack that a self-loop of one token leaves: the true one or more."""
        actor = members[0][0]
        if actor not in self._loops:
            return Slack(None, is_exact=True, circuit=None)
        graph, channel = self._problem.graph, self._loops[actor]
        start, phases = graph.duration_start[actor], graph.phases[actor]
        busy, cycles = sum(graph.duration[start : start + phases]), self._problem.cycles[actor]
        circuit = Circuit(
            actors=(actor,), channels=(channel,), time=busy, height=Fraction(1, cycles)
        )
        return Slack((self._period / cycles - busy) / len(members), is_exact=True, circuit=circuit)

    def _more_copies(self, copies: Sequence[int], circuit: Circuit) -> list[int]:
        more = list(copies)
        for actor, count in self._problem.needed_copies(circuit.actors).items():
            more[actor] = lcm(more[actor], count)
        return more


class _Rooms:
    """The constraints of schedules with these copies, and how much longer each edge could take."""

    def __init__(
        self, problem: PeriodicProblem, copies: Sequence[int], period: Fraction, stop: Stop
    ) -> None:
        self._problem = problem
        self._stop = stop
        self.copies = list(copies)
        self._height_period = period / problem.scale
        fits = problem.fits(copies)
        for backend in dict.fromkeys((compiler.backend(fits=fits), compiler.PLAIN)):
            if self._settle(backend):
                return
        raise GaveUp(f"sums of more than {compiler.UNBOUNDED.bit_length()} bits")

    def _settle(self, backend: compiler.Backend) -> bool:
        """Compute the rooms on one backend; False where its numbers do not hold the sums."""
        edges = self._problem.constraints(self.copies, backend, self._stop)
        nodes = len(edges.times)
        ratio = self._height_period
        largest = max((abs(height) for height in edges.height), default=0)
        limit = backend.limit // 4
        sums = ranges.slack_sum(ratio.as_integer_ratio(), largest, max(edges.times))
        if nodes * sums > limit:
            return False
        room = backend.blank(len(edges.source))
        value, most, rounds = backend.blank(nodes), 1 + backend.fuel // len(room), 0
        status = kernels.CHANGED
        while status == kernels.CHANGED:
            self._stop.look()
            if rounds > nodes:
                raise AssertionError("a period that was found has a schedule")
            status = backend.kernel(kernels.rooms)(
                edges.edge_start, edges.source, edges.height, edges.times,
                ratio.numerator, ratio.denominator, limit, most, value, room,
            )  # fmt: skip
            rounds += most
        if status == kernels.OVERFLOW:
            return False
        out = (backend.blank(nodes + 1), backend.blank(len(room)), backend.blank(len(room)))
        backend.kernel(kernels.outgoing)(edges.edge_start, edges.source, *out)
        self._edges, self._room, self._out = edges, room, out
        self._backend = backend
        self._largest_room = max(room, default=0)
        blanks = [backend.blank(nodes) for _ in range(4)]
        missing = [backend.array([-1]) * nodes for _ in range(2)]
        gain, heap, touched, cycle = blanks
        self._scratch = (gain, missing[0], heap, missing[1], touched, cycle)
        self._is_member = backend.blank(nodes)
        return True

    def least(self, members: Sequence[tuple[int, int]], known: Slack) -> Slack:
        """Return the slack of the members; its circuit is None if they may take for ever.

        known: a slack that is the true one or more.
        """
        nodes = self._nodes(members)
        trial, scale = self._largest_room * len(self._edges.times) + 1, 1
        if known.time is not None:
            units = known.time * self._height_period.denominator
            trial, scale = units.numerator, units.denominator
        best: list[int] | None = None
        while True:
            found = self._better(nodes, trial, scale)
            if found is None:
                break
            best, trial, scale = found
            if len(nodes) == 1:  # the first cycle found has the least room
                break
        if best is None:
            return known
        time = Fraction(trial, scale * self._height_period.denominator)
        return Slack(time, is_exact=True, circuit=self._circuit(best))

    def _nodes(self, members: Sequence[tuple[int, int]]) -> list[int]:
        phases, starts = self._problem.graph.phases, self._edges.starts
        return [
            starts[actor] + copy * phases[actor] + phase
            for actor, phase in members
            for copy in range(self.copies[actor])
        ]

    def _better(
        self, nodes: Sequence[int], trial: int, scale: int
    ) -> tuple[list[int], int, int] | None:
        """The edges of a cycle with a smaller ratio, its room and its members; None if none has."""
        backend = self._backend
        if ranges.better_cycle(trial, scale, len(nodes), self._largest_room) > backend.limit:
            backend = compiler.PLAIN
        answer = backend.blank(3)
        for node in nodes:
            self._is_member[node] = 1
        arguments = [
            *self._out, self._edges.source, self._edges.channel, self._room,
            backend.array(nodes), self._is_member,
        ]  # fmt: skip
        scratch = list(self._scratch)
        if backend is not self._backend:
            arguments = [list(column) for column in arguments]
            scratch = [list(column) for column in scratch]
        status = backend.kernel(kernels.better_cycle)(*arguments, trial, scale, *scratch, answer)
        for node in nodes:
            self._is_member[node] = 0
        if status != kernels.FOUND:
            return None
        return [int(edge) for edge in scratch[5][: answer[0]]], int(answer[1]), int(answer[2])

    def _circuit(self, edges: Sequence[int]) -> Circuit:
        """The cycle of these edges, listed against time."""
        forwards = edges[::-1]
        table, backend = self._edges, self._backend
        nodes = backend.take(table.source, forwards)
        channels = backend.take(table.channel, forwards)
        return self._problem.circuit(
            nodes, channels, table.starts, backend.take(table.owner, nodes),
            time=sum(
                table.times[node] for node, one in zip(nodes, channels, strict=True) if one >= 0
            ),
            height=sum(backend.take(table.height, forwards)),
        )  # fmt: skip

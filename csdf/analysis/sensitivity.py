"""Sensitivity of the period to each duration, token and capacity; slack by minimum cycle ratio.

Slack is the largest increase of durations that leaves the period unchanged. It is a minimum ratio over
the cycles through the firings: a cycle with n of them and the room w (`csdf.kernels.slack`) allows w/n.
Source for the period as a function of a duration: Ghamarian et al., DATE 2008.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from functools import cached_property
from itertools import count
from math import gcd
from typing import Any, ClassVar, NamedTuple

from csdf.analysis.critical import CriticalCycle
from csdf.analysis.cycle_lines import LineSearch, added_time, added_to_phase
from csdf.analysis.liveness import Deadlock, Executed, deadlock
from csdf.analysis.parametric import line_below_nominal
from csdf.analysis.periodic import Circuit, PeriodicProblem
from csdf.analysis.varying import Critical, VaryingComponent, VaryingGraph
from csdf.arguments import public
from csdf.errors import GaveUp
from csdf.kernels import compile as compiler
from csdf.kernels import ranges
from csdf.kernels import slack as kernels
from csdf.model.graph import Graph
from csdf.model.indexed import is_one_at_a_time
from csdf.model.shown import Shown, Tabular
from csdf.time_limit import ENDS, Budget, Stop, reason_of, stop_of


@dataclass(frozen=True, slots=True, kw_only=True)
class ActorSensitivity(Shown):
    """The effect of a change of one actor, or of one of its phases, on the period.

    phase: None for all phases together, with equal time added to each. slack: the largest increase of
    the durations without a longer period; None if there is no limit. is_exact: if not, the slack is a
    lower bound. next_critical: the actors of the cycle that becomes critical. reduction: the decrease
    of the period per time unit by which the durations decrease, up to a decrease of `valid_up_to`.
    min_period: the period after the largest decrease, when the shortest of these phases takes no time.
    """

    JSON: ClassVar[tuple[str, ...]] = (
        "actor", "phase", "slack", "is_exact", "next_critical", "reduction", "valid_up_to",
        "min_period",
    )  # fmt: skip

    actor: str
    phase: int | None
    slack: Fraction | None
    is_exact: bool
    next_critical: tuple[str, ...]
    reduction: Fraction
    valid_up_to: Fraction
    min_period: Fraction


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelSensitivity(Shown):
    """The effect of more tokens on a channel, or of more capacity, on the period.

    kind: `tokens` for initial tokens, with additional capacity for them, or `capacity`. added_tokens:
    the smallest number that may change the period. period: with this many more tokens.
    """

    channel: str
    kind: str
    added_tokens: int
    period: Fraction


@dataclass(frozen=True, slots=True, kw_only=True)
class Sensitivity(Executed, Tabular):
    """The dependence of the period on each actor, each phase and each channel.

    period: None for a deadlock. actors: for each actor a row for all phases, then, if it has several, a
    row for each phase. channels: a row for the tokens of each channel, and a row for each capacity.
    is_complete: no row is missing; if not, `reason` says why.
    """

    JSON: ClassVar[tuple[str, ...]] = (
        "deadlock=is_deadlocked", "blocked", "period", "critical_cycle", "actors",
        "channels", "complete", "reason",
    )  # fmt: skip
    FLOATS: ClassVar[tuple[str, ...]] = ("slack", "reduction", "valid_up_to", "min_period")

    period: Fraction | None
    critical_cycle: CriticalCycle | None
    deadlock: Deadlock | None
    actors: tuple[ActorSensitivity, ...]
    channels: tuple[ChannelSensitivity, ...]
    is_complete: bool = True
    reason: str = ""

    def rows(self) -> list[dict[str, Any]]:
        """Return an exact row for each actor and phase."""
        return [asdict(actor) for actor in self.actors]


@public
def sensitivity(graph: Graph, *, budget: Budget = None) -> Sensitivity:
    """Return the exact effect of each actor, phase, channel and capacity on the period.

    Each row holds for a single change: two actors may not both use their slack. Capacities of the graph
    are respected. budget: a stop, or seconds; if it or Ctrl-C ends the analysis, the first rows are
    returned. Raises InconsistentGraph; GaveUp if it ends before the period is known.
    """
    stop = stop_of(budget)
    blocked = deadlock(graph, budget=stop)
    if blocked is not None:
        return Sensitivity(
            period=None, critical_cycle=None, deadlock=blocked, actors=(), channels=()
        )
    return _Study(graph, stop).answer()


class _Study:
    """The sensitivity analysis of one live graph."""

    def __init__(self, graph: Graph, stop: Stop) -> None:
        self._graph = graph
        self._stop = stop
        self._varying = VaryingGraph(graph, stop)
        self._critical = self._varying.as_given
        self._critical_cycles = {self._members(self._critical)}  # those of the graph, so far
        self._period = self._critical.period or Fraction(0)
        self._home = {
            actor: (component, index)
            for component in self._varying.components
            for index, actor in enumerate(component.component.actors)
        }
        self._slacks: dict[int, ComponentSlack] = {}

    def answer(self) -> Sensitivity:
        """Return the rows, or the first rows if the budget ends the analysis."""
        actors: list[ActorSensitivity] = []
        channels: list[ChannelSensitivity] = []
        reason = ""
        try:
            for channel_row in self._channel_rows():
                channels.append(channel_row)
            for number, actor in enumerate(self._graph.actors):
                actors.append(self._row(number, None))
                for phase in range(actor.phases) if actor.phases > 1 else ():
                    actors.append(self._row(number, phase))
        except ENDS as end:
            reason = str(reason_of(end))
        return Sensitivity(
            period=self._period,
            critical_cycle=self._varying.named(self._critical) if self._period else None,
            deadlock=None,
            actors=tuple(actors),
            channels=tuple(channels),
            is_complete=not reason,
            reason=reason,
        )

    def _members(self, critical: Critical) -> tuple[frozenset[int], frozenset[int]]:
        """Return the indices of the durations and of the channels on a cycle."""
        channels = () if critical.circuit is None else critical.circuit.channels
        channels_of_component = () if critical.component is None else critical.component.channels
        return (
            frozenset(self._varying.duration_indices(critical)),
            frozenset(channels_of_component[channel] for channel in channels if channel >= 0),
        )

    def _store_if_critical(self, critical: Critical) -> None:
        """Store a cycle of a changed graph if the change does not reduce the period.

        The cycle is critical in the unchanged graph, too. A change reduces the period only if it
        concerns all critical cycles, so stored cycles answer for later changes without evaluation.
        """
        if critical.period == self._period:
            self._critical_cycles.add(self._members(critical))

    def _row(self, number: int, phase: int | None) -> ActorSensitivity:
        actor = self._graph.actors[number]
        slack, next_critical = self._slack(number, phase)
        gain, until, minimum = self._gain(number, phase)
        time = None if slack.time is None else slack.time * self._graph.time_unit
        return ActorSensitivity(
            actor=actor.name, phase=phase, slack=time, is_exact=slack.is_exact,
            next_critical=next_critical, reduction=gain, valid_up_to=until, min_period=minimum,
        )  # fmt: skip

    def _slack(self, number: int, phase: int | None) -> tuple[Slack, tuple[str, ...]]:
        """Return the slack, and the actors of the cycle that limits it."""
        if number not in self._home:  # on no cycle at all
            return Slack(None, is_exact=True, circuit=None), ()
        varying, index = self._home[number]
        key = id(varying)
        if key not in self._slacks:
            period = self._period / self._graph.time_unit
            self._slacks[key] = ComponentSlack(varying, period, self._stop)
        phases = range(self._graph.actors[number].phases) if phase is None else (phase,)
        slack = self._slacks[key].slack([(index, phase) for phase in phases])
        names, actors = self._varying.numbers.actor_names, varying.component.actors
        visited = () if slack.circuit is None else slack.circuit.actors
        return slack, tuple(dict.fromkeys(names[actors[node]] for node in visited))

    def _gain(self, number: int, phase: int | None) -> tuple[Fraction, Fraction, Fraction]:
        """Return `reduction`, `valid_up_to` and `min_period` of a row."""
        no_gain = Fraction(0), Fraction(0), self._period
        actor = self._graph.actors[number]
        phases = range(actor.phases) if phase is None else (phase,)
        changed = {self._varying.numbers.duration_start[number] + phase for phase in phases}
        # A critical cycle without these phases keeps its length, whatever their durations.
        if any(changed.isdisjoint(durations) for durations, _ in self._critical_cycles):
            return no_gain
        parameter = (
            added_time(self._graph, {actor.name: 1})
            if phase is None
            else added_to_phase(self._graph, actor.name, phase)
        )
        if parameter.minimum == parameter.nominal:
            return no_gain
        search = LineSearch(self._varying, [parameter])
        line, start, first = line_below_nominal(search, parameter)
        self._store_if_critical(first.critical)
        if not line.slopes[0]:
            return no_gain
        return line.slopes[0], parameter.nominal - start, first.period(parameter.minimum)

    def _channel_rows(self) -> Iterator[ChannelSensitivity]:
        numbers = {name: at for at, name in enumerate(self._varying.numbers.channel_names)}
        for channel in self._graph.channels:
            yield self._channel_row(channel.name, numbers[channel.name], "tokens")
            if channel.capacity is not None and not channel.is_self_loop:
                space = numbers[channel.name] + 1  # the reverse channel comes next
                yield self._channel_row(channel.name, space, "capacity")

    def _channel_row(self, name: str, at: int, kind: str) -> ChannelSensitivity:
        numbers = self._varying.numbers
        step = gcd(*numbers.productions(at), *numbers.consumptions(at))  # tokens move in multiples
        more = step - numbers.initial_tokens[at] % step
        period = self._period
        if all(at in channels for _, channels in self._critical_cycles):
            critical = self._varying.with_more_tokens(at, more)
            period = critical.period or Fraction(0)
            self._store_if_critical(critical)
        return ChannelSensitivity(channel=name, kind=kind, added_tokens=more, period=period)


LARGEST = 500_000  # firings of a schedule for one slack; beyond, the slack is a lower bound
SHARED = 50_000  # firings of a schedule that is stored for the next slack


class Slack(NamedTuple):
    """The slack of a set of firings; a time of None is unlimited.

    is_exact: if not, the time is a lower bound. circuit: the cycle that limits it.
    """

    time: Fraction | None
    is_exact: bool
    circuit: Circuit | None


class ComponentSlack:
    """Computes slacks of firings in one strongly connected component at a period that it sustains.

    period: of one iteration of the graph. It and the slacks are in time units of the graph.
    """

    def __init__(self, component: VaryingComponent, period: Fraction, stop: Stop) -> None:
        self._problem = component.problem
        self._period = period / component.component.repeats
        self._stop = stop
        self._shared_rooms = _Rooms(self._problem, component.copies, self._period, stop)
        graph = self._problem.graph
        self._loops = {
            actor: channel
            for channel, actor in enumerate(graph.producer)
            if is_one_at_a_time(graph, channel)
        }

    def slack(self, members: Sequence[tuple[int, int]]) -> Slack:
        """Return the slack of all firings of these actors (of the component) in these phases.

        If the limiting cycle passes through actors with too few copies, it limits only K-periodic
        schedules; the actors get more copies, and the slack is computed again.
        """
        rooms, loop_slack = self._shared_rooms, self._loop_slack(members)
        while True:
            self._stop.look()
            slack = rooms.slack(members, loop_slack)
            if slack.circuit is None or self._problem.is_exact(rooms.copies, slack.circuit):
                return slack
            copies = self._problem.with_copies_for(rooms.copies, [slack.circuit.actors])
            firings = self._problem.nodes(copies)
            if firings > LARGEST:
                return slack._replace(is_exact=False)
            rooms = _Rooms(self._problem, copies, self._period, self._stop)
            if firings <= SHARED:
                self._shared_rooms = rooms

    def _loop_slack(self, members: Sequence[tuple[int, int]]) -> Slack:
        """Return the slack by the actor's self-loop of one token alone: an upper bound."""
        actor = members[0][0]
        if actor not in self._loops:
            return Slack(None, is_exact=True, circuit=None)
        graph, channel = self._problem.graph, self._loops[actor]
        busy, cycles = sum(graph.durations(actor)), self._problem.cycles[actor]
        circuit = Circuit(
            actors=(actor,), channels=(channel,), time=busy, height=Fraction(1, cycles)
        )
        return Slack((self._period / cycles - busy) / len(members), is_exact=True, circuit=circuit)


class _Rooms:
    """The constraints of schedules with these copies, and the room of each edge: its reduced cost.

    Rooms are integers, in units of 1 / denominator of the period of one unit of height.
    """

    def __init__(
        self, problem: PeriodicProblem, copies: Sequence[int], period: Fraction, stop: Stop
    ) -> None:
        self._problem = problem
        self._stop = stop
        self.copies = list(copies)
        self._height_period = period / problem.scale
        fits = problem.fits(copies)
        for backend in dict.fromkeys((compiler.backend(fits=fits), compiler.PLAIN)):
            if self._compute(backend):
                return
        raise GaveUp(f"sums of more than {compiler.UNBOUNDED.bit_length()} bits")

    def _compute(self, backend: compiler.Backend) -> bool:
        """Compute the rooms on one backend; False if its numbers overflow."""
        layout, edges = self._problem.constraints(self.copies, backend, self._stop)
        ratio = self._height_period
        largest = max(map(abs, edges.height[: edges.number]), default=0)
        limit = backend.limit // 4
        sums = ranges.largest_in_rooms(ratio.as_integer_ratio(), largest, max(layout.times))
        if layout.nodes * sums > limit:
            return False
        rooms = backend.kernel(kernels.Rooms)(edges, layout.times, backend.blank)
        # The kernel pauses after this number of rounds, so that the stop can end the computation.
        rounds_per_call = 1 + backend.fuel // edges.number
        for rounds in count(0, rounds_per_call):
            self._stop.look()
            if rounds > layout.nodes:
                raise AssertionError("a period that was found has a schedule")
            status = backend.kernel(kernels.compute_rooms)(
                rooms, ratio.numerator, ratio.denominator, limit, rounds_per_call
            )
            if status == kernels.OVERFLOW:
                return False
            if status != kernels.CHANGED:
                break
        backend.kernel(kernels.begin_search)(rooms)
        self._layout, self._edges, self._rooms, self._backend = layout, edges, rooms, backend
        self._largest_room = max(rooms.room, default=0)
        return True

    def slack(self, members: Sequence[tuple[int, int]], known: Slack) -> Slack:
        """Return the slack of the member firings; its circuit is None if the slack is unlimited.

        known: an upper bound, returned if no cycle has a smaller ratio of room and member firings.
        """
        nodes, units = self._nodes(members), self._height_period.denominator
        # Without a bound the first ratio is larger than all ratios of cycles.
        ratio = Fraction(self._largest_room * self._layout.nodes + 1)
        if known.time is not None:
            ratio = known.time * units
        best: list[int] | None = None
        # Newton's method: the ratio of each cycle is the next trial.
        while (better := self._better(nodes, ratio)) is not None:
            best, ratio = better
            if len(nodes) == 1:  # best-first search: the first cycle has the smallest room
                break
        if best is None:
            return known
        return Slack(ratio / units, is_exact=True, circuit=self._circuit(best))

    def _nodes(self, members: Sequence[tuple[int, int]]) -> list[int]:
        phases, starts = self._problem.graph.phases, self._layout.starts
        return [
            starts[actor] + copy * phases[actor] + phase
            for actor, phase in members
            for copy in range(self.copies[actor])
        ]

    def _better(self, nodes: Sequence[int], ratio: Fraction) -> tuple[list[int], Fraction] | None:
        """Return the edges and the ratio of a cycle with a smaller ratio; None if there is none."""
        trial, scale = ratio.as_integer_ratio()
        largest = ranges.largest_in_better_cycle(trial, scale, len(nodes), self._largest_room)
        backend, rooms = self._backend, self._rooms
        if largest > backend.limit:
            backend, rooms = compiler.PLAIN, self._plain_rooms
        search = backend.kernel(kernels.better_cycle)
        if search(rooms, backend.array(nodes), trial, scale) != kernels.FOUND:
            return None
        return list(rooms.cycle[: rooms.edges]), Fraction(rooms.cycle_room, rooms.members)

    @cached_property
    def _plain_rooms(self) -> Any:
        """The rooms in Python integers, for sums beyond the backend."""
        backend = compiler.PLAIN
        rooms = backend.kernel(kernels.Rooms)(self._edges, self._layout.times, backend.blank)
        rooms.room = list(self._rooms.room)
        backend.kernel(kernels.begin_search)(rooms)
        return rooms

    def _circuit(self, edges: Sequence[int]) -> Circuit:
        """Return the circuit of these edges, which are listed against time."""
        forwards = edges[::-1]
        take, layout = self._backend.take, self._layout
        nodes, channels = take(self._edges.source, forwards), take(self._edges.channel, forwards)
        return self._problem.circuit(
            nodes,
            channels,
            layout.starts,
            take(layout.owner, nodes),
            time=sum(
                layout.times[node]
                for node, channel in zip(nodes, channels, strict=True)
                if channel >= 0
            ),
            height=sum(take(self._edges.height, forwards)),
        )

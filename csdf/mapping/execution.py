"""Execution of a mapped graph in time: static orders with prefixes, TDMA wheels that start together."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from heapq import heappop, heappush
from math import lcm
from typing import NamedTuple

from csdf.analysis.consistency import repetition_vector
from csdf.arguments import Positive, public
from csdf.errors import CsdfError, NoRecurrence
from csdf.mapping.binding import bound_graph, require_valid
from csdf.mapping.model import Mapping, Platform
from csdf.model.graph import Channel, Graph
from csdf.model.schedule import Firing
from csdf.time_limit import Budget, Stop, stop_of

MOST_FIRINGS = 2_000_000  # maximum firings of one execution
# Numbers in all stored states, about half a gigabyte. Tokens in transit are part of a state, so that
# the memory grows with the square of a latency.
MOST_REMEMBERED = 5_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class MappedExecution:
    """The first iterations of a mapped graph.

    firings: of whole iterations, by start time, including transfers. cores: the processor of each bound
    actor. transient: iterations with a firing that starts before the first recurring state. steady:
    iterations until it recurs, and period: of one of them; of parts without a channel or a processor in
    common, those of the fastest part, and the period of the slowest. deadlock: None, or a time from
    which on some actor never fires.
    """

    firings: tuple[Firing, ...]
    cores: dict[str, str]
    iterations: int
    transient: int | None
    steady: int | None
    period: Fraction | None
    deadlock: Fraction | None


class _Active(NamedTuple):
    """A firing in progress; tuples of it sort by end."""

    end: int
    actor: str


class _Arrival(NamedTuple):
    """Tokens that a channel will hold from a time on; tuples of it sort by time."""

    time: int
    channel: str
    tokens: int


@public
def mapped_execution(
    graph: Graph,
    platform: Platform,
    mapping: Mapping,
    *,
    iterations: Positive | None = None,
    budget: Budget = None,
) -> MappedExecution:
    """Execute a mapped graph as early as its orders allow, and return its firings.

    All wheels start at time 0; a firing that exceeds its slice is interrupted until the next slice.
    iterations: number of iterations, without a period; by default the transient and one steady part.
    budget: a stop, or seconds. Raises InvalidMapping, InconsistentGraph; GaveUp if the budget ends;
    NoRecurrence if no state recurs within two million firings, such as if one part of the graph runs
    ahead of another without bound.
    """
    require_valid(graph, platform, mapping)
    bound = bound_graph(graph, platform, mapping, is_conservative=False)
    run = _MappedExecution(bound, platform, mapping, stop_of(budget))
    recurrence = run.until_recurrence() if iterations is None else None
    count, period = iterations, None
    if recurrence is not None:
        count = recurrence.transient + recurrence.steady
        period = Fraction(recurrence.time, recurrence.slowest) * run.unit
    is_stuck = count is None or not run.complete(count)
    return MappedExecution(
        firings=run.listed(None if is_stuck else count),
        cores=dict(mapping.binding),
        iterations=0 if is_stuck or count is None else count,
        transient=None if recurrence is None else recurrence.transient,
        steady=None if recurrence is None else recurrence.steady,
        period=period,
        deadlock=run.now * run.unit if is_stuck else None,
    )


class _PeriodicPhase(NamedTuple):
    """The time in which a state recurs; transient: iterations begun before the first such state."""

    transient: int
    steady: int  # iterations of the fastest part of the graph until the state recurs
    slowest: int  # of the slowest part
    time: int


class _MappedExecution:
    """A mapped graph while it executes; times in units of the graph."""

    def __init__(self, graph: Graph, platform: Platform, mapping: Mapping, stop: Stop) -> None:
        self.graph, self.stop = graph, stop
        self.unit = graph.time_unit
        self.orders = mapping.orders
        self.places = dict.fromkeys(mapping.orders, 0)
        self.is_busy = dict.fromkeys(mapping.orders, False)
        self.binding = mapping.binding
        self.repetitions = repetition_vector(graph)
        self.tokens = {channel.name: channel.initial_tokens for channel in graph.channels}
        self.started = {actor.name: 0 for actor in graph.actors}
        self.ended = {actor.name: 0 for actor in graph.actors}
        self.free = [a.name for a in graph.actors if a.name not in mapping.binding]
        self.inputs: dict[str, list[Channel]] = defaultdict(list)
        self.outputs: dict[str, list[Channel]] = defaultdict(list)
        for channel in graph.channels:
            self.inputs[channel.consumer].append(channel)
            self.outputs[channel.producer].append(channel)
        self.active: list[_Active] = []
        self.arrivals: list[_Arrival] = []
        self.newest = dict.fromkeys(self.tokens, 0)  # by channel, the time of its latest arrival
        self.firings: list[tuple[str, int, int, int]] = []
        self.now = 0
        self._finish = {
            core: _finisher(platform, core, int(1 / graph.time_unit)) for core in mapping.orders
        }
        wheels = [platform.core(core).wheel or 1 for core in mapping.orders]
        self._turn = lcm(1, *wheels) * int(1 / graph.time_unit)
        for name in self.free:
            if not self.inputs[name]:
                raise CsdfError(
                    f"actor {name!r} is bound to no processor and waits for no token: "
                    "it fires without end"
                )

    def until_recurrence(self) -> _PeriodicPhase | None:
        """Run until a state recurs; None where everything stops first, or a part of the graph.

        States are compared as the part with most iterations ends an iteration: a part may have stopped.
        """
        seen: dict[object, tuple[list[int], int, int]] = {}
        references = [(actor, self.repetitions[actor]) for actor in self._first_of_each_part()]
        complete, remembered = -1, 0
        self._start_all()
        while True:
            done = max(self.ended[actor] // count for actor, count in references)
            if done > complete:
                complete = done
                state = self._state()
                if state in seen:
                    ended_before, begun, time = seen[state]
                    firings = map(int.__sub__, self.ended.values(), ended_before)
                    steady = list(map(int.__floordiv__, firings, self.repetitions.values()))
                    if not min(steady):
                        return None
                    return _PeriodicPhase(begun, max(steady), min(steady), self.now - time)
                # Iterations with some firing started.
                begun = max(-(-self.started[a] // count) for a, count in self.repetitions.items())
                seen[state] = (list(self.ended.values()), begun, self.now)
                remembered += len(self.tokens) + 2 * len(self.started)
                remembered += 2 * len(self.active) + 3 * len(self.arrivals)
                if remembered > MOST_REMEMBERED:
                    raise NoRecurrence(
                        f"no state recurred within {done} iterations, in each of which up to "
                        f"{len(self.active)} firings and transfers are under way"
                    )
            if not self.active:
                return None
            self._advance()

    def _first_of_each_part(self) -> list[str]:
        """The first actor of each part of the graph: actors that channels or processors connect."""
        connected: dict[object, list[object]] = defaultdict(list)
        pairs: list[tuple[object, object]] = [
            *((channel.producer, channel.consumer) for channel in self.graph.channels),
            *((actor, (core,)) for actor, core in self.binding.items()),
        ]
        for one_end, other_end in pairs:
            connected[one_end].append(other_end)
            connected[other_end].append(one_end)
        first, reached = [], set[object]()
        for actor in self.repetitions:
            if actor not in reached:
                first.append(actor)
            pending: list[object] = [actor]
            while pending:
                node = pending.pop()
                if node not in reached:
                    reached.add(node)
                    pending += connected[node]
        return first

    def complete(self, iterations: int) -> bool:
        """Run on until this many iterations of every actor have ended; return whether they have."""
        if not self.firings:
            self._start_all()
        while any(self.ended[a] < iterations * count for a, count in self.repetitions.items()):
            if not self.active:
                return False
            self._advance()
        return True

    def listed(self, iterations: int | None) -> tuple[Firing, ...]:
        """Return the firings of this many iterations, or all."""
        return tuple(
            Firing(
                actor=actor,
                index=index,
                phase=index % self.graph.actor(actor).phases,
                start=start * self.unit,
                end=end * self.unit,
            )
            for actor, index, start, end in sorted(self.firings, key=lambda firing: firing[2])
            if iterations is None or index < iterations * self.repetitions[actor]
        )

    def _state(self) -> object:
        """Return the state that determines all later firings, without counts of past firings."""
        return (
            tuple(self.tokens.values()),
            tuple(self._place(core) for core in self.orders),
            tuple(self.started[a.name] % a.phases for a in self.graph.actors),
            tuple(sorted((firing.end - self.now, firing.actor) for firing in self.active)),
            tuple(
                sorted(arrival._replace(time=arrival.time - self.now) for arrival in self.arrivals)
            ),
            self.now % self._turn,
        )

    def _place(self, core: str) -> int:
        order = self.orders[core]
        beyond = self.places[core] - len(order.prefix)
        return beyond if beyond < 0 else beyond % len(order.periodic)

    def _advance(self) -> None:
        """Advance to the next end of a firing; end and start all firings at that time."""
        self.stop.look()
        if len(self.firings) > MOST_FIRINGS:
            raise NoRecurrence(f"no state recurred within {MOST_FIRINGS} firings")
        self.now = self.active[0].end
        self._end_all()
        self._start_all()

    def _end_all(self) -> None:
        while self.active and self.active[0].end == self.now:
            done = heappop(self.active)
            self.ended[done.actor] += 1
            core = self.binding.get(done.actor)
            if core is not None:
                self.is_busy[core] = False
        while self.arrivals and self.arrivals[0].time == self.now:
            arrival = heappop(self.arrivals)
            self.tokens[arrival.channel] += arrival.tokens

    def _start_all(self) -> None:
        has_changed = True
        while has_changed:
            has_changed = False
            for core, order in self.orders.items():
                actor = order.actor(self.places[core])
                if not self.is_busy[core] and self._is_enabled(actor):
                    self.places[core] += 1
                    self.is_busy[core] = True
                    self._start(actor, self._finish[core])
                    has_changed = True
            for actor in self.free:
                while self._is_enabled(actor):
                    self._start(actor, _uninterrupted)
                    has_changed = True
            self._end_all()  # firings of zero duration

    def _is_enabled(self, actor: str) -> bool:
        phase = self.started[actor] % self.graph.actor(actor).phases
        return all(
            self.tokens[channel.name] >= channel.consumption[phase]
            for channel in self.inputs[actor]
        )

    def _start(self, name: str, finish: Callable[[int, int], int]) -> None:
        if len(self.firings) > MOST_FIRINGS:
            raise NoRecurrence(f"more than {MOST_FIRINGS} firings")
        actor = self.graph.actor(name)
        index = self.started[name]
        phase = index % actor.phases
        for channel in self.inputs[name]:
            self.tokens[channel.name] -= channel.consumption[phase]
        self.started[name] += 1
        end = finish(self.now, actor.durations[phase])
        heappush(self.active, _Active(end, name))
        for channel in self.outputs[name]:
            if tokens := channel.production[phase]:
                # FIFO: tokens of a short firing do not overtake tokens of an earlier, longer firing.
                self.newest[channel.name] = max(self.newest[channel.name], end)
                heappush(self.arrivals, _Arrival(self.newest[channel.name], channel.name, tokens))
        self.firings.append((name, index, self.now, end))


def _uninterrupted(start: int, work: int) -> int:
    return start + work


def _finisher(platform: Platform, name: str, factor: int) -> Callable[[int, int], int]:
    """Return the function from (start, duration) of a firing on a processor to its end."""
    core = platform.core(name)
    if core.wheel is None or core.slice is None:
        return _uninterrupted
    wheel, slice_ticks, offset = core.wheel * factor, core.slice * factor, core.offset * factor

    def finish(start: int, work: int) -> int:
        if not work:
            return start
        elapsed = (start - offset) % wheel
        left = max(0, slice_ticks - elapsed)
        if work <= left:
            return start + work
        turns, remainder = divmod(work - left - 1, slice_ticks)
        return start - elapsed + wheel + turns * wheel + remainder + 1

    return finish

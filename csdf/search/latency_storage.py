"""Smallest storage for a throughput and a latency after a strictly periodic source.

A distribution meets the throughput if no cycle of firings is slower than the source, and the
latency if no path of firings from a release of the source to the end of the sink is longer. A cycle
or path that violates its limit names the channels whose capacity must grow: more space never delays
a firing. The search branches over these channels as for throughput alone.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import chain, islice
from typing import ClassVar, NamedTuple

from csdf.analysis.bound_channels import is_single_firing_loop
from csdf.analysis.consistency import repetition_vector
from csdf.analysis.expansion import awaited_firings
from csdf.analysis.latency import dependency_distance
from csdf.arguments import public
from csdf.errors import CsdfError
from csdf.model.exact import Exact, exact, exact_above_zero
from csdf.model.graph import Channel, Graph, space_channel
from csdf.search.evaluator import CapacityEvaluator, PeriodEvaluation
from csdf.search.learned_bounds import fast_enough
from csdf.search.least import least_distribution
from csdf.search.pareto import SmallestStorage
from csdf.search.searched_graph import SearchedGraph
from csdf.search.trade_off import EVERYTHING
from csdf.search.variables import SearchSpace, Variable, space_names
from csdf.status import Reason, Why, because
from csdf.time_limit import Budget, Progress, stop_of


class LatencyWhy(Why):
    """The reasons why no storage suffices."""

    TOO_FAST = "the graph sustains no shorter period than {period}, with any storage"
    TOO_LATE = "with any storage the latency is at least {latency}"
    STUCK = "the graph deadlocks with any storage"


@dataclass(frozen=True, slots=True, kw_only=True)
class LatencyStorage(SmallestStorage):
    """The smallest storage for a period and a latency, or the bounds so far.

    point: with the period that the storage sustains. latency: with these capacities and a source of
    the required period, from the release of an iteration of the source to the end of the iteration
    of the sink that needs it, `distance` iterations later.
    """

    JSON: ClassVar[tuple[str, ...]] = (
        "size", "capacities", "period", "latency", "distance", "status", "reason", "lower_bound",
        "gap", "evaluations",
    )  # fmt: skip

    latency: Fraction | None
    distance: int


@public
def storage_for_latency(
    graph: Graph,
    source: str,
    sink: str,
    *,
    period: Exact,
    latency: Exact,
    space: SearchSpace = EVERYTHING,
    budget: Budget = None,
) -> LatencyStorage:
    """Return the smallest storage that answers a source of this period within a latency.

    The source is released once per iteration, every `period`. Its iteration n is answered by
    iteration n + distance of the sink, the first that depends on it, at most `latency` after its
    release (`dependency_latency` of `source_latency`). budget: a stop, or seconds; if it ends the
    search, the smallest storage so far is returned, with the lower bound.

    Raises InconsistentGraph, InvalidGraph or CsdfError for invalid arguments.
    """
    required = exact_above_zero(period, "period"), exact(latency, "latency")
    if space.copies is not None:
        raise CsdfError(
            "latencies are those of the self-timed execution, not of periodic schedules"
        )
    stop = stop_of(budget)
    searched = SearchedGraph(graph, space)
    inner = searched.evaluator(lambda: stop.look(Progress(done=inner.count)))
    distance = dependency_distance(inner.bare, source, sink)
    pairing = Pairing(source=source, sink=sink, distance=distance)
    evaluator = _Evaluator(inner, searched.variables, pairing, *required)
    distribution = least_distribution(
        evaluator, searched.variables, fast_enough(None), stop, refusal=evaluator.refusal
    )
    point, reached, capacities = None, None, distribution.capacities
    if capacities is not None:
        point = searched.point(capacities, inner.evaluate(capacities).period)
        reached = evaluator.latency(capacities).latency
    return LatencyStorage(
        point=point,
        latency=reached,
        distance=distance,
        lower_bound=distribution.lower_bound + searched.fixed_size,
        status=distribution.status,
        reason=distribution.reason,
        evaluations=inner.count,
    )


class _Evaluator:
    """Evaluates distributions against both limits; the period is None if either is violated."""

    def __init__(
        self,
        inner: CapacityEvaluator,
        variables: Sequence[Variable],
        pairing: Pairing,
        period: Fraction,
        latency: Fraction,
    ) -> None:
        graph = inner.bare
        self._inner = inner
        self._variables = variables
        self._period = period / graph.time_unit
        self._unit = graph.time_unit
        self._required = latency
        self._paths = ReleasePaths(graph, repetition_vector(graph), pairing, period)
        self._known: dict[tuple[int | None, ...], PeriodEvaluation] = {}
        searched = chain.from_iterable(variable.channels for variable in variables)
        self._space_names = space_names(graph, searched)

    @property
    def count(self) -> int:
        """Distributions evaluated so far."""
        return self._inner.count

    @property
    def firings(self) -> int:
        """Firings of one iteration."""
        return self._inner.firings

    def evaluate(self, capacities: tuple[int | None, ...]) -> PeriodEvaluation:
        """Return the period if both limits are met, else None and the channels that must grow."""
        if capacities not in self._known:
            self._known[capacities] = self._evaluated(capacities)
        return self._known[capacities]

    def _evaluated(self, capacities: tuple[int | None, ...]) -> PeriodEvaluation:
        evaluation = self._inner.evaluate(capacities)
        # The period first: paths have a finite length only in a graph as fast as the source.
        if evaluation.period is None or evaluation.period > self._period:
            return PeriodEvaluation(None, evaluation.holding)
        # A late path plays the part of the critical cycle: space on it has to grow.
        path = self.latency(capacities)
        if path.latency <= self._required:
            return evaluation
        holding = [
            index
            for index, variable in enumerate(self._variables)
            if any(
                self._space_names[channel.name] in path.channels for channel in variable.channels
            )
        ]
        return PeriodEvaluation(None, tuple(holding))

    def latency(self, capacities: Sequence[int | None]) -> LongestPath:
        """Return the latency with these capacities, which sustain the period."""
        spaces = [
            space_channel(channel, capacity, self._space_names[channel.name])
            for variable, capacity in zip(self._variables, capacities, strict=True)
            if capacity is not None
            for channel in variable.channels
        ]
        return self._paths.latency((*self._inner.bare.channels, *spaces))

    def refusal(self) -> Reason:
        """Return the reason why no storage suffices."""
        unbounded: tuple[None, ...] = (None,) * len(self._variables)
        period = self._inner.evaluate(unbounded).period
        if period is None:
            return because(LatencyWhy.STUCK)
        if period > self._period:
            return because(LatencyWhy.TOO_FAST, period=period * self._unit)
        return because(LatencyWhy.TOO_LATE, latency=self.latency(unbounded).latency)


MOST_DEPENDENCIES = 500_000  # of an iteration, times the iterations between source and sink


class LongestPath(NamedTuple):
    """The latest end of the sink, in units of the user, and the channels on the path to it."""

    latency: Fraction
    channels: tuple[str, ...]


class _Dependency(NamedTuple):
    """A dependency: `after` starts at least `time` after `before` of `distance` iterations earlier."""

    before: int
    after: int
    time: int
    distance: int
    channel: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Pairing:
    """The pairs of iterations of source and sink: iteration n is answered by iteration n + distance."""

    source: str
    sink: str
    distance: int


class ReleasePaths:
    """The firings of one iteration of a graph with a periodic source, and their longest paths.

    The source starts its firing i at i * period / repetitions, or later if tokens or space are
    missing. All other actors start as soon as possible, from time 0 on. `latency` is the maximum
    over all iterations of the time from the release of the first firing of the source to the end of
    the last firing of the sink in the paired iteration. The start of a firing is the length of the
    longest path to it. Times are relative to the period: a dependency on an earlier iteration is
    shorter by the periods in between, so all iterations have the same paths.

    The graph has no capacities, and its period is at most the period of the source.
    """

    def __init__(
        self, graph: Graph, repetitions: dict[str, int], pairing: Pairing, period: Fraction
    ) -> None:
        self._graph = graph
        self._repetitions = repetitions
        self._pairing = pairing
        rate = repetitions[pairing.source]
        interval = period / graph.time_unit / rate
        # Times are scaled by the denominator of the release interval, so that all are integers.
        self._scale = interval.denominator
        self._interval = interval.numerator  # between two releases, in scaled units
        self._period = interval.numerator * rate
        self._first: dict[str, int] = {}
        self._count = 0
        for actor in graph.actors:
            self._first[actor.name] = self._count
            self._count += repetitions[actor.name]
        self._single = {c.producer for c in graph.channels if is_single_firing_loop(c)}
        self._known: dict[tuple[str, int], list[_Dependency]] = {}
        self._orders = [  # the firings of an actor start in order
            _Dependency(first + i, first + (i + 1) % count, 0, int(i + 1 == count), "")
            for name, first in self._first.items()
            for count in [repetitions[name]]
            for i in range(count)
        ]

    def latency(self, channels: tuple[Channel, ...]) -> LongestPath:
        """Return the latency with these channels, all without a capacity."""
        layers = self._pairing.distance + 1
        dependencies: list[_Dependency] = []
        # The limit is checked before the dependencies of the next channel, which may fill the memory.
        for listed in chain([self._orders], map(self._dependencies, channels)):
            dependencies += listed
            if len(dependencies) * layers > MOST_DEPENDENCIES:
                raise CsdfError(
                    f"graph {self._graph.name!r} has at least {len(dependencies)} dependencies between "
                    f"firings over {layers} iterations; latencies are computed for at most "
                    f"{MOST_DEPENDENCIES}"
                )
        starts, predecessors = self._longest(dependencies, layers)
        return self._latest(starts, predecessors, layers)

    def _dependencies(self, channel: Channel) -> list[_Dependency]:
        key = channel.name, channel.initial_tokens
        if key in self._known:
            return self._known[key]
        producer = self._graph.actor(channel.producer)
        count = self._repetitions[producer.name]
        awaited = awaited_firings(
            producer,
            channel,
            self._repetitions[channel.consumer],
            is_single=producer.name in self._single,
        )
        listed = islice(awaited, MOST_DEPENDENCIES + 1)  # `latency` refuses more
        dependencies = self._known[key] = []
        for firing, source in listed:
            # Firings are numbered from the current iteration on: those of earlier ones are negative.
            iteration, index = divmod(source, count)
            before = self._first[producer.name] + index
            after = self._first[channel.consumer] + firing
            time = producer.durations[index % producer.phases] * self._scale
            distance = -iteration
            dependencies.append(_Dependency(before, after, time, distance, channel.name))
        return dependencies

    def _longest(
        self, dependencies: list[_Dependency], layers: int
    ) -> tuple[list[int], list[tuple[int, str] | None]]:
        """Return the latest start of each firing relative to the period, and its predecessor.

        Node firing * layers + i is the firing in iteration i, whose start is relative to i periods. The
        last layer is the last iteration and all later iterations. A predecessor is a node, and the
        channel of the dependency on it; None for a firing that starts at its release, or at time 0.
        """
        successors: dict[int, list[_Dependency]] = defaultdict(list)
        for dependency in dependencies:
            successors[dependency.before].append(dependency)
        # Each firing starts at time 0 or later, those of the source at their releases or later.
        starts = [-(node % layers) * self._period for node in range(self._count * layers)]
        first = self._first[self._pairing.source]
        for index in range(self._repetitions[self._pairing.source]):
            for layer in range(layers):
                starts[(first + index) * layers + layer] = index * self._interval
        predecessors: list[tuple[int, str] | None] = [None] * len(starts)
        waiting = deque(range(len(starts)))
        is_waiting = [True] * len(starts)
        while waiting:
            node = waiting.popleft()
            is_waiting[node] = False
            firing, layer = divmod(node, layers)
            for dependency in successors[firing]:
                later = dependency.after * layers + min(layer + dependency.distance, layers - 1)
                start = starts[node] + dependency.time - dependency.distance * self._period
                # Bellman-Ford with a queue. It ends: the graph sustains the period, so no cycle of
                # lengths relative to the period is positive.
                if start > starts[later]:
                    starts[later] = start
                    predecessors[later] = node, dependency.channel
                    if not is_waiting[later]:
                        is_waiting[later] = True
                        waiting.append(later)
        return starts, predecessors

    def _latest(
        self, starts: list[int], predecessors: list[tuple[int, str] | None], layers: int
    ) -> LongestPath:
        """Return the latest end of the sink in the paired iteration, which is in the last layer."""
        sink = self._graph.actor(self._pairing.sink)
        first = self._first[sink.name]
        ends = {
            node: starts[node] + sink.durations[index % sink.phases] * self._scale
            for index in range(self._repetitions[sink.name])
            for node in [(first + index + 1) * layers - 1]
        }
        node = max(ends, key=lambda end: ends[end])
        time = Fraction(ends[node] + self._pairing.distance * self._period, self._scale)
        channels = []
        predecessor = predecessors[node]
        while predecessor is not None:
            node, channel = predecessor
            channels.append(channel)
            predecessor = predecessors[node]
        named = tuple(dict.fromkeys(channel for channel in reversed(channels) if channel))
        return LongestPath(time * self._graph.time_unit, named)

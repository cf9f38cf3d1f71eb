"""A mapping problem in numbers: firings, dependencies, times on each processor; lower bounds."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil
from typing import NamedTuple

from csdf.analysis.bound_channels import limit_concurrency
from csdf.analysis.consistency import repetition_vector
from csdf.analysis.expansion import needed_firings
from csdf.analysis.throughput import throughput
from csdf.errors import CsdfError, GaveUp
from csdf.mapping.binding import bound_graph, durations_on, response_times, transfer_time
from csdf.mapping.model import InvalidMapping, Mapping, Platform
from csdf.model.graph import Actor, Graph, in_finer_time

MOST_FIRINGS = 20_000  # of an iteration that is mapped
MOST_SHARED = 10**8  # maximum sum of loads for the bound by subset sums: a bit for each sum


class Dependency(NamedTuple):
    """Firing `after` waits for firing `before` of this many iterations earlier, over a channel."""

    before: int
    after: int
    distance: int
    channel: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MappingProblem:
    """A graph and a platform, as numbers; times in units of the mapped graph.

    actors, cores: referred to by number. works: works[actor][core] has the durations of the firings in
    an iteration; None if the actor cannot run there. firings: (actor, index in the iteration).
    """

    graph: Graph
    platform: Platform
    actors: tuple[str, ...]
    firings: tuple[tuple[int, int], ...]
    first: tuple[int, ...]  # the first firing of each actor
    works: tuple[tuple[tuple[int, ...] | None, ...], ...]
    dependencies: tuple[Dependency, ...]
    sent: frozenset[str]  # channels of the application, whose tokens cross connections
    time_unit: Fraction

    @property
    def has_equal_cores(self) -> bool:
        """Whether each actor has equal durations on all processors."""
        return all(len(set(row)) == 1 for row in self.works)

    def load(self, actor: int, core: int) -> int:
        """Return the time of an actor's firings in an iteration on a processor."""
        work = self.works[actor][core]
        if work is None:
            raise AssertionError("an actor is bound to processors that it runs on")
        return sum(work)

    def cores_of(self, actor: int) -> list[int]:
        """Return the processors on which an actor can run."""
        return [core for core, work in enumerate(self.works[actor]) if work is not None]

    def duration(self, firing: int, core: int) -> int:
        """Return the duration of a firing on a processor."""
        actor, index = self.firings[firing]
        work = self.works[actor][core]
        if work is None:
            raise AssertionError("an actor is bound to processors that it runs on")
        return work[index]

    @property
    def least_loads(self) -> list[int]:
        """The load of each actor on its fastest processor."""
        actors = range(len(self.actors))
        return [min(self.load(a, c) for c in self.cores_of(a)) for a in actors]

    @property
    def longest_time(self) -> int:
        """Upper bound on the time of a simple cycle: all firings at their slowest, all transfers."""
        cores = range(len(self.platform.cores))
        work = sum(
            max(self.duration(firing, core) for core in self.cores_of(actor))
            for firing, (actor, _) in enumerate(self.firings)
        )
        return work + sum(
            max(self.delay(dependency.channel, a, b) for a in cores for b in cores)
            for dependency in self.dependencies
        )

    def delay(self, channel: str, source: int, target: int) -> int:
        """Return the transfer time of a token of a channel between two processors."""
        if source == target or channel not in self.sent:
            return 0
        names = self.platform.cores[source].name, self.platform.cores[target].name
        connection = self.platform.connection(*names)
        if connection is None:
            return 0
        time = transfer_time(self.graph.channel(channel), connection) + connection.wait
        return int(time / self.time_unit)


def mapping_problem(graph: Graph, platform: Platform) -> MappingProblem:
    """Return the problem of mapping all actors of a graph.

    Raises InconsistentGraph, InvalidMapping where an actor can run nowhere, and CsdfError for more
    than twenty thousand firings per iteration.
    """
    repetitions = repetition_vector(graph)
    total = sum(repetitions.values())
    if total > MOST_FIRINGS:
        raise CsdfError(
            f"graph {graph.name!r} has {total} firings per iteration; orders are searched for "
            f"up to {MOST_FIRINGS}. Give a mapping with --mapping"
        )
    scaled = bound_graph(graph, platform, Mapping(binding={}), is_conservative=False)
    finer = in_finer_time(graph, graph.time_unit.numerator)
    actors = tuple(actor.name for actor in graph.actors)
    first: list[int] = []
    firings: list[tuple[int, int]] = []
    for number, name in enumerate(actors):
        first.append(len(firings))
        firings += [(number, index) for index in range(repetitions[name])]
    return MappingProblem(
        graph=graph,
        platform=platform,
        actors=actors,
        firings=tuple(firings),
        first=tuple(first),
        works=tuple(
            _works(actor, platform, 1 / finer.time_unit, repetitions[actor.name])
            for actor in finer.actors
        ),
        dependencies=_dependencies(scaled, repetitions, dict(zip(actors, first, strict=True))),
        sent=frozenset(channel.name for channel in graph.channels),
        time_unit=scaled.time_unit,
    )


def _works(
    actor: Actor, platform: Platform, factor: Fraction, count: int
) -> tuple[tuple[int, ...] | None, ...]:
    """Return the durations of an actor's firings in an iteration, on each processor.

    factor: ticks of the durations in a time unit of the user. Raises InvalidMapping if there is none.
    """
    on_types: dict[tuple[object, ...], tuple[int, ...] | None] = {}
    rows: list[tuple[int, ...] | None] = []
    refusal: InvalidMapping | None = None
    for core in platform.cores:
        kind = (core.type, core.wheel, core.slice)
        if kind not in on_types:
            try:
                durations = response_times(actor, core, factor)
            except InvalidMapping as error:
                refusal = refusal or error
                on_types[kind] = None
            else:
                whole, remainder = divmod(count, len(durations))
                on_types[kind] = durations * whole + durations[:remainder]
        rows.append(on_types[kind])
    if refusal is not None and not any(row is not None for row in rows):
        raise refusal
    return tuple(rows)


def _dependencies(
    graph: Graph, repetitions: dict[str, int], first: dict[str, int]
) -> tuple[Dependency, ...]:
    """Return the dependencies of all firings, including the order of firings of one actor."""
    dependencies = []
    for channel in limit_concurrency(graph, dict.fromkeys(first, 1)).channels:
        count = repetitions[channel.producer]
        for firing, last in needed_firings(channel, repetitions[channel.consumer]):
            distance, index = divmod(last, count)
            before, after = first[channel.producer] + index, first[channel.consumer] + firing
            dependencies.append(Dependency(before, after, -distance, channel.name))
    return tuple(dependencies)


def iteration_order(problem: MappingProblem) -> list[int]:
    """Return a topological order (Kahn) of the firings of an iteration of a live graph.

    Only dependencies within the iteration count.
    """
    waits = [0] * len(problem.firings)
    followers: list[list[int]] = [[] for _ in problem.firings]
    for dependency in problem.dependencies:
        if dependency.distance <= 0:
            waits[dependency.after] += 1
            followers[dependency.before].append(dependency.after)
    order = [firing for firing, count in enumerate(waits) if not count]
    for firing in order:
        for after in followers[firing]:
            waits[after] -= 1
            if not waits[after]:
                order.append(after)
    return order


def lower_bound(problem: MappingProblem) -> Fraction:
    """Return a lower bound on the period of all mappings, in time units of the problem.

    The maximum of: the period with a fastest processor for each actor; the minimum load of each actor;
    the mean of all minimum loads over the processors; and, for identical processors, the bound of
    `_least_shared`.
    """
    minimum = problem.least_loads
    cores = len(problem.platform.cores)
    bounds = [Fraction(max(minimum)), Fraction(sum(minimum), cores), _free_period(problem)]
    if problem.has_equal_cores:
        bounds.append(Fraction(_least_shared(minimum, cores)))
    return max(bounds)


def fewest_by_load(problem: MappingProblem, period: Fraction) -> int:
    """Return a lower bound on the processors of a mapping with at most that period.

    It follows from the sum of the minimum loads; for equal processors, also from the indivisibility of
    loads. period: in time units of the problem, at least the load of each actor.
    """
    minimum = problem.least_loads
    fewest = max(1, ceil(sum(minimum) / period))
    if problem.has_equal_cores:
        while _least_shared(minimum, fewest) > period:
            fewest += 1
    return fewest


def _least_shared(loads: Sequence[int], cores: int) -> int:
    """Return a lower bound on the makespan of indivisible loads on identical processors.

    By pigeonhole, two of the `cores` + 1 largest loads share a processor: at least the two smallest of
    them. The makespan is also a subset sum of the loads that is at least their mean.
    """
    ordered = sorted(loads, reverse=True)
    pair = ordered[cores - 1] + ordered[cores] if len(ordered) > cores else 0
    share = -(-sum(loads) // cores)
    if sum(loads) > MOST_SHARED:
        return max(pair, share)
    sums = 1  # bit n is set if a subset of the loads has the sum n
    for load in loads:
        sums |= sums << load
    above = sums >> share
    return max(pair, share + (above & -above).bit_length() - 1)


def _free_period(problem: MappingProblem) -> Fraction:
    """Return the period with a processor of its fastest type for each actor."""
    graph = limit_concurrency(problem.graph, dict.fromkeys(problem.actors, 1))
    actors = []
    for actor in graph.actors:
        times = []
        for core in problem.platform.cores:
            with suppress(InvalidMapping):
                times.append(durations_on(actor, core))
        fastest = tuple(map(min, zip(*times, strict=True)))
        actors.append(replace(actor, processors=(), durations=fastest))
    try:
        bound = throughput(replace(graph, actors=tuple(actors), origin=None))
    except GaveUp as error:
        return (error.low or Fraction(0)) / problem.time_unit
    return (bound.period or Fraction(0)) / problem.time_unit

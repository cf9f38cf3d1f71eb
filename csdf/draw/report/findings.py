"""What a report is about: results of analyses as they are, plain values where they are not ours."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

from csdf.analysis.throughput import Throughput
from csdf.model.graph import Graph
from csdf.search.pareto import ParetoFront, SmallestStorage


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """The first iterations of a self-timed execution in given capacities.

    starts: of the firings of each actor, in the graph's time units. transient, steady: iterations
    before the first state that recurs, and until it does; None where none was seen. cycle: time
    until it does.
    iterations: that were executed; end: time up to which every firing is listed, or, where no state
    recurred, at which the last of these iterations ends. graph: with the capacities of this run.
    """

    title: str
    graph: Graph
    repetitions: Mapping[str, int]
    starts: Mapping[str, tuple[int, ...]]
    iterations: int
    transient: int | None
    steady: int | None
    cycle: int | None
    end: int

    @property
    def period(self) -> Fraction | None:
        """Time of an iteration in the steady part, in the units of the user."""
        if self.cycle is None or self.steady is None:
            return None
        return Fraction(self.cycle, self.steady) * self.graph.time_unit

    @property
    def settled(self) -> int | None:
        """From when on every start is one of the steady part; None if that is not listed."""
        if self.transient is None or self.transient >= self.iterations:
            return None
        return max(
            self.starts[name][count * self.transient] for name, count in self.repetitions.items()
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class FasterActor:
    """What the graph would do if one actor took half its time. actors: those that limit it then."""

    actor: str
    period: Fraction
    actors: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphFindings:
    """What is known about a graph; None, or an entry of `left_out`, where something is not.

    period_bounds: lower and upper, where the period was not found in time. unit: of storage sizes;
    time: of the period. left_out: for a part of the page the reason why it is not there.
    """

    graph: Graph
    repetitions: Mapping[str, int]
    result: Throughput | None
    period_bounds: tuple[Fraction | None, Fraction | None] = (None, None)
    faster: tuple[FasterActor, ...] = ()
    smallest: SmallestStorage | None = None
    front: ParetoFront | None = None
    unit: str = "tokens"
    time: str = "time units"
    runs: tuple[Run, ...] = ()
    left_out: Mapping[str, str]

    @property
    def critical_actors(self) -> tuple[str, ...]:
        """The actors that limit the graph, or that block one another."""
        if self.result is None:
            return ()
        if self.result.deadlock is not None:
            return tuple(one.actor for one in self.result.deadlock.cycle)
        cycle = self.result.critical_cycle
        return () if cycle is None else cycle.actors

    @property
    def critical_channels(self) -> tuple[str, ...]:
        """The channels on that cycle; the space of a channel is named after it."""
        if self.result is None:
            return ()
        if self.result.deadlock is not None:
            return tuple(one.channel for one in self.result.deadlock.cycle)
        cycle = self.result.critical_cycle
        return () if cycle is None else cycle.channels


@dataclass(frozen=True, slots=True, kw_only=True)
class WayOfWork:
    """Memory and time of a network that works in one way. Bytes and nanoseconds.

    sequential: of a frame on one processor; pipelined: from frame to frame where every layer has its
    own. gap: of the buffers, above the smallest.
    """

    buffers: int
    parameters: int
    sequential: int
    pipelined: Fraction
    status: str
    gap: Fraction | None

    @property
    def total(self) -> int:
        """Bytes of buffers and parameters."""
        return self.buffers + self.parameters


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerFigures:
    """One layer. Bytes; buffers are those of its inputs; nanoseconds of a frame, by parts."""

    name: str
    operator: str
    output: str
    phases: int
    parameters: int
    multiply_accumulates: int
    output_bytes: int
    whole_buffers: int
    parts_buffers: int
    nanoseconds: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """A buffer in its place: steps of the schedule across, bytes up; `end` is the first without it."""

    name: str
    start: int
    end: int
    offset: int
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Arena:
    """Offsets for all buffers of a network in one block of bytes, and what is proved of them.

    order: the layer that fires in each step.
    """

    title: str
    boxes: tuple[Box, ...]
    order: tuple[str, ...]
    peak: int
    lower_bound: int
    status: str
    reason: str

    @property
    def gap(self) -> Fraction:
        """How far the peak may be above the smallest, as a part of the lower bound."""
        return Fraction(self.peak - self.lower_bound, max(self.lower_bound, 1))


class Way(NamedTuple):
    """A way to lay a network into memory, with its bytes."""

    title: str
    buffers: int
    parameters: int

    @property
    def total(self) -> int:
        """Bytes of buffers and parameters."""
        return self.buffers + self.parameters


class Mark(NamedTuple):
    """A line across all bars: an option, and the bytes at which it stands."""

    title: str
    place: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """What a network should fit. room: bytes left for buffers; below 0 where parameters are too many.

    title: in words. elsewhere: room for buffers if the parameters lay elsewhere. marks: on the bars.
    """

    title: str
    room: int
    elsewhere: int | None = None
    marks: tuple[Mark, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkFindings:
    """What is known about the memory of a network.

    ways: all that were found; least, least_whole: the one with the smallest buffers, and of those
    with whole layers. saving: the part of the memory that the least way saves over them.
    """

    name: str
    layers: tuple[LayerFigures, ...]
    whole: WayOfWork | None
    by_parts: WayOfWork | None
    arenas: tuple[Arena, ...] = ()
    ways: tuple[Way, ...] = ()
    least: Way | None = None
    least_whole: Way | None = None
    saving: Fraction = Fraction(0)
    limit: Limit | None = None
    left_out: Mapping[str, str]


class Source(NamedTuple):
    """A file that was read, with the SHA-256 of its bytes."""

    name: str
    size: int
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Where a page comes from. terms: further names and values, such as the size of an element."""

    command: str
    version: str
    sources: tuple[Source, ...]
    terms: tuple[tuple[str, str], ...] = ()

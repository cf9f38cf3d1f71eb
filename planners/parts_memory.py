"""Memory and speed of one network: layer by layer as a whole, against by parts.

Both ways with a buffer of its own for each input of each layer, as SAMOS 2020 counts, and beside it
with all buffers in one arena.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple

from cnn2csdf.fixed_point.flash import flash_bytes
from cnn2csdf.granularity import WHOLE, Granularity
from cnn2csdf.lowering import Durations, lower
from cnn2csdf.network import Network
from cnn2csdf.parameters import parameter_bytes
from csdf.analysis.bound_channels import with_capacities
from csdf.errors import GaveUp
from csdf.model.graph import Graph
from csdf.model.shown import Shown, with_floats
from csdf.outcome import Status, Why, because
from csdf.search.pareto import ParetoPoint, SmallestStorage
from csdf.search.trade_off import smallest_storage
from csdf.search.variables import SearchSpace
from csdf.time_limit import Budget, stop_of
from planners.arena.problem import MemoryPlan
from planners.memory_ways import (
    PARTS_APART,
    PARTS_ARENA,
    WHOLE_APART,
    WHOLE_ARENA,
    MemoryWay,
    least_way,
    reduction,
)
from planners.network_arena import (
    NetworkArena,
    parts_arena,
    parts_plan,
    whole_arena,
    whole_plan,
)
from planners.plan.plan import StreamingPlan


class MemoryWhy(Why):
    """Why the memory of a network is not known."""

    NO_BUFFERS = "no buffers for {network!r}: {end}"
    NO_PERIOD = "no period for the smallest buffers of {network!r}: {end}"


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkMemory(Shown):
    """The needs of a network that works in one way. Bytes, and time units of a frame.

    graph: with the capacities of the point. smallest: the search that found the point: its status,
    `optimal` or `feasible`, and its lower bound. sequential: time of a frame on one processor, where
    phases follow one another. pipelined: period of frames where each layer has a processor of its
    own and the buffers are these.
    """

    graph: Graph
    smallest: SmallestStorage
    point: ParetoPoint
    parameters: int
    sequential: int
    pipelined: Fraction

    @property
    def buffers(self) -> int:
        """Bytes of all buffers."""
        return self.point.size

    @property
    def status(self) -> Status:
        """Return what is proved of the buffers: `optimal`, or `feasible` with a gap."""
        return self.smallest.status

    @property
    def gap(self) -> Fraction | None:
        """How far the buffers may be above the smallest."""
        return self.smallest.gap

    @property
    def total(self) -> int:
        """Bytes of buffers and parameters."""
        return self.buffers + self.parameters

    @property
    def lower_bound(self) -> int:
        """Bytes that no such buffers are below."""
        return self.smallest.lower_bound

    @property
    def capacities(self) -> Mapping[str, int]:
        """Elements that each buffer holds, by channel."""
        return {
            channel.name: channel.capacity
            for channel in self.graph.channels
            if channel.capacity is not None
        }

    def to_json(self) -> dict[str, Any]:
        """Return the needs as a JSON value; the period as text."""
        return {
            "buffer_bytes": self.buffers,
            "parameter_bytes": self.parameters,
            "total_bytes": self.total,
            "status": str(self.status),
            "gap": None if self.gap is None else str(self.gap),
            "sequential_nanoseconds": self.sequential,
            "pipelined_nanoseconds": str(self.pipelined),
            "capacities": dict(self.capacities),
        }

    def row(self) -> dict[str, Any]:
        """Return the needs as an exact row, without the single buffers."""
        names = ("buffers", "parameters", "total", "status", "sequential", "pipelined")
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryComparison(Shown):
    """A network as a whole and by parts: the columns of Table III of SAMOS 2020, and arenas.

    whole, by_parts: each buffer apart, as the paper counts. whole_in_arena, parts_in_arena: offsets
    in one arena, of whole tensors and of the buffers by parts.
    """

    network: Network
    element_bytes: int | None
    whole: NetworkMemory
    by_parts: NetworkMemory
    whole_in_arena: NetworkArena
    parts_in_arena: NetworkArena

    @property
    def whole_arena(self) -> MemoryPlan:
        """Return the offsets of whole tensors."""
        return self.whole_in_arena.plan

    @property
    def parts_arena(self) -> MemoryPlan:
        """Return the offsets of the buffers by parts."""
        return self.parts_in_arena.plan

    def plan(self) -> StreamingPlan:
        """Return the smaller of the two arenas as a plan that can be checked, run and deployed.

        Of equal ones that of whole layers. Raises InvalidNetwork where parts are smaller, and the
        network has several inputs.
        """
        size = self.element_bytes
        if self.whole_arena.peak <= self.parts_arena.peak:
            return whole_plan(self.network, self.whole_in_arena, element_bytes=size)
        return parts_plan(self.network, self.parts_in_arena, element_bytes=size)

    @property
    def ways(self) -> tuple[MemoryWay, ...]:
        """All ways to lay the network into memory, each with its bytes."""
        parameters = self.parameters
        return (
            way_apart(WHOLE_APART, self.whole),
            way_in_arena(WHOLE_ARENA, self.whole_arena, parameters),
            way_apart(PARTS_APART, self.by_parts),
            way_in_arena(PARTS_ARENA, self.parts_arena, parameters),
        )

    @property
    def least(self) -> MemoryWay:
        """The way with the smallest buffers."""
        return least_way(self.ways)

    @property
    def reduction(self) -> Fraction:
        """The part of the memory that parts save over the least way of whole layers; 0 if none."""
        return reduction(self.ways)

    @property
    def slowdown(self) -> Fraction:
        """The part of the throughput that is lost on one processor."""
        return 1 - Fraction(self.whole.sequential, self.by_parts.sequential)

    @property
    def parameters(self) -> int:
        """Bytes of trained parameters."""
        return self.whole.parameters

    @property
    def flash_bytes(self) -> int:
        """Bytes of the parameters in flash, as C stores them with what rescales integers."""
        return flash_bytes(self.network, self.element_bytes)

    def to_json(self) -> dict[str, Any]:
        """Return all ways and what parts change, as a JSON value; fractions as texts."""
        parameters = self.parameters
        return {
            "flash_bytes": self.flash_bytes,
            "whole": self.whole.to_json(),
            "whole_arena": _arena_as_json(self.whole_arena, parameters),
            "by_parts": self.by_parts.to_json(),
            "by_parts_arena": _arena_as_json(self.parts_arena, parameters),
            "least": {
                "way": self.least.title,
                "buffer_bytes": self.least.buffers,
                "total_bytes": self.least.total,
            },
            "reduction": str(self.reduction),
            "throughput_decrease": str(self.slowdown),
        }

    def rows(self) -> list[dict[str, Any]]:
        """Return an exact row for each way; an arena takes as long as its layers."""
        found = []
        for way, arena, memory in zip(
            self.ways,
            (None, self.whole_arena, None, self.parts_arena),
            (self.whole, self.whole, self.by_parts, self.by_parts),
            strict=True,
        ):
            size = {"buffers": way.buffers, "total": way.total}
            status = memory.status if arena is None else arena.status
            found.append({"way": way.title, **memory.row(), **size, "status": status})
        return found

    def to_records(self) -> list[dict[str, Any]]:
        """Return a row for each way, as for a data frame: floats, and exact texts beside them."""
        return with_floats(self.rows(), "pipelined")


def way_apart(title: str, memory: NetworkMemory) -> MemoryWay:
    """Return buffers that each have bytes of their own as a way."""
    return MemoryWay(title, memory.buffers, memory.lower_bound, memory.parameters)


def way_in_arena(title: str, plan: MemoryPlan, parameters: int) -> MemoryWay:
    """Return an arena as a way; parameters: bytes beside it."""
    return MemoryWay(title, plan.peak, plan.lower_bound, parameters)


def _arena_as_json(plan: MemoryPlan, parameters: int) -> dict[str, Any]:
    return {
        "buffer_bytes": plan.peak,
        "parameter_bytes": parameters,
        "total_bytes": plan.peak + parameters,
        "lower_bound_bytes": plan.lower_bound,
        "status": str(plan.status),
    }


def network_memory(
    network: Network,
    granularity: Granularity,
    durations: Durations | None = None,
    *,
    element_bytes: int | None = None,
    budget: Budget = None,
) -> NetworkMemory:
    """Return what the network needs with the smallest buffers that let it run at all.

    A buffer for each input of each layer; windows keep the rows they share in it. durations: by
    default a time unit a phase. element_bytes: of each element and parameter; by default those of
    the file. Raises GaveUp if `budget` ended the search before any buffers.
    """
    graph = lower(network, granularity, durations=durations, element_bytes=element_bytes)
    found = smallest_storage(graph, SearchSpace(unit="bytes"), budget=budget)
    if found.point is None:
        raise GaveUp(because(MemoryWhy.NO_BUFFERS, network=network.name, end=found.reason))
    if found.point.period is None:
        raise GaveUp(because(MemoryWhy.NO_PERIOD, network=network.name, end=found.reason))
    return NetworkMemory(
        graph=with_capacities(graph, found.point.capacities),
        smallest=found,
        point=found.point,
        pipelined=found.point.period,
        parameters=parameter_bytes(network, element_bytes),
        sequential=sum(sum(actor.durations) for actor in graph.actors),
    )


class MemoryApart(NamedTuple):
    """A network as a whole and by parts, each buffer with bytes of its own."""

    whole: NetworkMemory
    by_parts: NetworkMemory


def memory_apart(
    network: Network,
    granularity: Granularity,
    durations: Callable[[Granularity], Durations | None] = lambda _: None,
    *,
    element_bytes: int | None = None,
    budget: Budget = None,
) -> MemoryApart:
    """Return the network by whole layers, and at the given granularity, each buffer apart.

    Raises GaveUp if `budget` ended a search before any buffers.
    """
    stop = stop_of(budget)
    whole, parts = (
        network_memory(network, chosen, durations(chosen), element_bytes=element_bytes, budget=stop)
        for chosen in (WHOLE, granularity)
    )
    return MemoryApart(whole, parts)


def memory_comparison(
    network: Network,
    granularity: Granularity,
    durations: Callable[[Granularity], Durations | None] = lambda _: None,
    *,
    element_bytes: int | None = None,
    budget: Budget = None,
) -> MemoryComparison:
    """Return the network by whole layers, and at the given granularity.

    budget: a stop, or seconds, for the searches for buffers and for offsets together; it ends a search
    with what it has found. Raises GaveUp where that is nothing.
    """
    stop = stop_of(budget)
    apart = memory_apart(network, granularity, durations, element_bytes=element_bytes, budget=stop)
    return MemoryComparison(
        network=network,
        element_bytes=element_bytes,
        whole=apart.whole,
        by_parts=apart.by_parts,
        whole_in_arena=whole_arena(network, element_bytes=element_bytes, budget=stop),
        parts_in_arena=parts_arena(network, granularity, element_bytes=element_bytes, budget=stop),
    )

"""Memory and speed of one network: layer by layer as a whole, against by parts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from cnn2csdf.granularity import WHOLE, Granularity
from cnn2csdf.lowering import Durations, lower
from cnn2csdf.network import Network
from cnn2csdf.parameters import layer_parameters
from csdf.analysis.bounded import with_capacities
from csdf.errors import GaveUp
from csdf.model.graph import Graph
from csdf.model.shown import Shown
from csdf.search.pareto import ParetoPoint, SmallestStorage
from csdf.search.trade_off import Progress, smallest_storage
from csdf.search.variables import Choice


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkMemory(Shown):
    """What a network needs when it works in one way. Bytes, and time units of a frame.

    graph: with the capacities of the point. smallest: the search that found the point: its status,
    `optimal` or `feasible`, and its lower bound. sequential: time of a frame on one processor, where
    phases follow one another.
    """

    graph: Graph
    smallest: SmallestStorage
    point: ParetoPoint
    parameters: int
    sequential: int

    @property
    def buffers(self) -> int:
        """Bytes of all buffers."""
        return self.point.size

    @property
    def pipelined(self) -> Fraction:
        """Period of frames where each layer has a processor of its own and the buffers are these."""
        return self.point.period

    @property
    def status(self) -> str:
        """What is proved of the buffers: `optimal`, or `feasible` with a gap."""
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
            "status": self.status,
            "gap": None if self.gap is None else str(self.gap),
            "sequential_nanoseconds": self.sequential,
            "pipelined_nanoseconds": str(self.pipelined),
            "capacities": dict(self.capacities),
        }

    def to_record(self) -> dict[str, Any]:
        """Return the needs as a row, without the single buffers."""
        names = ("buffers", "parameters", "total", "status", "sequential", "pipelined")
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryComparison(Shown):
    """A network as a whole and by parts: the columns of Table III of SAMOS 2020."""

    whole: NetworkMemory
    by_parts: NetworkMemory

    @property
    def reduction(self) -> Fraction:
        """The part of the memory that is saved."""
        return 1 - Fraction(self.by_parts.total, self.whole.total)

    @property
    def slowdown(self) -> Fraction:
        """The part of the throughput that is lost on one processor."""
        return 1 - Fraction(self.whole.sequential, self.by_parts.sequential)

    def to_json(self) -> dict[str, Any]:
        """Return both ways and what the second changes, as a JSON value; fractions as texts."""
        return {
            "whole": self.whole.to_json(),
            "by_parts": self.by_parts.to_json(),
            "reduction": str(self.reduction),
            "throughput_decrease": str(self.slowdown),
        }

    def to_records(self) -> list[dict[str, Any]]:
        """Return a row for each way, as for a data frame."""
        ways = {"whole": self.whole, "by parts": self.by_parts}
        return [{"way": name, **memory.to_record()} for name, memory in ways.items()]


def network_memory(
    network: Network,
    granularity: Granularity,
    durations: Durations | None = None,
    *,
    element_bytes: int = 4,
    watch: Callable[[Progress], None] = lambda _: None,
) -> NetworkMemory:
    """Return what the network needs with the smallest buffers that let it run at all.

    A buffer for each input of each layer; windows keep the rows they share in it. durations: by
    default a time unit a phase. Raises GaveUp if `watch` ended the search before any buffers.
    """
    graph = lower(network, granularity, durations=durations, element_bytes=element_bytes)
    found = smallest_storage(graph, Choice(unit="bytes"), watch=watch)
    if found.point is None:
        raise GaveUp(f"no buffers for {network.name!r}: {found.reason}")
    return NetworkMemory(
        graph=with_capacities(graph, found.point.capacities),
        smallest=found,
        point=found.point,
        parameters=sum(layer_parameters(network).values()) * element_bytes,
        sequential=sum(sum(actor.durations) for actor in graph.actors),
    )


def memory_comparison(
    network: Network,
    granularity: Granularity,
    durations: Callable[[Granularity], Durations | None] = lambda _: None,
    *,
    element_bytes: int = 4,
    watch: Callable[[Progress], None] = lambda _: None,
) -> MemoryComparison:
    """Return the network by whole layers, and at the given granularity."""
    whole, parts = (
        network_memory(network, chosen, durations(chosen), element_bytes=element_bytes, watch=watch)
        for chosen in (WHOLE, granularity)
    )
    return MemoryComparison(whole=whole, by_parts=parts)

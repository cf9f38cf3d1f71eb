"""The accounting of SAMOS 2020: the smallest separate buffers with which a network's graph runs at all.

Source: Minakova and Stefanov, Buffer Sizes Reduction for Memory-efficient CNN Inference, SAMOS 2020.
`network_memory` has a buffer for each input of each layer; windows keep the rows that they share in it.
`published_memory` counts as Table III does, which the text does not say in full: it was found from the
fourteen printed sizes, and it reproduces all fourteen.

    networks    unfused: activations and normalisations are layers; biases belong to their layer,
                dropout and reshapes are no layers (PUBLISHED_STEPS)
    buffers     one for each edge
    overlaps    the rows that windows share, once more, in a self-loop
    joins       additions and concatenations read row by row and write all with their last phase
    scratch     two tensors of each local response normalisation
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar

from cnn2csdf.geometry import Overlap
from cnn2csdf.granularity import Granularity
from cnn2csdf.lowering import Durations, lower
from cnn2csdf.network import Network
from cnn2csdf.parameters import ElementSizes, parameter_bytes
from csdf.analysis.bound_channels import with_capacities
from csdf.arguments import Positive, public
from csdf.errors import GaveUp
from csdf.model.graph import Graph
from csdf.model.shown import Shown
from csdf.search.pareto import SmallestStorage
from csdf.search.trade_off import smallest_storage
from csdf.search.variables import SearchSpace
from csdf.status import Status, Why, because
from csdf.time_limit import Budget

PUBLISHED_STEPS = ("eliminate-nop", "fuse-bias")  # rewrites, after which a network is as counted


class MemoryWhy(Why):
    """Why the memory of a network is not known."""

    NO_BUFFERS = "no buffers for {network!r}: {end}"
    NO_PERIOD = "the period of {network!r} with its smallest buffers takes too long to compute"


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkMemory(Shown):
    """The smallest buffers of a network. Bytes, and time units of a frame.

    graph: with these buffers as capacities. smallest: the search that found them: status, lower bound.
    sequential: time of a frame on one processor. pipelined: period of frames where each layer has a
    processor of its own, with these buffers.
    """

    graph: Graph
    smallest: SmallestStorage
    buffers: int
    parameters: int
    sequential: int
    pipelined: Fraction

    @property
    def status(self) -> Status:
        """Return what is proved of the buffers: `optimal`, or `feasible` with a gap."""
        return self.smallest.status

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
        period = {"pipelined": str(self.pipelined), "status": str(self.status)}
        return {**self.row(), **period, "capacities": dict(self.capacities)}

    def row(self) -> dict[str, Any]:
        """Return the needs as an exact row, without the single buffers."""
        names = ("buffers", "parameters", "total", "status", "sequential", "pipelined")
        return {name: getattr(self, name) for name in names}


@public
def network_memory(
    network: Network,
    granularity: Granularity,
    durations: Durations | None = None,
    *,
    element_bytes: Positive | None = None,
    budget: Budget = None,
) -> NetworkMemory:
    """Return what the network needs with the smallest buffers that let it run at all.

    durations: by default a time unit a phase. element_bytes: of each element and parameter; by default
    those of the file. Raises GaveUp if `budget` ended the search before any buffers, or if the period
    with the smallest buffers takes too long to compute.
    """
    graph = lower(network, granularity, durations=durations, element_bytes=element_bytes)
    storage = smallest_storage(graph, SearchSpace(unit="bytes"), budget=budget)
    if storage.point is None:
        raise GaveUp(because(MemoryWhy.NO_BUFFERS, network=network.name, end=storage.reason))
    if storage.point.period is None:
        raise GaveUp(because(MemoryWhy.NO_PERIOD, network=network.name))
    return NetworkMemory(
        graph=with_capacities(graph, storage.point.capacities),
        smallest=storage,
        buffers=storage.point.size,
        pipelined=storage.point.period,
        parameters=parameter_bytes(network, element_bytes),
        sequential=sum(sum(actor.durations) for actor in graph.actors),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedMemory(Shown):
    """The memory of a network in the accounting of Table III; bytes, and time units of a frame.

    overlaps: of the self-loops. scratch: of local response normalisations. sequential: time of a frame
    on one processor. phases: that start in a frame.
    """

    JSON: ClassVar[tuple[str, ...]] = (
        *("buffer_bytes=buffers", "overlap_bytes=overlaps", "scratch_bytes=scratch"),
        *("total_bytes=total", "phases", "nanoseconds=sequential", "status"),
    )

    buffers: int
    overlaps: int
    scratch: int
    parameters: int
    sequential: int
    phases: int
    status: Status

    @property
    def total(self) -> int:
        """All of it."""
        return self.buffers + self.overlaps + self.scratch + self.parameters


def published_memory(
    network: Network,
    granularity: Granularity,
    durations: Durations | None = None,
    *,
    element_bytes: int | None = None,
    budget: Budget = None,
) -> PublishedMemory:
    """Return what a network, rewritten by PUBLISHED_STEPS, needs in the accounting of Table III.

    durations: in nanoseconds; by default a time unit a phase. element_bytes: as in `network_memory`;
    the paper has four. Raises GaveUp if `budget` ended the search before any buffers.
    """
    waiting = replace(granularity, joins_wait=True)
    graph = lower(
        network,
        waiting,
        durations=durations,
        overlap=Overlap.SELF_LOOP,
        element_bytes=element_bytes,
    )
    storage = smallest_storage(graph, SearchSpace(unit="bytes"), budget=budget)
    if storage.point is None:
        raise GaveUp(because(MemoryWhy.NO_BUFFERS, network=network.name, end=storage.reason))
    overlaps = (
        max(channel.production) * channel.token_size
        for channel in graph.channels
        if channel.is_self_loop
        and channel.token_size is not None  # an actor's own loop has no size
    )
    sizes = ElementSizes(network, element_bytes)
    normalised = (layer for layer in network.layers if layer.operator.normalizes_responses)
    return PublishedMemory(
        buffers=storage.point.size,
        overlaps=sum(overlaps),
        scratch=sum(2 * layer.shape.elements * sizes.of(layer.name) for layer in normalised),
        parameters=parameter_bytes(network, element_bytes),
        sequential=sum(sum(actor.durations) for actor in graph.actors),
        phases=sum(actor.phases for actor in graph.actors),
        status=storage.status,
    )

"""Algorithm 10: the memory and the throughput of a chromosome.

A chromosome has a gene for each layer: the rows of a part, or WHOLE where the layer is executed whole
(the published genes are 1 and WHOLE). From it follow the phases of the layers, the smallest buffer of
each edge with which the graph can run, the schedule of each partition, and the buffers that edges
share. The rows that neighbouring windows have in common stay in the buffer of the edge: there is no
self-loop buffer in addition to it, as in the published example.

Time: the firings of a partition run in sequence and take the times of the platform. Pipelined
partitions run at the same time on different frames, so the longest time counts; the times of other
partitions add up.
Source: Minakova and Stefanov, TODAES 28(1), 2022, Algorithm 10 of the thesis.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from itertools import permutations
from typing import Any

from cnn2csdf.fixed_point.flash import flash_bytes
from cnn2csdf.parameters import parameter_bytes
from cnn2csdf.platforms import NANOSECONDS, PLATFORMS, USUAL_PLATFORM, Platform
from csdf.errors import InvalidNetwork, InvalidPlan
from planners.reuse.application import Application, Chromosome
from planners.reuse.edge_buffers import (
    EdgeBuffer,
    Residents,
    SharedBuffer,
    edge_buffers,
    elements_of,
    partition_groups,
    shared_buffers,
)
from planners.reuse.partition import PartitionModel, PartitionState, PhaseTimes, layer_times

Share = Callable[[Sequence[int], Sequence[int]], list[SharedBuffer]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """Bytes of an element of a tensor and of a trained parameter, and the times of layers.

    element_bytes: of the smallest element; larger elements of an application have as many times more
    as in its files. parameter_bytes: None: as in the files. measured: times of the phases of networks;
    they replace the times of the platform.
    """

    element_bytes: int = 4
    parameter_bytes: int | None = 4
    platform: Platform = PLATFORMS[USUAL_PLATFORM]
    measured: Mapping[str, PhaseTimes] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        if min(self.element_bytes, self.parameter_bytes or 1) < 1:
            raise InvalidPlan(
                f"an element of {self.element_bytes} bytes and a parameter of "
                f"{self.parameter_bytes}; expected at least 1"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class ReusePlan:
    """The buffers, schedules and lifetimes of a chromosome. Sizes in elements.

    rows: of a part, for each layer of each partition. capacities: of each edge buffer. spans: for
    each stay of each edge buffer its first and last step in that partition. orders: for each
    partition the number of the layer of every step. shared: the whole buffers. live_load: maximum in
    use at a step; no plan with these capacities and lifetimes is smaller.
    """

    edges: tuple[EdgeBuffer, ...]
    rows: tuple[tuple[int, ...], ...]
    capacities: tuple[int, ...]
    spans: tuple[tuple[tuple[int, int], ...], ...]
    orders: tuple[tuple[int, ...], ...]
    shared: tuple[SharedBuffer, ...]
    live_load: int

    @property
    def elements(self) -> int:
        """Elements of all shared buffers."""
        return elements_of(self.shared)


class Evaluator:
    """Evaluator of the chromosomes of an application.

    edges: the edge buffers. models: of the partitions, in their order. gene_places: for each partition,
    the positions of its genes in a chromosome. groups: index of the parallel set of each partition, or
    None. units: sets of partitions that run at the same time; a partition without a parallel set is a
    unit of its own. parallel: for each edge buffer, as bits, the buffers in use in partitions that run
    in parallel to its partitions. weights: bytes of all parameters.
    """

    def __init__(
        self,
        application: Application,
        costs: Costs | None = None,
        *,
        share: Share = shared_buffers,
    ) -> None:
        """Prepare the evaluation; share: how edges share whole buffers, by default Algorithm 8."""
        self.application = application
        self.costs = costs or Costs()
        self._share = share
        self.edges = edge_buffers(application)
        self.groups = partition_groups(application)
        units: dict[object, list[int]] = {}
        for number, group in enumerate(self.groups):
            units.setdefault(("alone", number) if group is None else group, []).append(number)
        self.units = list(units.values())
        size = self.costs.element_bytes if application.has_one_size else None
        times = [
            layer_times(
                member.network, self.costs.platform, size, self.costs.measured.get(member.name)
            )
            for member in application.members
        ]
        residents: list[Residents] = [{} for _ in self.groups]
        for edge_number, edge in enumerate(self.edges):
            for stay in edge.stays:
                residents[stay.partition][edge_number] = (edge, stay)
        self.models = [
            PartitionModel(
                application.members[member].network,
                partition,
                application.unit,
                times[member],
                residents[number],
            )
            for number, (member, partition) in enumerate(application.partitions)
        ]
        self._owners = [member for member, _ in application.partitions]
        gene = {layer: number for number, layer in enumerate(application.layers)}
        self._length = len(gene)
        self.gene_places = [
            [gene[application.members[member].name, layer] for layer in partition.layers]
            for member, partition in application.partitions
        ]
        masks = [sum(1 << number for number in numbers) for numbers in residents]
        self.parallel = [0] * len(self.edges)
        for first, second in permutations(range(len(residents)), 2):
            if self.groups[first] is not None and self.groups[first] == self.groups[second]:
                for edge_number in residents[first]:
                    self.parallel[edge_number] |= masks[second]
        self.weights = sum(
            parameter_bytes(member.network, self.costs.parameter_bytes)
            for member in application.members
        )

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the application and the costs only; derived tables are computed again."""
        return partial(Evaluator, share=self._share), (self.application, self.costs)

    @property
    def flash_bytes(self) -> int:
        """Bytes of the weights in flash, as C stores them, with requantisation data."""
        core = self.costs.platform.core_name
        return sum(
            flash_bytes(member.network, self.costs.parameter_bytes, core)
            for member in self.application.members
        )

    def evaluate(self, genes: Chromosome) -> tuple[int, *tuple[Fraction, ...]]:
        """Return the objectives of a chromosome: memory, then the period of each network.

        Memory: bytes of whole buffers and weights. Period: seconds from frame to frame of a network
        while it runs.
        """
        states = self._states(genes)
        _, shared = self._buffers(states)
        memory = self.weights + self.costs.element_bytes * elements_of(shared)
        return memory, *self._periods(states)

    def buffers(
        self, genes: Chromosome, *, member: int | None = None, share: Share | None = None
    ) -> tuple[list[int], list[SharedBuffer]]:
        """Return the elements of each edge buffer, and the whole buffers that the edges share.

        member: as if this network were alone; the edges of other networks have no elements then, and
        their genes no effect.
        """
        return self._buffers(self._states(genes, member), share)

    def live_bytes(self, member: int, genes: Chromosome) -> int:
        """Return the live bytes of one network in its worst step; no offsets need less."""
        loads = [0] * len(self.groups)
        for number, state in self._states(genes, member).items():
            loads[number] = state.load(self._sizes({number: state}))
        return self.costs.element_bytes * self.together(loads)

    def plan(self, genes: Chromosome) -> ReusePlan:
        """Return the buffers, schedules and lifetimes of a chromosome."""
        states = self._states(genes)
        sizes, shared = self._buffers(states)
        return ReusePlan(
            edges=self.edges,
            rows=tuple(state.rows for state in states.values()),
            capacities=tuple(sizes),
            spans=tuple(
                tuple(states[stay.partition].spans[number] for stay in edge.stays)
                for number, edge in enumerate(self.edges)
            ),
            orders=tuple(self.models[number].order(state) for number, state in states.items()),
            shared=tuple(shared),
            live_load=self.together([state.load(sizes) for state in states.values()]),
        )

    def bytes_of_element(self, edge: EdgeBuffer) -> int:
        """Return the bytes of an element of an edge, at the costs."""
        layer = self.application.members[edge.member].network.layer(edge.connection.producer)
        return layer.element_bytes // self.application.unit * self.costs.element_bytes

    def together(self, amounts: Sequence[int]) -> int:
        """Return the largest amount of a partition; amounts of parallel partitions are added up."""
        return max((sum(amounts[number] for number in unit) for unit in self.units), default=0)

    def _states(self, genes: Chromosome, member: int | None = None) -> dict[int, PartitionState]:
        """The partitions of all networks, or of one, by number."""
        if len(genes) != self._length:
            raise InvalidNetwork(
                f"{len(genes)} genes for application {self.application.name!r}; "
                f"expected one for each of its {self._length} layers"
            )
        return {
            number: model.state(tuple([genes[place] for place in self.gene_places[number]]))
            for number, model in enumerate(self.models)
            if member is None or member == self._owners[number]
        }

    def _sizes(self, states: Mapping[int, PartitionState]) -> list[int]:
        """Elements of each edge buffer; cut edges, and edges of other partitions, are whole."""
        sizes = [edge.elements for edge in self.edges]
        for state in states.values():
            for number, size in state.sizes.items():
                sizes[number] = size
        return sizes

    def _buffers(
        self, states: Mapping[int, PartitionState], share: Share | None = None
    ) -> tuple[list[int], list[SharedBuffer]]:
        """Elements of each edge buffer, and the whole buffers; edges out of use have no elements."""
        sizes = self._sizes(states)
        if len(states) < len(self.models):
            in_use = {number for state in states.values() for number in state.spans}
            sizes = [size if number in in_use else 0 for number, size in enumerate(sizes)]
        conflicts = list(self.parallel)
        for state in states.values():
            for number, mask in state.conflicts.items():
                conflicts[number] |= mask
        return sizes, (share or self._share)(sizes, conflicts)

    def _periods(self, states: Mapping[int, PartitionState]) -> tuple[Fraction, ...]:
        """Seconds of a frame of each network: its slowest partition of each unit, summed over units."""
        nanoseconds = [0] * len(self.application.members)
        for unit in self.units:
            longest: dict[int, int] = {}  # by network
            for number in unit:
                member, time = self._owners[number], states[number].nanoseconds
                longest[member] = max(longest.get(member, 0), time)
            for member, time in longest.items():
                nanoseconds[member] += time
        return tuple(Fraction(time, NANOSECONDS) for time in nanoseconds)

"""Algorithm 10: what a choice of parts costs in memory and in throughput.

A chromosome has a gene for each layer: the rows of a part, or None where the layer works as a whole
(the published genes are 1 and None). From it follow the phases of the layers, the smallest buffer of
each edge with which the graph can run, the schedule of each partition, and the buffers that edges
share. The rows that neighbouring windows have in common stay in the buffer of the edge: there is no
self-loop buffer beside it, as in the published worked example.

Time: a partition carries out its firings one after another, as long as the platform says; partitions
that are pipelined work on different frames at the same time, so the longest decides; others add up.
Source: Minakova and Stefanov, TODAES 28(1), 2022, Algorithm 10 of the thesis.

An application under the methodologies that the published evaluation compares.

Source: Minakova and Stefanov, TODAES 28(1), 2022, Table 6.6 of the thesis.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from fractions import Fraction
from typing import NamedTuple

from cnn2csdf.fixed_point.flash import flash_bytes
from cnn2csdf.parameters import parameter_bytes
from cnn2csdf.platforms import NANOSECONDS, PLATFORMS, USUAL_PLATFORM, Platform
from csdf.errors import InvalidNetwork, InvalidPlan
from planners.reuse.application.application import Application, Genes, without_parallelism
from planners.reuse.edge_buffers import (
    EdgeBuffer,
    Residents,
    SharedBuffer,
    edge_buffers,
    partition_groups,
    shared_buffers,
)
from planners.reuse.partition.evaluated_partition import (
    EvaluatedPartition,
    LayerTimes,
    PartitionState,
    PhaseTimes,
)
from planners.reuse.partition.partition_model import Found, remember

MOST_EVALUATIONS = 50_000  # to remember

Share = Callable[[Sequence[int], Sequence[int]], list[SharedBuffer]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """Bytes of an element of a tensor and of a trained parameter, and the processors.

    element_bytes: of the smallest element; where an application has several types, the others have
    as many times more as in its files. parameter_bytes: None for those of the files. measured: for
    each network whose phases were measured, what they take; the platform says it for the others.
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
class Evaluation:
    """The costs of a chromosome.

    buffers, weights: bytes. periods: seconds from frame to frame of each network, in the order of
    the application, while it runs. extra_phases: phases beyond one a layer, the published measure of
    lost time.
    """

    buffers: int
    weights: int
    periods: tuple[Fraction, ...]
    extra_phases: int

    @property
    def memory(self) -> int:
        """Bytes of buffers and weights."""
        return self.buffers + self.weights


@dataclass(frozen=True, slots=True, kw_only=True)
class ReusePlan:
    """All of a chromosome: buffers, schedules and lifetimes. Sizes in elements.

    rows: of a part, for each layer of each partition. capacities: of each edge buffer. spans: for
    each stay of each edge buffer its first and last step in that partition. orders: for each
    partition the layer of every step, by its number. least: no capacities with which these parts can
    run have a smaller sum. live_load: what is in use together at most; no plan with these capacities
    and lifetimes is smaller.
    """

    edges: tuple[EdgeBuffer, ...]
    rows: tuple[tuple[int, ...], ...]
    capacities: tuple[int, ...]
    spans: tuple[tuple[tuple[int, int], ...], ...]
    orders: tuple[tuple[int, ...], ...]
    shared: tuple[SharedBuffer, ...]
    least: int
    live_load: int

    @property
    def elements(self) -> int:
        """Elements of all shared buffers."""
        return sum(buffer.size for buffer in self.shared)

    @property
    def unshared_elements(self) -> int:
        """Elements where every edge has a buffer of its own."""
        return sum(self.capacities)


class Buffers(NamedTuple):
    """Elements of each edge buffer, and the whole buffers that the edges share."""

    sizes: list[int]
    shared: list[SharedBuffer]


class Evaluator:
    """An application whose chromosomes are evaluated, each once: `count` says how many were.

    share: how edges share whole buffers; by default Algorithm 8. An evaluation is remembered until
    MOST_EVALUATIONS others came after it.
    """

    def __init__(
        self,
        application: Application,
        costs: Costs | None = None,
        *,
        share: Share = shared_buffers,
    ) -> None:
        self.application = application
        self.costs = costs or Costs()
        self._share = share
        self.edges = edge_buffers(application)
        self.groups = partition_groups(application)
        self.count = 0
        self._known: dict[Genes, Evaluation] = {}
        self.residents = _residents(self.edges, len(self.groups))
        self._partitions = _evaluated_partitions(application, self.residents, self.costs)
        self.models = [partition.model for partition in self._partitions]
        self._places = _gene_places(application)
        self._length = len(application.layers)
        self.parallel = _parallel_conflicts(self.edges, self.groups)
        self.weights = sum(
            parameter_bytes(member.network, self.costs.parameter_bytes)
            for member in application.members
        )

    @property
    def flash_bytes(self) -> int:
        """Bytes of the weights in flash, as C stores them with what rescales integers."""
        return sum(
            flash_bytes(member.network, self.costs.parameter_bytes)
            for member in self.application.members
        )

    def sharing(self, share: Share) -> Evaluator:
        """Return an evaluator of the same application, whose edges share buffers in another way."""
        other = copy(self)
        other._share, other._known, other.count = share, {}, 0
        return other

    def evaluate(self, genes: Genes) -> Evaluation:
        """Return what a chromosome costs."""
        known = self._known.get(genes)
        if known is None:
            self.count += 1
            known = self._new_evaluation(genes)
            remember(self._known, genes, known, MOST_EVALUATIONS)
        return known

    def learnt(self) -> list[tuple[int, list[Found]]]:
        """Return what was worked out since the last call, by partition, for `learn` elsewhere."""
        found = [(number, model.learnt()) for number, model in enumerate(self.models)]
        return [(number, some) for number, some in found if some]

    def learn(self, learnt: Sequence[tuple[int, Sequence[Found]]]) -> None:
        """Remember what an evaluator of the same application has worked out; no answer changes."""
        for number, found in learnt:
            self.models[number].learn(found)

    def alone(self, member: int, genes: Genes) -> int:
        """Return the bytes of the buffers of one network, as if the others were not there.

        genes: of all layers; those of the other networks have no effect. Nothing is remembered but the
        states of the partitions.
        """
        return self.costs.element_bytes * sum(
            buffer.size for buffer in self.buffers_alone(member, genes).shared
        )

    def buffers_alone(self, member: int, genes: Genes) -> Buffers:
        """Return the buffers of one network; the edges of the others have no elements."""
        states = self._states_of(member, genes)
        sizes, conflicts = [0] * len(self.edges), list(self.parallel)
        for number, state in states.items():
            for edge, (buffer, _) in self.residents[number].items():
                sizes[edge] = state.sizes.get(edge, buffer.elements)
            for edge, mask in state.conflicts.items():
                conflicts[edge] |= mask
        return Buffers(sizes, self._share(sizes, conflicts))

    def buffers(self, genes: Genes) -> Buffers:
        """Return the buffers of a chromosome."""
        states = self._states(genes)
        sizes = self._sizes(states)
        return Buffers(sizes, self._share(sizes, self._conflicts(states)))

    def in_use(self, member: int, genes: Genes) -> int:
        """Return the bytes that one network has in use together; no offsets need less."""
        loads = [0] * len(self.groups)
        for number, state in self._states_of(member, genes).items():
            loads[number] = state.load(self._sizes([state]))
        return self.costs.element_bytes * self.together(loads)

    def _states_of(self, member: int, genes: Genes) -> dict[int, PartitionState]:
        """The partitions of one network, by number."""
        return {
            number: self._partitions[number].state(
                tuple([genes[place] for place in self._places[number]])
            )
            for number, (owner, _) in enumerate(self.application.partitions)
            if owner == member
        }

    def plan(self, genes: Genes) -> ReusePlan:
        """Return the buffers, schedules and lifetimes of a chromosome."""
        states = self._states(genes)
        sizes = self._sizes(states)
        return ReusePlan(
            edges=self.edges,
            rows=tuple(state.rows for state in states),
            capacities=tuple(sizes),
            spans=tuple(
                tuple(states[stay.partition].spans[number] for stay in edge.stays)
                for number, edge in enumerate(self.edges)
            ),
            orders=tuple(
                tuple(partition.order(state))
                for partition, state in zip(self._partitions, states, strict=True)
            ),
            shared=tuple(self._share(sizes, self._conflicts(states))),
            least=sum(edge.elements for edge in self.edges if edge.inner is None)
            + sum(state.lower_bound for state in states),
            live_load=self.together([state.load(sizes) for state in states]),
        )

    def together(self, amounts: Sequence[int]) -> int:
        """Return the largest amount of a partition, those that run in parallel added up."""
        sums = [0] * len(self.application.parallel)
        alone = [0]
        for amount, group in zip(amounts, self.groups, strict=True):
            if group is None:
                alone.append(amount)
            else:
                sums[group] += amount
        return max(alone + sums)

    def _states(self, genes: Genes) -> list[PartitionState]:
        if len(genes) != self._length:
            raise InvalidNetwork(
                f"{len(genes)} genes for application {self.application.name!r}; "
                f"expected one for each of its {self._length} layers"
            )
        return [
            partition.state(tuple([genes[place] for place in places]))
            for partition, places in zip(self._partitions, self._places, strict=True)
        ]

    def _new_evaluation(self, genes: Genes) -> Evaluation:
        states = self._states(genes)
        shared = self._share(self._sizes(states), self._conflicts(states))
        return Evaluation(
            buffers=self.costs.element_bytes * sum(buffer.size for buffer in shared),
            weights=self.weights,
            periods=self._periods(states),
            extra_phases=sum(state.extra_phases for state in states),
        )

    def _sizes(self, states: Sequence[PartitionState]) -> list[int]:
        """Elements of each edge buffer; those of cut edges are whole."""
        sizes = [edge.elements for edge in self.edges]
        for state in states:
            for number, size in state.sizes.items():
                sizes[number] = size
        return sizes

    def _conflicts(self, states: Sequence[PartitionState]) -> list[int]:
        conflicts = list(self.parallel)
        for state in states:
            for number, mask in state.conflicts.items():
                conflicts[number] |= mask
        return conflicts

    def _periods(self, states: Sequence[PartitionState]) -> tuple[Fraction, ...]:
        """Partitions of a network that run in parallel overlap; the others follow one another."""
        periods = []
        place = 0
        for member in self.application.members:
            alone = 0
            longest: dict[int, int] = {}
            for _ in member.partitions:
                time, group = states[place].nanoseconds, self.groups[place]
                if group is None:
                    alone += time
                else:
                    longest[group] = max(longest.get(group, 0), time)
                place += 1
            periods.append(Fraction(alone + sum(longest.values()), NANOSECONDS))
        return tuple(periods)


def _residents(edges: Sequence[EdgeBuffer], partitions: int) -> list[Residents]:
    """For each partition the edge buffers that are in use in it, by number."""
    residents: list[Residents] = [{} for _ in range(partitions)]
    for number, edge in enumerate(edges):
        for stay in edge.stays:
            residents[stay.partition][number] = (edge, stay)
    return residents


def _evaluated_partitions(
    application: Application, residents: Sequence[Residents], costs: Costs
) -> list[EvaluatedPartition]:
    size = costs.element_bytes if application.has_one_size else None
    times = [
        LayerTimes(member.network, costs.platform, size, costs.measured.get(member.name))
        for member in application.members
    ]
    return [
        EvaluatedPartition(
            application.members[member].network, partition, times[member], here, application.unit
        )
        for (member, partition), here in zip(application.partitions, residents, strict=True)
    ]


def _gene_places(application: Application) -> list[list[int]]:
    """For each partition the places of the genes of its layers, in the order of its schedule."""
    place = {layer: number for number, layer in enumerate(application.layers)}
    return [
        [place[application.members[member].name, layer] for layer in partition.layers]
        for member, partition in application.partitions
    ]


def _parallel_conflicts(edges: Sequence[EdgeBuffer], groups: Sequence[int | None]) -> list[int]:
    """For each edge buffer, as bits, those in use in partitions that run in parallel to its own."""
    residents = [0] * len(groups)
    for number, edge in enumerate(edges):
        for stay in edge.stays:
            residents[stay.partition] |= 1 << number
    conflicts = []
    for edge in edges:
        mask = 0
        for own in edge.partitions:
            for other, group in enumerate(groups):
                if other != own and group is not None and group == groups[own]:
                    mask |= residents[other]
        conflicts.append(mask)
    return conflicts


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Bytes of buffers by methodology, and of weights, which are in none of them.

    no_reduction: a buffer for each edge, double where it is cut. reuse_only: whole buffers shared
    within one network, which knows neither pipelines nor other networks ([76] of the thesis).
    pipelined_reuse: the same within the whole application, with its pipelines. parts_only: all
    layers work by rows, nothing is shared ([65]). parts_and_reuse: both, by rows everywhere, which
    is one chromosome of many.
    """

    weights: int
    no_reduction: int
    reuse_only: int
    pipelined_reuse: int
    parts_only: int
    parts_and_reuse: int


def comparison(
    application: Application, costs: Costs | None = None, *, known: Evaluator | None = None
) -> Comparison:
    """Return what each methodology needs.

    known: an evaluator of the same application and costs; what it has evaluated is used again.
    """
    costs = costs or Costs()
    evaluator = known.sharing(shared_buffers) if known else Evaluator(application, costs)
    layers = len(application.layers)
    whole, parts = evaluator.plan((None,) * layers), evaluator.plan((1,) * layers)
    return Comparison(
        weights=evaluator.weights,
        no_reduction=whole.unshared_elements * costs.element_bytes,
        reuse_only=_reuse_within_networks(application) * costs.element_bytes,
        pipelined_reuse=whole.elements * costs.element_bytes,
        parts_only=parts.unshared_elements * costs.element_bytes,
        parts_and_reuse=parts.elements * costs.element_bytes,
    )


def _reuse_within_networks(application: Application) -> int:
    """Elements where each network shares its buffers, and nothing with another network."""
    total = 0
    for member in without_parallelism(application).members:
        alone = Evaluator(Application(name=member.name, members=(member,)))
        total += alone.plan((None,) * len(member.layers)).elements
    return total

"""The final plan of an application: one arena, a place in it for each buffer, and what fires when.

A chromosome with the places of its buffers becomes a deployment.

Places for the buffers of a chromosome, found in two ways; both are shown to the checker.

A deployment in the form of all plans: one plan for each network, all in the same arena.

A partition is a group, whose stages fire in the order of its schedule. A tensor that one partition
makes and another reads lies whole; where both may work at the same time it is handed over from one
buffer to another. Edges that lie in one place are one buffer with several readers.

Which partitions of a deployment may work at the same time.

Networks take turns: frame by frame, where their partitions take turns too. A network all of whose
partitions are in one parallel set is a pipeline, each partition a frame behind the one before, which
is drained before another network has its turn, since that may write over its double buffers.
Pipelines of one set work at the same time.

Where a set has only some of the partitions of a network these run one after another too: other
partitions share bytes with the double buffer between them, so no second frame may be under way.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

from csdf.errors import ExecutionError, InvalidPlan
from csdf.model.shown import Shown
from csdf.outcome import Reason, Status, Why, because
from csdf.time_limit import Budget
from planners.arena.allocation import plan_arena
from planners.arena.checker import check_plan
from planners.arena.problem import Buffer, MemoryPlan, Problem
from planners.memory.ordered import GroupInOrder, PartsInOrder, Ring, in_order
from planners.plan.plan import StreamingPlan, Transfer
from planners.reuse.application.application import Application, Member, Partition
from planners.reuse.cost.evaluation import Evaluator, ReusePlan
from planners.reuse.cost.offset_problem import offset_problem, tensor_places

TEXTS = ("name", "status", "reason")
NUMBERS = ("arena_bytes", "lower_bound", "weights", "element_bytes")


class PlannedFiring(NamedTuple):
    """A part of a layer: output rows [first_row, end_row) of one frame."""

    layer: int  # its place among the layers of the partition
    phase: int
    first_row: int
    end_row: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedPartition:
    """A partition with its schedule: a step is one firing, and all of them are one frame."""

    name: str
    network: str
    layers: tuple[str, ...]
    firings: tuple[PlannedFiring, ...]

    def __post_init__(self) -> None:
        if not self.firings:
            raise InvalidPlan(f"partition {self.name!r} fires nothing")
        for firing in self.firings:
            if firing.layer >= len(self.layers):
                raise InvalidPlan(
                    f"partition {self.name!r} fires layer {firing.layer}; "
                    f"it has {len(self.layers)}, counted from 0"
                )


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedStay:
    """Steps of a partition, both included, in which a buffer is in use."""

    partition: str
    first: int
    last: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedBuffer:
    """Bytes for what one layer writes for another, in the schedule of the partitions it stays in.

    input: which of the consumer's inputs it is, counted from 0. Several buffers of one connection
    are its copies in a pipeline, in their order; each is copied to the next when the last partition
    that it stays in has finished a frame. in_place: its producer writes it over what it reads.
    row_bytes: of one row of all maps; what is no stack of maps is a single row.
    """

    name: str
    network: str
    producer: str
    consumer: str
    input: int
    offset: int
    size: int
    row_bytes: int
    stays: tuple[PlannedStay, ...]
    in_place: bool = False

    def __post_init__(self) -> None:
        if not self.stays:
            raise InvalidPlan(f"buffer {self.name!r} is in use in no partition")
        if not 1 <= self.row_bytes <= self.size:
            raise InvalidPlan(
                f"buffer {self.name!r} has {self.size} bytes and rows of {self.row_bytes}; "
                "expected room for a row"
            )

    @property
    def rows(self) -> int:
        """How many rows it keeps: row r of a frame lies in place r % rows."""
        return self.size // self.row_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment(Shown):
    """All that it takes to run an application in one memory. Sizes and offsets in bytes.

    status, reason, lower_bound: of the arena, as in planners.arena.problem. weights: bytes in no
    arena. parallel: sets of partitions that run at the same time.
    """

    name: str
    status: Status
    reason: Reason
    arena_bytes: int
    lower_bound: int
    weights: int
    element_bytes: int
    buffers: tuple[PlannedBuffer, ...]
    partitions: tuple[PlannedPartition, ...]
    parallel: tuple[tuple[str, ...], ...]

    def __post_init__(self) -> None:
        if self.element_bytes < 1:
            raise InvalidPlan(f"an element of {self.element_bytes} bytes; expected at least 1")
        _require_unique("partition", [one.name for one in self.partitions])
        _require_unique("buffer", [one.name for one in self.buffers])
        steps = {one.name: len(one.firings) for one in self.partitions}
        for name in (name for group in self.parallel for name in group):
            if name not in steps:
                raise InvalidPlan(f"parallel: there is no partition {name!r}")
        for buffer in self.buffers:
            self._require_inside(buffer)
            _require_steps(buffer, steps)

    def to_json(self) -> dict[str, Any]:
        """Return buffers and schedules as a JSON value."""
        return {
            **{key: str(getattr(self, key)) for key in TEXTS},
            **{key: getattr(self, key) for key in NUMBERS},
            "parallel": [list(group) for group in self.parallel],
            "buffers": [
                asdict(one)
                | {"stays": [[stay.partition, stay.first, stay.last] for stay in one.stays]}
                for one in self.buffers
            ],
            "partitions": [
                {
                    "name": one.name,
                    "network": one.network,
                    "layers": list(one.layers),
                    "firings": [list(firing) for firing in one.firings],
                }
                for one in self.partitions
            ],
        }

    def to_records(self) -> list[dict[str, Any]]:
        """Return a row for each buffer, as for a data frame."""
        names = ("name", "network", "producer", "consumer", "offset", "size", "in_place")
        return [{name: getattr(one, name) for name in names} for one in self.buffers]

    def _require_inside(self, buffer: PlannedBuffer) -> None:
        end = buffer.offset + buffer.size
        if buffer.offset < 0 or end > self.arena_bytes:
            raise InvalidPlan(
                f"buffer {buffer.name!r} has bytes {buffer.offset} to {end} "
                f"of an arena of {self.arena_bytes}"
            )
        if buffer.size % self.element_bytes:
            raise InvalidPlan(
                f"buffer {buffer.name!r} has {buffer.size} bytes; "
                f"expected whole elements of {self.element_bytes}"
            )


def _require_steps(buffer: PlannedBuffer, steps: Mapping[str, int]) -> None:
    for stay in buffer.stays:
        count = steps.get(stay.partition, 0)
        if not 0 <= stay.first <= stay.last < count:
            raise InvalidPlan(
                f"buffer {buffer.name!r} is in use from step {stay.first} to {stay.last} of "
                f"partition {stay.partition!r}, which has {count}"
            )


def _require_unique(what: str, names: Sequence[str]) -> None:
    for name, count in Counter(names).items():
        if count > 1:
            raise InvalidPlan(f"two {what}s are named {name!r}")


def deployment(evaluator: Evaluator, plan: ReusePlan, memory: MemoryPlan) -> Deployment:
    """Return the final plan of a chromosome whose buffers lie as `memory` says.

    Raises InvalidPlan if the checker refuses it, or if it was made for other buffers or lifetimes.
    """
    check_plan(memory)
    _require_problem(memory.problem, offset_problem(evaluator, plan))
    _require_one_tensor(plan, memory)
    application = evaluator.application
    return Deployment(
        name=application.name,
        status=memory.status,
        reason=memory.reason,
        arena_bytes=memory.peak,
        lower_bound=memory.lower_bound,
        weights=evaluator.weights,
        element_bytes=evaluator.costs.element_bytes,
        buffers=tuple(_buffers(evaluator, plan, memory)),
        partitions=tuple(
            PlannedPartition(
                name=partition.name,
                network=application.members[member].name,
                layers=partition.layers,
                firings=tuple(_firings(evaluator, plan, number)),
            )
            for number, (member, partition) in enumerate(application.partitions)
        ),
        parallel=tuple(tuple(sorted(group)) for group in application.parallel),
    )


def _require_problem(found: Problem, wanted: Problem) -> None:
    """The plan may keep apart more than it has to, but nothing less, and no shorter."""
    if _needs(found) != _needs(wanted):
        raise InvalidPlan(f"{found.name}: the buffers are not those of the chromosome")
    apart = {frozenset(pair) for pair in found.conflicts}
    for pair in wanted.conflicts:
        if frozenset(pair) not in apart:
            raise InvalidPlan(f"{found.name}: {pair} do not conflict; they run in parallel")


def _require_one_tensor(plan: ReusePlan, memory: MemoryPlan) -> None:
    """Edges that share bytes while both are in use keep the same rows in the same places."""
    edges = {edge.name: edge for edge in plan.edges}
    sizes = {buffer.name: buffer.size for buffer in memory.problem.buffers}
    for pair in memory.problem.shares:
        tensors = {(edges[one].member, edges[one].connection.producer) for one in pair}
        places = {(memory.offsets[one], sizes[one]) for one in pair}
        if len(tensors) > 1 or len(places) > 1:
            raise InvalidPlan(f"{memory.problem.name}: {pair} are used together, but share bytes")


def _needs(problem: Problem) -> set[tuple[str, int, int, int]]:
    return {(one.name, one.size, one.start, one.end) for one in problem.buffers}


def _buffers(evaluator: Evaluator, plan: ReusePlan, memory: MemoryPlan) -> Iterator[PlannedBuffer]:
    partitions = [partition for _, partition in evaluator.application.partitions]
    sizes: dict[str, Buffer] = {buffer.name: buffer for buffer in memory.problem.buffers}
    over = {
        written
        for read, written in memory.problem.in_place
        if memory.offsets[read] == memory.offsets[written]
    }
    for edge, spans in zip(plan.edges, plan.spans, strict=True):
        member = evaluator.application.members[edge.member]
        layer = member.network.layer(edge.connection.producer)
        element = layer.element_bytes // evaluator.application.unit * evaluator.costs.element_bytes
        yield PlannedBuffer(
            name=edge.name,
            network=member.name,
            producer=edge.connection.producer,
            consumer=edge.connection.consumer,
            input=edge.connection.index,
            offset=memory.offsets[edge.name],
            size=sizes[edge.name].size,
            row_bytes=layer.shape.row_elements * element,
            stays=tuple(
                _stay(partitions[stay.partition], span)
                for stay, span in zip(edge.stays, spans, strict=True)
            ),
            in_place=edge.name in over,
        )


def _stay(partition: Partition, span: tuple[int, int]) -> PlannedStay:
    return PlannedStay(partition=partition.name, first=span[0], last=span[1])


def _firings(evaluator: Evaluator, plan: ReusePlan, partition: int) -> Iterator[PlannedFiring]:
    table = evaluator.models[partition].table
    ends = [table.written(layer, rows) for layer, rows in enumerate(plan.rows[partition])]
    fired: Counter[int] = Counter()
    for layer in plan.orders[partition]:
        phase = fired[layer]
        fired[layer] += 1
        first_row = ends[layer][phase - 1] if phase else 0
        yield PlannedFiring(layer, phase, first_row, ends[layer][phase])


class PlacementWhy(Why):
    """The reason for the status of a plan that was not searched."""

    WHOLE_BUFFERS = "whole buffers that edges share, one after another"


def whole_buffers(evaluator: Evaluator, plan: ReusePlan) -> MemoryPlan:
    """Return the published plan: the shared buffers, one after another."""
    unit = evaluator.costs.element_bytes
    begins = accumulate((buffer.size for buffer in plan.shared), initial=0)
    offsets = {
        plan.edges[edge].name: begin * unit
        for begin, buffer in zip(begins, plan.shared, strict=False)
        for edge in buffer.edges
    }
    memory = MemoryPlan(
        problem=offset_problem(evaluator, plan),
        offsets=offsets,
        lower_bound=plan.live_load * unit,
        status=Status.OPTIMAL if plan.live_load == plan.elements else Status.FEASIBLE,
        reason=because(PlacementWhy.WHOLE_BUFFERS),
    )
    check_plan(memory)
    return memory


def free_offsets(evaluator: Evaluator, plan: ReusePlan, *, budget: Budget = None) -> MemoryPlan:
    """Return a plan in which each tensor that is kept has an offset of its own.

    Edges that carry one tensor to several readers share its place where they may. budget: ends the
    search with the best plan so far, as in planners.arena. Where that needs more bytes than whole
    buffers, the answer is whole buffers.
    """
    places = tensor_places(evaluator, plan)
    memory = places.of_edges(plan_arena(places.tensors, budget=budget))
    check_plan(memory)
    published = whole_buffers(evaluator, plan)
    return memory if memory.peak <= published.peak else published


Key = tuple[str, int, int, int, str]  # of what may be one buffer


def streaming_plans(
    application: Application, deployment: Deployment, *, element_bytes: int | None = None
) -> tuple[StreamingPlan, ...]:
    """Return the plans of all networks, in their order.

    element_bytes: of every element; None where each tensor has its own. The arena of a plan ends where
    the last buffer of its network ends. Raises InvalidPlan where the deployment is not one of this
    application, and where the networks of a parallel set do not work at the same time as a whole.
    """
    _require_partitions(application, deployment)
    concurrent: dict[str, str] = {}
    for team in teams(deployment):
        names = [one.name for partitions in team.networks for one in partitions]
        if team.is_pipelined:
            concurrent |= dict.fromkeys(names, ", ".join(names))
    return tuple(
        in_order(_Network(member, deployment, concurrent).parts(element_bytes))
        for member in application.members
    )


def _require_partitions(application: Application, deployment: Deployment) -> None:
    found = [(one.network, one.name, one.layers) for one in deployment.partitions]
    wanted = [
        (application.members[member].name, one.name, one.layers)
        for member, one in application.partitions
    ]
    if found != wanted:
        raise InvalidPlan(
            f"the plan of {deployment.name!r} has not the partitions of {application.name!r}"
        )


class _Network:
    """A network of a deployment on its way to a plan."""

    def __init__(
        self, member: Member, deployment: Deployment, concurrent: Mapping[str, str]
    ) -> None:
        self._member = member
        self._concurrent = concurrent
        self._partitions = [one for one in deployment.partitions if one.network == member.name]
        self._number = {one.name: number for number, one in enumerate(self._partitions)}
        self._home = {
            layer: number for number, one in enumerate(self._partitions) for layer in one.layers
        }
        self._buffers = [one for one in deployment.buffers if one.network == member.name]
        self._begins = [0]
        for one in self._partitions:
            self._begins.append(self._begins[-1] + len(one.firings))
        self._copies: dict[tuple[str, str, int], list[PlannedBuffer]] = defaultdict(list)
        for buffer in self._buffers:
            self._copies[buffer.producer, buffer.consumer, buffer.input].append(buffer)
        self._require_connections()

    def _require_connections(self) -> None:
        """Require buffers for the connections between layers of partitions, and no others."""
        wanted = {
            (one.producer, one.consumer, one.index)
            for one in self._member.network.connections
            if {one.producer, one.consumer} <= set(self._home)
        }
        for connection, copies in self._copies.items():
            if connection not in wanted:
                raise InvalidPlan(f"buffer {copies[0].name!r} is that of no connection")
        for producer, consumer, _ in sorted(wanted.difference(self._copies)):
            raise InvalidPlan(
                f"network {self._member.name!r}: what {producer!r} writes for {consumer!r} has no "
                "buffer"
            )

    def parts(self, element_bytes: int | None) -> PartsInOrder:
        return PartsInOrder(
            network=self._member.network,
            element_bytes=element_bytes,
            rings=tuple(self._rings()),
            rows=dict(self._rows()),
            groups=tuple(self._group(number) for number in range(len(self._partitions))),
            arena_bytes=max((one.offset + one.size for one in self._buffers), default=0),
            outside=self._member.outside,
        )

    def _rows(self) -> Iterator[tuple[str, int]]:
        """Rows of a part of each layer: those of its first firing."""
        for partition in self._partitions:
            for firing in partition.firings:
                if firing.phase == 0:
                    yield partition.layers[firing.layer], firing.end_row - firing.first_row

    def _group(self, number: int) -> GroupInOrder:
        partition = self._partitions[number]
        return GroupInOrder(
            order=tuple(partition.layers[firing.layer] for firing in partition.firings),
            transfers=tuple(self._handed_to(partition)),
            concurrent=self._concurrent.get(partition.name),
        )

    def _handed_to(self, partition: PlannedPartition) -> Iterator[Transfer]:
        for copies in self._copies.values():
            for source, target in pairwise(copies):
                if target.stays[0].partition == partition.name:
                    yield Transfer(source=self._plain(source), target=self._plain(target))

    def _rings(self) -> Iterator[Ring]:
        """The buffers, those in one place together."""
        places: dict[Key, list[PlannedBuffer]] = defaultdict(list)
        for one in self._buffers:
            copies = self._copies[one.producer, one.consumer, one.input]
            begin = self._number[one.stays[0].partition]
            own = one.name if len(copies) > 1 else ""
            places[one.producer, one.offset, one.size, begin, own].append(one)
        for (producer, offset, size, begin, _), same in places.items():
            yield Ring(
                name=self._plain(same[0]),
                tensor=producer,
                readers=tuple(dict.fromkeys(one.consumer for one in same)),
                size=size,
                offset=offset,
                last=max(self._last(one) for one in same),
                begin=begin,
                end=max(self._number[one.stays[-1].partition] for one in same) + 1,
                is_whole=any(self._home[producer] != self._home[one.consumer] for one in same),
            )

    def _plain(self, buffer: PlannedBuffer) -> str:
        """The name of a buffer within its network."""
        return buffer.name.removeprefix(f"{self._member.name}: ")

    def _last(self, buffer: PlannedBuffer) -> int:
        stay = buffer.stays[-1]
        return self._begins[self._number[stay.partition]] + stay.last


class Team(NamedTuple):
    """Networks that take a turn together, each as its partitions in order."""

    networks: tuple[tuple[PlannedPartition, ...], ...]
    is_pipelined: bool


def teams(deployment: Deployment) -> tuple[Team, ...]:
    """Return the networks in their order, those of one parallel set together.

    Raises ExecutionError where a set joins different networks but not the whole of each: what one
    hands from partition to partition may then lie under the buffers of the other.
    """
    group_of = {name: number for number, group in enumerate(deployment.parallel) for name in group}
    networks: dict[str, list[PlannedPartition]] = {}
    for partition in deployment.partitions:
        networks.setdefault(partition.network, []).append(partition)
    found: dict[object, list[tuple[PlannedPartition, ...]]] = {}
    for name, partitions in networks.items():
        groups = {group_of.get(partition.name) for partition in partitions}
        group = groups.pop() if len(groups) == 1 else None
        if group is None:
            _require_own(deployment, name, partitions)
        found.setdefault(name if group is None else group, []).append(tuple(partitions))
    return tuple(Team(tuple(some), isinstance(key, int)) for key, some in found.items())


def _require_own(
    deployment: Deployment, network: str, partitions: Sequence[PlannedPartition]
) -> None:
    names = {partition.name for partition in partitions}
    for group in deployment.parallel:
        others = sorted(set(group) - names)
        if names & set(group) and others:
            raise ExecutionError(
                f"partitions {sorted(names & set(group))} of network {network!r} run in parallel to "
                f"{others} of others, but not the whole of {network!r} does"
            )

"""A deployment in the form of all plans: one plan for each network, all in the same arena.

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

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from csdf.errors import ExecutionError, InvalidPlan
from planners.memory.parts_in_order import GroupInOrder, PartsInOrder, Ring, in_order
from planners.reuse.application.application import Application, Member
from planners.reuse.deployment.deployment import Deployment, PlannedBuffer, PlannedPartition
from planners.streaming.plan import HandOver, StreamingPlan

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
    at_once: dict[str, str] = {}
    for team in teams(deployment):
        names = [one.name for partitions in team.networks for one in partitions]
        if team.is_pipelined:
            at_once |= dict.fromkeys(names, ", ".join(names))
    return tuple(
        in_order(_Network(member, deployment, at_once).parts(element_bytes))
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

    def __init__(self, member: Member, deployment: Deployment, at_once: Mapping[str, str]) -> None:
        self._member = member
        self._at_once = at_once
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
            hand_overs=tuple(self._handed_to(partition)),
            at_once=self._at_once.get(partition.name),
        )

    def _handed_to(self, partition: PlannedPartition) -> Iterator[HandOver]:
        for copies in self._copies.values():
            for source, target in pairwise(copies):
                if target.stays[0].partition == partition.name:
                    yield HandOver(source=self._plain(source), target=self._plain(target))

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

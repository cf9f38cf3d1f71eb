"""Which partitions of a deployment may work at the same time.

Networks take turns: frame by frame, where their partitions take turns too. A network all of whose
partitions are in one parallel set is a pipeline, each partition a frame behind the one before, which
is drained before another network has its turn, since that may write over its double buffers.
Pipelines of one set work at the same time.

Where a set has only some of the partitions of a network these run one after another too: other
partitions share bytes with the double buffer between them, so no second frame may be under way.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from csdf.errors import ExecutionError
from planners.reuse.deployment.deployment import Deployment, PlannedPartition


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

"""All networks of an application run in one arena, byte for byte where the deployment says.

The run is the judge of offsets, lifetimes, schedules and double buffers together. The arena begins as
NaN; each firing needs its input and its room, spoils the room for its output before it computes, and
refuses input that is not what was written there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cnn2csdf.execution.by_parts import Frame
from cnn2csdf.weights import Array, Model, Weights
from csdf.errors import ExecutionError
from planners.reuse.application.application import Application
from planners.reuse.deployment.arena_buffers import poisoned_arena
from planners.reuse.deployment.deployment import Deployment
from planners.reuse.deployment.running_network import RunningNetwork
from planners.reuse.deployment.turns import Team, Work, stages, teams

Outputs = tuple[dict[str, Array], ...]  # for each frame, by output layer


def run_deployment(
    application: Application,
    deployment: Deployment,
    *,
    weights: Mapping[str, Weights],
    frames: Mapping[str, Sequence[Frame]],
    frames_a_turn: int = 2,
) -> dict[str, Outputs]:
    """Return the outputs of all frames of each network; weights, frames and outputs by its name.

    frames_a_turn: a network works on so many before the next network has its turn; in a pipeline
    they are under way at the same time.
    Raises ExecutionError, naming layer, phase and buffer, where a firing has not its input or its
    room, where something lies over its input, and where the deployment is not one of this
    application or not in single precision.
    """
    _require_possible(application, deployment, frames_a_turn)
    arena = poisoned_arena(deployment.arena_bytes)
    networks = {}
    for member in application.members:
        if member.name not in weights or member.name not in frames:
            raise ExecutionError(f"network {member.name!r} has no weights, or no frames")
        model = Model(network=member.network, weights=weights[member.name])
        networks[member.name] = RunningNetwork(model, frames[member.name], deployment, arena)
    counts = {name: len(frames[name]) for name in networks}
    for first in range(0, max(counts.values()), frames_a_turn):
        for team in teams(deployment):
            ends = [min(first + frames_a_turn, counts[name]) for name in _names(team)]
            for works in stages(team, first, ends):
                _run_stage(networks, works)
    return {name: network.outputs() for name, network in networks.items()}


def _names(team: Team) -> list[str]:
    return [partitions[0].network for partitions in team.networks]


def _run_stage(networks: Mapping[str, RunningNetwork], works: Sequence[Work]) -> None:
    """Fire step by step, a step of each partition in turn; then hand over, the last one first."""
    for work in works:
        networks[work.partition.network].fire_world()
    for step in range(max(len(work.partition.firings) for work in works)):
        for partition, frame in works:
            if step < len(partition.firings):
                networks[partition.network].fire(partition, frame, step)
    for partition, _ in reversed(works):
        networks[partition.network].hand_over(partition.name)
        networks[partition.network].fire_world()


def _require_possible(application: Application, deployment: Deployment, frames_a_turn: int) -> None:
    if frames_a_turn < 1:
        raise ExecutionError(f"{frames_a_turn} frames a turn; expected at least 1")
    found = [(one.network, one.name, one.layers) for one in deployment.partitions]
    wanted = [
        (application.members[member].name, one.name, one.layers)
        for member, one in application.partitions
    ]
    if found != wanted:
        raise ExecutionError(
            f"the plan of {deployment.name!r} has not the partitions of {application.name!r}"
        )

"""A network of an application, running: its layers fire one at a time, in the arena.

Layers that are in no partition are the world: they work whole, have memory of their own, and fire
whenever they can.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from cnn2csdf.execution.buffers import RingBuffer
from cnn2csdf.execution.by_parts import Frame
from cnn2csdf.execution.layers import computation
from cnn2csdf.execution.running import RunningLayer, firing_name
from cnn2csdf.execution.whole import checked_frame
from cnn2csdf.execution.wiring import WiredLayer, wired_layers
from cnn2csdf.granularity import Granularity
from cnn2csdf.lowering import lower
from cnn2csdf.network import Layer
from cnn2csdf.operators import Input, Output
from cnn2csdf.weights import Array, Model
from csdf.errors import ExecutionError
from csdf.model.schedule import Firing
from planners.reuse.deployment.arena_buffers import Arena, network_buffers
from planners.reuse.deployment.deployment import Deployment, PlannedPartition

NOW = Fraction(0)  # firings follow one another; nothing asks when


class RunningNetwork:
    """The layers of one network, and what comes in and goes out."""

    def __init__(
        self, model: Model, frames: Sequence[Frame], deployment: Deployment, arena: Arena
    ) -> None:
        """Connect the layers to their buffers.

        Raises ExecutionError where network and deployment do not match, or a frame does not fit.
        """
        network = model.network
        self._given = [checked_frame(network, frame) for frame in frames]
        self._outputs: tuple[dict[str, Array], ...] = tuple(
            {layer.name: np.empty(layer.shape.dims, np.float32) for layer in network.outputs}
            for _ in frames
        )
        partitions = [one for one in deployment.partitions if one.network == network.name]
        graph = lower(network, _granularity(partitions))
        self._wired = {one.layer.name: one for one in wired_layers(network, graph)}
        inside = {layer for partition in partitions for layer in partition.layers}
        self._world = {name: 0 for name in self._wired if name not in inside}  # frames done
        self._buffers = network_buffers(
            network, tuple(self._wired.values()), deployment, arena=arena, frames=len(frames)
        )
        self._stays = {
            (one.name, stay.partition): stay for one in deployment.buffers for stay in one.stays
        }
        self._rings: dict[str, list[RingBuffer]] = {}  # that each layer reads or writes
        self._layers = {name: self._layer(model, one) for name, one in self._wired.items()}

    def _layer(self, model: Model, wired: WiredLayer) -> RunningLayer:
        written, read, _ = self._buffers
        rings = {port.channel.name: written[port.channel.name] for port in wired.outputs}
        rings |= {port.channel.name: read[port.channel.name] for port in wired.inputs}
        self._rings[wired.layer.name] = list(rings.values())
        tensors = self._tensors(wired.layer)
        return RunningLayer(wired, computation(model, wired.layer), rings, tensors)

    def _tensors(self, layer: Layer) -> list[Array]:
        """Return what comes in or goes out at a layer, frame by frame."""
        match layer.operator:
            case Input():
                return [frame[layer.name] for frame in self._given]
            case Output():
                return [frame[layer.name] for frame in self._outputs]
        return []

    def fire(self, partition: PlannedPartition, frame: int, step: int) -> None:
        """Carry out one step of the schedule of a partition.

        Raises ExecutionError where it has not its input or its room, where one of its buffers is
        not in use by the plan, or where it writes other rows than planned.
        """
        planned = partition.firings[step]
        layer = partition.layers[planned.layer]
        firing = self._started(layer, frame, planned.phase)
        self._require_lifetimes(partition, step, layer)
        self._layers[layer].end(firing)
        written = self._layers[layer].written
        wired = self._wired[layer]
        expected = frame * wired.layer.shape.rows + planned.end_row
        if wired.rows[planned.phase] and written != expected:
            raise ExecutionError(
                f"partition {partition.name!r}, step {step}: layer {layer!r} has written {written} "
                f"rows by now; the plan says {expected}"
            )

    def _require_lifetimes(self, partition: PlannedPartition, step: int, layer: str) -> None:
        """Refuse a firing that holds rows in a buffer that is not in use at this step."""
        for ring in self._rings[layer]:
            stay = self._stays.get((ring.name, partition.name))
            if stay and ring.occupied and not stay.first <= step <= stay.last:
                raise ExecutionError(
                    f"partition {partition.name!r}, step {step}: layer {layer!r} needs buffer "
                    f"{ring.name!r}, which is in use from step {stay.first} to {stay.last} only"
                )

    def _started(self, layer: str, frame: int, phase: int) -> Firing:
        firing = self._firing(layer, frame, phase)
        obstacle = self._layers[layer].obstacle(firing)
        if obstacle is not None:
            raise ExecutionError(f"{firing_name(firing)} is to fire, but {obstacle}")
        self._layers[layer].start(firing)
        return firing

    def _firing(self, layer: str, frame: int, phase: int) -> Firing:
        index = frame * len(self._wired[layer].rows) + phase
        return Firing(start=NOW, end=NOW, actor=layer, index=index, phase=phase)

    def fire_world(self) -> None:
        """Fire all layers of the world that can fire, for as many frames as there are."""
        for layer, done in self._world.items():
            for frame in range(done, len(self._given)):
                if self._layers[layer].obstacle(self._firing(layer, frame, 0)) is not None:
                    break
                self._layers[layer].end(self._started(layer, frame, 0))
                self._world[layer] = frame + 1

    def hand_over(self, partition: str) -> None:
        """Copy what the partition keeps for the one that works on the frame behind it."""
        for one in self._buffers.hand_overs:
            if one.partition == partition:
                one.carry_out()

    def outputs(self) -> tuple[dict[str, Array], ...]:
        """Return what went out, frame by frame. Raises ExecutionError where something is missing."""
        for name, wired in self._wired.items():
            wanted = len(self._given) * wired.layer.shape.rows
            written = self._layers[name].written
            if isinstance(wired.layer.operator, Output) and written != wanted:
                raise ExecutionError(
                    f"output {name!r} has {written} rows; {len(self._given)} frames have {wanted}"
                )
        return self._outputs


def _granularity(partitions: Sequence[PlannedPartition]) -> Granularity:
    """The rows of the parts that the schedules fire; the world works whole."""
    rows: dict[str, int | None] = {}
    for partition in partitions:
        for firing in partition.firings:
            if firing.phase == 0:
                rows[partition.layers[firing.layer]] = firing.end_row - firing.first_row
    return Granularity(rows=None, layers=rows)

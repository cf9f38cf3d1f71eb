"""The buffers of one network in the arena, and those of the world outside of it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cnn2csdf.execution.buffers import RingBuffer
from cnn2csdf.execution.wiring import WiredLayer
from cnn2csdf.network import Connection, Layer, Network
from csdf.errors import ExecutionError
from csdf.model.graph import Channel
from planners.reuse.deployment.deployment import Deployment, PlannedBuffer
from planners.reuse.deployment.guarded_buffer import POISON, GuardedBuffer

Arena = NDArray[np.uint8]


class HandOver(NamedTuple):
    """A copy of an edge that becomes the next one when a partition has finished a frame."""

    partition: str
    source: RingBuffer
    target: RingBuffer

    def carry_out(self) -> None:
        """Copy what the source holds. Raises ExecutionError where the target is in use."""
        rows = self.source.written - self.source.consumed
        self.target.claim(rows)
        upto = self.source.consume(rows)
        self.target.write(self.source.read(upto - rows, upto))
        self.source.release(rows)


class NetworkBuffers(NamedTuple):
    """For each channel, the buffer that its producer writes and the one its consumer reads.

    They are one buffer, or the first and the last copy in a pipeline. hand_overs: from the last
    copies to the first.
    """

    written: dict[str, RingBuffer]
    read: dict[str, RingBuffer]
    hand_overs: tuple[HandOver, ...]


def poisoned_arena(size: int) -> Arena:
    """Return so many bytes, of which any four are a NaN."""
    return np.full(size, POISON & 0xFF, np.uint8)


def network_buffers(
    network: Network,
    wired: Sequence[WiredLayer],
    deployment: Deployment,
    *,
    arena: Arena,
    frames: int,
) -> NetworkBuffers:
    """Return the buffers of a network, where the deployment has them.

    Connections with the world have memory of their own, with room for all frames.
    Raises ExecutionError for a buffer of no connection, and a connection without a buffer.
    """
    planned = _planned(deployment, network.name)
    _require_all(planned, network, deployment)
    found = NetworkBuffers({}, {}, ())
    for connection, channel in _channels(wired):
        layer = network.layer(connection.producer)
        copies = planned.get(connection, [])
        rings = [_guarded(one, channel, layer, arena) for one in copies]
        rings = rings or [_world(channel, layer, frames)]
        found.written[channel.name], found.read[channel.name] = rings[0], rings[-1]
        found = found._replace(hand_overs=(*_hand_overs(copies, rings), *found.hand_overs))
    return found


def _require_all(
    planned: Mapping[Connection, Sequence[PlannedBuffer]], network: Network, deployment: Deployment
) -> None:
    """Refuse buffers for anything but the connections between layers of partitions."""
    partitions = [one for one in deployment.partitions if one.network == network.name]
    inside = {layer for one in partitions for layer in one.layers}
    wanted = {one for one in network.connections if {one.producer, one.consumer} <= inside}
    for connection, copies in planned.items():
        if connection not in wanted:
            raise ExecutionError(f"buffer {copies[0].name!r} is that of no connection")
    for connection in wanted.difference(planned):
        raise ExecutionError(
            f"network {network.name!r}: what {connection.producer!r} writes for "
            f"{connection.consumer!r} has no buffer"
        )


def _planned(deployment: Deployment, network: str) -> dict[Connection, list[PlannedBuffer]]:
    """The copies of each connection, in their order."""
    planned: dict[Connection, list[PlannedBuffer]] = defaultdict(list)
    for buffer in deployment.buffers:
        if buffer.network == network:
            connection = Connection(
                producer=buffer.producer, consumer=buffer.consumer, index=buffer.input
            )
            planned[connection].append(buffer)
    return dict(planned)


def _channels(wired: Sequence[WiredLayer]) -> Iterator[tuple[Connection, Channel]]:
    for one in wired:
        for index, (source, port) in enumerate(zip(one.layer.inputs, one.inputs, strict=True)):
            connection = Connection(producer=source, consumer=one.layer.name, index=index)
            yield connection, port.channel


def _guarded(planned: PlannedBuffer, channel: Channel, layer: Layer, arena: Arena) -> RingBuffer:
    """A buffer at the bytes that the plan gives it, even where no element should begin."""
    row_bytes = layer.shape.row_elements * np.dtype(layer.array_type).itemsize
    if planned.row_bytes != row_bytes:
        raise ExecutionError(
            f"buffer {planned.name!r} has rows of {planned.row_bytes} bytes in the plan; "
            f"{planned.producer!r} is computed in {layer.array_type}, in rows of {row_bytes}"
        )
    storage = arena[planned.offset : planned.offset + planned.size].view(layer.array_type)
    bounded = replace(channel, name=planned.name, capacity=storage.size)
    return GuardedBuffer(bounded, layer.shape, storage, in_place=planned.in_place)


def _world(channel: Channel, layer: Layer, frames: int) -> RingBuffer:
    capacity = max(frames, 1) * layer.shape.elements
    return RingBuffer(replace(channel, capacity=capacity), layer.shape, array_type=layer.array_type)


def _hand_overs(copies: Sequence[PlannedBuffer], rings: Sequence[RingBuffer]) -> Iterator[HandOver]:
    """From the last copies to the first, so that each target is empty when its turn comes."""
    for place in range(len(copies) - 1, 0, -1):
        partition = copies[place - 1].stays[-1].partition
        yield HandOver(partition, rings[place - 1], rings[place])

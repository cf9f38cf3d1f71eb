"""A run by parts: the firings of a schedule, in buffers of exactly the capacities of a graph.

The run is the judge of rates, schedule and capacities. It takes from the graph how many rows each
phase consumes, writes and releases, computes the rows that a phase writes, and refuses every access
to a row that is not there. It shares no row arithmetic with what made the graph.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from cnn2csdf.execution.buffers import RingBuffer
from cnn2csdf.execution.layers import computation
from cnn2csdf.execution.running import RunningLayer, firing_name
from cnn2csdf.execution.whole import checked_frame
from cnn2csdf.execution.wiring import wired_layers
from cnn2csdf.network import Layer
from cnn2csdf.operators import Input, Output
from cnn2csdf.weights import Array, Model
from csdf.errors import ExecutionError
from csdf.model.graph import Graph
from csdf.model.schedule import Firing

Frame = Mapping[str, Array]  # name of an input or output layer: its tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class RunByParts:
    """The outputs of a run by parts, and the space that it took.

    outputs: for each frame, by output layer. peaks: most tokens that each channel held or had
    claimed; capacities: those of the graph. largest_size: most tokens in all channels at one time.
    """

    outputs: tuple[dict[str, Array], ...]
    peaks: dict[str, int]
    capacities: dict[str, int]
    largest_size: int
    firings: int


def run_by_parts(
    model: Model,
    graph: Graph,
    schedule: Iterable[Firing],
    frames: Sequence[Frame],
    *,
    storage: Mapping[str, Array] | None = None,
) -> RunByParts:
    """Return the outputs of the frames, computed firing by firing.

    graph: one actor for each layer, one channel with a capacity for each connection, a token for
    each tensor element. schedule: firings of exactly so many frames, in any order. storage: where
    the elements of a channel lie, as views of an arena; by default each has an array of its own.
    Raises ExecutionError, naming actor, phase and channel, where a firing starts without its tokens
    or its space or out of its order, where it reads a row that is not there, or where the schedule
    ends before the last frame does or goes on after it.
    """
    machine = _Machine(model, graph, frames, storage or {})
    for ends, starts in _moments(schedule):
        for firing in ends:
            machine.end(firing)
        machine.start_all(starts)
    return machine.run()


def _moments(schedule: Iterable[Firing]) -> Iterable[tuple[list[Firing], list[Firing]]]:
    """The firings that end and those that start at each time; one of no duration only starts."""
    ends: dict[Fraction, list[Firing]] = defaultdict(list)
    starts: dict[Fraction, list[Firing]] = defaultdict(list)
    for firing in schedule:
        if firing.end < firing.start:
            raise ExecutionError(
                f"actor {firing.actor!r}, firing {firing.index} starts at {firing.start} "
                f"and ends before, at {firing.end}"
            )
        starts[firing.start].append(firing)
        if firing.end > firing.start:
            ends[firing.end].append(firing)
    for time in sorted({*ends, *starts}):
        yield ends.get(time, []), starts.get(time, [])


class _Machine:
    """All layers of a network, running."""

    def __init__(
        self,
        model: Model,
        graph: Graph,
        frames: Sequence[Frame],
        storage: Mapping[str, Array],
    ) -> None:
        self._frames = [checked_frame(model.network, frame) for frame in frames]
        self._outputs: tuple[dict[str, Array], ...] = tuple(
            {
                layer.name: np.empty(layer.shape.dims, layer.array_type)
                for layer in model.network.outputs
            }
            for _ in frames
        )
        wired = wired_layers(model.network, graph)
        self._buffers = {
            port.channel.name: RingBuffer(
                port.channel,
                one.layer.shape,
                storage.get(port.channel.name),
                array_type=one.layer.array_type,
            )
            for one in wired
            for port in one.outputs
        }
        self._layers = {
            one.layer.name: RunningLayer(
                one, computation(model, one.layer), self._buffers, self._tensors(one.layer)
            )
            for one in wired
        }
        self._wired = wired
        self._size = self._largest_size = self._firings = 0  # sizes in tokens

    def _tensors(self, layer: Layer) -> list[Array]:
        """Return what comes in or goes out at a layer, frame by frame."""
        match layer.operator:
            case Input():
                return [frame[layer.name] for frame in self._frames]
            case Output():
                return [frame[layer.name] for frame in self._outputs]
        return []

    def start_all(self, firings: Sequence[Firing]) -> None:
        """Start firings of one moment, in whatever order they can."""
        waiting = list(firings)
        while waiting:
            later = [firing for firing in waiting if not self._try_start(firing)]
            if len(later) == len(waiting):
                self._refuse(waiting[0])
            waiting = later

    def _try_start(self, firing: Firing) -> bool:
        """Start the firing if it can start, and say whether."""
        layer = self._layer(firing)
        if layer.obstacle(firing) is not None:
            return False
        self._size += layer.start(firing)
        self._largest_size = max(self._largest_size, self._size)
        self._firings += 1
        if firing.start == firing.end:
            self.end(firing)
        return True

    def end(self, firing: Firing) -> None:
        """End a firing."""
        self._size -= self._layer(firing).end(firing)

    def _layer(self, firing: Firing) -> RunningLayer:
        if firing.actor not in self._layers:
            raise ExecutionError(f"the schedule fires {firing.actor!r}, which is no layer")
        return self._layers[firing.actor]

    def _refuse(self, firing: Firing) -> None:
        obstacle = self._layer(firing).obstacle(firing)
        raise ExecutionError(f"{firing_name(firing)} starts at {firing.start}, but {obstacle}")

    def run(self) -> RunByParts:
        """Return the run. Raises ExecutionError where a frame is not complete."""
        for one in self._wired:
            if isinstance(one.layer.operator, Output):
                self._require_complete(one.layer)
        return RunByParts(
            outputs=self._outputs,
            peaks={name: buffer.tokens(buffer.peak) for name, buffer in self._buffers.items()},
            capacities={
                port.channel.name: port.channel.capacity or 0
                for one in self._wired
                for port in one.outputs
            },
            largest_size=self._largest_size,
            firings=self._firings,
        )

    def _require_complete(self, layer: Layer) -> None:
        written = self._layers[layer.name].written
        wanted = len(self._frames) * layer.shape.rows
        if written != wanted:
            raise ExecutionError(
                f"the schedule ends with {written} rows of output {layer.name!r} written; "
                f"{len(self._frames)} frames have {wanted}"
            )

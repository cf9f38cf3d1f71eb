"""A network that runs with a selection of primitives, in memory that is there before the first frame.

Maps lie in one arena, one workspace of the largest need serves a layer after the other, weights are
prepared beforehand. Only layers that the executor of cnn2csdf computes make arrays of their own.
Times are those of the processor for the one thread that runs, as in a profile.

Memory for maps and workspaces, laid out alike wherever times are taken.

Changes of layout and matrix products step over whole pages, so the size of pages may show in times.
Every block begins at a large page, and the system is asked for large ones where it has them.

An arena for the maps of a selected network, in which dead maps make room for later ones.
"""

from __future__ import annotations

import mmap
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from statistics import median
from time import thread_time_ns
from typing import NamedTuple

import numpy as np

from cnn2csdf.execution.compare import difference
from cnn2csdf.execution.layer_by_layer import checked_frame
from cnn2csdf.network import Connection, Layer, Network
from cnn2csdf.operators import Input
from cnn2csdf.weights import Array, Model
from csdf.errors import ExecutionError
from csdf.status import because
from csdf.time_limit import Stop
from planners.arena.allocation import ArenaWhy, plan_arena
from planners.arena.problem import Buffer, MemoryPlan, Problem
from planners.primitives.library.layers import PreparedLayer, change_layout, prepared_layer
from planners.primitives.library.primitive import ELEMENT_BYTES, map_dims
from planners.primitives.library.primitives import Way

Times = dict[str | Connection, int]  # nanoseconds of a layer, by name, and of a change of layout


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectedRun:
    """The outputs of a run, its time, and its bytes.

    outputs: by output layer. nanoseconds: of a frame, the median of the repetitions; layers,
    changes: medians of the parts. arena_bytes: of all maps; workspace_bytes: of the one workspace;
    parameter_bytes: of all weights as the primitives keep them.
    """

    outputs: Mapping[str, Array]
    nanoseconds: int
    layers: Mapping[str, int]
    changes: Mapping[Connection, int]
    arena_bytes: int
    workspace_bytes: int
    parameter_bytes: int

    @property
    def memory_bytes(self) -> int:
        """All that the network holds while it runs."""
        return self.arena_bytes + self.workspace_bytes + self.parameter_bytes


def run_selected(
    model: Model, selection: Selection, frame: Mapping[str, Array], *, repeats: int = 1
) -> SelectedRun:
    """Return outputs, times and memory of a selection.

    selection: for each layer the primitive, its input layout and its output layout. Times are
    medians over repeats, after one frame that is not counted where there are several. Raises
    ExecutionError for a frame that does not fit and for a layer without a choice, InvalidPlan for a
    choice that a layer cannot run with.
    """
    if repeats < 1:
        raise ExecutionError(f"{repeats} repeats of a run; at least 1")
    network = SelectedNetwork(model, selection)
    given = checked_frame(model.network, frame)
    if repeats > 1:
        network.run(given)
    runs = [network.run(given) for _ in range(repeats)]
    parts = {part: round(median(run[part] for run in runs)) for part in runs[0]}
    return SelectedRun(
        outputs={layer.name: network.output(layer).copy() for layer in model.network.outputs},
        nanoseconds=round(median(sum(run.values()) for run in runs)),
        layers={part: time for part, time in parts.items() if isinstance(part, str)},
        changes={part: time for part, time in parts.items() if not isinstance(part, str)},
        arena_bytes=network.plan.peak,
        workspace_bytes=network.workspace_bytes,
        parameter_bytes=network.parameter_bytes,
    )


class _Move(NamedTuple):
    """A map that is changed before a layer runs."""

    connection: Connection
    source: Array
    layout: str
    target: Array


class _Work(NamedTuple):
    """A layer with all that it reads and writes."""

    layer: Layer
    prepared: PreparedLayer
    moves: tuple[_Move, ...]
    inputs: tuple[Array, ...]
    output: Array


class SelectedNetwork:
    """Memory and prepared weights of a network, ready to run frames."""

    def __init__(self, model: Model, selection: Selection) -> None:
        network = model.network
        _require_all(model, selection)
        self._changes = {one.connection: one for one in changes_of(network, selection)}
        self.plan: MemoryPlan = map_plan(network, tuple(self._changes.values()))
        self._cells = fresh_memory(self.plan.peak)
        prepared = [prepared_layer(model, one, selection[one.name]) for one in network.layers]
        self.parameter_bytes = sum(one.parameter_bytes for one in prepared)
        self.workspace_bytes = max(one.workspace_bytes for one in prepared)
        self._workspace = fresh_memory(self.workspace_bytes)
        self._maps = {
            layer.name: self._view(
                map_name(layer.name), map_dims(layer.shape.dims, selection[layer.name][2])
            )
            for layer in network.layers
        }
        self._work = [
            self._made(layer, one) for layer, one in zip(network.layers, prepared, strict=True)
        ]

    def output(self, layer: Layer) -> Array:
        """Return the map of a layer, a view; only output layers keep theirs to the end."""
        return self._maps[layer.name]

    def run(self, frame: Mapping[str, Array]) -> Times:
        """Run one frame and return the time of each layer and change of layout."""
        times: Times = {}
        for work in self._work:
            for move in work.moves:
                started = thread_time_ns()
                change_layout(move.source, move.layout, move.target)
                times[move.connection] = thread_time_ns() - started
            name = work.layer.name
            inputs = (frame[name],) if isinstance(work.layer.operator, Input) else work.inputs
            started = thread_time_ns()
            work.prepared.run(inputs, self._workspace, work.output)
            times[name] = thread_time_ns() - started
        return times

    def _made(self, layer: Layer, prepared: PreparedLayer) -> _Work:
        moves, inputs = [], []
        for index, source in enumerate(layer.inputs):
            array = self._maps[source]
            connection = Connection(producer=source, consumer=layer.name, index=index)
            change = self._changes.get(connection)
            if change is not None:
                channels_last = change.source_layout == "CHW"
                dims = np.transpose(array, (1, 2, 0) if channels_last else (2, 0, 1)).shape
                target = self._view(change_name(connection), dims)
                moves.append(_Move(connection, array, change.source_layout, target))
                array = target
            inputs.append(array)
        return _Work(layer, prepared, tuple(moves), tuple(inputs), self._maps[layer.name])

    def _view(self, name: str, dims: tuple[int, ...]) -> Array:
        first = self.plan.offsets[name] // ELEMENT_BYTES
        return self._cells[first : first + prod(dims)].reshape(dims)


def _require_all(model: Model, selection: Selection) -> None:
    for layer in model.network.layers:
        if layer.name not in selection:
            raise ExecutionError(
                f"layer {layer.name!r} has no primitive; choose one for each layer"
            )


def largest_difference(found: Mapping[str, Array], expected: Mapping[str, Array]) -> float:
    """Return the largest difference of two runs, relative to the largest output of the second.

    NaN where one of them holds a NaN. Raises ExecutionError for different shapes.
    """
    relatives = (difference(found[name], expected[name]).relative for name in expected)
    return max(relatives, key=lambda one: (one != one, one))


LARGE_PAGE = 1 << 21  # bytes


def fresh_memory(count: int) -> Array:
    """Return so many bytes as elements, zero, beginning at a large page. Raises MemoryError."""
    try:
        block = mmap.mmap(-1, count + LARGE_PAGE)
    except (OSError, OverflowError) as error:
        raise MemoryError(f"{count} bytes") from error
    if hasattr(mmap, "MADV_HUGEPAGE"):
        block.madvise(mmap.MADV_HUGEPAGE)
    room = np.frombuffer(block, np.uint8)
    first = -room.ctypes.data % LARGE_PAGE
    cells: Array = room[first : first + count - count % ELEMENT_BYTES].view(np.float32)
    cells.fill(0)  # so that every page is there before anything is timed
    return cells


ALIGNMENT = 64  # bytes: whole cache lines, and what vector instructions like
MOST_STEPS = 20  # of the search for a smaller arena: a plan does not depend on the clock

Selection = Mapping[str, Way]  # layer: primitive, input layout, output layout


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A change of layout on one connection."""

    connection: Connection
    source_layout: str
    target_layout: str


def changes_of(network: Network, selection: Selection) -> tuple[Change, ...]:
    """Return the connections whose ends differ in layout, in the order of the consumers."""
    return tuple(
        Change(
            connection=one,
            source_layout=selection[one.producer][2],
            target_layout=selection[one.consumer][1],
        )
        for one in network.connections
        if selection[one.producer][2] != selection[one.consumer][1]
        and network.layer(one.producer).shape.is_map
    )


def map_name(layer: str) -> str:
    """Return how the arena calls the output of a layer."""
    return f"map of {layer}"


def change_name(connection: Connection) -> str:
    """Return how the arena calls a map in another layout, for one input of its consumer."""
    return f"input {connection.index} of {connection.consumer}"


def map_plan(network: Network, changes: tuple[Change, ...]) -> MemoryPlan:
    """Return offsets in bytes for every map."""
    return plan_arena(
        map_problem(network, changes),
        budget=Stop(steps=MOST_STEPS, reason=because(ArenaWhy.NO_SMALLER, steps=MOST_STEPS)),
    )


def map_problem(network: Network, changes: tuple[Change, ...]) -> Problem:
    """Return a buffer for every map; a time is the place of a layer in its order.

    A map lives until its last reader is done, an output until the end; a changed map for as long as
    its consumer runs.
    """
    place = {layer.name: number for number, layer in enumerate(network.layers)}
    readers = network.consumers
    buffers = [
        Buffer(
            name=map_name(layer.name),
            size=layer.shape.elements * ELEMENT_BYTES,
            start=place[layer.name],
            end=1 + max((place[one] for one in readers[layer.name]), default=len(place)),
            alignment=ALIGNMENT,
        )
        for layer in network.layers
    ]
    for change in changes:
        at = place[change.connection.consumer]
        size = network.layer(change.connection.producer).shape.elements * ELEMENT_BYTES
        buffers.append(
            Buffer(
                name=change_name(change.connection),
                size=size,
                start=at,
                end=at + 1,
                alignment=ALIGNMENT,
            )
        )
    return Problem(name=network.name, buffers=tuple(buffers))

"""Execution of a network with a primitive and layouts for each layer, to measure time and memory.

All memory is allocated before the first frame. Maps are in one arena, where later maps reuse the bytes
of dead maps. One workspace of the largest size is shared by all layers, and weights are prepared in
advance. Only layers computed by the executor of cnn2csdf allocate arrays. Times are processor times of
a single thread, as in a profile.

A change is a layout transformation of one input of one layer. `planned` executes the same variants of
layers at the offsets of a plan.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from math import prod
from statistics import median
from time import thread_time_ns

import numpy as np

from cnn2csdf.execution.layer_by_layer import checked_frame
from cnn2csdf.network import Connection, Layer, Network
from cnn2csdf.weights import Array, Model
from csdf.errors import ExecutionError
from csdf.status import because
from csdf.time_limit import Stop
from planners.arena.allocation import ArenaWhy, plan_arena
from planners.arena.problem import Buffer, MemoryPlan, Problem
from planners.primitives.library.layers import change_layout, prepared_layer
from planners.primitives.library.primitive import ELEMENT_BYTES, map_dims
from planners.primitives.profile import Variant

ALIGNMENT = 64  # bytes: a cache line, and the widest vector register
MOST_STEPS = 20  # of the search for a smaller arena: a plan does not depend on the clock
LARGE_PAGE = 1 << 21  # bytes

Variants = Mapping[str, Variant]  # by layer
Changes = Mapping[Connection, tuple[str, str]]  # source layout and target layout


def changes_of(network: Network, variants: Variants) -> Changes:
    """Return the connections whose ends differ in layout, in the order of the consumers."""
    changes = {}
    for connection in network.connections:
        written = variants[connection.producer].output_layout
        read = variants[connection.consumer].input_layout
        if network.layer(connection.producer).shape.is_map and written != read:
            changes[connection] = written, read
    return changes


def map_name(layer: str) -> str:
    """Return the name of a layer's output in the arena."""
    return f"map of {layer}"


def change_name(connection: Connection) -> str:
    """Return the name of a transformed map in the arena, for one input of its consumer."""
    return f"input {connection.index} of {connection.consumer}"


def workspace_name(layer: str) -> str:
    """Return the name of a layer's workspace in a plan."""
    return f"workspace of {layer}"


def map_plan(
    network: Network,
    changes: Changes,
    workspaces: Mapping[str, int],
    *,
    has_early_inputs: bool = False,
) -> MemoryPlan:
    """Return offsets in bytes for every map; a time is the position of a layer in its order.

    A map lives until its last consumer has run, an output until one time after all layers; a
    transformed tensor lives during its consumer. workspaces: by layer, bytes of a workspace in the
    arena. has_early_inputs: whether the caller writes all inputs before the first layer; otherwise
    each input layer writes its map at its own time.
    """
    position = {layer.name: number for number, layer in enumerate(network.layers)}
    sizes = {layer.name: layer.shape.elements * ELEMENT_BYTES for layer in network.layers}
    lives: list[tuple[str, int, int, int]] = []  # name, bytes, start, end
    after_all_layers = len(position)
    for layer in network.layers:
        start = 0 if has_early_inputs and layer.is_input else position[layer.name]
        consumers = [position[consumer] for consumer in network.consumers[layer.name]]
        last = max(consumers, default=after_all_layers)
        lives.append((map_name(layer.name), sizes[layer.name], start, last + 1))
    for change in changes:
        at = position[change.consumer]
        lives.append((change_name(change), sizes[change.producer], at, at + 1))
    for name, size in workspaces.items():
        lives.append((workspace_name(name), size, position[name], position[name] + 1))
    buffers = (
        Buffer(name=name, size=size, start=start, end=end, alignment=ALIGNMENT)
        for name, size, start, end in lives
    )
    return plan_arena(
        Problem(name=network.name, buffers=tuple(buffers)),
        budget=Stop(steps=MOST_STEPS, reason=because(ArenaWhy.NO_SMALLER, steps=MOST_STEPS)),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectedRun:
    """The outputs of a run, its time, and its bytes.

    outputs: by output layer. nanoseconds: of a frame, the median of the repetitions. arena_bytes: of
    all maps; workspace_bytes: of the shared workspace; parameter_bytes: of all prepared weights.
    """

    outputs: Mapping[str, Array]
    nanoseconds: int
    arena_bytes: int
    workspace_bytes: int
    parameter_bytes: int

    @property
    def memory_bytes(self) -> int:
        """Bytes of maps, workspace and weights."""
        return self.arena_bytes + self.workspace_bytes + self.parameter_bytes


def run_selected(
    model: Model, variants: Variants, frame: Mapping[str, Array], *, repeats: int = 1
) -> SelectedRun:
    """Return outputs, time and memory of a network with a variant for each layer.

    The time is the median over the repetitions; with several, a first frame is not counted. Raises
    ExecutionError for a frame of another shape and for a layer without a variant, InvalidPlan for a
    variant that cannot compute its layer.
    """
    if repeats < 1:
        raise ExecutionError(f"{repeats} repeats of a run; at least 1")
    network = SelectedNetwork(model, variants)
    input_frame = checked_frame(model.network, frame)
    if repeats > 1:
        network.run(input_frame)
    times = [network.run(input_frame) for _ in range(repeats)]
    return SelectedRun(
        outputs={layer.name: network.maps[layer.name].copy() for layer in model.network.outputs},
        nanoseconds=round(median(times)),
        arena_bytes=network.plan.peak,
        workspace_bytes=network.workspace_bytes,
        parameter_bytes=network.parameter_bytes,
    )


class SelectedNetwork:
    """Memory and prepared weights of a network, ready to run frames.

    maps: a view of the map of each layer; at the end of a frame only those of output layers are valid.
    """

    def __init__(self, model: Model, variants: Variants) -> None:
        network = model.network
        for layer in network.layers:
            if layer.name not in variants:
                raise ExecutionError(
                    f"layer {layer.name!r} has no primitive; choose one for each layer"
                )
        changes = changes_of(network, variants)
        self.plan: MemoryPlan = map_plan(network, changes, {})
        self._cells = fresh_memory(self.plan.peak)
        prepared = [prepared_layer(model, layer, variants[layer.name]) for layer in network.layers]
        self.parameter_bytes = sum(layer.parameter_bytes for layer in prepared)
        self.workspace_bytes = max(layer.workspace_bytes for layer in prepared)
        workspace = fresh_memory(self.workspace_bytes)
        self.maps = {
            layer.name: self._view(map_name(layer.name), layer, variants[layer.name].output_layout)
            for layer in network.layers
        }
        self._steps: list[Callable[[], None]] = []  # layers and changes in order
        # The arrays that each input layer reads: `run` puts the array of its frame there.
        self._frame: dict[str, list[Array]] = {}
        for layer, prepared_run in zip(network.layers, prepared, strict=True):
            inputs = []
            for index, source in enumerate(layer.inputs):
                array = self.maps[source]
                connection = Connection(producer=source, consumer=layer.name, index=index)
                if connection in changes:
                    layout, target_layout = changes[connection]
                    name, producer = change_name(connection), network.layer(source)
                    target = self._view(name, producer, target_layout)
                    self._steps.append(partial(change_layout, array, layout, target))
                    array = target
                inputs.append(array)
            if layer.is_input:
                self._frame[layer.name] = inputs
            self._steps.append(partial(prepared_run.run, inputs, workspace, self.maps[layer.name]))

    def run(self, frame: Mapping[str, Array]) -> int:
        """Run one frame; return the nanoseconds of all layers and changes."""
        for name, inputs in self._frame.items():
            inputs[:] = [frame[name]]  # the steps of the layer hold this list
        started = thread_time_ns()
        for run in self._steps:
            run()
        return thread_time_ns() - started

    def _view(self, name: str, layer: Layer, layout: str) -> Array:
        first = self.plan.offsets[name] // ELEMENT_BYTES
        dims = map_dims(layer.shape.dims, layout)
        return self._cells[first : first + prod(dims)].reshape(dims)


def fresh_memory(count: int) -> Array:
    """Return this many bytes as elements, zero, beginning at a large page. Raises MemoryError.

    Layout transformations and matrix products step over whole pages, so the size of pages may show in
    times. All measurements therefore use large pages, where the system has them.
    """
    try:
        block = mmap.mmap(-1, count + LARGE_PAGE)
    except (OSError, OverflowError) as error:
        raise MemoryError(f"{count} bytes") from error
    if hasattr(mmap, "MADV_HUGEPAGE"):
        block.madvise(mmap.MADV_HUGEPAGE)
    room = np.frombuffer(block, np.uint8)
    first = -room.ctypes.data % LARGE_PAGE
    cells: Array = room[first : first + count - count % ELEMENT_BYTES].view(np.float32)
    cells.fill(0)  # the system maps every page now, not while a layer is timed
    return cells

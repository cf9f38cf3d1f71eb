"""Execution of a network with a primitive and layouts for each layer, to measure it or by a plan.

`run_selected` measures: all memory is allocated before the first frame. Maps are in one arena,
where dead maps make space for later ones; one workspace of the largest size serves all layers;
weights are prepared in advance. Only layers computed by the executor of cnn2csdf allocate arrays.
Times are processor times of the one thread, as in a profile.

`run_planned` executes a plan in the common form of plans (`streaming_plan`), with maps, transformed
tensors and workspaces in one arena. Each layer is a group. A layout transformation is a transfer
from the buffer of the map to a buffer with the other layout. A workspace is scratch of its layer.
Weights are stored elsewhere.

A variant of a layer is a primitive with its input layout and its output layout. A layout
transformation is called a change.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from math import prod
from statistics import median
from time import thread_time_ns
from typing import Any

import numpy as np

from cnn2csdf.execution.layer_by_layer import checked_frame
from cnn2csdf.network import Connection, Layer, Network
from cnn2csdf.parameters import multiply_accumulates
from cnn2csdf.weights import Array, Model
from csdf.errors import ExecutionError, InvalidPlan, counted
from csdf.status import because
from csdf.time_limit import Stop
from planners.arena.allocation import ArenaWhy, plan_arena
from planners.arena.problem import Buffer, MemoryPlan, Problem
from planners.plan.carried_out import require_carried_out
from planners.plan.plan import (
    Kind,
    NamedPrimitive,
    PlannedGroup,
    Stage,
    StreamBuffer,
    StreamingPlan,
    Transfer,
)
from planners.primitives.library.layers import Way, change_layout, prepared_layer
from planners.primitives.library.primitive import ELEMENT_BYTES, by_channels, map_dims
from planners.primitives.profile import CHW
from planners.primitives.selection.problem import Selection

ALIGNMENT = 64  # bytes: whole cache lines, and what vector instructions like
MOST_STEPS = 20  # of the search for a smaller arena: a plan does not depend on the clock
LARGE_PAGE = 1 << 21  # bytes
POISON = 0x7FC0DEAD  # a float that is no number

Variants = Mapping[str, Way]  # by layer: primitive, input layout, output layout
# Source layout and target layout of a transformation.
Changes = Mapping[Connection, tuple[str, str]]
# Nanoseconds of a layer, by name, or of a layout transformation.
Times = dict[str | Connection, int]


def changes_of(network: Network, variants: Variants) -> Changes:
    """Return the connections whose ends differ in layout, in the order of the consumers."""
    ends = {
        connection: (variants[connection.producer][2], variants[connection.consumer][1])
        for connection in network.connections
        if network.layer(connection.producer).shape.is_map
    }
    return {
        connection: (source, target)
        for connection, (source, target) in ends.items()
        if source != target
    }


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
    network: Network, changes: Changes, workspaces: Mapping[str, int] | None = None
) -> MemoryPlan:
    """Return offsets in bytes for every map; a time is the position of a layer in its order.

    A map lives until its last consumer has run, an output until one time after all layers; a
    transformed tensor lives during its consumer. workspaces: by layer, bytes of a workspace in the
    arena, for a plan in which the caller writes all inputs before the first layer. None: the arena
    has no workspaces, and the input layers write their maps at their own times.
    """
    position = {layer.name: number for number, layer in enumerate(network.layers)}
    sizes = {layer.name: layer.shape.elements * ELEMENT_BYTES for layer in network.layers}
    lives: list[tuple[str, int, int, int]] = []  # name, bytes, start, end
    after_all_layers = len(position)
    for layer in network.layers:
        is_written_before = workspaces is not None and layer.is_input
        start = 0 if is_written_before else position[layer.name]
        consumers = [position[consumer] for consumer in network.consumers[layer.name]]
        last = max(consumers, default=after_all_layers)
        lives.append((map_name(layer.name), sizes[layer.name], start, last + 1))
    for change in changes:
        at = position[change.consumer]
        lives.append((change_name(change), sizes[change.producer], at, at + 1))
    for name, size in (workspaces or {}).items():
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
    model: Model, variants: Variants, frame: Mapping[str, Array], *, repeats: int = 1
) -> SelectedRun:
    """Return outputs, times and memory of a network with a variant for each layer.

    Times are medians over the repetitions; with several, a first frame is not counted. Raises
    ExecutionError for a frame of another shape and for a layer without a variant, InvalidPlan for a
    variant that cannot compute its layer.
    """
    if repeats < 1:
        raise ExecutionError(f"{repeats} repeats of a run; at least 1")
    network = SelectedNetwork(model, variants)
    input_frame = checked_frame(model.network, frame)
    if repeats > 1:
        network.run(input_frame)
    runs = [network.run(input_frame) for _ in range(repeats)]
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


class SelectedNetwork:
    """Memory and prepared weights of a network, ready to run frames."""

    def __init__(self, model: Model, variants: Variants) -> None:
        network = model.network
        for layer in network.layers:
            if layer.name not in variants:
                raise ExecutionError(
                    f"layer {layer.name!r} has no primitive; choose one for each layer"
                )
        changes = changes_of(network, variants)
        self.plan: MemoryPlan = map_plan(network, changes)
        self._cells = fresh_memory(self.plan.peak)
        prepared = [prepared_layer(model, layer, variants[layer.name]) for layer in network.layers]
        self.parameter_bytes = sum(layer.parameter_bytes for layer in prepared)
        self.workspace_bytes = max(layer.workspace_bytes for layer in prepared)
        workspace = fresh_memory(self.workspace_bytes)
        self._maps = {
            layer.name: self._view(map_name(layer.name), layer, variants[layer.name][2])
            for layer in network.layers
        }
        self._steps: list[tuple[str | Connection, Callable[[], None]]] = []  # what runs, in order
        self._frame: dict[str, list[Array]] = {}  # what the input layers read
        for layer, prepared_run in zip(network.layers, prepared, strict=True):
            inputs = []
            for index, source in enumerate(layer.inputs):
                array = self._maps[source]
                connection = Connection(producer=source, consumer=layer.name, index=index)
                if connection in changes:
                    layout, target_layout = changes[connection]
                    name, producer = change_name(connection), network.layer(source)
                    target = self._view(name, producer, target_layout)
                    self._steps.append((connection, partial(change_layout, array, layout, target)))
                    array = target
                inputs.append(array)
            if layer.is_input:
                self._frame[layer.name] = inputs
            run = partial(prepared_run.run, inputs, workspace, self._maps[layer.name])
            self._steps.append((layer.name, run))

    def output(self, layer: Layer) -> Array:
        """Return the map of a layer, a view; only output layers keep theirs to the end."""
        return self._maps[layer.name]

    def run(self, frame: Mapping[str, Array]) -> Times:
        """Run one frame and return the time of each layer and layout transformation."""
        for name, inputs in self._frame.items():
            inputs[:] = [frame[name]]
        times: Times = {}
        for part, run in self._steps:
            started = thread_time_ns()
            run()
            times[part] = thread_time_ns() - started
        return times

    def _view(self, name: str, layer: Layer, layout: str) -> Array:
        first = self.plan.offsets[name] // ELEMENT_BYTES
        dims = map_dims(layer.shape.dims, layout)
        return self._cells[first : first + prod(dims)].reshape(dims)


def fresh_memory(count: int) -> Array:
    """Return this many bytes as elements, zero, beginning at a large page. Raises MemoryError.

    Layout transformations and matrix products step over whole pages, so the size of pages may show in
    times: memory is laid out alike wherever they are taken, on large pages where the system has them.
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
    cells.fill(0)  # so that every page is there before anything is timed
    return cells


def variants_of(selection: Selection) -> dict[str, Way]:
    """Return the variant of each layer: primitive, input layout, output layout."""
    return {
        choice.layer: (choice.primitive, choice.input_layout, choice.output_layout)
        for choice in selection.chosen
    }


def streaming_plan(network: Network, selection: Selection) -> StreamingPlan:
    """Return the plan of a selection, with workspaces as the profile has them."""
    workspaces = {choice.layer: choice.workspace_bytes for choice in selection.chosen}
    for _, change in selection.changes:
        largest = max(workspaces[change.consumer], change.workspace_bytes)
        workspaces[change.consumer] = largest
    return planned_primitives(network, variants_of(selection), workspaces)


def planned_primitives(
    network: Network, variants: Variants, workspaces: Mapping[str, int]
) -> StreamingPlan:
    """Return the plan of layers in these variants: a group for each layer that is no input.

    workspaces: bytes of each layer.
    """
    changes = changes_of(network, variants)
    workspaces = {name: size for name, size in workspaces.items() if size}
    memory = map_plan(network, changes, workspaces)
    computed = [layer for layer in network.layers if not layer.is_input]
    group_of = {layer.name: number for number, layer in enumerate(computed)}

    def buffer(name: str, kind: Kind, tensor: str, size: int, **more: Any) -> StreamBuffer:
        offset = memory.offsets[name] if size else 0
        fields = {"rows": 0, "size": size, "offset": offset} | more
        return StreamBuffer(name=name, kind=kind, tensor=tensor, **fields)

    def whole(name: str, layer: Layer, layout: str, **more: Any) -> StreamBuffer:
        more |= {"rows": layer.shape.rows, "layout": layout if layer.shape.is_map else None}
        size = layer.shape.elements * ELEMENT_BYTES
        return buffer(name, Kind.WHOLE, layer.name, size, **more)

    buffers: list[StreamBuffer] = []
    for layer in network.layers:
        begin, readers = group_of.get(layer.name, 0), network.consumers[layer.name]
        end = max((group_of[name] for name in readers), default=len(computed) - 1) + 1
        layout = variants[layer.name][2]
        buffers.append(whole(map_name(layer.name), layer, layout, begin=begin, end=end))
    for change, (_, layout) in changes.items():
        at, producer = group_of[change.consumer], network.layer(change.producer)
        lives = {"begin": at, "end": at + 1, "readers": (change.consumer,)}
        buffers.append(whole(change_name(change), producer, layout, **lives))
    for name, size in workspaces.items():
        at = group_of.get(name, 0)
        lives = {"begin": at, "end": at + 1, "readers": (name,)}
        buffers.append(buffer(workspace_name(name), Kind.SCRATCH, name, size, **lives))
    groups = []
    for at, layer in enumerate(computed):
        # The form of plans requires a staging buffer for each group; whole layers stage no rows.
        buffers.append(buffer("staging", Kind.STAGING, layer.name, 0, begin=at, end=at + 1))
        name, reads, writes = variants[layer.name]
        stage = Stage(
            layers=(layer.name,),
            rows=layer.shape.rows,
            primitive=NamedPrimitive(name=name, reads=reads, writes=writes),
        )
        transfers = tuple(
            Transfer(source=map_name(change.producer), target=change_name(change))
            for change in changes
            if change.consumer == layer.name
        )
        groups.append(PlannedGroup(stages=(stage,), streamed_input=None, transfers=transfers))
    return StreamingPlan(
        network=network.name,
        element_bytes=ELEMENT_BYTES,
        groups=tuple(groups),
        buffers=tuple(buffers),
        arena_bytes=memory.peak,
        multiply_accumulates=sum(
            multiply_accumulates(layer, network.input_shapes(layer)) for layer in computed
        ),
    )


def run_planned(model: Model, plan: StreamingPlan, frame: Mapping[str, Array]) -> dict[str, Array]:
    """Return the outputs of a frame, each layer computed by the primitive that the plan names.

    Maps have the layouts of the plan. Before a group runs, the arena outside the maps of earlier groups
    is poisoned. Raises InvalidPlan if the checker refuses the plan, and for a layer without a primitive
    or with too small a workspace; ExecutionError if a primitive writes outside its buffers.
    """
    require_carried_out(model.network, plan)
    return _PlanExecution(model, plan).outputs(checked_frame(model.network, frame))


class _PlanExecution:
    """The execution of a plan in an arena with its buffers."""

    def __init__(self, model: Model, plan: StreamingPlan) -> None:
        self._model, self._plan = model, plan
        self._words = np.full(-(-plan.arena_bytes // ELEMENT_BYTES), POISON, np.uint32)
        self._cells = self._words.view(np.float32)

    def outputs(self, frame: Mapping[str, Array]) -> dict[str, Array]:
        network, plan = self._model.network, self._plan
        buffers = {buffer.name: buffer for buffer in plan.buffers}
        for layer in network.inputs:
            self._by_channels(layer, 0)[...] = frame[layer.name]
        for number, group in enumerate(plan.groups):
            # The arena begins poisoned. Before the first group it has the inputs in addition, which
            # must stay; each later group keeps the maps that earlier groups wrote.
            if number:
                kept = [
                    buffer
                    for buffer in plan.buffers
                    if buffer.kind is Kind.WHOLE and buffer.begin < number < buffer.end
                ]
                self._words[~self._mask(kept)] = POISON
            for copy in group.transfers:
                source, target = buffers[copy.source], buffers[copy.target]
                if source.layout in (None, target.layout):
                    self._view(target)[...] = self._view(source)
                else:
                    change_layout(self._view(source), source.layout, self._view(target))
            for stage in group.stages:
                self._run_stage(number, stage)
        last = len(plan.groups) - 1
        return {layer.name: self._by_channels(layer, last).copy() for layer in network.outputs}

    def _run_stage(self, number: int, stage: Stage) -> None:
        layer = self._model.network.layer(stage.result)
        if stage.primitive is None:
            raise InvalidPlan(f"layer {layer.name!r} has no primitive")
        variant = stage.primitive.name, stage.primitive.reads, stage.primitive.writes
        prepared = prepared_layer(self._model, layer, variant)
        scratch = [
            buffer
            for buffer in self._plan.buffers
            if buffer.kind is Kind.SCRATCH
            and layer.name in buffer.readers
            and buffer.begin <= number < buffer.end
        ]
        workspace = self._cells[self._place(scratch[0])] if scratch else self._cells[:0]
        if not prepared.allocates and prepared.workspace_bytes > workspace.nbytes:
            raise InvalidPlan(
                f"layer {layer.name!r} has a workspace of {workspace.nbytes} bytes; "
                f"{stage.primitive.name!r} needs {prepared.workspace_bytes}"
            )
        written = self._plan.written(layer.name, number)
        if [buffer.kind for buffer in written] != [Kind.WHOLE]:
            kinds = ", ".join(buffer.kind.value for buffer in written)
            raise InvalidPlan(
                f"layer {layer.name!r} writes {counted(len(written), 'buffer')} ({kinds}); "
                "expected one whole buffer in the arena"
            )
        result = written[0]
        inputs = [self._view(self._buffer(source, number, layer.name)) for source in layer.inputs]
        before = self._words.copy()
        workspace.view(np.uint32)[...] = POISON
        prepared.run(inputs, workspace, self._view(result))
        changed = np.flatnonzero((self._words != before) & ~self._mask([result, *scratch]))
        if len(changed):
            raise ExecutionError(
                f"layer {layer.name!r} writes to byte {changed[0] * ELEMENT_BYTES}, which is not "
                "its own"
            )

    def _buffer(self, tensor: str, group: int, reader: str = "") -> StreamBuffer:
        """Return the buffer of a tensor in a group: of this reader, or without readers.

        The checker refuses two buffers of a tensor in one group that have a reader in common, or that
        both have no readers.
        """
        candidates = [
            buffer
            for buffer in self._plan.buffers
            if (buffer.tensor, buffer.kind) == (tensor, Kind.WHOLE)
            and buffer.begin <= group < buffer.end
        ]
        own_buffers = [buffer for buffer in candidates if reader in buffer.readers]
        buffers = own_buffers or [buffer for buffer in candidates if not buffer.readers]
        if not buffers:
            raise InvalidPlan(f"group {group + 1}: no buffer of the arena stores {tensor!r}")
        return buffers[0]

    def _mask(self, buffers: list[StreamBuffer]) -> Array:
        """Return for each element of the arena whether it lies in one of the buffers."""
        is_used = np.zeros(len(self._cells), bool)
        for buffer in buffers:
            is_used[self._place(buffer)] = True
        return is_used

    def _place(self, buffer: StreamBuffer) -> slice:
        first = buffer.offset // ELEMENT_BYTES
        return slice(first, first + -(-buffer.size // ELEMENT_BYTES))

    def _view(self, buffer: StreamBuffer) -> Array:
        layer = self._model.network.layer(buffer.tensor)
        dims = map_dims(layer.shape.dims, buffer.layout or CHW)
        return self._cells[self._place(buffer)].reshape(dims)

    def _by_channels(self, layer: Layer, group: int) -> Array:
        buffer = self._buffer(layer.name, group)
        view = self._view(buffer)
        return by_channels(view, buffer.layout or CHW) if layer.shape.is_map else view

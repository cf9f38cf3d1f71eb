"""Execution of a network by a plan in which each layer has a primitive and layouts.

`streaming_plan` makes a plan in the common form of plans, with maps, transformed tensors and workspaces
in one arena. Each layer is a group. A layout transformation is a transfer from the buffer of the map to
a buffer with the other layout. A workspace is scratch of its layer. Weights are stored elsewhere.
`run_planned` executes such a plan. Variants and changes are those of `execution`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from cnn2csdf.execution.layer_by_layer import checked_frame
from cnn2csdf.network import Layer, Network
from cnn2csdf.parameters import multiply_accumulates
from cnn2csdf.weights import Array, Model
from csdf.errors import ExecutionError, InvalidPlan, counted
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
from planners.primitives.execution import (
    Variants,
    change_name,
    changes_of,
    map_name,
    map_plan,
    workspace_name,
)
from planners.primitives.library.layers import change_layout, prepared_layer
from planners.primitives.library.primitive import ELEMENT_BYTES, by_channels, map_dims
from planners.primitives.profile import CHW, Variant
from planners.primitives.selection.problem import Selection

POISON = 0x7FC0DEAD  # a float that is no number


def streaming_plan(network: Network, selection: Selection) -> StreamingPlan:
    """Return the plan of a selection, with workspaces as the profile has them."""
    workspaces = {choice.layer: choice.workspace_bytes for choice in selection.chosen}
    for _, change in selection.changes:
        largest = max(workspaces[change.consumer], change.workspace_bytes)
        workspaces[change.consumer] = largest
    return planned_primitives(network, selection.variants, workspaces)


def planned_primitives(
    network: Network, variants: Variants, workspaces: Mapping[str, int]
) -> StreamingPlan:
    """Return the plan of layers in these variants: a group for each layer that is no input.

    workspaces: bytes of each layer.
    """
    changes = changes_of(network, variants)
    workspaces = {name: size for name, size in workspaces.items() if size}
    memory = map_plan(network, changes, workspaces, has_early_inputs=True)
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
        layout = variants[layer.name].output_layout
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
        variant = Variant(stage.primitive.name, stage.primitive.reads, stage.primitive.writes)
        prepared = prepared_layer(self._model, layer, variant)
        scratch = [
            buffer
            for buffer in self._plan.buffers
            if buffer.kind is Kind.SCRATCH
            and layer.name in buffer.readers
            and buffer.is_live(number)
        ]
        workspace = self._cells[self._place(scratch[0])] if scratch else self._cells[:0]
        # A layer that allocates its temporary arrays does not use the workspace.
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
            if (buffer.tensor, buffer.kind) == (tensor, Kind.WHOLE) and buffer.is_live(group)
        ]
        own_buffers = [buffer for buffer in candidates if reader in buffer.readers]
        buffers = own_buffers or [buffer for buffer in candidates if not buffer.readers]
        if not buffers:
            raise InvalidPlan(f"group {group + 1}: no buffer of the arena stores {tensor!r}")
        return buffers[0]

    def _mask(self, buffers: list[StreamBuffer]) -> Array:
        """Return for each element of the arena whether one of the buffers contains it."""
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

"""A plan with primitives at work: each in its bytes of one poisoned arena, and in no others."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from cnn2csdf.execution.whole import checked_frame
from cnn2csdf.network import Layer
from cnn2csdf.weights import Array, Model
from csdf.errors import ExecutionError, InvalidPlan
from planners.primitives.library.convolution import ELEMENT_BYTES
from planners.primitives.library.prepared import prepared_layer
from planners.primitives.library.primitive import map_dims
from planners.primitives.library.relayout import change_layout
from planners.primitives.profile import CHW
from planners.streaming.given.judge import require_carried_out
from planners.streaming.plan import HandOver, Kind, PlannedStage, StreamBuffer, StreamingPlan

POISON = 0x7FC0DEAD  # a float that is no number


def run_planned(model: Model, plan: StreamingPlan, frame: Mapping[str, Array]) -> dict[str, Array]:
    """Return the outputs of a frame, each layer computed by the primitive that the plan names.

    Maps lie in the layouts of the plan. What is in no buffer of a group is poisoned before it works.
    Raises InvalidPlan where the judge refuses the plan, where a layer has no primitive, or needs more
    workspace than it has; ExecutionError where a primitive writes to bytes that it has not.
    """
    require_carried_out(model.network, plan)
    running = _Run(model, plan)
    return running.outputs(checked_frame(model.network, frame))


class _Run:
    """An arena, and the buffers of a plan in it."""

    def __init__(self, model: Model, plan: StreamingPlan) -> None:
        self._model, self._plan = model, plan
        self._cells = np.full(-(-plan.arena_bytes // ELEMENT_BYTES), POISON, np.uint32).view(
            np.float32
        )

    def outputs(self, frame: Mapping[str, Array]) -> dict[str, Array]:
        network, plan = self._model.network, self._plan
        for layer in network.inputs:
            self._view(self._buffer(layer.name, 0))[...] = self._laid(layer, frame[layer.name])
        for number, group in enumerate(plan.groups):
            self._spoil_all_but(number)
            for copy in group.hand_overs:
                self._hand_over(copy)
            for planned in group.stages:
                self._work(number, planned)
        return {layer.name: self._found(layer) for layer in network.outputs}

    def _laid(self, layer: Layer, array: Array) -> Array:
        buffer = self._buffer(layer.name, 0)
        return array.transpose(1, 2, 0) if _is_turned(layer, buffer) else array

    def _found(self, layer: Layer) -> Array:
        buffer = self._buffer(layer.name, len(self._plan.groups) - 1)
        array = self._view(buffer)
        return (array.transpose(2, 0, 1) if _is_turned(layer, buffer) else array).copy()

    def _spoil_all_but(self, number: int) -> None:
        """Poison the bytes that no buffer has which lives from before the group into it."""
        kept = np.zeros(len(self._cells), bool)
        for one in self._plan.buffers:
            if one.kind is Kind.WHOLE and one.begin < max(number, 1) and number < one.end:
                kept[self._cells_of(one)] = True
        self._cells.view(np.uint32)[~kept] = POISON

    def _hand_over(self, copy: HandOver) -> None:
        buffers = {one.name: one for one in self._plan.buffers}
        source, target = buffers[copy.source], buffers[copy.target]
        if source.layout in (None, target.layout):
            self._view(target)[...] = self._view(source)
        else:
            change_layout(self._view(source), source.layout, self._view(target))

    def _work(self, number: int, planned: PlannedStage) -> None:
        network = self._model.network
        layer = network.layer(planned.stage.result)
        if planned.primitive is None:
            raise InvalidPlan(f"layer {layer.name!r} has no primitive")
        way = planned.primitive.name, planned.primitive.reads, planned.primitive.writes
        prepared = prepared_layer(self._model, layer, way)
        workspace = self._workspace(layer.name, number)
        if not prepared.allocates and prepared.workspace_bytes > workspace.nbytes:
            raise InvalidPlan(
                f"layer {layer.name!r} has a workspace of {workspace.nbytes} bytes; "
                f"{way[0]!r} needs {prepared.workspace_bytes}"
            )
        result = self._buffer(layer.name, number)
        inputs = [self._view(self._buffer(one, number, layer.name)) for one in layer.inputs]
        before = self._cells.view(np.uint32).copy()
        workspace.view(np.uint32)[...] = POISON
        prepared.run(inputs, workspace, self._view(result))
        self._require_unharmed(before, layer.name, number, result)

    def _require_unharmed(
        self, before: Array, layer: str, number: int, result: StreamBuffer
    ) -> None:
        """Refuse writes beyond the result and the workspace of a layer."""
        own = np.zeros(len(before), bool)
        for one in (result, *self._scratch(layer, number)):
            own[self._cells_of(one)] = True
        changed = np.flatnonzero((self._cells.view(np.uint32) != before) & ~own)
        if len(changed):
            raise ExecutionError(
                f"layer {layer!r} writes to byte {changed[0] * ELEMENT_BYTES}, which is not its own"
            )

    def _scratch(self, layer: str, number: int) -> list[StreamBuffer]:
        return [
            one
            for one in self._plan.buffers
            if one.kind is Kind.SCRATCH and layer in one.readers and one.begin <= number < one.end
        ]

    def _workspace(self, layer: str, number: int) -> Array:
        found = self._scratch(layer, number)
        return self._cells[self._cells_of(found[0])] if found else self._cells[:0]

    def _buffer(self, tensor: str, group: int, reader: str = "") -> StreamBuffer:
        """The buffer of a tensor in a group: for a reader that it names, or for all others."""
        found = [
            one
            for one in self._plan.buffers
            if (one.tensor, one.kind) == (tensor, Kind.WHOLE) and one.begin <= group < one.end
        ]
        own = [one for one in found if reader in one.readers]
        return (own or [one for one in found if not one.readers])[-1]

    def _cells_of(self, buffer: StreamBuffer) -> slice:
        first = buffer.offset // ELEMENT_BYTES
        return slice(first, first + -(-buffer.size // ELEMENT_BYTES))

    def _view(self, buffer: StreamBuffer) -> Array:
        layer = self._model.network.layer(buffer.tensor)
        dims = map_dims(layer.shape.dims, buffer.layout or CHW)
        return self._cells[self._cells_of(buffer)].reshape(dims)


def _is_turned(layer: Layer, buffer: StreamBuffer) -> bool:
    """Whether a map has the feature maps of a place side by side."""
    return layer.shape.is_map and (buffer.layout or CHW) != CHW

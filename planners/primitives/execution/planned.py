"""A plan with primitives at work: each in its bytes of one poisoned arena, and in no others.

A selection of primitives in the form of all plans: maps, changed maps and workspaces in one arena.

A layer is a group of its own. A map that a layer reads in another layout is handed over from the
buffer in which it lies to one that has this layout. A workspace is scratch of the layer: nobody else
has these bytes while it works. Weights lie elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np

from cnn2csdf.execution.layer_by_layer import checked_frame
from cnn2csdf.network import Layer, Network
from cnn2csdf.operators import Input
from cnn2csdf.parameters import multiply_accumulates
from cnn2csdf.weights import Array, Model
from csdf.errors import ExecutionError, InvalidPlan
from csdf.status import because
from csdf.time_limit import Stop
from planners.arena.allocation import ArenaWhy, plan_arena
from planners.arena.problem import Buffer, MemoryPlan, Problem
from planners.plan.checker import require_carried_out
from planners.plan.plan import (
    Kind,
    NamedPrimitive,
    PlannedGroup,
    PlannedStage,
    Stage,
    StreamBuffer,
    StreamingPlan,
    Transfer,
)
from planners.primitives.execution.selected import (
    ALIGNMENT,
    MOST_STEPS,
    change_name,
    changes_of,
    map_name,
    map_problem,
)
from planners.primitives.library.layers import change_layout, prepared_layer
from planners.primitives.library.primitive import ELEMENT_BYTES, map_dims
from planners.primitives.library.primitives import Way
from planners.primitives.profile import CHW
from planners.primitives.selection.problem import Selection

POISON = 0x7FC0DEAD  # a float that is no number


def run_planned(model: Model, plan: StreamingPlan, frame: Mapping[str, Array]) -> dict[str, Array]:
    """Return the outputs of a frame, each layer computed by the primitive that the plan names.

    Maps lie in the layouts of the plan. What is in no buffer of a group is poisoned before it works.
    Raises InvalidPlan where the checker refuses the plan, where a layer has no primitive, or needs more
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
            for copy in group.transfers:
                self._transfer(copy)
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

    def _transfer(self, copy: Transfer) -> None:
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


def ways_of_selection(selection: Selection) -> dict[str, Way]:
    """Return the way of each layer: primitive, input layout, output layout."""
    return {
        one.layer: (one.primitive, one.input_layout, one.output_layout) for one in selection.chosen
    }


def streaming_plan(network: Network, selection: Selection) -> StreamingPlan:
    """Return the plan of a selection, with workspaces as the profile has them."""
    workspaces = {one.layer: one.workspace_bytes for one in selection.chosen}
    for _, change in selection.changes:
        largest = max(workspaces[change.consumer], change.workspace_bytes)
        workspaces[change.consumer] = largest
    return planned_primitives(network, ways_of_selection(selection), workspaces)


def planned_primitives(
    network: Network, ways: Mapping[str, Way], workspaces: Mapping[str, int]
) -> StreamingPlan:
    """Return the plan of layers in given ways. workspaces: bytes of each layer."""
    return _Writing(network, ways, workspaces).plan()


def workspace_name(layer: str) -> str:
    """Return how a plan calls the workspace of a layer."""
    return f"workspace of {layer}"


class _Writing:
    """A selection on its way to a plan."""

    def __init__(
        self, network: Network, ways: Mapping[str, Way], workspaces: Mapping[str, int]
    ) -> None:
        self._network, self._ways = network, ways
        self._workspaces = {name: size for name, size in workspaces.items() if size}
        self._changes = changes_of(network, ways)
        works = [one for one in network.layers if not isinstance(one.operator, Input)]
        self._group = {layer.name: number for number, layer in enumerate(works)}
        self._works = works
        self._memory = self._placed()

    def _placed(self) -> MemoryPlan:
        """Offsets of all buffers; a time is the place of a layer, and inputs are there at the start."""
        place = {layer.name: number for number, layer in enumerate(self._network.layers)}
        problem = map_problem(self._network, self._changes)
        inputs = {map_name(layer.name) for layer in self._network.inputs}
        buffers = [replace(one, start=0) if one.name in inputs else one for one in problem.buffers]
        for layer, size in self._workspaces.items():
            buffers.append(
                Buffer(
                    name=workspace_name(layer),
                    size=size,
                    start=place[layer],
                    end=place[layer] + 1,
                    alignment=ALIGNMENT,
                )
            )
        return plan_arena(
            Problem(name=self._network.name, buffers=tuple(buffers)),
            budget=Stop(steps=MOST_STEPS, reason=because(ArenaWhy.NO_SMALLER, steps=MOST_STEPS)),
        )

    def plan(self) -> StreamingPlan:
        return StreamingPlan(
            network=self._network.name,
            element_bytes=ELEMENT_BYTES,
            groups=tuple(self._planned(layer) for layer in self._works),
            buffers=tuple(self._buffers()),
            arena_bytes=self._memory.peak,
            multiply_accumulates=sum(
                multiply_accumulates(layer, self._network.input_shapes(layer))
                for layer in self._works
            ),
        )

    def _planned(self, layer: Layer) -> PlannedGroup:
        name, reads, writes = self._ways[layer.name]
        stage = Stage(layers=(layer.name,), rows=layer.shape.rows)
        primitive = NamedPrimitive(name=name, reads=reads, writes=writes)
        return PlannedGroup(
            stages=(PlannedStage(stage=stage, strips=(), primitive=primitive),),
            streamed_input=None,
            transfers=tuple(
                Transfer(
                    source=map_name(one.connection.producer), target=change_name(one.connection)
                )
                for one in self._changes
                if one.connection.consumer == layer.name
            ),
        )

    def _buffers(self) -> Iterator[StreamBuffer]:
        last = {layer.name: self._last(layer) for layer in self._network.layers}
        for layer in self._network.layers:
            begin, end = self._group.get(layer.name, 0), last[layer.name]
            layout = self._ways[layer.name][2]
            yield self._whole(map_name(layer.name), layer, begin, end, layout)
        for one in self._changes:
            producer = self._network.layer(one.connection.producer)
            at = self._group[one.connection.consumer]
            name, layout = change_name(one.connection), one.target_layout
            found = self._whole(name, producer, at, at + 1, layout)
            yield replace(found, readers=(one.connection.consumer,))
        for name, size in self._workspaces.items():
            at, own = self._group.get(name, 0), workspace_name(name)
            yield replace(self._buffer(own, Kind.SCRATCH, name, at, at + 1, size), readers=(name,))
        for layer in self._works:
            at = self._group[layer.name]
            yield self._buffer("staging", Kind.STAGING, layer.name, at, at + 1, 0)

    def _last(self, layer: Layer) -> int:
        """The end of the groups that read a layer; an output stays to the end."""
        readers = [self._group[name] for name in self._network.consumers[layer.name]]
        return max(readers, default=len(self._works) - 1) + 1

    def _whole(self, name: str, layer: Layer, begin: int, end: int, layout: str) -> StreamBuffer:
        size = layer.shape.elements * ELEMENT_BYTES
        found = self._buffer(name, Kind.WHOLE, layer.name, begin, end, size)
        return replace(found, rows=layer.shape.rows, layout=layout if layer.shape.is_map else None)

    def _buffer(
        self, name: str, kind: Kind, tensor: str, begin: int, end: int, size: int
    ) -> StreamBuffer:
        return StreamBuffer(
            name=name,
            kind=kind,
            tensor=tensor,
            rows=0,
            size=size,
            offset=self._memory.offsets[name] if size else 0,
            begin=begin,
            end=end,
        )

"""A selection of primitives in the form of all plans: maps, changed maps and workspaces in one arena.

A layer is a group of its own. A map that a layer reads in another layout is handed over from the
buffer in which it lies to one that has this layout. A workspace is scratch of the layer: nobody else
has these bytes while it works. Weights lie elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from cnn2csdf.network import Layer, Network
from cnn2csdf.operators import Input
from cnn2csdf.parameters import multiply_accumulates
from csdf.outcome import because
from csdf.stopping import Stop
from planners.arena.allocation import ArenaWhy, plan_arena
from planners.plan import Buffer, MemoryPlan, Problem
from planners.primitives.execution.arena import (
    ALIGNMENT,
    MOST_STEPS,
    change_name,
    changes_of,
    map_name,
    map_problem,
)
from planners.primitives.library.convolution import ELEMENT_BYTES
from planners.primitives.library.primitives import Way
from planners.primitives.selection.problem import Selection
from planners.streaming.plan import (
    HandOver,
    Kind,
    NamedPrimitive,
    PlannedGroup,
    PlannedStage,
    StreamBuffer,
    StreamingPlan,
)
from planners.streaming.stage import Stage


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
            arriving=None,
            hand_overs=tuple(
                HandOver(
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
            yield self._buffer("pool", Kind.POOL, layer.name, at, at + 1, 0)

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

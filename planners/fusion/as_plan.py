"""A plan of groups in the form of all plans: which the judge judges, and the one machine carries out.

A layer that works whole is a group of its own, tiles and rows are one group each. Rows of the tensor
that a group of rows reads are copied into its rings, as its graph has them; rows of its result go
into their ring, and where the result lies whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from cnn2csdf.execution.whole import checked_frame
from cnn2csdf.granularity import ROWS, parts
from cnn2csdf.network import Layer
from cnn2csdf.weights import Array, Model
from csdf.analysis.self_timed import self_timed_execution
from planners.fusion.chains import Chain
from planners.fusion.configurations import Group
from planners.fusion.memory import edge_name, lines_name, scratch_name, tile_name
from planners.fusion.planning import part_of_group
from planners.fusion.plans import FusionPlan
from planners.fusion.streaming import channel_name
from planners.fusion.ways import Way
from planners.streaming.computing import ModelComputing
from planners.streaming.machine import Machine
from planners.streaming.ordered.parts import Ring, read_once
from planners.streaming.ordered.turns import turns_of
from planners.streaming.plan import Kind, PlannedGroup, PlannedStage, StreamBuffer, StreamingPlan
from planners.streaming.stage import Manner, Stage, Tiles
from planners.streaming.stages import StageTable

OF_TILES = ((Kind.TILE, tile_name), (Kind.TILE_ROWS, lines_name), (Kind.TILE_COLUMNS, edge_name))


@dataclass(frozen=True, slots=True, kw_only=True)
class FusedRun:
    """The outputs of a run. arena_bytes: of the arena; touched: up to the last byte written."""

    output: Array
    arena_bytes: int
    touched: int


def run_fused(model: Model, plan: FusionPlan, frame: Mapping[str, Array]) -> FusedRun:
    """Return the output of a frame, computed as the plan says, in an arena of its bytes.

    Raises ExecutionError where a byte that is read does not hold what the layer is to read, and for a
    tile that is larger than its buffer.
    """
    given = checked_frame(model.network, frame)
    machine = Machine(model.network, streaming_plan(plan), ModelComputing(model, given))
    machine.run()
    result = plan.chain.network.layer(plan.chain.result)
    found = machine.output(result.name)
    found = found.transpose(2, 0, 1) if result.shape.is_map else found
    return FusedRun(
        output=found.reshape(result.shape.dims),
        arena_bytes=plan.memory,
        touched=machine.arena.most,
    )


def streaming_plan(plan: FusionPlan) -> StreamingPlan:
    """Return the plan in the form of all plans."""
    return _Writing(plan).plan()


class _Writing:
    """A plan of groups on its way to the form of all plans."""

    def __init__(self, plan: FusionPlan) -> None:
        self._plan = plan
        self._chain: Chain = plan.chain
        self._table = StageTable(plan.chain.network, element_bytes=plan.terms.element_bytes)
        self._sizes = {one.name: one.size for one in plan.arena.problem.buffers}
        self._groups: list[PlannedGroup] = []
        self._inside: list[StreamBuffer] = []

    def plan(self) -> StreamingPlan:
        for number, group in enumerate(self._plan.groups):
            layers = self._chain.layers(group.first, group.upto)
            if group.way is Way.WHOLE:
                for layer in layers:
                    self._add_whole(layer)
            elif group.way is Way.ROWS:
                self._add_rows(number, group, layers)
            else:
                self._add_tiles(group, layers)
        return StreamingPlan(
            network=self._chain.network.name,
            element_bytes=self._plan.terms.element_bytes,
            groups=tuple(self._groups),
            buffers=(*self._whole_tensors(), *self._inside),
            arena_bytes=self._plan.memory,
            multiply_accumulates=self._plan.cost.multiply_accumulates,
        )

    def _add_whole(self, layer: Layer) -> None:
        self._add_scratch(layer.name, (layer.name,))
        self._add_group(PlannedGroup(stages=(self._stage(layer, layer.shape.rows),), arriving=None))

    def _stage(self, layer: Layer, rows: int) -> PlannedStage:
        return PlannedStage(stage=Stage(layers=(layer.name,), rows=rows), strips=())

    def _add_tiles(self, group: Group, layers: tuple[Layer, ...]) -> None:
        grid = group.grid
        tiles = Tiles(rows=grid.rows, columns=grid.columns, keeps=group.way is Way.KEEP)
        stage = Stage(
            layers=tuple(layer.name for layer in layers),
            rows=layers[-1].shape.rows,
            manner=Manner.TILES,
            tiles=tiles,
        )
        for layer in layers:
            self._add_scratch(layer.name, (layer.name,))
            for kind, name_of in OF_TILES:
                if name_of(layer.name) in self._sizes:
                    self._add(name_of(layer.name), kind, layer.name)
        self._add_group(PlannedGroup(stages=(PlannedStage(stage=stage, strips=()),), arriving=None))

    def _add_rows(self, number: int, group: Group, layers: tuple[Layer, ...]) -> None:
        network, source = self._chain.network, self._chain.sections[group.first].source
        for ring in read_once(list(self._rings(number, group))):
            self._add_ring(ring)
        names = tuple(layer.name for layer in layers)
        for name in names:
            self._add_scratch(name, names)
        stages = [
            self._stage(layer, parts(layer, network.input_shapes(layer), ROWS)[0])
            for layer in layers
        ]
        run = self_timed_execution(self._plan.graphs[number], iterations=1)
        firings = sorted(run.firings, key=lambda one: (one.start, one.end))
        known = {source, *names}
        order = turns_of([one.actor for one in firings if one.actor in known])
        self._add_group(PlannedGroup(stages=tuple(stages), arriving=source, order=order))

    def _rings(self, number: int, group: Group) -> Iterator[Ring]:
        """The channels of a graph of rows; nobody reads that of the result."""
        part = part_of_group(self._chain, group)
        ends = {layer.name for layer in part.outputs}
        for channel in self._plan.graphs[number].channels:
            if channel.capacity:
                name = channel_name(channel.name)
                row = self._table.row_bytes(channel.producer)
                yield Ring(
                    name=name,
                    tensor=channel.producer,
                    readers=("",) if channel.consumer in ends else (channel.consumer,),
                    size=self._sizes[name] // row * row,
                    offset=self._plan.arena.offsets[name],
                    last=0,
                )

    def _add_ring(self, ring: Ring) -> None:
        rows = ring.size // self._table.row_bytes(ring.tensor)
        readers = tuple(name for name in ring.readers if name)
        self._add(ring.name, Kind.RING, ring.tensor, readers=readers, rows=rows, size=ring.size)

    def _add_scratch(self, layer: str, users: tuple[str, ...]) -> None:
        if scratch_name(layer) in self._sizes:
            self._add(scratch_name(layer), Kind.SCRATCH, layer, readers=users)

    def _add_group(self, group: PlannedGroup) -> None:
        """A group, behind its buffers; nothing is staged in it."""
        self._inside.append(self._buffer("pool", Kind.POOL, group.stages[-1].stage.result, 0, 0))
        self._groups.append(group)

    def _add(
        self,
        name: str,
        kind: Kind,
        tensor: str,
        *,
        readers: tuple[str, ...] = (),
        rows: int = 0,
        size: int | None = None,
    ) -> None:
        """A buffer of the next group."""
        size = self._sizes[name] if size is None else size
        self._inside.append(self._buffer(name, kind, tensor, size, rows, readers=readers))

    def _buffer(
        self,
        name: str,
        kind: Kind,
        tensor: str,
        size: int,
        rows: int,
        *,
        groups: tuple[int, int] | None = None,
        readers: tuple[str, ...] = (),
    ) -> StreamBuffer:
        begin, end = groups or (len(self._groups), len(self._groups) + 1)
        return StreamBuffer(
            name=name,
            kind=kind,
            tensor=tensor,
            rows=rows,
            size=size,
            offset=self._plan.arena.offsets.get(name, 0),
            begin=begin,
            end=end,
            readers=readers,
        )

    def _whole_tensors(self) -> Iterator[StreamBuffer]:
        """Tensors between groups, whole, from the group that makes it to the last that reads it."""
        begin, end = {self._chain.frame: 0}, {self._chain.frame: 1}
        for number, group in enumerate(self._groups):
            result = group.stages[-1].stage.result
            begin[result], end[result] = number, number + 1
            for planned in group.stages:
                for name in planned.stage.layers:
                    for source in self._chain.network.layer(name).inputs:
                        if source in begin:
                            end[source] = number + 1
        end[self._chain.result] = len(self._groups)
        for name, first in begin.items():
            size, rows = self._table.tensor_bytes(name), self._table.height(name)
            yield self._buffer(name, Kind.WHOLE, name, size, rows, groups=(first, end[name]))

"""Constant tables of the scheduler in a generated C library.

Takes a model with weights and a memory plan for its network; gives initialisers of the C
structures that the scheduler reads: tensors, layers, stages, readers, firing order, rings of
state, tiles. References between tables are indices or addresses of entries. A network of two
convolutions in one group, fused row by row, for example has three tensors and two stages:

    tensors[3]   {offset, rows of its ring, elements per row, ..., producing stage, readers}
    layers[2]    {kernel, parameters, result &tensors[1], &inputs[0], ...}
    stages[2]    {BY_ROWS, rows per firing, firings, ..., &layers[0], &inputs[1], ..., &tensors[1]}
    order[...]   {0, 0, 0, 1, 0, 1, ...}: the stages in firing order

`TensorTable`, `StageTables` and the functions of `state_tables` make the rows; `Schedule.text`
returns all tables as C.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import NamedTuple

from cnn2csdf.network import Network
from cnn2csdf.weights import Model
from planners.code.c_text import Tables, table_row
from planners.code.calls.by_data_type import LayerCalls, most_neighbours
from planners.code.calls.cmsis_nn import CmsisNN
from planners.code.initialisers import Structures
from planners.code.layer_descriptor import LayerNode
from planners.code.moved_weights import MovedWeights
from planners.code.parts import as_real
from planners.code.placed_stages import PlacedStage, firing_order, placed_stages, require_in_c
from planners.code.stage_tables import StageTables, reader_rows
from planners.code.state_tables import beginning_rows, joint_rows, variable_rows
from planners.code.tensor_table import TensorTable
from planners.plan.plan import Kind, StreamingPlan
from planners.plan.weights import gathered_values

TITLES = {  # comments before the tables that a reader of the plan begins with
    "tensors": "/* Tensors: where they lie in the arena, in elements, and their shapes. */\n",
    "layers": "/* Layers: name in the file, operators, shapes as channels x rows x columns. */\n",
    "stages": "/* Stages: layers that execute together, and the firings that compute all rows. */\n",
    "groups": "/* Groups: stages that execute in turns of rows; groups follow one another. */\n",
}


class Maxima(NamedTuple):
    """Maxima over the layers or the stages of a library, as sizes of arrays in C.

    taps: rows of a window. gathered: elements of a window that is copied. neighbours: channels before
    its own that a normalisation reads. scratch: arena elements of the scratch of a layer.
    layers: of a stage. ranges: layers of a stage and tensors that it reads, each with a row range.
    """

    taps: int
    gathered: int
    neighbours: int
    scratch: int
    layers: int
    ranges: int


def maxima_of(
    network: Network, stages: Iterable[PlacedStage], nodes: Sequence[LayerNode], calls: LayerCalls
) -> Maxima:
    """Return the maxima of a library. nodes: all its layers."""
    layers = [len(stage.layers) for stage in stages]
    sources = [len(stage.sources) if stage.copied is None else 1 for stage in stages]
    scratch = (
        calls.slots(node) * node.layer.operator.scratch_elements(node.inputs) for node in nodes
    )
    gathered = (gathered_values(network, node.layer) for node in nodes if not node.is_real)
    return Maxima(
        taps=max((node.layer.operator.window_taps[0] for node in nodes), default=1),
        gathered=max(gathered, default=0),
        neighbours=max(map(most_neighbours, nodes), default=0),
        scratch=max(scratch, default=0),
        layers=max(1, *layers),
        ranges=max(1, *map(sum, zip(layers, sources, strict=True))),
    )


class Schedule:
    """The constant tables that the scheduler of a library reads, as C text.

    plan, tables: the memory plan, and the other constant tables of the library.
    calls: kernels, parameters and epilogue steps of the layers.
    unit: bytes of an arena element.
    stages: stages of all groups, with their numbers.
    order: firing order.
    tensors: where tensors are stored.
    maxima: sizes of arrays in C.
    moved: weights that are copied to another memory before use.
    duplicates, joints, beginnings, write_buffers: initialisers of the tables of these names.
    """

    def __init__(
        self, model: Model, plan: StreamingPlan, tables: Tables, cmsis_nn: CmsisNN | None = None
    ) -> None:
        """Build all tables. Raises InvalidPlan for a plan that C cannot execute."""
        network = model.network
        self.plan, self.tables = plan, tables
        self.calls = LayerCalls(model, tables, cmsis_nn)
        self.unit = self.calls.unit
        require_in_c(plan, [layer.name for layer in network.inputs])
        self.stages = tuple(placed_stages(network, plan))
        self.order = firing_order(plan, self.stages)
        self.tensors = TensorTable(network, plan, self.stages, self.calls)
        self._of_stages = StageTables(self.stages, self.tensors)
        self.write_buffers = self._of_stages.write_buffers
        self.maxima = maxima_of(network, self.stages, self._of_stages.nodes, self.calls)
        self.moved = MovedWeights(self.tensors, self._of_stages.placed_layers)
        self.beginnings = list(beginning_rows(model, self.tensors))
        self.joints = joint_rows(self.tensors)
        self.duplicates = self.tensors.duplicate_rows()

    def number_at_end(self, layer: str, tensor: str) -> int:
        """Return the table index of an input or output in the last group of the plan."""
        return self.tensors.number_read_by(layer, tensor, len(self.plan.groups) - 1)

    @property
    def has_copies(self) -> bool:
        """Whether any stage copies a tensor from buffer to buffer."""
        return any(stage.copied is not None for stage in self.stages)

    @property
    def has_parts(self) -> bool:
        """Whether any stage computes channel blocks."""
        return any(stage.mode == "BY_PARTS" for stage in self.stages)

    @property
    def has_tiles(self) -> bool:
        """Whether any stage executes tile by tile."""
        return bool(self._of_stages.tilings)

    @cached_property
    def can_stage(self) -> bool:
        """Whether a firing may write rows for which their line buffer has no space yet."""
        return self.tensors.has_line_buffers() and not self.order.turns

    def text(self, structures: Structures) -> str:
        """Return the tables as C. Each table follows the tables that it refers to."""
        readers = reader_rows(self.stages, self.tensors) if self.can_stage else {}
        all_readers = [row for rows in readers.values() for row in rows]
        if self.can_stage and not all_readers:  # C has no arrays without elements
            all_readers.append(table_row(stage=0, local=0, looks_ahead=0))
        of_stages = self._of_stages
        tables = (
            ("tensor", "tensors", self.tensors.rows(readers)),
            ("argument", "inputs", of_stages.inputs),
            ("step", "steps", self.calls.steps),
            (as_real("step"), "real_steps", self.calls.real_steps),
            ("write_buffer", "write_buffers", self.write_buffers),
            ("layer", "layers", of_stages.layers),
            ("stage", "stages", of_stages.stages),
            ("tiling", "tilings", of_stages.tilings),
            ("reader", "readers", all_readers),
            (
                "group",
                "groups",
                [self._group_row(number) for number in range(len(self.plan.groups))],
            ),
            ("duplicate", "duplicates", self.duplicates),
            ("joint", "joints", self.joints),
            ("variable", "variables", variable_rows(self.tensors)),
            ("beginning", "beginnings", self.beginnings),
            ("turns", "all_turns", self.order.turns),
            ("weights_copy", "weights_copies", self.moved.lines),
            ("uint16_t", "order", [f"{number}," for number in self.order.stages]),
        )
        return "\n\n".join(
            f"{TITLES.get(name, '')}{structures.table(kind, name, rows)}"
            for kind, name, rows in tables
            if rows
        )

    def _group_row(self, number: int) -> str:
        """The initialiser of a group: its stages, and its staging buffer in arena elements."""
        stages = [stage for stage in self.stages if stage.group == number]
        *_, last = (stage for stage in stages if not stage.is_transfer)
        staging = self.tensors.buffer(last.running.result, (Kind.STAGING,), number)
        return table_row(
            first_stage=stages[0].number,
            stages=len(stages),
            pool=self.tensors.elements(staging.offset),
            pool_size=self.tensors.elements(staging.size),
        )

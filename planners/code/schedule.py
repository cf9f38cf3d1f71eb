"""Constant tables of the scheduler in a generated C library.

Takes a model with weights and a memory plan for its network; gives initialisers of the C
structures that the scheduler reads: tensors, layers, stages, readers, firing order, rings of
state, tiles. References between tables are indices or addresses of entries. A network of two
convolutions in one group, fused row by row, for example has three tensors and two stages:

    tensors[3]   {offset, rows of its ring, elements per row, ..., producing stage, readers}
    layers[2]    {kernel, parameters, result &tensors[1], &inputs[0], ...}
    stages[2]    {BY_ROWS, rows per firing, firings, ..., &layers[0], &inputs[1], ..., &tensors[1]}
    order[...]   {0, 0, 0, 1, 0, 1, ...}: the stages in firing order

Offsets count elements of the arena, of `Schedule.unit` bytes each. `Schedule.text` returns all tables
as C.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np

from cnn2csdf.execution.layer_by_layer import first_states
from cnn2csdf.network import Layer, Network
from cnn2csdf.operators.moves import to_memory_order
from cnn2csdf.operators.operator import describe
from cnn2csdf.rings import rings_of
from cnn2csdf.weights import Model
from csdf.errors import InvalidNetwork, InvalidPlan
from planners.code.c_text import NULL, Tables, identifier, table_row
from planners.code.calls.by_data_type import (
    ChannelBlocks,
    LayerCalls,
    channel_blocks,
    most_neighbours,
)
from planners.code.calls.cmsis_nn import CmsisNN
from planners.code.initialisers import Structures
from planners.code.layer_descriptor import KernelCall, LayerNode
from planners.code.moved_weights import MovedWeights, PlacedLayer
from planners.code.parts import as_real
from planners.code.placed_stages import (
    PlacedStage,
    firing_order,
    look_ahead,
    placed_stages,
    require_in_c,
    tensor_buffers,
)
from planners.code.rules import Rule, all_of, rule_of
from planners.plan.plan import Alias, Kind, Stage, StreamBuffer, StreamingPlan
from planners.plan.regions import COLUMNS, ROWS, Needs, TileRanges, can_be_tiled, range_needed
from planners.plan.state import layer_state_bytes, state_updates
from planners.plan.weight_reads import gathered_values
from planners.plan.write_buffers import smallest_block

TITLES = {  # comments before the tables that a reader of the plan begins with
    "tensors": "/* Tensors: where they lie in the arena, in elements, and their shapes. */\n",
    "layers": "/* Layers: name in the file, operators, shapes as channels x rows x columns. */\n",
    "stages": "/* Stages: layers that execute together, and the firings that compute all rows. */\n",
    "groups": "/* Groups: stages that execute in turns of rows; groups follow one another. */\n",
}
MOST_PRODUCT = 255 * 128  # magnitude of (int8 minus zero point) * int8 weight
MOST_ROWS = 65535  # rows of a tensor, and firings of a stage: both are uint16_t in C


class PersistentAccumulators(NamedTuple):
    """A set of 32-bit accumulators: memory, offset in its elements, number, largest magnitude."""

    memory: int
    offset: int
    number: int
    largest: int


class Schedule:
    """The constant tables that the scheduler of a library reads, as C text.

    network, plan, tables: the network, its memory plan, and the other constant tables of the
    library.
    calls: kernels, parameters and epilogue steps of the layers.
    unit: bytes of an arena element.
    stages: stages of all groups, with their numbers.
    tensors: names of the tensors in the order of their table.
    order: firing order.
    buffers: for each tensor the buffer its producer writes; further buffers that receive copies.
    copies: the further buffers; their entries follow those of `tensors` in the table.
    outside: tensors in memory of the caller.
    write_buffers: initialisers of the blocks in which results are written to memory.
    most_taps, most_ranges, most_layers, most_neighbours, most_gathered, scratch: sizes of arrays
    in C, the maximum over all layers or stages.
    has_parts: whether a stage computes channel blocks.
    moved: weights that are copied to another memory before use.
    beginnings: initialisers of the initial contents of state.
    """

    def __init__(
        self, model: Model, plan: StreamingPlan, tables: Tables, cmsis_nn: CmsisNN | None = None
    ) -> None:
        """Build all tables. Raises InvalidPlan for a plan that C cannot execute."""
        self.network, self.plan, self.tables = model.network, plan, tables
        self.calls = LayerCalls(model, tables, cmsis_nn)
        self.unit = self.calls.unit
        require_in_c(plan, [layer.name for layer in self.network.inputs])
        self.stages = tuple(placed_stages(self.network, plan))
        # Tensors of the plan: inputs, and those of all layers in their stages.
        input_names = [layer.name for layer in self.network.inputs]
        computed = [
            name for group in plan.groups for stage in group.stages for name in stage.layers
        ]
        self._rings = rings_of(self.network)
        variables = [previous.name for previous, _ in self.network.variables]
        self.tensors = tuple(dict.fromkeys((*input_names, *computed, *variables, *self._rings)))
        self._aliases = {alias.tensor: alias for alias in plan.aliases}
        self.order = firing_order(plan, self.stages)
        self.buffers = tensor_buffers(plan, self._producing_groups())
        self.copies = self.buffers.further
        self.outside = tuple(
            buffer.tensor for buffer in plan.buffers if buffer.kind is Kind.EXTERNAL
        )
        self._channel_blocks: dict[str, ChannelBlocks] = {}
        for placed in self.stages:
            self._channel_blocks |= channel_blocks(self.network, placed.running.stage)
        self._numbers = {name: number for number, name in enumerate(self.tensors)}
        self._producers = {
            stage.running.result: stage for stage in self.stages if stage.copied is None
        }
        self._inputs: list[str] = []
        self._layers: list[str] = []
        self._stages: list[str] = []
        self._readers: list[str] = []
        self._tilings: list[str] = []
        self.write_buffers: list[str] = []
        self._first_reader: dict[str, tuple[int, int]] = {}
        self.most_taps = self.most_ranges = self.most_layers = 1
        self.most_neighbours = self.scratch = self.most_gathered = 0
        self.has_parts = False
        self._add_readers()
        self._placed_layers: dict[str, PlacedLayer] = {}
        for stage in self.stages:
            self._add_stage(stage)
        self.moved = MovedWeights(plan, self._placed_layers, tables, self.unit)
        self.beginnings = list(self._initial_contents(model))

    def elements(self, size: int) -> int:
        """Convert bytes to elements of the arena. Raises InvalidPlan for a remainder."""
        count, rest = divmod(size, self.unit)
        if rest:
            raise InvalidPlan(f"{size} bytes are no whole elements of {self.unit} bytes")
        return count

    def width_of(self, name: str) -> int:
        """Return the size of a tensor element in arena elements: 4 if int8 is computed as float."""
        layer = self.network.layer(name)
        planned = self.plan.element_bytes or layer.element_bytes
        computed = self.calls.element_bytes(layer)
        if planned != computed:
            raise InvalidPlan(
                f"the plan counts {planned} bytes for an element of {name!r}, which is computed "
                f"in {computed}; plan with that many"
            )
        return computed // self.unit

    def number_at_end(self, layer: str, tensor: str) -> int:
        """Return the table index of an input or output in the last group of the plan."""
        copy = self.copy_read_by(layer, tensor, len(self.plan.groups) - 1)
        return self._numbers[tensor] if copy is None else copy

    @property
    def splits(self) -> tuple[int, ...]:
        """The first arena element of each memory but the first one."""
        return tuple(self.elements(begin) for _, begin in self.plan.placed_memories[1:])

    @property
    def duplicates(self) -> int:
        """The number of pairs of buffers, the second of which receives each row of the first."""
        return len(self._duplicate_rows())

    def _ring_rows(self) -> list[str]:
        """Initialisers of rings of state: the window, the new rows, the number of the variable."""
        names = [previous.name for previous, _ in self.network.variables]
        return [
            table_row(
                window=f"&tensors[{self._numbers[name]}]",
                made=f"&tensors[{self._numbers[ring.new]}]",
                variable_number=names.index(ring.previous),
            )
            for name, ring in self._rings.items()
        ]

    @property
    def state_rings(self) -> int:
        """The number of rings of state; C calls them joints."""
        return len(self._rings)

    def _variable_rows(self) -> list[str]:
        """Initialisers of state variables: target, source, and the group after which C copies."""
        lines = []
        for name, (group, source) in self._updates().items():
            kept, made = (f"&tensors[{self._numbers[tensor]}]" for tensor in (name, source))
            lines.append(table_row(name, kept=kept, made=made, group=group))
        return lines

    def _updates(self) -> dict[str, tuple[int, str]]:
        """The group after which each state variable is updated, and the tensor with its new rows."""
        ends = {
            variable: (group, source)
            for group, variable, source in state_updates(self.network, self.plan)
        }
        updates = {}
        for previous, _ in self.network.variables:
            group, source = ends[previous.name]
            ring = self._rings.get(source)
            updates[previous.name] = (group, source if ring is None else ring.new)
        return updates

    def fresh_elements(self) -> dict[str, int]:
        """Return the elements of each state variable that a frame writes over its oldest rows."""
        elements = {}
        for name, (_, source) in self._updates().items():
            shape = self.network.layer(name).shape
            rows = min(self.network.layer(source).shape.rows, shape.rows)
            elements[name] = rows * shape.row_elements
        return elements

    def _initial_contents(self, model: Model) -> Iterator[str]:
        """Initialisers of initial state: offset, length of a pattern, its repetitions, the pattern.

        Equal elements are one pattern that is repeated, so zeros take no flash.
        """
        for name, roles in first_states(model).items():
            kinds = (Kind.KEPT, Kind.STATE)
            # A plan for elements of another width is refused for that, not for an odd offset.
            self.width_of(name)
            offset = self.elements(self.buffer(name, kinds, 0).offset)
            for role, array in roles.items():
                contents = np.ascontiguousarray(to_memory_order(array))
                pattern, times = contents, 1
                if contents.size and (contents == contents[0]).all():
                    pattern, times = contents[:1], contents.size
                width = {1: np.int8, 2: np.int16}.get(self.unit, np.float32)
                values = pattern.view(width) if self.calls.is_integer else pattern
                if times > 1 and len(values) > 1 and (values == values[0]).all():
                    values, times = values[:1], times * len(values)
                symbol = self.tables.weights(
                    f"{self.tables.name_of(name)}_{identifier(role)}", values
                )
                row = {"offset": offset, "length": len(values), "times": times, "numbers": symbol}
                yield table_row(f"{name}: {role}", **row)
                offset += len(values) * times

    def persistent_accumulators(self) -> Iterator[PersistentAccumulators]:
        """Yield the accumulators that persist between frames.

        A layer that sums over F frames has F - 1 sets of accumulators. The set for the next result
        has received F - 1 inputs, the set for the last result one input.
        """
        for layer in self.network.layers:
            frames, units = layer.operator.frames_per_output, layer.shape.elements
            if self.calls.is_integer and frames > 1:
                offset = self.elements(self.buffer(layer.name, (Kind.KEPT, Kind.STATE), 0).offset)
                (shape,) = self.network.input_shapes(layer)
                for inputs in range(frames - 1, 0, -1):
                    largest = inputs * shape.elements * MOST_PRODUCT
                    memory = bisect(self.splits, offset)
                    begin = (0, *self.splits)[memory]
                    yield PersistentAccumulators(memory, offset - begin, units, largest)
                    offset += self.elements(4 * units)

    @property
    def has_copies(self) -> bool:
        """Whether any stage copies a tensor from buffer to buffer."""
        return any(stage.copied is not None for stage in self.stages)

    @property
    def has_tiles(self) -> bool:
        """Whether any stage executes tile by tile."""
        return bool(self._tilings)

    def text(self, structures: Structures) -> str:
        """Return the tables as C. Each table follows the tables that it refers to."""
        tensors = [self._tensor_row(name) for name in self.tensors]
        tensors += [self._copy_row(copy) for copy in self.copies]
        groups = [self._group_row(number) for number in range(len(self.plan.groups))]
        readers = self._readers or [table_row(stage=0, local=0, looks_ahead=0)]
        tables = (
            ("tensor", "tensors", tensors),
            ("argument", "inputs", self._inputs),
            ("step", "steps", self.calls.steps),
            (as_real("step"), "real_steps", self.calls.real_steps),
            ("write_buffer", "write_buffers", self.write_buffers),
            ("layer", "layers", self._layers),
            ("stage", "stages", self._stages),
            ("tiling", "tilings", self._tilings),
            ("reader", "readers", readers if self.can_stage else []),
            ("group", "groups", groups),
            ("duplicate", "duplicates", self._duplicate_rows()),
            ("joint", "joints", self._ring_rows()),
            ("variable", "variables", self._variable_rows()),
            ("beginning", "beginnings", self.beginnings),
            ("turns", "all_turns", self.order.turns),
            ("weights_copy", "weights_copies", self.moved.lines),
            ("uint16_t", "order", [f"{number}," for number in self.order.stages]),
        )
        return "\n\n".join(
            f"{TITLES.get(name, '')}{structures.table(kind, name, lines)}"
            for kind, name, lines in tables
            if lines
        )

    def buffer(self, tensor: str, kinds: Sequence[Kind], group: int) -> StreamBuffer:
        """Return the buffer of a tensor in a group, of one of these kinds."""
        for buffer in self.plan.buffers:
            if (
                buffer.tensor == tensor
                and buffer.kind in kinds
                and buffer.begin <= group < buffer.end
            ):
                return buffer
        raise InvalidPlan(f"the plan has no buffer for {tensor!r} in group {group + 1}")

    def _add_readers(self) -> None:
        """Add the readers of each tensor in its group: stage, operand, look-ahead in firings."""
        for name in self.tensors:
            producer = self._producers.get(name)
            first = len(self._readers)
            for stage in self.stages:
                is_in_group = producer is not None and stage.group == producer.group
                if (
                    is_in_group
                    and name in stage.sources
                    and not self._copy_read_by_stage(stage, name)
                ):
                    operand = len(stage.running.layers) + stage.sources.index(name)
                    distance = look_ahead(
                        stage.running.needs[name], self.network.layer(name).shape.rows
                    )
                    self._readers.append(
                        table_row(stage=stage.number, local=operand, looks_ahead=distance)
                    )
            self._first_reader[name] = first, len(self._readers) - first

    @cached_property
    def can_stage(self) -> bool:
        """Whether a firing may write rows for which their line buffer has no space yet."""
        lines = [
            self._offset_and_rows(name)[1] < self.network.layer(name).shape.rows
            for name in self._producers
        ]
        lines += [copy.rows < self.network.layer(copy.tensor).shape.rows for copy in self.copies]
        return any(lines) and not self.order.turns

    def _readers_of(self, name: str | None) -> dict[str, int]:
        """The fields of a tensor, if any, for its readers; none where no rows are staged."""
        first, count = self._first_reader.get(name or "", (0, 0))
        return {"first_reader": first, "readers": count} if self.can_stage else {}

    def _tensor_row(self, name: str) -> str:
        """The initialiser of a tensor: offset, rows and strides of its buffer, shape, neighbours.

        A tensor that is an alias inside a host tensor has the strides of the host.
        """
        shape = self.network.layer(name).shape
        if shape.rows > MOST_ROWS or shape.width > MOST_ROWS:
            raise InvalidNetwork(f"tensor {name!r} of {shape} has more than {MOST_ROWS} rows")
        producer = self._producers.get(name)
        offset = rows = 0
        if name in self._producing_groups():
            offset, rows = self._offset_and_rows(name)
        host_shape = self.network.layer(self._alias(name).host).shape
        row = host_shape.row_elements * self.width_of(name)
        return table_row(
            name,
            offset=offset,
            rows=rows,
            stride=row,
            column_stride=row // host_shape.width,
            height=shape.rows,
            width=shape.width,
            channels=self._buffered_channels(name)
            if name in self._channel_blocks
            else shape.pixel_elements * self.width_of(name),
            producer=-1 if producer is None else producer.number,
            **self._readers_of(name),
        )

    def _alias(self, name: str) -> Alias:
        """The alias of a tensor within its host tensor; without a host, the tensor itself."""
        return self._aliases.get(name, Alias(name, name))

    def _copy_row(self, buffer: StreamBuffer) -> str:
        """The initialiser of a further buffer of a tensor, without producer and readers.

        The state of a layer is a row of one pixel.
        """
        shape = self.network.layer(buffer.tensor).shape
        row, height, width = self.elements(buffer.size), 1, 1
        if buffer.has_rows:
            row = shape.row_elements * self.width_of(buffer.tensor)
            height, width = shape.rows, shape.width
        return table_row(
            buffer.name,
            offset=self.elements(buffer.offset),
            rows=buffer.rows,
            stride=row,
            column_stride=row // width,
            height=height,
            width=width,
            channels=row // width,
            producer=-1,
            **self._readers_of(None),
        )

    def _duplicate_rows(self) -> list[str]:
        """Initialisers of pairs of buffers: rows written to the first also go to the second."""
        producing_group = self._producing_groups()
        targets_of_copies = [stage.copied.targets for stage in self.stages if stage.copied]
        copy_targets = {target for targets in targets_of_copies for target in targets}
        pairs = [
            (self._numbers[copy.tensor], self._buffer_number(copy))
            for copy in self.copies
            if copy not in copy_targets and copy.begin <= producing_group[copy.tensor] < copy.end
        ]
        pairs += [
            (self._buffer_number(targets[0]), self._buffer_number(target))
            for targets in targets_of_copies
            for target in targets[1:]
        ]
        return [
            table_row(of=f"&tensors[{first}]", to=f"&tensors[{second}]") for first, second in pairs
        ]

    def _buffer_number(self, buffer: StreamBuffer) -> int:
        """The index of a buffer in the table of tensors."""
        if buffer in self.copies:
            return len(self.tensors) + self.copies.index(buffer)
        return self._numbers[buffer.tensor]

    def _copy_read_by_stage(self, stage: PlacedStage, name: str) -> int | None:
        """The index of the copy from which a stage reads a tensor; None for the first buffer."""
        readers = [layer.name for layer in stage.running.layers if name in layer.inputs]
        reader = readers[0] if readers else stage.running.layers[0].name
        return self.copy_read_by(reader, name, stage.group)

    def copy_read_by(self, reader: str, name: str, group: int) -> int | None:
        """Return the index of the copy from which a layer reads; None for the first buffer."""
        first = self.buffers.first.get(name)
        if first is not None and reader in first.readers and group < first.end:
            return None
        for index, copy in enumerate(self.copies):
            if copy.tensor == name and reader in copy.readers and copy.begin <= group < copy.end:
                return len(self.tensors) + index
        return None

    def _offset_and_rows(self, name: str) -> tuple[int, int]:
        """The offset of a tensor in arena elements, and the rows of its buffer.

        A tensor in memory of the caller has the offset -1 minus its index in `outside`.
        """
        rows = self.network.layer(name).shape.rows
        if name in self._rings:
            for copy in self.copies:
                if name in copy.readers:  # of the variable, which is in slow memory
                    return self.elements(copy.offset), copy.rows
            return self._offset_and_rows(self._rings[name].previous)
        if name in self.outside:
            return -1 - self.outside.index(name), rows
        alias = self._alias(name)
        kinds = (Kind.WHOLE, Kind.LINE, Kind.RING, Kind.KEPT)
        buffer = self.buffers.first.get(alias.host) or self.buffer(
            alias.host, kinds, self._producing_groups()[name]
        )
        shape = self.network.layer(alias.host).shape
        elements_before = (alias.row * shape.width + alias.column) * shape.pixel_elements
        elements_before += alias.channel
        offset = self.elements(buffer.offset) + elements_before * self.width_of(name)
        return offset, rows if buffer.has_all_rows else buffer.rows

    def _buffered_channels(self, name: str) -> int:
        """Arena elements of a pixel in a buffer at a time: a channel block, or all channels."""
        block = self._channel_blocks.get(name)
        all_channels = self.network.layer(name).shape.channels
        channels = all_channels if block is None or block.accumulates else block.block_channels
        return channels * self.width_of(name)

    def _producing_groups(self) -> dict[str, int]:
        """The group that computes each result of a stage; 0 for inputs and rings of state."""
        input_layers = (layer for layer in self.network.layers if layer.is_input)
        group_of = {layer.name: 0 for layer in input_layers} | dict.fromkeys(self._rings, 0)
        computing_stages = [stage for stage in self.stages if stage.copied is None]
        return group_of | {stage.running.result: stage.group for stage in computing_stages}

    def _add_stage(self, stage: PlacedStage) -> None:
        """Add a stage with its layers and the tensors that they read.

        A stage of a streamed input, or of copies, has no layers.
        """
        running = stage.running
        if len(running.targets) > MOST_ROWS:
            raise InvalidPlan(f"stage {running.result!r} fires more than {MOST_ROWS} times")
        layers = () if stage.copied or running.is_streamed_input else running.layers
        first_layer = len(self._layers)
        if layers:
            self._add_layers(stage)
        first_source, result = len(self._inputs), self._numbers[running.result]
        if stage.copied is None:
            for index, name in enumerate(stage.sources):
                local = len(running.layers) + index
                self._inputs.append(self._argument_row(name, local, NULL, NULL))
        else:
            source, targets = stage.copied
            copied = result if source is None else self._buffer_number(source)
            self._inputs.append(self._argument_row(running.result, 0, NULL, NULL, copied))
            result = self._buffer_number(targets[0])
        sources = len(self._inputs) - first_source
        row = table_row(
            mode=stage.mode,
            rows=running.stage.rows,
            firings=len(running.targets),
            first_row=self._first_row(stage),
            sums=self._tiling(stage)
            if stage.mode == "BY_TILES"
            else self._accumulator_offset(stage),
            layers=f"&layers[{first_layer}]" if layers else NULL,
            sources=f"&inputs[{first_source}]" if sources else NULL,
            layer_count=len(layers),
            source_count=sources,
            result=f"&tensors[{result}]",
        )
        self._stages.append(row)
        self.most_ranges = max(self.most_ranges, len(layers) + sources)
        self.most_layers = max(self.most_layers, len(layers))
        self.has_parts |= stage.mode == "BY_PARTS"

    def _add_layers(self, stage: PlacedStage) -> None:
        """Add the layers of a stage that computes."""
        nodes = [self.calls.node(layer) for layer in stage.running.layers]
        block = self.plan.buffer_of(Kind.WRITE_BUFFER, stage.running.result, stage.group)
        calls = self.calls.stage_calls(
            stage.mode, nodes, self._channel_blocks, is_stored=block is not None
        )
        if block is not None:
            calls[-1] = self._through_write_buffer(stage, calls[-1], block)
        for node, call in zip(nodes, calls, strict=True):
            self._add_layer(stage, node, call)

    def _through_write_buffer(
        self, stage: PlacedStage, call: KernelCall, buffer: StreamBuffer
    ) -> KernelCall:
        """The kernel call of a last layer that writes its result in blocks; adds the block."""
        running = stage.running
        rows, _ = smallest_block(self.network, running.stage)
        pixel = rows * running.layers[-1].shape.pixel_elements * self.width_of(running.result)
        columns = self.elements(buffer.size) // pixel
        self.write_buffers.append(
            table_row(
                of=f"&tensors[{self._numbers[running.result]}]",
                make=call.function,
                offset=self.elements(buffer.offset),
                rows=rows,
                columns=columns,
            )
        )
        return call._replace(function="store_blocks")

    def _add_layer(self, stage: PlacedStage, node: LayerNode, call: KernelCall) -> None:
        """Add a layer: its kernel call, the rows of each input it needs, its strip in the stage.

        Operands are numbered within the stage: its layers first, then the tensors of other stages.
        """
        layer = node.layer
        operand_number = {name: number for number, name in enumerate(stage.running.stage.layers)}
        operand_number |= {
            name: len(operand_number) + number for number, name in enumerate(stage.sources)
        }
        first_input = len(self._inputs)
        first_step, steps = self.calls.epilogue_steps(node)
        for index, source in enumerate(layer.inputs):
            rows = self.tables.rule(self._access_rule(layer, index, ROWS))
            is_inside = source in stage.running.stage.layers
            columns = NULL
            if is_inside and stage.mode in ("BY_ROWS", "BY_PARTS"):
                columns = self.tables.rule(self._access_rule(layer, index, COLUMNS))
            number = self.copy_read_by(layer.name, source, stage.group)
            self._inputs.append(
                self._argument_row(source, operand_number[source], rows, columns, number)
            )
        buffer_offset, buffer_rows, buffer_columns = self._strip_fields(stage, layer)
        row = table_row(
            self._layer_text(layer),
            compute=call.function,
            parameters=call.parameters,
            result=f"&tensors[{self._numbers[layer.name]}]",
            inputs=f"&inputs[{first_input}]",
            steps=first_step,
            input_count=len(layer.inputs),
            step_count=steps,
            buffer_offset=buffer_offset,
            buffer_rows=buffer_rows,
            buffer_columns=buffer_columns,
        )
        placed = PlacedLayer(len(self._layers), call.parameters, stage.group, stage.number)
        self._placed_layers[layer.name] = placed
        self._layers.append(row)
        self.most_taps = max(self.most_taps, layer.operator.window_taps[0])
        if not node.is_real:
            self.most_gathered = max(self.most_gathered, gathered_values(self.network, layer))
        self.most_neighbours = max(self.most_neighbours, most_neighbours(node))
        scratch = self.calls.slots(node) * layer.operator.scratch_elements(node.inputs)
        self.scratch = max(self.scratch, scratch)

    def _layer_text(self, layer: Layer) -> str:
        """The name of a layer, its operators, and its shapes."""
        shapes = ", ".join(map(str, self.network.input_shapes(layer)))
        operators = describe(layer.operator, layer.epilogue)
        return f"{layer.name}: {operators}, {shapes} to {layer.shape}"

    def _access_rule(self, layer: Layer, index: int, axis: int) -> Rule:
        """The rule from output rows (or columns) of a layer to those it needs of one input.

        If it needs no range that depends on the output position, it needs the entire axis.
        """
        inputs = self.network.input_shapes(layer)
        shape = inputs[index]
        outputs = layer.shape.rows if axis == ROWS else layer.shape.width
        limit = shape.rows if axis == ROWS else shape.width
        try:
            needed = range_needed(layer, index, inputs, axis)
        except InvalidNetwork:
            return all_of(limit)
        return rule_of([needed((position, position + 1)) for position in range(outputs)], limit)

    def _argument_row(
        self, source: str, local: int, rows: str, columns: str, number: int | None = None
    ) -> str:
        """The initialiser of an operand; columns: NULL for all. number: of a copy that is read."""
        number = self._numbers[source] if number is None else number
        return table_row(source=f"&tensors[{number}]", local=local, rows=rows, columns=columns)

    def _strip_fields(self, stage: PlacedStage, layer: Layer) -> tuple[int, int, int]:
        """The buffer of a layer's result inside its stage: offset in arena elements, rows, columns.

        The offset counts from the first strip of the stage. For a layer with state and for a tile
        it counts from the start of the arena, and rows and columns are zero.
        """
        if layer_state_bytes(self.network, layer):
            copied = {copy.tensor for copy in self.copies if copy.kind is Kind.STATE_COPY}
            kind = Kind.STATE_COPY if layer.name in copied else Kind.STATE
            return self._offset(layer.name, kind, stage.group), 0, 0
        if stage.mode == "BY_TILES" and layer.name != stage.running.result:
            return self._offset(layer.name, Kind.TILE, stage.group), 0, 0
        offset = 0
        for name, rows, columns in stage.running.stage.strips:
            if name == layer.name:
                # At least one row: C divides by the rows, even if no firing needs the strip.
                return offset, max(rows, 1), columns
            offset += rows * columns * self._buffered_channels(name)
        return 0, 0, 0

    def _first_row(self, stage: PlacedStage) -> int:
        """The first input row that an accumulating stage needs; 0 for other stages."""
        if stage.mode != "INTO_SUMS":
            return 0
        return stage.running.needs[stage.sources[0]][0][0]

    def _accumulator_offset(self, stage: PlacedStage) -> int:
        """The offset of the accumulators of a stage in arena elements; 0 without accumulators.

        With channel blocks, the accumulators follow the strips of the stage, and the offset counts
        from the first strip.
        """
        if stage.mode == "BY_PARTS":
            strips = stage.running.stage.strips
            return sum(
                rows * columns * self._buffered_channels(name) for name, rows, columns in strips
            )
        scatters_rows = stage.running.layers[-1].operator.scatters_rows
        if stage.mode != "INTO_SUMS" or scatters_rows:
            return 0
        return self._offset(stage.running.result, Kind.ACCUMULATORS, stage.group)

    def _tiling(self, stage: PlacedStage) -> int:
        """Add the tiling of a stage and return its number."""

        def offset(name: str, kind: Kind) -> int:
            return self._offset(name, kind, stage.group)

        tiling = tiling_of(self.network, stage.running.stage, offset, self.tables)
        self._tilings.append(tiling)
        return len(self._tilings) - 1

    def _offset(self, name: str, kind: Kind, group: int) -> int:
        """The offset of the buffer of a tensor, in elements of the arena."""
        return self.elements(self.buffer(name, (kind,), group).offset)

    def _group_row(self, number: int) -> str:
        """The initialiser of a group: its stages, and its staging buffer in arena elements."""
        stages = [stage for stage in self.stages if stage.group == number]
        *_, last = (stage for stage in stages if not stage.is_transfer)
        staging = self.buffer(last.running.result, (Kind.STAGING,), number)
        return table_row(
            first_stage=stages[0].number,
            stages=len(stages),
            pool=self.elements(staging.offset),
            pool_size=self.elements(staging.size),
        )


Offset = Callable[[str, Kind], int]  # offset of a tensor's buffer of a kind, in arena elements


def tiling_of(network: Network, stage: Stage, offset: Offset, tables: Tables) -> str:
    """Return the initialiser of a tiling: the rows and columns of each tensor in each tile.

    Raises InvalidPlan for a layer that cannot be tiled.
    """
    for name in stage.layers:
        if not can_be_tiled(network, network.layer(name)):
            raise InvalidPlan(f"no C code for {name!r} in tiles, which needs more than rectangles")
    ranges = TileRanges(network, stage, Needs(network))
    bounds = [
        str(bound)
        for name in stage.layers
        for span in (*ranges.rows[name], *ranges.columns[name])
        for bound in span
    ]
    extents = tables.defined("uint16_t", "held", bounds)
    caches = (
        tables.defined("int32_t", "kept", _halo_caches(ranges, offset))
        if ranges.tiles.halo_cached
        else NULL
    )
    down, across = len(ranges.tiles.row_ends), len(ranges.tiles.column_ends)
    return table_row(down=down, across=across, held=extents, kept=caches)


def _halo_caches(ranges: TileRanges, offset: Offset) -> list[str]:
    """The offsets of the halo caches of each layer: rows, then columns; zero for none."""
    tile_rows, tile_columns = (
        range(len(ranges.tiles.row_ends)),
        range(len(ranges.tiles.column_ends)),
    )
    offsets = []
    for layer in ranges.layers:
        has_row_cache = any(ranges.rows_below(layer.name, down) for down in tile_rows)
        has_column_cache = any(
            ranges.columns_beside(layer.name, 0, across) for across in tile_columns
        )
        for kind, is_needed in (
            (Kind.TILE_ROWS, has_row_cache),
            (Kind.TILE_COLUMNS, has_column_cache),
        ):
            offsets.append(str(offset(layer.name, kind) if is_needed else 0))
    return offsets

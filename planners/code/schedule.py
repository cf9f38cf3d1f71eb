"""Tables of the scheduler of a C library: tensors, layers, stages, firing order, rings and tiles."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from cnn2csdf.execution.layer_by_layer import first_states
from cnn2csdf.geometry import Range
from cnn2csdf.network import Layer, Network
from cnn2csdf.operators.moves import as_it_lies
from cnn2csdf.rings import rings_of
from cnn2csdf.weights import Model
from csdf.errors import InvalidNetwork, InvalidPlan
from planners.code.c_text import NULL, Tables, identifier
from planners.code.calls.by_data_type import ChannelShare, LayerCalls, most_neighbours, slices_of
from planners.code.calls.cmsis_nn import CmsisNN
from planners.code.initialisers import Structures
from planners.code.layer_descriptor import Described, KernelCall
from planners.code.moved_weights import MovedWeights, PlacedLayer
from planners.code.parts import as_real, comment
from planners.code.rules import Rule, all_of, rule_of
from planners.plan.aliases import channels_of
from planners.plan.kept import state_bytes, take_overs
from planners.plan.plan import Alias, Kind, Mode, PlannedStage, Stage, StreamBuffer, StreamingPlan
from planners.plan.regions import COLUMNS, ROWS, Needs, TileRanges, can_be_tiled, range_needed
from planners.plan.running_stage import RunningStage, streamed_input_stage
from planners.plan.weight_reads import gathered_values
from planners.plan.write_buffers import smallest_block, write_buffer

MOST_PRODUCT = 255 * 128  # of an int8 less its zero point with another
MOST_ROWS = 65535  # of a tensor, and firings of a stage: they are counted in 16 bits


class Schedule:
    """The constant tables that the scheduler of a library reads, as C text."""

    def __init__(
        self,
        model: Model,
        plan: StreamingPlan,
        tables: Tables,
        cmsis_nn: CmsisNN | None = None,
    ) -> None:
        """Take a model with weights, and a plan for its network."""
        self.network, self.plan, self.tables = model.network, plan, tables
        self.calls = LayerCalls(model, tables, cmsis_nn)
        self.unit = self.calls.unit  # bytes of an element of the arena
        require_in_c(plan, [layer.name for layer in self.network.inputs])
        self.stages = tuple(placed_stages(self.network, plan))
        # Tensors of the plan: inputs, and those of all layers in their stages.
        inputs = [layer.name for layer in self.network.inputs]
        stages = [
            name for group in plan.groups for stage in group.stages for name in stage.stage.layers
        ]
        self._rings = rings_of(self.network)
        variables = [previous.name for previous, _ in self.network.variables]
        self.tensors = tuple(dict.fromkeys((*inputs, *stages, *variables, *self._rings)))
        self._aliases = {alias.tensor: alias for alias in plan.aliases}
        self.order = order_of(plan, self.stages)
        self.places = places_of(plan, self._placed())
        self.copies = self.places.further
        self.outside = tuple(
            buffer.tensor for buffer in plan.buffers if buffer.kind is Kind.EXTERNAL
        )
        self._slices: dict[str, ChannelShare] = {}
        for placed in self.stages:
            self._slices |= slices_of(self.network, placed.running.planned.stage)
        self._numbers = {name: number for number, name in enumerate(self.tensors)}
        self._makers = {
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
        self._find_readers()
        self._placed_layers: dict[str, PlacedLayer] = {}
        for stage in self.stages:
            self._add_stage(stage)
        self.moved = MovedWeights(plan, self._placed_layers, tables, self.unit)
        self.beginnings = list(self._begin_kept(model))

    def elements(self, size: int) -> int:
        """Convert bytes to elements of the arena. Raises InvalidPlan for a remainder."""
        count, rest = divmod(size, self.unit)
        if rest:
            raise InvalidPlan(f"{size} bytes are no whole elements of {self.unit} bytes")
        return count

    def width_of(self, name: str) -> int:
        """Return the size of one tensor element in elements of the arena."""
        layer = self.network.layer(name)
        counted = self.plan.element_bytes or layer.element_bytes
        computed = self.calls.element_bytes(layer)
        if counted != computed:
            raise InvalidPlan(
                f"the plan counts {counted} bytes for an element of {name!r}, which is computed "
                f"in {computed}; plan with that many"
            )
        return computed // self.unit

    def number_at_end(self, layer: str, tensor: str) -> int:
        """Return the number of the buffer of an input or output in the last group of the plan."""
        copy = self.copy_for(layer, tensor, len(self.plan.groups) - 1)
        return self._numbers[tensor] if copy is None else copy

    @property
    def splits(self) -> tuple[int, ...]:
        """The first arena element of each memory after the first memory."""
        return tuple(self.elements(begin) for _, begin in self.plan.placed_memories[1:])

    @property
    def duplicates(self) -> int:
        """The number of further buffers that receive rows of a tensor when they are computed."""
        return len(self._duplicates())

    def _joints(self) -> list[str]:
        """Initialisers for rings of state: the window, the new rows, the number of the variable."""
        names = [previous.name for previous, _ in self.network.variables]
        return [
            f"{{&tensors[{self._numbers[name]}], &tensors[{self._numbers[ring.new]}], "
            f"{names.index(ring.previous)}}},"
            for name, ring in self._rings.items()
        ]

    @property
    def joints(self) -> int:
        """The number of rings of state."""
        return len(self._rings)

    def _taken_over(self) -> list[str]:
        """Initialisers of variables: destination, source, and the group after which C copies."""
        takeovers = {
            takeover.variable: takeover for takeover in take_overs(self.network, self.plan)
        }
        lines = []
        for previous, _ in self.network.variables:
            takeover = takeovers[previous.name]
            ring = self._rings.get(takeover.source)
            source = takeover.source if ring is None else ring.new
            numbers = self._numbers[previous.name], self._numbers[source]
            lines.append(
                f"{{&tensors[{numbers[0]}], &tensors[{numbers[1]}], {takeover.group}}}, "
                f"/* {comment(previous.name)} */"
            )
        return lines

    def _begin_kept(self, model: Model) -> Iterator[str]:
        """Yield the initial contents of state buffers: offset, length of the pattern, repetitions."""
        for name, roles in first_states(model).items():
            kinds = (Kind.KEPT, Kind.STATE)
            # A plan for elements of another width is refused for that, not for an odd offset.
            self.width_of(name)
            offset = self.elements(self.buffer(name, kinds, 0).offset)
            for role, array in roles.items():
                flat = np.ascontiguousarray(as_it_lies(array)).reshape(-1)
                pattern, times = flat, 1
                if flat.size and (flat == flat[0]).all():
                    pattern, times = flat[:1], flat.size
                width = {1: np.int8, 2: np.int16}.get(self.unit, np.float32)
                slots = pattern.view(width) if self.calls.is_integer else pattern
                if times > 1 and len(slots) > 1 and (slots == slots[0]).all():
                    slots, times = slots[:1], times * len(slots)
                symbol = self.tables.weights(
                    f"{self.tables.name_of(name)}_{identifier(role)}", slots
                )
                yield (
                    f"{{{offset}, {len(slots)}, {times}, {symbol}}}, /* {comment(name)}: {role} */"
                )
                offset += len(slots) * times

    def kept_sums(self) -> Iterator[tuple[int, int, int]]:
        """Yield the accumulators that persist between frames: offset, count, largest magnitude.

        A layer that sums over F frames has F - 1 sets of accumulators. The set for the next result
        has received F - 1 inputs, the set for the last result one input.
        """
        for layer in self.network.layers:
            frames, units = layer.operator.summed_frames, layer.shape.elements
            if self.calls.is_integer and frames > 1:
                offset = self.elements(self.buffer(layer.name, (Kind.KEPT, Kind.STATE), 0).offset)
                (shape,) = self.network.input_shapes(layer)
                for inputs in range(frames - 1, 0, -1):
                    yield offset, units, inputs * shape.elements * MOST_PRODUCT
                    offset += 4 * units

    @property
    def has_copies(self) -> bool:
        """Whether some stage copies a tensor from buffer to buffer."""
        return any(stage.copied is not None for stage in self.stages)

    @property
    def has_tiles(self) -> bool:
        """Whether some stage executes tile by tile."""
        return bool(self._tilings)

    def text(self, structures: Structures) -> str:
        """Return the tables as C. Each table follows the tables that it refers to."""
        tensors = [self._tensor(name) for name in self.tensors]
        tensors += [self._copied(copy) for copy in self.copies]
        groups = [self._group(number) for number in range(len(self.plan.groups))]
        tables = (
            ("tensor", "tensors", tensors),
            ("argument", "inputs", self._inputs),
            ("step", "steps", self.calls.steps),
            (as_real("step"), "real_steps", self.calls.real_steps),
            ("write_buffer", "write_buffers", self.write_buffers),
            ("layer", "layers", self._layers),
            ("stage", "stages", self._stages),
            ("tiling", "tilings", self._tilings),
            ("reader", "readers", self._readers or ["{0, 0, 0}"]),
            ("group", "groups", groups),
            ("duplicate", "duplicates", self._duplicates()),
            ("joint", "joints", self._joints()),
            ("variable", "variables", self._taken_over()),
            ("beginning", "beginnings", self.beginnings),
            ("turns", "all_turns", self.order.turns),
            ("weights_copy", "weights_copies", self.moved.lines),
            ("uint16_t", "order", [f"{number}," for number in self.order.stages]),
        )
        return "\n\n".join(
            structures.table(kind, name, lines) for kind, name, lines in tables if lines
        )

    def buffer(self, name: str, kinds: Sequence[Kind], group: int) -> StreamBuffer:
        """Return the buffer of a tensor in a group."""
        for buffer in self.plan.buffers:
            if (
                buffer.tensor == name
                and buffer.kind in kinds
                and buffer.begin <= group < buffer.end
            ):
                return buffer
        raise InvalidPlan(f"the plan has no buffer for {name!r} in group {group + 1}")

    def _find_readers(self) -> None:
        """Add the consumers of each tensor within its group, and how far they read ahead."""
        for name in self.tensors:
            maker = self._makers.get(name)
            first = len(self._readers)
            for stage in self.stages:
                is_near = maker is not None and stage.group == maker.group
                if is_near and name in stage.sources and not self._copy_for(stage, name):
                    local = len(stage.running.layers) + stage.sources.index(name)
                    ahead = looking_ahead(
                        stage.running.needs[name], self.network.layer(name).shape.rows
                    )
                    self._readers.append(f"{{{stage.number}, {local}, {ahead}}},")
            self._first_reader[name] = first, len(self._readers) - first

    def _tensor(self, name: str) -> str:
        shape = self.network.layer(name).shape
        if shape.rows > MOST_ROWS or shape.width > MOST_ROWS:
            raise InvalidNetwork(f"tensor {name!r} of {shape} has more than {MOST_ROWS} rows")
        maker = self._makers.get(name)
        offset = rows = 0
        if name in self._placed():
            offset, rows = self._place(name)
        host = self.network.layer(self._alias(name).host).shape
        row = host.row_elements * self.width_of(name)
        channels = self._place_elements(name)
        place = row // host.width
        fields = (offset, rows, row, place, shape.rows, shape.width, channels)
        number = -1 if maker is None else maker.number
        listed = ", ".join(map(str, (*fields, number, *self._first_reader[name])))
        return f"{{{listed}}}, /* {comment(name)} */"

    def _alias(self, name: str) -> Alias:
        """The alias of a tensor within its host tensor; a tensor without a host is its own host."""
        return self._aliases.get(name, Alias(name, name))

    def _copied(self, buffer: StreamBuffer) -> str:
        """The initialiser of a further ring of a tensor, which has no producer and no readers."""
        name = buffer.tensor
        shape = self.network.layer(name).shape
        row = shape.row_elements * self.width_of(name)
        fields = (
            *(self.elements(buffer.offset), buffer.rows, row, row // shape.width),
            *(shape.rows, shape.width, row // shape.width, -1, 0, 0),
        )
        return f"{{{', '.join(map(str, fields))}}}, /* {comment(buffer.name)} */"

    def _duplicates(self) -> list[str]:
        """Pairs of buffers: rows written to the first are also written to the second at once."""
        groups = self._placed()
        copied = [targets for stage in self.stages if stage.copied for targets in stage.copied[1:]]
        taken = {target for targets in copied for target in targets}
        pairs = [
            (self._numbers[copy.tensor], self._entry(copy))
            for copy in self.copies
            if copy not in taken and copy.begin <= groups[copy.tensor] < copy.end
        ]
        pairs += [
            (self._entry(targets[0]), self._entry(target))
            for targets in copied
            for target in targets[1:]
        ]
        return [f"{{&tensors[{of}], &tensors[{to}]}}," for of, to in pairs]

    def _entry(self, buffer: StreamBuffer) -> int:
        """The number of a buffer among the tensors."""
        if buffer in self.copies:
            return len(self.tensors) + self.copies.index(buffer)
        return self._numbers[buffer.tensor]

    def _copy_for(self, stage: PlacedStage, name: str) -> int | None:
        """The number of the copy from which a stage reads a tensor; None for its first buffer."""
        readers = [layer.name for layer in stage.running.layers if name in layer.inputs]
        reader = readers[0] if readers else stage.running.layers[0].name
        return self.copy_for(reader, name, stage.group)

    def copy_for(self, reader: str, name: str, group: int) -> int | None:
        """Return the number of the copy from which a layer reads; None for the first buffer."""
        first = self.places.first.get(name)
        if first is not None and reader in first.readers and group < first.end:
            return None
        for place, copy in enumerate(self.copies):
            if copy.tensor == name and reader in copy.readers and copy.begin <= group < copy.end:
                return len(self.tensors) + place
        return None

    def _place(self, name: str) -> tuple[int, int]:
        """Return the offset of a tensor in the arena and the rows of its buffer.

        A tensor in memory of the caller has the offset -1 minus its number.
        """
        rows = self.network.layer(name).shape.rows
        if name in self._rings:
            return self._place(self._rings[name].previous)
        if name in self.outside:
            return -1 - self.outside.index(name), rows
        alias = self._alias(name)
        kinds = (Kind.WHOLE, Kind.LINE, Kind.RING, Kind.KEPT)
        buffer = self.places.first.get(alias.host) or self.buffer(
            alias.host, kinds, self._placed()[name]
        )
        shape = self.network.layer(alias.host).shape
        place = (alias.row * shape.width + alias.column) * channels_of(shape) + alias.channel
        offset = self.elements(buffer.offset) + place * self.width_of(name)
        return offset, rows if buffer.has_all_rows else buffer.rows

    def _place_elements(self, name: str) -> int:
        """Elements of one pixel: a channel block where the tensor is tiled by channel, else all."""
        if name in self._slices:
            return self._channels(name)
        return channels_of(self.network.layer(name).shape) * self.width_of(name)

    def _channels(self, name: str) -> int:
        """Elements of one pixel that a buffer holds at a time: a channel block or all channels."""
        cut = self._slices.get(name)
        channels = self.network.layer(name).shape.channels
        held = channels if cut is None or cut.adds_up else cut.share
        return held * self.width_of(name)

    def _placed(self) -> dict[str, int]:
        """Inputs, rings of state and results of stages, each with the group that computes it, or 0."""
        input_layers = (layer for layer in self.network.layers if layer.is_input)
        group_of = {layer.name: 0 for layer in input_layers} | dict.fromkeys(self._rings, 0)
        makers = [stage for stage in self.stages if stage.copied is None]
        return group_of | {stage.running.result: stage.group for stage in makers}

    def _add_copy(self, stage: PlacedStage) -> None:
        """Add a stage that copies rows of a tensor from one buffer to another."""
        running = stage.running
        assert stage.copied is not None
        source, targets = stage.copied
        entry = self._numbers[running.result] if source is None else self._entry(source)
        first_source = len(self._inputs)
        self._inputs.append(self._input(running.result, 0, NULL, NULL, entry))
        fields = (
            *("COPIED", running.planned.stage.rows, len(running.targets), 0, 0, NULL),
            *(f"&inputs[{first_source}]", 0, 1, f"&tensors[{self._entry(targets[0])}]"),
        )
        self._stages.append(f"{{{', '.join(map(str, fields))}}},")

    def _add_stage(self, stage: PlacedStage) -> None:
        if stage.copied is not None:
            self._add_copy(stage)
            return
        running = stage.running
        first_layer = len(self._layers)
        if not running.is_streamed_input:
            ones = [self.calls.described(layer) for layer in running.layers]
            is_stored = write_buffer(self.plan, running.result, stage.group) is not None
            calls = self.calls.of_stage(stage.mode, ones, self._slices, is_stored=is_stored)
            if is_stored:
                calls[-1] = self._in_blocks(stage, calls[-1])
            for described, call in zip(ones, calls, strict=True):
                self._add_layer(stage, described, call)
        first_source = len(self._inputs)
        for index, name in enumerate(stage.sources):
            self._inputs.append(self._input(name, len(running.layers) + index, NULL, NULL))
        layers = f"&layers[{first_layer}]" if not running.is_streamed_input else NULL
        sources = f"&inputs[{first_source}]" if stage.sources else NULL
        if len(running.targets) > MOST_ROWS:
            raise InvalidPlan(f"stage {running.result!r} fires more than {MOST_ROWS} times")
        fields = (
            *(stage.mode, running.planned.stage.rows, len(running.targets)),
            *(self._first_row(stage), self._sums(stage), layers, sources),
            *(0 if running.is_streamed_input else len(running.layers), len(stage.sources)),
            f"&tensors[{self._numbers[running.result]}]",
        )
        self._stages.append(f"{{{', '.join(map(str, fields))}}},")
        self.most_ranges = max(self.most_ranges, len(running.layers) + len(stage.sources))
        self.most_layers = max(self.most_layers, len(running.layers))
        self.has_parts |= stage.mode == "BY_PARTS"

    def _in_blocks(self, stage: PlacedStage, call: KernelCall) -> KernelCall:
        """Return the kernel call of a last layer whose result goes through a write buffer."""
        running = stage.running
        buffer = write_buffer(self.plan, running.result, stage.group)
        assert buffer is not None
        rows, _ = smallest_block(self.network, running.planned.stage)
        pixel = rows * channels_of(running.layers[-1].shape) * self.width_of(running.result)
        columns = self.elements(buffer.size) // pixel
        tensor = f"&tensors[{self._numbers[running.result]}]"
        self.write_buffers.append(
            f"{{{tensor}, {call.function}, {self.elements(buffer.offset)}, {rows}, {columns}}},"
        )
        return call._replace(function="store_blocks")

    def _add_layer(self, stage: PlacedStage, one: Described, call: KernelCall) -> None:
        layer = one.layer
        local = {name: number for number, name in enumerate(stage.running.planned.stage.layers)}
        local |= {name: len(local) + number for number, name in enumerate(stage.sources)}
        first_input = len(self._inputs)
        first_step, steps = self.calls.steps_behind(one)
        for index, source in enumerate(layer.inputs):
            rows = self.tables.rule(self._rule(layer, index, ROWS))
            is_inside = source in stage.running.planned.stage.layers
            columns = NULL
            if is_inside and stage.mode in ("BY_ROWS", "BY_PARTS"):
                columns = self.tables.rule(self._rule(layer, index, COLUMNS))
            number = self.copy_for(layer.name, source, stage.group)
            self._inputs.append(self._input(source, local[source], rows, columns, number))
        fields = (
            *(call.function, call.parameters, f"&tensors[{self._numbers[layer.name]}]"),
            *(f"&inputs[{first_input}]", first_step, len(layer.inputs), steps),
            *self._strip(stage, layer),
        )
        placed = PlacedLayer(len(self._layers), call.parameters, stage.group, stage.number)
        self._placed_layers[layer.name] = placed
        self._layers.append(f"{{{', '.join(map(str, fields))}}}, /* {self._described(layer)} */")
        self.most_taps = max(self.most_taps, layer.operator.window_taps[0])
        if not one.is_real:
            self.most_gathered = max(self.most_gathered, gathered_values(self.network, layer))
        self.most_neighbours = max(self.most_neighbours, most_neighbours(one))
        taken = self.calls.slots(one) * layer.operator.scratch_elements(one.inputs)
        self.scratch = max(self.scratch, taken)

    def _described(self, layer: Layer) -> str:
        """Return a C comment: the name of a layer, its operator, and its shapes."""
        shapes = ", ".join(map(str, self.network.input_shapes(layer)))
        operator = type(layer.operator).__name__
        return comment(f"{layer.name}: {operator}, {shapes} to {layer.shape}")

    def _rule(self, layer: Layer, index: int, axis: int) -> Rule:
        """The rule from output rows or columns of a layer to those of an input that it reads."""
        inputs = self.network.input_shapes(layer)
        shape = inputs[index]
        places = layer.shape.rows if axis == ROWS else layer.shape.width
        limit = shape.rows if axis == ROWS else shape.width
        try:
            needed = range_needed(layer, index, inputs, axis)
        except InvalidNetwork:  # all of it at once
            return all_of(limit)
        return rule_of(lambda place: needed((place, place + 1)), places, limit)

    def _input(
        self, source: str, local: int, rows: str, columns: str, number: int | None = None
    ) -> str:
        number = self._numbers[source] if number is None else number
        return f"{{&tensors[{number}], {local}, {rows}, {columns}}},"

    def _strip(self, stage: PlacedStage, layer: Layer) -> tuple[int, int, int]:
        """Return the buffer of a tensor inside a stage: offset in elements, rows, columns.

        The offset counts from the first strip of the stage. For a layer with state and for a tile
        it counts from the start of the arena, and rows and columns are zero.
        """
        if state_bytes(self.network, layer):  # the offset of its state in the arena
            return self._offset(layer.name, Kind.STATE, stage.group), 0, 0
        if stage.mode == "BY_TILES" and layer.name != stage.running.result:
            return self._offset(layer.name, Kind.TILE, stage.group), 0, 0
        offset = 0
        for name, rows, columns in stage.running.planned.strips:
            if name == layer.name:  # C divides by the rows, even if no firing needs the strip
                return offset, max(rows, 1), columns
            offset += rows * columns * self._channels(name)
        return 0, 0, 0

    def _first_row(self, stage: PlacedStage) -> int:
        if stage.mode != "INTO_SUMS":
            return 0
        return stage.running.needs[stage.sources[0]][0][0]

    def _sums(self, stage: PlacedStage) -> int:
        if stage.mode == "BY_PARTS":  # accumulators follow the strips
            strips = stage.running.planned.strips
            return sum(rows * columns * self._channels(name) for name, rows, columns in strips)
        if stage.mode == "BY_TILES":
            return self._tiling(stage)
        moves = stage.running.layers[-1].operator.scatters_rows
        if stage.mode != "INTO_SUMS" or moves:
            return 0
        return self._offset(stage.running.result, Kind.ACCUMULATORS, stage.group)

    def _tiling(self, stage: PlacedStage) -> int:
        """Add the tiling of a stage and return its number."""

        def offset(name: str, kind: Kind) -> int:
            return self._offset(name, kind, stage.group)

        tiling = tiling_of(self.network, stage.running.planned.stage, offset, self.tables)
        self._tilings.append(tiling)
        return len(self._tilings) - 1

    def _offset(self, name: str, kind: Kind, group: int) -> int:
        """The offset of the buffer of a tensor, in elements of the arena."""
        return self.elements(self.buffer(name, (kind,), group).offset)

    def _group(self, number: int) -> str:
        stages = [stage for stage in self.stages if stage.group == number]
        pool = self.buffer(stages[-1].running.result, (Kind.STAGING,), number)
        fields = (
            *(stages[0].number, len(stages)),
            *(self.elements(pool.offset), self.elements(pool.size)),
        )
        return f"{{{', '.join(map(str, fields))}}},"


def looking_ahead(needs: Sequence[Range], height: int) -> int:
    """Return the maximum distance, in firings, to the firing that reads the lowest row.

    For each firing, the lowest row is the minimum over the rows that this and all later firings
    need.
    """
    most, least = 0, height
    place = len(needs)  # the first firing from here on that needs the lowest row
    for number in reversed(range(len(needs))):
        first, end = needs[number]
        if first < end and first <= least:
            least, place = first, number
        if place < len(needs):
            most = max(most, place - number)
    return most


# The source buffer (None: the first buffer of the tensor) and the destination buffers.
Copied = tuple[StreamBuffer | None, tuple[StreamBuffer, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedStage:
    """A stage of a group, with its number among all stages.

    copied: source and destinations of a stage that copies a tensor between buffers.
    """

    running: RunningStage
    number: int
    group: int
    copied: Copied | None = None

    @property
    def is_hand_over(self) -> bool:
        """Whether the stage copies a whole tensor before its group executes."""
        return self.copied is not None and self.copied[0] is not None

    @property
    def mode(self) -> str:
        """The constant in C for the execution mode of the stage."""
        if self.copied is not None:
            return "COPIED"
        if self.running.is_streamed_input:
            return "ARRIVING"
        if self.running.planned.stage.accumulating_layer is not None:
            return "BY_PARTS"
        return {
            Mode.ROWS: "BY_ROWS",
            Mode.ACCUMULATING: "INTO_SUMS",
            Mode.CHANNELS: "BY_CHANNELS",
            Mode.TILES: "BY_TILES",
        }[self.running.planned.stage.mode]

    @property
    def sources(self) -> tuple[str, ...]:
        """The tensors of other stages that the stage reads, in the order of its requests."""
        return tuple(self.running.needs)


def placed_stages(network: Network, plan: StreamingPlan) -> list[PlacedStage]:
    """Return the stages of all groups in order. In each group, copying stages come first."""
    placed_stages: list[PlacedStage] = []
    for number, group in enumerate(plan.groups):
        running: list[tuple[RunningStage, Copied | None]] = [*_copying(network, plan, number)]
        if group.streamed_input is not None and not plan.is_copied(number):
            running.append((streamed_input_stage(network, group.streamed_input), None))
        running += [(RunningStage(stage, network, None), None) for stage in group.stages]
        for running_stage, copied in running:
            placed = PlacedStage(
                running=running_stage, number=len(placed_stages), group=number, copied=copied
            )
            placed_stages.append(placed)
    return placed_stages


def _copying(
    network: Network, plan: StreamingPlan, number: int
) -> Iterator[tuple[RunningStage, Copied]]:
    """Yield the stages of a group that copy a tensor, either whole in advance or row by row."""
    group = plan.groups[number]
    buffers = {buffer.name: buffer for buffer in plan.buffers if buffer.has_all_rows}
    for copy in group.transfers:
        source, target = buffers[copy.source], buffers[copy.target]
        name = source.tensor
        stage = Stage(layers=(name,), rows=network.layer(name).shape.rows)
        planned = PlannedStage(stage=stage, strips=())
        yield RunningStage(planned, network, name), (source, (target,))
    if group.streamed_input is not None and plan.is_copied(number):
        rings = tuple(
            buffer
            for buffer in plan.buffers
            if (buffer.tensor, buffer.kind) == (group.streamed_input, Kind.RING)
            and buffer.begin <= number < buffer.end
        )
        yield streamed_input_stage(network, group.streamed_input), (None, rings)


MOST_TURNS = 65535  # firings in a repeated sequence, and repetitions: both are 16-bit in C


class ScheduleOrder(NamedTuple):
    """The firing order of a plan in C: repeated sequences, and the concatenated stage numbers.

    turns: initialisers of the first index, the length and the repetitions of each sequence.
    """

    turns: list[str]
    stages: list[int]


class OrderedStage(Protocol):
    """A stage with its number among all stages."""

    @property
    def running(self) -> RunningStage:
        """The stage with the rows that its firings compute."""

    @property
    def number(self) -> int:
        """The number among all stages."""

    @property
    def group(self) -> int:
        """The number of its group."""

    @property
    def is_hand_over(self) -> bool:
        """Whether the stage copies a whole tensor before its group executes."""


def order_of(plan: StreamingPlan, stages: Sequence[OrderedStage]) -> ScheduleOrder:
    """Return the firing order of the stages of a plan; empty if firing is demand-driven.

    stages: of all groups, copying stages first in each group. Raises InvalidPlan if some groups have
    an order and another group of several stages has none.
    """
    order = ScheduleOrder([], [])
    if not any(group.order or group.transfers for group in plan.groups):
        return order
    for number, group in enumerate(plan.groups):
        here = [stage for stage in stages if stage.group == number]
        number_of = {stage.running.result: stage.number for stage in here}
        for copy in here:
            if copy.is_hand_over:
                _add(order, 1, [copy.number])
        fired = [stage for stage in here if not stage.is_hand_over]
        if not group.order:
            if len(fired) > 1:
                raise InvalidPlan(
                    f"no C code for group {number + 1}, several stages without an order, beside "
                    "groups with one"
                )
            _add(order, len(fired[0].running.targets), [fired[0].number])
        for turns in group.order:
            _add(order, turns.times, [number_of[name] for name in turns.results])
    return order


def _add(order: ScheduleOrder, times: int, numbers: Sequence[int]) -> None:
    if times > MOST_TURNS or len(numbers) > MOST_TURNS:
        raise InvalidPlan(f"turns of more than {MOST_TURNS} firings, or times")
    order.turns.append(f"{{{len(order.stages)}, {len(numbers)}, {times}}},")
    order.stages.extend(numbers)


def require_in_c(plan: StreamingPlan, inputs: Collection[str]) -> None:
    """Raise InvalidPlan, with the reason, for a plan that the scheduler cannot execute.

    inputs: the names of the inputs of the network.
    """
    if plan.memories and plan.memories[0].is_slow:
        raise InvalidPlan("no C code for memories of which the first is slow")
    moves = {Kind.WEIGHTS, Kind.RESIDENT} & {buffer.kind for buffer in plan.buffers}
    if moves and not any(group.order for group in plan.groups):
        raise InvalidPlan("no C code for weights that are copied, without an order of firings")
    if plan.memories and any(
        buffer.stays and plan.memory_of(buffer) not in (None, plan.memories[0])
        for buffer in plan.buffers
    ):
        raise InvalidPlan(
            "no C code for a state outside of the first memory; give this memory room for it, or name "
            "another one first"
        )
    if plan.memories and any(buffer.kind is Kind.EXTERNAL for buffer in plan.buffers):
        raise InvalidPlan("no C code for tensors outside the arena beside several memories")
    for stage in (stage for group in plan.groups for stage in group.stages):
        if stage.stage.result in inputs:
            raise InvalidPlan(
                f"no C code for input {stage.stage.result!r}, one of several, as it comes by rows"
            )


class TensorBuffers(NamedTuple):
    """The buffers of tensors: for each tensor the buffer that its producer writes, and all copies."""

    first: dict[str, StreamBuffer]
    further: tuple[StreamBuffer, ...]


def places_of(plan: StreamingPlan, made: Mapping[str, int]) -> TensorBuffers:
    """Return the buffers of tensors. made: the group that computes each tensor; 0 for inputs."""
    first = {}
    for tensor, group in made.items():
        if written := plan.written(tensor, group):
            first[tensor] = written[0]
    further = [buffer for buffer in plan.buffers if buffer.has_rows and buffer.tensor in first]
    return TensorBuffers(
        first, tuple(buffer for buffer in further if buffer is not first[buffer.tensor])
    )


Offset = Callable[[str, Kind], int]  # of the buffer for a tensor, in elements of the arena


def tiling_of(network: Network, stage: Stage, offset: Offset, tables: Tables) -> str:
    """Return the initialiser of a tiling: the rows and columns of each tensor in each tile.

    Raises InvalidPlan for a layer that cannot be tiled.
    """
    for name in stage.layers:
        if not can_be_tiled(network, network.layer(name)):
            raise InvalidPlan(f"no C code for {name!r} in tiles, which needs more than rectangles")
    ranges = TileRanges(network, stage, Needs(network))
    places = [
        str(place)
        for name in stage.layers
        for span in (*ranges.rows[name], *ranges.columns[name])
        for place in span
    ]
    held = tables.defined("uint16_t", "held", places)
    kept = (
        tables.defined("int32_t", "kept", _kept(ranges, offset))
        if ranges.tiles.halo_cached
        else NULL
    )
    return f"{{{len(ranges.tiles.row_ends)}, {len(ranges.tiles.column_ends)}, {held}, {kept}}},"


def _kept(ranges: TileRanges, offset: Offset) -> list[str]:
    """Return the offsets of the halo caches of each layer: rows, then columns; zero for none."""
    downs, acrosses = range(len(ranges.tiles.row_ends)), range(len(ranges.tiles.column_ends))
    offsets = []
    for layer in ranges.layers:
        below = any(ranges.rows_below(layer.name, down) for down in downs)
        beside = any(ranges.columns_beside(layer.name, 0, across) for across in acrosses)
        for kind, is_there in ((Kind.TILE_ROWS, below), (Kind.TILE_COLUMNS, beside)):
            offsets.append(str(offset(layer.name, kind) if is_there else 0))
    return offsets

"""Executor of memory plans with shadow memory: each arena byte is marked with its tensor element.

The plan gives the stages of each group and the offsets of buffers; the network gives the rows that a
layer needs. The executor derives the order of firings, the rows and columns of each firing, and the
staging of row blocks and their copies into line buffers. It shares only the plan format with the
planners. A read of a byte that does not hold the expected element is an error. Without a computation
the executor checks a plan; with a computation it runs the plan. Tensors between concurrent groups are
copied from buffer to buffer. The inputs of a firing must stay intact until the firing ends, because a
layer may write its result at any time in between.

Two classes count progress in rows. Of a `HeldTensor` the rows before `made` are computed; its readers
still need rows from `first_needed` on, the minimum of `needed_from` over all readers. A
`CheckedFirings` has fired `fired` times. Its next firing computes the rows `targets[fired]` of the
result: for that, `wants(source)` rows of an input must be made. Afterwards it reads rows from
`still_needs(source)` on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from itertools import chain

import numpy as np

from cnn2csdf.geometry import Range, Region
from cnn2csdf.network import Layer, Network
from cnn2csdf.operators.moves import to_memory_order
from cnn2csdf.part import HeldRows, OutputRows
from cnn2csdf.rings import rings_of
from cnn2csdf.shape import Shape
from cnn2csdf.weights import Array
from csdf.errors import ExecutionError
from planners.plan.checked_geometry import CheckedFirings, InputNeeds, streamed_input_firings
from planners.plan.checked_rules import (
    COLUMNS,
    bytes_kept,
    joins_columns,
    reads_each_byte_once,
    variable_updates,
)
from planners.plan.checked_states import LayerStates
from planners.plan.checked_weights import LayerWeights
from planners.plan.fused_stages import Computing, FusedFiring, TileWork
from planners.plan.held_tensors import (
    HeldTensor,
    RingWindow,
    is_in_place,
    may_overlap,
    rows_read,
    whole_region,
    write_region,
)
from planners.plan.plan import (
    ACCUMULATOR_BYTES,
    Alias,
    Kind,
    Mode,
    PlannedGroup,
    StreamBuffer,
    StreamingPlan,
    Transfer,
)
from planners.plan.shadow_arena import NOTHING, POISON, Content, MarkedArena

# Called before each firing of a stage of one layer: with the rows that it computes, the rows that it
# reads, by tensor, and the positions of all tensors.
Watch = Callable[[Layer, Range, Mapping[str, Range], Mapping[str, HeldTensor]], None]


class PlanMachine:
    """The execution of a plan on one frame.

    computing: the layer computations of the planned model, copies of layers included. whole: tensors
    with all rows in their buffers, as the groups before the present group left them. aliases: by the
    tensor inside a host. group: the present group. firings: number of firings begun.
    """

    def __init__(
        self,
        network: Network,
        plan: StreamingPlan,
        computing: Computing | None = None,
        *,
        memory: Array | None = None,
        watch: Watch | None = None,
    ) -> None:
        """Prepare a plan and the network that it executes, copies of layers included.

        memory: the arena bytes as earlier users left them.
        """
        self.watch = watch
        self.network = network
        self.plan = plan
        self.arena = MarkedArena(plan, self.network, memory)
        self.states = LayerStates(self.arena, network, plan)
        self.computing = computing
        self.needs = InputNeeds(network)
        self.weights = LayerWeights(self.arena, self.needs, plan)
        self.aliases = {alias.tensor: alias for alias in plan.aliases}
        scratch = (Kind.SCRATCH, Kind.WRITE_BUFFER)
        self._scratch = [buffer for buffer in plan.buffers if buffer.kind in scratch]
        self.whole: dict[str, HeldTensor] = {}
        self._rings = rings_of(self.network)
        self._begin_states()
        self.group = self.firings = 0

    def _begin_states(self) -> None:
        """Write the initial values of variables and layer states into their buffers."""
        first = {} if self.computing is None else self.computing.first_states()
        for layer in self.network.layers:
            if layer.is_input and layer.operator.is_state:
                tensor, height = self._variable(layer.name), layer.shape.rows
                values = to_memory_order(first[layer.name]["value"]) if first else None
                rows = [None] * height if values is None else values.reshape(height, -1)
                for row in range(height):
                    self.write_row(tensor, row, rows[row])
            elif bytes_kept(self.network, layer):
                self.states.begin(layer, first.get(layer.name))

    def _variable(self, name: str) -> HeldTensor:
        """Return a variable in its resident buffer."""
        return self.held(name, self.buffer(name, Kind.KEPT, 0))

    def _require_next_frame(self) -> None:
        """Raise ExecutionError unless weights, states and variables are intact for the next frame."""
        self.weights.require_residents()
        self.states.require_all()
        with self.arena.uncounted():
            for previous, _ in self.network.variables:
                self._all_of(previous.name, None)

    def next_frame(self, computing: Computing | None = None) -> None:
        """Poison all bytes except resident buffers, and execute all groups on another frame."""
        self.computing = computing
        is_resident = np.zeros(self.plan.all_bytes, bool)
        for buffer in self.plan.buffers:
            if buffer.persists or buffer.kind is Kind.RESIDENT:
                is_resident[slice(*buffer.byte_range)] = True
        self.arena.held[~is_resident[: len(self.arena.held)]] = NOTHING
        self.arena.memory[: len(is_resident)][~is_resident] = POISON
        self.whole = {}
        self.run()

    def run(self) -> None:
        """Execute all groups. Raises ExecutionError where the plan cannot be executed."""
        self._write_inputs()
        for previous, _ in self.network.variables:
            self.whole[previous.name] = self._variable(previous.name)
            self.whole[previous.name].made = previous.shape.rows
        updates = variable_updates(self.network, self.plan)
        for number, group in enumerate(self.plan.groups):
            self.group = number
            self.weights.copy(number)
            self.whole |= self._transferred(group.transfers, number)
            self.states.copy(number, is_end=False)
            self._join_rings()
            _GroupRun(self, group, number).run()
            self._join_rings()
            self.states.copy(number, is_end=True)
            for last_group, variable, source in updates:
                if last_group == number:
                    self._update_variable(variable, source)
        self._require_next_frame()

    def _write_inputs(self) -> None:
        """Write the inputs that are stored whole; these bytes are not counted as written.

        Firings write the other inputs row by row: inputs that are stages of a group, and the input that
        arrives during the first group, unless this group copies its rows from a whole buffer to a ring.
        """
        by_firings = {stage.result for group in self.plan.groups for stage in group.stages}
        if not self.plan.is_copied(0) and self.plan.groups[0].streamed_input is not None:
            by_firings.add(self.plan.groups[0].streamed_input)
        for layer in self.network.inputs:
            if layer.name in by_firings:
                continue
            buffers = [buffer for buffer in self.plan.written(layer.name, 0) if buffer.has_all_rows]
            if not buffers:
                raise ExecutionError(f"there is no buffer for the input {layer.name!r}")
            self.whole[layer.name] = tensor = self.held(layer.name, *buffers)
            for row in range(layer.shape.rows):
                self.write_row(tensor, row, self.frame_row(layer.name, row))
            tensor.made = layer.shape.rows
        # Inputs must not overlap, even inputs that no layer reads.
        for name in self.whole:
            self._all_of(name, None)
        self.arena.reads.clear()
        self.arena.writes.clear()

    def _join_rings(self) -> None:
        """Make the ring windows readable whose rows have all been computed."""
        for name, ring in self._rings.items():
            if ring.new in self.whole:
                pieces = self.whole[ring.previous], self.whole[ring.new]
                layer = self.network.layer(name)
                self.whole[name] = RingWindow(layer, self.arena.element_bytes(name), *pieces)

    def _update_variable(self, name: str, source_name: str) -> None:
        """Copy the last rows of a tensor to a variable, row by row as the generated C does.

        C writes the rows of a ring from its oldest row on, a position that moves from frame to frame.
        So only the new rows move there, and the rows computed in the frame must be intact afterwards:
        the source, or the new rows of the ring whose window is the source. A source at the offsets of
        the variable's rows is exempt: its copy changes nothing.
        """
        variable = self._variable(name)
        ring = self._rings.get(source_name)
        computed = self._whole_tensor(source_name if ring is None else ring.new)
        source = computed
        if ring is not None:
            window, unit = self.network.layer(source_name), self.arena.element_bytes(source_name)
            source = RingWindow(window, unit, variable, computed)
        height, kept_rows = source.layer.shape.rows, variable.layer.shape.rows
        computed_rows = computed.layer.shape.rows
        first_kept, first_computed = height - kept_rows, height - computed_rows
        has_offsets_of_variable = ring is None and all(
            source.row_offset(first_kept + row) == variable.row_offset(row)
            for row in range(kept_rows)
        )
        for row in range(first_kept, height):
            is_new = row >= first_computed
            with nullcontext() if is_new else self.arena.uncounted():
                self.write_row(variable, row - first_kept, self.read_row(source, row).copy())
        if not has_offsets_of_variable:
            with self.arena.uncounted():
                for row in range(max(computed_rows - kept_rows, 0), computed_rows):
                    self.read_row(computed, row)  # raises an error if the row is overwritten

    def _transferred(self, copies: Sequence[Transfer], group: int) -> dict[str, HeldTensor]:
        """Copy tensors before a group runs; return their new buffers, for this and later groups.

        Raises ExecutionError if a tensor or a buffer of a copy does not exist.
        """
        whole_buffers = {buffer.name: buffer for buffer in self.plan.buffers if buffer.has_all_rows}
        copied: dict[str, HeldTensor] = {}
        for copy in copies:
            source, target = whole_buffers.get(copy.source), whole_buffers.get(copy.target)
            before = source and copied.get(source.tensor, self.whole.get(source.tensor))
            if not (source and target and before) or source.tensor != target.tensor:
                raise ExecutionError(
                    f"group {group + 1} copies from {copy.source!r} to {copy.target!r}; expected two "
                    "buffers with all rows of a tensor that is stored whole"
                )
            old, new = (self.held(source.tensor, buffer) for buffer in (source, target))
            for row in range(old.layer.shape.rows):
                self.write_row(new, row, self.read_row(old, row).copy())
            kept = [
                buffer for buffer in before.buffers if buffer.has_all_rows and buffer.is_live(group)
            ]
            copied[source.tensor] = self.held(source.tensor, *kept, target)
            copied[source.tensor].made = before.made
        return copied

    def output(self, name: str) -> Array:
        """Return a tensor stored or delivered whole: (rows, columns, channels)."""
        outputs = [output.name for output in self.network.outputs if output.inputs == (name,)]
        # Every output must be intact: an external output has a tensor of its own, any other output is
        # the tensor in the buffer from which the output reads.
        values, *_ = (
            self._all_of(output, None) if output in self.whole else self._all_of(name, output)
            for output in outputs
        )
        return values

    def _all_of(self, name: str, reader: str | None) -> Array:
        """All rows of a tensor, from the buffer in which a layer reads it."""
        tensor = self._whole_tensor(name)
        return np.stack(
            [self.read_row(tensor, row, reader) for row in range(tensor.layer.shape.rows)]
        )

    def _whole_tensor(self, name: str) -> HeldTensor:
        """Return a tensor that is stored whole; raise ExecutionError if it is not."""
        if name not in self.whole:
            raise ExecutionError(f"tensor {name!r} does not lie whole")
        return self.whole[name]

    def frame_row(self, name: str, row: int) -> Array | None:
        """Return a row of an input of the frame; None without a computation."""
        return None if self.computing is None else self.computing.frame_row(name, row)

    def buffer(self, tensor: str, kind: Kind, group: int) -> StreamBuffer:
        """Return the buffer of a kind for a tensor in a group; raise ExecutionError without any."""
        buffer = self.plan.buffer_of(kind, tensor, group)
        if buffer is None:
            raise ExecutionError(
                f"group {group + 1}: there is no {kind.value} buffer for {tensor!r}"
            )
        return buffer

    def held(self, name: str, *buffers: StreamBuffer) -> HeldTensor:
        """Return a tensor in its buffers, which are those of its host if it is an alias."""
        alias = self.aliases.get(name, Alias(name, name))
        layer, host = self.network.layer(name), self.network.layer(alias.host)
        return HeldTensor(layer, host, alias, self.arena.element_bytes(name), *buffers)

    def spoil_scratch(self, layer: str, group: int) -> None:
        """Overwrite the scratch and the write buffer of a layer, as its kernel may do."""
        for buffer in self._scratch:
            layers = buffer.readers if buffer.kind is Kind.SCRATCH else (buffer.tensor,)
            if buffer.is_live(group) and layer in layers:
                self.arena.spoil(buffer.offset, buffer.size)

    def write_row(self, tensor: HeldTensor, row: int, values: Array | None) -> None:
        """Write a row of a tensor in its first buffer, or where it is staged."""
        size = tensor.layer.shape.row_elements
        self.arena.write(tensor.row_offset(row), tensor.layer.name, row * size, values, size)

    def copy_to_other_buffers(self, tensor: HeldTensor, rows: Range) -> None:
        """Copy rows from the first buffer of a tensor to its others."""
        size = tensor.layer.shape.row_elements
        for copy in range(1, len(tensor.buffers)):
            for row in range(*rows):
                with self.arena.uncounted() if copy > 1 else nullcontext():
                    values = self.read_row(tensor, row).copy()
                offset = tensor.row_offsets(row)[copy]
                self.arena.write(offset, tensor.layer.name, row * size, values, size)

    def read_row(self, tensor: HeldTensor, row: int, reader: str | None = None) -> Array:
        """Return a row, (columns, channels). Raises ExecutionError where it does not exist."""
        return self.row_from(tensor, row, tensor.row_offset(row, reader))

    def row_from(self, tensor: HeldTensor, row: int, offset: int) -> Array:
        """Return a row that begins at an offset of the arena, (columns, channels)."""
        shape = tensor.layer.shape
        size = shape.row_elements
        return self.arena.read(offset, tensor.layer.name, row * size, size).reshape(shape.width, -1)


class _GroupRun:
    """The execution of one group: which stage fires next, and the rows of all its tensors.

    A firing whose result does not fit into the line buffer writes into the staging buffer. If the next
    firing reads the staged rows, it reads them there. The rows that are still needed are then copied
    into the line buffer: after the next firing if it reads staged rows, before it otherwise. A firing
    that reads staged rows and stages its result uses the opposite end of the buffer:

        | rows of firing 1 | strips of firing 2 |      free      | rows of firing 2 |
        | rows of firing 3 | strips of firing 3 |      free      | rows of firing 2 |

    staged_tensor: the tensor with staged rows, from the first staged row to the last that is made; None
    without staged rows. staged_low_bytes: the bytes of these rows if they are at the low end of the
    staging buffer; 0 otherwise. sums: accumulators of the layers that reduce rows, by layer.
    """

    def __init__(self, machine: PlanMachine, group: PlannedGroup, number: int) -> None:
        self.machine = machine
        self.group = group
        self.number = number
        self.stages = [CheckedFirings(stage, machine.needs) for stage in group.stages]
        if group.streamed_input is not None:
            self.stages.insert(0, streamed_input_firings(machine.needs, group.streamed_input))
        self.tensors = dict(machine.whole)
        for stage in self.stages:
            self.tensors[stage.result] = self._new_tensor(stage)
        for stage in self.stages:
            for source in stage.needs:
                if source not in self.tensors:
                    raise ExecutionError(
                        f"group {number + 1}: stage {stage.result!r} reads {source!r}, of which "
                        "not all rows are there when the group begins"
                    )
            self._note_needs(stage)
        self._require_buffers()
        self.staging = machine.buffer(self.stages[-1].result, Kind.STAGING, number)
        self.sums: dict[str, Array] = {}
        self.staged_tensor: HeldTensor | None = None
        self.staged_low_bytes = 0

    def _require_buffers(self) -> None:
        """Raise ExecutionError unless every buffer that a layer reads exists during the group."""
        working = [stage for stage in self.stages if not self._is_copied(stage)]
        for layer in chain.from_iterable(stage.layers for stage in working):
            for source in layer.inputs:
                if source not in self.tensors:
                    continue
                buffer = self.tensors[source].read_in(layer.name)
                if not buffer.is_live(self.number):
                    raise ExecutionError(
                        f"group {self.number + 1}: layer {layer.name!r} reads {source!r} in buffer "
                        f"{buffer.name!r}, which groups {buffer.begin + 1} to {buffer.end} have"
                    )
                is_away = buffer.kind is Kind.KEPT and self.machine.plan.is_in_slow_memory(buffer)
                if is_away and not reads_each_byte_once(self.machine.network, layer, source):
                    memory = self.machine.plan.memory_of(buffer)
                    raise ExecutionError(
                        f"group {self.number + 1}: layer {layer.name!r} reads the state {source!r} in "
                        f"slow memory {memory and memory.name!r}; expected a copy in fast memory"
                    )

    def _is_copied(self, stage: CheckedFirings) -> bool:
        """Whether a stage copies the rows of a whole tensor into a ring buffer."""
        arrives = stage.result == self.group.streamed_input
        return arrives and self.machine.plan.is_copied(self.number)

    def _new_tensor(self, stage: CheckedFirings) -> HeldTensor:
        machine = self.machine
        alias = machine.aliases.get(stage.result)
        owner = stage.result if alias is None else alias.host
        written = machine.plan.written(owner, self.number)
        is_copied = self._is_copied(stage)
        buffers_written = [buffer for buffer in written if not (is_copied and buffer.has_all_rows)]
        if not buffers_written:
            raise ExecutionError(
                f"group {self.number + 1}: no buffer for the result {stage.result!r}"
            )
        return machine.held(stage.result, *buffers_written)

    def run(self) -> None:
        """Fire until each stage has computed its whole result."""
        producers = {stage.result: stage for stage in self.stages}
        for result in self.group.firings:
            named = f"group {self.number + 1}: {result!r}"
            stage = producers.get(result)
            if stage is None or stage.is_done:
                raise ExecutionError(f"{named} is to be made once more than it can be")
            if (lacking := self.lacking(stage)) is not None:
                raise ExecutionError(f"{named} is to be made before {lacking!r} is there")
            self.fire(stage)
        for last in reversed(self.stages):
            while not last.is_done:
                stage = last
                while (lacking := self.lacking(stage)) is not None:
                    stage = producers[lacking]
                self.fire(stage)
        for name, tensor in self.tensors.items():
            if isinstance(tensor, RingWindow):
                continue
            if kept := [buffer for buffer in tensor.buffers if buffer.has_all_rows]:
                self.machine.whole[name] = self.machine.held(name, *kept)
                self.machine.whole[name].made = tensor.made

    def lacking(self, stage: CheckedFirings) -> str | None:
        """Return a tensor with missing rows for the next firing of a stage; None if it can fire."""
        for source in stage.needs:
            if self.tensors[source].made < stage.wants(source):
                return source
        return None

    def fire(self, stage: CheckedFirings) -> None:
        """Execute the next firing of a stage."""
        self.machine.firings += 1
        if self.staged_tensor is not None and self.staged_tensor.layer.name not in stage.needs:
            self._move_staged_rows()
        tensor = self.tensors[stage.result]
        first, end = stage.targets[stage.fired]
        is_staged = end > first and self._has_no_room(tensor, end - first)
        # Rows are staged at the low end of the staging buffer, or at its high end while other staged
        # rows are at the low end.
        low_bytes = 0  # of the rows that this firing stages at the low end
        if is_staged:
            size = (end - first) * tensor.row_bytes
            is_high = self.staged_low_bytes > 0
            tensor.staged = (
                first,
                self.staging.offset + (self.staging.size - size if is_high else 0),
            )
            low_bytes = 0 if is_high else size
        self._compute(stage, self.staging.offset + max(self.staged_low_bytes, low_bytes))
        # A layer may write its scratch until its firing ends.
        self._spoil_scratch(stage)
        self._require_inputs_intact(stage, (first, end))
        self.machine.copy_to_other_buffers(tensor, (first, end))
        tensor.made = max(tensor.made, end)
        stage.fired += 1
        self._note_needs(stage)
        if self.staged_tensor is not None:
            self._move_staged_rows()
        self.staged_tensor, self.staged_low_bytes = tensor if is_staged else None, low_bytes

    def _note_needs(self, stage: CheckedFirings) -> None:
        """Note for each tensor that a stage reads the first row that its later firings need."""
        for source in stage.needs:
            height = self.machine.network.layer(source).shape.rows
            self.tensors[source].needed_from[stage.result] = stage.still_needs(source, height)

    def _has_no_room(self, tensor: HeldTensor, rows: int) -> bool:
        """Whether the buffer of a tensor has no room for further rows, so that they are staged."""
        if tensor.buffer.has_all_rows or tensor.buffer.kind is Kind.RING:
            return False
        return tensor.made - tensor.first_needed + rows > tensor.buffer.rows

    def _move_staged_rows(self) -> None:
        """Move the staged rows that are still needed into their line buffer."""
        tensor = self.staged_tensor
        assert tensor is not None
        assert tensor.staged is not None
        (first, _), end = tensor.staged, tensor.made
        self.staged_tensor, self.staged_low_bytes = None, 0
        rows = range(max(first, tensor.first_needed), end)
        staged = [tensor.row_offset(row) for row in rows]
        tensor.staged = None
        if rows and end - tensor.first_needed > tensor.buffer.rows:
            raise ExecutionError(
                f"group {self.number + 1}: {end - tensor.first_needed} rows of "
                f"{tensor.layer.name!r} are needed, but its line has room for {tensor.buffer.rows}"
            )
        # Row by row, as the generated C does: a row of the line buffer may overlap a staged row that
        # has not been moved yet.
        for row, offset in zip(rows, staged, strict=True):
            self.machine.write_row(tensor, row, self.machine.row_from(tensor, row, offset).copy())

    def _spoil_scratch(self, stage: CheckedFirings) -> None:
        for layer in stage.layers:
            self.machine.spoil_scratch(layer.name, self.number)

    def _compute(self, stage: CheckedFirings, strips: int) -> None:
        """Compute the rows of the next firing. strips: the byte from which on strips are stored."""
        machine, computing = self.machine, self.machine.computing
        tensor = self.tensors[stage.result]
        first, end = stage.targets[stage.fired]
        if stage.is_streamed_input:
            for row in range(first, end):
                machine.write_row(tensor, row, self._streamed_row(stage, row))
            return
        machine.weights.read(stage)
        if stage.stage.mode is Mode.TILES:
            TileWork(machine, self.tensors, stage.stage, self.number).run()
            return
        self._spoil_scratch(stage)
        if stage.stage.mode is Mode.ACCUMULATING:
            self._accumulate(stage, tensor)
            return
        if stage.stage.mode is Mode.CHANNELS:
            self._sum_channels(stage, tensor)
            return
        if len(stage.layers) > 1:
            FusedFiring(machine, self.tensors, stage, strips, self.staging, self.number).run()
            return
        layer = stage.layers[0]
        if self._is_aliased_join(layer):
            with machine.arena.uncounted():  # nothing moves
                self.whole_rows(layer, stage.ranges[stage.fired])
            return
        if machine.watch is not None:
            machine.watch(layer, (first, end), stage.ranges[stage.fired], self.tensors)
        inputs = self.whole_rows(layer, stage.ranges[stage.fired])
        region = Region((first, end), (0, layer.shape.width))
        computed_region, keeps_state = None, bytes_kept(machine.network, layer) > 0
        if keeps_state:
            machine.states.require(layer)
        if computing is not None:
            state = machine.states.kept(layer) if keeps_state else None
            computed_region = computing.region(layer, region, inputs, state)
            if state is not None:
                machine.states.keep(layer, state)
        write_region(machine.arena, tensor, region, computed_region)
        if keeps_state:
            machine.states.require(layer)  # the result must not overwrite the state

    def _require_inputs_intact(self, stage: CheckedFirings, made: Range) -> None:
        """Raise ExecutionError unless the inputs of a firing are intact after it.

        An elementwise layer may write each element over the element that it reads. Accumulators are
        written after all reads. made: the rows of the result that the firing computed.
        """
        if stage.is_streamed_input:
            return
        machine, result = self.machine, self.tensors[stage.result]
        machine.weights.require([layer.name for layer in stage.layers])
        if stage.stage.mode is Mode.ACCUMULATING:
            return
        inside = {layer.name for layer in stage.layers}
        for layer in stage.layers:
            for source in layer.inputs:
                if source in inside or not may_overlap(result, self.tensors[source]):
                    continue
                is_alone = len(stage.layers) == 1
                if not (is_alone and is_in_place(layer, result, self.tensors[source], made)):
                    span = stage.ranges[stage.fired][source]
                    with machine.arena.uncounted():
                        rows_read(machine.arena, self.tensors[source], span, layer.name)

    def _streamed_row(self, stage: CheckedFirings, row: int) -> Array | None:
        machine = self.machine
        if self._is_copied(stage):
            return machine.read_row(machine.whole[stage.result], row).copy()
        return machine.frame_row(stage.result, row)

    def _is_aliased_join(self, layer: Layer) -> bool:
        """Whether a concatenation of columns moves no bytes: its inputs are aliases of its result."""
        aliases, column = self.machine.aliases, 0
        if not joins_columns(layer):
            return False
        for source in layer.inputs:
            if aliases.get(source) != Alias(source, layer.name, column=column):
                return False
            column += self.machine.network.layer(source).shape.width
        return True

    def whole_rows(self, layer: Layer, ranges: Mapping[str, Range]) -> list[tuple[Region, Array]]:
        """Return the input rows that a layer reads, with all columns except for a slice of columns.

        For a slice, only the bytes that it copies are counted as read. A tensor without rows and
        columns is read whole.
        """
        machine = self.machine
        arena, inputs = machine.arena, []
        for source in layer.inputs:
            tensor, (first, end) = self.tensors[source], ranges[source]
            shape, cut = tensor.layer.shape, layer.operator.sliced_range
            columns = 0, shape.width
            if cut is not None and cut.axis == COLUMNS and shape.is_map:
                columns = cut.start, min(cut.stop, shape.width)
            with nullcontext() if cut is None else arena.uncounted():
                rows = rows_read(arena, tensor, (first, end), layer.name, columns)
            if cut is not None and first < end:
                copied = (end - first) * layer.shape.row_elements
                offset = tensor.row_offset(first, layer.name)
                arena.count(arena.reads, offset, copied * arena.element_bytes(source))
            inputs.append((Region((first, end), columns), rows))
        return inputs

    def _sum_channels(self, stage: CheckedFirings, tensor: HeldTensor) -> None:
        """Compute the first layer channel by channel; the second layer reduces each channel at once."""
        machine, computing = self.machine, self.machine.computing
        layer, last = stage.layers
        inputs = self.whole_rows(layer, stage.ranges[0])
        first, end = rows = stage.ranges[0][layer.name]
        computed_region = None
        if computing is not None:
            maps = computing.region(layer, Region(rows, (0, layer.shape.width)), inputs)
            sums = np.zeros(last.shape.elements, np.float32)
            for row in range(first, end):
                computing.add_row(last, row, maps[row - first], sums)
            computed_region = computing.finished(last, sums)
        write_region(machine.arena, tensor, whole_region(last), computed_region)

    def _accumulate(self, stage: CheckedFirings, tensor: HeldTensor) -> None:
        """Add one input row to the accumulators of a layer; the last row completes the result."""
        machine, computing = self.machine, self.machine.computing
        layer = stage.layers[-1]
        row, values = self._row_added(stage)
        if layer.operator.scatters_rows:
            self._put_pixels(layer, tensor, row, values.copy())
            machine.read_row(self.tensors[layer.inputs[0]], row, layer.name)  # must still be intact
            return
        buffer = machine.buffer(layer.name, Kind.ACCUMULATORS, self.number)
        if buffer.offset % ACCUMULATOR_BYTES:
            raise ExecutionError(
                f"the sums of {layer.name!r} begin at byte {buffer.offset}, which is not aligned"
            )
        sums = Content.SUMS, layer.name, buffer.byte_range
        if stage.fired == 0:
            machine.arena.fill(*sums)
            self.sums[layer.name] = np.zeros(layer.shape.elements, np.float32)
            # C clears the accumulators before it reads the row, so they must not overlap.
            with machine.arena.uncounted():
                self._row_added(stage)
        if not machine.arena.holds(*sums):
            raise ExecutionError(f"the sums of {layer.name!r} are overwritten")
        if computing is not None:
            computing.add_row(layer, row, values, self.sums[layer.name])
        if stage.fired + 1 == len(stage.targets):
            result = None
            if computing is not None:
                result = computing.finished(layer, self.sums[layer.name])
            write_region(machine.arena, tensor, whole_region(layer), result)
            # The generated C requantises the accumulators one by one, writing results in between.
            if not machine.arena.holds(*sums):
                raise ExecutionError(f"the result of {layer.name!r} lies over its sums")

    def _row_added(self, stage: CheckedFirings) -> tuple[int, Array]:
        """Return the input row that a firing adds: its number, and its values.

        The first of two layers computes the row; otherwise it is read, by a pooling only in the columns
        of its window.
        """
        machine, (*inner, layer) = self.machine, stage.layers
        if inner:
            return self._row_computed(inner[0], stage.ranges[stage.fired])
        tensor, window = self.tensors[layer.inputs[0]], layer.operator.sliding_window
        row, end = stage.needs[layer.inputs[0]][stage.fired]
        if window is None:
            return row, machine.read_row(tensor, row, layer.name)
        with machine.arena.uncounted():
            values = machine.read_row(tensor, row, layer.name)
        columns_read = 0, window.columns.kernel
        rows_read(machine.arena, tensor, (row, end), layer.name, columns_read)
        return row, values

    def _row_computed(self, layer: Layer, ranges: Mapping[str, Range]) -> tuple[int, Array]:
        """Compute a row of a layer that is stored nowhere; return its number, and its values."""
        rows, computing = ranges[layer.name], self.machine.computing
        inputs = self.whole_rows(layer, ranges)
        columns, channels = layer.shape.width, layer.shape.channels
        values = np.zeros((1, columns, channels), layer.array_type)
        if computing is not None:
            values = computing.region(layer, Region(rows, (0, columns)), inputs)
        return rows[0], values[0]

    def _put_pixels(self, layer: Layer, tensor: HeldTensor, row: int, values: Array) -> None:
        """Write the pixels of an input row at the positions to which the operator moves them.

        The operator is applied to the numbers of all pixels, which gives the number of the input pixel
        at each result pixel. `argsort` inverts this permutation.
        """
        if not tensor.buffer.has_all_rows:
            raise ExecutionError(f"{tensor.layer.name!r} is written in any order, but is not whole")
        (source,), shape = self.machine.network.input_shapes(layer), layer.shape
        pixels = Shape(dims=(1, source.height, source.width))
        numbers = np.arange(pixels.elements).reshape(pixels.dims)
        read = HeldRows(shape=pixels, array=numbers)
        pixels_of_result = Shape(dims=(1, *shape.dims[1:]))
        moved = layer.operator.computed(OutputRows([read], {}, pixels_of_result, 0, shape.rows))
        result_pixels, (columns, channels) = moved.reshape(-1).argsort(), values.shape
        for column in range(columns):
            pixel = int(result_pixels[row * columns + column])
            result_row, result_column = divmod(pixel, shape.width)
            offset = tensor.row_offset(result_row) + result_column * tensor.column_bytes
            pixel_values = None if self.machine.computing is None else values[column]
            self.machine.arena.write(
                offset, tensor.layer.name, pixel * channels, pixel_values, channels
            )

"""C tables `tensors` and `duplicates`: where a generated library stores tensors.

The producer of a tensor writes its first buffer. Further buffers of the tensor in the plan are copies.
Either a stage fills a copy, or the copy is a duplicate: C writes each row of the first buffer to the
duplicate, too. The table has an entry for each tensor, then an entry for each copy. With tensors x and
y, and a copy of x in fast memory for the readers of x, for example:

    tensors[3]     {offset of x, rows, strides, ...}, {offset of y, ...}, {offset of the copy, ...}

The operand of a reader of x is then &tensors[2]. Offsets in C count elements of the arena, of
`LayerCalls.unit` bytes each.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Mapping, Sequence

from cnn2csdf.network import Network
from cnn2csdf.rings import rings_of
from csdf.errors import InvalidNetwork, InvalidPlan
from planners.code.c_text import table_row
from planners.code.calls.by_data_type import ChannelBlocks, LayerCalls, channel_blocks
from planners.code.placed_stages import PlacedStage
from planners.plan.plan import Alias, Kind, StreamBuffer, StreamingPlan

MOST_ROWS = 65535  # rows of a tensor, and firings of a stage: both are uint16_t in C


class TensorTable:
    """The tensors and copies of a plan, with their indices and offsets in C.

    network, plan, calls: the network, its memory plan, and the kernel calls of its layers.
    names: tensors in the order of the table. copies: further buffers, whose entries follow.
    rings: rings of state, by the names of their windows.
    outside: tensors in memory of the caller.
    producers: the stage that computes each tensor, or by which the rows of an input arrive.
    channel_blocks: the blocks of the layers that compute their channels block by block.
    """

    def __init__(
        self,
        network: Network,
        plan: StreamingPlan,
        stages: Sequence[PlacedStage],
        calls: LayerCalls,
    ) -> None:
        """Number the tensors: inputs, results of all layers in the stages, variables, windows."""
        self.network, self.plan, self.calls = network, plan, calls
        inputs = [layer.name for layer in network.inputs]
        computed = [
            name for group in plan.groups for stage in group.stages for name in stage.layers
        ]
        variables = [previous.name for previous, _ in network.variables]
        self.rings = rings_of(network)
        self.names = tuple(dict.fromkeys((*inputs, *computed, *variables, *self.rings)))
        self._numbers = {name: number for number, name in enumerate(self.names)}
        self._aliases = {alias.tensor: alias for alias in plan.aliases}
        self.outside = tuple(
            buffer.tensor for buffer in plan.buffers if buffer.kind is Kind.EXTERNAL
        )
        self.producers = {stage.running.result: stage for stage in stages if stage.copied is None}
        # The group that computes each tensor; 0 for inputs, variables and windows.
        inputs_and_variables = (layer.name for layer in network.layers if layer.is_input)
        self._producing_group = dict.fromkeys((*inputs_and_variables, *self.rings), 0)
        self._producing_group |= {name: stage.group for name, stage in self.producers.items()}
        self._first_buffers = {
            tensor: buffers[0]
            for tensor, group in self._producing_group.items()
            if (buffers := plan.written(tensor, group))
        }
        self.copies = self._further_buffers()
        self._copied = [stage.copied for stage in stages if stage.copied is not None]
        self.channel_blocks: dict[str, ChannelBlocks] = {}
        for stage in stages:
            self.channel_blocks |= channel_blocks(network, stage.running.stage)

    @property
    def splits(self) -> tuple[int, ...]:
        """The first arena element of each memory but the first one."""
        return tuple(self.elements(begin) for _, begin in self.plan.placed_memories[1:])

    def _further_buffers(self) -> tuple[StreamBuffer, ...]:
        """Further buffers of tensors, then states of layers that are copied, and their copies."""
        buffers, first = self.plan.buffers, self._first_buffers
        of_tensors = [buffer for buffer in buffers if buffer.has_rows and buffer.tensor in first]
        copied_states = {buffer.tensor for buffer in buffers if buffer.kind is Kind.STATE_COPY}
        of_states = [
            buffer
            for buffer in buffers
            if buffer.kind in (Kind.STATE, Kind.STATE_COPY) and buffer.tensor in copied_states
        ]
        further = [buffer for buffer in of_tensors if buffer is not first[buffer.tensor]]
        return (*further, *of_states)

    @property
    def pointer_count(self) -> int:
        """The pointers in the state of a library: to tensors of the caller, to further memories."""
        return len(self.outside) + len(self.splits)

    def elements(self, size: int) -> int:
        """Convert bytes to elements of the arena. Raises InvalidPlan for a remainder."""
        count, rest = divmod(size, self.calls.unit)
        if rest:
            raise InvalidPlan(
                f"the plan has an offset or size of {size} bytes; expected a multiple of "
                f"{self.calls.unit}, the bytes of an element of the arena in C"
            )
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
        return computed // self.calls.unit

    def pixel_elements(self, name: str) -> int:
        """Return the arena elements that a strip holds of a pixel: a channel block, or all channels."""
        block = self.channel_blocks.get(name)
        all_channels = self.network.layer(name).shape.channels
        channels = all_channels if block is None or block.accumulates else block.block_channels
        return channels * self.width_of(name)

    def buffer(self, tensor: str, kinds: Sequence[Kind], group: int) -> StreamBuffer:
        """Return the buffer of a tensor in a group, of one of these kinds. Raises InvalidPlan."""
        for buffer in self.plan.buffers:
            if buffer.tensor == tensor and buffer.kind in kinds and buffer.is_live(group):
                return buffer
        raise InvalidPlan(f"the plan has no buffer for {tensor!r} in group {group + 1}")

    def offset(self, tensor: str, kind: Kind, group: int) -> int:
        """Return the offset of the buffer of a tensor in a group, of this kind."""
        return self.elements(self.buffer(tensor, (kind,), group).offset)

    def memory_and_offset(self, offset: int) -> tuple[int, int]:
        """Return the number of the memory of an arena element, and its offset in this memory."""
        memory = bisect(self.splits, offset)
        return memory, offset - (0, *self.splits)[memory]

    def number(self, tensor: str) -> int:
        """Return the index of a tensor in the table."""
        return self._numbers[tensor]

    def buffer_number(self, buffer: StreamBuffer) -> int:
        """Return the index of a buffer in the table: of its copy, or of its tensor."""
        if buffer in self.copies:
            return len(self.names) + self.copies.index(buffer)
        return self._numbers[buffer.tensor]

    def number_read_by(self, reader: str, tensor: str, group: int) -> int:
        """Return the index of the buffer from which a layer reads a tensor in a group."""
        first = self._first_buffers.get(tensor)
        if first is None or reader not in first.readers or group >= first.end:
            for copy in self.copies:
                if copy.tensor == tensor and reader in copy.readers and copy.is_live(group):
                    return self.buffer_number(copy)
        return self._numbers[tensor]

    def has_line_buffers(self) -> bool:
        """Return whether any buffer has fewer rows than its tensor."""
        rows = [(name, self._offset_and_rows(name)[1]) for name in self.producers]
        rows += [(copy.tensor, copy.rows) for copy in self.copies]
        return any(count < self.network.layer(name).shape.rows for name, count in rows)

    def rows(self, readers: Mapping[str, Sequence[str]]) -> list[str]:
        """Return the initialisers of the table `tensors`.

        readers: for each tensor its entries in the table `readers`; empty for a library without it.
        """
        first, rows = 0, []
        for name in self.names:
            count = len(readers.get(name, ()))
            fields = {"first_reader": first, "readers": count} if readers else {}
            rows.append(table_row(name, **self._tensor_fields(name), **fields))
            first += count
        fields = {"first_reader": 0, "readers": 0} if readers else {}
        rows += [table_row(copy.name, **self._copy_fields(copy), **fields) for copy in self.copies]
        return rows

    def duplicate_rows(self) -> list[str]:
        """Return initialisers of pairs of buffers: C writes rows of the first to the second, too."""
        filled_by_stages = {target for copied in self._copied for target in copied.targets}
        pairs = [
            (self._numbers[copy.tensor], self.buffer_number(copy))
            for copy in self.copies
            if copy not in filled_by_stages and copy.is_live(self._producing_group[copy.tensor])
        ]
        # A stage fills its first target; its other targets are duplicates of the first.
        pairs += [
            (self.buffer_number(copied.targets[0]), self.buffer_number(target))
            for copied in self._copied
            for target in copied.targets[1:]
        ]
        return [
            table_row(of=f"&tensors[{first}]", to=f"&tensors[{second}]") for first, second in pairs
        ]

    def _tensor_fields(self, name: str) -> dict[str, int]:
        """The fields of a tensor: offset, rows and strides of its first buffer, shape, producer.

        A tensor that is an alias inside a host tensor has the strides of the host.
        """
        shape = self.network.layer(name).shape
        if shape.rows > MOST_ROWS or shape.width > MOST_ROWS:
            raise InvalidNetwork(f"tensor {name!r} of {shape} has more than {MOST_ROWS} rows")
        width = self.width_of(name)
        is_stored = name in self._producing_group
        offset, rows = self._offset_and_rows(name) if is_stored else (0, 0)
        host_shape = self.network.layer(self._alias(name).host).shape
        stride = host_shape.row_elements * width
        in_blocks = name in self.channel_blocks
        return {
            "offset": offset,
            "rows": rows,
            "stride": stride,
            "column_stride": stride // host_shape.width,
            "height": shape.rows,
            "width": shape.width,
            "channels": self.pixel_elements(name) if in_blocks else shape.pixel_elements * width,
            "producer": self.producers[name].number if name in self.producers else -1,
        }

    def _copy_fields(self, copy: StreamBuffer) -> dict[str, int]:
        """The fields of a copy, which has no producer. The state of a layer is a row of one pixel."""
        shape = self.network.layer(copy.tensor).shape
        stride, height, width = self.elements(copy.size), 1, 1
        if copy.has_rows:
            stride = shape.row_elements * self.width_of(copy.tensor)
            height, width = shape.rows, shape.width
        return {
            "offset": self.elements(copy.offset),
            "rows": copy.rows,
            "stride": stride,
            "column_stride": stride // width,
            "height": height,
            "width": width,
            "channels": stride // width,
            "producer": -1,
        }

    def _alias(self, name: str) -> Alias:
        """The alias of a tensor within its host tensor; without a host, the tensor itself."""
        return self._aliases.get(name, Alias(name, name))

    def _offset_and_rows(self, name: str) -> tuple[int, int]:
        """The offset of a tensor in arena elements, and the rows of its buffer.

        A tensor in memory of the caller has the offset -1 minus its index in `outside`. The window of
        a ring begins where its variable does, or where the copy of the variable for this window does.
        """
        if name in self.rings:
            for copy in self.copies:
                if name in copy.readers:
                    return self.elements(copy.offset), copy.rows
            return self._offset_and_rows(self.rings[name].previous)
        rows = self.network.layer(name).shape.rows
        if name in self.outside:
            return -1 - self.outside.index(name), rows
        alias = self._alias(name)
        kinds = (Kind.WHOLE, Kind.LINE, Kind.RING, Kind.KEPT)
        buffer = self._first_buffers.get(alias.host) or self.buffer(
            alias.host, kinds, self._producing_group[name]
        )
        shape = self.network.layer(alias.host).shape
        elements_before = (alias.row * shape.width + alias.column) * shape.pixel_elements
        elements_before += alias.channel
        offset = self.elements(buffer.offset) + elements_before * self.width_of(name)
        return offset, rows if buffer.has_all_rows else buffer.rows

"""C tables of the stages of a plan: `stages`, `layers`, `inputs`, `tilings`, and others that they need.

An entry of a stage refers to its layers, to the tensors that it reads from other stages, and to its
result. Operands of layers are entries of `inputs`, too. A group of two convolutions, each a stage, for
example, where tensors[0] is the input:

    inputs[4]    {&tensors[0], ...}, {&tensors[0], ...}, {&tensors[1], ...}, {&tensors[1], ...}
    layers[2]    {kernel, parameters, &tensors[1], &inputs[0], ...}, {..., &tensors[2], &inputs[2], ...}
    stages[2]    {..., &layers[0], &inputs[1], ..., &tensors[1]}, {..., &layers[1], &inputs[3], ...}

Within a stage, C numbers operands in the order of `PlacedStage.operands`: the tensors of the layers of
the stage, then the tensors that the stage reads from other stages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate

from cnn2csdf.network import Layer, Network
from cnn2csdf.operators.operator import describe
from csdf.errors import InvalidNetwork, InvalidPlan
from planners.code.c_text import NULL, Tables, table_row
from planners.code.layer_descriptor import KernelCall, LayerNode
from planners.code.moved_weights import PlacedLayer
from planners.code.placed_stages import PlacedStage, look_ahead
from planners.code.rules import Rule, all_of, rule_of
from planners.code.tensor_table import MOST_ROWS, TensorTable
from planners.plan.plan import Kind, Stage, StreamBuffer
from planners.plan.regions import COLUMNS, ROWS, Needs, TileRanges, can_be_tiled, range_needed
from planners.plan.running_stage import input_rows, smallest_block
from planners.plan.state import layer_state_bytes


class StageTables:
    """The initialisers of the tables of stages.

    inputs, layers, stages, tilings, write_buffers: of the tables of these names. A write buffer holds
    a block of a result before C stores the block in slow memory.
    nodes: all layers, in the order of their table.
    placed_layers: index, parameters, group and stage of each layer, by name.
    """

    def __init__(self, stages: Iterable[PlacedStage], tensors: TensorTable) -> None:
        """Add all stages; their constants become C tables of `LayerCalls.tables`."""
        self._tensors, self._network = tensors, tensors.network
        self._calls, self._tables = tensors.calls, tensors.calls.tables
        self.inputs: list[str] = []
        self.layers: list[str] = []
        self.stages: list[str] = []
        self.tilings: list[str] = []
        self.write_buffers: list[str] = []
        self.nodes: list[LayerNode] = []
        self.placed_layers: dict[str, PlacedLayer] = {}
        for stage in stages:
            self._add_stage(stage)

    def _add_stage(self, stage: PlacedStage) -> None:
        """Add a stage with its layers and the tensors that it reads."""
        running, tensors = stage.running, self._tensors
        if len(running.targets) > MOST_ROWS:
            raise InvalidPlan(f"stage {running.result!r} fires more than {MOST_ROWS} times")
        first_layer = len(self.layers)
        if stage.layers:
            self._add_layers(stage)
        first_source, result = len(self.inputs), tensors.number(running.result)
        if stage.copied is None:
            for name in stage.sources:
                self._add_input(tensors.number(name), stage.operands.index(name))
        else:
            source, targets = stage.copied
            self._add_input(result if source is None else tensors.buffer_number(source), 0)
            result = tensors.buffer_number(targets[0])
        source_count = len(self.inputs) - first_source
        accumulates = stage.mode == "INTO_SUMS"
        row = table_row(
            mode=stage.mode,
            rows=running.stage.rows,
            firings=len(running.targets),
            first_row=input_rows(self._network, running.layers[-1], 0)[0][0] if accumulates else 0,
            sums=self._accumulators_or_tiling(stage),
            layers=f"&layers[{first_layer}]" if stage.layers else NULL,
            sources=f"&inputs[{first_source}]" if source_count else NULL,
            layer_count=len(stage.layers),
            source_count=source_count,
            result=f"&tensors[{result}]",
        )
        self.stages.append(row)

    def _add_input(self, tensor: int, operand: int, rows: str = NULL, columns: str = NULL) -> None:
        """Add an operand: its index in `tensors`, number in its stage, rules of the ranges read."""
        self.inputs.append(
            table_row(source=f"&tensors[{tensor}]", local=operand, rows=rows, columns=columns)
        )

    def _add_layers(self, stage: PlacedStage) -> None:
        """Add the layers of a stage that computes."""
        tensors = self._tensors
        nodes = [self._calls.node(layer) for layer in stage.layers]
        block = tensors.plan.buffer_of(Kind.WRITE_BUFFER, stage.running.result, stage.group)
        calls = self._calls.stage_calls(
            stage.mode, nodes, tensors.channel_blocks, is_stored=block is not None
        )
        if block is not None:
            self._add_write_buffer(stage, block, calls[-1].function)
            calls[-1] = calls[-1]._replace(function="store_blocks")
        for node, call in zip(nodes, calls, strict=True):
            self._add_layer(stage, node, call)

    def _add_write_buffer(self, stage: PlacedStage, buffer: StreamBuffer, function: str) -> None:
        """Add the write buffer of the last layer of a stage. function: computes a block in it."""
        result, tensors = stage.running.result, self._tensors
        rows, _ = smallest_block(self._network, stage.running.stage)
        pixel = stage.layers[-1].shape.pixel_elements * tensors.width_of(result)
        self.write_buffers.append(
            table_row(
                of=f"&tensors[{tensors.number(result)}]",
                make=function,
                offset=tensors.elements(buffer.offset),
                rows=rows,
                columns=tensors.elements(buffer.size) // (rows * pixel),
            )
        )

    def _add_layer(self, stage: PlacedStage, node: LayerNode, call: KernelCall) -> None:
        """Add a layer: its kernel call, its operands, the steps after it, its buffer in the stage."""
        layer = node.layer
        first_input = len(self.inputs)
        first_step, steps = self._calls.epilogue_steps(node)
        for index, source in enumerate(layer.inputs):
            rows, columns = self._tables.rule(self._access_rule(layer, index, ROWS)), NULL
            if source in stage.running.stage.layers and stage.mode in ("BY_ROWS", "BY_PARTS"):
                columns = self._tables.rule(self._access_rule(layer, index, COLUMNS))
            tensor = self._tensors.number_read_by(layer.name, source, stage.group)
            self._add_input(tensor, stage.operands.index(source), rows, columns)
        row = table_row(
            self._layer_text(layer),
            compute=call.function,
            parameters=call.parameters,
            result=f"&tensors[{self._tensors.number(layer.name)}]",
            inputs=f"&inputs[{first_input}]",
            steps=first_step,
            input_count=len(layer.inputs),
            step_count=steps,
            **self._buffer_fields(stage, layer),
        )
        self.placed_layers[layer.name] = PlacedLayer(
            len(self.layers), call.parameters, stage.group, stage.number
        )
        self.layers.append(row)
        self.nodes.append(node)

    def _layer_text(self, layer: Layer) -> str:
        """The name of a layer, its operators, and its shapes."""
        shapes = ", ".join(map(str, self._network.input_shapes(layer)))
        operators = describe(layer.operator, layer.epilogue)
        return f"{layer.name}: {operators}, {shapes} to {layer.shape}"

    def _access_rule(self, layer: Layer, index: int, axis: int) -> Rule:
        """The rule from output rows (or columns) of a layer to those it needs of one input.

        If it needs no range that depends on the output position, it needs the entire axis.
        """
        inputs = self._network.input_shapes(layer)
        shape = inputs[index]
        outputs = layer.shape.rows if axis == ROWS else layer.shape.width
        limit = shape.rows if axis == ROWS else shape.width
        try:
            needed = range_needed(layer, index, inputs, axis)
        except InvalidNetwork:
            return all_of(limit)
        return rule_of([needed((position, position + 1)) for position in range(outputs)], limit)

    def _buffer_fields(self, stage: PlacedStage, layer: Layer) -> dict[str, int]:
        """The buffer of a layer inside its stage: offset in arena elements, rows, columns.

        The offset of a strip counts from the first strip of the stage. The state of a layer, and a
        tile, have a buffer of the plan, whose offset counts from the start of the arena.
        """
        kind = None
        if layer_state_bytes(self._network, layer):
            has_copy = self._tensors.plan.buffer_of(Kind.STATE_COPY, layer.name, stage.group)
            kind = Kind.STATE_COPY if has_copy else Kind.STATE
        elif stage.mode == "BY_TILES" and layer.name != stage.running.result:
            kind = Kind.TILE
        offset = rows = columns = 0
        if kind is not None:
            offset = self._tensors.offset(layer.name, kind, stage.group)
        else:
            strips = stage.running.stage.strips
            for begin, strip in zip(self._strip_offsets(stage), strips, strict=False):
                if strip.layer == layer.name:
                    # At least one row: C divides by the rows, even if no firing needs the strip.
                    offset, rows, columns = begin, max(strip.rows, 1), strip.columns
        return {"buffer_offset": offset, "buffer_rows": rows, "buffer_columns": columns}

    def _strip_offsets(self, stage: PlacedStage) -> list[int]:
        """The offset of each strip of a stage from the first strip, and the end of the last strip."""
        sizes = (
            strip.rows * strip.columns * self._tensors.pixel_elements(strip.layer)
            for strip in stage.running.stage.strips
        )
        return list(accumulate(sizes, initial=0))

    def _accumulators_or_tiling(self, stage: PlacedStage) -> int:
        """The field `sums` of a stage: the offset of its accumulators, or the number of its tiling.

        With channel blocks, the accumulators follow the strips of the stage, and the offset counts
        from the first strip. 0 for a stage without accumulators and tiles. Adds the tiling.
        """
        running, tensors = stage.running, self._tensors

        def offset(name: str, kind: Kind) -> int:
            return tensors.offset(name, kind, stage.group)

        if stage.mode == "BY_TILES":
            self.tilings.append(tiling_of(self._network, running.stage, offset, self._tables))
            return len(self.tilings) - 1
        if stage.mode == "BY_PARTS":
            return self._strip_offsets(stage)[-1]
        if stage.mode == "INTO_SUMS" and not running.layers[-1].operator.scatters_rows:
            return offset(running.result, Kind.ACCUMULATORS)
        return 0


def reader_rows(stages: Sequence[PlacedStage], tensors: TensorTable) -> dict[str, list[str]]:
    """Return initialisers of the stages of its group that read the first buffer of each tensor.

    Fields of a reader: stage, number of the tensor among its operands, look-ahead in firings.
    """
    readers: dict[str, list[str]] = {}
    for name in tensors.names:
        producer, height = tensors.producers.get(name), tensors.network.layer(name).shape.rows
        readers[name] = [
            table_row(
                stage=stage.number,
                local=stage.operands.index(name),
                looks_ahead=look_ahead(stage.running.needs[name], height),
            )
            for stage in stages
            if producer is not None
            and stage.group == producer.group
            and name in stage.sources
            and _reads_first_buffer(stage, name, tensors)
        ]
    return readers


def _reads_first_buffer(stage: PlacedStage, name: str, tensors: TensorTable) -> bool:
    """Whether a stage reads a tensor of another stage in the buffer that its producer writes."""
    reader = next(layer for layer in stage.layers if name in layer.inputs)
    return tensors.number_read_by(reader.name, name, stage.group) == tensors.number(name)


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
    tile_rows = range(len(ranges.tiles.row_ends))
    tile_columns = range(len(ranges.tiles.column_ends))
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

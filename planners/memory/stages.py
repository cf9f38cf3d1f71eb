"""Geometry of stages: firings, column strips, accumulators and MACs of fused runs of layers.

A stage computes `rows` rows of its result in each firing, from rows of other tensors. A stage of a
single layer reads its inputs in place. A stage of several layers computes its result column by
column; each inner tensor is a column strip. A strip is a ring buffer with the rows that the result
rows of a firing need, and with the columns that later windows still need. Each column is computed
once. Rows that the windows of successive row blocks share are recomputed. A reduction over all
pixels of a map (global pooling, fully connected) is a separate stage, which reads a row in each
firing and holds accumulators.

Example: two 3x3 convolutions of stride 1 on maps 32 pixels wide with 8 channels of int8. As a stage
with 1 result row a firing, the strip of the inner tensor has 3 rows x 3 columns x 8 bytes = 72
bytes, and inner rows are computed 3 times. As two stages, the inner line buffer has 3 rows x 32
columns x 8 bytes = 768 bytes, and no row is recomputed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate, pairwise

from cnn2csdf.geometry import Range
from cnn2csdf.granularity import require_few_columns, require_few_parts
from cnn2csdf.network import Layer, Network
from cnn2csdf.parameters import multiply_accumulates
from cnn2csdf.rings import rings_of
from planners.memory.line_buffers import (
    Keeping,
    KeptRows,
    firings_before_last,
    kept_places,
    kept_rows,
    pace_of,
)
from planners.plan.accumulators import has_wide_sums, sums_over_rows, works_by_channels
from planners.plan.aliases import aliases_of
from planners.plan.firing import (
    RowNeeds,
    StageFirings,
    made_by_rows,
    order_in_step,
    turns_of,
)
from planners.plan.plan import (
    ACCUMULATOR_BYTES,
    Alias,
    Kind,
    Mode,
    PlannedGroup,
    Stage,
    StreamBuffer,
    Strip,
)
from planners.plan.regions import COLUMNS, Needs, TileRanges, can_be_tiled
from planners.plan.running_stage import input_rows, rows_accumulated, rows_of_firings
from planners.plan.weights import WeightReads


@dataclass(frozen=True, slots=True, kw_only=True)
class Geometry:
    """Memory, firings and MACs of a stage.

    stage: layers of the stage, in execution order, with the column strip of each inner tensor.
    firings: rows that each firing reads and writes.
    strip_bytes: staging bytes of a firing: strips, and accumulators over channel blocks.
    accumulator: bytes of accumulators that are live from the first firing to the last.
    work: MACs of a frame, including recomputed rows.
    ranges: for each layer, the half-open range of output rows that each firing computes, such as
        ((0, 3), (1, 4)).
    """

    stage: Stage
    firings: StageFirings
    strip_bytes: int = 0
    accumulator: int = 0
    work: int
    ranges: dict[str, tuple[Range, ...]]


class StageTable:
    """Cache of stage geometries, row sizes and row needs of a network, by stage, tensor and layer.

    network: network of the stages.
    element_bytes: bytes of an element of all tensors; default: the bytes of each tensor's element
        type.
    outside: inputs, and results without a consumer, that are stored in memory outside the arena.
    state_rings: number of variables that are ring buffers of rows.
    """

    def __init__(
        self,
        network: Network,
        *,
        element_bytes: int | None = None,
        outside: frozenset[str] = frozenset(),
    ) -> None:
        """Set the network. Raises InvalidNetwork if its rows or columns are too many to list."""
        require_few_parts(network)
        require_few_columns(network)
        self.network = network
        self.element_bytes = element_bytes
        self.outside = outside
        self.state_rings = len(rings_of(network))
        self._needs = Needs(network)
        self._readers = network.consumers
        self._found: dict[Stage, Geometry] = {}
        self._row_needs: dict[tuple[str, int], tuple[Range, ...]] = {}
        self._columns: dict[tuple[str, ...], dict[str, int]] = {}
        self._weight_reads = WeightReads(network, element_bytes)
        self._works: dict[str, int] = {}
        self._tileable: dict[str, bool] = {}
        self._sizes: dict[str, tuple[int, int, int]] = {}
        self._weights_read: dict[Stage, dict[str, int]] = {}
        self._groups: dict[tuple[tuple[Stage, ...], str | None], GroupGeometry] = {}
        self._ends: dict[tuple[str, ...], tuple[tuple[int, ...], ...]] = {}

    @cached_property
    def aliases(self) -> Mapping[str, Alias]:
        """Tensors of the arena that may be stored inside others."""
        return aliases_of(self.network, self.bytes_of, self.outside)

    def of(self, network: Network) -> StageTable:
        """Return the table of another network, with the same element bytes and outside tensors."""
        if network is self.network:
            return self
        return StageTable(network, element_bytes=self.element_bytes, outside=self.outside)

    def height(self, tensor: str) -> int:
        """Rows of a tensor."""
        return self.network.layer(tensor).shape.rows

    def bytes_of(self, tensor: str) -> int:
        """Bytes of an element of a tensor."""
        return self._sizes_of(tensor)[0]

    def row_bytes(self, tensor: str) -> int:
        """Bytes of a row of a tensor, over all its channels."""
        return self._sizes_of(tensor)[1]

    def _sizes_of(self, tensor: str) -> tuple[int, int, int]:
        """Bytes of an element, of a row and of a whole tensor, cached."""
        if tensor not in self._sizes:
            layer = self.network.layer(tensor)
            unit, shape = self.element_bytes or layer.element_bytes, layer.shape
            self._sizes[tensor] = unit, shape.row_elements * unit, shape.elements * unit
        return self._sizes[tensor]

    def row_bytes_read(self, name: str, source: str) -> int:
        """Return the bytes of an input row that a layer reads, if the layer reads each byte once.

        A slice reads only its channels or columns; a pooling that adds rows reads the columns of
        its window.

        name: layer.
        source: input tensor of the layer.
        """
        layer = self.network.layer(name)
        elements = layer.operator.row_elements_read(self.network.layer(source).shape, layer.shape)
        return elements * self.bytes_of(source)

    def tensor_bytes(self, tensor: str) -> int:
        """Bytes of a whole tensor."""
        return self._sizes_of(tensor)[2]

    def arena_bytes(self, tensor: str) -> int:
        """Arena bytes of a tensor that is stored whole; 0 outside the arena."""
        return 0 if tensor in self.outside else self.tensor_bytes(tensor)

    def work_of(self, name: str) -> int:
        """MACs of a layer in a frame, cached."""
        if name not in self._works:
            layer = self.network.layer(name)
            inputs = self.network.input_shapes(layer)
            self._works[name] = multiply_accumulates(layer, inputs)
        return self._works[name]

    def _can_be_tiled(self, name: str) -> bool:
        """Whether a layer can be computed in rectangular tiles, cached."""
        if name not in self._tileable:
            self._tileable[name] = can_be_tiled(self.network, self.network.layer(name))
        return self._tileable[name]

    def can_be_stage(self, layers: Sequence[str]) -> bool:
        """Return whether layers can form a stage: a single result, computable by rows and columns.

        Keys and values, which attention rereads for each row, have to be results of another stage.
        """
        if len(layers) == 1:
            return True
        inside = set(layers)
        works = map(self.network.layer, layers)
        if any(
            inside.intersection(work.inputs[1:]) and work.operator.rereads_rows for work in works
        ):
            return False
        if self._is_one_place(layers[0]) and not self._is_one_place(layers[-1]):
            return False  # its result would be made again and again
        return all(map(self._can_be_tiled, layers)) and all(
            set(self._readers[name]) <= inside and self._readers[name] for name in layers[:-1]
        )

    def stage_ends(self, layers: tuple[str, ...]) -> tuple[tuple[int, ...], ...]:
        """Return, for each index in a run of layers, the ends of the stages that begin at the index.

        Ends increase; a stage consists of the layers before its end. Only runs whose inner tensors
        have their last consumer inside are examined in full.

        Example: ((1, 2), (2,)) for layers (a, b): stages (a), (a, b) and (b) are possible.
        """
        if layers not in self._ends:
            place = {name: number for number, name in enumerate(layers)}
            beyond = len(layers)
            last_reads = [
                max((place.get(reader, beyond) for reader in self._readers[name]), default=beyond)
                for name in layers
            ]
            self._ends[layers] = tuple(
                tuple(self._ends_from(layers, begin, last_reads)) for begin in range(len(layers))
            )
        return self._ends[layers]

    def _ends_from(
        self, layers: tuple[str, ...], begin: int, last_reads: Sequence[int]
    ) -> Iterator[int]:
        """Yield the ends of stages that begin at an index.

        last_reads: index of the last consumer of each layer's tensor.
        """
        last_read = 0  # of the tensors inside
        for end in range(begin + 1, len(layers) + 1):
            if last_read < end and self.can_be_stage(layers[begin:end]):
                yield end
            last_read = max(last_read, last_reads[end - 1])
            if last_read == len(layers):
                return

    def _is_one_place(self, tensor: str) -> bool:
        """Return whether a tensor has a single pixel."""
        shape = self.network.layer(tensor).shape
        return shape.rows == shape.width == 1

    def repeats(self, stage: Stage) -> bool:
        """Return whether a stage recomputes rows of a layer."""
        if stage.mode is not Mode.ROWS or len(stage.layers) == 1:
            return False
        ranges = self.geometry(stage).ranges
        return any(
            sum(end - first for first, end in ranges[name]) > self.height(name)
            for name in stage.layers
        )

    def can_go_by_channels(self, layers: Sequence[str]) -> bool:
        """Return whether two layers are a convolution and a reduction of each of its channels."""
        if len(layers) != 2 or self._readers[layers[0]] != (layers[1],):
            return False
        first, last = (self.network.layer(name) for name in layers)
        return (
            first.operator.splits_filters
            and not any(step.normalizes_responses for step in first.epilogue)
            and sums_over_rows(self.network, last)
            and not self.work_of(last.name)
        )

    def geometry(self, stage: Stage) -> Geometry:
        """Return the geometry of a stage. The layers have to satisfy `can_be_stage`."""
        geometry = self._found.get(stage)
        if geometry is None:
            geometry = self._worked_out(stage)
            # A stage of a plan has its strips, a candidate of a search has none.
            self._found[stage] = self._found[geometry.stage] = geometry
        return geometry

    def group(self, stages: Sequence[Stage], streamed_input: str | None = None) -> GroupGeometry:
        """Return the geometry of a group of stages, cached; streamed_input: as in GroupGeometry."""
        key = tuple(stages), streamed_input
        group = self._groups.get(key)
        if group is None:
            group = GroupGeometry(self, list(map(self.geometry, stages)), streamed_input)
            self._groups[key] = group
        return group

    def weight_reads(self, geometry: Geometry) -> dict[str, int]:
        """Return the weight bytes that each layer of a stage reads from their memory, in a frame."""
        stage = geometry.stage
        if stage not in self._weights_read:
            self._weights_read[stage] = self._weight_reads.of_stage(stage, geometry.ranges)
        return self._weights_read[stage]

    def _worked_out(self, stage: Stage) -> Geometry:
        """Compute the geometry of a stage, according to its mode."""
        last = self.network.layer(stage.result)
        if stage.mode is Mode.ACCUMULATING:
            return self._accumulating(stage, last)
        if stage.mode is not Mode.ROWS:
            return self._at_once(stage)
        height = last.shape.rows
        ends = (*range(stage.rows, height, stage.rows), height)
        wanted = tuple(pairwise((0, *ends)))
        ranges, outside = rows_of_firings(self.network, stage, wanted, self.row_needs)
        readings = tuple(
            reading_of(name, readings, self.height(name)) for name, readings in outside.items()
        )
        strips = tuple(self._strips(stage, ranges))
        return Geometry(
            stage=stage if stage.strips == strips else replace(stage, strips=strips),
            firings=StageFirings(result=stage.result, readings=readings, made=(0, *ends)),
            strip_bytes=sum(self._strip_bytes(stage, strip) for strip in strips)
            + self._sums(stage, ranges),
            work=sum(self._work(name, ranges[name]) for name in stage.layers),
            ranges=ranges,
        )

    def _accumulating(self, stage: Stage, layer: Layer) -> Geometry:
        """Return the geometry of a stage whose last layer accumulates its input row by row.

        The result is complete after the last row.
        """
        ranges, outside = rows_accumulated(self.network, stage, self.row_needs)
        ((source, spans),) = outside.items()
        made, sums = (*(0 for _ in spans), layer.shape.rows), layer.shape.elements
        if layer.operator.scatters_rows:  # rows are written from the first on
            made, sums = (0, *(layer.shape.rows for _ in spans)), 0
        reading = reading_of(source, spans, self.height(source))
        return Geometry(
            stage=stage,
            firings=StageFirings(result=stage.result, readings=(reading,), made=made),
            accumulator=sums * ACCUMULATOR_BYTES,
            work=self.work_of(layer.name) + sum(self._work(*item) for item in ranges.items()),
            ranges={**ranges, stage.result: tuple((0, layer.shape.rows) for _ in spans)},
        )

    def _at_once(self, stage: Stage) -> Geometry:
        """Return the geometry of a single firing on whole tensors: all tiles, or all channel maps."""
        layers = [self.network.layer(name) for name in stage.layers]
        sources = dict.fromkeys(name for layer in layers for name in layer.inputs)
        readings = tuple(
            RowNeeds(tensor=name, upto=(self.height(name),), first=(0, self.height(name)))
            for name in sources
            if name not in stage.layers
        )
        made = (0, self.height(stage.result))
        works = map(self.work_of, stage.layers)
        return Geometry(
            stage=stage,
            firings=StageFirings(result=stage.result, readings=readings, made=made),
            work=TileRanges(self.network, stage).work if stage.tiles else sum(works),
            ranges={name: ((0, self.height(name)),) for name in stage.layers},
        )

    def row_needs(self, layer: Layer, index: int) -> tuple[Range, ...]:
        """Return the rows of input `index` that each output row needs, cached; as `input_rows`."""
        key = layer.name, index
        if key not in self._row_needs:
            self._row_needs[key] = input_rows(self.network, layer, index)
        return self._row_needs[key]

    def _strips(self, stage: Stage, ranges: dict[str, tuple[Range, ...]]) -> Iterator[Strip]:
        columns = self._strip_columns(stage.layers) if len(stage.layers) > 1 else {}
        for name in stage.layers[:-1]:
            yield Strip(name, max(end - first for first, end in ranges[name]), columns[name])

    def _strip_bytes(self, stage: Stage, strip: Strip) -> int:
        channels = self.network.layer(strip.layer).shape.channels
        summing = stage.accumulating_layer
        if summing and strip.layer in stage.layers[: stage.layers.index(summing)]:
            channels = -(-channels // stage.channel_blocks)
        return strip.rows * strip.columns * channels * self.bytes_of(strip.layer)

    def _sums(self, stage: Stage, ranges: dict[str, tuple[Range, ...]]) -> int:
        """Return the bytes of the accumulators over channel blocks in a firing, with alignment."""
        if stage.accumulating_layer is None:
            return 0
        rows = max(end - first for first, end in ranges[stage.accumulating_layer])
        shape = self.network.layer(stage.accumulating_layer).shape
        units = (self.bytes_of(layer.name) for layer in self.network.layers)
        least = min(units, default=ACCUMULATOR_BYTES)
        return rows * shape.row_elements * ACCUMULATOR_BYTES + max(ACCUMULATOR_BYTES - least, 0)

    def accumulating_layer(self, layers: Sequence[str]) -> str | None:
        """Return the first layer of a stage that may accumulate over input channel blocks, or None.

        The preceding layers are computed channel by channel, each from its predecessor. Only the
        first layer, which reads outside the stage, may need all channels of its input. No further
        layer reads results of the preceding layers, because only one channel block of these exists
        at a time.
        """
        if not works_by_channels(self.network.layer(layers[0]), is_first=True):
            return None
        for before, name in pairwise(layers):
            layer = self.network.layer(name)
            if layer.inputs != (before,) or self._readers[before] != (name,):
                return None
            if layer.operator.splits_filters and layer.operator.mixes_channels:
                return None if has_wide_sums(self.network, layer) else name
            if not works_by_channels(layer, is_first=False):
                return None
        return None

    def _strip_columns(self, layers: tuple[str, ...]) -> dict[str, int]:
        """Return the columns of each strip while the stage computes its result column by column."""
        if layers not in self._columns:
            inside = set(layers)
            nodes = [self._column_firings(name, inside) for name in layers]
            rings = dict.fromkeys(layers, Keeping.RING)
            self._columns[layers] = dict(kept_places(nodes, rings))
        return self._columns[layers]

    def _column_firings(self, name: str, inside: set[str]) -> StageFirings:
        layer = self.network.layer(name)
        width = layer.shape.width
        readings = [
            reading_of(
                need.source,
                [need.clipped((place, place + 1)) for place in range(width)],
                need.limit,
            )
            for need in self._needs.of(layer, COLUMNS)
            if need.source in inside
        ]
        return StageFirings(result=name, readings=tuple(readings), made=tuple(range(width + 1)))

    def _work(self, name: str, ranges: Sequence[Range]) -> int:
        of_row = self.work_of(name) // self.height(name)
        return of_row * sum(end - first for first, end in ranges)


class GroupGeometry:
    """Fused stages that fire interleaved: their firings, bytes of a row, and the rows that they keep.

    table: of the stages.
    stages: geometry of each stage, in execution order; empty if the group only collects an input.
    streamed_input: tensor that arrives, or is copied, row by row; None if no tensor is.
    firings, strips: row needs, and bytes of strips, of the streamed input and then of each stage.
    row_bytes: bytes of a row of each result.
    """

    def __init__(
        self,
        table: StageTable,
        stages: Sequence[Geometry],
        streamed_input: str | None = None,
        rows: int = 1,
    ) -> None:
        """Set the stages. rows: of the streamed input in each firing."""
        self.table, self.stages, self.streamed_input = table, tuple(stages), streamed_input
        self.firings = [stage.firings for stage in stages]
        self.strips = [stage.strip_bytes for stage in stages]
        if streamed_input is not None:
            height = table.height(streamed_input)
            self.firings.insert(0, made_by_rows(streamed_input, height, rows))
            self.strips.insert(0, 0)
        self.row_bytes = {firing.result: table.row_bytes(firing.result) for firing in self.firings}
        self._kept: dict[tuple[Keeping, ...], KeptRows] = {}

    @property
    def result(self) -> str:
        """The tensor that the group produces, or collects."""
        return self.firings[-1].result

    def planned(self, *, in_step: bool = False) -> PlannedGroup:
        """Return the group of a plan. in_step: in an explicit order, with all last stages in step."""
        order = order_in_step(self.firings) if in_step else ()
        return PlannedGroup(
            stages=tuple(geometry.stage for geometry in self.stages),
            streamed_input=self.streamed_input,
            order=turns_of([self.firings[place].result for place in order]),
        )

    def accumulators(self, number: int) -> Iterator[StreamBuffer]:
        """Yield the accumulators of the stages, as buffers of the group of this number."""
        for stage in self.stages:
            if size := stage.accumulator:
                result = stage.firings.result
                yield StreamBuffer.of_group(Kind.ACCUMULATORS, result, number, size=size)

    def kept(self, keeping: Mapping[str, Keeping]) -> KeptRows:
        """Return the rows and transient bytes of a frame; keeping: of each result."""
        kinds = tuple(keeping[stage.result] for stage in self.firings)
        if kinds not in self._kept:
            self._kept[kinds] = kept_rows(self.firings, self.row_bytes, self.strips, keeping)
        return self._kept[kinds]

    @cached_property
    def dead(self) -> dict[str, tuple[int, ...]]:
        """Dead rows of each tensor that the group reads, for each firing of its last stage.

        Rows are dead if neither this firing nor any later one reads them.
        """
        fired = firings_before_last(self.firings)
        readings = (reading for firing in self.firings for reading in firing.readings)
        tensors = dict.fromkeys(reading.tensor for reading in readings)
        return {tensor: pace_of(self.firings, tensor, fired).dead for tensor in tensors}


def reading_of(tensor: str, spans: Sequence[Range], limit: int) -> RowNeeds:
    """Return the row needs of successive firings, from the input range of each firing.

    An empty range needs no row.
    """
    uptos = [end if first < end else 0 for first, end in spans]
    firsts = [first if first < end else limit for first, end in spans]
    firsts.append(limit)
    return RowNeeds(
        tensor=tensor,
        upto=tuple(accumulate(uptos, max)),
        first=tuple(reversed(tuple(accumulate(reversed(firsts), min)))),
    )

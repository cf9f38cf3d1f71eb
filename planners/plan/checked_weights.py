"""Weights in a plan: the buffers that the checker requires, and copies and reads as executed.

A firing reads the weights of its layers in the copy that the frame has made, else in the resident copy,
else in the flash. No cache is counted. No module of a search, a planner or the C writer is used here,
and none of them uses this module. Tests compare the bytes with the accesses of the compiled C.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from cnn2csdf.geometry import Axis, Range, Region
from cnn2csdf.network import Layer
from csdf.errors import ExecutionError, InvalidPlan, counted
from planners.plan.checked_geometry import CheckedFirings, InputNeeds, TiledStage, ranges_needed
from planners.plan.checked_plan import CheckedPlan
from planners.plan.checked_rules import bytes_of_weight, bytes_of_weights
from planners.plan.plan import Kind, Mode, Stage, StreamBuffer, StreamingPlan
from planners.plan.shadow_arena import Content, MarkedArena

# An integer convolution copies a window whose rows are shorter than this, up to so many bytes, and then
# reads the filters four by four, with the taps over the padding.
SHORT_ROW, MOST_COPIED, TOGETHER = 16, 256, 4


def require_weights(checked: CheckedPlan) -> None:
    """Raise InvalidPlan unless each copy of weights fits its layer, and is live in its group."""
    for buffer in checked.plan.buffers:
        if buffer.kind not in (Kind.WEIGHTS, Kind.RESIDENT):
            continue
        element_bytes = checked.plan.element_bytes
        layer = checked.computed.get(buffer.tensor)
        size = 0 if layer is None else bytes_of_weights(checked.network, layer, element_bytes)
        if layer is None or not size or buffer.size != size or buffer.rows:
            raise InvalidPlan(
                f"buffer {buffer.name!r} has {counted(buffer.size, 'byte')}; the weights of "
                f"{buffer.tensor!r} that can be moved take {size}"
            )
        if buffer.offset % (weight := bytes_of_weight(layer, element_bytes)):
            raise InvalidPlan(
                f"buffer {buffer.name!r} begins at byte {buffer.offset}; expected a multiple of "
                f"{weight}, the bytes of a weight"
            )
        groups = len(checked.plan.groups)
        if buffer.kind is Kind.RESIDENT and (buffer.begin, buffer.end) != (0, groups):
            raise InvalidPlan(f"buffer {buffer.name!r} is resident, but some groups do not have it")
        if checked.plan.flash is None or not checked.plan.memories:
            raise InvalidPlan(f"buffer {buffer.name!r} has weights, but the plan names no flash")
        if not buffer.is_live(checked.group_of[buffer.tensor]):
            raise InvalidPlan(f"buffer {buffer.name!r} is not there when {buffer.tensor!r} works")
    names = [memory.name for memory in checked.plan.memories]
    if checked.plan.flash in names:
        raise InvalidPlan(f"flash {checked.plan.flash!r} is one of the memories of the arena, too")
    if checked.plan.flash is not None and not names:
        raise InvalidPlan(f"flash {checked.plan.flash!r}, but the plan names no memories")


class LayerWeights:
    """The copies of weights in a marked arena, which firings read, or the flash.

    The resident copies are written when an object is made.
    """

    def __init__(self, arena: MarkedArena, needs: InputNeeds, plan: StreamingPlan) -> None:
        self._arena, self._plan = arena, plan
        self._reads = CheckedWeightReads(needs, plan.element_bytes)
        self._copies, self._residents = plan.by_tensor(Kind.WEIGHTS), plan.by_tensor(Kind.RESIDENT)
        network = needs.network
        self._layers = {
            layer.name
            for layer in network.layers
            if plan.memories and bytes_of_weights(network, layer, plan.element_bytes)
        }
        for buffer in self._residents.values():
            self._arena.fill(Content.WEIGHTS, buffer.tensor, buffer.byte_range)

    def copy(self, group: int) -> None:
        """Write the copies that begin with a group, from the resident copies or the flash."""
        for buffer in self._plan.buffers:
            if buffer.kind is Kind.WEIGHTS and buffer.begin == group:
                self._read(self._residents.get(buffer.tensor), buffer.size)
                self._arena.fill(Content.WEIGHTS, buffer.tensor, buffer.byte_range)
                self._arena.count(self._arena.writes, buffer.offset, buffer.size)

    def read(self, firings: CheckedFirings) -> None:
        """Count the bytes that the next firing of a stage reads, and require that they are intact."""
        for name in firings.stage.layers:
            if name in self._layers:
                self._read(self._used(name), self._reads.of_firing(firings, name))

    def require(self, layers: Sequence[str]) -> None:
        """Raise ExecutionError if the weights that layers use are overwritten; count no reads."""
        for name in layers:
            if buffer := self._used(name):
                self._require(buffer)

    def require_residents(self) -> None:
        """Raise ExecutionError if weights for the next frame are overwritten."""
        for buffer in self._plan.buffers:
            if buffer.kind is Kind.RESIDENT:
                self._require(buffer)

    def _used(self, name: str) -> StreamBuffer | None:
        return self._copies.get(name) or self._residents.get(name)

    def _read(self, buffer: StreamBuffer | None, size: int) -> None:
        """Count bytes read from a buffer, or from the flash without a buffer."""
        if buffer is not None:
            self._require(buffer)
            self._arena.count(self._arena.reads, buffer.offset, size)
        elif self._plan.flash is not None:
            self._arena.reads[self._plan.flash] += size

    def _require(self, buffer: StreamBuffer) -> None:
        if not self._arena.holds(Content.WEIGHTS, buffer.tensor, buffer.byte_range):
            raise ExecutionError(
                f"the weights of {buffer.tensor!r} in buffer {buffer.name!r} are overwritten"
            )


class CheckedWeightReads:
    """The bytes of weights that firings read from their memory; no cache is counted."""

    def __init__(self, needs: InputNeeds, element_bytes: int | None) -> None:
        """element_bytes: of each weight, where the plan has one size for all."""
        self._needs, self._network, self._element_bytes = needs, needs.network, element_bytes
        self._taps: dict[str, tuple[list[int], list[int]]] = {}

    def of_firing(self, firings: CheckedFirings, name: str) -> int:
        """Return the bytes that a layer of a stage reads in the next firing of the stage.

        A convolution reads its filters for each pixel of the result, another layer its matrix once.
        """
        layer, stage = self._network.layer(name), firings.stage
        last = self._network.layer(stage.result)
        size = bytes_of_weights(self._network, layer, self._element_bytes)
        is_accumulated = stage.mode is Mode.ACCUMULATING
        if is_accumulated and name == stage.result:  # a row of the matrix for a row of the input
            return 0 if firings.fired else size
        if layer.operator.filter_bank is None:
            return size
        if stage.mode is Mode.TILES:
            tiles = TiledStage(stage, self._needs).computed_regions(name)
            return sum(self._of_region(layer, region) for region in tiles)
        if stage.mode is Mode.CHANNELS:
            _, end = self._needs.rows(last, 0, (0, last.shape.rows))
            return self._summed_up(layer, last, (0, end))
        rows = firings.ranges[firings.fired][name]
        if is_accumulated:
            return self._summed_up(layer, last, rows)
        if stage.accumulating_layer is None:
            return self._of_region(
                layer, Region(rows, (0, self._swept_columns(layer, stage.layers)))
            )
        return self._in_blocks(stage, layer, rows)

    def _of_region(
        self, layer: Layer, region: Region, *, filters: int | None = None, is_summed: bool = False
    ) -> int:
        """The bytes for a region of the result of a layer.

        filters: where only a block is computed. is_summed: whether no window is copied.
        """
        bank = layer.operator.filter_bank
        assert bank is not None
        filters = bank.filters if filters is None else filters
        taps = prod(bank.window.kernel)
        size = bytes_of_weights(self._network, layer, self._element_bytes)
        copies_windows = self._copies_windows(layer) and not is_summed
        together = filters - filters % TOGETHER if copies_windows else 0
        by_row, by_column = self._taps_inside(layer)
        inside = sum(by_row[slice(*region.rows)]) * sum(by_column[slice(*region.columns)])
        bytes_of_tap = size // (bank.filters * taps)  # of one filter
        return bytes_of_tap * (together * region.pixels * taps + (filters - together) * inside)

    def _taps_inside(self, layer: Layer) -> tuple[list[int], list[int]]:
        """Return the number of taps over the input, by row and by column of the result."""
        if layer.name not in self._taps:
            window, shape = layer.operator.sliding_window, layer.shape
            assert window is not None
            source = self._network.input_shapes(layer)[0]
            self._taps[layer.name] = (
                _taps_on_axis(window.rows, shape.rows, source.rows),
                _taps_on_axis(window.columns, shape.width, source.width),
            )
        return self._taps[layer.name]

    def _copies_windows(self, layer: Layer) -> bool:
        bank = layer.operator.filter_bank
        if bank is None or layer.quantization is None:
            return False
        rows, columns = bank.window.kernel
        row = columns * self._network.input_shapes(layer)[0].channels
        return bank.groups == 1 < rows and row < SHORT_ROW and rows * row <= MOST_COPIED

    def _summed_up(self, layer: Layer, last: Layer, rows: Range) -> int:
        """Weight bytes of a layer for some rows of its feature maps, which the last layer reduces."""
        window = last.operator.sliding_window
        columns = layer.shape.width if window is None else window.columns.extent
        return self._of_region(layer, Region(rows, (0, columns)), is_summed=True)

    def _in_blocks(self, stage: Stage, layer: Layer, rows: Range) -> int:
        """Weight bytes of a layer in a firing that passes over the columns once per channel block.

        Blocks before the last block end at the accumulating layer. For a block, the accumulating layer
        reads only the filter taps of the input channels in that block.
        """
        assert stage.accumulating_layer is not None
        last_region = Region(rows, (0, self._swept_columns(layer, stage.layers)))
        sliced = stage.layers[: stage.layers.index(stage.accumulating_layer) + 1]
        if layer.name not in sliced:
            return self._of_region(layer, last_region)
        region = Region(rows, (0, self._swept_columns(layer, sliced)))
        total, shares = 0, self._block_sizes(stage)
        for share, swept in zip(shares, [region] * (len(shares) - 1) + [last_region], strict=True):
            if layer.name == stage.accumulating_layer:
                total += self._of_region(layer, swept, is_summed=True) * share // sum(shares)
            else:
                total += self._of_region(layer, swept, filters=share)
        return total

    def _block_sizes(self, stage: Stage) -> list[int]:
        channels = self._network.layer(stage.layers[0]).shape.channels
        most = -(-channels // stage.channel_blocks)
        return [
            max(0, min(most, channels - most * number)) for number in range(stage.channel_blocks)
        ]

    def _swept_columns(self, layer: Layer, names: tuple[str, ...]) -> int:
        """The columns of a layer, from 0 on, that all columns of the last of these layers need."""
        layers = [self._network.layer(name) for name in names]
        columns = 0, layers[-1].shape.width
        _, end = ranges_needed(layers, columns, self._needs.columns)[layer.name]
        return end


def _taps_on_axis(axis: Axis, outputs: int, inputs: int) -> list[int]:
    """Return the number of taps over the input, for each position of the output along an axis."""
    limit = inputs + min(axis.after, 0)  # negative padding crops the end
    begins = [output * axis.stride - axis.before for output in range(outputs)]
    taps = [tap * axis.dilation for tap in range(axis.kernel)]
    return [sum(0 <= begin + tap < limit for tap in taps) for begin in begins]

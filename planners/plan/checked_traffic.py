"""Weights that firings read, and the write buffers of results, as the checker of plans finds them.

No module of a search, a planner or the C writer is used here, and none of them uses this module. Tests
compare the bytes with the accesses of the compiled C.
"""

from __future__ import annotations

from collections.abc import Mapping

from cnn2csdf.geometry import Range
from cnn2csdf.network import Layer, Network
from csdf.errors import InvalidPlan, counted
from planners.plan.checked_geometry import CheckedFirings, InputNeeds
from planners.plan.checked_rules import bytes_of_weights, makes_rectangles, pixel_elements
from planners.plan.plan import Kind, Mode, Stage, StreamBuffer, StreamingPlan

# An integer convolution copies a window whose rows are shorter than this, up to so many bytes, and then
# reads the filters four by four, with the taps over the padding.
SHORT_ROW, MOST_COPIED, TOGETHER = 16, 256, 4


class CheckedWeightReads:
    """The bytes of weights that firings read where they lie; no cache is counted."""

    def __init__(self, needs: InputNeeds, element_bytes: int | None) -> None:
        """element_bytes: of each weight, where the plan has one size for all."""
        self._needs, self._network, self._element_bytes = needs, needs.network, element_bytes
        self._taps: dict[str, tuple[list[int], list[int]]] = {}

    def of_firing(self, firings: CheckedFirings, name: str) -> int:
        """Return the bytes that a layer of a stage reads in the next firing of the stage.

        A convolution reads its filters for each pixel of the result, another layer its matrix once.
        """
        layer, stage = self._network.layer(name), firings.stage
        size = bytes_of_weights(self._network, layer, self._element_bytes)
        if stage.mode is Mode.ACCUMULATING:  # a row of the matrix for a row of the input
            return 0 if firings.fired else size
        if stage.mode is Mode.TILES or layer.operator.filter_bank is None:
            return size
        if stage.mode is Mode.CHANNELS:
            return self._summed_up(layer, self._network.layer(stage.result))
        rows = firings.ranges[firings.fired][name]
        if len(stage.layers) == 1:
            return self._of_pixels(layer, rows, layer.shape.width)
        columns = self._columns_made(stage.layers)[name]
        if stage.accumulating_layer is None:
            return self._of_pixels(layer, rows, columns)
        return self._in_blocks(stage, layer, rows, columns)

    def _of_pixels(
        self,
        layer: Layer,
        rows: Range,
        columns: int,
        *,
        filters: int | None = None,
        is_summed: bool = False,
    ) -> int:
        """The bytes for rows of a layer, from its first column on.

        filters: where only a block is computed. is_summed: whether no window is copied.
        """
        bank = layer.operator.filter_bank
        assert bank is not None
        taps = bank.window.kernel[0] * bank.window.kernel[1]
        size = bytes_of_weights(self._network, layer, self._element_bytes)
        of_tap = size // (bank.filters * taps)
        down, across = self._taps_inside(layer)
        inside = sum(down[rows[0] : rows[1]]) * sum(across[:columns])
        filters = bank.filters if filters is None else filters
        together = filters - filters % TOGETHER if self._copies_windows(layer) else 0
        together = 0 if is_summed else together
        whole = max(rows[1] - rows[0], 0) * columns * taps
        return of_tap * (together * whole + (filters - together) * inside)

    def _taps_inside(self, layer: Layer) -> tuple[list[int], list[int]]:
        """How many taps lie over the input, by row and by column of the result."""
        if layer.name not in self._taps:
            window = layer.operator.sliding_window
            assert window is not None
            source = self._network.input_shapes(layer)[0]
            taps = []
            for axis, (places, limit) in enumerate(
                [(layer.shape.rows, source.rows), (layer.shape.width, source.width)]
            ):
                limit += min(window.padding[2 + axis], 0)
                begins = [
                    place * window.stride[axis] - window.padding[axis] for place in range(places)
                ]
                ahead = [tap * window.dilation[axis] for tap in range(window.kernel[axis])]
                taps.append([sum(0 <= begin + tap < limit for tap in ahead) for begin in begins])
            self._taps[layer.name] = taps[0], taps[1]
        return self._taps[layer.name]

    def _copies_windows(self, layer: Layer) -> bool:
        bank = layer.operator.filter_bank
        if bank is None or layer.quantization is None:
            return False
        rows, columns = bank.window.kernel
        row = columns * self._network.input_shapes(layer)[0].channels
        return bank.groups == 1 < rows and row < SHORT_ROW and rows * row <= MOST_COPIED

    def _summed_up(self, layer: Layer, last: Layer) -> int:
        """Weight bytes of a layer for the region of its feature maps that the last layer reduces."""
        rows = (0, self._needs.rows(last, 0, (0, last.shape.rows))[1])
        columns = layer.shape.width
        if last.operator.sliding_window is not None:
            columns = last.operator.sliding_window.extent[1]
        return self._of_pixels(layer, rows, columns, is_summed=True)

    def _in_blocks(self, stage: Stage, layer: Layer, rows: Range, columns: int) -> int:
        """Weight bytes of a layer in a firing that passes over the columns once per channel block.

        Blocks before the last block end at the accumulating layer. For a block, the accumulating layer
        reads only the filter taps of the input channels in that block.
        """
        assert stage.accumulating_layer is not None
        place = stage.layers.index(stage.accumulating_layer)
        shares = self._block_sizes(stage)
        if layer.name in stage.layers[:place]:
            early = self._columns_made(stage.layers[: place + 1])[layer.name]
            return sum(
                self._of_pixels(layer, rows, width, filters=share)
                for share, width in zip(
                    shares, [early] * (len(shares) - 1) + [columns], strict=True
                )
            )
        if layer.name != stage.accumulating_layer:
            return self._of_pixels(layer, rows, columns)
        wide = [layer.shape.width] * (len(shares) - 1) + [columns]
        return sum(
            self._of_pixels(layer, rows, width, is_summed=True) * share // sum(shares)
            for share, width in zip(shares, wide, strict=True)
        )

    def _block_sizes(self, stage: Stage) -> list[int]:
        channels = self._network.layer(stage.layers[0]).shape.channels
        most = -(-channels // stage.channel_blocks)
        return [
            max(0, min(most, channels - most * number)) for number in range(stage.channel_blocks)
        ]

    def _columns_made(self, layers: tuple[str, ...]) -> dict[str, int]:
        """The number of columns of each layer that all columns of the last layer need."""
        made = dict.fromkeys(layers, 0)
        made[layers[-1]] = self._network.layer(layers[-1]).shape.width
        for layer in map(self._network.layer, reversed(layers)):
            for index, source in enumerate(layer.inputs):
                if source in made and made[layer.name]:
                    last = made[layer.name] - 1, made[layer.name]
                    made[source] = max(made[source], self._needs.columns(layer, index, last)[1])
        return made


def require_write_buffers(needs: InputNeeds, plan: StreamingPlan) -> None:
    """Raise InvalidPlan unless each result in slow memory has a write buffer of its own bytes."""
    stored = _stored_stages(needs.network, plan)
    for buffer in plan.buffers:
        if buffer.kind is not Kind.WRITE_BUFFER:
            continue
        stage = stored.pop((buffer.tensor, buffer.begin), None)
        if stage is None or buffer.end != buffer.begin + 1:
            raise InvalidPlan(
                f"buffer {buffer.name!r} is a write buffer, but group {buffer.begin + 1} leaves no "
                f"{buffer.tensor!r} in slow memory"
            )
        _require_size(needs, plan, buffer, stage)
        _require_own_bytes(plan, buffer)
    for name, group in stored:
        raise InvalidPlan(
            f"group {group + 1} leaves {name!r} in slow memory, but has no write buffer for it; "
            "plan the network again"
        )


def _stored_stages(network: Network, plan: StreamingPlan) -> dict[tuple[str, int], Stage]:
    """The stages whose result is stored in slow memory, by result and group."""
    hosts = {alias.tensor: alias.host for alias in plan.aliases}
    whole = {buffer.tensor: buffer for buffer in plan.buffers if buffer.kind is Kind.WHOLE}
    stored = {}
    for number, group in enumerate(plan.groups):
        for stage in group.stages:
            result = stage.result
            buffer = whole.get(hosts.get(result, result))
            memory = None if buffer is None else plan.memory_of(buffer)
            if memory is not None and memory.is_slow and not _is_joined(network, result, hosts):
                stored[result, number] = stage
    return stored


def _is_joined(network: Network, result: str, hosts: Mapping[str, str]) -> bool:
    """Whether a result is a concatenation of tensors that are stored in it already."""
    return all(hosts.get(name) == result for name in network.layer(result).inputs)


def _require_size(
    needs: InputNeeds, plan: StreamingPlan, buffer: StreamBuffer, stage: Stage
) -> None:
    """Require whole columns of the rows that the layer writes in one call, in the required number."""
    layer = needs.network.layer(buffer.tensor)
    rows, fewest = _made_at_a_time(needs, stage, layer)
    column = rows * pixel_elements(layer.shape) * (plan.element_bytes or layer.element_bytes)
    columns, rest = divmod(buffer.size, column)
    if rest or not fewest <= columns <= layer.shape.width or buffer.rows:
        raise InvalidPlan(
            f"buffer {buffer.name!r} has {counted(buffer.size, 'byte')}; expected {fewest} to "
            f"{layer.shape.width} columns of {counted(column, 'byte')}"
        )


def _made_at_a_time(needs: InputNeeds, stage: Stage, layer: Layer) -> tuple[int, int]:
    """The rows of a result that are made together, and the fewest columns."""
    rows, width = min(stage.rows, layer.shape.rows), layer.shape.width
    if stage.mode is not Mode.ROWS:
        return layer.shape.rows, width
    if stage.accumulating_layer == layer.name:
        return rows, 1
    if makes_rectangles(needs.network, layer):
        return 1, 1
    inputs = range(len(layer.inputs))
    is_by_rows = layer.shape.is_map and not any(needs.needs_all(layer, index) for index in inputs)
    return 1 if is_by_rows else rows, width


def _require_own_bytes(plan: StreamingPlan, buffer: StreamBuffer) -> None:
    """Require that no other buffer of its group has a byte of a write buffer."""
    end = buffer.offset + buffer.size
    for resident in plan.buffers:
        is_live = resident.begin <= buffer.begin < resident.end and resident is not buffer
        if is_live and resident.offset < end and buffer.offset < resident.offset + resident.size:
            raise InvalidPlan(f"buffers {buffer.name!r} and {resident.name!r} have bytes in common")

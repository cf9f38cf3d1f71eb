"""Weights of layers in the memories of a plan: their bytes, and the bytes that a frame reads of them.

Weights that can be moved are the filters of convolutions and the matrices of fully connected layers.
Biases, factors and tables, a few bytes a filter, stay in the memory of the program, and are not
counted. The kernels of a C library have no cache: a convolution reads its filters again for each
pixel, of each filter the taps over the input. A fully connected layer reads its matrix once.

A window of few integers is first gathered, that is, copied to the stack: then blocks of four filters
read all taps, also those over the padding. These are the kernels without vector instructions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from math import prod

from cnn2csdf import operators as op
from cnn2csdf.geometry import Axis, Range
from cnn2csdf.network import Layer, Network
from planners.plan.plan import Mode, Stage
from planners.plan.regions import COLUMNS, Needs
from planners.plan.running_stage import input_rows

SINGLE_BYTES = 4
ROLES = {op.Convolution: "kernel", op.FullyConnected: "matrix"}

# Bytes of a row of a window: a window of shorter rows is gathered, for vectors of as many bytes.
GATHERED_ROW = 16
MOST_GATHERED = 256  # bytes of a window that is gathered, on the stack
FILTERS = 4  # output channels that an integer kernel computes at a time


def weights_role(layer: Layer) -> str | None:
    """Return the name of the weights of a layer that can be moved; None where there are none."""
    return ROLES.get(type(layer.operator))


def weight_bytes(network: Network, layer: Layer, element_bytes: int | None) -> int:
    """Return the bytes of the weights of a layer that can be moved; 0 where there are none.

    element_bytes: of each, where they are not those in which the layer computes: a layer of real
    numbers has weights in single precision, or in two bytes where the file has them in float16.
    """
    role = weights_role(layer)
    if role is None:
        return 0
    dims = layer.operator.trained(network.input_shapes(layer))[role]
    return prod(dims) * bytes_of_each_weight(layer, element_bytes)


def bytes_of_each_weight(layer: Layer, element_bytes: int | None) -> int:
    """Return the bytes of each of the weights that `weight_bytes` counts."""
    role = weights_role(layer)
    assert role is not None
    stored = layer.stored_as(role).element.bytes
    if layer.reads_halves(role) and element_bytes in (None, SINGLE_BYTES):
        return stored
    return element_bytes or (SINGLE_BYTES if layer.quantization is None else stored)


def gathered_values(network: Network, layer: Layer) -> int:
    """Return the number of integers of a window that is gathered; 0 for other layers."""
    bank = layer.operator.filter_bank
    if bank is None or layer.quantization is None:
        return 0
    rows, columns = bank.window.kernel
    width = columns * network.input_shapes(layer)[0].channels
    is_gathered = bank.groups == 1 and rows > 1 and width < GATHERED_ROW
    return rows * width if is_gathered and rows * width <= MOST_GATHERED else 0


def taps_inside(axis: Axis, outputs: int, inputs: int) -> list[int]:
    """Return the taps over the input, summed over the first 0, 1, ..., `outputs` windows of an axis.

    inputs: positions of the input. Example: 3 taps with padding 1 over 4 positions have the sums 0, 2,
    5, 8, 10.
    """
    limit = inputs + min(axis.after, 0)
    counts = []
    for output in range(outputs):
        first = output * axis.stride - axis.before
        begin = max(0, -(first // axis.dilation)) if first < 0 else 0
        end = min(axis.kernel, (limit - 1 - first) // axis.dilation + 1) if first < limit else 0
        counts.append(max(0, end - begin))
    return list(accumulate(counts, initial=0))


class WeightReads:
    """The bytes of weights that stages of a network read, cached for each layer."""

    def __init__(self, network: Network, element_bytes: int | None) -> None:
        """Prepare a network. element_bytes: of each weight; None for the weight size of its layer."""
        self._network, self._element_bytes = network, element_bytes
        self._needs = Needs(network)
        self._bytes_read: dict[tuple[str, int, bool], Callable[[int, int, int], int]] = {}
        self._columns: dict[tuple[str, ...], dict[str, int]] = {}

    def of_firings(self, stage: Stage, name: str, rows: Sequence[Range]) -> int:
        """Return the weight bytes that a layer of a stage reads in some firings.

        rows: for each firing, the rows of the layer's result that it computes.
        """
        layer = self._network.layer(name)
        size = weight_bytes(self._network, layer, self._element_bytes)
        if layer.operator.filter_bank is None:
            return size
        if stage.mode in (Mode.CHANNELS, Mode.ACCUMULATING):
            return self._summed_up(stage, layer, size)
        if stage.accumulating_layer is None:
            return self._rows(layer, size, rows, self._swept_columns(stage.layers)[name])
        return self._in_blocks(stage, layer, size, rows)

    def of_stage(self, stage: Stage, ranges: Mapping[str, Sequence[Range]]) -> dict[str, int]:
        """Return the weight bytes that each layer with weights reads in a frame.

        ranges: for each layer, the rows of its result that each firing computes.
        """
        network = self._network
        return {
            name: self.of_firings(stage, name, ranges[name])
            for name in stage.layers
            if weight_bytes(network, network.layer(name), self._element_bytes)
        }

    def _rows(
        self, layer: Layer, size: int, rows: Sequence[Range], columns: int, *, filters: int = 0
    ) -> int:
        """Weight bytes for rows of one layer. filters: those of a channel block; 0 for all."""
        reads = self._reads(layer, size, filters or layer.shape.channels)
        return sum(reads(first, end, columns) for first, end in rows if first < end)

    def _reads(
        self, layer: Layer, size: int, filters: int, *, is_summed: bool = False
    ) -> Callable[[int, int, int], int]:
        """The bytes of filters that a convolution reads, as a function of a region of its result.

        The region is given by its first row, the row after its last, and its number of columns from
        column 0 on. is_summed: whether the kernel adds products to accumulators, so that it gathers no
        window.
        """
        key = layer.name, filters, is_summed
        if key not in self._bytes_read:
            window, source = layer.operator.sliding_window, self._network.input_shapes(layer)[0]
            assert window is not None
            taps_of_window = prod(window.kernel)
            tap_bytes = size // layer.shape.channels // taps_of_window  # of one filter
            is_gathered = not is_summed and gathered_values(self._network, layer) > 0
            down = taps_inside(window.rows, layer.shape.rows, source.rows)
            across = taps_inside(window.columns, layer.shape.width, source.width)
            # Blocks of filters read all taps of the window, other filters the taps over the input.
            gathered = tap_bytes * (filters // FILTERS * FILTERS) if is_gathered else 0

            def bytes_read(first: int, end: int, columns: int) -> int:
                taps = (down[end] - down[first]) * across[columns]
                all_taps = (end - first) * columns * taps_of_window
                return taps * (tap_bytes * filters - gathered) + all_taps * gathered

            self._bytes_read[key] = bytes_read
        return self._bytes_read[key]

    def _summed_up(self, stage: Stage, layer: Layer, size: int) -> int:
        """Weight bytes of a convolution, for the region of its maps that the next layer reduces."""
        last = self._network.layer(stage.result)
        _, end = input_rows(self._network, last, 0)[-1]
        window = last.operator.sliding_window
        width = layer.shape.width if window is None else window.columns.extent
        return self._reads(layer, size, layer.shape.channels, is_summed=True)(0, end, width)

    def _in_blocks(self, stage: Stage, layer: Layer, size: int, rows: Sequence[Range]) -> int:
        """Weight bytes of a layer in a stage that passes over its columns once per channel block.

        For a block, the accumulating layer reads only the filter taps of the input channels in that
        block. The last block continues to the result, which may not need all columns.
        """
        assert stage.accumulating_layer is not None
        columns = self._swept_columns(stage.layers)[layer.name]
        up_to_sums = stage.layers[: stage.layers.index(stage.accumulating_layer) + 1]
        if layer.name not in up_to_sums:
            return self._rows(layer, size, rows, columns)
        shares = block_sizes(self._network, stage)
        widths = [self._swept_columns(up_to_sums)[layer.name]] * (len(shares) - 1) + [columns]
        blocks = zip(shares, widths, strict=True)
        if layer.name != stage.accumulating_layer:
            return sum(
                self._rows(layer, size, rows, width, filters=share)
                for share, width in blocks
                if share
            )
        reads = self._reads(layer, size, layer.shape.channels, is_summed=True)
        return sum(
            reads(first, end, width) * share // sum(shares)
            for share, width in blocks
            for first, end in rows
            if first < end
        )

    def _swept_columns(self, layers: tuple[str, ...]) -> dict[str, int]:
        """The columns of each layer that a sweep over all columns of the last layer computes."""
        if layers not in self._columns:
            columns_needed = dict.fromkeys(layers, 0)
            columns_needed[layers[-1]] = self._network.layer(layers[-1]).shape.width
            for name in reversed(layers):
                for need in self._needs.of(self._network.layer(name), COLUMNS):
                    if need.source in columns_needed and columns_needed[name]:
                        _, end = need.clipped((0, columns_needed[name]))
                        columns_needed[need.source] = max(columns_needed[need.source], end)
            self._columns[layers] = columns_needed
        return self._columns[layers]


def block_sizes(network: Network, stage: Stage) -> list[int]:
    """Return the channels of each block of a stage that sums over blocks; the last may be empty."""
    channels = network.layer(stage.layers[0]).shape.channels
    size = -(-channels // stage.channel_blocks)
    begins = (min(size * number, channels) for number in range(stage.channel_blocks))
    return [min(size, channels - begin) for begin in begins]

"""Rows that each firing of a stage computes and needs, and the pixels of its write buffer.

Rows are derived from the result of a stage back to its inputs. A stage whose result is in slow memory
computes blocks of pixels in a write buffer in fast memory, as a kernel may write an element several
times, and read it in between: accumulators begin with a bias, and an activation function follows.
Each block is stored in slow memory once, as soon as it is complete.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from cnn2csdf.geometry import Range
from cnn2csdf.network import Layer, Network
from planners.plan.plan import Mode, Stage
from planners.plan.regions import can_be_tiled, hull


class RunningStage:
    """A stage with the rows of every firing.

    layers: of the stage. is_streamed_input: whether it delivers an input row by row. targets: rows of
    the result that each firing computes. needs: rows of each tensor of other stages, by firing.
    """

    def __init__(self, stage: Stage, network: Network, source: str | None) -> None:
        """Set the stage. source: a tensor whose rows arrive, or are copied, instead."""
        self.stage = stage
        self.result = stage.result
        self.layers = [network.layer(name) for name in stage.layers]
        is_input = self.layers[0].is_input  # one of several, a stage of its own
        self.is_streamed_input = source is not None or is_input
        last = self.layers[-1]
        of_layer = partial(input_rows, network)
        if stage.mode is Mode.ACCUMULATING:
            _, self.needs = rows_accumulated(network, stage, of_layer)
            (firings,) = set(map(len, self.needs.values()))
            self.targets: list[Range] = [(0, 0)] * (firings - 1) + [(0, last.shape.rows)]
            return
        self.targets = [
            (begin, min(begin + stage.rows, last.shape.rows))
            for begin in range(0, last.shape.rows, stage.rows)
        ]
        self.needs = {}
        if not self.is_streamed_input:
            _, self.needs = rows_of_firings(network, stage, self.targets, of_layer)


def rows_of_firings(
    network: Network,
    stage: Stage,
    wanted: Sequence[Range],
    rows_needed: Callable[[Layer, int], tuple[Range, ...]],
) -> tuple[dict[str, tuple[Range, ...]], dict[str, list[Range]]]:
    """Return the rows that each layer computes in each firing, and the rows of outside tensors.

    wanted: half-open range of result rows of each firing. rows_needed: as `input_rows`, which may be
    cached. Ranges are derived backwards, from the last layer to the first; (0, 0) for no row.
    """
    needed: dict[str, list[Range]] = {stage.result: list(wanted)}
    for name in reversed(stage.layers):
        layer = network.layer(name)
        for index, source in enumerate(layer.inputs):
            rows_of_row = rows_needed(layer, index)
            spans = [_input_hull(rows_of_row, span) for span in needed[name]]
            if source in needed:
                spans = [_joined(*pair) for pair in zip(needed[source], spans, strict=True)]
            needed[source] = spans
    read = dict.fromkeys(source for name in stage.layers for source in network.layer(name).inputs)
    return (
        {name: tuple(needed[name]) for name in stage.layers},
        {name: needed[name] for name in read if name not in stage.layers},
    )


def rows_accumulated(
    network: Network, stage: Stage, rows_needed: Callable[[Layer, int], tuple[Range, ...]]
) -> tuple[dict[str, tuple[Range, ...]], dict[str, list[Range]]]:
    """Return the rows of inner layers and of outside tensors in each firing of an accumulating stage.

    A firing adds one input row of the last layer. rows_needed: as for `rows_of_firings`.
    """
    last = network.layer(stage.result)
    rows_of_result = rows_needed(last, 0)
    first, end = hull(rows_of_result[0], rows_of_result[-1])
    added = [(row, row + 1) for row in range(first, end)]
    if len(stage.layers) == 1:
        return {}, {last.inputs[0]: added}
    return rows_of_firings(network, Stage(layers=stage.layers[:-1]), added, rows_needed)


def input_rows(network: Network, layer: Layer, index: int) -> tuple[Range, ...]:
    """Return the half-open range of rows of input `index` that each output row needs, clipped.

    Example: a 3x3 convolution with padding 1 on 8 rows: ((0, 2), (0, 3), (1, 4), ..., (6, 8)).
    """
    inputs = network.input_shapes(layer)
    needed = layer.operator.rows_needed(index, inputs, layer.shape)
    height = inputs[index].rows
    if needed is None:
        return tuple((0, height) for _ in range(layer.shape.rows))
    return tuple(_within(needed(row), height) for row in range(layer.shape.rows))


def _within(span: Range, limit: int) -> Range:
    """Return the intersection of a range with [0, limit); if empty, at the nearest bound."""
    first, end = span
    first = min(max(first, 0), limit)
    return first, max(first, min(end, limit))


def _input_hull(rows_of_row: tuple[Range, ...], span: Range) -> Range:
    """Return the hull of the input rows of a range of output rows; (0, 0) if no row is needed.

    rows_of_row: input range of each output row, with increasing bounds. Example: rows 2 to 4 of a 3x3
        convolution, span (2, 5), need the input rows (1, 6).
    """
    first_row, end_row = span
    if first_row == end_row:
        return 0, 0
    first, end = hull(rows_of_row[first_row], rows_of_row[end_row - 1])
    return (first, end) if first < end else (0, 0)


def _joined(first: Range, second: Range) -> Range:
    """Return the hull of two ranges; either range may be empty, (0, 0)."""
    if (0, 0) in (first, second):
        return max(first, second)
    return hull(first, second)


def streamed_input_stage(network: Network, name: str) -> RunningStage:
    """Return the stage that brings an input, a row a firing."""
    return RunningStage(Stage(layers=(name,)), network, name)


def smallest_block(network: Network, stage: Stage) -> tuple[int, int]:
    """Return the fewest rows and columns of its result that a stage computes at a time.

    One pixel where all layers compute rectangles. Accumulators over channel blocks hold all rows of a
    firing. Otherwise one row, or all rows of a firing where the layer needs all rows of an input.
    """
    layer = network.layer(stage.result)
    rows = min(stage.rows, layer.shape.rows)
    if stage.mode is not Mode.ROWS:
        return layer.shape.rows, layer.shape.width
    if stage.accumulating_layer == stage.result:
        return rows, 1
    if can_be_tiled(network, layer):
        return 1, 1
    return 1 if _needs_rows_only(network, layer) else rows, layer.shape.width


def _needs_rows_only(network: Network, layer: Layer) -> bool:
    """Whether a row of the result needs some rows of each input, as the kernel knows them."""
    inputs = network.input_shapes(layer)
    needs = (layer.operator.rows_needed(index, inputs, layer.shape) for index in range(len(inputs)))
    return layer.shape.is_map and all(need is not None for need in needs)


def block_bytes(network: Network, stage: Stage, pixels: int, element_bytes: int) -> int:
    """Return the bytes of a number of pixels of the result of a stage."""
    return pixels * network.layer(stage.result).shape.pixel_elements * element_bytes

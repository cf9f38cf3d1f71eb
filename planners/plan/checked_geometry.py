"""Rows, columns, tiles and firings of a plan for its checker, slowly and from the definitions.

Rows of an input come from the row rule of an operator (cnn2csdf), row by row; columns from the taps of
its window, column by column. From there the needs of a firing or a tile are walked back layer by layer.
No module of a search, a planner or the C writer is used here, and none of them uses this module.
"""

from __future__ import annotations

from collections.abc import Callable

from cnn2csdf import operators as op
from cnn2csdf.geometry import Range, Region
from cnn2csdf.network import Layer, Network
from cnn2csdf.parameters import multiply_accumulates
from planners.plan.plan import Mode, Stage

_Needed = Callable[[Layer, int, Range], Range]  # of an input, by a range of the output
Spans = tuple[Range, ...]  # by row or column of an output: what of an input it needs, not clipped


class InputNeeds:
    """The rows and columns of inputs that rows and columns of outputs need.

    A row or column that reads only padding needs nothing: a firing then has the empty range (0, 0). A
    tile is a rectangle that the executor allocates for each tensor, so it always has at least one row
    and one column: the nearest in the input.
    """

    def __init__(self, network: Network) -> None:
        self.network = network
        self._rows: dict[tuple[str, int], Spans | None] = {}
        self._columns: dict[tuple[str, int], Spans] = {}
        # A firing asks again for each row and column of the one before.
        self._clipped_rows: dict[tuple[str, int, Range], Range] = {}
        self._clipped_columns: dict[tuple[str, int, Range], Range] = {}

    def rows(self, layer: Layer, index: int, wanted: Range) -> Range:
        """Return the rows of an input that rows of the output need; (0, 0) where they need none."""
        key = layer.name, index, wanted
        if key not in self._clipped_rows:
            self._clipped_rows[key] = self._rows_of(layer, index, wanted)
        return self._clipped_rows[key]

    def _rows_of(self, layer: Layer, index: int, wanted: Range) -> Range:
        if wanted[0] >= wanted[1]:
            return 0, 0
        height, spans = self._height(layer, index), self._row_spans(layer, index)
        if spans is None:
            return 0, height
        first, end = _union(spans, wanted)
        first, end = max(first, 0), min(end, height)
        return (first, end) if first < end else (0, 0)

    def needs_all(self, layer: Layer, index: int) -> bool:
        """Return whether each row of the output needs all rows of an input."""
        return self._row_spans(layer, index) is None

    def tile_rows(self, layer: Layer, index: int, wanted: Range) -> Range:
        """Return the rows of an input that a tile needs; the nearest where all are padding."""
        height, spans = self._height(layer, index), self._row_spans(layer, index)
        return (0, height) if spans is None else _nearest(_union(spans, wanted), height)

    def columns(self, layer: Layer, index: int, wanted: Range) -> Range:
        """Return the columns of an input that a tile needs; the nearest where all are padding."""
        key = layer.name, index, wanted
        if key not in self._clipped_columns:
            width = self.network.input_shapes(layer)[index].width
            columns = _nearest(_union(self._column_spans(layer, index), wanted), width)
            self._clipped_columns[key] = columns
        return self._clipped_columns[key]

    def _height(self, layer: Layer, index: int) -> int:
        return self.network.input_shapes(layer)[index].rows

    def _row_spans(self, layer: Layer, index: int) -> Spans | None:
        """Rows that each row of the output needs; None where each needs all rows."""
        key = layer.name, index
        if key not in self._rows:
            inputs = self.network.input_shapes(layer)
            rule = layer.operator.rows_needed(index, inputs, layer.shape)
            rows = range(layer.shape.rows)
            self._rows[key] = None if rule is None else tuple(rule(row) for row in rows)
        return self._rows[key]

    def _column_spans(self, layer: Layer, index: int) -> Spans:
        key = layer.name, index
        if key not in self._columns:
            self._columns[key] = tuple(
                self._columns_of(layer, index, column) for column in range(layer.shape.width)
            )
        return self._columns[key]

    def _columns_of(self, layer: Layer, index: int, column: int) -> Range:
        """Columns that a column of the output needs, of operators in stages of several layers."""
        inputs = self.network.input_shapes(layer)
        match layer.operator:
            case op.Convolution(window=window) | op.Pooling(window=window):
                begin = column * window.stride[1] - window.padding[1]
                taps = [begin + tap * window.dilation[1] for tap in range(window.kernel[1])]
                return taps[0], taps[-1] + 1
            case op.Pad(padding=padding):
                return column - padding[1], column - padding[1] + 1
            case op.SpaceToDepth(block=block):
                return column * block, (column + 1) * block
            case op.AttentionProduct(heads=heads):
                # Column h of the result belongs to head h. Of an input with a column for each head
                # column h is needed, of an input with one column (all heads in channels) column 0.
                head = column if inputs[index].width == heads else 0
                return head, head + 1
        is_repeated = inputs[index].width == 1 < layer.shape.width
        return (0, 1) if is_repeated else (column, column + 1)


def _union(spans: Spans, wanted: Range) -> Range:
    """The range from the first to the last position that any position of `wanted` needs."""
    needed = spans[wanted[0] : wanted[1]]
    return min(first for first, _ in needed), max(end for _, end in needed)


def _nearest(span: Range, limit: int) -> Range:
    """The part of a range within [0, limit); the nearest position if there is none."""
    first = min(max(span[0], 0), limit - 1)
    return first, max(first + 1, min(span[1], limit))


def _hull(spans: list[Range]) -> Range:
    """The range from the first to the last position of ranges; (0, 0) where all are empty."""
    places = [span for span in spans if span[0] < span[1]]
    if not places:
        return 0, 0
    return min(first for first, _ in places), max(end for _, end in places)


class CheckedFirings:
    """The firings of a stage: the rows that each computes, and the rows that it needs.

    targets: by firing, the rows of the result; (0, 0) if the firing only accumulates. needs: for each
    tensor from outside the stage, the rows that each firing reads. ranges: by firing, the rows of every
    tensor that the stage reads or computes; empty for an accumulating stage. fired: number of firings
    until now, counted by the executor.
    """

    def __init__(self, stage: Stage, inputs: InputNeeds, *, is_input: bool = False) -> None:
        """is_input: whether the stage brings rows of an input from outside."""
        network = inputs.network
        self.stage = stage
        self.result = stage.result
        self.layers = [network.layer(name) for name in stage.layers]
        self.is_streamed_input = is_input or self.layers[0].is_input
        self.fired = 0
        self.targets: list[Range] = []
        self.needs: dict[str, list[Range]] = {}
        self.ranges: list[dict[str, Range]] = []
        height, rows = self.layers[-1].shape.rows, stage.rows
        if stage.mode is Mode.ACCUMULATING:
            self._accumulate(inputs, height)
            return
        self.targets = [(row, min(row + rows, height)) for row in range(0, height, rows)]
        for target in () if self.is_streamed_input else self.targets:
            self._walk_back(inputs, target)

    def _accumulate(self, inputs: InputNeeds, height: int) -> None:
        """Add a firing for each row of the input; only the last computes rows of the result, all."""
        layer = self.layers[-1]
        rows = range(*inputs.rows(layer, 0, (0, height)))
        self.needs[layer.inputs[0]] = [(row, row + 1) for row in rows]
        self.targets = [(0, 0)] * (len(rows) - 1) + [(0, height)]

    def _walk_back(self, inputs: InputNeeds, target: Range) -> None:
        """Add the rows of all tensors that a firing needs, from its result back."""
        asked: dict[str, list[Range]] = {self.result: [target]}
        for layer in reversed(self.layers):
            wanted = _hull(asked[layer.name])
            for index, source in enumerate(layer.inputs):
                asked.setdefault(source, []).append(inputs.rows(layer, index, wanted))
        ranges = {name: _hull(spans) for name, spans in asked.items()}
        self.ranges.append(ranges | {self.result: target})
        # In the order in which layers read. The executor fires producers on demand: it looks at the
        # tensors in this order, and fires the producer of the first tensor that lacks rows.
        inside = {layer.name for layer in self.layers}
        outside = [name for layer in self.layers for name in layer.inputs if name not in inside]
        for name in dict.fromkeys(outside):
            self.needs.setdefault(name, []).append(ranges[name])

    @property
    def is_done(self) -> bool:
        """Whether the stage has made all of its result."""
        return self.fired == len(self.targets)

    def wants(self, source: str) -> int:
        """Return one past the last row of a source that has to be there by the next firing."""
        return max(end for _, end in self.needs[source][: self.fired + 1])

    def still_needs(self, source: str, height: int) -> int:
        """Return the first row of a source that the next or a later firing needs; else its height."""
        ahead = self.needs[source][self.fired :]
        return min((first for first, end in ahead if first < end), default=height)


def streamed_input_firings(needs: InputNeeds, name: str) -> CheckedFirings:
    """Return the firings that bring an input, each a row."""
    return CheckedFirings(Stage(layers=(name,)), needs, is_input=True)


class TiledStage:
    """The rectangles of a stage of tiles. A tile has a number down and a number across.

    The tiles execute from left to right, then down. A tile holds the rectangle of each tensor that its
    result needs; neighbouring tiles overlap in halos. With `halo_cached`, a tile computes only the
    positions that no earlier tile holds, and copies the others from two caches. One cache contains the
    rows that the next tiles down share, of all columns: each tile adds the columns right of the tile
    before. The other cache contains the columns that the next tile across shares, of the rows of one
    tile.
    """

    def __init__(self, stage: Stage, needs: InputNeeds) -> None:
        assert stage.tiles is not None
        self.tiles, self._needs = stage.tiles, needs
        self.layers = [needs.network.layer(name) for name in stage.layers]
        # By tensor and number of the tile: the positions along an axis that it holds, and computes.
        self._down = self._held(self.tiles.row_ends, needs.tile_rows)
        self._across = self._held(self.tiles.column_ends, needs.columns)
        self._down_computed, self._across_computed = (
            {name: self._computed(spans) for name, spans in axis.items()}
            for axis in (self._down, self._across)
        )

    def _held(self, ends: tuple[int, ...], needed: _Needed) -> dict[str, list[Range]]:
        held: dict[str, list[Range]] = {}
        begin = 0
        for end in ends:
            asked: dict[str, list[Range]] = {self.layers[-1].name: [(begin, end)]}
            for layer in reversed(self.layers):
                wanted = _hull(asked[layer.name])
                for index, source in enumerate(layer.inputs):
                    asked.setdefault(source, []).append(needed(layer, index, wanted))
            for name, spans in asked.items():
                held.setdefault(name, []).append(_hull(spans))
            begin = end
        return held

    def _computed(self, held: list[Range]) -> list[Range]:
        """The positions that a tile computes: all that it holds, or with caches the new positions."""
        if not self.tiles.halo_cached:
            return held
        reached = [max((end for _, end in held[:tile]), default=0) for tile in range(len(held))]
        return [
            (min(max(first, upto), end), end)
            for (first, end), upto in zip(held, reached, strict=True)
        ]

    def held(self, name: str, down: int, across: int) -> Region:
        """Return the region of a tensor that a tile holds."""
        return Region(self._down[name][down], self._across[name][across])

    def computed(self, name: str, down: int, across: int) -> Region:
        """Return the region of a tensor that a tile computes."""
        return Region(self._down_computed[name][down], self._across_computed[name][across])

    def rows_below(self, name: str, down: int) -> Region | None:
        """Return the rows that tiles share with the next tiles down, of all columns, or None."""
        rows, columns = self._down[name], self._across[name]
        if down + 1 == len(rows) or rows[down + 1][0] >= rows[down][1]:
            return None
        return Region((rows[down + 1][0], rows[down][1]), (columns[0][0], columns[-1][1]))

    def columns_beside(self, name: str, down: int, across: int) -> Region | None:
        """Return the columns that a tile shares with the next tile across, or None."""
        columns = self._across[name]
        if across + 1 == len(columns) or columns[across + 1][0] >= columns[across][1]:
            return None
        return Region(self._down[name][down], (columns[across + 1][0], columns[across][1]))

    def kept_columns(self, name: str, across: int) -> Range:
        """Return the columns that a tile adds to the cache of rows: those after the tile before.

        Example: tiles hold columns 0 to 5 and 4 to 9; the second tile adds columns 6 to 9.
        """
        columns = self._across[name]
        return max(columns[across][0], columns[across - 1][1] if across else 0), columns[across][1]

    @property
    def multiply_accumulates(self) -> int:
        """Multiply-accumulates of all tiles: of each pixel that a tile computes, halos included."""
        total = 0
        for layer in self.layers:
            macs = multiply_accumulates(layer, self._needs.network.input_shapes(layer))
            of_pixel = macs // (layer.shape.height * layer.shape.width)
            for first_row, end_row in self._down_computed[layer.name]:
                for first, end in self._across_computed[layer.name]:
                    total += of_pixel * (end_row - first_row) * (end - first)
        return total

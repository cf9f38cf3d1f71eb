"""Rows, columns, tiles and firings of a plan for its checker, slowly and from the definitions.

Rows of an input come from the row rule of an operator (cnn2csdf), row by row; columns from the taps of
its window, column by column. From there the needs of a firing or a tile are walked back layer by layer.
No module of a search, a planner or the C writer is used here, and none of them uses this module.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise, product

from cnn2csdf import operators as op
from cnn2csdf.geometry import Range, Region
from cnn2csdf.network import Layer, Network
from cnn2csdf.parameters import multiply_accumulates
from planners.plan.plan import Mode, Stage

RangeNeeded = Callable[[Layer, int, Range], Range]  # of an input, by a range of the output
Spans = tuple[Range, ...]  # by row or column of an output: positions of an input, padding included
ROWS, COLUMNS = range(2)  # axes


class InputNeeds:
    """The rows and columns of inputs that rows and columns of outputs need.

    A row or column that reads only padding needs nothing: a firing then has the empty range (0, 0). A
    tile is a rectangle that the executor allocates for each tensor, so it always has at least one row
    and one column: the nearest in the input.
    """

    def __init__(self, network: Network) -> None:
        self.network = network
        self._spans: dict[tuple[str, int, int], Spans] = {}  # by layer, index of the input, axis
        # A firing asks again for each row and column of the one before.
        self._needed: dict[tuple[str, int, int, Range, int], Range] = {}

    def rows(self, layer: Layer, index: int, wanted: Range) -> Range:
        """Return the rows of an input that rows of the output need; (0, 0) where they need none."""
        first, end = self._of_input(layer, index, ROWS, wanted, fewest=0)
        return (first, end) if first < end else (0, 0)

    def tile_rows(self, layer: Layer, index: int, wanted: Range) -> Range:
        """Return the rows of an input that a tile needs; the nearest where all are padding."""
        return self._of_input(layer, index, ROWS, wanted, fewest=1)

    def columns(self, layer: Layer, index: int, wanted: Range) -> Range:
        """Return the columns of an input that a tile needs; the nearest where all are padding."""
        return self._of_input(layer, index, COLUMNS, wanted, fewest=1)

    def _of_input(
        self, layer: Layer, index: int, axis: int, wanted: Range, *, fewest: int
    ) -> Range:
        """The positions within an input that a range of the output needs along an axis.

        fewest: the nearest positions complete the range to this number of positions.
        """
        key = layer.name, index, axis, wanted, fewest
        if key not in self._needed:
            shape = self.network.input_shapes(layer)[index]
            limit = shape.rows if axis == ROWS else shape.width
            first, end = _hull(self._spans_of(layer, index, axis)[slice(*wanted)])
            first = min(max(first, 0), limit - fewest)
            self._needed[key] = first, max(first + fewest, min(end, limit))
        return self._needed[key]

    def _spans_of(self, layer: Layer, index: int, axis: int) -> Spans:
        key = layer.name, index, axis
        if key not in self._spans:
            inputs, shape = self.network.input_shapes(layer), layer.shape
            if axis == COLUMNS:
                columns = range(shape.width)
                spans = [self._columns_of(layer, index, column) for column in columns]
            elif (rows_needed := layer.operator.rows_needed(index, inputs, shape)) is None:
                spans = [(0, inputs[index].rows)] * shape.rows  # each row needs all rows
            else:
                spans = [rows_needed(row) for row in range(shape.rows)]
            self._spans[key] = tuple(spans)
        return self._spans[key]

    def _columns_of(self, layer: Layer, index: int, column: int) -> Range:
        """Columns that a column of the output needs, of operators in stages of several layers."""
        inputs = self.network.input_shapes(layer)
        match layer.operator:
            case op.Convolution(window=window) | op.Pooling(window=window):
                axis = window.columns
                begin = column * axis.stride - axis.before
                taps = [begin + tap * axis.dilation for tap in range(axis.kernel)]
                return taps[0], taps[-1] + 1
            case op.Pad(padding=(_, left, _, _)):
                return column - left, column - left + 1
            case op.SpaceToDepth(block=block):
                return column * block, (column + 1) * block
            case op.AttentionProduct(heads=heads):
                # Column h of the result belongs to head h. Of an input with a column for each head
                # column h is needed, of an input with one column (all heads in channels) column 0.
                head = column if inputs[index].width == heads else 0
                return head, head + 1
        is_repeated = inputs[index].width == 1 < layer.shape.width
        return (0, 1) if is_repeated else (column, column + 1)


def _hull(spans: Iterable[Range]) -> Range:
    """The range from the first to the last position of ranges; (0, 0) where all are empty."""
    filled = [(first, end) for first, end in spans if first < end]
    if not filled:
        return 0, 0
    return min(first for first, _ in filled), max(end for _, end in filled)


def ranges_needed(layers: Sequence[Layer], wanted: Range, needed: RangeNeeded) -> dict[str, Range]:
    """Return the range of each tensor along an axis that a range of the last layer needs.

    The ranges are walked back from the last layer to the first. needed: of one layer, such as
    `InputNeeds.columns`.
    """
    asked: dict[str, list[Range]] = {layers[-1].name: [wanted]}
    for layer in reversed(layers):
        computed = _hull(asked[layer.name])
        for index, source in enumerate(layer.inputs):
            asked.setdefault(source, []).append(needed(layer, index, computed))
    return {name: _hull(spans) for name, spans in asked.items()}


class CheckedFirings:
    """The firings of a stage: the rows that each computes, and the rows that it needs.

    targets: by firing, the rows of the result; (0, 0) if the firing only accumulates. needs: for each
    tensor from outside the stage, the rows that each firing reads. ranges: by firing, the rows of every
    tensor that the stage reads or computes, but for the layer that accumulates and its input rows.
    fired: number of firings
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
            # A firing for each row of the input; only the last computes rows of the result, all.
            *inner, last = self.layers
            added = [(row, row + 1) for row in range(*inputs.rows(last, 0, (0, height)))]
            self.targets = [(0, 0)] * (len(added) - 1) + [(0, height)]
            self.needs[last.inputs[0]] = added
            if inner:
                self.ranges = [ranges_needed(inner, row, inputs.rows) for row in added]
                (source,) = inner[0].inputs
                self.needs = {source: [rows[source] for rows in self.ranges]}
            return
        self.targets = [(row, min(row + rows, height)) for row in range(0, height, rows)]
        if self.is_streamed_input:
            return
        self.ranges = [ranges_needed(self.layers, target, inputs.rows) for target in self.targets]
        # In the order in which layers read. The executor fires producers on demand: it looks at the
        # tensors in this order, and fires the producer of the first tensor that lacks rows.
        for name in (source for layer in self.layers for source in layer.inputs):
            if name not in stage.layers:
                self.needs[name] = [rows[name] for rows in self.ranges]

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
        self._rows = self._held(self.tiles.row_ends, needs.tile_rows)
        self._columns = self._held(self.tiles.column_ends, needs.columns)
        self._rows_computed = {name: self._computed(rows) for name, rows in self._rows.items()}
        self._columns_computed = {
            name: self._computed(columns) for name, columns in self._columns.items()
        }

    def _held(self, ends: tuple[int, ...], needed: RangeNeeded) -> dict[str, list[Range]]:
        tiles = [ranges_needed(self.layers, span, needed) for span in pairwise((0, *ends))]
        return {name: [held[name] for held in tiles] for name in tiles[0]}

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
        return Region(self._rows[name][down], self._columns[name][across])

    def computed(self, name: str, down: int, across: int) -> Region:
        """Return the region of a tensor that a tile computes."""
        return Region(self._rows_computed[name][down], self._columns_computed[name][across])

    def computed_regions(self, name: str) -> Iterator[Region]:
        """Yield the region of a tensor that each tile computes."""
        for rows, columns in product(self._rows_computed[name], self._columns_computed[name]):
            yield Region(rows, columns)

    def rows_below(self, name: str, down: int) -> Region | None:
        """Return the rows that tiles share with the next tiles down, of all columns, or None."""
        rows = _shared(self._rows[name], down)
        return None if rows is None else Region(rows, _hull(self._columns[name]))

    def columns_beside(self, name: str, down: int, across: int) -> Region | None:
        """Return the columns that a tile shares with the next tile across, or None."""
        columns = _shared(self._columns[name], across)
        return None if columns is None else Region(self._rows[name][down], columns)

    @property
    def multiply_accumulates(self) -> int:
        """Multiply-accumulates of all tiles: of each pixel that a tile computes, halos included."""
        total = 0
        for layer in self.layers:
            macs = multiply_accumulates(layer, self._needs.network.input_shapes(layer))
            of_pixel = macs // (layer.shape.height * layer.shape.width)
            total += of_pixel * sum(region.pixels for region in self.computed_regions(layer.name))
        return total


def _shared(held: list[Range], tile: int) -> Range | None:
    """The positions that a tile and the next tile along an axis both hold; None without any."""
    if tile + 1 == len(held):
        return None
    (_, end), (begin, _) = held[tile], held[tile + 1]
    return (begin, end) if begin < end else None

"""Streaming form of a network on a sliding window: each frame brings only the new rows.

The input of a network without state is a window that slides by a hop of some rows. A layer with a
window of its own computes the same rows for the next window, further up. So each such layer computes
only the rows that are new, and a ring (cnn2csdf.rings) retains the earlier rows that its consumers
need. A layer that needs all rows reads the ring and the new rows. Once the window is full, the results
are those of the network on that window.

Example: a convolution of 3 rows on a window of 8 rows computes 6 rows. With a hop of 2 rows it reads
a ring of 2 earlier rows and the 2 new rows, and computes 2 rows.

Padding at the ends of the window does not slide with the rows. So the rows of a tensor are in three
parts, and the hop computes each with the parameters of the layer:

- the first rows, which depend on the padding at the top: again in each hop, from the first rows of
  the whole window of the input, so that no other tensor retains its whole window for them;
- the inner rows, which slide: only the new rows are computed;
- the last rows, which depend on the padding at the bottom: again in each hop.

Example: the same convolution with a padding of 1 computes 8 rows. Row 0 needs the padding at the top,
row 7 that at the bottom; rows 5 and 6 are new. The hop computes rows 0, 5, 6 and 7.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from cnn2csdf import operators as op
from cnn2csdf.geometry import Range
from cnn2csdf.moves_as_views import input_in_place, with_views
from cnn2csdf.network import Layer, Network
from cnn2csdf.operators import Input, Next, Previous
from cnn2csdf.parameters import with_named_arrays
from cnn2csdf.rewriting import Draft, Edit, rewritten
from cnn2csdf.rings import with_rings, with_rows
from cnn2csdf.weights import Model
from csdf.arguments import Positive, public
from csdf.errors import InvalidNetwork, counted


class SlidingRows(NamedTuple):
    """The rows of a tensor whose inner rows slide: how many are first, new in a hop, and last rows."""

    top: int
    new: int
    bottom: int


@public
def as_stream(model: Model, hop: Positive) -> Model:
    """Return the streaming form of a network: its inputs have `hop` rows, its results are the same.

    Inputs are feature maps then: channels x rows x columns, also of an input of 49 x 40 that is
    reshaped to a map of one channel first.
    All rings begin with zeros, so results are valid from the frame that fills the window
    (`first_result`). Raises InvalidNetwork if a hop is no whole number of rows of a layer.
    """
    if model.network.keeps_state:
        raise InvalidNetwork(
            f"network {model.network.name!r} keeps a state already: its frames are hops; leave out the "
            "hop"
        )
    return _Streaming(_with_maps(with_views(model)), hop).model()


def first_result(network: Network, hop: int) -> int:
    """Return the number of frames before the first valid result. network: on the whole window."""
    with_maps = _with_maps(with_views(Model(network=network))).network
    return -(-max(layer.shape.rows for layer in with_maps.inputs) // hop) - 1


def _with_maps(model: Model) -> Model:
    """Return the model with inputs that are feature maps, if only axes of size one are missing."""
    return rewritten(model, input_as_map)


def input_as_map(draft: Draft, layer: Layer) -> Edit | None:
    """An input in the dims of its only consumer, a reshape to a map.

    before: input 49x40 -> map 1x49x40
    after:  input 1x49x40
    """
    if not layer.operator.keeps_order or not layer.shape.is_map:
        return None
    source = draft.network.layer(layer.inputs[0])
    sizes = [[size for size in shape.dims if size > 1] for shape in (layer.shape, source.shape)]
    if not source.is_input or len(draft.consumers[source.name]) > 1 or sizes[0] != sizes[1]:
        return None
    return input_in_place(source, layer)


class _Streaming:
    """A network on a window while it is rewritten to its streaming form.

    layers, ends: of the streaming form; the ends store rings for the next frame. sliding: the rows of
    each tensor whose inner rows slide. heads: how many of the first rows of a tensor are computed in
    each hop: those that depend on padding, and those from which further layers compute theirs.
    windows: the layer that joins a ring of so many rows of a tensor with its new rows.
    """

    def __init__(self, model: Model, hop: int) -> None:
        self._model, self._network, self._hop = model, model.network, hop
        self._layers: list[Layer] = []
        self._ends: list[Layer] = []
        self._sliding: dict[str, SlidingRows] = {}  # by layer of the network
        self._heads: dict[str, int] = {}
        self._firsts: dict[str, str] = {}  # layers of the first rows, by tensor
        self._lasts: dict[str, str] = {}
        self._weights = None if model.weights is None else dict(model.weights)
        self._windows: dict[tuple[str, int], str] = {}
        self._joined: dict[tuple[str, ...], str] = {}
        self._names = {layer.name for layer in self._network.layers}

    def model(self) -> Model:
        """Return the streaming form."""
        self._set_sliding_rows()
        for layer in self._network.inputs:
            shape = with_rows(layer.shape, self._hop)
            self._layers.append(replace(layer, operator=Input(dims=shape.dims), shape=shape))
        # First rows depend on the inputs alone; all of them at once need the fewest bytes.
        for layer in self._network.layers:
            if self._heads.get(layer.name) and not layer.is_input:
                self._firsts[layer.name] = self._add_copy(layer, (0, self._heads[layer.name]))
        for layer in self._network.layers:
            if layer.is_input:
                continue
            if layer.name in self._sliding:
                self._add_sliding(layer)
            else:
                inputs = tuple(self._whole(name) for name in layer.inputs)
                self._layers.append(replace(layer, inputs=inputs))
        network = Network(name=self._network.name, layers=(*self._layers, *self._ends))
        return with_rings(Model(network=network, weights=self._weights))

    def _set_sliding_rows(self) -> None:
        """Determine the rows of all tensors that slide, and the first rows to compute again.

        A layer whose first, new and last rows are all its rows computes them from the whole window of
        its inputs; then more first rows of these may be needed.
        """
        whole: set[str] = set()
        while True:
            self._sliding = {}
            for layer in self._network.layers:
                rows = self._rows_of_input(layer) if layer.is_input else self._sliding_rows(layer)
                if rows is not None and layer.name not in whole:
                    self._sliding[layer.name] = rows
            self._heads = self._first_rows_needed()
            full = {
                name
                for name, rows in self._sliding.items()
                if self._heads[name] + rows.new + rows.bottom >= self._height(name)
                and not self._network.layer(name).is_input
            }
            if not full:
                return
            whole |= full

    def _height(self, name: str) -> int:
        return self._network.layer(name).shape.rows

    def _rows_of_input(self, layer: Layer) -> SlidingRows:
        if not layer.shape.is_map or not 1 <= self._hop < layer.shape.rows:
            raise InvalidNetwork(
                f"network {self._network.name!r}: input {layer.name!r} is {layer.shape}; a hop of "
                f"{counted(self._hop, 'row')} needs an input of channels x rows x columns with more "
                "rows than the hop"
            )
        return SlidingRows(0, self._hop, 0)

    def _sliding_rows(self, layer: Layer) -> SlidingRows | None:
        """The rows of a layer whose inner rows slide; None if it reads or computes all rows."""
        if layer.is_output or not layer.shape.is_map or layer.shape.rows == 1:
            return None
        inputs = [self._sliding.get(name) for name in layer.inputs]
        sources = [rows for rows in inputs if rows is not None]
        if not sources or len(sources) < len(inputs) or len({rows.new for rows in sources}) > 1:
            return None
        new, stride = sources[0].new, 1
        operator, cut = layer.operator, layer.operator.sliced_range
        dims = operator.constant_dims or ()
        is_row_by_row = operator.is_elementwise or operator.joined_axis in (0, 2)
        if operator.sliding_window is not None:
            stride = operator.sliding_window.stride[0]
            if operator.sliding_window.overhang[0]:
                return None
        elif cut is not None:
            stride = cut.step if cut.axis == 1 else 1
        elif not is_row_by_row or (len(dims) > 1 and dims[-2] > 1):
            # The constant operand differs from row to row, so rows do not repeat as the window slides.
            return None
        if new % stride:
            raise InvalidNetwork(
                f"layer {layer.name!r} goes {stride} rows at a time, and {counted(new, 'row')} of what "
                f"it reads are new in a hop of {self._hop}; give a multiple of all strides"
            )
        needs = [_rows_needed(layer, (row, row + 1)) for row in range(layer.shape.rows)]
        height = min(map(self._height, layer.inputs))
        if needs[0][1] <= 0 or needs[-1][0] >= height:
            return None  # a row of padding alone
        least = max(rows.top for rows in sources)
        most = min(
            self._height(name) - rows.bottom
            for name, rows in zip(layer.inputs, sources, strict=True)
        )
        top = sum(first < least for first, _ in needs)
        bottom = sum(end > most for _, end in needs)
        rows = SlidingRows(top, new // stride, bottom)
        return rows if sum(rows) < layer.shape.rows else None

    def _first_rows_needed(self) -> dict[str, int]:
        """The first rows of each tensor to compute in each hop, from the last layer to the first."""
        heads = dict.fromkeys(self._sliding, 0)
        for layer in reversed(self._network.layers):
            for name in layer.inputs:
                if name not in heads:
                    continue
                wanted = heads.get(layer.name)
                needed = self._sliding[name].top if wanted is None else 0
                if wanted:
                    _, needed = _rows_needed(layer, (0, wanted))
                heads[name] = max(heads[name], min(needed, self._height(name)))
        return heads

    def _add_sliding(self, layer: Layer) -> None:
        """Add the layers that compute the last and the new rows of a layer."""
        rows, height = self._sliding[layer.name], layer.shape.rows
        inner_end = height - rows.bottom
        if rows.bottom:
            self._lasts[layer.name] = self._add_copy(layer, (inner_end, height))
        if rows.bottom or self._heads[layer.name]:
            layer = with_named_arrays(self._network, layer)
        self._add_rows(layer, layer.name, (inner_end - rows.new, inner_end))

    def _add_copy(self, layer: Layer, rows: Range) -> str:
        """Add a copy of a layer that computes some of its rows; return its name."""
        name = self._free(f"{layer.name} rows {rows[0]} to {rows[1]}")
        if self._weights is not None and layer.name in self._weights:
            self._weights[name] = self._weights[layer.name]
        self._add_rows(with_named_arrays(self._network, layer), name, rows)
        return name

    def _add_rows(self, layer: Layer, name: str, rows: Range) -> None:
        """Add a layer of this name that computes some rows, from the input rows that they need."""
        operator, (first, end) = layer.operator, _rows_needed(layer, rows)
        inputs = [self._rows(source, first, end) for source in layer.inputs]
        count = rows[1] - rows[0]
        if (window := operator.sliding_window) is not None:
            _, left, _, right = window.padding
            height = self._height(layer.inputs[0])
            padding = max(0, -first), left, max(0, end - height), right
            operator = operator.with_window(replace(window, padding=padding))
        elif (cut := operator.sliced_range) is not None and cut.axis == 1:
            operator = op.Slice(axis=1, start=0, stop=(count - 1) * cut.step + 1, step=cut.step)
        self._layers.append(
            replace(
                layer,
                name=name,
                operator=operator,
                inputs=tuple(inputs),
                shape=with_rows(layer.shape, count),
            )
        )

    def _whole(self, name: str) -> str:
        """The layer that has all rows of a tensor."""
        return self._rows(name, 0, self._height(name)) if name in self._sliding else name

    def _rows(self, name: str, first: int, end: int) -> str:
        """The layer that holds rows [first, end) of the window of a tensor, without its padding."""
        source, sliding = self._network.layer(name), self._sliding[name]
        first, end = max(first, 0), min(end, source.shape.rows)
        rows = end - first
        pieces = list[str]()
        inner_end = source.shape.rows - sliding.bottom
        head = self._heads[name] if name in self._firsts else 0
        if first < head and (first < max(sliding.top, 1) or end <= head):
            layer = self._firsts[name]
            pieces.append(self._cut(layer, source, first, min(end, head) - first, head))
            first = head
        if first < min(end, inner_end):
            pieces.append(self._inner_rows(source, first, min(end, inner_end)))
        if end > max(first, inner_end):
            begin = max(first, inner_end)
            layer, place = self._lasts[name], begin - inner_end
            pieces.append(self._cut(layer, source, place, end - begin, sliding.bottom))
        return pieces[0] if len(pieces) == 1 else self._joined_rows(source, pieces, rows)

    def _inner_rows(self, source: Layer, first: int, end: int) -> str:
        """The layer that holds rows [first, end) of the inner rows of a tensor."""
        sliding = self._sliding[source.name]
        newest = source.shape.rows - sliding.bottom - sliding.new  # first of the new rows
        if first >= newest:
            return self._cut(source.name, source, first - newest, end - first, sliding.new)
        # A tensor whose first rows are read in each hop has one ring, of its whole window.
        oldest = 0 if self._heads[source.name] and source.is_input else first
        retained = newest - oldest
        key = (source.name, retained)
        if key not in self._windows:
            self._windows[key] = self._window(source, retained)
        height = retained + sliding.new
        return self._cut(self._windows[key], source, first - oldest, end - first, height)

    def _joined_rows(self, source: Layer, pieces: list[str], rows: int) -> str:
        """The layer that joins layers of consecutive rows of a tensor. rows: their number."""
        key = tuple(pieces)
        if key not in self._joined:
            name, operator = self._free(f"{source.name} joined"), op.Concatenation(axis=1)
            self._joined[key] = self._add_moved(source, name, operator, key, rows).name
        return self._joined[key]

    def _cut(self, name: str, source: Layer, first: int, rows: int, height: int) -> str:
        """The layer of some rows of a layer of this height, from the first row; it itself for all."""
        if (first, rows) == (0, height):
            return name
        part = self._free(f"{source.name} rows {first} to {first + rows}")
        operator = op.Slice(axis=1, start=first, stop=first + rows)
        return self._add_moved(source, part, operator, (name,), rows).name

    def _add_moved(
        self, source: Layer, name: str, operator: op.Operator, inputs: tuple[str, ...], rows: int
    ) -> Layer:
        """Add a layer that only moves or retains this number of rows of a tensor."""
        shape = with_rows(source.shape, rows)
        self._layers.append(
            replace(
                source,
                name=name,
                operator=operator,
                inputs=inputs,
                shape=shape,
                epilogue=(),
                stored=(),
            )
        )
        return self._layers[-1]

    def _window(self, source: Layer, retained: int) -> str:
        """Add a ring of the last rows of earlier frames; return its window with the new rows."""
        variable = self._free(f"{source.name} kept")
        rows = retained + self._sliding[source.name].new
        begin = 0 if source.quantization is None else source.quantization.zero_point
        dims = with_rows(source.shape, retained).dims
        previous = Previous(dims=dims, variable=variable, begin=begin)
        self._add_moved(source, variable, previous, (), retained)
        name, inputs = self._free(f"{source.name} window"), (variable, source.name)
        window = self._add_moved(source, name, op.Concatenation(axis=1), inputs, rows)
        self._ends.append(
            replace(
                window,
                name=self._free(f"{variable} next"),
                operator=Next(variable=variable),
                inputs=(window.name,),
            )
        )
        return window.name

    def _free(self, name: str) -> str:
        while name in self._names:
            name += "'"
        self._names.add(name)
        return name


def _rows_needed(layer: Layer, rows: Range) -> Range:
    """The rows of each input that rows of a layer need, padding included."""
    window, cut = layer.operator.sliding_window, layer.operator.sliced_range
    if window is not None:
        return window.rows.covered(rows)
    if cut is not None and cut.axis == 1:
        first, end = rows
        return cut.start + first * cut.step, cut.start + (end - 1) * cut.step + 1
    return rows

"""Streaming form of a network on a sliding window: each frame brings only the new rows.

The input of a network without state is a window that slides by a hop of some rows. A layer with a
window of its own and without padding along the rows computes the same rows for the next window,
further up. So each such layer computes only the rows that are new, and a ring (cnn2csdf.rings)
retains the earlier rows that its consumers need. A layer that needs all rows reads the ring and the
new rows. Once the window is full, the results are those of the network on that window.

Example: a convolution of 3 rows on a window of 8 rows computes 6 rows. With a hop of 2 rows it reads
a ring of 2 earlier rows and the 2 new rows, and computes 2 rows.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from cnn2csdf import operators as op
from cnn2csdf.moves_as_views import input_in_place, with_views
from cnn2csdf.network import Layer, Network
from cnn2csdf.operators import Input, Next, Previous
from cnn2csdf.rewriting import Draft, Edit, rewritten
from cnn2csdf.rings import with_rings, with_rows
from cnn2csdf.weights import Model
from csdf.arguments import Positive, public
from csdf.errors import InvalidNetwork, counted

SHOWN = 4  # layers that a refusal names


class NewRows(NamedTuple):
    """The rows of a tensor that are new in a hop: the layer that computes them, and their number."""

    layer: str
    rows: int


@public
def as_stream(model: Model, hop: Positive) -> Model:
    """Return the streaming form of a network: its inputs have `hop` rows, its results are the same.

    Inputs are feature maps then: channels x rows x columns, also of an input of 49 x 40 that is
    reshaped to a map of one channel first.
    All rings begin with zeros, so results are valid from the frame that fills the window
    (`first_result`). Raises InvalidNetwork, naming the layers, if rows of a window are padded, or if
    a hop is no whole number of rows of a layer.
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

    layers, ends: of the streaming form; the ends store rings for the next frame. sliding: the new
    rows of each tensor that has any. windows: the layer that joins a ring of so many rows of a tensor
    with its new rows.
    """

    def __init__(self, model: Model, hop: int) -> None:
        self._model, self._network, self._hop = model, model.network, hop
        self._layers: list[Layer] = []
        self._ends: list[Layer] = []
        self._sliding: dict[str, NewRows] = {}  # by layer of the network
        self._weights = None if model.weights is None else dict(model.weights)
        self._windows: dict[tuple[str, int], str] = {}
        self._names = {layer.name for layer in self._network.layers}

    def model(self) -> Model:
        """Return the streaming form."""
        self._require_no_padding()
        for layer in self._network.layers:
            if layer.is_input:
                self._add_input(layer)
            elif (new := self._new_rows(layer)) is not None:
                self._add_sliding(layer, new)
            else:
                inputs = tuple(self._whole(name) for name in layer.inputs)
                self._layers.append(replace(layer, inputs=inputs))
        network = Network(name=self._network.name, layers=(*self._layers, *self._ends))
        return with_rings(Model(network=network, weights=self._weights))

    def _require_no_padding(self) -> None:
        padded = []
        for layer in self._network.layers:
            window = layer.operator.sliding_window
            if window is not None and layer.shape.is_map and layer.shape.rows > 1:
                top, _, bottom, _ = window.padding
                if top or bottom or window.overhang[0]:
                    padded.append(repr(layer.name))
        if padded:
            more = f" and {len(padded) - SHOWN} more" if len(padded) > SHOWN else ""
            raise InvalidNetwork(
                f"network {self._network.name!r}: rows are padded at the ends of the window in "
                f"{counted(len(padded), 'layer')} ({', '.join(padded[:SHOWN])}{more}), so rows change "
                "as the window slides; train the network without padding along the time "
                "(padding='valid'), or leave out the hop"
            )

    def _add_input(self, layer: Layer) -> None:
        if not layer.shape.is_map or not 1 <= self._hop < layer.shape.rows:
            raise InvalidNetwork(
                f"network {self._network.name!r}: input {layer.name!r} is {layer.shape}; a hop of "
                f"{counted(self._hop, 'row')} needs an input of channels x rows x columns with more "
                "rows than the hop"
            )
        shape = with_rows(layer.shape, self._hop)
        self._layers.append(replace(layer, operator=Input(dims=shape.dims), shape=shape))
        self._sliding[layer.name] = NewRows(layer.name, self._hop)

    def _new_rows(self, layer: Layer) -> int | None:
        """The number of rows that a layer computes in a hop; None if it reads or computes all rows."""
        if layer.is_output or not layer.shape.is_map or layer.shape.rows == 1:
            return None
        sliding_inputs = [self._sliding.get(name) for name in layer.inputs]
        if not sliding_inputs or None in sliding_inputs:
            return None
        counts = {tensor.rows for tensor in sliding_inputs if tensor is not None}
        if len(counts) > 1:
            return None
        new, stride = counts.pop(), 1
        operator, cut = layer.operator, layer.operator.sliced_range
        dims = operator.constant_dims or ()
        is_row_by_row = operator.is_elementwise or operator.joined_axis in (0, 2)
        if operator.sliding_window is not None:
            stride = operator.sliding_window.stride[0]
        elif cut is not None:
            stride = cut.step if cut.axis == 1 else 1
        elif not is_row_by_row or (len(dims) == 3 and dims[1] > 1):
            # The constant operand differs from row to row, so rows do not repeat as the window slides.
            return None
        if any(self._network.layer(name).shape.rows < new for name in layer.inputs):
            return None
        if new % stride:
            raise InvalidNetwork(
                f"layer {layer.name!r} goes {stride} rows at a time, and {counted(new, 'row')} of what "
                f"it reads are new in a hop of {self._hop}; give a multiple of all strides"
            )
        rows = new // stride
        return rows if rows < layer.shape.rows else None

    def _add_sliding(self, layer: Layer, new: int) -> None:
        """Add a layer that computes only the new rows, from the input rows that they need."""
        operator, cut, inputs = layer.operator, layer.operator.sliced_range, []
        for name in layer.inputs:
            first, end = 0, 0
            source = self._network.layer(name)
            if operator.sliding_window is not None:
                axis = operator.sliding_window.rows
                first, end = axis.covered((layer.shape.rows - new, layer.shape.rows))
            elif cut is not None and cut.axis == 1:
                first = cut.start + (layer.shape.rows - new) * cut.step
                end = cut.start + (layer.shape.rows - 1) * cut.step + 1
            else:
                first, end = layer.shape.rows - new, layer.shape.rows
            inputs.append(self._rows(source, first, end))
        if cut is not None and cut.axis == 1:
            rows = (new - 1) * cut.step + 1
            operator = op.Slice(axis=1, start=0, stop=rows, step=cut.step)
        shape = with_rows(layer.shape, new)
        self._layers.append(replace(layer, operator=operator, inputs=tuple(inputs), shape=shape))
        self._sliding[layer.name] = NewRows(layer.name, new)

    def _whole(self, name: str) -> str:
        """The layer that has all rows of a tensor."""
        if name not in self._sliding:
            return name
        layer = self._network.layer(name)
        return self._rows(layer, 0, layer.shape.rows)

    def _rows(self, source: Layer, first: int, end: int) -> str:
        """The layer that holds rows [first, end) of the window of a tensor."""
        new = self._sliding[source.name].rows
        retained = source.shape.rows - new - first
        if retained <= 0:
            return self._cut(source.name, source, -retained, end - first, new)
        key = (source.name, retained)
        if key not in self._windows:
            self._windows[key] = self._joined(source, retained)
        return self._cut(self._windows[key], source, 0, end - first, retained + new)

    def _cut(self, name: str, source: Layer, first: int, rows: int, height: int) -> str:
        """The layer of some rows of a layer of this height, from the first row; it itself for all."""
        if (first, rows) == (0, height):
            return name
        self._layers.append(
            replace(
                source,
                name=self._free(f"{source.name} rows {first} to {first + rows}"),
                operator=op.Slice(axis=1, start=first, stop=first + rows),
                inputs=(name,),
                shape=with_rows(source.shape, rows),
                epilogue=(),
                stored=(),
            )
        )
        return self._layers[-1].name

    def _joined(self, source: Layer, retained: int) -> str:
        """Add a ring of the last rows of earlier frames; return its window with the new rows."""
        new = self._sliding[source.name].rows
        variable = self._free(f"{source.name} kept")
        begin = 0 if source.quantization is None else source.quantization.zero_point
        old = with_rows(source.shape, retained)
        bare = replace(source, epilogue=(), stored=())
        previous = replace(
            bare,
            name=variable,
            operator=Previous(dims=old.dims, variable=variable, begin=begin),
            inputs=(),
            shape=old,
        )
        window = replace(
            bare,
            name=self._free(f"{source.name} window"),
            operator=op.Concatenation(axis=1),
            inputs=(variable, source.name),
            shape=with_rows(source.shape, retained + new),
        )
        self._layers += [previous, window]
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

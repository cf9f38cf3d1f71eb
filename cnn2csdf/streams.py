"""From windows to streams: a network over a window that slides becomes one that takes new rows only.

The window of a network without a state slides by a hop of some rows. Layers that look at rows through
windows of their own, and pad none, give the same rows in the next window, further up: so a frame is a
hop, each such layer computes the rows that are new, and what later layers need of earlier rows stays
in rings (cnn2csdf.rings). A layer that needs all rows works on the whole window. From the frame on in
which the window is full, the results are those of the network on that window.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from cnn2csdf import operators as op
from cnn2csdf.network import Layer, Network
from cnn2csdf.operators import Input, Next, Previous
from cnn2csdf.rewriting import Draft, Edit, rewritten
from cnn2csdf.rings import input_in_place, with_rings, with_views
from cnn2csdf.shape import Shape
from cnn2csdf.weights import Model
from csdf.arguments import Positive, public
from csdf.errors import InvalidNetwork, counted

SHOWN = 4  # layers that a refusal names


class Sliding(NamedTuple):
    """The rows of a tensor that are new in a hop, and the layer that writes them."""

    layer: str
    new: int


@public
def as_stream(model: Model, hop: Positive) -> Model:
    """Return the network whose frames are a hop of new rows of the window of a network.

    The inputs have `hop` rows. All state is zero before the first frame, after each layer as well:
    results count from the frame on in which as many rows have come as the window has. Raises
    InvalidNetwork, naming the layers, where rows of a window are padded, or where a hop is no whole
    number of rows of some layer.
    """
    if model.network.keeps_state:
        raise InvalidNetwork(
            f"network {model.network.name!r} keeps a state already: its frames are hops; leave out the "
            "hop"
        )
    return _Streaming(_with_maps(with_views(model)), hop).model()


def first_result(network: Network, hop: int) -> int:
    """Return how many frames come before the first result: the window fills. network: of the window."""
    with_maps = _with_maps(with_views(Model(network=network))).network
    return -(-max(layer.shape.rows for layer in with_maps.inputs) // hop) - 1


def _with_maps(model: Model) -> Model:
    """Return the model whose inputs are maps where they only get axes of size one to become maps."""
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
    """A network of windows while it is rewritten to hops."""

    def __init__(self, model: Model, hop: int) -> None:
        self._model, self._network, self._hop = model, model.network, hop
        self._layers: list[Layer] = []
        self._ends: list[Layer] = []
        self._sliding: dict[str, Sliding] = {}  # by layers of the network
        self._weights = None if model.weights is None else dict(model.weights)
        self._windows: dict[tuple[str, int], str] = {}
        self._names = {layer.name for layer in self._network.layers}

    def model(self) -> Model:
        """Return the model of hops."""
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
        shape = _with_rows(layer.shape, self._hop)
        self._layers.append(replace(layer, operator=Input(dims=shape.dims), shape=shape))
        self._sliding[layer.name] = Sliding(layer.name, self._hop)

    def _new_rows(self, layer: Layer) -> int | None:
        """The number of rows that a layer computes in a hop; None if it needs or writes all rows."""
        if layer.is_output or not layer.shape.is_map or layer.shape.rows == 1:
            return None
        sliding_inputs = [self._sliding.get(name) for name in layer.inputs]
        if not sliding_inputs or None in sliding_inputs:
            return None
        before = {
            sliding_input.new for sliding_input in sliding_inputs if sliding_input is not None
        }
        if len(before) > 1:
            return None
        new, stride = before.pop(), 1
        operator, cut, dims = layer.operator, layer.operator.cut, layer.operator.constant_dims or ()
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
        operator, cut, inputs = layer.operator, layer.operator.cut, []
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
        shape = _with_rows(layer.shape, new)
        self._layers.append(replace(layer, operator=operator, inputs=tuple(inputs), shape=shape))
        self._sliding[layer.name] = Sliding(layer.name, new)

    def _whole(self, name: str) -> str:
        """The layer that has all rows of a tensor."""
        if name not in self._sliding:
            return name
        layer = self._network.layer(name)
        return self._rows(layer, 0, layer.shape.rows)

    def _rows(self, source: Layer, first: int, end: int) -> str:
        """The layer that holds rows [first, end) of the window of a tensor."""
        new, height = self._sliding[source.name].new, source.shape.rows
        kept = height - new - first
        if kept <= 0:
            return self._cut(source.name, source, -kept, end - first, new)
        key = (source.name, kept)
        if key not in self._windows:
            self._windows[key] = self._joined(source, kept)
        return self._cut(self._windows[key], source, 0, end - first, kept + new)

    def _cut(self, name: str, source: Layer, first: int, rows: int, there: int) -> str:
        if (first, rows) == (0, there):
            return name
        self._layers.append(
            replace(
                source,
                name=self._free(f"{source.name} rows {first} to {first + rows}"),
                operator=op.Slice(axis=1, start=first, stop=first + rows),
                inputs=(name,),
                shape=_with_rows(source.shape, rows),
                epilogue=(),
                stored=(),
            )
        )
        return self._layers[-1].name

    def _joined(self, source: Layer, kept: int) -> str:
        """Add the ring of the last `kept` rows of earlier frames and the new rows of this frame."""
        new = self._sliding[source.name].new
        variable = self._free(f"{source.name} kept")
        begin = 0 if source.quantization is None else source.quantization.zero_point
        old = _with_rows(source.shape, kept)
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
            shape=_with_rows(source.shape, kept + new),
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


def _with_rows(shape: Shape, rows: int) -> Shape:
    return Shape(dims=(shape.dims[0], rows, shape.dims[2]))

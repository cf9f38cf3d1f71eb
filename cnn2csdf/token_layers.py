"""Layers of a model while `cnn2csdf.tokens` rewrites it to feature maps with token rows.

Each tensor of the file is held by a feature map, under an index map (cnn2csdf.index_maps): a
transposed matrix, for example, is the same feature map with its dims permuted. `TokenRewriter` adds
layers to the rewritten model and the moves that a layer needs of its operands: a view of a matrix
as a feature map, pixels in another order, tokens in one column, or the dims of the file.

A digit is (position // stride) % size along an axis of a feature map (`index_maps.Digit`). For
example, 8 channels that are 2 heads of 4 numbers are two digits: the head has stride 4 and size 2,
the number within the head has stride 1 and size 4.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from cnn2csdf import operators as op
from cnn2csdf.dtypes import Stored
from cnn2csdf.index_maps import (
    Digit,
    IndexMap,
    NoIndexMap,
    covering_digits,
    digits_by_axis,
    dim_size,
    flattened,
    identity_map,
    memory_digits,
    merged,
    split_digits,
    whole_axis,
)
from cnn2csdf.network import Layer
from cnn2csdf.shape import Dims, Shape
from cnn2csdf.weights import Array, Model
from csdf.names import longer_name


class MappedTensor(NamedTuple):
    """A tensor of the file on a feature map: the layer that produces the map, and the index map."""

    layer: str
    index_map: IndexMap


class TokenRewriter:
    """The rewritten layers, and the feature map of each tensor of the file.

    original: the model in the dims of the file; network, consumers: its network, the readers of
    each tensor.
    names: of the original layers; new layers get other names.
    layers: rewritten layers by name, in execution order.
    weights: arrays of rewritten layers; None if the model has none.
    mapped: feature map and index map of each tensor of the file that has them.
    unrepeated: for a tensor that repeats a smaller one along some dims, the smaller one.
    has_attention: whether a product of two tensors has been rewritten.
    """

    def __init__(self, model: Model) -> None:
        self.original = model
        self.network, self.consumers = model.network, model.network.consumers
        self.names = {layer.name for layer in model.network.layers}
        self.layers: dict[str, Layer] = {}
        self.weights: dict[str, dict[str, Array]] | None = None if model.weights is None else {}
        self.mapped: dict[str, MappedTensor] = {}
        self.unrepeated: dict[str, MappedTensor] = {}
        self.has_attention = False

    def model(self) -> Model:
        """Return the rewritten model, without the layers that no output of the network needs."""
        needed = {name for name, layer in self.layers.items() if layer.is_end}
        for layer in reversed(self.layers.values()):
            if layer.name in needed:
                needed.update(layer.inputs)
        layers = tuple(layer for layer in self.layers.values() if layer.name in needed)
        weights = self.weights
        if weights is not None:
            weights = {name: arrays for name, arrays in weights.items() if name in needed}
        return Model(network=replace(self.network, layers=layers), weights=weights)

    def put_epilogue_of_move(self, layer: Layer) -> None:
        """Add the requantisation or epilogue of a reshape or transposition that is no layer itself."""
        tensor = self.mapped[layer.name]
        if self.layers[tensor.layer].quantization != layer.quantization:
            self.put(layer, op.Conversion(), [tensor.layer], tensor.index_map)
        elif layer.epilogue:
            without_first = replace(layer, epilogue=layer.epilogue[1:])
            self.put(without_first, layer.epilogue[0], [tensor.layer], tensor.index_map)

    def put_pixels_as_rows(self, layer: Layer) -> None:
        """View the pixels of an image as rows if a matrix has them as its tokens.

        One view after the patches of a vision transformer serves all its layers. Without it each
        attention would convert its operands to rows, and no fused group could span two of them.
        """
        tensor, dims = self.mapped[layer.name], layer.shape.dims
        shape = self.shape_of(tensor)
        is_image = shape.height > 1 and shape.width > 1
        pixels = merged([*whole_axis("Y", shape.height), *whole_axis("X", shape.width)])
        if is_image and tensor.index_map == (pixels, whole_axis("C", shape.channels)):
            view = op.View(dims=(dims[1], dims[0], 1))
            rows = self.put_move(tensor.layer, view, "as rows")
            self.mapped[layer.name] = MappedTensor(
                rows, (whole_axis("Y", dims[0]), whole_axis("C", dims[1]))
            )

    def arrays_of(self, layer: Layer) -> Mapping[str, Array] | None:
        """Return the weights of a layer of the file, by role; None if the model has no weights."""
        if self.original.weights is None:
            return None
        return self.original.weights.get(layer.name, {})

    def put(
        self,
        layer: Layer,
        operator: op.Operator,
        inputs: Sequence[str],
        index_map: IndexMap | None = None,
        *,
        name: str | None = None,
        weights: Mapping[str, Array] | None = None,
        stored: tuple[Stored, ...] | None = None,
        is_move: bool = False,
    ) -> str:
        """Add a layer in place of a layer of the file; return its name.

        layer: of the file; gives the name, quantization and epilogue.
        operator, inputs: of the new layer; inputs are names of rewritten layers.
        index_map: of the tensor of the file on the result; None if another layer will hold that
        tensor.
        name, weights, stored: instead of those of the layer of the file.
        is_move: the new layer only moves a result, so it has no epilogue and no weights.
        """
        shapes = [self.layers[source].shape for source in inputs]
        new_layer = replace(
            layer,
            name=name or layer.name,
            operator=operator,
            inputs=tuple(inputs),
            shape=operator.output_shape(shapes),
            epilogue=() if is_move else layer.epilogue,
            stored=() if is_move else layer.stored if stored is None else stored,
        )
        self.layers[new_layer.name] = new_layer
        arrays = self.arrays_of(layer) if weights is None else weights
        if self.weights is not None and arrays and not is_move:
            self.weights[new_layer.name] = dict(arrays)
        if index_map is not None:
            self.mapped[layer.name] = MappedTensor(new_layer.name, index_map)
        return new_layer.name

    def put_move(self, source: str, operator: op.Operator, suffix: str) -> str:
        """Add a view or reordering of a rewritten layer's result; return its name."""
        layer = self.layers[source]
        name = longer_name(f"{source} {suffix}", {*self.names, *self.layers}, by=" ")
        return self.put(layer, operator, [source], name=name, is_move=True)

    def put_unchanged(self, layer: Layer) -> None:
        """Add a layer in the dims of the file."""
        self.put(layer, layer.operator, [self.in_file_dims(source) for source in layer.inputs])
        dims = layer.shape.dims
        if layer.shape.is_map:
            self.mapped[layer.name] = MappedTensor(layer.name, identity_map(dims))

    def in_file_dims(self, name: str) -> str:
        """Return a layer that produces a tensor in the dims of the file; add moves as needed.

        The cheapest that applies: the layer itself, a view, a reordering of positions, or a
        reshape into digits, their transposition and a reshape.
        """
        tensor, dims = self.mapped.get(name), self.network.layer(name).shape.dims
        if tensor is None:
            return name
        shape = self.layers[tensor.layer].shape
        if len(dims) == 3 and tensor.index_map == identity_map(dims) and shape.dims == dims:
            return tensor.layer
        view = self._view(tensor, dims)
        if view is not None:
            return view
        if len(dims) == 3 and tensor.index_map[0] == whole_axis("C", shape.channels):
            positions = flattened(tensor.index_map[1:])
            return self.put_reordered(tensor, positions, (dims[1], dims[2]))
        digits = digits_by_axis(tensor.index_map, shape)
        permutation = tuple(digits.index(digit) for dim in tensor.index_map for digit in dim)
        split = self.put_move(tensor.layer, op.Reshape(dims=digit_sizes(digits)), "cut")
        permuted = self.put_move(split, op.Transpose(permutation=permutation), "turned")
        return self.put_move(permuted, op.Reshape(dims=dims), "joined")

    def _view(self, tensor: MappedTensor, dims: Dims) -> str | None:
        """A view of a tensor in these dims; None if its elements have another order in memory."""
        order = (
            (tensor.index_map[1], tensor.index_map[2], tensor.index_map[0])
            if len(dims) == 3
            else tensor.index_map
        )
        shape = self.layers[tensor.layer].shape
        if merged(flattened(order)) != memory_digits(shape):
            return None
        return self.put_move(tensor.layer, op.View(dims=dims), "x".join(map(str, dims)))

    def on_map(self, name: str) -> MappedTensor:
        """Return the feature map of a tensor; a matrix is viewed as one.

        Raises NoIndexMap for other ranks.
        """
        if name not in self.mapped:
            dims = self.network.layer(name).shape.dims
            if len(dims) != 2:
                raise NoIndexMap
            view = self.put_move(name, op.View(dims=(dims[1], dims[0], 1)), "as rows")
            self.mapped[name] = MappedTensor(
                view, (whole_axis("Y", dims[0]), whole_axis("C", dims[1]))
            )
        return self.mapped[name]

    def put_unrepeated(self, layer: Layer, operator: op.Operator | None = None) -> None:
        """Record, for a tensor that repeats a smaller one, the smaller one; broadcasts read that.

        operator: a function of single elements, applied to the smaller tensor; None if the layer is
        the repetition itself.
        """
        tensor = self.unrepeated.get(layer.inputs[0])
        if operator is None:
            tensor = tensor or self.mapped.get(layer.inputs[0])
        if tensor is None or len(tensor.index_map) != len(layer.shape.dims):
            return
        if operator is not None:
            name = longer_name(f"{layer.name} once", {*self.names, *self.layers}, by=" ")
            tensor = MappedTensor(
                self.put(layer, operator, [tensor.layer], name=name), tensor.index_map
            )
        self.unrepeated[layer.name] = tensor

    def unrepeated_operand(self, name: str) -> MappedTensor:
        """Return the feature map of an operand of a broadcast, without its repetitions."""
        return self.unrepeated.get(name) or self.on_map(name)

    def shape_of(self, tensor: MappedTensor) -> Shape:
        """Return the shape of the feature map that holds a tensor."""
        return self.layers[tensor.layer].shape

    def with_token_rows(self, name: str) -> MappedTensor:
        """Return a tensor with channels as its last dim, rows and columns as the others.

        The last dim may also be the columns and channels of a row. Rows and columns must be in
        the order of memory; otherwise a reordering is added. Raises NoIndexMap if the last dim is
        anything else.
        """
        tensor = self.on_map(name)
        *leading_dims, last_dim = tensor.index_map
        shape = self.shape_of(tensor)
        possible_last_dims = {
            whole_axis("C", shape.channels),
            merged([*whole_axis("X", shape.width), *whole_axis("C", shape.channels)]),
        }
        if last_dim not in possible_last_dims:
            raise NoIndexMap
        positions = flattened(tuple(leading_dims))
        memory_order = list(whole_axis("Y", shape.height))
        if last_dim == whole_axis("C", shape.channels):
            memory_order += whole_axis("X", shape.width)
        if merged(positions) == merged(memory_order):
            return tensor
        return self._in_order(name, tensor, positions)

    def _in_order(
        self, name: str, tensor: MappedTensor, positions: Sequence[Digit]
    ) -> MappedTensor:
        """A tensor after its tokens have been reordered into rows."""
        reordered = self.put_reordered(tensor, positions, (dim_size(positions), 1))
        *leading_dims, last_dim = tensor.index_map
        rows = split_digits(
            (Digit("Y", 1, dim_size(positions)),), tuple(dim_size(dim) for dim in leading_dims)
        )
        self.mapped[name] = MappedTensor(reordered, (*rows, last_dim))
        return self.mapped[name]

    def put_reordered(
        self, tensor: MappedTensor, positions: Sequence[Digit], height_width: tuple[int, int]
    ) -> str:
        """Add a permutation of pixels into an image of this height and width; return its name."""
        shape = self.shape_of(tensor)
        if any(position.axis == "C" for position in positions):
            raise NoIndexMap
        source_digits = [
            digit for axis in "YX" for digit in covering_digits(axis, positions, shape)
        ]
        operator = op.PlaceOrder(
            sizes=tuple(digit.size for digit in source_digits),
            permutation=tuple(source_digits.index(position) for position in positions),
            height=height_width[0],
            width=height_width[1],
        )
        return self.put_move(tensor.layer, operator, "in order")

    def one_column(self, tensor: MappedTensor) -> MappedTensor:
        """Return tokens on a map of one column: all numbers of a token are channels."""
        shape = self.shape_of(tensor)
        if shape.width == 1:
            return tensor
        *leading_dims, last_dim = tensor.index_map
        channels = dim_size(last_dim)
        rows = shape.elements // channels
        view = self.put_move(tensor.layer, op.View(dims=(channels, rows, 1)), "as rows")
        dims = tuple(dim_size(dim) for dim in leading_dims)
        return MappedTensor(
            view, (*split_digits((Digit("Y", 1, rows),), dims), whole_axis("C", channels))
        )


def digit_sizes(digits: Sequence[Digit]) -> Dims:
    """Return dims that are one digit each."""
    return tuple(digit.size for digit in digits) or (1,)

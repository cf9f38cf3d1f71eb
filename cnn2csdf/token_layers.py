"""Draft of a network whose matrices become feature maps with a token per row.

A feature map has dims channels x rows x columns (C, H, W), in every shape of this package; in memory
its elements are stored row by row, in a row column by column, in a pixel channel by channel. A matrix
of tokens x numbers, stored token by token, has the same bytes as a feature map of numbers x tokens x 1:
a token is a row of one pixel, and its numbers are the channels.

A tensor of the file then needs no layer of its own if its elements are those of a feature map. A
`MappedTensor` names the layer that computes the map, and has one tuple of digits for each dim of the
tensor (`index_maps.IndexMap`): a digit is (position // stride) % size along an axis of the map. The
examples of `cnn2csdf.tokens` write digits with y for the row, x for the column and c for the channel:

    tokens[y, c]            the matrix that `tokens` holds: its first dim is the row
    tokens[c, y]            the transposed matrix
    tokens[y, c//4, c%4]    8 channels as 2 heads of 4 numbers
    image[y x, c]           the pixels of an image, row by row, as tokens; [0, ...] is a dim of size 1

`TokenDraft` adds layers on feature maps, and the moves that they need of their operands: a view of a
matrix as a feature map, pixels in another order, tokens in one column, or the dims of the file.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import wraps
from typing import Any, NamedTuple, TypeVar

from cnn2csdf import operators as op
from cnn2csdf.dtypes import Stored
from cnn2csdf.index_maps import (
    Digit,
    DimDigits,
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
from cnn2csdf.rewriting import Arrays, Draft, Edit, layer_after
from cnn2csdf.shape import Dims, Shape
from cnn2csdf.weights import Model

Dim = TypeVar("Dim")


class MappedTensor(NamedTuple):
    """A tensor of the file on a feature map.

    layer: produces the feature map. shape: of the feature map. index_map: the digits of each dim of
    the tensor.
    """

    layer: str
    shape: Shape
    index_map: IndexMap

    @property
    def all_rows(self) -> DimDigits:
        """The digits of a dim that is all rows of the map."""
        return whole_axis("Y", self.shape.height)

    @property
    def all_columns(self) -> DimDigits:
        """The digits of a dim that is all columns of the map."""
        return whole_axis("X", self.shape.width)

    @property
    def all_channels(self) -> DimDigits:
        """The digits of a dim that is all channels of the map."""
        return whole_axis("C", self.shape.channels)

    @property
    def all_pixels(self) -> DimDigits:
        """The digits of a dim that enumerates the pixels of the map, row by row."""
        return (*self.all_rows, *self.all_columns)

    @property
    def is_in_memory_order(self) -> bool:
        """Whether the elements are in the order of memory: a view of the map gives the tensor."""
        return merged(flattened(in_memory_order(self.index_map))) == memory_digits(self.shape)

    def with_dim(self, axis: int, dim: DimDigits) -> IndexMap:
        """Return the index map with other digits for one of the dims of the tensor."""
        return (*self.index_map[:axis], dim, *self.index_map[axis + 1 :])


class TokenDraft(Draft):
    """A draft in which layers on feature maps take the place of layers in the dims of the file.

    layers: the layers on feature maps and the moves, by name, in execution order.
    mapped: feature map and index map of each tensor of the file that has them.
    unrepeated: for a tensor that repeats a smaller one along some dims, the smaller one, whose index
    map has no digits along these dims. Such a tensor may be in `mapped`, too: with all repetitions.
    has_attention: whether a product of two tensors is among the layers.
    """

    def __init__(self, model: Model) -> None:
        super().__init__(model)
        self.layers: dict[str, Layer] = {}
        self.mapped: dict[str, MappedTensor] = {}
        self.unrepeated: dict[str, MappedTensor] = {}
        self.has_attention = False
        self._added: dict[str, Arrays] = {}  # names of layers since the last edit, and weights

    def edit(self, layer: Layer) -> Edit:
        """Return the edit that puts the layers added since the last edit in place of a layer."""
        added, self._added = self._added, {}
        return Edit(layers={layer.name: tuple(map(self.layers.__getitem__, added))}, weights=added)

    def put_moved(self, layer: Layer, tensor: MappedTensor) -> None:
        """Record that a move of the file is an index map, and add what else the move computes.

        The layer of the move is gone. If its result has another quantisation, a conversion takes its
        place; otherwise the first function of its epilogue becomes a layer, with the remaining
        functions as its epilogue.

        The pixels of an image that a matrix has as its tokens are viewed as rows. One such view after
        the patches of a vision transformer serves all its layers. Without it each attention would
        convert its operands to rows, and no fused group could span two of them.
        """
        self.mapped[layer.name] = tensor
        if self.layers[tensor.layer].quantization != layer.quantization:
            self.put(layer, op.Conversion(), [tensor.layer], tensor.index_map)
        elif layer.epilogue:
            first, *remaining = layer.epilogue
            moved = replace(layer, epilogue=tuple(remaining))
            self.put(moved, first, [tensor.layer], tensor.index_map)
        tensor = self.mapped[layer.name]
        is_image = tensor.shape.height > 1 and tensor.shape.width > 1
        if is_image and tensor.index_map == (tensor.all_pixels, tensor.all_channels):
            self.mapped[layer.name] = self._viewed_as_rows(tensor.layer, layer.shape.dims)

    def _viewed_as_rows(self, source: str, matrix: Dims) -> MappedTensor:
        """Add a view of a layer's result that has a token of a matrix in each row."""
        dims, index_map = token_rows(matrix)
        view = self.put_move_after(source, op.View(dims=dims), "as rows")
        return self.result_of(view, index_map)

    def result_of(self, layer: str, index_map: IndexMap) -> MappedTensor:
        """Return a tensor on the feature map that a rewritten layer computes."""
        return MappedTensor(layer, self.layers[layer].shape, index_map)

    def put(
        self,
        layer: Layer,
        operator: op.Operator,
        inputs: Sequence[str],
        index_map: IndexMap | None = None,
        *,
        weights: Arrays | None = None,
        stored: tuple[Stored, ...] | None = None,
    ) -> None:
        """Add a layer in place of a layer of the file, under its name.

        operator, inputs, weights, stored: as `put_copy` has them.
        index_map: of the tensor of the file on the result; None if the result has no index map.
        """
        self.put_copy(layer, layer.name, operator, inputs, weights=weights, stored=stored)
        if index_map is not None:
            self.mapped[layer.name] = self.result_of(layer.name, index_map)

    def put_copy(
        self,
        original: Layer,
        name: str,
        operator: op.Operator,
        inputs: Sequence[str],
        *,
        weights: Arrays | None = None,
        stored: tuple[Stored, ...] | None = None,
    ) -> str:
        """Add a copy of a layer under this name, with other inputs; return the name.

        original: of the file or of the draft. The copy has its quantization and epilogue.
        operator, inputs: of the copy; inputs are names of rewritten layers.
        weights, stored: of the copy; None for those of the original.
        """
        copy = replace(
            original,
            name=name,
            operator=operator,
            inputs=tuple(inputs),
            shape=operator.output_shape([self.layers[source].shape for source in inputs]),
            stored=original.stored if stored is None else stored,
        )
        arrays = self.arrays(original.name) if weights is None else weights
        return self._put(copy, arrays or {})

    def put_move(self, source: str, operator: op.Operator, name: str) -> str:
        """Add a layer of this name that only moves a rewritten layer's result; return the name."""
        layer = self.layers[source]
        shape = operator.output_shape([layer.shape])
        return self._put(layer_after(layer, name, operator, shape), {})

    def put_move_after(self, source: str, operator: op.Operator, suffix: str) -> str:
        """Add a move under a new name, the name of its source with this suffix; return the name."""
        return self.put_move(source, operator, self.new_name(f"{source} {suffix}"))

    def _put(self, layer: Layer, weights: Arrays) -> str:
        self.layers[layer.name] = layer
        self._added[layer.name] = weights
        return layer.name

    def put_unchanged(self, layer: Layer) -> None:
        """Add a layer in the dims of the file."""
        self.put(layer, layer.operator, [self.in_file_dims(source) for source in layer.inputs])
        if layer.shape.is_map:
            self.mapped[layer.name] = self.result_of(layer.name, identity_map(layer.shape.dims))

    def in_file_dims(self, name: str) -> str:
        """Return a layer that produces a tensor in the dims of the file; add moves as needed.

        The cheapest that applies: the layer itself, a view, a reordering of positions, or a
        reshape into digits, their transposition and a reshape.
        """
        tensor, dims = self.mapped.get(name), self.network.layer(name).shape.dims
        if tensor is None:
            return name
        if tensor.shape.dims == dims and tensor.index_map == identity_map(dims):
            return tensor.layer
        if tensor.is_in_memory_order:
            return self.put_move_after(tensor.layer, op.View(dims=dims), "x".join(map(str, dims)))
        if len(dims) == 3 and tensor.index_map[0] == tensor.all_channels:
            _, height, width = dims
            positions = flattened(tensor.index_map[1:])
            return self.put_reordered(tensor, positions, height=height, width=width)
        digits = digits_by_axis(tensor.index_map, tensor.shape)
        permutation = tuple(digits.index(digit) for dim in tensor.index_map for digit in dim)
        split = self.put_move_after(tensor.layer, op.Reshape(dims=digit_sizes(digits)), "cut")
        permuted = self.put_move_after(split, op.Transpose(permutation=permutation), "turned")
        return self.put_move_after(permuted, op.Reshape(dims=dims), "joined")

    def on_map(self, name: str) -> MappedTensor:
        """Return the feature map of a tensor; a matrix is viewed as one.

        Raises NoIndexMap for other ranks.
        """
        if name not in self.mapped:
            dims = self.network.layer(name).shape.dims
            if len(dims) != 2:
                raise NoIndexMap
            self.mapped[name] = self._viewed_as_rows(name, dims)
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
            name = self.new_name(f"{layer.name} once")
            self.put_copy(layer, name, operator, [tensor.layer])
            tensor = self.result_of(name, tensor.index_map)
        self.unrepeated[layer.name] = tensor

    def with_token_rows(self, name: str) -> MappedTensor:
        """Return a tensor whose last dim is contiguous in memory, and whose other dims are in order.

        The last dim has to be all channels of a pixel, or all columns and channels of a row; raises
        NoIndexMap otherwise. The other dims then enumerate pixels, or rows. If they do not do so in
        the order of memory, a reordering of the pixels is added.
        """
        tensor = self.on_map(name)
        *leading_dims, last_dim = tensor.index_map
        order_of_tokens = merged(flattened(leading_dims))
        if last_dim == tensor.all_channels:
            is_in_order = order_of_tokens == tensor.all_pixels
            return tensor if is_in_order else self.reordered_into_rows(name)
        if last_dim != (*tensor.all_columns, *tensor.all_channels):
            raise NoIndexMap
        if order_of_tokens != tensor.all_rows:
            raise NoIndexMap
        return tensor

    def reordered_into_rows(self, name: str) -> MappedTensor:
        """Add a reordering of the pixels of a tensor into rows, in the order of its dims."""
        tensor = self.mapped[name]
        positions = [digit for digit in flattened(tensor.index_map) if digit.axis != "C"]
        count = dim_size(positions)
        reordered = self.put_reordered(tensor, positions, height=count, width=1)
        rows = split_digits((Digit("Y", 1, count),), digit_sizes(positions))
        row_digits = dict(zip(positions, rows, strict=True))
        index_map = tuple(
            merged(flattened([row_digits.get(digit, (digit,)) for digit in dim]))
            for dim in tensor.index_map
        )
        self.mapped[name] = self.result_of(reordered, index_map)
        return self.mapped[name]

    def put_reordered(
        self, tensor: MappedTensor, positions: Sequence[Digit], *, height: int, width: int
    ) -> str:
        """Add a permutation of pixels into an image of this height and width; return its name.

        positions: the digits of rows and columns in the order in which they enumerate the pixels of
        the result, the slowest first. Raises NoIndexMap if they do not enumerate all pixels.
        """
        if any(position.axis == "C" for position in positions):
            raise NoIndexMap
        # The same digits as they enumerate the pixels of the source, row by row.
        source_digits = [
            digit for axis in "YX" for digit in covering_digits(axis, positions, tensor.shape)
        ]
        operator = op.PlaceOrder(
            sizes=tuple(digit.size for digit in source_digits),
            permutation=tuple(source_digits.index(position) for position in positions),
            height=height,
            width=width,
        )
        return self.put_move_after(tensor.layer, operator, "in order")

    def one_column(self, tensor: MappedTensor) -> MappedTensor:
        """Return tokens on a map of one column: all numbers of a token are channels."""
        if tensor.shape.width == 1:
            return tensor
        *leading_dims, last_dim = tensor.index_map
        numbers = dim_size(last_dim)
        tokens = tensor.shape.elements // numbers
        view = self._viewed_as_rows(tensor.layer, (tokens, numbers))
        dims = tuple(dim_size(dim) for dim in leading_dims)
        return view._replace(index_map=(*split_digits(view.all_rows, dims), view.all_channels))


TokenRule = Callable[[TokenDraft, Layer], Edit | None]
AddLayers = Callable[[TokenDraft, Layer, Any], None]  # the last: the operator of the layer


def rule_for(*kinds: type[op.Operator]) -> Callable[[AddLayers], TokenRule]:
    """Return the decorator of a rule for layers with operators of these classes.

    The decorated function gets a layer of the file and its operator, and adds layers on feature maps
    to the draft. It raises NoIndexMap if it does not match; then the next rule is tried. Layers added
    before the exception stay, and the draft drops them at the end if they have no consumer. A layer
    whose epilogue has parameters matches the last rule only.
    """

    def decorator(add_layers: AddLayers) -> TokenRule:
        @wraps(add_layers)
        def rule(draft: TokenDraft, layer: Layer) -> Edit | None:
            has_parameters = any(not function.is_scalar_function for function in layer.epilogue)
            if type(layer.operator) not in kinds or has_parameters:
                return None
            try:
                add_layers(draft, layer, layer.operator)
            except NoIndexMap:
                return None
            return draft.edit(layer)

        return rule

    return decorator


def digit_sizes(digits: Sequence[Digit]) -> Dims:
    """Return dims that are one digit each."""
    return tuple(digit.size for digit in digits) or (1,)


def token_rows(matrix: Dims) -> tuple[Dims, IndexMap]:
    """Return the dims of a feature map with a token per row, and the index map of the matrix.

    matrix: its dims, tokens x numbers.
    """
    tokens, numbers = matrix
    return (numbers, tokens, 1), (whole_axis("Y", tokens), whole_axis("C", numbers))


def in_memory_order(dims: Sequence[Dim]) -> tuple[Dim, ...]:
    """Return values of the dims of a tensor from the slowest to the fastest dim in memory.

    Of three dims, channels x rows x columns, the channels are the fastest.
    """
    return (dims[1], dims[2], dims[0]) if len(dims) == 3 else tuple(dims)

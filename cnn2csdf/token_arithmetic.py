"""Rules of `cnn2csdf.tokens` for operators that compute: products, functions of elements, reductions.

The layer on feature maps computes the numbers of the layer in the file, in other dims. The examples
show index maps as cnn2csdf.token_layers does.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from cnn2csdf import operators as op
from cnn2csdf.fixed_point.single_precision import columns_at_once
from cnn2csdf.geometry import Window
from cnn2csdf.index_maps import (
    AXES,
    Digit,
    DimDigits,
    IndexMap,
    NoIndexMap,
    array_on_map,
    broadcast_map,
    digits_along,
    dim_size,
    flattened,
    groups_and_heads,
    memory_digits,
    merged,
    slowest_first,
    varying_dims,
    whole_axis,
)
from cnn2csdf.network import Layer
from cnn2csdf.shape import Shape
from cnn2csdf.token_layers import (
    MappedTensor,
    TokenDraft,
    TokenRule,
    rule_for,
)


@rule_for(op.MatrixProduct)
def matrix_product(draft: TokenDraft, layer: Layer, operator: op.MatrixProduct) -> None:
    """A product with weights: a convolution of one pixel, or of all columns of a row.

    before: tokens 8x4 -> dense 8x6
    after:  tokens 4x8x1 -> dense 6x8x1; dense = dense[y, c]
    """
    if operator.units is None:
        raise NoIndexMap
    tensor = draft.with_token_rows(layer.inputs[0])
    *leading_dims, last_dim = tensor.index_map
    channels, units = tensor.shape.channels, operator.units
    width = 1 if last_dim == tensor.all_channels else tensor.shape.width
    operator_on_map = op.Convolution(
        filters=units,
        window=Window(kernel=(1, width)),
        has_bias=operator.has_bias,
        block=columns_at_once(channels * width, units),
    )
    arrays, weights = draft.arrays(layer.name), None
    if arrays is not None:
        matrix = arrays["matrix"].reshape(width, channels, units)
        weights = {**arrays, "kernel": np.ascontiguousarray(matrix.transpose(2, 1, 0)[:, :, None])}
        del weights["matrix"]
    stored = tuple(
        replace(stored, role="kernel", name=stored.name and f"{stored.name} by filters")
        if stored.role == "matrix"
        else stored
        for stored in layer.stored
    )
    index_map = (*leading_dims, whole_axis("C", units))
    draft.put(layer, operator_on_map, [tensor.layer], index_map, weights=weights, stored=stored)


@rule_for(op.MatrixProduct)
def product_of_tensors(draft: TokenDraft, layer: Layer, operator: op.MatrixProduct) -> None:
    """Attention scores, or values weighted by scores: a product of two tensors, head by head.

    Scores:  queries (..., tokens, numbers of a head) x keys (..., numbers of a head, keys).
    Values:  scores (..., tokens, keys) x values (..., keys, numbers of a head).
    The dims before the matrix (...) are heads, or groups of rows that are multiplied separately.

    before: query 8x4; key 5x4 -> turned 4x5; query, turned -> scores 8x5
    after:  query 4x8x1; key 4x5x1; query, key -> scores 5x8x1; scores = scores[y, c]
    """
    if operator.units is not None:
        raise NoIndexMap
    rank = len(layer.shape.dims)
    if any(len(draft.on_map(name).index_map) != rank for name in layer.inputs):
        raise NoIndexMap
    left, right = (_with_tokens_as_rows(draft, name) for name in layer.inputs)
    left_batch, left_matrix = left.index_map[:-2], left.index_map[-2:]
    right_batch, right_matrix = right.index_map[:-2], right.index_map[-2:]
    groups, heads = groups_and_heads(left_batch, left.shape)
    if (groups, heads) != groups_and_heads(right_batch, right.shape):
        raise NoIndexMap
    tokens, left_numbers = _rows_and_numbers(left.shape, groups, heads)
    keys, right_numbers = _rows_and_numbers(right.shape, groups, heads)
    if left_matrix != (tokens, left_numbers):
        raise NoIndexMap
    if right_matrix == (right_numbers, keys):
        gives, channels = "scores", dim_size(keys)
    elif right_matrix == (keys, right_numbers) and left.shape.width == heads:
        # The left operand has the form of scores: heads are columns, and keys all channels of a pixel.
        gives, channels = "values", dim_size(right_numbers)
    else:
        raise NoIndexMap
    product = op.AttentionProduct(gives=gives, heads=heads, groups=groups)
    # In the result the heads are columns, whatever they are in the left operand.
    result_batch = [
        tuple(digit if digit.axis == "Y" else Digit("X", 1, heads) for digit in dim)
        for dim in left_batch
    ]
    index_map = (*result_batch, tokens, whole_axis("C", channels))
    draft.put(layer, product, [left.layer, right.layer], index_map)
    draft.has_attention = True


def _rows_and_numbers(shape: Shape, groups: int, heads: int) -> tuple[DimDigits, DimDigits]:
    """The digits of the rows of a group, and of the numbers of a head, of an operand of a product."""
    numbers = shape.channels * shape.width // heads
    return whole_axis("Y", shape.height // groups), whole_axis("C", numbers)


def _with_tokens_as_rows(draft: TokenDraft, name: str) -> MappedTensor:
    """An operand of a product with its tokens as rows; pixels of several columns are reordered.

    Columns stay if they are the heads: all columns are a batch dim, and the numbers are channels.
    """
    tensor = draft.on_map(name)
    columns_are_heads = tensor.shape.channels > 1 and tensor.all_columns in tensor.index_map[:-2]
    if tensor.shape.width == 1 or columns_are_heads:
        return tensor
    return draft.reordered_into_rows(name)


@rule_for(op.Activation, op.Conversion, op.Identity)
def elements_one_by_one(draft: TokenDraft, layer: Layer, operator: op.Operator) -> None:
    """A function of single elements keeps the index map. Slopes by channel have no rule.

    before: tokens 8x4 -> turned 4x8 -> relu 4x8
    after:  tokens 4x8x1 -> relu 4x8x1; relu = relu[c, y]
    """
    tensor = draft.on_map(layer.inputs[0])
    if operator.trained(draft.network.input_shapes(layer)):
        raise NoIndexMap
    draft.put(layer, operator, [tensor.layer], tensor.index_map)
    draft.put_unrepeated(layer, operator)


@rule_for(op.Embedding)
def embedding(draft: TokenDraft, layer: Layer, operator: op.Operator) -> None:
    """Rows of a table, one per token number: each becomes the channels of the token's pixel.

    before: numbers 1x8x1 -> rows 4x8x1
    after:  numbers 1x8x1 -> rows 4x8x1; rows = rows[c, y, 0]
    """
    tensor = draft.on_map(layer.inputs[0])
    if tensor.shape != draft.network.input_shapes(layer)[0]:
        raise NoIndexMap
    index_map = (whole_axis("C", layer.shape.channels), *tensor.index_map[1:])
    draft.put(layer, operator, [tensor.layer], index_map)


@rule_for(op.Choice)
def choice_between_scalars(draft: TokenDraft, layer: Layer, operator: op.Choice) -> None:
    """A choice by one tensor between two scalars is a function of its elements.

    before: scores 2x8x4; mask 1x8x4 -> spread 2x8x4 -> bias 2x8x4; scores, bias -> masked 2x8x4
    after:  scores 2x8x4; mask 1x8x4 -> bias once 1x8x4; scores, bias once -> masked 2x8x4; masked =
            masked[c, y, x]
    """
    if len(layer.inputs) == 1 and all(set(dims) == {1} for _, dims in operator.constants):
        draft.put_unrepeated(layer, operator)  # for consumers that broadcast
    draft.put_unchanged(layer)  # for all others


@rule_for(op.Elementwise)
def elementwise(draft: TokenDraft, layer: Layer, operator: op.Elementwise) -> None:
    """An elementwise operator with broadcasting, of tensors and at most one constant.

    before: tokens 8x4 -> turned 4x8 -> shifted 4x8
    after:  tokens 4x8x1 -> shifted 4x8x1; shifted = shifted[c, y]
    """
    if not all(name in draft.mapped for name in layer.inputs):
        raise NoIndexMap
    tensors = [draft.unrepeated.get(name) or draft.on_map(name) for name in layer.inputs]
    index_maps = [tensor.index_map for tensor in tensors]
    index_map = broadcast_map(index_maps, layer.shape.dims, operator.constant)
    shape = Shape(dims=tuple(dim_size(digits_along(axis, index_map)) for axis in AXES))
    operands = [_aligned_operand(draft, tensor, index_map, shape) for tensor in tensors]
    weights = draft.arrays(layer.name)
    if operator.constant is not None:
        dims = varying_dims(operator.constant, index_map, shape)
        operator = replace(operator, constant=dims)
        if weights is not None:
            constant = np.broadcast_to(weights["constant"], layer.shape.dims)
            varying = tuple(slice(size) for size in dims)  # element 0 of the axes of size 1
            on_map = array_on_map(constant, index_map, shape)[varying]
            weights = {**weights, "constant": np.ascontiguousarray(on_map)}
    stored = tuple(
        replace(stored, name=None) if stored.role == "constant" else stored
        for stored in layer.stored
    )
    draft.put(layer, operator, operands, index_map, weights=weights, stored=stored)


def _aligned_operand(
    draft: TokenDraft, tensor: MappedTensor, index_map: IndexMap, shape: Shape
) -> str:
    """The layer whose map has the elements of an operand where the result has them, or broadcasts.

    This is the layer of the operand, or a view of its map in other dims. Raises NoIndexMap if elements
    would have to move.

    index_map, shape: of the result. For a result of 8 tokens x 4 numbers with the map [y, c], an
    operand of 4 numbers that are the rows of its map, [y], is viewed as 4 channels, [c].
    """
    missing_dims = len(index_map) - len(tensor.index_map)
    present_map: IndexMap = (*((),) * missing_dims, *tensor.index_map)
    # The operand needs the digits of the result, without dims along which the operand is broadcast.
    needed_map = tuple(
        of_result if present else ()
        for present, of_result in zip(present_map, index_map, strict=True)
    )
    sizes = zip(tensor.shape.dims, shape.dims, strict=True)
    if present_map == needed_map and all(size in (1, of_result) for size, of_result in sizes):
        return tensor.layer
    operand_dims = tuple(map(dim_size, present_map))
    needed_shape = Shape(dims=varying_dims(operand_dims, index_map, shape))
    has_same_dims = operand_dims == tuple(map(dim_size, needed_map))
    # A view keeps the order of the elements in memory, so in both maps the dims follow this order.
    if not (
        has_same_dims
        and merged(flattened(present_map)) == memory_digits(tensor.shape)
        and merged(flattened(needed_map)) == memory_digits(needed_shape)
    ):
        raise NoIndexMap
    return draft.put_move_after(tensor.layer, op.View(dims=needed_shape.dims), "as others")


@rule_for(op.LayerNormalization)
def layer_normalization(draft: TokenDraft, layer: Layer, operator: op.LayerNormalization) -> None:
    """Normalisation over the numbers of a token becomes one over channels.

    before: tokens 8x4 -> norm 8x4
    after:  tokens 4x8x1 -> norm 4x8x1; norm = norm[y, c]
    """
    if operator.last is not None or operator.axis != len(layer.shape.dims) - 1:
        raise NoIndexMap
    tensor = draft.with_token_rows(layer.inputs[0])
    if tensor.index_map[-1] != tensor.all_channels:
        tensor = draft.one_column(tensor)  # a token is all columns and channels of a row
    over_channels = replace(operator, axis=0, last=0)
    draft.put(layer, over_channels, [tensor.layer], tensor.index_map)


@rule_for(op.Softmax)
def softmax(draft: TokenDraft, layer: Layer, operator: op.Softmax) -> None:
    """Softmax over the scores of a token becomes one over channels.

    before: tokens 8x4 -> shares 8x4
    after:  tokens 4x8x1 -> shares 4x8x1; shares = shares[y, c]
    """
    axis = operator.axis
    if operator.last not in (None, axis):
        raise NoIndexMap
    tensor = draft.on_map(layer.inputs[0])
    if axis != len(layer.shape.dims) - 1 or tensor.index_map[-1] != tensor.all_channels:
        raise NoIndexMap
    over_channels = replace(operator, axis=0, last=None)
    draft.put(layer, over_channels, [tensor.layer], tensor.index_map)


@rule_for(op.Reduction)
def reduction(draft: TokenDraft, layer: Layer, operator: op.Reduction) -> None:
    """A reduction over the numbers of a token becomes one over channels; over all tokens, pixels.

    before: tokens 8x4 -> mean 4
    after:  tokens 4x8x1 -> mean 4x1x1; mean = mean[c]
    """
    if layer.inputs[0] not in draft.mapped:
        raise NoIndexMap
    tensor = draft.on_map(layer.inputs[0])
    axes = set(operator.axes)
    digits = [digit for axis in axes for digit in tensor.index_map[axis]]
    reduced = merged(slowest_first(digits))
    axes_on_map = {tensor.all_channels: (0,), tensor.all_pixels: (1, 2)}
    if not reduced or reduced not in axes_on_map:
        raise NoIndexMap
    index_map = tuple(
        () if axis in axes else dim
        for axis, dim in enumerate(tensor.index_map)
        if operator.keeps or axis not in axes
    )
    on_map = replace(operator, axes=axes_on_map[reduced], keeps=True)
    draft.put(layer, on_map, [tensor.layer], index_map or ((),))


RULES: tuple[TokenRule, ...] = (
    matrix_product,
    product_of_tensors,
    elements_one_by_one,
    embedding,
    choice_between_scalars,
    elementwise,
    layer_normalization,
    softmax,
    reduction,
)

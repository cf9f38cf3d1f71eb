"""Rewriting of attention to feature maps with one token per row.

Model files write attention with matrices (tokens x width), split into heads by reshapes and
transpositions. Here each matrix becomes a feature map of one column: rows are tokens, channels
are the numbers of a token, and the bytes in memory are the same. A reshape or transposition then
moves no element: it only changes the index map of its result (cnn2csdf.index_maps). For 8 tokens
of width 4 and 2 heads:

    query  8 x 4                      feature map of 8 rows, 1 column, 4 channels
    Reshape 8 x 2 x 2                 no layer; heads are channel // 2
    Transpose to heads x 8 x 2        no layer; dims are (heads, tokens, numbers)
    MatMul with the keys              a product head by head, one row of scores for each token

Products with weights become 1x1 convolutions; products of two tensors are computed head by head.
Each layer then needs one input row per output row, or all rows of keys and values, so it can be
fused and streamed like a convolution. Scores, softmax and weighted values are computed as in the
file: the result does not change.

A tensor that repeats a smaller one, such as a mask for each head, has two forms in the draft. Its layer
repeats the elements for consumers that need all of them (`mapped`); broadcasts read the smaller tensor
instead (`unrepeated`), and a layer without consumers is left out.

`tokens_as_rows` offers each layer to the rules of `RULES` (cnn2csdf.rewriting). A rule adds the layers
on feature maps, or raises NoIndexMap; the last rule keeps the dims of the file. The examples of the
rules show index maps as cnn2csdf.token_layers does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import wraps
from typing import Any

import numpy as np

from cnn2csdf import operators as op
from cnn2csdf.dtypes import Stored
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
    identity_map,
    map_after_selection,
    memory_digits,
    merged,
    pixel_digits,
    repeated_channels,
    slowest_first,
    split_digits,
    varying_dims,
    whole_axis,
)
from cnn2csdf.network import Layer, Network
from cnn2csdf.rewriting import Draft, Edit, edited, rewritten
from cnn2csdf.rings import with_heads_as_columns
from cnn2csdf.shape import Shape
from cnn2csdf.token_layers import (
    MappedTensor,
    TokenDraft,
    in_memory_order,
    is_in_memory_order,
    token_rows,
)
from cnn2csdf.weights import Model


def tokens_as_rows(model: Model) -> Model:
    """Return the model with attention on maps of token rows; the same model if it has no attention.

    Layers keep their names; inputs and outputs of the network keep the dims of the file.
    """
    if not any(layer.operator.multiplies_inputs for layer in model.network.layers):
        return model
    draft = TokenDraft(with_heads_as_columns(model))
    on_maps = edited(draft, *RULES)
    return with_masks_of_readers(on_maps) if draft.has_attention else model


def with_masks_of_readers(model: Model) -> Model:
    """Return the model with a copy of the layers of an attention mask for each reader of the mask.

    The copies are next to the reader, so only the mask itself, an input of the network after the
    first, is stored from one attention block to the next.

    before: image 1x4x4; mask 1x4x4 -> far 1x4x4; image, far -> first 1x4x4; first, far -> second
            1x4x4
    after:  image 1x4x4; mask 1x4x4 -> far for first 1x4x4; image, far for first -> first 1x4x4;
            mask -> far for second 1x4x4; first, far for second -> second 1x4x4
    """
    network = model.network
    masks = _mask_layers(network)

    def with_copies(draft: Draft, layer: Layer) -> Edit | None:
        if layer.name in masks or masks.isdisjoint(layer.inputs):
            return None
        copies: dict[str, Layer] = {}  # by the name of the original, sources first

        def copied(name: str) -> str:
            if name not in masks:
                return name
            if name not in copies:
                sources = tuple(map(copied, network.layer(name).inputs))
                copy_name = draft.new_name(f"{name} for {layer.name}")
                copies[name] = replace(network.layer(name), name=copy_name, inputs=sources)
            return copies[name].name

        reader = replace(layer, inputs=tuple(map(copied, layer.inputs)))
        return Edit(
            layers={layer.name: (*copies.values(), reader)},
            weights={copy.name: draft.arrays(name) or {} for name, copy in copies.items()},
        )

    return rewritten(model, with_copies)


def _mask_layers(network: Network) -> set[str]:
    """The layers that prepare an attention mask: cheap operators on inputs after the first.

    Cheap operators are those of `copies_masks`, and elementwise functions of a tensor and a constant.
    """
    mask_inputs = {layer.name for layer in network.inputs[1:]}
    mask_layers: set[str] = set()
    for layer in network.layers:
        is_elementwise = layer.operator.elementwise_function is not None
        is_cheap = layer.operator.copies_masks or (is_elementwise and len(layer.inputs) == 1)
        if is_cheap and (mask_layers | mask_inputs).issuperset(layer.inputs):
            mask_layers.add(layer.name)
    return mask_layers


TokenRule = Callable[[TokenDraft, Layer], Edit | None]


def rule_for(
    *kinds: type[op.Operator],
) -> Callable[[Callable[[TokenDraft, Layer, Any], None]], TokenRule]:
    """Return the decorator of a rule for layers with operators of these classes.

    The decorated function gets a layer of the file and its operator, and adds layers on feature maps
    to the draft. It raises NoIndexMap if it does not match; then the next rule is tried. Layers added
    before the exception stay, and the draft drops them at the end if they have no consumer. A layer
    whose epilogue has parameters matches the last rule only.
    """

    def decorator(add_layers: Callable[[TokenDraft, Layer, Any], None]) -> TokenRule:
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


def in_file_dims(draft: TokenDraft, layer: Layer) -> Edit:
    """The last rule: a layer in the dims of the file, with moves that give its operands these dims.

    before: tokens 8x4 -> sums 8x4
    after:  tokens 4x8x1 -> tokens 8x4 8x4 -> sums 8x4
    """
    draft.put_unchanged(layer)
    return draft.edit(layer)


@rule_for(op.Input)
def matrix_input(draft: TokenDraft, layer: Layer, _operator: op.Operator) -> None:
    """An input matrix is a feature map of token rows.

    before: tokens 8x4
    after:  tokens 4x8x1; tokens = tokens[y, c]
    """
    dims = layer.shape.dims
    if len(dims) != 2 or dims[0] == 1:
        raise NoIndexMap
    map_dims, index_map = token_rows(dims)
    draft.put(layer, op.Input(dims=map_dims, file_dims=dims), (), index_map)


@rule_for(op.Output)
def output_from_map(draft: TokenDraft, layer: Layer, _operator: op.Operator) -> None:
    """An output reads the map directly if the elements are in the order of the file.

    before: tokens 8x4 -> result 8x4
    after:  tokens 4x8x1 -> result 8x4
    """
    tensor, dims = draft.on_map(layer.inputs[0]), layer.shape.dims
    shape = draft.shape_of(tensor)
    if shape.dims == dims and tensor.index_map == identity_map(dims):
        draft.put(layer, op.Output(), [tensor.layer])
    elif is_in_memory_order(tensor.index_map, shape):
        draft.put(layer, op.Output(dims=dims), [tensor.layer])
    else:
        raise NoIndexMap


@rule_for(op.Reshape)
def reshape(draft: TokenDraft, layer: Layer, _operator: op.Operator) -> None:
    """A reshape changes the index map only.

    before: image 4x2x3 -> rows 4x6
    after:  image 4x2x3; rows = image[c, y x]
    """
    tensor = draft.on_map(layer.inputs[0])
    digits = flattened(tensor.index_map)
    index_map = split_digits(digits, layer.shape.dims)
    draft.put_moved(layer, MappedTensor(tensor.layer, index_map))


@rule_for(op.View)
def view(draft: TokenDraft, layer: Layer, _operator: op.Operator) -> None:
    """A view is a reshape in the order of memory: pixel by pixel, channels fastest.

    before: image 4x2x3 -> tokens 6x4
    after:  image 4x2x3 -> image as rows 4x6x1; tokens = image as rows[y, c]
    """
    tensor, dims = draft.on_map(layer.inputs[0]), layer.shape.dims
    digits = flattened(in_memory_order(tensor.index_map))
    index_map = split_digits(digits, in_memory_order(dims))
    if len(dims) == 3:
        rows, columns, channels = index_map
        index_map = (channels, rows, columns)
    draft.put_moved(layer, MappedTensor(tensor.layer, index_map))


@rule_for(op.Transpose)
def transposition(draft: TokenDraft, layer: Layer, operator: op.Transpose) -> None:
    """A transposition permutes the dims of the index map.

    before: tokens 8x4 -> turned 4x8
    after:  tokens 4x8x1; turned = tokens[c, y]
    """
    tensor = draft.on_map(layer.inputs[0])
    index_map = tuple(tensor.index_map[axis] for axis in operator.permutation)
    permuted = MappedTensor(tensor.layer, index_map)
    draft.put_moved(layer, _heads_viewed_as_columns(draft, layer, permuted))


def _heads_viewed_as_columns(draft: TokenDraft, layer: Layer, tensor: MappedTensor) -> MappedTensor:
    """The tensor heads x tokens x numbers of a layer; its heads as columns, if numbers are sliced.

    A rotary embedding slices the numbers of each head. With the heads as columns, this is a slice of
    channels; with the heads as digits of the channels, it would gather channels head by head.
    """
    shape = draft.shape_of(tensor)
    if len(tensor.index_map) != 3 or shape.width > 1:
        return tensor
    heads, tokens, numbers = tensor.index_map
    width = dim_size(numbers)
    count = shape.channels // width
    if numbers != whole_axis("C", width) or heads != (Digit("C", width, count),):
        return tensor
    ranges = [consumer.operator.sliced_range for consumer in draft.readers(layer.name)]
    if not any(sliced is not None and sliced.axis == 2 for sliced in ranges):
        return tensor
    view = op.View(dims=(width, shape.height, count))
    name = draft.put_move_after(tensor.layer, view, "by heads")
    return MappedTensor(name, (whole_axis("X", count), tokens, numbers))


@rule_for(op.Slice)
def range_of_positions(draft: TokenDraft, layer: Layer, operator: op.Slice) -> None:
    """A slice selects a range of positions along a dim.

    before: tokens 8x4 -> last 3x4
    after:  tokens 4x8x1 -> last 4x3x1; last = last[y, c]
    """
    positions = range(draft.network.input_shapes(layer)[0].dims[operator.axis])
    sliced = positions[operator.start : operator.stop : operator.step]
    _select(draft, layer, operator.axis, sliced)


@rule_for(op.Gather)
def gather(draft: TokenDraft, layer: Layer, operator: op.Gather) -> None:
    """A gather selects listed positions along a dim.

    before: tokens 8x4 -> dense 8x6 -> three 8x3x2 -> query 8x1x2
    after:  tokens 4x8x1 -> query 2x8x1; query = query[y, 0, c]
    """
    _select(draft, layer, operator.axis, operator.places)


def _select(draft: TokenDraft, layer: Layer, axis: int, positions: Sequence[int]) -> None:
    """Select positions along a dim of a tensor, which has to be one digit of its index map.

    The result is, on a map of several columns, a slice of consecutive channels; or a slice of evenly
    spaced rows; or a layer that computes the channels with ascending values of a digit, such as the
    first numbers of each head.
    """
    tensor = draft.on_map(layer.inputs[0])
    shape, dim = draft.shape_of(tensor), tensor.index_map[axis]
    spaced = _evenly_spaced(positions)
    has_all_channels = dim == whole_axis("C", shape.channels)
    if shape.width > 1 and has_all_channels and spaced is not None and spaced.step == 1:
        _put_slice(draft, layer, axis, "C", spaced)
        return
    dims = draft.network.input_shapes(layer)[0].dims
    is_feature_map = len(dims) == 3 and tensor.index_map == identity_map(dims)
    if is_feature_map or layer.epilogue or len(dim) != 1:
        raise NoIndexMap  # the last rule selects in the dims of the file
    (digit,) = dim
    if digit == Digit("Y", 1, shape.height) and spaced is not None:
        _put_slice(draft, layer, axis, "Y", spaced)
    elif digit.axis == "C" and list(positions) == sorted(set(positions)):
        digit_of_channel = np.arange(shape.channels) // digit.stride % digit.size
        channels = np.flatnonzero(np.isin(digit_of_channel, positions)).tolist()
        _put_channels(draft, layer.name, tensor.layer, channels)
        index_map = map_after_selection(tensor.index_map, digit, len(positions))
        draft.mapped[layer.name] = MappedTensor(layer.name, index_map)
    else:
        raise NoIndexMap


def _evenly_spaced(positions: Sequence[int]) -> range | None:
    """The positions as a range; None unless they ascend in equal steps."""
    step = positions[1] - positions[0] if len(positions) > 1 else 1
    spaced = range(positions[0], positions[-1] + 1, max(step, 1))
    return spaced if list(spaced) == list(positions) else None


def _put_slice(draft: TokenDraft, layer: Layer, axis: int, map_axis: str, positions: range) -> None:
    """Add a slice of a feature map, for positions along a dim that is an entire axis of the map."""
    tensor = draft.on_map(layer.inputs[0])
    operator = op.Slice(
        axis=AXES.index(map_axis),
        start=positions.start,
        stop=positions.stop,
        step=positions.step,
    )
    index_map = _with_dim(tensor, axis, whole_axis(map_axis, len(positions)))
    draft.put(layer, operator, [tensor.layer], index_map)


def _with_dim(tensor: MappedTensor, axis: int, dim: DimDigits) -> IndexMap:
    """The index map of a tensor with other digits for one of its dims."""
    return (*tensor.index_map[:axis], dim, *tensor.index_map[axis + 1 :])


def _put_channels(draft: TokenDraft, name: str, source: str, channels: Sequence[int]) -> None:
    """Add a layer of this name whose result is some channels of the result of another layer.

    A convolution is copied with the filters of these channels, and so are the elementwise layers
    between the convolution and the result. The result of any other layer is sliced or gathered.

    source: the layer on a feature map whose channels are selected.
    """
    producer = draft.layers[source]
    operator = producer.operator.of_channels(len(channels))
    if operator is None or producer.epilogue or len(producer.inputs) != 1:
        first, end = channels[0], channels[-1] + 1
        move: op.Operator = op.Gather(axis=0, places=tuple(channels))
        if len(channels) == end - first:
            move = op.Slice(axis=0, start=first, stop=end)
        draft.put_move(source, move, name)
        return
    (operand,) = producer.inputs
    # An operand of a single channel that is broadcast along the channels of a constant stays whole.
    if operator.is_elementwise and draft.layers[operand].shape.channels == producer.shape.channels:
        operand = draft.new_name(f"{operand} for {name}")
        _put_channels(draft, operand, producer.inputs[0], channels)
    weights = {
        role: array[channels] if array.shape[0] > 1 else array
        for role, array in (draft.arrays(source) or {}).items()
    }
    stored = tuple(_stored_filters(array, channels) for array in producer.stored)
    draft.put_copy(producer, name, operator, [operand], weights=weights, stored=stored)


def _stored_filters(stored: Stored, filters: Sequence[int]) -> Stored:
    """The description of a stored array after some of its filters have been selected."""
    types = stored.quantization
    if types is not None and len(types.scales) > 1:
        types = replace(types, scales=tuple(types.scales[number] for number in filters))
    # Layers with arrays of one name share them in flash, so the name tells all selections apart.
    name = stored.name and f"{stored.name} {in_runs(filters)}"
    return replace(stored, quantization=types, name=name)


def in_runs(numbers: Iterable[int]) -> str:
    """Return numbers in runs of equal steps, `first:step:count`; two sequences have two texts.

    Example: 0, 2, 4, 6, 9 are `0:2:4,9`.
    """
    runs: list[list[int]] = []
    for number in numbers:
        run = runs[-1] if runs else []
        if run and (len(run) == 1 or number - run[-1] == run[1] - run[0]):
            run.append(number)
        else:
            runs.append([number])
    return ",".join(
        ",".join(map(str, run)) if len(run) < 3 else f"{run[0]}:{run[1] - run[0]}:{len(run)}"
        for run in runs
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
    shape, units = draft.shape_of(tensor), operator.units
    *leading_dims, last_dim = tensor.index_map
    width = 1 if last_dim == whole_axis("C", shape.channels) else shape.width
    operator_on_map = op.Convolution(
        filters=units,
        window=Window(kernel=(1, width)),
        has_bias=operator.has_bias,
        block=columns_at_once(shape.channels * width, units),
    )
    arrays, weights = draft.arrays(layer.name), None
    if arrays is not None:
        matrix = arrays["matrix"].reshape(width, shape.channels, units)
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
    left_shape, right_shape = draft.shape_of(left), draft.shape_of(right)
    groups, heads = groups_and_heads(left_batch, left_shape)
    if (groups, heads) != groups_and_heads(right_batch, right_shape):
        raise NoIndexMap
    tokens, left_numbers = _rows_and_numbers(left_shape, groups, heads)
    keys, right_numbers = _rows_and_numbers(right_shape, groups, heads)
    if left_matrix != (tokens, left_numbers):
        raise NoIndexMap
    if right_matrix == (right_numbers, keys):
        gives, channels = "scores", dim_size(keys)
    elif right_matrix == (keys, right_numbers) and left_shape.width == heads:
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
    shape = draft.shape_of(tensor)
    columns_are_heads = shape.channels > 1 and whole_axis("X", shape.width) in tensor.index_map[:-2]
    if shape.width == 1 or columns_are_heads:
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
    if draft.shape_of(tensor).dims != draft.network.input_shapes(layer)[0].dims:
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


@rule_for(op.Repeat)
def repetition(draft: TokenDraft, layer: Layer, operator: op.Repeat) -> None:
    """A repetition along a dim of size 1: broadcasts read the tensor without it.

    Only heads of keys or values that several queries share (more than three dims) are copied.

    before: scores 2x8x4; mask 1x8x4 -> spread 2x8x4; scores, spread -> masked 2x8x4
    after:  scores 2x8x4; mask 1x8x4; scores, mask -> masked 2x8x4; masked = masked[c, y, x]
    """
    axis, times = operator.axis, operator.times
    if draft.network.input_shapes(layer)[0].dims[axis] > 1:
        raise NoIndexMap
    draft.put_unrepeated(layer)  # for consumers that broadcast; the layers below are for all others
    if len(layer.shape.dims) <= 3:
        draft.put_unchanged(layer)
        return
    tensor = draft.on_map(layer.inputs[0])
    positions, index_map = repeated_channels(tensor.index_map, axis, times, draft.shape_of(tensor))
    draft.put(layer, op.Gather(axis=0, places=positions), [tensor.layer], index_map)


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
    present_shape = draft.shape_of(tensor)
    missing_dims = len(index_map) - len(tensor.index_map)
    present_map: IndexMap = (*((),) * missing_dims, *tensor.index_map)
    # The operand needs the digits of the result, without dims along which the operand is broadcast.
    needed_map = tuple(
        of_result if present else ()
        for present, of_result in zip(present_map, index_map, strict=True)
    )
    sizes = zip(present_shape.dims, shape.dims, strict=True)
    if present_map == needed_map and all(size in (1, of_result) for size, of_result in sizes):
        return tensor.layer
    operand_dims = tuple(map(dim_size, present_map))
    needed_shape = Shape(dims=varying_dims(operand_dims, index_map, shape))
    has_same_dims = operand_dims == tuple(map(dim_size, needed_map))
    # A view keeps the order of the elements in memory, so in both maps the dims follow this order.
    if not (
        has_same_dims
        and merged(flattened(present_map)) == memory_digits(present_shape)
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
    if tensor.index_map[-1] != whole_axis("C", draft.shape_of(tensor).channels):
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
    channels = whole_axis("C", draft.shape_of(tensor).channels)
    if axis != len(layer.shape.dims) - 1 or tensor.index_map[-1] != channels:
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
    shape, axes = draft.shape_of(tensor), set(operator.axes)
    digits = [digit for axis in axes for digit in tensor.index_map[axis]]
    reduced = merged(slowest_first(digits))
    axes_on_map = {whole_axis("C", shape.channels): (0,), pixel_digits(shape): (1, 2)}
    if not reduced or reduced not in axes_on_map:
        raise NoIndexMap
    index_map = tuple(
        () if axis in axes else dim
        for axis, dim in enumerate(tensor.index_map)
        if operator.keeps or axis not in axes
    )
    on_map = replace(operator, axes=axes_on_map[reduced], keeps=True)
    draft.put(layer, on_map, [tensor.layer], index_map or ((),))


@rule_for(op.Concatenation, op.ConstantConcatenation)
def concatenation(draft: TokenDraft, layer: Layer, operator: Any) -> None:
    """A concatenation of feature maps by channel, or of matrices along tokens or numbers.

    before: tokens 8x4; state 3x4; state, tokens -> joined 11x4
    after:  tokens 4x8x1; state 4x3x1; state, tokens -> joined 4x11x1; joined = joined[y, c]
    """
    if operator.joined_axis is not None and len(layer.shape.dims) == 3:
        _concatenation_of_channels(draft, layer, operator.axis)
        return
    tensors = [draft.one_column(draft.with_token_rows(name)) for name in layer.inputs]
    if len(layer.shape.dims) != 2:
        raise NoIndexMap
    operator = replace(operator, axis=1 if operator.axis == 0 else 0)
    weights = {
        role: np.ascontiguousarray(array.T[:, :, None])
        for role, array in (draft.arrays(layer.name) or {}).items()
    }
    if constants := getattr(operator, "constants", ()):
        on_map = tuple((position, token_rows(dims)[0]) for position, dims in constants)
        operator = replace(operator, constants=on_map)
    _, index_map = token_rows(layer.shape.dims)
    stored = tuple(replace(stored, name=None) for stored in layer.stored)
    inputs = [tensor.layer for tensor in tensors]
    draft.put(layer, operator, inputs, index_map, weights=weights, stored=stored)


def _concatenation_of_channels(draft: TokenDraft, layer: Layer, axis: int) -> None:
    """A concatenation along a dim that is all channels of each input; other dims must agree."""
    tensors = [draft.on_map(name) for name in layer.inputs]
    other_dims = {_with_dim(tensor, axis, ()) for tensor in tensors}
    channels = [draft.shape_of(tensor).channels for tensor in tensors]
    all_channels = [whole_axis("C", count) for count in channels]
    if len(other_dims) > 1 or [tensor.index_map[axis] for tensor in tensors] != all_channels:
        raise NoIndexMap
    index_map = _with_dim(tensors[0], axis, whole_axis("C", sum(channels)))
    draft.put(layer, op.Concatenation(), [tensor.layer for tensor in tensors], index_map)


RULES: tuple[TokenRule, ...] = (
    matrix_input,
    output_from_map,
    reshape,
    view,
    transposition,
    range_of_positions,
    gather,
    matrix_product,
    product_of_tensors,
    elements_one_by_one,
    embedding,
    choice_between_scalars,
    repetition,
    elementwise,
    layer_normalization,
    softmax,
    reduction,
    concatenation,
    in_file_dims,
)

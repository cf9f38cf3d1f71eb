"""Rules of `cnn2csdf.tokens` for operators that move elements: reshapes, slices, concatenations.

A move of the file usually becomes another index map of the same feature map, without a layer. The
examples show index maps as cnn2csdf.token_layers does.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from cnn2csdf import operators as op
from cnn2csdf.dtypes import Stored
from cnn2csdf.index_maps import (
    AXES,
    Digit,
    NoIndexMap,
    dim_size,
    flattened,
    identity_map,
    map_after_selection,
    repeated_channels,
    split_digits,
    whole_axis,
)
from cnn2csdf.network import Layer
from cnn2csdf.token_layers import (
    MappedTensor,
    TokenDraft,
    TokenRule,
    in_memory_order,
    rule_for,
    token_rows,
)


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
    if tensor.shape.dims == dims and tensor.index_map == identity_map(dims):
        draft.put(layer, op.Output(), [tensor.layer])
    elif tensor.is_in_memory_order:
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
    index_map = split_digits(flattened(tensor.index_map), layer.shape.dims)
    draft.put_moved(layer, tensor._replace(index_map=index_map))


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
    draft.put_moved(layer, tensor._replace(index_map=index_map))


@rule_for(op.Transpose)
def transposition(draft: TokenDraft, layer: Layer, operator: op.Transpose) -> None:
    """A transposition permutes the dims of the index map.

    before: tokens 8x4 -> turned 4x8
    after:  tokens 4x8x1; turned = tokens[c, y]
    """
    tensor = draft.on_map(layer.inputs[0])
    index_map = tuple(tensor.index_map[axis] for axis in operator.permutation)
    permuted = tensor._replace(index_map=index_map)
    draft.put_moved(layer, _heads_viewed_as_columns(draft, layer, permuted))


def _heads_viewed_as_columns(draft: TokenDraft, layer: Layer, tensor: MappedTensor) -> MappedTensor:
    """The tensor heads x tokens x numbers of a layer; its heads as columns, if numbers are sliced.

    A rotary embedding slices the numbers of each head. With the heads as columns, this is a slice of
    channels; with the heads as digits of the channels, it would gather channels head by head.
    """
    if len(tensor.index_map) != 3 or tensor.shape.width > 1:
        return tensor
    heads, tokens, numbers = tensor.index_map
    width = dim_size(numbers)
    count = tensor.shape.channels // width
    if numbers != whole_axis("C", width) or heads != (Digit("C", width, count),):
        return tensor
    ranges = [consumer.operator.sliced_range for consumer in draft.readers(layer.name)]
    if not any(sliced is not None and sliced.axis == 2 for sliced in ranges):
        return tensor
    view = op.View(dims=(width, tensor.shape.height, count))
    name = draft.put_move_after(tensor.layer, view, "by heads")
    return draft.result_of(name, (whole_axis("X", count), tokens, numbers))


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
    dim, spaced = tensor.index_map[axis], _evenly_spaced(positions)
    is_consecutive = spaced is not None and spaced.step == 1
    if tensor.shape.width > 1 and dim == tensor.all_channels and spaced and is_consecutive:
        _put_slice(draft, layer, axis, "C", spaced)
        return
    dims = draft.network.input_shapes(layer)[0].dims
    is_feature_map = len(dims) == 3 and tensor.index_map == identity_map(dims)
    if is_feature_map or layer.epilogue or len(dim) != 1:
        raise NoIndexMap  # the last rule selects in the dims of the file
    (digit,) = dim
    if dim == tensor.all_rows and spaced is not None:
        _put_slice(draft, layer, axis, "Y", spaced)
    elif digit.axis == "C" and list(positions) == sorted(set(positions)):
        digit_of_channel = np.arange(tensor.shape.channels) // digit.stride % digit.size
        channels = np.flatnonzero(np.isin(digit_of_channel, positions)).tolist()
        _put_channels(draft, layer.name, tensor.layer, channels)
        index_map = map_after_selection(tensor.index_map, digit, len(positions))
        draft.mapped[layer.name] = draft.result_of(layer.name, index_map)
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
    index_map = tensor.with_dim(axis, whole_axis(map_axis, len(positions)))
    draft.put(layer, operator, [tensor.layer], index_map)


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
    positions, index_map = repeated_channels(tensor.index_map, axis, times, tensor.shape)
    draft.put(layer, op.Gather(axis=0, places=positions), [tensor.layer], index_map)


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
    other_dims = {tensor.with_dim(axis, ()) for tensor in tensors}
    are_channels = all(tensor.index_map[axis] == tensor.all_channels for tensor in tensors)
    if len(other_dims) > 1 or not are_channels:
        raise NoIndexMap
    channels = sum(tensor.shape.channels for tensor in tensors)
    index_map = tensors[0].with_dim(axis, whole_axis("C", channels))
    draft.put(layer, op.Concatenation(), [tensor.layer for tensor in tensors], index_map)


RULES: tuple[TokenRule, ...] = (
    matrix_input,
    output_from_map,
    reshape,
    view,
    transposition,
    range_of_positions,
    gather,
    repetition,
    concatenation,
)

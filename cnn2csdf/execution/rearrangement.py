"""Operators that move elements and change none."""

from __future__ import annotations

import numpy as np

from cnn2csdf import operators as op
from cnn2csdf.execution.part import Part, cut, same_rows, whole_tensor
from cnn2csdf.weights import Array


def identity(operator: object, part: Part) -> Array:  # noqa: ARG001 (every operator is called so)
    """Return the rows of the input."""
    return same_rows(part)


def concatenation(operator: op.Concatenation, part: Part) -> Array:
    """Return the rows of the part of the inputs one after another."""
    if not part.shape.is_map:
        return np.concatenate([whole_tensor(reader) for reader in part.inputs], operator.axis)
    if operator.axis != 1:
        found = [reader.rows(part.begin, part.end) for reader in part.inputs]
        return np.concatenate(found, operator.axis)
    pieces, before = [], 0
    for reader in part.inputs:
        first = max(part.begin - before, 0)
        upto = min(part.end - before, reader.shape.height)
        if first < upto:
            pieces.append(reader.rows(first, upto))
        before += reader.shape.height
    return np.concatenate(pieces, axis=1)


def slice_of(operator: op.Slice, part: Part) -> Array:
    """Return the rows of the part of a slice."""
    chosen = slice(operator.start, operator.stop, operator.step)
    if not part.shape.is_map:
        return whole_tensor(part.inputs[0])[*(slice(None),) * operator.axis, chosen]
    if operator.axis == 0:
        return same_rows(part)[chosen]
    if operator.axis == 2:
        return same_rows(part)[:, :, chosen]
    first = operator.start + part.begin * operator.step
    upto = operator.start + (part.end - 1) * operator.step + 1
    return part.inputs[0].rows(first, upto)[:, :: operator.step]


def channel_shuffle(operator: op.ChannelShuffle, part: Part) -> Array:
    """Return the rows of the part with the channels dealt out in turn."""
    maps = same_rows(part)
    channels, rows, columns = maps.shape
    dealt = maps.reshape(operator.groups, channels // operator.groups, rows, columns)
    return dealt.swapaxes(0, 1).reshape(maps.shape)


def space_to_depth(operator: op.SpaceToDepth, part: Part) -> Array:
    """Return the rows of the part with blocks as channels."""
    if operator.order == "darknet":
        return cut(_darknet_blocks(whole_tensor(part.inputs[0]), operator.block), part)
    block = operator.block
    maps = part.inputs[0].rows(part.begin * block, part.end * block)
    split = maps.reshape(len(maps), part.rows, block, part.shape.width, block)
    return split.transpose(2, 4, 0, 1, 3).reshape(-1, part.rows, part.shape.width)


def _darknet_blocks(maps: Array, block: int) -> Array:
    """Darknet's order: the elements are taken as fewer, larger maps, blocks of which are channels.

    An element of the result comes from another row than its own, so no part is cheaper than all.
    """
    channels, height, width = maps.shape
    large = maps.reshape(channels // block**2, height, block, width, block)
    return large.transpose(2, 4, 0, 1, 3).reshape(-1, height // block, width // block)


def depth_to_space(operator: op.DepthToSpace, part: Part) -> Array:
    """Return the rows of the part with channels as blocks."""
    block = operator.block
    first, upto = part.begin // block, -(-part.end // block)
    maps = part.inputs[0].rows(first, upto)
    channels, rows, columns = part.shape.channels, upto - first, maps.shape[2]
    if operator.order == "block first":
        split = maps.reshape(block, block, channels, rows, columns).transpose(2, 3, 0, 4, 1)
    else:
        split = maps.reshape(channels, block, block, rows, columns).transpose(0, 3, 1, 4, 2)
    spread = split.reshape(channels, rows * block, columns * block)
    return spread[:, part.begin - first * block : part.end - first * block]


def reshape(operator: op.Reshape, part: Part) -> Array:
    """Return the rows of the part of the input under other dims."""
    if part.inputs[0].shape == part.shape:
        return same_rows(part)
    return cut(whole_tensor(part.inputs[0]).reshape(operator.dims), part)


def transpose(operator: op.Transpose, part: Part) -> Array:
    """Return the rows of the part with the axes in another order."""
    if part.shape.is_map and operator.permutation[1] == 1:
        return same_rows(part).transpose(operator.permutation)
    return cut(whole_tensor(part.inputs[0]).transpose(operator.permutation), part)

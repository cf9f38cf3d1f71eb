"""Layers that move elements and compute none, and resizes: the calls for them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from cnn2csdf import operators as op
from cnn2csdf.operators.resizes import ResizedAxis
from planners.code.c_text import NULL, identifier, number
from planners.code.layer_descriptor import Call, Described
from planners.code.rules import rule_of


def _concatenation(one: Described, operator: op.Concatenation) -> Call:
    if one.layer.shape.is_map:
        return Call("join_maps", one.structure("joining", operator.axis, 1))
    pieces = prod(one.layer.shape.dims[: operator.axis])
    return Call("join_pieces", one.structure("joining", 3, pieces))


def _slice(one: Described, operator: op.Slice) -> Call:
    if one.layer.shape.is_map:
        start, step = [0, 0, 0], [1, 1, 1]
        start[operator.axis], step[operator.axis] = operator.start, operator.step
        listed = ("{" + ", ".join(map(str, three)) + "}" for three in (start, step))
        return Call("slice_maps", one.structure("slicing", *listed))
    strides = strides_of(one.inputs[0].dims)
    first = operator.start * strides[operator.axis]
    strides[operator.axis] *= operator.step
    return _moving(one, one.layer.shape.dims, strides, first)


def strides_of(dims: Sequence[int]) -> list[int]:
    """Return how many elements lie between neighbours along each axis."""
    return [prod(dims[axis + 1 :]) for axis in range(len(dims))]


def _moving(one: Described, sizes: Sequence[int], strides: Sequence[int], first: int = 0) -> Call:
    name, tables = identifier(one.layer.name), one.tables
    fields = (
        len(sizes),
        first,
        tables.defined("int32_t", f"{name}_sizes", [str(size) for size in sizes]),
        tables.defined("int32_t", f"{name}_strides", [str(stride) for stride in strides]),
    )
    return Call("move_elements", one.structure("moving", *fields))


def _reshape(one: Described, _operator: op.Reshape) -> Call:
    return _moving(one, (one.layer.shape.elements,), (1,))


def _transpose(one: Described, operator: op.Transpose) -> Call:
    strides = strides_of(one.inputs[0].dims)
    return _moving(one, one.layer.shape.dims, [strides[axis] for axis in operator.permutation])


def _shuffle(one: Described, operator: op.ChannelShuffle) -> Call:
    return Call("shuffle", one.structure("shuffling", operator.groups))


def _space_to_depth(one: Described, operator: op.SpaceToDepth) -> Call:
    block = operator.block
    if operator.order != "darknet":
        return Call("space_to_depth", one.structure("blocks", block, 1))
    channels, height, width = one.inputs[0].dims
    sizes = (channels // block**2, height, block, width, block)
    axes = (2, 4, 0, 1, 3)
    strides = strides_of(sizes)
    return _moving(one, [sizes[axis] for axis in axes], [strides[axis] for axis in axes])


def _depth_to_space(one: Described, operator: op.DepthToSpace) -> Call:
    is_block_first = int(operator.order == "block first")
    return Call("depth_to_space", one.structure("blocks", operator.block, is_block_first))


def _pad(one: Described, operator: op.Pad) -> Call:
    return pad_call(one, operator, number(operator.value))


def pad_call(one: Described, operator: op.Pad, value: str) -> Call:
    """Return the call for rows and columns around, of a value as stored."""
    mode = {"constant": "PAD_VALUE", "edge": "PAD_EDGE", "reflect": "PAD_REFLECT"}[operator.mode]
    top, left = operator.padding[:2]
    one.tables.wanted.add(mode)
    return Call("pad_maps", one.structure("padding", top, left, mode, value))


def _resize(one: Described, operator: op.Resize) -> Call:
    if operator.function == "linear":
        return _linear(one, operator)
    if operator.function == "cubic":
        return _cubic(one, operator)
    if operator.function != "nearest":
        raise one.refusal(f"of the function {operator.function!r}")
    rules = []
    for axis in _resized(one, operator):
        nearest = axis.nearest(np.arange(axis.size)).tolist()
        rule = rule_of(_within(nearest), axis.size, axis.length)
        rules.append(one.tables.rule(rule))
    return Call("resize_nearest", one.structure("nearest", *rules))


def _within(places: Sequence[int]) -> Callable[[int], tuple[int, int]]:
    return lambda place: (places[place], places[place] + 1)


def _resized(one: Described, operator: op.Resize) -> list[ResizedAxis]:
    """Rows and columns."""
    shape, scales = one.inputs[0], operator.scales or (None, None)
    sizes = zip((shape.height, shape.width), operator.size, scales, strict=True)
    return [
        ResizedAxis(*size, coordinates=operator.coordinates, rounding=operator.rounding)
        for size in sizes
    ]


def _linear(one: Described, operator: op.Resize) -> Call:
    """Tables of the place before each place of the output, and how far it is from there."""
    name, symbols = identifier(one.layer.name), []
    for axis in _resized(one, operator):
        before, _, shares = axis.neighbours(np.arange(axis.size))
        places = [str(place) for place in before.tolist()]
        symbols += [
            one.tables.defined("uint16_t", f"{name}_before", places),
            one.tables.defined("element", f"{name}_share", [number(one_) for one_ in shares]),
        ]
    return Call("resize_linear", one.structure("interpolation", *symbols))


def _cubic(one: Described, operator: op.Resize) -> Call:
    """Tables of the four places around each place of the output, and what each weighs."""
    name, symbols = identifier(one.layer.name), []
    for axis in _resized(one, operator):
        around, weights = axis.cubic_neighbours(
            np.arange(axis.size), operator.cubic, skips_outside=operator.skips_outside
        )
        places = [str(place) for place in around.reshape(-1).tolist()]
        listed = [number(float(weight)) for weight in weights.reshape(-1)]
        symbols += [
            one.tables.defined("uint16_t", f"{name}_around", places),
            one.tables.defined("element", f"{name}_weight", listed),
        ]
    return Call("resize_cubic", one.structure("cubic", *symbols))


def _gather(one: Described, operator: op.Gather) -> Call:
    name = identifier(one.layer.name)
    places = one.tables.defined("uint16_t", f"{name}_places", [str(at) for at in operator.places])
    return _picked(one, operator.axis, len(operator.places), places)


def _repeat(one: Described, operator: op.Repeat) -> Call:
    return _picked(one, operator.axis, one.layer.shape.dims[operator.axis], NULL)


def _picked(one: Described, axis: int, listed: int, places: str) -> Call:
    dims = one.inputs[0].dims
    if dims[axis] > 2**16:
        raise one.refusal(f"from {dims[axis]} places")
    if one.layer.shape.is_map:
        return Call("gather_maps", one.structure("gathering", axis, places))
    fields = (prod(dims[:axis]), dims[axis], listed, prod(dims[axis + 1 :]), places)
    return Call("gather_pieces", one.structure("picking", *fields))


MOVES: dict[type, Callable[[Described, Any], Call]] = {
    op.Concatenation: _concatenation,
    op.Slice: _slice,
    op.ChannelShuffle: _shuffle,
    op.Resize: _resize,
    op.Pad: _pad,
    op.SpaceToDepth: _space_to_depth,
    op.DepthToSpace: _depth_to_space,
    op.Reshape: _reshape,
    op.Transpose: _transpose,
    op.Gather: _gather,
    op.Repeat: _repeat,
}

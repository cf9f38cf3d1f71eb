"""C calls of layers that move elements and compute none, and of resizes."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from cnn2csdf import operators as op
from cnn2csdf.operators.operands import constant_role
from cnn2csdf.operators.resizes import ResizedAxis
from cnn2csdf.shape import Dims
from planners.code.calls.emitters import Emitter, Numbers, register
from planners.code.layer_descriptor import Fields, KernelCall, LayerNode
from planners.code.rules import rule_of


def strides_of(dims: Sequence[int]) -> list[int]:
    """Return the strides of a contiguous tensor in elements."""
    return [prod(dims[axis + 1 :]) for axis in range(len(dims))]


def _concatenation(node: LayerNode, operator: op.Concatenation) -> KernelCall:
    if node.layer.shape.is_map:
        return node.call("join_maps", "joining", axis=operator.axis, pieces=1)
    pieces = prod(node.layer.shape.dims[: operator.axis])
    return node.call("join_pieces", "joining", axis=3, pieces=pieces)


def _constant_concatenation(node: LayerNode, operator: op.ConstantConcatenation) -> KernelCall:
    is_map, axis = node.layer.shape.is_map, operator.axis

    def size(dims: Dims) -> int:
        return dims[axis] if is_map else prod(dims[axis:])

    pieces: list[Fields] = [
        {"values": None, "input": index, "size": size(shape.dims)}
        for index, shape in enumerate(node.inputs)
    ]
    for place, dims in operator.constants:
        array = node.weights[constant_role(place)]
        array = array.transpose(1, 2, 0) if is_map else array
        symbol = node.symbol(f"constant_{place}", array)
        pieces.insert(place, {"values": symbol, "input": 0, "size": size(dims)})
    listed = {"count": len(pieces), "pieces": node.table("piece", "pieces", pieces)}
    if is_map:
        return node.call("join_constants", "mending", axis=axis, **listed)
    outer = prod(node.layer.shape.dims[:axis])
    return node.call("join_constant_pieces", "mending", axis=outer, **listed)


def _slice(node: LayerNode, operator: op.Slice) -> KernelCall:
    if node.layer.shape.is_map:
        start, step = [0, 0, 0], [1, 1, 1]
        start[operator.axis], step[operator.axis] = operator.start, operator.step
        return node.call("slice_maps", "slicing", start=start, step=step)
    strides = strides_of(node.inputs[0].dims)
    first = operator.start * strides[operator.axis]
    strides[operator.axis] *= operator.step
    return _moving(node, node.layer.shape.dims, strides, first)


def _transpose(node: LayerNode, operator: op.Transpose) -> KernelCall:
    strides = strides_of(node.inputs[0].dims)
    return _moving(node, node.layer.shape.dims, [strides[axis] for axis in operator.permutation])


def _place_order(node: LayerNode, operator: op.PlaceOrder) -> KernelCall:
    """Return the call that gathers each pixel of the result from the input."""
    sizes, strides = operator.sizes, strides_of(operator.sizes)
    order = operator.permutation
    steps = [strides[axis] for axis in order]
    return _moving(node, [sizes[axis] for axis in order], steps, kernel="move_places")


def scattering_call(node: LayerNode, operator: Any) -> KernelCall:
    """Return the call that scatters the pixels of an input row to their positions in the result."""
    strides = strides_of([operator.sizes[axis] for axis in operator.permutation])
    axes = range(len(operator.sizes))
    own_strides = [strides[operator.permutation.index(axis)] for axis in axes]
    return _moving(node, operator.sizes, own_strides, kernel="scatter_places")


def _moving(
    node: LayerNode,
    sizes: Sequence[int],
    strides: Sequence[int],
    first: int = 0,
    kernel: str = "move_elements",
) -> KernelCall:
    """The call that copies elements, or pixels, from offset `first`, by sizes and strides of axes."""
    tables = {
        "sizes": node.table("int32_t", "sizes", sizes),
        "strides": node.table("int32_t", "strides", strides),
    }
    return node.call(kernel, "moving", digits=len(sizes), first=first, **tables)


def _space_to_depth(node: LayerNode, operator: op.SpaceToDepth) -> KernelCall:
    block = operator.block
    if operator.order != "darknet":
        return node.call("space_to_depth", "blocks", size=block, is_block_first=1)
    channels, height, width = node.inputs[0].dims
    sizes = (channels // block**2, height, block, width, block)
    axes, strides = (2, 4, 0, 1, 3), strides_of(sizes)
    return _moving(node, [sizes[axis] for axis in axes], [strides[axis] for axis in axes])


def pad_call(node: LayerNode, operator: op.Pad, value: object) -> KernelCall:
    """Return the call that pads channels, rows and columns. value: as stored."""
    mode = "PAD_VALUE" if operator.mode == "constant" else f"PAD_{operator.mode.upper()}"
    node.tables.wanted.add(mode)
    top, left = operator.padding[:2]
    sizes = {"top": top, "left": left, "front": operator.channels[0]}
    return node.call("pad_maps", "padding", **sizes, mode=mode, value=value)


VERTICAL, HORIZONTAL = ("rows", "above", "down"), ("columns", "left", "across")  # fields in C


def _resize(node: LayerNode, operator: op.Resize) -> KernelCall:
    """A rule for the nearest row and column, or tables of neighbouring positions and weights."""
    shape, scales = node.inputs[0], operator.scales or (None, None)
    fields: dict[str, object] = {}
    lengths, names = (shape.height, shape.width), (VERTICAL, HORIZONTAL)
    for (nearest_field, around_field, share_field), length, size, scale in zip(
        names, lengths, operator.size, scales, strict=True
    ):
        axis = ResizedAxis(
            length, size, scale, coordinates=operator.coordinates, rounding=operator.rounding
        )
        targets = np.arange(axis.size)
        if operator.function == "nearest":
            nearest = axis.nearest(targets).tolist()
            spans = [(position, position + 1) for position in nearest]
            fields[nearest_field] = node.tables.rule(rule_of(spans, axis.length))
        elif operator.function == "linear":
            before, _, shares = axis.exact_neighbours(targets)
            fields[around_field] = node.table("uint16_t", "before", before)
            fields[share_field] = node.table("element", "share", shares)
        elif operator.function == "cubic":
            around, weights = axis.cubic_neighbours(
                targets, operator.cubic, skips_outside=operator.skips_outside
            )
            fields[around_field] = node.table("uint16_t", "around", around.reshape(-1))
            fields[share_field] = node.table("element", "weight", weights.reshape(-1))
        else:
            raise node.refusal(f"of the function {operator.function!r}")
    kind = {"nearest": "nearest", "linear": "interpolation", "cubic": "cubic"}[operator.function]
    return node.call(f"resize_{operator.function}", kind, **fields)


def _gather(node: LayerNode, operator: op.Gather) -> KernelCall:
    places = node.table("uint16_t", "places", operator.places)
    return _picked(node, operator.axis, len(operator.places), places)


def _gather_points(node: LayerNode, _operator: op.GatherPoints) -> KernelCall:
    values, positions = node.inputs
    axes = positions.dims[-1]
    inner = prod(values.dims[axes:])
    sizes = node.table("int32_t", "sizes", values.dims[:axes])
    return node.call(
        "gather_points",
        "gathering_points",
        axes=axes,
        inner=inner,
        sizes=sizes,
        values_are_map=values.is_map,
        positions_are_map=positions.is_map,
        result_is_map=node.layer.shape.is_map,
    )


def _embedding(node: LayerNode, operator: op.Embedding) -> KernelCall:
    table = node.real_weights("table", node.weights["table"])
    return _look_up(node, operator.entries, table=table, integers=None, scales=None, by_row=False)


def _scaled_embedding(node: LayerNode, operator: op.ScaledEmbedding) -> KernelCall:
    return _look_up(
        node,
        operator.entries,
        table=node.real_weights("table", None),
        integers=node.stored("table", node.weights["table"]),
        scales=node.derived("scales"),
        by_row=len(operator.scales) > 1,
    )


def _look_up(node: LayerNode, entries: int, **fields: object) -> KernelCall:
    return node.call("look_up_rows", "real_embedding", entries=entries, **fields)


def _picked(node: LayerNode, axis: int, listed: int, places: str | None) -> KernelCall:
    dims = node.inputs[0].dims
    if dims[axis] > 2**16:
        raise node.refusal(f"from {dims[axis]} places")
    if node.layer.shape.is_map:
        return node.call("gather_maps", "gathering", axis=axis, positions=places)
    return node.call(
        "gather_pieces",
        "picking",
        pieces=prod(dims[:axis]),
        size=dims[axis],
        listed=listed,
        behind=prod(dims[axis + 1 :]),
        positions=places,
    )


_MOVES: dict[type, Emitter] = {
    op.ChannelShuffle: lambda node, operator: node.call(
        "shuffle", "shuffling", groups=operator.groups
    ),
    op.Concatenation: _concatenation,
    op.ConstantConcatenation: _constant_concatenation,
    op.DepthToSpace: lambda node, operator: node.call(
        "depth_to_space",
        "blocks",
        size=operator.block,
        is_block_first=operator.order == "block first",
    ),
    op.Embedding: _embedding,
    op.Gather: _gather,
    op.GatherPoints: _gather_points,
    op.PlaceOrder: _place_order,
    op.Pad: lambda node, operator: pad_call(node, operator, float(operator.value)),
    op.Repeat: lambda node, operator: _picked(
        node, operator.axis, node.layer.shape.dims[operator.axis], None
    ),
    op.Reshape: lambda node, _: _moving(node, (node.layer.shape.elements,), (1,)),
    op.View: lambda node, _: node.call("view_elements"),
    op.Resize: _resize,
    op.Slice: _slice,
    op.ScaledEmbedding: _scaled_embedding,
    op.SpaceToDepth: _space_to_depth,
    op.Transpose: _transpose,
}
register(Numbers.REAL, _MOVES)

"""C calls of layers that move elements and compute none, and of resizes.

Kernels of feature maps move pixels along channels (axis 0), rows (1) or columns (2). Any other tensor
is contiguous. Along an axis it consists of pieces, a piece for each index of the axes before: a tensor
of 2 x 3 x 4 x 5 has 6 pieces of 20 elements along axis 2.
"""

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

NO_AXIS = 3  # the axis in C of a tensor that is no feature map


def strides_of(dims: Sequence[int]) -> list[int]:
    """Return the strides of a contiguous tensor in elements."""
    return [prod(dims[axis + 1 :]) for axis in range(len(dims))]


def joined_fields(node: LayerNode, axis: int) -> Fields:
    """Return the fields `axis` and `pieces` of a concatenation; a tensor that is no map has no axis."""
    if node.layer.shape.is_map:
        return {"axis": axis, "pieces": 1}
    return {"axis": NO_AXIS, "pieces": prod(node.layer.shape.dims[:axis])}


def _concatenation(node: LayerNode, operator: op.Concatenation) -> KernelCall:
    kernel = "join_maps" if node.layer.shape.is_map else "join_pieces"
    return node.call(kernel, "joining", **joined_fields(node, operator.axis))


def _constant_concatenation(node: LayerNode, operator: op.ConstantConcatenation) -> KernelCall:
    """Return the call that concatenates inputs and constants.

    The field `axis` has the number of pieces if the result is no feature map.
    """
    is_map, axis = node.layer.shape.is_map, operator.axis

    def size(dims: Dims) -> int:
        return dims[axis] if is_map else prod(dims[axis:])

    operands: list[Fields] = [
        {"values": None, "input": index, "size": size(shape.dims)}
        for index, shape in enumerate(node.inputs)
    ]
    for place, dims in operator.constants:
        array = node.weights[constant_role(place)]
        in_memory_order = array.transpose(1, 2, 0) if is_map else array
        symbol = node.symbol(f"constant_{place}", in_memory_order)
        operands.insert(place, {"values": symbol, "input": 0, "size": size(dims)})
    return node.call(
        "join_constants" if is_map else "join_constant_pieces",
        "mending",
        axis=axis if is_map else prod(node.layer.shape.dims[:axis]),
        count=len(operands),
        pieces=node.table("piece", "pieces", operands),
    )


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
    sizes, order, strides = operator.sizes, operator.permutation, strides_of(operator.sizes)
    sizes_of_result, strides_in_input = ([of[axis] for axis in order] for of in (sizes, strides))
    return _moving(node, sizes_of_result, strides_in_input, kernel="move_places")


def scattering_call(node: LayerNode) -> KernelCall:
    """Return the call that scatters the pixels of an input row to their positions in the result."""
    operator: Any = node.layer.operator  # a PlaceOrder: only it scatters rows
    sizes, order = operator.sizes, operator.permutation
    strides_in_result = dict(zip(order, strides_of([sizes[axis] for axis in order]), strict=True))
    strides = [strides_in_result[axis] for axis in range(len(sizes))]
    return _moving(node, sizes, strides, kernel="scatter_places")


def _moving(
    node: LayerNode,
    sizes: Sequence[int],
    strides: Sequence[int],
    first: int = 0,
    kernel: str = "move_elements",
) -> KernelCall:
    """The call that copies elements, or pixels, between a contiguous tensor and a strided one.

    sizes: of the axes of the contiguous tensor, whose elements are visited in order. strides: of the
    same axes in the other tensor, in elements or pixels; `first`: the position there of the first.
    """
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
    order, strides = (2, 4, 0, 1, 3), strides_of(sizes)  # as SpaceToDepth.formula
    return _moving(node, [sizes[axis] for axis in order], [strides[axis] for axis in order])


def pad_call(node: LayerNode, operator: op.Pad, value: object) -> KernelCall:
    """Return the call that pads channels, rows and columns. value: as stored."""
    mode = "PAD_VALUE" if operator.mode == "constant" else f"PAD_{operator.mode.upper()}"
    node.tables.wanted.add(mode)
    top, left = operator.padding[:2]
    sizes = {"top": top, "left": left, "front": operator.channels[0]}
    return node.call("pad_maps", "padding", **sizes, mode=mode, value=value)


def _resize(node: LayerNode, operator: op.Resize) -> KernelCall:
    """Return the call of a resize: by rules of nearest positions, or by tables of neighbours."""
    rows, columns = operator.axes(node.inputs[0])
    if operator.function == "nearest":
        rules = {"rows": _nearest_rule(node, rows), "columns": _nearest_rule(node, columns)}
        return node.call("resize_nearest", "nearest", **rules)
    kinds = {"linear": "interpolation", "cubic": "cubic"}
    if operator.function not in kinds:
        raise node.refusal(f"of the function {operator.function!r}")
    above, down = _neighbour_tables(node, operator, rows)
    left, across = _neighbour_tables(node, operator, columns)
    return node.call(
        f"resize_{operator.function}",
        kinds[operator.function],
        above=above,
        down=down,
        left=left,
        across=across,
    )


def _nearest_rule(node: LayerNode, axis: ResizedAxis) -> str:
    """The symbol of the rule from each output position to the nearest input position."""
    nearest = axis.nearest(np.arange(axis.size)).tolist()
    return node.tables.rule(
        rule_of([(position, position + 1) for position in nearest], axis.length)
    )


def _neighbour_tables(node: LayerNode, operator: op.Resize, axis: ResizedAxis) -> tuple[str, str]:
    """The symbols of neighbouring input positions of each output position, and of their weights.

    Linear: the position before, and the weight of the next. Cubic: four positions and weights.
    Positions have 16 bits, because no map in C has more rows or columns (`tensor_table.MOST_ROWS`).
    """
    outputs = np.arange(axis.size)
    if operator.function == "linear":
        before, _, shares = axis.exact_neighbours(outputs)
        return node.table("uint16_t", "before", before), node.table("element", "share", shares)
    around, weights = axis.cubic_neighbours(
        outputs, operator.cubic, skips_outside=operator.skips_outside
    )
    return (
        node.table("uint16_t", "around", around.reshape(-1)),
        node.table("element", "weight", weights.reshape(-1)),
    )


def _gather(node: LayerNode, operator: op.Gather) -> KernelCall:
    positions = node.table("uint16_t", "places", operator.places)
    return _picked(node, operator.axis, len(operator.places), positions)


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
    fields = {"integers": None, "scales": None, "by_row": False}
    table = node.real_weights("table", node.weights["table"])
    entries = operator.entries
    return node.call("look_up_rows", "real_embedding", entries=entries, table=table, **fields)


def _scaled_embedding(node: LayerNode, operator: op.ScaledEmbedding) -> KernelCall:
    return node.call(
        "look_up_rows",
        "real_embedding",
        entries=operator.entries,
        table=node.real_weights("table", None),
        integers=node.stored("table", node.weights["table"]),
        scales=node.derived("scales"),
        by_row=len(operator.scales) > 1,
    )


def _picked(node: LayerNode, axis: int, count: int, positions: str | None) -> KernelCall:
    """The call that picks `count` positions along an axis.

    positions: the symbol of their table; None for positions in order, again from 0 after the last.
    """
    dims = node.inputs[0].dims
    if dims[axis] > 2**16:
        raise node.refusal(f"from {dims[axis]} places")
    if node.layer.shape.is_map:
        return node.call("gather_maps", "gathering", axis=axis, positions=positions)
    return node.call(
        "gather_pieces",
        "picking",
        pieces=prod(dims[:axis]),
        size=dims[axis],
        listed=count,
        behind=prod(dims[axis + 1 :]),
        positions=positions,
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

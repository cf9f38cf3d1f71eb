"""C calls for reductions, softmax, normalisations by statistics of the tensor, and matrix products.

The kernels have three nested loops, so they view a tensor as three axes. A feature map has channels,
rows and columns, of which any may be reduced. Of any other tensor the reduced axes are consecutive:
together they are the second axis, those before them the first, those after them the third. A tensor of
2 x 3 x 4 x 5 that is reduced over axes 1 and 2 has 2, 12 and 5 elements along the three.

The address of an element is that of its row plus index times stride for each axis. A kernel looks up
the address of a row of a map by its number, because the row may be in a ring buffer, so the rows of a
map have stride 0. A tensor that is no map is one row, and so is a map of one row in a result.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

from cnn2csdf import operators as op
from cnn2csdf.dtypes import Quantization
from cnn2csdf.network import Shape
from planners.code.calls.emitters import Emitter, Numbers, register
from planners.code.calls.moves import strides_of
from planners.code.layer_descriptor import Fields, KernelCall, LayerNode

# The fields of a cube of which only normalisations have others.
UNSCALED: Fields = {"scale": None, "shift": None, "scale_steps": (0, 0, 0), "epsilon": 0}


class ReductionAxes(NamedTuple):
    """A tensor viewed with three axes: their sizes, and their strides (steps) in elements.

    In a result, reduced axes have the size of the input and stride 0.
    looks_up_rows: whether the kernel looks up the address of each row of a map (`is_map` in C).
    """

    sizes: tuple[int, int, int]
    steps: tuple[int, int, int]
    looks_up_rows: bool = False

    def fields(self, name: str) -> Fields:
        """Return the fields of the strides of a tensor of that name in C."""
        return {f"{name}_steps": self.steps, f"{name}_is_map": self.looks_up_rows}


def _three_axes(shape: Shape, reduced: Sequence[int]) -> ReductionAxes:
    """The three axes of a tensor. reduced: not read for a map."""
    dims = shape.dims
    if shape.is_map:
        channels, height, width = dims
        return ReductionAxes((channels, height, width), (1, 0, channels), looks_up_rows=True)
    first, end = reduced[0], reduced[-1] + 1
    return _contiguous((prod(dims[:first]), prod(dims[first:end]), prod(dims[end:])))


def _contiguous(sizes: tuple[int, int, int]) -> ReductionAxes:
    """Axes of these sizes of a tensor in contiguous memory, the last the fastest."""
    return ReductionAxes(sizes, (sizes[1] * sizes[2], sizes[2], 1))


def _input_axes(node: LayerNode, reduced: Sequence[int]) -> tuple[ReductionAxes, tuple[bool, ...]]:
    """The three axes of the input, and which of them are reduced."""
    shape = node.inputs[0]
    consecutive = [*range(reduced[0], reduced[-1] + 1)] if reduced else []
    if not reduced or not (shape.is_map or [*reduced] == consecutive):
        raise node.refusal(f"over axes {tuple(reduced)} of {len(shape.dims)}")
    is_reduced = (False, True, False)
    if shape.is_map:
        is_reduced = (0 in reduced, 1 in reduced, 2 in reduced)
    return _three_axes(shape, reduced), is_reduced


def cube_fields(node: LayerNode, reduced: Sequence[int], to: ReductionAxes | None = None) -> Fields:
    """Return the fields of the C structure `cube`: the three axes of a function over some axes.

    reduced: the axes of the input that the function reduces or normalises, ascending. to: strides of
    the result; None: those of the input. Raises UnsupportedOperator for axes of no map that are not
    consecutive.
    """
    source, is_reduced = _input_axes(node, reduced)
    sizes = {"sizes": source.sizes, "is_reduced": is_reduced}
    return {**sizes, **source.fields("from"), **(to or source).fields("to"), **UNSCALED}


def result_axes(node: LayerNode, reduced: Sequence[int], *, keeps: bool) -> ReductionAxes:
    """Return the axes of the result of a reduction. keeps: reduced axes stay, with size 1."""
    source, is_reduced = _input_axes(node, reduced)
    result = node.layer.shape
    if result.is_map and not node.inputs[0].is_map:
        raise node.refusal("that makes feature maps of a tensor of more axes")
    is_map_with_axes = result.is_map and keeps
    if is_map_with_axes:
        strides = [1, 0, result.channels]
    else:
        sizes = zip(is_reduced, source.sizes, strict=True)
        strides = strides_of([1 if flag else size for flag, size in sizes])
    first, second, third = (
        0 if flag else stride for flag, stride in zip(is_reduced, strides, strict=True)
    )
    looks_up_rows = is_map_with_axes and not is_reduced[1]
    return ReductionAxes(source.sizes, (first, second, third), looks_up_rows)


def _reduced(node: LayerNode, function: str, axes: Sequence[int], *, keeps: bool) -> KernelCall:
    fields = cube_fields(node, axes, result_axes(node, axes, keeps=keeps))
    return node.call(f"reduce_{function}", "cube", **fields)


def _standardise(
    node: LayerNode, axes: Sequence[int], scale_steps: Sequence[int], epsilon: float
) -> KernelCall:
    """The call of a normalisation over some axes.

    scale_steps: from a number of the scale to the next, along each of the three axes.
    """
    scales = {
        "scale": node.symbol("scale", node.weights["scale"]),
        "shift": node.optional("shift"),
    }
    numbers = {"scale_steps": scale_steps, "epsilon": epsilon}
    return node.call("standardise", "cube", **{**cube_fields(node, axes), **scales, **numbers})


def _instance(node: LayerNode, operator: op.InstanceNormalization) -> KernelCall:
    return _standardise(node, range(1, len(node.layer.shape.dims)), (1, 0, 0), operator.epsilon)


def _layer_normalization(node: LayerNode, operator: op.LayerNormalization) -> KernelCall:
    dims, steps = node.layer.shape.dims, [0, 1, 0]
    axes = range(operator.axis, len(dims) if operator.last is None else operator.last + 1)
    if node.layer.shape.is_map:
        strides = dict(zip(axes, strides_of([dims[axis] for axis in axes]), strict=True))
        steps = [strides.get(axis, 0) for axis in range(3)]
    return _standardise(node, axes, steps, operator.epsilon)


def _axis_of(node: LayerNode, axis: int) -> int:
    """The index of an axis among the three axes: of no map, the reduced axes are the second."""
    return axis if node.inputs[0].is_map else 1


def _extreme_place(node: LayerNode, operator: op.ExtremePlace) -> KernelCall:
    axes = (operator.axis,)
    over = cube_fields(node, axes, result_axes(node, axes, keeps=True))
    flags = {"is_smallest": operator.function == "min", "takes_last": operator.takes_last}
    return node.call("place_of_extreme", "extreme", axes=over, **flags)


def _running_sum(node: LayerNode, operator: op.RunningSum) -> KernelCall:
    over, axis = cube_fields(node, (operator.axis,)), _axis_of(node, operator.axis)
    flags = {"is_exclusive": operator.is_exclusive, "is_reversed": operator.is_reversed}
    return node.call("running_sum", "running", axes=over, axis=axis, **flags)


def _quantization_fields(types: Quantization | None, width: int) -> Fields:
    """The number of contiguous elements, their zero point and scale; zeros for floating point."""
    zero, scale = (0, 0.0) if types is None else (types.zero_point, types.scale)
    return {"width": width, "zero": zero, "scale": scale}


def detections_call(node: LayerNode, operator: op.Detections) -> KernelCall:
    """Return the call for detections, from floating-point or quantised inputs."""
    types = node.layer.stored_as("anchors").quantization
    symbol = node.symbol("anchors", node.weights["anchors"])
    boxes, scores = (
        _quantization_fields(kind, shape.dims[1])
        for kind, shape in zip(node.input_types, node.inputs, strict=True)
    )
    return node.call(
        "detect",
        "detecting",
        boxes=boxes,
        scores=scores,
        anchored=_quantization_fields(types, 0),
        anchors=operator.anchors,
        count=operator.count,
        classes=operator.classes,
        classes_each=operator.classes_each,
        by_class=operator.by_class or 0,
        score_limit=operator.score_limit,
        overlap_limit=operator.overlap_limit,
        scales=operator.scales,
        centres=None if types is None else symbol,
        real_centres=symbol if types is None else None,
    )


def _ranking(node: LayerNode, operator: op.Ranking) -> KernelCall:
    axis = operator.axis
    over = cube_fields(node, (axis,), _three_axes(node.layer.shape, (axis,)))
    return node.call(
        "rank_elements",
        "ranking",
        axes=over,
        axis=_axis_of(node, axis),
        count=operator.count,
        is_smallest=not operator.takes_largest,
        gives_places=operator.gives_places,
    )


def _matrix_product(node: LayerNode, operator: op.MatrixProduct) -> KernelCall:
    values = node.real_weights("matrix", node.weights.get("matrix"))
    axes, bias = product_fields(node, operator.units), node.optional("bias")
    return node.call("multiply_matrices", "product", axes=axes, values=values, bias=bias)


def product_fields(node: LayerNode, units: int | None, elements: int = 1) -> Fields:
    """Return the fields of the C structure `axes_of_product`: batches of matrices, left times right.

    units: columns of a right matrix of weights; None if the right matrix is the second input.
    elements: arena elements per result element.
    """
    if len(node.layer.shape.dims) != len(node.inputs[0].dims):
        raise node.refusal("of tensors of different numbers of axes")
    left, result = _matrices(node.inputs[0]), _matrices(node.layer.shape)
    batches, rows, columns = result.sizes
    right = ReductionAxes((0, 0, 0), (0, 0, 0))  # unread where the right matrix is weights
    if units is None:
        right = _matrices(node.inputs[1])
        right_batches, _, _ = right.sizes
        if left.sizes[0] != batches or right_batches not in (1, batches):
            raise node.refusal("of batches of different sizes")
        if right_batches == 1:  # the same matrix for each batch
            right = right._replace(steps=(0, *right.steps[1:]))
    sizes = {"batches": batches, "rows": rows, "inner": left.sizes[2], "columns": columns}
    batch_step, row_step, column_step = (elements * step for step in result.steps)
    to = result._replace(steps=(batch_step, row_step, column_step))
    return {**sizes, **left.fields("left"), **right.fields("right"), **to.fields("to")}


def _matrices(shape: Shape) -> ReductionAxes:
    """The axes of a tensor as a batch of matrices: batch, rows and columns."""
    if shape.is_map:
        return _three_axes(shape, ())
    dims = (1, 1, *shape.dims)
    return _contiguous((prod(dims[:-2]), dims[-2], dims[-1]))


def attention_fields(node: LayerNode, operator: op.AttentionProduct) -> dict[str, int]:
    """Return the tokens and keys of a group, and the width of a head in the second input."""
    right = node.inputs[1]
    width = right.channels * right.width // operator.heads
    tokens, keys = (shape.rows // operator.groups for shape in (node.inputs[0], right))
    return {"tokens": tokens, "keys": keys, "width": width}


_REDUCTIONS: dict[type, Emitter] = {
    op.AttentionProduct: lambda node, operator: node.call(
        f"attention_{operator.gives}", "attention", **attention_fields(node, operator)
    ),
    op.Detections: detections_call,
    op.ExtremePlace: _extreme_place,
    op.GlobalPooling: lambda node, operator: _reduced(
        node, "max" if operator.function == "max" else "mean", (1, 2), keeps=True
    ),
    op.InstanceNormalization: _instance,
    op.LayerNormalization: _layer_normalization,
    op.MatrixProduct: _matrix_product,
    op.Ranking: _ranking,
    op.Reduction: lambda node, operator: _reduced(
        node, operator.function, tuple(sorted(operator.axes)), keeps=operator.keeps
    ),
    op.RunningSum: _running_sum,
    op.Softmax: lambda node, operator: node.call(
        "log_softmax" if operator.is_logarithm else "softmax",
        "cube",
        **cube_fields(node, operator.axes),
    ),
}
register(Numbers.REAL, _REDUCTIONS)

"""C calls for reductions, softmax, normalisations by statistics of the tensor, and matrix products."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

from cnn2csdf import operators as op
from cnn2csdf.dtypes import Quantization
from cnn2csdf.network import Shape
from planners.code.calls.emitters import Emitter, Numbers, register
from planners.code.calls.moves import strides_of
from planners.code.layer_descriptor import KernelCall, LayerNode

UNSCALED = (
    None,
    None,
    (0, 0, 0),
    0,
)  # scale, shift, their steps, and what is added to the variance


class ReductionAxes(NamedTuple):
    """A tensor viewed with three axes: sizes and strides; the row stride of a map is zero."""

    sizes: tuple[int, int, int]
    steps: tuple[int, int, int]
    is_map: bool


def _axes(shape: Shape, first: int, end: int) -> ReductionAxes:
    """The axes of a map; for other tensors, the axes before `first`, up to `end`, and from it on."""
    if shape.is_map:
        channels, height, width = shape.dims
        return ReductionAxes((channels, height, width), (1, 0, channels), is_map=True)
    dims = shape.dims
    return _of_three((prod(dims[:first]), prod(dims[first:end]), prod(dims[end:])))


def _of_three(sizes: tuple[int, int, int]) -> ReductionAxes:
    return ReductionAxes(sizes, (sizes[1] * sizes[2], sizes[2], 1), is_map=False)


def cube(
    node: LayerNode,
    reduced: Sequence[int],
    to: ReductionAxes | None = None,
    scales: Sequence[object] = UNSCALED,
) -> tuple[object, ...]:
    """Return the structure of a function over consecutive axes of the input."""
    shape = node.inputs[0]
    if not shape.is_map and tuple(reduced) != tuple(range(reduced[0], reduced[-1] + 1)):
        raise node.refusal(f"over axes {tuple(reduced)} of {len(shape.dims)}")
    source = _axes(shape, reduced[0], reduced[-1] + 1)
    target = to or source
    flags = _flags(shape, reduced)
    return (source.sizes, flags, *source[1:], *target[1:], *scales)


def _flags(shape: Shape, reduced: Sequence[int]) -> tuple[bool, ...]:
    """Which of the three axes are reduced."""
    return tuple(axis in reduced for axis in range(3)) if shape.is_map else (False, True, False)


def reduced_to(node: LayerNode, axes: Sequence[int], *, keeps: bool) -> ReductionAxes:
    """Return the axes of the result of a reduction over some axes."""
    shape, result = node.inputs[0], node.layer.shape
    sizes = _axes(shape, axes[0], axes[-1] + 1).sizes
    flags = _flags(shape, axes)
    if shape.is_map and result.is_map and keeps:
        steps = (0 if flags[0] else 1, 0, 0 if flags[2] else result.channels)
        to = ReductionAxes(sizes, steps, is_map=not flags[1])
    else:
        left = [1 if flag else size for flag, size in zip(flags, sizes, strict=True)]
        first, second, third = (
            0 if flag else step for flag, step in zip(flags, strides_of(left), strict=True)
        )
        to = ReductionAxes(sizes, (first, second, third), is_map=False)
    if result.is_map and not shape.is_map:
        raise node.refusal("that makes feature maps of a tensor of more axes")
    return to


def _reduced(node: LayerNode, function: str, axes: Sequence[int], *, keeps: bool) -> KernelCall:
    return node.call(
        f"reduce_{function}", "cube", *cube(node, axes, reduced_to(node, axes, keeps=keeps))
    )


def _instance(node: LayerNode, operator: op.InstanceNormalization) -> KernelCall:
    symbols = (node.symbol(role, node.weights[role]) for role in ("scale", "shift"))
    scales = (*symbols, (1, 0, 0), operator.epsilon)
    axes = range(1, len(node.layer.shape.dims))
    return node.call("standardise", "cube", *cube(node, axes, None, scales))


def _layer_normalization(node: LayerNode, operator: op.LayerNormalization) -> KernelCall:
    dims = node.layer.shape.dims
    symbols = (node.symbol("scale", node.weights["scale"]), node.optional("shift"))
    steps = [0, 1, 0]
    axes = range(operator.axis, len(dims) if operator.last is None else operator.last + 1)
    if len(dims) == 3:
        axis_strides = strides_of([dims[axis] for axis in axes])
        steps = [axis_strides[axis - axes[0]] if axis in axes else 0 for axis in range(3)]
    return node.call(
        "standardise", "cube", *cube(node, axes, None, (*symbols, steps, operator.epsilon))
    )


def _axis_of(node: LayerNode, axis: int) -> int:
    """The index of an axis among the three axes of a cube."""
    return axis if node.inputs[0].is_map else 1


def _extreme_place(node: LayerNode, operator: op.ExtremePlace) -> KernelCall:
    axes = (operator.axis,)
    over = cube(node, axes, reduced_to(node, axes, keeps=True))
    flags = (operator.function == "min", operator.takes_last)
    return node.call("place_of_extreme", "extreme", over, *flags)


def _running_sum(node: LayerNode, operator: op.RunningSum) -> KernelCall:
    over, axis = cube(node, (operator.axis,)), _axis_of(node, operator.axis)
    flags = (operator.is_exclusive, operator.is_reversed)
    return node.call("running_sum", "running", over, axis, *flags)


def _number(types: Quantization | None, width: int) -> tuple[object, ...]:
    """The number of contiguous elements, their zero point and scale; zeros for floating point."""
    return (width, 0, 0.0) if types is None else (width, types.zero_point, types.scale)


def detections_call(node: LayerNode, operator: op.Detections) -> KernelCall:
    """Return the call for detections, from floating-point or quantised inputs."""
    types = node.layer.stored_as("anchors").quantization
    symbol = node.symbol("anchors", node.weights["anchors"])
    return node.call(
        "detect",
        "detecting",
        *(
            _number(kind, shape.dims[1])
            for kind, shape in zip(node.input_types, node.inputs, strict=True)
        ),
        _number(types, 0),
        *(operator.anchors, operator.count, operator.classes, operator.classes_each),
        operator.by_class or 0,
        *(operator.score_limit, operator.overlap_limit, operator.scales),
        *((None, symbol) if types is None else (symbol, None)),
    )


def _ranking(node: LayerNode, operator: op.Ranking) -> KernelCall:
    axis = operator.axis
    over = cube(node, (axis,), _axes(node.layer.shape, axis, axis + 1))
    flags = (not operator.takes_largest, operator.gives_places)
    return node.call("rank_elements", "ranking", over, _axis_of(node, axis), operator.count, *flags)


def _matrix_product(node: LayerNode, operator: op.MatrixProduct) -> KernelCall:
    values = node.real_weights("matrix", node.weights.get("matrix"))
    fields = product_fields(node, operator.units)
    return node.call("multiply_matrices", "product", fields, values, node.optional("bias"))


def product_fields(node: LayerNode, units: int | None, elements: int = 1) -> tuple[object, ...]:
    """Return sizes and strides of a matrix product. elements: arena elements per result element."""
    left, result = node.inputs[0], node.layer.shape
    rank = len(left.dims)
    if len(result.dims) != rank:
        raise node.refusal("of tensors of different numbers of axes")
    of_left, of_result = _matrices(left), _matrices(result)
    right: tuple[object, ...] = ((0, 0, 0), 0)
    if units is None:
        matrices = _matrices(node.inputs[1])
        batch = 0 if matrices.sizes[0] == 1 else matrices.steps[0]
        if (
            matrices.sizes[0] not in (1, of_result.sizes[0])
            or of_left.sizes[0] != of_result.sizes[0]
        ):
            raise node.refusal("of batches of different sizes")
        right = ((batch, *matrices.steps[1:]), matrices.is_map)
    steps = [elements * step for step in of_result.steps]
    sizes = (of_result.sizes[0], of_result.sizes[1], of_left.sizes[2], of_result.sizes[2])
    return (*sizes, *of_left[1:], *right, steps, of_result.is_map)


def _matrices(shape: Shape) -> ReductionAxes:
    """The axes of a tensor as a batch of matrices: batch, rows and columns."""
    if shape.is_map:
        return _axes(shape, 0, 0)
    dims = (1, 1, *shape.dims)
    return _of_three((prod(dims[:-2]), dims[-2], dims[-1]))


def attention_fields(node: LayerNode, operator: op.AttentionProduct) -> tuple[int, ...]:
    """Return the tokens and keys of a group, and the width of a head in the second input."""
    right = node.inputs[1]
    width = right.channels * right.width // operator.heads
    return (node.inputs[0].rows // operator.groups, right.rows // operator.groups, width)


_REDUCTIONS: dict[type, Emitter] = {
    op.AttentionProduct: lambda node, operator: node.call(
        f"attention_{operator.gives}", "attention", *attention_fields(node, operator)
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
        *cube(node, operator.axes),
    ),
}
register(Numbers.REAL, _REDUCTIONS)

"""Output shapes: integer arithmetic over operators and the shapes of their inputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from cnn2csdf import operators as op
from cnn2csdf.network import Shape
from csdf.errors import InvalidNetwork


def output_shape(operator: op.Operator, inputs: Sequence[Shape]) -> Shape:
    """Return the shape of what the operator writes.

    Raises InvalidNetwork where the inputs do not fit the operator or one another.
    """
    rule = _RULES[type(operator)]
    return Shape(dims=rule(operator, inputs))


def window_places(window: op.Window, height: int, width: int) -> tuple[int, int]:
    """Rows and columns of the output of a window over a map. Raises InvalidNetwork if none."""
    top, left, bottom, right = window.padding
    spans = (height + top + bottom + window.overhang[0], width + left + right + window.overhang[1])
    places = tuple(
        (span - extent) // stride + 1
        for span, extent, stride in zip(spans, window.extent, window.stride, strict=True)
    )
    if min(places) < 1:
        raise InvalidNetwork(
            f"a window of {window.extent[0]}x{window.extent[1]} does not fit into "
            f"{spans[0]}x{spans[1]}, padding included"
        )
    return (places[0], places[1])


def same_padding(
    size: tuple[int, int], window: op.Window, *, extra_first: bool = False
) -> tuple[int, int, int, int]:
    """Return top, left, bottom, right such that the output has ceil(size / stride) places.

    An odd amount has its extra row or column at the end, or at the start where `extra_first`
    (SAME_UPPER and SAME_LOWER of ONNX).
    """
    before, after = [], []
    for length, extent, stride in zip(size, window.extent, window.stride, strict=True):
        total = max(0, (-(-length // stride) - 1) * stride + extent - length)
        small, large = total // 2, total - total // 2
        before.append(large if extra_first else small)
        after.append(small if extra_first else large)
    return (before[0], before[1], after[0], after[1])


def ceil_overhang(size: tuple[int, int], window: op.Window) -> op.Pair:
    """Return the overhang with which no place is lost to rounding down (ceil mode).

    A window that would start beyond the input and its leading padding is left out, as in ONNX,
    PyTorch and Caffe.
    """
    overhang = []
    for axis in (0, 1):
        before, after = window.padding[axis], window.padding[axis + 2]
        span = size[axis] + before + after - window.extent[axis]
        stride = window.stride[axis]
        missing = -span % stride
        starts_outside = span + missing >= size[axis] + before
        overhang.append(0 if starts_outside else missing)
    return (overhang[0], overhang[1])


def _map(operator: op.Operator, inputs: Sequence[Shape]) -> tuple[int, int, int]:
    shape = _single(operator, inputs)
    if not shape.is_map:
        raise InvalidNetwork(
            f"{type(operator).__name__} needs feature maps (channels x height x width), "
            f"found {shape}"
        )
    return (shape.channels, shape.height, shape.width)


def _single(operator: op.Operator, inputs: Sequence[Shape]) -> Shape:
    if len(inputs) != 1:
        raise InvalidNetwork(f"{type(operator).__name__} takes one input, found {len(inputs)}")
    return inputs[0]


def _unchanged(operator: op.Operator, inputs: Sequence[Shape]) -> tuple[int, ...]:
    return _single(operator, inputs).dims


def _input(operator: op.Input, inputs: Sequence[Shape]) -> tuple[int, ...]:
    if inputs:
        raise InvalidNetwork(f"an input reads nothing, found {len(inputs)} inputs")
    return operator.dims


def _convolution(operator: op.Convolution, inputs: Sequence[Shape]) -> tuple[int, ...]:
    channels, height, width = _map(operator, inputs)
    _require_groups(channels, operator.filters, operator.groups)
    return (operator.filters, *window_places(operator.window, height, width))


def _require_groups(channels: int, filters: int, groups: int) -> None:
    if groups < 1 or channels % groups or filters % groups:
        raise InvalidNetwork(
            f"{groups} groups do not divide {channels} channels, {filters} filters"
        )


def _transposed(operator: op.TransposedConvolution, inputs: Sequence[Shape]) -> tuple[int, ...]:
    channels, height, width = _map(operator, inputs)
    _require_groups(channels, operator.filters, operator.groups)
    window = operator.window
    top, left, bottom, right = window.padding
    rows = (height - 1) * window.stride[0] + window.extent[0] - top - bottom + operator.extra[0]
    columns = (width - 1) * window.stride[1] + window.extent[1] - left - right + operator.extra[1]
    return (operator.filters, rows, columns)


def _pooling(operator: op.Pooling, inputs: Sequence[Shape]) -> tuple[int, ...]:
    channels, height, width = _map(operator, inputs)
    return (channels, *window_places(operator.window, height, width))


def _global_pooling(operator: op.GlobalPooling, inputs: Sequence[Shape]) -> tuple[int, ...]:
    return (_map(operator, inputs)[0], 1, 1)


def _fully_connected(operator: op.FullyConnected, inputs: Sequence[Shape]) -> tuple[int, ...]:
    _single(operator, inputs)
    return (operator.units,)


def _matrix_product(operator: op.MatrixProduct, inputs: Sequence[Shape]) -> tuple[int, ...]:
    if operator.units is not None:
        return (*_single(operator, inputs).dims[:-1], operator.units)
    if len(inputs) != 2:
        raise InvalidNetwork(f"a matrix product takes two inputs, found {len(inputs)}")
    left, right = (shape.dims for shape in inputs)
    if len(left) < 2 or len(right) < 2 or left[-1] != right[-2]:
        raise InvalidNetwork(f"a matrix product of {inputs[0]} and {inputs[1]} does not exist")
    return (*broadcast((left[:-2], right[:-2])), left[-2], right[-1])


def _elementwise(operator: op.Elementwise, inputs: Sequence[Shape]) -> tuple[int, ...]:
    dims = [shape.dims for shape in inputs]
    if operator.constant is not None:
        dims.append(operator.constant)
    return broadcast(dims)


def broadcast(shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """Return the dims of an elementwise result: axes are aligned at the end, size one repeats."""
    rank = max((len(dims) for dims in shapes), default=0)
    padded = [(1,) * (rank - len(dims)) + dims for dims in shapes]
    result = []
    for sizes in zip(*padded, strict=True):
        wide = {size for size in sizes if size != 1}
        if len(wide) > 1:
            listed = " and ".join(str(Shape(dims=dims)) for dims in shapes)
            raise InvalidNetwork(f"shapes {listed} do not fit one another element by element")
        result.append(wide.pop() if wide else 1)
    return tuple(result)


def _concatenation(operator: op.Concatenation, inputs: Sequence[Shape]) -> tuple[int, ...]:
    axis = operator.axis
    if not inputs or axis >= len(inputs[0].dims):
        raise InvalidNetwork(f"a concatenation along axis {axis} of {len(inputs)} inputs")
    rest = {(*shape.dims[:axis], *shape.dims[axis + 1 :]) for shape in inputs}
    if len(rest) > 1:
        listed = ", ".join(str(shape) for shape in inputs)
        raise InvalidNetwork(f"shapes {listed} do not fit along axis {axis}")
    total = sum(shape.dims[axis] for shape in inputs)
    first = inputs[0].dims
    return (*first[:axis], total, *first[axis + 1 :])


def _slice(operator: op.Slice, inputs: Sequence[Shape]) -> tuple[int, ...]:
    dims = _single(operator, inputs).dims
    if operator.axis >= len(dims):
        raise InvalidNetwork(f"a slice along axis {operator.axis} of {inputs[0]}")
    length = len(range(operator.start, min(operator.stop, dims[operator.axis]), operator.step))
    return (*dims[: operator.axis], length, *dims[operator.axis + 1 :])


def _shuffle(operator: op.ChannelShuffle, inputs: Sequence[Shape]) -> tuple[int, ...]:
    dims = _map(operator, inputs)
    _require_groups(dims[0], dims[0], operator.groups)
    return dims


def _resize(operator: op.Resize, inputs: Sequence[Shape]) -> tuple[int, ...]:
    return (_map(operator, inputs)[0], *operator.size)


def _pad(operator: op.Pad, inputs: Sequence[Shape]) -> tuple[int, ...]:
    channels, height, width = _map(operator, inputs)
    top, left, bottom, right = operator.padding
    return (channels, height + top + bottom, width + left + right)


def _space_to_depth(operator: op.SpaceToDepth, inputs: Sequence[Shape]) -> tuple[int, ...]:
    channels, height, width = _map(operator, inputs)
    block = operator.block
    if height % block or width % block:
        raise InvalidNetwork(f"blocks of {block}x{block} do not divide {height}x{width}")
    return (channels * block * block, height // block, width // block)


def _depth_to_space(operator: op.DepthToSpace, inputs: Sequence[Shape]) -> tuple[int, ...]:
    channels, height, width = _map(operator, inputs)
    block = operator.block
    if channels % (block * block):
        raise InvalidNetwork(f"blocks of {block}x{block} do not divide {channels} channels")
    return (channels // (block * block), height * block, width * block)


def _reshape(operator: op.Reshape, inputs: Sequence[Shape]) -> tuple[int, ...]:
    shape = _single(operator, inputs)
    if prod(operator.dims) != shape.elements:
        wanted = "x".join(str(size) for size in operator.dims)
        raise InvalidNetwork(f"{shape} has {shape.elements} elements, not those of {wanted}")
    return operator.dims


def _transpose(operator: op.Transpose, inputs: Sequence[Shape]) -> tuple[int, ...]:
    dims = _single(operator, inputs).dims
    if sorted(operator.permutation) != list(range(len(dims))):
        raise InvalidNetwork(f"{operator.permutation} does not reorder the axes of {inputs[0]}")
    return tuple(dims[axis] for axis in operator.permutation)


def _reduction(operator: op.Reduction, inputs: Sequence[Shape]) -> tuple[int, ...]:
    dims = _single(operator, inputs).dims
    kept = [
        (1 if axis in operator.axes else size)
        for axis, size in enumerate(dims)
        if operator.keeps or axis not in operator.axes
    ]
    return tuple(kept) or (1,)


_RULES: dict[type, Callable[[Any, Sequence[Shape]], tuple[int, ...]]] = {
    op.Input: _input,
    op.Output: _unchanged,
    op.Convolution: _convolution,
    op.TransposedConvolution: _transposed,
    op.Pooling: _pooling,
    op.GlobalPooling: _global_pooling,
    op.FullyConnected: _fully_connected,
    op.MatrixProduct: _matrix_product,
    op.BatchNormalization: _unchanged,
    op.InstanceNormalization: _unchanged,
    op.LayerNormalization: _unchanged,
    op.LocalResponseNormalization: _unchanged,
    op.Activation: _unchanged,
    op.Elementwise: _elementwise,
    op.Concatenation: _concatenation,
    op.Slice: _slice,
    op.ChannelShuffle: _shuffle,
    op.Resize: _resize,
    op.Pad: _pad,
    op.SpaceToDepth: _space_to_depth,
    op.DepthToSpace: _depth_to_space,
    op.Reshape: _reshape,
    op.Transpose: _transpose,
    op.Identity: _unchanged,
    op.Softmax: _unchanged,
    op.Reduction: _reduction,
}

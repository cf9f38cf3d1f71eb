"""What a library calls for a layer: the C function, and the numbers that it takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, NamedTuple

import numpy as np

from cnn2csdf import operators as op
from cnn2csdf.elements import Quantization
from cnn2csdf.network import Layer, Network, Shape
from cnn2csdf.operators.resized_axis import ResizedAxis
from cnn2csdf.weights import Array
from csdf.errors import UnsupportedOperator
from planners.code.names import identifier, number
from planners.code.parts import defined_names
from planners.code.rules import rule_of
from planners.code.tables import NULL, Tables

BLOCK = 16  # filters whose weights lie side by side, as in reals.c


class Call(NamedTuple):
    """A C function and the address of its numbers."""

    function: str
    parameters: str = NULL


@dataclass(frozen=True, slots=True, kw_only=True)
class Described:
    """A layer with what it takes to write a call for it.

    given: what the integers of its inputs stand for, where they are quantised.
    """

    layer: Layer
    inputs: tuple[Shape, ...]
    weights: Mapping[str, Array]
    tables: Tables
    given: tuple[Quantization | None, ...]

    def symbol(self, role: str, array: Array) -> str:
        """Return the symbol of some trained numbers, as they lie in memory."""
        return self.tables.weights(f"{identifier(self.layer.name)}_{role}", array)

    def optional(self, role: str) -> str:
        """Return the symbol of trained numbers that may be missing."""
        return self.symbol(role, self.weights[role]) if role in self.weights else NULL

    def structure(self, kind: str, *fields: str | int) -> str:
        """Return the address of the numbers of the layer."""
        return self.tables.one(kind, identifier(self.layer.name), [str(one) for one in fields])

    def refusal(self, what: str) -> UnsupportedOperator:
        """Return the error for a layer that no kernel computes."""
        name = type(self.layer.operator).__name__
        return UnsupportedOperator(f"layer {self.layer.name!r}: no C code for {name} {what}")


def described(
    network: Network, layer: Layer, weights: Mapping[str, Array], tables: Tables
) -> Described:
    """Return a layer with what it takes to write a call for it."""
    return Described(
        layer=layer,
        inputs=network.input_shapes(layer),
        weights=weights,
        tables=tables,
        given=tuple(network.layer(source).quantization for source in layer.inputs),
    )


def call_of(one: Described) -> Call:
    """Return the call for a layer that makes rows of its result.

    Raises UnsupportedOperator, naming the layer, where there is no kernel.
    """
    found = _CALLS.get(type(one.layer.operator))
    if found is None:
        raise one.refusal("at all")
    return found(one, one.layer.operator)


def move_call(one: Described) -> Call:
    """Return the call for a layer that moves elements and changes none."""
    return call_of(one)


def sums_call(one: Described) -> Call:
    """Return the call for a layer that adds up its input row by row."""
    operator = one.layer.operator
    if isinstance(operator, op.FullyConnected):
        packed = row_order(one.weights["matrix"], one.inputs[0]).T
        fields = (operator.units, one.symbol("matrix", packed), one.optional("bias"))
        return Call("sum_fully", one.structure("matrix", *fields))
    return Call("sum_row", _summing(one))


def channels_calls(first: Described, last: Described) -> tuple[Call, Call]:
    """Return the calls for a convolution and the layer that sums up each of its feature maps."""
    if any(isinstance(step, op.LocalResponseNormalization) for step in first.layer.epilogue):
        raise first.refusal("with a normalisation over channels that are summed one by one")
    assert isinstance(first.layer.operator, op.Convolution)
    parameters = _dense(first, first.layer.operator).parameters
    return Call(NULL, parameters), Call("sum_channels", _summing(last))


def _summing(one: Described) -> str:
    source = one.inputs[0]
    rows, columns = source.height, source.width
    scale, is_largest = 1.0, False
    match one.layer.operator:
        case op.Pooling(function=function, window=window):
            rows, columns = window.extent
            scale, is_largest = 1 / (rows * columns), function == "max"
        case op.GlobalPooling(function=function):
            scale, is_largest = 1 / (rows * columns), function == "max"
        case op.Reduction(function=function):
            scale = 1 / (rows * columns) if function == "mean" else 1.0
            is_largest = function == "max"
        case _:
            raise one.refusal("row by row")
    scale = 1.0 if is_largest else scale
    return one.structure("summing", rows, columns, int(is_largest), number(scale))


def window_text(window: op.Window) -> str:
    """Return the initialiser of a window."""
    top, left, bottom, right = window.padding
    pairs = (window.kernel, window.stride, window.dilation, (top, left), (bottom, right))
    return "{" + ", ".join(f"{{{one}, {two}}}" for one, two in pairs) + "}"


def packed_filters(kernel: Array, groups: int, block: int = BLOCK) -> Array:
    """Return filters (filters, inputs, rows, columns) as the C code reads them.

    Group by group, block of filters by block of filters; in these tap by tap, input by input.
    """
    filters = len(kernel) // groups
    pieces = [
        kernel[group * filters + first : group * filters + min(first + block, filters)]
        .transpose(2, 3, 1, 0)
        .reshape(-1)
        for group in range(groups)
        for first in range(0, filters, block)
    ]
    return np.concatenate(pieces)


def _convolution(one: Described, operator: op.Convolution) -> Call:
    is_depthwise = operator.groups == one.inputs[0].channels == operator.filters
    if not is_depthwise or operator.groups == 1:
        return _dense(one, operator)
    kernel = one.weights["kernel"][:, 0].transpose(1, 2, 0)
    fields = (window_text(operator.window), operator.groups, 1, 1)
    symbols = (one.symbol("kernel", kernel), one.optional("bias"))
    return Call("convolve_depthwise", one.structure("convolution", *fields, *symbols))


def _dense(one: Described, operator: op.Convolution) -> Call:
    kernel = packed_filters(one.weights["kernel"], operator.groups)
    fields = (
        window_text(operator.window),
        operator.groups,
        one.inputs[0].channels // operator.groups,
        operator.filters // operator.groups,
    )
    symbols = (one.symbol("kernel", kernel), one.optional("bias"))
    return Call("convolve", one.structure("convolution", *fields, *symbols))


def _transposed(one: Described, operator: op.TransposedConvolution) -> Call:
    groups, inputs = operator.groups, one.inputs[0].channels // operator.groups
    kernel = one.weights["kernel"]  # (inputs, filters of a group, rows, columns)
    turned = kernel.reshape(groups, inputs, -1, *operator.window.kernel).swapaxes(1, 2)
    packed = packed_filters(
        turned.reshape(operator.filters, inputs, *operator.window.kernel), groups
    )
    fields = (window_text(operator.window), groups, inputs, operator.filters // groups)
    symbols = (one.symbol("kernel", packed), one.optional("bias"))
    return Call("convolve_transposed", one.structure("convolution", *fields, *symbols))


def row_order(matrix: Array, source: Shape) -> Array:
    """Return the columns of a matrix in the order in which the input lies in the arena."""
    if not source.is_map:
        return matrix
    return matrix.reshape(-1, *source.dims).transpose(0, 2, 3, 1).reshape(len(matrix), -1)


def _fully_connected(one: Described, operator: op.FullyConnected) -> Call:
    matrix = row_order(one.weights["matrix"], one.inputs[0])
    packed = packed_filters(matrix[:, :, None, None], 1)
    fields = (operator.units, one.symbol("matrix", packed), one.optional("bias"))
    return Call("connect_fully", one.structure("matrix", *fields))


def _pooling(one: Described, operator: op.Pooling) -> Call:
    function = "pool_largest" if operator.function == "max" else "pool_mean"
    fields = (window_text(operator.window), int(operator.counts_padding))
    return Call(function, one.structure("pooling", *fields))


def _copy(_one: Described, _operator: op.Operator) -> Call:
    return Call("copy_region")


def _strides(dims: Sequence[int], operand: Sequence[int]) -> list[int]:
    """Steps of an operand along axes of the result, aligned at the end; nought where it repeats."""
    padded = [1] * (len(dims) - len(operand)) + list(operand)
    steps, step = [], 1
    for size in reversed(padded):
        steps.append(step if size > 1 else 0)
        step *= size
    return steps[::-1]


def _elementwise(one: Described, operator: op.Elementwise) -> Call:
    operands = [operand_text(one, index) for index in range(len(one.inputs))]
    if operator.constant is not None:
        place = 0 if operator.constant_first else len(operands)
        operands.insert(place, _constant(one, one.weights["constant"]))
    function = f"of_{operator.function}"
    if function not in defined_names("combine.c"):
        raise one.refusal(f"of the function {operator.function!r}")
    each = one.tables.defined("operand", identifier(one.layer.name), operands)
    one.tables.wanted.add(function)
    fields = (function, len(operands), int(operator.function == "mean"), each)
    return Call("combine", one.structure("combining", *fields))


def operand_text(one: Described, index: int) -> str:
    """Return how an input lies beside the result: values, input, is_map, channel, row, column."""
    dims, shape = one.layer.shape.dims, one.inputs[index]
    if shape.is_map:
        if len(dims) != 3:
            raise one.refusal("of feature maps and a tensor of more axes")
        channels, height, width = shape.dims
        steps = (int(channels > 1), int(height > 1), int(width > 1))
    elif len(dims) == 3:
        steps = tuple(_strides(dims, shape.dims))  # type: ignore[assignment]
    elif shape.elements in (1, one.layer.shape.elements):
        steps = (int(shape.elements > 1), 0, 0)
    else:
        raise one.refusal("whose inputs repeat along an axis of tensors that are no maps")
    return "{NULL, " + ", ".join(map(str, (index, int(shape.is_map), *steps))) + "}"


def _constant(one: Described, constant: Array) -> str:
    symbol, steps = laid_constant(one, constant, "constant")
    return f"{{{symbol}, 0, 0, {', '.join(map(str, steps))}}}"


def laid_constant(one: Described, constant: Array, role: str) -> tuple[str, list[int]]:
    """Return the symbol of a constant operand, and its steps along channels, rows, columns."""
    dims = one.layer.shape.dims
    if len(dims) == 3:
        return one.symbol(role, constant), _strides(dims, constant.shape)
    spread = np.broadcast_to(constant, dims) if constant.size > 1 else constant
    return one.symbol(role, spread), [int(constant.size > 1), 0, 0]


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
    strides = _strides_of(one.inputs[0].dims)
    first = operator.start * strides[operator.axis]
    strides[operator.axis] *= operator.step
    return _moving(one, one.layer.shape.dims, strides, first)


def _strides_of(dims: Sequence[int]) -> list[int]:
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
    strides = _strides_of(one.inputs[0].dims)
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
    strides = _strides_of(sizes)
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


class Axes(NamedTuple):
    """A tensor as three axes; of a map, the step along rows is nought."""

    sizes: tuple[int, int, int]
    steps: tuple[int, int, int]
    is_map: bool


def _axes(shape: Shape, first: int, end: int) -> Axes:
    """The axes of a map, or those before, from `first` to before `end`, and behind of others."""
    if shape.is_map:
        channels, height, width = shape.dims
        return Axes((channels, height, width), (1, 0, channels), is_map=True)
    dims = shape.dims
    sizes = (prod(dims[:first]), prod(dims[first:end]), prod(dims[end:]))
    return Axes(sizes, (sizes[1] * sizes[2], sizes[2], 1), is_map=False)


def _listed(three: Sequence[int]) -> str:
    return "{" + ", ".join(str(int(one)) for one in three) + "}"


def cube_fields(
    one: Described,
    reduced: Sequence[int],
    to: Axes | None = None,
    scales: Sequence[str] = (NULL, NULL, "{0, 0, 0}", "0"),
) -> list[str]:
    """Return the structure of a function over axes of the input that follow one another."""
    shape = one.inputs[0]
    if not shape.is_map and tuple(reduced) != tuple(range(reduced[0], reduced[-1] + 1)):
        raise one.refusal(f"over axes {tuple(reduced)} of {len(shape.dims)}")
    source = _axes(shape, reduced[0], reduced[-1] + 1)
    target = to or source
    flags = [axis in reduced for axis in range(3)] if shape.is_map else [False, True, False]
    ends = (source.steps, int(source.is_map)), (target.steps, int(target.is_map))
    fields = [_listed(source.sizes), _listed(flags)]
    for steps, is_map in ends:
        fields += [_listed(steps), str(is_map)]
    return [*fields, *scales]


def _cube(one: Described, *arguments: Any) -> str:
    """The address of the structure of cube_fields."""
    return one.structure("cube", *cube_fields(one, *arguments))


def _softmax(one: Described, operator: op.Softmax) -> Call:
    last = operator.axis if operator.last is None else operator.last
    function = "log_softmax" if operator.is_logarithm else "softmax"
    return Call(function, _cube(one, range(operator.axis, last + 1)))


def _reduction(one: Described, operator: op.Reduction) -> Call:
    return _reduced(one, operator.function, tuple(sorted(operator.axes)), keeps=operator.keeps)


def reduced_to(one: Described, axes: tuple[int, ...], *, keeps: bool) -> Axes:
    """Return the axes of a result that has one element for all those along some axes."""
    shape, result = one.inputs[0], one.layer.shape
    sizes = _axes(shape, axes[0], axes[-1] + 1).sizes
    flags = [axis in axes for axis in range(3)] if shape.is_map else [False, True, False]
    if shape.is_map and result.is_map and keeps:
        steps = [
            0 if flag else step for flag, step in zip(flags, (1, 0, result.channels), strict=True)
        ]
        to = Axes(sizes, (steps[0], 0, steps[2]), is_map=not flags[1])
    else:
        left = [1 if flag else size for flag, size in zip(flags, sizes, strict=True)]
        steps = [0 if flag else step for flag, step in zip(flags, _strides_of(left), strict=True)]
        to = Axes(sizes, (steps[0], steps[1], steps[2]), is_map=False)
    if result.is_map and not shape.is_map:
        raise one.refusal("that makes feature maps of a tensor of more axes")
    return to


def _reduced(one: Described, function: str, axes: tuple[int, ...], *, keeps: bool) -> Call:
    return Call(f"reduce_{function}", _cube(one, axes, reduced_to(one, axes, keeps=keeps)))


def _global_pooling(one: Described, operator: op.GlobalPooling) -> Call:
    function = "max" if operator.function == "max" else "mean"
    return _reduced(one, function, (1, 2), keeps=True)


def _instance(one: Described, operator: op.InstanceNormalization) -> Call:
    axes = range(1, len(one.layer.shape.dims))
    scales = (one.symbol("scale", one.weights["scale"]), one.symbol("shift", one.weights["shift"]))
    steps = "{1, 0, 0}"
    return Call("standardise", _cube(one, axes, None, (*scales, steps, number(operator.epsilon))))


def _layer_normalization(one: Described, operator: op.LayerNormalization) -> Call:
    dims = one.layer.shape.dims
    scales = (one.symbol("scale", one.weights["scale"]), one.optional("shift"))
    steps = [0, 1, 0]
    if len(dims) == 3:
        steps = [
            step if axis >= operator.axis else 0 for axis, step in enumerate(_strides_of(dims))
        ]
    fields = (*scales, _listed(steps), number(operator.epsilon))
    return Call("standardise", _cube(one, range(operator.axis, len(dims)), None, fields))


def _matrix_product(one: Described, operator: op.MatrixProduct) -> Call:
    left, result = one.inputs[0], one.layer.shape
    rank = len(left.dims)
    if len(result.dims) != rank or (rank > 3 and operator.units is None):
        raise one.refusal("of tensors of different numbers of axes")
    of_left, of_result = _matrices(left), _matrices(result)
    right = (_listed((0, 0, 0)), 0)
    values = NULL
    if operator.units is not None:
        values = one.symbol("matrix", one.weights["matrix"])
    else:
        other = _matrices(one.inputs[1])
        batch = 0 if other.sizes[0] == 1 else other.steps[0]
        if other.sizes[0] not in (1, of_result.sizes[0]) or of_left.sizes[0] != of_result.sizes[0]:
            raise one.refusal("of batches of different sizes")
        right = (_listed((batch, *other.steps[1:])), int(other.is_map))
    fields = (
        *(of_result.sizes[0], of_result.sizes[1], of_left.sizes[2], of_result.sizes[2]),
        *(_listed(of_left.steps), int(of_left.is_map), *right),
        *(_listed(of_result.steps), int(of_result.is_map), values),
    )
    return Call("multiply_matrices", one.structure("product", *fields))


def _matrices(shape: Shape) -> Axes:
    """Batch, rows and columns."""
    if shape.is_map:
        return _axes(shape, 0, 0)
    dims = (1, 1, *shape.dims)
    sizes = (prod(dims[:-2]), dims[-2], dims[-1])
    return Axes(sizes, (sizes[1] * sizes[2], sizes[2], 1), is_map=False)


_CALLS: dict[type, Callable[[Described, Any], Call]] = {
    op.Convolution: _convolution,
    op.TransposedConvolution: _transposed,
    op.Pooling: _pooling,
    op.GlobalPooling: _global_pooling,
    op.FullyConnected: _fully_connected,
    op.MatrixProduct: _matrix_product,
    op.BatchNormalization: _copy,
    op.InstanceNormalization: _instance,
    op.LayerNormalization: _layer_normalization,
    op.LocalResponseNormalization: _copy,
    op.Activation: _copy,
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
    op.Identity: _copy,
    op.Conversion: _copy,
    op.Softmax: _softmax,
    op.Reduction: _reduction,
}

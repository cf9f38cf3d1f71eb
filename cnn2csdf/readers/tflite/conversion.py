"""Nodes of a TensorFlow Lite graph as layers: one function for each kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from math import prod

import numpy as np

from cnn2csdf import operators as op
from cnn2csdf.geometry import same_padding
from cnn2csdf.readers.tflite.assembly import Assembly, Trained, refusal
from cnn2csdf.readers.tflite.model_file import Dims, Node
from cnn2csdf.readers.tflite.records import Record
from cnn2csdf.shape import Shape
from csdf.errors import UnreadableFile

SAME, VALID = 0, 1


def _options(node: Node) -> Record:
    if node.options is None:
        raise UnreadableFile(f"{node} has no options")
    return node.options


def _fused(node: Node, field: int) -> int:
    return 0 if node.options is None else node.options.integer(field, "b")


def _padded(node: Node, window: op.Window, shape: Shape) -> op.Window:
    padding = _options(node).integer(0, "b")
    if padding not in (SAME, VALID):
        raise UnreadableFile(f"{node}: padding {padding}; expected 0 or 1")
    size = (shape.height, shape.width)
    return op.Window(
        kernel=window.kernel,
        stride=window.stride,
        dilation=window.dilation,
        padding=same_padding(size, window) if padding == SAME else (0, 0, 0, 0),
    )


def _window(node: Node, kernel: op.Pair, *, dilations: int | None) -> op.Window:
    """Strides are fields 1 and 2, the horizontal one first; dilations where they are."""
    options = _options(node)
    across, down = options.integer(1, "i"), options.integer(2, "i")
    dilation = (1, 1)
    if dilations is not None:
        dilation = (options.integer(dilations + 1, "i", 1), options.integer(dilations, "i", 1))
    return op.Window(kernel=kernel, stride=(down, across), dilation=dilation)


def _require_one_type(node: Node, assembly: Assembly) -> None:
    """Raise UnsupportedOperator for integer weights of real numbers, and such."""
    given, weights = assembly.tensor(node, 0), assembly.tensor(node, 1)
    if (given.quantization() is None) != (weights.quantization() is None):
        raise refusal(
            node,
            f"weights of {weights.element and weights.element.value} for an input of "
            f"{given.element and given.element.value} (hybrid) are not supported",
        )


def _require_centred(node: Node, trained: Trained) -> None:
    quantization = trained.stored.quantization
    if quantization is not None and quantization.zero_point:
        raise refusal(node, f"weights with a zero point of {quantization.zero_point}, expected 0")


def _bias(node: Node, assembly: Assembly, units: int) -> list[Trained]:
    if not assembly.has(node, 2):
        return []
    bias = assembly.constant(node, 2)
    if bias.size != units:
        raise UnreadableFile(f"{node}: {bias.size} biases for {units} channels")
    return [assembly.trained(node, 2, "bias", bias.reshape(-1))]


def convolution(node: Node, assembly: Assembly) -> None:
    """Add a convolution; the filters are (filters, rows, columns, channels of a group)."""
    kernel, shape = assembly.constant(node, 1), assembly.map_shape(node, 0)
    _require_one_type(node, assembly)
    if kernel.ndim != 4 or not kernel.size or shape.channels % kernel.shape[3]:
        raise UnreadableFile(f"{node}: a kernel of {kernel.shape} for an input of {shape}")
    _add_convolution(
        node,
        assembly,
        np.moveaxis(kernel, 3, 1),
        groups=shape.channels // kernel.shape[3],
        fused=_fused(node, 3),
        dilations=4,
    )


def depthwise_convolution(node: Node, assembly: Assembly) -> None:
    """Add a depthwise convolution; the filters are (1, rows, columns, filters)."""
    kernel, shape = assembly.constant(node, 1), assembly.map_shape(node, 0)
    _require_one_type(node, assembly)
    if kernel.ndim != 4 or not kernel.size or kernel.shape[3] % shape.channels:
        raise UnreadableFile(f"{node}: a kernel of {kernel.shape} for an input of {shape}")
    _add_convolution(
        node,
        assembly,
        np.moveaxis(kernel, 3, 0),
        groups=shape.channels,
        fused=_fused(node, 4),
        dilations=5,
    )


def _add_convolution(
    node: Node,
    assembly: Assembly,
    kernel: np.ndarray,
    *,
    groups: int,
    fused: int,
    dilations: int,
) -> None:
    filters, rows, columns = kernel.shape[0], kernel.shape[2], kernel.shape[3]
    trained = assembly.trained(node, 1, "kernel", kernel)
    _require_centred(node, trained)
    bias = _bias(node, assembly, filters)
    window = _window(node, (rows, columns), dilations=dilations)
    operator = op.Convolution(
        filters=filters,
        window=_padded(node, window, assembly.map_shape(node, 0)),
        groups=groups,
        has_bias=bool(bias),
    )
    assembly.add(
        node,
        operator,
        sources=[assembly.source(node, 0)],
        trained=[trained, *bias],
        fused=fused,
    )


def transposed_convolution(node: Node, assembly: Assembly) -> None:
    """Add a transposed convolution; its inputs are a size, the filters and the maps."""
    kernel, shape = assembly.constant(node, 1), assembly.map_shape(node, 2)
    if kernel.ndim != 4 or kernel.shape[3] != shape.channels:
        raise UnreadableFile(f"{node}: a kernel of {kernel.shape} for an input of {shape}")
    window = _window(node, (kernel.shape[1], kernel.shape[2]), dilations=None)
    _, height, width, _ = assembly.output(node).dims
    before, after = [], []
    for axis, length, size in (
        (window.rows, shape.height, height),
        (window.columns, shape.width, width),
    ):
        total = axis.scattered(length) - size
        before.append(max(total, 0) // 2)
        after.append(total - before[-1])
    operator = op.TransposedConvolution(
        filters=kernel.shape[0],
        window=op.Window(
            kernel=window.kernel,
            stride=window.stride,
            padding=(before[0], before[1], max(after[0], 0), max(after[1], 0)),
        ),
        has_bias=assembly.has(node, 3),
        extra=(max(-after[0], 0), max(-after[1], 0)),
    )
    trained = [assembly.trained(node, 1, "kernel", kernel.transpose(3, 0, 1, 2))]
    if assembly.has(node, 3):
        trained.append(assembly.trained(node, 3, "bias", assembly.constant(node, 3)))
    source = assembly.source(node, 2)
    assembly.add(node, operator, sources=[source], trained=trained, fused=_fused(node, 3))


def fully_connected(node: Node, assembly: Assembly) -> None:
    """Add a fully connected layer; its columns are in (row, column, channel) order."""
    matrix, shape = assembly.constant(node, 1), assembly.shape(node, 0)
    _require_one_type(node, assembly)
    if matrix.ndim != 2 or not matrix.size or matrix.shape[1] != shape.elements:
        raise refusal(node, f"a matrix of {matrix.shape} for an input of {shape}")
    units = matrix.shape[0]
    if shape.is_map:
        places = (units, shape.height, shape.width, shape.channels)
        matrix = np.moveaxis(matrix.reshape(places), 3, 1).reshape(units, -1)
    bias = _bias(node, assembly, units)
    operator = op.FullyConnected(units=units, has_bias=bool(bias))
    trained = [assembly.trained(node, 1, "matrix", matrix), *bias]
    source = assembly.source(node, 0)
    assembly.add(node, operator, sources=[source], trained=trained, fused=_fused(node, 0))


def pooling(node: Node, assembly: Assembly, *, function: str) -> None:
    """Add a pooling; padding does not count in a mean."""
    options, shape = _options(node), assembly.map_shape(node, 0)
    kernel = (options.integer(4, "i"), options.integer(3, "i"))
    window = _padded(node, _window(node, kernel, dilations=None), shape)
    operator = op.Pooling(function=function, window=window)
    assembly.add(node, operator, sources=[assembly.source(node, 0)], fused=_fused(node, 5))


def elementwise(node: Node, assembly: Assembly, *, function: str) -> None:
    """Add a function of two tensors, one of which may be a constant."""
    dynamic = [index for index in (0, 1) if assembly.is_dynamic(node, index)]
    if not dynamic:
        raise refusal(node, "both operands are constants")
    sources = [assembly.source(node, index) for index in dynamic]
    if len(dynamic) == 2:
        ranks = {len(assembly.tensor(node, index).dims) for index in dynamic}
        if len(ranks) > 1:
            raise refusal(node, "operands with different numbers of axes")
        operator, trained = op.Elementwise(function=function), []
    else:
        place = 1 - dynamic[0]
        rank = len(assembly.tensor(node, dynamic[0]).dims)
        value = assembly.constant(node, place)
        value = value.reshape((1,) * (rank - value.ndim) + value.shape)
        value = np.moveaxis(value[0], 2, 0) if rank == 4 else value[0] if rank > 1 else value
        trained = [assembly.trained(node, place, "constant", value)]
        operator = op.Elementwise(
            function=function, constant=value.shape or (1,), constant_first=place == 0
        )
    assembly.add(node, operator, sources=sources, trained=trained, fused=_fused(node, 0))


def activation(
    node: Node, assembly: Assembly, *, function: str, parameters: tuple[float, ...] = ()
) -> None:
    """Add a function of single elements."""
    operator = op.Activation(function=function, parameters=parameters)
    assembly.add(node, operator, sources=[assembly.source(node, 0)])


def leaky_relu(node: Node, assembly: Assembly) -> None:
    """Add a rectifier with a slope."""
    slope = float(str(np.float32(_options(node).real(0))))
    activation(node, assembly, function="leaky relu", parameters=(slope,))


def softmax(node: Node, assembly: Assembly, *, is_logarithm: bool = False) -> None:
    """Add a softmax over the last axis, that of the channels in maps."""
    if not is_logarithm and _options(node).real(0) != 1.0:
        raise refusal(node, f"beta is {_options(node).real(0)}, expected 1")
    shape = assembly.shape(node, 0)
    axis = 0 if shape.is_map else len(shape.dims) - 1
    operator = op.Softmax(axis=axis, is_logarithm=is_logarithm)
    assembly.add(node, operator, sources=[assembly.source(node, 0)])


def conversion(node: Node, assembly: Assembly) -> None:
    """Add a layer that stores the same numbers in another way."""
    assembly.add(node, op.Conversion(), sources=[assembly.source(node, 0)])


def reshape(node: Node, assembly: Assembly) -> None:
    """Add a reshape of elements in (row, column, channel) order."""
    shape, wanted = assembly.shape(node, 0), assembly.output(node).dims
    steps: list[op.Operator] = []
    if shape.is_map and min(shape.channels, shape.height * shape.width) > 1:
        steps.append(op.Transpose(permutation=(1, 2, 0)))
    if len(wanted) == 4:
        _, height, width, channels = wanted
        if min(channels, height * width) > 1:
            steps.append(op.Reshape(dims=(height, width, channels)))
            steps.append(op.Transpose(permutation=(2, 0, 1)))
        else:
            steps.append(op.Reshape(dims=(channels, height, width)))
    else:
        steps.append(op.Reshape(dims=wanted[1:] if len(wanted) > 1 else wanted or (1,)))
    assembly.add(node, *steps, sources=[assembly.source(node, 0)])


def _our_axis(node: Node, rank: int, axis: int) -> int:
    """Which axis of the layer an axis of the tensor is; layers have no axis for the batch."""
    if not -rank <= axis < rank or axis % rank == 0:
        raise refusal(node, f"axis {axis} of a tensor with {rank} axes")
    place = axis % rank - 1
    return (place + 1) % 3 if rank == 4 else place


def transpose(node: Node, assembly: Assembly) -> None:
    """Add a transposition that leaves the batch where it is."""
    order = assembly.integers(node, 1)
    rank = len(assembly.tensor(node, 0).dims)
    if sorted(order) != list(range(rank)) or rank < 2 or order[0] != 0:
        raise refusal(node, f"a transposition by {order}")
    ours = [_our_axis(node, rank, axis) for axis in order[1:]]
    permutation = (ours[2], ours[0], ours[1]) if rank == 4 else tuple(ours)
    operator = op.Transpose(permutation=permutation)
    assembly.add(node, operator, sources=[assembly.source(node, 0)])


def mean(node: Node, assembly: Assembly) -> None:
    """Add a mean over some axes; where an axis goes, the rest may change places."""
    tensor = assembly.tensor(node, 0)
    rank, keeps = len(tensor.dims), bool(_options(node).integer(0, "b"))
    gone = {axis % rank for axis in assembly.integers(node, 1) if -rank <= axis < rank}
    if not gone or 0 in gone:
        raise refusal(node, "a mean over no axis, or over the batch")
    axes = tuple(sorted(_our_axis(node, rank, axis) for axis in gone))
    steps: list[op.Operator] = [op.Reduction(function="mean", axes=axes, keeps=keeps)]
    left = [axis for axis in range(1, rank) if axis not in gone]
    if not keeps and rank == 4 and len(left) == 2:
        now = sorted(left, key=lambda axis: _our_axis(node, rank, axis))
        if now != left:
            steps.append(op.Transpose(permutation=(1, 0)))
    assembly.add(node, *steps, sources=[assembly.source(node, 0)])


def pad(node: Node, assembly: Assembly, *, mode: str = "constant") -> None:
    """Add rows and columns of zeros around maps."""
    assembly.map_shape(node, 0)
    amounts = assembly.constant(node, 1).reshape(-1, 2).tolist()
    if len(amounts) != 4 or any(amounts[0]) or any(amounts[3]):
        raise refusal(node, f"padding of {amounts}; expected rows and columns")
    (top, bottom), (left, right) = amounts[1:3]
    operator = op.Pad(padding=(top, left, bottom, right), mode=mode)
    assembly.add(node, operator, sources=[assembly.source(node, 0)])


def concatenation(node: Node, assembly: Assembly) -> None:
    """Add a concatenation of tensors that are stored in the same way."""
    rank = len(assembly.output(node).dims)
    axis = _our_axis(node, rank, _options(node).integer(0, "i"))
    sources = [assembly.source(node, index) for index in range(len(node.inputs))]
    operator = op.Concatenation(axis=axis)
    assembly.add(node, operator, sources=sources, fused=_fused(node, 1))


def split(node: Node, assembly: Assembly) -> None:
    """Add a slice for each output; the axis is the first input."""
    rank = len(assembly.tensor(node, 1).dims)
    axis, begin = _our_axis(node, rank, assembly.integers(node, 0)[0]), 0
    for number in range(len(node.outputs)):
        dims = assembly.output(node, number).dims
        size = dims[{0: 3, 1: 1, 2: 2}[axis] if rank == 4 else axis + 1]
        operator = op.Slice(axis=axis, start=begin, stop=begin + size)
        assembly.add(node, operator, sources=[assembly.source(node, 1)], output=number)
        begin += size


def strided_slice(node: Node, assembly: Assembly) -> None:
    """Add a slice along each axis that is not taken whole."""
    options, dims = _options(node), assembly.tensor(node, 0).dims
    if any(options.integer(field, "i") for field in (2, 3, 4)):
        raise refusal(node, "ellipses, new and dropped axes are not supported")
    begins, ends, steps = (assembly.integers(node, index) for index in (1, 2, 3))
    if not len(begins) == len(ends) == len(steps) == len(dims) or min(steps) < 1:
        raise refusal(node, f"a slice by {steps} of a tensor with {len(dims)} axes")
    slices: list[op.Operator] = []
    for axis, size in enumerate(dims):
        begin = 0 if options.integer(0, "i") >> axis & 1 else begins[axis]
        end = size if options.integer(1, "i") >> axis & 1 else ends[axis]
        begin, end, step = slice(begin, end, steps[axis]).indices(size)
        if (begin, end, step) != (0, size, 1):
            place = _our_axis(node, len(dims), axis)
            slices.append(op.Slice(axis=place, start=begin, stop=end, step=step))
    assembly.add(node, *(slices or [op.Identity()]), sources=[assembly.source(node, 0)])


def resize(node: Node, assembly: Assembly, *, function: str, corners: int) -> None:
    """Add a resize; corners: the field that aligns corners, half-pixel centres follow."""
    options, shape = _options(node), assembly.map_shape(node, 0)
    size: Dims = assembly.integers(node, 1)
    if len(size) != 2 or shape.elements == 0:
        raise UnreadableFile(f"{node}: a size of {size}; expected height and width")
    coordinates = "asymmetric by ratio" if function == "nearest" else "asymmetric"
    if options.integer(corners, "b"):
        coordinates = "align corners"
    elif options.integer(corners + 1, "b"):
        coordinates = "half pixel"
    if function == "nearest" and coordinates != "asymmetric by ratio":
        raise refusal(node, f"nearest elements with {coordinates} are not supported")
    operator = op.Resize(size=(size[0], size[1]), function=function, coordinates=coordinates)
    assembly.add(node, operator, sources=[assembly.source(node, 0)])


def prelu(node: Node, assembly: Assembly) -> None:
    """Add a rectifier with a trained slope for each channel."""
    slope, shape = assembly.constant(node, 1), assembly.shape(node, 0)
    if slope.size != shape.channels or slope.size != prod(slope.shape[-1:]):
        raise refusal(node, f"slopes of shape {slope.shape}, expected one for each channel")
    trained = [assembly.trained(node, 1, "slope", slope.reshape(-1))]
    operator = op.Activation(function="prelu")
    assembly.add(node, operator, sources=[assembly.source(node, 0)], trained=trained)


CONVERTERS: Mapping[str, Callable[[Node, Assembly], None]] = {
    "ABS": partial(activation, function="abs"),
    "ADD": partial(elementwise, function="add"),
    "AVERAGE_POOL_2D": partial(pooling, function="average"),
    "CONCATENATION": concatenation,
    "CONV_2D": convolution,
    "DEPTHWISE_CONV_2D": depthwise_convolution,
    "DEQUANTIZE": conversion,
    "DIV": partial(elementwise, function="divide"),
    "ELU": partial(activation, function="elu", parameters=(1.0,)),
    "EXP": partial(activation, function="exp"),
    "EXPAND_DIMS": reshape,
    "FULLY_CONNECTED": fully_connected,
    "HARD_SWISH": partial(activation, function="hard swish"),
    "LEAKY_RELU": leaky_relu,
    "LOGISTIC": partial(activation, function="sigmoid"),
    "LOG_SOFTMAX": partial(softmax, is_logarithm=True),
    "MAXIMUM": partial(elementwise, function="maximum"),
    "MAX_POOL_2D": partial(pooling, function="max"),
    "MEAN": mean,
    "MINIMUM": partial(elementwise, function="minimum"),
    "MUL": partial(elementwise, function="multiply"),
    "PAD": pad,
    "PRELU": prelu,
    "QUANTIZE": conversion,
    "RELU": partial(activation, function="relu"),
    "RELU6": partial(activation, function="clip", parameters=(0.0, 6.0)),
    "RELU_N1_TO_1": partial(activation, function="clip", parameters=(-1.0, 1.0)),
    "RESHAPE": reshape,
    "RESIZE_BILINEAR": partial(resize, function="linear", corners=2),
    "RESIZE_NEAREST_NEIGHBOR": partial(resize, function="nearest", corners=0),
    "SOFTMAX": softmax,
    "SPLIT": split,
    "SQUEEZE": reshape,
    "STRIDED_SLICE": strided_slice,
    "SUB": partial(elementwise, function="subtract"),
    "TANH": partial(activation, function="tanh"),
    "TRANSPOSE": transpose,
    "TRANSPOSE_CONV": transposed_convolution,
}

"""Convolutions and poolings of ONNX as layers."""

from __future__ import annotations

from collections.abc import Sequence

from cnn2csdf import operators as op
from cnn2csdf.geometry import ceil_overhang, same_padding
from cnn2csdf.network import Shape
from cnn2csdf.onnx_files.conversion.assembly import Assembly
from cnn2csdf.onnx_files.conversion.dynamic import without_zero_point, zero_points
from cnn2csdf.onnx_files.conversion.steps import ConversionStep, Numbers
from cnn2csdf.onnx_files.nodes import Node, unsupported
from csdf.errors import InvalidNetwork, UnreadableFile

Padding = tuple[int, int, int, int]
NO_PADDING: Padding = (0, 0, 0, 0)


def convolution(node: Node, assembly: Assembly) -> None:
    """Add a convolution of feature maps."""
    shape = assembly.map_shape(node, 0)
    kernel, dims = assembly.trained(node, 1, "the kernel")
    groups, window = node.integer("group", 1), _window(node, _kernel(node, dims))
    _require_channels(node, shape, dims[1] * groups)
    weights: dict[str, Numbers] = {"kernel": assembly.numbers(kernel)}
    if node.input(2) is not None:
        weights["bias"] = assembly.vector(node, 2, "the bias", dims[0])
    operator = op.Convolution(
        filters=dims[0],
        window=_padded(node, shape, window),
        groups=groups,
        has_bias="bias" in weights,
    )
    assembly.add(node, ConversionStep(operator=operator, weights=weights), inputs=node.inputs[:1])


def integer_convolution(node: Node, assembly: Assembly) -> None:
    """Add a convolution of integers, the first with a zero point that may depend on the frame."""
    shape = assembly.map_shape(node, 0)
    kernel, dims = assembly.trained(node, 1, "the kernel")
    groups, window = node.integer("group", 1), _window(node, _kernel(node, dims))
    _require_channels(node, shape, dims[1] * groups)
    zeros = zero_points(node, assembly, (2,))
    operator = op.IntegerConvolution(
        filters=dims[0],
        window=_padded(node, shape, window),
        groups=groups,
        has_zero=bool(zeros),
    )
    numbers = without_zero_point(node, assembly, 3, assembly.numbers(kernel), dims[0])
    step = ConversionStep(operator=operator, weights={"kernel": numbers})
    assembly.add(node, step, inputs=(node.inputs[0], *zeros))


def transposed_convolution(node: Node, assembly: Assembly) -> None:
    """Add a transposed convolution of feature maps."""
    shape = assembly.map_shape(node, 0)
    kernel, dims = assembly.trained(node, 1, "the kernel")
    groups = node.integer("group", 1)
    window = _window(node, _kernel(node, dims))
    extra = node.pair("output_padding", (0, 0))
    _require_channels(node, shape, dims[0])
    weights: dict[str, Numbers] = {"kernel": assembly.numbers(kernel)}
    if node.input(2) is not None:
        weights["bias"] = assembly.vector(node, 2, "the bias", dims[1] * groups)
    operator = op.TransposedConvolution(
        filters=dims[1] * groups,
        window=_with_padding(window, _cut(node, shape, window, extra)),
        groups=groups,
        has_bias="bias" in weights,
        extra=extra,
    )
    assembly.add(node, ConversionStep(operator=operator, weights=weights), inputs=node.inputs[:1])


def max_pooling(node: Node, assembly: Assembly) -> None:
    """Add a pooling that keeps the largest element."""
    _pooling(node, assembly, "max")


def average_pooling(node: Node, assembly: Assembly) -> None:
    """Add a pooling that takes the mean."""
    _pooling(node, assembly, "average")


def _pooling(node: Node, assembly: Assembly, function: str) -> None:
    shape = assembly.map_shape(node, 0)
    rows, columns = node.integers("kernel_shape") or (0, 0)
    window = _padded(node, shape, _window(node, (rows, columns)))
    if node.integer("ceil_mode", 0):
        overhang = ceil_overhang((shape.height, shape.width), window)
        window = _with_padding(window, window.padding, overhang)
    counts = bool(node.integer("count_include_pad", 0))
    operator = op.Pooling(function=function, window=window, counts_padding=counts)
    assembly.add(node, operator, inputs=node.inputs[:1])


def global_max_pooling(node: Node, assembly: Assembly) -> None:
    """Add a layer that keeps the largest element of each feature map."""
    assembly.map_shape(node, 0)
    assembly.add(node, op.GlobalPooling(function="max"), inputs=node.inputs[:1])


def global_average_pooling(node: Node, assembly: Assembly) -> None:
    """Add a layer that takes the mean of each feature map."""
    assembly.map_shape(node, 0)
    assembly.add(node, op.GlobalPooling(function="average"), inputs=node.inputs[:1])


def _kernel(node: Node, dims: Sequence[int]) -> op.Pair:
    if len(dims) != 4:
        raise UnreadableFile(f"{node}: a kernel with {len(dims)} axes, expected 4")
    kernel = (dims[2], dims[3])
    if node.pair("kernel_shape", kernel) != kernel:
        raise UnreadableFile(
            f"{node}: kernel_shape {node.integers('kernel_shape')}, but the weights are "
            f"{kernel[0]}x{kernel[1]}"
        )
    return kernel


def _require_channels(node: Node, shape: Shape, expected: int) -> None:
    if shape.channels != expected:
        raise UnreadableFile(
            f"{node}: the weights are for {expected} channels, the input is {shape}"
        )


def _window(node: Node, kernel: op.Pair) -> op.Window:
    """The window without its padding."""
    try:
        return op.Window(
            kernel=kernel,
            stride=node.pair("strides", (1, 1)),
            dilation=node.pair("dilations", (1, 1)),
        )
    except InvalidNetwork as error:
        raise UnreadableFile(f"{node}: {error}") from None


def _with_padding(window: op.Window, padding: Padding, overhang: op.Pair = (0, 0)) -> op.Window:
    return op.Window(
        kernel=window.kernel,
        stride=window.stride,
        dilation=window.dilation,
        padding=padding,
        overhang=overhang,
    )


def _padded(node: Node, shape: Shape, window: op.Window) -> op.Window:
    size = (shape.height, shape.width)
    match _auto_pad(node):
        case "SAME_UPPER":
            return _with_padding(window, same_padding(size, window))
        case "SAME_LOWER":
            return _with_padding(window, same_padding(size, window, extra_first=True))
        case "VALID":
            return window
    return _with_padding(window, _pads(node))


def _auto_pad(node: Node) -> str:
    found = node.text("auto_pad", "NOTSET") or "NOTSET"
    if found not in ("NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"):
        raise unsupported(node, f"auto_pad {found!r} is not supported")
    return found


def _pads(node: Node) -> Padding:
    top, left, bottom, right = node.numbers("pads", NO_PADDING)
    return (top, left, bottom, right)


def _cut(node: Node, shape: Shape, window: op.Window, extra: op.Pair) -> Padding:
    """Return how much a transposed convolution leaves out of its full output at each side."""
    auto_pad, sizes = _auto_pad(node), node.integers("output_shape")
    if sizes is None and auto_pad in ("NOTSET", "VALID"):
        return _pads(node) if auto_pad == "NOTSET" else NO_PADDING
    if sizes is None:
        sizes = (shape.height * window.stride[0], shape.width * window.stride[1])
    before, after = [], []
    for axis, length in enumerate((shape.height, shape.width)):
        full = (length - 1) * window.stride[axis] + window.extent[axis] + extra[axis]
        total = full - sizes[-2:][axis]
        if total < 0:
            raise unsupported(node, f"an output of {sizes} is larger than all its windows")
        before.append(total // 2 if auto_pad == "SAME_UPPER" else total - total // 2)
        after.append(total - before[-1])
    return (before[0], before[1], after[0], after[1])

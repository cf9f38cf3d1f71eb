"""Convolutions, poolings and resizes of ONNX as layers.

Windows over lines, as in audio: a tensor of 1 x channels x length as maps of one column. Such maps
run row by row. Elementwise operators after a window keep this form; for any other consumer of
the tensor, a reshape gives it the axes of the file.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial, wraps
from math import inf

import numpy as np
import onnx

from cnn2csdf import operators as op
from cnn2csdf.dtypes import Quantization
from cnn2csdf.fixed_point.single_precision import columns_at_once
from cnn2csdf.geometry import ceil_overhang, same_padding
from cnn2csdf.onnx_files.conversion.assembly import (
    Numbers,
    OnnxAssembly,
    Step,
    Target,
    Weighted,
)
from cnn2csdf.onnx_files.conversion.dynamic import without_zero_point, zero_points
from cnn2csdf.onnx_files.nodes import OnnxNode, unsupported
from cnn2csdf.shape import Dims, Shape
from csdf.errors import InvalidNetwork, UnreadableFile

Padding = tuple[int, int, int, int]
NO_PADDING: Padding = (0, 0, 0, 0)


def convolution(node: OnnxNode, assembly: OnnxAssembly) -> None:
    """Add a convolution of feature maps."""
    shape, kernel, dims, groups, window = _filters(node, assembly)
    window, weights = _padded(node, shape, window), {"kernel": kernel}
    if node.input(2) is not None:
        weights["bias"] = assembly.vector(node, 2, "the bias", dims[0])
    has_bias = "bias" in weights
    operator = op.Convolution(filters=dims[0], window=window, groups=groups, has_bias=has_bias)
    if isinstance(assembly, LineAssembly) and groups == 1 and window == op.Window(kernel=(1, 1)):
        block = columns_at_once(shape.channels, shape.rows)
        operator = replace(operator, block=block)
    assembly.add(node, Weighted(operator, weights))


def integer_convolution(node: OnnxNode, assembly: OnnxAssembly) -> None:
    """Add a convolution of integers, the first with a zero point that may depend on the frame."""
    shape, kernel, dims, groups, window = _filters(node, assembly)
    zeros = zero_points(node, assembly, (2,))
    window = _padded(node, shape, window)
    operator = op.IntegerConvolution(
        filters=dims[0], window=window, groups=groups, has_zero=bool(zeros)
    )
    numbers = without_zero_point(node, assembly, 3, kernel, dims[0])
    step = Weighted(operator, {"kernel": numbers})
    assembly.add(node, step, inputs=(node.inputs[0], *zeros))


def transposed_convolution(node: OnnxNode, assembly: OnnxAssembly) -> None:
    """Add a transposed convolution of feature maps."""
    shape, kernel, dims, groups, window = _filters(node, assembly, inputs=0)
    extra, weights = node.pair("output_padding", (0, 0)), {"kernel": kernel}
    if node.input(2) is not None:
        weights["bias"] = assembly.vector(node, 2, "the bias", dims[1] * groups)
    operator = op.TransposedConvolution(
        filters=dims[1] * groups,
        window=replace(window, padding=_cut(node, shape, window, extra)),
        groups=groups,
        has_bias="bias" in weights,
        extra=extra,
    )
    assembly.add(node, Weighted(operator, weights))


def _filters(
    node: OnnxNode, assembly: OnnxAssembly, inputs: int = 1
) -> tuple[Shape, Numbers, Sequence[int], int, op.Window]:
    """Return the shape of the maps, the kernel, its dims, the groups, the window without its padding.

    inputs: the axis of the input maps in the kernel: axis 1 has those of a group, axis 0 all.
    """
    shape = assembly.map_shape(node, 0)
    kernel, dims = assembly.trained(node, 1, "the kernel")
    groups = node.integer("group", 1)
    if len(dims) != 4:
        raise UnreadableFile(f"{node}: a kernel with {len(dims)} axes, expected 4")
    size = (dims[2], dims[3])
    if node.pair("kernel_shape", size) != size:
        raise UnreadableFile(
            f"{node}: kernel_shape {node.integers('kernel_shape')}, but the weights are "
            f"{size[0]}x{size[1]}"
        )
    window = _window(node, size)
    expected = dims[inputs] * (groups if inputs else 1)
    if shape.channels != expected:
        raise UnreadableFile(
            f"{node}: the weights are for {expected} channels, the input is {shape}"
        )
    return shape, assembly.numbers(kernel), dims, groups, window


def pooling(node: OnnxNode, assembly: OnnxAssembly, *, function: str) -> None:
    """Add a pooling."""
    shape = assembly.map_shape(node, 0)
    rows, columns = node.integers("kernel_shape") or (0, 0)
    window = _padded(node, shape, _window(node, (rows, columns)))
    if node.integer("ceil_mode", 0):
        window = replace(window, overhang=ceil_overhang((shape.height, shape.width), window))
    counts = bool(node.integer("count_include_pad", 0))
    assembly.add(node, op.Pooling(function=function, window=window, counts_padding=counts))


def global_pooling(node: OnnxNode, assembly: OnnxAssembly, *, function: str) -> None:
    """Add a pooling of each whole feature map."""
    assembly.map_shape(node, 0)
    assembly.add(node, op.GlobalPooling(function=function))


def _window(node: OnnxNode, kernel: op.Pair) -> op.Window:
    """Return the window without its padding."""
    try:
        return op.Window(
            kernel=kernel,
            stride=node.pair("strides", (1, 1)),
            dilation=node.pair("dilations", (1, 1)),
        )
    except InvalidNetwork as error:
        raise UnreadableFile(f"{node}: {error}") from None


def _padded(node: OnnxNode, shape: Shape, window: op.Window) -> op.Window:
    size = (shape.height, shape.width)
    match _auto_pad(node):
        case "SAME_UPPER":
            return replace(window, padding=same_padding(size, window))
        case "SAME_LOWER":
            return replace(window, padding=same_padding(size, window, extra_first=True))
        case "VALID":
            return window
    return replace(window, padding=_pads(node))


def _auto_pad(node: OnnxNode) -> str:
    auto_pad = node.text("auto_pad", "NOTSET") or "NOTSET"
    if auto_pad not in ("NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"):
        raise unsupported(node, f"auto_pad {auto_pad!r} is not supported")
    return auto_pad


def _pads(node: OnnxNode) -> Padding:
    top, left, bottom, right = node.numbers("pads", NO_PADDING)
    return (top, left, bottom, right)


def _cut(node: OnnxNode, shape: Shape, window: op.Window, extra: op.Pair) -> Padding:
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


COORDINATES = {
    "half_pixel": "half pixel",
    "pytorch_half_pixel": "pytorch half pixel",
    "align_corners": "align corners",
    "asymmetric": "asymmetric",
}
ROUNDINGS = {
    "round_prefer_floor": "prefer floor",
    "round_prefer_ceil": "prefer ceil",
    "floor": "floor",
    "ceil": "ceil",
}
# Rounding before opset 11 if one axis shrinks and the other axis grows.
SHRINKING = "ceil where smaller"


def resize(node: OnnxNode, assembly: OnnxAssembly) -> None:
    """Add a resize to the size that the onnx package infers."""
    shape = assembly.map_shape(node, 0)
    channels, *size = assembly.values.dims(node.outputs[0])[1:]
    if channels != shape.channels:
        raise unsupported(node, "a resize of another axis than height and width")
    if node.opset >= 11:
        if node.integer("antialias", 0):
            raise unsupported(node, "antialias is not supported")
        policy = node.text("keep_aspect_ratio_policy", "stretch")
        if policy != "stretch":
            raise unsupported(node, f"keep_aspect_ratio_policy {policy!r} is not supported")
    scales = _scales(node, assembly, shape, (size[0], size[1]))
    function = node.text("mode", "nearest")
    if function not in ("nearest", "linear", "cubic"):
        raise unsupported(node, f"mode {function!r} is not supported")
    coordinates, rounding = _coordinates(node, shape, (size[0], size[1]))
    operator = op.Resize(
        size=(size[0], size[1]),
        function=function,
        coordinates=coordinates,
        rounding=rounding if function == "nearest" else "floor",
        scales=scales,
        cubic=node.real("cubic_coeff_a", -0.75) if function == "cubic" else -0.75,
        skips_outside=function == "cubic" and bool(node.integer("exclude_outside", 0)),
    )
    assembly.add(node, operator)


def _coordinates(node: OnnxNode, shape: Shape, size: op.Pair) -> tuple[str, str]:
    """Return the mapping from output pixels to input coordinates, and the rounding of those."""
    if node.opset < 11:
        grows = size[0] >= shape.height, size[1] >= shape.width
        return ("asymmetric", "floor" if all(grows) else SHRINKING if any(grows) else "ceil")
    mode = node.text("coordinate_transformation_mode", "half_pixel")
    rounding = node.text("nearest_mode", "round_prefer_floor")
    if mode not in COORDINATES:
        raise unsupported(node, f"coordinate_transformation_mode {mode!r} is not supported")
    if rounding not in ROUNDINGS:
        raise unsupported(node, f"nearest_mode {rounding!r} is not supported")
    return (COORDINATES[mode], ROUNDINGS[rounding])


def _scales(
    node: OnnxNode, assembly: OnnxAssembly, shape: Shape, size: op.Pair
) -> tuple[float, float] | None:
    """Return the scales of height and width; None if they follow from the sizes."""
    if size == shape.dims[1:]:
        return None  # as ONNX Runtime, which copies maps that keep their size, whatever the scales
    index = 1 if node.opset < 11 else 2
    scales = node.reals("scales") or assembly.reals(node, index, "the scales") or ()
    if not scales:
        return None
    axes = node.integers("axes") or tuple(range(len(scales)))
    if len(axes) != len(scales):
        raise UnreadableFile(f"{node}: {len(scales)} scales for {len(axes)} axes")
    for scale in scales:
        if not 0 < scale < inf:
            raise UnreadableFile(f"{node}: a scale of {scale}; expected a positive number")
    scale_of = {axis % 4: scale for axis, scale in zip(axes, scales, strict=True)}
    scales_of = (scale_of.get(2, 1.0), scale_of.get(3, 1.0))
    single = partial(np.array, dtype=np.float32)
    is_plain = np.array_equal(single(scales_of), single(size) / single(shape.dims[1:]))
    return None if is_plain else scales_of


Converter = Callable[[OnnxNode, OnnxAssembly], None]
ONES = ("kernel_shape", "strides", "dilations")  # lists with a one for the column
ZEROS = ("output_padding",)


class LineAssembly(OnnxAssembly):
    """The same network under construction, viewed with lines as maps of one column.

    A converter of windows over maps then also converts windows over lines.
    """

    def __init__(self, assembly: OnnxAssembly) -> None:
        """Share all layers and weights: what either view adds, both have."""
        self.__dict__ = assembly.__dict__

    def map_shape(self, node: OnnxNode, index: int) -> Shape:
        """Return the shape of an input as a stack of maps."""
        return self.builder.shape(self.raised_layer(self.dynamic(node, index)))

    def trained(self, node: OnnxNode, index: int, what: str) -> tuple[str, Dims]:
        """Return the name and dims of weights; kernels have one column."""
        tensor, dims = super().trained(node, index, what)
        return tensor, (*dims, 1) if len(dims) == 3 else dims

    def numbers(self, tensor: str) -> Numbers:
        """Return a kernel with one column."""
        return Numbers(tensor, lambda: self.values.value(tensor)[..., None])

    def add(
        self,
        node: OnnxNode,
        *steps: Step,
        inputs: Sequence[str] | None = None,
        output: str | None = None,
        name: str | None = None,
        quantization: Quantization | None = None,
    ) -> None:
        """Add layers that read and write maps of one column.

        Raises UnsupportedOperator where the result is quantised.
        """
        if quantization is not None:
            raise unsupported(node, "windows over lines of integers are not supported")
        sources = (self.dynamic(node, 0),) if inputs is None else inputs
        target = Target(output or node.outputs[0], name or node.name)
        self.add_raised(target, *steps, inputs=sources)


def over_lines(convert: Converter) -> Converter:
    """Return a converter that also takes windows over lines."""

    @wraps(convert)
    def converted(node: OnnxNode, assembly: OnnxAssembly) -> None:
        source = node.required(0)
        is_line = assembly.has(source) and assembly.is_line(source)
        if is_line:
            convert(_with_column(node), LineAssembly(assembly))
        else:
            convert(node, assembly)

    return converted


def _with_column(node: OnnxNode) -> OnnxNode:
    """Return the node with attributes for rows and one column."""
    attributes = dict(node.attributes)
    for name in (*ONES, *ZEROS):
        integers_of = node.integers(name)
        if integers_of is not None and len(integers_of) == 1:
            filler = int(name in ONES)
            attributes[name] = onnx.helper.make_attribute(name, [*integers_of, filler])
    pads = node.integers("pads")
    if pads is not None and len(pads) == 2:
        attributes["pads"] = onnx.helper.make_attribute("pads", [pads[0], 0, pads[1], 0])
    return replace(node, attributes=attributes)

"""Convolutions, poolings, padding and resizes of a TensorFlow Lite graph as layers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from struct import Struct

import numpy as np

from cnn2csdf import operators as op
from cnn2csdf.dtypes import Element, Runtime
from cnn2csdf.geometry import same_padding
from cnn2csdf.operators.resizes import IN_1024THS, SINGLE_PRECISION
from cnn2csdf.readers.tflite.assembly import Converter, TfliteAssembly, Trained, refusal
from cnn2csdf.readers.tflite.model_file import Dims, TfliteNode
from cnn2csdf.readers.tflite.options import (
    PADDING,
    SAME,
    fused_activation,
    is_hybrid,
    options_of,
    padded,
    require_centred,
    require_one_type,
    window_of,
    with_types,
)
from csdf.errors import UnreadableFile, counted

BIAS_TYPE = {"CONV_2D": 6, "FULLY_CONNECTED": 4}  # fields of options: quantized_bias_type
TYPE_INT32 = 2  # TensorType
MIRRORS = {0: "reflect", 1: "symmetric"}  # MirrorPadMode
MAP_AXES = 4
CUSTOM_STRIDES = Struct("<iii")  # TfLiteTransposeConvParams: TfLitePadding, two strides
CUSTOM_WINDOW = Struct("<6i")  # padding, strides and sizes, the horizontal ones first; activation
CUSTOM_SAME, CUSTOM_VALID = 1, 2


def biases(
    node: TfliteNode, assembly: TfliteAssembly, units: int, *, place: int = 2
) -> list[Trained]:
    """Return the biases of a node, one per channel; empty if it has none."""
    if not assembly.has(node, place):
        return []
    bias = assembly.constant(node, place)
    if bias.size != units:
        raise UnreadableFile(f"{node}: {bias.size} biases for {counted(units, 'channel')}")
    stored_bias = assembly.trained(node, place, "bias", bias.reshape(-1))
    _require_bias_type(node, assembly, stored_bias)
    if stored_bias.stored.element is Element.INT16:  # added to sums of 64 bits
        wide = stored_bias.array.astype(np.int64)
        return [Trained(array=wide, stored=replace(stored_bias.stored, element=Element.INT64))]
    return [stored_bias]


def _require_bias_type(node: TfliteNode, assembly: TfliteAssembly, bias: Trained) -> None:
    """Raise UnsupportedOperator for biases of int32 that LiteRT reads as if they were of int64.

    It does so for inputs of int16 unless the options give the type of the biases.
    """
    field, types = BIAS_TYPE.get(node.kind), assembly.tensor(node, 0).quantization()
    if field is None or types is None or types.element is not Element.INT16:
        return
    is_given = node.options is not None and node.options.integer(field, "b") == TYPE_INT32
    is_narrow = bias.stored.element is Element.INT32
    if is_narrow and not is_given and assembly.runtime is Runtime.LITERT:
        raise refusal(
            node,
            "biases of int32 for an input of int16, without quantized_bias_type: LiteRT reads behind "
            "their end; convert again, or choose --runtime tflite-micro",
        )


def convolution(node: TfliteNode, assembly: TfliteAssembly) -> None:
    """Add a convolution.

    The filters are (filters, rows, columns, channels of a group), those of a depthwise convolution
    (1, rows, columns, filters).
    """
    stored, shape = assembly.constant(node, 1), assembly.map_shape(node, 0)
    is_hybrid(node, assembly)
    is_depthwise = node.kind == "DEPTHWISE_CONV_2D"
    misfit = UnreadableFile(f"{node}: a kernel of {stored.shape} for an input of {shape}")
    if stored.ndim != MAP_AXES or not stored.size:
        raise misfit
    last, channels = stored.shape[3], shape.channels
    if last % channels if is_depthwise else channels % last:
        raise misfit
    groups = channels if is_depthwise else channels // last
    kernel = np.moveaxis(stored, 3, 0 if is_depthwise else 1)
    # The multiplier of a depthwise convolution is a field in front of the activation.
    fused, dilations = fused_activation(node, 3 + is_depthwise), 4 + is_depthwise
    filters, _, rows, columns = kernel.shape
    trained = assembly.trained(node, 1, "kernel", kernel)
    require_centred(node, trained, filters)
    bias = biases(node, assembly, filters)
    window = window_of(node, (rows, columns), dilations=dilations)
    convolution = op.Convolution(
        filters=filters,
        window=padded(node, window, assembly.map_shape(node, 0)),
        groups=groups,
        has_bias=bool(bias),
    )
    scales = trained.stored.quantization
    # LiteRT quantises the input with a zero point where the scales of channels differ.
    has_offset = node.kind != "CONV_2D" or (scales is not None and len(set(scales.scales)) > 1)
    operator = with_types(node, assembly, convolution, has_offset=has_offset)
    assembly.add(node, operator, trained=[trained, *bias], fused=fused)


def transposed_convolution(node: TfliteNode, assembly: TfliteAssembly) -> None:
    """Add a transposed convolution; its inputs are a size, the filters, the maps and biases."""
    window = window_of(node, _kernel_size(node, assembly), dilations=None)
    is_same = options_of(node).integer(PADDING, "b") == SAME
    _add_transposed(
        node, assembly, window, source=2, is_same=is_same, fused=fused_activation(node, 3)
    )


def transposed_convolution_of_mediapipe(node: TfliteNode, assembly: TfliteAssembly) -> None:
    """Add a transposed convolution; its inputs are the maps, the filters and biases.

    Its options are numbers of 32 bits: the padding, and the horizontal and the vertical stride.
    Source: google-ai-edge/mediapipe, mediapipe/util/tflite/operations/transpose_conv_bias.cc.
    """
    padding, across, down = _custom_options(node, CUSTOM_STRIDES)
    if padding not in (CUSTOM_SAME, CUSTOM_VALID):
        raise UnreadableFile(f"{node}: padding {padding}; expected 1 or 2")
    window = op.Window(kernel=_kernel_size(node, assembly), stride=(down, across))
    _add_transposed(node, assembly, window, source=0, is_same=padding == CUSTOM_SAME, fused=0)


def _custom_options(node: TfliteNode, form: Struct) -> tuple[int, ...]:
    """Return the numbers of options that are a C structure."""
    if len(node.custom) < form.size:
        raise UnreadableFile(f"{node}: {len(node.custom)} bytes of options; expected {form.size}")
    return form.unpack_from(node.custom)


def _kernel_size(node: TfliteNode, assembly: TfliteAssembly) -> op.Pair:
    kernel = assembly.constant(node, 1)
    if kernel.ndim != MAP_AXES:
        raise UnreadableFile(f"{node}: a kernel of {kernel.shape}")
    return (kernel.shape[1], kernel.shape[2])


def _add_transposed(
    node: TfliteNode,
    assembly: TfliteAssembly,
    window: op.Window,
    *,
    source: int,
    is_same: bool,
    fused: int,
) -> None:
    """source: the index of the feature map among the inputs."""
    kernel, shape = assembly.constant(node, 1), assembly.map_shape(node, source)
    if kernel.shape[3] != shape.channels or len(assembly.output(node).dims) != MAP_AXES:
        raise UnreadableFile(f"{node}: a kernel of {kernel.shape} for an input of {shape}")
    require_one_type(node, assembly, given=source)
    bias_place = 3 if source == 2 else 2
    _, height, width, _ = assembly.output(node).dims
    before, after = [], []
    for axis, length, size in (
        (window.rows, shape.height, height),
        (window.columns, shape.width, width),
    ):
        trimmed = axis.scattered(length) - size
        if source:  # as LiteRT's kernel, which knows only the size of the result
            trimmed = (-(-size // axis.stride) - 1) * axis.stride + axis.kernel - size
        before.append(max(trimmed, 0) // 2 if is_same else 0)
        after.append(axis.scattered(length) - size - before[-1])
    operator = op.TransposedConvolution(
        filters=kernel.shape[0],
        window=op.Window(
            kernel=window.kernel,
            stride=window.stride,
            padding=(before[0], before[1], max(after[0], 0), max(after[1], 0)),
        ),
        has_bias=assembly.has(node, bias_place),
        extra=(max(-after[0], 0), max(-after[1], 0)),
    )
    trained = [assembly.trained(node, 1, "kernel", kernel.transpose(3, 0, 1, 2))]
    require_centred(node, trained[0], kernel.shape[0])
    bias = biases(node, assembly, kernel.shape[0], place=bias_place)
    layer = assembly.source(node, source)
    assembly.add(node, operator, sources=[layer], trained=[*trained, *bias], fused=fused)


def _pooled_window(node: TfliteNode, assembly: TfliteAssembly) -> op.Window:
    options, shape = options_of(node), assembly.map_shape(node, 0)
    kernel = (options.integer(4, "i"), options.integer(3, "i"))
    return padded(node, window_of(node, kernel, dilations=None), shape)


def _require_real(node: TfliteNode, assembly: TfliteAssembly) -> None:
    if assembly.tensor(node, 0).quantization() is not None:
        raise refusal(node, "quantised integers; its kernel computes floating point")


def pooling(node: TfliteNode, assembly: TfliteAssembly, *, function: str) -> None:
    """Add a pooling; padding does not count in a mean."""
    window = _pooled_window(node, assembly)
    rounds_up = function == "average" and assembly.tensor(node, 0).element is Element.UINT8
    operator = op.Pooling(function=function, window=window, rounds_up=rounds_up)
    assembly.add(node, operator, fused=fused_activation(node, 5))


def pooling_of_squares(node: TfliteNode, assembly: TfliteAssembly) -> None:
    """Add the square root of the mean of squares of each window."""
    _require_real(node, assembly)
    window, source = _pooled_window(node, assembly), assembly.source(node, 0)
    squares = assembly.add_inner(node, op.Elementwise(function="multiply"), [source, source], [])
    mean = assembly.add_inner(node, op.Pooling(function="average", window=window), [squares], [])
    root = op.Activation(function="sqrt")
    assembly.add(node, root, sources=[mean], fused=fused_activation(node, 5))


def pooling_with_places(node: TfliteNode, assembly: TfliteAssembly) -> None:
    """Add a max pooling, and a layer of the numbers of the pixels that it takes.

    Source: google-ai-edge/mediapipe, mediapipe/util/tflite/operations/max_pool_argmax.cc.
    """
    window, fused = _custom_window(node, assembly)
    source = [assembly.source(node, 0)]
    assembly.add(node, op.Pooling(function="max", window=window), sources=source, fused=fused)
    if len(node.outputs) > 1:
        assembly.add(node, op.PlaceOfMaximum(window=window), sources=source, output=1)


def unpooling(node: TfliteNode, assembly: TfliteAssembly) -> None:
    """Add the inverse of a pooling whose windows lie side by side."""
    window, _ = _custom_window(node, assembly)
    if window.stride != window.kernel:
        raise refusal(node, f"windows of {window.kernel} with steps of {window.stride}")
    sources = [assembly.source(node, index) for index in (0, 1)]
    assembly.add(node, op.Unpooling(block=window.kernel), sources=sources)


def _custom_window(node: TfliteNode, assembly: TfliteAssembly) -> tuple[op.Window, int]:
    """Return the window and the activation of options that are a TfLitePoolParams."""
    padding, across, down, width, height, fused = _custom_options(node, CUSTOM_WINDOW)
    shape = assembly.map_shape(node, 0)
    numbers = (across, down, width, height)
    if padding not in (CUSTOM_SAME, CUSTOM_VALID) or not 0 < min(numbers) <= max(numbers) < 2**12:
        raise UnreadableFile(f"{node}: padding {padding}, strides and sizes {numbers}")
    _require_real(node, assembly)
    window = op.Window(kernel=(height, width), stride=(down, across))
    if padding == CUSTOM_SAME:
        padded_by = same_padding((shape.height, shape.width), window)
        window = replace(window, padding=padded_by)
    return window, fused


def pad_with(node: TfliteNode, assembly: TfliteAssembly) -> None:
    """Add a number around a tensor, along any axis."""
    value = assembly.constant(node, 2)
    quantization = assembly.tensor(node, 2).quantization()
    if value.size != 1:
        raise UnreadableFile(f"{node}: {value.size} numbers to pad with; expected one")
    number = float(value.reshape(-1)[0])
    if quantization is not None:
        number = quantization.scale * (number - quantization.zero_point)
    pad(node, assembly, value=number)


def mirrored_pad(node: TfliteNode, assembly: TfliteAssembly) -> None:
    """Add rows and columns that mirror those inside."""
    number = options_of(node).integer(0, "b")
    if number not in MIRRORS:
        raise UnreadableFile(f"{node}: mode {number}; expected 0 or 1")
    pad(node, assembly, mode=MIRRORS[number])


def pad(
    node: TfliteNode, assembly: TfliteAssembly, *, mode: str = "constant", value: float = 0.0
) -> None:
    """Add padding around a tensor, along any axis: zeros, if not stated otherwise."""
    dims, listed = assembly.tensor(node, 0).dims, assembly.integers(node, 1)
    axes, amounts = assembly.axes(node, dims), list(zip(listed[::2], listed[1::2], strict=False))
    if len(listed) != 2 * len(dims) or min(listed, default=0) < 0:
        raise UnreadableFile(f"{node}: padding of {listed} for a tensor of {dims}")
    if any(any(amounts[axis]) for axis in range(len(dims)) if axis not in axes):
        raise refusal(node, f"padding of the batch by {amounts[0]}")
    amounts = [amounts[axis] for axis in axes]
    steps = op.padding_steps(assembly.shape(node, 0).dims, amounts, mode=mode, value=value)
    assembly.add(node, *steps)


def blocks_and_channels(node: TfliteNode, assembly: TfliteAssembly) -> None:
    """Add blocks of places that become channels, or channels that become blocks of places."""
    assembly.map_shape(node, 0)
    block = options_of(node).integer(0, "i")
    if block < 1:
        raise UnreadableFile(f"{node}: blocks of {block}")
    move = op.SpaceToDepth if node.kind == "SPACE_TO_DEPTH" else op.DepthToSpace
    assembly.add(node, move(block=block))


def resize(node: TfliteNode, assembly: TfliteAssembly, *, function: str, corners: int) -> None:
    """Add a resize; corners: the field that aligns corners, half-pixel centres follow."""
    options, shape = options_of(node), assembly.map_shape(node, 0)
    size: Dims = assembly.integers(node, 1)
    if len(size) != 2 or shape.elements == 0:
        raise UnreadableFile(f"{node}: a size of {size}; expected height and width")
    aligns = bool(options.integer(corners, "b"))
    coordinates = "half pixel" if options.integer(corners + 1, "b") else "asymmetric"
    coordinates = "align corners" if aligns else coordinates
    if function == "nearest":
        coordinates = f"{coordinates} by ratio"
        rounding = "half up" if aligns else "floor"
    else:
        types = assembly.tensor(node, 0).quantization()
        rounding = "floor"
        if types is not None:
            is_unsigned = types.element is Element.UINT8
            rounding = SINGLE_PRECISION if is_unsigned else IN_1024THS
    operator = op.Resize(
        size=(size[0], size[1]), function=function, coordinates=coordinates, rounding=rounding
    )
    assembly.add(node, operator)


CONVERTERS: Mapping[str, Converter] = {
    "AVERAGE_POOL_2D": partial(pooling, function="average"),
    "CONV_2D": convolution,
    "CUSTOM:'Convolution2DTransposeBias'": transposed_convolution_of_mediapipe,
    "CUSTOM:'MaxPoolingWithArgmax2D'": pooling_with_places,
    "CUSTOM:'MaxUnpooling2D'": unpooling,
    "DEPTHWISE_CONV_2D": convolution,
    "DEPTH_TO_SPACE": blocks_and_channels,
    "L2_POOL_2D": pooling_of_squares,
    "MAX_POOL_2D": partial(pooling, function="max"),
    "MIRROR_PAD": mirrored_pad,
    "PAD": pad,
    "PADV2": pad_with,
    "RESIZE_BILINEAR": partial(resize, function="linear", corners=2),
    "RESIZE_NEAREST_NEIGHBOR": partial(resize, function="nearest", corners=0),
    "SPACE_TO_DEPTH": blocks_and_channels,
    "TRANSPOSE_CONV": transposed_convolution,
}

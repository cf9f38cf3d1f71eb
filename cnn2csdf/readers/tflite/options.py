"""The options of a node, and checks of what a layer may not read together."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from cnn2csdf import operators as op
from cnn2csdf.dtypes import Element
from cnn2csdf.geometry import same_padding
from cnn2csdf.readers.tflite.assembly import TfliteAssembly, Trained, refusal
from cnn2csdf.readers.tflite.model_file import Dims, Record, Tensor, TfliteNode
from cnn2csdf.shape import Shape
from csdf.errors import UnreadableFile, counted

SAME, VALID = 0, 1  # a Padding
PADDING = 0  # field of the options of a convolution or a pooling
MOST_COVERED = 2**24  # places of one window


def options_of(node: TfliteNode) -> Record:
    """Return the options. Raises UnreadableFile where there are none."""
    if node.options is None:
        raise UnreadableFile(f"{node} has no options")
    return node.options


def fused_activation(node: TfliteNode, field: int) -> int:
    """Return the ActivationFunctionType in that field."""
    return 0 if node.options is None else node.options.integer(field, "b")


def padded(node: TfliteNode, window: op.Window, shape: Shape) -> op.Window:
    """Return the window with the padding that the options ask for."""
    padding = options_of(node).integer(PADDING, "b")
    if padding not in (SAME, VALID):
        raise UnreadableFile(f"{node}: padding {padding}; expected 0 or 1")
    if padding == VALID:
        return window
    # The window of a phase pads as many of its pixels: each is one of `down` rows of the map.
    down, across = node.dilation
    dilation = (window.dilation[0] // down, window.dilation[1] // across)
    of_phase = replace(window, dilation=dilation)
    ends = same_padding((shape.height // down, shape.width // across), of_phase)
    scaled = tuple(end * step for end, step in zip(ends, (down, across) * 2, strict=True))
    top, left, bottom, right = scaled
    return replace(window, padding=(top, left, bottom, right))


def window_of(node: TfliteNode, kernel: op.Pair, *, dilations: int | None) -> op.Window:
    """Return the window without padding; strides are fields 1 and 2, the horizontal one first.

    dilations: the field of the horizontal one, where there are any.
    """
    options = options_of(node)
    across, down = options.integer(1, "i"), options.integer(2, "i")
    dilation = (1, 1)
    if dilations is not None:
        dilation = (options.integer(dilations + 1, "i", 1), options.integer(dilations, "i", 1))
    dilation = (dilation[0] * node.dilation[0], dilation[1] * node.dilation[1])
    covered = prod(1 + size * step for size, step in zip(kernel, dilation, strict=True))
    if covered > MOST_COVERED:
        raise refusal(node, f"windows that cover {covered} places, at most {MOST_COVERED}")
    return op.Window(kernel=kernel, stride=(down, across), dilation=dilation)


def require_scale(node: TfliteNode, weights: Tensor) -> None:
    """Raise UnsupportedOperator for weights that are integers without a scale.

    LiteRT refuses such convolutions, and multiplies the sums of other products by zero.
    """
    element = weights.element
    if element is not None and element.is_integer and weights.quantization() is None:
        raise refusal(
            node, f"weights {weights.name!r} of {element.value} without a scale; give them a scale"
        )


def require_one_type(node: TfliteNode, assembly: TfliteAssembly, given: int = 0) -> None:
    """Raise UnsupportedOperator for integer weights of real numbers, and such."""
    source, weights = assembly.tensor(node, given), assembly.tensor(node, 1)
    require_scale(node, weights)
    if (source.quantization() is None) != (weights.quantization() is None):
        raise refusal(
            node,
            f"weights of {weights.element and weights.element.value} for an input of "
            f"{source.element and source.element.value} (hybrid) are not supported; convert with "
            "a representative data set, so that both are integers",
        )


def is_hybrid(node: TfliteNode, assembly: TfliteAssembly) -> bool:
    """Whether weights of int8 are multiplied with floating point. Raises as require_one_type does."""
    source, weights = assembly.tensor(node, 0).quantization(), assembly.tensor(node, 1)
    types = weights.quantization()
    if source is None and types is not None and types.element is Element.INT8:
        if types.zero_point:
            raise refusal(node, f"weights of int8 with a zero point of {types.zero_point}")
        return True
    require_one_type(node, assembly)
    return False


def with_types(
    node: TfliteNode,
    assembly: TfliteAssembly,
    product: op.Convolution | op.FullyConnected | op.MatrixProduct,
    *,
    has_offset: bool,
) -> op.Operator:
    """Return the product; for int8 weights and a floating-point input, as a HybridProduct."""
    types = assembly.tensor(node, 1).quantization()
    if types is None or not is_hybrid(node, assembly):
        return product
    return op.HybridProduct(product=product, scales=types.scales, has_offset=has_offset)


def require_scales(node: TfliteNode, trained: Trained, channels: int) -> None:
    """Raise UnreadableFile where weights have scales for another number of channels."""
    quantization = trained.stored.quantization
    if quantization is not None and len(quantization.scales) not in (1, channels):
        scales = len(quantization.scales)
        raise UnreadableFile(
            f"{node}: {scales} scales of weights for {counted(channels, 'channel')}"
        )


def require_centred(node: TfliteNode, trained: Trained, channels: int = 1) -> None:
    """Raise an error for signed weights with a zero point, or another number of scales than channels.

    Unsigned weights have a zero point.
    """
    require_scales(node, trained, channels)
    quantization = trained.stored.quantization
    if quantization is None or quantization.element is Element.UINT8:
        return
    if quantization.zero_point:
        raise refusal(
            node,
            f"weights of {quantization.element.value} with a zero point of "
            f"{quantization.zero_point}; expected 0, or uint8",
        )


def frame_axis(node: TfliteNode, assembly: TfliteAssembly, dims: Dims, axis: int) -> int:
    """Return which axis of the layer the node reads is that axis of a tensor of the file.

    dims: of the tensor. Raises UnsupportedOperator for the batch, which no layer has.
    """
    axes, rank = assembly.axes(node, dims), len(dims)
    if not -rank <= axis < rank or rank < 2 or axis % rank not in axes:
        raise refusal(node, f"axis {axis} of a tensor with {rank} axes")
    return axes.index(axis % rank)

"""The operator that a layer of a JSON network stands for, and what is fused behind it."""

from __future__ import annotations

from collections.abc import Sequence
from math import isqrt

from cnn2csdf import operators as op
from cnn2csdf.geometry import window_places
from cnn2csdf.network import Shape
from cnn2csdf.readers.json_layers import LARGEST, StatedLayer
from csdf.errors import InvalidNetwork, UnsupportedOperator

CONVOLUTIONS = (("conv", "conv"), ("conv", "depthwiseconv"))
POOLINGS = {("pool", "maxpool"): "max", ("pool", "averagepool"): "average"}
OUTPUTS = (("data", "output"), ("relu", "output"))
ARITHMETIC = {"add": "add", "sub": "subtract", "mul": "multiply", "div": "divide"}
RELU = op.Activation(function="relu")
FUSED: dict[str, op.Operator | None] = {
    "relu": RELU,
    "activation": RELU,  # of a kind that the file does not tell
    "leakyrelu": op.Activation(function="leaky relu", parameters=(0.1,)),  # Darknet's slope
    "sigmoid": op.Activation(function="sigmoid"),
    "tanh": op.Activation(function="tanh"),
    "batchnormalization": op.BatchNormalization(),
    "normalization": op.BatchNormalization(),
    "lrn": op.LocalResponseNormalization(size=5),  # AlexNet's and GoogLeNet's
    "dropout": None,
    "reshape": None,
    "flatten": None,
    "constant": None,
    "padding": None,  # it is in the sizes
}


def stated_operator(layer: StatedLayer, inputs: Sequence[Shape]) -> op.Operator:
    """Return the operator of a layer that reads these shapes.

    A convolution and a gemm have a bias, a matmul has none; arithmetic with one input has a trained
    operand for each feature map; a Lambda adds its inputs (a residual connection).
    Raises UnsupportedOperator where the kind is unknown.
    """
    if layer.kind in CONVOLUTIONS:
        groups = inputs[0].channels if layer.kind[1] == "depthwiseconv" else 1
        return op.Convolution(
            filters=layer.writes.channels, window=stated_window(layer), groups=groups
        )
    if layer.kind in POOLINGS:
        return op.Pooling(function=POOLINGS[layer.kind], window=stated_window(layer))
    match layer.kind:
        case ("pool", "globalaveragepool"):
            return op.GlobalPooling(function="average")
        case ("gemm", "gemm" | "matmul"):
            return op.FullyConnected(units=layer.writes.elements, has_bias=layer.kind[1] == "gemm")
        case ("softmax", "softmax"):
            return op.Softmax(axis=0)
        case ("arithmetic", function) if function in ARITHMETIC:
            return _arithmetic(ARITHMETIC[function], inputs)
        case ("concat", "concat" | "concatenate"):
            return op.Concatenation()
        case ("activation", function) if isinstance(FUSED.get(function), op.Activation):
            return FUSED[function] or RELU
        case ("Lambda", "lambda"):
            return _arithmetic("add", inputs) if len(inputs) > 1 else op.Identity(kind="lambda")
        case ("Rescaling", "rescaling"):
            return _rescaling(layer)
    raise UnsupportedOperator(f"layer {layer.name!r}: operator {'/'.join(layer.kind)!r} is unknown")


def _arithmetic(function: str, inputs: Sequence[Shape]) -> op.Elementwise:
    if len(inputs) > 1:
        return op.Elementwise(function=function)
    (shape,) = inputs
    dims = (shape.channels, 1, 1) if shape.is_map else shape.dims
    return op.Elementwise(function=function, constant=dims)


def _rescaling(layer: StatedLayer) -> op.Operator:
    """Constant factors count for nothing; what is left is the padding fused behind them."""
    rows = layer.writes.height - layer.reads.height
    columns = layer.writes.width - layer.reads.width
    if not (rows or columns):
        return op.Identity(kind="rescaling")
    top, left = rows // 2, columns // 2
    return op.Pad(padding=(top, left, rows - top, columns - left))


def fused_operators(layer: StatedLayer) -> tuple[op.Operator, ...]:
    """Return what is fused behind a layer, in order.

    A batch normalisation right behind a convolution is folded into its kernel and bias, and so
    leaves nothing; what moves or drops elements only in training leaves nothing either.
    """
    fused: list[op.Operator] = []
    for word in layer.fused:
        if word not in FUSED:
            raise UnsupportedOperator(f"layer {layer.name!r}: fused operator {word!r} is unknown")
        operator = FUSED[word]
        is_folded = isinstance(operator, op.BatchNormalization) and layer.kind in CONVOLUTIONS
        if operator is not None and (fused or not is_folded):
            fused.append(operator)
    return tuple(fused)


def is_possible(layer: StatedLayer) -> bool:
    """Whether a window can make the stated output of the stated input.

    It cannot where a place would lie in padding only, unless an own padding is fused.
    """
    if layer.kind not in CONVOLUTIONS and layer.kind not in POOLINGS:
        return True
    reads, (height, width) = layer.reads, _places(layer)
    slack = 2 * (layer.kernel - 1)
    return "padding" in layer.fused or all(
        (places - 1) * layer.stride + layer.kernel - size <= slack
        for places, size in ((height, reads.height), (width, reads.width))
    )


def presumed_input(layer: StatedLayer) -> Shape:
    """Return the stated input; where it is impossible, as many rows and columns as strides."""
    if is_possible(layer):
        return layer.reads
    height, width = _places(layer)
    return Shape(dims=(layer.reads.channels, height * layer.stride, width * layer.stride))


def stated_window(layer: StatedLayer) -> op.Window:
    """Return the window that makes the stated output of the presumed input.

    Its padding is the stated one where that fits; otherwise what the sizes ask for, the smaller
    half in front.
    """
    size = presumed_input(layer)
    sides = (layer.kernel, layer.kernel)
    strides = (layer.stride, layer.stride)
    places = _places(layer)
    if len(layer.pads) == 4 and all(_is_whole(pad) for pad in layer.pads):
        top, left, bottom, right = (int(pad) for pad in layer.pads)
        window = op.Window(kernel=sides, stride=strides, padding=(top, left, bottom, right))
        if _fits(window, size, places):
            return window
    top, bottom = _halves((places[0] - 1) * layer.stride + layer.kernel - size.height)
    left, right = _halves((places[1] - 1) * layer.stride + layer.kernel - size.width)
    return op.Window(kernel=sides, stride=strides, padding=(top, left, bottom, right))


def _is_whole(pad: float) -> bool:
    return -LARGEST <= pad <= LARGEST and pad == int(pad)


def _halves(total: int) -> tuple[int, int]:
    """Return the padding that is missing in front and behind; nothing where rows are left over."""
    return (max(0, total) // 2, max(0, total) - max(0, total) // 2)


def _fits(window: op.Window, size: Shape, places: tuple[int, int]) -> bool:
    try:
        return window_places(window, size.height, size.width) == places
    except InvalidNetwork:
        return False


def _places(layer: StatedLayer) -> tuple[int, int]:
    """Rows and columns of the output, before a fused flattening of square maps."""
    writes = layer.writes
    maps, rest = divmod(writes.channels, layer.reads.channels)
    side = isqrt(maps)
    is_flat = bool({"reshape", "flatten"} & set(layer.fused)) and writes.dims[1:] == (1, 1)
    if layer.kind in POOLINGS and is_flat and not rest and side * side == maps:
        return (side, side)
    return (writes.height, writes.width)

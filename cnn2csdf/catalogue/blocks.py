"""Layers that stand together in many networks."""

from __future__ import annotations

from fractions import Fraction

from cnn2csdf import operators as op
from cnn2csdf.builder import NetworkBuilder
from cnn2csdf.geometry import ceil_overhang, same_padding
from cnn2csdf.network import Shape
from csdf.errors import InvalidNetwork

RELU = op.Activation(function="relu")
RELU6 = op.Activation(function="clip", parameters=(0.0, 6.0))
LEAKY_RELU = op.Activation(function="leaky relu", parameters=(0.1,))
SILU = op.Activation(function="silu")
SIGMOID = op.Activation(function="sigmoid")


def unpadded(kernel: int, stride: int = 1) -> op.Window:
    """Return a square window that stays within its input."""
    return op.Window(kernel=(kernel, kernel), stride=(stride, stride))


def centred(kernel: int, stride: int = 1) -> op.Window:
    """Return a square window with half its kernel as padding on every side."""
    side = kernel // 2
    return op.Window(
        kernel=(kernel, kernel), stride=(stride, stride), padding=(side, side, side, side)
    )


def same(shape: Shape, kernel: op.Pair, stride: op.Pair = (1, 1)) -> op.Window:
    """Return a window with ceil(size / stride) places, odd padding at the end (TensorFlow SAME)."""
    padding = same_padding((shape.height, shape.width), op.Window(kernel=kernel, stride=stride))
    return op.Window(kernel=kernel, stride=stride, padding=padding)


def rounded_up(shape: Shape, kernel: int, stride: int) -> op.Window:
    """Return a window without padding that loses no row or column (Caffe's pooling)."""
    window = unpadded(kernel, stride)
    overhang = ceil_overhang((shape.height, shape.width), window)
    return op.Window(kernel=window.kernel, stride=window.stride, overhang=overhang)


def activated(builder: NetworkBuilder, source: str, activation: op.Activation, name: str) -> str:
    """Add an activation, called after the layer in front of it."""
    return builder.add(activation, source, name=f"{name}_{activation.function.replace(' ', '_')}")


def biased_convolution(
    builder: NetworkBuilder,
    source: str,
    name: str,
    *,
    filters: int,
    window: op.Window,
    activation: op.Activation | None = RELU,
) -> str:
    """Add a convolution with bias, and an activation."""
    convolved = builder.add(op.Convolution(filters=filters, window=window), source, name=name)
    return activated(builder, convolved, activation, name) if activation else convolved


def normalized_convolution(
    builder: NetworkBuilder,
    source: str,
    name: str,
    *,
    filters: int,
    window: op.Window,
    groups: int = 1,
    activation: op.Activation | None = RELU,
    has_bias: bool = False,
    epsilon: float = 1e-5,
) -> str:
    """Add a convolution, a batch normalisation and an activation."""
    convolution = op.Convolution(filters=filters, window=window, groups=groups, has_bias=has_bias)
    convolved = builder.add(convolution, source, name=name)
    normalized = builder.add(
        op.BatchNormalization(epsilon=epsilon), convolved, name=f"{name}_normalization"
    )
    return activated(builder, normalized, activation, name) if activation else normalized


def max_pooling(builder: NetworkBuilder, source: str, name: str, window: op.Window) -> str:
    """Add a maximum pooling."""
    return builder.add(op.Pooling(function="max", window=window), source, name=name)


def average_pooling(builder: NetworkBuilder, source: str, name: str, window: op.Window) -> str:
    """Add an average pooling."""
    return builder.add(op.Pooling(function="average", window=window), source, name=name)


def global_average(builder: NetworkBuilder, source: str, name: str = "pool") -> str:
    """Add the mean of each feature map."""
    return builder.add(op.GlobalPooling(function="average"), source, name=name)


def sum_of(builder: NetworkBuilder, left: str, right: str, name: str) -> str:
    """Add the addition of two layers, element by element."""
    return builder.add(op.Elementwise(function="add"), left, right, name=name)


def classified(builder: NetworkBuilder, features: str, classes: int) -> str:
    """Add a fully connected layer, a softmax and the output."""
    scores = builder.add(op.FullyConnected(units=classes), features, name="classifier")
    return builder.output(builder.add(op.Softmax(axis=0), scores, name="softmax"))


def require_positive(width: Fraction) -> None:
    """Refuse a width multiplier that is not positive."""
    if width <= 0:
        raise InvalidNetwork(f"width {width} is not positive")


def require_multiple(resolution: int, divisor: int) -> None:
    """Refuse a resolution that the strides of a network do not divide."""
    if resolution < 1 or resolution % divisor:
        raise InvalidNetwork(f"resolution {resolution} is not a positive multiple of {divisor}")

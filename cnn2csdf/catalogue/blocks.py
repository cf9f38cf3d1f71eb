"""Builder of the networks of the catalogue: windows, and groups of layers that many of them have."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from cnn2csdf import operators as op
from cnn2csdf.builder import NetworkBuilder
from cnn2csdf.geometry import ceil_overhang, same_padding
from cnn2csdf.network import Network
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


class CatalogueBuilder(NetworkBuilder):
    """A builder with the layers, and groups of layers, that many networks of the catalogue have.

    source: the layer that is read. name: of the first added layer; activations and normalisations are
    named after it.
    """

    def same(self, source: str, kernel: op.Pair, stride: op.Pair = (1, 1)) -> op.Window:
        """Return a window with ceil(size / stride) places, odd padding at the end (TensorFlow SAME)."""
        shape = self.shape(source)
        padding = same_padding((shape.height, shape.width), op.Window(kernel=kernel, stride=stride))
        return op.Window(kernel=kernel, stride=stride, padding=padding)

    def activated(self, source: str, activation: op.Activation, name: str) -> str:
        """Add an activation; name: of the layer before it."""
        return self.add(activation, source, name=f"{name}_{activation.function.replace(' ', '_')}")

    def biased_convolution(
        self,
        source: str,
        name: str,
        filters: int,
        window: op.Window,
        *,
        groups: int = 1,
        activation: op.Activation | None = RELU,
    ) -> str:
        """Add a convolution with bias, and an activation."""
        convolution = op.Convolution(filters=filters, window=window, groups=groups)
        convolved = self.add(convolution, source, name=name)
        return self.activated(convolved, activation, name) if activation else convolved

    def normalized_convolution(
        self,
        source: str,
        name: str,
        filters: int,
        window: op.Window,
        *,
        groups: int = 1,
        activation: op.Activation | None = RELU,
        has_bias: bool = False,
        epsilon: float = 1e-5,
    ) -> str:
        """Add a convolution, a batch normalisation and an activation."""
        convolution = op.Convolution(
            filters=filters, window=window, groups=groups, has_bias=has_bias
        )
        convolved = self.add(convolution, source, name=name)
        normalization = op.BatchNormalization(epsilon=epsilon)
        normalized = self.add(normalization, convolved, name=f"{name}_normalization")
        return self.activated(normalized, activation, name) if activation else normalized

    def max_pooling(self, source: str, name: str, window: op.Window) -> str:
        """Add a maximum pooling."""
        return self.add(op.Pooling(function="max", window=window), source, name=name)

    def rounded_up_pooling(self, source: str, name: str) -> str:
        """Add a maximum pooling, 3x3 with stride 2, that loses no row or column (Caffe's pooling)."""
        shape, window = self.shape(source), unpadded(3, 2)
        overhang = ceil_overhang((shape.height, shape.width), window)
        return self.max_pooling(source, name, replace(window, overhang=overhang))

    def average_pooling(self, source: str, name: str, window: op.Window) -> str:
        """Add an average pooling."""
        return self.add(op.Pooling(function="average", window=window), source, name=name)

    def global_average(self, source: str, name: str = "pool") -> str:
        """Add the mean of each feature map."""
        return self.add(op.GlobalPooling(function="average"), source, name=name)

    def sum_of(self, left: str, right: str, name: str) -> str:
        """Add the addition of two layers, element by element."""
        return self.add(op.Elementwise(function="add"), left, right, name=name)

    def connected(self, source: str, name: str) -> str:
        """Add a fully connected layer of 4096 units, and an activation."""
        connected = self.add(op.FullyConnected(units=4096), source, name=name)
        return self.activated(connected, RELU, name)

    def classified(self, features: str, classes: int) -> Network:
        """Add a fully connected layer, a softmax and the output; return the network."""
        scores = self.add(op.FullyConnected(units=classes), features, name="classifier")
        self.output(self.add(op.Softmax(axis=0), scores, name="softmax"))
        return self.network()


def require_positive(width: Fraction) -> None:
    """Refuse a width multiplier that is not positive."""
    if width <= 0:
        raise InvalidNetwork(f"width {width} is not positive")

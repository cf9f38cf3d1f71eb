"""AlexNet.

Source: Krizhevsky, Sutskever, Hinton, ImageNet Classification with Deep Convolutional Neural
Networks, NIPS 2012, sections 3.3 to 3.5. The second, fourth and fifth convolution have two groups,
one for each of the two processors of the paper; 227 x 227 is the image of which its sizes follow.
Normalisation comes before pooling, its parameters are those of section 3.3.
"""

from __future__ import annotations

from cnn2csdf import operators as op
from cnn2csdf.builder import NetworkBuilder
from cnn2csdf.catalogue import blocks
from cnn2csdf.network import Network


def alexnet(*, classes: int = 1000, resolution: int = 227) -> Network:
    """Return AlexNet."""
    builder = NetworkBuilder("alexnet")
    image = builder.input((3, resolution, resolution))
    features = _convolution(builder, image, 1, filters=96, window=blocks.unpadded(11, 4), groups=1)
    features = _pooled(builder, _normalized(builder, features, 1), 1)
    features = _convolution(builder, features, 2, filters=256, window=blocks.centred(5), groups=2)
    features = _pooled(builder, _normalized(builder, features, 2), 2)
    for number, filters, groups in ((3, 384, 1), (4, 384, 2), (5, 256, 2)):
        features = _convolution(
            builder, features, number, filters=filters, window=blocks.centred(3), groups=groups
        )
    features = _pooled(builder, features, 5)
    for number in (6, 7):
        connected = builder.add(op.FullyConnected(units=4096), features, name=f"fc{number}")
        features = blocks.activated(builder, connected, blocks.RELU, f"fc{number}")
    blocks.classified(builder, features, classes)
    return builder.network()


def _convolution(
    builder: NetworkBuilder,
    source: str,
    number: int,
    *,
    filters: int,
    window: op.Window,
    groups: int,
) -> str:
    name = f"conv{number}"
    convolution = op.Convolution(filters=filters, window=window, groups=groups)
    return blocks.activated(builder, builder.add(convolution, source, name=name), blocks.RELU, name)


def _normalized(builder: NetworkBuilder, source: str, number: int) -> str:
    """Section 3.3; the operator divides alpha by its size, the paper does not."""
    response = op.LocalResponseNormalization(size=5, alpha=5 * 1e-4, beta=0.75, bias=2.0)
    return builder.add(response, source, name=f"norm{number}")


def _pooled(builder: NetworkBuilder, source: str, number: int) -> str:
    return blocks.max_pooling(builder, source, f"pool{number}", blocks.unpadded(3, 2))

"""Networks that are chains of layers: AlexNet, VGG-16 and VGG-19.

Source: Krizhevsky, Sutskever, Hinton, ImageNet Classification with Deep Convolutional Neural
Networks, NIPS 2012, sections 3.3 to 3.5. The second, fourth and fifth convolution have two groups,
one for each of the two processors of the paper; 227 x 227 is the image size that gives its sizes.
Normalisation comes before pooling, its parameters are those of section 3.3.

Source: Simonyan and Zisserman, Very Deep Convolutional Networks for Large-Scale Image Recognition,
ICLR 2015, table 1, configurations D and E.
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


STAGE_FILTERS = (64, 128, 256, 512, 512)


def vgg16(*, classes: int = 1000, resolution: int = 224) -> Network:
    """Return VGG-16 (configuration D)."""
    return _vgg("vgg16", (2, 2, 3, 3, 3), classes, resolution)


def vgg19(*, classes: int = 1000, resolution: int = 224) -> Network:
    """Return VGG-19 (configuration E)."""
    return _vgg("vgg19", (2, 2, 4, 4, 4), classes, resolution)


def _vgg(name: str, counts: tuple[int, ...], classes: int, resolution: int) -> Network:
    builder = NetworkBuilder(name)
    features = builder.input((3, resolution, resolution))
    for stage, (filters, count) in enumerate(zip(STAGE_FILTERS, counts, strict=True), start=1):
        for number in range(1, count + 1):
            features = blocks.biased_convolution(
                builder,
                features,
                f"conv{stage}_{number}",
                filters=filters,
                window=blocks.centred(3),
            )
        features = blocks.max_pooling(builder, features, f"pool{stage}", blocks.unpadded(2, 2))
    for number in (6, 7):
        connected = builder.add(op.FullyConnected(units=4096), features, name=f"fc{number}")
        features = blocks.activated(builder, connected, blocks.RELU, f"fc{number}")
    blocks.classified(builder, features, classes)
    return builder.network()

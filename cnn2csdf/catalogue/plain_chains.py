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
from cnn2csdf.catalogue.blocks import CatalogueBuilder, centred, unpadded
from cnn2csdf.network import Network

POOLING = unpadded(3, 2)  # of AlexNet: its windows overlap


def alexnet(*, classes: int = 1000, resolution: int = 227) -> Network:
    """Return AlexNet."""
    builder = CatalogueBuilder("alexnet")
    image = builder.input((3, resolution, resolution))
    features = builder.biased_convolution(image, "conv1", 96, unpadded(11, 4))
    features = builder.max_pooling(_normalized(builder, features, 1), "pool1", POOLING)
    features = builder.biased_convolution(features, "conv2", 256, centred(5), groups=2)
    features = builder.max_pooling(_normalized(builder, features, 2), "pool2", POOLING)
    for number, filters, groups in ((3, 384, 1), (4, 384, 2), (5, 256, 2)):
        features = builder.biased_convolution(
            features, f"conv{number}", filters, centred(3), groups=groups
        )
    features = builder.max_pooling(features, "pool5", POOLING)
    for number in (6, 7):
        features = builder.connected(features, f"fc{number}")
    return builder.classified(features, classes)


def _normalized(builder: CatalogueBuilder, source: str, number: int) -> str:
    """Section 3.3; the operator divides alpha by its size, the paper does not."""
    response = op.LocalResponseNormalization(size=5, alpha=5 * 1e-4, beta=0.75, bias=2.0)
    return builder.add(response, source, name=f"norm{number}")


STAGE_FILTERS = (64, 128, 256, 512, 512)


def vgg16(*, classes: int = 1000, resolution: int = 224) -> Network:
    """Return VGG-16 (configuration D)."""
    return _vgg("vgg16", (2, 2, 3, 3, 3), classes, resolution)


def vgg19(*, classes: int = 1000, resolution: int = 224) -> Network:
    """Return VGG-19 (configuration E)."""
    return _vgg("vgg19", (2, 2, 4, 4, 4), classes, resolution)


def _vgg(name: str, counts: tuple[int, ...], classes: int, resolution: int) -> Network:
    builder = CatalogueBuilder(name)
    features = builder.input((3, resolution, resolution))
    for stage, (filters, count) in enumerate(zip(STAGE_FILTERS, counts, strict=True), start=1):
        for number in range(1, count + 1):
            features = builder.biased_convolution(
                features, f"conv{stage}_{number}", filters, centred(3)
            )
        features = builder.max_pooling(features, f"pool{stage}", unpadded(2, 2))
    for number in (6, 7):
        features = builder.connected(features, f"fc{number}")
    return builder.classified(features, classes)

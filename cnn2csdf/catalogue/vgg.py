"""VGG-16 and VGG-19.

Source: Simonyan and Zisserman, Very Deep Convolutional Networks for Large-Scale Image Recognition,
ICLR 2015, table 1, configurations D and E.
"""

from __future__ import annotations

from cnn2csdf import operators as op
from cnn2csdf.builder import NetworkBuilder
from cnn2csdf.catalogue import blocks
from cnn2csdf.network import Network

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

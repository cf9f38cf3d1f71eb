"""GoogLeNet, the first Inception network, without its auxiliary classifiers.

Source: Szegedy et al., Going Deeper with Convolutions, CVPR 2015, table 1. Poolings round up, as
the sizes of the table ask for.
"""

from __future__ import annotations

from typing import NamedTuple

from cnn2csdf import operators as op
from cnn2csdf.builder import NetworkBuilder
from cnn2csdf.catalogue import blocks
from cnn2csdf.network import Network


class Inception(NamedTuple):
    """Filters of one inception module, by the columns of the table."""

    name: str
    direct: int  # 1x1
    reduce3: int  # 1x1 in front of 3x3
    wide3: int
    reduce5: int  # 1x1 in front of 5x5
    wide5: int
    pooled: int  # 1x1 behind the pooling


MODULES = (
    Inception("3a", 64, 96, 128, 16, 32, 32),
    Inception("3b", 128, 128, 192, 32, 96, 64),
    Inception("4a", 192, 96, 208, 16, 48, 64),
    Inception("4b", 160, 112, 224, 24, 64, 64),
    Inception("4c", 128, 128, 256, 24, 64, 64),
    Inception("4d", 112, 144, 288, 32, 64, 64),
    Inception("4e", 256, 160, 320, 32, 128, 128),
    Inception("5a", 256, 160, 320, 32, 128, 128),
    Inception("5b", 384, 192, 384, 48, 128, 128),
)
POOLED_AFTER = ("3b", "4e")


def googlenet(*, classes: int = 1000, resolution: int = 224) -> Network:
    """Return GoogLeNet without its auxiliary classifiers."""
    builder = NetworkBuilder("googlenet")
    features = _stem(builder, builder.input((3, resolution, resolution)))
    for module in MODULES:
        features = _inception(builder, features, module)
        if module.name in POOLED_AFTER:
            features = _pooled(builder, features, f"pool{module.name[0]}")
    blocks.classified(builder, blocks.global_average(builder, features, "pool5"), classes)
    return builder.network()


def _stem(builder: NetworkBuilder, image: str) -> str:
    features = blocks.biased_convolution(
        builder, image, "conv1", filters=64, window=blocks.centred(7, 2)
    )
    features = _pooled(builder, features, "pool1")
    features = builder.add(op.LocalResponseNormalization(size=5), features, name="pool1_lrn")
    features = blocks.biased_convolution(
        builder, features, "conv2_reduce", filters=64, window=blocks.unpadded(1)
    )
    features = blocks.biased_convolution(
        builder, features, "conv2", filters=192, window=blocks.centred(3)
    )
    features = builder.add(op.LocalResponseNormalization(size=5), features, name="conv2_lrn")
    return _pooled(builder, features, "pool2")


def _pooled(builder: NetworkBuilder, source: str, name: str) -> str:
    window = blocks.rounded_up(builder.shape(source), 3, 2)
    return blocks.max_pooling(builder, source, name, window)


def _inception(builder: NetworkBuilder, source: str, module: Inception) -> str:
    def branch(behind: str, part: str, filters: int, kernel: int) -> str:
        name = f"inception{module.name}_{part}"
        window = blocks.centred(kernel)
        return blocks.biased_convolution(builder, behind, name, filters=filters, window=window)

    direct = branch(source, "1x1", module.direct, 1)
    wide3 = branch(branch(source, "3x3_reduce", module.reduce3, 1), "3x3", module.wide3, 3)
    wide5 = branch(branch(source, "5x5_reduce", module.reduce5, 1), "5x5", module.wide5, 5)
    pool = blocks.max_pooling(builder, source, f"inception{module.name}_pool", blocks.centred(3))
    pooled = branch(pool, "pool_projection", module.pooled, 1)
    name = f"inception{module.name}"
    return builder.add(op.Concatenation(), direct, wide3, wide5, pooled, name=name)

"""Residual networks.

Source: He et al., Deep Residual Learning for Image Recognition, CVPR 2016, table 1; shortcuts of
option B (section 3.3). The first convolution of a bottleneck has its stride.
"""

from __future__ import annotations

from collections.abc import Callable

from cnn2csdf.builder import NetworkBuilder
from cnn2csdf.catalogue import blocks
from cnn2csdf.network import Network

STAGE_FILTERS = (64, 128, 256, 512)
Branch = Callable[[NetworkBuilder, str, str, int, int], str]


def resnet18(*, classes: int = 1000, resolution: int = 224) -> Network:
    """Return ResNet-18."""
    return _resnet("resnet18", _basic_branch, (2, 2, 2, 2), classes, resolution)


def resnet34(*, classes: int = 1000, resolution: int = 224) -> Network:
    """Return ResNet-34."""
    return _resnet("resnet34", _basic_branch, (3, 4, 6, 3), classes, resolution)


def resnet50(*, classes: int = 1000, resolution: int = 224) -> Network:
    """Return ResNet-50."""
    return _resnet("resnet50", _bottleneck_branch, (3, 4, 6, 3), classes, resolution)


def _resnet(
    name: str, branch: Branch, counts: tuple[int, ...], classes: int, resolution: int
) -> Network:
    builder = NetworkBuilder(name)
    image = builder.input((3, resolution, resolution))
    features = blocks.normalized_convolution(
        builder, image, "conv1", filters=64, window=blocks.centred(7, 2)
    )
    features = blocks.max_pooling(builder, features, "pool1", blocks.centred(3, 2))
    for stage, (filters, count) in enumerate(zip(STAGE_FILTERS, counts, strict=True), start=2):
        for block in range(1, count + 1):
            stride = 2 if stage > 2 and block == 1 else 1
            prefix = f"conv{stage}_{block}"
            features = _residual(builder, branch, features, prefix, filters, stride)
    blocks.classified(builder, blocks.global_average(builder, features), classes)
    return builder.network()


def _residual(
    builder: NetworkBuilder, branch: Branch, source: str, prefix: str, filters: int, stride: int
) -> str:
    """A branch, added to what it reads; projected where the shapes differ."""
    result = branch(builder, source, prefix, filters, stride)
    if builder.shape(source) != builder.shape(result):
        source = blocks.normalized_convolution(
            builder,
            source,
            f"{prefix}_projection",
            filters=builder.shape(result).channels,
            window=blocks.unpadded(1, stride),
            activation=None,
        )
    total = blocks.sum_of(builder, result, source, f"{prefix}_add")
    return blocks.activated(builder, total, blocks.RELU, prefix)


def _basic_branch(
    builder: NetworkBuilder, source: str, prefix: str, filters: int, stride: int
) -> str:
    middle = blocks.normalized_convolution(
        builder, source, f"{prefix}_a", filters=filters, window=blocks.centred(3, stride)
    )
    return blocks.normalized_convolution(
        builder, middle, f"{prefix}_b", filters=filters, window=blocks.centred(3), activation=None
    )


def _bottleneck_branch(
    builder: NetworkBuilder, source: str, prefix: str, filters: int, stride: int
) -> str:
    narrow = blocks.normalized_convolution(
        builder, source, f"{prefix}_a", filters=filters, window=blocks.unpadded(1, stride)
    )
    middle = blocks.normalized_convolution(
        builder, narrow, f"{prefix}_b", filters=filters, window=blocks.centred(3)
    )
    return blocks.normalized_convolution(
        builder,
        middle,
        f"{prefix}_c",
        filters=4 * filters,
        window=blocks.unpadded(1),
        activation=None,
    )

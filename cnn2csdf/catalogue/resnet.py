"""Residual networks.

Source: He et al., Deep Residual Learning for Image Recognition, CVPR 2016, table 1; shortcuts of
option B (section 3.3). The first convolution of a bottleneck has its stride.
"""

from __future__ import annotations

from collections.abc import Callable

from cnn2csdf.catalogue.blocks import RELU, CatalogueBuilder, centred, unpadded
from cnn2csdf.network import Network

STAGE_FILTERS = (64, 128, 256, 512)
Branch = Callable[[CatalogueBuilder, str, str, int, int], str]


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
    builder = CatalogueBuilder(name)
    image = builder.input((3, resolution, resolution))
    features = builder.normalized_convolution(image, "conv1", 64, centred(7, 2))
    features = builder.max_pooling(features, "pool1", centred(3, 2))
    for stage, (filters, count) in enumerate(zip(STAGE_FILTERS, counts, strict=True), start=2):
        for block in range(1, count + 1):
            stride = 2 if stage > 2 and block == 1 else 1
            prefix = f"conv{stage}_{block}"
            features = _residual(builder, branch, features, prefix, filters, stride)
    return builder.classified(builder.global_average(features), classes)


def _residual(
    builder: CatalogueBuilder, branch: Branch, source: str, prefix: str, filters: int, stride: int
) -> str:
    """A branch, added to what it reads; projected where the shapes differ."""
    result = branch(builder, source, prefix, filters, stride)
    if builder.shape(source) != builder.shape(result):
        source = builder.normalized_convolution(
            source,
            f"{prefix}_projection",
            builder.shape(result).channels,
            unpadded(1, stride),
            activation=None,
        )
    total = builder.sum_of(result, source, f"{prefix}_add")
    return builder.activated(total, RELU, prefix)


def _basic_branch(
    builder: CatalogueBuilder, source: str, prefix: str, filters: int, stride: int
) -> str:
    middle = builder.normalized_convolution(source, f"{prefix}_a", filters, centred(3, stride))
    return builder.normalized_convolution(
        middle, f"{prefix}_b", filters, centred(3), activation=None
    )


def _bottleneck_branch(
    builder: CatalogueBuilder, source: str, prefix: str, filters: int, stride: int
) -> str:
    narrow = builder.normalized_convolution(source, f"{prefix}_a", filters, unpadded(1, stride))
    middle = builder.normalized_convolution(narrow, f"{prefix}_b", filters, centred(3))
    return builder.normalized_convolution(
        middle, f"{prefix}_c", 4 * filters, unpadded(1), activation=None
    )

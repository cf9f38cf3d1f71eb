"""Networks that run on microcontrollers.

Sources: Banbury et al., MLPerf Tiny Benchmark, NeurIPS 2021 (datasets and benchmarks), table 1,
with the layers of its reference models; Zhang et al., Hello Edge: Keyword Spotting on
Microcontrollers, arXiv 1711.07128, 2017, section 4 (DS-CNN); Chowdhery et al., Visual Wake Words
Dataset, arXiv 1906.05721, 2019 (person detection with MobileNetV1 0.25). The reference models keep
the bias of a convolution in front of its batch normalisation.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from cnn2csdf import operators as op
from cnn2csdf.builder import NetworkBuilder
from cnn2csdf.catalogue import blocks, mobilenet
from cnn2csdf.network import Network


def person_detection(*, classes: int = 2, resolution: int = 96, channels: int = 1) -> Network:
    """Return the MobileNetV1 of width 1/4 that finds persons in small grey images."""
    network = mobilenet.mobilenet_v1(
        classes=classes, resolution=resolution, width=Fraction(1, 4), channels=channels
    )
    return replace(network, name="person_detection")


def keyword_spotting(*, classes: int = 12, rows: int = 49, columns: int = 10) -> Network:
    """Return the DS-CNN that finds words in 49 frames of 10 cepstral coefficients.

    Its last pooling has half the rows and columns, rounded down, and so leaves one row out.
    """
    builder = NetworkBuilder("keyword_spotting")
    sound = builder.input((1, rows, columns))
    features = _convolved(builder, sound, "conv1", 64, kernel=(10, 4), stride=(2, 2))
    for number in range(2, 6):
        features = _convolved(
            builder, features, f"conv{number}_depthwise", 64, kernel=(3, 3), groups=64
        )
        features = _convolved(builder, features, f"conv{number}_pointwise", 64, kernel=(1, 1))
    whole = (rows // 2, columns // 2)
    window = op.Window(kernel=whole, stride=whole)
    blocks.classified(builder, blocks.average_pooling(builder, features, "pool", window), classes)
    return builder.network()


def resnet8(*, classes: int = 10, resolution: int = 32) -> Network:
    """Return the ResNet-8 that sorts the small images of CIFAR-10."""
    builder = NetworkBuilder("resnet8")
    image = builder.input((3, resolution, resolution))
    features = _convolved(builder, image, "conv1", 16, kernel=(3, 3))
    for stage, (filters, stride) in enumerate(((16, 1), (32, 2), (64, 2)), start=2):
        features = _residual(builder, features, f"conv{stage}", filters, stride)
    blocks.classified(builder, blocks.global_average(builder, features), classes)
    return builder.network()


def _convolved(
    builder: NetworkBuilder,
    source: str,
    name: str,
    filters: int,
    *,
    kernel: op.Pair,
    stride: op.Pair = (1, 1),
    groups: int = 1,
    activation: op.Activation | None = blocks.RELU,
) -> str:
    return blocks.normalized_convolution(
        builder,
        source,
        name,
        filters=filters,
        window=blocks.same(builder.shape(source), kernel, stride),
        groups=groups,
        activation=activation,
        has_bias=True,
        epsilon=1e-3,
    )


def _residual(builder: NetworkBuilder, source: str, prefix: str, filters: int, stride: int) -> str:
    """Two convolutions, added to what they read; a projection has no normalisation."""
    steps = (stride, stride)
    middle = _convolved(builder, source, f"{prefix}_a", filters, kernel=(3, 3), stride=steps)
    result = _convolved(builder, middle, f"{prefix}_b", filters, kernel=(3, 3), activation=None)
    if builder.shape(source) != builder.shape(result):
        window = blocks.unpadded(1, stride)
        source = blocks.biased_convolution(
            builder,
            source,
            f"{prefix}_projection",
            filters=filters,
            window=window,
            activation=None,
        )
    total = blocks.sum_of(builder, result, source, f"{prefix}_add")
    return blocks.activated(builder, total, blocks.RELU, prefix)

"""Networks for microcontrollers, among them MobileNets of any width and resolution.

Sources: Banbury et al., MLPerf Tiny Benchmark, NeurIPS 2021 (datasets and benchmarks), table 1,
with the layers of its reference models; Zhang et al., Hello Edge: Keyword Spotting on
Microcontrollers, arXiv 1711.07128, 2017, section 4 (DS-CNN); Chowdhery et al., Visual Wake Words
Dataset, arXiv 1906.05721, 2019 (person detection with MobileNetV1 0.25). The reference models keep
the bias of a convolution before its batch normalisation.

Sources: Howard et al., MobileNets: Efficient Convolutional Neural Networks for Mobile Vision
Applications, arXiv 1704.04861, 2017, table 1; Sandler et al., MobileNetV2: Inverted Residuals and
Linear Bottlenecks, CVPR 2018, tables 1 and 2. Padding is TensorFlow's, as in the authors' release.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from cnn2csdf import operators as op
from cnn2csdf.catalogue.blocks import RELU, RELU6, CatalogueBuilder, require_positive, unpadded
from cnn2csdf.network import Network


def person_detection(*, classes: int = 2, resolution: int = 96, channels: int = 1) -> Network:
    """Return the MobileNetV1 of width 1/4 that finds persons in small grey images."""
    network = mobilenet_v1(
        classes=classes, resolution=resolution, width=Fraction(1, 4), channels=channels
    )
    return replace(network, name="person_detection")


def keyword_spotting(*, classes: int = 12, rows: int = 49, columns: int = 10) -> Network:
    """Return the DS-CNN that finds words in 49 frames of 10 cepstral coefficients.

    Its last pooling has half the rows and columns, rounded down, and so leaves one row out.
    """
    builder = CatalogueBuilder("keyword_spotting")
    sound = builder.input((1, rows, columns))
    features = _convolved(builder, sound, "conv1", 64, kernel=(10, 4), stride=(2, 2))
    for number in range(2, 6):
        features = _convolved(
            builder, features, f"conv{number}_depthwise", 64, kernel=(3, 3), groups=64
        )
        features = _convolved(builder, features, f"conv{number}_pointwise", 64, kernel=(1, 1))
    whole = (rows // 2, columns // 2)
    window = op.Window(kernel=whole, stride=whole)
    return builder.classified(builder.average_pooling(features, "pool", window), classes)


def resnet8(*, classes: int = 10, resolution: int = 32) -> Network:
    """Return the ResNet-8 that sorts the small images of CIFAR-10."""
    builder = CatalogueBuilder("resnet8")
    image = builder.input((3, resolution, resolution))
    features = _convolved(builder, image, "conv1", 16, kernel=(3, 3))
    for stage, (filters, stride) in enumerate(((16, 1), (32, 2), (64, 2)), start=2):
        features = _residual(builder, features, f"conv{stage}", filters, stride)
    return builder.classified(builder.global_average(features), classes)


def _convolved(
    builder: CatalogueBuilder,
    source: str,
    name: str,
    filters: int,
    *,
    kernel: op.Pair,
    stride: op.Pair = (1, 1),
    groups: int = 1,
    activation: op.Activation | None = RELU,
) -> str:
    return builder.normalized_convolution(
        source,
        name,
        filters,
        builder.same(source, kernel, stride),
        groups=groups,
        activation=activation,
        has_bias=True,
        epsilon=1e-3,
    )


def _residual(
    builder: CatalogueBuilder, source: str, prefix: str, filters: int, stride: int
) -> str:
    """Two convolutions, added to what they read; a projection has no normalisation."""
    steps = (stride, stride)
    middle = _convolved(builder, source, f"{prefix}_a", filters, kernel=(3, 3), stride=steps)
    result = _convolved(builder, middle, f"{prefix}_b", filters, kernel=(3, 3), activation=None)
    if builder.shape(source) != builder.shape(result):
        window = unpadded(1, stride)
        source = builder.biased_convolution(
            source, f"{prefix}_projection", filters, window, activation=None
        )
    total = builder.sum_of(result, source, f"{prefix}_add")
    return builder.activated(total, RELU, prefix)


SEPARABLE = (  # filters, stride
    (64, 1),
    (128, 2),
    (128, 1),
    (256, 2),
    (256, 1),
    (512, 2),
    *((512, 1),) * 5,
    (1024, 2),
    (1024, 1),
)
BOTTLENECKS = (  # expansion, channels, repetitions, stride of the first
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)


def mobilenet_v1(
    *, classes: int = 1000, resolution: int = 224, width: Fraction = Fraction(1), channels: int = 3
) -> Network:
    """Return MobileNetV1.

    width: the multiplier of the paper's section 3.3; a layer keeps at least 8 filters, as in the
    release. channels: of the image.
    """
    require_positive(width)
    builder = CatalogueBuilder("mobilenet_v1")
    image = builder.input((channels, resolution, resolution))
    features = builder.normalized_convolution(
        image, "conv1", _thinned(32, width), builder.same(image, (3, 3), (2, 2))
    )
    for number, (filters, stride) in enumerate(SEPARABLE, start=2):
        features = _depthwise(builder, features, f"conv{number}_depthwise", stride, RELU)
        features = builder.normalized_convolution(
            features, f"conv{number}_pointwise", _thinned(filters, width), unpadded(1)
        )
    return builder.classified(builder.global_average(features), classes)


def mobilenet_v2(
    *, classes: int = 1000, resolution: int = 224, width: Fraction = Fraction(1)
) -> Network:
    """Return MobileNetV2; a width below one does not thin the last convolution (section 6.1)."""
    require_positive(width)
    builder = CatalogueBuilder("mobilenet_v2")
    image = builder.input((3, resolution, resolution))
    features = builder.normalized_convolution(
        image,
        "conv1",
        rounded_channels(32 * width),
        builder.same(image, (3, 3), (2, 2)),
        activation=RELU6,
    )
    for stage, (expansion, channels, repetitions, stride) in enumerate(BOTTLENECKS, start=2):
        for block in range(1, repetitions + 1):
            features = _inverted_residual(
                builder,
                features,
                f"conv{stage}_{block}",
                expansion=expansion,
                filters=rounded_channels(channels * width),
                stride=stride if block == 1 else 1,
            )
    features = builder.normalized_convolution(
        features,
        "conv9",
        rounded_channels(1280 * max(width, Fraction(1))),
        unpadded(1),
        activation=RELU6,
    )
    return builder.classified(builder.global_average(features), classes)


def rounded_channels(wanted: Fraction) -> int:
    """Return the nearest multiple of 8 channels, at least 8 and 90% of the wanted number.

    Source: the authors' release of MobileNetV2 (halves are rounded up).
    """
    rounded = max(8, int(wanted + 4) // 8 * 8)
    return rounded if 10 * rounded >= 9 * wanted else rounded + 8


def _thinned(filters: int, width: Fraction) -> int:
    return max(8, int(filters * width))


def _depthwise(
    builder: CatalogueBuilder, source: str, name: str, stride: int, activation: op.Activation
) -> str:
    channels = builder.shape(source).channels
    return builder.normalized_convolution(
        source,
        name,
        channels,
        builder.same(source, (3, 3), (stride, stride)),
        groups=channels,
        activation=activation,
    )


def _inverted_residual(
    builder: CatalogueBuilder,
    source: str,
    prefix: str,
    *,
    expansion: int,
    filters: int,
    stride: int,
) -> str:
    """Expand, filter each map, project linearly; added to what it reads where shapes agree."""
    features = source
    if expansion > 1:
        features = builder.normalized_convolution(
            source,
            f"{prefix}_expand",
            expansion * builder.shape(source).channels,
            unpadded(1),
            activation=RELU6,
        )
    features = _depthwise(builder, features, f"{prefix}_depthwise", stride, RELU6)
    features = builder.normalized_convolution(
        features, f"{prefix}_project", filters, unpadded(1), activation=None
    )
    if builder.shape(source) != builder.shape(features):
        return features
    return builder.sum_of(features, source, f"{prefix}_add")

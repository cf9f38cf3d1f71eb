"""EfficientNet-B0, with squeeze-excite and SiLU.

Sources: Tan and Le, EfficientNet: Rethinking Model Scaling for Convolutional Neural Networks, ICML
2019, table 1; Hu et al., Squeeze-and-Excitation Networks, CVPR 2018, figure 2. The squeezed layer
has a quarter of the channels that its block reads; padding is TensorFlow's, as in the release.
"""

from __future__ import annotations

from functools import partial

from cnn2csdf import operators as op
from cnn2csdf.builder import NetworkBuilder
from cnn2csdf.catalogue import blocks
from cnn2csdf.network import Network

STAGES = (  # expansion, kernel, stride of the first, channels, repetitions
    (1, 3, 1, 16, 1),
    (6, 3, 2, 24, 2),
    (6, 5, 2, 40, 2),
    (6, 3, 2, 80, 3),
    (6, 5, 1, 112, 3),
    (6, 5, 2, 192, 4),
    (6, 3, 1, 320, 1),
)
_convolved = partial(blocks.normalized_convolution, activation=blocks.SILU, epsilon=1e-3)


def efficientnet_b0(*, classes: int = 1000, resolution: int = 224) -> Network:
    """Return EfficientNet-B0."""
    builder = NetworkBuilder("efficientnet_b0")
    image = builder.input((3, resolution, resolution))
    window = blocks.same(builder.shape(image), (3, 3), (2, 2))
    features = _convolved(builder, image, "stem", filters=32, window=window)
    for stage, (expansion, kernel, stride, filters, repetitions) in enumerate(STAGES, start=2):
        for block in range(1, repetitions + 1):
            features = _mobile_bottleneck(
                builder,
                features,
                f"stage{stage}_{block}",
                expansion=expansion,
                kernel=kernel,
                stride=stride if block == 1 else 1,
                filters=filters,
            )
    features = _convolved(builder, features, "head", filters=1280, window=blocks.unpadded(1))
    blocks.classified(builder, blocks.global_average(builder, features), classes)
    return builder.network()


def _mobile_bottleneck(
    builder: NetworkBuilder,
    source: str,
    prefix: str,
    *,
    expansion: int,
    kernel: int,
    stride: int,
    filters: int,
) -> str:
    """Expand, filter each map, weigh the maps, project; added to what it reads if it fits."""
    point = blocks.unpadded(1)
    channels = builder.shape(source).channels
    features, wide = source, expansion * channels
    if expansion > 1:
        features = _convolved(builder, source, f"{prefix}_expand", filters=wide, window=point)
    window = blocks.same(builder.shape(features), (kernel, kernel), (stride, stride))
    features = _convolved(
        builder, features, f"{prefix}_depthwise", filters=wide, window=window, groups=wide
    )
    features = squeeze_excite(builder, features, prefix, squeezed=max(1, channels // 4))
    features = _convolved(
        builder, features, f"{prefix}_project", filters=filters, window=point, activation=None
    )
    if builder.shape(source) != builder.shape(features):
        return features
    return blocks.sum_of(builder, features, source, f"{prefix}_add")


def squeeze_excite(builder: NetworkBuilder, source: str, prefix: str, *, squeezed: int) -> str:
    """Add a weight for each feature map, from the means of all, and the product with it."""
    point = blocks.unpadded(1)
    weights = blocks.global_average(builder, source, f"{prefix}_squeeze")
    weights = blocks.biased_convolution(
        builder,
        weights,
        f"{prefix}_reduce",
        filters=squeezed,
        window=point,
        activation=blocks.SILU,
    )
    weights = blocks.biased_convolution(
        builder,
        weights,
        f"{prefix}_restore",
        filters=builder.shape(source).channels,
        window=point,
        activation=blocks.SIGMOID,
    )
    product = op.Elementwise(function="multiply")
    return builder.add(product, source, weights, name=f"{prefix}_excite")

"""EfficientNet-B0, with squeeze-excite and SiLU.

Sources: Tan and Le, EfficientNet: Rethinking Model Scaling for Convolutional Neural Networks, ICML
2019, table 1; Hu et al., Squeeze-and-Excitation Networks, CVPR 2018, figure 2. The squeezed layer
has a quarter of the channels that its block reads; padding is TensorFlow's, as in the release.
"""

from __future__ import annotations

from functools import partial

from cnn2csdf import operators as op
from cnn2csdf.catalogue.blocks import SIGMOID, SILU, CatalogueBuilder, unpadded
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
_convolved = partial(CatalogueBuilder.normalized_convolution, activation=SILU, epsilon=1e-3)


def efficientnet_b0(*, classes: int = 1000, resolution: int = 224) -> Network:
    """Return EfficientNet-B0."""
    builder = CatalogueBuilder("efficientnet_b0")
    image = builder.input((3, resolution, resolution))
    window = builder.same(image, (3, 3), (2, 2))
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
    features = _convolved(builder, features, "head", filters=1280, window=unpadded(1))
    return builder.classified(builder.global_average(features), classes)


def _mobile_bottleneck(
    builder: CatalogueBuilder,
    source: str,
    prefix: str,
    *,
    expansion: int,
    kernel: int,
    stride: int,
    filters: int,
) -> str:
    """Expand, filter each map, weigh the maps, project; added to what it reads if it fits."""
    point = unpadded(1)
    channels = builder.shape(source).channels
    features, wide = source, expansion * channels
    if expansion > 1:
        features = _convolved(builder, source, f"{prefix}_expand", filters=wide, window=point)
    window = builder.same(features, (kernel, kernel), (stride, stride))
    features = _convolved(
        builder, features, f"{prefix}_depthwise", filters=wide, window=window, groups=wide
    )
    features = squeeze_excite(builder, features, prefix, squeezed=max(1, channels // 4))
    features = _convolved(
        builder, features, f"{prefix}_project", filters=filters, window=point, activation=None
    )
    if builder.shape(source) != builder.shape(features):
        return features
    return builder.sum_of(features, source, f"{prefix}_add")


def squeeze_excite(builder: CatalogueBuilder, source: str, prefix: str, *, squeezed: int) -> str:
    """Add a weight for each feature map, from the means of all, and the product with it."""
    point = unpadded(1)
    weights = builder.global_average(source, f"{prefix}_squeeze")
    weights = builder.biased_convolution(
        weights, f"{prefix}_reduce", squeezed, point, activation=SILU
    )
    weights = builder.biased_convolution(
        weights, f"{prefix}_restore", builder.shape(source).channels, point, activation=SIGMOID
    )
    product = op.Elementwise(function="multiply")
    return builder.add(product, source, weights, name=f"{prefix}_excite")

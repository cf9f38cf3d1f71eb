"""Networks with concatenations: GoogLeNet, Inception V2, SqueezeNet 1.0 and 1.1, DenseNet-121.

Source: Szegedy et al., Going Deeper with Convolutions, CVPR 2015, table 1. Poolings round up, as
the sizes of the table ask for.

Here Inception V2 is the successor of GoogLeNet with batch normalisation and 3x3 convolutions only.

Source: Ioffe and Szegedy, Batch Normalization, ICML 2015, figure 5, with 96 filters after the pooling
of 4c, which gives its 576 maps (printed 128). Nothing is padded before strided poolings.

Source: Iandola et al., SqueezeNet: AlexNet-Level Accuracy with 50x Fewer Parameters and <0.5 MB
Model Size, arXiv 1602.07360, 2016, table 1; version 1.1 is of the authors' release, which gives its
differences: a smaller first convolution and earlier poolings. Poolings round up, as in
the release; 227 x 227 is the image size that gives the sizes of the table.

Source: Huang et al., Densely Connected Convolutional Networks, CVPR 2017, table 1 (growth rate 32,
bottlenecks of four times the growth rate, compression 1/2).
"""

from __future__ import annotations

from typing import NamedTuple

from cnn2csdf import operators as op
from cnn2csdf.catalogue.blocks import RELU, CatalogueBuilder, centred, unpadded
from cnn2csdf.network import Network


class Inception(NamedTuple):
    """Filters of one inception module, by the columns of the table."""

    name: str
    direct: int  # 1x1
    reduce3: int  # 1x1 before 3x3
    wide3: int
    reduce5: int  # 1x1 before 5x5
    wide5: int
    pooled: int  # 1x1 after the pooling


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
    builder = CatalogueBuilder("googlenet")
    features = _stem(builder, builder.input((3, resolution, resolution)))
    for module in MODULES:
        features = _inception(builder, features, module)
        if module.name in POOLED_AFTER:
            features = builder.rounded_up_pooling(features, f"pool{module.name[0]}")
    return builder.classified(builder.global_average(features, "pool5"), classes)


def _stem(builder: CatalogueBuilder, image: str) -> str:
    features = builder.biased_convolution(image, "conv1", 64, centred(7, 2))
    features = builder.rounded_up_pooling(features, "pool1")
    features = builder.add(op.LocalResponseNormalization(size=5), features, name="pool1_lrn")
    features = builder.biased_convolution(features, "conv2_reduce", 64, unpadded(1))
    features = builder.biased_convolution(features, "conv2", 192, centred(3))
    features = builder.add(op.LocalResponseNormalization(size=5), features, name="conv2_lrn")
    return builder.rounded_up_pooling(features, "pool2")


def _inception(builder: CatalogueBuilder, source: str, module: Inception) -> str:
    def branch(behind: str, part: str, filters: int, kernel: int) -> str:
        name = f"inception{module.name}_{part}"
        return builder.biased_convolution(behind, name, filters, centred(kernel))

    direct = branch(source, "1x1", module.direct, 1)
    wide3 = branch(branch(source, "3x3_reduce", module.reduce3, 1), "3x3", module.wide3, 3)
    wide5 = branch(branch(source, "5x5_reduce", module.reduce5, 1), "5x5", module.wide5, 5)
    pool = builder.max_pooling(source, f"inception{module.name}_pool", centred(3))
    pooled = branch(pool, "pool_projection", module.pooled, 1)
    name = f"inception{module.name}"
    return builder.add(op.Concatenation(), direct, wide3, wide5, pooled, name=name)


class InceptionV2(NamedTuple):
    """Filters of one module of Inception V2; no 1x1 and no pooled ones where it halves its maps."""

    name: str
    direct: int  # 1x1
    reduce3: int  # 1x1 before 3x3
    wide3: int
    reduce5: int  # 1x1 before two 3x3
    wide5: int
    pooled: int  # 1x1 after the pooling
    pooling: str = "average"


MODULES_V2 = (
    InceptionV2("3a", 64, 64, 64, 64, 96, 32),
    InceptionV2("3b", 64, 64, 96, 64, 96, 64),
    InceptionV2("3c", 0, 128, 160, 64, 96, 0),
    InceptionV2("4a", 224, 64, 96, 96, 128, 128),
    InceptionV2("4b", 192, 96, 128, 96, 128, 128),
    InceptionV2("4c", 160, 128, 160, 128, 160, 96),
    InceptionV2("4d", 96, 128, 192, 160, 192, 96),
    InceptionV2("4e", 0, 128, 192, 192, 256, 0),
    InceptionV2("5a", 352, 192, 320, 160, 224, 128),
    InceptionV2("5b", 352, 192, 320, 192, 224, 128, pooling="max"),
)


def inception_v2(*, classes: int = 1000, resolution: int = 224) -> Network:
    """Return Inception V2 without auxiliary classifiers."""
    builder = CatalogueBuilder("inception_v2")
    image = builder.input((3, resolution, resolution))
    features = _normalized_layer(builder, image, "conv1", 64, 7, 2)
    features = _normalized_layer(
        builder, builder.rounded_up_pooling(features, "pool1"), "conv2_reduce", 64, 1
    )
    features = builder.rounded_up_pooling(
        _normalized_layer(builder, features, "conv2", 192, 3), "pool2"
    )
    for module in MODULES_V2:
        features = _inception_v2(builder, features, module)
    return builder.classified(builder.global_average(features, "pool5"), classes)


def _normalized_layer(
    builder: CatalogueBuilder, source: str, name: str, filters: int, kernel: int, stride: int = 1
) -> str:
    window = centred(kernel, stride)
    return builder.normalized_convolution(source, name, filters, window, has_bias=True)


def _inception_v2(builder: CatalogueBuilder, source: str, module: InceptionV2) -> str:
    name = f"inception{module.name}"
    stride = 1 if module.direct else 2
    branches = []
    if module.direct:
        branches.append(_normalized_layer(builder, source, f"{name}_1x1", module.direct, 1))
    narrow = _normalized_layer(builder, source, f"{name}_3x3_reduce", module.reduce3, 1)
    branches.append(_normalized_layer(builder, narrow, f"{name}_3x3", module.wide3, 3, stride))
    narrow = _normalized_layer(builder, source, f"{name}_double_reduce", module.reduce5, 1)
    middle = _normalized_layer(builder, narrow, f"{name}_double_a", module.wide5, 3)
    branches.append(_normalized_layer(builder, middle, f"{name}_double_b", module.wide5, 3, stride))
    if module.direct:
        pooling = op.Pooling(function=module.pooling, window=centred(3))
        pooled = builder.add(pooling, source, name=f"{name}_pool")
        branches.append(_normalized_layer(builder, pooled, f"{name}_projection", module.pooled, 1))
    else:
        branches.append(builder.rounded_up_pooling(source, f"{name}_pool"))
    return builder.add(op.Concatenation(), *branches, name=name)


FIRES = (  # number, squeeze filters, filters of each expand layer
    (2, 16, 64),
    (3, 16, 64),
    (4, 32, 128),
    (5, 32, 128),
    (6, 48, 192),
    (7, 48, 192),
    (8, 64, 256),
    (9, 64, 256),
)


def squeezenet1_0(*, classes: int = 1000, resolution: int = 227) -> Network:
    """Return SqueezeNet 1.0."""
    builder = CatalogueBuilder("squeezenet1_0")
    image = builder.input((3, resolution, resolution))
    features = builder.biased_convolution(image, "conv1", 96, unpadded(7, 2))
    return _finished(builder, features, (1, 4, 8), classes)


def squeezenet1_1(*, classes: int = 1000, resolution: int = 224) -> Network:
    """Return SqueezeNet 1.1."""
    builder = CatalogueBuilder("squeezenet1_1")
    image = builder.input((3, resolution, resolution))
    features = builder.biased_convolution(image, "conv1", 64, unpadded(3, 2))
    return _finished(builder, features, (1, 3, 5), classes)


def _finished(
    builder: CatalogueBuilder, features: str, pooled_after: tuple[int, ...], classes: int
) -> Network:
    features = builder.rounded_up_pooling(features, "pool1")
    for number, squeezed, expanded in FIRES:
        features = _fire(builder, features, f"fire{number}", squeezed, expanded)
        if number in pooled_after:
            features = builder.rounded_up_pooling(features, f"pool{number}")
    scores = builder.biased_convolution(features, "conv10", classes, unpadded(1))
    means = builder.global_average(scores, "pool10")
    builder.output(builder.add(op.Softmax(axis=0), means, name="softmax"))
    return builder.network()


def _fire(builder: CatalogueBuilder, source: str, name: str, squeezed: int, expanded: int) -> str:
    narrow = builder.biased_convolution(source, f"{name}_squeeze", squeezed, unpadded(1))
    expansions = [
        builder.biased_convolution(
            narrow, f"{name}_expand{kernel}x{kernel}", expanded, centred(kernel)
        )
        for kernel in (1, 3)
    ]
    return builder.add(op.Concatenation(), *expansions, name=name)


GROWTH = 32
BLOCK_LAYERS = (6, 12, 24, 16)


def densenet121(*, classes: int = 1000, resolution: int = 224) -> Network:
    """Return DenseNet-121."""
    builder = CatalogueBuilder("densenet121")
    image = builder.input((3, resolution, resolution))
    features = builder.normalized_convolution(image, "conv1", 64, centred(7, 2))
    features = builder.max_pooling(features, "pool1", centred(3, 2))
    for block, layers in enumerate(BLOCK_LAYERS, start=1):
        if block > 1:
            features = _transition(builder, features, f"transition{block - 1}")
        for layer in range(1, layers + 1):
            features = _dense_layer(builder, features, f"dense{block}_{layer}")
    features = _normalized(builder, features, "last")
    return builder.classified(builder.global_average(features), classes)


def _normalized(builder: CatalogueBuilder, source: str, name: str) -> str:
    normalized = builder.add(op.BatchNormalization(), source, name=f"{name}_normalization")
    return builder.activated(normalized, RELU, name)


def _convolved(builder: CatalogueBuilder, source: str, name: str, filters: int, kernel: int) -> str:
    """Add normalisation, activation and convolution, in this order (pre-activation)."""
    convolution = op.Convolution(filters=filters, window=centred(kernel), has_bias=False)
    return builder.add(convolution, _normalized(builder, source, name), name=name)


def _dense_layer(builder: CatalogueBuilder, source: str, prefix: str) -> str:
    narrow = _convolved(builder, source, f"{prefix}_a", 4 * GROWTH, 1)
    new = _convolved(builder, narrow, f"{prefix}_b", GROWTH, 3)
    return builder.add(op.Concatenation(), source, new, name=f"{prefix}_concatenation")


def _transition(builder: CatalogueBuilder, source: str, name: str) -> str:
    narrow = _convolved(builder, source, name, builder.shape(source).channels // 2, 1)
    return builder.average_pooling(narrow, f"{name}_pool", unpadded(2, 2))

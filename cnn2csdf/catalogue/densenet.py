"""DenseNet-121.

Source: Huang et al., Densely Connected Convolutional Networks, CVPR 2017, table 1 (growth rate 32,
bottlenecks of four times the growth rate, compression 1/2).
"""

from __future__ import annotations

from cnn2csdf import operators as op
from cnn2csdf.builder import NetworkBuilder
from cnn2csdf.catalogue import blocks
from cnn2csdf.network import Network

GROWTH = 32
BLOCK_LAYERS = (6, 12, 24, 16)


def densenet121(*, classes: int = 1000, resolution: int = 224) -> Network:
    """Return DenseNet-121."""
    builder = NetworkBuilder("densenet121")
    image = builder.input((3, resolution, resolution))
    features = blocks.normalized_convolution(
        builder, image, "conv1", filters=64, window=blocks.centred(7, 2)
    )
    features = blocks.max_pooling(builder, features, "pool1", blocks.centred(3, 2))
    for block, layers in enumerate(BLOCK_LAYERS, start=1):
        if block > 1:
            features = _transition(builder, features, f"transition{block - 1}")
        for layer in range(1, layers + 1):
            features = _dense_layer(builder, features, f"dense{block}_{layer}")
    features = _normalized(builder, features, "last")
    blocks.classified(builder, blocks.global_average(builder, features), classes)
    return builder.network()


def _normalized(builder: NetworkBuilder, source: str, name: str) -> str:
    normalized = builder.add(op.BatchNormalization(), source, name=f"{name}_normalization")
    return blocks.activated(builder, normalized, blocks.RELU, name)


def _convolved(builder: NetworkBuilder, source: str, name: str, filters: int, kernel: int) -> str:
    """Normalisation and activation stand in front of the convolution (pre-activation)."""
    convolution = op.Convolution(filters=filters, window=blocks.centred(kernel), has_bias=False)
    return builder.add(convolution, _normalized(builder, source, name), name=name)


def _dense_layer(builder: NetworkBuilder, source: str, prefix: str) -> str:
    narrow = _convolved(builder, source, f"{prefix}_a", 4 * GROWTH, 1)
    new = _convolved(builder, narrow, f"{prefix}_b", GROWTH, 3)
    return builder.add(op.Concatenation(), source, new, name=f"{prefix}_concatenation")


def _transition(builder: NetworkBuilder, source: str, name: str) -> str:
    narrow = _convolved(builder, source, name, builder.shape(source).channels // 2, 1)
    return blocks.average_pooling(builder, narrow, f"{name}_pool", blocks.unpadded(2, 2))

"""SqueezeNet 1.0 and 1.1.

Source: Iandola et al., SqueezeNet: AlexNet-Level Accuracy with 50x Fewer Parameters and <0.5 MB
Model Size, arXiv 1602.07360, 2016, table 1; version 1.1 is of the authors' release, which gives its
differences: a smaller first convolution and poolings further in front. Poolings round up, as in
the release; 227 x 227 is the image of which the sizes of the table follow.
"""

from __future__ import annotations

from cnn2csdf import operators as op
from cnn2csdf.builder import NetworkBuilder
from cnn2csdf.catalogue import blocks
from cnn2csdf.network import Network

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
    builder = NetworkBuilder("squeezenet1_0")
    image = builder.input((3, resolution, resolution))
    features = blocks.biased_convolution(
        builder, image, "conv1", filters=96, window=blocks.unpadded(7, 2)
    )
    return _finished(builder, features, (1, 4, 8), classes)


def squeezenet1_1(*, classes: int = 1000, resolution: int = 224) -> Network:
    """Return SqueezeNet 1.1."""
    builder = NetworkBuilder("squeezenet1_1")
    image = builder.input((3, resolution, resolution))
    features = blocks.biased_convolution(
        builder, image, "conv1", filters=64, window=blocks.unpadded(3, 2)
    )
    return _finished(builder, features, (1, 3, 5), classes)


def _finished(
    builder: NetworkBuilder, features: str, pooled_after: tuple[int, ...], classes: int
) -> Network:
    features = _pooled(builder, features, "pool1")
    for number, squeezed, expanded in FIRES:
        features = _fire(builder, features, f"fire{number}", squeezed, expanded)
        if number in pooled_after:
            features = _pooled(builder, features, f"pool{number}")
    scores = blocks.biased_convolution(
        builder, features, "conv10", filters=classes, window=blocks.unpadded(1)
    )
    means = blocks.global_average(builder, scores, "pool10")
    builder.output(builder.add(op.Softmax(axis=0), means, name="softmax"))
    return builder.network()


def _pooled(builder: NetworkBuilder, source: str, name: str) -> str:
    window = blocks.rounded_up(builder.shape(source), 3, 2)
    return blocks.max_pooling(builder, source, name, window)


def _fire(builder: NetworkBuilder, source: str, name: str, squeezed: int, expanded: int) -> str:
    narrow = blocks.biased_convolution(
        builder, source, f"{name}_squeeze", filters=squeezed, window=blocks.unpadded(1)
    )
    expansions = [
        blocks.biased_convolution(
            builder,
            narrow,
            f"{name}_expand{kernel}x{kernel}",
            filters=expanded,
            window=blocks.centred(kernel),
        )
        for kernel in (1, 3)
    ]
    return builder.add(op.Concatenation(), *expansions, name=name)

"""The layers of each kind of section of a Darknet configuration file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from cnn2csdf import operators as op
from cnn2csdf.builder import NetworkBuilder
from cnn2csdf.readers.darknet_sections import Section
from csdf.errors import InvalidNetwork, counted

Addition = Callable[[NetworkBuilder, Section, Sequence[str], str], str]
"""Adds the layers of a section that reads some layers, under a name; returns the last one."""

ACTIVATIONS: dict[str, op.Activation | None] = {
    "linear": None,
    "leaky": op.Activation(function="leaky relu", parameters=(0.1,)),
    "relu": op.Activation(function="relu"),
    "relu6": op.Activation(function="clip", parameters=(0.0, 6.0)),
    "hardtan": op.Activation(function="clip", parameters=(-1.0, 1.0)),
    "logistic": op.Activation(function="sigmoid"),
    "tanh": op.Activation(function="tanh"),
    "elu": op.Activation(function="elu", parameters=(1.0,)),
    "selu": op.Activation(function="selu", parameters=(1.6732, 1.0507)),
    "gelu": op.Activation(function="gelu"),
    "mish": op.Activation(function="mish"),
    "swish": op.Activation(function="silu"),
}
TRAINING_OPTIONS = (
    "learning_rate",
    "momentum",
    "decay",
    "stopbackward",
    "onlyforward",
    "dontload",
    "dontloadscales",
    "numload",
    "burnin_update",
    "train_only_bn",
)


def _convolutional(
    builder: NetworkBuilder, section: Section, sources: Sequence[str], name: str
) -> str:
    window = _square_window(section, dilated=True)
    convolution = op.Convolution(
        filters=section.integer("filters", 1, least=1),
        window=window,
        groups=section.integer("groups", 1, least=1),
        has_bias=not section.integer("batch_normalize", 0),
    )
    for key in ("binary", "xnor", "flipped"):
        section.require_neutral(key, "0")
    return _weighted(builder, section, convolution, sources[0], name)


def _deconvolutional(
    builder: NetworkBuilder, section: Section, sources: Sequence[str], name: str
) -> str:
    convolution = op.TransposedConvolution(
        filters=section.integer("filters", 1, least=1),
        window=_square_window(section, dilated=False),
        has_bias=not section.integer("batch_normalize", 0),
    )
    return _weighted(builder, section, convolution, sources[0], name)


def _square_window(section: Section, *, dilated: bool) -> op.Window:
    """The window of a convolution; `pad` asks for half the kernel, `padding` for a number."""
    size = section.integer("size", 1, least=1)
    stride = section.integer("stride", 1, least=1)
    dilation = section.integer("dilation", 1, least=1) if dilated else 1
    padding = size // 2 if section.integer("pad", 0) else section.integer("padding", 0)
    side = padding * dilation
    return op.Window(
        kernel=(size, size),
        stride=(
            section.integer("stride_y", stride, least=1),
            section.integer("stride_x", stride, least=1),
        ),
        dilation=(dilation, dilation),
        padding=(side, side, side, side),
    )


def _connected(builder: NetworkBuilder, section: Section, sources: Sequence[str], name: str) -> str:
    connected = op.FullyConnected(
        units=section.integer("output", 1, least=1),
        has_bias=not section.integer("batch_normalize", 0),
    )
    return _weighted(builder, section, connected, sources[0], name)


def _weighted(
    builder: NetworkBuilder, section: Section, operator: op.Operator, source: str, name: str
) -> str:
    """The operator, its normalisation if it asks for one, its activation."""
    last = builder.add(operator, source, name=name)
    if section.integer("batch_normalize", 0):
        last = builder.add(op.BatchNormalization(epsilon=1e-6), last, name=f"{name}_normalization")
    return _activated(builder, section, last, name, "logistic")


def _activated(
    builder: NetworkBuilder, section: Section, source: str, name: str, default: str
) -> str:
    word = section.choice("activation", default, ACTIVATIONS)
    activation = ACTIVATIONS[word]
    return builder.add(activation, source, name=f"{name}_{word}") if activation else source


def _maxpool(builder: NetworkBuilder, section: Section, sources: Sequence[str], name: str) -> str:
    """Darknet pads by size - 1 in all, the smaller half in front, and rounds down."""
    stride = section.integer("stride", 1, least=1)
    size = section.integer("size", stride, least=1)
    padding = section.integer("padding", size - 1)
    front, back = padding // 2, padding - padding // 2
    window = op.Window(
        kernel=(size, size), stride=(stride, stride), padding=(front, front, back, back)
    )
    return builder.add(op.Pooling(function="max", window=window), sources[0], name=name)


def _avgpool(builder: NetworkBuilder, _: Section, sources: Sequence[str], name: str) -> str:
    return builder.add(op.GlobalPooling(function="average"), sources[0], name=name)


def _route(builder: NetworkBuilder, section: Section, sources: Sequence[str], name: str) -> str:
    """Return a layer that takes a group of the feature maps of each source, source by source."""
    groups = section.integer("groups", 1, least=1)
    group = section.integer("group_id", 0)
    if groups > 1:
        sources = [
            builder.add(_group(builder, source, groups, group), source, name=f"{name}_group{place}")
            for place, source in enumerate(sources)
        ]
    return sources[0] if len(sources) == 1 else builder.add(op.Concatenation(), *sources, name=name)


def _group(builder: NetworkBuilder, source: str, groups: int, group: int) -> op.Slice:
    channels = builder.shape(source).channels
    if channels % groups or group >= groups:
        raise InvalidNetwork(
            f"group {group} of {groups} of the {counted(channels, 'channel')} of {source!r} "
            "does not exist"
        )
    size = channels // groups
    return op.Slice(axis=0, start=group * size, stop=(group + 1) * size)


def _shortcut(builder: NetworkBuilder, section: Section, sources: Sequence[str], name: str) -> str:
    section.require_neutral("weights_type", "none")
    section.require_neutral("alpha", "1", "1.0")
    section.require_neutral("beta", "1", "1.0")
    shapes = {builder.shape(source) for source in sources}
    if len(shapes) > 1:
        listed = " and ".join(str(builder.shape(source)) for source in sources)
        raise InvalidNetwork(f"layer {name!r} adds shapes {listed}, which differ")
    total = builder.add(op.Elementwise(function="add"), *sources, name=name)
    return _activated(builder, section, total, name, "linear")


def _upsample(builder: NetworkBuilder, section: Section, sources: Sequence[str], name: str) -> str:
    section.require_neutral("scale", "1", "1.0", "1.")
    stride = section.integer("stride", 2, least=1)
    shape = builder.shape(sources[0])
    size = (shape.height * stride, shape.width * stride)
    return builder.add(op.Resize(size=size, function="nearest"), sources[0], name=name)


def _reorg(builder: NetworkBuilder, section: Section, sources: Sequence[str], name: str) -> str:
    """Darknet's order takes the channels as stride * stride groups of finer maps."""
    for key in ("reverse", "flatten", "extra"):
        section.require_neutral(key, "0")
    stride = section.integer("stride", 1, least=1)
    channels = builder.shape(sources[0]).channels
    if channels % (stride * stride):
        raise InvalidNetwork(
            f"{stride} * {stride} does not divide the {counted(channels, 'channel')}"
        )
    return builder.add(op.SpaceToDepth(block=stride, order="darknet"), sources[0], name=name)


def _softmax(builder: NetworkBuilder, section: Section, sources: Sequence[str], name: str) -> str:
    section.require_neutral("groups", "1")
    section.require_neutral("spatial", "0")
    rank = len(builder.shape(sources[0]).dims)
    return builder.add(op.Softmax(axis=0, last=rank - 1), sources[0], name=name)


def _activation(
    builder: NetworkBuilder, section: Section, sources: Sequence[str], name: str
) -> str:
    return _activated(builder, section, sources[0], name, "linear")


def _batchnorm(builder: NetworkBuilder, _: Section, sources: Sequence[str], name: str) -> str:
    return builder.add(op.BatchNormalization(epsilon=1e-6), sources[0], name=name)


def _normalization(
    builder: NetworkBuilder, section: Section, sources: Sequence[str], name: str
) -> str:
    """Darknet multiplies the sum of squares by alpha, the published form by alpha / size."""
    size = section.integer("size", 5, least=1)
    normalization = op.LocalResponseNormalization(
        size=size,
        alpha=section.number("alpha", 1e-4) * size,
        beta=section.number("beta", 0.75),
        bias=section.number("kappa", 1.0),
    )
    return builder.add(normalization, sources[0], name=name)


def _nothing(builder: NetworkBuilder, section: Section, sources: Sequence[str], name: str) -> str:
    return builder.add(op.Identity(kind=section.kind), sources[0], name=name)


def _detection(builder: NetworkBuilder, _: Section, sources: Sequence[str], name: str) -> str:
    """The boxes as they come: what a detection computes from them is left to the application."""
    return builder.output(sources[0], name=name)


class Kind(NamedTuple):
    """How a section becomes layers. options: all that it may have; None if none changes a shape."""

    add: Addition
    word: str  # in the names of its layers
    options: tuple[str, ...] | None = ()


DETECTIONS = ("region", "yolo", "detection")
_WEIGHTED = ("batch_normalize", "activation")
_WINDOW = ("filters", "size", "stride", "pad", "padding")
_CONVOLUTION = ("groups", "dilation", "stride_x", "stride_y", "binary", "xnor", "flipped")
_CONVOLUTIONAL = Kind(_convolutional, "conv", (*_WEIGHTED, *_WINDOW, *_CONVOLUTION))
_DECONVOLUTIONAL = Kind(_deconvolutional, "deconv", (*_WEIGHTED, *_WINDOW))
_CONNECTED = Kind(_connected, "connected", ("output", *_WEIGHTED))
_MAXPOOL = Kind(_maxpool, "pool", ("size", "stride", "padding"))
_SHORTCUT = ("from", "activation", "weights_type", "alpha", "beta")
KINDS = {
    "convolutional": _CONVOLUTIONAL,
    "conv": _CONVOLUTIONAL,
    "deconvolutional": _DECONVOLUTIONAL,
    "deconv": _DECONVOLUTIONAL,
    "connected": _CONNECTED,
    "conn": _CONNECTED,
    "maxpool": _MAXPOOL,
    "max": _MAXPOOL,
    "avgpool": Kind(_avgpool, "pool"),
    "avg": Kind(_avgpool, "pool"),
    "route": Kind(_route, "route", ("layers", "groups", "group_id")),
    "shortcut": Kind(_shortcut, "shortcut", _SHORTCUT),
    "upsample": Kind(_upsample, "upsample", ("stride", "scale")),
    "reorg": Kind(_reorg, "reorg", ("stride", "reverse", "flatten", "extra")),
    "softmax": Kind(_softmax, "softmax", ("groups", "spatial", "temperature")),
    "soft": Kind(_softmax, "softmax", ("groups", "spatial", "temperature")),
    "activation": Kind(_activation, "activation", ("activation",)),
    "batchnorm": Kind(_batchnorm, "normalization"),
    "normalization": Kind(_normalization, "lrn", ("size", "alpha", "beta", "kappa")),
    "lrn": Kind(_normalization, "lrn", ("size", "alpha", "beta", "kappa")),
    "dropout": Kind(_nothing, "dropout", None),
    "cost": Kind(_nothing, "cost", None),
    **dict.fromkeys(DETECTIONS, Kind(_detection, "detection", None)),
}

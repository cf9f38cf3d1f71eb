"""Networks from Darknet configuration files (.cfg).

Sections, options and their defaults are those of Darknet (Redmon, Darknet: Open Source Neural
Networks in C, 2013-2018) with the options of later YOLO files that change no shape. Sections keep
their line numbers for messages.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from math import isfinite
from pathlib import PurePath
from typing import NamedTuple

from cnn2csdf import operators as op
from cnn2csdf.builder import NetworkBuilder
from cnn2csdf.network import Network, Shape
from csdf.errors import InvalidNetwork, UnreadableFile, UnsupportedOperator, counted


def parse_darknet(text: str, name: str) -> Network:
    """Return the network of a configuration file. name: of the file.

    A section becomes unfused layers, numbered as Darknet numbers sections: convolution (without
    bias if it is normalised), batch normalisation, activation. A route from a single section is no
    layer. Detection sections become outputs, and so do tensors without readers. Raises UnreadableFile,
    UnsupportedOperator or InvalidNetwork, naming the line and the section.
    """
    sections = parse_sections(text, name)
    builder = NetworkBuilder(PurePath(name).name.removesuffix(".cfg") or "network")
    if sections[0].kind not in ("net", "network"):
        raise UnreadableFile(f"{sections[0].where}: the first section is not [net]")
    # The dims of the input; other options of [net] are about training.
    image = builder.input(tuple(map(sections[0].size, ("channels", "height", "width"))))
    if len(sections) < 2:
        raise UnreadableFile(f"{sections[0].where}: no layer follows")
    results: list[str | None] = []  # last layer of each section; None for a detection
    for number, section in enumerate(sections[1:]):
        if section.kind not in KINDS:
            kinds_known = ", ".join(KINDS)
            raise UnsupportedOperator(
                f"{section.where}: unsupported section; supported are {kinds_known}"
            )
        kind = KINDS[section.kind]
        sources = _sources(section, results, image)
        try:
            if kind.options is not None:
                section.require_only({*kind.options, *TRAINING_OPTIONS})
            layer_name = f"{kind.word}{number}"
            last = kind.add(
                SectionLayers(builder=builder, section=section, sources=sources, name=layer_name)
            )
        except InvalidNetwork as error:
            raise InvalidNetwork(f"{section.where}: {error}") from None
        results.append(None if section.kind in DETECTIONS else last)
    return _with_outputs(builder)


def _sources(section: DarknetSection, results: Sequence[str | None], image: str) -> tuple[str, ...]:
    """Return the sections that a section reads: the one before, others by name, or the image."""
    if section.kind == "route":
        return tuple(_named(section, "layers", results))
    previous = _result(section, len(results) - 1, results) if results else image
    if section.kind == "shortcut":
        return (previous, *_named(section, "from", results))
    return (previous,)


def _named(section: DarknetSection, key: str, results: Sequence[str | None]) -> list[str]:
    """Return the results of sections by number: from 0 on, or backwards from the section itself."""
    numbers = (number + len(results) * (number < 0) for number in section.integers(key))
    return [_result(section, number, results) for number in numbers]


def _result(section: DarknetSection, number: int, results: Sequence[str | None]) -> str:
    """Return the last layer of a section by its number."""
    if not 0 <= number < len(results):
        raise UnreadableFile(
            f"{section.where}: reads section {number}, but there are {len(results)} before it, "
            "counted from 0"
        )
    result = results[number]
    if result is None:
        raise UnreadableFile(f"{section.where}: reads section {number}, which is a detection")
    return result


def _with_outputs(builder: NetworkBuilder) -> Network:
    """The network, with an output for every layer that nothing reads."""
    network = builder.network()
    for layer in network.layers:
        if not network.consumers[layer.name] and not layer.is_output:
            builder.output(layer.name)
    return builder.network()


DIGITS = 9  # of any number that makes sense in a configuration
_INTEGER = re.compile(rf"[+-]?[0-9]{{1,{DIGITS}}}")


class DarknetOption(NamedTuple):
    """The text behind the `=` of an option, and its line."""

    value: str
    line: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DarknetSection:
    """A heading in brackets with the options below it."""

    kind: str
    file: str
    line: int
    options: dict[str, DarknetOption] = field(default_factory=dict)

    @property
    def where(self) -> str:
        """The file, the line and the heading."""
        return f"{self.file}:{self.line}: [{self.kind}]"

    def integer(self, key: str, default: int, *, least: int = 0) -> int:
        """Return a whole number; refuse one that is smaller than `least`."""
        values = self._integers(key) if key in self.options else (default,)
        if len(values) > 1 or values[0] < least:
            raise self._refusal(key, f"an integer of at least {least}")
        return values[0]

    def size(self, key: str) -> int:
        """Return a positive number that must be there."""
        self.integers(key)
        return self.integer(key, 0, least=1)

    def integers(self, key: str) -> tuple[int, ...]:
        """Return the whole numbers of an option that must be there, separated by commas."""
        if key not in self.options:
            raise UnreadableFile(f"{self.where}: the option {key!r} is missing")
        return self._integers(key)

    def _integers(self, key: str) -> tuple[int, ...]:
        words = self.options[key].value.rstrip(",").split(",")
        if not all(_INTEGER.fullmatch(word) for word in words):
            raise self._refusal(key, f"an integer of at most {DIGITS} digits")
        return tuple(int(word) for word in words)

    def number(self, key: str, default: float) -> float:
        """Return a number, such as 0.75."""
        if key not in self.options:
            return default
        try:
            value = float(self.options[key].value)
        except ValueError:
            raise self._refusal(key, "a number") from None
        if not isfinite(value):
            raise self._refusal(key, "a finite number")
        return value

    def choice(self, key: str, default: str, choices: Collection[str]) -> str:
        """Return one of some words."""
        value = self.options[key].value if key in self.options else default
        if value not in choices:
            raise self._refusal(key, f"one of {', '.join(choices)}")
        return value

    def require_only(self, known: Collection[str]) -> None:
        """Refuse options that the section does not have."""
        for key, option in self.options.items():
            if key not in known:
                raise UnreadableFile(
                    f"{self.file}:{option.line}: [{self.kind}]: the option {key!r} is unknown"
                )

    def require_neutral(self, key: str, *neutral: str) -> None:
        """Refuse an option whose effect is not supported: each value that is not neutral."""
        if key in self.options and self.options[key].value not in neutral:
            option = self.options[key]
            raise UnsupportedOperator(
                f"{self.file}:{option.line}: [{self.kind}]: {key}={option.value} is not supported; "
                f"{key}={neutral[0]} is"
            )

    def _refusal(self, key: str, expectation: str) -> UnreadableFile:
        option = self.options[key]
        return UnreadableFile(
            f"{self.file}:{option.line}: [{self.kind}]: found {key}={option.value[:40]}; "
            f"expected {expectation}"
        )


def parse_sections(text: str, name: str) -> list[DarknetSection]:
    """Return the sections in their order.

    Spaces count nowhere; `#` and `;` begin a comment. Raises UnreadableFile, naming the line.
    """
    sections: list[DarknetSection] = []
    for number, raw in enumerate(text.removeprefix("\ufeff").split("\n"), start=1):
        line = "".join(re.split("[#;]", raw)[0].split())
        if line.startswith("["):
            if not re.fullmatch(r"\[\w+\]", line):
                raise UnreadableFile(f"{name}:{number}: found {line[:40]!r}; expected [section]")
            sections.append(DarknetSection(kind=line[1:-1].lower(), file=name, line=number))
        elif line:
            key, sign, value = line.partition("=")
            if not sections:
                raise UnreadableFile(
                    f"{name}:{number}: {line[:40]!r} stands in front of the first section"
                )
            if not (key and sign and value):
                raise UnreadableFile(f"{name}:{number}: found {line[:40]!r}; expected option=value")
            section = sections[-1]
            if key in section.options:
                first = section.options[key].line
                raise UnreadableFile(
                    f"{name}:{number}: [{section.kind}]: {key!r} is given twice, first in line {first}"
                )
            section.options[key] = DarknetOption(value, number)
    if not sections:
        raise UnreadableFile(f"{name}: no section in the file; expected [net] first")
    return sections


@dataclass(frozen=True, slots=True, kw_only=True)
class SectionLayers:
    """Adds the layers of a section. sources: the layers that it reads. name: of its first layer."""

    builder: NetworkBuilder
    section: DarknetSection
    sources: Sequence[str]
    name: str

    @property
    def shape(self) -> Shape:
        """The shape of the first source."""
        return self.builder.shape(self.sources[0])

    def add(self, operator: op.Operator, *sources: str, suffix: str = "") -> str:
        """Add a layer, by default of the sources of the section, and return its name."""
        return self.builder.add(operator, *(sources or self.sources), name=self.name + suffix)


Addition = Callable[[SectionLayers], str]
"""Adds the layers of a section; returns the name of the last layer."""

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
    *("learning_rate", "momentum", "decay", "stopbackward", "onlyforward", "dontload"),
    *("dontloadscales", "numload", "burnin_update", "train_only_bn"),
)


def _convolutional(layers: SectionLayers) -> str:
    section = layers.section
    window = _square_window(section, dilated=True)
    convolution = op.Convolution(
        filters=section.integer("filters", 1, least=1),
        window=window,
        groups=section.integer("groups", 1, least=1),
        has_bias=not section.integer("batch_normalize", 0),
    )
    for key in ("binary", "xnor", "flipped"):
        section.require_neutral(key, "0")
    return _weighted(layers, convolution)


def _deconvolutional(layers: SectionLayers) -> str:
    section = layers.section
    convolution = op.TransposedConvolution(
        filters=section.integer("filters", 1, least=1),
        window=_square_window(section, dilated=False),
        has_bias=not section.integer("batch_normalize", 0),
    )
    return _weighted(layers, convolution)


def _square_window(section: DarknetSection, *, dilated: bool) -> op.Window:
    """Return the window of a convolution; the flag `pad` replaces `padding` by half the kernel."""
    size = section.integer("size", 1, least=1)
    stride = section.integer("stride", 1, least=1)
    dilation = section.integer("dilation", 1, least=1) if dilated else 1
    padding = size // 2 if section.integer("pad", 0) else section.integer("padding", 0)
    side = padding * dilation  # both options count rows of the kernel before its dilation
    return op.Window(
        kernel=(size, size),
        stride=(
            section.integer("stride_y", stride, least=1),
            section.integer("stride_x", stride, least=1),
        ),
        dilation=(dilation, dilation),
        padding=(side, side, side, side),
    )


def _connected(layers: SectionLayers) -> str:
    units = layers.section.integer("output", 1, least=1)
    has_bias = not layers.section.integer("batch_normalize", 0)
    return _weighted(layers, op.FullyConnected(units=units, has_bias=has_bias))


def _weighted(layers: SectionLayers, operator: op.Operator) -> str:
    """The operator, its normalisation if it asks for one, its activation."""
    last = layers.add(operator)
    if layers.section.integer("batch_normalize", 0):
        last = layers.add(op.BatchNormalization(epsilon=1e-6), last, suffix="_normalization")
    return _activated(layers, last, "logistic")


def _activated(layers: SectionLayers, source: str, default: str) -> str:
    word = layers.section.choice("activation", default, ACTIVATIONS)
    activation = ACTIVATIONS[word]
    return layers.add(activation, source, suffix=f"_{word}") if activation else source


def _maxpool(layers: SectionLayers) -> str:
    """Darknet pads by size - 1 in all, the smaller half in front, and rounds down."""
    stride = layers.section.integer("stride", 1, least=1)
    size = layers.section.integer("size", stride, least=1)
    padding = layers.section.integer("padding", size - 1)
    front, back = padding // 2, padding - padding // 2
    window = op.Window(
        kernel=(size, size), stride=(stride, stride), padding=(front, front, back, back)
    )
    return layers.add(op.Pooling(function="max", window=window))


def _route(layers: SectionLayers) -> str:
    """Return the concatenation of the sources, or of a group of the feature maps of each source."""
    groups = layers.section.integer("groups", 1, least=1)
    group = layers.section.integer("group_id", 0)
    builder, sources = layers.builder, layers.sources
    if groups > 1:
        sources = [
            layers.add(_group(builder, source, groups, group), source, suffix=f"_group{index}")
            for index, source in enumerate(sources)
        ]
    return sources[0] if len(sources) == 1 else layers.add(op.Concatenation(), *sources)


def _group(builder: NetworkBuilder, source: str, groups: int, group: int) -> op.Slice:
    channels = builder.shape(source).channels
    if channels % groups or group >= groups:
        raise InvalidNetwork(
            f"group {group} of {groups} of the {counted(channels, 'channel')} of {source!r} "
            "does not exist"
        )
    size = channels // groups
    return op.Slice(axis=0, start=group * size, stop=(group + 1) * size)


def _shortcut(layers: SectionLayers) -> str:
    layers.section.require_neutral("weights_type", "none")
    layers.section.require_neutral("alpha", "1", "1.0")
    layers.section.require_neutral("beta", "1", "1.0")
    shapes = [layers.builder.shape(source) for source in layers.sources]
    if len(set(shapes)) > 1:
        listed = " and ".join(map(str, shapes))
        raise InvalidNetwork(f"layer {layers.name!r} adds shapes {listed}, which differ")
    return _activated(layers, layers.add(op.Elementwise(function="add")), "linear")


def _upsample(layers: SectionLayers) -> str:
    layers.section.require_neutral("scale", "1", "1.0", "1.")
    stride = layers.section.integer("stride", 2, least=1)
    size = (layers.shape.height * stride, layers.shape.width * stride)
    return layers.add(op.Resize(size=size, function="nearest"))


def _reorg(layers: SectionLayers) -> str:
    """Darknet's order takes the channels as stride * stride groups of finer maps."""
    for key in ("reverse", "flatten", "extra"):
        layers.section.require_neutral(key, "0")
    stride = layers.section.integer("stride", 1, least=1)
    channels = layers.shape.channels
    if channels % (stride * stride):
        raise InvalidNetwork(
            f"{stride} * {stride} does not divide the {counted(channels, 'channel')}"
        )
    return layers.add(op.SpaceToDepth(block=stride, order="darknet"))


def _softmax(layers: SectionLayers) -> str:
    layers.section.require_neutral("groups", "1")
    layers.section.require_neutral("spatial", "0")
    layers.section.require_neutral("temperature", "1", "1.0", "1.")
    last = len(layers.shape.dims) - 1  # one softmax over all axes: all elements
    return layers.add(op.Softmax(axis=0, last=last))


def _normalization(layers: SectionLayers) -> str:
    """Darknet multiplies the sum of squares by alpha, the published form by alpha / size."""
    section = layers.section
    size = section.integer("size", 5, least=1)
    normalization = op.LocalResponseNormalization(
        size=size,
        alpha=section.number("alpha", 1e-4) * size,
        beta=section.number("beta", 0.75),
        bias=section.number("kappa", 1.0),
    )
    return layers.add(normalization)


def _identity(layers: SectionLayers) -> str:
    return layers.add(op.Identity(kind=layers.section.kind))


def _detection(layers: SectionLayers) -> str:
    """Add an output of the raw boxes; the application decodes them."""
    return layers.builder.output(layers.sources[0], name=layers.name)


class LayerKind(NamedTuple):
    """How a section becomes layers. options: all that it may have; None if options are ignored."""

    add: Addition
    word: str  # in the names of its layers
    options: tuple[str, ...] | None = ()


DETECTIONS = ("region", "yolo", "detection")
_WEIGHTED = ("batch_normalize", "activation")
_WINDOW = ("filters", "size", "stride", "pad", "padding")
_CONVOLUTION = ("groups", "dilation", "stride_x", "stride_y", "binary", "xnor", "flipped")
_CONVOLUTIONAL = LayerKind(_convolutional, "conv", (*_WEIGHTED, *_WINDOW, *_CONVOLUTION))
_DECONVOLUTIONAL = LayerKind(_deconvolutional, "deconv", (*_WEIGHTED, *_WINDOW))
_CONNECTED = LayerKind(_connected, "connected", ("output", *_WEIGHTED))
_MAXPOOL = LayerKind(_maxpool, "pool", ("size", "stride", "padding"))
_AVGPOOL = LayerKind(lambda layers: layers.add(op.GlobalPooling(function="average")), "pool")
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
    "avgpool": _AVGPOOL,
    "avg": _AVGPOOL,
    "route": LayerKind(_route, "route", ("layers", "groups", "group_id")),
    "shortcut": LayerKind(_shortcut, "shortcut", _SHORTCUT),
    "upsample": LayerKind(_upsample, "upsample", ("stride", "scale")),
    "reorg": LayerKind(_reorg, "reorg", ("stride", "reverse", "flatten", "extra")),
    "softmax": LayerKind(_softmax, "softmax", ("groups", "spatial", "temperature")),
    "soft": LayerKind(_softmax, "softmax", ("groups", "spatial", "temperature")),
    "activation": LayerKind(
        lambda layers: _activated(layers, layers.sources[0], "linear"),
        "activation",
        ("activation",),
    ),
    "batchnorm": LayerKind(
        lambda layers: layers.add(op.BatchNormalization(epsilon=1e-6)), "normalization"
    ),
    "normalization": LayerKind(_normalization, "lrn", ("size", "alpha", "beta", "kappa")),
    "lrn": LayerKind(_normalization, "lrn", ("size", "alpha", "beta", "kappa")),
    "dropout": LayerKind(_identity, "dropout", None),
    "cost": LayerKind(_identity, "cost", None),
    **dict.fromkeys(DETECTIONS, LayerKind(_detection, "detection", None)),
}

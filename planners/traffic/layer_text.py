"""Layers from a line of text, and single layers of a network, as networks of their own."""

from __future__ import annotations

import re
from dataclasses import replace

from cnn2csdf import operators as op
from cnn2csdf.builder import NetworkBuilder
from cnn2csdf.network import Layer, Network
from csdf.arguments import public
from csdf.errors import InvalidNetwork

FORM = "conv:56x56x64,64,3x3,stride=1,pad=1 (rows x columns x maps, filters, kernel)"
_SIZE = re.compile(r"[0-9]{1,9}(x[0-9]{1,9})*")
_SETTINGS = ("stride", "pad", "dilation", "groups")


def is_layer_text(text: str) -> bool:
    """Whether a text means layers rather than a file or a network of the catalogue."""
    return text.startswith(("conv:", "pool:"))


@public
def layers_from_text(text: str) -> Network:
    """Return a chain of convolutions and poolings.

    "conv:56x56x64,64,3x3,stride=1,pad=1+conv:64,3x3,pad=1+pool:2x2,stride=2": the first layer has the
    input, each further layer reads its predecessor. Settings: stride, pad, dilation, groups; one number
    or rows x columns. Raises InvalidNetwork, showing the part that does not fit.
    """
    builder = NetworkBuilder(text)
    source = ""
    for number, part in enumerate(text.split("+")):
        kind, _, parameters = part.partition(":")
        fields = parameters.split(",")
        if number == 0:
            rows, columns, maps = _numbers(part, fields.pop(0), 3)
            source = builder.input((maps, rows, columns))
        source = builder.add(_operator(part, kind, fields), source, name=f"{kind}{number + 1}")
    builder.output(source)
    return builder.network()


def _operator(part: str, kind: str, fields: list[str]) -> op.Operator:
    plain = [field for field in fields if "=" not in field]
    settings = {}
    for name, equals, value in (field.partition("=") for field in fields):
        if equals and name not in _SETTINGS:
            raise InvalidNetwork(f"layer {part!r}: {name!r} is none of {', '.join(_SETTINGS)}")
        if equals:
            settings[name] = _pair(part, value)
    groups = settings.pop("groups", (1, 1))[0]
    expected = {"conv": 2, "pool": 1}.get(kind)
    if expected != len(plain):
        raise InvalidNetwork(f"layer {part!r} is not such as {FORM} or pool:2x2,stride=2")
    window = _window(part, plain[-1], settings)
    if kind == "pool":
        return op.Pooling(function="max", window=window)
    (filters,) = _numbers(part, plain[0], 1)
    return op.Convolution(filters=filters, window=window, groups=groups, has_bias=False)


def _window(part: str, kernel: str, settings: dict[str, op.Pair]) -> op.Window:
    down, right = settings.get("pad", (0, 0))
    return op.Window(
        kernel=_pair(part, kernel),
        stride=settings.get("stride", (1, 1)),
        dilation=settings.get("dilation", (1, 1)),
        padding=(down, right, down, right),
    )


def _pair(part: str, text: str) -> op.Pair:
    numbers = _numbers(part, text, 2 if "x" in text else 1)
    return numbers[0], numbers[-1]


def _numbers(part: str, text: str, count: int) -> tuple[int, ...]:
    sizes = tuple(map(int, text.split("x"))) if _SIZE.fullmatch(text) else ()
    if len(sizes) != count:
        raise InvalidNetwork(f"layer {part!r}: {text!r} is not {count} numbers; {FORM}")
    return sizes


def single_layer(network: Network, name: str) -> Network:
    """Return one layer with inputs and an output of its own. Raises InvalidNetwork for no layer."""
    layer = network.layer(name)
    if layer.is_end:
        raise InvalidNetwork(f"network {network.name!r}: {name!r} works on nothing")
    frames = tuple(
        replace(
            producer, operator=op.Input(dims=producer.shape.dims), inputs=(), epilogue=(), stored=()
        )
        for producer in map(network.layer, dict.fromkeys(layer.inputs))
    )
    output = Layer(
        name=f"{name} result",
        operator=op.Output(),
        inputs=(name,),
        shape=layer.shape,
        element=layer.element,
        quantization=layer.quantization,
    )
    return Network(name=f"{network.name}, {name}", layers=(*frames, layer, output))

"""The layers and connections that a JSON network states, checked one by one."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass

from cnn2csdf.network import Shape
from cnn2csdf.readers.reading_order import reading_order
from csdf.errors import InvalidNetwork
from csdf.io.json_value import JsonValue

LARGEST = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class StatedLayer:
    """The facts that the file states about a layer."""

    name: str
    kind: tuple[str, str]  # op, subop
    kernel: int  # fs
    stride: int
    reads: Shape  # ifm, ih, iw
    writes: Shape  # ofm, oh, ow
    pads: tuple[float, ...]  # as stated: top, left, bottom, right, often wrong
    fused: tuple[str, ...]  # in their order behind the layer


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """The layers of a file in topological order; sources: names of what each one reads."""

    name: str
    layers: tuple[StatedLayer, ...]
    sources: dict[str, tuple[str, ...]]


def parse_description(text: str, file: str) -> Description:
    """Return what the file states.

    Raises UnreadableFile with the place of what is missing or of another kind, InvalidNetwork where
    the connections form a cycle.
    """
    document = JsonValue.parse_as_python(text, file)
    name = _text(document["name"])
    entries = list(document["_DNN__layers"].items())
    if not entries:
        raise document["_DNN__layers"].refusal("expected at least one layer")
    layers = [_layer(entry) for entry in entries]
    places = _places(entries, layers)
    sources: dict[str, list[str]] = {layer.name: [] for layer in layers}
    for connection in document["_DNN__connections"].items():
        producer, consumer = (_layer_at(connection[key], places) for key in ("src", "dst"))
        sources[layers[consumer].name].append(layers[producer].name)
    inputs = {consumer: tuple(producers) for consumer, producers in sources.items()}
    return Description(name=name, layers=_ordered(layers, inputs, file), sources=inputs)


def _places(entries: list[JsonValue], layers: list[StatedLayer]) -> dict[int, int]:
    """The place in the list of each id; ids and names are those of one layer only."""
    places: dict[int, int] = {}
    names: set[str] = set()
    for place, (entry, layer) in enumerate(zip(entries, layers, strict=True)):
        number = entry["id"].whole(0, LARGEST)
        if number in places:
            raise entry["id"].refusal("another layer has this id")
        if layer.name in names:
            raise entry["name"].refusal("another layer has this name")
        places[number] = place
        names.add(layer.name)
    return places


def _text(value: JsonValue) -> str:
    if not value.text():
        raise value.refusal("expected a text")
    return value.text()


def _layer_at(value: JsonValue, places: dict[int, int]) -> int:
    number = value.whole(0, LARGEST)
    if number not in places:
        raise value.refusal("no layer has this id")
    return places[number]


def _layer(entry: JsonValue) -> StatedLayer:
    return StatedLayer(
        name=_text(entry["name"]),
        kind=(_text(entry["op"]), _text(entry["subop"])),
        kernel=entry["fs"].whole(1, LARGEST),
        stride=entry["stride"].whole(1, LARGEST),
        reads=Shape(dims=tuple(entry[key].whole(1, LARGEST) for key in ("ifm", "ih", "iw"))),
        writes=Shape(dims=tuple(entry[key].whole(1, LARGEST) for key in ("ofm", "oh", "ow"))),
        pads=tuple(pad.number() for pad in entry["pads"].items()),
        fused=tuple(_text(fused) for fused in entry["fused_ops"].items()),
    )


def _ordered(
    layers: list[StatedLayer], sources: dict[str, tuple[str, ...]], file: str
) -> tuple[StatedLayer, ...]:
    """Each layer behind the layers that it reads, otherwise in the order of the file."""
    places = {layer.name: place for place, layer in enumerate(layers)}
    read = {places[name]: [places[one] for one in sources[name]] for name in places}
    ordered = [layers[place] for place in reading_order(read)]
    if len(ordered) < len(layers):
        waiting = places.keys() - {layer.name for layer in ordered}
        raise InvalidNetwork(f"{file}: the layers {_cycle(waiting, sources)} form a cycle")
    return tuple(ordered)


def _cycle(waiting: Set[str], sources: dict[str, tuple[str, ...]]) -> str:
    """A cycle among layers of which each waits for another one."""
    path: list[str] = [min(waiting)]
    while True:
        before = next(source for source in sources[path[-1]] if source in waiting)
        if before in path:
            cycle = path[path.index(before) :]
            return ", ".join(repr(name) for name in reversed(cycle))
        path.append(before)

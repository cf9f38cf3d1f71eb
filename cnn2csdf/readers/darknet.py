"""Networks from Darknet configuration files (.cfg).

Sections, options and their defaults are those of Darknet (Redmon, Darknet: Open Source Neural
Networks in C, 2013-2018) with the options of later YOLO files that change no shape.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath

from cnn2csdf import operators as op
from cnn2csdf.builder import NetworkBuilder
from cnn2csdf.network import Network
from cnn2csdf.readers import darknet_layers
from cnn2csdf.readers.darknet_sections import Section, parse_sections
from csdf.errors import InvalidNetwork, UnreadableFile, UnsupportedOperator


def parse_darknet(text: str, name: str) -> Network:
    """Return the network of a configuration file; `name` is that of the file.

    A section becomes unfused layers, numbered as Darknet numbers sections: convolution (without
    bias where it is normalised), batch normalisation, activation. A route from one section is no
    layer. Detection sections become outputs; so does what nothing reads. Raises UnreadableFile,
    UnsupportedOperator or InvalidNetwork, naming the line and the section.
    """
    sections = parse_sections(text, name)
    builder = NetworkBuilder(PurePath(name).name.removesuffix(".cfg") or "network")
    image = builder.input(_image_dims(sections[0]))
    if len(sections) < 2:
        raise UnreadableFile(f"{sections[0].where}: no layer follows")
    results: list[str | None] = []
    for number, section in enumerate(sections[1:]):
        sources = _sources(section, results, image)
        try:
            last = _layer(builder, section, sources, number)
        except InvalidNetwork as error:
            raise InvalidNetwork(f"{section.where}: {error}") from None
        results.append(None if section.kind in darknet_layers.DETECTIONS else last)
    return _with_outputs(builder)


def _image_dims(section: Section) -> tuple[int, int, int]:
    """The dims of the input; other options of [net] are about training."""
    if section.kind not in ("net", "network"):
        raise UnreadableFile(f"{section.where}: the first section is not [net]")
    return (section.size("channels"), section.size("height"), section.size("width"))


def _layer(builder: NetworkBuilder, section: Section, sources: Sequence[str], number: int) -> str:
    """Add the layers of a section; return the name of the last one."""
    if section.kind not in darknet_layers.KINDS:
        known = ", ".join(darknet_layers.KINDS)
        raise UnsupportedOperator(f"{section.where}: unsupported section; supported are {known}")
    kind = darknet_layers.KINDS[section.kind]
    if kind.options is not None:
        section.require_only({*kind.options, *darknet_layers.TRAINING_OPTIONS})
    return kind.add(builder, section, sources, f"{kind.word}{number}")


def _sources(section: Section, results: Sequence[str | None], image: str) -> tuple[str, ...]:
    """Return the sections that a section reads: the one before, others by name, or the image."""
    if section.kind == "route":
        return tuple(_named(section, "layers", results))
    previous = _result(section, len(results) - 1, results) if results else image
    if section.kind == "shortcut":
        return (previous, *_named(section, "from", results))
    return (previous,)


def _named(section: Section, key: str, results: Sequence[str | None]) -> list[str]:
    """Sections by number: from 0 on, or backwards from the section itself."""
    places = [number if number >= 0 else len(results) + number for number in section.integers(key)]
    return [_result(section, place, results) for place in places]


def _result(section: Section, place: int, results: Sequence[str | None]) -> str:
    if not 0 <= place < len(results):
        raise UnreadableFile(
            f"{section.where}: reads section {place}, but there are {len(results)} before it, "
            "counted from 0"
        )
    found = results[place]
    if found is None:
        raise UnreadableFile(f"{section.where}: reads section {place}, which is a detection")
    return found


def _with_outputs(builder: NetworkBuilder) -> Network:
    """The network, with an output for every layer that nothing reads."""
    network = builder.network()
    consumers = network.consumers
    unread = [
        layer.name
        for layer in network.layers
        if not consumers[layer.name] and not isinstance(layer.operator, op.Output)
    ]
    for name in unread:
        builder.output(name)
    return builder.network() if unread else network

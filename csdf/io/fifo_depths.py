"""FIFO depths of streaming accelerators: the files that their builders read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from csdf.errors import UnreadableFile, counted
from csdf.io.json_value import JsonValue
from csdf.model.graph import Graph


def folding_config(graph: Graph, capacities: Mapping[str, int]) -> str:
    """Return a folding configuration in the style of FINN.

    Every layer lists the depth in front of each of its inputs and behind each of its outputs, in the
    order of the graph's channels; a channel stands in both lists. Self-loops are left out.
    """
    layers: dict[str, Any] = {"Defaults": {}}
    for actor in graph.actors:
        layers[actor.name] = {
            "inFIFODepths": _depths(graph, capacities, consumer=actor.name),
            "outFIFODepths": _depths(graph, capacities, producer=actor.name),
        }
    return json.dumps(layers, indent=2) + "\n"


def depth_table(capacities: Mapping[str, int]) -> str:
    """Return the depth of each FIFO by its name, as hls4ml keeps them."""
    return json.dumps(dict(capacities), indent=2) + "\n"


def parse_depths(text: str, graph: Graph, name: str = "<text>") -> dict[str, int]:
    """Return the capacity of each channel that a file of either style gives.

    Where a folding configuration gives two depths for one channel, the larger one holds, as in the
    builder. Raises UnreadableFile.
    """
    found = JsonValue.parse(text, name)
    if type(found.value) is not dict:
        raise found.refusal("expected an object of depths")
    if any(isinstance(value, dict) for value in found.value.values()):
        return _folding_depths(found, graph)
    known = {channel.name for channel in graph.channels}
    return {_known(key, known, name): found[key].natural() for key in found.value}


def _depths(
    graph: Graph,
    capacities: Mapping[str, int],
    *,
    producer: str | None = None,
    consumer: str | None = None,
) -> list[int]:
    return [
        capacities[channel]
        for channel in _fifos(graph, producer, consumer)
        if channel in capacities
    ]


def _fifos(graph: Graph, producer: str | None, consumer: str | None) -> list[str]:
    return [
        channel.name
        for channel in graph.channels
        if not channel.is_self_loop
        and producer in (None, channel.producer)
        and consumer in (None, channel.consumer)
    ]


def _folding_depths(found: JsonValue, graph: Graph) -> dict[str, int]:
    depths: dict[str, int] = {}
    actors = {actor.name for actor in graph.actors}
    for layer in found.value:
        if layer == "Defaults":
            continue
        for key, channels in (
            ("inFIFODepths", _fifos(graph, None, _known(layer, actors, found.file))),
            ("outFIFODepths", _fifos(graph, layer, None)),
        ):
            for channel, depth in zip(channels, _listed(found[layer], key, channels), strict=False):
                depths[channel] = max(depth, depths.get(channel, 0))
    return depths


def _listed(layer: JsonValue, key: str, channels: list[str]) -> tuple[int, ...]:
    """The depths of that key: one for each channel, or none where the layer does not say."""
    if type(layer.value) is not dict:
        raise layer.refusal("expected an object with the depths of a layer")
    if key not in layer.value:
        return ()
    depths = layer[key].naturals()
    if len(depths) not in (0, len(channels)):
        raise layer[key].refusal(
            f"expected a depth for each of {counted(len(channels), 'channel')}"
        )
    return depths


def _known(key: str, names: set[str], file: str) -> str:
    if key not in names:
        raise UnreadableFile(f"{file}: the graph has no {key!r}")
    return key

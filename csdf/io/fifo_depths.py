"""FIFO depths of streaming accelerators: the files that their builders read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from csdf.errors import UnreadableFile
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
    try:
        found = json.loads(text)
    except (json.JSONDecodeError, RecursionError) as error:
        raise UnreadableFile(f"{name}: not JSON: {error}") from None
    if not isinstance(found, dict):
        raise UnreadableFile(f"{name}: {type(found).__name__}; expected an object of depths")
    if any(isinstance(value, dict) for value in found.values()):
        return _folding_depths(found, graph, name)
    known = {channel.name for channel in graph.channels}
    return {_known(key, known, name): _depth(value, key, name) for key, value in found.items()}


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


def _folding_depths(found: dict[str, Any], graph: Graph, name: str) -> dict[str, int]:
    depths: dict[str, int] = {}
    for layer, entry in found.items():
        if layer == "Defaults":
            continue
        graph_layer = _known(layer, {actor.name for actor in graph.actors}, name)
        for key, channels in (
            ("inFIFODepths", _fifos(graph, None, graph_layer)),
            ("outFIFODepths", _fifos(graph, graph_layer, None)),
        ):
            listed = entry.get(key, []) if isinstance(entry, dict) else []
            if len(listed) not in (0, len(channels)):
                raise UnreadableFile(
                    f"{name}: {layer}.{key} lists {len(listed)} depths for {len(channels)} channels"
                )
            for channel, value in zip(channels, listed, strict=False):
                depth = _depth(value, f"{layer}.{key}", name)
                depths[channel] = max(depth, depths.get(channel, 0))
    return depths


def _known(key: str, names: set[str], file: str) -> str:
    if key not in names:
        raise UnreadableFile(f"{file}: the graph has no {key!r}")
    return key


def _depth(value: Any, key: str, name: str) -> int:
    if type(value) is not int or value < 0:
        raise UnreadableFile(f"{name}: depth {value!r} of {key!r}; expected a whole number")
    return value

"""FIFO depths of streaming accelerators: the files that FINN and hls4ml read."""

from __future__ import annotations

import json
from collections.abc import Mapping

from csdf.errors import InvalidGraph, UnreadableFile, counted
from csdf.io.json_value import JsonValue
from csdf.model.graph import Graph

INPUTS, OUTPUTS = "inFIFODepths", "outFIFODepths"
DEFAULTS = "Defaults"  # the entry of a folding configuration that is no layer


def folding_config(graph: Graph, capacities: Mapping[str, int]) -> str:
    """Return a folding configuration in the style of FINN.

    Every layer lists the depth in front of each of its inputs and behind each of its outputs, in the
    order of the graph's channels; a channel is in both lists. Self-loops are left out. Raises
    InvalidGraph for an actor called Defaults.
    """
    layers = {
        layer: {
            key: [capacities[name] for name in names if name in capacities]
            for key, names in ends.items()
        }
        for layer, ends in _fifos(graph).items()
    }
    return json.dumps({DEFAULTS: {}, **layers}, indent=2) + "\n"


def depth_table(capacities: Mapping[str, int]) -> str:
    """Return the depth of each FIFO by its name, as hls4ml keeps them."""
    return json.dumps(dict(capacities), indent=2) + "\n"


def parse_depths(text: str, graph: Graph, name: str = "<text>") -> dict[str, int]:
    """Return the capacity of each channel that a file of either style gives.

    Where a folding configuration gives two depths for one channel, the larger one holds, as in the
    builder. Raises UnreadableFile; InvalidGraph as `folding_config` does.
    """
    document = JsonValue.parse(text, name)
    if type(document.value) is not dict:
        raise document.refusal("expected an object of depths")
    depths: dict[str, int] = {}
    if not any(isinstance(value, dict) for value in document.value.values()):
        _require_known(document, {channel.name for channel in graph.channels})
        return {key: document[key].natural() for key in document.value}
    fifos = _fifos(graph)
    _require_known(document, {DEFAULTS, *fifos})
    for layer in document.value:
        if layer == DEFAULTS:
            continue
        entry = document[layer]
        if type(entry.value) is not dict:
            raise entry.refusal("expected an object with the depths of a layer")
        for key, names in fifos[layer].items():
            channel_depths = entry[key].naturals() if key in entry.value else ()
            if len(channel_depths) not in (0, len(names)):
                raise entry[key].refusal(
                    f"expected a depth for each of {counted(len(names), 'channel')}"
                )
            for channel, depth in zip(names, channel_depths, strict=False):
                depths[channel] = max(depth, depths.get(channel, 0))
    return depths


def _fifos(graph: Graph) -> dict[str, dict[str, list[str]]]:
    """The channels before and after each layer."""
    if any(actor.name == DEFAULTS for actor in graph.actors):
        raise InvalidGraph(
            f"actor {DEFAULTS!r}: in a folding configuration this name is no layer; rename the actor"
        )
    directions: dict[str, dict[str, list[str]]] = {
        actor.name: {INPUTS: [], OUTPUTS: []} for actor in graph.actors
    }
    for channel in graph.channels:
        if not channel.is_self_loop:
            directions[channel.consumer][INPUTS].append(channel.name)
            directions[channel.producer][OUTPUTS].append(channel.name)
    return directions


def _require_known(document: JsonValue, names: set[str]) -> None:
    unknown = next((key for key in document.value if key not in names), None)
    if unknown is not None:
        raise UnreadableFile(f"{document.file}: the graph has no {unknown!r}")

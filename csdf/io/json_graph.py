"""A graph as JSON, and back.

    {"format": "csdf-graph", "version": 1, "name": "g",
     "time_unit": "1/2", "throughput_constraint": null,
     "actors": [{"name": "a", "durations": [1, 2], "processors": []}],
     "channels": [{"name": "c", "producer": "a", "consumer": "a",
                   "production": [1, 1], "consumption": [1, 1], "initial_tokens": 1,
                   "capacity": null, "release": null, "token_size": null}],
     "origin": null}

All keys are always there, and no others. Numbers are integers; the two fractions are texts. An
entry of `processors` has the keys `name`, `durations` and `is_default`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import fields
from fractions import Fraction
from typing import TypeVar

from csdf.errors import InvalidGraph, UnreadableFile
from csdf.io.json_value import JsonValue
from csdf.model.exact import MalformedText, rational
from csdf.model.graph import FORMAT, VERSION, Actor, Channel, Graph, Processor

GRAPH_KEYS = (
    *("format", "version", "name", "time_unit", "throughput_constraint"),
    *("actors", "channels", "origin"),
)
ACTOR_KEYS = tuple(field.name for field in fields(Actor))
PROCESSOR_KEYS = tuple(field.name for field in fields(Processor))
CHANNEL_KEYS = tuple(field.name for field in fields(Channel))

Part = TypeVar("Part", Graph, Actor, Channel)


def graph_to_json(graph: Graph) -> str:
    """Return the graph as JSON text, with its origin."""
    return f"{json.dumps(graph.to_json())}\n"


def graph_from_json(text: str, name: str = "<text>") -> Graph:
    """Return the graph that graph_to_json wrote.

    Raises UnreadableFile with the place in the document, such as `channels[3].production[1]`.
    """
    return graph_of(JsonValue.parse(text, name))


def graph_of(root: JsonValue) -> Graph:
    """Return the graph that stands at a place of a document. Raises UnreadableFile."""
    if type(root.value) is dict and "format" not in root.value:
        raise UnreadableFile(
            f'{root.where}: the key \'format\' is missing; a graph says "format": "{FORMAT}"'
        )
    root.require_keys(GRAPH_KEYS)
    if root["format"].text() != FORMAT:
        raise root["format"].refusal(f"expected {FORMAT!r}")
    if root["version"].natural() != VERSION:
        raise root["version"].refusal(f"expected {VERSION}")
    return _valid(root, _graph)


def _graph(root: JsonValue) -> Graph:
    constraint = root["throughput_constraint"]
    return Graph(
        name=root["name"].text(),
        actors=tuple(_valid(actor, _actor) for actor in root["actors"].items()),
        channels=tuple(_valid(channel, _channel) for channel in root["channels"].items()),
        time_unit=_fraction(root["time_unit"]),
        throughput_constraint=None if constraint.is_null else _fraction(constraint),
        origin=None if root["origin"].is_null else root["origin"].text(),
    )


def _actor(value: JsonValue) -> Actor:
    value.require_keys(ACTOR_KEYS)
    return Actor(
        name=value["name"].text(),
        durations=value["durations"].naturals(),
        processors=tuple(_processor(each) for each in value["processors"].items()),
    )


def _processor(value: JsonValue) -> Processor:
    value.require_keys(PROCESSOR_KEYS)
    return Processor(
        name=value["name"].text(),
        durations=value["durations"].naturals(),
        is_default=value["is_default"].truth(),
    )


def _channel(value: JsonValue) -> Channel:
    value.require_keys(CHANNEL_KEYS)
    capacity, release, size = value["capacity"], value["release"], value["token_size"]
    return Channel(
        name=value["name"].text(),
        producer=value["producer"].text(),
        consumer=value["consumer"].text(),
        production=value["production"].naturals(),
        consumption=value["consumption"].naturals(),
        initial_tokens=value["initial_tokens"].natural(),
        capacity=None if capacity.is_null else capacity.natural(),
        release=None if release.is_null else release.naturals(),
        token_size=None if size.is_null else size.natural(),
    )


def _valid(value: JsonValue, build: Callable[[JsonValue], Part]) -> Part:
    """Return what is built, or blame the place in the document for it."""
    try:
        return build(value)
    except InvalidGraph as error:
        raise UnreadableFile(f"{value.where}: {error}") from None


def _fraction(value: JsonValue) -> Fraction:
    try:
        return rational(value.text())
    except MalformedText:
        raise value.refusal("expected a fraction as text, such as '1/2'") from None

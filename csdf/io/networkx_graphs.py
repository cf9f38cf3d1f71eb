"""Conversion of graphs to directed multigraphs of NetworkX, and from them or from a DiGraph.

For users who draw graphs with NetworkX or ask it for components, paths and generators. No analysis of
this project uses it, and no other module imports it.

Nodes are actors with the attribute `durations`. Edges are channels under their names as keys, with
`production`, `consumption`, `initial_tokens`, `capacity`, `release`, `token_size` and `position`
(channels have an order that edges have not). The graph has the attributes `name`, `time_unit`,
`throughput_constraint` and `origin`. What is left out has the value that csdf.model.graph gives it;
attributes of other names are not read, but a name that is nearly one of these is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from math import inf
from typing import Any

import networkx as nx

from csdf.arguments import public
from csdf.errors import InvalidGraph
from csdf.model.exact import exact
from csdf.model.graph import Actor, Channel, Graph, Processor
from csdf.names import free_name, meant

ENDS = ("name", "producer", "consumer")  # said by where the edge is
RATES = ("production", "consumption", "release")
CHANNEL = tuple(field.name for field in fields(Channel) if field.name not in ENDS)


@public
def to_networkx(graph: Graph) -> nx.MultiDiGraph[str]:
    """Return the graph with all that it knows as attributes."""
    multigraph: nx.MultiDiGraph[str] = nx.MultiDiGraph(
        name=graph.name,
        time_unit=graph.time_unit,
        throughput_constraint=graph.throughput_constraint,
        origin=graph.origin,
    )
    for actor in graph.actors:
        multigraph.add_node(actor.name, durations=actor.durations, processors=actor.processors)
    for position, channel in enumerate(graph.channels):
        values = {name: getattr(channel, name) for name in CHANNEL} | {"position": position}
        multigraph.add_edge(channel.producer, channel.consumer, key=channel.name, **values)
    return multigraph


@public
def from_networkx(
    found: nx.MultiDiGraph[Any] | nx.DiGraph[Any], *, name: str | None = None
) -> Graph:
    """Return the graph of a DiGraph or MultiDiGraph whose nodes are texts.

    A node needs the attribute `durations`, an edge `production` and `consumption`; `initial_tokens` is
    0 and `capacity` unlimited where they are not given.

    A rate or a duration may be a number for all phases or a sequence, one entry a phase. Edges
    without a text as key are named `producer to consumer`, numbered where there are several.
    name: by default the attribute of the graph. Raises InvalidGraph, naming the node or the edge.
    """
    multi: nx.MultiDiGraph[Any] = nx.MultiDiGraph(found)  # edges of a DiGraph get numbers as keys
    actors = tuple(_actor(node, values) for node, values in multi.nodes(data=True))
    phases = {actor.name: actor.phases for actor in actors}
    channels: list[Channel] = []
    used_names = {str(key) for *_, key in multi.edges(keys=True) if isinstance(key, str)}
    for producer, consumer, key, values in sorted(multi.edges(keys=True, data=True), key=_position):
        channel_name = (
            key if isinstance(key, str) else free_name(f"{producer} to {consumer}", used_names)
        )
        used_names.add(channel_name)
        channels.append(_channel(channel_name, producer, consumer, values, phases))
    about = multi.graph
    constraint = about.get("throughput_constraint")
    if constraint is not None:
        constraint = exact(constraint, "throughput_constraint", InvalidGraph)
    return Graph(
        name=name if name is not None else str(about.get("name") or "graph"),
        actors=actors,
        channels=tuple(channels),
        time_unit=exact(about.get("time_unit", 1), "time_unit", InvalidGraph),
        throughput_constraint=constraint,
        origin=about.get("origin"),
    )


def _position(edge: tuple[Any, Any, Any, Mapping[str, Any]]) -> float:
    """Edges with a place come first, by place; sorting keeps the order of edges without a place."""
    position = edge[3].get("position")
    return position if isinstance(position, int) else inf


def _actor(node: Any, values: Mapping[str, Any]) -> Actor:
    if not isinstance(node, str):
        raise InvalidGraph(f"node {node!r} is not a text; actors have names")
    if "durations" not in values:
        raise InvalidGraph(f"node {node!r} has no attribute 'durations'")
    processors = values.get("processors", ())
    if not all(isinstance(processor, Processor) for processor in processors):
        raise InvalidGraph(f"node {node!r}: 'processors' are not all csdf.model.graph.Processor")
    durations = _sequence(values["durations"], 1, f"node {node!r}: durations")
    return Actor(name=node, durations=durations, processors=tuple(processors))


def _channel(
    name: str, producer: str, consumer: str, values: Mapping[str, Any], phases: Mapping[str, int]
) -> Channel:
    where = f"edge {name!r} from {producer!r} to {consumer!r}"
    for key in values.keys() - {*CHANNEL, "position"}:
        if isinstance(key, str) and (question := meant(key, CHANNEL)):
            raise InvalidGraph(f"{where} has the attribute {key!r}{question}")
    attributes = {key: values[key] for key in CHANNEL if key in values}
    for key in RATES:
        if attributes.get(key) is not None:
            count = phases[producer if key == "production" else consumer]
            attributes[key] = _sequence(attributes[key], count, f"{where}: {key}")
        elif key != "release":
            raise InvalidGraph(f"{where} has no attribute {key!r}")
    return Channel(name=name, producer=producer, consumer=consumer, **attributes)


def _sequence(value: Any, count: int, what: str) -> tuple[int, ...]:
    """A number stands for all phases; the model checks the entries."""
    if isinstance(value, int):
        return (value,) * count
    if not isinstance(value, tuple | list):
        raise InvalidGraph(f"{what} {value!r} is neither an integer nor a sequence of them")
    return tuple(value)

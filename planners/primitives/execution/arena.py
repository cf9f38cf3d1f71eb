"""An arena for the maps of a selected network, in which dead maps make room for later ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from cnn2csdf.network import Connection, Network
from csdf.outcome import because
from csdf.stopping import Stop
from planners.arena.allocation import ArenaWhy, plan_arena
from planners.plan import Buffer, MemoryPlan, Problem
from planners.primitives.library.convolution import ELEMENT_BYTES
from planners.primitives.library.primitives import Way

ALIGNMENT = 64  # bytes: whole cache lines, and what vector instructions like
MOST_STEPS = 20  # of the search for a smaller arena: a plan does not depend on the clock

Selection = Mapping[str, Way]  # layer: primitive, input layout, output layout


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A change of layout on one connection."""

    connection: Connection
    source_layout: str
    target_layout: str


def changes_of(network: Network, selection: Selection) -> tuple[Change, ...]:
    """Return the connections whose ends differ in layout, in the order of the consumers."""
    return tuple(
        Change(
            connection=one,
            source_layout=selection[one.producer][2],
            target_layout=selection[one.consumer][1],
        )
        for one in network.connections
        if selection[one.producer][2] != selection[one.consumer][1]
        and network.layer(one.producer).shape.is_map
    )


def map_name(layer: str) -> str:
    """Return how the arena calls the output of a layer."""
    return f"map of {layer}"


def change_name(connection: Connection) -> str:
    """Return how the arena calls a map in another layout, for one input of its consumer."""
    return f"input {connection.index} of {connection.consumer}"


def map_plan(network: Network, changes: tuple[Change, ...]) -> MemoryPlan:
    """Return offsets in bytes for every map."""
    return plan_arena(
        map_problem(network, changes),
        budget=Stop(steps=MOST_STEPS, reason=because(ArenaWhy.NO_SMALLER, steps=MOST_STEPS)),
    )


def map_problem(network: Network, changes: tuple[Change, ...]) -> Problem:
    """Return a buffer for every map; a time is the place of a layer in its order.

    A map lives until its last reader is done, an output until the end; a changed map for as long as
    its consumer runs.
    """
    place = {layer.name: number for number, layer in enumerate(network.layers)}
    readers = network.consumers
    buffers = [
        Buffer(
            name=map_name(layer.name),
            size=layer.shape.elements * ELEMENT_BYTES,
            start=place[layer.name],
            end=1 + max((place[one] for one in readers[layer.name]), default=len(place)),
            alignment=ALIGNMENT,
        )
        for layer in network.layers
    ]
    for change in changes:
        at = place[change.connection.consumer]
        size = network.layer(change.connection.producer).shape.elements * ELEMENT_BYTES
        buffers.append(
            Buffer(
                name=change_name(change.connection),
                size=size,
                start=at,
                end=at + 1,
                alignment=ALIGNMENT,
            )
        )
    return Problem(name=network.name, buffers=tuple(buffers))

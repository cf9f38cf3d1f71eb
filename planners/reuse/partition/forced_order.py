"""Layers that have begun before another layer ends, in every schedule that the buffers allow.

Two things force a firing to come before another. Data: a phase waits for firings of the layers that it
reads. Room: where a buffer is small, its producer waits for firings of its consumer. So with small
buffers a layer far below begins before a layer above ends, whatever the order of turns.
"""

from __future__ import annotations

from collections.abc import Sequence

from planners.reuse.partition.partition_model import PartitionModel

Rows = int | None
Forces = list[list[tuple[int, tuple[int, ...]]]]
"""For each layer pairs: another layer, and how often it has fired after each phase of the first."""
Ahead = dict[int, int]
"""How often layers have fired by the time a layer ends, but for itself and those it depends on."""


def begun_before_end(
    model: PartitionModel, rows: Sequence[Rows], capacities: Sequence[Rows]
) -> list[int]:
    """Return for each layer, as bits, the layers that have begun before it fires for the last time.

    rows: of the parts of each layer, None where they are not known. capacities: rows that each edge
    holds, None where they are not known. The layer itself counts as begun. What follows from the
    layers and edges that are known holds whatever the others are.
    """
    forces = _forces(model, rows, capacities)
    inputs: list[list[int]] = [[] for _ in rows]
    for edge in model.table.edges:
        inputs[edge.consumer].append(edge.producer)
    ahead: list[Ahead] = []
    for layer, count in enumerate(rows):
        ended = model.above[layer] | 1 << layer
        fired = _merged([ahead[one] for one in inputs[layer]], ended)
        if count is not None:
            phases = len(model.table.written(layer, count))
            _fire(fired, forces, layer, phases, ended)
        ahead.append(fired)
    return [_begun(model, layer, fired) for layer, fired in enumerate(ahead)]


def _merged(several: Sequence[Ahead], ended: int) -> Ahead:
    """The firings that any of them forces, but for those of layers that have ended, as bits."""
    merged: Ahead = {}
    for one in several:
        for layer, count in one.items():
            if not ended >> layer & 1 and count > merged.get(layer, 0):
                merged[layer] = count
    return merged


def _forces(model: PartitionModel, rows: Sequence[Rows], capacities: Sequence[Rows]) -> Forces:
    """The edges between layers that are known, by data and, where the buffer is known, by room."""
    forces: Forces = [[] for _ in rows]
    for number, edge in enumerate(model.table.edges):
        written, read = rows[edge.producer], rows[edge.consumer]
        if written is None or read is None:
            continue
        needed = model.table.needed(number, written, read)
        forces[edge.consumer].append((edge.producer, needed))
        capacity = capacities[number]
        if capacity is not None and capacity < edge.rows:
            room = model.table.room(number, written, read, capacity)
            forces[edge.producer].append((edge.consumer, room))
    return forces


def _fire(fired: Ahead, forces: Forces, layer: int, count: int, ended: int) -> None:
    """Let a layer have fired so often, and all others as often as that forces.

    ended: as bits, layers that have fired as often as they can; what follows from it is in `fired`.
    """
    changed = [(layer, count)]
    while changed:
        now, count = changed.pop()
        for other, firings in forces[now]:
            forced = firings[count - 1]
            if forced > fired.get(other, 0) and not ended >> other & 1:
                fired[other] = forced
                changed.append((other, forced))


def _begun(model: PartitionModel, layer: int, fired: Ahead) -> int:
    """The layers that have fired, and those whose data they and the last layer waited for."""
    bits = model.above[layer] | 1 << layer
    for other in fired:
        bits |= model.begun[other] | 1 << other
    return bits

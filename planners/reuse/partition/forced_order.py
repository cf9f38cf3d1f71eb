"""Layers that have begun before another layer ends, in every schedule that the buffers allow.

Two things force a firing to come before another. Data: a phase waits for firings of the layers that it
reads. Room: where a buffer is small, its producer waits for firings of its consumer. So with small
buffers a layer far below begins before a layer above ends, whatever the order of turns.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from planners.reuse.partition.partition_model import PartitionModel

Rows = int | None
Forces = list[list[tuple[int, tuple[int, ...]]]]
"""For each layer pairs: another layer, and how often it has fired after each phase of the first."""


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
    ended: list[list[int]] = []
    for layer, count in enumerate(rows):
        fired = [max(counts) for counts in zip(*(ended[one] for one in inputs[layer]), strict=True)]
        fired = fired or [0] * len(rows)
        if count is not None:
            _fire(fired, forces, layer, len(model.table.written(layer, count)))
        ended.append(fired)
    return [_begun(model, layer, fired) for layer, fired in enumerate(ended)]


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


def _fire(fired: list[int], forces: Forces, layer: int, count: int) -> None:
    """Let a layer have fired so often, and all others as often as that forces."""
    fired[layer] = count
    changed = [layer]
    while changed:
        now = changed.pop()
        for other, firings in forces[now]:
            if firings[fired[now] - 1] > fired[other]:
                fired[other] = firings[fired[now] - 1]
                changed.append(other)


def _begun(model: PartitionModel, layer: int, fired: Sequence[int]) -> int:
    """The layers that have fired, and those whose data they and the last layer waited for."""
    bits = model.above[layer] | 1 << layer
    for other in _set(fired):
        bits |= model.begun[other] | 1 << other
    return bits


def _set(fired: Sequence[int]) -> Iterator[int]:
    return (layer for layer, count in enumerate(fired) if count)

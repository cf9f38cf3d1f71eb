"""How much smaller buffers could be, by the layers that it depends on: where a climb looks first."""

from __future__ import annotations

from collections.abc import Iterator

from planners.reuse.cost.evaluation import Buffers, Evaluator


def gains(evaluator: Evaluator, buffers: Buffers) -> dict[int, int]:
    """Return for each gene by how many elements a buffer shrinks if all that fill it shrink.

    An edge fills its buffer if it is as large as the buffer; without the edges that fill it, the buffer
    is as large as the next one. A gene counts for the edges that its layer writes and reads. Genes of
    layers that fill no buffer are left out, and so are edges that are cut: these are always whole.
    """
    places = {layer: place for place, layer in enumerate(evaluator.application.layers)}
    found: dict[int, int] = {}
    for gain, edges in _filled(evaluator, buffers):
        for number in edges:
            edge = evaluator.edges[number]
            name = evaluator.application.members[edge.member].name
            for layer in (edge.connection.producer, edge.connection.consumer):
                place = places[name, layer]
                found[place] = max(gain, found.get(place, 0))
    return found


def _filled(evaluator: Evaluator, buffers: Buffers) -> Iterator[tuple[int, list[int]]]:
    """Pairs: how much a buffer could shrink, and the edges that fill it."""
    for buffer in buffers.shared:
        sizes = [buffers.sizes[edge] for edge in buffer.edges]
        next_size = max((size for size in sizes if size < buffer.size), default=0)
        edges = [edge for edge in buffer.edges if buffers.sizes[edge] == buffer.size]
        if buffer.size and all(evaluator.edges[edge].inner is not None for edge in edges):
            yield buffer.size - next_size, edges

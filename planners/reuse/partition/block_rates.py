"""All that the smallest buffers of a block depend on, as one value."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from planners.reuse.partition.partition_rows import PartitionRows, Reading


class Block(NamedTuple):
    """Edges of a partition, any two on a common cycle, and their layers, in order.

    ends: producer and consumer of each edge, as places among the layers of the block.
    """

    edges: tuple[int, ...]
    layers: tuple[int, ...]
    ends: tuple[tuple[int, int], ...]


class BlockShape(NamedTuple):
    """All that the rows of a block's edges depend on, in few numbers: equal for blocks alike.

    written, readings: what layers write and edges are read by, as numbers in the table.
    """

    ends: tuple[tuple[int, int], ...]
    written: tuple[int, ...]
    readings: tuple[int, ...]


class EdgeRates(NamedTuple):
    """An edge of a block.

    producer, consumer: places of its layers among those of the block. needed: the firings of the
    producer that each phase of the consumer waits for.
    """

    producer: int
    consumer: int
    row_elements: int
    needed: tuple[int, ...]
    reading: Reading


class BlockRates(NamedTuple):
    """Rows that each layer has written after each phase, and the edges between the layers."""

    written: tuple[tuple[int, ...], ...]
    edges: tuple[EdgeRates, ...]

    def held_rows(self, edge: EdgeRates, fired: Sequence[int]) -> int:
        """Return the most rows of an edge in use when a phase of its consumer starts.

        fired: firings of the producer before each phase of the consumer.
        """
        written = (0, *self.written[edge.producer])
        released = (0, *edge.reading.released)
        return max(written[count] - gone for count, gone in zip(fired, released, strict=False))


def block_rates(table: PartitionRows, block: Block, rows: Sequence[int]) -> BlockRates:
    """Return the rates of a block; rows: of the parts of each layer of the block."""
    edges = []
    for number, (producer, consumer) in zip(block.edges, block.ends, strict=True):
        edge = table.edges[number]
        edges.append(
            EdgeRates(
                producer=producer,
                consumer=consumer,
                row_elements=edge.row_elements,
                needed=table.needed(number, rows[producer], rows[consumer]),
                reading=table.reading(number, rows[consumer]),
            )
        )
    written = tuple(
        table.written(layer, count) for layer, count in zip(block.layers, rows, strict=True)
    )
    return BlockRates(written=written, edges=tuple(edges))


def block_shape(table: PartitionRows, block: Block, rows: Sequence[int]) -> BlockShape:
    """Return what a block has in common with blocks alike; rows: as for `block_rates`."""
    return BlockShape(
        ends=block.ends,
        written=tuple(map(table.written_number, block.layers, rows)),
        readings=tuple(
            table.reading_number(edge, rows[consumer])
            for edge, (_, consumer) in zip(block.edges, block.ends, strict=True)
        ),
    )

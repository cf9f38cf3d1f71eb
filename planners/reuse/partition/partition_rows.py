"""Rows that the layers of a partition write and read, for any rows of a part; remembered.

Layers and edges of a partition are numbers here, layers in the order of the schedule. The rows of a
part are a number for every layer: the height of its output where it works as a whole.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

from cnn2csdf.granularity import Granularity, parts, reading_rates, require_few_parts, totals
from cnn2csdf.network import Connection, Layer, Network
from planners.reuse.application.application import Partition

Answer = TypeVar("Answer")
Key = TypeVar("Key", bound=tuple[int, ...])


class Edge(NamedTuple):
    """A connection between two layers of a partition."""

    connection: Connection
    producer: int
    consumer: int
    rows: int  # of the whole tensor
    row_elements: int  # in units of the application


class Reading(NamedTuple):
    """Rows that a consumer has taken, and given back, after each of its phases."""

    consumed: tuple[int, ...]
    released: tuple[int, ...]


def inner_edges(network: Network, partition: Partition, unit: int) -> tuple[Edge, ...]:
    """Return the connections within a partition, by producer, then by consumer.

    unit: bytes; an element counts as many units as it has.
    """
    place = {name: number for number, name in enumerate(partition.layers)}
    edges = [
        Edge(
            connection=connection,
            producer=place[connection.producer],
            consumer=place[connection.consumer],
            rows=(source := network.layer(connection.producer)).shape.rows,
            row_elements=source.shape.row_elements * (source.element_bytes // unit),
        )
        for connection in network.connections
        if connection.producer in place and connection.consumer in place
    ]
    return tuple(sorted(edges, key=lambda edge: (edge.producer, edge.consumer)))


class PartitionRows:
    """The rates of a partition, each computed when it is first asked for.

    numbers: firings that phases wait for, as `needed_at` and `room_at` find them.
    """

    def __init__(self, network: Network, partition: Partition, unit: int) -> None:
        """Take a partition. Raises InvalidNetwork where its rows are too many to be listed."""
        require_few_parts(network)
        self.layers: tuple[Layer, ...] = tuple(network.layer(name) for name in partition.layers)
        self.edges = inner_edges(network, partition, unit)
        self._inputs = [network.input_shapes(layer) for layer in self.layers]
        self._written: dict[tuple[int, int], tuple[int, ...]] = {}
        self._reading: dict[tuple[int, int], Reading] = {}
        self._needed: dict[tuple[int, int, int], tuple[int, ...]] = {}
        self._written_numbers: dict[tuple[int, int], int] = {}
        self._reading_numbers: dict[tuple[int, int], int] = {}
        self._different: dict[Reading | tuple[int, ...], int] = {}
        self.numbers: array[int] = array("q")
        self._needed_at: dict[tuple[int, int, int], int] = {}
        self._room_at: dict[tuple[int, int, int, int], int] = {}

    def part_rows(self, layer: int, wanted: int | None) -> int:
        """Return the rows of a part that the layer really has: its height if it works as a whole."""
        height = self.layers[layer].shape.rows
        rows = height if wanted is None else min(wanted, height)
        return height if len(self.written(layer, rows)) == 1 else rows

    def written(self, layer: int, rows: int) -> tuple[int, ...]:
        """Return the rows written after each phase."""
        return _remembered(
            self._written,
            (layer, rows),
            lambda: parts(self.layers[layer], self._inputs[layer], self._granularity(layer, rows)),
        )

    def reading(self, edge: int, rows: int) -> Reading:
        """Return what the consumer has taken and given back; rows: of its parts."""
        return _remembered(self._reading, (edge, rows), lambda: self._new_reading(edge, rows))

    def written_number(self, layer: int, rows: int) -> int:
        """Return a number that only layers have that write the same rows after each phase."""
        key = layer, rows
        return _remembered(self._written_numbers, key, lambda: self._number(self.written(*key)))

    def reading_number(self, edge: int, rows: int) -> int:
        """Return a number that only edges have whose consumers take and give back the same rows."""
        key = edge, rows
        return _remembered(self._reading_numbers, key, lambda: self._number(self.reading(*key)))

    def _number(self, value: Reading | tuple[int, ...]) -> int:
        """The number of this value: how many different ones came before it."""
        return self._different.setdefault(value, len(self._different))

    def needed(self, edge: int, producer_rows: int, consumer_rows: int) -> tuple[int, ...]:
        """Return the firings of the producer that each phase of the consumer waits for."""
        return _remembered(
            self._needed,
            (edge, producer_rows, consumer_rows),
            lambda: _firings_to(
                self.written(self.edges[edge].producer, producer_rows),
                self.reading(edge, consumer_rows).consumed,
            ),
        )

    def needed_at(self, edge: int, producer_rows: int, consumer_rows: int) -> int:
        """Return where in `numbers` begins what `needed` returns."""
        key = edge, producer_rows, consumer_rows
        return _remembered(self._needed_at, key, lambda: self._kept(self.needed(*key)))

    def room_at(self, edge: int, producer_rows: int, consumer_rows: int, capacity: int) -> int:
        """Return where in `numbers` the firings of the consumer are that the producer waits for.

        One number for each phase of the producer. capacity: rows that the buffer holds. Space is
        claimed when a firing starts.
        """
        key = edge, producer_rows, consumer_rows, capacity
        return _remembered(self._room_at, key, lambda: self._kept(self.room(*key)))

    def room(
        self, edge: int, producer_rows: int, consumer_rows: int, capacity: int
    ) -> tuple[int, ...]:
        """Return the firings of the consumer that each phase of the producer waits for."""
        written = self.written(self.edges[edge].producer, producer_rows)
        released = self.reading(edge, consumer_rows).released
        return _firings_to(released, [total - capacity for total in written])

    def _kept(self, firings: Sequence[int]) -> int:
        """Keep firings among the numbers; return where they begin."""
        start = len(self.numbers)
        self.numbers.extend(firings)
        return start

    def _new_reading(self, edge: int, rows: int) -> Reading:
        consumer, index = self.edges[edge].consumer, self.edges[edge].connection.index
        granularity = self._granularity(consumer, rows)
        rates = reading_rates(self.layers[consumer], index, self._inputs[consumer], granularity)
        return Reading(consumed=totals(rates.consumed), released=totals(rates.released))

    def _granularity(self, layer: int, rows: int) -> Granularity:
        return Granularity(rows=None, layers={self.layers[layer].name: rows})


def _firings_to(reached: Sequence[int], amounts: Sequence[int]) -> tuple[int, ...]:
    """The firings after which the running totals first reach each amount."""
    return tuple(bisect_left(reached, amount) + 1 if amount > 0 else 0 for amount in amounts)


def _remembered(known: dict[Key, Answer], key: Key, answer: Callable[[], Answer]) -> Answer:
    found = known.get(key)
    if found is None:
        found = known[key] = answer()
    return found

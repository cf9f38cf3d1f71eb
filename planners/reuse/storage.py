"""Rates of the layers of a partition, and the smallest buffers with which a block of them runs.

Takes a partition and the rows of a part of each layer; gives the rows that each edge of a block stores
(`block_storage`), by a search over storage distributions (csdf.search) where no bound decides.

Layers and edges are indices, layers in the order of the schedule. The rows of a part are a number for
each layer, such as 2: output in parts of 2 rows. They are the height of the output of a whole layer.

A block is a biconnected component of the layers; its liveness does not depend on other blocks. Data
dependences give a lower bound for each edge: before a phase of the consumer starts, the producer has
fired as often as any path between the two requires. If the schedule that always fires the deepest
enabled layer needs no more than these bounds, they are the smallest buffers, without a search. This
always holds for a block of a single edge.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from functools import cache
from operator import mul
from typing import NamedTuple

from cnn2csdf.granularity import Granularity, parts, reading_rates, require_few_parts, totals
from cnn2csdf.network import Connection, Layer, Network
from csdf.model.graph import Actor, Channel, Graph, self_loop
from csdf.search.biconnected import live_blocks
from csdf.search.trade_off import smallest_storage
from csdf.search.variables import SearchSpace
from csdf.status import Ended
from csdf.time_limit import Stop
from planners.reuse.application import Partition

EFFORT = 200  # storage distributions to look at in the search of one block

EdgeRows = tuple[int, ...]  # rows of each edge of a block
RowTotals = tuple[int, ...]  # rows up to the end of each phase of a layer


class PartitionEdge(NamedTuple):
    """A connection between two layers of a partition."""

    connection: Connection
    producer: int
    consumer: int
    rows: int  # of the whole tensor
    row_elements: int  # in units of the application


class PartitionRows:
    """The rates of a partition for any rows of a part, cached.

    part_rows(layer, gene): rows of a part; those of the gene at most, or of the whole tensor.
    written(layer, rows): rows written up to the end of each phase.
    reading(edge, rows): rows consumed, and rows released, each up to the end of each phase of the
    consumer.
    needed(edge, producer_rows, consumer_rows): firings of the producer that each phase of the consumer
    waits for. room(.., capacity): firings of the consumer that each phase of the producer waits for, in
    a buffer of `capacity` rows; a firing claims space at its start.
    needed_at, room_at: index in `numbers` of the first of these firings, for the kernel.
    """

    def __init__(self, network: Network, partition: Partition, unit: int) -> None:
        """Set the partition; unit: bytes in which elements are counted.

        Raises InvalidNetwork if its rows are too many to be listed.
        """
        require_few_parts(network)
        self.layers: tuple[Layer, ...] = tuple(network.layer(name) for name in partition.layers)
        number_of = {name: number for number, name in enumerate(partition.layers)}
        edges = [
            PartitionEdge(
                connection=connection,
                producer=number_of[connection.producer],
                consumer=number_of[connection.consumer],
                rows=(source := network.layer(connection.producer)).shape.rows,
                row_elements=source.shape.row_elements * (source.element_bytes // unit),
            )
            for connection in network.connections
            if connection.producer in number_of and connection.consumer in number_of
        ]
        self.edges = tuple(sorted(edges, key=lambda edge: (edge.producer, edge.consumer)))
        self._inputs = [network.input_shapes(layer) for layer in self.layers]
        self.numbers: array[int] = array("q")
        self.part_rows = cache(self._part_rows)
        self.written = cache(self._written)
        self.reading = cache(self._reading)
        self.needed = cache(self._needed)
        self.needed_at = cache(lambda *firings: self._index(self.needed(*firings)))
        self.room_at = cache(lambda *firings: self._index(self.room(*firings)))

    def _part_rows(self, layer: int, gene: int) -> int:
        # A layer that fires once has the rows of the whole tensor, whatever its gene.
        height = self.layers[layer].shape.rows
        rows = min(gene or height, height)
        return height if len(self.written(layer, rows)) == 1 else rows

    def _written(self, layer: int, rows: int) -> RowTotals:
        return parts(self.layers[layer], self._inputs[layer], self._granularity(layer, rows))

    def _reading(self, edge: int, rows: int) -> tuple[RowTotals, RowTotals]:
        consumer, index = self.edges[edge].consumer, self.edges[edge].connection.index
        granularity = self._granularity(consumer, rows)
        rates = reading_rates(self.layers[consumer], index, self._inputs[consumer], granularity)
        return totals(rates.consumed), totals(rates.released)

    def _granularity(self, layer: int, rows: int) -> Granularity:
        return Granularity(rows=None, layers={self.layers[layer].name: rows})

    def _needed(self, edge: int, producer_rows: int, consumer_rows: int) -> tuple[int, ...]:
        written = self.written(self.edges[edge].producer, producer_rows)
        consumed, _ = self.reading(edge, consumer_rows)
        return _firings_to(written, consumed)

    def room(
        self, edge: int, producer_rows: int, consumer_rows: int, capacity: int
    ) -> tuple[int, ...]:
        """Return the firings of the consumer that each phase of the producer waits for."""
        written = self.written(self.edges[edge].producer, producer_rows)
        _, released = self.reading(edge, consumer_rows)
        return _firings_to(released, [total - capacity for total in written])

    def _index(self, firings: Iterable[int]) -> int:
        start = len(self.numbers)
        self.numbers.extend(firings)
        return start


def _firings_to(reached: Sequence[int], amounts: Iterable[int]) -> tuple[int, ...]:
    """The firings after which the running totals first reach each amount.

    Example: totals (2, 4, 5) reach the amounts 0, 3 and 5 after 0, 2 and 3 firings.
    """
    return tuple(bisect_left(reached, amount) + 1 if amount > 0 else 0 for amount in amounts)


class CyclicBlock(NamedTuple):
    """Edges of a partition, any two on a common undirected cycle, and their layers, in order."""

    edges: tuple[int, ...]
    layers: tuple[int, ...]


def blocks_of(layers: int, edges: Sequence[PartitionEdge]) -> tuple[CyclicBlock, ...]:
    """Return the blocks of a partition with this number of layers."""
    graph = Graph(
        name="layers",
        actors=tuple(Actor(name=str(layer), durations=(1,)) for layer in range(layers)),
        channels=tuple(
            Channel(
                name=str(number), producer=str(edge.producer), consumer=str(edge.consumer),
                production=(1,), consumption=(1,),
            )
            for number, edge in enumerate(edges)
        ),
    )  # fmt: skip
    blocks = [
        CyclicBlock(
            edges=tuple(int(channel.name) for channel in block.channels),
            layers=tuple(sorted(int(actor.name) for actor in block.actors)),
        )
        for block in live_blocks(graph)
        if block.channels
    ]
    return tuple(sorted(blocks))


class EdgeRates(NamedTuple):
    """An edge of a block.

    producer, consumer: positions of its layers among those of the block. needed: the firings of the
    producer that each phase of the consumer waits for. consumed, released: rows after each phase of the
    consumer.
    """

    producer: int
    consumer: int
    needed: tuple[int, ...]
    consumed: RowTotals
    released: RowTotals


class BlockRates(NamedTuple):
    """Rows that each layer has written after each phase, and the edges between the layers.

    Equal for blocks that differ in the elements of a row alone.
    """

    written: tuple[RowTotals, ...]
    edges: tuple[EdgeRates, ...]

    def most_rows(self, edge: EdgeRates, fired: Sequence[int]) -> int:
        """Return the maximum rows of an edge in use when a phase of its consumer starts.

        fired: firings of the producer before each phase of the consumer.
        """
        written = (0, *self.written[edge.producer])
        released = (0, *edge.released)
        return max(written[count] - freed for count, freed in zip(fired, released, strict=False))


def block_rates(table: PartitionRows, block: CyclicBlock, rows: Sequence[int]) -> BlockRates:
    """Return the rates of a block; rows: of the parts of each layer of the block."""
    edges = []
    for number in block.edges:
        edge = table.edges[number]
        producer, consumer = block.layers.index(edge.producer), block.layers.index(edge.consumer)
        needed = table.needed(number, rows[producer], rows[consumer])
        edges.append(EdgeRates(producer, consumer, needed, *table.reading(number, rows[consumer])))
    return BlockRates(written=tuple(map(table.written, block.layers, rows)), edges=tuple(edges))


def held_rows(rates: BlockRates) -> tuple[EdgeRows, EdgeRows]:
    """Return the rows of each edge below which a block deadlocks, and rows that are enough.

    Enough are the rows that the schedule holds which always fires the deepest enabled layer.
    """
    # For each layer, by layer above it: the firings of that layer that each phase waits for.
    waits: list[dict[int, Sequence[int]]] = [{} for _ in rates.written]
    # The waits of a producer are complete before those of its consumers.
    for edge in sorted(rates.edges, key=lambda edge: edge.consumer):
        awaited: dict[int, Sequence[int]] = {edge.producer: edge.needed}
        # Chains of waits: the last of the needed firings waits for the firings of `above`.
        for above, firings in waits[edge.producer].items():
            awaited[above] = [firings[count - 1] if count else 0 for count in edge.needed]
        for above, firings in awaited.items():
            previous = waits[edge.consumer].get(above, firings)
            waits[edge.consumer][above] = list(map(max, previous, firings))
    least = tuple(
        rates.most_rows(edge, waits[edge.consumer][edge.producer]) for edge in rates.edges
    )
    return least, least if len(rates.edges) == 1 else _rows_deepest_first(rates)


def _rows_deepest_first(rates: BlockRates) -> EdgeRows:
    """Rows held by each edge if the enabled layer that is last in the order always fires."""
    phases = [len(written) for written in rates.written]
    inputs = [
        [number for number, edge in enumerate(rates.edges) if edge.consumer == layer]
        for layer in range(len(phases))
    ]
    fired = [0] * len(phases)
    # For each edge: firings of its producer before each phase of its consumer.
    fired_before: list[list[int]] = [[] for _ in rates.edges]

    def can_fire(layer: int) -> bool:
        return fired[layer] < phases[layer] and all(
            fired[edge.producer] >= edge.needed[fired[layer]]
            for edge in map(rates.edges.__getitem__, inputs[layer])
        )

    for _ in range(sum(phases)):
        # Deepest first: consumers fire as soon as they can, which keeps buffers small.
        layer = len(phases) - 1
        while not can_fire(layer):
            layer -= 1
        for number in inputs[layer]:
            fired_before[number].append(fired[rates.edges[number].producer])
        fired[layer] += 1
    return tuple(rates.most_rows(*pair) for pair in zip(rates.edges, fired_before, strict=True))


def block_storage(
    rates: BlockRates, row_elements: Sequence[int], held: tuple[EdgeRows, EdgeRows]
) -> EdgeRows:
    """Return the rows of the smallest buffers of a block.

    row_elements: of each edge. held: `held_rows` of the rates. The search ends after EFFORT
    distributions, with the smallest buffers so far.
    """
    least, enough = held
    if least == enough:
        return enough
    graph = _graph(rates, row_elements)
    storage = smallest_storage(graph, SearchSpace(unit="bytes"), budget=Stop(steps=EFFORT))
    if storage.reason.has(Ended.INTERRUPTED):
        raise KeyboardInterrupt  # ends the calling search, too
    # The search may end early with more than the simple schedule needs.
    if storage.point is None or storage.point.size > sum(map(mul, enough, row_elements)):
        return enough
    return tuple(storage.point.capacities[str(number)] for number in range(len(rates.edges)))


def _graph(rates: BlockRates, row_elements: Sequence[int]) -> Graph:
    """The block as a graph with a row as the token; an element counts as a byte."""

    def steps(running: Sequence[int]) -> tuple[int, ...]:
        return tuple(now - before for before, now in zip((0, *running), running, strict=False))

    actors = tuple(
        Actor(name=str(layer), durations=(1,) * len(written))
        for layer, written in enumerate(rates.written)
    )
    channels = tuple(
        Channel(
            name=str(number),
            producer=str(edge.producer),
            consumer=str(edge.consumer),
            production=steps(rates.written[edge.producer]),
            consumption=steps(edge.consumed),
            release=steps(edge.released),
            token_size=elements,
        )
        for number, (edge, elements) in enumerate(zip(rates.edges, row_elements, strict=True))
    )
    one_at_a_time = tuple(self_loop(actor, 1, f"state {actor.name}") for actor in actors)
    return Graph(name="block", actors=actors, channels=channels + one_at_a_time)

"""The smallest buffers of the layers of one block: a piece that is live, or not, on its own.

A bound for each edge follows from the data alone: before a phase of the consumer starts, the producer
has fired as often as any path between the two asks for. Where an execution that always fires the
deepest layer it can needs no more than these bounds, they are the smallest buffers, and nothing has
to be searched. For a block of one edge this is always so.

All that the smallest buffers of a block depend on, as one value.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import mul
from typing import NamedTuple

from csdf.model.graph import Actor, Channel, Graph
from csdf.outcome import Ended
from csdf.search.trade_off import smallest_storage
from csdf.search.variables import SearchSpace
from csdf.time_limit import Stop
from planners.reuse.partition.partition_rows import PartitionRows, Reading

EFFORT = 200  # storage distributions to look at in the search of one block


class BlockStorage(NamedTuple):
    """Rows that each edge of a block holds. Elements in all, and what cannot be less."""

    capacities: tuple[int, ...]
    size: int
    lower_bound: int


class HeldRows(NamedTuple):
    """Rows that each edge of a block holds, whatever the elements of a row.

    least: below these the block deadlocks. used: enough, as an execution shows.
    """

    least: tuple[int, ...]
    used: tuple[int, ...]

    @property
    def is_exact(self) -> bool:
        """Whether no edge can hold less than is enough."""
        return self.least == self.used


def held_rows(rates: BlockRates) -> HeldRows:
    """Return the rows below which a block deadlocks, and those that it uses deepest first."""
    least = tuple(_least_rows(rates))
    return HeldRows(least, least if len(rates.edges) == 1 else tuple(_rows_deepest_first(rates)))


def exact_storage(held: HeldRows, row_elements: Sequence[int]) -> BlockStorage:
    """Return the smallest buffers of a block whose rows are exact; elements of a row by edge."""
    size = _size(held.used, row_elements)
    return BlockStorage(held.used, size, size)


def block_storage(rates: BlockRates, held: HeldRows | None = None) -> BlockStorage:
    """Return the smallest buffers of a block; held: its rows, where they are known.

    A search that has looked at EFFORT distributions ends with the smallest found, above its lower
    bound.
    """
    held = held or held_rows(rates)
    row_elements = [edge.row_elements for edge in rates.edges]
    if held.is_exact:
        return exact_storage(held, row_elements)
    return _searched(rates, held, row_elements)


def _size(capacities: Sequence[int], row_elements: Sequence[int]) -> int:
    """Elements that so many rows are."""
    return sum(map(mul, capacities, row_elements))


def _least_rows(rates: BlockRates) -> list[int]:
    """Return the storage of each edge below which the block deadlocks."""
    demands: list[dict[int, Sequence[int]]] = [{} for _ in rates.written]
    for layer, demanded in enumerate(demands):
        for edge in rates.edges:
            if edge.consumer == layer:
                _demand(demanded, edge.producer, edge.needed)
                for above, firings in demands[edge.producer].items():
                    _demand(demanded, above, _composed(firings, edge.needed))
    return [rates.held_rows(edge, demands[edge.consumer][edge.producer]) for edge in rates.edges]


def _demand(demands: dict[int, Sequence[int]], layer: int, firings: Sequence[int]) -> None:
    """Note that each phase waits for so many firings of the layer, or more."""
    known = demands.get(layer)
    demands[layer] = (
        firings if known is None else [max(pair) for pair in zip(known, firings, strict=True)]
    )


def _composed(firings: Sequence[int], needed: Sequence[int]) -> list[int]:
    """Return the edge for which the last of so many needed firings waits in its turn."""
    return [firings[count - 1] if count else 0 for count in needed]


def _rows_deepest_first(rates: BlockRates) -> list[int]:
    """Return what the layers use when always the last one fires that has its input."""
    inputs: list[list[int]] = [[] for _ in rates.written]
    for number, edge in enumerate(rates.edges):
        inputs[edge.consumer].append(number)
    fired = [0] * len(inputs)
    before: list[list[int]] = [[] for _ in rates.edges]
    phases = [len(written) for written in rates.written]
    for _ in range(sum(phases)):
        layer = len(phases) - 1
        while fired[layer] == phases[layer] or not _has_input(rates, inputs[layer], fired):
            layer -= 1
        for number in inputs[layer]:
            before[number].append(fired[rates.edges[number].producer])
        fired[layer] += 1
    return [rates.held_rows(*pair) for pair in zip(rates.edges, before, strict=True)]


def _has_input(rates: BlockRates, inputs: Sequence[int], fired: Sequence[int]) -> bool:
    """Whether the layer that reads these edges can fire its next phase."""
    for number in inputs:
        edge = rates.edges[number]
        if fired[edge.producer] < edge.needed[fired[edge.consumer]]:
            return False
    return True


def _searched(rates: BlockRates, held: HeldRows, row_elements: Sequence[int]) -> BlockStorage:
    """The smallest buffers by search, or those used if nothing smaller is found.

    An interrupt, which the search answers with the best by then, is one of all the work around it.
    """
    found = smallest_storage(_graph(rates), SearchSpace(unit="bytes"), budget=Stop(steps=EFFORT))
    if found.reason.has(Ended.INTERRUPTED):
        raise KeyboardInterrupt
    bound = max(_size(held.least, row_elements), found.lower_bound)
    used = _size(held.used, row_elements)
    if found.point is None or found.point.size > used:
        return BlockStorage(held.used, used, bound)
    capacities = tuple(found.point.capacities[str(number)] for number in range(len(rates.edges)))
    return BlockStorage(capacities, _size(capacities, row_elements), bound)


def _graph(rates: BlockRates) -> Graph:
    """The block as a graph with a row as the token; an element counts as a byte."""
    actors = tuple(
        Actor(name=str(layer), durations=(1,) * len(written))
        for layer, written in enumerate(rates.written)
    )
    channels = tuple(
        Channel(
            name=str(number),
            producer=str(edge.producer),
            consumer=str(edge.consumer),
            production=_steps(rates.written[edge.producer]),
            consumption=_steps(edge.reading.consumed),
            release=_steps(edge.reading.released),
            token_size=edge.row_elements,
        )
        for number, edge in enumerate(rates.edges)
    )
    states = tuple(_state(actor) for actor in actors)
    return Graph(name="block", actors=actors, channels=channels + states)


def _state(actor: Actor) -> Channel:
    """The self-loop with which two firings of a layer never overlap."""
    ones = (1,) * actor.phases
    return Channel(
        name=f"state {actor.name}", producer=actor.name, consumer=actor.name,
        production=ones, consumption=ones, initial_tokens=1,
    )  # fmt: skip


def _steps(running: Sequence[int]) -> tuple[int, ...]:
    return tuple(now - before for before, now in zip((0, *running), running, strict=False))


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

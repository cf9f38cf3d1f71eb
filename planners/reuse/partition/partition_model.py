"""A model of a partition: smallest buffers, steps of its schedule, and what is in use together.

Everything is remembered by what it depends on: buffers by the genes of their block, steps by the genes
of their stretch, a piece of the schedule between two layers that work as a whole and that all paths
lead through. So a chromosome that differs in one gene costs the one block and the one stretch.

The schedule of a partition on one processor: the layers take turns.

The processor passes over the layers in their order again and again, and fires each that has its
input and room for its output, once a pass. A layer that works as a whole fires in one of the passes;
layers that work by rows alternate. This is how the published tool executes a CSDF graph; here buffers
are bounded, and a pass that fires nothing would be a deadlock, which capacities without deadlock
exclude: in a graph of this kind the order of firings never decides whether it gets stuck.
Source: Minakova and Stefanov, TODAES 28(1), 2022, section 4, Algorithm 10.

Answers that are kept to be given again, as long as there is room for them.
"""

from __future__ import annotations

from array import array
from collections.abc import Hashable, Iterator, Sequence
from typing import Generic, NamedTuple, TypeVar

from cnn2csdf.network import Network
from csdf.errors import InvalidNetwork
from csdf.kernels import compile as compiler
from csdf.kernels import turns as kernel
from csdf.model.graph import Actor, Channel, Graph
from csdf.search.biconnected import live_blocks
from planners.reuse.application.application import Partition
from planners.reuse.partition.block_storage import (
    Block,
    BlockRates,
    BlockShape,
    BlockStorage,
    HeldRows,
    block_rates,
    block_shape,
    block_storage,
    exact_storage,
    held_rows,
)
from planners.reuse.partition.partition_rows import Edge, PartitionRows

MOST_STRETCHES = 20_000  # to remember, of one partition


class Steps(NamedTuple):
    """When each layer fires for the first and for the last time, and the number of steps."""

    first: list[int]
    last: list[int]
    total: int


class BlockFound(NamedTuple):
    """The rows that a block of a partition holds, for any partition with blocks alike.

    storage: where the rows are not exact, the smallest buffers that a search found.
    """

    block: int
    rows: tuple[int, ...]
    held: HeldRows
    storage: BlockStorage | None


class StretchFound(NamedTuple):
    """The steps of a stretch: of the layers from `begin` on that have these rows."""

    begin: int
    rows: tuple[int, ...]
    steps: Steps


Found = BlockFound | StretchFound


class PartitionModel:
    """The layers of a partition, for any rows of their parts.

    above, below: for each layer, as bits, those it depends on, and those that depend on it. begun,
    waiting: those that its first firing waits for, and those whose first firing waits for it. gates:
    layers that fire after all before them have begun, and before any behind them does.
    """

    def __init__(self, network: Network, partition: Partition, unit: int) -> None:
        """Prepare the partition; unit: bytes in which sizes are counted."""
        self.table = PartitionRows(network, partition, unit)
        self.blocks = _blocks(len(partition.layers), self.table.edges)
        self.above, self.below = _reached(len(partition.layers), self.table.edges)
        self.begun, self.waiting = _reached(len(partition.layers), self._waited_edges())
        self.gates = _gates(self.above, self.waiting)
        self._is_gate = [layer in self.gates for layer in range(len(partition.layers))]
        self._inputs: list[list[tuple[int, int]]] = [[] for _ in partition.layers]
        self._outputs: list[list[tuple[int, int]]] = [[] for _ in partition.layers]
        for number, edge in enumerate(self.table.edges):
            self._inputs[edge.consumer].append((number, edge.producer))
            self._outputs[edge.producer].append((number, edge.consumer))
        self._storages: list[dict[tuple[int, ...], BlockStorage]] = [{} for _ in self.blocks]
        self._held: dict[BlockShape, HeldRows] = {}
        self._by_rates: dict[BlockRates, BlockStorage] = {}
        self._stretches: dict[tuple[int, tuple[int, ...]], Steps] = {}
        self._heights = [layer.shape.rows for layer in self.table.layers]
        self._rows: list[dict[int | None, int]] = [{} for _ in partition.layers]
        self._learnt: Learnt[Found] = Learnt()

    def _waited_edges(self) -> list[Edge]:
        """The edges that the first firing of their consumer waits for, whatever the parts.

        Not all edges: a first row may lie in the padding, or come from another input.
        """
        return [
            edge
            for number, edge in enumerate(self.table.edges)
            if self.table.reading(number, 1).consumed[0]
        ]

    def part_rows(self, genes: Sequence[int | None]) -> tuple[int, ...]:
        """Return the rows of a part that each layer has at these genes."""
        return tuple(
            known[gene] if gene in known else self._new_part_rows(layer, gene)
            for layer, (known, gene) in enumerate(zip(self._rows, genes, strict=True))
        )

    def _new_part_rows(self, layer: int, gene: int | None) -> int:
        rows = self._rows[layer][gene] = self.table.part_rows(layer, gene)
        return rows

    def phases(self, rows: Sequence[int]) -> list[int]:
        """Return the parts that each layer writes."""
        return [-(-height // count) for height, count in zip(self._heights, rows, strict=True)]

    def storages(self, rows: Sequence[int]) -> list[BlockStorage]:
        """Return the smallest buffers of each block."""
        return [
            self.storage(number, tuple([rows[layer] for layer in block.layers]))
            for number, block in enumerate(self.blocks)
        ]

    def storage(self, block: int, rows: tuple[int, ...]) -> BlockStorage:
        """Return the smallest buffers of one block; rows: of the parts of each of its layers."""
        known = self._storages[block]
        storage = known.get(rows)
        if storage is None:
            storage = known[rows] = self._new_storage(block, rows)
        return storage

    def _new_storage(self, number: int, rows: tuple[int, ...]) -> BlockStorage:
        """The smallest buffers of a block; networks repeat their blocks, often in other widths.

        The rows that edges hold are remembered for all blocks that differ in the elements of a row
        alone. Where these rows are not exact, a search weighs the elements as well.
        """
        block = self.blocks[number]
        rates: BlockRates | None = None
        shape = block_shape(self.table, block, rows)
        held = self._held.get(shape)
        is_new = held is None
        if held is None:
            rates = block_rates(self.table, block, rows)
            held = self._held[shape] = held_rows(rates)
        if held.is_exact:
            if is_new:
                self._learnt.note(BlockFound(number, rows, held, None))
            return exact_storage(held, [self.table.edges[one].row_elements for one in block.edges])
        rates = rates or block_rates(self.table, block, rows)
        if rates not in self._by_rates:
            self._by_rates[rates] = block_storage(rates, held)
            self._learnt.note(BlockFound(number, rows, held, self._by_rates[rates]))
        return self._by_rates[rates]

    def learnt(self) -> list[Found]:
        """Return what was worked out since the last call, for `learn`."""
        return self._learnt.taken()

    def learn(self, learnt: Sequence[Found]) -> None:
        """Remember what a model of the same partition has worked out."""
        for found in learnt:
            if isinstance(found, StretchFound):
                key = found.begin, found.rows
                remember(self._stretches, key, found.steps, MOST_STRETCHES)
            else:
                self._learn_block(found)

    def _learn_block(self, found: BlockFound) -> None:
        block = self.blocks[found.block]
        self._held[block_shape(self.table, block, found.rows)] = found.held
        if found.storage is not None:
            self._by_rates[block_rates(self.table, block, found.rows)] = found.storage

    def capacities(self, storages: Sequence[BlockStorage]) -> list[int]:
        """Return the rows that each edge holds."""
        capacities = [0] * len(self.table.edges)
        for block, storage in zip(self.blocks, storages, strict=True):
            for edge, capacity in zip(block.edges, storage.capacities, strict=True):
                capacities[edge] = capacity
        return capacities

    def steps(self, rows: Sequence[int], capacities: Sequence[int]) -> Steps:
        """Return when each layer fires in the schedule of one frame."""
        first: list[int] = []
        last: list[int] = []
        count = 0
        for begin, end in self._cuts(rows):
            key = (begin, tuple(rows[begin:end]))
            stretch = self._stretches.get(key)
            if stretch is None:
                order, first_steps, last_steps = self._turns(begin, end, rows, capacities)
                stretch = Steps(first_steps, last_steps, len(order))
                remember(self._stretches, key, stretch, MOST_STRETCHES)
                self._learnt.note(StretchFound(*key, stretch))
            skipped = 1 if begin else 0
            first += [step + count for step in stretch.first[skipped:]]
            last += [step + count for step in stretch.last[skipped:]]
            count += stretch.total
        return Steps(first, last, count)

    def order(self, rows: Sequence[int], capacities: Sequence[int]) -> list[int]:
        """Return the layer of every step of the schedule of one frame."""
        return [
            begin + layer
            for begin, end in self._cuts(rows)
            for layer in self._turns(begin, end, rows, capacities).order
        ]

    def _cuts(self, rows: Sequence[int]) -> Iterator[tuple[int, int]]:
        """The stretches; one begins with the layer that ends the one before, if there is one."""
        begin = 0
        for gate in self.gates:
            if rows[gate] == self._heights[gate] and gate > begin:
                yield begin, gate + 1
                begin = gate
        if begin + 1 < len(rows) or not begin:
            yield begin, len(rows)

    def _turns(self, begin: int, end: int, rows: Sequence[int], capacities: Sequence[int]) -> Turns:
        """The schedule of the layers of a stretch."""
        waits = Waits(self.table.numbers)
        for layer in range(begin, end):
            self._wait_for_input(waits, layer, begin, rows)
            self._wait_for_room(waits, layer, (begin, end), rows, capacities)
            waits.end_layer()
        phases = [len(self.table.written(layer, rows[layer])) for layer in range(begin, end)]
        return firing_order(phases, waits, gates=self._is_gate[begin:end], is_started=begin > 0)

    def _wait_for_input(self, waits: Waits, layer: int, begin: int, rows: Sequence[int]) -> None:
        for number, producer in self._inputs[layer]:
            if producer >= begin:
                start = self.table.needed_at(number, rows[producer], rows[layer])
                waits.add(producer - begin, start)

    def _wait_for_room(
        self,
        waits: Waits,
        layer: int,
        stretch: tuple[int, int],
        rows: Sequence[int],
        capacities: Sequence[int],
    ) -> None:
        begin, end = stretch
        for number, consumer in self._outputs[layer]:
            capacity = capacities[number]
            if consumer < end and capacity < self.table.edges[number].rows:
                start = self.table.room_at(number, rows[layer], rows[consumer], capacity)
                waits.add(consumer - begin, start)


def _blocks(layers: int, edges: Sequence[Edge]) -> tuple[Block, ...]:
    """The pieces that are live, or not, each on its own, whatever the genes."""
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
    blocks = []
    for piece in live_blocks(graph):
        numbers = tuple(int(channel.name) for channel in piece.channels)
        members = tuple(sorted(int(actor.name) for actor in piece.actors))
        if numbers:
            place = {layer: number for number, layer in enumerate(members)}
            ends = [(place[edges[one].producer], place[edges[one].consumer]) for one in numbers]
            blocks.append(Block(edges=numbers, layers=members, ends=tuple(ends)))
    return tuple(sorted(blocks))


def _gates(above: Sequence[int], waiting: Sequence[int]) -> tuple[int, ...]:
    """Layers that come after all before them, and before all after them, whatever is fired first."""
    everything = (1 << len(above)) - 1
    return tuple(
        layer
        for layer in range(len(above))
        if above[layer] == (1 << layer) - 1
        and waiting[layer] == everything >> layer + 1 << layer + 1
    )


def _reached(layers: int, edges: Sequence[Edge]) -> tuple[list[int], list[int]]:
    """For each layer, as bits, the layers it depends on, and the layers that depend on it."""
    above, below = [0] * layers, [0] * layers
    for edge in sorted(edges, key=lambda one: one.consumer):
        above[edge.consumer] |= above[edge.producer] | 1 << edge.producer
    for edge in sorted(edges, key=lambda one: -one.producer):
        below[edge.producer] |= below[edge.consumer] | 1 << edge.consumer
    return above, below


class Waits:
    """The firings of other layers that each phase of each layer waits for.

    numbers: firings, those of one wait behind one another. Layers are added in their order.
    """

    def __init__(self, numbers: array[int]) -> None:
        self.numbers = numbers
        self.waiting = [0]
        self.source: list[int] = []
        self.start: list[int] = []

    def add(self, layer: int, start: int) -> None:
        """Let the phases of the layer that is next wait for so many firings of this one.

        start: of the firings, among the numbers.
        """
        self.source.append(layer)
        self.start.append(start)

    def end_layer(self) -> None:
        """Go on with the layer behind."""
        self.waiting.append(len(self.source))


class Turns(NamedTuple):
    """The layer of each step of a schedule, and the steps at which each layer fires first and last.

    first, last: -1 for a layer that fired before the schedule.
    """

    order: Sequence[int]
    first: list[int]
    last: list[int]


def firing_order(
    phases: Sequence[int],
    waits: Waits,
    *,
    gates: Sequence[bool],
    is_started: bool = False,
) -> Turns:
    """Return the schedule of one frame.

    phases: of each layer. waits: for input and for room. gates: of each layer, whether all layers
    behind it depend on it. is_started: the first layer has fired already, and is left out. Raises
    InvalidNetwork if the layers are stuck. O(passes * layers).
    """
    backend = compiler.backend(fits=True)
    order = backend.blank(sum(phases))
    first, last = (backend.array([-1] * len(phases)) for _ in range(2))
    fired = backend.blank(len(phases))
    fired[0] = phases[0] if is_started else 0
    layers = backend.kernel(kernel.Layers)(
        *map(backend.array, (phases, gates, waits.waiting, waits.source, waits.start)),
        waits.numbers,
        fired,
    )
    steps = backend.kernel(kernel.take_turns)(layers, order, first, last)
    del layers  # which keeps the numbers from growing
    if steps == kernel.STUCK:
        raise InvalidNetwork("the buffers are too small: every layer waits for another one")
    return Turns(order[:steps], list(first), list(last))


Key = TypeVar("Key", bound=Hashable)
Answer = TypeVar("Answer")


def remember(known: dict[Key, Answer], key: Key, answer: Answer, most: int) -> Answer:
    """Keep the answer and return it; forget the oldest one where there would be more than `most`."""
    if len(known) >= most:
        del known[next(iter(known))]
    known[key] = answer
    return answer


class Learnt(Generic[Answer]):
    """Answers that were worked out since somebody asked for them; none are noted before."""

    def __init__(self) -> None:
        self._answers: list[Answer] | None = None

    def note(self, answer: Answer) -> None:
        """Note what was worked out, if somebody asks for it."""
        if self._answers is not None:
            self._answers.append(answer)

    def taken(self) -> list[Answer]:
        """Return what was noted since the last call; from now on all is noted."""
        found, self._answers = self._answers or [], []
        return found

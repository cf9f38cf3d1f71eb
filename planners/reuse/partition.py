"""A partition at the rows of its layers: smallest buffers, schedule, lifetimes and time.

Takes the genes of a partition; gives its `PartitionState`, by round-robin firing of the layers with the
smallest buffers of each block. A segment is the piece of a schedule between two separators that are
executed whole. Results are cached by what they depend on: buffers by the rows of their block, steps by
the rows of their segment. So a changed gene costs one block and one segment.

The schedule on one processor passes over the layers in their order again and again. In a pass, each
layer fires once that has its input and room for its output. A layer that is executed whole fires in one
of the passes; layers that are executed row by row alternate. This is how the published tool executes a
CSDF graph. Example: layers a and b of 3 rows, where b needs a row above and below: the passes are a;
a b; a b; b, so the steps are a a b a b b.

Here buffers are bounded, and a pass without a firing would be a deadlock. Deadlock-free capacities
exclude it: in a graph of this kind the order of firings never decides whether it deadlocks.
Source: Minakova and Stefanov, TODAES 28(1), 2022, section 4, Algorithm 10.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from itertools import accumulate
from typing import NamedTuple

from cnn2csdf.durations import platform_durations
from cnn2csdf.granularity import Granularity
from cnn2csdf.network import Network
from cnn2csdf.platforms import Platform
from csdf.errors import InvalidNetwork
from csdf.kernels import compile as compiler
from csdf.kernels import round_robin as kernel
from planners.reuse.application import Chromosome, Partition
from planners.reuse.edge_buffers import Residents, Stay, largest_load, overlaps
from planners.reuse.storage import (
    EdgeRows,
    PartitionEdge,
    PartitionRows,
    block_rates,
    block_storage,
    blocks_of,
    held_rows,
)

# Entries of the caches of each partition. A cached state has a span for each buffer in use, and at most
# MOST_SPANS are cached: states beyond the cache of the processor are slower than none.
MOST_SEGMENTS = 20_000
MOST_STATES = 1_000
MOST_SPANS = 100_000

PhaseTimes = Mapping[str, Mapping[int, int]]
"""For each layer, by the number of its phases, the nanoseconds of all phases together."""

LayerTimes = Callable[[str, int | None], int]
"""Nanoseconds of a frame in a layer, from its name and the rows of a part; None: executed whole."""


def layer_times(
    network: Network,
    platform: Platform,
    element_bytes: int | None,
    measured: PhaseTimes | None = None,
) -> LayerTimes:
    """Return the times of the layers of a network.

    element_bytes: of every element; None where each tensor has its own. measured: instead of the
    platform's times; raises InvalidNetwork for phases not measured.
    """

    @cache
    def of_all(rows: int | None) -> Mapping[str, int]:
        predicted = platform_durations(
            network, Granularity(rows=rows), platform, element_bytes=element_bytes
        )
        time_of = {name: sum(times) for name, times in predicted.items()}
        if measured is None:
            return time_of
        for name, times in predicted.items():
            times_of_phases = measured.get(name, {})
            if len(times) not in times_of_phases:
                raise InvalidNetwork(
                    f"network {network.name!r}, layer {name!r}: no measured times of "
                    f"{len(times)} phases, only of "
                    f"{', '.join(map(str, sorted(times_of_phases))) or 'none'}; "
                    "give a table for each number of rows, as csdf cnn measure writes them"
                )
            time_of[name] = times_of_phases[len(times)]
        return time_of

    return lambda layer, rows: of_all(rows)[layer]


class FiringSteps(NamedTuple):
    """The steps at which each layer fires first and last, and the number of steps.

    first, last: -1 for a layer that fired before.
    """

    first: list[int]
    last: list[int]
    total: int

    def span(self, stay: Stay) -> tuple[int, int]:
        """Return the first and the last step of a stay; a partition starts at step 0."""
        return (
            0 if stay.first is None else self.first[stay.first],
            self.total - 1 if stay.last is None else self.last[stay.last],
        )


class PartitionState(NamedTuple):
    """A partition at its genes.

    rows: of a part, for each layer. capacities: rows of each edge. By number of the edge buffer:
    sizes: elements of the buffers within the partition. spans: first and last step of all buffers in
    use in it. conflicts: as bits, the buffers that share a step with the buffer.
    nanoseconds: of a frame.
    """

    rows: tuple[int, ...]
    capacities: list[int]
    sizes: dict[int, int]
    spans: dict[int, tuple[int, int]]
    conflicts: dict[int, int]
    nanoseconds: int

    def load(self, sizes: Sequence[int]) -> int:
        """Return the live elements of the worst step; sizes: of all edge buffers."""
        return largest_load(
            (first, last, sizes[edge]) for edge, (first, last) in self.spans.items()
        )


class PartitionModel:
    """The layers of a partition, for any number of rows of their parts.

    `rows` of a layer is everywhere the number of rows of one part: a layer of 24 rows in parts of 8 has
    three phases, and a layer that is executed whole has all its rows in one part.

    storage(block, rows): rows of each edge of a block in its smallest buffers.
    nanoseconds(layer, rows): the time of a frame in a layer.
    heights: rows of the whole tensor of each layer.
    above, below: for each layer, as bits, its ancestors, and its descendants.
    awaited: for each layer, as bits, the layers that its first firing waits for.
    awaiting: for each layer, as bits, the layers whose first firing waits for it.
    separators: layers that fire after all before them have begun, and before any after them does.
    """

    def __init__(
        self,
        network: Network,
        partition: Partition,
        unit: int,
        times: LayerTimes,
        residents: Residents,
    ) -> None:
        """Prepare the partition; unit: bytes in which sizes are counted."""
        layers = len(partition.layers)
        self.table = PartitionRows(network, partition, unit)
        self.heights = [layer.shape.rows for layer in self.table.layers]
        self.residents = residents
        self.blocks = blocks_of(layers, self.table.edges)
        self.above, self.below = _reached(layers, self.table.edges)
        # Not all edges: a first row may be padding, or come from another input.
        self.awaited, self.awaiting = _reached(
            layers,
            [
                edge
                for number, edge in enumerate(self.table.edges)
                if self.table.needed(number, 1, 1)[0]  # by the first phase of the consumer
            ],
        )
        # In bits: all layers before a separator are above it, and all layers after it await it.
        self.separators = tuple(
            layer
            for layer, (above, awaiting) in enumerate(zip(self.above, self.awaiting, strict=True))
            if above == (1 << layer) - 1 and awaiting == (1 << layers) - (2 << layer)
        )
        self._is_separator = [layer in self.separators for layer in range(layers)]
        # For each layer, pairs: edge, and layer at its other end.
        self._inputs: list[list[tuple[int, int]]] = [[] for _ in partition.layers]
        self._outputs: list[list[tuple[int, int]]] = [[] for _ in partition.layers]
        for number, edge in enumerate(self.table.edges):
            self._inputs[edge.consumer].append((number, edge.producer))
            self._outputs[edge.producer].append((number, edge.consumer))
        self._names = partition.layers
        self._times = times
        self._bits = [1 << number for number in residents]
        self._steps_of_segments: dict[tuple[int, tuple[int, ...]], FiringSteps] = {}
        self._held = cache(held_rows)
        self.storage = cache(self._storage)
        self.nanoseconds = cache(self._nanoseconds)
        most = max(1, min(MOST_STATES, MOST_SPANS // max(1, len(residents))))
        self._state = lru_cache(most)(self._new_state)

    def state(self, genes: Chromosome) -> PartitionState:
        """Return the partition at these genes, one for each of its layers."""
        return self._state(self.part_rows(genes))

    def part_rows(self, genes: Sequence[int]) -> tuple[int, ...]:
        """Return the rows of a part of each layer at these genes."""
        return tuple(map(self.table.part_rows, range(len(genes)), genes))

    def _storage(self, number: int, rows: tuple[int, ...]) -> EdgeRows:
        """The smallest buffers of one block; rows: of the parts of each of its layers.

        Networks repeat their blocks, often in other widths: the rows held are cached for all of these.
        """
        block = self.blocks[number]
        rates = block_rates(self.table, block, rows)
        elements = tuple(self.table.edges[edge].row_elements for edge in block.edges)
        return block_storage(rates, elements, self._held(rates))

    def capacities(self, rows: Sequence[int]) -> list[int]:
        """Return the rows that the smallest buffer of each edge holds; rows: of the parts."""
        capacities = [0] * len(self.table.edges)
        for number, block in enumerate(self.blocks):
            held = self.storage(number, tuple([rows[layer] for layer in block.layers]))
            for edge, capacity in zip(block.edges, held, strict=True):
                capacities[edge] = capacity
        return capacities

    def _nanoseconds(self, layer: int, rows: int) -> int:
        """The time of a frame in a layer; rows: of its parts."""
        return self._times(self._names[layer], None if rows == self.heights[layer] else rows)

    def _new_state(self, rows: tuple[int, ...]) -> PartitionState:
        capacities = self.capacities(rows)
        steps = self.steps(rows, capacities)
        spans = {number: steps.span(stay) for number, (_, stay) in self.residents.items()}
        starts, ends = [start for start, _ in spans.values()], [end for _, end in spans.values()]
        return PartitionState(
            rows=rows,
            capacities=capacities,
            sizes={
                number: capacities[edge.inner] * self.table.edges[edge.inner].row_elements
                for number, (edge, _) in self.residents.items()
                if edge.inner is not None
            },
            spans=spans,
            conflicts=dict(zip(spans, overlaps(starts, ends, self._bits), strict=True)),
            nanoseconds=sum(map(self.nanoseconds, range(len(rows)), rows)),
        )

    def steps(self, rows: Sequence[int], capacities: Sequence[int]) -> FiringSteps:
        """Return when each layer fires in the schedule of one frame."""
        first: list[int] = []
        last: list[int] = []
        count = 0
        for begin, end in self._segments(rows):
            # Steps of a segment depend only on its own rows: a mutation of one gene misses the
            # cache once.
            key = (begin, tuple(rows[begin:end]))
            segment = self._steps_of_segments.get(key)
            if segment is None:
                # Clearing all is simpler than a least-recently-used order, and rare.
                if len(self._steps_of_segments) >= MOST_SEGMENTS:
                    self._steps_of_segments.clear()
                _, segment = self._segment_schedule(begin, end, rows, capacities)
                self._steps_of_segments[key] = segment
            skipped = 1 if begin else 0
            first += [step + count for step in segment.first[skipped:]]
            last += [step + count for step in segment.last[skipped:]]
            count += segment.total
        return FiringSteps(first, last, count)

    def order(self, state: PartitionState) -> tuple[int, ...]:
        """Return the layer of every step of the schedule of one frame."""
        return tuple(
            begin + layer
            for begin, end in self._segments(state.rows)
            for layer in self._segment_schedule(begin, end, state.rows, state.capacities)[0]
        )

    def _segments(self, rows: Sequence[int]) -> Iterator[tuple[int, int]]:
        """From separator to separator, as first layer and one past the last; a separator is in two."""
        begin = 0
        for layer in self.separators:
            if rows[layer] == self.heights[layer] and layer > begin:
                yield begin, layer + 1
                begin = layer
        if begin + 1 < len(rows) or not begin:
            yield begin, len(rows)

    def _segment_schedule(
        self, begin: int, end: int, rows: Sequence[int], capacities: Sequence[int]
    ) -> tuple[Sequence[int], FiringSteps]:
        """The schedule of the layers of a segment: the layer of each step, from 0, and the steps."""
        waits: list[list[tuple[int, int]]] = []
        for layer in range(begin, end):
            waits.append(
                [
                    (producer - begin, self.table.needed_at(number, rows[producer], rows[layer]))
                    for number, producer in self._inputs[layer]
                    if producer >= begin
                ]
            )
            for number, consumer in self._outputs[layer]:
                capacity = capacities[number]
                # Waits for room only where the buffer is smaller than the tensor.
                if consumer < end and capacity < self.table.edges[number].rows:
                    start = self.table.room_at(number, rows[layer], rows[consumer], capacity)
                    waits[-1].append((consumer - begin, start))
        phases = [len(self.table.written(layer, rows[layer])) for layer in range(begin, end)]
        separators = self._is_separator[begin:end]
        numbers = self.table.numbers
        return firing_order(phases, waits, numbers, separators=separators, is_started=begin > 0)


def _reached(layers: int, edges: Sequence[PartitionEdge]) -> tuple[list[int], list[int]]:
    """For each layer, as bits, the layers it depends on, and the layers that depend on it."""
    above, below = [0] * layers, [0] * layers
    # Transitive closure in one pass, since layers are numbered in topological order.
    for edge in sorted(edges, key=lambda edge: edge.consumer):
        above[edge.consumer] |= above[edge.producer] | 1 << edge.producer
    for edge in sorted(edges, key=lambda edge: -edge.producer):
        below[edge.producer] |= below[edge.consumer] | 1 << edge.consumer
    return above, below


def firing_order(
    phases: Sequence[int],
    waits: Sequence[Sequence[tuple[int, int]]],
    numbers: array[int],
    *,
    separators: Sequence[bool],
    is_started: bool = False,
) -> tuple[Sequence[int], FiringSteps]:
    """Return the schedule of one frame: the layer of each step, and the steps of each layer.

    phases: of each layer. waits: for input and for room; of each layer pairs (source, start): its phase
    p waits for numbers[start + p] firings of the layer `source`. separators: for each layer, whether
    all layers after it depend on it. is_started: whether the first layer has fired all its phases
    before, and is left out. Raises InvalidNetwork if every layer waits for another. O(passes * layers).
    """
    backend = compiler.backend(fits=True)
    order = backend.blank(sum(phases))
    first, last = (backend.array([-1] * len(phases)) for _ in range(2))
    fired = backend.blank(len(phases))
    fired[0] = phases[0] if is_started else 0
    begins = list(accumulate(map(len, waits), initial=0))  # of the waits of each layer
    sources = [source for waits_of_layer in waits for source, _ in waits_of_layer]
    starts = [start for waits_of_layer in waits for _, start in waits_of_layer]
    layers = backend.kernel(kernel.Layers)(
        *map(backend.array, (phases, separators, begins, sources, starts)), numbers, fired
    )
    steps = backend.kernel(kernel.round_robin_order)(layers, order, first, last)
    del layers  # it holds a view of the numbers, which cannot grow meanwhile
    if steps == kernel.STUCK:
        raise InvalidNetwork("the buffers are too small: every layer waits for another one")
    return order[:steps], FiringSteps(list(first), list(last), steps)

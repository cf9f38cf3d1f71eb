"""Plan of a chain of groups in several memories: offsets, weights, traffic and cost.

The search distinguishes only fast and slow memory. Afterwards each buffer is assigned greedily to
the nearest memory of its kind with enough free bytes; buffers with the most accesses per byte are
assigned first. Fast memory that is free in all groups holds resident weights. If a DMA controller
copies data, weights are prefetched during the preceding group, if both fit. The home of weights is the
memory that holds them before a frame: flash or a slow memory.

Example of a prefetch: a group computes for 5 ms, and its successor needs weights with a copy time
of 3 ms. Sequentially the copy adds 3 ms to the frame; as a prefetch it adds max(5, 3) - 5 = 0 ms.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import NamedTuple

from cnn2csdf.network import Network
from cnn2csdf.platforms import SCRATCH, TENSORS, WEIGHTS, BoardMemory
from planners.arena.problem import loads
from planners.memory.build import external_buffers, rings_of
from planners.memory.line_buffers import Keeping, kept_rows
from planners.memory.moved_weights import (
    BoardMemories,
    Copies,
    FastWeights,
    MoveCosts,
    can_be_copied,
    movable_weights,
)
from planners.memory.order import TopologicalOrder, topological_order
from planners.memory.placement import stream_offsets
from planners.memory.stages import GroupGeometry, StageTable
from planners.plan.firing import NOTHING, in_step
from planners.plan.plan import (
    ACCUMULATOR_BYTES,
    Alias,
    Kind,
    Memory,
    MemoryTraffic,
    Span,
    Stage,
    StreamBuffer,
    StreamingPlan,
)
from planners.plan.running_stage import block_bytes, smallest_block
from planners.plan.state import state_moves
from planners.plan.weights import bytes_of_each_weight
from planners.rewrites.rematerialisation import executed_layers, executed_network

Names = frozenset[str]


class MemoryGroup(NamedTuple):
    """A group of a plan in fast and slow memory: what it needs, and what a search has chosen for it.

    geometry: the stages, and the tensor whose rows are copied into a ring buffer; for a group in column
        tiles, the stages of the layers untiled.
    end: one past the last layer, as an index in the layer order.

    Memory and cost:

    fast: bytes of ring buffers, accumulators and staging buffer.
    work: MACs of a frame.
    extra_blocks: channel blocks of the stages beyond one of each.
    busy: cost of the stages alone, with weights in their home memory.
    copies: sets of weights that may be copied into fast memory, by increasing bytes; the first set is
        empty.

    Tensors from outside the group, and results, which are tensors that later groups need:

    read: bytes that a frame reads of each tensor from outside.
    in_place: tensors of `read` that stages may read in place.
    blocks: minimum bytes of a write buffer for each result, if the result is in slow memory. A group
        that joins the results of tiles in place has no result.
    fixed: results that the group reads itself, which have to be in fast memory.

    tiles: groups of the column tiles, executed sequentially; their stages consist of copies of the
        layers, which have weights of their own at home in flash.

    Chosen by the search; empty for a candidate:

    in_fast: whole tensors in fast memory while the group executes.
    copied: layers whose weights the group copies into fast memory, those of a set of `copies`.
    """

    geometry: GroupGeometry
    end: int
    fast: int
    work: int
    busy: int
    copies: tuple[Copies, ...]
    read: dict[str, int]
    in_place: Names
    blocks: dict[str, int]
    fixed: Names
    tiles: tuple[MemoryGroup, ...] = ()
    in_fast: Names = frozenset()
    copied: tuple[str, ...] = ()
    extra_blocks: int = 0

    @property
    def effort(self) -> int:
        """Return MACs and channel blocks: plans of equal cost and MACs have the fewest blocks."""
        return self.work + self.extra_blocks

    @property
    def costs(self) -> tuple[int, int, int]:
        """Return costs with weights in their home memory, and with all useful copies; then effort."""
        return self.busy, self.busy - self.copies[-1].saved, self.effort

    @property
    def layers(self) -> tuple[str, ...]:
        """The layers of the stages."""
        return tuple(name for stage in self.geometry.stages for name in stage.stage.layers)

    @property
    def span(self) -> Span:
        """The layers that are computed in tiles, by the tensors before and after them."""
        layers = self.layers
        return Span(next(iter(self.read)), layers[-1], layers=layers, tiles=len(self.tiles))

    @property
    def slow_reads(self) -> dict[str, int]:
        """Bytes that a frame reads of each tensor in slow memory."""
        return {name: size for name, size in self.read.items() if name not in self.in_fast}

    @property
    def slow_results(self) -> list[str]:
        """Results in slow memory."""
        return [name for name in self.blocks if name not in self.in_fast]


class PlacedPlan(NamedTuple):
    """Plan in several memories, with its cost and the bytes by which it exceeds its memories.

    plan: schedule and buffer offsets.
    cost: slow-memory bytes, or time, of a frame.
    fast_excess, slow_excess: bytes beyond the size of fast and of slow memory; 0 if the plan fits.
    fast_weights: layers that read their weights in fast memory.
    chain: the groups of the plan; None for a plan of one arena, whose weights stay in place.
    """

    plan: StreamingPlan
    cost: int
    fast_excess: int = 0
    slow_excess: int = 0
    fast_weights: FastWeights = FastWeights()
    chain: Chain | None = None

    @property
    def fits(self) -> bool:
        """Whether the plan fits into its memories."""
        return not (self.fast_excess or self.slow_excess)

    @property
    def rank(self) -> tuple[int, int]:
        """Cost, then MACs."""
        return self.cost, self.plan.multiply_accumulates

    def improved(self) -> PlacedPlan:
        """Return the plan with weights resident in free fast memory, or prefetched by DMA."""
        return self if self.chain is None else self.chain.improved(self)

    def with_wide_blocks(self) -> PlacedPlan:
        """Return the plan with more pixels in each write buffer, if the buffers fit."""
        return self if self.chain is None else self.chain.with_wide_blocks(self)

    def costliest_weights(self, room: int) -> list[str]:
        """Return the layers whose weights have the highest cost per byte, within `room` bytes."""
        return [] if self.chain is None else self.chain.costliest_weights(self, room)


# Bytes of a write buffer, where there is room: two cache lines of PSRAM, of 32 bytes each.
WRITE_BYTES = 64


class Chain:
    """Plan builder for a chain of groups in the memories of a board."""

    def __init__(
        self,
        order: TopologicalOrder,
        table: StageTable,
        layout: BoardMemories,
        costs: MoveCosts,
        groups: Sequence[MemoryGroup],
        arriving: str | None,
    ) -> None:
        """Set the chosen groups of a network, in execution order.

        Each column tile becomes a group of its own. Its layers are copies, in a network rewritten for
        the tiles; its results are stored inside the tensor that joins them.

        arriving: input that arrives row by row; None if no input does.
        """
        self._arriving = arriving
        self._spans = tuple(group.span for group in groups if group.tiles)
        if self._spans:
            network, copies = executed_layers(order.network, self._spans)
            table = table.of(network)
            order, costs = topological_order(network), costs.of_copies(table, copies)
        self._order, self._table, self._layout, self._costs = order, table, layout, costs
        self._aliases = {
            name: Alias(name, joined, column=column)
            for group in groups
            for joined in (group.blocks if group.tiles else ())
            for name, column in _columns(table.network, joined)
        }
        self._groups = [tile for group in groups for tile in _tile_by_tile(table, group)]
        self._rings = [
            ring_buffers(group.geometry, group.blocks) if group.blocks else ({}, 0, ())
            for group in self._groups
        ]
        # Of each layer with movable weights: the bytes that a frame reads of them, and its group.
        self._weight_reads: dict[str, int] = {}
        self._group_of: dict[str, int] = {}
        for number, group in enumerate(self._groups):
            reads = movable_weights(group.geometry.stages, costs, table)
            self._weight_reads |= reads
            self._group_of |= dict.fromkeys(reads, number)
        self._lives = self._lives_of_tensors()
        self._write_bytes = 0

    def _host(self, name: str) -> str:
        """The tensor that has the buffer of a whole tensor: the join of its tiles, or itself."""
        return self._aliases[name].host if name in self._aliases else name

    def _lives_of_tensors(self) -> dict[str, tuple[int, int]]:
        """The first group, and one past the last, of all whole tensors with a buffer."""
        order, last_end = self._order, len(self._groups)
        inputs = (order.at(0), *order.others)
        begins = {name: 0 for name in inputs if name != self._arriving}
        ends: dict[str, int] = {}
        for number, group in enumerate(self._groups):
            for name in group.blocks:
                begins.setdefault(self._host(name), number)
            for name in group.read:
                ends[self._host(name)] = number + 1
        ends |= dict.fromkeys(order.results, last_end)
        return {name: (begin, ends.get(name, begin + 1)) for name, begin in begins.items()}

    def plan(self) -> PlacedPlan:
        """Return the plan with the copies of weights that the groups name."""
        begins = {
            name: number for number, group in enumerate(self._groups) for name in group.copied
        }
        return self._placed(FastWeights(self._costs.pinned.difference(begins), begins))

    def improved(self, placed: PlacedPlan) -> PlacedPlan:
        """Return the best of a plan with weights resident in free fast memory, or prefetched."""
        candidates = [self._copied_ahead(plan) for plan in (self._resident(placed), placed)]
        return min(candidates, key=lambda plan: plan.rank)

    def costliest_weights(self, placed: PlacedPlan, room: int) -> list[str]:
        """Return the layers whose weights have the highest cost per byte, within `room` bytes."""
        costs, allowed = self._costs, self._allowed()
        sizes, chosen = costs.sizes, []
        weight_costs = {
            name: costs.of_copy(name)
            if placed.fast_weights.has(name)
            else costs.in_place(name, read)
            for name, read in self._weight_reads.items()
            if name in allowed
        }
        for name in sorted(
            weight_costs, key=lambda name: (-Fraction(weight_costs[name], sizes[name]), name)
        ):
            if weight_costs[name] and sizes[name] <= room:
                chosen.append(name)
                room -= sizes[name]
        return chosen

    def with_wide_blocks(self, placed: PlacedPlan) -> PlacedPlan:
        """Return the plan with more pixels in each write buffer, if the buffers fit.

        A kernel is called for each block of pixels: the call for a block of a single pixel of 8
        bytes costs about as much as the computation of its result.
        """
        self._write_bytes = WRITE_BYTES
        candidate = self._placed(placed.fast_weights)
        self._write_bytes = 0
        return candidate if candidate.fits and candidate.cost <= placed.cost else placed

    def _resident(self, placed: PlacedPlan) -> PlacedPlan:
        """The plan with weights resident in fast memory, if all groups have room for them."""
        live, capacity, weights = self._live(placed), self._layout.capacity, placed.fast_weights
        chosen = []
        for name in self.costliest_weights(placed, capacity):
            if name in weights.resident:
                continue
            size, last = self._costs.sizes[name], self._group_of[name]
            # Groups `begin` to `last` have the bytes of a copy already; weights at home have no copy.
            begin = weights.begins.get(name, last + 1)
            more = [number for number in range(len(live)) if not begin <= number <= last]
            if all(live[number] + size <= capacity for number in more):
                chosen.append(name)
                for number in more:
                    live[number] += size
        return self._cheaper(placed, chosen, weights.with_resident)

    def _cheaper(
        self,
        placed: PlacedPlan,
        layers: Sequence[str],
        weights_with: Callable[[Sequence[str]], FastWeights],
    ) -> PlacedPlan:
        """The plan with weights of all these layers moved, or of half as many and so on, if cheaper."""
        while layers:
            candidate = self._placed(weights_with(layers))
            if candidate.fits and candidate.cost < placed.cost:
                return candidate
            layers = layers[: len(layers) // 2]
        return placed

    def _live(self, placed: PlacedPlan) -> list[int]:
        """The bytes of the buffers that each group has in fast memory."""
        plan = placed.plan
        inside = (buffer for buffer in plan.buffers if buffer.kind is not Kind.EXTERNAL)
        fast = [buffer for buffer in inside if not plan.is_in_slow_memory(buffer)]
        return [
            sum(buffer.size for buffer in fast if buffer.begin <= number < buffer.end)
            for number in range(len(self._groups))
        ]

    def _copied_ahead(self, placed: PlacedPlan) -> PlacedPlan:
        """The plan with weights prefetched while the preceding group computes."""
        live, allowed, sizes = self._live(placed), self._allowed(), self._costs.sizes
        weights, prefetched = placed.fast_weights, []

        def ahead(layers: Collection[str]) -> dict[str, int]:
            return {name: self._group_of[name] - 1 for name in layers}

        for name in sorted(self._group_of, key=lambda name: -sizes[name]):
            number = self._group_of[name]
            is_there = name in weights.resident or weights.begins.get(name) == number - 1
            _, has_dma = self._costs.homes[name]
            if not number or is_there or not has_dma or name not in allowed:
                continue
            more = (number - 1,) if weights.has(name) else (number - 1, number)
            trial = weights.with_copies(ahead([name]))
            has_room = all(live[group] + sizes[name] <= self._layout.capacity for group in more)
            if has_room and self.cost(trial) < self.cost(weights):
                weights = trial
                prefetched.append(name)
                for group in more:
                    live[group] += sizes[name]
        return self._cheaper(
            placed, prefetched, lambda layers: placed.fast_weights.with_copies(ahead(layers))
        )

    def _allowed(self) -> Names:
        """Layers whose weights may be in fast memory."""
        return can_be_copied([stage for group in self._groups for stage in group.geometry.stages])

    def cost(self, weights: FastWeights) -> int:
        """Return the cost of a frame: sum over groups of max(group cost, concurrent copies)."""
        costs = self._costs
        works = [group.busy + cost_of_tensors(group, self._table, costs) for group in self._groups]
        concurrent_copies = [0] * len(works)
        for name, number in self._group_of.items():
            if not weights.has(name):
                continue
            works[number] -= costs.in_place(name, self._weight_reads[name])
            if name in weights.begins:
                begin = weights.begins[name]
                is_concurrent = begin < number
                (concurrent_copies if is_concurrent else works)[begin] += costs.of_copy(name)
        return sum(map(max, works, concurrent_copies))

    def _placed(self, weights: FastWeights) -> PlacedPlan:
        """The plan with these weights in fast memory."""
        table, layout = self._table, self._layout
        fast, slow = self._buffers(weights)
        offset_of, memories, excess = _placement(table, layout, fast, slow, self._touches)
        arena_bytes = sum(memory.size for memory in memories)
        external = self._lives.keys() & table.outside
        plan = StreamingPlan(
            network=self._order.network.name,
            element_bytes=table.element_bytes,
            groups=tuple(group.geometry.planned(in_step=True) for group in self._groups),
            buffers=(
                *(replace(buffer, offset=offset_of[buffer.name]) for buffer in (*fast, *slow)),
                *external_buffers(table, external, len(self._groups), arena_bytes),
            ),
            arena_bytes=arena_bytes,
            multiply_accumulates=sum(group.work for group in self._groups),
            rematerialised=self._spans,
            aliases=(
                *self._aliases.values(),
                *(alias for _, _, aliases in self._rings for alias in aliases),
            ),
            memories=memories,
            flash=None if layout.flash is None else layout.flash.name,
        )
        plan = replace(plan, traffic=self._traffic(plan, weights))
        return PlacedPlan(plan, self.cost(weights), *excess, weights, self)

    def _buffers(self, weights: FastWeights) -> tuple[list[StreamBuffer], list[StreamBuffer]]:
        """All buffers in fast and in slow memory."""
        table, groups = self._table, self._groups
        fast: list[StreamBuffer] = []
        slow: list[StreamBuffer] = []
        for name, (begin, end) in self._lives.items():
            if name in table.outside:
                continue
            whole = StreamBuffer.of_group(
                Kind.WHOLE, name, begin, end, size=table.tensor_bytes(name), rows=table.height(name)
            )
            (fast if name in groups[begin].in_fast else slow).append(replace(whole, name=name))
        for number, group in enumerate(groups):
            fast += self._inside(number)
            fast += self._write_buffers(group, number)
        for name, number in self._group_of.items():
            size = self._costs.sizes[name]
            resident = StreamBuffer.of_group(Kind.RESIDENT, name, 0, len(groups), size=size)
            if name in weights.resident:
                fast.append(replace(resident, name=f"{name} {Kind.WEIGHTS.value}"))
                continue
            if name in weights.begins:
                begin = weights.begins[name]
                fast.append(StreamBuffer.of_group(Kind.WEIGHTS, name, begin, number + 1, size=size))
            if name in self._costs.in_slow:
                slow.append(resident)
        return fast, slow

    def _write_buffers(self, group: MemoryGroup, number: int) -> Iterator[StreamBuffer]:
        """The write buffers of results that a group stores in slow memory."""
        table = self._table
        stages = {geometry.stage.result: geometry.stage for geometry in group.geometry.stages}
        for name in group.slow_results:
            network, stage = table.network, stages[name]
            rows, columns = smallest_block(network, stage)
            column_bytes = block_bytes(network, stage, rows, table.bytes_of(name))
            affordable = min(self._write_bytes // column_bytes, network.layer(name).shape.width)
            size = column_bytes * max(columns, affordable)
            yield StreamBuffer.of_group(Kind.WRITE_BUFFER, name, number, size=size)

    def _inside(self, number: int) -> Iterator[StreamBuffer]:
        """Ring buffers, accumulators and staging buffer of a group."""
        table, group = self._table, self._groups[number].geometry
        rings, staging, _ = self._rings[number]
        layers = [table.network.layer(name) for name in self._groups[number].layers]
        for tensor, rows in rings.items():
            size = rows * table.row_bytes(tensor)
            ring = StreamBuffer.of_group(Kind.RING, tensor, number, rows=rows, size=size)
            readers = tuple(layer.name for layer in layers if tensor in layer.inputs)
            readers = readers if tensor == group.streamed_input else ()
            yield replace(ring, name=f"{tensor} ring {number + 1}", readers=readers)
        yield from group.accumulators(number)
        yield StreamBuffer.of_group(Kind.STAGING, group.result, number, size=staging)

    def _touches(self, buffer: StreamBuffer) -> Fraction:
        """Estimate of the accesses per byte of a buffer in a frame, to rank buffers by."""
        if buffer.kind in (Kind.WEIGHTS, Kind.RESIDENT):
            return Fraction(self._weight_reads[buffer.tensor], self._costs.sizes[buffer.tensor])
        if buffer.has_rows:
            readers = len(self._order.network.consumers[buffer.tensor])
            return Fraction((1 + readers) * self._table.height(buffer.tensor), max(buffer.rows, 1))
        return Fraction(self._table.height(buffer.tensor) + 1)

    def _traffic(self, plan: StreamingPlan, weights: FastWeights) -> tuple[MemoryTraffic, ...]:
        """Bytes that a frame reads from each slow memory and the flash, and writes to it."""
        reads, writes = Counter[str](), Counter[str]()
        slow_memory_of = {
            (buffer.tensor, buffer.kind): memory.name
            for buffer in plan.buffers
            if (memory := plan.memory_of(buffer)) is not None and memory.is_slow
        }
        for group in self._groups:
            for name, size in group.slow_reads.items():
                reads[slow_memory_of.get((name, Kind.WHOLE), "")] += size
            for name in group.slow_results:
                memory_name = slow_memory_of.get((self._host(name), Kind.WHOLE), "")
                writes[memory_name] += self._table.tensor_bytes(name)
        for name, read in self._weight_reads.items():
            if name not in weights.resident:
                home = slow_memory_of.get((name, Kind.RESIDENT), plan.flash or "")
                reads[home] += self._costs.sizes[name] if name in weights.begins else read
        return _traffic_of(plan, reads, writes)


def _traffic_of(
    plan: StreamingPlan, reads: Mapping[str, int], writes: Mapping[str, int]
) -> tuple[MemoryTraffic, ...]:
    """The traffic of each slow memory of a plan, and of its flash; reads, writes: bytes by memory."""
    names = [memory.name for memory in plan.memories if memory.is_slow]
    names += [] if plan.flash is None else [plan.flash]
    return tuple(
        MemoryTraffic(memory=name, read=reads.get(name, 0), written=writes.get(name, 0))
        for name in names
    )


def _placement(
    table: StageTable,
    layout: BoardMemories,
    fast: Sequence[StreamBuffer],
    slow: Sequence[StreamBuffer],
    rank: Callable[[StreamBuffer], Fraction],
) -> tuple[dict[str, int], tuple[Memory, ...], tuple[int, int]]:
    """Place each buffer in the nearest memory of its kind with free bytes; highest ranks first.

    Returns offsets by buffer, from the begin of the first memory; the memories of the plan; and the
    bytes beyond fast and slow memory.
    """
    element = max(table.bytes_of(layer.name) for layer in table.network.layers)
    offset_of: dict[str, int] = {}
    used_memories: list[Memory] = []
    excess = []
    begin = 0  # of a memory
    for memories, buffers in ((layout.fast, fast), (layout.slow, slow)):
        rest = sorted(buffers, key=lambda buffer: -rank(buffer))
        over = 0
        for number, memory in enumerate(memories):
            is_last = number + 1 == len(memories)
            # Accumulators in the next memory begin at a multiple of their bytes.
            reserved = 0 if is_last else (begin + memory.size) % ACCUMULATOR_BYTES
            room = max(0, memory.size - reserved)
            inside, offsets = _in_memory(table, memory, rest, buffers, room, is_last=is_last)
            padding = -begin % ACCUMULATOR_BYTES
            if padding and any(buffer.kind is Kind.ACCUMULATORS for buffer in inside):
                preceding = used_memories[-1]
                used_memories[-1] = replace(preceding, size=preceding.size + padding)
                over += max(0, used_memories[-1].size - memories[number - 1].size)
                begin += padding
            offset_of |= {buffer.name: begin + offsets[buffer.name] for buffer in inside}
            end = max((offsets[buffer.name] + buffer.size for buffer in inside), default=0)
            is_exact = memories is layout.slow and is_last and layout.flash is None
            size = end if is_exact else -(-end // element) * element
            used_memories.append(Memory(name=memory.name, size=size, is_slow=memory.is_slow))
            begin += size
            over += max(0, size - memory.size)
            rest = [buffer for buffer in rest if buffer.name not in offsets]
        excess.append(over + sum(buffer.size for buffer in rest))
        offset_of |= {buffer.name: begin for buffer in rest}  # which no memory may hold
    return offset_of, tuple(used_memories), (excess[0], excess[1])


def _in_memory(
    table: StageTable,
    memory: BoardMemory,
    ranked: Sequence[StreamBuffer],
    in_order: Sequence[StreamBuffer],
    room: int,
    *,
    is_last: bool,
) -> tuple[list[StreamBuffer], dict[str, int]]:
    """The buffers that fit into a memory, and their offsets; the last memory takes all buffers.

    ranked: buffers that are not placed, the highest rank first.
    in_order: all buffers, in the order of their placement. room: bytes of the memory for buffers.
    """
    inside = [buffer for buffer in ranked if _kind(buffer) in memory.holds]
    if not is_last:
        chosen: list[StreamBuffer] = []
        for buffer in inside:
            if _live([*chosen, buffer]) <= room:
                chosen.append(buffer)
        inside = chosen
    while True:
        offsets = _offsets(table, [buffer for buffer in in_order if buffer in inside])
        end = max((offsets[buffer.name] + buffer.size for buffer in inside), default=0)
        if is_last or end <= room:
            return inside, offsets
        inside = inside[:-1]


def _offsets(table: StageTable, buffers: Sequence[StreamBuffer]) -> dict[str, int]:
    """Offsets of buffers in a memory, each a multiple of the bytes of its elements."""
    units = [table.bytes_of(layer.name) for layer in table.network.layers]

    def alignment(buffer: StreamBuffer) -> int:
        if _kind(buffer) == WEIGHTS:
            layer = table.network.layer(buffer.tensor)
            return max(min(units), bytes_of_each_weight(layer, table.element_bytes))
        is_of_tensor = buffer.has_rows or buffer.kind is Kind.WRITE_BUFFER
        return table.bytes_of(buffer.tensor) if is_of_tensor else max(ACCUMULATOR_BYTES, *units)

    return stream_offsets(buffers, alignment, {}, enough=_live(buffers)) if buffers else {}


def in_fast_memory(
    plan: StreamingPlan, table: StageTable, layout: BoardMemories
) -> StreamingPlan | None:
    """Return a plan of one arena in the nearest fast memory with room for it; None if none has.

    The buffers of a network with a state may be in several fast memories, and states in slow memory.
    Otherwise the only traffic is the weights that layers read from flash, if flash reads count.
    """
    table = table.of(executed_network(table.network, plan.rematerialised))
    unit = max(table.bytes_of(layer.name) for layer in table.network.layers)
    slow = [buffer for buffer in plan.buffers if plan.is_in_slow_memory(buffer)]
    fast = [
        buffer
        for buffer in plan.buffers
        if buffer.kind is not Kind.EXTERNAL and not plan.is_in_slow_memory(buffer)
    ]
    needed = plan.memories[0].size if slow else plan.arena_bytes
    size = -(-needed // unit) * unit
    homes = (memory for memory in layout.fast if {TENSORS, SCRATCH} <= set(memory.holds))
    home = next((memory for memory in homes if size <= memory.size), None)
    if home is None and not table.network.keeps_state:
        return None
    offset_of, memories, excess = _placement(
        table, layout, fast if home is None else [], slow, lambda buffer: Fraction(buffer.persists)
    )
    if any(excess):
        return None
    if home is not None:  # all fast buffers keep their offsets in this memory, which was empty
        offset_of = {name: size + offset for name, offset in offset_of.items()}
        offset_of |= {buffer.name: buffer.offset for buffer in fast}
        memories = tuple(
            replace(memory, size=size) if memory.name == home.name else memory
            for memory in memories
        )
    end = sum(memory.size for memory in memories)
    shift = end - plan.arena_bytes // unit * unit  # of tensors outside, which remain aligned
    placed_plan = replace(
        plan,
        buffers=tuple(
            replace(buffer, offset=offset_of.get(buffer.name, buffer.offset + shift))
            for buffer in plan.buffers
        ),
        arena_bytes=end,
        memories=memories,
        flash=None if layout.flash is None else layout.flash.name,
    )
    return replace(placed_plan, traffic=_traffic_of_one_arena(placed_plan, table))


def _traffic_of_one_arena(plan: StreamingPlan, table: StageTable) -> tuple[MemoryTraffic, ...]:
    """The traffic of a plan whose tensors are in fast memory: moves of states, and reads of weights."""
    reads, writes = Counter[str](), Counter[str]()
    for buffer, from_state, to_state in state_moves(table.network, plan):
        if (memory := plan.memory_of(buffer)) is not None:
            reads[memory.name] += from_state
            writes[memory.name] += to_state
    if plan.flash is not None:
        reads[plan.flash] += sum(
            read
            for group in plan.groups
            for stage in group.stages
            for read in table.weight_reads(table.geometry(stage)).values()
        )
    return _traffic_of(plan, reads, writes)


def cost_of_tensors(group: MemoryGroup, table: StageTable, costs: MoveCosts) -> int:
    """Return the cost of the rows that a group reads from slow memory, and writes to it."""
    reads = group.slow_reads
    total = sum(reads.values()) * costs.read
    total += reads.get(group.geometry.streamed_input or "", 0) * costs.copied
    return total + sum(map(table.tensor_bytes, group.slow_results)) * costs.written


def ring_buffers(
    group: GroupGeometry, results: Collection[str]
) -> tuple[dict[str, int], int, tuple[Alias, ...]]:
    """Return the rows of each ring buffer of a group, its staging bytes, and tensors inside rings.

    results: tensors that are stored whole.
    """
    table, firings, sizes = group.table, group.firings, dict(group.row_bytes)
    keeping = {firing.result: Keeping.RING for firing in firings} | dict.fromkeys(
        results, Keeping.WHOLE
    )
    together, strips = in_step(firings), group.strips
    if len(together) > len(firings):
        strips, sizes[NOTHING], keeping[NOTHING] = [*strips, 0], 0, Keeping.WHOLE
    rings, passing = kept_rows(together, sizes, strips, keeping)
    streamed = group.streamed_input
    aliases = [
        alias for alias in table.aliases.values() if streamed not in (alias.tensor, alias.host)
    ]
    joint = rings_of(table.network, together, aliases, rings, sizes)
    within = tuple(alias for _, inside in joint.values() for alias in inside)
    rings |= {name: rows for name, (rows, _) in joint.items()}
    for alias in within:
        del rings[alias.tensor]
    return rings, -(-max(passing) // ACCUMULATOR_BYTES) * ACCUMULATOR_BYTES, within


def _kind(buffer: StreamBuffer) -> str:
    """Return the value of HOLDS for a buffer."""
    if buffer.kind in (Kind.WEIGHTS, Kind.RESIDENT):
        return WEIGHTS
    return TENSORS if buffer.kind is Kind.WHOLE or buffer.persists else SCRATCH


def _live(buffers: Sequence[StreamBuffer]) -> int:
    """Return the peak of live bytes."""
    return max(
        loads([(buffer.begin, buffer.end, buffer.size) for buffer in buffers]).values(), default=0
    )


def _columns(network: Network, joined: str) -> Iterator[tuple[str, int]]:
    """Yield the inputs of a concatenation along columns, each with the index of its first column."""
    column = 0
    for name in network.layer(joined).inputs:
        yield name, column
        column += network.layer(name).shape.width


def _tile_by_tile(table: StageTable, group: MemoryGroup) -> Iterator[MemoryGroup]:
    """The groups of the tiles of a group, and a group that joins their results in place.

    A tile has in fast memory what its group has: whole tensors, its parts of joined results, and the
    weights of its own copies of layers. A group without tiles is unchanged.
    """
    if not group.tiles:
        yield group
        return
    for tile in group.tiles:
        joined_of = dict(zip(tile.blocks, group.blocks, strict=True))
        parts = {name for name, joined in joined_of.items() if joined in group.in_fast}
        copied = tuple(name for name in group.copied if name in tile.layers)
        yield tile._replace(in_fast=group.in_fast | parts, copied=copied)
    stages = [Stage(layers=(result,), rows=table.height(result)) for result in group.blocks]
    # The inputs are stored in the results already: the group moves nothing and takes no time.
    yield group._replace(
        geometry=table.group(stages),
        work=0,
        busy=0,
        copies=group.copies[:1],
        read=dict.fromkeys((name for tile in group.tiles for name in tile.blocks), 0),
        blocks={},
        tiles=(),
        copied=(),
    )

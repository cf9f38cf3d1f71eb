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
from itertools import chain, islice
from typing import NamedTuple

from cnn2csdf.network import Network
from cnn2csdf.platforms import SCRATCH, TENSORS, WEIGHTS, BoardMemory
from planners.arena.problem import loads
from planners.memory.build import rings_of
from planners.memory.line_buffers import Keeping, kept_rows
from planners.memory.moved_weights import (
    BoardMemories,
    Copies,
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
from planners.plan.state import state_moves
from planners.plan.weights import bytes_of_each_weight
from planners.plan.write_buffers import block_bytes, smallest_block
from planners.rewrites.rematerialisation import worked_network

Names = frozenset[str]


class GroupDemand(NamedTuple):
    """Demand of a group on fast memory, time and traffic, and the choices of a search for the group.

    group: the stages, and the tensor whose rows are copied into a ring buffer; for a group in column
        tiles, the stages of the layers untiled.
    end: one past the last layer, as an index in the layer order.
    fast: bytes of ring buffers, accumulators and staging buffer.
    work: MACs of a frame.
    busy: cost of the stages alone, with weights in their home memory.
    copies: sets of weights to copy into fast memory, by increasing bytes; the first set is empty.
    read: bytes that a frame reads of each tensor from outside the group.
    in_place: tensors of `read` that stages may read in place.
    blocks: for each result, a tensor that later groups need, the minimum bytes of a write buffer if
        the result is in slow memory. A group that joins the results of tiles in place has no result.
    fixed: results that the group reads itself, which have to be in fast memory.
    tiles: groups of the column tiles, executed sequentially; their stages consist of copies of the
        layers, which have weights of their own at home in flash.
    in_fast: tensors in fast memory while the group executes, as the search has chosen them.
    copied: layers whose weights the group copies to fast memory, likewise.
    """

    group: GroupGeometry
    end: int
    fast: int
    work: int
    busy: int
    copies: tuple[Copies, ...]
    read: dict[str, int]
    in_place: Names
    blocks: dict[str, int]
    fixed: Names
    tiles: tuple[GroupDemand, ...] = ()
    in_fast: Names = frozenset()
    copied: tuple[str, ...] = ()

    @property
    def costs(self) -> tuple[int, int, int]:
        """Return costs with weights in their home memory, and with all useful copies; then MACs."""
        return self.busy, self.busy - self.copies[-1].saved, self.work

    @property
    def span(self) -> Span:
        """The layers that are computed in tiles, by the tensors before and after them."""
        layers = tuple(name for geometry in self.group.stages for name in geometry.stage.layers)
        return Span(next(iter(self.read)), layers[-1], layers=layers, tiles=len(self.tiles))


class PlacedPlan(NamedTuple):
    """Plan in several memories, with its cost and the bytes by which it exceeds its memories.

    plan: schedule and buffer offsets.
    cost: slow-memory bytes, or time, of a frame.
    fast_excess, slow_excess: bytes beyond the size of fast and of slow memory; 0 if the plan fits.
    begins: for each layer with weights in fast memory, the group that copies the weights; None if
        the weights are resident.
    chain: the groups of the plan; None for a plan of one arena, whose weights stay in place.
    """

    plan: StreamingPlan
    cost: int
    fast_excess: int = 0
    slow_excess: int = 0
    begins: Mapping[str, int | None] = {}
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
        steps: Sequence[GroupDemand],
        arriving: str | None,
    ) -> None:
        """Set the groups of a network, in execution order.

        Each column tile becomes a group of its own. Its layers are copies, in a network rewritten for
        the tiles; its results are stored inside the tensor that joins them.

        arriving: input that arrives row by row; None if no input does.
        """
        self._arriving = arriving
        self._spans = tuple(step.span for step in steps if step.tiles)
        if self._spans:
            table = table.of(worked_network(order.network, self._spans))
            order, costs = topological_order(table.network), costs.of_copies(table)
        self._order, self._table, self._layout, self._costs = order, table, layout, costs
        self._aliases = {
            name: Alias(name, joined, column=column)
            for step in steps
            for joined in (step.blocks if step.tiles else ())
            for name, column in _columns(table.network, joined)
        }
        self._steps = steps = [
            tile_step for step in steps for tile_step in _tile_by_tile(table, step)
        ]
        self._rings = [
            ring_buffers(step.group, step.blocks) if step.blocks else ({}, 0, ()) for step in steps
        ]
        self._weights = {  # of each layer with weights, its group and the bytes that a frame reads
            layer: (number, read)
            for number, step in enumerate(steps)
            for layer, read in movable_weights(step.group.stages, costs, table).items()
        }
        self._lives = self._lives_of_tensors()
        self._write_bytes = 0

    def _lives_of_tensors(self) -> dict[str, tuple[int, int]]:
        """The first group, and one past the last, of all whole tensors with a buffer."""
        order, aliases = self._order, self._aliases
        begin = dict.fromkeys((order.at(0), *order.others), 0)
        begin.pop(self._arriving or "", None)
        end: dict[str, int] = {}
        for number, step in enumerate(self._steps):
            for name in step.blocks:
                begin.setdefault(aliases[name].host if name in aliases else name, number)
            read = (aliases[name].host if name in aliases else name for name in step.read)
            end |= dict.fromkeys(read, number + 1)
        end |= dict.fromkeys(order.results, len(self._steps))
        return {name: (first, end.get(name, first + 1)) for name, first in begin.items()}

    def plan(self) -> PlacedPlan:
        """Return the plan with the copies of weights that the groups name."""
        begins: dict[str, int | None] = dict.fromkeys(self._costs.pinned)
        for number, step in enumerate(self._steps):
            begins |= dict.fromkeys(step.copied, number)
        return self._placed(begins)

    def improved(self, found: PlacedPlan) -> PlacedPlan:
        """Return the best of a plan with weights resident in free fast memory, or prefetched."""
        candidates = [self._copied_ahead(plan) for plan in (self._resident(found), found)]
        return min(candidates, key=lambda plan: plan.rank)

    def costliest_weights(self, found: PlacedPlan, room: int) -> list[str]:
        """Return the layers whose weights have the highest cost per byte, within `room` bytes."""
        costs, allowed = self._costs, self._allowed()
        sizes, chosen = costs.sizes, []
        weight_costs = {
            name: costs.of_copy(name) if name in found.begins else costs.in_place(name, read)
            for name, (_, read) in self._weights.items()
            if name in allowed
        }
        for name in sorted(
            weight_costs, key=lambda name: (-Fraction(weight_costs[name], sizes[name]), name)
        ):
            if weight_costs[name] and sizes[name] <= room:
                chosen.append(name)
                room -= sizes[name]
        return chosen

    def with_wide_blocks(self, found: PlacedPlan) -> PlacedPlan:
        """Return the plan with more pixels in each write buffer, if the buffers fit.

        A kernel is called for each block of pixels: the call for a block of a single pixel of 8
        bytes costs about as much as the computation of its result.
        """
        self._write_bytes = WRITE_BYTES
        candidate = self._placed(found.begins)
        self._write_bytes = 0
        return candidate if candidate.fits and candidate.cost <= found.cost else found

    def _resident(self, found: PlacedPlan) -> PlacedPlan:
        """The plan with weights resident in fast memory, if all groups have room for them."""
        live, capacity = self._live(found), self._layout.capacity
        chosen = []
        for name in self.costliest_weights(found, capacity):
            (number, _), size = self._weights[name], self._costs.sizes[name]
            # A copy takes bytes of groups `begin` to `number`; weights at home take none.
            begin = found.begins.get(name, number + 1)
            if begin is None:  # resident already
                continue
            outside = [index for index in range(len(live)) if not begin <= index <= number]
            if all(live[index] + size <= capacity for index in outside):
                chosen.append(name)
                for index in outside:
                    live[index] += size
        return self._cheaper(found, dict.fromkeys(chosen))

    def _cheaper(self, found: PlacedPlan, begins: Mapping[str, int | None]) -> PlacedPlan:
        """The plan with other begins of copies, of all these weights or of ever fewer, if cheaper."""
        while begins:
            candidate = self._placed({**found.begins, **begins})
            if candidate.fits and candidate.cost < found.cost:
                return candidate
            begins = dict(islice(begins.items(), len(begins) // 2))
        return found

    def _live(self, found: PlacedPlan) -> list[int]:
        """The bytes of the buffers that each group has in fast memory."""
        plan = found.plan
        fast = [buffer for buffer in plan.buffers if not plan.is_in_slow_memory(buffer)]
        return [
            sum(buffer.size for buffer in fast if buffer.begin <= number < buffer.end)
            for number in range(len(self._steps))
        ]

    def _copied_ahead(self, found: PlacedPlan) -> PlacedPlan:
        """The plan with weights prefetched while the preceding group computes."""
        live = self._live(found)
        begins, more, allowed = dict(found.begins), [], self._allowed()
        sizes = self._costs.sizes
        for name in sorted(self._weights, key=lambda name: -sizes[name]):
            number, _ = self._weights[name]
            is_there = name in begins and begins[name] in (None, number - 1)
            _, has_dma = self._costs.homes[name]
            if not number or is_there or not has_dma or name not in allowed:
                continue
            groups = (number - 1,) if name in begins else (number - 1, number)
            trial = {**begins, name: number - 1}
            has_room = all(live[group] + sizes[name] <= self._layout.capacity for group in groups)
            if has_room and self.cost(trial) < self.cost(begins):
                begins = trial
                more.append(name)
                for group in groups:
                    live[group] += sizes[name]
        return self._cheaper(found, {name: begins[name] for name in more})

    def _allowed(self) -> Names:
        """Layers whose weights may be in fast memory."""
        return can_be_copied([stage for step in self._steps for stage in step.group.stages])

    def cost(self, begins: Mapping[str, int | None]) -> int:
        """Return the cost of a frame: sum over groups of max(group cost, concurrent copies)."""
        costs = self._costs
        works = [step.busy + cost_of_tensors(step, self._table, costs) for step in self._steps]
        meanwhile = [0] * len(works)
        for name, (number, read) in self._weights.items():
            if name not in begins:
                continue
            works[number] -= costs.in_place(name, read)
            begin = begins[name]
            if begin == number:
                works[number] += costs.of_copy(name)
            elif begin is not None:
                meanwhile[begin] += costs.of_copy(name)
        return sum(map(max, works, meanwhile))

    def _placed(self, begins: Mapping[str, int | None]) -> PlacedPlan:
        """The plan with weights copied into fast memory in these groups."""
        table, steps, layout = self._table, self._steps, self._layout
        fast, slow = self._buffers(begins)
        places, memories, excess = _placement(table, layout, fast, slow, self._touches)
        arena_bytes = sum(memory.size for memory in memories)
        plan = StreamingPlan(
            network=self._order.network.name,
            element_bytes=table.element_bytes,
            groups=tuple(step.group.planned(in_step=True) for step in steps),
            buffers=(
                *(replace(buffer, offset=places[buffer.name]) for buffer in (*fast, *slow)),
                *self._external(arena_bytes),
            ),
            arena_bytes=arena_bytes,
            multiply_accumulates=sum(step.work for step in steps),
            rematerialised=self._spans,
            aliases=(*self._aliases.values(), *chain.from_iterable(r[2] for r in self._rings)),
            memories=memories,
            flash=None if layout.flash is None else layout.flash.name,
        )
        plan = replace(plan, traffic=self._traffic(plan, begins))
        return PlacedPlan(plan, self.cost(begins), *excess, begins, self)

    def _buffers(
        self, begins: Mapping[str, int | None]
    ) -> tuple[list[StreamBuffer], list[StreamBuffer]]:
        """All buffers in fast and in slow memory."""
        table, steps = self._table, self._steps
        fast: list[StreamBuffer] = []
        slow: list[StreamBuffer] = []
        for name, (begin, end) in self._lives.items():
            if name in table.outside:
                continue
            whole = StreamBuffer.of_group(
                Kind.WHOLE, name, begin, end, size=table.tensor_bytes(name), rows=table.height(name)
            )
            (fast if name in steps[begin].in_fast else slow).append(replace(whole, name=name))
        for number, step in enumerate(steps):
            fast += self._inside(number)
            fast += self._write_buffers(step, number)
        for name, (number, _) in self._weights.items():
            copied_in, size = begins.get(name), self._costs.sizes[name]
            resident = StreamBuffer.of_group(Kind.RESIDENT, name, 0, len(steps), size=size)
            if copied_in is not None:
                fast.append(
                    StreamBuffer.of_group(Kind.WEIGHTS, name, copied_in, number + 1, size=size)
                )
            elif name in begins:
                fast.append(replace(resident, name=f"{name} {Kind.WEIGHTS.value}"))
            if name in self._costs.in_slow and (name not in begins or copied_in is not None):
                slow.append(resident)
        return fast, slow

    def _external(self, begin: int) -> Iterator[StreamBuffer]:
        """The inputs and results in other memory, from byte `begin` after the arena on."""
        table = self._table
        for name in sorted(self._lives.keys() & table.outside):
            begin += -begin % table.bytes_of(name)
            size, rows = table.tensor_bytes(name), table.height(name)
            outside = StreamBuffer.of_group(
                Kind.EXTERNAL, name, 0, len(self._steps), size=size, rows=rows
            )
            yield replace(outside, name=name, offset=begin)
            begin += size

    def _write_buffers(self, step: GroupDemand, number: int) -> Iterator[StreamBuffer]:
        """The write buffers of results that a group stores in slow memory."""
        table = self._table
        stages = {geometry.stage.result: geometry.stage for geometry in step.group.stages}
        for name in step.blocks:
            if name in step.in_fast:
                continue
            network, stage = table.network, stages[name]
            rows, columns = smallest_block(network, stage)
            column_bytes = block_bytes(network, stage, rows, table.bytes_of(name))
            affordable = min(self._write_bytes // column_bytes, network.layer(name).shape.width)
            size = column_bytes * max(columns, affordable)
            yield StreamBuffer.of_group(Kind.WRITE_BUFFER, name, number, size=size)

    def _inside(self, number: int) -> Iterator[StreamBuffer]:
        """Ring buffers, accumulators and staging buffer of a group."""
        table, group = self._table, self._steps[number].group
        rings, staging, _ = self._rings[number]
        layers = [
            table.network.layer(name) for stage in group.stages for name in stage.stage.layers
        ]
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
            return Fraction(self._weights[buffer.tensor][1], self._costs.sizes[buffer.tensor])
        if buffer.has_rows:
            readers = len(self._order.network.consumers[buffer.tensor])
            return Fraction((1 + readers) * self._table.height(buffer.tensor), max(buffer.rows, 1))
        return Fraction(self._table.height(buffer.tensor) + 1)

    def _traffic(
        self, plan: StreamingPlan, begins: Mapping[str, int | None]
    ) -> tuple[MemoryTraffic, ...]:
        """Bytes that a frame reads from each slow memory and the flash, and writes to it."""
        reads, writes = Counter[str](), Counter[str]()
        named = {
            (buffer.tensor, buffer.kind): memory.name
            for buffer in plan.buffers
            if (memory := plan.memory_of(buffer)) is not None and memory.is_slow
        }
        for step in self._steps:
            for name, size in step.read.items():
                if name not in step.in_fast:
                    reads[named.get((name, Kind.WHOLE), "")] += size
            for name in step.blocks:
                if name not in step.in_fast:
                    host = self._aliases[name].host if name in self._aliases else name
                    writes[named.get((host, Kind.WHOLE), "")] += self._table.tensor_bytes(name)
        for name, (_, read) in self._weights.items():
            if name in begins and begins[name] is None:
                continue
            home = named.get((name, Kind.RESIDENT), plan.flash or "")
            reads[home] += self._costs.sizes[name] if name in begins else read
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

    Returns offsets by buffer, the memories of the plan, and the bytes beyond fast and slow memory.
    """
    element = max(table.bytes_of(layer.name) for layer in table.network.layers)
    places: dict[str, int] = {}
    taken: list[Memory] = []
    excess = []
    for memories, buffers in ((layout.fast, fast), (layout.slow, slow)):
        rest = sorted(buffers, key=lambda buffer: -rank(buffer))
        over = 0
        for number, memory in enumerate(memories):
            is_last = number + 1 == len(memories)
            here, offsets = _in_memory(table, memory, rest, buffers, is_last=is_last)
            begin = sum(preceding.size for preceding in taken)
            if begin % ACCUMULATOR_BYTES and any(b.kind is Kind.ACCUMULATORS for b in here):
                # Offsets count from the first memory: the memory before ends at an aligned byte.
                begin += -begin % ACCUMULATOR_BYTES
                size = taken[-1].size + begin - sum(preceding.size for preceding in taken)
                taken[-1] = replace(taken[-1], size=size)
            places |= {buffer.name: begin + offsets[buffer.name] for buffer in here}
            end = max((offsets[buffer.name] + buffer.size for buffer in here), default=0)
            is_exact = memories is layout.slow and is_last and layout.flash is None
            size = end if is_exact else -(-end // element) * element
            taken.append(Memory(name=memory.name, size=size, is_slow=memory.is_slow))
            over += max(0, size - memory.size)
            rest = [buffer for buffer in rest if buffer.name not in offsets]
        excess.append(over + sum(buffer.size for buffer in rest))
        for buffer in rest:  # which no memory may hold
            places[buffer.name] = sum(preceding.size for preceding in taken)
    return places, tuple(taken), (excess[0], excess[1])


def _in_memory(
    table: StageTable,
    memory: BoardMemory,
    buffers: Sequence[StreamBuffer],
    in_order: Sequence[StreamBuffer],
    *,
    is_last: bool,
) -> tuple[list[StreamBuffer], dict[str, int]]:
    """The buffers that fit into a memory, and their offsets; the last memory takes all buffers.

    in_order: all buffers, in the order of their placement.
    """
    here = [buffer for buffer in buffers if _kind(buffer) in memory.holds]
    # Accumulators in the next memory begin at a multiple of their bytes.
    room = memory.size if is_last else memory.size - memory.size % ACCUMULATOR_BYTES
    if not is_last:
        chosen: list[StreamBuffer] = []
        for buffer in here:
            if _live([*chosen, buffer]) <= room:
                chosen.append(buffer)
        here = chosen
    while True:
        offsets = _offsets(table, [buffer for buffer in in_order if buffer in here])
        end = max((offsets[buffer.name] + buffer.size for buffer in here), default=0)
        if is_last or end <= room:
            return here, offsets
        here = here[:-1]


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
    table = table.of(worked_network(table.network, plan.rematerialised))
    unit = max(table.bytes_of(layer.name) for layer in table.network.layers)
    in_arena = [buffer for buffer in plan.buffers if buffer.kind is not Kind.EXTERNAL]
    away = [buffer for buffer in plan.buffers if plan.is_in_slow_memory(buffer)]
    inside = [buffer for buffer in in_arena if not plan.is_in_slow_memory(buffer)]
    needed = plan.memories[0].size if away else plan.arena_bytes
    size = -(-needed // unit) * unit
    homes = (memory for memory in layout.fast if {TENSORS, SCRATCH} <= set(memory.holds))
    home = next((memory for memory in homes if size <= memory.size), None)
    if home is None and not table.network.keeps_state:
        return None
    fast = inside if home is None else []
    places, memories, excess = _placement(
        table, layout, fast, away, lambda buffer: Fraction(buffer.persists)
    )
    if any(excess):
        return None
    if home is not None:
        places = {name: size + offset for name, offset in places.items()}
        places |= {buffer.name: buffer.offset for buffer in inside}
        memories = tuple(
            replace(memory, size=size) if memory.name == home.name else memory
            for memory in memories
        )
    end = sum(memory.size for memory in memories)
    shift = end - plan.arena_bytes // unit * unit  # of tensors outside, which remain aligned
    flash = None if layout.flash is None else layout.flash.name
    read = sum(
        bytes_read
        for group in plan.groups
        for stage in group.stages
        for bytes_read in table.weight_reads(table.geometry(stage)).values()
    )
    placed_plan = replace(
        plan,
        buffers=tuple(
            replace(buffer, offset=places.get(buffer.name, buffer.offset + shift))
            for buffer in plan.buffers
        ),
        arena_bytes=end,
        memories=memories,
        flash=flash,
    )
    reads, writes = Counter[str](), Counter[str]()
    for buffer, from_state, to_state in state_moves(table.network, placed_plan):
        if (memory := placed_plan.memory_of(buffer)) is not None:
            reads[memory.name] += from_state
            writes[memory.name] += to_state
    if flash is not None:
        reads[flash] += read
    return replace(placed_plan, traffic=_traffic_of(placed_plan, reads, writes))


def cost_of_tensors(step: GroupDemand, table: StageTable, costs: MoveCosts) -> int:
    """Return the cost of the rows that a group reads from slow memory, and writes to it."""
    total = 0
    for name, size in step.read.items():
        if name not in step.in_fast:
            is_streamed = name == step.group.streamed_input
            total += size * (costs.read + (costs.copied if is_streamed else 0))
    away = (table.tensor_bytes(name) for name in step.blocks if name not in step.in_fast)
    return total + sum(away) * costs.written


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


def _tile_by_tile(table: StageTable, step: GroupDemand) -> Iterator[GroupDemand]:
    """The groups of the tiles of a group, and a group that joins their results in place."""
    if not step.tiles:
        yield step
        return
    for tile in step.tiles:
        pairs = zip(tile.blocks, step.blocks, strict=True)
        here = {name for name, joined in pairs if joined in step.in_fast}
        layers = {name for geometry in tile.group.stages for name in geometry.stage.layers}
        copied = tuple(name for name in step.copied if name in layers)
        yield tile._replace(in_fast=step.in_fast | here, copied=copied)
    stages = [Stage(layers=(result,), rows=table.height(result)) for result in step.blocks]
    # The inputs are stored in the results already: the group moves nothing and takes no time.
    yield step._replace(
        group=table.group(stages),
        work=0,
        busy=0,
        copies=step.copies[:1],
        read=dict.fromkeys((name for tile in step.tiles for name in tile.blocks), 0),
        blocks={},
        tiles=(),
        copied=(),
    )

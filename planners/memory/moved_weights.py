"""Placement of weights in flash, slow memory or fast memory, by the cost of moving them.

Costs are bytes to and from slow memory, or times if the rates of a board are known. A convolution
reads its weights for each pixel at their home (planners.plan.weights): in flash, or in a faster
slow memory, to which they are copied once. Alternatively they are copied into fast memory in each
frame as their group begins; with a DMA controller they are prefetched while the preceding group
computes. Or they are resident in fast memory that the plan leaves free.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import lcm
from typing import NamedTuple

from cnn2csdf.platforms import (
    NANOSECONDS,
    SCRATCH,
    STACK,
    TENSORS,
    WEIGHTS,
    BoardMemory,
    Platform,
)
from csdf.errors import InvalidArgument
from csdf.search.pareto import improving, thinned
from planners.arena.problem import loads
from planners.memory.order import TopologicalOrder
from planners.memory.plain_plans import whole_tensors
from planners.memory.stages import Geometry, StageTable
from planners.memory.times import PlanTimes
from planners.plan.plan import Memory
from planners.plan.weights import weight_bytes
from planners.rewrites.layer_copies import Copy

MOST_CHOICES = 16  # of the weights that a group copies; more differ little


class BoardMemories(NamedTuple):
    """The memories of a board by purpose: fast memories, nearest first; slow memories; flash."""

    fast: tuple[BoardMemory, ...]
    slow: tuple[BoardMemory, ...]
    flash: BoardMemory | None

    @property
    def all(self) -> tuple[BoardMemory, ...]:
        """All memories, in that order."""
        return (*self.fast, *self.slow, *(() if self.flash is None else (self.flash,)))

    @property
    def capacity(self) -> int:
        """Bytes of all fast memories."""
        return sum(memory.size for memory in self.fast)

    @property
    def stack(self) -> BoardMemory | None:
        """The memory of the stack; None if no memory is declared to hold it."""
        return next((memory for memory in self.all if STACK in memory.holds), None)

    def has_rates(self, platform: Platform | None) -> bool:
        """Whether the transfer rates of slow memories and flash, and the clock, are known."""
        slow = all(memory.read and memory.write for memory in self.slow)
        flash = self.flash is None or self.flash.read is not None
        return slow and flash and platform is not None and platform.hertz is not None


def layout_of(memories: Sequence[Memory | BoardMemory]) -> BoardMemories:
    """Return memories by purpose. Raises InvalidArgument if a required memory is missing."""
    boards = [
        memory
        if isinstance(memory, BoardMemory)
        else BoardMemory(name=memory.name, size=memory.size, is_slow=memory.is_slow)
        for memory in memories
    ]
    inside = [board for board in boards if not board.is_flash]
    flash = [board for board in boards if board.is_flash]
    fast = tuple(board for board in inside if not board.is_slow)
    slow = tuple(board for board in inside if board.is_slow)
    is_ordered = fast + slow == tuple(inside)
    names = {board.name for board in boards}
    is_known = len(names) == len(boards) and is_ordered and len(flash) <= 1
    if not (is_known and fast and (slow or flash)):
        listed = ", ".join(
            f"{board.name} (slow)" if board.is_slow else board.name for board in boards
        )
        end = "; --ram is for a single memory" if len(boards) == 1 else ""
        raise InvalidArgument(
            f"memories {listed}; expected fast memories, the nearest first, then slow "
            "memories, such as sram=64kB and psram=2MB:slow; different names; at most one memory "
            f"that holds weights only{end}"
        )
    if not any({TENSORS, SCRATCH} <= set(board.holds) for board in fast):
        raise InvalidArgument("memories: expected a fast one that holds tensors and scratch")
    stacks = [board.name for board in boards if STACK in board.holds]
    if len(stacks) > 1:
        raise InvalidArgument(
            f"memories {' and '.join(stacks)} hold the stack; expected one of them"
        )
    return BoardMemories(fast, slow, flash[0] if flash else None)


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveCosts:
    """Costs of bytes that move, and of stages: slow bytes, or units of 1/scale nanosecond.

    scale: units of a nanosecond; None if costs are slow bytes. read, written: of a byte of slow
    memory. copied: of a byte that is written to fast memory. flash: of a byte that is read from flash.
    homes: for each layer with weights the cost of a byte at its home before a frame, and whether DMA
    copies it. in_slow: layers whose home is a slow memory other than flash. sizes: bytes of the
    weights of each layer. times: of stages of the network, if costs are times.
    pinned: layers whose weights are resident in fast memory.
    """

    homes: Mapping[str, tuple[int, bool]]
    sizes: Mapping[str, int]
    scale: int | None = None
    read: int = 1
    written: int = 1
    copied: int = 0
    flash: int = 1
    in_slow: tuple[str, ...] = ()
    times: PlanTimes | None = None
    pinned: frozenset[str] = frozenset()

    @property
    def pinned_bytes(self) -> int:
        """Bytes of the weights that are resident in fast memory."""
        return sum(self.sizes[name] for name in self.pinned)

    def pinning(self, layers: Iterable[str]) -> MoveCosts:
        """Return the costs if the weights of these layers are resident in fast memory, at no cost."""
        pinned = frozenset(layers)
        return replace(
            self,
            homes={**self.homes, **dict.fromkeys(pinned, (0, False))},
            in_slow=tuple(name for name in self.in_slow if name not in pinned),
            pinned=pinned,
        )

    def of_copies(self, table: StageTable, copies: Mapping[str, Copy]) -> MoveCosts:
        """Return the costs for a network with copies of layers, whose weights are at home in flash.

        table: of that network. copies: the original of each copy, by name.
        """
        sizes = {
            layer.name: size
            for layer in (table.network.layers if self.sizes else ())
            if layer.name not in self.sizes
            and (size := weight_bytes(table.network, layer, table.element_bytes))
        }
        return replace(
            self,
            sizes={**self.sizes, **sizes},
            homes={**self.homes, **dict.fromkeys(sizes, (self.flash, False))},
            times=None if self.times is None else self.times.of_copies(table, copies),
        )

    def of_stages(self, stages: Iterable[Geometry]) -> int:
        """Return the cost of stages without transfers: their times; 0 if costs are bytes."""
        if self.times is None or self.scale is None:
            return 0
        return sum(self.times.of_stage(stage.stage) for stage in stages) * self.scale

    def in_place(self, layer: str, read: int) -> int:
        """Return the cost of reading this number of bytes of the weights of a layer at their home."""
        return read * self.homes[layer][0]

    def of_copy(self, layer: str) -> int:
        """Return the cost of copying the weights of a layer into fast memory."""
        return self.sizes[layer] * (self.homes[layer][0] + self.copied)

    def nanoseconds(self, cost: int) -> int | None:
        """Return a cost as a time, rounded up; None where it is in bytes."""
        return None if self.scale is None else -(-cost // self.scale)


def costs_of(
    layout: BoardMemories,
    order: TopologicalOrder,
    table: StageTable,
    platform: Platform | None,
    times: PlanTimes | None,
) -> MoveCosts:
    """Return costs in time if the rates of all slow memories are known, otherwise in slow bytes.

    times: of stages, with all tensors and weights in fast memory.
    """
    network, flash = table.network, layout.flash
    sizes = {
        layer.name: size
        for layer in network.layers
        if flash and (size := weight_bytes(network, layer, table.element_bytes))
    }
    if not layout.has_rates(platform) or platform is None or times is None:
        return MoveCosts(homes=dict.fromkeys(sizes, (1, False)), sizes=sizes)
    cycle = Fraction(NANOSECONDS, platform.hertz or 1)

    def price(rate: Fraction | None) -> Fraction:
        """Nanoseconds of a byte."""
        return Fraction(0) if rate is None else cycle / rate

    slow = layout.slow[0] if layout.slow else None
    prices = (
        price(None if slow is None else slow.read),
        price(None if slow is None else slow.write),
        price(layout.fast[0].write),
        price(None if flash is None else flash.read),
    )
    scale = lcm(*(nanoseconds.denominator for nanoseconds in prices))
    read, written, copied, of_flash = (int(nanoseconds * scale) for nanoseconds in prices)
    homes = dict.fromkeys(sizes, (of_flash, bool(flash and flash.has_dma)))
    in_slow: tuple[str, ...] = ()
    if slow is not None and WEIGHTS in slow.holds and read < of_flash:
        in_slow = _largest_in(_room_for_weights(slow, order, table), sizes)
        homes |= dict.fromkeys(in_slow, (read, slow.has_dma))
    return MoveCosts(
        scale=scale,
        read=read,
        written=written,
        copied=copied,
        flash=of_flash,
        homes=homes,
        in_slow=in_slow,
        sizes=sizes,
        times=times,
    )


def _room_for_weights(slow: BoardMemory, order: TopologicalOrder, table: StageTable) -> int:
    """The bytes of slow memory that tensors are expected to leave.

    Tensors before and after a group may each need the peak of whole tensors; a quarter of it is added
    for gaps between buffers.
    """
    whole = whole_tensors(table.network, element_bytes=table.element_bytes).buffers
    peak = max(
        loads([(buffer.start, buffer.end, buffer.size) for buffer in whole]).values(), default=0
    )
    everything = sum(map(table.tensor_bytes, (*order.layers, *order.others)))
    return slow.size - min(everything, 2 * peak + peak // 4)


def _largest_in(room: int, sizes: Mapping[str, int]) -> tuple[str, ...]:
    """The layers whose weights fit into `room` bytes, the largest first."""
    chosen = []
    for name in sorted(sizes, key=lambda layer: -sizes[layer]):
        if sizes[name] <= room:
            room -= sizes[name]
            chosen.append(name)
    return tuple(chosen)


def movable_weights(
    stages: Iterable[Geometry], costs: MoveCosts, table: StageTable
) -> dict[str, int]:
    """Return the bytes that a frame reads of the weights of each layer of these stages, at their home.

    table: of the stages.
    """
    return {
        name: read
        for stage in stages
        for name, read in table.weight_reads(stage).items()
        if name in costs.sizes
    }


def can_be_copied(stages: Iterable[Geometry]) -> frozenset[str]:
    """Return layers whose kernels read weights from one address: all but those in channel blocks."""
    return frozenset(
        name
        for stage in stages
        if stage.stage.accumulating_layer is None
        for name in stage.stage.layers
    )


class FastWeights(NamedTuple):
    """Layers that read their weights in fast memory; all other layers read them at home.

    resident: layers whose weights remain in fast memory.
    begins: for each layer whose weights are copied in each frame, the group that begins with the copy.
    """

    resident: frozenset[str] = frozenset()
    begins: Mapping[str, int] = {}

    def has(self, layer: str) -> bool:
        """Return whether a layer reads its weights in fast memory."""
        return layer in self.resident or layer in self.begins

    def with_resident(self, layers: Collection[str]) -> FastWeights:
        """Return these weights if the weights of some layers are resident instead."""
        begins = {name: begin for name, begin in self.begins.items() if name not in layers}
        return FastWeights(self.resident.union(layers), begins)

    def with_copies(self, begins: Mapping[str, int]) -> FastWeights:
        """Return these weights with other copies, which begin with these groups."""
        return self._replace(begins={**self.begins, **begins})


class Copies(NamedTuple):
    """Weights that a group copies into fast memory: their bytes, the saved cost, and the layers."""

    size: int
    saved: int
    layers: tuple[str, ...]


def copies_of(
    stages: Sequence[Geometry], costs: MoveCosts, table: StageTable
) -> tuple[Copies, ...]:
    """Return Pareto-optimal sets of weights to copy, in order of bytes; first the empty set.

    Of more than MOST_CHOICES sets some are left out, but not the set that saves most.
    """
    fronts = [Copies(0, 0, ())]
    allowed = can_be_copied(stages)
    for layer, read in movable_weights(stages, costs, table).items():
        saved, size = costs.in_place(layer, read) - costs.of_copy(layer), costs.sizes[layer]
        if saved > 0 and layer in allowed:
            more = [
                Copies(copies.size + size, copies.saved + saved, (*copies.layers, layer))
                for copies in fronts
            ]
            candidates = [(copies.size, -copies.saved, copies) for copies in (*fronts, *more)]
            front = [copies for _, _, copies in improving(candidates, lambda copies: copies[:2])]
            fronts = [front[0], *(copies for copies in thinned(front, MOST_CHOICES) if copies.size)]
    return tuple(fronts)

"""A memory plan: groups of stages, and buffers at offsets in one arena.

A group is a list of stages that fire interleaved; a stage is a run of layers with a compute mode.
Groups run in sequence. The stages of a group fire on demand of the last stage, or in an order that
the plan contains. With an explicit order, rows are written directly to ring buffers or whole tensors,
without staging. A tensor may have several ring buffers, each for different readers.

Layout: tensors are stored in row-major order with the channels of a pixel adjacent (HWC). Row y of a
whole tensor is stored as row y; in a line buffer of R rows, as row y mod R. In a strip of K columns,
column x is stored as column x mod K, with the channels of one channel block. Staged rows alternate
between the bottom and the top of the staging buffer of the group. The strips of a firing, and after
them its accumulators, are between the two ends. The pixels of an aliased tensor
(planners.plan.aliases) are pixels of its host.

A variable is resident: its buffer belongs to all groups and keeps its bytes from frame to frame. The
window of a ring (cnn2csdf.rings) has no buffer of its own: its first rows are in the buffer of the
variable, the new rows in the buffer that their layer writes. The last group that reads the variable or
the window ends by copying the rows for the next frame.

Groups of one network, or of several networks in one arena, may run concurrently, on successive frames.
A tensor between two such groups has two buffers: when both groups have finished their frames, one
buffer is copied to the other.

A valid plan, as planners.plan.checker checks it:

- Layers: each layer of the network once, in a group and stage after the layers that it reads. A stage
  has a mode that its layers can have, between 1 and all rows a firing, a strip of each inner layer, and
  tiles that end where the result does.
- Buffers: a buffer holds a tensor of the network, is within the groups and the arena, and is as large
  as its rows. Its offset is a multiple of the element size; for accumulators, of 4 bytes; for weights,
  of the size of a weight; for staging, strips and scratch, of the smallest element size. A tensor that
  outlives its group is stored whole, and so is a result of the network.
- Reading: for each tensor that a layer reads there is one buffer in its group, written before the read.
  Two buffers of a tensor are for different readers.
- Bytes: a byte that is read holds the element, sum, weight or state that the reader expects. The inputs
  of a firing stay intact until the firing ends, unless the layer is elementwise and in place.
- Frames: at the end of a frame the weights, states and variables for the next frame are intact.
- Orders: an explicit order of a group contains each stage once for each of its firings.
- Aliases: an aliased tensor is inside one host, which has the buffer, and all readers reach its pixels.
- Memories: each buffer is in one memory. A slow memory holds whole tensors and resident weights only. A
  stage whose result is in slow memory computes pixels of the result in a write buffer.
- Counts: the multiply-accumulates and the traffic of each slow memory are the figures of one frame.
- Concurrent groups, and bytes retained while another network runs, are disjoint in the arena.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from itertools import accumulate, pairwise
from textwrap import wrap
from typing import NamedTuple

from csdf.errors import InvalidPlan, counted
from csdf.model.shown import Viewed

ACCUMULATOR_BYTES = 4  # int32 for int8, float for float
LAYOUTS = ("CHW", "HWC")  # channel by channel; pixel by pixel
COLUMNS = 80  # of the lines of a plan in words
_BUFFER_HEAD = "     offset      size   groups  rows  kind              tensor"


class Span(NamedTuple):
    """Layers of which a plan computes copies, in one of four kinds.

    - Recomputed (the defaults): all layers after the tensor `source`, up to the tensor `result`.
    - by_heads: between these tensors the heads of attention run in sequence, each with copies of the
      layers that produce its queries, keys and values.
    - layers, tiles: these layers are computed in this number of column tiles; `source` is a tensor
      that they read, `result` the tensor of the last layer.
    - layers, 0 tiles: these layers, which compute each channel alone, are computed for each input of
      the concatenation `source`, and their results are concatenated; `result` is the last of them.
    """

    source: str
    result: str
    by_heads: bool = False
    layers: tuple[str, ...] = ()
    tiles: int = 1

    @property
    def by_inputs(self) -> bool:
        """Whether the layers are computed for each input of a concatenation."""
        return not self.tiles


class Alias(NamedTuple):
    """A tensor inside a host: the row, column and channel of the host at its first element."""

    tensor: str
    host: str
    row: int = 0
    column: int = 0
    channel: int = 0


class Strip(NamedTuple):
    """Rows and columns that a firing holds of a tensor inside its stage."""

    layer: str
    rows: int
    columns: int


class Mode(Enum):
    """The loop order in which a stage computes its result.

    ROWS: a firing computes some rows of the result, column by column where the stage fuses several
    layers. ACCUMULATING: a firing adds an input row to the accumulators of the last layer; the last
    firing computes the result from them. If the stage has two layers, the first computes the added row,
    a few channels at a time, which are stored nowhere. A layer that only moves elements writes the
    elements of the input row into the whole result instead. CHANNELS: one firing; the first of two
    layers computes one feature map at a time, which the second reduces immediately. The input is stored
    whole. TILES: one firing; the result is computed rectangle by rectangle, each from the rectangles of
    its inputs that it needs. The inputs of the stage and its result are stored whole.
    """

    ROWS = "rows"
    ACCUMULATING = "accumulating"
    CHANNELS = "channels"
    TILES = "tiles"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tiles:
    """The tiles of a result, by the rows and columns where they end.

    halo_cached: whether a tile reuses the halo that earlier tiles computed; otherwise it recomputes
    its halo. Raises InvalidPlan unless the ends are positive and strictly increasing on both axes.
    """

    row_ends: tuple[int, ...]
    column_ends: tuple[int, ...]
    halo_cached: bool = False

    def __post_init__(self) -> None:
        for ends in (self.row_ends, self.column_ends):
            if not ends or any(end <= before for before, end in pairwise((0, *ends))):
                raise InvalidPlan(f"tiles end at {ends}; expected growing numbers above 0")

    def __str__(self) -> str:
        return f"{len(self.row_ends)}x{len(self.column_ends)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedPrimitive:
    """How a layer is computed, and the layouts of the tensors that it reads and writes."""

    name: str
    reads: str
    writes: str

    def __post_init__(self) -> None:
        for layout in (self.reads, self.writes):
            if layout not in LAYOUTS:
                raise InvalidPlan(f"layout {layout!r}; expected one of {', '.join(LAYOUTS)}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """Fused layers in execution order, and the rows of the result that a firing computes.

    The last layer writes the result. channel_blocks: the number of passes of a firing over the columns.
    Each pass computes one block of the channels of the layers before the accumulating layer, which
    holds partial sums of its rows between passes. tiles: the tiles of a stage of mode TILES. strips:
    in a plan, of all layers but the last in mode ROWS; a search leaves them to the geometry.
    primitive: chosen for a stage of one whole layer.
    """

    layers: tuple[str, ...]
    rows: int = 1
    mode: Mode = Mode.ROWS
    channel_blocks: int = 1
    accumulating_layer: str | None = None
    tiles: Tiles | None = None
    strips: tuple[Strip, ...] = ()
    primitive: NamedPrimitive | None = None

    def __post_init__(self) -> None:
        if not self.layers:
            raise InvalidPlan("expected at least one layer")

    @property
    def result(self) -> str:
        """The layer whose tensor the stage makes."""
        return self.layers[-1]


class Kind(Enum):
    """The contents of a buffer: how a tensor is stored, or what a group needs besides."""

    WHOLE = "whole"  # all rows of a tensor
    EXTERNAL = "external"  # all rows of an input or output, in the caller's memory
    LINE = "line buffer"  # a window of full rows
    RING = "ring buffer"  # a window of full rows, with room for those that a firing makes
    ACCUMULATORS = "accumulators"  # a sum for each element of a result
    STAGING = "staging"  # row blocks that come and go with a firing, and strips
    TILE = "tile"  # what a tile holds of a tensor, as large as the largest
    TILE_ROWS = "tile rows"  # rows of a tensor that the tiles below a tile need
    TILE_COLUMNS = "tile columns"  # columns of a tensor that the next tile needs
    SCRATCH = "scratch"  # what a layer may write while it computes
    KEPT = "kept"  # all rows of a variable, from frame to frame
    STATE = "state"  # what a layer itself keeps from frame to frame
    STATE_COPY = (
        "state copy"  # of a state in slow memory: copied here for a group, and back after it
    )
    WRITE_BUFFER = "write buffer"  # pixels of a result, before they are stored in slow memory
    WEIGHTS = "weights"  # of a layer, copied here in each frame as the first group begins
    RESIDENT = "resident weights"  # of a layer, copied here once, before the first frame


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamBuffer:
    """Bytes at an offset, for some groups: begin <= group < end.

    rows: the number of rows of the tensor that the buffer can hold; 0 for staging, tiles and scratch.
    readers: the layers that read the tensor in this buffer; empty for all readers that no other buffer
    of the tensor names. For scratch, the layers that use it. layout: of a whole tensor, CHW where the
    channels are planes; HWC or None where the channels of a pixel are adjacent.
    """

    name: str
    kind: Kind
    tensor: str  # or the result of the group's last stage, for staging
    rows: int = 0
    size: int = 0
    offset: int = 0
    begin: int
    end: int
    readers: tuple[str, ...] = ()
    layout: str | None = None

    def __post_init__(self) -> None:
        if self.begin >= self.end:
            raise InvalidPlan(
                f"groups {self.begin} to {self.end}; expected a first group and one past the last"
            )
        if self.layout not in (None, *LAYOUTS):
            raise InvalidPlan(f"layout {self.layout!r}; expected one of {', '.join(LAYOUTS)}")

    @staticmethod
    def of_group(
        kind: Kind, tensor: str, begin: int, end: int | None = None, *, size: int, rows: int = 0
    ) -> StreamBuffer:
        """Return a buffer without an offset that is named after its tensor and kind.

        end: one past the last group; default: the buffer belongs to group `begin` alone.
        """
        end = begin + 1 if end is None else end
        name = f"{tensor} {kind.value}"
        return StreamBuffer(
            name=name, kind=kind, tensor=tensor, rows=rows, size=size, begin=begin, end=end
        )

    @property
    def end_byte(self) -> int:
        """The byte after the last."""
        return self.offset + self.size

    @property
    def byte_range(self) -> tuple[int, int]:
        """The first byte, and the byte after the last."""
        return self.offset, self.end_byte

    def is_live(self, group: int) -> bool:
        """Return whether a group has the buffer."""
        return self.begin <= group < self.end

    def common_byte(self, other: StreamBuffer) -> int | None:
        """Return the first byte that two buffers have in common; None if they are disjoint."""
        begin = max(self.offset, other.offset)
        return begin if begin < min(self.end_byte, other.end_byte) else None

    @property
    def is_in_arena(self) -> bool:
        """Whether the buffer has bytes of the arena."""
        return self.kind is not Kind.EXTERNAL and self.size > 0

    @property
    def has_all_rows(self) -> bool:
        """Whether it holds the whole tensor."""
        return self.kind in (Kind.WHOLE, Kind.EXTERNAL, Kind.KEPT)

    @property
    def persists(self) -> bool:
        """Whether the buffer holds its bytes from frame to frame."""
        return self.kind in (Kind.KEPT, Kind.STATE)

    @property
    def has_rows(self) -> bool:
        """Whether it holds full rows of its tensor, for the layers that read it."""
        return self.has_all_rows or self.kind in (Kind.LINE, Kind.RING)


@dataclass(frozen=True, slots=True, kw_only=True)
class Turns:
    """Firings that follow one another, this many times: the results of the stages that fire."""

    times: int
    results: tuple[str, ...]

    def __post_init__(self) -> None:
        if not self.results:
            raise InvalidPlan("expected the result of at least one stage")

    @property
    def firings(self) -> int:
        """Firings of all times."""
        return self.times * len(self.results)


@dataclass(frozen=True, slots=True, kw_only=True)
class Transfer:
    """A copy of a whole tensor from one buffer of it to another, by their names."""

    source: str
    target: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedGroup:
    """Stages that fire interleaved, and the tensors that pass into and out of the group.

    streamed_input: the input of the network where it arrives row by row, or a whole tensor whose rows
    are copied into ring buffers; its rows are written like the rows of a result. A group without stages
    collects an input, which later groups read as a whole tensor. Where a network has several inputs,
    each may be a stage of its own, whose firings deliver rows. order: the firing sequence of the
    stages; empty where firing is driven by the demand of the last stage. transfers: copies before the
    first firing. concurrent: groups with the same label, of this plan or of other plans in the same
    arena, may run at the same time.
    """

    stages: tuple[Stage, ...]
    streamed_input: str | None = None
    order: tuple[Turns, ...] = ()
    transfers: tuple[Transfer, ...] = ()
    concurrent: str | None = None

    def __post_init__(self) -> None:
        if not self.stages and self.streamed_input is None:
            raise InvalidPlan("expected at least one stage, or a streamed input")

    @property
    def firings(self) -> Iterator[str]:
        """The result of the stage of each firing, in the explicit order."""
        for turns in self.order:
            for _ in range(turns.times):
                yield from turns.results


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """A memory of a board, and its size in bytes, or the bytes of it that a plan uses.

    is_slow: whether layers compute in another memory, and the traffic of this memory is counted.
    """

    name: str
    size: int
    is_slow: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryTraffic:
    """Bytes of a frame that are read from a slow memory and written to it."""

    memory: str
    read: int
    written: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamingPlan(Viewed):
    """The memory plan of a network in one arena.

    element_bytes: the element size of all tensors; None where each tensor has its own.
    multiply_accumulates: per frame, recomputation included. External buffers have offsets past the end
    of the arena. rematerialised: spans whose layers are recomputed, or computed by heads or by tiles
    of columns; stages and buffers name the copies. aliases: tensors inside the buffer of a host.
    layers: the first executed layer and one past the last, without inputs and outputs; None for all.
    memories: the memories that the arena is divided into, in address order; empty for a single memory.
    traffic: the bytes that a frame reads from and writes to slow memories, by firings and by copies.
    flash: the memory outside the arena that stores the weights, slow as well; None where reads of
    weights are not counted. A layer reads its weights in each firing: from the copy made in the frame,
    else from the resident copy, else from the flash.
    """

    network: str
    element_bytes: int | None
    groups: tuple[PlannedGroup, ...]
    buffers: tuple[StreamBuffer, ...]
    arena_bytes: int
    multiply_accumulates: int
    rematerialised: tuple[Span, ...] = ()
    aliases: tuple[Alias, ...] = ()
    layers: tuple[int, int] | None = None
    memories: tuple[Memory, ...] = ()
    flash: str | None = None
    traffic: tuple[MemoryTraffic, ...] = ()

    def __post_init__(self) -> None:
        if not self.groups:
            raise InvalidPlan("expected at least one group")
        first, end = self.layers or (0, 1)
        if first >= end:
            raise InvalidPlan(f"layers {self.layers}; expected a first layer and one past the last")

    def __repr__(self) -> str:
        parts = f"{counted(len(self.groups), 'group')}, {counted(len(self.buffers), 'buffer')}"
        return f"StreamingPlan({self.network}: {parts}, {self.arena_bytes} bytes)"

    def __str__(self) -> str:
        """The plan in lines of 80 columns: groups with their stages, then buffers by their offsets."""
        count = len(self.groups)
        title = f"{self.network}: {counted(count, 'group')}, arena of {self.arena_bytes} bytes"
        lines = [f"{title}, {self.multiply_accumulates} multiply-accumulates"]
        fast = [buffer for buffer in self.buffers if not self.is_in_slow_memory(buffer)]
        tops = [
            max(
                (b.end_byte for b in fast if b.is_in_arena and b.is_live(number)),
                default=0,
            )
            for number in range(count)
        ]
        for number, (group, top) in enumerate(zip(self.groups, tops, strict=True)):
            peak = ", the peak" if top == max(tops) else ""
            lines.append(f"group {number + 1}: up to byte {top}{peak}")
            lines += (
                f"  {line}" for line in _group_in_words(group, is_copied=self.is_copied(number))
            )
        regions = self.placed_memories or ((Memory(name="arena", size=self.arena_bytes), 0),)
        areas = [(memory.name, begin, begin + memory.size) for memory, begin in regions]
        areas.append(("memory outside the arena", self.arena_bytes, self.all_bytes))
        for name, begin, end in areas:
            inside = [
                buffer
                for buffer in self.buffers
                if begin <= buffer.offset < end
                and buffer.size
                and (buffer.kind is Kind.EXTERNAL) == (begin >= self.arena_bytes)
            ]
            if inside:
                lines += [f"{name}, bytes {begin} to {end}", _BUFFER_HEAD]
                inside.sort(key=lambda buffer: (buffer.begin, buffer.offset, buffer.end))
                lines += map(_buffer_in_words, inside)
        for alias in self.aliases:
            lines += _wrapped(_alias_in_words(alias))
        for span in self.rematerialised:
            lines += _wrapped(_span_in_words(span))
        for traffic in self.traffic:
            lines.append(
                f"{traffic.memory}: {traffic.read} bytes read, {traffic.written} written a frame"
            )
        return "\n".join(lines)

    @property
    def collects_input(self) -> bool:
        """Whether the input arrives row by row and is stored whole before the first layer runs."""
        return not self.groups[0].stages

    @property
    def slow_bytes(self) -> int:
        """Bytes of a frame from and to slow memories and the flash."""
        return sum(flow.read + flow.written for flow in self.traffic)

    @property
    def kept_bytes(self) -> int:
        """Bytes of the arena that are retained from frame to frame."""
        return sum(buffer.size for buffer in self.buffers if buffer.persists)

    @property
    def all_bytes(self) -> int:
        """Bytes of the arena and of the external buffers after it."""
        external = [buffer for buffer in self.buffers if buffer.kind is Kind.EXTERNAL]
        return max((self.arena_bytes, *(buffer.end_byte for buffer in external)))

    @property
    def placed_memories(self) -> tuple[tuple[Memory, int], ...]:
        """Each memory with the byte of the arena with which it begins."""
        ends = accumulate(memory.size for memory in self.memories)
        return tuple(
            (memory, end - memory.size) for memory, end in zip(self.memories, ends, strict=True)
        )

    def buffer_of(self, kind: Kind, tensor: str, group: int) -> StreamBuffer | None:
        """Return the first buffer of a kind for a tensor that a group has; None without any."""
        for buffer in self.buffers:
            if (buffer.kind, buffer.tensor) == (kind, tensor) and buffer.is_live(group):
                return buffer
        return None

    def by_tensor(self, kind: Kind) -> dict[str, StreamBuffer]:
        """Return the buffers of a kind, by tensor; the last of several for one tensor."""
        return {buffer.tensor: buffer for buffer in self.buffers if buffer.kind is kind}

    def memory_of(self, buffer: StreamBuffer) -> Memory | None:
        """Return the memory that holds a buffer; None outside the arena, or for a single memory."""
        for memory, begin in self.placed_memories:
            if begin <= buffer.offset and buffer.end_byte <= begin + memory.size:
                return memory
        return None

    def is_in_slow_memory(self, buffer: StreamBuffer) -> bool:
        """Whether a buffer is in a memory whose traffic is counted."""
        memory = self.memory_of(buffer)
        return memory is not None and memory.is_slow

    def is_copied(self, group: int) -> bool:
        """Whether the input of a group is stored whole and its rows are copied into rings.

        Into a buffer for all rows that names its readers, rows are written as they arrive.
        """
        here = [
            buffer
            for buffer in self.buffers
            if buffer.tensor == self.groups[group].streamed_input and buffer.is_live(group)
        ]
        is_there = any(buffer.has_all_rows and not buffer.readers for buffer in here)
        return is_there and any(buffer.kind is Kind.RING for buffer in here)

    def written(self, tensor: str, group: int) -> tuple[StreamBuffer, ...]:
        """The buffers to which a group writes the rows of a tensor as they are computed or arrive.

        The external buffer is first, then the buffer for the readers that no other buffer names.
        """
        copied = {copy.target for copy in self.groups[group].transfers}
        written = [
            buffer
            for buffer in self.buffers
            if buffer.tensor == tensor and buffer.has_rows and buffer.is_live(group)
            if buffer.name not in copied
        ]
        # Whole tensors before lines, and lines before rings.
        kinds = (Kind.EXTERNAL, Kind.KEPT, Kind.WHOLE, Kind.LINE, Kind.RING)
        return tuple(
            sorted(
                written,
                key=lambda buffer: (
                    buffer.kind is not Kind.EXTERNAL,
                    bool(buffer.readers),
                    kinds.index(buffer.kind),
                ),
            )
        )


def _wrapped(text: str, indent: str = "  ") -> list[str]:
    return wrap(text, COLUMNS - len(indent), subsequent_indent=indent, break_on_hyphens=False)


def _alias_in_words(alias: Alias) -> str:
    offsets = {"row": alias.row, "column": alias.column, "channel": alias.channel}
    begin = ", ".join(f"{axis} {offset}" for axis, offset in offsets.items() if offset)
    return f"{alias.tensor} lies in {alias.host}, from {begin or 'its first row'} on"


def _span_in_words(span: Span) -> str:
    how = "again" if span.tiles == 1 else f"in {span.tiles} tiles of columns"
    if span.by_heads:
        how = "head by head"
    elif span.by_inputs:
        how = f"for each input of {span.source}"
    return f"layers from {span.source} to {span.result} are computed {how}"


def _group_in_words(group: PlannedGroup, *, is_copied: bool) -> Iterator[str]:
    """Yield the printed lines of a group: its copies and input, and its stages with their strips."""
    for transfer in group.transfers:
        yield from _wrapped(f"copies {transfer.source} to {transfer.target}")
    if group.streamed_input is not None:
        how = "copied into a ring buffer" if is_copied else "taken as they arrive"
        yield from _wrapped(f"rows of {group.streamed_input}, {how}")
    for stage in group.stages:
        yield from _wrapped(f"{_stage_in_words(stage)}: {', '.join(stage.layers)}")
        for strip in stage.strips:
            rows, columns = counted(strip.rows, "row"), counted(strip.columns, "column")
            yield from _wrapped(f"  strip of {strip.layer}: {rows}, {columns}", "    ")


def _stage_in_words(stage: Stage) -> str:
    """Return the mode of a stage in words, with its blocks and its primitive."""
    words = f"{counted(stage.rows, 'row')} a firing"
    if stage.tiles is not None:
        words = f"{stage.tiles} tiles, halo {'cached' if stage.tiles.halo_cached else 'recomputed'}"
    elif stage.mode is Mode.ACCUMULATING:
        words = "accumulating row by row"
    elif stage.mode is Mode.CHANNELS:
        words = "feature map by feature map"
    if stage.channel_blocks > 1:
        words += f", {stage.channel_blocks} channel blocks"
    return words if stage.primitive is None else f"{words}, {stage.primitive.name}"


def _buffer_in_words(buffer: StreamBuffer) -> str:
    """Return the line of a buffer, its tensor shortened in front."""
    groups = f"{buffer.begin + 1}-{buffer.end}" if buffer.end > buffer.begin + 1 else buffer.end
    line = f"  {buffer.offset:>9} {buffer.size:>9}  {groups:>7}  {buffer.rows or '':>4}"
    line += f"  {buffer.kind.value:<16}  "
    left = COLUMNS - len(line)
    name = buffer.tensor if len(buffer.tensor) <= left else f"..{buffer.tensor[2 - left :]}"
    return line + name

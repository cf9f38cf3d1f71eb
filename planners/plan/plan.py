"""A plan of groups, stages and buffers: which rows are made when, and where every byte lies.

Tensors lie row by row, in a row column by column, the feature maps of a place side by side. Row y
of a tensor that lies whole is its row y; of a line of R rows it is row y mod R, of a strip of K
columns column x is column x mod K, with the channels of one part. What is staged lies in the pool of
the group, at its bottom or at its top in turn; strips, and behind them the sums of a firing, lie in
the pool between the two. A tensor that lies inside another (planners.plan.aliases) has its places where
that one has them.

Stages of a group take turns as they ask for one another, or in an order that the plan gives. Then rows
go where they stay at once: into rings, of which a tensor may have several for different readers.

Groups of one network, or of several in one arena, may work at the same time, on frames behind one
another. What passes between two such groups lies in two buffers: when both have finished their
frames, the one is copied to the other.

A stage of a plan: which layers work together, and how they go through their work.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple

ACCUMULATOR_BYTES = 4  # of a sum: int32 for int8, float for float
VERSION = 3  # of the JSON form; 1 knew no orders, rings and inlays, 2 nothing at the same time


class Span(NamedTuple):
    """The part of a course between two cuts where layers work twice, by the tensors at the cuts."""

    source: str
    result: str


class Inlay(NamedTuple):
    """A tensor inside a host: the row, column and channel of the host where its first element lies."""

    tensor: str
    host: str
    row: int = 0
    column: int = 0
    channel: int = 0


class Kind(Enum):
    """The contents of a buffer."""

    WHOLE = "whole"  # all rows of a tensor
    OUTSIDE = "outside"  # all rows of an input or result, in the caller's memory
    LINE = "line"  # a window of full rows
    RING = "ring"  # a window of full rows, with room for those that a firing makes
    SUMS = "sums"  # a sum for each element of a result
    POOL = "pool"  # staged batches, and strips
    TILE = "tile"  # what a tile holds of a tensor, as large as the largest
    TILE_ROWS = "tile rows"  # rows of a tensor that the tiles below a tile need
    TILE_COLUMNS = "tile columns"  # columns of a tensor that the next tile needs
    SCRATCH = "scratch"  # what a layer may write while it computes


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamBuffer:
    """Bytes at an offset, for some groups: begin <= group < end.

    rows: of the tensor, as far as the buffer has room. Zero for a pool, and for what belongs to
    tiles or scratch. readers: layers that read the tensor here; none where those do that no other
    buffer of it names. Of scratch, the layers that use it. layout: CHW where the feature maps of a
    tensor that lies whole follow one another; HWC, or none, where a place has them side by side.
    """

    name: str
    kind: Kind
    tensor: str  # or the result of the group's last stage, for a pool
    rows: int
    size: int
    offset: int
    begin: int
    end: int
    readers: tuple[str, ...] = ()
    layout: str | None = None

    @property
    def has_all_rows(self) -> bool:
        """Whether each row of the tensor has a place of its own."""
        return self.kind in (Kind.WHOLE, Kind.OUTSIDE)

    @property
    def has_rows(self) -> bool:
        """Whether it holds full rows of its tensor, for the layers that read it."""
        return self.kind in (Kind.WHOLE, Kind.OUTSIDE, Kind.LINE, Kind.RING)


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedPrimitive:
    """How a layer is computed, and the layouts of the tensors that it reads and writes."""

    name: str
    reads: str
    writes: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedStage:
    """A stage with the rows and columns that its strips hold: layer, rows, columns.

    primitive: of a stage of one layer that works whole, where it is chosen.
    """

    stage: Stage
    strips: tuple[tuple[str, int, int], ...]
    primitive: NamedPrimitive | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Turns:
    """Firings that follow one another, so many times: the results of the stages that fire."""

    times: int
    results: tuple[str, ...]

    @property
    def firings(self) -> int:
        """Firings of all times."""
        return self.times * len(self.results)


@dataclass(frozen=True, slots=True, kw_only=True)
class HandOver:
    """A tensor that lies whole and is copied from one buffer of it to another, by their names."""

    source: str
    target: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedGroup:
    """Stages that work at the same time, and what passes into and out of them.

    arriving: the network's input where it comes row by row, or a tensor that lies whole, whose rows
    are copied into rings; it is made like a result. A group without stages collects an input, and the
    groups behind find it whole. Where a network has several inputs, each may be a stage of its own,
    which brings some rows a firing. order: in which the stages fire; where there is none, firing is
    driven by the demand of the last stage. hand_overs: copies that are made before the first
    firing. at_once: groups with the same word, of this plan or of others in the same arena, may work
    at the same time.
    """

    stages: tuple[PlannedStage, ...]
    arriving: str | None
    order: tuple[Turns, ...] = ()
    hand_overs: tuple[HandOver, ...] = ()
    at_once: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamingPlan:
    """A network in an arena.

    element_bytes: of all tensors; None where each has its own. multiply_accumulates: of a frame,
    with those that are done again. What is outside begins behind the arena. again: where layers that
    sums need are there twice; stages and buffers name the copies. inlays: tensors that have no buffer
    of their own, but lie inside that of another. layers: the first and one past the last of those that
    are worked, counted without inputs and outputs, where they are not all.
    """

    network: str
    element_bytes: int | None
    groups: tuple[PlannedGroup, ...]
    buffers: tuple[StreamBuffer, ...]
    arena_bytes: int
    multiply_accumulates: int
    again: tuple[Span, ...] = ()
    inlays: tuple[Inlay, ...] = ()
    layers: tuple[int, int] | None = None

    @property
    def collects_input(self) -> bool:
        """Whether the input comes row by row, and lies whole before the first layer works."""
        return not self.groups[0].stages

    @property
    def all_bytes(self) -> int:
        """Bytes of the arena and of what is outside."""
        ends = (one.offset + one.size for one in self.buffers if one.kind is Kind.OUTSIDE)
        return max((self.arena_bytes, *ends))

    def is_copied(self, group: int) -> bool:
        """Whether what arrives at a group lies whole in memory, and its rows are copied into rings.

        A buffer with room for all rows that is for some readers alone takes rows as they arrive.
        """
        here = [
            one
            for one in self.buffers
            if one.tensor == self.groups[group].arriving and one.begin <= group < one.end
        ]
        is_there = any(one.has_all_rows and not one.readers for one in here)
        return is_there and any(one.kind is Kind.RING for one in here)

    def written(self, tensor: str, group: int) -> tuple[StreamBuffer, ...]:
        """The buffers that get the rows of a tensor as a group makes it, or as it comes in.

        First the one outside, or that for the readers which no other buffer names.
        """
        taken = {copy.target for copy in self.groups[group].hand_overs}
        found = [
            one
            for one in self.buffers
            if one.tensor == tensor and one.has_rows and one.begin <= group < one.end
        ]
        return tuple(
            sorted(
                (one for one in found if one.name not in taken),
                key=lambda one: (one.kind is not Kind.OUTSIDE, bool(one.readers), _order(one)),
            )
        )

    def is_live(self, buffer: StreamBuffer, group: int) -> bool:
        """Whether a buffer holds bytes of the arena in a group."""
        is_inside = buffer.kind is not Kind.OUTSIDE and buffer.size > 0
        return is_inside and buffer.begin <= group < buffer.end

    def to_json(self) -> dict[str, Any]:
        """Return the plan as a JSON value."""
        return {
            "version": VERSION,
            "network": self.network,
            "layers": None if self.layers is None else list(self.layers),
            "element_bytes": self.element_bytes,
            "arena_bytes": self.arena_bytes,
            "multiply_accumulates": self.multiply_accumulates,
            "again": [{"from": span.source, "to": span.result} for span in self.again],
            "inlays": [one._asdict() for one in self.inlays],
            "groups": [
                {
                    "arriving": group.arriving,
                    "hand_overs": [
                        {"from": one.source, "to": one.target} for one in group.hand_overs
                    ],
                    "at_once": group.at_once,
                    "order": [
                        {"times": one.times, "results": list(one.results)} for one in group.order
                    ],
                    "stages": [
                        {
                            "layers": list(one.stage.layers),
                            "course": one.stage.manner.value,
                            "rows": one.stage.rows,
                            "parts": one.stage.parts,
                            "summing": one.stage.summing,
                            "tiles": _tiles_as_json(one.stage.tiles),
                            "strips": [
                                {"layer": layer, "rows": rows, "columns": columns}
                                for layer, rows, columns in one.strips
                            ],
                            "primitive": _primitive_as_json(one.primitive),
                        }
                        for one in group.stages
                    ],
                }
                for group in self.groups
            ],
            "buffers": [
                {
                    "name": buffer.name,
                    "kind": buffer.kind.value,
                    "tensor": buffer.tensor,
                    "readers": list(buffer.readers),
                    "rows": buffer.rows,
                    "size": buffer.size,
                    "offset": buffer.offset,
                    "groups": [buffer.begin, buffer.end],
                    "layout": buffer.layout,
                }
                for buffer in self.buffers
            ],
        }


def _order(buffer: StreamBuffer) -> int:
    """Whole tensors before lines, and lines before rings."""
    return (Kind.OUTSIDE, Kind.WHOLE, Kind.LINE, Kind.RING).index(buffer.kind)


def _tiles_as_json(tiles: Tiles | None) -> dict[str, Any] | None:
    if tiles is None:
        return None
    return {
        "row_ends": list(tiles.rows),
        "column_ends": list(tiles.columns),
        "keeps": tiles.keeps,
    }


def _primitive_as_json(primitive: NamedPrimitive | None) -> dict[str, Any] | None:
    if primitive is None:
        return None
    return {"name": primitive.name, "reads": primitive.reads, "writes": primitive.writes}


class Manner(Enum):
    """How a stage goes through its work.

    ROWS: a firing makes some result rows, along their columns where there are several layers.
    SUMS: a firing adds a row of the input to the sums of its one layer; the last makes the result.
    CHANNELS: one firing; for each feature map of the result, the first of two layers computes what
    the second sums up at once. Its input has to lie whole. TILES: one firing; the result is made
    rectangle by rectangle, each from the rectangles that it needs of the tensors before it. What the
    stage reads and its result lie whole.
    """

    ROWS = "rows"
    SUMS = "sums"
    CHANNELS = "channels"
    TILES = "tiles"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tiles:
    """The tiles of a result, by where they end.

    keeps: whether a tile takes over what those before it made.
    """

    rows: tuple[int, ...]
    columns: tuple[int, ...]
    keeps: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """Layers in their order, the last of which writes the result, and result rows a firing.

    parts: how often a firing goes along the columns, with a part of the channels of the layers
    before the summing layer each time; that layer keeps sums of its rows meanwhile. tiles: of a stage
    that works tile by tile.
    """

    layers: tuple[str, ...]
    rows: int = 1
    manner: Manner = Manner.ROWS
    parts: int = 1
    summing: str | None = None  # the layer that sums over the parts
    tiles: Tiles | None = None

    @property
    def result(self) -> str:
        """The layer whose tensor the stage makes."""
        return self.layers[-1]

"""Values that a page about a network shows: its layers, and its memory in all ways found."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

from csdf.draw.report.sections import Contribution
from planners.memory_ways import (
    PARTS_APART,
    WHOLE_APART,
    MemoryWay,
    least_way,
    reduction,
)
from planners.parts_memory import MemoryApart, NetworkMemory, way_apart


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerFigures:
    """A layer. Bytes; buffers are those of its inputs; nanoseconds of a frame, by parts."""

    name: str
    operator: str
    output: str
    phases: int
    parameters: int
    multiply_accumulates: int
    output_bytes: int
    whole_buffers: int
    parts_buffers: int
    nanoseconds: int


class Mark(NamedTuple):
    """A line across all bars: an option, and the bytes at which it stands."""

    title: str
    place: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """The memory that a network should fit. room: bytes left for buffers; below 0 if there is none.

    title: in words. elsewhere: room for buffers if the parameters lay elsewhere. marks: on the bars.
    flash_lacks: bytes of flash that the parameters take too much.
    """

    title: str
    room: int
    elsewhere: int | None = None
    marks: tuple[Mark, ...] = ()
    flash_lacks: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkFindings:
    """The findings about the memory of a network.

    parameters: bytes; an array that layers share counts once. stored: bytes that they take in flash,
    as C has them; None: as many. apart: with each buffer apart; None where that was not found in
    time. added: what others know, such as arenas.
    """

    name: str
    layers: tuple[LayerFigures, ...]
    parameters: int
    apart: MemoryApart | None
    added: tuple[Contribution, ...] = ()
    limit: Limit | None = None
    stored: int | None = None

    @property
    def ways_apart(self) -> tuple[tuple[MemoryWay, NetworkMemory], ...]:
        """The ways with each buffer apart, and what was found of them."""
        titles = (WHOLE_APART, PARTS_APART)
        return tuple(
            (way_apart(title, memory), memory)
            for title, memory in zip(titles, self.apart or (), strict=False)
        )

    @property
    def ways(self) -> tuple[MemoryWay, ...]:
        """All ways that were found, those of whole layers first."""
        others = (
            MemoryWay(need.title, need.buffers, need.lower_bound, self.parameters)
            for one in self.added
            for need in one.needs
        )
        found = [*(way for way, _ in self.ways_apart), *others]
        return tuple(sorted(found, key=lambda way: not way.is_whole))

    @property
    def least(self) -> MemoryWay | None:
        """The way with the smallest buffers."""
        return least_way(self.ways) if self.ways else None

    @property
    def least_whole(self) -> MemoryWay | None:
        """Of the ways with whole layers, the one with the smallest buffers."""
        whole = [way for way in self.ways if way.is_whole]
        return least_way(whole) if whole else None

    @property
    def saving(self) -> Fraction:
        """The part of the memory that the least way saves over the least of whole layers."""
        return reduction(self.ways)

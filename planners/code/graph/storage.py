"""Circular buffers of a schedule in one arena: capacities, lifetimes, offsets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from csdf.errors import CsdfError
from csdf.model.graph import Graph
from planners.arena.problem import Buffer
from planners.code.graph.looped import Effects, Interleaved, LoopedBody, Node
from planners.memory.placement import buffer_offsets

ALIGNMENT = 8  # bytes, of the arena
MOST_BYTES = 2**31 - 1  # limit for the arena, and for the tokens of a buffer: both have 32 bits
MOST_PLACED = 300  # buffers up to which those with disjoint lifetimes may overlap


@dataclass(frozen=True, slots=True, kw_only=True)
class CircularBuffer:
    """The circular buffer of a channel."""

    channel: str
    capacity: int  # tokens
    token_bytes: int
    offset: int

    @property
    def size(self) -> int:
        """The size of the buffer in bytes."""
        return self.capacity * self.token_bytes

    def to_json(self) -> dict[str, Any]:
        """Return the channel, the sizes and the offset as a JSON value."""
        return asdict(self)


def rings_of(
    graph: Graph, schedule: Node, effects: Effects, token_bytes: Mapping[str, int]
) -> tuple[CircularBuffer, ...]:
    """Return the buffers of a schedule with their offsets in the arena.

    A channel with a capacity gets a buffer of that capacity, any other channel the capacity that the
    schedule needs. Up to MOST_PLACED buffers, buffers with disjoint lifetimes may overlap. Raises
    CsdfError if the size of the arena exceeds 32 bits.
    """
    lives = lifetimes(graph, schedule)
    rings, buffers = [], []
    for channel in graph.channels:
        name, width = channel.name, token_bytes[channel.name]
        capacity = max(channel.initial_tokens + effects[name].highest, channel.capacity or 0)
        ring = CircularBuffer(channel=name, capacity=capacity, token_bytes=width, offset=0)
        if max(ring.size, capacity) > MOST_BYTES:
            raise CsdfError(
                f"channel {name!r} needs {capacity} tokens, {ring.size} bytes; "
                f"at most {MOST_BYTES} can be counted in 32 bits"
            )
        rings.append(ring)
        (first, end), alignment = lives[name], min(ALIGNMENT, width & -width) if width else 1
        buffers.append(Buffer(name=name, size=ring.size, start=first, end=end, alignment=alignment))
    offsets = _offsets(buffers)
    placed = tuple(replace(ring, offset=offsets[ring.channel]) for ring in rings)
    if arena_bytes(placed) > MOST_BYTES:
        raise CsdfError(f"the buffers take {arena_bytes(placed)} bytes; at most {MOST_BYTES}")
    return placed


def arena_bytes(rings: Sequence[CircularBuffer]) -> int:
    """Return the size of the arena of all buffers, in bytes."""
    end = max((ring.offset + ring.size for ring in rings), default=0)
    return -(-end // ALIGNMENT) * ALIGNMENT


def _offsets(buffers: Sequence[Buffer]) -> dict[str, int]:
    """The offset of each buffer; without overlaps for more than MOST_PLACED."""
    if len(buffers) <= MOST_PLACED:
        live_bytes = [
            sum(buffer.size for buffer in buffers if buffer.start <= moment < buffer.end)
            for moment in {buffer.start for buffer in buffers}
        ]
        whole = frozenset(buffer.name for buffer in buffers)
        return buffer_offsets(buffers, {}, whole=whole, enough=max(live_bytes, default=0))
    offsets, end = {}, 0
    for buffer in sorted(buffers, key=lambda buffer: -buffer.alignment):
        offsets[buffer.name] = -(-end // buffer.alignment) * buffer.alignment
        end = offsets[buffer.name] + buffer.size
    return offsets


def lifetimes(graph: Graph, schedule: Node) -> dict[str, tuple[int, int]]:
    """Return the lifetime of each channel: the leaves of the schedule where it may hold tokens.

    Leaves are numbered from left to right, each appearance once. A channel with initial tokens is
    live throughout the schedule. Any other channel is empty at the start of each iteration of the
    innermost loop around its two actors. It is live from the part of the loop body that produces its
    tokens to the part that consumes them.
    Source: Murthy, Bhattacharyya, Shared buffer implementations of signal processing systems using
    lifetime analysis techniques, IEEE Trans. CAD 20(2), 2001.
    """
    spans: list[dict[str, tuple[int, int]]] = []
    end = _find_spans(schedule, 0, spans)
    lifetimes = {channel.name: (0, end) for channel in graph.channels}
    for channel in graph.channels:
        if not channel.initial_tokens:
            ends = {channel.producer, channel.consumer}
            inside = next((span for span in spans if ends <= span.keys()), None)
            assert inside is not None, channel.name
            lifetimes[channel.name] = inside[channel.producer][0], inside[channel.consumer][1]
    return lifetimes


def _find_spans(node: Node, place: int, spans: list[dict[str, tuple[int, int]]]) -> int:
    """Add, for each loop body in postorder, its actors with the leaf range of their part."""
    if not isinstance(node, LoopedBody):
        names = node.order if isinstance(node, Interleaved) else (node.actor,)
        spans.append(dict.fromkeys(names, (place, place + 1)))
        return place + 1
    inside: dict[str, tuple[int, int]] = {}
    for inner in node.body:
        behind = _find_spans(inner, place, spans)
        inside |= dict.fromkeys(spans[-1], (place, behind))
        place = behind
    spans.append(inside)
    return place

"""Circular buffers of a schedule in one arena: capacities, lifetimes, offsets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
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
    graph: Graph, schedule: Node, found: Effects, token_bytes: Mapping[str, int]
) -> tuple[CircularBuffer, ...]:
    """Return the buffers of a schedule with their offsets in the arena.

    A channel with a capacity gets a buffer of that capacity, any other channel the capacity that the
    schedule needs. Up to MOST_PLACED buffers, buffers with disjoint lifetimes may overlap. Raises
    CsdfError if the size of the arena exceeds 32 bits.
    """
    lives = lifetimes(graph, schedule)
    pieces = []
    capacities = {}
    for channel in graph.channels:
        needed = channel.initial_tokens + found[channel.name].highest
        capacities[channel.name] = max(needed, channel.capacity or 0)
        first, end = lives[channel.name]
        width = token_bytes[channel.name]
        size = capacities[channel.name] * width
        alignment = min(ALIGNMENT, width & -width) if width else 1
        pieces.append(
            Buffer(name=channel.name, size=size, start=first, end=end, alignment=alignment)
        )
        if max(size, capacities[channel.name]) > MOST_BYTES:
            raise CsdfError(
                f"channel {channel.name!r} needs {capacities[channel.name]} tokens, {size} bytes; "
                f"at most {MOST_BYTES} can be counted in 32 bits"
            )
    offsets = _offsets(pieces)
    rings = tuple(
        CircularBuffer(
            channel=channel.name,
            capacity=capacities[channel.name],
            token_bytes=token_bytes[channel.name],
            offset=offsets[channel.name],
        )
        for channel in graph.channels
    )
    if arena_bytes(rings) > MOST_BYTES:
        raise CsdfError(f"the buffers take {arena_bytes(rings)} bytes; at most {MOST_BYTES}")
    return rings


def arena_bytes(rings: Sequence[CircularBuffer]) -> int:
    """Return the size of the arena of all buffers, in bytes."""
    end = max((ring.offset + ring.size for ring in rings), default=0)
    return -(-end // ALIGNMENT) * ALIGNMENT


def _offsets(pieces: Sequence[Buffer]) -> dict[str, int]:
    if len(pieces) <= MOST_PLACED:
        live_bytes = [
            sum(piece.size for piece in pieces if piece.start <= moment < piece.end)
            for moment in {piece.start for piece in pieces}
        ]
        whole = frozenset(piece.name for piece in pieces)
        return buffer_offsets(pieces, {}, whole=whole, enough=max(live_bytes, default=0))
    offsets, end = {}, 0
    for piece in sorted(pieces, key=lambda piece: -piece.alignment):
        offsets[piece.name] = -(-end // piece.alignment) * piece.alignment
        end = offsets[piece.name] + piece.size
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

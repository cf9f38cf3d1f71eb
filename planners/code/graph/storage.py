"""Circular buffers of a schedule in one arena: capacities, lifetimes, offsets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from csdf.errors import CsdfError
from csdf.model.graph import Channel, Graph
from planners.code.graph.looped import Effects, Interleaved, LoopedBody, Node
from planners.memory.placement import GroupBytes, placed

ALIGNMENT = 8  # bytes, of the arena
MOST_BYTES = 2**31 - 1  # of the arena, and tokens of a buffer: they are counted in 32 bits
MOST_PLACED = 300  # buffers that are laid over one another where they do not live together


@dataclass(frozen=True, slots=True, kw_only=True)
class CircularBuffer:
    """The circular buffer of a channel."""

    channel: str
    capacity: int  # tokens
    token_bytes: int
    offset: int

    @property
    def size(self) -> int:
        """Its bytes."""
        return self.capacity * self.token_bytes


def rings_of(
    graph: Graph, schedule: Node, found: Effects, token_bytes: Mapping[str, int]
) -> tuple[CircularBuffer, ...]:
    """Return the buffers of a schedule, each at its place in the arena.

    A channel with a capacity has so much room, the others what the schedule needs. Buffers lie over
    one another where they never hold tokens at the same time. Raises CsdfError where the arena is
    too large for 32 bits.
    """
    lives = lifetimes(graph, schedule)
    pieces = []
    capacities = {}
    for channel in graph.channels:
        effect = found[channel.name]
        needed = channel.initial_tokens + effect.highest
        capacities[channel.name] = max(needed, channel.capacity or 0)
        size = capacities[channel.name] * token_bytes[channel.name]
        first, end = lives[channel.name]
        alignment = _alignment(token_bytes[channel.name])
        pieces.append(GroupBytes(channel.name, size, first, end, alignment))
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
    """Return the bytes that all buffers lie in."""
    end = max((ring.offset + ring.size for ring in rings), default=0)
    return -(-end // ALIGNMENT) * ALIGNMENT


def _alignment(size: int) -> int:
    return min(ALIGNMENT, size & -size) if size else 1


def _offsets(pieces: Sequence[GroupBytes]) -> dict[str, int]:
    if len(pieces) <= MOST_PLACED:
        moments = {piece.begin for piece in pieces}
        live = max(
            (
                sum(piece.size for piece in pieces if piece.begin <= moment < piece.end)
                for moment in moments
            ),
            default=0,
        )
        return placed(pieces, (), enough=live)
    offsets, end = {}, 0
    for piece in sorted(pieces, key=lambda piece: -piece.alignment):
        offsets[piece.name] = -(-end // piece.alignment) * piece.alignment
        end = offsets[piece.name] + piece.size
    return offsets


def lifetimes(graph: Graph, schedule: Node) -> dict[str, tuple[int, int]]:
    """Return between which places of the schedule each channel may hold tokens.

    Places are counted from left to right, each once. A channel with tokens at the beginning always
    may; any other is empty whenever a round of the innermost loop around its two actors begins, so
    it lives from the part of that round that makes its tokens to the part that takes them.
    Source: Murthy, Bhattacharyya, Shared buffer implementations of signal processing systems using
    lifetime analysis techniques, IEEE Trans. CAD 20(2), 2001.
    """
    spans: list[dict[str, tuple[int, int]]] = []
    end = _find_spans(schedule, 0, spans)
    lifetimes = {}
    for channel in graph.channels:
        lifetimes[channel.name] = _lifetime(channel, spans, end)
    return lifetimes


def _find_spans(node: Node, place: int, spans: list[dict[str, tuple[int, int]]]) -> int:
    """Add, for each body, inner ones first, the actors in it with the places of their part."""
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


def _lifetime(
    channel: Channel, spans: Sequence[Mapping[str, tuple[int, int]]], end: int
) -> tuple[int, int]:
    if channel.initial_tokens:
        return 0, end
    for inside in spans:
        if channel.producer in inside and channel.consumer in inside:
            return inside[channel.producer][0], inside[channel.consumer][1]
    raise AssertionError(f"{channel.name} is not in the schedule")

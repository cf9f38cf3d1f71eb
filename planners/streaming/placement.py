"""Offsets for the buffers of a plan, where a result may lie over rows of its input that are dead."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

TRIES = 400  # orders in which the buffers are placed


class Piece(NamedTuple):
    """Bytes over some groups."""

    name: str
    size: int
    begin: int
    end: int
    alignment: int


class Lead(NamedTuple):
    """A buffer may lie over another if that begins at least so many bytes behind it."""

    below: str
    above: str
    bytes: int


def placed(pieces: Sequence[Piece], leads: Sequence[Lead], *, enough: int) -> dict[str, int]:
    """Return an offset for each piece, such that the arena is small.

    Pieces alive at one time do not overlap, unless a lead allows it. enough: an arena of so many
    bytes cannot be improved on. Places the pieces at the lowest offset that is free, in many orders
    drawn from one seed; a heuristic.
    """
    allowed = {(lead.below, lead.above): lead.bytes for lead in leads}
    best: dict[str, int] = {}
    best_end = -1
    for order in _orders(pieces):
        found = _lowest(order, allowed)
        end = max((found[piece.name] + piece.size for piece in pieces), default=0)
        if best_end < 0 or end < best_end:
            best, best_end = found, end
        if best_end <= enough:
            break
    return best


def _orders(pieces: Sequence[Piece]) -> Iterator[list[Piece]]:
    yield sorted(pieces, key=lambda one: (-one.size, one.begin))
    yield sorted(pieces, key=lambda one: (one.begin, -one.size))
    yield sorted(pieces, key=lambda one: (-one.end, -one.size))
    yield sorted(pieces, key=lambda one: (-(one.end - one.begin), -one.size))
    source = random.Random(0)
    for _ in range(TRIES):
        yield sorted(pieces, key=lambda one: -one.size * source.uniform(0.3, 1.0))


def _lowest(order: Sequence[Piece], allowed: Mapping[tuple[str, str], int]) -> dict[str, int]:
    offsets: dict[str, int] = {}
    done: list[Piece] = []
    for piece in order:
        barred = sorted(
            _barred(piece, other, offsets[other.name], allowed)
            for other in done
            if piece.begin < other.end and other.begin < piece.end and other.size
        )
        offset = 0
        for first, end in barred:  # offsets from first + 1 to end - 1 are taken
            if first < offset < end:
                offset = -(-end // piece.alignment) * piece.alignment
        offsets[piece.name] = offset
        done.append(piece)
    return offsets


def _barred(
    piece: Piece, other: Piece, at: int, allowed: Mapping[tuple[str, str], int]
) -> tuple[int, int]:
    """The open interval of offsets at which a piece would lie over another, and may not."""
    first, end = at - piece.size, at + other.size
    if (piece.name, other.name) in allowed:  # the piece may lie below, reaching into the other
        first = max(first, at - allowed[piece.name, other.name])
    if (other.name, piece.name) in allowed:
        end = min(end, at + allowed[other.name, piece.name])
    return first, max(first, end)

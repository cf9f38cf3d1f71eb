"""Offsets for the buffers of a plan, where a result may lie over rows of its input that are dead."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from planners.streaming.offsets.chain_placement import ChainGroup, chain_offsets

TRIES = 120  # orders in which the buffers are placed, for each size of the arena that is tried
ROUNDS = 12  # sizes of the arena that are tried
FEWER_ROUNDS = 3  # where the chain has given an arena
NEAR = 256  # an arena above the least that could be by this part of it is near enough


class GroupBytes(NamedTuple):
    """Bytes over some groups. is_inner: whether they are of one group alone."""

    name: str
    size: int
    begin: int
    end: int
    alignment: int
    is_inner: bool = False


class Lead(NamedTuple):
    """A buffer may lie over another if that begins at least so many bytes behind it."""

    below: str
    above: str
    bytes: int


class _Order(NamedTuple):
    """Pieces in the order in which they are placed, and those that go as high as they can."""

    pieces: Sequence[GroupBytes]
    high: frozenset[str]


def placed(pieces: Sequence[GroupBytes], leads: Sequence[Lead], *, enough: int) -> dict[str, int]:
    """Return an offset for each piece, such that the arena is small.

    Pieces alive at one time do not overlap, unless a lead allows it. enough: an arena of so many
    bytes cannot be improved on. Halves the arenas between those that succeed and those that fail:
    in each the pieces are placed as low or as high as they can be, in many orders drawn from one
    seed. A heuristic: an arena in which no order succeeds may be large enough nevertheless.
    """
    allowed = {(lead.below, lead.above): lead.bytes for lead in leads}
    room = sum(piece.size + piece.alignment for piece in pieces)
    best = _along_the_chain(pieces, leads, enough, room)
    best_end, lower = _end(pieces, best) if best else room, enough
    for number in range(FEWER_ROUNDS if best else ROUNDS):
        if best and best_end <= lower + lower // NEAR:
            break
        cap = room if not best else lower if number < 2 else (lower + best_end - 1) // 2
        found = _within(pieces, allowed, cap, enough)
        if found is None:
            lower = cap + 1
        else:
            best = found
            best_end = _end(pieces, found)
    return best


def _along_the_chain(
    pieces: Sequence[GroupBytes], leads: Sequence[Lead], enough: int, room: int
) -> dict[str, int]:
    """Offsets where each group reads one whole tensor and writes one; none where that is not so."""
    groups = _chain(pieces, leads)
    if groups is None:
        return {}
    unit = max(piece.alignment for piece in pieces)
    sizes = {piece.name: -(-piece.size // unit) * unit for piece in pieces if not piece.is_inner}
    best: dict[str, int] = {}
    lower, upper = enough, room
    while lower <= upper:
        cap = lower if lower == enough else (lower + upper) // 2
        found = chain_offsets(groups, sizes, cap, unit)
        if found is None:
            lower = cap + 1 + lower // NEAR
        else:
            found = {piece.name: found.get(piece.name, 0) for piece in pieces}  # nought: no bytes
            best, upper = found, min(_end(pieces, found), cap) - 1 - lower // NEAR
    return best


def _chain(pieces: Sequence[GroupBytes], leads: Sequence[Lead]) -> list[ChainGroup] | None:
    known = {(lead.below, lead.above): lead.bytes for lead in leads}
    unit = max((piece.alignment for piece in pieces), default=1)
    groups: list[ChainGroup] = []
    for number in range(max((piece.end for piece in pieces), default=0)):
        alive = [piece for piece in pieces if piece.begin <= number < piece.end]
        whole = sorted((one for one in alive if not one.is_inner), key=lambda one: one.begin)
        old = [one.name for one in whole if one.begin < number or one.end == number + 1]
        new = [one.name for one in whole if one.name not in old]
        is_last = not new and len(old) == 2
        source, result = (old[0], old[1]) if is_last else (_only(old), _only(new))
        if source is None or result is None or (groups and source != groups[-1].result):
            return None
        inner = tuple(
            (one.name, -(-one.size // unit) * unit) for one in alive if one.is_inner and one.size
        )
        whole_size = {one.name: one.size for one in whole}.get(result, 0)
        lead = known.get((result, source), whole_size)
        groups.append(ChainGroup(source, result, -(-lead // unit) * unit, inner))
    return groups or None


def _only(names: Sequence[str]) -> str | None:
    """The only one of some names, "" of none, None of several."""
    return None if len(names) > 1 else "".join(names)


def _end(pieces: Sequence[GroupBytes], offsets: Mapping[str, int]) -> int:
    return max((offsets[piece.name] + piece.size for piece in pieces), default=0)


def _within(
    pieces: Sequence[GroupBytes], allowed: Mapping[tuple[str, str], int], cap: int, enough: int
) -> dict[str, int] | None:
    """The least arena of all orders that succeed within a cap; the first, if it is small enough."""
    best: dict[str, int] | None = None
    for order in _orders(pieces):
        found = _tried(order, allowed, cap)
        if found is None:
            continue
        if best is None or _end(pieces, found) < _end(pieces, best):
            best = found
        if _end(pieces, best) <= max(enough, cap - cap // 64):
            break
    return best


def _orders(pieces: Sequence[GroupBytes]) -> Iterator[_Order]:
    nothing: frozenset[str] = frozenset()
    whole = frozenset(piece.name for piece in pieces if not piece.is_inner)
    inner = frozenset(piece.name for piece in pieces if piece.is_inner)
    in_time = sorted(pieces, key=lambda one: (one.is_inner, one.begin, -one.size))
    for high in (nothing, whole, inner):
        yield _Order(sorted(pieces, key=lambda one: (-one.size, one.begin)), high)
        yield _Order(sorted(pieces, key=lambda one: (one.begin, -one.size)), high)
        yield _Order(in_time, high)
        yield _Order(sorted(pieces, key=lambda one: (one.is_inner, -one.end, -one.size)), high)
    source = random.Random(0)
    for number in range(TRIES):
        high = (nothing, whole, inner)[number % 3]
        if number % 2:
            high = frozenset(one.name for one in pieces if source.random() < 0.5)
        spread = {piece.name: source.uniform(0.3, 1.0) for piece in pieces}
        first = number % 4 < 2  # whole tensors before what lies inside groups
        yield _Order(
            sorted(pieces, key=lambda one: (first and one.is_inner, -one.size * spread[one.name])),
            high,
        )


def _tried(
    order: _Order, allowed: Mapping[tuple[str, str], int], cap: int
) -> dict[str, int] | None:
    """Offsets within a cap, one piece after the other; None where one finds no room."""
    offsets: dict[str, int] = {}
    done: list[GroupBytes] = []
    for piece in order.pieces:
        barred = [
            _barred(piece, other, offsets[other.name], allowed)
            for other in done
            if piece.begin < other.end and other.begin < piece.end and other.size
        ]
        is_high = piece.name in order.high
        offset = _highest(piece, barred, cap) if is_high else _lowest(piece, barred)
        if not 0 <= offset <= cap - piece.size:
            return None
        offsets[piece.name] = offset
        done.append(piece)
    return offsets


def _lowest(piece: GroupBytes, barred: list[tuple[int, int]]) -> int:
    offset = 0
    for first, end in sorted(barred):  # offsets from first + 1 to end - 1 are taken
        if first < offset < end:
            offset = -(-end // piece.alignment) * piece.alignment
    return offset


def _highest(piece: GroupBytes, barred: list[tuple[int, int]], cap: int) -> int:
    offset = (cap - piece.size) // piece.alignment * piece.alignment
    for first, end in sorted(barred, key=lambda one: -one[1]):
        if first < offset < end:
            offset = first // piece.alignment * piece.alignment
    return offset


def _barred(
    piece: GroupBytes, other: GroupBytes, at: int, allowed: Mapping[tuple[str, str], int]
) -> tuple[int, int]:
    """The open interval of offsets at which a piece would lie over another, and may not."""
    first, end = at - piece.size, at + other.size
    if (piece.name, other.name) in allowed:  # the piece may lie below, reaching into the other
        first = max(first, at - allowed[piece.name, other.name])
    if (other.name, piece.name) in allowed:
        end = min(end, at + allowed[other.name, piece.name])
    return first, max(first, end)

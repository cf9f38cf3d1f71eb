"""Offsets for the buffers of a plan, where a result may lie over rows of its input that are dead."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from planners.memory.offsets.chain_placement import ChainGroup, chain_offsets
from planners.memory.offsets.exact_placement import ExactPlacement
from planners.memory.offsets.pieces import GroupBytes, Lead

NEAR = 1024  # an arena above the least that could be by this part of it is near enough
GRID = 256  # the same along the chain, where places are on a grid


def placed(pieces: Sequence[GroupBytes], leads: Sequence[Lead], *, enough: int) -> dict[str, int]:
    """Return an offset for each piece, such that the arena is small.

    Pieces alive at one time do not overlap, unless a lead allows it. enough: an arena of so many
    bytes cannot be improved on. First the exact search looks for such an arena; then it halves the
    arenas between that and one along the chain of groups, or in an order of the pieces. A heuristic:
    the exact search ends early, so a smaller arena may be there nevertheless.
    """
    search = ExactPlacement(pieces, leads)
    found = search.within(enough)
    if found is not None:
        return found
    room = sum(piece.size + piece.alignment for piece in pieces)
    best = _along_the_chain(pieces, leads, enough, room) or _in_some_order(pieces, leads)
    lower, upper = enough + 1, _end(pieces, best)
    while lower + lower // NEAR < upper:
        cap = (lower + upper - 1) // 2
        found = search.within(cap)
        if found is None:
            lower = cap + 1
        else:
            best, upper = found, _end(pieces, found)
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
            lower = cap + 1 + lower // GRID
        else:
            found = {piece.name: found.get(piece.name, 0) for piece in pieces}  # nought: no bytes
            best, upper = found, min(_end(pieces, found), cap) - 1 - lower // GRID
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


def _in_some_order(pieces: Sequence[GroupBytes], leads: Sequence[Lead]) -> dict[str, int]:
    """The least of a few orders in which each piece lies as low as those before it leave room."""
    allowed = {(lead.below, lead.above): lead.bytes for lead in leads}
    orders = (
        sorted(pieces, key=lambda one: (-one.size, one.begin)),
        sorted(pieces, key=lambda one: (one.begin, -one.size)),
        sorted(pieces, key=lambda one: (one.is_inner, one.begin, -one.size)),
        sorted(pieces, key=lambda one: (one.is_inner, -one.end, -one.size)),
    )
    return min((_tried(order, allowed) for order in orders), key=lambda one: _end(pieces, one))


def _tried(order: Sequence[GroupBytes], allowed: Mapping[tuple[str, str], int]) -> dict[str, int]:
    """Offsets, one piece after the other, each as low as it can be."""
    offsets: dict[str, int] = {}
    done: list[GroupBytes] = []
    for piece in order:
        barred = [
            _barred(piece, other, offsets[other.name], allowed)
            for other in done
            if piece.meets(other) and other.size
        ]
        offsets[piece.name] = _lowest(piece, barred)
        done.append(piece)
    return offsets


def _lowest(piece: GroupBytes, barred: list[tuple[int, int]]) -> int:
    offset = 0
    for first, end in sorted(barred):  # offsets from first + 1 to end - 1 are taken
        if first < offset < end:
            offset = -(-end // piece.alignment) * piece.alignment
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

"""Offsets within an arena of some bytes, by the exact search of planners.arena.

A lead makes a pair that conflicts otherwise than by its sizes: if the one lies lower, the other begins
the lead above it, and not the whole size. The search takes blocks by their offsets, and of equal
offsets in an order of its own. So a lead of nought counts as a small part of a unit, which is cut off
again from the offsets that are found.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd

from csdf.kernels import compile as compiler
from planners.arena.blocks import Blocks
from planners.arena.bounds import Clique
from planners.arena.exact import Field
from planners.arena.portfolio import Attempt
from planners.kernels import ranges
from planners.kernels.placement_search import FOUND, NONE
from planners.memory.offsets.pieces import GroupBytes, Lead
from planners.plan import Buffer

TURNS = 16  # of searches in different orders, of a thousand placements and more each


class ExactPlacement:
    """The search for offsets of some pieces, in arenas of any size."""

    def __init__(self, pieces: Sequence[GroupBytes], leads: Sequence[Lead]) -> None:
        """Take pieces and leads. Pieces without bytes lie at nought."""
        self._resting = {piece.name: 0 for piece in pieces if not piece.size}
        self._pieces = [piece for piece in pieces if piece.size]
        self._leads = {(lead.below, lead.above): lead.bytes for lead in leads}
        self._unit = gcd(*(number for one in self._pieces for number in (one.size, one.alignment)))
        self._part = (
            len(self._pieces) + 1
        )  # of a unit is a step; more than there are leads in a row
        self._blocks = self._conflicting()
        self._cliques = self._alive_together()
        self._fields: dict[bool, Field] = {}

    def within(self, cap: int, turns: int = TURNS) -> dict[str, int] | None:
        """Return offsets within an arena of `cap` bytes; None where none are found."""
        if not self._pieces:
            return self._resting
        capacity = cap // self._unit * self._part + self._part - 1
        attempt = Attempt(self._field(capacity), capacity)
        for _ in range(turns):
            outcome = attempt.step()
            if outcome == FOUND:
                found = zip(self._pieces, attempt.offsets, strict=True)
                offsets = {one.name: at // self._part * self._unit for one, at in found}
                return {**self._resting, **offsets}
            if outcome == NONE:
                break
        return None

    def _field(self, capacity: int) -> Field:
        """Return the pieces for the backend that holds the sums of a search within the capacity."""
        blocks = self._blocks
        lies = blocks.size, blocks.alignment, blocks.lowest
        backend = compiler.backend(fits=ranges.placement_search(*lies, capacity) <= compiler.SAFE)
        if backend.is_compiled not in self._fields:
            self._fields[backend.is_compiled] = Field(blocks, self._cliques, backend)
        return self._fields[backend.is_compiled]

    def _steps(self, size: int) -> int:
        """Steps of so many bytes."""
        return -(-size // self._unit) * self._part

    def _rise(self, low: GroupBytes, high: GroupBytes) -> int:
        """Steps by which a piece begins above another that lies lower."""
        lead = min(self._leads.get((low.name, high.name), low.size), low.size)
        return max(1, self._steps(lead))

    def _conflicting(self) -> Blocks:
        start, near, rise, lift = [0], list[int](), list[int](), list[int]()
        for one in self._pieces:
            for number, other in enumerate(self._pieces):
                if one is not other and one.meets(other):
                    near.append(number)
                    rise.append(self._rise(one, other))
                    lift.append(self._rise(other, one))
            start.append(len(near))
        sizes = [self._steps(one.size) for one in self._pieces]
        return Blocks(
            members=tuple((_buffer(one),) for one in self._pieces),
            by_lifetime=False,
            unit=1,
            grain=1,
            room=sizes,
            size=sizes,
            alignment=[
                self._steps(one.alignment) if one.alignment > self._unit else 1
                for one in self._pieces
            ],
            lowest=[0] * len(sizes),
            is_fixed=[False] * len(sizes),
            neighbour_start=start,
            neighbour=near,
            rise=rise,
            lift=lift,
        )

    def _alive_together(self) -> list[Clique]:
        """The pieces of each group, also without those that a result may lie over."""
        numbers = {one.name: number for number, one in enumerate(self._pieces)}
        found: set[Clique] = set()
        for group in range(max((one.end for one in self._pieces), default=0)):
            alive = [one for one in self._pieces if one.begin <= group < one.end]
            names = {one.name for one in alive}
            covered = {above for below, above in self._leads if {below, above} <= names}
            for some in (alive, [one for one in alive if one.name not in covered]):
                if some:
                    weights = (self._weight(one, some) for one in some)
                    found.add(Clique(tuple(numbers[one.name] for one in some), tuple(weights)))
        return sorted(found)

    def _weight(self, piece: GroupBytes, clique: Sequence[GroupBytes]) -> int:
        """Steps from a piece to any other of the clique above it."""
        rises = (self._rise(piece, other) for other in clique if other is not piece)
        return min(rises, default=self._steps(piece.size))


def _buffer(piece: GroupBytes) -> Buffer:
    return Buffer(name=piece.name, size=piece.size, start=piece.begin, end=piece.end)

"""A portfolio of exact search, ejection chains and beams for one problem, run in time slices."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from csdf.kernels import compile as compiler
from planners.arena.blocks import Blocks
from planners.arena.bounds import Bound, clique_bound, cliques_of, load_bound
from planners.arena.exact import Field, PlacementSearch, random_order, standard_orders
from planners.arena.greedy import Greedy
from planners.arena.pushing import PushingSearch
from planners.arena.widening import WideningSearch, most_lost
from planners.kernels import ranges
from planners.kernels.placement_search import FOUND, NONE

MOST_EXACT = 4000  # blocks of a part that is searched exactly; larger ones are improved only
LEAST_SLICE = 1000  # placements a search tries before the next has its turn
LONGEST_SLICE = 8000  # so that a search can be ended at any time
PLAIN_SLICE = 100  # the same of plain kernels
LONGER_FIRST = 4  # the best order gets so many times more
RESTARTS = 6  # random orders between two rounds
PROOFS_FIRST = 2**13  # what proves nothing gets the cube of the turn, divided by this, in steps
MOST_PUSHES = 16000  # so that a search can be ended at any time
PLAIN_PUSHES = 50  # the same of plain kernels
PATIENCE = 300_000  # pushes without a better plan, and as many as there were before it; then a turn
RARELY = 24  # of so many
SEED = 1


class Attempt:
    """The search for a plan of one part within one capacity, by many orders in turns.

    What an order needs differs by factors of thousands: each gets a short slice, then random orders
    get a short try, then each a slice twice as long as before.
    """

    def __init__(self, field: Field, capacity: int) -> None:
        self.field = field
        self.capacity = capacity
        self.offsets: list[int] = []
        self._searches = [
            PlacementSearch(field, capacity, order) for order in standard_orders(field)
        ]
        self._random = Random(SEED)
        self._turn = 0
        self._least = LEAST_SLICE if field.backend.is_compiled else PLAIN_SLICE
        self._slice = self._least

    def step(self) -> int:
        """Give one search its turn; return FOUND, NONE or UNDECIDED."""
        turn = self._turn
        self._turn += 1
        if turn < len(self._searches):
            return self._run(
                self._searches[turn], self._slice if turn else self._slice * LONGER_FIRST
            )
        if turn == len(self._searches) + RESTARTS * self._slice // self._least - 1:
            self._turn = 0
            self._slice = min(2 * self._slice, LONGEST_SLICE)
        order = random_order(self.field, self._random)
        return self._run(PlacementSearch(self.field, self.capacity, order), self._least)

    def _run(self, search: PlacementSearch, limit: int) -> int:
        outcome = search.run(limit)
        if outcome == FOUND:
            self.offsets = search.offsets
        return outcome


class ConnectedBlocks:
    """Blocks connected by conflicts: the best plan known, the bound, and the attempts in between."""

    def __init__(
        self, blocks: Blocks, numbers: Sequence[int], offsets: Sequence[int], greedy: Greedy
    ) -> None:
        self.blocks = blocks
        self.numbers = numbers  # in the whole problem
        self.offsets = list(offsets)
        self.peak = blocks.peak(offsets)
        self._is_exact = len(blocks) <= MOST_EXACT
        needs_cliques = self._is_exact or not blocks.by_lifetime
        self._cliques = cliques_of(blocks) if needs_cliques else []
        bound = clique_bound(blocks, self._cliques) if needs_cliques else load_bound(blocks)
        self.lower_bound = bound.peak
        self.evidence = bound
        self._fields: dict[bool, Field] = {}
        self._known: Attempt | None = None
        self._turn = 0
        self._pushing: PushingSearch | None = None
        self._pushed = 0  # blocks that were placed when it found its last plan
        self._may_push = True  # whether that was not long ago
        self._widening: WideningSearch | None = None
        self._improvements = greedy.improvements(offsets, Random(SEED))  # of the whole problem

    def step(self, goal: int | None) -> None:
        """Look a while for a plan within the goal, or for a smaller one if there is no goal."""
        if not self._is_exact:
            self._take(next(self._improvements))
            return
        field = self._field()
        self._turn += 1
        if self._turn % 3 == 2 and (self._may_push or self._turn % RARELY == 2):
            self._push(field, goal)
            return
        if self._turn % 3 != 1:
            self._widen(field, goal)
            return
        target = self.lower_bound if goal is None else goal
        attempt = self._attempt(field, target)
        outcome = attempt.step()
        if outcome == FOUND:
            self._take(attempt.offsets)
        elif outcome == NONE:
            self._raise(target)

    def _push(self, field: Field, goal: int | None) -> None:
        """Look a while for a plan within the goal, or smaller ones, by pushing blocks out."""
        if self._pushing is None or self._pushing.field is not field:
            self._pushing = PushingSearch(field, self.offsets, SEED)
            self._pushed = 0
        pushing, most = self._pushing, MOST_PUSHES if field.backend.is_compiled else PLAIN_PUSHES
        end = pushing.tried + min(1 + self._turn**3 // PROOFS_FIRST, most)
        while pushing.tried < end and self.peak > (self.lower_bound if goal is None else goal):
            pushing.aim(self.peak - 1 if goal is None else goal)
            if pushing.run(end - pushing.tried) == FOUND:
                self._take(pushing.offsets)
                self._pushed = pushing.tried
        self._may_push = pushing.tried < PATIENCE + 2 * self._pushed

    def _widen(self, field: Field, goal: int | None) -> None:
        """Look a while for a plan within the goal, or for a smaller one, by beams."""
        if self._widening is None or self._widening.field is not field:
            self._widening = WideningSearch(field, SEED)
        widening = self._widening
        wanted, peak = (self.lower_bound, self.peak) if goal is None else (goal, goal + 1)
        limit = min(1 + self._turn**3 // PROOFS_FIRST, widening.slice)
        if widening.run(limit, wanted=wanted, peak=peak) == FOUND:
            self._take(widening.offsets)
            self._pushing = None  # it begins again from there
            self._may_push = True

    def _raise(self, capacity: int) -> None:
        """Note that there is no plan within the capacity."""
        self.lower_bound = self._next_peak(capacity)
        self.evidence = Bound(self.lower_bound, tuple(range(len(self.blocks))), by_search=True)

    def _take(self, offsets: list[int]) -> None:
        peak = self.blocks.peak(offsets)
        if peak < self.peak:
            self.peak, self.offsets = peak, offsets

    def _attempt(self, field: Field, target: int) -> Attempt:
        known = self._known
        if known is None or known.field is not field or known.capacity != target:
            self._known = known = Attempt(field, target)
        return known

    def _field(self) -> Field:
        """Return the part for the backend that holds its sums."""
        blocks = self.blocks
        capacity = -(-self.peak // blocks.unit)  # no search asks for more
        lies = blocks.size, blocks.alignment
        largest = max(
            ranges.placement_search(*lies, blocks.lowest, capacity),
            ranges.placement_beam(
                *lies, blocks.lowest, capacity, losses=most_lost(len(self._cliques))
            ),
            ranges.placement_ejection(*lies, capacity, len(blocks)),
        )
        backend = compiler.backend(fits=largest <= compiler.SAFE)
        if backend.is_compiled not in self._fields:
            field = Field(self.blocks, self._cliques, backend)
            self._fields = {backend.is_compiled: field}
        return self._fields[backend.is_compiled]

    def _next_peak(self, capacity: int) -> int:
        """Return the smallest peak above: some block ends there, and begins at a whole unit."""
        unit = self.blocks.unit
        return min(capacity + 1 + (room - capacity - 1) % unit for room in self.blocks.room)


class Portfolio:
    """All parts of a problem; only the one with the highest peak is worth a step."""

    def __init__(self, blocks: Blocks, greedy: Greedy, offsets: Sequence[int]) -> None:
        self._blocks = blocks
        self.parts = [
            ConnectedBlocks(
                blocks if len(numbers) == len(blocks) else blocks.part(numbers),
                numbers,
                [offsets[number] for number in numbers],
                greedy,
            )
            for numbers in _parts(blocks)
        ]

    @property
    def peak(self) -> int:
        """The bytes of the best plan known."""
        return max((part.peak for part in self.parts), default=0)

    @property
    def bound(self) -> Bound:
        """Return the lower bound of all plans; the blocks are numbers of the whole problem."""
        part = max(self.parts, key=lambda one: one.lower_bound, default=None)
        if part is None:
            return Bound(0, ())
        numbers = tuple(part.numbers[one] for one in part.evidence.blocks)
        return part.evidence._replace(blocks=numbers)

    @property
    def offsets(self) -> dict[str, int]:
        """The best plan known, in bytes by name."""
        return {
            buffer.name: at * self._blocks.unit
            for part in self.parts
            for number, at in zip(part.numbers, part.offsets, strict=True)
            for buffer in self._blocks.members[number]
        }

    def step(self, goal: int | None) -> None:
        """Look a while for a plan within the goal, or for a smaller one if there is no goal."""
        max(self.parts, key=lambda one: one.peak).step(goal)


def _parts(blocks: Blocks) -> list[list[int]]:
    """Return the parts; what is too large to be searched exactly may as well stay whole."""
    is_large = len(blocks) > MOST_EXACT
    return [list(range(len(blocks)))] if is_large else connected(blocks)


def connected(blocks: Blocks) -> list[list[int]]:
    """Return the parts that no conflict connects, each in ascending order."""
    unseen = dict.fromkeys(range(len(blocks)))
    parts = []
    while unseen:
        front = [unseen.popitem()[0]]
        part = list(front)
        while front:
            for other in blocks.neighbours(front.pop()):
                if other in unseen:
                    del unseen[other]
                    front.append(int(other))
                    part.append(int(other))
        parts.append(sorted(part))
    return sorted(parts)

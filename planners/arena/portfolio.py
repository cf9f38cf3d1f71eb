"""A portfolio of exact search, ejection chains and widening beams for one problem, in slices.

Blocks that no chain of conflicts connects are separate parts (`PartSearch`); the part with the highest
peak is searched next. Exact search places blocks in a branching order. An ejection chain removes the
blocks that overlap a newly placed block, and places them again (planners.arena.pushing). Beams retain
the best partial plans (planners.arena.widening). A slice is a number of search steps, so that no result
depends on the clock.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count, islice
from random import Random

from csdf.kernels import compile as compiler
from planners.arena.blocks import Blocks, Bound, clique_bound, cliques_of, load_bound
from planners.arena.corners import CornerSearch
from planners.arena.orders import (
    Greedy,
    PlacementSearch,
    SearchInput,
    random_order,
    standard_orders,
)
from planners.arena.pushing import PushingSearch
from planners.arena.widening import WideningSearch, most_lost
from planners.arena.windows import WindowSearch
from planners.kernels import ranges
from planners.kernels.placement_search import FOUND, NONE

# Exact search: placements in a slice. A longer slice would delay the end of a search.
LEAST_SLICE = 1000
LONGEST_SLICE = 8000
PLAIN_SLICE = 100  # LEAST_SLICE of kernels that are not compiled
LONGER_FIRST = 4  # the slice of the best order is this many times as long
RESTARTS = 6  # random orders between two rounds of the standard orders
# Ejection and beams prove nothing: slice t of them has 1 + t**3 / PROOFS_FIRST steps, few at first.
# Tuned on MiniMalloc's problems: D is proved in 28 s of a processor, in 35 s with half of this
# value, and in 47 s with twice as much. A to I and K without D are proved before these searches matter.
PROOFS_FIRST = 2**13
# A push places a block and ejects the blocks that it overlaps.
MOST_PUSHES = 16000  # in a slice; more would delay the end of a search
PLAIN_PUSHES = 50  # MOST_PUSHES of kernels that are not compiled
# Ejection is frequent until PATIENCE pushes plus twice the pushes that led to its last better plan.
# After that it is rare: one slice in RARELY.
PATIENCE = 300_000
RARELY = 24
# From this number of blocks on only a window of time is rearranged, not the whole plan.
LEAST_WITH_WINDOWS = 600
WINDOW_STEPS = 16  # steps of the window search between two slices of exact search
SEED = 1
# Effort in microseconds of a usual machine, on MiniMalloc's problems and tilings within 2x.
STEP_EFFORT = 20  # of any step, in addition to its search
USUAL_EFFORT = 1  # to place a block of a large problem
ENTRIES = 3500  # blocks and cliques that a beam updates in a microsecond


class Attempt:
    """Exact search for a plan of one part within a capacity, in several branching orders.

    The effort of two orders may differ by factors of thousands. So each order runs for a short slice,
    then random orders run for a short slice each, then each order for a slice twice as long.
    """

    def __init__(self, search_input: SearchInput, capacity: int) -> None:
        self.search_input = search_input
        self.capacity = capacity
        self.offsets: list[int] = []
        self.effort = 0  # microseconds of a usual machine
        self._searches = [
            PlacementSearch(search_input, capacity, order)
            for order in standard_orders(search_input)
        ]
        self._random = Random(SEED)
        self._slices = 0  # of this round so far
        self._least = LEAST_SLICE if search_input.backend.is_compiled else PLAIN_SLICE
        self._longest = LONGEST_SLICE
        # The time of a placement grows with the number of blocks, so the slices get shorter.
        if len(search_input.blocks) > LEAST_WITH_WINDOWS:
            self._least = max(1, self._least * LEAST_WITH_WINDOWS // (4 * len(search_input.blocks)))
            self._longest = 8 * self._least
        self._slice = self._least

    def step(self) -> int:
        """Run one search for a slice, which adds to `effort`; return FOUND, NONE or UNDECIDED."""
        number = self._slices
        self._slices += 1
        if number < len(self._searches):
            # Restarts with a growing limit: the time of one order varies by orders of magnitude.
            search, limit = self._searches[number], self._slice * (1 if number else LONGER_FIRST)
        else:
            # After the last random order of a round, the slices of the next round are twice as long.
            if number == len(self._searches) + RESTARTS * self._slice // self._least - 1:
                self._slices = 0
                self._slice = min(2 * self._slice, self._longest)
            order = random_order(self.search_input, self._random)
            search, limit = PlacementSearch(self.search_input, self.capacity, order), self._least
        before = search.effort
        outcome = search.run(limit)
        self.effort += search.effort - before
        if outcome == FOUND:
            self.offsets = search.offsets
        return outcome


class PartSearch:
    """The searches for a plan of blocks that conflicts connect, with the best plan and the lower bound.

    Each call of `step` runs one search for a slice. A large part is searched greedily. In any other
    part the first of these rules that applies chooses the search of slice t:

    - t even, and the same bytes are live at every time: `CornerSearch` for a plan without gaps.
    - t % 3 == 2, large, by lifetimes: windows of time (`WindowSearch`).
    - t % 3 == 2, ejection within its patience, or t % RARELY == 2: `PushingSearch`.
    - t % 3 != 1: beams (`WideningSearch`).
    - Otherwise exact search (`Attempt`).
    """

    def __init__(self, blocks: Blocks, numbers: Sequence[int], offsets: Sequence[int]) -> None:
        self.blocks = blocks
        self.numbers = numbers  # in the whole problem
        self.offsets = list(offsets)
        self.peak = blocks.peak(offsets)
        self._is_exact = not blocks.is_large
        needs_cliques = self._is_exact or not blocks.by_lifetime
        self._cliques = cliques_of(blocks) if needs_cliques else []
        self.evidence = clique_bound(blocks, self._cliques) if needs_cliques else load_bound(blocks)
        self._search_inputs: dict[bool, SearchInput] = {}  # by whether its kernels are compiled
        self._attempt: Attempt | None = None
        self._slices = 0  # so far
        self._pushing: PushingSearch | None = None
        self._pushed = 0  # pushes until ejection last found a better plan
        self._may_push = True  # whether ejection is within its patience
        self._widening: WideningSearch | None = None
        self._improvements: Iterator[list[int]] = iter(())
        # A plan without gaps has each block in a corner of the blocks below it.
        may_fill = self._is_exact and len(blocks) > 1 and blocks.is_full
        self._corners = CornerSearch(blocks) if may_fill else None
        self._spent = 0  # effort of one step, in microseconds
        self._target = self.lower_bound  # bytes at which the search in a large part stops
        self._has_windows = len(blocks) > LEAST_WITH_WINDOWS and blocks.by_lifetime
        if self._has_windows:
            self._improvements = self._lowered(Greedy(blocks))
        elif blocks.is_large:
            self._improvements = Greedy(blocks).improvements(offsets, Random(SEED))

    @property
    def lower_bound(self) -> int:
        """A proved lower bound on the bytes of a plan of the blocks."""
        return self.evidence.peak

    def step(self, goal: int | None) -> int:
        """Search a slice for a plan within the goal, or for a smaller plan if there is no goal.

        Return the effort in microseconds of a typical machine, counted in steps.
        """
        self._spent = 0
        self._step(goal)
        return STEP_EFFORT + self._spent

    def _step(self, goal: int | None) -> None:
        target = self.lower_bound if goal is None else goal
        if not self._is_exact:
            if not self.blocks.by_lifetime:
                self._spent += USUAL_EFFORT * len(self.blocks)
            self._improve(target, 1)
            return
        # A fixed rotation, not the clock, divides the effort: the same problem has the same answer
        # under any load.
        self._slices += 1
        turn = self._slices % 3
        if self._corners is not None and self._slices % 2 == 0:
            self._fill(self._corners)
        elif turn == 2 and self._has_windows:
            self._improve(target, WINDOW_STEPS)
        elif turn == 2 and (self._may_push or self._slices % RARELY == 2):
            self._push(self._search_input(), goal)
        elif turn != 1:
            self._widen(self._search_input(), goal)
        else:
            self._prove(self._search_input(), target)

    def _improve(self, target: int, steps: int) -> None:
        """Take the next plans of the greedy search of a large part, or of the search in windows."""
        self._target = target
        for offsets in islice(self._improvements, steps):
            if offsets:
                self._take(offsets)

    def _prove(self, search_input: SearchInput, target: int) -> None:
        """Search a slice for a plan within the target, exactly; without a plan the bound rises."""
        attempt = self._attempt
        if (
            attempt is None
            or attempt.search_input is not search_input
            or attempt.capacity != target
        ):
            self._attempt = attempt = Attempt(search_input, target)
        effort = attempt.effort
        outcome = attempt.step()
        self._spent += attempt.effort - effort
        if outcome == FOUND:
            self._take(attempt.offsets)
        # The search excluded every plan within the target, which is a proof: the bound rises.
        elif outcome == NONE:
            # The next possible peak is the end of a block whose offset is a multiple of the unit.
            unit, above = self.blocks.unit, target + 1
            peak = min(above + (room - above) % unit for room in self.blocks.room)
            self.evidence = Bound(peak, tuple(range(len(self.blocks))), by_search=True)

    def _fill(self, corners: CornerSearch) -> None:
        """Search a slice for a plan without gaps."""
        effort = corners.effort
        offsets = corners.step()
        self._spent += corners.effort - effort
        if offsets:
            self._take(offsets)
        if offsets or corners.is_over:
            self._corners = None

    def _lowered(self, greedy: Greedy) -> Iterator[list[int]]:
        """Yield greedy plans and the best plan improved in windows of time, alternately, in slices."""
        windows = WindowSearch(self.blocks)
        lowered = windows.lowered(self.offsets, self._target)
        for offsets in greedy.standard_plans_in_slices():
            if offsets and self.blocks.peak(offsets) < self.peak:
                lowered = windows.lowered(offsets, self._target)
            self._spent += USUAL_EFFORT * len(self.blocks)
            yield offsets
            yield self._next(windows, lowered)
        while True:
            yield self._next(windows, lowered)

    def _next(self, windows: WindowSearch, lowered: Iterator[list[int]]) -> list[int]:
        """Return the next plan of the window search, and count its effort."""
        effort = windows.effort
        offsets = next(lowered, [])
        self._spent += windows.effort - effort
        return offsets

    def _push(self, search_input: SearchInput, goal: int | None) -> None:
        """Search a slice for a plan within the goal, or smaller plans, by ejection."""
        if self._pushing is None or self._pushing.search_input is not search_input:
            self._pushing = PushingSearch(search_input, self.offsets, SEED)
            self._pushed = 0
        pushing, effort = self._pushing, self._pushing.effort
        maximum = MOST_PUSHES if search_input.backend.is_compiled else PLAIN_PUSHES
        # The slice grows with the cube of its number: exact search proves easy problems before
        # heuristics take much effort.
        end = pushing.tried + min(1 + self._slices**3 // PROOFS_FIRST, maximum)
        while pushing.tried < end and self.peak > (self.lower_bound if goal is None else goal):
            pushing.aim(self.peak - 1 if goal is None else goal)
            if pushing.run(end - pushing.tried) == FOUND:
                self._take(pushing.offsets)
                self._pushed = pushing.tried
        self._spent += pushing.effort - effort
        self._may_push = pushing.tried < PATIENCE + 2 * self._pushed

    def _widen(self, search_input: SearchInput, goal: int | None) -> None:
        """Search a slice for a plan within the goal, or for a smaller plan, by beam search."""
        if self._widening is None or self._widening.search_input is not search_input:
            self._widening = WideningSearch(search_input)
        widening = self._widening
        wanted, peak = (self.lower_bound, self.peak) if goal is None else (goal, goal + 1)
        limit = min(1 + self._slices**3 // PROOFS_FIRST, widening.slice)
        self._spent += limit * widening.entries // ENTRIES
        if widening.run(limit, wanted=wanted, peak=peak) == FOUND:
            self._take(widening.offsets)
            # Ejection begins again from the better plan.
            self._pushing = None
            self._may_push = True

    def _take(self, offsets: list[int]) -> None:
        """Replace the best plan if these offsets have a lower peak."""
        peak = self.blocks.peak(offsets)
        if peak < self.peak:
            self.peak, self.offsets = peak, offsets

    def _search_input(self) -> SearchInput:
        """Return the input of the kernels: compiled with int64, or Python if a sum exceeds int64."""
        blocks = self.blocks
        capacity = -(-self.peak // blocks.unit)  # maximum over all searches
        sizes = blocks.size, blocks.alignment
        largest = max(
            ranges.placement_search(*sizes, blocks.lowest, capacity),
            ranges.placement_beam(
                *sizes, blocks.lowest, capacity, losses=most_lost(len(self._cliques))
            ),
            ranges.placement_ejection(*sizes, capacity, len(blocks)),
        )
        backend = compiler.backend(fits=largest <= compiler.INT64_SUM_LIMIT)
        if backend.is_compiled not in self._search_inputs:
            search_input = SearchInput(self.blocks, self._cliques, backend)
            self._search_inputs = {backend.is_compiled: search_input}
        return self._search_inputs[backend.is_compiled]


class Portfolio:
    """The searches in all parts of a problem; each step searches the part with the highest peak."""

    def __init__(self, blocks: Blocks, offsets: Sequence[int]) -> None:
        self._blocks = blocks
        self.parts = [
            PartSearch(
                blocks if len(numbers) == len(blocks) else blocks.part(numbers),
                numbers,
                [offsets[number] for number in numbers],
            )
            for numbers in _parts(blocks)
        ]

    @property
    def peak(self) -> int:
        """The bytes of the best plan so far."""
        return max((part.peak for part in self.parts), default=0)

    @property
    def bound(self) -> Bound:
        """The lower bound on all plans, with the blocks that prove it."""
        part = max(self.parts, key=lambda part: part.lower_bound, default=None)
        if part is None:
            return Bound(0, ())
        numbers = tuple(part.numbers[number] for number in part.evidence.blocks)
        return part.evidence._replace(blocks=numbers)

    @property
    def offsets(self) -> dict[str, int]:
        """The best plan so far: the offset of each buffer in bytes, by name."""
        return {
            buffer.name: at * self._blocks.unit
            for part in self.parts
            for number, at in zip(part.numbers, part.offsets, strict=True)
            for buffer in self._blocks.members[number]
        }

    def step(self, goal: int | None) -> int:
        """Search a slice for a plan within the goal, or for a smaller plan; return the effort."""
        return max(self.parts, key=lambda part: part.peak).step(goal)


def _parts(blocks: Blocks) -> list[list[int]]:
    """Return the parts of the blocks: no conflict connects two parts. Each is in ascending order."""
    # If lifetimes alone decide conflicts, a part begins at a time at which no earlier block is live:
    # a sweep by start time needs no list of conflicts.
    if blocks.by_lifetime:
        parts: list[list[int]] = []
        latest = None
        for start, end, number in sorted(zip(blocks.starts, blocks.ends, count(), strict=False)):
            if latest is None or start >= latest:
                parts.append([])
                latest = end
            parts[-1].append(number)
            latest = max(latest, end)
        return sorted(map(sorted, parts))
    if blocks.is_large:  # too large for exact search, so parts would gain nothing
        return [list(range(len(blocks)))]
    # Graph search over listed conflicts; a dict has the same order in every run.
    unseen = dict.fromkeys(range(len(blocks)))
    parts = []
    while unseen:
        front = [unseen.popitem()[0]]
        part = list(front)
        while front:
            for neighbour in blocks.neighbours(front.pop()):
                if neighbour in unseen:
                    del unseen[neighbour]
                    front.append(int(neighbour))
                    part.append(int(neighbour))
        parts.append(sorted(part))
    return sorted(parts)

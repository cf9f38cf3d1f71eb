"""A portfolio of exact search, ejection chains and widening beams for one problem, in slices.

Blocks that no chain of conflicts connects are separate parts (`PartSearch`); the part with the highest
peak is searched next. Exact search places blocks in a branching order. An ejection chain removes the
blocks that overlap a newly placed block, and places them again. Each further beam is twice as wide. A
slice is a number of search steps, so that no result depends on the clock.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count, islice
from random import Random

from csdf.kernels import compile as compiler
from planners.arena.blocks import Blocks, Bound, clique_bound, cliques_of, load_bound
from planners.arena.corners import CornerSearch, is_full
from planners.arena.orders import (
    Greedy,
    PlacementSearch,
    SearchInput,
    random_order,
    ranks,
    standard_orders,
)
from planners.arena.pushing import PushingSearch
from planners.arena.windows import WindowSearch
from planners.kernels import placement_beam as beam_kernel
from planners.kernels import placement_search, ranges
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
# A push places one block and ejects the blocks that it overlaps.
MOST_PUSHES = 16000  # in a slice; more would delay the end of a search
PLAIN_PUSHES = 50  # MOST_PUSHES of kernels that are not compiled
# Ejection is frequent for PATIENCE pushes after its last better plan, and for twice the pushes that led
# to that plan. After that it is rare: one slice in RARELY.
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
    part the first rule that applies chooses the search of slice t:

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
        self._may_push = True  # whether ejection is still within its patience
        self._widening: WideningSearch | None = None
        self._improvements: Iterator[list[int]] = iter(())
        # A plan without gaps has each block in a corner of the blocks below it.
        may_fill = self._is_exact and len(blocks) > 1 and is_full(blocks)
        self._corners = CornerSearch(blocks, SEED) if may_fill else None
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
        if not self._is_exact:
            self._target = self.lower_bound if goal is None else goal
            if not self.blocks.by_lifetime:
                self._spent += USUAL_EFFORT * len(self.blocks)
            offsets = next(self._improvements)
            if offsets:
                self._take(offsets)
            return
        # A fixed rotation, not the clock, divides the effort: the same problem has the same answer
        # under any load.
        self._slices += 1
        if self._corners is not None and self._slices % 2 == 0:
            self._fill(self._corners)
            return
        search_input = self._search_input()
        if self._slices % 3 == 2 and self._has_windows:
            self._target = self.lower_bound if goal is None else goal
            for offsets in islice(self._improvements, WINDOW_STEPS):
                if offsets:
                    self._take(offsets)
            return
        if self._slices % 3 == 2 and (self._may_push or self._slices % RARELY == 2):
            self._push(search_input, goal)
            return
        if self._slices % 3 != 1:
            self._widen(search_input, goal)
            return
        target = self.lower_bound if goal is None else goal
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
            self._widening = WideningSearch(search_input, SEED)
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
    """Return the parts that no conflict connects, each in ascending order."""
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


MOST_ROWS = 2**22  # numbers in the rows of a level; a wider beam restarts in another order
NARROWER = 4  # divisor of the beam width after a better plan
WORK = 2**27  # blocks and cliques updated in one slice, after which a search can end
PLAIN_WORK = 2**18  # WORK of kernels that are not compiled
# The guide of the beam, in fixed point: it weighs the bytes that a partial plan wastes in each clique.
WASTE_BITS = 17  # fraction bits of the weight of wasted bytes
WHOLE_AREA = 2**20  # the area of all blocks
# A clique with slack s weighs a wasted byte by 1 / (s + capacity / SOFTNESS): finite for no slack.
SOFTNESS = 1024


class WideningSearch:
    """Beam search for a plan within a capacity, and for a plan halfway from the best plan to it.

    A row of the beam is a partial plan: offsets of the placed blocks, and the blocks left to place. A
    beam of width w retains the w rows that waste the fewest bytes for the area that they place. The
    search is a heuristic: if it finds no plan, a plan may exist.
    """

    def __init__(self, search_input: SearchInput, seed: int) -> None:
        backend, blocks = search_input.backend, search_input.blocks
        self.search_input = search_input
        self.offsets: list[int] = []  # the latest plan, in units
        self._random = Random(seed)
        self._search = backend.kernel(beam_kernel.search)
        self._twin = backend.array(_twins(blocks))
        areas = [
            size * cliques
            for size, cliques in zip(blocks.size, search_input.cliques_each, strict=True)
        ]
        total = sum(areas)
        # The share of each block in the area of all: its size times the number of its cliques.
        self._share = backend.array(max(1, area * WHOLE_AREA // total) for area in areas)
        starts, ends = blocks.starts, blocks.ends
        self._ranks = [ranks([-start for start in starts]), ranks(ends)]
        self._side = 0  # index of `_ranks`: blocks by start, or from the last end backwards
        self._start = _start(blocks)
        self._width = 1
        self._is_too_narrow = False  # whether rows were discarded that may lead to a plan
        self._capacity = -1  # of the present beam
        self._wanted = -1
        self._failed = -1  # the largest capacity without a plan so far
        self.entries = len(blocks) + sum(search_input.cliques_each)
        self.slice = max(1, (WORK if backend.is_compiled else PLAIN_WORK) // self.entries)  # steps

    def run(self, limit: int, *, wanted: int, peak: int) -> int:
        """Run this many steps for a plan below the peak; return FOUND or UNDECIDED.

        wanted: the capacity of the goal; any plan within it is equally good.
        """
        if wanted != self._wanted:
            self._wanted = self._failed = wanted
            self._begin(wanted, self._width)
        elif self._capacity >= peak:  # another search has a plan as good
            self._begin_half_way(peak)
        search_input = self.search_input
        outcome = int(
            self._search(
                self._part,
                search_input.conflicts,
                search_input.cliques,
                self._guide,
                self._beam,
                limit,
            )
        )
        if outcome == beam_kernel.UNDECIDED:
            return outcome
        if outcome == beam_kernel.FOUND:
            self.offsets = search_input.backend.take(self._low, range(len(search_input.blocks)))
            self._failed = wanted
            self._widen()
            return outcome
        if self._capacity == wanted:
            self._is_too_narrow = bool(self._beam.kept.has_overflowed)
            if self._side == 0:
                self._widen()
            else:
                self._begin_half_way(peak)
        else:
            self._failed = self._capacity
            self._widen()
        return beam_kernel.UNDECIDED

    def _begin_half_way(self, peak: int) -> None:
        """Restart halfway between the best plan and the last capacity that failed."""
        if self._failed >= peak:
            self._failed = self._wanted
        unit = self.search_input.blocks.unit
        # Bisection between the capacity that failed and the best plan, in whole units.
        half = (peak - self._failed) // 2 // unit * unit
        if half:
            self._begin(self._failed + half, max(1, self._width // NARROWER))
        else:
            self._widen()

    def _widen(self) -> None:
        """Restart within the wanted capacity in the other direction of time; after both, wider."""
        self._side = 1 - self._side
        # Both directions of time failed at this width, and states were dropped: a wider beam may
        # succeed.
        if self._side == 0 and self._is_too_narrow:
            self._width *= 2
        # The beam no longer fits memory: restart narrow, with ties broken at random.
        if self._width * len(self.search_input.blocks) > MOST_ROWS:
            self._width = 1
            for rank in self._ranks:
                self._random.shuffle(rank)
        self._begin(self._wanted, self._width)

    def _begin(self, capacity: int, width: int) -> None:
        """Restart within this capacity, with no block placed except the base (see `_start`)."""
        self._capacity = capacity
        search_input, backend, blocks = (
            self.search_input,
            self.search_input.backend,
            self.search_input.blocks,
        )
        room = (capacity + blocks.grain - 1) // blocks.unit
        self._part = backend.kernel(placement_search.SearchBlocks)(
            *search_input.sizes,
            backend.array(blocks.highest(capacity)),
            backend.array(self._ranks[self._side]),
            room,
        )
        scale = min(room << WASTE_BITS, compiler.INT64_SUM_LIMIT)
        soft = max(1, room // SOFTNESS)
        self._guide = backend.kernel(beam_kernel.Guide)(
            self._share,
            self._twin,
            backend.array(self._random.randrange(1, 2**60, 2) for _ in range(len(blocks))),
            backend.array(scale // (max(0, room - total) + soft) for total in search_input.totals),
            scale,
            soft,
            WHOLE_AREA,
        )
        count, (low, order) = len(blocks), self._start
        lows, orders, shares = (backend.blank(width * maximum) for maximum in (count, count, 1))
        for block in range(count):
            lows[block] = low[block]
        for index, block in enumerate(order):
            orders[index] = block
        shares[0] = 1 + sum(self._share) - sum(self._share[block] for block in order)
        rows = backend.kernel(beam_kernel.Rows)
        following = (backend.blank(width * maximum) for maximum in (count, count, 1))
        kept = backend.kernel(beam_kernel.BestSteps)(width, backend.blank(8 * width), backend.array)
        self._low = backend.array(low)
        self._beam = backend.kernel(beam_kernel.Beam)(
            self._low, order, rows(lows, orders, shares), rows(*following), kept, backend.array
        )


def most_lost(cliques: int) -> int:
    """Return an upper bound on the weighted waste of this number of cliques, times WHOLE_AREA.

    A clique without slack has the largest weight: room << WASTE_BITS over room // SOFTNESS, of which
    the quotient of rooms is below 2 * SOFTNESS.
    """
    return (1 + cliques * (2 * SOFTNESS << WASTE_BITS)) * WHOLE_AREA


def _start(blocks: Blocks) -> tuple[list[int], list[int]]:
    """Return the smallest offset of each block, and the blocks left to place, by increasing offset.

    Blocks that conflict with all others are stacked at the bottom, the base, without loss of plans.
    """
    count, low = len(blocks), list(blocks.lowest)
    base = [block for block, met in enumerate(blocks.conflicts_each) if met == count - 1]
    is_whole = blocks.room == [size * blocks.unit for size in blocks.size]
    if not (blocks.by_lifetime and is_whole) or any(blocks.is_fixed) or max(blocks.alignment) > 1:
        # With alignments, fixed offsets or partial conflicts the order at the bottom matters.
        base = []
    height = 0
    for block in base[: count - 1]:
        low[block] = height
        height += blocks.size[block]
    placed = set(base[: count - 1])
    order = [block for block in range(count) if block not in placed]
    for block in order:
        low[block] = max(low[block], height)
    return low, sorted(order, key=low.__getitem__)


def _twins(blocks: Blocks) -> list[int]:
    """Return for each block the last earlier block that may exchange offsets with it, or -1."""
    last: dict[tuple[int, ...], int] = {}
    twins = []
    for block, members in enumerate(blocks.members):
        (buffer, *rest) = members
        alike = buffer.start, buffer.end, buffer.size, blocks.alignment[block]
        # Symmetry breaking: interchangeable blocks are tried in one order only.
        is_interchangeable = blocks.by_lifetime and not rest and not blocks.is_fixed[block]
        twins.append(last.get(alike, -1) if is_interchangeable else -1)
        if is_interchangeable:
            last[alike] = block
    return twins

"""Plans of many buffers, lowered window by window of time."""

from itertools import islice
from random import Random

import numpy as np
import pytest

from csdf.kernels import compile as compiler
from csdf.status import Status
from csdf.time_limit import Stop
from planners.arena import pushing
from planners.arena.allocation import plan_arena
from planners.arena.blocks import blocks_of, load_bound
from planners.arena.orders import Greedy, SearchInput
from planners.arena.windows import WindowSearch
from planners.kernels import placement, placement_ejection
from tests.both_kernels import BOTH, needs_compiled, use
from tests.planners.arena.tilings import tiling, uniform


def overlapping(problem, offsets):
    """Return how many pairs of buffers share a byte at a time, over all pairs."""
    start, end, size = (
        np.array([getattr(buffer, of) for buffer in problem.buffers])
        for of in ("start", "end", "size")
    )
    low = np.array(offsets)
    high = low + size
    return sum(
        np.count_nonzero(
            (start[:one] < end[one])
            & (start[one] < end[:one])
            & (low[:one] < high[one])
            & (low[one] < high[:one])
        )
        for one in range(len(low))
    )


@pytest.mark.parametrize("backend", BOTH)
@pytest.mark.parametrize("seed", range(2))
def test_windows_lower_a_plan_and_keep_every_buffer_apart(backend, seed, monkeypatch):
    use(monkeypatch, backend)
    monkeypatch.setattr("planners.arena.windows.LEAST_WINDOW", 12)
    monkeypatch.setattr("planners.arena.windows.PUSHES", 200)
    problem = tiling(100, length=100, height=2**12, seed=seed)
    blocks = blocks_of(problem)
    first = next(Greedy(blocks).standard_plans())
    lowered = WindowSearch(blocks).lowered(first, load_bound(blocks).peak)
    plans = [plan for plan in islice(lowered, 60) if plan]
    peaks = [blocks.peak(plan) for plan in (first, *plans)]
    assert peaks == sorted(peaks, reverse=True)
    assert peaks[-1] < peaks[0]
    for plan in plans:
        assert overlapping(problem, [offset * blocks.unit for offset in plan]) == 0


def test_a_push_sees_the_same_places_in_a_list_of_conflicts_as_among_all_blocks():
    random = Random(1)
    problem = uniform(60, seed=1, lifetime=20)
    blocks = blocks_of(problem)
    search_input = SearchInput(blocks, (), compiler.PLAIN)
    columns = (blocks.neighbour_start, blocks.neighbour, blocks.rise, blocks.lift)
    conflicts = placement.Conflicts(*map(list, columns))
    places = placement_ejection.BlockRooms(
        [random.choice((1, 4)) for _ in range(60)], [0] * 60, [0] * 60
    )
    shelves = []
    for is_sparse in (0, 1):
        blank = [0] * 60
        shelf = placement_ejection.Shelf(list(blank), list(blank), blank, blank, list, 1, is_sparse)
        for block in range(40):
            placement_ejection.put(search_input.sizes[0], shelf, block, block * 7 % 50)
        shelves.append(shelf)
    for block in range(40, 60):
        dense, sparse = (placement_ejection.look(places, conflicts, one, block) for one in shelves)
        assert dense == sparse
        for column in ("below", "above"):
            seen = [getattr(shelf, column)[:dense] for shelf in shelves]
            assert seen[0] == seen[1]


@needs_compiled
def test_pushes_among_few_conflicts_end_at_the_same_bound(monkeypatch):
    problem = uniform(300, seed=3, lifetime=30)
    blocks = blocks_of(problem)
    first = next(Greedy(blocks).standard_plans())
    for most in (0, 10**9):  # all searches look at conflicts only, then none does
        monkeypatch.setattr(pushing, "FEW_CONFLICTS", most)
        search = pushing.PushingSearch(SearchInput(blocks, (), compiler.COMPILED), first, 1)
        search.aim(blocks.peak(first) - 1)
        assert search.run(20_000) == placement_ejection.FOUND
        assert overlapping(problem, [offset * blocks.unit for offset in search.offsets]) == 0


@needs_compiled
@pytest.mark.slow
def test_ten_thousand_uniform_buffers_end_at_the_bound():
    problem = uniform(10_000, seed=1)  # the best of the usual orders ends 0.7% above
    plan = plan_arena(problem, budget=Stop(steps=400))
    assert overlapping(problem, [plan.offsets[b.name] for b in problem.buffers]) == 0
    assert plan.status is Status.OPTIMAL


@needs_compiled
@pytest.mark.slow
def test_five_thousand_tiles_end_lower_than_by_any_usual_order():
    height = 2**20
    problem = tiling(5000, length=5000, height=height, seed=1)
    plan = plan_arena(problem, budget=Stop(steps=400))
    assert overlapping(problem, [plan.offsets[b.name] for b in problem.buffers]) == 0
    assert plan.lower_bound == height
    assert plan.peak < height * 136 // 100  # of all usual orders the best ends 39% above

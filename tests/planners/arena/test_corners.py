"""Plans without a free byte, found in the corners of what is filled, against trying everything."""

from random import Random

import pytest

from csdf.status import Status
from csdf.time_limit import Stop
from planners.arena.allocation import plan_arena
from planners.arena.blocks import Blocks, blocks_of
from planners.arena.corners import CornerSearch
from planners.arena.problem import Buffer, Problem
from tests.both_kernels import BOTH, needs_compiled, use
from tests.planners.arena.tilings import tiling, uniform
from tests.planners.problems import may_be

TIMES = 12
WITHOUT_PLAN = (106, 442, 501, 556, 639)  # seeds


def full(seed):
    """Buffers of which 12 bytes are alive at every time; for many there is no plan of 12 bytes."""
    random = Random(seed)
    live, buffers = [[0, 12]], []
    for time in range(1, TIMES):
        random.shuffle(live)
        some = len(live) if time == TIMES - 1 else random.randrange(len(live) + 1)
        ended, live = live[:some], live[some:]
        room = sum(size for _, size in ended)
        buffers += [(start, time, size) for start, size in ended]
        while room:
            size = random.randrange(1, room + 1)
            live.append([time, size])
            room -= size
    named = [
        Buffer(name=f"b{number}", start=start, end=end, size=size)
        for number, (start, end, size) in enumerate(buffers)
    ]
    return Problem(name="full", buffers=tuple(named))


@pytest.mark.parametrize("backend", BOTH)
def test_corners_find_a_plan_without_a_free_byte_where_there_is_one(backend, monkeypatch):
    use(monkeypatch, backend)
    assert all(blocks_of(full(seed)).is_full for seed in (*range(20), *WITHOUT_PLAN))
    monkeypatch.setattr(Blocks, "is_full", False)
    outcomes = []
    for seed in (*range(20), *WITHOUT_PLAN):
        problem = full(seed)
        blocks = blocks_of(problem)
        search = CornerSearch(blocks)
        found = search.step()
        assert bool(found) != search.is_over
        assert bool(found) == (plan_arena(problem).peak == 12)  # by the search of any problem
        if found:
            places = [offset * blocks.unit for offset in found]
            names = [buffer.name for (buffer,) in blocks.members]
            assert may_be(problem, dict(zip(names, places, strict=True)))
        outcomes.append(bool(found))
    assert outcomes == [True] * 20 + [False] * len(WITHOUT_PLAN)


def test_corners_are_for_problems_that_are_full_at_every_time():
    tiles = tiling(30, length=30, height=64, seed=1)
    assert blocks_of(tiles).is_full
    assert not blocks_of(uniform(30, seed=1, lifetime=9)).is_full
    aligned = [
        Buffer(name=b.name, start=b.start, end=b.end, size=b.size, alignment=4)
        for b in tiles.buffers
    ]
    assert not blocks_of(Problem(name="aligned", buffers=tuple(aligned))).is_full


@needs_compiled
@pytest.mark.parametrize("pinwheels", [False, True])
@pytest.mark.parametrize("seed", [1, 4])  # unsolved after 10 s by pushes, beams and exact search
def test_tilings_of_three_hundred_rectangles_are_solved(seed, pinwheels):
    height = 2**20
    problem = tiling(300, length=1000, height=height, seed=seed, pinwheels=pinwheels)
    for capacity in (None, height * 21 // 20):
        plan = plan_arena(problem, capacity=capacity, budget=Stop(effort=2))
        assert plan.status is not Status.UNKNOWN
        assert plan.peak == height

"""Plans found by pushing blocks out of their places, against trying everything."""

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings

from csdf.kernels import compile as compiler
from csdf.kernels.compile import PLAIN
from planners.arena.blocks import blocks_of, clique_bound, cliques_of
from planners.arena.orders import Greedy, SearchInput
from planners.arena.problem import Buffer, Problem
from planners.arena.pushing import PushingSearch
from planners.formats.allocation_traces import parse_buffers
from planners.kernels.placement_ejection import FOUND, UNDECIDED
from tests.both_kernels import BOTH, needs_compiled
from tests.planners.problems import least_peak, may_be, problems
from tests.shared_data import SHARED

MINIMALLOC = SHARED / "alloc" / "minimalloc"
TRIES = 2000  # placements, for up to six buffers


def crowded(count, seed):
    """Buffers of all sizes, alignments and lifetimes, of which many live at once."""
    random = Random(seed)
    buffers = []
    for number in range(count):
        start = random.randrange(30)
        end = start + random.randrange(1, 15)
        size, alignment = random.randrange(1, 100), random.choice((1, 1, 4))
        buffers.append(
            Buffer(name=str(number), size=size, start=start, end=end, alignment=alignment)
        )
    return Problem(name="crowded", buffers=tuple(buffers))


def started(problem, backend):
    """The blocks of a problem, a poor plan of them, and a search that begins with it."""
    blocks = blocks_of(problem)
    first = Greedy(blocks).offsets(range(len(blocks)))
    search_input = SearchInput(blocks, cliques_of(blocks), backend)
    return blocks, first, PushingSearch(search_input, first, seed=1)


def by_name(blocks, offsets):
    return {
        b.name: at * blocks.unit for at, m in zip(offsets, blocks.members, strict=True) for b in m
    }


def lowest_found(blocks, first, search, tries):
    """The offsets of all plans that are found on the way down, until so many placements fail."""
    plans = [first]
    bound = clique_bound(blocks, cliques_of(blocks)).peak
    while blocks.peak(plans[-1]) > bound:
        search.aim(blocks.peak(plans[-1]) - 1)
        if search.run(tries) == UNDECIDED:
            break
        plans.append(search.offsets)
    return plans


@settings(max_examples=60, deadline=None)
@given(problems())
def test_pushing_finds_the_least_peak_of_small_problems(problem):
    # Not so for every problem: blocks only touch others, or the ends of the room. Six cannot fail it.
    problem = replace(problem, in_place=())
    best = least_peak(problem)
    if not best:
        return
    blocks, first, search = started(problem, compiler.backend(fits=True))
    plans = lowest_found(blocks, first, search, TRIES)
    assert blocks.peak(plans[-1]) == best
    resting = {b.name: b.offset or 0 for b in problem.buffers}
    assert all(may_be(problem, resting | by_name(blocks, offsets)) for offsets in plans)


@pytest.mark.parametrize("backend", BOTH)
def test_every_intermediate_plan_is_valid(backend):
    problem = crowded(count=40, seed=3)
    blocks, first, search = started(problem, backend)
    plans = lowest_found(blocks, first, search, tries=300)
    peaks = [blocks.peak(offsets) for offsets in plans]
    assert len(plans) > 2
    assert peaks == sorted(set(peaks), reverse=True)
    assert all(may_be(problem, by_name(blocks, offsets)) for offsets in plans)


@needs_compiled
def test_compiled_and_plain_kernels_find_the_same_plans():
    problem = crowded(count=60, seed=4)
    ways = [started(problem, backend) for backend in (PLAIN, compiler.COMPILED)]
    plain, compiled = (lowest_found(*way, tries=300) for way in ways)
    assert len(plain) > 2
    assert plain == compiled


def test_a_search_in_slices_gives_the_plan_of_one_long_run():
    problem = crowded(count=40, seed=5)
    blocks, _, whole = started(problem, PLAIN)
    _, _, cut = started(problem, PLAIN)
    goal = clique_bound(blocks, cliques_of(blocks)).peak
    whole.aim(goal)
    cut.aim(goal)
    outcome = whole.run(700)
    for _ in range(100):
        last = cut.run(7)
    assert (outcome, whole.tried) == (last, cut.tried)
    assert whole.offsets == cut.offsets


def test_fixed_blocks_stay_where_they_are():
    problem = crowded(count=30, seed=6)
    fixed = replace(problem.buffers[0], offset=100, alignment=4)
    problem = replace(problem, buffers=(fixed, *problem.buffers[1:]))
    blocks, first, search = started(problem, compiler.backend(fits=True))
    plans = lowest_found(blocks, first, search, tries=2000)
    assert len(plans) > 2
    assert {by_name(blocks, offsets)["0"] for offsets in plans} == {100}


def test_a_capacity_below_a_plan_with_nothing_above_is_found_at_once():
    blocks, first, search = started(crowded(count=30, seed=7), PLAIN)
    search.aim(blocks.peak(first))
    assert search.run(1) == FOUND
    assert search.tried == 0


@pytest.mark.slow
@needs_compiled
@pytest.mark.parametrize(("name", "bound"), [("D", 986_112)])
def test_hard_problems_are_solved_within_five_percent_of_their_load(name, bound):
    # Their largest live loads. Exact search alone ends 5.2% and 4.1% above, after 60 s.
    path = MINIMALLOC / f"{name}.1048576.csv"
    if not path.exists():
        pytest.skip(f"the problem is not at {path}")
    problem = parse_buffers(path.read_text(), path.name, path.stem)
    blocks, first, search = started(problem, compiler.COMPILED)
    plan = lowest_found(blocks, first, search, tries=300_000)[-1]
    assert may_be(problem, by_name(blocks, plan))
    assert bound <= blocks.peak(plan) <= bound * 1.05

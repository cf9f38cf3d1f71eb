"""Plans found by beams, against trying everything."""

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings

from csdf.kernels import compile as compiler
from csdf.kernels.compile import PLAIN
from planners.arena.blocks import blocks_of, clique_bound, cliques_of
from planners.arena.orders import Greedy, SearchInput
from planners.arena.problem import Buffer, Problem
from planners.arena.widening import WideningSearch
from planners.formats.allocation_traces import parse_buffers
from planners.kernels.placement_beam import FOUND, UNDECIDED
from tests.both_kernels import BOTH, needs_compiled
from tests.planners.problems import least_peak, may_be, problem_of, problems
from tests.shared_data import SHARED

MINIMALLOC = SHARED / "alloc" / "minimalloc"
STEPS = 20_000  # for up to six buffers
WIDTHS = 10  # which are doubled each time, as long as that helps


def cut_up(count, seed, alignment=1):
    """Buffers that fill 64 bytes at 20 times without a gap: one rectangle, cut again and again."""
    random = Random(seed)
    pieces = [(0, 20, 64)]
    while len(pieces) < count:
        start, end, size = pieces.pop(random.randrange(len(pieces)))
        if end - start > 1 and (random.randrange(2) or size == 1):
            middle = random.randrange(start + 1, end)
            pieces += [(start, middle, size), (middle, end, size)]
        elif size > 1:
            low = random.randrange(1, size)
            pieces += [(start, end, low), (start, end, size - low)]
        else:
            pieces.append((start, end, size))
    random.shuffle(pieces)
    buffers = (
        Buffer(name=str(n), size=size * alignment, start=start, end=end, alignment=alignment)
        for n, (start, end, size) in enumerate(pieces)
    )
    return Problem(name="cut up", buffers=tuple(buffers))


def started(problem, backend):
    """The blocks of a problem, a bound, and a search for a plan of them."""
    blocks = blocks_of(problem)
    cliques = cliques_of(blocks)
    bound = clique_bound(blocks, cliques).peak
    return blocks, bound, WideningSearch(SearchInput(blocks, cliques, backend))


def by_name(blocks, offsets):
    return {
        b.name: at * blocks.unit for at, m in zip(offsets, blocks.members, strict=True) for b in m
    }


def lowest_found(problem, backend, slice_, slices):
    """The offsets of all plans that are found below that of the first order, in so many slices."""
    blocks, bound, search = started(problem, backend)
    plans = [Greedy(blocks).offsets(range(len(blocks)))]
    for _ in range(slices):
        if blocks.peak(plans[-1]) == bound:
            break
        if search.run(slice_, wanted=bound, peak=blocks.peak(plans[-1])) == FOUND:
            plans.append(search.offsets)
    return [by_name(blocks, offsets) for offsets in plans]


@settings(max_examples=80, deadline=None)
@given(problems())
def test_beams_find_a_plan_of_the_least_peak_of_small_problems(problem):
    # Neither a greedy plan nor a bound helps. In-place pairs are left out.
    problem = replace(problem, in_place=())
    best = least_peak(problem)
    if not best:
        return
    blocks, _, search = started(problem, compiler.backend(fits=True))
    outcomes = {search.run(STEPS, wanted=best, peak=best + 1) for _ in range(WIDTHS)}
    assert FOUND in outcomes
    resting = {b.name: b.offset or 0 for b in problem.buffers}
    assert blocks.peak(search.offsets) <= best
    assert may_be(problem, resting | by_name(blocks, search.offsets))


@settings(max_examples=40, deadline=None)
@given(problems(most=5))
def test_beams_find_no_plan_below_the_least_peak(problem):
    problem = replace(problem, in_place=())
    best = least_peak(problem)
    if not best:
        return
    _, bound, search = started(problem, compiler.backend(fits=True))
    if bound == best:  # below the bound nothing is looked for
        return
    outcomes = {search.run(STEPS, wanted=best - 1, peak=best) for _ in range(WIDTHS)}
    assert outcomes == {UNDECIDED}


@pytest.mark.parametrize("backend", BOTH)
def test_every_intermediate_plan_is_valid(backend):
    problem = cut_up(count=40, seed=3)
    plans = lowest_found(problem, backend, slice_=500, slices=20)
    peaks = [max(plan[b.name] + b.size for b in problem.buffers) for plan in plans]
    assert len(plans) > 1
    assert peaks == sorted(set(peaks), reverse=True)
    assert all(may_be(problem, plan) for plan in plans)


@needs_compiled
@pytest.mark.parametrize("alignment", [1, 16])
def test_a_rectangle_cut_in_pieces_is_packed_without_gaps(alignment):
    problem = cut_up(count=60, seed=5, alignment=alignment)
    plans = lowest_found(problem, compiler.COMPILED, slice_=10_000, slices=20)
    assert max(plans[-1][b.name] + b.size for b in problem.buffers) == 64 * alignment


@needs_compiled
def test_compiled_and_plain_kernels_find_the_same_plans():
    problem = cut_up(count=50, seed=4)
    plain = lowest_found(problem, PLAIN, slice_=700, slices=6)
    assert len(plain) > 1
    assert plain == lowest_found(problem, compiler.COMPILED, slice_=700, slices=6)


def test_a_search_in_slices_gives_the_plan_of_one_long_run():
    backend = compiler.backend(fits=True)
    problem = cut_up(count=40, seed=6)
    whole = lowest_found(problem, backend, slice_=10**6, slices=4)
    cut = lowest_found(problem, backend, slice_=13, slices=10_000)
    assert len(whole) > 1
    assert whole == cut[: len(whole)]


def test_a_block_in_conflict_with_all_others_is_placed_lowest():
    # x and y live all the time, 3 and 4 bytes; a and b need 5 bytes one after the other.
    problem = problem_of(("a", 5, 0, 1), ("x", 3, 0, 2), ("b", 5, 1, 2), ("y", 4, 0, 2))
    blocks, bound, search = started(problem, PLAIN)
    assert search.run(100, wanted=bound, peak=bound + 1) == FOUND
    assert by_name(blocks, search.offsets) == {"x": 0, "y": 3, "a": 7, "b": 7}


def test_fixed_blocks_stay_where_they_are():
    problem = cut_up(count=30, seed=7)
    first = problem.buffers[0]
    problem = replace(problem, buffers=(replace(first, offset=70), *problem.buffers[1:]))
    blocks, _, search = started(problem, compiler.backend(fits=True))
    room = 70 + max(64, first.size)
    assert search.run(10**5, wanted=room, peak=room + 1) == FOUND
    plan = by_name(blocks, search.offsets)
    assert plan[first.name] == 70
    assert may_be(problem, plan)


@pytest.mark.slow
@needs_compiled
@pytest.mark.parametrize(("name", "bound"), [("D", 986_112), ("J", 989_184)])
def test_narrow_beams_alone_approach_the_load_of_hard_problems(name, bound):
    # Their largest live loads. The usual orders alone end 31% and 32% above.
    path = MINIMALLOC / f"{name}.1048576.csv"
    if not path.exists():
        pytest.skip(f"the problem is not at {path}")
    problem = parse_buffers(path.read_text(), path.name, path.stem)
    plan = lowest_found(problem, compiler.COMPILED, slice_=20_000, slices=40)[-1]
    assert may_be(problem, plan)
    assert bound <= max(plan[b.name] + b.size for b in problem.buffers) <= bound * 1.07

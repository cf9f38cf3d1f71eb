"""The least peak against trying everything, with and without the compiler."""

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from csdf.errors import InvalidPlan
from csdf.kernels import compile as compiler
from csdf.kernels.compile import PLAIN
from csdf.status import Status
from planners.arena.allocation import MOST_CHOICES, plan_arena, relaxed
from planners.arena.blocks import blocks_of, clique_bound, cliques_of
from planners.arena.checker import check_plan
from planners.arena.orders import PlacementSearch, SearchInput, random_order, standard_orders
from planners.kernels.placement_search import FOUND, NONE, UNDECIDED
from tests.planners.problems import least_peak, problems


@pytest.mark.slow
@settings(max_examples=120, deadline=None)
@given(problems())
def test_the_peak_is_the_least_and_the_plan_passes_the_checker(problem):
    best = least_peak(problem)
    if best is None:
        with pytest.raises(InvalidPlan):
            plan_arena(problem)
        return
    plan = plan_arena(problem)
    check_plan(plan)
    assert plan.lower_bound <= best <= plan.peak
    assert plan.status == Status.OPTIMAL or 2 ** len(problem.in_place) > MOST_CHOICES


@settings(max_examples=60, deadline=None)
@given(problems(most=5))
def test_a_capacity_is_feasible_exactly_from_the_least_peak_on(problem):
    best = least_peak(problem)
    if (
        not best or 2 ** len(problem.in_place) > MOST_CHOICES
    ):  # no plan to speak of, or not all are tried
        return
    plan = plan_arena(problem, capacity=best)
    check_plan(plan, capacity=best)
    assert plan_arena(problem, capacity=best - 1).status == Status.INFEASIBLE


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(problems(), st.integers(0, 1000))
def test_every_order_finds_a_plan_exactly_from_the_least_peak_on(problem, seed):
    # One search decides it alone: no greedy plan, no bound helps. In-place pairs are left out.
    problem = replace(problem, in_place=())
    best = least_peak(problem)
    if not best:
        return
    blocks = blocks_of(problem)
    for backend in {PLAIN, compiler.backend(fits=True)}:
        search_input = SearchInput(blocks, cliques_of(blocks), backend)
        for order in (*standard_orders(search_input), random_order(search_input, Random(seed))):
            found = PlacementSearch(search_input, best, order)
            assert found.run(10**6) == FOUND
            assert blocks.peak(found.offsets) <= best
            assert PlacementSearch(search_input, best - 1, order).run(10**6) == NONE


@settings(max_examples=40, deadline=None)
@given(problems(), st.integers(1, 3))
def test_a_search_cut_into_slices_ends_as_the_whole(problem, limit):
    problem = replace(problem, in_place=())
    best = least_peak(problem)
    if not best:
        return
    blocks = blocks_of(problem)
    search_input = SearchInput(blocks, cliques_of(blocks), PLAIN)
    for capacity, outcome in ((best, FOUND), (best - 1, NONE)):
        for order in standard_orders(search_input):
            search = PlacementSearch(search_input, capacity, order)
            found = UNDECIDED
            while found == UNDECIDED:
                found = search.run(limit)
            assert found == outcome


@settings(max_examples=25, deadline=None)
@given(problems())
def test_no_bound_is_above_the_least_peak(problem):
    best = least_peak(problem)
    if best is None:
        return
    blocks = blocks_of(relaxed(problem))
    assert clique_bound(blocks, cliques_of(blocks)).peak <= best


@settings(max_examples=40, deadline=None)
@given(problems(most=7), st.integers(2, 5))
def test_scaling_all_sizes_and_places_scales_the_peak(problem, factor):
    scaled = replace(
        problem,
        in_place=(),
        buffers=tuple(
            replace(
                b,
                size=factor * b.size,
                alignment=factor * b.alignment,
                offset=None if b.offset is None else factor * b.offset,
            )
            for b in problem.buffers
        ),
    )
    try:
        plan = plan_arena(replace(problem, in_place=()))
    except InvalidPlan:
        return
    assert plan_arena(scaled).peak == factor * plan.peak


@settings(max_examples=40, deadline=None)
@given(problems(most=7), st.randoms(use_true_random=False))
def test_the_order_of_the_buffers_changes_nothing_about_the_peak(problem, random):
    buffers = list(problem.buffers)
    random.shuffle(buffers)
    try:
        plan = plan_arena(problem)
    except InvalidPlan:
        return
    other = plan_arena(replace(problem, buffers=tuple(buffers)))
    if plan.status == other.status == Status.OPTIMAL:
        assert other.peak == plan.peak

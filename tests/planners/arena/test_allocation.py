"""Plans by hand: what pairs, places, hints and capacities do."""

import pytest

from csdf.errors import GaveUp, InvalidPlan
from csdf.status import Status
from csdf.time_limit import Stop
from planners.arena import blocks
from planners.arena.allocation import choices, plan_arena
from planners.arena.checker import check_plan
from planners.arena.problem import Buffer, Problem
from tests.planners.problems import problem_of


def test_nothing_needs_nothing():
    plan = plan_arena(Problem(name="none", buffers=()))
    assert (plan.peak, plan.status) == (0, Status.OPTIMAL)


def test_an_empty_buffer_gets_an_offset():
    plan = plan_arena(problem_of(("empty", 0, 0, 9), ("never", 5, 3, 3, {"offset": 8})))
    assert plan.offsets == {"empty": 0, "never": 8}
    assert plan.peak == 0


def test_equal_buffers_are_laid_side_by_side():
    plan = plan_arena(problem_of(*((str(n), 3, 0, 2) for n in range(20))))
    assert sorted(plan.offsets.values()) == list(range(0, 60, 3))


def test_only_the_highest_buffer_is_not_rounded_up():
    # 10 and 7 live together; with offsets in multiples of 16 the best is 7 upon 10: 16 + 7.
    rows = [("a", 10, 0, 1, {"alignment": 16}), ("b", 7, 0, 1, {"alignment": 16})]
    plan = plan_arena(problem_of(*rows))
    assert (plan.peak, plan.status) == (23, Status.OPTIMAL)


def test_a_ring_of_conflicts_needs_more_than_its_cliques():
    # Five buffers of one byte, each in conflict with the next: no three conflict with one another,
    # so cliques prove 2 bytes, but an odd ring has no colouring with two colours.
    rows = [(str(n), 1, n, n + 1) for n in range(5)]
    ring = tuple((str(n), str((n + 1) % 5)) for n in range(5))
    problem = problem_of(*rows, conflicts=ring)
    assert plan_arena(problem).peak == 3
    assert plan_arena(problem).status == Status.OPTIMAL
    plan = plan_arena(problem, capacity=2)
    assert plan.status == Status.INFEASIBLE
    assert "3 bytes, proved by search" in str(plan.reason)


def test_pipelined_partitions_conflict_beyond_their_lifetimes():
    # Two partitions that work at the same time on successive frames: p1 and q1 never meet in the
    # time of one frame, but in the pipeline; q2 is known to be dead when p1 lives.
    rows = [("p1", 4, 0, 2), ("q1", 3, 5, 6), ("q2", 2, 1, 3)]
    problem = problem_of(*rows, conflicts=(("p1", "q1"),), may_overlap=(("p1", "q2"),))
    plan = plan_arena(problem)
    assert (plan.peak, plan.status) == (7, Status.OPTIMAL)


def test_a_result_in_place_of_its_input_saves_its_bytes():
    rows = [("x", 8, 0, 2), ("relu", 8, 1, 3), ("w", 2, 0, 3)]
    assert plan_arena(problem_of(*rows)).peak == 18
    plan = plan_arena(problem_of(*rows, in_place=(("relu", "x"),)))
    assert (plan.peak, plan.status) == (10, Status.OPTIMAL)
    assert plan.offsets["x"] == plan.offsets["relu"]


def test_a_long_chain_in_place_is_proved_by_the_relaxed_bound():
    rows = [(f"t{n}", 8, n, n + 2) for n in range(12)]
    pairs = tuple((f"t{n}", f"t{n + 1}") for n in range(11))
    plan = plan_arena(problem_of(*rows, in_place=pairs))
    assert (plan.peak, plan.status) == (8, Status.OPTIMAL)


def test_a_sum_of_four_tensors_may_overwrite_any_one_of_them():
    # Two sums with four pairs each: 5 * 5 choices, as the tensors of a sum are live together.
    rows = [(f"{term}{n}", 8, 2 * n, 2 * n + 2) for n in range(2) for term in "abcd"]
    rows += [(f"sum{n}", 8, 2 * n + 1, 2 * n + 3) for n in range(2)]
    pairs = tuple((f"sum{n}", f"{term}{n}") for n in range(2) for term in "abcd")
    groups, is_complete = choices(problem_of(*rows, in_place=pairs))
    assert (len(groups), is_complete) == (25, True)


def test_fixed_offsets_that_collide_are_an_error_not_an_answer():
    rows = [("a", 4, 0, 2, {"offset": 0}), ("b", 4, 1, 3, {"offset": 2})]
    with pytest.raises(InvalidPlan, match=r"'a' .* and 'b' .* share bytes"):
        plan_arena(problem_of(*rows))


def test_a_hint_is_followed_where_the_arena_does_not_grow():
    rows = [("a", 4, 0, 2), ("b", 4, 1, 3), ("c", 2, 2, 4)]
    hints = {"a": 4, "b": 0, "c": 6}
    buffers = [Buffer(name=n, size=s, start=b, end=e, hint=hints[n]) for n, s, b, e in rows]
    plan = plan_arena(Problem(name="again", buffers=tuple(buffers)))
    assert plan.offsets == hints
    assert plan.peak == 8


def test_a_hint_that_costs_bytes_is_not_followed():
    rows = [("a", 4, 0, 2, {"hint": 100}), ("b", 4, 1, 3, {"hint": 4})]
    plan = plan_arena(problem_of(*rows))
    assert plan.peak == 8
    assert plan.offsets["b"] == 4


def test_infeasible_names_the_time_and_the_buffers():
    plan = plan_arena(problem_of(("a", 4, 0, 7), ("b", 4, 5, 9), ("c", 9, 8, 9)), capacity=12)
    assert plan.status == Status.INFEASIBLE
    assert str(plan.reason) == "live at step 8: buffers 'b', 'c': 13 bytes; the capacity is 12"
    assert plan.offsets == {}


def tired(progress):
    raise GaveUp("enough")


def hard_problem():
    """150 buffers whose greedy plans all lie far above the bound."""
    begins = [n * 31 % 47 for n in range(150)]
    rows = [(str(n), 50 + n * 7919 % 1009, t, t + 1 + n * 17 % 13) for n, t in enumerate(begins)]
    return problem_of(*rows)


def test_the_best_plan_so_far_is_feasible_and_has_a_gap():
    plan = plan_arena(hard_problem(), budget=Stop(report=tired))
    check_plan(plan)
    assert plan.status == Status.FEASIBLE
    assert plan.gap > 0
    assert str(plan.reason) == "enough"


def test_without_a_plan_in_the_capacity_its_status_is_unknown():
    bound = plan_arena(hard_problem(), budget=Stop(report=tired)).lower_bound
    plan = plan_arena(hard_problem(), capacity=bound, budget=Stop(report=tired))
    assert plan.status == Status.UNKNOWN
    assert plan.peak > bound
    assert "enough" in str(plan.reason)


def test_numbers_beyond_64_bits_are_planned_too():
    huge = 2**70
    plan = plan_arena(problem_of(("a", huge, 0, 2), ("b", huge + 1, 1, 3), ("c", 1, 2**80, 2**81)))
    assert (plan.peak, plan.status) == (2 * huge + 1, Status.OPTIMAL)


def test_the_same_problem_gives_the_same_plan():
    assert plan_arena(hard_problem(), budget=Stop(report=tired)) == plan_arena(
        hard_problem(), budget=Stop(report=tired)
    )


def test_a_large_problem_with_exceptions_keeps_a_bound_that_holds(monkeypatch):
    # Beyond the size of exact search lifetimes alone would say 6 bytes; the two may share.
    monkeypatch.setattr(blocks, "MOST_EXACT", 1)
    problem = problem_of(("a", 3, 0, 2), ("b", 3, 1, 3), may_overlap=(("a", "b"),))
    plan = plan_arena(problem)
    assert (plan.peak, plan.status) == (3, Status.OPTIMAL)


def test_huge_numbers_stay_with_plain_kernels():
    plan = plan_arena(
        problem_of(*((str(n), 2**70 + n, 0, 1) for n in range(30))), budget=Stop(report=tired)
    )
    assert plan.peak == 30 * 2**70 + sum(range(30))

"""The checker refuses what is wrong, and nothing else."""

import pytest

from csdf.errors import InvalidPlan
from planners.arena.checker import check_plan
from planners.arena.problem import MemoryPlan
from tests.planners.problems import problem_of


def planned(problem, offsets, lower_bound=0, status="feasible"):
    return MemoryPlan(
        problem=problem, offsets=offsets, lower_bound=lower_bound, status=status, reason="by hand"
    )


PAIR = [("a", 4, 0, 2), ("b", 4, 1, 3)]


def test_buffers_side_by_side_pass():
    check_plan(planned(problem_of(*PAIR), {"a": 0, "b": 4}))


def test_buffers_that_share_a_byte_are_refused_by_name():
    with pytest.raises(InvalidPlan, match=r"'a' \(0 to 4\) and 'b' \(3 to 7\)"):
        check_plan(planned(problem_of(*PAIR), {"a": 0, "b": 3}))


def test_lifetimes_are_half_open():
    check_plan(planned(problem_of(("a", 4, 0, 2), ("b", 4, 2, 3)), {"a": 0, "b": 0}))


def test_a_pair_that_conflicts_beyond_its_lifetimes_is_refused():
    problem = problem_of(("a", 4, 0, 1), ("b", 4, 5, 6), conflicts=(("b", "a"),))
    with pytest.raises(InvalidPlan, match="share bytes"):
        check_plan(planned(problem, {"a": 0, "b": 0}))


def test_a_pair_that_may_share_does():
    check_plan(planned(problem_of(*PAIR, may_overlap=(("b", "a"),)), {"a": 0, "b": 1}))


def test_a_pair_in_place_begins_together_or_lies_apart():
    problem = problem_of(*PAIR, in_place=(("a", "b"),))
    check_plan(planned(problem, {"a": 0, "b": 0}))
    check_plan(planned(problem, {"a": 4, "b": 0}))
    with pytest.raises(InvalidPlan, match="share bytes"):
        check_plan(planned(problem, {"a": 0, "b": 1}))


def test_what_takes_no_room_is_in_no_ones_way():
    problem = problem_of(("a", 4, 0, 2), ("empty", 0, 0, 2), ("never", 9, 1, 1))
    plan = planned(problem, {"a": 0, "empty": 2, "never": 1})
    check_plan(plan, capacity=4)
    assert plan.peak == 4


@pytest.mark.parametrize(
    ("offsets", "complaint"),
    [
        ({"a": 0}, "'b' has no offset"),
        ({"a": -4, "b": 4}, "'a' lies at -4"),
        ({"a": 2, "b": 8}, "'a' lies at 2; expected a multiple of 4"),
        ({"a": 0, "b": 12}, "'b' lies at 12; expected 8"),
    ],
)
def test_a_wrong_place_is_refused(offsets, complaint):
    problem = problem_of(("a", 4, 0, 2, {"alignment": 4}), ("b", 4, 1, 3, {"offset": 8}))
    with pytest.raises(InvalidPlan, match=complaint):
        check_plan(planned(problem, offsets))


def test_a_plan_beyond_the_capacity_is_refused():
    with pytest.raises(InvalidPlan, match="'b' ends at 8, beyond capacity 7"):
        check_plan(planned(problem_of(*PAIR), {"a": 0, "b": 4}), capacity=7)


def test_a_status_that_the_bound_does_not_bear_out_is_refused():
    problem, offsets = problem_of(*PAIR), {"a": 0, "b": 4}
    check_plan(planned(problem, offsets, lower_bound=8, status="optimal"))
    with pytest.raises(InvalidPlan, match="called optimal"):
        check_plan(planned(problem, offsets, lower_bound=7, status="optimal"))
    with pytest.raises(InvalidPlan, match="below its lower bound"):
        check_plan(planned(problem, offsets, lower_bound=9))

"""Problems are valid from birth."""

from fractions import Fraction

import pytest

from csdf.errors import InvalidPlan
from planners.arena.problem import Bank, Buffer, MemoryPlan, Problem
from tests.planners.problems import problem_of


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        ({"size": -1}, "'x' has size -1"),
        ({"start": 3}, "'x' ends at 2, before it starts at 3"),
        ({"alignment": 0}, "'x' has alignment 0"),
        ({"offset": 2, "alignment": 4}, "'x' has offset 2; expected a multiple of its alignment 4"),
        ({"hint": -4}, "'x' has hint -4"),
    ],
)
def test_a_buffer_that_cannot_be_is_refused(values, complaint):
    with pytest.raises(InvalidPlan, match=complaint):
        Buffer(**{"name": "x", "size": 1, "start": 0, "end": 2} | values)


@pytest.mark.parametrize(
    ("pairs", "complaint"),
    [
        ({"conflicts": (("a", "c"),)}, "unknown buffer 'c'"),
        ({"may_overlap": (("a", "a"),)}, "pairs buffer 'a' with itself"),
        (
            {"may_overlap": (("a", "b"),), "in_place": (("b", "a"),)},
            "is listed in both may_overlap and in_place",
        ),
    ],
)
def test_pairs_that_contradict_are_refused(pairs, complaint):
    with pytest.raises(InvalidPlan, match=complaint):
        problem_of(("a", 1, 0, 1), ("b", 1, 0, 1), **pairs)


def test_names_are_unique():
    with pytest.raises(InvalidPlan, match="two buffers have the name 'a'"):
        problem_of(("a", 1, 0, 1), ("b", 1, 0, 1), ("a", 1, 0, 1))


def test_a_bank_is_known_and_has_a_capacity():
    with pytest.raises(InvalidPlan, match="'a' wants the unknown bank 'fast'"):
        problem_of(("a", 1, 0, 1, {"bank": "fast"}))
    with pytest.raises(InvalidPlan, match="'fast' has capacity -1"):
        Bank(name="fast", capacity=-1)


def test_the_gap_is_a_part_of_the_bound():
    plan = MemoryPlan(
        problem=problem_of(("a", 6, 0, 1)),
        offsets={"a": 0},
        lower_bound=4,
        status="feasible",
        reason="",
    )
    assert plan.gap == Fraction(1, 2)


def test_without_a_plan_there_is_no_peak():
    plan = MemoryPlan(
        problem=problem_of(("a", 6, 0, 1)), lower_bound=6, status="infeasible", reason=""
    )
    with pytest.raises(InvalidPlan, match="there is no plan: infeasible"):
        _ = plan.peak


def test_an_empty_problem_needs_nothing():
    plan = MemoryPlan(
        problem=Problem(name="none", buffers=()), lower_bound=0, status="optimal", reason=""
    )
    assert (plan.peak, plan.gap) == (0, 0)

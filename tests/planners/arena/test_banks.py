"""Several memories."""

import pytest

from csdf.errors import InvalidPlan
from planners.arena.banks import plan_banks
from planners.check import check_plan
from planners.plan import FEASIBLE, INFEASIBLE, Bank
from tests.planners.problems import problem_of

FAST, SLOW = Bank(name="fast", capacity=8), Bank(name="slow", capacity=20)


def test_the_preferred_bank_is_filled_first():
    # 5 + 3 fit the fast bank together; 12 fits the slow one only.
    problem = problem_of(("a", 5, 0, 2), ("b", 3, 0, 2), ("c", 12, 1, 2), banks=(FAST, SLOW))
    found = plan_banks(problem)
    assert found.status == FEASIBLE
    assert {name: set(plan.offsets) for name, plan in found.plans.items()} == {
        "fast": {"a", "b"},
        "slow": {"c"},
    }
    for bank in problem.banks:
        check_plan(found.plans[bank.name], capacity=bank.capacity)


def test_a_buffer_lies_in_the_bank_it_names():
    problem = problem_of(("a", 5, 0, 2, {"bank": "slow"}), ("b", 3, 0, 2), banks=(FAST, SLOW))
    found = plan_banks(problem)
    assert set(found.plans["slow"].offsets) == {"a"}


def test_more_than_all_capacities_is_infeasible():
    problem = problem_of(("a", 15, 0, 2), ("b", 14, 1, 2), banks=(FAST, SLOW))
    found = plan_banks(problem)
    assert found.status == INFEASIBLE
    assert "at time 1 buffers 'a', 'b' need at least 29 bytes" in found.reason


def test_what_names_a_bank_too_small_is_infeasible():
    problem = problem_of(("a", 9, 0, 2, {"bank": "fast"}), banks=(FAST, SLOW))
    found = plan_banks(problem)
    assert found.status == INFEASIBLE
    assert found.reason.startswith("bank 'fast'")


def test_without_banks_there_is_nothing_to_choose():
    with pytest.raises(InvalidPlan, match="has no banks"):
        plan_banks(problem_of(("a", 1, 0, 1)))

"""Several memories."""

from dataclasses import replace
from itertools import product

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from csdf.errors import GaveUp, InvalidPlan
from csdf.status import Status
from csdf.time_limit import Stop
from planners.arena import banks
from planners.arena.banks import plan_banks
from planners.arena.checker import check_plan
from planners.arena.problem import Bank, Buffer, Problem
from tests.planners.problems import least_peak, problem_of, problems

FAST, SLOW = Bank(name="fast", capacity=8), Bank(name="slow", capacity=20)


def test_the_preferred_bank_is_filled_first():
    # 5 + 3 fit the fast bank together; 12 fits the slow one only.
    problem = problem_of(("a", 5, 0, 2), ("b", 3, 0, 2), ("c", 12, 1, 2), banks=(FAST, SLOW))
    found = plan_banks(problem)
    assert found.status == Status.FEASIBLE
    assert {name: set(plan.offsets) for name, plan in found.plans.items()} == {
        "fast": {"a", "b"},
        "slow": {"c"},
    }
    for bank in problem.banks:
        check_plan(found.plans[bank.name], capacity=bank.capacity)


def test_a_buffer_is_placed_in_the_bank_it_names():
    problem = problem_of(("a", 5, 0, 2, {"bank": "slow"}), ("b", 3, 0, 2), banks=(FAST, SLOW))
    found = plan_banks(problem)
    assert set(found.plans["slow"].offsets) == {"a"}


def test_more_than_all_capacities_is_infeasible():
    problem = problem_of(("a", 15, 0, 2), ("b", 14, 1, 2), banks=(FAST, SLOW))
    found = plan_banks(problem)
    assert found.status == Status.INFEASIBLE
    assert "live at step 1: buffers 'a', 'b': 29 bytes" in str(found.reason)


def test_a_buffer_larger_than_its_named_bank_is_infeasible():
    problem = problem_of(("a", 9, 0, 2, {"bank": "fast"}), banks=(FAST, SLOW))
    found = plan_banks(problem)
    assert found.status == Status.INFEASIBLE
    assert str(found.reason).startswith("bank 'fast'")


def test_without_banks_there_is_nothing_to_choose():
    with pytest.raises(InvalidPlan, match="has no banks"):
        plan_banks(problem_of(("a", 1, 0, 1)))


def test_two_banks_of_10_hold_6_5_5_and_4():
    # The first bank keeps 5 and 4 when its largest go on; 6 and 5 do not fit the second one.
    rows = [(f"b{size}{i}", size, 0, 1) for i, size in enumerate((6, 5, 5, 4))]
    banks = Bank(name="one", capacity=10), Bank(name="two", capacity=10)
    found = plan_banks(problem_of(*rows, banks=banks))
    assert (found.status, str(found.reason)) == (Status.FEASIBLE, "every bank fits")
    assert sorted(sorted(plan.offsets) for plan in found.plans.values()) == [
        ["b43", "b60"],
        ["b51", "b52"],
    ]


def test_hints_of_buffers_of_one_size_follow_their_own_alignments():
    rows = [("a", 6, 0, 1, {"alignment": 2}), ("b", 6, 0, 1, {"alignment": 3, "hint": 3})]
    rows += [("c", 5, 0, 1), ("d", 3, 0, 1)]
    banks = Bank(name="one", capacity=9), Bank(name="two", capacity=11)
    found = plan_banks(problem_of(*rows, banks=banks))
    assert found.status == Status.FEASIBLE


def test_buffers_that_fit_no_assignment_to_banks_are_infeasible():
    # 18 bytes in banks of 10 and 10: two of three sixes would have to lie in one of them.
    rows = [(f"b{i}", 6, 0, 1) for i in range(3)]
    banks = Bank(name="one", capacity=10), Bank(name="two", capacity=10)
    found = plan_banks(problem_of(*rows, banks=banks))
    assert found.status == Status.INFEASIBLE
    assert str(found.reason) == "all choices of a bank for each buffer were searched; none fits"
    assert found.plans == {}


def test_fixed_offsets_that_meet_lie_in_different_banks():
    rows = [(name, 3, 0, 1, {"offset": 0}) for name in ("a", "b")]
    banks = Bank(name="one", capacity=5), Bank(name="two", capacity=5)
    found = plan_banks(problem_of(*rows, banks=banks))
    assert {name: plan.offsets for name, plan in found.plans.items()} in (
        {"one": {"a": 0}, "two": {"b": 0}},
        {"one": {"b": 0}, "two": {"a": 0}},
    )


def test_fixed_offsets_that_meet_in_the_bank_they_name_are_infeasible():
    rows = [(name, 3, 0, 1, {"offset": 0, "bank": "one"}) for name in ("a", "b")]
    found = plan_banks(problem_of(*rows, banks=(Bank(name="one", capacity=9),)))
    assert found.status == Status.INFEASIBLE
    assert str(found.reason).startswith("bank 'one': fixed offsets: ")


@pytest.mark.parametrize("end", [GaveUp("the budget is used up"), KeyboardInterrupt()])
def test_the_watch_ends_the_search_of_banks(end):
    # 30 different sizes that fill three banks but for a byte: far too many choices to look at.
    rows = [(f"b{i}", 1000 + 37 * i, 0, 1) for i in range(30)]
    capacity = sum(row[1] for row in rows) // 3 + 1
    banks = tuple(Bank(name=str(i), capacity=capacity) for i in range(3))
    looks = iter(range(50))

    def watch(_):
        if next(looks, None) is None:
            raise end

    found = plan_banks(problem_of(*rows, banks=banks), budget=Stop(report=watch))
    assert (found.status, found.plans) == (Status.UNKNOWN, {})
    assert str(found.reason).startswith(str(end) or "interrupted")


@pytest.mark.slow
def test_a_search_of_banks_that_is_too_long_ends_and_says_so():
    # Sizes are tens and add up to an odd number of tens; each bank has room for a half and five
    # bytes that nothing fills. To prove that none fits, nearly all halves have to be looked at.
    rows = [(f"b{i}", 10 * (20 + i), 0, 1) for i in range(30)]
    total = sum(size for _, size, _, _ in rows)
    assert total // 10 % 2 == 1
    banks = tuple(Bank(name=str(i), capacity=total // 2) for i in range(2))
    found = plan_banks(problem_of(*rows, banks=banks))
    assert found.status == Status.UNKNOWN
    assert "were tried, not all; no choice of banks that fits is known" in str(found.reason)


def test_more_buffers_than_are_searched_are_left_to_the_heuristic():
    # Each bank takes one of them, and there is a bank less than there are buffers.
    rows = [(f"b{i}", 6, 0, 1) for i in range(66)]
    banks = tuple(Bank(name=str(i), capacity=11) for i in range(65))
    found = plan_banks(problem_of(*rows, banks=banks))
    assert found.status == Status.UNKNOWN
    assert str(found.reason).startswith("66 buffers are too many to search all choices of banks")
    enough = (*banks, Bank(name="65", capacity=11))
    assert plan_banks(problem_of(*rows, banks=enough)).status == Status.FEASIBLE


@st.composite
def problems_with_banks(draw):
    problem = draw(problems(most=5))
    count = draw(st.integers(1, 3))
    banks = tuple(Bank(name=str(i), capacity=draw(st.integers(0, 9))) for i in range(count))
    names = st.sampled_from((None, None, None, None, *(bank.name for bank in banks)))
    buffers = tuple(replace(one, bank=draw(names)) for one in problem.buffers)
    return replace(problem, buffers=buffers, banks=banks)


def part_of(problem, names):
    pairs = {
        what: tuple(pair for pair in getattr(problem, what) if set(pair) <= names)
        for what in ("conflicts", "may_overlap", "in_place")
    }
    buffers = tuple(replace(b, bank=None) for b in problem.buffers if b.name in names)
    return replace(problem, buffers=buffers, banks=(), **pairs)


def fits_somehow(problem):
    """Whether some choice of banks fits, by trying all of them and all offsets in each."""
    choices = [
        [bank.name for bank in problem.banks if one.bank in (None, bank.name)]
        for one in problem.buffers
    ]
    for choice in product(*choices):
        for bank in problem.banks:
            pairs = zip(problem.buffers, choice, strict=True)
            peak = least_peak(part_of(problem, {one.name for one, at in pairs if at == bank.name}))
            if peak is None or peak > bank.capacity:
                break
        else:
            return True
    return False


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(problem=problems_with_banks())
def test_banks_are_filled_whenever_that_can_be(problem):
    found = plan_banks(problem)
    assert found.status == (Status.FEASIBLE if fits_somehow(problem) else Status.INFEASIBLE)
    if found.status == Status.FEASIBLE:
        placed = [name for plan in found.plans.values() for name in plan.offsets]
        assert sorted(placed) == sorted(one.name for one in problem.buffers)
        for bank in problem.banks:
            check_plan(found.plans[bank.name], capacity=bank.capacity)
            named = [one.name for one in problem.buffers if one.bank == bank.name]
            assert set(named) <= set(found.plans[bank.name].offsets)


def test_a_set_that_was_planned_is_answered_beyond_the_limit_of_plans(monkeypatch):
    monkeypatch.setattr(banks, "MOST_PLANS", 1)
    buffers = tuple(Buffer(name=n, size=6, start=0, end=1, alignment=4) for n in "ab")
    bank = Bank(name="fast", capacity=14)
    problem = Problem(name="two", buffers=buffers, banks=(bank,))
    contents = banks.Contents(problem, Stop())
    assert contents.can_fit(bank, frozenset("ab"))
    assert contents.can_fit(bank, frozenset("ab"))
    with pytest.raises(GaveUp):
        contents.can_fit(bank, frozenset("a"))

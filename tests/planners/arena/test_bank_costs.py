"""Banks with costs of an access: the least, beside every choice, and beside a bound."""

from itertools import combinations
from random import Random

import pytest

from csdf.errors import InvalidPlan
from csdf.status import Status
from csdf.time_limit import Stop
from planners.arena.allocation import plan_arena
from planners.arena.banks import plan_banks
from planners.arena.checker import check_plan
from planners.arena.problem import Bank, Buffer, Problem


def problem_of(random, count, *, dear=10**6):
    buffers = []
    for number in range(count):
        start = random.randint(0, 5)
        size = random.randint(1, 9)
        accesses = random.randint(0, 20)
        end = start + random.randint(1, 4)
        buffers.append(
            Buffer(name=f"b{number}", size=size, start=start, end=end, accesses=accesses)
        )
    banks = (
        Bank(name="fast", capacity=random.randint(3, 20), cost=1),
        Bank(name="slow", capacity=dear, cost=random.randint(2, 5)),
    )
    return Problem(name="random", buffers=tuple(buffers), banks=banks)


def least_cost(problem):
    """The least over all sets of buffers in the first bank whose least arenas fit both banks."""
    fast, slow = problem.banks
    best = None
    for count in range(len(problem.buffers) + 1):
        for some in combinations(problem.buffers, count):
            others = [one for one in problem.buffers if one not in some]
            cost = fast.cost * sum(one.accesses for one in some)
            cost += slow.cost * sum(one.accesses for one in others)
            if best is None or cost < best:
                sides = zip((some, others), problem.banks, strict=True)
                plans = [
                    plan_arena(problem.part(held, "held"), capacity=bank.capacity)
                    for held, bank in sides
                ]
                if Status.INFEASIBLE not in [plan.status for plan in plans]:
                    best = cost
    return best


@pytest.mark.parametrize("seed", range(25))
def test_the_least_cost_is_found_and_proved(seed):
    problem = problem_of(Random(seed), 7)
    found = plan_banks(problem)
    assert (found.status, found.cost) == (Status.OPTIMAL, least_cost(problem))
    assert found.cost_bound == found.cost
    for bank in problem.banks:
        check_plan(found.plans[bank.name])
        assert found.plans[bank.name].peak <= bank.capacity
    costs = {bank.name: bank.cost for bank in problem.banks}
    names = [(one.name, name) for name, plan in found.plans.items() for one in plan.problem.buffers]
    assert sorted(name for name, _ in names) == sorted(one.name for one in problem.buffers)
    accesses = {one.name: one.accesses for one in problem.buffers}
    assert found.cost == sum(accesses[name] * costs[bank] for name, bank in names)


@pytest.mark.parametrize("seed", range(20))
def test_the_least_cost_beside_a_full_dearer_bank_is_proved(seed):
    problem = problem_of(Random(seed), 7, dear=10 + seed % 6)
    found, least = plan_banks(problem), least_cost(problem)
    assert found.status == (Status.INFEASIBLE if least is None else Status.OPTIMAL)
    assert found.cost == least
    ended = plan_banks(problem, budget=Stop(steps=0))
    assert ended.status in (found.status, Status.UNKNOWN, Status.FEASIBLE)


def test_a_search_that_ends_before_its_first_choice_proves_nothing():
    problem = problem_of(Random(7), 8, dear=14)
    assert plan_banks(problem).status == Status.OPTIMAL
    ended = plan_banks(problem, budget=Stop(steps=0))
    assert (ended.status, ended.plans) == (Status.UNKNOWN, {})
    assert str(ended.reason).startswith("0 steps are done")


def test_a_search_that_ends_has_a_choice_and_a_bound():
    problem = problem_of(Random(1), 60)
    found = plan_banks(problem, budget=0.5)
    assert found.status in (Status.FEASIBLE, Status.OPTIMAL)
    assert 0 < found.cost_bound <= found.cost
    for plan in found.plans.values():
        check_plan(plan)


def test_a_named_bank_is_kept_at_any_cost():
    named = Buffer(name="x", size=2, start=0, end=2, bank="slow", accesses=5)
    banks = Bank(name="fast", capacity=9), Bank(name="slow", capacity=9, cost=3)
    found = plan_banks(Problem(name="named", buffers=(named,), banks=banks))
    assert (found.cost, found.status) == (15, Status.OPTIMAL)


def test_costs_of_three_banks_are_refused():
    banks = tuple(Bank(name=str(cost), capacity=9, cost=cost) for cost in range(3))
    with pytest.raises(InvalidPlan, match="expected two banks"):
        plan_banks(Problem(name="three", buffers=(), banks=banks))


@pytest.mark.parametrize(
    "make",
    [
        lambda: Bank(name="a", capacity=1, cost=-1),
        lambda: Buffer(name="a", size=1, start=0, end=1, accesses=-1),
    ],
)
def test_negative_costs_are_refused(make):
    with pytest.raises(InvalidPlan, match="-1"):
        make()

"""Baselines: they are selections, and never better than ours."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planners.primitives.selection.planning import (
    budgets,
    families,
    greedy_pairs,
    in_order,
    single_families,
)
from planners.primitives.selection.problem import Objective, selection_problem
from planners.primitives.selection.trade_off import trade_off
from tests.planners.primitives.selection.random_problems import problems
from tests.planners.primitives.selection.synthetic import network_of, profile_of

objectives = st.sampled_from(Objective)


@pytest.mark.slow
@given(problem=problems(), objective=objectives, memory=st.integers(0, 80))
def test_the_choice_in_order_fits_and_is_not_faster_than_the_front(problem, objective, memory):
    found = in_order(problem, objective, memory)
    best = trade_off(problem, objective).within_memory(memory)
    if found is not None:
        assert found.memory(objective) <= memory
        assert found.nanoseconds >= best.nanoseconds


@pytest.mark.slow
@given(problem=problems(), objective=objectives)
def test_the_front_is_at_least_as_good_as_each_family_alone(problem, objective):
    front = trade_off(problem, objective)
    for one in single_families(problem, objective):
        best = front.within_memory(one.selection.memory(objective))
        assert best.nanoseconds <= one.selection.nanoseconds


def test_a_family_alone_is_taken_wherever_it_can_be():
    network = network_of("resnet8")
    problem = selection_problem(network, profile_of(network))
    names = families(problem)["winograd"]
    (alone,) = (
        one for one in single_families(problem, Objective.NETWORK) if one.name == "winograd"
    )
    for candidates, taken in zip(problem.candidates, alone.selection.chosen, strict=True):
        has_it = any(one.primitive in names for one in candidates)
        assert (taken.primitive in names) == has_it


def test_greedy_is_drawn_at_budgets_from_the_least_to_the_most_of_use():
    network = network_of("resnet8")
    problem = selection_problem(network, profile_of(network))
    for objective in Objective:
        front = trade_off(problem, objective)
        memories = budgets(front, 10)
        assert memories == tuple(sorted(memories))
        assert memories[0] == front.smallest.memory
        assert memories[-1] >= front.fastest.memory
        reached = list(greedy_pairs(front, memories))
        assert {one.memory for one in reached} <= set(memories)
        for one in reached:
            assert front.within_memory(one.memory).nanoseconds <= one.nanoseconds

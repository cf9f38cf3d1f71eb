"""Baselines: they are selections, and never better than ours."""

from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planners.primitives.profile import CHW, HWC, LayerProfile, TransformProfile
from planners.primitives.selection.planning import (
    budgets,
    families,
    greedy_pairs,
    in_order,
    single_families,
)
from planners.primitives.selection.problem import (
    LayerLink,
    Objective,
    Pair,
    SelectionProblem,
    selection_problem,
)
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


def test_a_limit_a_few_bytes_below_the_greedy_choice_returns():
    # Two layers, the first fast in another layout; the change of the layout needs 10^12 bytes, which
    # the greedy choice does not see. Only a limit below the map (1,000 bytes) changes its choice.
    def way(layer, primitive, written, nanoseconds, workspace):
        return LayerProfile(
            layer=layer,
            primitive=primitive,
            input_layout=CHW,
            output_layout=written,
            nanoseconds=nanoseconds,
            spread_nanoseconds=0,
            workspace_bytes=workspace,
            parameter_bytes=0,
        )

    change = TransformProfile(
        producer="a",
        consumer="b",
        index=0,
        source_layout=HWC,
        target_layout=CHW,
        nanoseconds=0,
        spread_nanoseconds=0,
        workspace_bytes=10**12,
    )
    slow = way("a", "slow", CHW, 2, 0)
    last = way("b", "slow", CHW, 2, 0)
    problem = SelectionProblem(
        name="hang",
        layers=("a", "b"),
        candidates=((way("a", "fast", HWC, 1, 1000), slow), (last,)),
        links=(LayerLink(producer=0, consumer=1, index=0, map_bytes=0, changes=(change,)),),
    )
    chosen = in_order(problem, Objective.NETWORK, 10**12 + 999)
    assert chosen is not None
    assert chosen.chosen == (slow, last)
    assert in_order(problem, Objective.NETWORK, 10**12 + 1000).nanoseconds == 3


@pytest.mark.slow
@given(problem=problems(), objective=objectives)
def test_the_front_is_at_least_as_good_as_each_family_alone(problem, objective):
    front = trade_off(problem, objective)
    for _, selection in single_families(problem, objective):
        best = front.within_memory(selection.memory(objective))
        assert best.nanoseconds <= selection.nanoseconds


def test_a_single_family_is_chosen_wherever_it_applies():
    network = network_of("resnet8")
    problem = selection_problem(network, profile_of(network))
    names = families(problem)["winograd"]
    alone = dict(single_families(problem, Objective.NETWORK))["winograd"]
    for candidates, taken in zip(problem.candidates, alone.chosen, strict=True):
        has_it = any(one.primitive in names for one in candidates)
        assert (taken.primitive in names) == has_it


def test_greedy_is_drawn_at_budgets_from_the_least_to_the_most_of_use():
    network = network_of("resnet8")
    problem = selection_problem(network, profile_of(network))
    # In floating point 7 * (29 / 7) is more than 29.
    rounded = SimpleNamespace(smallest=Pair(2, 7), fastest=Pair(1, 29))
    assert budgets(rounded, 2) == (7, 29)
    for objective in Objective:
        front = trade_off(problem, objective)
        memories = budgets(front, 10)
        assert memories == tuple(sorted(memories))
        assert memories[0] == front.smallest.memory
        assert memories[-1] == front.fastest.memory
        reached = list(greedy_pairs(front, memories))
        assert {one.memory for one in reached} <= set(memories)
        for one in reached:
            assert front.within_memory(one.memory).nanoseconds <= one.nanoseconds

"""Questions for a selection, and what is said of the answers."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from csdf.errors import GaveUp, InvalidPlan
from csdf.time_limit import Stop
from planners.primitives.selection import solver
from planners.primitives.selection.planning import Constraint, best_selection
from planners.primitives.selection.problem import Objective, selection_problem
from planners.primitives.selection.solver import solved_front, solved_selection
from planners.primitives.selection.trade_off import trade_off
from tests.planners.primitives.selection.random_problems import problems
from tests.planners.primitives.selection.synthetic import network_of, profile_of


def resnet8():
    network = network_of("resnet8")
    return selection_problem(network, profile_of(network))


@st.composite
def demands(draw):
    limit = draw(st.sampled_from(("memory", "nanoseconds", None)))
    limits = {} if limit is None else {limit: draw(st.integers(0, 60))}
    return Constraint(objective=draw(st.sampled_from(Objective)), **limits)


@pytest.mark.slow
@given(problem=problems(), demand=demands())
@settings(max_examples=25, deadline=None)
def test_both_solvers_give_one_answer(problem, demand):
    mine, other = best_selection(problem, demand), solved_selection(problem, demand)
    assert mine.status == other.status
    if mine.selection is None:
        assert (str(mine.reason), mine.least) == (str(other.reason), other.least)
        return
    assert demand.is_met_by(mine.selection)
    assert demand.is_met_by(other.selection)
    assert demand.cost(mine.selection)[0] == demand.cost(other.selection)[0]


@pytest.mark.slow
@given(problem=problems(), objective=st.sampled_from(Objective))
def test_more_memory_never_costs_time_and_more_time_never_memory(problem, objective):
    front = trade_off(problem, objective)
    times = [front.within_memory(size) for size in range(front.smallest.memory, 60, 7)]
    assert times == sorted(times, key=lambda one: -one.nanoseconds)
    sizes = [front.within_time(time) for time in range(front.fastest.nanoseconds, 60, 7)]
    assert sizes == sorted(sizes, key=lambda one: -one.memory)


def test_an_infeasible_answer_names_the_minimum():
    problem = resnet8()
    for objective in Objective:
        front = trade_off(problem, objective)
        too_small = Constraint(objective=objective, memory=front.smallest.memory - 1)
        assert best_selection(problem, too_small).least == front.smallest.memory
        too_fast = Constraint(objective=objective, nanoseconds=front.fastest.nanoseconds - 1)
        assert best_selection(problem, too_fast).least == front.fastest.nanoseconds
        enough = Constraint(objective=objective, memory=front.smallest.memory)
        assert best_selection(problem, enough).status == "optimal"


def test_the_front_of_the_solver_lies_on_the_front():
    problem = resnet8()
    for objective in Objective:
        front = trade_off(problem, objective)
        found = solved_front(problem, objective, 5)
        assert len(found) >= 3
        for one in found:
            assert front.within_memory(one.memory).nanoseconds == one.nanoseconds


@pytest.mark.parametrize("end", [GaveUp("the budget is used up"), KeyboardInterrupt()])
def test_a_search_that_ends_early_returns_the_best_fitting_plan(end):
    def look(_):
        raise end

    problem = resnet8()
    objective = Objective.WORKSPACE
    found = best_selection(
        problem, Constraint(objective=objective, memory=100_000), Stop(report=look)
    )
    assert found.status == "feasible"
    assert found.selection.memory(objective) <= 100_000
    assert str(found.reason) in ("the budget is used up", "interrupted")
    impossible = best_selection(
        problem, Constraint(objective=objective, nanoseconds=1), Stop(report=look)
    )
    assert (impossible.status, impossible.selection) == ("unknown", None)


@pytest.mark.parametrize("runs", [0, 1, 4])
def test_the_solver_is_not_run_again_when_the_time_is_over(monkeypatch, runs):
    problem, done = resnet8(), []
    milp = solver.milp

    def counted(*given, **options):
        done.append(options["options"]["time_limit"])
        return milp(*given, **options)

    class Runs(Stop):
        """A stop whose seconds are used up after so many runs."""

        seconds_left = property(lambda _: 1000.0 if len(done) < runs else 0.0)

    monkeypatch.setattr(solver, "milp", counted)
    found = solved_front(problem, Objective.NETWORK, 5, Runs())
    assert done == [1000.0] * runs
    assert len(found) == max(0, runs - 2)  # the first two runs are for the ends of the front
    answer = solved_selection(problem, Constraint(objective=Objective.NETWORK), Runs())
    assert (answer.status, str(answer.reason)) == (
        "feasible",
        "the time limit of the solver is reached",
    )


def test_an_interrupt_leaves_the_front_that_the_solver_has_found(monkeypatch):
    problem, looks = resnet8(), iter(range(4))

    def report(_):
        if next(looks, None) is None:
            raise KeyboardInterrupt

    assert len(solved_front(problem, Objective.NETWORK, 5, Stop(report=report))) == 2


def test_a_constraint_limits_memory_or_time_but_not_both():
    with pytest.raises(InvalidPlan, match="limit one"):
        Constraint(objective=Objective.NETWORK, memory=1, nanoseconds=1)


def test_a_pair_of_no_selection_is_refused():
    front = trade_off(resnet8(), Objective.NETWORK)
    wrong = front.smallest._replace(nanoseconds=front.smallest.nanoseconds - 1)
    with pytest.raises(InvalidPlan, match="take a pair of the front"):
        front.selection(wrong)

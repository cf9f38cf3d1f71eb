"""CP-SAT agrees; skipped where OR-Tools is not installed."""

from dataclasses import replace

import pytest
from hypothesis import given, settings

from planners.arena.checker import check_plan
from tests.planners.problems import least_peak, problems

pytest.importorskip("ortools")


@settings(max_examples=15, deadline=None)
@given(problems())
def test_cp_sat_finds_the_least_peak(problem):
    from planners.arena.cp_sat import plan_with_cp_sat

    problem = replace(problem, in_place=())
    best = least_peak(problem)
    if best is None:
        return
    plan = plan_with_cp_sat(problem, budget=20)
    check_plan(plan)
    assert plan.peak == best

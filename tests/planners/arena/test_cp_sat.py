"""CP-SAT agrees; skipped where OR-Tools is not installed."""

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings

from csdf.status import Ended, Status
from csdf.time_limit import Stop
from planners.arena.checker import check_plan
from planners.arena.problem import Buffer, Problem
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


def test_the_same_effort_gives_the_same_plan_of_cp_sat_whatever_the_clock_says():
    from planners.arena.cp_sat import plan_with_cp_sat

    # 60 buffers of random sizes, whose proof takes longer than this effort.
    source = Random(3)
    buffers = []
    for number in range(60):
        start = source.randrange(30)
        end = start + source.randint(5, 20)
        buffers.append(Buffer(name=str(number), size=source.randint(1, 900), start=start, end=end))
    problem = Problem(name="random", buffers=tuple(buffers))
    plans = [
        plan_with_cp_sat(problem, budget=Stop(seconds, effort=0.15)) for seconds in (None, 600)
    ]
    for plan in plans:
        assert plan.status is Status.FEASIBLE
        assert plan.reason.has(Ended.EFFORT)
        assert plan.offsets == plans[0].offsets

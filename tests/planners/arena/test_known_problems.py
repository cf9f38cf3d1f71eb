"""Traces of real networks, and the problems of MiniMalloc."""

import pytest

from csdf.status import Status
from planners.arena.allocation import plan_arena
from planners.arena.checker import check_plan
from planners.formats.allocation_traces import parse_buffers, parse_traces
from tests.shared_data import SHARED, each

TRACES = SHARED / "alloc" / "glow" / "traces.txt"
MINIMALLOC = SHARED / "alloc" / "minimalloc"
CAPACITY = 1_048_576


@pytest.mark.skipif(not TRACES.exists(), reason="no Glow traces beside the checkout")
def test_all_traces_of_glow_are_proved_optimal():
    problems = parse_traces(TRACES.read_text(), "traces.txt")
    assert len(problems) == 79
    for problem in problems:
        plan = plan_arena(problem)
        check_plan(plan)
        assert plan.status == Status.OPTIMAL, problem.name


@pytest.mark.slow
@each("path", sorted(MINIMALLOC.glob("*.csv")))
def test_the_problems_of_minimalloc_fit_their_capacity(path):
    problem = parse_buffers(path.read_text(), path.name, path.stem)
    plan = plan_arena(problem, capacity=CAPACITY)
    check_plan(plan, capacity=CAPACITY)
    # Their largest live loads; that of all others is the capacity itself.
    bounds = {"C": 1_039_360, "D": 986_112, "J": 989_184}
    assert plan.lower_bound == bounds.get(path.stem[0], CAPACITY)


@each("path", sorted(MINIMALLOC.glob("[ABK]*.csv")))
def test_one_byte_less_is_infeasible(path):
    problem = parse_buffers(path.read_text(), path.name, path.stem)
    plan = plan_arena(problem, capacity=CAPACITY - 1)
    assert plan.status == Status.INFEASIBLE
    assert "live at step" in str(plan.reason)

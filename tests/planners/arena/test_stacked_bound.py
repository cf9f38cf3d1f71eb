"""Lower bounds of buffers that live together, where alignments and fixed offsets leave gaps."""

from itertools import permutations
from random import Random

import pytest

from csdf.status import Status
from planners.arena.allocation import plan_arena
from planners.arena.blocks import blocks_of, clique_bound, cliques_of
from planners.arena.checker import check_plan
from planners.arena.command.main import read_problems
from tests.planners.problems import problem_of
from tests.shared_data import SHARED


def least_height(buffers):
    """The lowest stack of buffers that all live together, over all orders."""
    heights = []
    for order in permutations(buffers):
        height = 0
        for buffer in order:
            begin = -(-height // buffer.alignment) * buffer.alignment
            if buffer.offset is not None:
                if buffer.offset < height:
                    break
                begin = buffer.offset
            height = begin + buffer.size
        else:
            heights.append(height)
    return min(heights)


@pytest.mark.parametrize("seed", range(60))
def test_the_bound_of_buffers_that_live_together_is_their_lowest_stack(seed):
    random = Random(seed)
    rows = [
        (str(number), random.randint(1, 20), 0, 1, {"alignment": random.choice((1, 2, 4, 6, 8))})
        for number in range(random.randint(1, 5))
    ]
    if seed % 2:
        rows.append(("fixed", random.randint(1, 9), 0, 1, {"offset": random.randint(0, 40)}))
    problem = problem_of(*rows)
    blocks = blocks_of(problem)
    bound = clique_bound(blocks, cliques_of(blocks))
    assert bound.peak == least_height(problem.buffers)
    plan = plan_arena(problem)
    assert (plan.peak, plan.status) == (bound.peak, Status.OPTIMAL)


def test_a_gap_that_an_alignment_leaves_in_every_order_is_proved():
    # Three buffers of 3 bytes, two of them at multiples of 4: 9 bytes live. In the lowest stack the two
    # are below, at 0 and 4, with one byte between, and the third ends at 10.
    rows = [("a", 3, 0, 2, {"alignment": 4}), ("b", 3, 0, 2, {"alignment": 4})]
    plan = plan_arena(problem_of(*rows, ("c", 3, 1, 3)))
    assert (plan.peak, plan.lower_bound, plan.status) == (10, 10, Status.OPTIMAL)
    assert "in any order, with alignments and fixed offsets" in str(plan.reason)


def test_an_aligned_problem_of_25_buffers_is_proved():
    path = SHARED / "faults" / "arena" / "q33.json"
    if not path.exists():
        pytest.skip(f"the problem is not at {path}")
    (problem,) = read_problems(str(path))
    plan = plan_arena(problem)
    check_plan(plan)
    assert (plan.peak, plan.lower_bound, plan.status) == (242, 242, Status.OPTIMAL)

"""Plans by order: each is one, and moving blocks to the front makes better ones."""

from itertools import islice
from random import Random

from planners.arena.blocks import blocks_of, load_bound
from planners.arena.orders import Greedy
from tests.planners.problems import may_be, problem_of


def overlapping(count, seed):
    """Buffers of all sizes and lifetimes, of which many live at once."""
    random = Random(seed)
    rows = []
    for number in range(count):
        start = random.randrange(30)
        rows.append((str(number), random.randrange(1, 100), start, start + random.randrange(1, 15)))
    return problem_of(*rows)


def by_name(blocks, offsets):
    return {members[0].name: offsets[one] for one, members in enumerate(blocks.members)}


def test_every_improvement_is_a_plan():
    problem = overlapping(count=25, seed=1)
    blocks = blocks_of(problem)
    greedy = Greedy(blocks)
    start = next(greedy.standard_plans())
    for offsets in islice(greedy.improvements(start, Random(2)), 200):
        assert may_be(problem, by_name(blocks, offsets))
        assert blocks.peak(offsets) >= load_bound(blocks).peak


def test_moves_find_what_no_usual_order_finds():
    # Over these seeds none of the five usual orders reaches the load of every problem.
    gained = 0
    for seed in range(10):
        blocks = blocks_of(overlapping(count=40, seed=seed))
        greedy = Greedy(blocks)
        usual = list(greedy.standard_plans())
        least = min(map(blocks.peak, usual))
        moved = islice(greedy.improvements(usual[0], Random(seed)), len(usual), 300)
        gained += min(map(blocks.peak, moved)) < least
    assert gained >= 5


def test_a_plan_with_all_offsets_fixed_has_no_improvements():
    problem = problem_of(("a", 4, 0, 2, {"offset": 0}), ("b", 4, 1, 3, {"offset": 4}))
    greedy = Greedy(blocks_of(problem))
    assert list(greedy.improvements([0, 4], Random(0))) == []

"""Plans by order: each is one, and moving blocks to the front makes better ones."""

from dataclasses import replace
from itertools import islice
from random import Random

import pytest

from csdf.status import Status
from planners.arena import blocks as blocks_module
from planners.arena.allocation import plan_arena
from planners.arena.blocks import blocks_of, load_bound
from planners.arena.checker import check_plan
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


def test_hill_climbing_beats_all_standard_orders():
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


@pytest.mark.parametrize("seed", range(8))
def test_blocks_are_placed_alike_with_and_without_a_list_of_conflicts(monkeypatch, seed):
    problem = overlapping(count=60, seed=seed)
    fixed = {"offset": 250} if seed % 2 else {}
    more = problem_of(("wide", 37, 3, 40, {"alignment": 16}), ("at", 20, 0, 50, fixed))
    problem = replace(problem, buffers=problem.buffers + more.buffers)
    listed = blocks_of(problem)
    monkeypatch.setattr(blocks_module, "MOST_EXACT", 1)
    counted = blocks_of(problem)
    assert (listed.is_listed, counted.is_listed) == (True, False)
    assert counted.conflicts_each == listed.conflicts_each
    assert sorted(counted.neighbours(7)) == sorted(listed.neighbours(7))
    order = Random(seed).sample(range(62), 62)
    assert Greedy(counted).offsets(order) == Greedy(listed).offsets(order)
    tight = Greedy(counted).offsets(order, is_tight=True)
    assert may_be(problem, by_name(counted, [at * counted.unit for at in tight]))


def test_a_training_step_of_more_buffers_than_are_searched_exactly_is_proved_in_parts(monkeypatch):
    # Activations live from their layer forwards to the same layer backwards: one within another.
    # Each step also has a workspace; the second network begins when the first is done.
    monkeypatch.setattr(blocks_module, "MOST_EXACT", 100)
    random, rows = Random(4), []
    for number in range(2 * 60):
        begin, layer = divmod(number, 60)
        start, end = 200 * begin + layer, 200 * begin + 120 - layer
        rows.append((f"keep{number}", random.randrange(1, 9) * 64, start, end))
        rows.append((f"work{number}", random.randrange(1, 9) * 64, start, start + 2))
    plan = plan_arena(problem_of(*rows))
    assert plan.status == Status.OPTIMAL
    check_plan(plan)


def tightest(buffers, order):
    """Each buffer in the smallest gap that holds it, else on top: all placed buffers are looked at."""
    offsets = {}
    for number in order:
        mine, place, gaps = buffers[number], 0, []
        near = [
            (at, at + buffers[other].size)
            for other, at in offsets.items()
            if buffers[other].start < mine.end and mine.start < buffers[other].end
        ]
        for begin, top in sorted(near):
            if begin - place >= mine.size:
                gaps.append((begin - place, place))
            place = max(place, top)
        offsets[number] = min(gaps)[1] if gaps else place
    return [offsets[number] for number in range(len(buffers))]


@pytest.mark.parametrize("longest", [1, 4, 300])
def test_short_lifetimes_are_placed_by_windows_of_time_as_without_windows(monkeypatch, longest):
    random = Random(longest)
    starts = [random.randrange(200) for _ in range(90)]
    problem = problem_of(
        *(
            (str(number), random.randint(1, 30), start, start + random.randint(1, longest))
            for number, start in enumerate(starts)
        )
    )
    listed = Greedy(blocks_of(problem))
    monkeypatch.setattr(blocks_module, "MOST_EXACT", 1)
    by_time = Greedy(blocks_of(problem))
    for _ in range(5):
        order = random.sample(range(90), 90)
        assert by_time.offsets(order) == listed.offsets(order)
        assert by_time.offsets(order, is_tight=True) == tightest(problem.buffers, order)

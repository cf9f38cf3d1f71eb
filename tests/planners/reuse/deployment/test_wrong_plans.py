"""Plans with a mistake in them, executed: the run finds it out."""

from dataclasses import replace
from itertools import accumulate, combinations

import pytest

from csdf.errors import InvalidPlan
from figures.published.reuse_example import worked_example
from planners.arena.allocation import plan_arena
from planners.arena.checker import check_plan
from planners.reuse.deployment import deployment
from planners.reuse.evaluation import Costs, Evaluator
from planners.reuse.placement import offset_problem, whole_buffers
from tests.planners.reuse.deployment.deployed import (
    TOLERANCE,
    as_published,
    calibrated,
    checked,
    run,
)

EXAMPLE = worked_example()
EVALUATOR = Evaluator(EXAMPLE)
WHOLE = (None,) * len(EXAMPLE.layers)
ROWS = (1,) * len(EXAMPLE.layers)
PUBLISHED = as_published(EVALUATOR, WHOLE)
PROBLEM = offset_problem(EVALUATOR, EVALUATOR.plan(WHOLE))
WEIGHTS = calibrated(EXAMPLE)
NAMES = [buffer.name for buffer in PROBLEM.buffers]


def at(offsets):
    """The published plan with its buffers elsewhere, and an arena that holds them."""
    return PUBLISHED._replace(memory=replace(PUBLISHED.memory, offsets=offsets))


def side_by_side(*names):
    """Offsets at which no two buffers share a byte, but the named ones the last and first element."""
    rest = [one for one in PROBLEM.buffers if one.name not in names]
    buffers = [one for name in names for one in PROBLEM.buffers if one.name == name] + rest
    offsets = dict(
        zip(
            [one.name for one in buffers],
            accumulate((one.size for one in buffers), initial=0),
            strict=False,
        )
    )
    if names:
        offsets[names[1]] -= 4  # an element; what is off the grid of elements is refused anyhow
    return offsets


def runs(plan):
    """Whether it runs; outputs are looked at if it does."""
    try:
        assert run(EXAMPLE, plan, weights=WEIGHTS, counts=2) < TOLERANCE
    except InvalidPlan:
        return False
    return True


def conflict(one, other):
    first, second = (next(b for b in PROBLEM.buffers if b.name == name) for name in (one, other))
    overlaps = first.start < second.end and second.start < first.end
    return overlaps or (one, other) in PROBLEM.conflicts or (other, one) in PROBLEM.conflicts


def is_copied_over_its_input(name, other_name):
    """Whether one buffer is a copy of a result, and the other the input of which the result is made.

    A layer writes its result into the buffer of its first consumer. Those of others get copies after
    the firing, in C too, when the input is no longer read: an element that a copy shares with the
    input changes no output.
    """
    first, second = (
        next(edge for edge in PUBLISHED.plan.edges if edge.name == name)
        for name in (name, other_name)
    )
    if second.connection.consumer == first.connection.producer:
        first, second = second, first
    producer, consumer = second.connection.producer, second.connection.consumer
    consumers = [
        edge.connection.consumer
        for edge in PUBLISHED.plan.edges
        if (edge.member, edge.connection.producer) == (second.member, producer)
    ]
    is_input = (first.member, first.connection.consumer) == (second.member, producer)
    return is_input and consumer != consumers[0]


def is_found_out(one, other):
    return conflict(one, other) and not is_copied_over_its_input(one, other)


def test_buffers_that_share_nothing_run():
    assert runs(at(side_by_side()))


@pytest.mark.slow
@pytest.mark.parametrize(("one", "other"), list(combinations(NAMES, 2)))
def test_one_element_in_common_is_found_out_exactly_where_two_buffers_conflict(one, other):
    assert runs(at(side_by_side(one, other))) != is_found_out(one, other)
    assert runs(at(side_by_side(other, one))) != is_found_out(one, other)


def test_a_lifetime_one_step_too_short_is_found_out():
    refused = 0
    for place, buffer in enumerate(PROBLEM.buffers):
        buffers = list(PROBLEM.buffers)
        buffers[place] = replace(buffer, end=buffer.end - 1)
        short = plan_arena(replace(PROBLEM, buffers=tuple(buffers)))
        try:
            check_plan(replace(short, problem=PROBLEM, lower_bound=0, status="feasible"))
        except InvalidPlan:
            refused += 1
            assert not runs(at(short.offsets))
    assert refused


def test_a_plan_for_shorter_lifetimes_is_not_deployed():
    plan = EVALUATOR.plan(WHOLE)
    buffers = tuple(replace(one, end=one.end - 1) for one in PROBLEM.buffers)
    short = plan_arena(replace(PROBLEM, buffers=buffers))
    with pytest.raises(InvalidPlan, match="not those of the chromosome"):
        deployment(EVALUATOR, plan, short)


def test_a_plan_that_forgets_the_pipeline_is_not_deployed():
    plan = EVALUATOR.plan(WHOLE)
    with pytest.raises(InvalidPlan, match="they run in parallel"):
        deployment(EVALUATOR, plan, plan_arena(replace(PROBLEM, conflicts=())))


def test_a_deployment_with_overlapping_offsets_is_refused():
    plan = EVALUATOR.plan(WHOLE)
    memory = whole_buffers(EVALUATOR, plan)
    wrong = replace(memory, offsets=dict.fromkeys(memory.offsets, 0))
    with pytest.raises(InvalidPlan, match="share bytes"):
        deployment(EVALUATOR, plan, wrong)


def error_of(plan):
    with pytest.raises(InvalidPlan) as found:
        checked(EXAMPLE, plan)
    return str(found.value)


def test_a_buffer_that_is_a_row_too_small_is_found_out():
    plan = as_published(EVALUATOR, ROWS)
    buffers = tuple(
        replace(one, size=one.size - 4 * 32 * 8) if one.name == "CNN1: l2 to l3" else one
        for one in plan.memory.problem.buffers
    )
    problem = replace(plan.memory.problem, buffers=buffers)
    found = error_of(plan._replace(memory=replace(plan.memory, problem=problem)))
    assert "do not hold" in found
    assert "of 'l2'" in found


def test_firings_in_a_wrong_order_are_refused():
    first, *others = PUBLISHED.plan.orders
    orders = (first[1::-1] + first[2:], *others)
    found = error_of(PUBLISHED._replace(plan=replace(PUBLISHED.plan, orders=orders)))
    assert "'l2' is to be made before 'l1' is there" in found


def test_elements_of_other_bytes_run_in_their_bytes():
    # Table 6.2: 24,586 elements, here of a byte each; they are computed in single precision.
    plan = as_published(Evaluator(EXAMPLE, Costs(element_bytes=1)), WHOLE)
    assert plan.memory.peak == 24_586
    assert run(EXAMPLE, plan, weights=WEIGHTS, element_bytes=1) < TOLERANCE

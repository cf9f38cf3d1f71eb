"""The checker accepts what runs, and nothing else."""

from dataclasses import replace
from fractions import Fraction

import pytest

from csdf.analysis.bound_channels import with_capacities
from csdf.analysis.schedule_checker import check_periodic_schedule, check_schedule
from csdf.analysis.schedules import periodic_schedule, strictly_periodic_schedule
from csdf.analysis.self_timed import self_timed_execution
from csdf.errors import InvalidSchedule
from csdf.model.builder import GraphBuilder
from csdf.model.schedule import Firing
from tests.schedules.drawn_graphs import DRAWN

PIPE = (
    GraphBuilder("pipe")
    .actor("a", 2, overlap=False)
    .actor("b", [3, 1], overlap=False)
    .channel("a", 1, "b", 1, name="c", capacity=2)
    .graph()
)
EXECUTED = self_timed_execution(PIPE, iterations=3).firings
drawn = pytest.mark.parametrize("graph", DRAWN.values(), ids=DRAWN)


def with_firing(actor, index, /, **change):
    """The execution of PIPE with one firing changed."""
    return [
        replace(one, **change) if (one.actor, one.index) == (actor, index) else one
        for one in EXECUTED
    ]


@drawn
def test_self_timed_executions_are_accepted(graph):
    check_schedule(graph, self_timed_execution(graph, iterations=3).firings)


@drawn
def test_in_a_self_timed_execution_no_single_firing_can_start_earlier(graph):
    firings = self_timed_execution(graph, iterations=2).firings
    for place, one in enumerate(firings[:24]):
        earlier = replace(one, start=one.start - 1, end=one.end - 1)
        if one.start > 0:
            with pytest.raises(InvalidSchedule):
                check_schedule(graph, [*firings[:place], earlier, *firings[place + 1 :]])


@drawn
def test_periodic_schedules_are_accepted(graph):
    check_periodic_schedule(graph, periodic_schedule(graph), firings=8)
    strict = strictly_periodic_schedule(graph)
    if strict is not None:
        check_periodic_schedule(graph, strict, firings=8)


def test_the_order_of_the_list_does_not_matter():
    check_schedule(PIPE, reversed(EXECUTED))


# The pipe: a fires at 0-2 and 2-4, then waits for space; b fires its first phase at 2-5, its second
# at 5-6. The capacity is 2, so the third firing of a starts at 5, when b gives one space back.
@pytest.mark.parametrize(
    ("firings", "complaint"),
    [
        (
            with_firing("b", 0, start=Fraction(1), end=Fraction(4)),
            "firing 0 of 'b': needs 1 token from the beginning on channel 'c', but only 0 "
            "are there at 1",
        ),
        (
            with_firing("a", 2, start=Fraction(4), end=Fraction(6)),
            "firing 2 of 'a': fills channel 'c' to 3 of 2 at 4",
        ),
        (with_firing("b", 0, end=Fraction(4)), "firing 0 of 'b': lasts 2, expected 3"),
        (with_firing("b", 0, phase=1), "firing 0 of 'b': phase 1 out of turn"),
        (with_firing("a", 1, index=7), "'a': firing 1 is missing or listed twice"),
        (EXECUTED + EXECUTED[:1], "'a': firing 1 is missing or listed twice"),
        (EXECUTED[1:], "'a': firing 0 is missing or listed twice"),
        (
            with_firing("a", 1, start=Fraction(-1), end=Fraction(1)),
            "firing 1 of 'a': starts before the firing before it",
        ),
        (
            with_firing("a", 1, start=Fraction(1), end=Fraction(3)),
            "firing 1 of 'a': needs 2 tokens from the beginning on channel 'a self-loop', "
            "but only 1 are there at 1",
        ),
        (with_firing("a", 0, actor="z"), "firing 0 of 'z': the graph has no such actor"),
    ],
)
def test_a_planted_fault_is_rejected(firings, complaint):
    with pytest.raises(InvalidSchedule) as refusal:
        check_schedule(PIPE, firings)
    assert str(refusal.value) == complaint


def test_the_execution_without_bounds_overruns_a_capacity():
    free = replace(PIPE, channels=tuple(replace(one, capacity=None) for one in PIPE.channels))
    firings = self_timed_execution(free, iterations=3).firings
    check_schedule(free, firings)
    with pytest.raises(InvalidSchedule, match="fills channel 'c' to 3 of 2 at 4"):
        check_schedule(PIPE, firings)


def test_a_token_that_overtakes_is_not_there_yet():
    graph = GraphBuilder().actor("a", [5, 1]).actor("b", 0).channel("a", 1, "b", 1).graph()
    a = [
        Firing(actor="a", index=0, phase=0, start=Fraction(0), end=Fraction(5)),
        Firing(actor="a", index=1, phase=1, start=Fraction(0), end=Fraction(1)),
    ]
    check_schedule(
        graph, [*a, Firing(actor="b", index=0, phase=0, start=Fraction(5), end=Fraction(5))]
    )
    # At 1 the second firing of a has ended, but its token waits behind that of the first.
    early = Firing(actor="b", index=0, phase=0, start=Fraction(1), end=Fraction(1))
    with pytest.raises(InvalidSchedule, match=r"needs 1 token .* only 0 are there at 1"):
        check_schedule(graph, [*a, early])


def test_space_that_a_window_keeps_is_not_free():
    # b consumes one token in each phase, but releases both at the end of its second, at 4.
    graph = (
        GraphBuilder()
        .actor("a", 1, overlap=False)
        .actor("b", [1, 1], overlap=False)
        .channel("a", 1, "b", (1, 1), release=(0, 2), capacity=2, name="c")
        .graph()
    )
    firings = self_timed_execution(graph, iterations=2).firings
    third = next(one for one in firings if (one.actor, one.index) == ("a", 2))
    # a: 0-1 and 1-2; b: 1-2 and 2-3; so the third of a starts at 3, and could at 2 without window.
    assert third.start == 3
    eager = self_timed_execution(
        replace(graph, channels=tuple(replace(one, release=None) for one in graph.channels)),
        iterations=2,
    )
    with pytest.raises(InvalidSchedule, match="firing 2 of 'a': fills channel 'c' to 3 of 2 at 2"):
        check_schedule(graph, eager.firings)


def test_a_periodic_schedule_with_a_shifted_actor_is_rejected():
    ring = (
        GraphBuilder()
        .actor("a", 2)
        .actor("b", 3)
        .channel("a", 1, "b", 1)
        .channel("b", 1, "a", 1, initial_tokens=1)
        .graph()
    )
    schedule = periodic_schedule(ring)
    starts = {"a": schedule.starts["a"], "b": tuple(one - 1 for one in schedule.starts["b"])}
    with pytest.raises(InvalidSchedule, match="firing 0 of 'b': needs 1 token"):
        check_periodic_schedule(ring, replace(schedule, starts=starts), firings=3)


def test_a_periodic_schedule_that_recurs_too_soon_is_rejected():
    schedule = periodic_schedule(PIPE)
    faster = replace(
        schedule, recurrence={name: time / 2 for name, time in schedule.recurrence.items()}
    )
    with pytest.raises(InvalidSchedule):
        check_periodic_schedule(PIPE, faster, firings=4)


def test_more_capacity_never_makes_a_schedule_wrong():
    for capacity in (3, 4, 9):
        check_schedule(with_capacities(PIPE, {"c": capacity}), EXECUTED)

"""Schedules that repeat reach the period; the strictly periodic ones may be slower."""

from fractions import Fraction

import pytest

from csdf.analysis.schedules import (
    listed_firings,
    periodic_schedule,
    strictly_periodic_schedule,
)
from csdf.analysis.throughput import throughput
from csdf.errors import CsdfError, InconsistentGraph
from csdf.model.builder import GraphBuilder
from tests.schedules.drawn_graphs import DRAWN

drawn = pytest.mark.parametrize("graph", DRAWN.values(), ids=DRAWN)


@drawn
def test_a_periodic_schedule_reaches_the_period_of_the_graph(graph):
    assert periodic_schedule(graph).period == throughput(graph).period


@drawn
def test_a_strictly_periodic_schedule_is_never_faster(graph):
    strict = strictly_periodic_schedule(graph)
    assert strict is None or strict.period >= throughput(graph).period


def ring(tokens):
    """Two cycles of a (time 2, makes 1) for one of b (time 3, takes 2)."""
    return (
        GraphBuilder()
        .actor("a", 2)
        .actor("b", 3)
        .channel("a", 1, "b", 2)
        .channel("b", 2, "a", 1, initial_tokens=tokens)
        .graph()
    )


def test_the_starts_of_a_ring_repeat_with_its_period():
    schedule = periodic_schedule(ring(2))
    # Both firings of a take the two tokens at once: 2 for a, 3 for b, then again.
    assert schedule.period == 5
    firings = listed_firings(ring(2), schedule, iterations=2)
    assert [(one.actor, one.start) for one in firings] == [
        ("a", 0), ("a", 0), ("b", 2), ("a", 5), ("a", 5), ("b", 7),
    ]  # fmt: skip


def test_equal_distances_cost_time_where_firings_come_in_bursts():
    # Strictly, the firings of a are half a period T apart. b waits for the end of the second,
    # the first of the next two for the end of b: T >= T/2 + 2 + 3, so T = 10 instead of 5.
    assert strictly_periodic_schedule(ring(2)).period == 10


def test_a_live_graph_may_have_no_strictly_periodic_schedule():
    graph = (
        GraphBuilder()
        .actor("a", 1)
        .actor("b", 1)
        .actor("c", 1)
        .channel("a", 5, "b", 4, initial_tokens=4)
        .channel("b", 6, "c", 5, initial_tokens=7)
        .channel("c", 2, "a", 3)
        .graph()
    )
    # a, b, c fire 4, 5 and 6 times: b c c a b c a b c c a b c a b is an iteration.
    # At equal distances a channel with m tokens, consumption v and common divisor g of its rates puts
    # the producer at most (m + g - v) / (tokens of an iteration) iterations ahead: here
    # (4 + 1 - 4) / 20 + (7 + 1 - 5) / 30 + (0 + 1 - 3) / 12 = 1/20 + 1/10 - 1/6 < 0 around the ring.
    assert throughput(graph).deadlock is None
    assert periodic_schedule(graph).period == throughput(graph).period
    assert strictly_periodic_schedule(graph) is None


@pytest.mark.parametrize("make", [periodic_schedule, strictly_periodic_schedule])
@pytest.mark.parametrize("time", [0, 1])
def test_a_deadlocked_graph_has_no_schedule(make, time):
    graph = GraphBuilder().actor("a", time).channel("a", 1, "a", 1).graph()
    assert make(graph) is None


def test_a_graph_without_repetition_vector_is_refused():
    graph = GraphBuilder().actor("a", 1).channel("a", 2, "a", 1, initial_tokens=1).graph()
    with pytest.raises(InconsistentGraph):
        periodic_schedule(graph)


def test_times_are_in_the_unit_of_the_user():
    graph = GraphBuilder().actor("a", "1/2").channel("a", 1, "a", 1, initial_tokens=3).graph()
    # Three firings at once, each of half a unit: 1/6 a firing.
    assert periodic_schedule(graph).period == Fraction(1, 6)


def test_every_start_recurs_after_its_copies():
    graph = DRAWN["phases, seed 3"]
    schedule = periodic_schedule(graph)
    for actor, starts in schedule.starts.items():
        for index, start in enumerate(starts):
            later = schedule.start(actor, index + 2 * len(starts))
            assert later == start + 2 * schedule.recurrence[actor]


def test_more_firings_than_memory_holds_are_not_listed():
    # The second actor takes one of ten million tokens a firing.
    graph = GraphBuilder().actor("a", 1).actor("b", 1).channel("a", 10**7, "b", 1).graph()
    schedule = periodic_schedule(graph)
    with pytest.raises(CsdfError, match="10000001 firings to list; at most 5000000"):
        listed_firings(graph, schedule, iterations=1)

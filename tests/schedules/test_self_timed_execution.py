"""Firings, transient and steady part, peaks."""

from fractions import Fraction

import pytest

from csdf.analysis.bound_channels import with_capacities
from csdf.analysis.self_timed import self_timed_execution
from csdf.analysis.throughput import throughput
from csdf.errors import GaveUp
from csdf.model.builder import GraphBuilder
from csdf.time_limit import Stop
from tests.adversarial.graphs import many_phases
from tests.schedules.drawn_graphs import DRAWN

drawn = pytest.mark.parametrize("graph", DRAWN.values(), ids=DRAWN)


@drawn
def test_the_steady_part_has_the_period_of_the_graph(graph):
    execution = self_timed_execution(graph)
    assert execution.period in (None, throughput(graph).period)


@drawn
def test_peaks_stay_within_the_capacities(graph):
    peaks = self_timed_execution(graph).max_occupancy
    for channel in graph.channels:
        if channel.capacity is not None and not channel.is_self_loop:
            assert channel.initial_tokens <= peaks[channel.name] <= channel.capacity


@drawn
def test_peaks_as_capacities_leave_the_period_as_it_is(graph):
    execution = self_timed_execution(graph)
    if execution.period:
        loops = {channel.name for channel in graph.channels if channel.is_self_loop}
        peaks = {name: peak for name, peak in execution.max_occupancy.items() if name not in loops}
        assert throughput(with_capacities(graph, peaks)).period == throughput(graph).period


def test_peaks_as_capacities_leave_every_firing_as_it_is():
    graph = DRAWN["overlap, seed 1"]
    execution = self_timed_execution(graph)
    bounded = with_capacities(graph, execution.max_occupancy)
    again = self_timed_execution(bounded, iterations=execution.iterations)
    assert again.firings == execution.firings


def test_transient_and_steady_part_of_a_bounded_pipe():
    graph = (
        GraphBuilder()
        .actor("a", 2, overlap=False)
        .actor("b", 3, overlap=False)
        .channel("a", 1, "b", 1, capacity=2)
        .graph()
    )
    execution = self_timed_execution(graph, iterations=4)
    # a 0-2, 2-4; then every firing of b gives one space back, at 5, 8, ...
    starts = [(one.actor, one.start, one.end) for one in execution.firings if one.start <= 8]
    assert starts == [
        ("a", 0, 2), ("a", 2, 4), ("b", 2, 5), ("a", 5, 7), ("b", 5, 8), ("a", 8, 10), ("b", 8, 11),
    ]  # fmt: skip
    assert execution.period == 3
    assert execution.max_occupancy["a to b"] == 2


def test_space_comes_back_in_the_order_of_the_firings():
    graph = (
        GraphBuilder()
        .actor("a", 2, overlap=False)
        .actor("b", [5, 1])
        .channel("a", 1, "b", 1, name="c")
        .channel("b", 1, "a", 1, initial_tokens=4)
        .graph()
    )
    # a starts at 0, 2, 4, ...; b at 2-7, 4-5, 6-11, 8-9, ...: the space of the firing that ends at 5
    # waits for that of the one that ends at 7. So the fourth firing of a, at 6, makes it 4.
    # (Without the queue, the space would be back at 5 and the peak be 3.)
    assert self_timed_execution(graph).max_occupancy["c"] == 4


def test_a_firing_without_duration_needs_its_own_space():
    # a and b take no time and fire together, a first: c holds its initial token and that of a.
    graph = (
        GraphBuilder()
        .actor("clock", 1, overlap=False)
        .actor("a", 0)
        .actor("b", 0)
        .channel("clock", 1, "a", 1)
        .channel("a", 1, "b", 1, name="c", initial_tokens=1)
        .channel("a", 1, "b", 1, name="d")
        .channel("b", 1, "clock", 1, initial_tokens=2)
        .graph()
    )
    assert self_timed_execution(graph).max_occupancy["c"] == 2


def test_peaks_count_a_consumer_that_lags_behind():
    graph = (
        GraphBuilder()
        .actor("a", 10, overlap=False)
        .actor("c", 30)
        .channel("a", 1, "c", 1, name="d")
        .channel("c", 1, "a", 1, initial_tokens=9)
        .graph()
    )
    # a at 0, 10, 20, ...; c at 10-40, 20-50, ...: at 30, 4 claimed; at 40 the first is back: 5 - 1.
    assert self_timed_execution(graph).max_occupancy["d"] == 4


def test_a_producer_that_runs_ahead_for_ever_has_no_steady_part():
    graph = (
        GraphBuilder()
        .actor("a", 1, overlap=False)
        .actor("b", 2, overlap=False)
        .channel("a", 1, "b", 1)
        .graph()
    )
    execution = self_timed_execution(graph)
    assert (execution.transient, execution.steady, execution.period) == (None, None, None)
    assert execution.iterations == 10


def test_a_deadlock_is_an_answer_without_firings():
    graph = GraphBuilder().actor("a", 1).channel("a", 2, "a", 2, initial_tokens=1).graph()
    execution = self_timed_execution(graph)
    assert execution.firings == ()
    assert [one.actor for one in execution.deadlock.cycle] == ["a"]


def test_times_are_in_the_unit_of_the_user():
    graph = GraphBuilder().actor("a", "3/2").channel("a", 1, "a", 1, initial_tokens=1).graph()
    execution = self_timed_execution(graph, iterations=2)
    assert [one.start for one in execution.firings] == [0, Fraction(3, 2)]
    assert execution.period == Fraction(3, 2)


def test_a_budget_ends_a_long_execution():
    # An iteration of 2 million firings is longer than a run of the kernel between two looks.
    with pytest.raises(GaveUp, match="0 steps"):
        self_timed_execution(many_phases(2 * 10**6), budget=Stop(steps=0))

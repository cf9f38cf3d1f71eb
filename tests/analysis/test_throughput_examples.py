"""Periods that can be found by hand."""

from fractions import Fraction

import pytest

from csdf.analysis.consistency import repetition_vector
from csdf.analysis.throughput import METHODS, throughput
from csdf.errors import CsdfError, GaveUp, InconsistentGraph
from csdf.model.builder import GraphBuilder
from csdf.time_limit import Stop
from tests.reference import slow_simulation

each_method = pytest.mark.parametrize("method", METHODS)


def two_on_a_cycle(tokens=1, durations=(2, 3)):
    return (
        GraphBuilder()
        .actor("a", durations[0])
        .actor("b", durations[1])
        .channel("a", 1, "b", 1)
        .channel("b", 1, "a", 1, initial_tokens=tokens)
        .graph()
    )


@each_method
def test_one_token_on_a_cycle_visits_every_actor_in_turn(method):
    found = throughput(two_on_a_cycle(), method=method)
    # One token: a and b take turns, 2 + 3.
    assert found.period == 5
    assert found.throughput == Fraction(1, 5)
    assert found.critical_cycle.time / found.critical_cycle.tokens == 5


@each_method
def test_tokens_share_the_time_of_the_cycle(method):
    # Three tokens in a cycle of 5 time units, and no actor limits how many firings overlap.
    assert throughput(two_on_a_cycle(tokens=3), method=method).period == Fraction(5, 3)


@each_method
def test_phases_count_with_all_their_durations(method):
    graph = GraphBuilder().actor("a", [1, 0, 4], overlap=False).graph()
    # One iteration is one cycle of three phases: 1 + 0 + 4.
    assert throughput(graph, method=method).period == 5


@each_method
def test_rates_make_an_iteration_of_several_firings(method):
    graph = (
        GraphBuilder()
        .actor("a", 2, overlap=False)
        .actor("b", 3, overlap=False)
        .channel("a", 3, "b", 2)
        .graph()
    )
    # a fires 2 times (4 time units), b 3 times (9); nothing else holds them back.
    assert throughput(graph, method=method).period == 9


@each_method
def test_a_capacity_makes_producer_and_consumer_wait(method):
    graph = GraphBuilder().actor("a", 2).actor("b", 3).channel("a", 1, "b", 1, capacity=1).graph()
    # Space is claimed when a starts, and given back when b ends: a, b, a, b, ...
    assert throughput(graph, method=method).period == 5


@each_method
def test_a_window_keeps_its_space_until_it_is_released(method):
    builder = GraphBuilder().actor("a", 1, overlap=False).actor("b", [1, 1], overlap=False)
    builder.channel("a", 1, "b", [1, 1], capacity=2, release=[0, 2])
    # Two tokens fill the channel (times 0-1, 1-2); b's phases run at 1-2 and 2-3, and only the
    # second gives back both places: an iteration takes 3.
    assert throughput(builder.graph(), method=method).period == 3


@each_method
def test_tokens_do_not_overtake_each_other(method):
    graph = (
        GraphBuilder()
        .actor("a", [5, 1])
        .actor("b", [0, 0])
        .channel("a", [1, 1], "b", [1, 1])
        .channel("b", [1, 1], "a", [1, 1], initial_tokens=2)
        .graph()
    )
    # Both firings of a start at 0 and end at 5 and 1; the second token waits for the first, so
    # both firings of b are at 5, and so is a's next pair. Counting tokens as they arrive, the
    # phases would drift apart and the period be smaller: (5 + 1) / 2 = 3.
    assert throughput(graph, method=method).period == 5


@each_method
def test_an_actor_on_no_cycle_is_not_limited(method):
    graph = GraphBuilder().actor("a", 7).actor("b", 7).channel("a", 2, "b", 3).graph()
    found = throughput(graph, method=method)
    assert (found.period, found.throughput, found.critical_cycle) == (0, None, None)


@each_method
def test_a_cycle_that_takes_no_time_limits_nothing(method):
    found = throughput(two_on_a_cycle(durations=(0, 0)), method=method)
    assert (found.period, found.critical_cycle, found.deadlock) == (0, None, None)


@each_method
def test_a_cycle_without_tokens_is_a_deadlock_also_where_it_takes_no_time(method):
    found = throughput(two_on_a_cycle(tokens=0, durations=(0, 0)), method=method)
    assert found.period is None
    assert found.throughput == 0
    assert {one.actor for one in found.deadlock.cycle} == {"a", "b"}


@each_method
def test_the_slowest_component_sets_the_period(method):
    graph = (
        GraphBuilder()
        .actor("a", 1, overlap=False)
        .actor("b", 1, overlap=False)
        .channel("a", 7, "b", 1)
        .graph()
    )
    found = throughput(graph, method=method)
    # b has 7 firings of 1 in an iteration, a one.
    assert found.period == 7
    assert found.critical_cycle.actors == ("b",)


@each_method
def test_a_component_that_only_seemed_slow_does_not_hide_the_slowest(method):
    graph = (
        GraphBuilder()
        .actor("a0", [2, 0, 0])
        .actor("a1", [0, 3])
        .actor("a2", 2, overlap=False)
        .channel("a1", [2, 1], "a0", [6, 0, 0], initial_tokens=4)
        .channel("a0", [18, 0, 0], "a1", [3, 6], initial_tokens=3)
        .channel("a0", [4, 0, 0], "a2", 1)
        .graph()
    )
    # a0 has one cycle in an iteration, so a2 fires 4 times, one after the other: 8. The first
    # periodic schedule of a0 and a1 is slower than that, the final one faster.
    assert throughput(graph, method=method).period == 8


@each_method
def test_policies_that_follow_slower_cycles_come_to_an_end(method):
    graph = (
        GraphBuilder()
        .actor("a0", 0)
        .actor("a1", [3, 0])
        .actor("a2", [1, 1])
        .channel("a0", 3, "a2", [6, 0], initial_tokens=3, capacity=8, release=[2, 4])
        .channel("a1", [5, 1], "a0", 2, initial_tokens=2, capacity=7)
        .channel("a1", [7, 5], "a2", [2, 6], initial_tokens=3, capacity=12)
        .graph()
    )
    assert throughput(graph, method=method).period == slow_simulation.period_of(graph)


@each_method
def test_rational_times_are_exact(method):
    graph = GraphBuilder().actor("a", "1/3", overlap=False).actor("b", "0.1").graph()
    assert throughput(graph, method=method).period == Fraction(1, 3)


@each_method
def test_an_inconsistent_graph_has_no_period(method):
    graph = GraphBuilder().actor("a", 1).channel("a", 2, "a", 1).graph()
    with pytest.raises(InconsistentGraph):
        throughput(graph, method=method)


def test_an_unknown_method_is_refused_with_the_known_ones():
    with pytest.raises(CsdfError, match=r"'magic'; expected one of auto, periodic, execution"):
        throughput(two_on_a_cycle(), method="magic")


@pytest.mark.parametrize("method", ["auto", "periodic"])
def test_a_watch_ends_the_analysis_with_what_is_known(method):
    def watch(_):
        raise GaveUp("enough")

    with pytest.raises(GaveUp, match="enough") as caught:
        throughput(two_on_a_cycle(), method=method, budget=Stop(report=watch))
    assert caught.value.low == 0
    assert caught.value.high is None


@pytest.mark.parametrize("method", ["auto", "periodic"])
def test_durations_beyond_64_bits_are_exact(method):
    # 2 * 2**60 fits no kernel; three tokens share the time of the cycle.
    graph = two_on_a_cycle(tokens=3, durations=(2**63, 2**60))
    assert throughput(graph, method=method).period == Fraction(2**63 + 2**60, 3)


def test_coprime_rates_beyond_any_expansion_end_with_proved_bounds():
    # Repetitions near 10^12 without a common factor: exact copies would be 10^12 nodes, and heights
    # need more than 64 bits.
    p, q, r = 999983, 999979, 999961
    builder = GraphBuilder()
    for name in "abc":
        builder.actor(name, 7, overlap=False)
    builder.channel("a", p, "b", q, capacity=3 * 10**6)
    graph = builder.channel("b", p, "c", r, capacity=3 * 10**6).graph()
    repetitions = repetition_vector(graph)
    with pytest.raises(GaveUp) as caught:
        throughput(graph)
    # One firing at a time: no period is shorter than the busiest actor's work.
    assert caught.value.low == 7 * max(repetitions.values())
    assert caught.value.high is None or caught.value.high >= caught.value.low

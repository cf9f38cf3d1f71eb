from random import Random

import pytest

from csdf.analysis import execution
from csdf.analysis.latency import dependency_latency, iteration_times, latency
from csdf.analysis.self_timed import self_timed_execution
from csdf.errors import CsdfError, InvalidGraph, NoRecurrence
from csdf.model.builder import GraphBuilder


def ring():
    """a, 2 long, then b, 3 long, one after the other."""
    return (
        GraphBuilder("ring")
        .actor("a", 2)
        .actor("b", 3)
        .channel("a", 1, "b", 1)
        .channel("b", 1, "a", 1, initial_tokens=1)
        .graph()
    )


def test_the_latency_of_a_ring_is_the_time_around_it():
    assert latency(ring()) == 2 + 3


def test_source_and_sink_say_what_is_measured():
    assert latency(ring(), source="b") == 3
    assert latency(ring(), sink="a") == 2
    # From the start of b, at 2, to the end of a, at 2.
    assert latency(ring(), source="b", sink="a") == 0


@pytest.mark.parametrize(("overlap", "expected"), [(True, 1 + 1), (False, 1 + 1 + 1)])
def test_an_iteration_lasts_until_its_last_firing_ends(overlap, expected):
    graph = (
        GraphBuilder()
        .actor("a", 1, overlap=overlap)
        .actor("b", 1)
        .channel("a", 1, "b", 2)
        .channel("b", 2, "a", 1, initial_tokens=2)
        .graph()
    )
    # Two firings of a, at once or one after the other, then b.
    assert latency(graph) == expected


def test_the_longest_iteration_counts():
    graph = (
        GraphBuilder()
        .actor("a", 2, overlap=False)
        .actor("b", 3, overlap=False)
        .channel("a", 1, "b", 1, capacity=2)
        .graph()
    )
    # Iterations run from the start of a to the end of b: 0-5, 2-8, 5-11, 8-14, ...
    assert iteration_times(graph, self_timed_execution(graph, iterations=4).firings) == [5, 6, 6, 6]
    assert latency(graph) == 6


def test_without_a_bound_the_latency_may_grow_for_ever():
    graph = (
        GraphBuilder()
        .actor("a", 2, overlap=False)
        .actor("b", 3, overlap=False)
        .channel("a", 1, "b", 1)
        .graph()
    )
    # Iteration i starts at 2i and ends at 2 + 3(i + 1).
    assert iteration_times(graph, self_timed_execution(graph, iterations=3).firings) == [5, 6, 7]
    assert latency(graph) is None


def test_many_initial_tokens_do_not_end_the_search_for_a_steady_part(monkeypatch):
    graph = (
        GraphBuilder()
        .actor("a", 1, overlap=False)
        .actor("b", 2, overlap=False)
        .channel("a", 1, "b", 1, capacity=1_200)
        .graph()
    )
    # Once the channel is full, iteration i starts as 1,200 iterations of b before it have ended.
    assert latency(graph) == 2 * 1_200
    monkeypatch.setattr(execution, "MOST_REMEMBERED", 10)
    with pytest.raises(NoRecurrence, match="bytes were remembered"):
        latency(graph)
    with pytest.raises(NoRecurrence, match="no state recurred in"):
        latency(GraphBuilder().actor("a", 1).channel("a", 1, "a", 1, initial_tokens=2**63).graph())


def chain():
    """a and c are slower than the actors before them, without a bound."""
    return (
        GraphBuilder()
        .actor("ahead", 1, overlap=False)
        .actor("a", 3, overlap=False)
        .actor("b", 3, overlap=False)
        .actor("c", 7, overlap=False)
        .channel("ahead", 1, "a", 1)
        .channel("a", 1, "b", 1)
        .channel("b", 1, "c", 2)
        .graph()
    )


def test_actors_that_run_ahead_or_behind_leave_the_latency_of_others():
    assert latency(chain(), "ahead", "ahead") == 2  # two firings in an iteration of all
    assert latency(chain(), "a", "c") is None
    assert latency(chain(), "ahead", "b") is None
    assert latency(chain(), "a", "b") == 3 + 3 + 3  # two firings of a, then b


def test_iterations_in_which_actors_wait_for_others_ahead_are_counted():
    # Of the first two firings of a, 8 long, the second waits for the third of "ahead", at 30.
    graph = (
        GraphBuilder()
        .actor("ahead", [10, 10, 10, 1, 1, 1], overlap=False)
        .actor("a", 8, overlap=False)
        .actor("b", 8, overlap=False)
        .channel("ahead", 1, "a", 1)
        .channel("a", 1, "b", 1, initial_tokens=1)
        .graph()
    )
    times = iteration_times(
        graph, self_timed_execution(graph, iterations=30).firings, source="a", sink="b"
    )
    assert latency(graph, "a", "b") == max(times) > times[-1]


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 40))]
)
def test_latencies_behind_faster_actors_are_those_of_many_iterations(seed):
    draw = Random(seed).randint
    builder = GraphBuilder()
    for name, longest in (("first", 4), ("second", 5), ("a", 9), ("b", 9), ("c", 9)):
        durations = [draw(0, longest) for _ in range(draw(1, 4))]
        builder.actor(name, [*durations, longest], overlap=False)
    for name in ("second", "a", "b"):
        builder.channel("first", 1, name, 1, initial_tokens=draw(0, 9))
    builder.channel("second", 1, "b", 1).channel("a", 1, "b", 1, initial_tokens=draw(0, 2))
    builder.channel("b", 1, "c", 1).channel("c", 1, "a", 1, initial_tokens=draw(1, 3))
    graph = builder.graph()
    firings = self_timed_execution(graph, iterations=60).firings
    assert latency(graph, "a", "c") == max(iteration_times(graph, firings, source="a", sink="c"))


def test_states_behind_faster_actors_are_not_searched_without_a_sink(monkeypatch):
    graph = GraphBuilder().actor("ahead", 1, overlap=False).actor("a", 3, overlap=False)
    graph = graph.channel("ahead", 1, "a", 1).graph()
    assert latency(graph, "a", "a") == 3

    def searched(*_):
        raise AssertionError("a search in vain")

    monkeypatch.setattr("csdf.analysis.latency._iterations_of", searched)
    with pytest.raises(NoRecurrence, match="no state recurred"):
        latency(graph, "a")


def test_behind_a_part_that_is_hardly_faster_the_latency_is_unknown(monkeypatch):
    monkeypatch.setattr("csdf.analysis.latency.REMEMBERED_NUMBERS", 3)
    dependent = dependency_latency(chain(), "a", "b")
    assert (dependent.distance, dependent.minimal, dependent.self_timed) == (0, 9, None)
    assert str(dependent.reason) == "no state recurred in 1000 iterations"


def test_a_steady_part_with_too_many_firings_to_list_is_unknown():
    graph = (
        GraphBuilder()
        .actor("a", 5_000, overlap=False)
        .actor("b", 5_001, overlap=False)
        .channel("a", 1, "b", 1, capacity=3)
        .actor("c", 1, overlap=False)
        .channel("a", 5_000, "c", 1)
        .channel("c", 1, "a", 5_000, initial_tokens=10_000)
        .graph()
    )
    # a waits for b from iteration 5,000 on, and an iteration has 5,002 firings.
    with pytest.raises(NoRecurrence, match="no state recurred in 999 iterations"):
        latency(graph)
    too_long = GraphBuilder().actor("a", 1).actor("b", 1).channel("a", 10**7, "b", 1).graph()
    with pytest.raises(NoRecurrence, match="10000001 firings per iteration; at most 5000000"):
        latency(too_long)


def test_source_and_sink_of_different_pace_have_no_latency():
    graph = (
        GraphBuilder()
        .actor("a", 1, overlap=False)
        .actor("b", 3, overlap=False)
        .channel("a", 1, "b", 1)
        .graph()
    )
    # Iteration i of b starts at 1 + 3i, and a ends i + 1: the latencies are 0, -2, -4, ...
    assert latency(graph, "b", "a") is None


def test_a_deadlocked_graph_has_no_latency():
    graph = GraphBuilder("stuck").actor("a", 1).channel("a", 1, "a", 1).graph()
    with pytest.raises(CsdfError, match="graph 'stuck' deadlocks and has no latency: a waits"):
        latency(graph)


def test_an_unknown_source_is_refused():
    with pytest.raises(InvalidGraph, match="there is no actor 'z'"):
        latency(ring(), source="z")

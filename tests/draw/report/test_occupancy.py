import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from csdf.analysis.self_timed import self_timed_execution
from csdf.draw.report.timeline import occupancy_steps
from csdf.generation import random_graph
from csdf.model.graph import Actor, Channel


def channel(**options):
    rates = {"production": (2,), "consumption": (3,)} | options
    return Channel(name="c", producer="a", consumer="b", **rates)


def test_space_is_claimed_at_the_start_and_given_back_at_the_end():
    # a starts at 0, 4, 8 and makes 2 each; b takes 3 from 8 to 10.
    steps = occupancy_steps(channel(), (0, 4, 8), Actor(name="b", durations=(2,)), (8,))
    assert steps.times == (0, 4, 8, 10)
    assert steps.tokens == (2, 4, 6, 3)


def test_a_window_keeps_what_it_has_not_released():
    # Phases consume 3 and 0, release 1 and 2: after the first (0 to 1) two are kept until 6.
    window = channel(production=(3,), consumption=(3, 0), release=(1, 2), initial_tokens=3)
    steps = occupancy_steps(window, (), Actor(name="b", durations=(1, 1)), (0, 5))
    assert dict(zip(steps.times, steps.tokens, strict=True)) == {0: 3, 1: 2, 6: 0}


def test_space_comes_back_in_the_order_of_the_firings():
    # The second firing (1 to 2) ends before the first (0 to 9): its space waits for that.
    own = channel(production=(1,), consumption=(1,), initial_tokens=2)
    steps = occupancy_steps(own, (), Actor(name="b", durations=(9, 1)), (0, 1))
    assert dict(zip(steps.times, steps.tokens, strict=True)) == {0: 2, 9: 0}


def test_it_begins_with_the_initial_tokens_also_where_nothing_happens():
    steps = occupancy_steps(channel(initial_tokens=7), (), Actor(name="b", durations=(1,)), ())
    assert steps == ((0,), (7,))


@given(seed=st.integers(0, 60))
def test_its_highest_step_is_the_peak_of_the_execution(seed):
    graph = random_graph(seed)
    # What begins and ends at one instant is a peak, but no step.
    assume(not any(0 in actor.durations for actor in graph.actors))
    execution = self_timed_execution(graph, iterations=3)
    starts = {actor.name: [] for actor in graph.actors}
    for firing in execution.firings:
        starts[firing.actor].append(int(firing.start / graph.time_unit))
    for one in graph.channels:
        own = {name: sorted(times) for name, times in starts.items()}
        steps = occupancy_steps(
            one, own[one.producer], graph.actor(one.consumer), own[one.consumer]
        )
        assert max(steps.tokens) == execution.max_occupancy[one.name]


@pytest.mark.parametrize("count", [0, 1, 5])
def test_times_rise_and_neighbouring_values_differ(count):
    steps = occupancy_steps(
        channel(), range(0, 3 * count, 3), Actor(name="b", durations=(3,)), range(6, 9)
    )
    assert list(steps.times) == sorted(set(steps.times))
    assert all(one != other for one, other in zip(steps.tokens, steps.tokens[1:], strict=False))

"""The least capacity of a channel by hand, and that it is one: with a token less nothing runs."""

from dataclasses import replace
from random import Random

import pytest

from csdf.analysis.bound_channels import bound_channels, with_capacities
from csdf.analysis.liveness import deadlock
from csdf.analysis.throughput import throughput
from csdf.generation import GraphShape, random_graph
from csdf.model.graph import Actor, Channel, Graph
from csdf.search.variables import capacity_step, least_capacity

ALONE = GraphShape(
    actors=2,
    extra_channels=0,
    max_phases=4,
    max_repetitions=8,
    max_rate=8,
    max_extra_initial_tokens=12,
    is_strongly_connected=False,
    is_bounded=True,
    has_late_release=True,
)


def channel(production, consumption, initial_tokens=0, release=None, consumer="b"):
    return Channel(
        name="ab",
        producer="a",
        consumer=consumer,
        production=production,
        consumption=consumption,
        initial_tokens=initial_tokens,
        release=release,
    )


def lone_channel(seed, *, has_window):
    """A graph of one channel between two actors, each one firing at a time, and that channel."""
    graph = random_graph(seed, ALONE)
    found = next(one for one in graph.channels if not one.is_self_loop)
    if has_window:
        return graph, found
    plain = replace(found, release=None)
    channels = [plain if one is found else one for one in graph.channels]
    return replace(graph, channels=tuple(channels)), plain


@pytest.mark.parametrize(
    ("made", "taken", "initial", "least"),
    [
        (1, 1, 0, 1),
        (3, 2, 0, 4),  # 3 + 2 - 1
        (4, 6, 0, 8),  # 4 + 6 - 2
        (4, 6, 1, 9),  # one token is always left over: all amounts are odd
        (4, 6, 20, 20),  # the initial tokens have to fit
    ],
)
def test_single_phases_need_the_sum_of_the_rates_less_their_divisor(made, taken, initial, least):
    assert least_capacity(channel((made,), (taken,), initial)) == least


def test_phases_need_less_than_their_largest_rates_together():
    # a: 4 tokens, b takes 3 of them, 1 is left; a: 1, 1 make 3, b takes them. Never more than 4.
    assert least_capacity(channel((4, 1, 1), (3,))) == 4


def test_phases_need_more_than_their_largest_rate_where_tokens_are_left_over():
    # b needs 2, 2, 2; a makes 3, 3: b takes 2 of 3, 1 is left, 3 more make 4.
    assert least_capacity(channel((3, 3), (2, 2, 2))) == 4


def test_space_that_is_given_back_late_is_in_use_until_then():
    # b takes 3 and then 1 more while it keeps the 3; with its window 4 are in use, without 3.
    assert least_capacity(channel((1,), (3, 1, 0), release=(0, 1, 3))) == 4
    assert least_capacity(channel((1,), (3, 1, 0))) == 3


def test_initial_tokens_that_are_never_used_up_take_their_place():
    # All amounts are even, so one token stays for ever: 2 for each firing and 1.
    assert least_capacity(channel((2, 0), (2,), 1)) == 3


def test_initial_tokens_are_used_before_the_producer_fires():
    # b takes the initial token, a makes 2, b takes them one by one but keeps none: 2.
    assert least_capacity(channel((2, 0), (1, 1), 1)) == 2


def test_a_self_loop_holds_what_a_firing_takes_and_makes():
    assert least_capacity(channel((1,), (1,), 1, consumer="a")) == 2
    # Phase 0 takes the token and makes none, phase 1 makes one when its space is free again.
    assert least_capacity(channel((0, 1), (1, 0), 1, consumer="a")) == 1


def test_long_iterations_get_a_bound_that_counts_from_the_initial_tokens():
    # Two actors of 2 and 4 million firings; rates are even and a token is left over for ever, so
    # the firing that takes 2,000,006 needs one more.
    taken = 2_000_006
    assert least_capacity(channel((2, 0), (taken, taken), 1)) == taken + 1


@pytest.mark.parametrize("initial", [2_000_007, 5_000_000, 5_000_001])
def test_long_iterations_get_a_bound_that_holds_the_initial_tokens(initial):
    # More tokens lie there at the beginning than any firing moves; they have to fit.
    taken = 2_000_006
    assert least_capacity(channel((2, 0), (taken, taken), initial)) == initial


def test_useful_capacities_lie_apart_by_what_divides_all_rates():
    assert capacity_step(channel((4,), (6,))) == 2
    assert capacity_step(channel((4, 0), (6, 2))) == 2
    assert capacity_step(channel((6,), (3, 3), release=(2, 4))) == 1
    assert capacity_step(channel((5,), (5,), 3)) == 5


@pytest.mark.parametrize("has_window", [False, True])
def test_the_least_capacity_runs_and_one_less_does_not(has_window):
    tight = 0
    for seed in range(400):
        graph, alone = lone_channel(seed, has_window=has_window)
        least = least_capacity(alone)
        assert deadlock(with_capacities(graph, {alone.name: least})) is None, seed
        if least > alone.initial_tokens:
            assert deadlock(with_capacities(graph, {alone.name: least - 1})) is not None, seed
            tight += 1
    assert tight > 100


def test_the_least_capacity_of_a_self_loop_runs_and_one_less_does_not():
    random = Random(1)
    live = 0
    for _ in range(600):
        rates = [random.randrange(4) for _ in range(2)] + [1]
        taken = random.sample(rates, k=3)
        loop = channel(tuple(rates), tuple(taken), random.randrange(8), consumer="a")
        graph = Graph(name="loop", actors=(Actor(name="a", durations=(1, 1, 1)),), channels=(loop,))
        if deadlock(graph) is None:
            live += 1
            least = least_capacity(loop)
            assert is_live(graph, least), loop
            assert least == loop.initial_tokens or not is_live(graph, least - 1), loop
    assert live > 100


def is_live(graph, capacity):
    bounded = with_capacities(graph, {"ab": capacity})
    return deadlock(bound_channels(bounded, with_self_loops=True)) is None


def test_capacities_between_two_useful_ones_behave_like_the_lower():
    apart = 0
    for seed in range(150):
        graph, alone = lone_channel(seed, has_window=seed % 2 == 0)
        least, step = least_capacity(alone), capacity_step(alone)
        for useful in (least, least + step):
            periods = {
                throughput(with_capacities(graph, {alone.name: capacity})).period
                for capacity in range(useful, useful + step)
            }
            assert len(periods) == 1, (seed, useful)
        apart += step > 1
    assert apart > 10

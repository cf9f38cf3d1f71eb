"""The slow references on graphs whose answers are found by hand."""

from fractions import Fraction

import pytest

from csdf.model.builder import GraphBuilder
from tests.reference import brute_cycle_ratio, slow_simulation

each_reference = pytest.mark.parametrize(
    "period_of", [slow_simulation.period_of, brute_cycle_ratio.period_of]
)


def cycle(durations, tokens):
    return (
        GraphBuilder()
        .actor("a", durations[0])
        .actor("b", durations[1])
        .channel("a", 1, "b", 1)
        .channel("b", 1, "a", 1, initial_tokens=tokens)
        .graph()
    )


@each_reference
def test_tokens_share_the_time_of_the_cycle(period_of):
    assert period_of(cycle((2, 3), 1)) == 5
    assert period_of(cycle((2, 3), 2)) == Fraction(5, 2)


@each_reference
def test_no_token_is_a_deadlock_and_no_time_is_not(period_of):
    assert period_of(cycle((2, 3), 0)) is None
    assert period_of(cycle((0, 0), 0)) is None
    assert period_of(cycle((0, 0), 1)) == 0


@each_reference
def test_an_actor_on_no_cycle_has_period_0(period_of):
    assert period_of(GraphBuilder().actor("a", 7).graph()) == 0


@each_reference
def test_phases_start_in_order(period_of):
    graph = (
        GraphBuilder()
        .actor("a", [4, 1])
        .channel("a", [0, 1], "a", [1, 0], initial_tokens=1)
        .graph()
    )
    # Phase 1 needs no token and starts with phase 0; after 1 it returns the token for the next
    # phase 0, whatever the longer one still does.
    assert period_of(graph) == 1


@each_reference
def test_tokens_do_not_overtake(period_of):
    graph = (
        GraphBuilder()
        .actor("a", [5, 1])
        .actor("b", [0, 0])
        .channel("a", [1, 1], "b", [1, 1])
        .channel("b", [1, 1], "a", [1, 1], initial_tokens=2)
        .graph()
    )
    # Both firings of a start together; the second one's token waits for the first one's, at 5.
    assert period_of(graph) == 5


def test_claimed_space_is_not_free():
    graph = GraphBuilder().actor("a", 2).actor("b", 3).channel("a", 1, "b", 1, capacity=2).graph()
    # A place is taken from the start of a to the end of b: two places in 5 time units.
    assert slow_simulation.period_of(graph) == Fraction(5, 2)


def test_kept_space_is_not_free():
    builder = GraphBuilder().actor("a", 1, overlap=False).actor("b", [1, 1], overlap=False)
    builder.channel("a", 1, "b", [1, 1], capacity=2, release=[0, 2])
    # The channel fills at 1 and 2, b ends its phases at 2 and 3, and both places are free then.
    assert slow_simulation.period_of(builder.graph()) == 3


def test_capacities_of_self_loops_do_not_count():
    builder = GraphBuilder().actor("a", 4)
    graph = builder.channel("a", 1, "a", 1, initial_tokens=1, capacity=1).graph()
    assert slow_simulation.period_of(graph) == 4
    assert brute_cycle_ratio.period_of(graph) == 4

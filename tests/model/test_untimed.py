"""Runs without times: the rule of firing, cycles that begin later, and values on tokens."""

from hypothesis import given
from hypothesis import strategies as st

from csdf.model.graph import Actor, Channel, Graph
from csdf.model.indexed import indexed
from csdf.model.untimed import UntimedRun, ValuedRun


def pair(tokens=0, production=(1, 2), consumption=(2,)):
    """Two actors; one cycle of `a` makes three tokens, a firing of `b` takes two."""
    return indexed(
        Graph(
            name="pair",
            actors=(
                Actor(name="a", durations=(1,) * len(production)),
                Actor(name="b", durations=(1,) * len(consumption)),
            ),
            channels=(
                Channel(
                    name="c",
                    producer="a",
                    consumer="b",
                    production=production,
                    consumption=consumption,
                    initial_tokens=tokens,
                ),
            ),
        )
    )


def test_an_actor_fires_while_its_inputs_hold_what_its_next_phase_takes():
    run = UntimedRun(pair(), [3, 9])
    run.exhaust()
    # Three firings of a make 1 + 2 + 1 = 4 tokens, which two firings of b take.
    assert (run.firings, run.tokens, run.phase) == ([3, 2], [0], [1, 0])
    assert run.lacking(1) == 0
    assert run.first_unfinished() == 1


def test_phases_that_are_passed_once_come_before_the_cycle():
    run = UntimedRun(pair(production=(5, 1, 2)), [6, 0], returns=[1, 0])
    run.exhaust()
    # 5, then 1, 2, 1, 2 and 1 of the cycle; 2 comes next.
    assert (run.tokens, run.phase) == ([12], [2, 0])


def test_values_leave_a_channel_in_the_order_in_which_they_came():
    taken_by_b = []

    def value_of(actor, phase, taken):
        if actor == 1:
            taken_by_b.append(taken)
        return f"{'ab'[actor]}{phase}"

    run = ValuedRun(pair(tokens=1), [3, 9], [[("old", 1)]], value_of)
    run.exhaust()
    assert taken_by_b == [["old", "a0"], ["a1"]]
    assert [list(queue) for queue in run.queues] == [[("a0", 1)]]


@given(
    production=st.lists(st.integers(0, 4), min_size=1, max_size=4).filter(any),
    consumption=st.lists(st.integers(0, 4), min_size=1, max_size=4).filter(any),
    tokens=st.integers(0, 6),
    most=st.tuples(st.integers(0, 12), st.integers(0, 12)),
)
def test_values_do_not_change_what_fires(production, consumption, tokens, most):
    graph = pair(tokens, tuple(production), tuple(consumption))
    counted = UntimedRun(graph, most)
    valued = ValuedRun(graph, most, [[(None, tokens)]], lambda actor, phase, taken: None)
    counted.exhaust()
    valued.exhaust()
    assert (valued.firings, valued.tokens) == (counted.firings, counted.tokens)
    assert [sum(count for _, count in queue) for queue in valued.queues] == counted.tokens

import warnings
from fractions import Fraction

import pytest

from csdf.errors import InvalidGraph, Suspicious
from csdf.model.builder import GraphBuilder
from csdf.model.graph import Actor, Channel, Graph


def test_a_graph_is_built_by_names():
    built = (
        GraphBuilder("pair")
        .actor("a", [1, 2])
        .actor("b", 3)
        .channel("a", [1, 2], "b", 3, initial_tokens=1, capacity=6, token_size=4)
        .graph()
    )
    assert built == Graph(
        name="pair",
        actors=(Actor(name="a", durations=(1, 2)), Actor(name="b", durations=(3,))),
        channels=(
            Channel(
                name="a to b", producer="a", consumer="b", production=(1, 2), consumption=(3,),
                initial_tokens=1, capacity=6, token_size=4,
            ),
        ),
    )  # fmt: skip


def test_short_sequences_repeat_up_to_the_least_common_multiple():
    with pytest.warns(Suspicious) as remarks:
        built = GraphBuilder().actor("a", [1, 2]).channel("a", [1, 2, 3], "a", 2).graph()
    # Two times and three rates: 6 phases.
    assert built.actor("a").durations == (1, 2, 1, 2, 1, 2)
    assert built.channel("a to a").production == (1, 2, 3, 1, 2, 3)
    assert built.channel("a to a").consumption == (2,) * 6
    (remark,) = remarks
    assert str(remark.message) == (
        "actor 'a' has 6 phases; the 2 values of its durations and the 3 values of production on "
        "'a to a' repeat to fill them"
    )


def test_a_single_value_for_all_phases_is_no_cause_for_a_remark():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        GraphBuilder().actor("a", [1, 2]).channel("a", [1, 2], "a", 3).graph()
        GraphBuilder().actor("a", 1).channel("a", [1, 2], "a", [0, 3], release=[0, 3]).graph()


def test_rational_times_set_the_time_unit():
    built = GraphBuilder().actor("a", "1/2").actor("b", [1, "0.75", Fraction(1, 3)]).graph()
    # The least common denominator of 1/2, 1, 3/4 and 1/3 is 12.
    assert built.time_unit == Fraction(1, 12)
    assert [actor.durations for actor in built.actors] == [(6,), (12, 9, 4)]


def test_without_overlap_an_actor_has_a_self_loop_of_one_token():
    loop = GraphBuilder().actor("a", [1, 2], overlap=False).graph().channel("a self-loop")
    assert (loop.production, loop.consumption, loop.initial_tokens) == ((1, 1), (1, 1), 1)


def test_channels_without_a_name_get_distinct_ones():
    builder = GraphBuilder().actor("a", 1).actor("b", 1)
    for _ in range(3):
        builder.channel("a", 1, "b", 1)
    names = [channel.name for channel in builder.graph().channels]
    assert names == ["a to b", "a to b 2", "a to b 3"]


def test_release_rates_and_consumption_repeat_to_one_length():
    built = GraphBuilder().actor("a", 1).actor("b", 1)
    window = built.channel("a", 1, "b", 2, capacity=5, release=(1, 3)).graph().channel("a to b")
    # Two release rates: b has two phases, each of which consumes 2.
    assert (window.consumption, window.release) == ((2, 2), (1, 3))


@pytest.mark.parametrize(
    ("time", "message"),
    [
        (1.5, "actor 'a': duration 1.5 is not exact; write it as text"),
        ([1, 2.5], "actor 'a': duration 2.5 is not exact; write it as text"),
        (True, "actor 'a': duration True is not exact; write it as text"),
        ("fast", "actor 'a': duration 'fast' is not a number such as 7, 3/2 or 1.5"),
        ("1/0", "actor 'a': duration '1/0' is not a number such as 7, 3/2 or 1.5"),
        (None, "actor 'a': duration None is not a number"),
        ([], "actor 'a' has no phase; give at least one duration"),
    ],
)
def test_a_time_that_is_no_exact_number_is_refused(time, message):
    with pytest.raises(InvalidGraph) as refusal:
        GraphBuilder().actor("a", time)
    assert str(refusal.value) == message


def test_a_negative_time_is_refused_when_the_graph_is_made():
    with pytest.raises(InvalidGraph, match="actor 'a': duration -1 is negative"):
        GraphBuilder().actor("a", -1).graph()


@pytest.mark.parametrize(
    ("rates", "message"),
    [
        (-1, "production rate -1 is negative"),
        (1.5, "production rate 1.5 is not an integer"),
        ([], "all production rates are zero"),
    ],
)
def test_a_wrong_rate_is_refused(rates, message):
    with pytest.raises(InvalidGraph, match=f"channel 'a to a': {message}"):
        GraphBuilder().actor("a", 1).channel("a", rates, "a", 1)


def test_an_actor_cannot_be_added_twice():
    with pytest.raises(InvalidGraph, match="two actors are named 'a'"):
        GraphBuilder().actor("a", 1).actor("a", 2)


def test_a_channel_to_nowhere_is_refused():
    with pytest.raises(InvalidGraph, match="channel 'a to z': there is no actor 'z'"):
        GraphBuilder().actor("a", 1).channel("a", 1, "z", 1).graph()


def test_a_graph_already_built_does_not_change():
    builder = GraphBuilder().actor("a", 1)
    first = builder.graph()
    builder.actor("b", 1)
    assert [actor.name for actor in first.actors] == ["a"]
    assert len(builder.graph().actors) == 2


def test_channels_without_names_are_numbered_past_names_that_are_taken():
    builder = GraphBuilder().actor("a", 1)
    for name in (None, "a to a 2", None, None):
        builder.channel("a", 1, "a", 1, initial_tokens=1, name=name)
    names = [channel.name for channel in builder.graph().channels]
    assert names == ["a to a", "a to a 2", "a to a 3", "a to a 4"]

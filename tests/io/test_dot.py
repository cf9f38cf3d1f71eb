import re

import pytest

from csdf.errors import InvalidGraph
from csdf.io.dot import graph_to_dot
from csdf.model.graph import Actor, Channel, Graph

ACTORS = (Actor(name="a", durations=(5, 5, 7)), Actor(name='b"\\', durations=(2,)))
CHANNEL = Channel(
    name="c", producer="a", consumer='b"\\', production=(1, 0, 2), consumption=(3,),
    initial_tokens=2, capacity=9,
)  # fmt: skip
GRAPH = Graph(name="g", actors=ACTORS, channels=(CHANNEL,))


def test_an_actor_shows_its_durations():
    assert r'"a" [label="a\n2*5,7"];' in graph_to_dot(GRAPH)


def test_names_are_escaped():
    assert r'"b\"\\" [label="b\"\\\n2"];' in graph_to_dot(GRAPH)


def test_a_channel_shows_rates_tokens_and_capacity():
    assert (
        r'"a" -> "b\"\\" [label="c\n●●\ncapacity 9", taillabel="1,0,2", headlabel="3"];'
        in graph_to_dot(GRAPH)
    )


def test_many_initial_tokens_are_a_number():
    loop = Channel(
        name="s", producer="a", consumer="a", production=(1, 1, 1), consumption=(1, 1, 1),
        initial_tokens=12,
    )  # fmt: skip
    graph = Graph(name="g", actors=ACTORS[:1], channels=(loop,))
    assert r'label="s\n●12"' in graph_to_dot(graph)


def test_only_what_is_highlighted_is_red():
    text = graph_to_dot(GRAPH, highlighted_actors=["a"], highlighted_channels=["c"])
    red = [line.strip() for line in text.splitlines() if "red" in line]
    assert [re.match(r'"a" (\[|->)', line) is not None for line in red] == [True, True]


def test_highlighting_what_is_not_there_is_refused():
    with pytest.raises(InvalidGraph, match="there is no channel 'z'"):
        graph_to_dot(GRAPH, highlighted_channels=["z"])

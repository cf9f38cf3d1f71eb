"""Graphs that are refused, and the messages."""

from dataclasses import FrozenInstanceError, replace
from fractions import Fraction

import pytest

from csdf.errors import InvalidGraph
from csdf.model.graph import Actor, Channel, Graph, Processor

A = Actor(name="a", durations=(1, 2))
B = Actor(name="b", durations=(3,))
C = Channel(name="c", producer="a", consumer="b", production=(1, 0), consumption=(2,))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"durations": ()}, "actor 'a' has no phase; give at least one duration"),
        ({"durations": (1, -2)}, "actor 'a': duration -2 is negative"),
        ({"durations": (1.5,)}, "actor 'a': duration 1.5 is not an integer"),
        ({"durations": (True,)}, "actor 'a': duration True is not an integer"),
        (
            {"processors": (Processor(name="arm", durations=(1,)),)},
            "actor 'a': 1 duration on processor 'arm', but 2 phases",
        ),
    ],
)
def test_an_actor_is_refused_with_its_name_and_the_value(change, message):
    with pytest.raises(InvalidGraph) as refusal:
        replace(A, **change)
    assert str(refusal.value) == message


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"production": (1, -1)}, "channel 'c': production rate -1 is negative"),
        ({"consumption": ("2",)}, "channel 'c': consumption rate '2' is not an integer"),
        (
            {"production": (0, 0)},
            "channel 'c': all production rates are zero; no token can ever pass",
        ),
        (
            {"consumption": (0,)},
            "channel 'c': all consumption rates are zero; no token can ever pass",
        ),
        ({"initial_tokens": -1}, "channel 'c': initial tokens -1 is negative"),
        ({"token_size": -8}, "channel 'c': token size -8 is negative"),
        ({"capacity": -1}, "channel 'c': capacity -1 is negative"),
        (
            {"capacity": 3, "initial_tokens": 4},
            "channel 'c': capacity 3 is less than its 4 initial tokens",
        ),
        ({"release": (1, 1)}, "channel 'c': 2 release rates for 1 consumption rates"),
        ({"release": (3,)}, "channel 'c': phase 0 releases space that it has not consumed"),
        ({"release": (1,)}, "channel 'c': a cycle consumes 2 tokens but releases 1"),
        ({"release": (-2,)}, "channel 'c': release rate -2 is negative"),
    ],
)
def test_a_channel_is_refused_with_its_name_and_the_value(change, message):
    with pytest.raises(InvalidGraph) as refusal:
        replace(C, **change)
    assert str(refusal.value) == message


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"actors": ()}, "graph 'g' has no actor"),
        ({"actors": (A, A)}, "two actors are named 'a'"),
        ({"channels": (C, C)}, "two channels are named 'c'"),
        ({"time_unit": Fraction(0)}, "graph 'g': time unit 0 is not positive"),
        ({"actors": (A,)}, "channel 'c': there is no actor 'b'"),
        (
            {"actors": (replace(A, durations=(1,)), B)},
            "channel 'c': 2 production rates, but actor 'a' has 1 phase",
        ),
        (
            {"actors": (A, replace(B, durations=(1, 2, 3)))},
            "channel 'c': 1 consumption rate, but actor 'b' has 3 phases",
        ),
    ],
)
def test_a_graph_is_refused_with_the_name_and_the_value(change, message):
    valid = Graph(name="g", actors=(A, B), channels=(C,))
    with pytest.raises(InvalidGraph) as refusal:
        replace(valid, **change)
    assert str(refusal.value) == message


def test_an_unknown_name_is_refused():
    graph = Graph(name="g", actors=(A, B), channels=(C,))
    with pytest.raises(InvalidGraph, match="graph 'g': there is no actor 'z'"):
        graph.actor("z")
    with pytest.raises(InvalidGraph, match="graph 'g': there is no channel 'z'"):
        graph.channel("z")


def test_a_graph_is_a_frozen_value():
    graph = Graph(name="g", actors=(A, B), channels=(C,))
    assert graph == Graph(name="g", actors=(A, B), channels=(C,), origin="text of a file")
    with pytest.raises(FrozenInstanceError):
        graph.name = "h"


def test_one_phase_everywhere_is_sdf():
    assert Graph(name="g", actors=(B,)).kind == "sdf"
    assert Graph(name="g", actors=(A, B)).kind == "csdf"


def test_space_is_released_as_consumed_unless_said_otherwise():
    window = replace(C, producer="b", consumer="a", production=(2,), consumption=(2, 0))
    assert window.release_rates == (2, 0)
    assert replace(window, release=(0, 2)).release_rates == (0, 2)

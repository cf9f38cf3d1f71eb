"""Graphs as multigraphs of NetworkX, and back."""

from dataclasses import replace
from fractions import Fraction

import networkx as nx
import pytest
from hypothesis import given

from csdf import from_networkx, to_networkx
from csdf.errors import InvalidArgument, InvalidGraph
from csdf.io.graph_files import read_graph
from csdf.model.graph import Actor, Channel, Graph
from tests.cli.running import GRAPHS
from tests.io.graph_strategies import graphs


@pytest.mark.slow
@given(graph=graphs())
def test_a_graph_survives_writing_and_reading(graph):
    assert from_networkx(to_networkx(graph)) == graph


@pytest.mark.parametrize("path", sorted(GRAPHS.glob("*.xml")), ids=lambda path: path.stem)
def test_graphs_keep_their_origin_through_files(path):
    graph = read_graph(path)
    found = from_networkx(to_networkx(graph))
    assert found == graph
    assert found.origin == graph.origin


def test_parallel_channels_and_self_loops_stay_apart():
    graph = read_graph(GRAPHS / "csdf_example.xml")
    double = replace(graph.channels[0], name="double")
    graph = replace(graph, channels=(*graph.channels, double))
    found = to_networkx(graph)
    assert found.number_of_edges() == len(graph.channels)
    assert found.edges["a", "b", "double"]["production"] == double.production


def test_networkx_finds_the_cycle_of_a_feedback_channel():
    there = Channel(name="there", producer="a", consumer="b", production=(1,), consumption=(1,))
    back = replace(there, name="back", producer="b", consumer="a", initial_tokens=1)
    actors = tuple(Actor(name=name, durations=(1,)) for name in "abc")
    found = to_networkx(Graph(name="loop", actors=actors, channels=(there, back)))
    assert sorted(map(sorted, nx.strongly_connected_components(found))) == [["a", "b"], ["c"]]


def built(**edge):
    found = nx.MultiDiGraph()
    found.add_node("a", durations=(1, 2))
    found.add_node("b", durations=3)
    found.add_edge("a", "b", **edge)
    return found


def test_numbers_stand_for_all_phases_and_channels_get_names():
    found = built(production=2, consumption=[4])
    found.add_edge("a", "b", production=2, consumption=4)
    graph = from_networkx(found, name="mine")
    assert graph.name == "mine"
    assert graph.actor("b").durations == (3,)
    assert graph.channel("a to b").production == (2, 2)
    assert graph.channel("a to b 2").consumption == (4,)


def test_what_is_not_said_has_the_default_of_the_model():
    channel = from_networkx(built(production=1, consumption=2)).channels[0]
    assert (channel.initial_tokens, channel.capacity, channel.release) == (0, None, None)


def test_time_units_of_networkx_graphs_may_be_strings():
    found = built(production=1, consumption=2)
    found.graph.update(time_unit="1/2", throughput_constraint=Fraction(1, 3))
    graph = from_networkx(found)
    assert (graph.time_unit, graph.throughput_constraint) == (Fraction(1, 2), Fraction(1, 3))


@pytest.mark.parametrize(
    ("edge", "complaint"),
    [
        ({"production": 1}, "has no attribute 'consumption'"),
        ({"production": "1", "consumption": 1}, "production '1' is neither"),
        ({"production": 1.5, "consumption": 1}, "production 1.5 is neither"),
        ({"production": (1, 2, 3), "consumption": 1}, "3 production rates, but actor 'a' has 2"),
        ({"production": (0, 0), "consumption": 1}, "all production rates are zero"),
        ({"production": 1, "consumption": 1, "capacity": "7"}, "capacity '7' is not an integer"),
    ],
)
def test_a_wrong_edge_is_refused_by_name(edge, complaint):
    with pytest.raises(InvalidGraph, match=complaint.replace("(", r"\(")) as refusal:
        from_networkx(built(**edge))
    assert "a to b" in str(refusal.value)


def test_a_wrong_graph_is_refused():
    with pytest.raises(InvalidArgument, match="expected a MultiDiGraph or a DiGraph"):
        from_networkx(nx.Graph())
    found = nx.MultiDiGraph()
    found.add_node(1, durations=1)
    with pytest.raises(InvalidGraph, match="node 1 is not a text"):
        from_networkx(found)
    found = nx.MultiDiGraph()
    found.add_node("a")
    with pytest.raises(InvalidGraph, match="node 'a' has no attribute 'durations'"):
        from_networkx(found)
    found = built(production=1, consumption=1)
    found.graph["time_unit"] = "1e999999999"
    with pytest.raises(InvalidGraph, match=r"time_unit '1e999999999' has more than 3 digits"):
        from_networkx(found)
    found.graph["time_unit"] = 0.5
    with pytest.raises(InvalidGraph, match=r"time_unit 0.5 is not exact"):
        from_networkx(found)


def test_a_plain_digraph_is_a_graph_too():
    found = nx.DiGraph(name="pair")
    found.add_node("a", durations=2)
    found.add_node("b", durations=(3, 1))
    found.add_edge("a", "b", production=2, consumption=1)
    found.add_edge("b", "a", production=1, consumption=2, initial_tokens=4)
    graph = from_networkx(found)
    assert graph.name == "pair"
    assert graph.actor("b").durations == (3, 1)
    assert [(one.name, one.production, one.consumption) for one in graph.channels] == [
        ("a to b", (2,), (1, 1)),
        ("b to a", (1, 1), (2,)),
    ]
    assert graph.channels[1].initial_tokens == 4


def test_a_misspelt_attribute_of_an_edge_is_refused():
    found = to_networkx(read_graph(GRAPHS / "csdf_example.xml"))
    producer, consumer, key = next(iter(found.edges(keys=True)))
    found.edges[producer, consumer, key]["inital_tokens"] = 3
    with pytest.raises(InvalidGraph, match="attribute 'inital_tokens'; did you mean 'initial_to"):
        from_networkx(found)
    found.edges[producer, consumer, key].pop("inital_tokens")
    found.edges[producer, consumer, key]["color"] = "red"
    assert from_networkx(found) == read_graph(GRAPHS / "csdf_example.xml")

import json
from dataclasses import replace

import pytest
from hypothesis import given

from csdf.errors import UnreadableFile
from csdf.io.json_graph import graph_from_json, graph_to_json
from csdf.model.graph import Actor, Channel, Graph, Processor
from tests.io.graph_strategies import graphs

ACTOR = Actor(
    name="a",
    durations=(3, 4),
    processors=(
        Processor(name="p", durations=(3, 4), is_default=True),
        Processor(name="q", durations=(1, 1)),
    ),
)
WINDOW = Channel(
    name="w", producer="a", consumer="a", production=(1, 1), consumption=(2, 0), release=(0, 2)
)
GRAPH = Graph(name="g", actors=(ACTOR,), channels=(WINDOW,))


def changed(place, value):
    """Return the JSON of GRAPH with another value at a place such as ("channels", 0, "name")."""
    document = json.loads(graph_to_json(GRAPH))
    target = document
    for key in place[:-1]:
        target = target[key]
    target[place[-1]] = value
    return json.dumps(document)


@pytest.mark.slow
@given(graph=graphs())
def test_a_graph_reads_back_as_it_was(graph):
    assert graph_from_json(graph_to_json(graph)) == graph


def test_release_rates_and_origin_read_back():
    graph = replace(GRAPH, origin="<sdf3/>")
    read = graph_from_json(graph_to_json(graph))
    assert read == graph
    assert read.origin == "<sdf3/>"


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        (("name",), 7, "in: name: found 7; expected a text"),
        (("format",), "dot", "in: format: found 'dot'; expected 'csdf-graph'"),
        (("version",), 2, "in: version: found 2; expected 1"),
        (("time_unit",), 0.5, "in: time_unit: found 0.5; expected a text"),
        (("time_unit",), "half", "in: time_unit: found 'half'; expected a fraction as text"),
        (("time_unit",), "1e999999999", "found '1e999999999'; expected a fraction as text"),
        (("time_unit",), "0", "in: graph 'g': time unit 0 is not positive"),
        (("actors",), {}, "in: actors: found {}; expected a list"),
        (("actors",), [], "in: graph 'g' has no actor"),
        (("actors", 0), "a", "in: actors[0]: found 'a'; expected an object"),
        (("actors", 0, "size"), 1, "in: actors[0]: the key 'size' is unknown"),
        (("actors", 0, "durations"), [], "in: actors[0]: actor 'a' has no phase"),
        (("actors", 0, "durations", 1), 1.0, "in: actors[0].durations[1]: found 1.0; expected an"),
        (("actors", 0, "processors", 0, "is_default"), 1, "processors[0].is_default: found 1;"),
        (("channels", 0, "producer"), "z", "in: channel 'w': there is no actor 'z'"),
        (("channels", 0, "production", 1), True, "in: channels[0].production[1]: found True;"),
        (("channels", 0, "production", 1), -1, "in: channels[0].production[1]: found -1;"),
        (("channels", 0, "release"), [2], "in: channels[0]: channel 'w': 1 release rates for 2"),
        (("channels", 0, "capacity"), "many", "in: channels[0].capacity: found 'many'; expected"),
        (("origin",), 1, "in: origin: found 1; expected a text"),
    ],
)
def test_a_wrong_value_is_refused_with_its_place(place, value, message):
    with pytest.raises(UnreadableFile) as refusal:
        graph_from_json(changed(place, value), "in")
    assert message in str(refusal.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "in:1: not JSON"),
        ('{"a":\n 1', "in:2: not JSON"),
        ("[]", r"in: found \[\]; expected an object"),
        ("{}", "in: the key 'format' is missing"),
        ('{"a": 1, "a": 2}', "in: the key 'a' occurs twice"),
        ("NaN", "in: NaN is not a number"),
        ("[" * 100_000, "in: nested too deeply"),
        ("9" * 5000, "in: a number has too many digits"),
    ],
)
def test_a_text_that_is_no_graph_is_refused(text, message):
    with pytest.raises(UnreadableFile, match=message):
        graph_from_json(text, "in")

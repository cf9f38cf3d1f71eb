import json

import pytest

from csdf.errors import InvalidGraph, UnreadableFile
from csdf.io.fifo_depths import depth_table, folding_config, parse_depths
from csdf.model.builder import GraphBuilder


def two_paths(middle="work"):
    """`split` feeds `join` directly and through a third actor."""
    builder = GraphBuilder()
    for name in ("split", middle, "join"):
        builder.actor(name, 1, overlap=False)
    builder.channel("split", 1, middle, 1, name="up")
    builder.channel(middle, 1, "join", 1, name="down")
    return builder.channel("split", 1, "join", 1, name="skip").graph()


DEPTHS = {"up": 2, "down": 3, "skip": 7}


def test_folding_lists_the_depths_at_both_ends_in_the_order_of_the_channels():
    assert json.loads(folding_config(two_paths(), DEPTHS)) == {
        "Defaults": {},
        "split": {"inFIFODepths": [], "outFIFODepths": [2, 7]},
        "work": {"inFIFODepths": [2], "outFIFODepths": [3]},
        "join": {"inFIFODepths": [3, 7], "outFIFODepths": []},
    }


@pytest.mark.parametrize(
    "text", [folding_config(two_paths(), DEPTHS), depth_table(DEPTHS)], ids=["folding", "table"]
)
def test_both_styles_read_back(text):
    assert parse_depths(text, two_paths()) == DEPTHS


def test_a_folding_has_no_actor_with_the_name_of_its_defaults():
    graph = two_paths(middle="Defaults")
    with pytest.raises(InvalidGraph, match="'Defaults'"):
        folding_config(graph, DEPTHS)
    with pytest.raises(InvalidGraph, match="'Defaults'"):
        parse_depths('{"Defaults": {"inFIFODepths": [2]}}', graph)
    assert parse_depths(depth_table(DEPTHS), graph) == DEPTHS


def test_of_two_depths_for_one_channel_the_larger_holds():
    text = json.dumps({"split": {"outFIFODepths": [2, 9]}, "join": {"inFIFODepths": [3, 7]}})
    assert parse_depths(text, two_paths()) == {"up": 2, "down": 3, "skip": 9}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[1]", "found [1]; expected an object"),
        ("{", "not JSON"),
        ('{"across": 1}', "no 'across'"),
        ('{"up": -1}', "up: found -1; expected an integer >= 0"),
        ('{"up": 1.5}', "up: found 1.5; expected an integer >= 0"),
        ('{"split": {"outFIFODepths": [1]}}', "expected a depth for each of 2 channels"),
        ('{"split": {"outFIFODepths": 1}}', "split.outFIFODepths: found 1; expected a list"),
        ('{"split": {"outFIFODepths": [1, 2]}, "join": 3}', "join: found 3; expected an object"),
        ('{"up": ' + "9" * 5000 + "}", "a number has too many digits"),
    ],
)
def test_a_bad_file_says_what_is_wrong(text, message):
    with pytest.raises(UnreadableFile) as caught:
        parse_depths(text, two_paths(), "depths.json")
    assert message in str(caught.value)
    assert "depths.json" in str(caught.value)

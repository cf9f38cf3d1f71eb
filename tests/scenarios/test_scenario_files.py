"""Scenario files: what they mean, and what is said of those that mean nothing."""

import json
from pathlib import Path

import pytest

from csdf.errors import UnreadableFile
from csdf.scenarios.files import read_scenarios, scenarios_from_json
from csdf.scenarios.fsmsadf import parse_fsmsadf
from csdf.scenarios.throughput import scenario_throughput

MODELS = Path(__file__).parents[2] / "models" / "scenarios"

TWO_SCENARIOS = """<?xml version='1.0'?>
<sdf3 type='fsmsadf' version='1.0' xmlns='uri:sdf3'>
<applicationGraph name='two'>
<fsmsadf>
<scenariograph name='make' type='g'>
<actor name='a' type='a' repetitions='1'>
<port name='i' type='in' rate='1'/><port name='o' type='out' rate='1'/>
<port name='x' type='out' rate='1'/></actor>
<actor name='b' type='b' repetitions='0'><port name='x' type='in' rate='0'/></actor>
<channel name='aa' srcActor='a' srcPort='o' dstActor='a' dstPort='i' initialTokens='1'
 persistentTokenNames='t' finalTokens='1' persistentFinalTokenNames='t'/>
<channel name='ab' srcActor='a' srcPort='x' dstActor='b' dstPort='x' finalTokens='1'/>
</scenariograph>
</fsmsadf>
<fsmsadfProperties><defaultProperties>
<actorProperties actor='a'><processor type='p' default='true'><executionTime time='3/2'/></processor>
</actorProperties>
<actorProperties actor='b'><processor type='p' default='true'><executionTime time='1'/></processor>
</actorProperties>
</defaultProperties><scenarios>
<scenario name='short' graph='make' reward='1'/>
<scenario name='long' graph='make' reward='0'><actorProperties actor='a'>
<processor type='p' default='true'><executionTime time='4'/></processor></actorProperties></scenario>
</scenarios></fsmsadfProperties>
<fsm initialstate='q'>
<state name='q' scenario='short'><transition destination='r'/></state>
<state name='r' scenario='long'><transition destination='q'/></state>
</fsm></applicationGraph></sdf3>
"""


def refusal(text):
    with pytest.raises(UnreadableFile) as found:
        parse_fsmsadf(text.encode(), "g.xml")
    return str(found.value)


def test_default_times_hold_where_a_scenario_says_nothing():
    found = scenario_throughput(parse_fsmsadf(TWO_SCENARIOS.encode()))
    assert str(found.period) == "11/2"  # 3/2 + 4 for one reward
    assert set(found.critical_scenarios) == {"short", "long"}


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("graph='make' reward='1'", "graph='none' reward='1'", "there is no graph 'none'"),
        ("persistentTokenNames='t'", "persistentTokenNames='t,u'", "2 names for 1 token"),
        ("initialstate='q'", "initialstate='z'", "there is no state 'z'"),
        ("type='fsmsadf'", "type='csdf'", "expected <sdf3 type='fsmsadf'>"),
        ("scenario='long'", "scenario='lang'", "executes 'lang', which is no scenario"),
        ("reward='0'", "reward='none'", "'none' is not a number"),
        ("repetitions='1'", "repetitions='-1'", "actor 'a': '-1' is negative"),
        ("time='3/2'", "time='soon'", "execution time"),
        ("</fsm>", "</fsm><fsm initialstate='q'/>", "holds 2 of <fsm>"),
    ],
)
def test_a_bad_file_is_refused_with_its_line(old, new, message):
    found = refusal(
        TWO_SCENARIOS.replace(old, new).replace(
            "</fsm>", f"</{new[1:4]}>" if new == "<fms " else "</fsm>"
        )
    )
    assert found.startswith("g.xml:")
    assert message in found


def test_the_example_is_read():
    found = scenario_throughput(read_scenarios(MODELS / "video_decoder.json"))
    assert str(found.period) == "140"


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("scenarios", 0, "reward"), "x", "scenarios[0].reward: found 'x'"),
        (("scenarios", 0, "consumed"), {"none": ["t"]}, "there is no channel 'none'"),
        (("scenarios", 0, "firings"), {"parse": -1}, "scenarios[0].firings.parse: found -1"),
        (("transitions", 0), ["first"], "transitions[0]"),
        (("states", 0, "scenario"), "none", "is no scenario"),
        (("format",), "csdf-graph", "expected 'csdf-scenarios'"),
    ],
)
def test_a_bad_document_is_refused_with_its_place(path, value, message):
    document = json.loads((MODELS / "video_decoder.json").read_text())
    at = document
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
    with pytest.raises(UnreadableFile) as found:
        scenarios_from_json(json.dumps(document), "g.json")
    assert message in str(found.value)

import csv
import io
import json
from fractions import Fraction

import pytest

from csdf.analysis.schedule_checker import check_schedule
from csdf.io.graph_files import read_graph, write_graph
from csdf.model.builder import GraphBuilder
from csdf.model.schedule import Firing
from tests.cli.running import GRAPHS

EXAMPLE = GRAPHS / "csdf_example.xml"


def firings_of(rows):
    return [
        Firing(
            actor=row["actor"],
            index=int(row["index"]),
            phase=int(row["phase"]),
            start=Fraction(row["start"]),
            end=Fraction(row["end"]),
        )
        for row in rows
    ]


@pytest.fixture
def ring(tmp_path):
    """Two firings of a, 1/2 long each, then b, 3 long."""
    path = tmp_path / "ring.json"
    graph = (
        GraphBuilder("ring")
        .actor("a", "1/2")
        .actor("b", 3)
        .channel("a", 1, "b", 2)
        .channel("b", 2, "a", 1, initial_tokens=2)
        .graph()
    )
    write_graph(path, graph)
    return path


def test_the_table_lists_the_firings(run, ring):
    code, output, _ = run("schedule", ring, "--iterations", "1")
    assert code == 0
    lines = output.splitlines()
    # Both firings of a at once, b when they have ended; the next iteration at 7/2.
    assert [line.split() for line in lines[1:5]] == [
        ["start", "end", "actor", "phase", "iteration"],
        ["0", "1/2", "a", "0", "0"],
        ["0", "1/2", "a", "0", "0"],
        ["1/2", "7/2", "b", "0", "0"],
    ]
    assert lines[0] == "ring: self-timed schedule, period 7/2, latency 7/2"


def test_a_long_table_says_what_it_leaves_out(run):
    lines = run("schedule", EXAMPLE, "--iterations", "5")[1].splitlines()
    # 5 iterations of 12 firings, of which 40 are listed.
    assert lines[42].split() == ["...", "20", "more", "firings;", "--format", "csv", "lists", "all"]


@pytest.mark.parametrize("kind", ["self-timed", "periodic", "strict"])
def test_every_format_lists_the_same_valid_firings(run, answer, kind):
    words = ("schedule", EXAMPLE, "--kind", kind, "--iterations", "3")
    code, text, _ = run(*words, "--format", "csv")
    listed = firings_of(csv.DictReader(io.StringIO(text)))
    assert code == 0
    assert len(listed) == 3 * 12
    check_schedule(read_graph(EXAMPLE), listed)
    code, found = answer(*words)
    assert (code, found["kind"], found["iterations"]) == (0, kind, 3)
    assert firings_of(found["firings"]) == listed


def test_json_of_a_self_timed_execution(answer, ring):
    found = answer("schedule", ring)[1]
    assert found.pop("firings")
    steady = found.pop("steady_iterations")
    assert found == {
        "graph": "ring",
        "deadlock": False,
        "kind": "self-timed",
        "iterations": found["transient_iterations"] + steady,
        "transient_iterations": 1,
        "period": "7/2",
        "latency": "7/2",
        "max_occupancy": {"a to b": 2, "b to a": 2},
    }


def test_json_of_a_periodic_schedule(answer, ring):
    found = answer("schedule", ring, "--kind", "periodic")[1]
    assert found["period"] == "7/2"
    assert found["starts"] == {"a": ["0", "0"], "b": ["1/2"]}
    assert found["recurrence"] == {"a": "7/2", "b": "7/2"}


def test_the_trace_is_json_with_every_firing(run, ring, tmp_path):
    path = tmp_path / "trace.json"
    assert run("schedule", ring, "--iterations", "2", "--trace", path)[0] == 0
    trace = json.loads(path.read_text())
    spans = [event for event in trace["traceEvents"] if event["ph"] == "X"]
    # Half a time unit is one microsecond. Firings of a overlap and need a line each.
    assert trace["otherData"] == {"microseconds_per_time_unit": 2}
    assert [(one["name"], one["ts"], one["dur"]) for one in spans[:3]] == [
        ("a [0]", 0, 1), ("a [0]", 0, 1), ("b [0]", 1, 6),
    ]  # fmt: skip
    assert len(spans) == 2 * 3
    assert spans[0]["tid"] != spans[1]["tid"]
    by_line = {}
    for one in spans:
        assert one["ts"] >= by_line.get(one["tid"], 0)
        by_line[one["tid"]] = one["ts"] + one["dur"]


def test_a_deadlocked_graph_exits_with_1_and_has_no_firings(run, answer, tmp_path):
    trace = tmp_path / "trace.json"
    code, output, remarks = run("schedule", GRAPHS / "deadlocked.xml", "--trace", trace)
    assert (code, output) == (1, "")
    assert remarks.startswith("csdf schedule: deadlocked deadlocks: a waits for b on b_to_a")
    assert not trace.exists()
    code, found = answer("schedule", GRAPHS / "deadlocked.xml")
    assert (code, found["deadlock"], found["firings"]) == (1, True, [])


def test_no_strictly_periodic_schedule_exits_with_1(run, tmp_path):
    # The ring of tests/schedules/test_periodic_schedules.py, where the reason is given.
    path = tmp_path / "ring.json"
    graph = (
        GraphBuilder("ring")
        .actor("a", 1)
        .actor("b", 1)
        .actor("c", 1)
        .channel("a", 5, "b", 4, initial_tokens=4)
        .channel("b", 6, "c", 5, initial_tokens=7)
        .channel("c", 2, "a", 3)
        .graph()
    )
    write_graph(path, graph)
    code, output, remarks = run("schedule", path, "--kind", "strict")
    assert (code, output) == (1, "")
    assert remarks == (
        "csdf schedule: ring has no strictly periodic schedule; try --kind periodic\n"
    )
    assert run("schedule", path, "--kind", "periodic")[0] == 0


def test_latency_is_measured_from_source_to_sink(answer):
    # In the first iteration b starts at 4 and c ends at 17 (README shows all of its firings).
    words = ("schedule", GRAPHS / "csdf_example.xml", "--iterations", "1")
    assert answer(*words)[1]["latency"] == "17"
    assert answer(*words, "--source", "b", "--sink", "c")[1]["latency"] == "13"
    assert answer(*words, "--source", "c", "--sink", "c")[1]["latency"] == "9"


def test_a_latency_without_a_recurrence_is_said_to_be_unknown(run):
    words = ("schedule", GRAPHS / "samplerate.xml", "--iterations", "1", "--json")
    for ends, remark in (((), ""), (("--source", "a"), "latency unknown: no state")):
        code, output, remarks = run(*words, *ends)
        assert (code, json.loads(output)["latency"]) == (0, None)
        assert remark in remarks
        assert bool(remark) == bool(remarks)


@pytest.mark.parametrize("kind", ["periodic", "strict"])
def test_a_latency_is_measured_in_self_timed_schedules_alone(run, kind):
    words = ("schedule", GRAPHS / "csdf_example.xml", "--kind", kind, "--source", "a")
    code, _, remarks = run(*words)
    assert code == 2
    assert "--source and --sink are for --kind self-timed" in remarks


def test_an_unknown_source_is_one_message(run):
    code, output, remarks = run("schedule", GRAPHS / "csdf_example.xml", "--source", "z")
    assert (code, output) == (2, "")
    assert remarks.endswith("there is no actor 'z'; expected one of 'a', 'b', 'c'\n")


def test_a_schedule_whose_states_never_recur_has_the_period_that_analyze_has(run, answer, tmp_path):
    # The producer runs ahead of the slower consumer for ever.
    path = tmp_path / "ahead.json"
    builder = GraphBuilder("ahead").actor("quick", 1).actor("slow", 12)
    for actor in ("quick", "slow"):
        builder.channel(actor, 1, actor, 1, initial_tokens=1)
    write_graph(path, builder.channel("quick", 1, "slow", 1).graph())
    assert answer("analyze", path)[1]["period"] == "12"
    assert answer("schedule", path)[1]["period"] == "12"
    assert run("schedule", path)[1].startswith("ahead: self-timed schedule, period 12")

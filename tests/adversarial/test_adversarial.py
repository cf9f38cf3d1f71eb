"""Graphs made to hurt: an answer that follows by hand, a refusal by name, or the end of the budget."""

import json
from fractions import Fraction

import pytest

from csdf.io.json_graph import graph_to_json
from tests.adversarial.graphs import CASES
from tests.cli.running import answer, run

__all__ = ["answer", "run"]

ANSWERED, NO, UNUSABLE, UNKNOWN = range(4)
each_case = pytest.mark.parametrize("name", CASES)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """The path of each graph in its small size."""
    folder = tmp_path_factory.mktemp("adversarial")
    paths = {}
    for name, case in CASES.items():
        paths[name] = folder / f"{name}.json"
        paths[name].write_text(graph_to_json(case.make(case.small)))
    return paths


@each_case
def test_the_period_is_the_one_by_hand(answer, files, name):
    case = CASES[name]
    code, found = answer("analyze", files[name], "--time-limit", "10s")
    period = case.period(case.small)
    assert code == (NO if period is None else ANSWERED)
    assert found["deadlock"] == (period is None)
    assert found["period"] == (None if period is None else str(Fraction(period)))


@pytest.mark.slow
@each_case
def test_the_smallest_storage_is_the_one_by_hand_or_not_known(run, files, name):
    case = CASES[name]
    code, output, remarks = run("buffers", files[name], "--time-limit", "1s", "--json")
    found = json.loads(output)
    if "error" in found:  # the end came before the first evaluation did
        assert (code, "the time limit of 1 s is reached" in remarks) == (UNKNOWN, True)
        return
    size = case.storage(case.small)
    if case.period(case.small) is None:
        assert (code, found["status"]) == (NO, "infeasible")
    elif code == ANSWERED and found["status"] == "optimal":
        assert size in (None, found["size"])
    else:
        assert code in (ANSWERED, UNKNOWN)
        assert size is None or found["lower_bound"] <= size


@each_case
def test_a_front_begins_where_the_smallest_storage_is(run, files, name):
    case = CASES[name]
    code, output, remarks = run("pareto", files[name], "--time-limit", "200ms", "--json")
    found = json.loads(output)
    if "error" in found:
        assert (code, "the time limit of 0.2 s is reached" in remarks) == (UNKNOWN, True)
        return
    if case.period(case.small) is None:
        assert code == NO
    else:
        assert code == (ANSWERED if found["complete"] else UNKNOWN)
        if found["points"] and case.storage(case.small) is not None:
            assert found["points"][0]["size"] == case.storage(case.small)


@pytest.mark.slow
@each_case
@pytest.mark.parametrize("kind", ["self-timed", "periodic"])
def test_a_schedule_is_listed_or_refused_for_its_length(run, files, name, kind):
    case = CASES[name]
    code, output, remarks = run("schedule", files[name], "--kind", kind, "--iterations", "1")
    if case.period(case.small) is None:
        assert code == NO
    elif name.startswith("coprime"):
        assert (code, output) == (UNUSABLE, "")
        assert "firings to list; at most 5000000" in remarks
    else:
        assert code == ANSWERED


@pytest.mark.slow
@each_case
def test_a_converted_graph_is_the_same_graph(run, files, name, tmp_path):
    there, back = tmp_path / "there.xml", tmp_path / "back.json"
    assert run("convert", files[name], there)[0] == ANSWERED
    assert run("convert", there, back)[0] == ANSWERED
    first, last = (json.loads(path.read_text()) for path in (files[name], back))
    for graph in (first, last):
        del graph["origin"], graph["time_unit"]  # a file has times, no unit
    assert first["channels"] == last["channels"]
    assert [one["name"] for one in first["actors"]] == [one["name"] for one in last["actors"]]


def test_an_iteration_of_more_firings_than_memory_holds_is_not_expanded(run, files, tmp_path):
    code, _, remarks = run("convert", files["coprime chain"], tmp_path / "out.json", "--hsdf")
    assert code == UNUSABLE
    assert "firings per iteration; at most" in remarks
    assert not list(tmp_path.iterdir())


def test_an_empty_graph_is_refused(run, tmp_path):
    graph = json.loads(graph_to_json(CASES["chain"].make(1)))
    path = tmp_path / "empty.json"
    path.write_text(json.dumps(graph | {"actors": [], "channels": []}))
    code, output, remarks = run("analyze", path)
    assert (code, output) == (UNUSABLE, "")
    assert remarks == f"csdf analyze: {path}: graph 'chain' has no actor\n"


def test_a_sequence_of_100_000_phases_is_short_in_a_file(answer, tmp_path):
    # A cycle of 100,000 phases of one time unit, one at a time.
    path = tmp_path / "phases.csv"
    path.write_text("layer,inputs,consumption,production,times\na,,1,1,100000*1\n")
    code, found = answer("analyze", path, "--time-limit", "60s")
    assert (code, found["period"]) == (ANSWERED, "100000")


@pytest.mark.slow
def test_the_budget_holds_where_no_watch_looks(run, tmp_path):
    # Ten thousand times ten thousand firings: only the alarm ends the first evaluation in time.
    path = tmp_path / "large.json"
    path.write_text(graph_to_json(CASES["ring"].make(20_000)))
    code, output, remarks = run("pareto", path, "--time-limit", "1ms")
    assert code in (ANSWERED, UNKNOWN)
    assert code == ANSWERED or "the time limit of 0.001 s is reached" in output + remarks

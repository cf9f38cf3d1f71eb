"""Graphs whose actors overlap with themselves: what each command says, and the switch it names."""

import json
from dataclasses import replace
from fractions import Fraction

import pytest

from csdf.io.graph_files import read_graph, write_graph
from csdf.model.builder import GraphBuilder
from csdf.search.trade_off import pareto_front
from tests.cli.running import GRAPHS

SWITCH = "--no-auto-concurrency"


@pytest.fixture
def free(tmp_path):
    """A file with two actors without self-loops; a is busy for 10, b for 12 an iteration."""
    path = tmp_path / "free.json"
    graph = GraphBuilder("free").actor("a", 5).actor("b", 4).channel("a", 3, "b", 2, name="ab")
    write_graph(path, graph.graph())
    return path


def without_loops(name, tmp_path):
    """A published graph as most of its kind are written: without self-loops."""
    graph = read_graph(GRAPHS / name)
    channels = tuple(one for one in graph.channels if not one.is_self_loop)
    path = tmp_path / "bare.json"
    write_graph(path, replace(graph, channels=channels, origin=None))
    return path


def test_a_period_of_0_is_explained_and_the_switch_is_named(run, free):
    code, output, _ = run("analyze", free)
    assert code == 0
    assert "2 actors without a self-loop (a, b)" in output
    assert SWITCH in output


def test_json_has_the_reason_and_the_hint(answer, free):
    _, found = answer("analyze", free)
    assert (found["period"], SWITCH in found["hint"]) == ("0", True)
    _, found = answer("analyze", free, SWITCH)
    assert found["period"] == "12"
    assert "hint" not in found


def test_a_row_for_each_file_names_the_switch_too(run, free):
    _, output, _ = run("analyze", free, GRAPHS / "modem.xml")
    assert output.count(SWITCH) == 1


def test_one_actor_can_have_a_limit_of_its_own(answer, free):
    assert answer("analyze", free, SWITCH, "--limit", "b=2")[1]["period"] == "10"
    assert answer("analyze", free, "--limit", "b=2")[1]["period"] == "6"


def test_an_unknown_actor_in_a_limit_is_refused(run, free):
    code, _, remarks = run("analyze", free, "--limit", "x=2")
    assert (code, "no actor 'x'" in remarks) == (2, True)


def test_a_front_without_end_ends_and_says_why(run, free):
    code, output, _ = run("pareto", free)
    assert code == 3
    assert "20 Pareto points, INCOMPLETE" in output
    assert SWITCH in output


def test_a_front_has_an_end_with_the_switch(answer, free):
    code, found = answer("pareto", free, SWITCH)
    assert (code, found["complete"]) == (0, True)
    assert list(found["points"][0]["capacities"]) == ["ab"]  # the added loops are no storage


def test_a_front_can_end_after_some_points_or_at_a_size(answer, run, free):
    code, found = answer("pareto", free, "--points", 2)
    assert (code, len(found["points"]), found["at_limit"]) == (0, 2, True)
    code, found = answer("pareto", free, "--max-size", 9)
    assert (code, max(one["size"] for one in found["points"]) <= 9) == (0, True)
    assert run("pareto", free, "--max-size", 1)[0] == 1


def test_a_gap_thins_a_front(answer):
    graph = GRAPHS / "modem.xml"
    _, whole = answer("pareto", graph)
    _, rough = answer("pareto", graph, "--gap", "20%")
    assert rough["complete"]
    assert rough["gap"] == "1/5"
    assert len(rough["points"]) < len(whole["points"])


def test_added_loops_are_no_storage_even_where_self_loops_count(answer, free):
    _, found = answer("buffers", free, SWITCH, "--count-self-loops")
    assert list(found["capacities"]) == ["ab"]


def test_a_schedule_of_period_0_is_remarked_upon(run, free):
    code, _, remarks = run("schedule", free, "--iterations", 1)
    assert (code, SWITCH in remarks) == (0, True)
    _, output, remarks = run("schedule", free, "--kind", "periodic", SWITCH)
    assert "period 12\n" in output
    assert SWITCH not in remarks


def test_a_report_says_why_nothing_limits_the_graph(run, free, tmp_path):
    page = tmp_path / "report.html"
    _, output, _ = run("report", free, "-o", page)
    assert SWITCH in output
    _, output, _ = run("report", free, "-o", page, SWITCH)
    assert "One iteration takes 12 time units" in output


def test_networks_have_one_firing_at_a_time_already(run, tmp_path):
    words = ("report", "person_detection", "-o", tmp_path / "page.html")
    code, _, remarks = run(*words, SWITCH)
    assert (code, "is for graphs" in remarks) == (2, True)


@pytest.mark.parametrize(
    "name", ["h263decoder.xml", "modem.xml", "samplerate.xml", "satellite.xml"]
)
def test_published_graphs_without_self_loops_give_their_period_with_the_switch(run, name, tmp_path):
    bare = without_loops(name, tmp_path)
    _, with_loops, _ = run("analyze", GRAPHS / name, SWITCH, "--json")
    _, output, _ = run("analyze", bare, SWITCH, "--json")
    assert json.loads(output)["period"] == json.loads(with_loops)["period"]
    _, output, _ = run("analyze", bare)
    assert SWITCH in output


# As SDF3's set has them: without self-loops four of its graphs are limited by nothing.
FREE = ("h263decoder.xml", "mp3decoder.xml", "samplerate.xml", "satellite.xml")
SAYING = {  # command: where it says why, and the exit code
    "analyze": ("output", 0),
    "analyze --method periodic-1": ("output", 0),
    "pareto --time-limit 1s": ("output", 3),
    "schedule --iterations 1": ("remarks", 0),
    "schedule --kind periodic": ("remarks", 0),
    "sensitivity --time-limit 5s": ("output", 0),
    "report --time-limit 2s": ("output", 0),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", FREE)
@pytest.mark.parametrize("words", SAYING)
def test_every_command_names_the_switch_for_an_unlimited_graph(run, name, words, tmp_path):
    bare = without_loops(name, tmp_path)
    page = ["-o", tmp_path / "page.html"] if words.startswith("report") else []
    code, output, remarks = run(*words.split(), bare, *page)
    where, expected = SAYING[words]
    assert code == expected
    assert SWITCH in (output if where == "output" else remarks)
    assert "any number of firings of one actor may overlap" in output + remarks
    _, output, remarks = run(*words.split(), bare, *page, SWITCH)
    assert SWITCH not in output + remarks


@pytest.mark.parametrize("name", FREE)
def test_buffers_of_an_unlimited_graph_are_finite(answer, name, tmp_path):
    code, found = answer("buffers", without_loops(name, tmp_path), "--time-limit", "5s")
    assert (code, found["status"]) == (0, "optimal")
    assert Fraction(found["period"]) > 0  # the capacities are what limits it


@pytest.mark.parametrize("name", FREE)
def test_a_front_without_end_ends_from_python_too(name, tmp_path):
    graph = read_graph(without_loops(name, tmp_path))
    front = pareto_front(graph, budget=1)
    assert not front.is_complete
    assert len(front.points) <= 20
    assert pareto_front(graph, points=2, budget=5).points == front.points[:2]


def test_a_period_that_rests_on_overlapping_firings_says_so(run, answer, tmp_path):
    # filt and in of the modem fire 16 times per iteration, one time unit each; without self-loops a
    # cycle through other actors takes 7, so that firings of these two must overlap.
    bare = without_loops("modem.xml", tmp_path)
    _, output, _ = run("analyze", bare)
    assert "16 actors without a self-loop" in output
    assert SWITCH in output
    assert answer("analyze", bare)[1]["period"] == "7"
    assert SWITCH in answer("analyze", bare)[1]["hint"]
    assert SWITCH not in run("analyze", bare, SWITCH)[1]


def test_overlap_is_checked_in_the_unit_of_the_period(run, tmp_path):
    # a takes 3/2 and may be under way twice: period 3/4, less than its work of 3/2 an iteration.
    # With one token on the cycle the period is 3/2, and no firings overlap.
    for tokens, is_said in ((2, True), (1, False)):
        graph = GraphBuilder("halves").actor("a", "3/2").actor("b", 0)
        graph = graph.channel("a", 1, "b", 1).channel("b", 1, "a", 1, initial_tokens=tokens)
        write_graph(tmp_path / "halves.json", graph.graph())
        assert (SWITCH in run("analyze", tmp_path / "halves.json")[1]) is is_said

"""`csdf map` and `csdf scenarios`: answers, exit codes, refusals."""

import json

import pytest

from csdf.io.files import LARGEST_FILE_BYTES
from csdf.io.graph_files import write_graph
from csdf.model.builder import GraphBuilder
from tests.cli.running import GRAPHS

MODELS = GRAPHS.parent
BUS = MODELS / "platforms" / "two_with_a_bus.json"
EXAMPLE = GRAPHS / "csdf_example.xml"
DECODER = MODELS / "scenarios" / "video_decoder.json"


def test_a_mapping_is_found_written_and_read_again(answer, run, tmp_path):
    path = tmp_path / "mapping.json"
    code, found = answer("map", EXAMPLE, "--platform", BUS, "-o", path)
    assert (code, found["period"], found["status"], found["gap"]) == (0, "13", "optimal", "0")
    code, again = answer("map", EXAMPLE, "--platform", BUS, "--mapping", path)
    assert (code, again["period"], again["mapping"]) == (0, "13", found["mapping"])
    assert "status" not in again  # nothing was searched


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (
            ("map", "none.xml", "--processors", "2", "-o", "m.txt"),
            "m.txt: expected the suffix .json",
        ),
        (("map", "none.xml", "--platform-output", "p.xml"), "p.xml: expected the suffix .json"),
        (("generate", "1", "-o", "graph.png"), "cannot tell the format from '.png'"),
        (("convert", "none.xml", "graph.png"), "cannot tell the format from '.png'"),
        (("cnn", "convert", "none", "-o", "graph.png"), "cannot tell the format from '.png'"),
    ],
    ids=lambda one: " ".join(one) if isinstance(one, tuple) else one,
)
def test_a_file_that_nothing_writes_is_refused_before_the_work(run, words, expected):
    # The models do not exist: they are not looked for.
    code, output, error = run(*words)
    assert (code, output) == (2, "")
    assert expected in error


@pytest.mark.slow
def test_a_graph_beyond_the_usual_limit_is_read_where_the_limit_is_raised(run, tmp_path):
    path = tmp_path / "large.xml"
    path.write_text(EXAMPLE.read_text() + " " * LARGEST_FILE_BYTES)
    words = ("latency", path, "--source", "a", "--sink", "c")
    assert run(*words)[0] == 2
    assert run(*words, "--file-limit", "70MiB")[0] == 0


def test_latencies_of_a_graph_on_standard_input_are_found(run, monkeypatch):
    with EXAMPLE.open() as file:
        monkeypatch.setattr("sys.stdin", file)
        assert run("latency", "-", "--source", "a", "--sink", "c")[0] == 0


def test_orders_that_deadlock_answer_no(run, tmp_path):
    path = tmp_path / "mapping.json"
    orders = {"p0": {"periodic": ["b"] * 4 + ["a"] * 6 + ["c"] * 2}}
    document = {"format": "csdf-mapping", "version": 1, "binding": dict.fromkeys("abc", "p0")}
    path.write_text(json.dumps(document | {"orders": orders}))
    code, output, _ = run("map", EXAMPLE, "--platform", BUS, "--mapping", path)
    assert code == 1
    assert "deadlock" in output


def test_a_mapping_for_another_graph_is_refused_in_one_line(run, tmp_path):
    path = tmp_path / "mapping.json"
    document = {"format": "csdf-mapping", "version": 1, "binding": {"z": "p0"}}
    path.write_text(json.dumps(document))
    code, output, error = run("map", EXAMPLE, "--platform", BUS, "--mapping", path)
    assert (code, output) == (2, "")
    assert error == "csdf map: the binding names 'z', which is no actor of 'csdf_example'\n"


def test_a_bad_platform_is_refused_with_its_place(run, tmp_path):
    path = tmp_path / "platform.json"
    document = json.loads(BUS.read_text())
    document["connections"][1]["latency"] = -1
    path.write_text(json.dumps(document))
    code, _, error = run("map", EXAMPLE, "--platform", path)
    assert code == 2
    assert "platform.json: connections[1].latency: found -1; expected an integer >= 0" in error


def test_without_a_platform_the_way_to_give_one_is_named(run):
    code, _, error = run("map", EXAMPLE)
    assert code == 2
    assert "give --platform FILE or --processors N" in error


def test_firings_by_processor_are_drawn(run, tmp_path):
    path = tmp_path / "gantt.svg"
    code, *_ = run("map", EXAMPLE, "--processors", "2", "--plot", path)
    assert code == 0
    picture = path.read_text()
    assert "p0" in picture
    assert "p1" in picture


@pytest.mark.slow
def test_wheels_that_start_together_have_an_exact_period(answer, tmp_path):
    path = tmp_path / "platform.json"
    document = json.loads(BUS.read_text())
    document["processors"][0] |= {"wheel": 10, "slice": 5}
    document["processors"][1] |= {"wheel": 10, "slice": 5}
    path.write_text(json.dumps(document))
    modem, mapping = GRAPHS / "modem.xml", tmp_path / "mapping.json"
    answer("map", modem, "--platform", path, "--time-limit", "100ms", "-o", mapping)
    # The search may take all of its time; the execution of its mapping ends by itself.
    code, found = answer(
        "map", modem, "--platform", path, "--mapping", mapping, "--tdma-start", "aligned"
    )
    assert code == 0
    assert 0 < int(found["period_aligned"]) <= int(found["period"])


def test_processors_beyond_the_actors_are_left_out(answer):
    _, three = answer("map", EXAMPLE, "--processors", 3)
    code, many = answer("map", EXAMPLE, "--processors", 10**8)
    assert (code, many) == (0, three)


def test_the_fewest_processors_for_a_period_are_told(answer):
    code, found = answer("map", EXAMPLE, "--period", "14")
    # 3 * (1 + 3) + 4 * 2 + 2 + 3 = 25 time units of work, too much for one processor.
    least = found["minimum"]
    assert (code, least["goal"], least["size"], least["status"]) == (0, "processors", 2, "optimal")
    assert found["required_period"] == "14"
    assert len(found["processors"]) == 2
    _, same = answer("map", EXAMPLE, "--throughput", "1/14")
    assert same["minimum"] == least


def test_a_period_that_no_processors_reach_answers_no(answer, run):
    code, found = answer("map", EXAMPLE, "--period", "11")
    assert (code, found["mapping"], found["minimum"]["status"]) == (1, None, "infeasible")
    code, text, _ = run("map", EXAMPLE, "--period", "11")
    assert "no mapping onto these processors has a period below 12" in text


def test_the_least_buffers_of_a_mapping_are_told_and_written(answer, tmp_path):
    path = tmp_path / "mapping.json"
    target = ("--platform", BUS)
    code, found = answer(
        "map", EXAMPLE, *target, "--minimize", "buffers", "--period", "14", "-o", path
    )
    assert (code, found["minimum"]["status"], found["minimum"]["unit"]) == (0, "optimal", "tokens")
    code, again = answer("map", EXAMPLE, *target, "--mapping", path, "--period", "14")
    assert (code, again["period"]) == (0, found["period"])
    code, _ = answer("map", EXAMPLE, *target, "--mapping", path, "--period", "12")
    assert code == 1  # slower than required
    _, same = answer(
        "map", EXAMPLE, *target, "--mapping", path, "--minimize", "buffers", "--period", "14"
    )
    assert same["minimum"]["size"] == found["minimum"]["size"]


@pytest.mark.slow
def test_a_mapping_is_written_as_sdf3_has_it(answer, run, tmp_path):
    document = json.loads(BUS.read_text())
    for one in document["connections"]:
        one["pipelined"] = False
    platform, path, same = (tmp_path / name for name in ("noc.json", "mapped.xml", "same.json"))
    platform.write_text(json.dumps(document))
    words = ("map", EXAMPLE, "--platform", platform)
    code, found = answer(*words, "-o", path, "--platform-output", same)
    assert code == 0
    assert answer("map", path)[1]["period"] == found["period"]
    assert json.loads(same.read_text())["connections"] == document["connections"]
    code, _, error = run("map", EXAMPLE, "--platform", BUS, "-o", path)
    assert code == 2
    assert 'follow one another at once, without "pipelined": false; write .json' in error


def test_goals_that_contradict_one_another_are_refused(run, tmp_path):
    for words, message in (
        (("--minimize", "processors"), "--minimize processors needs --period or --throughput"),
        (("--processors", 2, "--unit", "bytes"), "--unit is for --minimize buffers"),
        (("--minimize", "buffers"), "give --platform FILE or --processors N"),
    ):
        code, _, error = run("map", EXAMPLE, *words)
        assert code == 2
        assert message in error


def test_unbound_actors_may_be_limited(answer, run, tmp_path):
    """Actor a runs on no processor, three times at once; one firing at a time takes 4."""
    graph = tmp_path / "graph.json"
    ring = GraphBuilder("g").actor("a", 4).actor("b", 3).channel("a", 1, "b", 1)
    write_graph(graph, ring.channel("b", 1, "a", 1, initial_tokens=3).graph())
    mapping = tmp_path / "mapping.json"
    orders = {"p0": {"periodic": ["b"]}}
    mapping.write_text(
        json.dumps(
            {"format": "csdf-mapping", "version": 1, "binding": {"b": "p0"}, "orders": orders}
        )
    )
    words = ("map", graph, "--processors", 1, "--mapping", mapping)
    assert answer(*words)[1]["period"] == "3"
    assert answer(*words, "--no-auto-concurrency")[1]["period"] == "4"
    assert answer(*words, "--limit", "a=1")[1]["period"] == "4"


def test_the_slowest_run_of_scenarios_is_told(answer):
    code, found = answer("scenarios", DECODER)
    assert (code, found["period"], found["critical_scenarios"]) == (0, "140", ["key", "still"])


def test_scenarios_may_be_limited(answer, run):
    _, free = answer("scenarios", DECODER)
    document = json.loads(DECODER.read_text())
    actor = document["scenarios"][0]["graph"]["actors"][0]["name"]
    for words in (("--no-auto-concurrency",), ("--limit", f"{actor}=1")):
        code, found = answer("scenarios", DECODER, *words)
        assert code == 0
        assert int(found["period"]) >= int(free["period"])  # a limit never makes a run faster
    code, _, error = run("scenarios", DECODER, "--limit", "nobody=1")
    assert code == 2
    assert "--limit nobody: no scenario of" in error


def test_a_limit_holds_from_one_scenario_to_the_next(answer, tmp_path):
    """a alone takes 5 and waits for nothing: only a limit makes the next scenario wait for it."""
    path = tmp_path / "scenarios.json"
    document = json.loads(DECODER.read_text())
    kept = document["scenarios"][0]
    kept["graph"]["actors"] = [{"name": "a", "durations": [5], "processors": []}]
    kept["graph"]["channels"] = []
    document["scenarios"] = [{"name": kept["name"], "graph": kept["graph"]}]
    document["states"] = [{"name": "s", "scenario": kept["name"]}]
    document |= {"initial": "s", "transitions": [["s", "s"]]}
    path.write_text(json.dumps(document))
    assert answer("scenarios", path)[1]["period"] in (None, "0")
    assert answer("scenarios", path, "--no-auto-concurrency")[1]["period"] == "5"
    assert answer("scenarios", path, "--limit", "a=2")[1]["period"] == "5/2"


def test_a_scenario_that_deadlocks_answers_no(answer, tmp_path):
    path = tmp_path / "stuck.json"
    document = json.loads(DECODER.read_text())
    for channel in document["scenarios"][1]["graph"]["channels"]:
        channel["initial_tokens"] = 0
    path.write_text(json.dumps(document))
    code, found = answer("scenarios", path)
    assert code == 1
    assert "scenario 'moving' deadlocks" in found["deadlock"]


def test_scenarios_that_do_not_match_are_refused_with_the_file(run, tmp_path):
    path = tmp_path / "odd.json"
    document = json.loads(DECODER.read_text())
    document["scenarios"][1]["produced"] = {"free frames": ["x", "y"]}
    path.write_text(json.dumps(document))
    code, _, error = run("scenarios", path)
    assert code == 2
    assert error.startswith(f"csdf scenarios: {path}: scenario ")


def far_away(tmp_path):
    path = tmp_path / "far.json"
    path.write_text(BUS.read_text().replace('"latency": 2', '"latency": 1000000000'))
    return path


def test_a_map_over_a_latency_of_a_second_in_nanoseconds_is_exact(answer, tmp_path):
    code, found = answer("map", EXAMPLE, "--platform", far_away(tmp_path))
    assert (code, found["period"], found["status"]) == (0, "13", "optimal")


@pytest.mark.slow
def test_a_map_that_cannot_be_executed_is_still_shown(answer, run, tmp_path):
    words = ("map", EXAMPLE, "--platform", far_away(tmp_path), "--tdma-start", "aligned")
    code, found = answer(*words)
    assert (code, found["period"]) == (3, "13")
    assert "period_aligned" not in found
    assert "no state recurred" in run(*words)[2]

"""`csdf latency` and `csdf buffers --latency`: answers, exit codes, refusals."""

import json

from csdf.io.graph_files import write_graph
from csdf.model.builder import GraphBuilder
from tests.cli.running import GRAPHS

EXAMPLE = GRAPHS / "csdf_example.xml"
BUS = GRAPHS.parent / "platforms" / "two_with_a_bus.json"
ENDS = ("--source", "a", "--sink", "c")


def test_latency_is_printed_by_iteration_and_by_dependency(answer):
    code, found = answer("latency", EXAMPLE, *ENDS)
    assert (code, found["distance"], found["period"]) == (0, 0, None)
    # Tokens are where they were: no initial ones, so both pair the same iterations.
    assert found["latency"] == found["dependency_latency"] == found["minimal"]


def test_a_latency_and_a_period_of_1_are_in_the_singular(run, tmp_path):
    path = tmp_path / "ring.json"
    builder = GraphBuilder().actor("a", 1).actor("c", 0).channel("a", 1, "c", 1)
    write_graph(path, builder.channel("c", 1, "a", 1, initial_tokens=1).graph())
    assert ": latency from a to c: 1 time unit, to" in run("latency", path, *ENDS)[1]
    words = ": period 1 time unit, throughput 1 iteration per time unit\n"
    assert words in run("analyze", path)[1]


def test_a_source_of_a_given_rate_has_a_jitter(answer):
    code, found = answer("latency", EXAMPLE, *ENDS, "--period", "15")
    assert (code, found["min_period"], found["period"]) == (0, "12", "15")
    assert found["jitter"] == found["steady_jitter"]
    assert answer("latency", EXAMPLE, *ENDS, "--throughput", "1/15")[1] == found


def test_a_source_that_is_too_fast_answers_no(answer, run):
    code, found = answer("latency", EXAMPLE, *ENDS, "--period", "11")
    assert (code, found["latency"], found["min_period"]) == (1, None, "12")
    _, text, _ = run("latency", EXAMPLE, *ENDS, "--period", "11")
    assert "tokens accumulate without bound after a source of period 11\n" in text
    assert "  next            --period 12 or more" in text


def test_an_unknown_latency_leaves_the_exact_numbers(answer, run, tmp_path):
    path = tmp_path / "chain.json"
    builder = GraphBuilder("chain").actor("ahead", 1, overlap=False)
    builder.actor("a", 3, overlap=False).actor("b", 3, overlap=False)
    builder.channel("ahead", 1, "a", 1).channel("a", 1, "b", 1, initial_tokens=1)
    builder.channel("ahead", 1, "ahead", 1, initial_tokens=10**6)  # too many to compare states
    write_graph(path, builder.graph())
    ends = ("--source", "a", "--sink", "b")
    code, found = answer("latency", path, *ends)
    assert (code, found["distance"], found["minimal"], found["latency"]) == (3, 1, "6", None)
    assert found["reason"] == "no state recurred in 1000 iterations"
    assert "from a to b: unknown: no state recurred" in run("latency", path, *ends)[1]


def test_static_orders_are_slower_than_the_graph_alone(answer, tmp_path):
    path = tmp_path / "mapping.json"
    # Without limits a would run ahead of b for ever.
    answer("map", EXAMPLE, "--platform", BUS, "--minimize", "buffers", "--period", "16", "-o", path)
    words = ("latency", EXAMPLE, *ENDS, "--platform", BUS, "--mapping", path)
    code, mapped = answer(*words)
    _, free = answer("latency", EXAMPLE, *ENDS)
    assert code == 0
    assert int(mapped["latency"]) >= int(free["minimal"]) + 2  # alpha or beta crosses the bus
    code, behind = answer(*words, "--period", "20")
    assert (code, behind["min_period"]) == (0, "16")


def test_a_mapping_without_its_platform_is_refused(run, tmp_path):
    path = tmp_path / "mapping.json"
    path.write_text(json.dumps({}))
    code, _, error = run("latency", EXAMPLE, *ENDS, "--mapping", path)
    assert code == 2
    assert "--mapping and one of --platform and --processors belong together" in error


def test_the_least_storage_for_period_and_latency_is_told(answer):
    words = ("buffers", EXAMPLE, "--period", "17")
    _, loose = answer(*words)
    code, tight = answer(*words, *ENDS, "--latency", "22.5")
    assert (code, tight["status"]) == (0, "optimal")
    assert tight["size"] > loose["size"]  # found by tests/search/test_latency_storage.py's method
    code, none = answer(*words, *ENDS, "--latency", "10")
    assert (code, none["status"], none["latency"]) == (1, "infeasible", None)


def test_a_latency_without_ends_or_period_is_refused(run):
    for words in (("--latency", "9"), ("--source", "a"), (*ENDS, "--latency", "9")):
        code, _, error = run("buffers", EXAMPLE, *words)
        assert code == 2
        assert "belong together" in error
    words = ("--period", "17", *ENDS, "--latency", "30")
    for option in (["--method", "periodic-1"], ["--schedule", "schedule.json"]):
        code, _, error = run("buffers", EXAMPLE, *words, *option)
        assert code == 2
        said = " ".join(option).removesuffix(" schedule.json")
        assert f"--latency is for self-timed executions, not for {said}" in error

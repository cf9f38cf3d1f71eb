"""`csdf sensitivity` as its users meet it."""

import pytest

from tests.cli.running import GRAPHS

EXAMPLE = GRAPHS / "csdf_example.xml"


def test_the_table_has_each_actor_and_phase(run):
    code, output, _ = run("sensitivity", EXAMPLE)
    assert code == 0
    rows = {line.split()[0]: line.split()[1:] for line in output.splitlines()[2:11]}
    # a, 2 * (2 + 2) + 2 * ... : see tests/analysis for the numbers; here only that all are there.
    assert list(rows) == ["a", "a:0", "a:1", "b", "b:0", "b:1", "c", "c:0", "c:1"]
    assert rows["a"][0] == "0"


def test_fractions_in_json_are_exact_strings(answer):
    code, found = answer("sensitivity", EXAMPLE)
    row = next(one for one in found["actors"] if (one["actor"], one["phase"]) == ("c", None))
    assert (code, found["period"], row["slack"]) == (0, "12", "7/2")


def test_a_deadlock_is_a_no(run, answer):
    code, output, _ = run("sensitivity", GRAPHS / "deadlocked.xml")
    assert (code, "deadlock: each" in output and "waits for b: needs 2 on b_to_a" in output) == (
        1,
        True,
    )
    assert answer("sensitivity", GRAPHS / "deadlocked.xml")[1]["deadlock"] is True


def test_a_parameter_makes_it_a_function(answer):
    _, found = answer("sensitivity", GRAPHS / "h263decoder.xml", "--parameter", "vld")
    # vld takes 26018 and fires once: it is critical once it takes 332046.
    assert [one["from"] for one in found["segments"]] == ["-26018", str(332046 - 26018)]


def test_a_phase_a_group_a_scale_and_a_capacity_are_parameters_too(answer):
    for what in ("a:1", "a,b", "a=2,b=1/2"):
        _, found = answer("sensitivity", EXAMPLE, "--parameter", what)
        assert found["parameter"] == what
    assert answer("sensitivity", EXAMPLE, "--scale", "a,b")[1]["nominal"] == "1"
    assert answer("sensitivity", EXAMPLE, "--parameter", "alpha")[1]["channel"] == "alpha"


def test_two_parameters_make_regions(run, answer):
    words = ("sensitivity", GRAPHS / "h263decoder.xml", "--parameter", "vld", "--parameter", "iq")
    _, found = answer(*words)
    assert len(found["regions"]) == 3
    assert "exact in 3 regions" in run(*words)[1]
    assert answer(*words, "--up-to", "500000")[1]["high"] == ["500000", "500000"]


@pytest.mark.parametrize(
    ("words", "said"),
    [(["--parameter", "x"], "expected ACTOR"),
     (["--up-to", "5"], "--up-to is for two parameters"),
     (["--parameter", "a", "--up-to", "5"], "--up-to is for two parameters"),
     (["--parameter", "a:7"], "there is no 7"),
     (["--parameter", "a=x"], "the weight"),
     (["--scale", "x"], "no actor 'x'"),
     (["--parameter", "alpha", "--parameter", "a"], "of its own only"),
     (["--parameter", "a", "--parameter", "b", "--parameter", "c"], "expected one or two"),
     (["--parameter", "a_state"], "self-loop"),
     (["--plot", "x.svg"], "--parameter")],
)  # fmt: skip
def test_what_is_no_parameter_is_refused(run, words, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, _, remarks = run("sensitivity", EXAMPLE, *words)
    assert code == 2
    assert said in remarks


@pytest.mark.parametrize("words", [["vld"], ["vld", "iq"], ["vld_to_iq"]])
def test_a_function_can_be_drawn(run, words, tmp_path):
    picture = tmp_path / "picture.svg"
    options = [part for word in words for part in ("--parameter", word)]
    code, _, remarks = run("sensitivity", GRAPHS / "h263decoder.xml", *options, "--plot", picture)
    assert code == 0, remarks
    assert "<svg" in picture.read_text()


def test_period_0_names_the_switch(run, tmp_path):
    graph = tmp_path / "free.csv"
    graph.write_text("layer, inputs, consumption, production, times\na, , 1, 1, 1\n")
    _, output, _ = run("sensitivity", graph)
    assert ("--no-auto-concurrency" in output) == ("period 0" in output)

"""The command as a whole: what it offers, how it ends."""

import json
import re

import pytest

from csdf.cli import schedule
from csdf.cli.frame import commands
from csdf.errors import GaveUp
from tests.cli.running import GRAPHS


def test_without_a_command_the_usage_is_shown_as_an_error(run):
    code, output, remarks = run()
    assert (code, output) == (2, "")
    assert remarks.startswith("usage: csdf COMMAND ...")


def test_help_lists_the_commands(run):
    code, output, _ = run("--help")
    assert code == 0
    for name in commands.below(""):
        assert f"\n  {name} " in output


@pytest.mark.parametrize("name", commands.below(""))
def test_help_of_a_command_shows_an_example(run, name):
    code, output, remarks = run(name, "--help")
    assert (code, remarks) == (0, "")
    assert f"example: csdf {name} " in " ".join(output.split())


def test_an_unknown_command_is_refused_in_one_line(run):
    code, output, remarks = run("analyse", "graph.xml")
    assert (code, output) == (2, "")
    assert remarks == "csdf: there is no command 'analyse'; did you mean analyze?\n"
    assert len(remarks.splitlines()) == 1


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (("throughput", "g.xml"), "analyze, pareto or scenarios"),
        (("finn", "m.onnx"), "csdf fifo finn"),
        (("graph.xml",), "csdf analyze graph.xml"),
        (("fifo", "m.onnx"), "csdf fifo finn m.onnx"),
        (("fifo", "m.onnx.gz"), "csdf fifo finn m.onnx.gz"),
        (("fifo", "top.cpp"), "csdf fifo hls top.cpp"),
        (("fifo", GRAPHS), f"csdf fifo hls4ml {GRAPHS}"),
    ],
)
def test_a_word_of_the_field_or_a_file_names_its_command(run, words, meant):
    code, _, remarks = run(*words)
    assert code == 2
    assert remarks.endswith(f"; did you mean {meant}?\n")


def test_the_version_is_printed(run):
    code, output, _ = run("--version")
    assert code == 0
    assert re.fullmatch(r"csdf \d+\.\d+\.\d+, (compiled kernels|plain kernels, slower)\n", output)


@pytest.mark.parametrize(
    "words",
    [
        ("analyze",),
        ("analyze", "--no-such-option", GRAPHS / "modem.xml"),
        ("analyze", "--time-limit", "soon", GRAPHS / "modem.xml"),
        ("analyze", "--time-limit", "-1s", GRAPHS / "modem.xml"),
        ("analyze", "--method", "magic", GRAPHS / "modem.xml"),
        ("schedule", "--iterations", "0", GRAPHS / "modem.xml"),
        ("convert", GRAPHS / "modem.xml"),
        ("convert", GRAPHS / "modem.xml", "out.json", "--capacity", "a_to_b"),
        ("convert", GRAPHS / "modem.xml", "out.json", "--unfold", "two"),
        ("generate",),
        ("generate", "one"),
    ],
)
def test_wrong_usage_exits_with_2(run, words):
    code, output, remarks = run(*words)
    assert (code, output) == (2, "")
    assert remarks.startswith(f"csdf {words[0]}: ")
    assert remarks.endswith(f" csdf {words[0]} --help\n")


def test_an_inconsistent_graph_exits_with_1_in_every_command(run, tmp_path):
    for words in (("schedule",), ("convert", "--hsdf")):
        target = [tmp_path / "out.json"] if words[0] == "convert" else []
        code, output, remarks = run(*words, GRAPHS / "inconsistent.xml", *target)
        assert (code, output) == (1, "")
        assert remarks.startswith(f"csdf {words[0]}: inconsistent: over one iteration ")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("end", "code", "remark"),
    [
        (GaveUp("undecided"), 3, "csdf schedule: unknown: undecided\n"),
        (MemoryError(), 3, "csdf schedule: unknown: out of memory\n"),
        (KeyboardInterrupt(), 3, "csdf schedule: unknown: interrupted\n"),
    ],
)
def test_work_that_ends_early_says_so_in_one_line(run, monkeypatch, end, code, remark):
    def fail(graph, budget):
        raise end

    monkeypatch.setattr(schedule, "deadlock", fail)
    assert run("schedule", GRAPHS / "modem.xml") == (code, "", remark)


def test_nothing_but_the_result_where_nobody_looks(run, monkeypatch):
    def slow(graph, *, method, budget):
        for _ in range(5):
            budget.look()
        raise GaveUp("enough")

    clock = iter([0.0, 0.5, 1.9, 2.5, 2.6, 4.0])
    monkeypatch.setattr("csdf.time_limit.time.monotonic", lambda: next(clock))
    monkeypatch.setattr("csdf.cli.analyze.throughput", slow)
    assert run("analyze", GRAPHS / "modem.xml")[2] == ""


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("analyze", "none.xml"), "none.xml: cannot be read: No such file or directory"),
        (("analyze",), "the following arguments are required: FILE; see csdf analyze --help"),
        (("analyse", "x.xml"), "there is no command 'analyse'; did you mean analyze?"),
        (
            ("-q", "analyze", "x.xml"),
            "there is no command '-q'; options follow it: csdf COMMAND -q",
        ),
    ],
)
def test_with_json_an_error_is_json_too(run, words, message):
    plain_code, plain_output, plain_remarks = run(*words)
    code, output, remarks = run(*words, "--json")
    assert (plain_code, plain_output) == (2, "")
    assert (code, remarks) == (2, plain_remarks)
    assert json.loads(output) == {"error": message, "exit_code": 2}


def test_an_error_of_a_search_without_an_answer_says_so_in_json(run, monkeypatch):
    def late(words):
        raise GaveUp("the time limit of 1 s is reached")

    monkeypatch.setattr(schedule, "work", late)
    code, output, _ = run("schedule", GRAPHS / "csdf_example.xml", "--json")
    assert code == 3
    assert json.loads(output) == {
        "error": "unknown: the time limit of 1 s is reached",
        "exit_code": 3,
    }


def test_an_answer_of_no_is_not_followed_by_an_error(answer):
    code, found = answer("analyze", GRAPHS / "deadlocked.xml")  # read as one object
    assert (code, found["deadlock"], "error" in found) == (1, True, False)


def test_help_together_with_json_prints_help(run):
    code, output, _ = run("analyze", "--help", "--json")
    assert code == 0
    assert output.startswith("usage: csdf analyze")


def test_a_file_called_json_asks_for_no_json(run):
    code, output, _ = run("analyze", "--", "--json")
    assert (code, output) == (2, "")


def test_help_lists_what_answers_before_what_explains(run):
    # Examples, schemas and completions are about the program, not about graphs or networks.
    _, output, _ = run("--help")
    listed = [line.split()[0] for line in output.splitlines() if line.startswith("  ")]
    commands = listed[: listed.index("completion") + 1]
    assert commands[-3:] == ["examples", "schema", "completion"]
    assert {"analyze", "fifo", "codegen", "latency", "sensitivity", "draw"} < set(commands)

"""Several graphs in one command: one answer each, a bad file stops nothing, the worst exit code."""

import json
import re
import signal
from pathlib import Path

import pytest

from tests.cli.running import GRAPHS

EXAMPLE, MODEM, STUCK = (
    str(GRAPHS / name) for name in ("csdf_example.xml", "modem.xml", "deadlocked.xml")
)
VIDEO = str(GRAPHS.parent / "scenarios" / "video_decoder.json")
COMMANDS = ("pareto", "buffers", "schedule", "sensitivity", "map --processors 2", "analyze")


@pytest.mark.parametrize("command", COMMANDS)
def test_a_missing_file_does_not_stop_the_graphs_after_it(run, command):
    code, output, remarks = run(*command.split(), EXAMPLE, "missing.xml", STUCK, "--json-lines")
    lines = [json.loads(line) for line in output.splitlines()]
    assert code == 2
    assert [line["file"] for line in lines] == [EXAMPLE, "missing.xml", STUCK]
    assert lines[1]["exit_code"] == 2
    assert lines[1]["error"] == "missing.xml: cannot be read: No such file or directory"
    assert lines[1]["error"] in remarks


@pytest.mark.parametrize("command", ["pareto", "analyze"])
def test_a_folder_stands_for_its_graphs_in_the_order_of_names(run, tmp_path, command):
    for name, path in (("b.xml", EXAMPLE), ("a.xml", STUCK), ("readme.md", EXAMPLE)):
        (tmp_path / name).write_bytes(Path(path).read_bytes())
    code, output, _ = run(command, tmp_path, "--json-lines")
    files = [json.loads(line)["file"] for line in output.splitlines()]
    assert (code, files) == (1, [str(tmp_path / "a.xml"), str(tmp_path / "b.xml")])


@pytest.mark.parametrize("command", ["pareto", "analyze", "compare"])
def test_a_folder_without_a_graph_is_refused(run, tmp_path, command):
    code, output, remarks = run(command, tmp_path)
    assert (code, output) == (2, "")
    assert "no graph in this folder; expected files .json or .xml" in remarks


@pytest.mark.parametrize("command", ["pareto", "schedule"])
def test_the_worst_answer_is_the_exit_code_of_all(run, command):
    assert run(command, EXAMPLE, EXAMPLE)[0] == 0
    assert run(command, EXAMPLE, STUCK, EXAMPLE)[0] == 1


def test_an_answer_among_many_is_the_answer_of_the_graph_alone(run):
    _, alone, _ = run("buffers", EXAMPLE, "--period", 14, "--json")
    _, many, _ = run("buffers", MODEM, EXAMPLE, "--period", 14, "--json")
    expected, listed = json.loads(alone), json.loads(many.splitlines()[1])
    for answer in (expected, listed):
        answer.pop("seconds", None)
    assert listed == {"file": EXAMPLE, **expected}
    assert json.loads(many.splitlines()[0])["status"] == "infeasible"


def test_several_scenario_graphs_have_one_line_each(run):
    words = ("scenarios", VIDEO, "missing.json", VIDEO, "--json-lines", "--workers", 2)
    code, output, remarks = run(*words)
    lines = [json.loads(line) for line in output.splitlines()]
    assert code == 2
    assert [line["file"] for line in lines] == [VIDEO, "missing.json", VIDEO]
    assert (
        lines[0] == lines[2] == {"file": VIDEO, **json.loads(run("scenarios", VIDEO, "--json")[1])}
    )
    assert lines[1]["error"] in remarks


def test_answers_of_many_graphs_in_words_are_below_their_files(run):
    code, output, _ = run("buffers", EXAMPLE, MODEM)
    lines = output.splitlines()
    assert code == 0
    assert lines[:2] == [EXAMPLE, "csdf_example: storage 11 tokens, minimum (proved); period 17"]
    assert "modem: storage 38 tokens" in lines[lines.index(MODEM) + 1]


@pytest.mark.parametrize(
    "words", [("--plot", "front.svg"), ("--table", "front.tex"), ("--csv",)], ids=lambda w: w[0]
)
def test_one_file_for_the_answers_of_two_graphs_is_refused(run, tmp_path, monkeypatch, words):
    monkeypatch.chdir(tmp_path)
    code, output, remarks = run("pareto", EXAMPLE, MODEM, *words)
    assert (code, output, list(tmp_path.iterdir())) == (2, "", [])
    assert words[0] in remarks


def test_workers_answer_in_the_order_of_the_files(run):
    words = ("buffers", EXAMPLE, "missing.xml", STUCK, MODEM, "--json-lines")
    alone, parallel = run(*words), run(*words, "--workers", 2)
    assert (alone[0], parallel[0]) == (2, 2)
    for one, two in zip(alone[1].splitlines(), parallel[1].splitlines(), strict=True):
        expected, answer = json.loads(one), json.loads(two)
        for found in (expected, answer):
            found.pop("seconds", None)
        assert answer == expected
    assert parallel[2].count("missing.xml") == 1


def test_ctrl_c_ends_a_batch_after_the_current_graph(run, monkeypatch):
    from csdf.cli import pareto

    monkeypatch.setattr(pareto, "_front", lambda *_: signal.raise_signal(signal.SIGINT))
    code, output, remarks = run("pareto", EXAMPLE, MODEM, "--json-lines")
    assert (code, len(output.splitlines())) == (3, 1)
    assert "the remaining files are not analysed" in remarks


@pytest.mark.parametrize("form", ["--json-lines", "--csv", "--no-auto-concurrency"])
def test_workers_of_analyze_print_what_one_process_prints(run, form):
    def without_times(*more):
        code, output, remarks = run("analyze", EXAMPLE, "missing.xml", MODEM, STUCK, form, *more)
        return code, re.sub(r"0\.\d{3,}", "", output), remarks

    code, output, remarks = without_times()
    assert without_times("--workers", 3) == (code, output, remarks)
    assert (code, remarks.count("missing.xml")) == (2, 1)


def test_quiet_workers_refuse_files_and_say_nothing_else(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # where the pictures are written
    _, _, remarks = run("draw", EXAMPLE, "missing.xml", MODEM, "-q", "--workers", 2)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["csdf_example.svg", "modem.svg"]
    assert remarks == "csdf draw: missing.xml: cannot be read: No such file or directory\n"

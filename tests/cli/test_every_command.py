"""Properties that all commands have in common, asked of each of them."""

import argparse
import inspect
import json
import os
import shlex
from contextlib import suppress
from pathlib import Path

import pytest

from csdf.cli import answers, option_values
from csdf.cli.about.completion import leaves
from csdf.cli.frame import commands
from csdf.errors import CsdfError

ROOT = Path(__file__).parents[2]
ALL = list(leaves())
EACH = pytest.mark.parametrize("command", ALL, ids=lambda one: one.name)
LONG = (  # examples that time convolutions for a while, or run programs of others
    "csdf plan primitives",
    "csdf compare",
)
REQUIRED = {  # options that a command cannot do without
    "csdf latency": ["--source", "a", "--sink", "b"],
    "csdf plan fusion": ["--total-memory", "1MB"],
    "csdf plan traffic": ["--buffer", "64kB"],
}
EXTRAS = {"plot": "matplotlib"}


def options_of(command):
    """The names of all options of a command."""
    return {name for action in command.parser._actions for name in action.option_strings}


def arguments_of(command):
    """The arguments of a command, in order."""
    return [action for action in command.parser._actions if not action.option_strings]


def examples(parser):
    return [line.strip() for line in parser.epilog.partition("For example:\n")[2].splitlines()]


@EACH
def test_help_ends_with_examples_of_this_command(run, command):
    code, output, remarks = run(*command.name.split()[1:], "--help")
    assert (code, remarks) == (0, "")
    shown = output.partition("\nFor example:\n")[2].replace(" \\\n     ", "").splitlines()
    assert shown == [f"  {line}" for line in examples(command.parser)]
    assert all(f"{line} ".startswith(f"  {command.name} ") for line in shown)


@EACH
def test_help_has_80_columns(run, command, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    _, output, _ = run(*command.name.split()[1:], "--help")
    assert [line for line in output.splitlines() if len(line) > 80] == []


@pytest.mark.slow
@EACH
def test_examples_of_the_help_run(run, command, tmp_path, monkeypatch):
    (tmp_path / "models").symlink_to(ROOT / "models")
    monkeypatch.chdir(tmp_path)
    parser = command.parser
    for line in examples(parser):
        words = shlex.split(line)
        assert " ".join(words).startswith(command.name)
        own = words[len(command.name.split()) :]
        if command.name in LONG:
            parser.parse_args(own)
            continue
        for option, library in EXTRAS.items():
            if f"--{option}" in own:
                pytest.importorskip(library)
        code, _, remarks = run(*words[1:])
        assert code in (answers.ANSWERED, answers.NO), remarks


@EACH
def test_every_option_and_argument_is_explained(command):
    for action in command.parser._actions:
        assert action.help, f"{command.name}: {action.option_strings or action.dest}"


@EACH
def test_an_option_has_one_meaning_in_all_commands(command):
    takes = {
        "--json": None,
        "--csv": None,
        "--output": "FILE",
        "--plot": "FILE",
        "--time-limit": "TIME",
        "--seed": "N",
        "--total-memory": "SIZE",
        "--ram": "SIZE",
        "--flash": "SIZE",
        "--element-bytes": "N",
    }
    for action in command.parser._actions:
        for name in action.option_strings:
            if name == "--output":
                assert "-o" in action.option_strings
            if name in takes:
                metavar = None if action.nargs == 0 else action.metavar
                assert metavar == ("FOLDER" if metavar == "FOLDER" else takes[name]), name
            if name == "--time-limit":
                assert action.type is option_values.seconds
            if name in ("--total-memory", "--ram", "--flash"):
                assert inspect.unwrap(action.type) is option_values.size


@EACH
def test_a_command_that_answers_in_a_table_answers_in_json(command):
    options = options_of(command)
    writes_a_file = {"csdf convert", "csdf draw", "csdf generate", "csdf completion", "csdf report"}
    writes_a_file |= {"csdf cnn convert", "csdf cnn measure"}
    writes_a_file |= {"csdf init", "csdf examples", "csdf schema"}  # which prints JSON anyway
    writes_a_file |= {"csdf cnn operators"}  # the tables of a page
    assert ("--json" in options) == (command.name not in writes_a_file)


@EACH
def test_wrong_usage_is_one_line_that_names_the_help(run, command):
    code, output, remarks = run(*command.name.split()[1:], "--no-such-option")
    assert (code, output) == (2, "")
    assert remarks.startswith(f"{command.name}: ")
    assert remarks.endswith(f" {command.name} --help\n")
    assert len(remarks.splitlines()) == 1


@EACH
def test_options_are_never_abbreviated(run, command):
    # A script that says --bud would break when --budding comes.
    assert command.parser.allow_abbrev is False


FILES = [one for one in ALL if any(a.metavar in ("FILE", "MODEL") for a in arguments_of(one))]


@pytest.mark.parametrize("command", FILES, ids=lambda one: one.name)
def test_a_missing_file_is_one_line_that_begins_with_the_command(run, command, tmp_path):
    words = [*command.name.split()[1:], str(tmp_path / "none.json")]
    options = options_of(command)
    if "--output" in options:
        words += [
            "-o",
            str(tmp_path / ("out.html" if {"report", "draw"} & set(words) else "out.json")),
        ]
    words += REQUIRED.get(command.name, [])
    code, output, remarks = run(*words)
    assert (code, output) == (2, "")
    assert remarks.startswith(f"{command.name}: ")
    assert "none.json" in remarks
    assert len(remarks.splitlines()) == 1
    assert not os.listdir(tmp_path)


PLOTTED = [one for one in ALL if "--plot" in options_of(one)]


@pytest.mark.parametrize("command", PLOTTED, ids=lambda one: one.name)
def test_a_picture_that_cannot_be_drawn_is_refused_before_the_work(run, command, monkeypatch):
    subject = "none.xml" if arguments_of(command)[0].metavar == "FILE" else "samos_example"
    extra = REQUIRED.get(command.name, [])
    code, output, remarks = run(*command.name.split()[1:], subject, "--plot", "front.gif", *extra)
    assert (code, output) == (2, "")
    assert "front.gif: expected the suffix .png or .svg or .pdf" in remarks


def test_all_commands_are_asked():
    assert {one.name.split()[1] for one in ALL} == set(commands.below(""))


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("10", 10), ("10s", 10), ("500ms", 0.5), ("1.5m", 90), ("2h", 7200), ("1/2s", 0.5)],
)
def test_times_have_units(text, seconds):
    assert option_values.seconds(text) == seconds


def test_a_time_may_be_an_exact_fraction_or_zero():
    assert option_values.exact_seconds("5us") * 200_000 == 1
    assert option_values.exact_seconds("0") == 0


@pytest.mark.parametrize("text", ["", "0", "-1s", "soon", "1y", "1/0", "1..2", "inf", "1e99"])
def test_what_is_no_time_is_refused(text):
    with pytest.raises(Exception, match="is not a time"):
        option_values.seconds(text)


@pytest.mark.parametrize(
    ("text", "size"),
    [("64", 64), ("64B", 64), ("1.5kB", 1500), ("2 KiB", 2048), ("3MB", 3 * 10**6)],
)
def test_sizes_have_units(text, size):
    assert option_values.size(text) == size


@pytest.mark.parametrize("text", ["", "0", "1.5", "-1", "1Mb", "many"])
def test_what_is_no_size_is_refused(text):
    with pytest.raises(Exception, match=r"is not (a size|a whole number|at least)"):
        option_values.size(text)


def test_a_short_computation_shows_no_progress(capsys):
    with pytest.raises(CsdfError), answers.working("counting"):
        raise CsdfError("no")
    assert capsys.readouterr().err == ""


def test_convert_accepts_the_output_as_argument_or_option(run, tmp_path):
    graph = ROOT / "models" / "graphs" / "csdf_example.xml"
    assert run("convert", graph, tmp_path / "a.json")[0] == 0
    assert run("convert", graph, "-o", tmp_path / "b.json")[0] == 0
    assert (tmp_path / "a.json").read_bytes() == (tmp_path / "b.json").read_bytes()
    code, _, remarks = run("convert", graph, tmp_path / "a.json", "-o", tmp_path / "b.json")
    assert code == 2
    assert "give one file to write" in remarks


def test_checked_depths_are_json_too(run, tmp_path):
    graph = ROOT / "models" / "networks" / "residual_block.csv"
    depths = ROOT / "models" / "networks" / "residual_block_depths.json"
    code, output, _ = run("buffers", graph, "--check", depths, "--json")
    found = json.loads(output)
    assert (code, found["size"], found["deadlock"]) == (1, 7, True)
    assert found["blocked"][0]["actor"] == "in"


def test_two_forms_of_one_answer_are_refused(run):
    graph = ROOT / "models" / "graphs" / "csdf_example.xml"
    for words in (
        ("pareto", graph, "--json", "--csv"),
        ("schedule", graph, "--json", "--csv"),
        ("buffers", graph, "--json", "--format", "depths"),
        ("cnn", "memory", "samos_example", "--json", "--csv"),
    ):
        code, output, remarks = run(*words)
        assert code == 2
        assert "not allowed with argument" in json.loads(output)["error"]
        assert "not allowed with argument" in remarks


@pytest.mark.parametrize("text", ["256KB", "256 K", "256k"])
def test_a_size_in_kb_of_data_sheets_is_1024_bytes_each_and_says_so(text, capsys):
    assert option_values.size(text) == 256 * 1024
    assert "understood as 256KiB, 1024 bytes each" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["64Kb", "64kb", "64Kib"])
def test_a_size_in_kilobits_is_refused_with_the_bytes_that_may_be_meant(run, text):
    code, _, remarks = run("fit", "samos_example", "--ram", text)
    assert code == 2
    assert f"'{text}' is not a size in bytes: a small b stands for bits" in remarks
    assert "write 64kB (powers of 1000) or 64KiB (powers of 1024)" in remarks


@pytest.mark.parametrize("command", ["fit", "cnn memory", "plan reuse"])
def test_an_element_of_three_bytes_is_refused(run, command):
    code, _, remarks = run(*command.split(), "samos_example", "--element-bytes", 3)
    assert code == 2
    assert "'3' is not the size of an element; expected 1, 2, 4 or 8 bytes" in remarks


def test_a_size_below_zero_is_refused_as_one(run):
    code, _, remarks = run("fit", "samos_example", "--ram", "-20kB")
    assert (code, "'-20kB' is not at least one byte" in remarks) == (2, True)


@pytest.mark.parametrize(
    ("wrong", "meant"),
    [("--perod=3", "--period"), ("--jsno", "--json"), ("--count-self-loop", "--count-self-loops")],
)
def test_a_mistyped_option_gets_a_suggestion(run, wrong, meant):
    code, _, remarks = run("buffers", "graph.xml", wrong)
    assert code == 2
    assert f"did you mean {meant}? See csdf buffers --help" in remarks


@pytest.mark.parametrize("wrong", ["m4", "Cortex-M4", "cortexm4", "cortex-m4f"])
def test_a_mistyped_choice_gets_a_suggestion(run, wrong):
    code, _, remarks = run("fit", "samos_example", "--platform", wrong)
    assert code == 2
    assert f"--platform: found {wrong!r}; expected one of jetson-tx2, " in remarks
    assert remarks.endswith("; did you mean 'cortex-m4'? See csdf fit --help\n")


@pytest.mark.parametrize("wrong", ["stm32f4", "cortex-m3"])
def test_another_core_is_not_suggested(run, wrong):
    code, _, remarks = run("fit", "samos_example", "--platform", wrong)
    assert code == 2
    assert remarks.endswith(", FILE.json; see csdf fit --help\n")


def test_an_unknown_choice_lists_all_choices(run):
    code, _, remarks = run("fit", "samos_example", "--input", "tape")
    assert code == 2
    assert "found 'tape'; expected one of resident, rows, external; see csdf fit --help" in remarks


def test_an_unknown_option_without_a_similar_option_has_no_suggestion(run):
    assert "did you mean" not in run("buffers", "graph.xml", "--frobnicate")[2]


@pytest.mark.parametrize("name", ["net.onnx", "net.cfg", "net.tflite"])
def test_a_network_given_as_a_graph_is_told_what_answers_about_it(run, name):
    code, _, remarks = run("analyze", name)
    assert code == 2
    assert "`csdf fit`" in remarks
    assert "csdf cnn convert" in remarks


@EACH
@pytest.mark.parametrize(
    "text", ["", "x", "\u00b2", "-", "=", "a=", "a=\u00b2", "1e9999", "1/0", ":"]
)
def test_a_malformed_argument_is_refused_in_our_words(command, text):
    # What raises anything else would be shown as "invalid named_integers value", with the name of
    # the function that reads the argument.
    for action in command.parser._actions:
        if action.type is not None:
            with suppress(argparse.ArgumentTypeError, CsdfError):
                action.type(text)

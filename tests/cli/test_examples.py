"""`csdf examples`, `csdf help`, and what is said to those who mistype."""

import os

import pytest

from csdf.cli.about.examples import example_files, examples_folder
from tests.cli.running import GRAPHS


def test_the_examples_are_copied_and_left_alone_the_second_time(run, tmp_path):
    code, output, remarks = run("examples", tmp_path)
    assert (code, output) == (0, "")
    listed = list(example_files(examples_folder()))
    assert f"wrote {len(listed)} files to {tmp_path / 'models'}" in remarks
    for name in listed:
        assert (tmp_path / "models" / name).read_bytes() == (GRAPHS.parent / name).read_bytes()
    changed = tmp_path / "models" / "graphs" / "modem.xml"
    changed.write_text("mine")
    _, _, remarks = run("examples", tmp_path)
    assert f"left {len(listed)} files there as they were" in remarks
    assert changed.read_text() == "mine"


def test_a_file_in_the_place_of_the_folder_is_refused(run, tmp_path):
    (tmp_path / "models").write_text("a file")
    code, _, remarks = run("examples", tmp_path)
    assert code == 2
    assert remarks.count("\n") == 1
    assert "cannot be made" in remarks or "is a file" in remarks


@pytest.mark.parametrize("files", [1, 7])
def test_interrupted_examples_leave_no_file(run, tmp_path, monkeypatch, files):
    replace, replaced = os.replace, []

    def interrupted(source, target):
        replace(source, target)
        replaced.append(target)
        if len(replaced) == files:
            raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupted)
    (tmp_path / "models" / "graphs").mkdir(parents=True)
    mine = tmp_path / "models" / "graphs" / "modem.xml"
    mine.write_text("mine")
    assert run("examples", tmp_path)[0] == 3
    assert len(replaced) == files
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [mine]
    assert list((tmp_path / "models").iterdir()) == [mine.parent]


@pytest.mark.parametrize("words", [("help",), ("help", "plan")])
def test_help_explains_a_group(run, words):
    assert run(*words) == run(*words[1:], "--help")


def test_help_explains_a_command(run):
    code, output, _ = run("help", "plan", "arena")
    assert code == 0
    assert output.startswith("usage: csdf plan arena ")


def test_the_version_has_a_short_option(run):
    assert run("-V") == run("--version")


def test_a_mistyped_command_is_guessed(run):
    code, output, remarks = run("analyse", "graph.xml")
    assert (code, output) == (2, "")
    assert remarks == "csdf: there is no command 'analyse'; did you mean analyze?\n"


def test_a_graph_is_not_converted_onto_itself_by_accident(run, tmp_path):
    path = tmp_path / "graph.xml"
    path.write_bytes((GRAPHS / "modem.xml").read_bytes())
    code, _, remarks = run("convert", path, path, "--hsdf")
    assert code == 2
    assert "is the input; name another file, or add --overwrite" in remarks
    assert path.read_bytes() == (GRAPHS / "modem.xml").read_bytes()
    code, *_ = run("convert", path, path, "--hsdf", "--overwrite")
    assert code == 0
    assert path.read_bytes() != (GRAPHS / "modem.xml").read_bytes()

"""Remarks beside an answer: one style, and whose times are predicted."""

import ast
from pathlib import Path

import pytest

import cnn2csdf
import csdf
import planners
from tests.cli.test_every_command import ALL

ROOTS = [Path(package.__file__).parent for package in (csdf, cnn2csdf, planners)]
NO_COMMAND_YET = ("main.py", "long_work.py", "root.py")  # the frame, and its line of progress
NAMES = {command.name for command in ALL}
LAYERS = """layer,inputs,consumption,production,times
conv,,,"1,1","1,2,3"
relu,conv,1,1,1
"""  # two rates for three phases: the shorter list repeats, which may be an oversight


def begun(path):
    """The commands that texts of a module begin with, as remarks do."""
    for one in ast.walk(ast.parse(path.read_text())):
        if isinstance(one, ast.Constant) and isinstance(one.value, str):
            words, colon, _ = one.value.partition(": ")
            if colon and (words == "csdf" or words.startswith("csdf ")):
                yield words


@pytest.mark.parametrize("root", ROOTS, ids=lambda one: one.name)
def test_a_remark_begins_with_the_words_of_a_command(root):
    found = [
        (path.name, words)
        for path in root.rglob("*.py")
        if path.name not in NO_COMMAND_YET
        for words in begun(path)
    ]
    assert [one for one in found if one[1] not in NAMES] == []


def test_a_suspicious_file_is_remarked_upon_by_the_command_that_read_it(run, tmp_path):
    graph = tmp_path / "clipped.csv"
    graph.write_text(LAYERS)
    _, _, remarks = run("analyze", graph)
    assert remarks.startswith("csdf analyze: warning: ")


@pytest.mark.slow
def test_two_subjects_of_one_command_are_remarked_upon_once(run, tmp_path):
    # Both networks of `report --compare` have predicted times, both of `fit` random weights.
    page = ("-o", tmp_path / "page.html")
    _, _, remarks = run("report", "samos_example", "--compare", "samos_example", *page)
    assert remarks.count("times are predicted for cortex-m7; --platform chooses") == 1
    small = "keyword_spotting:rows=25"
    _, _, remarks = run("fit", small, small, "--element-bytes", "1", "--ram", "9kB", "--verify")
    assert remarks.count("random weights with seed 0") == 1


def test_the_size_of_elements_is_remarked_upon_by_the_command_that_read_them(run, tmp_path):
    tflite = pytest.importorskip("tests.cnn2csdf.readers.tflite_models")
    model = tmp_path / "small.tflite"
    model.write_bytes(tflite.small_network())
    for words in (("cnn", "memory"), ("plan", "arena")):
        _, _, remarks = run(*words, model)
        first = remarks.splitlines()[0]
        assert first.startswith(f"csdf {' '.join(words)}: ")
        assert "elements of " in first


def test_of_measured_and_predicted_times_the_predicted_ones_are_named(run, tmp_path):
    one, both = ("--generations", 1, "--population", 4), "samos_example+resnet8"
    measured = []
    for rows in ("whole", "rows"):
        table = tmp_path / f"{rows}.csv"
        run("cnn", "measure", "samos_example", "--granularity", rows, "-o", table)
        measured += ["--durations", f"samos_example={table}"]
    _, _, remarks = run("plan", "reuse", both, *one, *measured)
    assert remarks == (
        "csdf plan reuse: times are predicted for cortex-m7, but those of samos_example; "
        "--platform chooses\n"
    )
    assert run("plan", "reuse", "samos_example", *one, *measured)[2] == ""
    assert run("plan", "reuse", both, *one, *measured, "--platform", "cortex-m7")[2] == ""


def test_a_platform_of_which_one_figure_is_replaced_is_named(run):
    # Bytes per second and the time to start a phase are still those of the platform.
    _, _, remarks = run("cnn", "memory", "samos_example", "--operations", "1000000")
    assert remarks == (
        "csdf cnn memory: times are predicted for cortex-m7, with --operations as given; "
        "--platform chooses\n"
    )
    figures = ("--operations", "1000000", "--bandwidth", "1000", "--launch", "0")
    assert run("cnn", "memory", "samos_example", *figures)[2] == ""

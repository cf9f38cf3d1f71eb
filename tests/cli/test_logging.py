"""How much a command says besides its answer: -v, -vv and -q; and what the library logs."""

import logging
import subprocess
import sys

import pytest

import csdf
from tests.cli.running import GRAPHS

EXAMPLE = GRAPHS / "csdf_example.xml"


def test_answers_of_a_search_are_logged_with_v(run):
    code, output, remarks = run("pareto", EXAMPLE, "-v")
    assert code == 0
    assert output == run("pareto", EXAMPLE)[1]
    # The five points of the front, each as it is proved.
    lines = remarks.splitlines()
    assert [line.split()[2] for line in lines] == ["11:", "12:", "13:", "14:", "16:"]
    assert all(line.startswith("csdf.search: point ") for line in lines)


def test_bounds_and_cuts_are_logged_with_vv(run):
    remarks = run("pareto", EXAMPLE, "-vv")[2]
    assert "csdf.search: cut 1: one of the variables above" in remarks
    assert "csdf.progress: done 6, lower bound 14, found 3" in remarks


def test_the_end_of_a_search_is_logged(run):
    code, _, remarks = run("pareto", GRAPHS / "h263encoder.xml", "-v", "--time-limit", "1ms")
    assert code == 3
    assert "csdf.progress: ended: " in remarks


def test_the_log_is_that_of_one_command(run):
    run("pareto", EXAMPLE, "-vv")
    assert run("pareto", EXAMPLE)[2] == ""
    assert logging.getLogger("csdf").handlers == []


def test_quiet_leaves_the_answer_alone(run, tmp_path):
    loud = run("fit", "samos_example", "--ram", "64kB", "-o", tmp_path / "plan.json")
    code, output, remarks = run(
        "fit", "samos_example", "--ram", "64kB", "-o", tmp_path / "plan.json", "-q"
    )
    assert (code, output, remarks) == (*loud[:2], "")
    assert "times are predicted" in loud[2]


def test_quiet_keeps_refusals(run):
    assert "none.xml: cannot be read" in run("analyze", "none.xml", "-q")[2]
    assert "unrecognized arguments: --none" in run("analyze", EXAMPLE, "--quiet", "--none")[2]
    assert "not allowed with argument" in run("analyze", EXAMPLE, "-q", "-v")[2]


def test_a_library_logs_to_handlers_and_prints_nothing(caplog, capsys):
    graph = csdf.read_graph(EXAMPLE)
    with caplog.at_level(logging.INFO, logger="csdf"):
        csdf.pareto_front(graph)
    assert [record.name for record in caplog.records] == ["csdf.search"] * 5
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("words", [("analyze", str(EXAMPLE)), ("--version",)])
def test_no_command_loads_logging_unasked(words):
    script = f"import sys; from csdf.cli.main import main; main({list(words)!r}); "
    script += "sys.exit('logging' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0

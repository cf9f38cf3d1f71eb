"""A budget ends also work that never looks at the clock."""

import signal

import pytest

from csdf.cli.answers import GAVE_UP
from csdf.cli.deadline import deadline
from csdf.cli.main import main
from csdf.errors import GaveUp
from csdf.io.json_graph import graph_to_json
from tests.adversarial.graphs import many_phases


def work_for_ever():
    while True:
        pass


def test_work_without_a_watch_ends():
    with pytest.raises(GaveUp, match=r"the budget of 0\.001 s is used up"):  # noqa: SIM117
        with deadline(0.001):
            work_for_ever()


def test_an_end_that_the_work_makes_an_answer_of_is_an_answer():
    with deadline(0.001):
        try:
            work_for_ever()
        except KeyboardInterrupt as end:
            found = str(end)
    assert found == "the budget of 0.001 s is used up"


@pytest.mark.parametrize("budget", [None, 60.0])
def test_nothing_is_left_behind(budget):
    before = signal.getsignal(signal.SIGALRM)
    with deadline(budget):
        pass
    assert signal.getsignal(signal.SIGALRM) is before
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


@pytest.mark.parametrize("command", ["schedule --kind periodic", "convert out.xml --hsdf"])
def test_a_large_expansion_obeys_the_budget(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "long.json").write_text(graph_to_json(many_phases(10**6)))
    name, *options = command.split()
    assert main([name, "long.json", *options, "--budget", "10ms"]) == GAVE_UP
    assert [path.name for path in tmp_path.iterdir()] == ["long.json"]

"""A budget ends also work that never looks at the clock."""

import signal
import time
from contextlib import contextmanager, suppress

import pytest

from csdf.cli.answers import GAVE_UP
from csdf.cli.deadline import Alarm, deadline
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


def test_a_block_that_is_being_left_is_left():
    # The alarm comes while the inner block ends, and then again and again: it waits for the end.
    left = []

    @contextmanager
    def slow_to_leave():
        try:
            yield
        finally:
            end = time.monotonic() + 0.3
            while time.monotonic() < end:
                pass
            left.append("inner")

    def work():
        with slow_to_leave():
            pass
        work_for_ever()

    with pytest.raises(GaveUp, match="too late"), Alarm(0.05, "too late"):
        work()
    assert left == ["inner"]


def test_what_ends_just_in_time_leaves_no_alarm_behind():
    # Whatever moment the alarm finds, the block is over afterwards.
    for step in range(300):
        before = time.perf_counter()
        with suppress(GaveUp), Alarm(0.0005, "too late"):
            while time.perf_counter() - before < 0.0004 + step * 1e-6:
                pass
        assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)

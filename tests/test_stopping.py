"""A stop ends work in time, after steps, or when asked to; an alarm ends what never looks."""

import pickle
import signal
import time
from contextlib import contextmanager, suppress

import pytest

from csdf.cli.frame.long_work import limited
from csdf.cli.frame.output import UNKNOWN
from csdf.cli.main import main
from csdf.errors import CsdfError, GaveUp
from csdf.io.json_graph import graph_to_json
from csdf.status import Ended, Status, Why, because, told
from csdf.time_limit import ENDS, Alarm, Progress, Stop, now_and_then, reason_of, stop_of
from tests.adversarial.graphs import many_phases


class Clock:
    """A clock that goes on only when it is told to."""

    def __init__(self, monkeypatch):
        self.now = 100.0
        monkeypatch.setattr("csdf.time_limit.time.monotonic", lambda: self.now)


@pytest.fixture
def clock(monkeypatch):
    return Clock(monkeypatch)


def steps_until_the_end(stop, progress=lambda done: Progress(), most=1000):
    for done in range(most):
        try:
            stop.look(progress(done))
        except ENDS as end:
            return done, reason_of(end)
    return most, None


def test_a_stop_without_limits_never_ends_anything():
    assert steps_until_the_end(Stop()) == (1000, None)


def test_so_many_steps_are_done_as_were_allowed():
    done, reason = steps_until_the_end(Stop(steps=7))
    assert (done, reason) == (7, because(Ended.STEPS, steps=7))
    assert str(reason) == "7 steps are done, as many as were allowed"


def test_work_that_counts_its_steps_itself_is_stopped_by_its_own_count():
    # Three looks at each step: the stop goes by what the work says, not by the looks.
    done, _ = steps_until_the_end(Stop(steps=7), lambda look: Progress(done=look // 3))
    assert done == 21


def test_seconds_count_from_the_making_of_the_stop(clock):
    stop = Stop(10)
    clock.now += 10
    stop.look()
    assert stop.seconds_left == 0
    clock.now += 0.5
    with pytest.raises(GaveUp, match=r"the time limit of 10 s is reached") as end:
        stop.look()
    assert end.value.reason == because(Ended.TIME_LIMIT, seconds=10)
    assert stop.is_over()


def test_effort_is_counted_and_asks_no_clock(clock):
    stop = Stop(100, effort=2)
    first, second = stop.part(share=0.5), stop.part(effort=0.5)
    first.spend(1_000_000)
    first.look()
    first.spend(1)
    clock.now += 50
    with pytest.raises(GaveUp, match=r"the effort of 2 s is spent; a larger --effort"):
        first.look()
    second.spend(500_000)
    second.look()
    second.spend(499_999)  # more than its own half second; of the whole, 2 s are spent, not more
    assert second.is_over()
    assert not stop.is_over()


def test_another_question_has_an_effort_of_its_own_and_the_same_clock(clock):
    stop = Stop(100, effort=2)
    stop.spend(3_000_000)
    assert stop.is_over()
    other = stop.question(0.5)
    other.spend(1_000_000)
    other.look()
    clock.now += 101
    with pytest.raises(GaveUp, match=r"the time limit of 100 s is reached"):
        other.look()


def test_a_late_clock_waits_for_the_effort_of_all_parts(clock):
    stop = Stop(60, effort=2, slowdown=20)
    for part in (stop.part(share=0.5), stop.question(0.5), stop.part(effort=1).finishing()):
        part.spend(5_000_000)
    finishing = stop.finishing()
    clock.now += 300  # 20 times 15 s of effort
    finishing.look()
    assert stop.seconds_left == 0
    clock.now += 1
    with pytest.raises(GaveUp, match=r"the time limit of 60 s is reached"):
        finishing.look()


def test_work_that_has_to_be_finished_ends_by_its_effort_before_a_late_clock(clock):
    finishing = Stop(60, effort=2, slowdown=20).finishing()
    finishing.spend(60_000_000)
    finishing.look()
    finishing.spend(1)
    with pytest.raises(GaveUp, match=r"the effort of 60 s is spent"):
        finishing.look()


def test_two_searches_share_the_seconds_of_one_stop(clock):
    stop = Stop(10)
    clock.now += 6
    first = stop.part(share=0.5)
    assert (first.seconds_left, stop.seconds_left) == (2, 4)
    clock.now += 3
    assert first.is_over()
    assert not stop.is_over()
    # What is shown is the budget of the whole work, which its user knows.
    assert steps_until_the_end(first)[1] == because(Ended.TIME_LIMIT, seconds=10)


def test_a_part_ends_with_the_whole():
    whole = Stop(steps=3)
    assert steps_until_the_end(whole.part(steps=100)) == (3, because(Ended.STEPS, steps=3))


def test_the_whole_goes_on_after_the_end_of_a_part():
    whole = Stop()
    _, reason = steps_until_the_end(whole.part(steps=3))
    whole.end_whole(reason)
    whole.look()


def test_a_part_that_was_ended_by_the_whole_ends_it_too():
    whole = Stop(steps=3)
    _, reason = steps_until_the_end(whole.part(steps=100))
    with pytest.raises(GaveUp):
        whole.end_whole(reason)


def test_an_interrupt_that_a_part_answered_ends_the_whole_too():
    because_of_ctrl_c = because(Wrapped.AROUND, end=reason_of(KeyboardInterrupt()))
    with pytest.raises(KeyboardInterrupt):
        Stop().end_whole(because_of_ctrl_c)


def test_a_stop_can_be_interrupted_from_elsewhere():
    stop = Stop(60)
    part = stop.part(steps=5)
    part.look()
    stop.interrupt()
    assert steps_until_the_end(part)[1] == because(Ended.INTERRUPTED)


def test_progress_is_reported_and_a_part_can_be_told_as_a_piece_of_the_whole():
    seen = []
    whole = Stop(report=seen.append)
    part = whole.part(as_whole=lambda piece: Progress(done=10 + piece.done, total=20))
    part.look(Progress(done=3, total=5, lower_bound=7, best=9))
    assert seen == [Progress(done=13, total=20)]


def test_a_report_may_end_the_work():
    def enough(_):
        raise GaveUp("enough")

    assert steps_until_the_end(Stop(report=enough)) == (0, told("enough"))


def test_a_budget_is_a_stop_or_seconds_or_nothing():
    stop = Stop()
    assert stop_of(stop) is stop
    assert stop_of(None).seconds_left is None
    assert 0 < stop_of(60).seconds_left <= 60


@pytest.mark.parametrize("limit", [{"seconds": -1}, {"steps": -1}, {"seconds": float("nan")}])
def test_a_limit_below_zero_is_refused(limit):
    with pytest.raises(CsdfError, match="expected at least 0"):
        Stop(**limit)


def test_progress_is_passed_on_after_a_while_and_then_now_and_then(clock):
    shown = []
    report = now_and_then(lambda seconds, _: shown.append(seconds), first=2, every=1)
    for _ in range(9):  # at 0.5, 1.0, 1.5, ... 4.5 seconds
        clock.now += 0.5
        report(Progress())
    assert shown == [2.5, 4.0]


class Wrapped(Why):
    AROUND = "{end}; nothing is known"
    NUMBER = "at least {least}"


def test_a_reason_has_its_values_and_its_text_is_made_where_it_is_shown():
    reason = because(Wrapped.NUMBER, least=12)
    assert (reason.kind, reason.values["least"], str(reason)) == (
        Wrapped.NUMBER, 12, "at least 12",
    )  # fmt: skip


def test_a_reason_rests_on_the_reasons_in_it():
    reason = because(Wrapped.AROUND, end=because(Ended.INTERRUPTED))
    assert str(reason) == "interrupted; nothing is known"
    assert reason.has(Ended.INTERRUPTED)
    assert not reason.has(Ended.TIME_LIMIT)


def test_words_in_a_reason_decide_nothing():
    assert not told("interrupted").has(Ended.INTERRUPTED)


def test_braces_in_what_a_reason_tells_stay_as_they_are():
    assert str(told("{seconds}")) == "{seconds}"


def test_reasons_travel_between_processes():
    error = GaveUp(because(Ended.TIME_LIMIT, seconds=2.0), low=3)
    again = pickle.loads(pickle.dumps(error))
    assert (again.reason, again.low, str(again)) == (error.reason, 3, str(error))


def test_a_status_is_shown_by_its_words():
    assert [str(one) for one in Status] == ["optimal", "feasible", "infeasible", "unknown"]


def work_for_ever():
    while True:
        pass


def test_work_that_never_looks_ends():
    with pytest.raises(GaveUp, match=r"the time limit of 0\.001 s is reached"):  # noqa: SIM117
        with limited(0.001):
            work_for_ever()


@pytest.mark.parametrize(
    ("words", "step"),
    [
        ("scenarios g.json", "csdf.cli.scenarios.read_scenarios"),
        ("draw g.json", "csdf.cli.draw.concurrency.read"),
        ("map g.json --processors 2", "csdf.cli.map.concurrency.read"),
        ("map g.json --processors 2", "csdf.mapping.search.mapping_problem"),
        ("map g.json --processors 2", "csdf.mapping.search.lower_bound"),
        ("map g.json --processors 2", "csdf.mapping.search.modulo_schedule"),
    ],
)
def test_a_command_ends_at_its_limit_in_each_step(words, step, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "g.json").write_text(graph_to_json(many_phases(2)))
    monkeypatch.setattr(step, lambda *_: work_for_ever())
    assert main([*words.split(), "--time-limit", "1ms"]) == UNKNOWN
    assert [path.name for path in tmp_path.iterdir()] == ["g.json"]


def test_an_end_that_the_work_makes_an_answer_of_is_an_answer():
    with limited(0.001):
        try:
            work_for_ever()
        except KeyboardInterrupt as end:
            found = reason_of(end)
    assert found == because(Ended.TIME_LIMIT, seconds=0.001)


@pytest.mark.parametrize("budget", [None, 60.0])
def test_nothing_is_left_behind(budget):
    before = signal.getsignal(signal.SIGALRM)
    with limited(budget):
        pass
    assert signal.getsignal(signal.SIGALRM) is before
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


@pytest.mark.slow
@pytest.mark.parametrize("command", ["schedule --kind periodic", "convert out.xml --hsdf"])
def test_a_large_expansion_obeys_the_budget(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "long.json").write_text(graph_to_json(many_phases(10**6)))
    name, *options = command.split()
    assert main([name, "long.json", *options, "--time-limit", "10ms"]) == UNKNOWN
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

    with pytest.raises(GaveUp, match="too late"), Alarm(0.05, told("too late"), again=2):
        work()
    assert left == ["inner"]


def test_what_ends_just_in_time_leaves_no_alarm_behind():
    # Whatever moment the alarm finds, the block is over afterwards.
    for step in range(300):
        before = time.perf_counter()
        with suppress(GaveUp), Alarm(0.0005, told("too late"), again=2):
            while time.perf_counter() - before < 0.0004 + step * 1e-6:
                pass
        assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)

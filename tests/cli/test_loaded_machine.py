"""Searches count steps: the load of a machine changes no answer, and a clock that ends one is named."""

import time
from types import SimpleNamespace

import pytest

from csdf.time_limit import MICROSECONDS, Stop
from tests.cli.running import run
from tests.planners.arena.tilings import tiling

__all__ = ["run"]

COMMANDS = [
    ("plan", "fusion", "resnet8", "--ram", "150kB", "--effort", "10ms"),
    ("plan", "fusion", "keyword_spotting", "--front", "--effort", "20ms"),
    ("plan", "traffic", "resnet8", "--buffer", "16KiB", "--effort", "50ms"),
    ("cnn", "memory", "resnet8", "keyword_spotting", "--effort", "1ms"),
]


@pytest.mark.parametrize("command", COMMANDS)
def test_a_loaded_machine_gives_the_same_answer(command, run, monkeypatch):
    usual = run(*command, "--time-limit", "60s")
    true_clock, begin = time.monotonic, time.monotonic()
    # A clock that runs 100 times faster: the machine does a hundredth of the work in a second.
    monkeypatch.setattr(
        "csdf.time_limit.time.monotonic", lambda: begin + 100 * (true_clock() - begin)
    )
    assert run(*command, "--time-limit", "10h") == usual
    assert usual[0] != 3 or "the effort of" in usual[1]


@pytest.mark.parametrize("command", COMMANDS)
def test_an_earlier_search_in_the_process_changes_no_answer(command, run):
    usual = run(*command)
    run(*command[:-2])
    assert run(*command) == usual


@pytest.mark.parametrize("command", COMMANDS)
def test_where_the_clock_ends_the_search_the_first_line_says_so(command, run):
    command = (*command[:-2], "--time-limit", "1us")
    code, output, _ = run(*command)
    assert code == 3
    assert ": the time limit ended the search: " in output.splitlines()[0]


def test_the_best_by_then_is_an_answer_where_it_is_asked_for(run):
    command = ("plan", "fusion", "resnet8", "--ram", "1MB", "--time-limit", "1us")
    assert run(*command)[0] == 3
    assert run(*command, "--best-effort")[0] == 0


def test_a_page_whose_plan_the_clock_cut_short_exits_with_3(run, tmp_path):
    page = tmp_path / "page.html"
    code, output, _ = run("report", "resnet8", "--ram", "1MB", "--time-limit", "1ms", "-o", page)
    assert code == 3
    assert "the time limit ended the search" in output.splitlines()[0]


@pytest.fixture
def tiles(tmp_path):
    """A file of 300 tiles that fill an arena, which the usual orders and short searches do not."""
    path = tmp_path / "tiles.csv"
    problem = tiling(300, length=1000, height=2**20, seed=1)
    rows = (f"{one.name},{one.start},{one.end},{one.size}\n" for one in problem.buffers)
    path.write_text("id,lower,upper,size\n" + "".join(rows))
    return path


def test_a_loaded_machine_gives_the_same_arena(tiles, run, monkeypatch):
    test_a_loaded_machine_gives_the_same_answer(
        ("plan", "arena", tiles, "--effort", "50ms"), run, monkeypatch
    )


@pytest.fixture
def forks(tmp_path):
    """A table of accesses: of six FIFOs each second is written whole before the next is read."""
    path = tmp_path / "forks.csv"
    rows = [f"# fifo {name}{fork} bits={8 + fork} depth=40" for fork in range(3) for name in "ab"]
    for fork in range(3):
        rows += [f"p{fork},l,{word},a{fork},write,{word}" for word in range(40)]
        rows += [f"p{fork},l,{word},b{fork},write,{word + fork}" for word in range(40)]
        rows += [f"q{fork},l,{word},b{fork},read,{word}" for word in range(40)]
        rows += [f"q{fork},l,{word},a{fork},read,{word + 30}" for word in range(40)]
    path.write_text("\n".join(rows))
    return path


@pytest.fixture
def clock(monkeypatch):
    """A clock of computations alone: each takes so many times its effort."""
    clock = SimpleNamespace(now=0.0, slowdown=1)
    spend = Stop.spend

    def spend_slowly(stop, microseconds):
        clock.now += clock.slowdown * microseconds / MICROSECONDS
        spend(stop, microseconds)

    monkeypatch.setattr(Stop, "spend", spend_slowly)
    monkeypatch.setattr("csdf.time_limit.time.monotonic", lambda: clock.now)
    return clock


@pytest.mark.parametrize("goal", [(), ("--front",), ("--front", "--objective", "bram")])
def test_a_slow_machine_finishes_the_depths_of_a_call(goal, forks, run, clock, monkeypatch):
    command = ("fifo", "hls", forks, *goal, "--effort", "1ms")
    usual = run(*command)
    assert usual[0] == 0
    # A clock that such a machine would pass early, were it not for the effort counted.
    monkeypatch.setattr("csdf.cli.frame.long_work.LEAST_CLOCK_SECONDS", 1.01 * clock.now)
    clock.slowdown = 15
    assert run(*command) == usual


@pytest.mark.parametrize(
    ("limit", "says"),
    [
        ("1ms", "no Pareto point found in time; as given 2160 bits"),
        ("20ms", "the time limit ended the search: 1 Pareto point"),
    ],
)
@pytest.mark.usefixtures("clock")
def test_a_front_of_calls_that_the_clock_cut_short_says_so_and_exits_with_3(
    limit, says, forks, run
):
    command = ("fifo", "hls", forks, "--front", "--time-limit", limit)
    code, output, _ = run(*command)
    assert (code, says in output.splitlines()[0]) == (3, True)
    assert run(*command, "--best-effort")[0] == (0 if "1 Pareto" in says else 3)


def test_an_arena_that_the_clock_cut_short_says_so_and_exits_with_3(tiles, run):
    command = ("plan", "arena", tiles, "--time-limit", "1us")
    code, output, _ = run(*command)
    assert (code, output.splitlines()[0][:41]) == (3, "tiles: the time limit ended the search: a")
    assert run(*command, "--best-effort")[0] == 0
    assert run(*command, "--capacity", "2MB")[0] == 0  # a plan that fits needs no more time

"""Searches count steps: the load of a machine changes no answer, and a clock that ends one is named."""

import time

import pytest

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


def test_an_arena_that_the_clock_cut_short_says_so_and_exits_with_3(tiles, run):
    command = ("plan", "arena", tiles, "--time-limit", "1us")
    code, output, _ = run(*command)
    assert (code, output.splitlines()[0][:41]) == (3, "tiles: the time limit ended the search: a")
    assert run(*command, "--best-effort")[0] == 0
    assert run(*command, "--capacity", "2MB")[0] == 0  # a plan that fits needs no more time

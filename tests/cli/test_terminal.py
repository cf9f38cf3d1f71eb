"""Commands on a terminal: progress in one line, colours, and neither where nobody looks."""

import io
import os
import pty
import re
import subprocess
import sys
import time

import pytest

from csdf.cli.frame import long_work, terminal
from csdf.cli.frame.streams import Answers, Remarks, own_streams
from csdf.time_limit import NOTHING_KNOWN, Progress
from tests.cli.running import GRAPHS


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize(
    ("progress", "left", "line"),
    [
        # 3 of 12 steps in 10 s: 9 more take 30 s.
        (Progress(done=3, total=12), None, "[#####...............] 25%  10 s, 30 s left  work"),
        (Progress(done=3, total=12), 7.0, "[#####...............] 25%  10 s, 7 s left  work"),
        # 110 found, at least 100: a tenth above.
        (Progress(best=110, lower_bound=100), 50.0, "gap 10.0%  10 s, at most 50 s left  work"),
        (NOTHING_KNOWN, None, "10 s  work"),
        (NOTHING_KNOWN, 600.0, "10 s, at most 10 min left  work"),
    ],
)
def test_a_line_says_how_far_how_long_and_what_is_left(progress, left, line):
    assert terminal.progress_line("work", progress, 10.0, left) == line


def test_progress_changes_in_place_and_goes_before_the_answer(monkeypatch):
    output, remarks = Terminal(), Terminal()
    monkeypatch.setattr(sys, "stdout", output)
    monkeypatch.setattr(sys, "stderr", remarks)
    with own_streams():
        sys.stderr.show_in_place("csdf: one")
        sys.stderr.show_in_place("csdf: two")
        print("answer")
    assert remarks.getvalue() == "\r\x1b[Kcsdf: one\r\x1b[Kcsdf: two\r\x1b[K"
    assert output.getvalue() == "answer\n"


def test_a_line_of_progress_is_never_longer_than_the_terminal(monkeypatch):
    monkeypatch.setenv("COLUMNS", "50")
    stream = Terminal()
    Remarks(stream).show_in_place("x" * 200)
    assert stream.getvalue() == f"{terminal.CLEAR}{'x' * 49}"


def test_what_acts_in_a_name_is_quoted_in_progress_too():
    stream = Terminal()
    Remarks(stream).show_in_place("analysing \x1b[2J")
    assert stream.getvalue() == terminal.CLEAR + "analysing \\x1b[2J"


def test_progress_is_not_written_to_a_log():
    stream = io.StringIO()
    Remarks(stream).show_in_place("csdf: one")
    assert stream.getvalue() == ""


def test_silent_work_shows_that_it_goes_on(monkeypatch):
    monkeypatch.setattr(long_work, "PATIENCE", 0.01)
    monkeypatch.setattr(long_work, "SILENCE", 0.01)
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    with own_streams(), long_work.working("counting"):
        for _ in range(1000):
            time.sleep(0.01)
            if stream.getvalue():
                break
    assert stream.getvalue().startswith(terminal.CLEAR + "csdf: 0 s  counting")


@pytest.mark.parametrize(
    ("line", "colour"),
    [
        ("csdf_example: optimal: no smaller storage suffices", terminal.GREEN),
        ("net: fits: 11.71 kB of RAM", terminal.GREEN),
        ("net: does not fit: 1 kB too much", terminal.RED),
        ("g: deadlock: each of these actors waits", terminal.RED),
        ("g: storage 11 tokens, minimum (proved); period 17", terminal.GREEN),
        ("g: 20 points, INCOMPLETE: ended after 20 points", terminal.YELLOW),
        ("  depth 2    74 bits, DEADLOCK: full: 'a to b'", terminal.RED),
    ],
)
def test_a_verdict_has_its_colour(line, colour):
    shown = terminal.coloured(line)
    assert colour in shown
    assert re.sub(r"\x1b\[\d+m", "", shown) == line


def test_colours_are_for_terminals_that_want_them(monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    stream = Terminal()
    Answers(stream).write("a: optimal: yes\n")
    assert "\x1b[32moptimal" in stream.getvalue()
    for name, value in (("NO_COLOR", "1"), ("TERM", "dumb")):
        with monkeypatch.context() as changed:
            changed.setenv(name, value)
            stream = Terminal()
            Answers(stream).write("a: optimal: yes\n")
            assert stream.getvalue() == "a: optimal: yes\n"
    plain = io.StringIO()
    Answers(plain).write("a: optimal: yes\n")
    assert plain.getvalue() == "a: optimal: yes\n"


def seen_on_a_terminal(*words, **environment):
    """All that a terminal gets from a command."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "csdf", *map(str, words)]
    variables = {**os.environ, "TERM": "xterm", **environment}
    with subprocess.Popen(command, stdout=theirs, stderr=theirs, env=variables) as process:
        os.close(theirs)
        seen = b""
        while True:
            try:
                piece = os.read(ours, 4096)
            except OSError:  # how a terminal says that nobody is there any more
                break
            if not piece:
                break
            seen += piece
    os.close(ours)
    assert process.returncode == 0
    return seen.decode()


@pytest.mark.slow
def test_a_command_on_a_terminal_has_colours_and_leaves_no_progress_behind():
    example = GRAPHS / "csdf_example.xml"
    seen = seen_on_a_terminal("buffers", example)
    assert "\x1b[32mminimum (proved)\x1b[0m" in seen
    assert "\x1b" not in seen_on_a_terminal("buffers", example, NO_COLOR="1")

"""Ctrl-C: the best so far is shown, and the exit code is the same for every command."""

import signal

import pytest

from csdf.cli.frame import long_work
from tests.cli.running import GRAPHS

EXAMPLE = GRAPHS / "csdf_example.xml"


@pytest.fixture(params=[1, 3])
def interrupted(monkeypatch, request):
    """Press Ctrl-C when a search looks at its stop for the first or the third time."""
    looks = []

    def report(progress):
        looks.append(progress)
        if len(looks) == request.param:
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(long_work, "shown", lambda *_: report)
    return request.param


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (("buffers", EXAMPLE, "--period", "12"), "stopped         interrupted"),
        (("pareto", EXAMPLE), "INCOMPLETE: interrupted"),
        (("plan", "reuse", "resnet8", "--method", "nsga2"), "interrupted"),
        (("plan", "reuse", "resnet8"), "interrupted"),
        (("plan", "traffic", "resnet8", "--buffer", "32KiB"), "interrupted"),
        (("fit", "resnet8"), "the search ended early: interrupted"),
    ],
    ids=lambda one: " ".join(map(str, one[:2])) if isinstance(one, tuple) else one,
)
def test_after_ctrl_c_the_best_so_far_is_shown_and_the_exit_code_is_3(
    run, interrupted, words, shown
):
    code, output, remarks = run(*words)
    assert code == 3
    assert shown in output + remarks


@pytest.mark.parametrize("interrupted", [1], indirect=True)
def test_ctrl_c_ends_the_searches_of_the_networks_that_follow_too(run, interrupted):
    code, output, _ = run("fit", "resnet8", "keyword_spotting:rows=13")
    assert (code, output.count("the search ended early: interrupted")) == (3, 2)


@pytest.mark.parametrize("interrupted", [1], indirect=True)
def test_ctrl_c_before_any_answer_is_3_too(run, interrupted):
    code, output, _ = run("analyze", GRAPHS / "modem.xml")
    assert (code, "reason          interrupted" in output) == (3, True)


def test_the_handler_of_ctrl_c_is_put_back(run):
    run("analyze", EXAMPLE)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_who_ignores_ctrl_c_is_left_alone(run):
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        assert run("analyze", EXAMPLE)[0] == 0
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)

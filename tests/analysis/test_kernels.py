"""Kernels do the same whether they are compiled or not, and refuse what they cannot hold."""

from fractions import Fraction

import pytest

from csdf.analysis import execution
from csdf.analysis.periodic import PeriodicProblem
from csdf.analysis.throughput import throughput
from csdf.errors import GaveUp
from csdf.generation.random_graphs import random_graph
from csdf.generation.shape import GraphShape
from csdf.kernels import compile as compiler
from csdf.model.builder import GraphBuilder
from tests.analysis.graph_shapes import SHAPES

NEVER = 10**12
KERNELS = ("periodic", "execution")


class Recorder:
    """A backend that keeps what every kernel returned and left in its arrays."""

    def __init__(self, backend):
        self.backend = backend
        self.calls = []

    def __getattr__(self, name):
        return getattr(self.backend, name)

    def kernel(self, function):
        run = self.backend.kernel(function)

        def recorded(*arguments):
            status = run(*arguments)
            arrays = [[int(x) for x in a] for a in arguments if not isinstance(a, int)]
            self.calls.append((function.__name__, int(status), arrays))
            return status

        return recorded

    def blank(self, length):
        return self.backend.array([0] * length)


def recorded_run(monkeypatch, graph, method, *, is_compiled):
    """Kernel calls of one analysis, all compiled or none."""
    name = "COMPILED" if is_compiled else "PLAIN"
    recorder = Recorder(getattr(compiler, name))
    with monkeypatch.context() as patch:
        patch.setattr(compiler, name, recorder)
        patch.setattr(execution, "COMPILE_FIRINGS", 0 if is_compiled else NEVER)
        patch.setattr(PeriodicProblem, "_is_compiling_worth", lambda *_: is_compiled)
        period = throughput(graph, method=method).period
    return period, recorder.calls


@pytest.mark.slow
@pytest.mark.parametrize("method", KERNELS)
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_compiled_and_plain_kernels_leave_identical_arrays(monkeypatch, shape, method):
    calls = 0
    for seed in range(5):
        graph = random_graph(seed, shape)
        plain = recorded_run(monkeypatch, graph, method, is_compiled=False)
        compiled = recorded_run(monkeypatch, graph, method, is_compiled=True)
        assert plain == compiled, seed
        calls += len(plain[1])
    assert calls


@pytest.mark.parametrize("method", KERNELS)
def test_rings_grow_alike(monkeypatch, method):
    graph = random_graph(
        7, GraphShape(actors=4, most_repetitions=60, most_rate=60, most_early_tokens=2000)
    )
    plain = recorded_run(monkeypatch, graph, method, is_compiled=False)
    assert plain == recorded_run(monkeypatch, graph, method, is_compiled=True)


def cycle_of(first, second, tokens):
    return (
        GraphBuilder()
        .actor("a", first)
        .actor("b", second)
        .channel("a", 3, "b", 2)
        .channel("b", 2, "a", 3, initial_tokens=tokens)
        .graph()
    )


def period_of_huge_durations(monkeypatch, method, factor):
    with monkeypatch.context() as patch:
        patch.setattr(execution, "COMPILE_FIRINGS", 0)
        patch.setattr(PeriodicProblem, "_is_compiling_worth", lambda *_: True)
        return throughput(cycle_of(5 * factor, 7 * factor, 9), method=method).period


@pytest.mark.parametrize("method", KERNELS)
@pytest.mark.parametrize("exponent", [40, 50, 59, 60, 61, 62, 63, 64, 100])
def test_durations_near_and_beyond_64_bits_only_scale_the_period(monkeypatch, method, exponent):
    small = throughput(cycle_of(5, 7, 9), method=method).period
    large = period_of_huge_durations(monkeypatch, method, 2**exponent)
    assert large == 2**exponent * small


@pytest.mark.parametrize("exponent", range(50, 61))
def test_an_execution_whose_times_leave_64_bits_is_exact_or_gives_up(monkeypatch, exponent):
    small = throughput(cycle_of(5, 7, 9), method="execution").period
    try:
        large = period_of_huge_durations(monkeypatch, "execution", 2**exponent)
    except GaveUp:
        return
    assert large == 2**exponent * small


@pytest.mark.parametrize("tokens", [2**62, 2**63, 2**70])
def test_token_counts_beyond_64_bits_are_exact(monkeypatch, tokens):
    with monkeypatch.context() as patch:
        patch.setattr(PeriodicProblem, "_is_compiling_worth", lambda *_: True)
        found = throughput(cycle_of(5, 7, 6 * tokens), method="periodic").period
    # An iteration is 2 firings of a and 3 of b, and moves 6 tokens. Firing i of a feeds firing
    # floor(3 i / 2) of b at the earliest, and firing j of b floor((6 tokens + 2 j) / 3) of a: from
    # i = 0 a round trip of 5 + 7 leads to firing 2 * tokens, `tokens` iterations later.
    assert found == Fraction(12, tokens)


@pytest.mark.parametrize("method", KERNELS)
def test_rates_near_the_limit_do_not_overflow(monkeypatch, method):
    rate = 2**59
    graph = (
        GraphBuilder()
        .actor("a", 2)
        .actor("b", 3)
        .channel("a", [rate, rate], "b", rate)
        .channel("b", rate, "a", [rate, rate], initial_tokens=2 * rate)
        .graph()
    )
    with monkeypatch.context() as patch:
        patch.setattr(execution, "COMPILE_FIRINGS", 0)
        patch.setattr(PeriodicProblem, "_is_compiling_worth", lambda *_: True)
        # Two tokens of that size circulate, each for 2 + 3; an iteration takes both.
        assert throughput(graph, method=method).period == 5

"""Kernels do the same whether they are compiled or not, and refuse what they cannot hold."""

from fractions import Fraction
from functools import partial

import pytest

from csdf.analysis.throughput import throughput
from csdf.errors import GaveUp
from csdf.generation import GraphShape, random_graph
from csdf.kernels import compile as compiler
from csdf.model.builder import GraphBuilder
from tests import both_kernels
from tests.analysis.graph_shapes import SHAPES
from tests.both_kernels import BOTH, needs_compiled

KERNELS = ("periodic", "execution")


class Recorder:
    """A backend that keeps what every kernel returned, and all arrays that it made by then."""

    def __init__(self, backend):
        self.backend = backend
        self.arrays = []
        self.calls = []

    def __getattr__(self, name):
        return getattr(self.backend, name)

    def kernel(self, function):
        run = self.backend.kernel(function)
        return run if isinstance(function, type) else partial(self._recorded, function, run)

    def _recorded(self, function, run, *arguments):
        status = run(*arguments)
        arrays = [[int(x) for x in a] for a in self.arrays]
        self.calls.append((function.__name__, None if status is None else int(status), arrays))
        return status

    def array(self, values):
        self.arrays.append(self.backend.array(values))
        return self.arrays[-1]

    def blank(self, length):
        return self.array([0] * length)


def recorded_run(monkeypatch, graph, method, *, is_compiled):
    """Kernel calls of one analysis, all compiled or none."""
    name = "COMPILED" if is_compiled else "PLAIN"
    recorder = Recorder(getattr(compiler, name))
    with monkeypatch.context() as patch:
        patch.setattr(compiler, name, recorder)
        both_kernels.use(patch, recorder)
        period = throughput(graph, method=method).period
    return period, recorder.calls


@pytest.mark.slow
@needs_compiled
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


@needs_compiled
@pytest.mark.parametrize("method", KERNELS)
def test_ring_buffers_grow_alike_in_compiled_and_plain_kernels(monkeypatch, method):
    graph = random_graph(
        7, GraphShape(actors=4, max_repetitions=60, max_rate=60, max_extra_initial_tokens=2000)
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


@pytest.fixture(params=BOTH)
def _backend(request, monkeypatch):
    """Every test with kernels as they are written, and as machine code."""
    both_kernels.use(monkeypatch, request.param)


def period_of_huge_durations(method, factor):
    return throughput(cycle_of(5 * factor, 7 * factor, 9), method=method).period


@pytest.mark.usefixtures("_backend")
@pytest.mark.parametrize("method", KERNELS)
@pytest.mark.parametrize("exponent", [40, 50, 59, 60, 61, 62, 63, 64, 100])
def test_durations_near_and_beyond_64_bits_only_scale_the_period(method, exponent):
    small = throughput(cycle_of(5, 7, 9), method=method).period
    large = period_of_huge_durations(method, 2**exponent)
    assert large == 2**exponent * small


@pytest.mark.usefixtures("_backend")
@pytest.mark.parametrize("exponent", range(50, 61))
def test_an_execution_whose_times_leave_64_bits_is_exact_or_gives_up(exponent):
    small = throughput(cycle_of(5, 7, 9), method="execution").period
    try:
        large = period_of_huge_durations("execution", 2**exponent)
    except GaveUp:
        return
    assert large == 2**exponent * small


@pytest.mark.usefixtures("_backend")
@pytest.mark.parametrize("tokens", [2**62, 2**63, 2**70])
def test_token_counts_beyond_64_bits_are_exact(tokens):
    found = throughput(cycle_of(5, 7, 6 * tokens), method="periodic").period
    # An iteration is 2 firings of a and 3 of b, and moves 6 tokens. Firing i of a feeds firing
    # floor(3 i / 2) of b at the earliest, and firing j of b floor((6 tokens + 2 j) / 3) of a: from
    # i = 0 a round trip of 5 + 7 leads to firing 2 * tokens, `tokens` iterations later.
    assert found == Fraction(12, tokens)


@pytest.mark.usefixtures("_backend")
@pytest.mark.parametrize("method", KERNELS)
def test_rates_near_the_limit_do_not_overflow(method):
    rate = 2**59
    graph = (
        GraphBuilder()
        .actor("a", 2)
        .actor("b", 3)
        .channel("a", [rate, rate], "b", rate)
        .channel("b", rate, "a", [rate, rate], initial_tokens=2 * rate)
        .graph()
    )
    # Two tokens of that size circulate, each for 2 + 3; an iteration takes both.
    assert throughput(graph, method=method).period == 5

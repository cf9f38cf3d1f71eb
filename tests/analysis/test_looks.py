"""Between two looks at the stop an analysis does little, on graphs that are made to be slow.

Work is counted in lines of Python that are carried out, those of plain kernels with them; compiled
kernels pause at the same places. Graphs are small files with much work: what grows with the file alone
stays far below the limit, a loop without a look does not.
"""

import sys

import pytest

from csdf.analysis import execution, self_timed
from csdf.analysis import latency as by_dependency
from csdf.analysis.latency import dependency_latency, latency
from csdf.analysis.liveness import deadlock
from csdf.analysis.schedules import periodic_throughput
from csdf.analysis.self_timed import self_timed_execution
from csdf.analysis.sensitivity import sensitivity
from csdf.analysis.throughput import throughput
from csdf.errors import GaveUp
from csdf.kernels import compile as compiler
from csdf.mapping.latency import source_latency
from csdf.model import untimed
from csdf.model.builder import GraphBuilder
from csdf.time_limit import Stop
from tests.adversarial.graphs import coprime_ring

LIMIT = 25_000  # lines between two looks: some thousandths of a second
ENOUGH = 3 * LIMIT  # lines of an analysis that shows something
MOST = 400_000  # lines after which it is ended


class Lines:
    """Counts lines between looks."""

    def __init__(self):
        self.since = self.most = self.all = 0
        self.stop = Stop(report=self.look)

    def look(self, _):
        self.all += self.since
        self.most = max(self.most, self.since)
        self.since = 0
        if self.all > MOST:
            raise GaveUp("enough")

    def of(self, analysis):
        def trace(_frame, event, _argument):
            self.since += event == "line"
            return trace

        before = sys.gettrace()
        sys.settrace(trace)
        try:
            analysis(self.stop)
        except GaveUp:
            pass
        finally:
            sys.settrace(before)
        self.all += self.since
        self.most = max(self.most, self.since)


@pytest.fixture(autouse=True)
def _short_slices(monkeypatch):
    monkeypatch.setattr(compiler, "has_compiled", lambda: False)
    monkeypatch.setattr(compiler.Plain, "fuel", 500)
    monkeypatch.setattr(execution, "PLAIN_FUEL", 500)
    monkeypatch.setattr(untimed, "STEPS", 500)
    monkeypatch.setattr(by_dependency, "TOKENS", 500)
    monkeypatch.setattr(self_timed, "STRIDE", 100)


def two(produced, consumed, tokens, times=(1, 1)):
    """Two actors that exchange tokens at coprime rates, each one firing at a time."""
    builder = GraphBuilder("two")
    for name, time in zip("ab", times, strict=True):
        builder.actor(name, time)
        builder.channel(name, 1, name, 1, initial_tokens=1)
    builder.channel("a", produced, "b", consumed)
    builder.channel("b", consumed, "a", produced, initial_tokens=tokens)
    return builder.graph()


LONG_ITERATION = two(2003, 1999, 12_000)
LONG_TRANSIENT = two(1, 1, 3_000, times=(2_000, 1_999))

ANALYSES = {
    "deadlock": lambda stop: deadlock(two(20011, 19997, 40_100), budget=stop),
    "execution": lambda stop: throughput(LONG_ITERATION, method="execution", budget=stop),
    "transient": lambda stop: throughput(LONG_TRANSIENT, method="execution", budget=stop),
    "periodic": lambda stop: throughput(two(211, 199, 410), method="periodic", budget=stop),
    "copies": lambda stop: periodic_throughput(coprime_ring(7), 30, budget=stop),
    "firings": lambda stop: self_timed_execution(LONG_ITERATION, iterations=2, budget=stop),
    "latency": lambda stop: latency(LONG_ITERATION, source="a", sink="b", budget=stop),
    "dependency": lambda stop: dependency_latency(LONG_ITERATION, "a", "b", budget=stop),
    "source": lambda stop: source_latency(LONG_ITERATION, "a", "b", 10_000, budget=stop),
    "sensitivity": lambda stop: sensitivity(two(31, 29, 60), budget=stop),
}


@pytest.mark.parametrize("name", ANALYSES)
def test_no_loop_of_an_analysis_goes_on_without_a_look(name):
    lines = Lines()
    lines.of(ANALYSES[name])
    assert lines.all > ENOUGH
    assert lines.most < LIMIT

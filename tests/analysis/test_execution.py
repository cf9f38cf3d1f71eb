"""Executions: bounds of the period on the way, numbers near 64 bits, and the memory of their record."""

from dataclasses import replace
from fractions import Fraction

import pytest

from csdf.analysis.bound_channels import bound_channels
from csdf.analysis.components import cyclic_components
from csdf.analysis.consistency import cycle_vector, repetition_vector
from csdf.analysis.execution import Execution, growth_bounds
from csdf.analysis.throughput import ComponentSearch, throughput
from csdf.errors import GaveUp
from csdf.generation import random_graph
from csdf.kernels import compile as compiler
from csdf.model.builder import GraphBuilder
from csdf.model.indexed import indexed
from csdf.time_limit import Stop
from tests import both_kernels
from tests.analysis.graph_shapes import SHAPES
from tests.both_kernels import BOTH, needs_compiled
from tests.reference import slow_simulation


@pytest.fixture(params=BOTH)
def _backend(request, monkeypatch):
    """Every test with kernels as they are written, and as machine code."""
    both_kernels.use(monkeypatch, request.param)


def connected(seed, shape):
    """A random graph whose actors all can hold each other back, or None."""
    unbounded = replace(shape, is_strongly_connected=True, is_bounded=False, has_late_release=False)
    graph = random_graph(seed, unbounded)
    parts = cyclic_components(indexed(graph), list(cycle_vector(graph).values()))
    return graph if len(parts) == 1 and len(parts[0].actors) == len(graph.actors) else None


@pytest.mark.usefixtures("_backend")
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_any_two_states_bound_the_period(shape):
    looked_at = 0
    for seed in range(60_000, 60_020):
        graph = connected(seed, shape)
        period = None if graph is None else throughput(graph, method="periodic").period
        if graph is None or period is None:
            continue
        run = Execution(indexed(graph), list(repetition_vector(graph).values()))
        states = [run.times()]
        for _ in range(6):
            assert run.recorded(1) is not None
            states.append(run.times())
        for first in range(6):
            for last in range(first + 1, 7):
                low, high = growth_bounds(states[first], states[last], last - first)
                assert low <= period / graph.time_unit <= high, (seed, first, last)
                looked_at += 1
    assert looked_at


def test_bounds_of_two_states_compare_token_by_token():
    # Three tokens at 1, 1, 4 become three at 6, 9, 9: they grow by 5, 8 and 5.
    assert growth_bounds([[(2, 1), (1, 4)]], [[(1, 6), (2, 9)]], 2) == (Fraction(5, 2), 4)


def uneven(tokens):
    """Two actors of 5,998 and 4,000 firings per iteration."""
    return (
        GraphBuilder()
        .actor("a", (1, 4), overlap=False)
        .actor("b", 3, overlap=False)
        .channel("a", (1_999, 2_001), "b", 2_999)
        .channel("b", 2_999, "a", (2_001, 1_999), initial_tokens=tokens)
        .graph()
    )


def test_an_execution_that_is_ended_has_closed_in_on_the_period(monkeypatch):
    both_kernels.use(monkeypatch, compiler.PLAIN)
    graph = uneven(9_000)
    exact = throughput(graph, method="periodic").period
    # In an iteration of 9,998 firings, 1,000 between two looks, it looks ten times at its stop.
    with pytest.raises(GaveUp) as ended:
        throughput(graph, method="execution", budget=Stop(steps=15))
    low, high = ended.value.low, ended.value.high
    assert low <= exact <= high
    assert high - low < exact / 100


@needs_compiled
@pytest.mark.parametrize("method", ["execution", "auto"])
@pytest.mark.parametrize("exponent", [0, 20, 40, 45, 50, 54, 58, 62, 70])
def test_larger_tokens_leave_the_period(exponent, method):
    # 2**exponent tokens for one: rates and initial tokens alike. From 2**40 on their sum over an
    # iteration passes 2**41, from about 2**57 on it leaves what is compiled.
    graph = random_graph(5, SHAPES["CSDF"])
    larger = replace(
        graph,
        origin=None,
        channels=tuple(
            channel
            if channel.is_self_loop
            else replace(
                channel,
                production=tuple(rate << exponent for rate in channel.production),
                consumption=tuple(rate << exponent for rate in channel.consumption),
                initial_tokens=channel.initial_tokens << exponent,
            )
            for channel in graph.channels
        ),
    )
    expected = slow_simulation.period_of(graph)
    assert expected
    assert throughput(larger, method=method).period == expected


@needs_compiled
@pytest.mark.parametrize(("rate", "is_compiled"), [(2**45, True), (2**59, True), (2**62, False)])
def test_large_rates_are_compiled_as_long_as_queues_fit(rate, is_compiled):
    # The queue holds one firing's tokens at most, and each iteration is one firing of each.
    graph = (
        GraphBuilder()
        .actor("a", 1, overlap=False)
        .actor("b", 1, overlap=False)
        .channel("a", rate, "b", rate)
        .graph()
    )
    run = Execution(indexed(graph), [1, 1])
    state = run.recorded(1), run.state()
    assert isinstance(state[1], bytes) == is_compiled
    assert list(state[0]) == [0, 1]


@pytest.mark.usefixtures("_backend")
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_the_cycle_of_an_execution_has_its_period(shape):
    found = 0
    for seed in range(61_000, 61_040):
        graph = bound_channels(random_graph(seed, shape))
        numbers = indexed(graph)
        cycles = list(cycle_vector(graph).values())
        for component in cyclic_components(numbers, cycles):
            one = ComponentSearch(numbers, component, Stop())
            one.execute()
            if one.period and one.circuit.channels:
                assert component.repeats * one.circuit.time / one.circuit.height == one.period, seed
                found += 1
    assert found

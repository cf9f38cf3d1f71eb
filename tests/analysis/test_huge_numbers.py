"""Rates, tokens and times near and beyond 64 bits: the answers of small numbers, and no overflow."""

from fractions import Fraction

import pytest

from csdf.analysis.critical import critical_circuit
from csdf.analysis.execution import steady_state
from csdf.analysis.latency import dependency_latency
from csdf.analysis.throughput import METHODS, throughput
from csdf.analysis.varying import VaryingGraph
from csdf.kernels import compile as compiler
from csdf.kernels import ranges
from csdf.model.builder import GraphBuilder
from csdf.model.indexed import indexed
from csdf.search.learned_bounds import Cuts, CycleDemands, DependencyCycle, InsufficientRegion
from csdf.search.trade_off import smallest_storage
from tests import both_kernels
from tests.both_kernels import BOTH

LARGE = [2**59, 2**61 - 1, 2**62 + 1, 2**63 - 1, 2**63, 2**70]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("number", LARGE)
def test_a_self_loop_of_huge_rates_fires_one_at_a_time(number, method):
    # It holds the tokens of one firing, which lasts 3.
    graph = GraphBuilder().actor("a", 3).channel("a", number, "a", number, initial_tokens=number)
    assert throughput(graph.graph(), method=method, budget=60).period == 3


@pytest.mark.parametrize("number", LARGE)
def test_a_self_loop_that_lacks_one_of_huge_tokens_deadlocks(number):
    graph = (
        GraphBuilder().actor("a", 3).channel("a", number, "a", number, initial_tokens=number - 1)
    )
    assert throughput(graph.graph(), budget=60).deadlock is not None


def circle(number):
    """Three actors in a circle, whose firings move `number` tokens; two rounds of them go round."""
    builder = GraphBuilder()
    for name in "abc":
        builder.actor(name, 1)
    for one, two in ("ab", "bc", "ca"):
        builder.channel(one, number, two, number, initial_tokens=2 * number if two == "a" else 0)
    return builder.graph()


@pytest.mark.parametrize("number", LARGE)
def test_storage_of_huge_tokens_is_a_multiple_of_that_of_one(number):
    # Three channels of capacity 1, 1, 2 for rates of 1: the tokens on the last one need their room.
    assert smallest_storage(circle(1)).point.size == 4
    found = smallest_storage(circle(number))
    assert (found.point.size, found.lower_bound) == (4 * number, 4 * number)


@pytest.mark.parametrize("backend", BOTH)
@pytest.mark.parametrize("number", LARGE)
def test_cuts_and_demands_of_huge_capacities_are_no_smaller(monkeypatch, backend, number):
    both_kernels.use(monkeypatch, backend)
    # Four variables each of which has to hold one token more than `number`, at 5 a token.
    cuts, demands = Cuts([1] * 4, [5] * 4), CycleDemands([1] * 4, [5] * 4)
    demands.tighten(lambda period: period is not None and period <= 1)
    for variable in range(4):
        cuts.add(InsufficientRegion({variable: number}))
        share = Fraction(1, number + 1)
        demands.add(DependencyCycle(1, Fraction(0), ((variable, share),), (1,)))
    assert cuts.bound([0] * 4)[0] == 4 * 5 * (number + 1)
    assert demands.bound([0] * 4)[0] == 4 * 5 * (number + 1)


def test_a_table_of_demands_takes_a_huge_one_later():
    demands = CycleDemands([1], [1])
    demands.tighten(lambda period: period is not None and period <= 1)
    demands.add(DependencyCycle(1, Fraction(0), ((0, Fraction(1, 3)),), (1,)))
    assert demands.bound([0])[0] == 3
    demands.add(DependencyCycle(1, Fraction(0), ((0, Fraction(1, 2**70)),), (1,)))
    assert demands.bound([0])[0] == 2**70


@pytest.mark.parametrize("backend", BOTH)
def test_the_critical_cycle_is_found_behind_a_long_way_of_short_firings(monkeypatch, backend):
    # The walk goes round the firing of 2^56 as often as there are firings before it: Brent's method.
    both_kernels.use(monkeypatch, backend)
    builder = GraphBuilder().actor("slow", 2**56, overlap=False).actor("quick", 0, overlap=False)
    builder.channel("slow", 500, "quick", 1).channel("quick", 1, "slow", 500, initial_tokens=1000)
    graph = indexed(builder.graph())
    state = steady_state(graph, [1, 500])
    circuit = critical_circuit(graph, state)
    assert circuit.time / circuit.height == 2**56


def test_constraints_are_compiled_only_where_every_sum_of_tokens_fits():
    # Tokens of 2^60 a firing: a walk of three times the tokens made passes 2^61.
    assert ranges.expandable_tokens(2**40, 2**40, 2**40, 1) > 2**59
    assert ranges.expandable_tokens(2**60, 2**60, 2**60, 1) == -1
    # A height of 2^40 for each of 2^30 steps passes it as well.
    assert ranges.expandable_tokens(1, 1, 1, 2**40) < 2**21
    assert ranges.expandable_tokens(1, 1, 1, compiler.INT64_SUM_LIMIT) == -1


def test_a_latency_does_not_count_huge_tokens_one_by_one():
    # b takes what a makes; of the 2^41 tokens on the way back, two firings of a take all.
    builder = GraphBuilder().actor("a", 2, overlap=False).actor("b", 3, overlap=False)
    builder.channel("a", 2**40, "b", 2**40).channel("b", 2**40, "a", 2**40, initial_tokens=2**41)
    assert dependency_latency(builder.graph(), "a", "b").minimal == 5


def test_a_huge_duration_may_be_shortened_to_a_small_one():
    graph = GraphBuilder().actor("a", 2**70, overlap=False).actor("b", 2, overlap=False).graph()
    assert VaryingGraph(graph).only({0: Fraction(3)}).period == 3

"""Several firings of one actor at once: said aloud, and forbidden where somebody asks for it."""

from fractions import Fraction

import pytest

from csdf.analysis.bound_channels import unlimited_actors, why_unlimited, without_auto_concurrency
from csdf.analysis.throughput import throughput
from csdf.errors import CsdfError, GaveUp, InvalidGraph
from csdf.generation import GraphShape, random_graph
from csdf.model.builder import GraphBuilder
from tests.reference.slow_simulation import period_of
from tests.shared_data import each, oracle, shared_graph

NAMES = [name for name in oracle("throughput.json") if name.startswith(("sdf3/", "small/"))]


def chain():
    """Two actors whose firings overlap freely: a fires 2 times, b 3 times in an iteration."""
    return GraphBuilder().actor("a", 5).actor("b", 4).channel("a", 3, "b", 2).graph()


def test_one_firing_at_a_time_makes_the_busiest_actor_the_limit():
    # a is busy for 2 * 5, b for 3 * 4 time units an iteration.
    assert throughput(chain()).period == 0
    assert throughput(without_auto_concurrency(chain())).period == 12


def test_an_actor_with_a_limit_of_its_own_keeps_it():
    # Two firings of b at once: 12 / 2 = 6 for b, 10 for a.
    assert throughput(without_auto_concurrency(chain(), {"b": 2})).period == 10


def test_an_actor_that_fires_one_at_a_time_gets_no_second_loop():
    graph = GraphBuilder().actor("a", 5, overlap=False).graph()
    assert without_auto_concurrency(graph) == graph


def test_an_unknown_actor_cannot_be_limited():
    with pytest.raises(InvalidGraph, match="no actor 'x'"):
        without_auto_concurrency(chain(), {"x": 2})


def test_the_reason_names_the_actors_that_overlap():
    graph = GraphBuilder().actor("a", 5).actor("z", 0).channel("a", 1, "z", 1).graph()
    assert unlimited_actors(graph) == ("a",)
    assert "1 actor without a self-loop (a)" in why_unlimited(graph)


def test_what_takes_no_time_is_not_blamed_on_overlapping_firings():
    graph = GraphBuilder().actor("a", 0).graph()
    assert why_unlimited(graph) == "no actor takes time on a cycle"


@pytest.mark.parametrize("seed", range(20))
def test_random_graphs_agree_with_a_simulation_of_one_firing_at_a_time(seed):
    shape = GraphShape(max_phases=3, has_self_loops=False, is_strongly_connected=False)
    graph = without_auto_concurrency(random_graph(seed, shape))
    assert throughput(graph).period == period_of(graph)


@each("name", NAMES)
def test_no_published_graph_is_unlimited_with_one_firing_at_a_time(name):
    found = throughput(without_auto_concurrency(shared_graph(name)))
    assert found.deadlock is not None or found.period > 0


def test_a_budget_ends_an_analysis_from_a_program():
    with pytest.raises(GaveUp, match="time limit"):
        throughput(random_graph(1), budget=1e-9)


@pytest.mark.parametrize("budget", [-1, float("nan")])
def test_a_budget_that_cannot_be_is_refused(budget):
    with pytest.raises(CsdfError, match=r"budget is .*; expected seconds"):
        throughput(chain(), budget=budget)


def test_a_budget_that_lasts_changes_nothing():
    graph = without_auto_concurrency(chain())
    assert throughput(graph, budget=1000).period == Fraction(12)

"""The fewest processors for a required period: hand-made cases, and no smaller platform suffices."""

import random
from fractions import Fraction
from itertools import combinations
from pathlib import Path

import pytest

from csdf.analysis.consistency import repetition_vector
from csdf.errors import CsdfError
from csdf.io.graph_files import read_graph
from csdf.mapping.model import Core, Platform
from csdf.mapping.search import equal_processors, fewest_processors
from csdf.mapping.throughput import mapped_throughput
from csdf.model.builder import GraphBuilder
from csdf.model.graph import Actor, Graph, Processor
from csdf.status import Status
from tests.mapping.test_best_mapping import least_period, pipeline, random_problem

GRAPHS = Path(__file__).parents[2] / "models" / "graphs"
BUDGET = 20.0
TRIED = 8  # orders of each binding, where there are more


@pytest.mark.parametrize(("period", "count"), [(9, 1), (8, 2), (5, 2), (4, 3)])
def test_three_actors_share_processors_as_the_period_allows(period, count):
    # Loads 3, 4, 2: one processor needs 9, two 5 (4 + 2 would be 6, 3 + 2 is 5), three 4.
    found = fewest_processors(pipeline(), period=period, budget=BUDGET)
    assert (found.count, found.lower_bound, found.status) == (count, count, Status.OPTIMAL)
    assert found.found.period <= period


def test_no_processors_are_faster_than_the_slowest_actor():
    found = fewest_processors(pipeline(), period="7/2", budget=BUDGET)
    assert (found.status, found.mapping, found.count) == (Status.INFEASIBLE, None, None)
    assert str(found.reason) == "no mapping onto these processors has a period below 4"


def test_loads_that_cannot_be_split_need_one_more():
    """Three actors of 6 do not fit on two processors in 10 though 18 is less than 20."""
    graph = GraphBuilder("g").actor("a", 6).actor("b", 6).actor("c", 6).graph()
    found = fewest_processors(graph, period=10, budget=BUDGET)
    assert (found.count, found.status) == (3, Status.OPTIMAL)


def test_a_cycle_may_ask_for_more_than_the_loads():
    """A token in a -> b -> c -> a: nothing overlaps, 9 on any number of processors."""
    graph = (
        GraphBuilder("ring")
        .actor("a", 3).actor("b", 4).actor("c", 2)
        .channel("a", 1, "b", 1).channel("b", 1, "c", 1)
        .channel("c", 1, "a", 1, initial_tokens=1)
        .graph()
    )  # fmt: skip
    assert fewest_processors(graph, period=9, budget=BUDGET).count == 1
    assert fewest_processors(graph, period=8, budget=BUDGET).status == Status.INFEASIBLE


def test_of_unequal_processors_the_fast_one_is_kept():
    """The slow processor takes twice as long, so that it does not suffice alone."""
    times = (
        Processor(name="fast", durations=(3,)),
        Processor(name="slow", durations=(6,)),
    )
    actors = tuple(Actor(name=name, durations=(3,), processors=times) for name in "ab")
    cores = (Core(name="s", type="slow"), Core(name="f", type="fast"))
    found = fewest_processors(
        Graph(name="typed", actors=actors), Platform(name="p", cores=cores), period=7
    )
    assert (found.count, list(found.mapping.orders), found.status) == (1, ["f"], Status.OPTIMAL)


def test_the_mp3_decoder_needs_two_processors_for_the_best_period_of_two():
    # docs/mapping.md: on one 8318592 is the sum of all; on two 4159296 is reached.
    graph = read_graph(GRAPHS / "mp3decoder.xml")
    found = fewest_processors(graph, period=4159296, budget=BUDGET)
    assert (found.count, found.status) == (2, Status.OPTIMAL)


def test_a_period_has_to_be_above_zero():
    with pytest.raises(CsdfError, match="expected more than 0"):
        fewest_processors(pipeline(), period=0)


def test_the_budget_leaves_a_bound():
    found = fewest_processors(pipeline(), period=5, budget=0)
    assert found.lower_bound == 2


def compare(seed):
    """On no choice of fewer processors do any orders that brute force tries suffice."""
    graph, target = random_problem(seed)
    if seed % 4 == 1:
        target = equal_processors(3)
    draw = random.Random(seed)
    repetitions = repetition_vector(graph)
    work = sum(
        repetitions[actor.name] // actor.phases * sum(actor.durations) for actor in graph.actors
    )
    period = Fraction(work) * draw.choice([1, 3, 2]) / draw.choice([1, 4, 3])
    found = fewest_processors(graph, target, period=period, budget=BUDGET)
    assert found.status in (Status.OPTIMAL, Status.INFEASIBLE), seed
    if found.mapping is not None:
        assert mapped_throughput(graph, target, found.mapping).period <= period, seed
        assert len(found.mapping.orders) == found.count == found.lower_bound
    fewer = len(target.cores) if found.count is None else found.count - 1
    for count in range(1, fewer + 1):
        for cores in combinations(target.cores, count):
            kept = {core.name for core in cores}
            ends = [c for c in target.connections if {c.source, c.target} <= kept]
            part = Platform(name="part", cores=cores, connections=tuple(ends))
            tried = least_period(graph, part, draw, TRIED)
            assert tried is None or tried > period, (seed, tried, period)
    return found.count


@pytest.mark.parametrize("seed", range(30))
def test_no_fewer_processors_suffice(seed):
    compare(seed)


@pytest.mark.slow
def test_no_fewer_processors_suffice_for_many_graphs():
    for seed in range(1000, 1050):
        compare(seed)

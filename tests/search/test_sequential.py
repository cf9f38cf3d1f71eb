"""Capacities that grow in one run without times: live, and close to the proved smallest."""

from dataclasses import replace
from random import Random

import pytest

from csdf.analysis.bound_channels import with_capacities
from csdf.analysis.liveness import deadlock
from csdf.generation import GraphShape, random_graph
from csdf.model.builder import GraphBuilder
from csdf.search.evaluator import CapacityEvaluator
from csdf.search.sequential import SequentialRun, raised
from csdf.search.trade_off import pareto_front, smallest_storage
from csdf.search.variables import SearchSpace, prepared
from csdf.time_limit import Stop

SHAPE = GraphShape(actors=6, extra_channels=4, max_repetitions=6)


def run_of(graph, choice=SearchSpace()):  # noqa: B008
    kept, variables, _ = prepared(graph, choice)
    evaluator = CapacityEvaluator(kept, variables)
    cycles = list(evaluator.cycles.values())
    return SequentialRun(evaluator.bare, variables, cycles, Stop()), variables


def named(variables, capacities):
    return {
        channel.name: capacity
        for variable, capacity in zip(variables, capacities, strict=True)
        for channel in variable.channels
    }


@pytest.mark.parametrize("seed", range(40))
def test_what_has_grown_is_live_and_every_bound_holds(seed):
    graph = random_graph(seed, SHAPE)
    run, variables = run_of(graph)
    grown = run.grown([variable.least for variable in variables])
    assert deadlock(with_capacities(graph, named(variables, grown))) is None
    best = smallest_storage(graph)
    assert best.status == "optimal"
    assert best.point.size <= sum(grown)
    for variable in raised(variables, run.cuts):
        assert best.point.capacities[variable.channels[0].name] >= variable.least


@pytest.mark.parametrize("seed", range(15))
def test_no_distribution_in_a_cut_is_live(seed):
    graph = random_graph(seed, SHAPE)
    run, variables = run_of(graph)
    run.grown([variable.least for variable in variables])
    random = Random(seed)
    for cut in random.sample(run.cuts, min(5, len(run.cuts))):
        # Whatever the others have, however much.
        capacities = [cut.limits.get(place, 10**6) for place in range(len(variables))]
        assert deadlock(with_capacities(graph, named(variables, capacities))) is not None


def with_a_way_round(firings):
    """Actor a feeds c straight and through b; c waits until b has passed on `firings` tokens."""
    return (
        GraphBuilder()
        .actor("a", 1)
        .actor("b", 1)
        .actor("c", 1)
        .channel("a", 1, "b", firings, name="ab")
        .channel("b", 1, "c", firings, name="bc")
        .channel("a", 1, "c", firings**2, name="ac")
        .graph()
    )


def test_the_circle_says_how_much_the_short_way_must_hold():
    # c fires once b has fired 20 times, and b only after 400 firings of a: all 400 tokens of the
    # short way wait. The other two channels hold what one firing of their consumer takes.
    run, variables = run_of(with_a_way_round(20))
    assert run.grown([variable.least for variable in variables]) == (20, 20, 400)


def test_where_more_space_does_not_help_there_are_no_capacities():
    graph = with_a_way_round(3)
    (ab, *others) = graph.channels
    fixed = replace(graph, channels=(replace(ab, capacity=2), *others))
    run, variables = run_of(fixed, SearchSpace(excluded=("ab",)))
    assert run.grown([variable.least for variable in variables]) is None


def test_a_graph_of_a_thousand_actors_has_its_smallest_storage_at_once():
    # A chain with ways past it, and back with 60 tokens: the run proves what it finds.
    random = Random(1)
    builder = GraphBuilder()
    for number in range(1000):
        builder.actor(str(number), 1)
    for number in range(999):
        builder.channel(str(number), 1, str(number + 1), 1)
    for _ in range(500):
        first, second = sorted(random.sample(range(1000), 2))
        builder.channel(str(first), 1, str(second), 1)
    for _ in range(100):
        first = random.randrange(980)
        builder.channel(str(first + random.randrange(1, 20)), 1, str(first), 1, initial_tokens=60)
    graph = builder.graph()
    run, variables = run_of(graph)
    grown = run.grown([variable.least for variable in variables])
    assert deadlock(with_capacities(graph, named(variables, grown))) is None
    assert sum(grown) == sum(variable.least for variable in raised(variables, run.cuts))


def test_a_front_that_ends_before_its_first_point_has_live_capacities():
    for seed in range(20):
        graph = random_graph(seed, SHAPE)
        front = pareto_front(graph, budget=Stop(steps=2))
        if front.points:
            continue
        assert deadlock(with_capacities(graph, front.start.capacities)) is None
        assert front.lower_bound <= smallest_storage(graph).point.size <= front.start.size
        return
    raise AssertionError("every front was found at once")

"""The search beyond the published one, against enumeration and the worked example."""

from random import Random

import pytest

from csdf.errors import GaveUp
from csdf.time_limit import Stop
from figures.published.offset_points import extra_phases, offset_point
from figures.published.reuse_example import worked_example
from planners.published.todaes import as_published
from planners.reuse.application import WHOLE
from planners.reuse.edge_buffers import best_shared, shared_buffers
from planners.reuse.evaluation import Evaluator
from planners.reuse.load_front import load_front
from planners.reuse.local_search import local_search
from planners.reuse.problem import search_problem
from tests.planners.reuse.front.small_applications import all_genes, front_of, together
from tests.reference.point_bounds import bounded_points

EXAMPLE = as_published(worked_example())
PUBLISHED = [(24_586, 0), (19_072, 93), (16_128, 124), (13_536, 213)]  # elements, extra phases


@pytest.fixture
def short_walks(monkeypatch):
    monkeypatch.setattr("planners.reuse.local_search.STEPS", 60)


def values(points):
    return [point.score for point in points]


def enumerated(evaluator, genes=(None, 1)):
    found = (evaluator.evaluate(one) for one in all_genes(evaluator.application, genes))
    return front_of(found)


def test_the_search_proves_the_front_of_the_worked_example():
    evaluator = Evaluator(EXAMPLE)
    found = local_search(evaluator, random=Random(1))
    assert found.is_proved
    assert values(found.points) == enumerated(Evaluator(EXAMPLE))


def test_beyond_the_published_front_of_the_worked_example():
    evaluator = Evaluator(EXAMPLE, share=best_shared)
    plans = [evaluator.plan(genes) for genes in all_genes(EXAMPLE)]
    costs = [(plan.elements, extra_phases(evaluator, plan)) for plan in plans]
    for elements, phases in PUBLISHED:
        ours = min(size for size, extra in costs if extra <= phases)
        assert ours <= elements


def test_offsets_reach_the_bound_of_the_worked_example_before_213_extra_phases():
    evaluator = Evaluator(EXAMPLE, share=best_shared)
    _, genes = load_front(evaluator)[-1]
    found = offset_point(evaluator, genes)
    # P2 and P3 run in parallel: 5 rows of 96 of e12', both copies of e23', and e34'.
    assert found.offsets.peak // 4 == 5 * 96 + 6272 + 6272 + 10
    assert found.extra_phases <= 213


@pytest.mark.slow
def test_a_search_of_wider_genes_finds_the_enumerated_front(short_walks):
    alleles = (0, 1, 2)
    found = local_search(
        Evaluator(EXAMPLE, share=best_shared),
        random=Random(1),
        evaluations=1000,
        alleles=alleles,
    )
    assert not found.is_proved
    assert values(found.points) == enumerated(Evaluator(EXAMPLE, share=best_shared), (None, 1, 2))


@pytest.mark.slow
def test_two_networks_with_a_pipeline_are_searched_as_well_as_enumerated(short_walks):
    application = together()
    expected = enumerated(Evaluator(application, share=best_shared))
    found = local_search(
        Evaluator(application, share=best_shared),
        random=Random(1),
        evaluations=1200,
    )
    assert values(found.points) == expected


def test_the_same_seed_gives_the_same_front(short_walks):
    found = [
        local_search(
            Evaluator(together(), share=best_shared),
            random=Random(5),
            evaluations=300,
        )
        for _ in range(2)
    ]
    assert found[0] == found[1]


def test_a_watch_ends_the_search_with_the_front_so_far():
    calls = []

    def watch(_):
        calls.append(1)
        if len(calls) > 500:
            raise GaveUp("time is up")

    found = local_search(
        Evaluator(together(), share=best_shared),
        random=Random(1),
        budget=Stop(report=watch),
    )
    assert (str(found.reason), found.is_finished) == ("time is up", False)
    assert found.points


@pytest.mark.parametrize("share", [shared_buffers, best_shared])
def test_no_chromosome_as_fast_as_a_point_is_below_its_bound(share):
    evaluator = Evaluator(EXAMPLE, share=share)
    found = local_search(evaluator, random=Random(1))
    costs = [evaluator.evaluate(genes) for genes in all_genes(EXAMPLE)]
    bounded = bounded_points(evaluator, (1,), found.points)
    for one in bounded:
        limits = one.point.score[1:]
        fast = [
            memory
            for memory, *periods in costs
            if all(own <= limit for own, limit in zip(periods, limits, strict=True))
        ]
        assert one.lower_bound <= min(fast) == one.point.score[0]


def test_offsets_are_between_the_load_and_whole_buffers():
    evaluator = Evaluator(EXAMPLE, share=best_shared)
    for point in local_search(evaluator, random=Random(1)).points:
        genes = point.chromosome
        found = offset_point(evaluator, genes)
        live = evaluator.weights + 4 * evaluator.plan(genes).live_load
        assert live <= found.offsets.lower_bound + evaluator.weights <= found.memory
        assert found.memory <= found.whole
        assert found.memory_in_place <= found.memory


def test_a_layer_without_an_allele_has_its_last_one():
    problem = search_problem(Evaluator(EXAMPLE), (0, 1, 4))
    wide = problem.fitted((4,) * len(problem.alleles))
    problem.require_chromosome(wide)
    assert all(own in (4, values[-1]) for own, values in zip(wide, problem.alleles, strict=True))


@pytest.mark.parametrize("alleles", [(1, 2), (2, 1), (4, 0, 1)])
def test_the_smallest_parts_and_the_last_allele_are_the_same_for_all_orders(alleles):
    problem = search_problem(Evaluator(EXAMPLE), alleles)
    assert problem == search_problem(Evaluator(EXAMPLE), sorted(alleles))
    assert max(problem.all_in_parts) == 1
    if WHOLE not in alleles:
        wide = problem.fitted((WHOLE,) * len(problem.alleles))
        assert wide == tuple(map(max, problem.alleles))

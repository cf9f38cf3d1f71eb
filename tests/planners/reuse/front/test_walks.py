"""Moves, descents and walks on problems that can be reckoned by hand."""

from random import Random

import pytest

from csdf.errors import GaveUp
from csdf.time_limit import Stop
from planners.reuse.executors import Limited, LimitReached, Serial
from planners.reuse.local_search import LocalSearch, neighbour
from planners.reuse.problem import InvalidSearch, Point, ReuseProblem

SAVED = (5, 9, 2, 7, 4, 8)  # bytes that each gene saves
LOST = (1, 3, 1, 1, 4, 5)  # time that each gene costs
GENES = ReuseProblem(identity="test", alleles=((0, 1),) * 6, objectives=("memory", "time"))
MANY = ReuseProblem(identity="many", alleles=((0, 1),) * 11, objectives=("memory", "time"))


def independent(chromosome):
    memory = 100 - sum(saved for saved, gene in zip(SAVED, chromosome, strict=True) if gene)
    return memory, sum(t for t, gene in zip(LOST, chromosome, strict=True) if gene)


def leading_ones(chromosome):
    """Memory falls only with the genes before the first 0; every gene costs time."""
    count = next((n for n, gene in enumerate(chromosome) if not gene), len(chromosome))
    return (100 - count, sum(chromosome))


def test_a_descent_takes_what_saves_most_for_its_time_first():
    seen = []

    def noted(chromosome):
        seen.append(chromosome)
        return independent(chromosome)

    search = started(GENES, noted)
    search.descend((0,) * 6, 1, Stop())
    # Gene 3 saves 7 for 1, cheaper than any run of genes: from the second step on all have it, and
    # the second is the first in which genes 0 and 3 can be 1 without those between them.
    second = seen.index((1, 0, 0, 1, 0, 0))
    assert {one[3] for one in seen[second:]} == {1}
    # Every gene saves something: the descent ends where all are 1.
    assert search.archive.by_objectives()[0].chromosome == (1,) * 6


def test_moves_stay_among_the_alleles_and_leave_other_genes_alone():
    problem = ReuseProblem(
        identity="test", alleles=((0, 1, 4), (0,), (0, 2), (7,), (0, 1)), objectives=("memory",)
    )
    random = Random(1)
    chromosome = (0, 0, 0, 7, 0)
    for _ in range(500):
        chromosome = neighbour(problem, problem.free_genes, chromosome, random)
        problem.require_chromosome(chromosome)


def test_a_problem_without_choice_has_no_other_chromosome():
    problem = ReuseProblem(identity="test", alleles=((0,), (0,)), objectives=("memory",))
    assert neighbour(problem, [], (0, 0), Random(1)) == (0, 0)


@pytest.fixture(autouse=True)
def short_walks(monkeypatch):
    monkeypatch.setattr("planners.reuse.local_search.STEPS", 50)


def started(problem, evaluate, *, most=None, seed=1):
    return LocalSearch(
        problem,
        Limited(Serial(evaluate), most),
        random=Random(seed),
    )


def searched(problem, evaluate, *, watch=None, **options):
    return started(problem, evaluate, **options).run((), Stop(report=watch))


@pytest.mark.parametrize("work", [lambda search: search.run((), Stop()), lambda s: s.walk(Stop())])
def test_a_score_of_floats_is_refused(work):
    search = started(GENES, lambda chromosome: (sum(chromosome), 0.5))
    search.archive.add([Point(chromosome=(0,) * 6, score=(100, 0))])
    with pytest.raises(InvalidSearch, match="expected an int or a Fraction"):
        work(search)


def test_a_small_problem_is_enumerated_and_proved():
    found = searched(GENES, independent)
    assert found.is_proved
    assert found.evaluations == 64


@pytest.mark.slow
def test_walks_find_the_front_of_leading_ones():
    found = searched(MANY, leading_ones, most=800)
    # The best with n leading ones has no other: 12 points from (100, 0) to (89, 11).
    values = [point.score for point in found.points]
    assert values == [(100 - count, count) for count in range(11, -1, -1)]


def test_the_same_seed_gives_the_same_front():
    assert searched(MANY, leading_ones, most=300) == searched(MANY, leading_ones, most=300)


def test_no_more_chromosomes_are_evaluated_than_allowed():
    seen = []

    def counted(chromosome):
        seen.append(chromosome)
        return leading_ones(chromosome)

    found = searched(MANY, counted, most=133)
    assert (len(seen), len(set(seen)), found.evaluations) == (133, 133, 133)
    assert found.is_finished
    assert not found.is_proved


@pytest.mark.parametrize("end", [GaveUp("time is up"), KeyboardInterrupt()])
def test_a_watch_ends_the_search_with_the_front_so_far(end):
    calls = []

    def watch(_):
        calls.append(1)
        if len(calls) > 200:
            raise end

    found = searched(MANY, leading_ones, watch=watch)
    assert not found.is_finished
    assert str(found.reason) == (str(end) or "interrupted")
    assert found.evaluations == 200
    assert found.points


def test_a_place_without_evaluations_is_refused():
    with pytest.raises(InvalidSearch, match="found 0"):
        Limited(Serial(leading_ones), 0)


def test_the_last_evaluations_are_used_before_a_place_is_spent():
    place = Limited(Serial(independent), 3)
    four = [(0,) * 6, (1,) * 6, (0, 1) * 3, (1, 0) * 3]
    with pytest.raises(LimitReached, match="3 evaluations"):
        list(place.scores(four, Stop()))
    assert place.evaluations == 3

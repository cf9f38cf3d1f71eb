import sys
from contextlib import closing
from fractions import Fraction
from multiprocessing import active_children
from random import Random

import pytest
from evolution_problems import Deadly, Knapsack, Poison, Refusing, Wide, none

from csdf.errors import CsdfError, GaveUp
from csdf.time_limit import Stop
from planners.published.nsga2 import SearchLimits, Settings, evolve
from planners.reuse.executors import Serial, parts_of
from planners.reuse.problem import EvaluationFailed, InvalidSearch
from planners.reuse.process_pool import cluster_executor, local_executor, process_pool

SMALL = Settings(population=20, mutated_genes=Fraction(2))
LIMITS = SearchLimits(evaluations=110)
CHROMOSOMES = [tuple(map(int, f"{number:08b}")) for number in range(0, 256, 5)]


def search(place, **options):
    return evolve(
        Knapsack().problem, place, random=Random(5), limits=LIMITS, settings=SMALL, **options
    )


@pytest.fixture(scope="module")
def pool():
    with local_executor(Knapsack(), workers=2) as place:
        yield place


def test_a_pool_finds_the_same_front_as_one_process(pool):
    assert search(pool) == search(Serial(Knapsack()))


def test_scores_come_in_the_order_of_the_chromosomes(pool):
    found = list(pool.scores(CHROMOSOMES, none))
    assert found == [Knapsack()(chromosome) for chromosome in CHROMOSOMES]
    assert list(pool.scores([], none)) == []


def test_a_watch_ends_a_pool_that_works_and_leaves_it_usable(pool):
    looks = iter(range(3))

    def watch(_):
        if next(looks, None) is None:
            raise GaveUp("time is up")

    front = search(pool, budget=Stop(report=watch))
    assert (front.is_finished, str(front.reason)) == (False, "time is up")
    assert len(list(pool.scores(CHROMOSOMES, none))) == len(CHROMOSOMES)


def test_evaluations_of_a_lost_process_are_repeated(tmp_path):
    evaluate = Deadly(tmp_path / "marker")
    with process_pool(evaluate, workers=2) as place:
        front = search(place)
    assert evaluate.marker.exists()
    assert front == search(Serial(Knapsack()))


def test_processes_that_die_again_and_again_end_the_search_with_a_reason():
    with process_pool(Poison(), workers=1) as place:
        front = search(place)
    assert not front.is_finished
    assert "ended 3 times in a row" in str(front.reason)


def test_an_error_in_a_process_names_the_chromosome():
    with (
        process_pool(Refusing(), workers=1) as place,
        pytest.raises(EvaluationFailed, match="0 is refused"),
        closing(place.scores(CHROMOSOMES, none)) as scores,
    ):
        next(scores)


def test_an_evaluation_that_cannot_travel_is_refused():
    wrong = (lambda chromosome: chromosome, 1, "cannot be sent to another process")
    for evaluate, workers, words in (wrong, (Knapsack(), 0, "0 workers")):
        with pytest.raises(InvalidSearch, match=words), process_pool(evaluate, workers=workers):
            pass


def test_tasks_and_answers_larger_than_a_pipe_holds_pass_each_other():
    # 400 chromosomes of 5000 genes: parts of up to 0.5 MB, several at once; a pipe holds 64 KiB.
    chromosomes = [(number, *[1] * 4999) for number in range(400)]
    with process_pool(Wide(), workers=2) as place:
        assert list(place.scores(chromosomes, none)) == list(map(Wide(), chromosomes))


def test_processes_end_with_the_pool_whatever_they_are_doing():
    before = set(active_children())
    with (
        process_pool(Knapsack(pause=60), workers=1) as place,
        pytest.raises(GaveUp),
    ):
        list(place.scores(CHROMOSOMES, Stop(steps=3)))
    assert set(active_children()) <= before


def test_parts_are_smaller_and_smaller():
    # Two thirds of those left in each round: of 60 for two workers 20 each; then a third of 20, of 6
    # and of 2 for each, rounded up. Few are one part for each.
    for count, sizes in ((60, [20, 20, 7, 7, 2, 2, 1, 1]), (8, [4, 4]), (3, [2, 1]), (0, [])):
        parts = parts_of(CHROMOSOMES[:count] + CHROMOSOMES[: max(0, count - 52)], 2)
        assert list(map(len, parts)) == sizes
    for workers in (1, 2, 7, 100):
        parts = parts_of(CHROMOSOMES, workers)
        assert [one for part in parts for one in part] == CHROMOSOMES
        assert all(parts)


def test_one_worker_is_this_process():
    with local_executor(Knapsack(), workers=1) as place:
        assert isinstance(place, Serial)


def test_without_dask_the_message_says_how_to_install_it(monkeypatch):
    monkeypatch.delitem(sys.modules, "planners.reuse.dask_cluster", raising=False)
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(CsdfError, match="pip install dask distributed"):
        cluster_executor(Knapsack(), "tcp://127.0.0.1:8786")

"""The same searches on a cluster of two processes behind the loopback."""

import os
import signal
from random import Random

import pytest
from evolution_problems import Deadly, Knapsack, Missing, Poison, Refusing, Where, none

from csdf.errors import GaveUp
from csdf.time_limit import Stop
from planners.published.nsga2 import SearchLimits, Settings, evolve
from planners.reuse.executors import TICK, Serial
from planners.reuse.problem import EvaluationFailed, LostWorkers
from planners.reuse.process_pool import cluster_executor

distributed = pytest.importorskip("distributed")
dask_cluster = pytest.importorskip("planners.reuse.dask_cluster").dask_cluster

SMALL = Settings(population=20)
LIMITS = SearchLimits(evaluations=110)
CHROMOSOMES = [tuple(map(int, f"{number:08b}")) for number in range(0, 256, 5)]


def started(workers):
    return distributed.LocalCluster(
        n_workers=workers,
        threads_per_worker=1,
        processes=True,
        host="127.0.0.1",
        dashboard_address="127.0.0.1:0",
        silence_logs="CRITICAL",
    )


@pytest.fixture(scope="module")
def cluster():
    with started(2) as running:
        yield running


def search(place, **options):
    return evolve(
        Knapsack().problem, place, random=Random(5), limits=LIMITS, settings=SMALL, **options
    )


def test_a_cluster_finds_the_same_front_as_one_process(cluster):
    with cluster_executor(Knapsack(), cluster.scheduler_address) as place:
        assert search(place) == search(Serial(Knapsack()))


@pytest.mark.slow
def test_tasks_of_a_crashed_worker_are_repeated(cluster, tmp_path):
    evaluate = Deadly(tmp_path / "marker")
    with cluster_executor(evaluate, cluster.scheduler_address) as place:
        front = search(place)
    assert evaluate.marker.exists()
    assert front == search(Serial(Knapsack()))


@pytest.mark.slow
def test_tasks_of_a_killed_worker_are_repeated():
    with started(2) as own:
        victim = own.workers[0].pid
        looks = iter(range(5))

        def watch(_):
            if next(looks, None) == 4:
                os.kill(victim, signal.SIGKILL)

        with cluster_executor(Knapsack(pause=0.01), own.scheduler_address) as place:
            front = search(place, budget=Stop(report=watch))
        # Dask cannot close while a worker is on its way; it comes when the machine has time for it.
        own.wait_for_workers(2)
    assert next(looks, None) is None  # so it was killed
    assert front == search(Serial(Knapsack()))


@pytest.mark.slow
def test_evaluations_longer_than_a_look_at_the_stop_are_waited_for(cluster):
    with cluster_executor(Knapsack(pause=3 * TICK), cluster.scheduler_address) as place:
        assert list(place.scores(CHROMOSOMES[:4], none)) == list(map(Knapsack(), CHROMOSOMES[:4]))


@pytest.mark.slow
def test_a_stop_leaves_the_cluster_usable(cluster):
    looks = iter(range(3))

    def watch(_):
        if next(looks, None) is None:
            raise GaveUp("time is up")

    with cluster_executor(Knapsack(pause=0.02), cluster.scheduler_address) as place:
        front = search(place, budget=Stop(report=watch))
        assert (front.is_finished, str(front.reason)) == (False, "time is up")
        assert list(place.scores(CHROMOSOMES, none)) == list(map(Knapsack(), CHROMOSOMES))


@pytest.mark.slow
def test_a_worker_that_joins_later_gets_its_share():
    with started(1) as own, cluster_executor(Where(), own.scheduler_address) as place:
        assert len(set(place.scores(CHROMOSOMES, none))) == 1
        own.scale(2)
        own.wait_for_workers(2)
        found = set()
        for _ in range(50):  # the evaluation is built there meanwhile
            found |= set(place.scores(CHROMOSOMES, none))
            if len(found) == 2:
                return
    raise AssertionError("the second worker got nothing")


@pytest.mark.slow
def test_an_error_on_a_worker_names_the_chromosome(cluster):
    with (
        cluster_executor(Refusing(), cluster.scheduler_address) as place,
        pytest.raises(EvaluationFailed, match="1 is refused"),
    ):
        list(place.scores([(1,)], none))


@pytest.mark.slow
def test_a_task_that_ends_every_worker_ends_the_search_with_a_reason():
    with (
        started(1) as own,
        cluster_executor(Poison(), own.scheduler_address) as place,
    ):
        front = search(place)
        own.wait_for_workers(1)
    assert not front.is_finished
    assert own.scheduler_address in str(front.reason)


@pytest.mark.slow
def test_a_lost_dask_scheduler_ends_the_search_with_a_reason():
    with started(1) as own:
        looks = iter(range(3))

        def watch(_):
            if next(looks, None) == 2:
                own.close()

        with cluster_executor(Knapsack(pause=0.05), own.scheduler_address) as place:
            front = search(place, budget=Stop(report=watch))
    assert not front.is_finished
    assert own.scheduler_address in str(front.reason)


@pytest.mark.slow
def test_a_scheduler_gone_between_two_generations_is_one_message():
    with started(1) as own, dask_cluster(Knapsack(), own.scheduler_address, connect=0.5) as place:
        assert len(list(place.scores([(1,) * 8], none))) == 1
        own.close()
        for _ in range(2):
            with pytest.raises(LostWorkers, match="the Dask scheduler is gone"):
                list(place.scores([(1,) * 8], none))


@pytest.mark.slow
def test_an_evaluation_that_workers_cannot_build_is_one_message(cluster):
    with (
        pytest.raises(LostWorkers, match="cannot build the evaluation: No module named 'a_mod"),
        cluster_executor(Missing(), cluster.scheduler_address),
    ):
        pass


@pytest.mark.slow
def test_a_scheduler_without_workers_is_one_message():
    with (
        started(0) as own,
        pytest.raises(LostWorkers, match="has no worker; start one with"),
        dask_cluster(Knapsack(), own.scheduler_address, connect=0.3),
    ):
        pass


@pytest.mark.slow
def test_an_address_without_a_scheduler_is_one_message():
    with (
        pytest.raises(LostWorkers, match="no Dask scheduler answers"),
        dask_cluster(Knapsack(), "tcp://127.0.0.1:9", connect=0.3),
    ):
        pass

"""Who of several workers gets which part, and what they tell one another: with workers made up here."""

import pickle
from collections import deque
from fractions import Fraction

import pytest
from evolution_problems import Hostile, Knapsack, Refusing, none
from planners.reuse.front.places.crew import (
    QUEUED,
    CrewPlace,
    Evaluations,
    part_sizes,
    read_answer,
    task_text,
)

from csdf.errors import GaveUp
from csdf.time_limit import Stop
from planners.reuse.executors import parts_of
from planners.reuse.problem import EvaluationFailed, LostWorkers, Score

CHROMOSOMES = [tuple(map(int, f"{number:08b}")) for number in range(0, 256, 5)]


class Echo:
    """A knapsack that learns which chromosomes others evaluated."""

    def __init__(self):
        self.did, self.own, self.heard = [], [], []

    def __call__(self, chromosome):
        self.did.append(chromosome)
        self.own.append(chromosome)
        return Knapsack()(chromosome)

    def learnt(self):
        found, self.own = self.own, []
        return found

    def learn(self, learnt):
        self.heard += learnt


class Desk:
    """A worker in this process, which answers one task whenever it is its turn."""

    def __init__(self, evaluate, *, ends_at=None):
        self.evaluate, self.tasks, self.sizes = evaluate, deque(), []
        self._evaluations = Evaluations(evaluate)
        self._ends_at = ends_at

    def send(self, task):
        self.tasks.append(task)

    def work(self):
        """The answer to one task; None where the worker ends with it."""
        task = self.tasks.popleft()
        self.sizes.append(len(pickle.loads(task)[1]))
        if self._ends_at is not None and len(self.sizes) > self._ends_at:
            return None
        return self._evaluations.answer(task)


class Office:
    """A crew of desks, of which the first works twice as fast as the others."""

    def __init__(self, desks, fresh=None):
        self.desks, self.fresh = desks, fresh

    def ready(self):
        return list(self.desks)

    def heard(self):
        for desk in [self.desks[0], *self.desks]:
            if not desk.tasks or desk not in self.desks:
                continue
            answer = desk.work()
            if answer is None:
                self.desks.remove(desk)
                self.desks += [self.fresh()] if self.fresh else []
            yield desk, answer

    def ended(self, losses):
        return LostWorkers(f"{losses} desks ended")


def test_each_round_of_parts_takes_two_thirds_of_what_is_left():
    # Of 60 for two workers 20 each; then a third of 20, of 6 and of 2 for each, rounded up.
    assert part_sizes(60, 2) == [20, 20, 7, 7, 2, 2, 1, 1]
    assert part_sizes(8, 2) == [4, 4]  # few: one message for each worker
    assert part_sizes(3, 2) == [2, 1]
    assert part_sizes(0, 2) == []


def test_the_first_generation_has_the_smallest_parts_where_workers_learn_most():
    desks = [Desk(Echo()), Desk(Echo())]
    place = CrewPlace(Office(desks))
    list(place.scores(CHROMOSOMES, none))
    assert max(desks[0].sizes) == 2  # a sixteenth of 52 for two workers, rounded up
    first = len(desks[0].sizes)
    list(place.scores(CHROMOSOMES, none))
    assert max(desks[0].sizes[first:]) == 18  # two thirds


@pytest.mark.parametrize("workers", [1, 2, 7, 100])
def test_parts_hold_all_chromosomes_in_order(workers):
    parts = parts_of(CHROMOSOMES, workers)
    assert [one for part in parts for one in part] == CHROMOSOMES
    assert all(parts)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_scores_come_in_order_from_any_number_of_workers(count):
    place = CrewPlace(Office([Desk(Knapsack()) for _ in range(count)]))
    for _ in range(2):
        assert list(place.scores(CHROMOSOMES, none)) == list(map(Knapsack(), CHROMOSOMES))


def test_a_faster_worker_does_more():
    desks = [Desk(Knapsack()), Desk(Knapsack())]
    list(CrewPlace(Office(desks)).scores(CHROMOSOMES, none))
    assert sum(desks[0].sizes) > sum(desks[1].sizes)


def test_no_worker_has_more_parts_than_it_needs_to_go_on():
    class Watched(Desk):
        def send(self, task):
            super().send(task)
            assert len(self.tasks) <= QUEUED

    list(CrewPlace(Office([Watched(Knapsack()), Watched(Knapsack())])).scores(CHROMOSOMES, none))


def test_what_one_worker_learns_the_others_hear_once():
    desks = [Desk(Echo()), Desk(Echo()), Desk(Echo())]
    place = CrewPlace(Office(desks))
    list(place.scores(CHROMOSOMES, none))
    did = [list(desk.evaluate.did) for desk in desks]
    list(place.scores([(0, 1) * 4] * 3, none))  # a part for each, which brings the last news
    for desk, own in zip(desks, did, strict=True):
        assert own
        assert sorted(own + desk.evaluate.heard) == sorted(CHROMOSOMES)


def test_what_a_lost_worker_had_is_done_by_the_others():
    desks = [Desk(Knapsack()), Desk(Knapsack(), ends_at=1)]
    assert list(CrewPlace(Office(desks)).scores(CHROMOSOMES, none)) == list(
        map(Knapsack(), CHROMOSOMES)
    )
    assert len(desks) == 1


def test_workers_that_end_again_and_again_end_the_search():
    def deadly():
        return Desk(Knapsack(), ends_at=0)

    with pytest.raises(LostWorkers, match="3 desks ended"):
        list(CrewPlace(Office([deadly()], fresh=deadly)).scores(CHROMOSOMES, none))


def test_answers_of_a_generation_that_was_left_are_dropped():
    looks = iter(range(1))

    def watch(_):
        if next(looks, None) is None:
            raise GaveUp("enough")

    place = CrewPlace(Office([Desk(Knapsack()), Desk(Knapsack())]))
    with pytest.raises(GaveUp):
        list(place.scores(CHROMOSOMES, Stop(report=watch)))
    others = CHROMOSOMES[::-1]
    assert list(place.scores(others, none)) == list(map(Knapsack(), others))


def test_scores_travel_as_they_are():
    score = Score(objectives=(3, Fraction(22, 7)), violation=Fraction(1, 3))
    answer = Evaluations(lambda chromosome: score).answer(task_text((1, 2), [(0,), (1,)], []))
    assert read_answer(answer) == ((1, 2), [score, score], b"")


def test_a_failed_evaluation_travels_with_its_chromosome():
    answer = read_answer(Evaluations(Refusing()).answer(task_text((1, 0), [(7,)], [])))
    assert isinstance(answer.scores, EvaluationFailed)
    assert str(answer.scores) == f"chromosome (7): {Hostile(7, 'refused')}"

"""Evaluators of one application that tell one another what they work out."""

import pickle
from random import Random

import pytest
from planners.reuse.front.problem import Learning
from planners.reuse.front.search_problem import Scoring

from planners.reuse.evaluation import Evaluator
from planners.reuse.partition import partition_model
from planners.reuse.problem import search_problem
from tests.planners.reuse.front.small_applications import alone, branched, residual, together

ALLELES = (0, 1, 2, 5)
APPLICATIONS = (together(), alone(residual()), alone(branched()))


def chromosomes(application, count, seed=1):
    problem, random = search_problem(Evaluator(application), ALLELES), Random(seed)
    return [tuple(map(random.choice, problem.alleles)) for _ in range(count)]


def counted(monkeypatch, name):
    """Calls of a function of the model of partitions from now on."""
    calls, function = [], getattr(partition_model, name)

    def noted(*arguments, **options):
        calls.append(name)
        return function(*arguments, **options)

    monkeypatch.setattr(partition_model, name, noted)
    return calls


@pytest.mark.parametrize("application", APPLICATIONS, ids=lambda one: one.name)
def test_what_was_learnt_elsewhere_is_not_worked_out_again(monkeypatch, application):
    first, second = Scoring(Evaluator(application)), Scoring(Evaluator(application))
    assert isinstance(first, Learning)
    assert not first.learnt()
    tried = chromosomes(application, 30)
    expected = [first(one) for one in tried]
    second.learn(pickle.loads(pickle.dumps(first.learnt())))
    calls = [counted(monkeypatch, name) for name in ("held_rows", "block_storage", "firing_order")]
    assert [second(one) for one in tried] == expected
    assert calls == [[], [], []]
    assert not first.learnt()  # told once


@pytest.mark.parametrize("application", APPLICATIONS, ids=lambda one: one.name)
def test_scores_are_the_same_whatever_was_heard(application):
    first, second = Scoring(Evaluator(application)), Scoring(Evaluator(application))
    first.learnt()
    for one in chromosomes(application, 20):
        first(one)
    second.learn(first.learnt())
    for one in chromosomes(application, 20, seed=2):
        assert second(one) == Scoring(Evaluator(application))(one)


def test_nothing_is_noted_that_nobody_asks_for():
    scoring = Scoring(Evaluator(together()))
    for one in chromosomes(together(), 5):
        scoring(one)
    assert not scoring.learnt()

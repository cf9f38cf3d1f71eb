"""Messages between a search and its workers, as bytes.

A task is a part of a generation, and what other workers have learnt since the last task. An answer is
the scores of that part, and what this worker has learnt on the way. What a worker has learnt passes
through the search unread: its bytes go on to the others as they came.
"""

from __future__ import annotations

import gc
import pickle
from collections.abc import Generator, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

from csdf.collecting import uncollected
from planners.reuse.front.places.evaluation import evaluated
from planners.reuse.front.problem import Chromosome, Evaluate, EvaluationFailed, Learning, Score

Key = tuple[int, int]  # of a part: the number of the generation, and of the part in it
NOTHING = b""


class Answer(NamedTuple):
    """The answer to a task: scores, or the failure of one evaluation."""

    key: Key
    scores: list[Score] | EvaluationFailed
    learnt: bytes


def task_text(key: Key, part: Sequence[Chromosome], learnt: Sequence[bytes]) -> bytes:
    """Return a task as bytes."""
    return pickle.dumps((key, part, learnt), pickle.HIGHEST_PROTOCOL)


def read_answer(content: bytes) -> Answer:
    """Return what a worker made of a task."""
    key, found, learnt = pickle.loads(content)
    scores = found if isinstance(found, EvaluationFailed) else [_unpacked(one) for one in found]
    return Answer(key, scores, learnt)


class Evaluations:
    """The evaluation in a worker: tasks come in, answers go out.

    An evaluation that learns tells the search what it worked out, and hears what others did.
    """

    def __init__(self, evaluate: Evaluate) -> None:
        self._evaluate = evaluate
        self._learning = evaluate if isinstance(evaluate, Learning) else None
        if self._learning:
            self._learning.learnt()  # from now on

    def answer(self, content: bytes) -> bytes:
        """Return the answer to a task."""
        steps = self.steps(content)
        while True:
            try:
                next(steps)
            except StopIteration as end:
                answer: bytes = end.value
                return answer

    def steps(self, content: bytes) -> Generator[None, None, bytes]:
        """Work on a task, one evaluation from step to step; return the answer."""
        key, part, learnt = pickle.loads(content)
        if self._learning:
            for news in learnt:
                self._learning.learn(pickle.loads(news))
        found: list[object] = []
        try:
            # What evaluations remember has no cycles; looks at it take a seventh of their time, and a
            # fifth where Dask listens to each.
            with uncollected():
                for chromosome in part:
                    found.append(_packed(evaluated(self._evaluate, chromosome)))
                    yield
        except EvaluationFailed as error:
            return pickle.dumps((key, error, self._news()), pickle.HIGHEST_PROTOCOL)
        return pickle.dumps((key, found, self._news()), pickle.HIGHEST_PROTOCOL)

    def _news(self) -> bytes:
        news = self._learning.learnt() if self._learning else None
        return pickle.dumps(news, pickle.HIGHEST_PROTOCOL) if news else NOTHING


def settle() -> None:
    """Leave all that is there now out of later looks for reference cycles, in a worker.

    A look at everything takes as long as 20 evaluations, mostly for modules and networks, and while
    one worker looks the others wait for it at the end of the generation.
    """
    gc.collect()
    gc.freeze()


def _packed(score: Score) -> tuple[Any, ...]:
    """The numbers of a score, fractions as pairs, which travel in a fifth of the time."""
    return tuple(
        (one.numerator, one.denominator) if isinstance(one, Fraction) else one
        for one in (score.violation, *score.objectives)
    )


def _unpacked(numbers: tuple[Any, ...]) -> Score:
    violation, *objectives = [Fraction(*one) if isinstance(one, tuple) else one for one in numbers]
    return Score(objectives=tuple(objectives), violation=violation)

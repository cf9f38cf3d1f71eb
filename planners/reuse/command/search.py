"""The search of `csdf plan reuse`: ours, or the published evolution."""

from __future__ import annotations

import argparse
import functools
import os
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from random import Random

from cnn2csdf.describe import bytes_in_words
from csdf.cli import answers
from csdf.errors import CsdfError, GaveUp
from planners.reuse.cost.evaluation import Evaluator
from planners.reuse.front.guided.beyond_search import search_beyond
from planners.reuse.front.nsga2.checkpoint import Checkpoint
from planners.reuse.front.nsga2.nsga2 import Limits, evolve
from planners.reuse.front.nsga2.state import State, origin_of
from planners.reuse.front.nsga2.variation import Settings
from planners.reuse.front.places.evaluation import Place
from planners.reuse.front.places.places import cluster_place, local_place
from planners.reuse.front.problem import Front, Problem, Score
from planners.reuse.front.search_problem import score, search_problem


def searched(evaluator: Evaluator, options: argparse.Namespace) -> Front:
    """Return the front that the method chosen finds within the limits."""
    if options.checkpoint and options.method != "evolution":
        raise CsdfError("--checkpoint is for --method evolution")
    with _place(evaluator, options) as place:
        if options.method == "evolution":
            return _evolved(search_problem(evaluator, options.rows), place, options)
        return search_beyond(
            evaluator,
            random=Random(options.seed),
            evaluations=options.generations * options.population,
            alleles=options.rows,
            place=place,
            watch=answers.watch("searching", options.budget),
        ).front


def _evolved(problem: Problem, place: Place, options: argparse.Namespace) -> Front:
    """The evolution, from the two plans that everybody has: all whole, all by rows."""
    settings = Settings(population=max(2, options.population))
    whole = tuple(alleles[0] for alleles in problem.alleles)
    parts = tuple(alleles[-1] for alleles in problem.alleles)
    seeds = [whole] if whole == parts else [whole, parts]
    random = Random(options.seed)
    state: State | None = None
    keep = _progress()
    watch = _deadline(options.budget)
    if options.checkpoint:
        checkpoint = Checkpoint(options.checkpoint, problem)
        if os.path.exists(options.checkpoint):
            origin = origin_of(problem, random=random, settings=settings, seeds=seeds)
            with answers.working("evaluating again what the checkpoint says"):
                state = checkpoint.read(origin, place, watch)
        shown = keep

        def keep(now: State) -> None:
            shown(now)
            checkpoint.write(now)

    return evolve(
        problem,
        place,
        random=random,
        limits=Limits(generations=options.generations),
        settings=settings,
        seeds=seeds,
        watch=watch,
        keep=keep,
        state=state,
    )


def _place(evaluator: Evaluator, options: argparse.Namespace) -> AbstractContextManager[Place]:
    evaluate: Callable[[tuple[int, ...]], Score] = functools.partial(score, evaluator)
    if options.scheduler:
        return cluster_place(evaluate, options.scheduler)
    return local_place(evaluate, workers=options.workers)


def _deadline(budget: float) -> Callable[[], None]:
    begin = time.monotonic()

    def look() -> None:
        if time.monotonic() - begin > budget:
            raise GaveUp(f"the budget of {budget:g} s is used up")

    return look


def _progress() -> Callable[[State], None]:
    """Return a function that shows a generation now and then on standard error."""
    return answers.watch_progress(
        None,
        lambda state: (
            f"generation {state.generation}, {answers.counted(len(state.archive), 'point')}, smallest "
            f"{bytes_in_words(min((int(one.score.objectives[0]) for one in state.archive), default=0))}"
        ),
    )

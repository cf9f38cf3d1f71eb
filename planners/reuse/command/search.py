"""The search of `csdf plan reuse`: ours, or the published evolution."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from random import Random

from csdf.cli import answers
from csdf.cli.frame import long_work
from csdf.errors import CsdfError
from csdf.stopping import Progress, Stop
from csdf.words import bytes_in_words
from planners.reuse.cost.evaluation import Evaluator
from planners.reuse.front.guided.beyond_search import search_beyond
from planners.reuse.front.nsga2.checkpoint import Checkpoint
from planners.reuse.front.nsga2.nsga2 import SearchLimits, evolve
from planners.reuse.front.nsga2.state import SearchState, origin_of
from planners.reuse.front.nsga2.variation import Settings
from planners.reuse.front.places.evaluation import Place
from planners.reuse.front.places.places import cluster_place, local_place
from planners.reuse.front.problem import Front, Problem
from planners.reuse.front.search_problem import Scoring, search_problem


def searched(evaluator: Evaluator, options: argparse.Namespace, stop: Stop) -> Front:
    """Return the front that the method chosen finds within the limits."""
    if options.checkpoint and options.method != "evolution":
        raise CsdfError("--checkpoint is for --method evolution")
    with _place(evaluator, options) as place:
        if options.method == "evolution":
            return _evolved(search_problem(evaluator, options.rows), place, options, stop)
        return search_beyond(
            evaluator,
            random=Random(options.seed),
            evaluations=options.generations * options.population,
            alleles=options.rows,
            place=place,
            budget=long_work.telling(stop, "searching"),
        ).front


def _evolved(problem: Problem, place: Place, options: argparse.Namespace, stop: Stop) -> Front:
    """The evolution, from the two plans that everybody has: all whole, all by rows."""
    settings = Settings(population=max(2, options.population))
    whole = tuple(alleles[0] for alleles in problem.alleles)
    parts = tuple(alleles[-1] for alleles in problem.alleles)
    seeds = [whole] if whole == parts else [whole, parts]
    random = Random(options.seed)
    state: SearchState | None = None
    keep = _shown()
    if options.checkpoint:
        checkpoint = Checkpoint(options.checkpoint, problem)
        if os.path.exists(options.checkpoint):
            origin = origin_of(problem, random=random, settings=settings, seeds=seeds)
            with answers.working("evaluating again what the checkpoint says"):
                state = checkpoint.read(origin, place, stop)
        show = keep

        def keep(now: SearchState) -> None:
            show(now)
            checkpoint.write(now)

    return evolve(
        problem,
        place,
        random=random,
        limits=SearchLimits(generations=options.generations),
        settings=settings,
        seeds=seeds,
        budget=stop,
        keep=keep,
        state=state,
    )


def _place(evaluator: Evaluator, options: argparse.Namespace) -> AbstractContextManager[Place]:
    evaluate = Scoring(evaluator)
    if options.scheduler:
        return cluster_place(evaluate, options.scheduler)
    return local_place(evaluate, workers=options.workers)


def _shown() -> Callable[[SearchState], None]:
    """Return a function that shows a generation now and then on standard error."""
    report = long_work.shown(_in_words)

    def show(state: SearchState) -> None:
        sizes = (int(one.score.objectives[0]) for one in state.archive)
        smallest = min(sizes, default=0)
        report(Progress(done=state.generation, found=len(state.archive), best=smallest))

    return show


def _in_words(progress: Progress) -> str:
    return (
        f"generation {progress.done}, {answers.counted(progress.found, 'point')}, smallest "
        f"{bytes_in_words(progress.best or 0)}"
    )

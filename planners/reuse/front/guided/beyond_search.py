"""The search beyond the published one: exact seeds, a descent, and walks around the front.

Small problems are enumerated. For others the archive begins with the seeds, such as the chromosomes
of the exact front of loads and the smallest of each network on its own, with a climb from the smallest
of them, and with a greedy descent from layers that are all whole; walks go on from there, until the
evaluations or the time are over.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from random import Random

from csdf.stopping import Budget, Stop, stop_of
from planners.reuse.cost.evaluation import Evaluator
from planners.reuse.front.exact.load_front import LoadFront, load_front
from planners.reuse.front.guided.each_alone import smallest_of_each
from planners.reuse.front.guided.guided_search import GuidedSearch
from planners.reuse.front.guided.rationed import Rationed
from planners.reuse.front.guided.small_end import gains_of
from planners.reuse.front.guided.walks import WalkSettings
from planners.reuse.front.places.evaluation import Place, Serial
from planners.reuse.front.problem import Chromosome, Front, Problem
from planners.reuse.front.search_problem import PUBLISHED_ALLELES, WHOLE, score, search_problem


@dataclass(frozen=True, slots=True, kw_only=True)
class BeyondFront:
    """A front, and the exact fronts of loads it began with, one for each kind of part."""

    problem: Problem
    front: Front
    load_fronts: tuple[LoadFront, ...]


def search_beyond(
    evaluator: Evaluator,
    *,
    random: Random,
    evaluations: int | None = None,
    alleles: Sequence[int] = PUBLISHED_ALLELES,
    place: Place | None = None,
    settings: WalkSettings | None = None,
    seeds: Sequence[Chromosome] = (),
    budget: Budget = None,
) -> BeyondFront:
    """Return the best front of memory and periods that is found.

    seeds: chromosomes to begin with, such as the front of narrower genes. evaluations: of
    chromosomes, at most; None is no limit but that of `budget` (a stop, or seconds), which
    ends the search with the front so far, as Ctrl-C does. The same `random` and number of evaluations
    give the same front, wherever the evaluations run. Raises InvalidSearch, EvaluationFailed.
    """
    stop = stop_of(budget)
    problem = search_problem(evaluator, alleles)
    fronts: list[LoadFront] = []
    rationed = Rationed(place or Serial(partial(score, evaluator)), evaluations)
    search = GuidedSearch(
        problem,
        rationed,
        random=random,
        settings=settings or WalkSettings(),
        gains=gains_of(evaluator),
    )
    alone = smallest_of_each(evaluator, problem, rationed, random=random, stop=stop)
    found = search.run(chain(seeds, _seeds(evaluator, problem, fronts, stop), alone), stop)
    return BeyondFront(problem=problem, front=found, load_fronts=tuple(fronts))


def _seeds(
    evaluator: Evaluator, problem: Problem, fronts: list[LoadFront], stop: Stop
) -> Iterator[Chromosome]:
    """Chromosomes of the exact front of each kind of part, which is noted as soon as it is known."""
    kinds = dict.fromkeys(allele for values in problem.alleles for allele in values)
    for allele in kinds:
        if allele != WHOLE:
            fronts.append(load_front(evaluator, (allele,), budget=stop))
            for genes in fronts[-1].chromosomes:
                yield fitted(problem, tuple(gene or WHOLE for gene in genes))


def fitted(problem: Problem, alleles: Sequence[int]) -> Chromosome:
    """Return the chromosome in which a layer without the allele wanted has its last one."""
    return tuple(
        allele if allele in values else values[-1]
        for allele, values in zip(alleles, problem.alleles, strict=True)
    )

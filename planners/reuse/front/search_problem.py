"""The choice of parts as a problem for the evolution: Algorithm 9's chromosomes and objectives.

An allele is the rows of a part, 0 for the whole. Alleles that come to the same are left out: a layer
that always works as a whole has one.
Source: Minakova and Stefanov, TODAES 28(1), 2022, Algorithm 9 of the thesis.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from planners.reuse.cost.evaluation import Evaluator
from planners.reuse.front.problem import Chromosome, Problem, Score, fingerprint_of

WHOLE = 0
PUBLISHED_ALLELES = (WHOLE, 1)


def search_problem(evaluator: Evaluator, alleles: Sequence[int] = PUBLISHED_ALLELES) -> Problem:
    """Return the genes of an application; objectives are bytes, and seconds a frame by network."""
    application = evaluator.application
    useful = {
        (application.members[number].name, layer): _useful(evaluator, partition, place, alleles)
        for partition, (number, one) in enumerate(application.partitions)
        for place, layer in enumerate(one.layers)
    }
    return Problem(
        identity=_identity(evaluator),
        alleles=tuple(useful[layer] for layer in application.layers),
        objectives=("memory", *(f"period of {member.name}" for member in application.members)),
    )


def _identity(evaluator: Evaluator) -> str:
    """A text that only the same application at the same costs has; sets in a fixed order."""
    members = [
        (member.network, member.partitions, sorted(member.outside))
        for member in evaluator.application.members
    ]
    parallel = [sorted(group) for group in evaluator.application.parallel]
    return fingerprint_of((evaluator.application.name, members, parallel, evaluator.costs))


def _useful(
    evaluator: Evaluator, partition: int, layer: int, alleles: Sequence[int]
) -> tuple[int, ...]:
    """The first allele of each number of rows that the layer really has."""
    table = evaluator.models[partition].table
    found: dict[int, int] = {}
    for allele in alleles:
        found.setdefault(table.part_rows(layer, allele or None), allele)
    return tuple(found.values())


def score(evaluator: Evaluator, chromosome: Chromosome) -> Score:
    """Return the objectives of a chromosome; with functools.partial, what the evolution calls."""
    found = evaluator.evaluate(tuple([allele or None for allele in chromosome]))
    return Score(objectives=(found.memory, *found.periods))


class Scoring:
    """The objectives of chromosomes, as workers evaluate them, who tell one another what they learn."""

    def __init__(self, evaluator: Evaluator) -> None:
        self._evaluator = evaluator

    def __call__(self, chromosome: Chromosome) -> Score:
        """Return the objectives of a chromosome."""
        return score(self._evaluator, chromosome)

    def learnt(self) -> Sequence[object]:
        """Return what was worked out since the last call."""
        return self._evaluator.learnt()

    def learn(self, learnt: Any) -> None:
        """Remember what another worker has worked out."""
        self._evaluator.learn(learnt)

"""The searched problem: chromosomes, exact scores, and the archive of all nondominated points.

For an application it is the problem of Algorithm 9: an allele is the rows of a part, or WHOLE; the
objectives are bytes, and seconds per frame of each network. Of alleles with equal parts the first
remains: a layer that is always executed whole has one allele.
Source: Minakova and Stefanov, TODAES 28(1), 2022, Algorithm 9 of the thesis.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from hashlib import sha256
from math import inf, prod

import numpy as np
from numpy.typing import NDArray

from csdf.errors import CsdfError, counted
from csdf.status import Reason, Why
from planners.reuse.application import WHOLE, Chromosome
from planners.reuse.evaluation import Evaluator

Number = int | Fraction
SHOWN = 8  # genes of a chromosome in a message
PUBLISHED_ALLELES = (WHOLE, 1)


class InvalidSearch(CsdfError):
    """A search problem, a setting, a chromosome or a score that breaks a rule."""


class EvaluationFailed(CsdfError):
    """An evaluation that ended with an error; the message names the chromosome."""


class LostWorkers(CsdfError):
    """The processes or machines that evaluate are gone, and new ones did not help."""


Score = tuple[Number, ...]
"""The objectives of a chromosome: each is minimised, in exact numbers."""

Evaluate = Callable[[Chromosome], Score]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReuseProblem:
    """Genes with their alleles, and the names of the objectives.

    identity: a text that identifies this problem, such as its file; a checkpoint of a problem with
    another identity is refused.
    """

    identity: str
    alleles: tuple[tuple[int, ...], ...]  # one tuple of different values per gene
    objectives: tuple[str, ...]

    def __post_init__(self) -> None:
        if not self.alleles or not self.objectives:
            raise InvalidSearch("a problem needs at least one gene and one objective")
        for gene, values in enumerate(self.alleles):
            if not values or len(set(values)) < len(values):
                raise InvalidSearch(
                    f"gene {gene}: found the alleles {values}; expected at least one, all different"
                )

    @property
    def size(self) -> int:
        """The number of different chromosomes."""
        return prod(map(len, self.alleles))

    @property
    def all_in_parts(self) -> Chromosome:
        """The smallest parts of each gene; WHOLE of a gene without parts."""
        return tuple(min(filter(None, values), default=WHOLE) for values in self.alleles)

    @property
    def free_genes(self) -> list[int]:
        """The genes with several alleles."""
        return [gene for gene, values in enumerate(self.alleles) if len(values) > 1]

    @property
    def fingerprint(self) -> str:
        """A text of fixed length that differs between problems."""
        return _fingerprint((self.identity, self.alleles, self.objectives))

    def allele_or_last(self, gene: int, allele: int) -> int:
        """Return the allele, or the last allele of the gene if it does not have this one."""
        values = self.alleles[gene]
        return allele if allele in values else values[-1]

    def fitted(self, wanted: Sequence[int]) -> Chromosome:
        """Return the chromosome with the wanted alleles; the last of each gene without the wanted."""
        return tuple(self.allele_or_last(gene, allele) for gene, allele in enumerate(wanted))

    def require_chromosome(self, chromosome: Chromosome) -> None:
        """Raise InvalidSearch unless there is one allele per gene."""
        if len(chromosome) != len(self.alleles):
            raise InvalidSearch(
                f"chromosome {shown(chromosome)}: {len(chromosome)} genes; "
                f"the problem has {len(self.alleles)}"
            )
        for gene, (value, values) in enumerate(zip(chromosome, self.alleles, strict=True)):
            if value not in values:
                raise InvalidSearch(f"gene {gene}: found {value}; its alleles are {values}")

    def require_score(self, chromosome: Chromosome, score: Score) -> None:
        """Raise InvalidSearch unless there is one exact value per objective."""
        if len(score) != len(self.objectives):
            raise InvalidSearch(
                f"chromosome {shown(chromosome)}: a score of {counted(len(score), 'value')}; "
                f"the objectives are {', '.join(self.objectives)}"
            )
        for value in score:
            if not isinstance(value, int | Fraction):
                raise InvalidSearch(f"score: found {value!r}; expected an int or a Fraction")


def _fingerprint(value: object) -> str:
    """32 hexadecimal digits that differ between values with different `repr`."""
    return sha256(repr(value).encode()).hexdigest()[:32]


def shown(chromosome: Chromosome) -> str:
    """Return the first genes, for messages."""
    genes = ", ".join(map(str, chromosome[:SHOWN]))
    rest = len(chromosome) - SHOWN
    return f"({genes}, ... {rest} more)" if rest > 0 else f"({genes})"


def search_problem(
    evaluator: Evaluator, alleles: Sequence[int] = PUBLISHED_ALLELES
) -> ReuseProblem:
    """Return the genes of an application; objectives are bytes, and seconds a frame by network.

    The alleles of a gene are WHOLE, if it is among `alleles`, then parts from the smallest on.
    """
    application = evaluator.application
    useful: dict[tuple[str, str], tuple[int, ...]] = {}
    for model, (number, partition) in zip(evaluator.models, application.partitions, strict=True):
        for layer_number, layer in enumerate(partition.layers):
            # The first allele of each number of rows that a part can have.
            allele_of_rows: dict[int, int] = {}
            for allele in sorted(alleles):
                allele_of_rows.setdefault(model.table.part_rows(layer_number, allele), allele)
            useful[application.members[number].name, layer] = tuple(allele_of_rows.values())
    # Different for another application or other costs; sets are sorted, so that runs agree.
    members = [
        (member.network, member.partitions, sorted(member.outside))
        for member in application.members
    ]
    parallel = [sorted(group) for group in application.parallel]
    return ReuseProblem(
        identity=_fingerprint((application.name, members, parallel, evaluator.costs)),
        alleles=tuple(useful[layer] for layer in application.layers),
        objectives=("memory", *(f"period of {member.name}" for member in application.members)),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A chromosome and its score, in the search with the bytes of whole buffers."""

    chromosome: Chromosome
    score: Score

    @property
    def memory(self) -> int:
        """The first objective of an application, bytes."""
        return int(self.score[0])

    @property
    def periods(self) -> tuple[Number, ...]:
        """Objectives after the first: seconds per frame of each network."""
        return self.score[1:]

    @property
    def time(self) -> Fraction:
        """Seconds for a frame of every network, in sequence."""
        return Fraction(sum(self.periods))


def scored(evaluator: Evaluator, chromosome: Chromosome) -> Point:
    """Return a chromosome with its score."""
    return Point(chromosome=chromosome, score=evaluator.evaluate(chromosome))


class SearchEnd(Why):
    """Why a search for a front is at its end."""

    AT_ONCE = "all layers whole fit, so nothing was searched"
    EVERY_ONE = "every chromosome was evaluated"
    EVALUATIONS = "the limit of {count} evaluation{s} was reached"
    GENERATIONS = "the limit of {count} generation{s} was reached"
    NOTHING_NEW = "{rounds} rounds of threshold accepting met nothing new"


@dataclass(frozen=True, slots=True, kw_only=True)
class Front:
    """The nondominated chromosomes of a search.

    points: in the order of the objectives; of chromosomes with equal objectives the first evaluated.
    is_finished: whether the search ended by itself or by a number of generations or evaluations, so
    that the same seed gives the same front. is_proved: whether every chromosome was evaluated.
    """

    points: tuple[Point, ...]
    is_finished: bool
    is_proved: bool
    reason: Reason
    generations: int
    evaluations: int


class Archive:
    """The front so far; of points with equal objectives the first remains."""

    def __init__(self) -> None:
        self.points: tuple[Point, ...] = ()  # in the order of their evaluation

    def add(self, points: Sequence[Point]) -> None:
        """Add the points, and remove all dominated points."""
        if not points:
            return
        candidates = [*self.points, *points]
        ranks = ranks_of([point.score for point in candidates])
        count = len(self.points)
        new = ranks[count:]
        indices = np.arange(len(candidates))
        # Matrices (new, candidates): whether the new point is at most, equal to, before the candidate.
        below = at_most(new, ranks)
        equal = below & at_most(ranks, new).T
        earlier = indices[count:, None] < indices[None, :]
        dominated: Truths = np.any(below & (~equal | earlier), axis=0)
        dominated[count:] |= at_most(ranks[:count], new).any(axis=0)
        self.points = tuple(candidates[index] for index in np.flatnonzero(~dominated))

    def by_objectives(self) -> tuple[Point, ...]:
        """Return the points in ascending order of the objectives."""
        return tuple(sorted(self.points, key=lambda point: [(rounded(v), v) for v in point.score]))


Integers = NDArray[np.int64]
Truths = NDArray[np.bool_]


def rounded(value: Number) -> float:
    """Return the nearest float. Rounding is monotone: of different floats the order is exact."""
    try:
        return float(value)
    except OverflowError:
        return inf if value > 0 else -inf


def integer_ranks(values: Sequence[Number]) -> list[int]:
    """Return for each value the number of distinct smaller values."""
    keys = [(rounded(value), value) for value in values]
    ranks = [0] * len(values)
    rank = 0
    previous = None
    for index in sorted(range(len(keys)), key=keys.__getitem__):
        rank += previous is not None and keys[index] != previous
        previous = keys[index]
        ranks[index] = rank
    return ranks


def ranks_of(objectives: Sequence[Sequence[Number]]) -> Integers:
    """Return the ranks of values within each objective, (values, objectives)."""
    return np.array([integer_ranks(column) for column in zip(*objectives, strict=True)]).T


def at_most(left: Integers, right: Integers) -> Truths:
    """Return (len(left), len(right)) whether left[i] is at most right[j] in all objectives."""
    result = left[:, None, 0] <= right[None, :, 0]
    for objective in range(1, left.shape[1]):
        result &= left[:, None, objective] <= right[None, :, objective]
    return result

"""The searched problem: genes with their alleles, scores in exact numbers, and what goes wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from hashlib import sha256
from math import prod
from typing import Any, Protocol, runtime_checkable

from csdf.errors import CsdfError, counted
from csdf.outcome import Reason, Why

Number = int | Fraction
Chromosome = tuple[int, ...]
SHOWN = 8  # genes of a chromosome in a message


class InvalidSearch(CsdfError):
    """A search problem, a setting, a chromosome or a score that breaks a rule."""


class EvaluationFailed(CsdfError):
    """An evaluation that ended with an error; the message names the chromosome."""


class LostWorkers(CsdfError):
    """The processes or machines that evaluate are gone, and new ones did not help."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """The scores of a chromosome: every objective is minimised, in exact numbers.

    violation: by how much the constraints are missed; 0 where all are met.
    """

    objectives: tuple[Number, ...]
    violation: Number = 0

    def __post_init__(self) -> None:
        for value in (*self.objectives, self.violation):
            if not isinstance(value, int | Fraction):
                raise InvalidSearch(f"score: found {value!r}; expected an int or a Fraction")
        if not self.objectives:
            raise InvalidSearch("score: there is no objective")
        if self.violation < 0:
            raise InvalidSearch(f"score: a violation of {self.violation}; expected at least 0")


Evaluate = Callable[[Chromosome], Score]


@runtime_checkable
class Learning(Protocol):
    """An evaluation that remembers what it works out, and can tell it to its twins in other processes.

    Nothing that is told changes a score: it is what the twin would work out itself.
    """

    def learnt(self) -> object:
        """Return what was worked out since the last call, for `learn`; something false if nothing."""

    def learn(self, learnt: Any) -> None:
        """Remember what a twin has worked out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Genes with their alleles, and the names of the objectives.

    identity: a text that tells this problem from all others, such as the file it came from; a
    checkpoint of a problem with another identity is refused.
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
    def fingerprint(self) -> str:
        """A text of fixed length that differs between problems."""
        return fingerprint_of((self.identity, self.alleles, self.objectives))

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
        """Raise InvalidSearch unless there is one value per objective."""
        if len(score.objectives) != len(self.objectives):
            raise InvalidSearch(
                f"chromosome {shown(chromosome)}: a score of "
                f"{counted(len(score.objectives), 'value')}; "
                f"the objectives are {', '.join(self.objectives)}"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A chromosome and its score."""

    chromosome: Chromosome
    score: Score


class FrontWhy(Why):
    """Why a search for a front is at its end."""

    AT_ONCE = "all layers whole fit, so nothing was searched"
    EVERY_ONE = "every chromosome was evaluated"
    EVALUATIONS = "the limit of {count} evaluation{s} was reached"
    GENERATIONS = "the limit of {count} generation{s} was reached"
    NOTHING_NEW = "{rounds} rounds of walks met nothing new"


@dataclass(frozen=True, slots=True, kw_only=True)
class Front:
    """The best chromosomes met: none of them is dominated, and all meet the constraints.

    points: by objectives; of chromosomes with equal objectives the first that was met. is_finished:
    whether the search ended by itself or by a number of generations or evaluations, so that the same
    seed gives the same front; if not, `reason` says what ended it. is_proved: whether every
    chromosome was evaluated. least_violation: the least met; None if nothing was evaluated.
    """

    points: tuple[Point, ...]
    is_finished: bool
    is_proved: bool
    reason: Reason
    generations: int
    evaluations: int
    least_violation: Number | None


def shown(chromosome: Chromosome) -> str:
    """Return the first genes, for messages."""
    genes = ", ".join(map(str, chromosome[:SHOWN]))
    rest = len(chromosome) - SHOWN
    return f"({genes}, ... {rest} more)" if rest > 0 else f"({genes})"


def fingerprint_of(value: object) -> str:
    """Return 32 hexadecimal digits that differ between values with different `repr`."""
    return sha256(repr(value).encode()).hexdigest()[:32]

"""The small end of the front: climbs of single genes, then runs and handfuls, for memory alone.

A climb goes over all genes and takes each change that needs no more memory: where several buffers are
equally large nothing is gained before the last of them has shrunk, so equal steps are taken too. Genes
go first with which most could be gained, those of layers beside the tensors that fill a buffer; others
follow in random order. A sweep that gains nothing is followed by larger changes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from random import Random

from csdf.stopping import Stop
from planners.reuse.application.application import Genes
from planners.reuse.cost.evaluation import Evaluator
from planners.reuse.cost.gains import gains
from planners.reuse.front.archive import Archive
from planners.reuse.front.guided.moves import MOST_WIDE
from planners.reuse.front.guided.rationed import Rationed, evaluated_points
from planners.reuse.front.problem import Chromosome, Number, Problem

CLIMBS = 3  # what part of a limited number of evaluations each kind of climb may make, at most
UNLIMITED = 20  # evaluations for each gene where their number is not limited
FEW = 3  # genes of a handful, at most
IDLE = 4  # sweeps, and as many larger changes, that gain nothing; then the climb is at its end

Memory = Callable[[Chromosome], Number]
Gains = Callable[[Chromosome], Mapping[int, int]]  # what could be gained, for some of the genes


def unknown(chromosome: Chromosome) -> Mapping[int, int]:  # noqa: ARG001 - of the same for all
    """Return no gain for any gene."""
    return {}


def climbed(
    start: Chromosome,
    genes: Sequence[int],
    problem: Problem,
    memory: Memory,
    random: Random,
    gains: Gains = unknown,
    *,
    most_idle: int = IDLE,
) -> Iterator[Chromosome]:
    """Yield chromosomes with less memory than `start`, each with less than those before.

    genes: those that may change. gains: by which genes are chosen first. It ends after `most_idle`
    sweeps without a gain; `memory` may end it before.
    """
    now, least = start, memory(start)
    idle = 0
    while genes and idle < most_idle:
        is_better = False
        left = random.sample(genes, len(genes))
        first = gains(now)
        while left:
            gene = max(left, key=lambda one: first.get(one, 0))
            left.remove(gene)
            other = _changed(now, gene, genes, problem, random, is_larger=idle > 0)
            found = memory(other)
            if found < least:
                is_better = True
                yield other
            if found <= least:
                now, least, first = other, found, gains(other)
        idle = 0 if is_better else idle + 1


def _changed(
    now: Chromosome,
    gene: int,
    genes: Sequence[int],
    problem: Problem,
    random: Random,
    *,
    is_larger: bool,
) -> Chromosome:
    """The chromosome with one gene changed, or with a run or a handful of others."""
    changed = list(now)
    if not is_larger:
        _change(changed, gene, problem, random)
    elif random.random() < 0.5:
        _change_run(changed, genes, problem, random)
    else:
        for one in random.sample(genes, min(len(genes), random.randint(2, FEW))):
            _change(changed, one, problem, random)
    return tuple(changed)


def _change(changed: list[int], gene: int, problem: Problem, random: Random) -> None:
    others = [allele for allele in problem.alleles[gene] if allele != changed[gene]]
    changed[gene] = random.choice(others)


def _change_run(changed: list[int], genes: Sequence[int], problem: Problem, random: Random) -> None:
    begin = random.randrange(len(genes))
    run = genes[begin : begin + random.randint(2, MOST_WIDE)]
    allele = random.choice(problem.alleles[run[0]])
    for gene in run:
        values = problem.alleles[gene]
        changed[gene] = allele if allele in values else values[-1]


class Enough(Exception):
    """A climb has made its evaluations."""


def climb_smallest(
    problem: Problem,
    place: Rationed,
    archive: Archive,
    *,
    gains: Gains = unknown,
    random: Random,
    stop: Stop,
) -> None:
    """Climb from the smallest point of the archive; all that is looked at goes into it.

    With a limited number of evaluations it makes one of CLIMBS equal parts of them.
    """
    genes = free_genes(problem)
    end = place.evaluations + (place.share(CLIMBS) or UNLIMITED * len(genes))

    def memory(chromosome: Chromosome) -> Number:
        if place.evaluations >= end:
            raise Enough
        (point,) = evaluated_points(place, [chromosome], archive, stop)
        return point.score.objectives[0]

    start = min(archive.points, key=lambda point: point.score.objectives[0])
    with suppress(Enough):
        deque(climbed(start.chromosome, genes, problem, memory, random, gains), maxlen=0)


def gains_of(evaluator: Evaluator) -> Gains:
    """Return the gains by the whole buffers of an application."""
    return lambda chromosome: gains(evaluator, evaluator.buffers(genes_at(chromosome)))


def genes_at(chromosome: Chromosome) -> Genes:
    """Return the genes that the evaluator takes."""
    return tuple([allele or None for allele in chromosome])


def free_genes(problem: Problem) -> list[int]:
    """Return the genes that have a choice."""
    return [gene for gene, values in enumerate(problem.alleles) if len(values) > 1]

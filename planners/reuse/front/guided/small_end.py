"""The small end of the front: climbs of single genes, then runs and handfuls, for memory alone.

A climb goes over all genes and takes each change that needs no more memory: where several buffers are
equally large nothing is gained before the last of them has shrunk, so equal steps are taken too. Genes
go first with which most could be gained, those of layers beside the tensors that fill a buffer; others
follow in random order. A sweep that gains nothing is followed by larger changes.

Networks that take turns are first searched each on its own. Together the largest of them hides what the
others gain, and a single change of one of them seldom pays.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
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
) -> Iterator[Chromosome]:
    """Yield chromosomes with less memory than `start`, each with less than those before.

    genes: those that may change. gains: by which genes are chosen first. It ends after IDLE sweeps
    without a gain; `memory` may end it before.
    """
    now, least = start, memory(start)
    idle = 0
    while genes and idle < IDLE:
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


class _Enough(Exception):
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
            raise _Enough
        (point,) = evaluated_points(place, [chromosome], archive, stop)
        return point.score.objectives[0]

    start = min(archive.points, key=lambda point: point.score.objectives[0])
    with suppress(_Enough):
        deque(climbed(start.chromosome, genes, problem, memory, random, gains), maxlen=0)


def gains_of(evaluator: Evaluator) -> Gains:
    """Return the gains by the whole buffers of an application."""
    return lambda chromosome: gains(evaluator, evaluator.buffers(_genes(chromosome)))


def smallest_of_each(
    evaluator: Evaluator, problem: Problem, place: Rationed, *, random: Random, stop: Stop
) -> Iterator[Chromosome]:
    """Yield the chromosome of what each network needs least on its own; none for a single network."""
    members = len(evaluator.application.members)
    if members == 1:
        return

    def memory(member: int, chromosome: Chromosome) -> int:
        place.charge()
        return evaluator.alone(member, _genes(chromosome))

    def gained(member: int, chromosome: Chromosome) -> Mapping[int, int]:
        return gains(evaluator, evaluator.buffers_alone(member, _genes(chromosome)))

    yield _each_climbed(
        evaluator,
        problem,
        memory,
        gained,
        most=place.share(CLIMBS * members),
        random=random,
        stop=stop,
    )


def least_in_use(
    evaluator: Evaluator, problem: Problem, *, random: Random, stop: Stop
) -> Chromosome:
    """Return the chromosome with the least in use together in each network: the least for offsets.

    Where `stop` ends it, networks behind that work by parts.
    """

    def memory(member: int, chromosome: Chromosome) -> int:
        return evaluator.in_use(member, _genes(chromosome))

    def gained(member: int, chromosome: Chromosome) -> Mapping[int, int]:  # noqa: ARG001
        return {}

    return _each_climbed(evaluator, problem, memory, gained, most=None, random=random, stop=stop)


def _each_climbed(
    evaluator: Evaluator,
    problem: Problem,
    memory: Callable[[int, Chromosome], Number],
    gained: Callable[[int, Chromosome], Mapping[int, int]],
    *,
    most: int | None,
    random: Random,
    stop: Stop,
) -> Chromosome:
    """The chromosome with the genes of each network climbed on their own, from all layers by parts.

    memory, gained: of one network. most: calls for each network; None for UNLIMITED for each gene.
    """
    found = tuple(values[len(values) > 1] for values in problem.alleles)
    for member, own in enumerate(genes_of_members(evaluator)):
        genes = [gene for gene in own if len(problem.alleles[gene]) > 1]
        left = iter(range(UNLIMITED * len(genes) if most is None else most))

        def limited(
            chromosome: Chromosome, member: int = member, left: Iterator[int] = left
        ) -> Number:
            if stop.is_over() or next(left, None) is None:
                raise _Enough
            return memory(member, chromosome)

        with suppress(_Enough):
            for better in climbed(found, genes, problem, limited, random, partial(gained, member)):
                found = better
    return found


def _genes(chromosome: Chromosome) -> Genes:
    return tuple([allele or None for allele in chromosome])


def free_genes(problem: Problem) -> list[int]:
    """Return the genes that have a choice."""
    return [gene for gene, values in enumerate(problem.alleles) if len(values) > 1]


def genes_of_members(evaluator: Evaluator) -> list[tuple[int, ...]]:
    """Return the places of the genes of each network."""
    members = [member.name for member in evaluator.application.members]
    return [
        tuple(n for n, (owner, _) in enumerate(evaluator.application.layers) if owner == name)
        for name in members
    ]

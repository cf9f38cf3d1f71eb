"""A search that begins at seeds, a climb and a descent, and goes on by walks around the front.

Greedy descents: again and again the run of layers whose parts save most memory for the time.

Walks from the front: threshold accepting, each walk with its own weights of the objectives.

A walk begins at the point of the front that is best by its weights, or at any other, and goes on to
any neighbour that is not worse by more than a threshold, which falls to nothing. Walks go in step, so
that what they look at next can be evaluated together; where that happens changes nothing.
Source: Dueck and Scheuer, Threshold accepting, Journal of Computational Physics 90(1), 1990.

Small changes of a chromosome: one gene, two, a border, a run.

The small end of the front: climbs of single genes, then runs and handfuls, for memory alone.

A climb goes over all genes and takes each change that needs no more memory: where several buffers are
equally large nothing is gained before the last of them has shrunk, so equal steps are taken too. Genes
go first with which most could be gained, those of layers beside the tensors that fill a buffer; others
follow in random order. A sweep that gains nothing is followed by larger changes.

How much smaller buffers could be, by the layers that it depends on: where a climb looks first.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from fractions import Fraction
from itertools import islice, pairwise, product
from random import Random

from csdf.outcome import Reason, because
from csdf.time_limit import ENDS, Budget, Stop, reason_of, stop_of
from planners.reuse.application.application import Genes
from planners.reuse.cost.evaluation import Buffers, Evaluator
from planners.reuse.front.archive import Archive
from planners.reuse.front.places.evaluation import BATCH, Place, Rationed, Spent, evaluated_points
from planners.reuse.front.problem import (
    Chromosome,
    Front,
    FrontWhy,
    LostWorkers,
    Number,
    Point,
    Problem,
    Score,
)

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


def gains(evaluator: Evaluator, buffers: Buffers) -> dict[int, int]:
    """Return for each gene by how many elements a buffer shrinks if all that fill it shrink.

    An edge fills its buffer if it is as large as the buffer; without the edges that fill it, the buffer
    is as large as the next one. A gene counts for the edges that its layer writes and reads. Genes of
    layers that fill no buffer are left out, and so are edges that are cut: these are always whole.
    """
    places = {layer: place for place, layer in enumerate(evaluator.application.layers)}
    found: dict[int, int] = {}
    for gain, edges in _filled(evaluator, buffers):
        for number in edges:
            edge = evaluator.edges[number]
            name = evaluator.application.members[edge.member].name
            for layer in (edge.connection.producer, edge.connection.consumer):
                place = places[name, layer]
                found[place] = max(gain, found.get(place, 0))
    return found


def _filled(evaluator: Evaluator, buffers: Buffers) -> Iterator[tuple[int, list[int]]]:
    """Pairs: how much a buffer could shrink, and the edges that fill it."""
    for buffer in buffers.shared:
        sizes = [buffers.sizes[edge] for edge in buffer.edges]
        next_size = max((size for size in sizes if size < buffer.size), default=0)
        edges = [edge for edge in buffer.edges if buffers.sizes[edge] == buffer.size]
        if buffer.size and all(evaluator.edges[edge].inner is not None for edge in edges):
            yield buffer.size - next_size, edges


ENUMERATED = 1024  # chromosomes up to which all are tried
IDLE_ROUNDS = 25  # without a chromosome never seen; then the search is at its end


class GuidedSearch:
    """A search; the first objective is memory, the others are times.

    The first allele of a gene is the whole.
    """

    def __init__(
        self,
        problem: Problem,
        place: Rationed,
        *,
        random: Random,
        settings: WalkSettings,
        gains: Gains = unknown,
    ) -> None:
        self._problem = problem
        self._place = place
        self._random = random
        self._settings = settings
        self._gains = gains
        self._archive = Archive()
        self._rounds = 0

    def run(self, seeds: Iterable[Chromosome], stop: Stop) -> Front:
        """Return the front that is found; `stop` or Ctrl-C may end the search."""
        try:
            reason = self._searched(seeds, stop)
        except Spent as spent:
            reason = spent.reason
        except (*ENDS, LostWorkers) as end:
            return self._front(reason_of(end), is_finished=False)
        return self._front(reason, is_finished=True)

    def _searched(self, seeds: Iterable[Chromosome], stop: Stop) -> Reason:
        """Search; return why it is at its end."""
        if self._problem.size <= ENUMERATED:
            self._add_all(product(*self._problem.alleles), stop)
            return because(FrontWhy.EVERY_ONE)
        whole = tuple(values[0] for values in self._problem.alleles)
        parts = tuple(values[len(values) > 1] for values in self._problem.alleles)
        self._add_all([whole, parts], stop)
        self._add_all(seeds, stop)
        climb_smallest(
            self._problem,
            self._place,
            self._archive,
            gains=self._gains,
            random=self._random,
            stop=stop,
        )
        smallest = min(allele for values in self._problem.alleles for allele in values[1:])
        descend(self._problem, self._place, self._archive, whole, allele=smallest, budget=stop)
        return self._walked(stop)

    def _add_all(self, chromosomes: Iterable[Chromosome], stop: Stop) -> None:
        """Evaluate in order; what was evaluated before an end stays."""
        rest = iter(chromosomes)
        while some := list(islice(rest, BATCH)):
            evaluated_points(self._place, some, self._archive, stop)

    def _walked(self, stop: Stop) -> Reason:
        idle = 0
        while idle < IDLE_ROUNDS:
            before = self._place.evaluations
            walk_round(
                self._problem,
                self._place,
                self._archive,
                random=self._random,
                settings=self._settings,
                stop=stop,
            )
            self._rounds += 1
            idle = 0 if self._place.evaluations > before else idle + 1
        return because(FrontWhy.NOTHING_NEW, rounds=IDLE_ROUNDS)

    def _front(self, reason: Reason, *, is_finished: bool) -> Front:
        return Front(
            points=self._archive.by_objectives(),
            is_finished=is_finished,
            is_proved=self._place.seen == self._problem.size,
            reason=reason,
            generations=self._rounds,
            evaluations=self._place.evaluations,
            least_violation=self._archive.least_violation,
        )


def descend(
    problem: Problem,
    place: Place,
    archive: Archive,
    start: Chromosome,
    *,
    allele: int,
    budget: Budget = None,
) -> None:
    """Descend until no run saves memory; all that is looked at goes into the archive.

    The first objective is memory, the others are times. allele: what the layers of a run get. Of
    equal runs the first is taken. O(genes) evaluations a step.
    """
    stop = stop_of(budget)
    moves = Moves(problem)
    now = evaluated_points(place, [start], archive, stop)[0]
    while True:
        nearby = dict.fromkeys(moves.runs(now.chromosome, allele))
        found = evaluated_points(place, list(nearby), archive, stop)
        smaller = [one for one in found if one.score.objectives[0] < now.score.objectives[0]]
        if not smaller:
            return
        now = min(smaller, key=lambda one: _price(now, one))


def _price(before: Point, after: Point) -> Fraction:
    """Time lost, of all networks, for each byte saved."""
    memory, *times = before.score.objectives
    less, *longer = after.score.objectives
    return Fraction(sum(longer) - sum(times)) / Fraction(memory - less)


HEAVIEST = 16  # weight of an objective
MEMORY_ALONE = 256  # against 1 for each other objective: of equal points the faster is better


@dataclass(frozen=True, slots=True, kw_only=True)
class WalkSettings:
    """How long walks are, and how high a threshold they begin with.

    threshold: a part of what the front extends over. memory_walks: of the walks of a round, those
    with the least memory as their aim; the others have random weights.
    """

    walks: int = 8
    memory_walks: int = 3
    steps: int = 500
    threshold: Fraction = Fraction(1, 100)


class _Scale:
    """Objectives as parts of what a front extends over, weighed and added up."""

    def __init__(self, front: Sequence[Point], weights: Sequence[int]) -> None:
        columns = list(zip(*(point.score.objectives for point in front), strict=True))
        self._factors = [
            Fraction(weight, sum(weights)) / ((max(column) - min(column)) or 1)
            for weight, column in zip(weights, columns, strict=True)
        ]

    def cost(self, score: Score) -> Fraction:
        terms = zip(self._factors, score.objectives, strict=True)
        return sum((factor * value for factor, value in terms), Fraction(0))

    def best(self, front: Sequence[Point]) -> Point:
        return min(front, key=lambda point: self.cost(point.score))


class _Walk:
    """The position of a walk."""

    def __init__(self, scale: _Scale, begin: Point) -> None:
        self._scale = scale
        self.chromosome = begin.chromosome
        self._cost = scale.cost(begin.score)

    def offer(self, chromosome: Chromosome, score: Score, threshold: Fraction) -> None:
        """Go there, if it is not too much worse."""
        cost = self._scale.cost(score)
        if cost <= self._cost + threshold:
            self.chromosome, self._cost = chromosome, cost


def walk_round(
    problem: Problem,
    place: Place,
    archive: Archive,
    *,
    random: Random,
    settings: WalkSettings,
    stop: Stop,
) -> None:
    """Walk once from an archive that has a point; what is met goes into the archive.

    So does what was met before `stop` or Ctrl-C ended it.
    """
    moves = Moves(problem)
    walks = list(_begun(archive.by_objectives(), random, settings))
    met: list[Point] = []
    try:
        for step in range(settings.steps):
            threshold = settings.threshold * Fraction(settings.steps - step - 1, settings.steps)
            offers = [moves.drawn(random, walk.chromosome) for walk in walks]
            with closing(place.scores(offers, stop)) as scores:
                for walk, chromosome, score in zip(walks, offers, scores, strict=True):
                    met.append(Point(chromosome=chromosome, score=score))
                    walk.offer(chromosome, score, threshold)
    finally:
        archive.add(met)


def _begun(front: Sequence[Point], random: Random, settings: WalkSettings) -> Iterator[_Walk]:
    """Yield the walks of a round, each with a place to begin."""
    others = len(front[0].score.objectives) - 1
    for number in range(settings.walks):
        if number < settings.memory_walks:
            weights = [MEMORY_ALONE, *(1 for _ in range(others))]
        else:
            weights = [random.randint(1, HEAVIEST) for _ in range(others + 1)]
        scale = _Scale(front, weights)
        yield _Walk(scale, random.choice(front) if number % 2 else scale.best(front))


WIDTHS = (1, 2, 4, 8)  # of the runs that a descent tries
MOST_WIDE = 12  # genes of a run that a walk changes
MOVES = 8  # the numbers of `Moves.drawn`, of which three are one gene and two are a border


class Moves:
    """Changes of the chromosomes of one problem; genes with one allele stay as they are."""

    def __init__(self, problem: Problem) -> None:
        self._alleles = problem.alleles
        self.free = [gene for gene, values in enumerate(problem.alleles) if len(values) > 1]

    def drawn(self, random: Random, chromosome: Chromosome) -> Chromosome:
        """Return another chromosome nearby, or the same one where there is no other."""
        if not self.free:
            return chromosome
        genes = list(chromosome)
        kind = random.randrange(MOVES)
        if kind < 3:
            self._change(random, genes, random.choice(self.free))
        elif kind < 5:
            self._change(random, genes, random.choice(self._borders(genes) or self.free))
        elif kind == 5:
            self._change(random, genes, random.choice(self.free))
            self._change(random, genes, random.choice(self.free))
        else:
            self._change_run(random, genes)
        return tuple(genes)

    def runs(self, chromosome: Chromosome, allele: int) -> Iterator[Chromosome]:
        """Yield the chromosomes in which the genes of one run have the allele, or their last one."""
        for width in WIDTHS:
            for begin in range(0, len(self.free) - width + 1, max(1, width // 2)):
                genes = list(chromosome)
                self._set(genes, self.free[begin : begin + width], allele)
                yield tuple(genes)

    def _change(self, random: Random, genes: list[int], gene: int) -> None:
        genes[gene] = random.choice([v for v in self._alleles[gene] if v != genes[gene]])

    def _change_run(self, random: Random, genes: list[int]) -> None:
        begin = random.randrange(len(self.free))
        run = self.free[begin : begin + random.randint(2, MOST_WIDE)]
        self._set(genes, run, random.choice(self._alleles[run[0]]))

    def _set(self, genes: list[int], run: Sequence[int], allele: int) -> None:
        for gene in run:
            values = self._alleles[gene]
            genes[gene] = allele if allele in values else values[-1]

    def _borders(self, genes: Sequence[int]) -> list[int]:
        """The genes on both sides of each border between different alleles."""
        found = [pair for pair in pairwise(self.free) if genes[pair[0]] != genes[pair[1]]]
        return [gene for pair in found for gene in pair]

"""Local search for the front: exact seeds, hill climbing, a greedy descent, threshold accepting.

Small problems are enumerated. For others the archive begins with the seeds, such as the chromosomes of
the exact front of live bytes and the smallest of each network on its own; then come a climb from the
smallest of them, and a descent from layers that are all whole. Threshold accepting goes on from there,
until the evaluations or the time are over.

Hill climbing, for memory alone: a climb goes over all genes and takes each change that needs no more
memory. Where several buffers are equally large nothing is gained before the last of them has shrunk, so
equal steps are taken too. Genes go first with which most could be gained, those of layers beside the
tensors that fill a buffer; others follow in random order. A sweep that gains nothing is followed by
larger changes.

Networks that take turns are first climbed each on its own. Together the largest of them hides what
the others gain, and a single change of one of them seldom pays. A climb ends where no small change
gains anything. The network that needs most then decides what all of them need, so the calls that
are left go to it: it climbs again and again, each time from other layers that are executed whole, a
few of all. Descent: again and again the run of layers whose parts save most memory for the time.

Threshold accepting: each walk has its own weights of the objectives. It begins at the point of the
front that is best by its weights, or at any other, and goes on to any neighbour that is not worse by
more than a threshold, which falls to nothing. Walks go in step, so that what they look at next can be
evaluated together; where that happens changes nothing. Source: Dueck and Scheuer, Threshold accepting,
Journal of Computational Physics 90(1), 1990.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from fractions import Fraction
from functools import partial
from itertools import accumulate, chain, islice, pairwise, product
from random import Random
from typing import NamedTuple

from csdf.status import Reason, because
from csdf.time_limit import ENDS, Budget, Stop, reason_of, stop_of
from planners.reuse.evaluation import Buffers, Evaluator
from planners.reuse.executors import (
    BATCH,
    Executor,
    Limited,
    LimitReached,
    Serial,
    evaluated_points,
)
from planners.reuse.load_front import LoadFront, load_front
from planners.reuse.problem import (
    PUBLISHED_ALLELES,
    WHOLE,
    Archive,
    Chromosome,
    Front,
    LostWorkers,
    Number,
    Point,
    ReuseProblem,
    Score,
    SearchEnd,
    genes_at,
    score,
    search_problem,
)

ENUMERATED = 1024  # chromosomes up to which all are tried
IDLE_ROUNDS = 25  # without a chromosome never seen; then the search is at its end
CLIMBS = 3  # what part of a limited number of evaluations each kind of climb may make, at most
UNLIMITED = 20  # evaluations for each gene where their number is not limited
FEW = 3  # genes of a handful, at most
IDLE = 4  # sweeps, and as many larger changes, that gain nothing; then the climb is at its end
WHOLE_OF = 8  # one of so many layers works as a whole where a climb begins again
AGAIN_IDLE = 1  # sweeps without a gain at which such a climb ends: another start pays more
IDLE_CLIMBS = 25  # one after the other that met nothing new; then there is little left to meet
WIDTHS = (1, 2, 4, 8)  # of the runs that a descent tries
MOST_WIDE = 12  # genes of a run that is changed as one
MOVES = 8  # the kinds of `neighbour`, of which three are one gene and two are a border
HEAVIEST = 16  # weight of an objective
MEMORY_ALONE = 256  # against 1 for each other objective: of equal points the faster is better
WALKS = 8  # of a round
MEMORY_WALKS = 3  # of these, with the least memory as their aim; the others have random weights
STEPS = 500  # of a walk
THRESHOLD = Fraction(1, 100)  # at the first step, a part of what the front extends over

Memory = Callable[[Chromosome], Number]
Gains = Callable[[Chromosome], Mapping[int, int]]  # what could be gained, for some of the genes


class LocalFront(NamedTuple):
    """A front, and the exact fronts of live bytes it began with, one for each kind of part."""

    problem: ReuseProblem
    front: Front
    load_fronts: tuple[LoadFront, ...]


def local_search(
    evaluator: Evaluator,
    *,
    random: Random,
    evaluations: int | None = None,
    alleles: Sequence[int] = PUBLISHED_ALLELES,
    executor: Executor | None = None,
    steps: int = STEPS,
    seeds: Sequence[Chromosome] = (),
    budget: Budget = None,
) -> LocalFront:
    """Return the best front of memory and periods that is found.

    seeds: chromosomes to begin with, such as the front of narrower genes. steps: of a walk.
    evaluations: of chromosomes, at most; None: only `budget` (a stop, or seconds) is a limit, which
    ends the search with the front so far, as Ctrl-C does. The same `random` and number of evaluations
    give the same front, wherever the evaluations run. Raises InvalidSearch, EvaluationFailed.
    """
    stop = stop_of(budget)
    problem = search_problem(evaluator, alleles)
    fronts: list[LoadFront] = []

    def exact_seeds() -> Iterator[Chromosome]:
        for allele in dict.fromkeys(allele for values in problem.alleles for allele in values):
            if allele != WHOLE:
                fronts.append(load_front(evaluator, (allele,), budget=stop))
                for genes in fronts[-1].chromosomes:
                    yield problem.fitted([gene or WHOLE for gene in genes])

    limited = Limited(executor or Serial(partial(score, evaluator)), evaluations)
    search = LocalSearch(
        problem,
        limited,
        random=random,
        steps=steps,
        gains=lambda chromosome: gains(evaluator, evaluator.buffers(genes_at(chromosome))),
    )
    alone = smallest_of_each(evaluator, problem, limited, random=random, stop=stop)
    points = search.run(chain(seeds, exact_seeds(), alone), stop)
    return LocalFront(problem, points, tuple(fronts))


class LocalSearch:
    """A search; the first objective is memory, the others are times.

    The first allele of a gene is the whole. All that is looked at goes into the archive.
    """

    def __init__(
        self,
        problem: ReuseProblem,
        executor: Limited,
        *,
        random: Random,
        steps: int = STEPS,
        gains: Gains = lambda _: {},
    ) -> None:
        self.archive = Archive()
        self._problem = problem
        self._executor = executor
        self._random = random
        self._steps = steps
        self._gains = gains

    def run(self, seeds: Iterable[Chromosome], stop: Stop) -> Front:
        """Return the front that is found; `stop` or Ctrl-C may end the search."""
        self._rounds = 0
        is_finished = True
        try:
            reason = self._searched(seeds, stop)
        except LimitReached as limit:
            reason = limit.reason
        except (*ENDS, LostWorkers) as end:
            reason, is_finished = reason_of(end), False
        return Front(
            points=self.archive.by_objectives(),
            is_finished=is_finished,
            is_proved=self._executor.seen == self._problem.size,
            reason=reason,
            generations=self._rounds,
            evaluations=self._executor.evaluations,
        )

    def _searched(self, seeds: Iterable[Chromosome], stop: Stop) -> Reason:
        """Search; return why it is at its end."""
        alleles = self._problem.alleles
        # Exhaustive search proves the front of a small problem.
        if self._problem.size <= ENUMERATED:
            self._look_at(product(*alleles), stop)
            return because(SearchEnd.EVERY_ONE)
        whole = tuple(values[0] for values in alleles)
        # Both extremes bound the front: the fastest chromosome, and all layers in their smallest
        # parts.
        self._look_at([whole, tuple(values[len(values) > 1] for values in alleles)], stop)
        self._look_at(seeds, stop)
        # Memory first: random walks rarely reach the smallest memory, where all large buffers have
        # to shrink together.
        self.climb_smallest(stop)
        self.descend(whole, min(allele for values in alleles for allele in values[1:]), stop)
        idle = 0
        while idle < IDLE_ROUNDS:
            before = self._executor.evaluations
            self.walk(stop)
            self._rounds += 1
            # A round without a new chromosome is evidence that the neighbourhood is exhausted.
            idle = 0 if self._executor.evaluations > before else idle + 1
        return because(SearchEnd.NOTHING_NEW, rounds=IDLE_ROUNDS)

    def _look_at(self, chromosomes: Iterable[Chromosome], stop: Stop) -> list[Point]:
        """Evaluate in order; what was evaluated before an end stays in the archive."""
        rest = iter(chromosomes)
        evaluated: list[Point] = []
        while batch := list(islice(rest, BATCH)):
            points: list[Point] = []
            try:
                evaluated_points(self._executor, batch, points, stop)
            # Workers may be interrupted in a batch: the points that are evaluated already count.
            finally:
                self.archive.add(points)
            evaluated += points
        return evaluated

    def climb_smallest(self, stop: Stop) -> None:
        """Climb from the smallest point of the archive.

        With a limited number of evaluations it makes one of CLIMBS equal parts of them.
        """
        genes = self._problem.free_genes
        end = self._executor.evaluations
        # Without a limit the effort grows with the problem, not with the clock.
        end += self._executor.share(CLIMBS) or UNLIMITED * len(genes)

        def memory(chromosome: Chromosome) -> Number:
            if self._executor.evaluations >= end:
                raise Enough
            (point,) = self._look_at([chromosome], stop)
            return point.score.objectives[0]

        start = min(self.archive.points, key=lambda point: point.score.objectives[0]).chromosome
        with suppress(Enough):
            deque(climbed(start, genes, self._problem, memory, self._random, self._gains), maxlen=0)

    def descend(self, start: Chromosome, allele: int, stop: Stop) -> None:
        """Descend until no run saves memory. allele: what the layers of a run get.

        Of equal runs the first is taken. O(genes) evaluations a step.
        """
        free = self._problem.free_genes
        (now,) = self._look_at([start], stop)

        def price(other: Point) -> Fraction:
            """Time lost, of all networks, for each byte saved."""
            memory, *times = now.score.objectives
            less, *longer = other.score.objectives
            return Fraction(sum(longer) - sum(times)) / Fraction(memory - less)

        while True:
            nearby: dict[Chromosome, None] = {}
            for width in WIDTHS:
                # Runs overlap by half: a good run that straddles two runs is still tried.
                for begin in range(0, len(free) - width + 1, max(1, width // 2)):
                    genes = list(now.chromosome)
                    _set(self._problem, genes, free[begin : begin + width], allele)
                    nearby[tuple(genes)] = None
            least = now.score.objectives[0]
            evaluated = self._look_at(nearby, stop)
            smaller = [point for point in evaluated if point.score.objectives[0] < least]
            if not smaller:
                return
            # Steepest descent by the ratio of lost time to saved memory.
            now = min(smaller, key=price)

    def walk(self, stop: Stop) -> None:
        """Walk a round from an archive that has a point."""
        front = self.archive.by_objectives()
        periods = len(front[0].score.objectives) - 1
        walks = []
        for number in range(WALKS):
            # Some walks aim at memory alone; the rest spread over the front by random weights.
            if number < MEMORY_WALKS:
                weights = [MEMORY_ALONE, *(1 for _ in range(periods))]
            else:
                weights = [self._random.randint(1, HEAVIEST) for _ in range(periods + 1)]
            walks.append(
                # Every second walk begins at a random point: diversity along the front.
                _WalkPosition(front, weights, self._random.choice(front) if number % 2 else None)
            )
        free = self._problem.free_genes
        met: list[Point] = []
        try:
            for step in range(self._steps):
                # Dueck and Scheuer: the threshold falls linearly to zero, a fraction so that no
                # rounding decides.
                threshold = THRESHOLD * Fraction(self._steps - step - 1, self._steps)
                offers = [
                    neighbour(self._problem, free, walk.chromosome, self._random) for walk in walks
                ]
                with closing(self._executor.scores(offers, stop)) as scores:
                    for walk, chromosome, score in zip(walks, offers, scores, strict=True):
                        met.append(Point(chromosome=chromosome, score=score))
                        walk.offer(chromosome, score, threshold)
        finally:
            self.archive.add(met)


class _WalkPosition:
    """The position of a walk; its cost is the objectives as parts of what the front extends over."""

    def __init__(self, front: Sequence[Point], weights: Sequence[int], begin: Point | None) -> None:
        columns = list(zip(*(point.score.objectives for point in front), strict=True))
        self._factors = [
            # Objectives have different units: each is normalised by its range over the front.
            Fraction(weight, sum(weights)) / ((max(column) - min(column)) or 1)
            for weight, column in zip(weights, columns, strict=True)
        ]
        begin = begin or min(front, key=lambda point: self._cost_of(point.score))
        self.chromosome = begin.chromosome
        self._cost = self._cost_of(begin.score)

    def _cost_of(self, found: Score) -> Fraction:
        terms = zip(self._factors, found.objectives, strict=True)
        return sum((factor * value for factor, value in terms), Fraction(0))

    def offer(self, chromosome: Chromosome, found: Score, threshold: Fraction) -> None:
        """Go there, if it is not too much worse."""
        cost = self._cost_of(found)
        # Threshold accepting: unlike simulated annealing the decision needs no random number.
        if cost <= self._cost + threshold:
            self.chromosome, self._cost = chromosome, cost


def neighbour(
    problem: ReuseProblem, free: Sequence[int], chromosome: Chromosome, random: Random
) -> Chromosome:
    """Return another chromosome nearby, or the same one where no gene is free."""
    if not free:
        return chromosome
    genes = list(chromosome)
    kind = random.randrange(MOVES)
    if kind < 3:
        _change(problem, genes, random.choice(free), random)
    # Borders between alleles: memory changes most where parts meet whole layers.
    elif kind < 5:
        borders = [
            gene for pair in pairwise(free) for gene in pair if genes[pair[0]] != genes[pair[1]]
        ]
        _change(problem, genes, random.choice(borders or free), random)
    elif kind == 5:
        _change(problem, genes, random.choice(free), random)
        _change(problem, genes, random.choice(free), random)
    else:
        _change_run(problem, genes, free, random)
    return tuple(genes)


def _change(problem: ReuseProblem, genes: list[int], gene: int, random: Random) -> None:
    genes[gene] = random.choice(
        [allele for allele in problem.alleles[gene] if allele != genes[gene]]
    )


def _change_run(
    problem: ReuseProblem, genes: list[int], free: Sequence[int], random: Random
) -> None:
    begin = random.randrange(len(free))
    run = free[begin : begin + random.randint(2, MOST_WIDE)]
    _set(problem, genes, run, random.choice(problem.alleles[run[0]]))


def _set(problem: ReuseProblem, genes: list[int], run: Sequence[int], allele: int) -> None:
    """Give the genes of a run the allele, or their last one."""
    for gene in run:
        values = problem.alleles[gene]
        genes[gene] = allele if allele in values else values[-1]


class Enough(Exception):
    """A climb has made its evaluations."""


def climbed(
    start: Chromosome,
    genes: Sequence[int],
    problem: ReuseProblem,
    memory: Memory,
    random: Random,
    gains: Gains = lambda _: {},
    *,
    most_idle: int = IDLE,
) -> Iterator[Chromosome]:
    """Yield chromosomes with less memory than `start`, each with less than those before.

    genes: may change. gains: by which genes are chosen first. It ends after `most_idle`
    sweeps without a gain; `memory` may end it before.
    """
    now, least = start, memory(start)
    idle = 0
    while genes and idle < most_idle:
        is_better = False
        # Random order of genes with equal gain: a fixed order would bias towards early layers.
        left = random.sample(genes, len(genes))
        first = gains(now)
        while left:
            # The gene with the largest possible gain is tried first: fewer evaluations until the
            # first success.
            gene = max(left, key=lambda gene_: first.get(gene_, 0))
            left.remove(gene)
            changed = list(now)
            if idle == 0:
                _change(problem, changed, gene, random)
            # After an idle sweep single changes are exhausted: a run, or a handful, of genes
            # changes.
            elif random.random() < 0.5:
                _change_run(problem, changed, genes, random)
            else:
                for changed_gene in random.sample(genes, min(len(genes), random.randint(2, FEW))):
                    _change(problem, changed, changed_gene, random)
            chromosome = tuple(changed)
            memory_now = memory(chromosome)
            if memory_now < least:
                is_better = True
                yield chromosome
            # Equal memory is accepted: with several buffers of the largest size no single change
            # gains.
            if memory_now <= least:
                now, least, first = chromosome, memory_now, gains(chromosome)
        idle = 0 if is_better else idle + 1


def gains(evaluator: Evaluator, buffers: Buffers) -> dict[int, int]:
    """Return for each gene by how many elements a buffer shrinks if all that fill it shrink.

    An edge fills its buffer if it is as large as the buffer; without the edges that fill it, the buffer
    is as large as the next one. A gene counts for the edges that its layer writes and reads. Genes of
    layers that fill no buffer are left out, and so are edges that are cut: these are always whole.
    """
    gene_of = {layer: gene for gene, layer in enumerate(evaluator.application.layers)}
    gain_of: dict[int, int] = {}
    for buffer in buffers.shared:
        smaller = [
            buffers.sizes[edge] for edge in buffer.edges if buffers.sizes[edge] < buffer.size
        ]
        gain = buffer.size - max(smaller, default=0)
        filling = [evaluator.edges[n] for n in buffer.edges if buffers.sizes[n] == buffer.size]
        # A cut edge is always stored whole, so that a buffer it fills cannot shrink.
        if buffer.size and all(edge.inner is not None for edge in filling):
            for edge in filling:
                name = evaluator.application.members[edge.member].name
                for layer in (edge.connection.producer, edge.connection.consumer):
                    gene = gene_of[name, layer]
                    gain_of[gene] = max(gain, gain_of.get(gene, 0))
    return gain_of


def smallest_of_each(
    evaluator: Evaluator,
    problem: ReuseProblem,
    limited: Limited,
    *,
    random: Random,
    stop: Stop,
) -> Iterator[Chromosome]:
    """Yield the chromosome of what each network needs least on its own; none for a single network."""
    members = len(evaluator.application.members)
    if members == 1:
        return

    def memory(member: int, chromosome: Chromosome) -> int:
        limited.charge()
        return evaluator.buffers(genes_at(chromosome), member=member).elements

    def gained(member: int, chromosome: Chromosome) -> Mapping[int, int]:
        return gains(evaluator, evaluator.buffers(genes_at(chromosome), member=member))

    climbs = _Climbs(evaluator, problem, memory, gained, random, stop)
    climbs.climb_each(limited.share(CLIMBS * members))
    climbs.climb_largest()
    yield climbs.best


def least_live(
    evaluator: Evaluator, problem: ReuseProblem, *, random: Random, stop: Stop
) -> Chromosome:
    """Return the chromosome with the least live bytes of each network: the least for offsets.

    Where `stop` ends it, later networks run row by row.
    """

    def memory(member: int, chromosome: Chromosome) -> int:
        return evaluator.live_bytes(member, genes_at(chromosome))

    climbs = _Climbs(evaluator, problem, memory, lambda _, __: {}, random, stop)
    climbs.climb_each(None)
    return climbs.best


class _Climbs:
    """Climbs of the genes of one network at a time, from all layers by parts.

    best: the chromosome so far. memory, gained: as in `climbed`, of the network with that number.
    """

    def __init__(
        self,
        evaluator: Evaluator,
        problem: ReuseProblem,
        memory: Callable[[int, Chromosome], int],
        gained: Callable[[int, Chromosome], Mapping[int, int]],
        random: Random,
        stop: Stop,
    ) -> None:
        self.best: Chromosome = tuple(values[len(values) > 1] for values in problem.alleles)
        self._problem = problem
        self._memory = memory
        self._gained = gained
        self._random = random
        self._stop = stop
        ends = pairwise(
            [0, *accumulate(len(member.layers) for member in evaluator.application.members)]
        )
        self._own = [range(begin, end) for begin, end in ends]
        self._genes = [
            [gene for gene in genes_of_member if len(problem.alleles[gene]) > 1]
            for genes_of_member in self._own
        ]
        self._known: list[dict[Chromosome, int]] = [{} for _ in self._own]
        self._left = 0  # calls

    def climb_each(self, most: int | None) -> None:
        """Climb each network once; most: calls for each, None for UNLIMITED for each gene.

        Calls that a network leaves are left for `climb_largest`.
        """
        kept = 0
        for member, genes in enumerate(self._genes):
            self._left = UNLIMITED * len(genes) if most is None else most
            self.best = self._climbed(member, self.best)
            kept += self._left
        self._left = kept

    def climb_largest(self) -> None:
        """Climb the network that needs most from other starts, until no call is left."""
        idle = 0
        with suppress(Enough):
            while idle < IDLE_CLIMBS and self._left:
                needs = [self._least(member, self.best) for member in range(len(self._own))]
                # Networks in sequence share memory: only the largest network decides, so the
                # remaining calls go to it.
                largest = needs.index(max(needs))
                if not self._genes[largest]:
                    return
                before = self._left
                start = list(self.best)  # layers work by parts, a few as a whole
                for gene in self._genes[largest]:
                    # A new start near "all by parts", where memory is small.
                    is_whole = self._random.randrange(WHOLE_OF) == 0
                    start[gene] = self._problem.alleles[gene][0 if is_whole else 1]
                climbed = self._climbed(largest, tuple(start), most_idle=AGAIN_IDLE)
                if self._least(largest, climbed) < self._least(largest, self.best):
                    self.best = climbed
                idle = 0 if self._left < before else idle + 1

    def _climbed(self, member: int, start: Chromosome, *, most_idle: int = IDLE) -> Chromosome:
        """The end of a climb of one network, or where it was when its calls were used."""
        best = start
        climb = climbed(
            start,
            self._genes[member],
            self._problem,
            partial(self._least, member),
            self._random,
            partial(self._gained, member),
            most_idle=most_idle,
        )
        with suppress(Enough):
            for better in climb:
                best = better
        return best

    def _least(self, member: int, chromosome: Chromosome) -> int:
        """Return what the network needs: a call, unless it is known. Raises Enough after the last."""
        own_genes = tuple([chromosome[gene] for gene in self._own[member]])
        # Genes of other networks do not change the buffers of this network.
        memory = self._known[member].get(own_genes)
        if memory is None:
            if self._stop.is_over() or not self._left:
                raise Enough
            self._left -= 1
            memory = self._known[member][own_genes] = self._memory(member, chromosome)
        return memory

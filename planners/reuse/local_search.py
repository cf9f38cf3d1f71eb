"""Local search for the Pareto front of memory and periods of networks that share one memory.

A chromosome has one gene for each layer; the allele of a gene is 0 if the layer is executed whole, else
the rows of each of its parts. The first allele of a gene is the whole layer. The evaluator computes the
memory and the periods of a chromosome. The result is an archive of nondominated points. Problems of at
most ENUMERATED chromosomes are enumerated. For others four steps follow:

1. Seeds: the exact front of live bytes (planners.reuse.load_front), and the smallest chromosome of each
   network on its own.
2. Hill climbing for memory alone. A sweep changes each gene once and accepts changes that need no more
   memory: with several buffers of the largest size, no single change gains. Genes with the largest
   possible gain come first. After a sweep without gain, the next sweep changes several genes at a time.
3. Descent from all layers whole. Each step changes the run of layers that saves the most memory per
   time lost.
4. Threshold accepting until the evaluations, or the time, are spent. Each walk has its own weights of
   the objectives and begins at a point of the front. It accepts any neighbour that is worse by at most
   a threshold, which falls to zero. Source: Dueck and Scheuer, Threshold accepting, Journal of
   Computational Physics 90(1), 1990, the algorithm of section 2.

Networks that run sequentially are first improved one by one: together, the largest hides gains of the
others. The network with the most memory then determines the score, so the remaining calls improve it,
each from a new random start.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from fractions import Fraction
from functools import partial
from itertools import accumulate, chain, islice, pairwise, product
from random import Random

from csdf.status import Reason, because
from csdf.time_limit import ENDS, Budget, Stop, reason_of, stop_of
from planners.reuse.edge_buffers import SharedBuffer, elements_of
from planners.reuse.evaluation import Evaluator
from planners.reuse.executors import (
    BATCH,
    Executor,
    Limited,
    LimitReached,
    Serial,
    append_points,
)
from planners.reuse.load_front import load_front
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

ENUMERATED = 1024  # chromosomes up to which a problem is enumerated
# Step 2, hill climbing.
CLIMBS = 3  # each kind of climb gets at most this fraction (1/3) of limited evaluations
EVALUATIONS_PER_GENE = 20  # of a climb, if the number of evaluations is not limited
IDLE_SWEEPS = 4  # sweeps without gain after which a climb ends
IDLE_SWEEPS_AGAIN = 1  # the same for climbs from random starts: another start pays more
IDLE_CLIMBS = 25  # consecutive climbs without a new chromosome after which climbing ends
WHOLE_OF = 8  # one of this many layers is whole at a random start
MOST_UNRELATED = 3  # unrelated genes that change together
LONGEST_RUN = 12  # adjacent genes that change together
# Step 3, descent.
RUN_LENGTHS = (1, 2, 4, 8)
# Step 4, threshold accepting.
WALKS = 8  # walks in a round
MEMORY_WALKS = 3  # those that minimise memory; the others have random weights
MEMORY_WEIGHT = 256  # in these, against 1 for each period: of equal memory the faster is better
HIGHEST_WEIGHT = 16  # of an objective in the other walks
STEPS = 500  # of a walk
THRESHOLD = Fraction(1, 100)  # initial threshold, as a fraction of the range of the front
IDLE_ROUNDS = 25  # rounds without a new chromosome after which the search ends
MOVES = ("gene", "gene", "gene", "border", "border", "two genes", "run", "run")  # equally probable

Memory = Callable[[Chromosome], Number]
Gains = Callable[[Chromosome], Mapping[int, int]]  # possible gain in elements, by gene


def local_search(
    evaluator: Evaluator,
    *,
    random: Random,
    evaluations: int | None = None,
    alleles: Sequence[int] = PUBLISHED_ALLELES,
    executor: Executor | None = None,
    steps: int = STEPS,
    budget: Budget = None,
) -> Front:
    """Return the best front of memory and periods that the search finds.

    steps: steps of a walk. evaluations: maximum number of chromosomes; None: only `budget` (a stop, or
    seconds) limits the search, which then ends with the front so far, as it does at Ctrl-C. The same
    `random` and number of evaluations give the same front, whichever executor runs them. Raises
    InvalidSearch, EvaluationFailed.
    """
    stop = stop_of(budget)
    problem = search_problem(evaluator, alleles)

    def exact_seeds() -> Iterator[Chromosome]:
        for allele in dict.fromkeys(allele for values in problem.alleles for allele in values):
            if allele != WHOLE:
                for genes in load_front(evaluator, (allele,), budget=stop).chromosomes:
                    yield problem.fitted([gene or WHOLE for gene in genes])

    limited = Limited(executor or Serial(partial(score, evaluator)), evaluations)
    search = LocalSearch(
        problem,
        limited,
        random=random,
        steps=steps,
        gains=lambda chromosome: gains(evaluator, *evaluator.buffers(genes_at(chromosome))),
    )
    smallest = smallest_of_each(evaluator, problem, limited, random=random, stop=stop)
    return search.run(chain(exact_seeds(), smallest), stop)


class LocalSearch:
    """Local search with an archive of all evaluated points; the first objective is memory."""

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
        self._rounds = 0  # of threshold accepting

    def run(self, seeds: Iterable[Chromosome], stop: Stop) -> Front:
        """Return the front; `stop` or Ctrl-C may end the search."""
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
        """Search, and return why the search ended."""
        alleles = self._problem.alleles
        # Exhaustive search proves the front of a small problem.
        if self._problem.size <= ENUMERATED:
            self._look_at(product(*alleles), stop)
            return because(SearchEnd.EVERY_ONE)
        whole = tuple(values[0] for values in alleles)
        # Both extremes bound the front: the fastest chromosome, and all layers in their smallest
        # parts.
        self._look_at([whole, self._problem.all_in_parts], stop)
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
        """Evaluate in order; after an interruption, evaluated points are in the archive."""
        remaining = iter(chromosomes)
        evaluated: list[Point] = []
        while batch := list(islice(remaining, BATCH)):
            points: list[Point] = []
            try:
                append_points(points, self._problem, self._executor, batch, stop)
            # Workers may be interrupted in a batch: the points that are evaluated already count.
            finally:
                self.archive.add(points)
            evaluated += points
        return evaluated

    def climb_smallest(self, stop: Stop) -> None:
        """Climb from the smallest point of the archive.

        With limited evaluations it gets one of CLIMBS equal parts of them.
        """
        genes = self._problem.free_genes
        end = self._executor.evaluations
        # Without a limit the effort grows with the problem, not with the clock.
        end += self._executor.share(CLIMBS) or EVALUATIONS_PER_GENE * len(genes)

        def memory(chromosome: Chromosome) -> Number:
            if self._executor.evaluations >= end:
                raise Enough
            (point,) = self._look_at([chromosome], stop)
            return point.score[0]

        start = min(self.archive.points, key=lambda point: point.score[0]).chromosome
        with suppress(Enough):
            for _ in climbed(start, genes, self._problem, memory, self._random, self._gains):
                pass

    def descend(self, start: Chromosome, allele: int, stop: Stop) -> None:
        """Descend until no run of genes saves memory; allele: the new allele of the genes of a run.

        Ties go to the first run. O(genes) evaluations per step.
        """
        free = self._problem.free_genes
        (current,) = self._look_at([start], stop)

        def price(candidate: Point) -> Fraction:
            """Time lost, summed over the networks, per byte saved."""
            memory, *times = current.score
            less_memory, *longer_times = candidate.score
            return Fraction(sum(longer_times) - sum(times)) / Fraction(memory - less_memory)

        while True:
            nearby: dict[Chromosome, None] = {}
            for length in RUN_LENGTHS:
                # Runs overlap by half: a good run that straddles two runs is still tried.
                for begin in range(0, len(free) - length + 1, max(1, length // 2)):
                    genes = list(current.chromosome)
                    for gene in free[begin : begin + length]:
                        genes[gene] = self._problem.nearest(gene, allele)
                    nearby[tuple(genes)] = None
            memory_now = current.score[0]
            evaluated = self._look_at(nearby, stop)
            smaller = [point for point in evaluated if point.score[0] < memory_now]
            if not smaller:
                return
            # Steepest descent by the ratio of lost time to saved memory.
            current = min(smaller, key=price)

    def walk(self, stop: Stop) -> None:
        """Run one round of walks; they begin at points of the archive, which must have a point."""
        front = self.archive.by_objectives()
        periods = len(front[0].score) - 1
        walks = []
        for number in range(WALKS):
            # Some walks aim at memory alone; the rest spread over the front by random weights.
            if number < MEMORY_WALKS:
                weights = [MEMORY_WEIGHT] + [1] * periods
            else:
                weights = [self._random.randint(1, HIGHEST_WEIGHT) for _ in range(periods + 1)]
            walks.append(
                # Every second walk begins at a random point: diversity along the front.
                _WalkPosition(front, weights, self._random.choice(front) if number % 2 else None)
            )
        free = self._problem.free_genes
        evaluated: list[Point] = []
        try:
            for step in range(self._steps):
                # Dueck and Scheuer: the threshold falls linearly to zero, a fraction so that no
                # rounding decides.
                threshold = THRESHOLD * Fraction(self._steps - step - 1, self._steps)
                neighbours = [
                    neighbour(self._problem, free, walk.chromosome, self._random) for walk in walks
                ]
                append_points(evaluated, self._problem, self._executor, neighbours, stop)
                for walk, point in zip(walks, evaluated[-len(walks) :], strict=True):
                    walk.offer(point, threshold)
        finally:
            self.archive.add(evaluated)


class _WalkPosition:
    """The current chromosome of a walk, and its cost: the weighted sum of normalised objectives."""

    def __init__(self, front: Sequence[Point], weights: Sequence[int], begin: Point | None) -> None:
        """Begin at a point; None for the point of the front with the lowest cost."""
        columns = list(zip(*(point.score for point in front), strict=True))
        self._factors = [
            # Objectives have different units: each is normalised by its range over the front.
            Fraction(weight, sum(weights)) / ((max(column) - min(column)) or 1)
            for weight, column in zip(weights, columns, strict=True)
        ]
        begin = begin or min(front, key=lambda point: self._cost_of(point.score))
        self.chromosome = begin.chromosome
        self._cost = self._cost_of(begin.score)

    def _cost_of(self, score: Score) -> Fraction:
        terms = zip(self._factors, score, strict=True)
        return sum((factor * value for factor, value in terms), Fraction(0))

    def offer(self, point: Point, threshold: Fraction) -> None:
        """Move to a neighbour if it is worse by at most the threshold."""
        cost = self._cost_of(point.score)
        # Threshold accepting: unlike simulated annealing the decision needs no random number.
        if cost <= self._cost + threshold:
            self.chromosome, self._cost = point.chromosome, cost


def neighbour(
    problem: ReuseProblem, free: Sequence[int], chromosome: Chromosome, random: Random
) -> Chromosome:
    """Return a random neighbour; the same chromosome if no gene is free.

    One gene changes, or a gene at a border between alleles, two genes, or a run of adjacent genes.
    """
    if not free:
        return chromosome
    genes = list(chromosome)
    move = random.choice(MOVES)
    if move == "gene":
        _change(problem, genes, random.choice(free), random)
    # Borders between alleles: memory changes most where parts meet whole layers.
    elif move == "border":
        borders = [
            gene for pair in pairwise(free) for gene in pair if genes[pair[0]] != genes[pair[1]]
        ]
        _change(problem, genes, random.choice(borders or free), random)
    elif move == "two genes":
        _change(problem, genes, random.choice(free), random)
        _change(problem, genes, random.choice(free), random)
    else:
        _change_run(problem, genes, free, random)
    return tuple(genes)


def _change(problem: ReuseProblem, genes: list[int], gene: int, random: Random) -> None:
    """Give a gene another random allele."""
    genes[gene] = random.choice(
        [allele for allele in problem.alleles[gene] if allele != genes[gene]]
    )


def _change_run(
    problem: ReuseProblem, genes: list[int], free: Sequence[int], random: Random
) -> None:
    """Give a random run of genes the same allele."""
    begin = random.randrange(len(free))
    run = free[begin : begin + random.randint(2, LONGEST_RUN)]
    allele = random.choice(problem.alleles[run[0]])
    for gene in run:
        genes[gene] = problem.nearest(gene, allele)


class Enough(Exception):
    """Raised when a climb has spent its evaluations."""


def climbed(
    start: Chromosome,
    genes: Sequence[int],
    problem: ReuseProblem,
    memory: Memory,
    random: Random,
    gains: Gains = lambda _: {},
    *,
    idle_sweeps: int = IDLE_SWEEPS,
) -> Iterator[Chromosome]:
    """Yield chromosomes of descending memory, all below that of `start`, by hill climbing.

    genes: those that may change. gains: possible gain by gene; genes with large gains are tried first.
    idle_sweeps: sweeps without gain after which the climb ends. An exception of `memory` ends it, too.
    """
    current, memory_of_current = start, memory(start)
    idle = 0
    while genes and idle < idle_sweeps:
        is_better = False
        # Random order of genes with equal gain: a fixed order would bias towards early layers.
        untried = random.sample(genes, len(genes))
        possible_gains = gains(current)
        while untried:
            # The gene with the largest possible gain is tried first: fewer evaluations until the
            # first success. After an idle sweep the genes only count the attempts.
            gene = max(untried, key=lambda candidate: possible_gains.get(candidate, 0))
            untried.remove(gene)
            changed = list(current)
            if idle == 0:
                _change(problem, changed, gene, random)
            # After an idle sweep single changes are exhausted: a run, or a few genes, change.
            elif random.random() < 0.5:
                _change_run(problem, changed, genes, random)
            else:
                count = min(len(genes), random.randint(2, MOST_UNRELATED))
                for changed_gene in random.sample(genes, count):
                    _change(problem, changed, changed_gene, random)
            chromosome = tuple(changed)
            memory_now = memory(chromosome)
            if memory_now < memory_of_current:
                is_better = True
                yield chromosome
            # Equal memory is accepted: with several buffers of the largest size no single change
            # gains.
            if memory_now <= memory_of_current:
                current, memory_of_current = chromosome, memory_now
                possible_gains = gains(chromosome)
        idle = 0 if is_better else idle + 1


def gains(
    evaluator: Evaluator, sizes: Sequence[int], shared: Sequence[SharedBuffer]
) -> dict[int, int]:
    """Return for each gene by how many elements a buffer shrinks if all edges that fill it shrink.

    sizes: elements of each edge. shared: the buffers that the edges share.

    An edge fills its buffer if it is as large as the buffer. Without these edges the buffer has
    the size of its next largest edge: edges of 8, 8 and 5 elements give a gain of 3. A gene
    counts for the edges that its layer writes and reads. Genes of layers whose edges fill no
    buffer are absent, and so are cut edges: they are always stored whole.
    """
    gene_of = {layer: gene for gene, layer in enumerate(evaluator.application.layers)}
    gain_of: dict[int, int] = {}
    for buffer in shared:
        smaller = [sizes[edge] for edge in buffer.edges if sizes[edge] < buffer.size]
        gain = buffer.size - max(smaller, default=0)
        filling = [evaluator.edges[n] for n in buffer.edges if sizes[n] == buffer.size]
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
    """Yield the result of climbs of each network on its own; a single network yields nothing.

    The last evaluation is left for this result.
    """
    members = len(evaluator.application.members)
    if members == 1:
        return

    def memory(member: int, chromosome: Chromosome) -> int:
        if limited.is_at_last:
            raise Enough
        limited.charge()
        _, shared = evaluator.buffers(genes_at(chromosome), member=member)
        return elements_of(shared)

    def gained(member: int, chromosome: Chromosome) -> Mapping[int, int]:
        return gains(evaluator, *evaluator.buffers(genes_at(chromosome), member=member))

    climbs = _Climbs(evaluator, problem, memory, gained, random, stop)
    climbs.climb_each(limited.share(CLIMBS * members))
    climbs.climb_largest()
    yield climbs.best


def least_live(
    evaluator: Evaluator, problem: ReuseProblem, *, random: Random, stop: Stop
) -> Chromosome:
    """Return the chromosome with the least live bytes of each network that its climb finds.

    If `stop` ends the climbs, the remaining networks run row by row.
    """

    def memory(member: int, chromosome: Chromosome) -> int:
        return evaluator.live_bytes(member, genes_at(chromosome))

    climbs = _Climbs(evaluator, problem, memory, lambda _, __: {}, random, stop)
    climbs.climb_each(None)
    return climbs.best


class _Climbs:
    """Climbs of the genes of one network at a time, from all layers in parts.

    best: the best chromosome so far. memory, gains: as in `climbed`, for the network of a number. A
    call is a call of `memory`: an evaluation, or a computation of live bytes.
    """

    def __init__(
        self,
        evaluator: Evaluator,
        problem: ReuseProblem,
        memory: Callable[[int, Chromosome], int],
        gains: Callable[[int, Chromosome], Mapping[int, int]],
        random: Random,
        stop: Stop,
    ) -> None:
        self.best: Chromosome = problem.all_in_parts
        self._problem = problem
        self._memory = memory
        self._gains = gains
        self._random = random
        self._stop = stop
        counts = (len(member.layers) for member in evaluator.application.members)
        # First gene of each network, and one past its last.
        self._ranges = list(pairwise(accumulate(counts, initial=0)))
        self._genes = [
            [gene for gene in problem.free_genes if begin <= gene < end]
            for begin, end in self._ranges
        ]
        self._memory_of: list[dict[Chromosome, int]] = [{} for _ in self._genes]
        self._calls_left = 0

    def climb_each(self, most: int | None) -> None:
        """Climb each network once; most: calls for each, None for EVALUATIONS_PER_GENE calls per gene.

        Unused calls remain for `climb_largest`.
        """
        unused = 0
        for member, genes in enumerate(self._genes):
            self._calls_left = EVALUATIONS_PER_GENE * len(genes) if most is None else most
            self.best = self._climbed(member, self.best)
            unused += self._calls_left
        self._calls_left = unused

    def climb_largest(self) -> None:
        """Climb the network that needs the most memory from random starts until no call remains."""
        idle = 0
        with suppress(Enough):
            while idle < IDLE_CLIMBS and self._calls_left:
                needs = [self._memory_at(member, self.best) for member in range(len(self._genes))]
                # Networks in sequence share memory: only the largest network decides, so the
                # remaining calls go to it.
                largest = needs.index(max(needs))
                if not self._genes[largest]:
                    return
                before = self._calls_left
                start = list(self.best)
                for gene in self._genes[largest]:
                    # A start near "all in parts", where memory is small.
                    is_whole = self._random.randrange(WHOLE_OF) == 0
                    start[gene] = self._problem.alleles[gene][0 if is_whole else 1]
                candidate = self._climbed(largest, tuple(start), IDLE_SWEEPS_AGAIN)
                if self._memory_at(largest, candidate) < self._memory_at(largest, self.best):
                    self.best = candidate
                idle = 0 if self._calls_left < before else idle + 1

    def _climbed(
        self, member: int, start: Chromosome, idle_sweeps: int = IDLE_SWEEPS
    ) -> Chromosome:
        """The result of a climb of one network, which ends early if its calls are spent."""
        best = start
        climb = climbed(
            start,
            self._genes[member],
            self._problem,
            partial(self._memory_at, member),
            self._random,
            partial(self._gains, member),
            idle_sweeps=idle_sweeps,
        )
        with suppress(Enough):
            for better in climb:
                best = better
        return best

    def _memory_at(self, member: int, chromosome: Chromosome) -> int:
        """Memory of a network; a known memory takes no call. Raises Enough after the last."""
        own_genes = chromosome[slice(*self._ranges[member])]
        # Genes of other networks do not change the buffers of this network.
        memory = self._memory_of[member].get(own_genes)
        if memory is None:
            if self._stop.is_over() or not self._calls_left:
                raise Enough
            self._calls_left -= 1
            memory = self._memory_of[member][own_genes] = self._memory(member, chromosome)
        return memory

"""Hill climbing for the least memory of chromosomes: all networks together, or one at a time.

A sweep changes each gene once and accepts changes that need no more memory: with several buffers of the
largest size, no single change gains. Genes with the largest possible gain come first. After a sweep
without gain, the next sweep changes several genes at a time.

Networks that run sequentially are improved one by one: together, the largest hides gains of the others.
The network with the most memory then determines the score, so the remaining calls improve it, each from
a new random start.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import accumulate, pairwise
from random import Random

from csdf.time_limit import Stop
from planners.reuse.application import Chromosome
from planners.reuse.edge_buffers import SharedBuffer, elements_of
from planners.reuse.evaluation import Evaluator
from planners.reuse.executors import Limited
from planners.reuse.problem import Number, ReuseProblem

CLIMBS = 3  # each kind of climb gets at most this fraction (1/3) of limited evaluations
EVALUATIONS_PER_GENE = 20  # of a climb, if the number of evaluations is not limited
IDLE_SWEEPS = 4  # sweeps without gain after which a climb ends
IDLE_SWEEPS_AGAIN = 1  # the same for climbs from random starts: another start pays more
IDLE_CLIMBS = 25  # consecutive climbs without a new chromosome after which climbing ends
WHOLE_OF = 8  # one of this many layers is whole at a random start
MOST_UNRELATED = 3  # unrelated genes that change together
LONGEST_RUN = 12  # adjacent genes that change together

Memory = Callable[[Chromosome], Number]
Gains = Callable[[Chromosome], Mapping[int, int]]  # possible gain in elements, by gene


def change(problem: ReuseProblem, genes: list[int], gene: int, random: Random) -> None:
    """Replace the allele of a gene with a different random allele."""
    genes[gene] = random.choice(
        [allele for allele in problem.alleles[gene] if allele != genes[gene]]
    )


def change_run(
    problem: ReuseProblem, genes: list[int], free: Sequence[int], random: Random
) -> None:
    """Set a random run of adjacent free genes to the same random allele."""
    begin = random.randrange(len(free))
    run = free[begin : begin + random.randint(2, LONGEST_RUN)]
    allele = random.choice(problem.alleles[run[0]])
    for gene in run:
        genes[gene] = problem.allele_or_last(gene, allele)


def change_several(
    problem: ReuseProblem, genes: list[int], free: Sequence[int], random: Random
) -> None:
    """Change a random run of adjacent free genes, or a few unrelated free genes."""
    if random.random() < 0.5:
        change_run(problem, genes, free, random)
        return
    count = min(len(free), random.randint(2, MOST_UNRELATED))
    for gene in random.sample(free, count):
        change(problem, genes, gene, random)


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
        gain_of = gains(current)
        while untried:
            # The gene with the largest possible gain is tried first: fewer evaluations until the
            # first success.
            gene = max(untried, key=lambda candidate: gain_of.get(candidate, 0))
            untried.remove(gene)
            changed = list(current)
            if idle:  # single changes are exhausted; the gene only counts the attempts
                change_several(problem, changed, genes, random)
            else:
                change(problem, changed, gene, random)
            chromosome = tuple(changed)
            memory_now = memory(chromosome)
            if memory_now < memory_of_current:
                is_better = True
                yield chromosome
            # Equal memory is accepted: with several buffers of the largest size no single change
            # gains.
            if memory_now <= memory_of_current:
                current, memory_of_current = chromosome, memory_now
                gain_of = gains(chromosome)
        idle = 0 if is_better else idle + 1


def possible_gains(
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
        _, shared = evaluator.buffers(chromosome, member=member)
        return elements_of(shared)

    def gained(member: int, chromosome: Chromosome) -> Mapping[int, int]:
        return possible_gains(evaluator, *evaluator.buffers(chromosome, member=member))

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
        return evaluator.live_bytes(member, chromosome)

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

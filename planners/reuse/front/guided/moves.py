"""Small changes of a chromosome: one gene, two, a border, a run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from random import Random

from planners.reuse.front.problem import Chromosome, Problem

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

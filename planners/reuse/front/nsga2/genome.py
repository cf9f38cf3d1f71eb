"""Chromosomes as rows of allele numbers, for arithmetic over a whole population."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from planners.reuse.front.problem import Chromosome, InvalidSearch, Problem

Rows = NDArray[np.uint16]  # (chromosomes, genes), allele numbers
MOST_ALLELES = 2**16
DIGEST_BYTES = 8


class Genome:
    """The code of one problem: the allele number of gene g counts its alleles in their order."""

    def __init__(self, problem: Problem) -> None:
        sizes = [len(values) for values in problem.alleles]
        if max(sizes) > MOST_ALLELES:
            gene = sizes.index(max(sizes))
            raise InvalidSearch(
                f"gene {gene}: {sizes[gene]} alleles; at most {MOST_ALLELES} are possible"
            )
        self.problem = problem
        self.sizes = np.array(sizes, dtype=np.uint64)
        self._code = ">u1" if max(sizes) <= 2**8 else ">u2"
        self._starts = np.array([0, *accumulate(sizes[:-1])])
        self._alleles = np.array([value for values in problem.alleles for value in values], object)
        self._numbers = [
            {value: number for number, value in enumerate(values)} for values in problem.alleles
        ]

    def rows(self, chromosomes: Sequence[Chromosome]) -> Rows:
        """Return the code of chromosomes. Raises InvalidSearch for one of another problem."""
        rows = [self._numbers_in(chromosome) for chromosome in chromosomes]
        return np.array(rows, dtype=np.uint16).reshape(len(rows), len(self.sizes))

    def chromosomes(self, rows: Rows) -> list[Chromosome]:
        """Return what the rows stand for."""
        return [tuple(values) for values in self._alleles[self._starts + rows].tolist()]

    def text(self, chromosome: Chromosome) -> str:
        """Return the allele numbers, two or four hexadecimal digits each."""
        content: bytes = self.rows([chromosome])[0].astype(self._code).tobytes()
        return content.hex()

    def chromosome(self, text: str) -> Chromosome:
        """Return what `text` was made of. Raises ValueError."""
        row = np.frombuffer(bytes.fromhex(text), dtype=self._code)
        if row.shape != self.sizes.shape or (row >= self.sizes).any():
            raise ValueError("not a chromosome of this problem")
        return self.chromosomes(row[None].astype(np.uint16))[0]

    def _numbers_in(self, chromosome: Chromosome) -> list[int]:
        try:
            pairs = zip(self._numbers, chromosome, strict=True)
            return [numbers[value] for numbers, value in pairs]
        except (KeyError, ValueError):
            self.problem.require_chromosome(chromosome)
            raise


def digests(rows: Rows) -> list[int]:
    """Return a number of 64 bits for each row; different rows have different ones, but for luck.

    Two rows that share one cost a chromosome that is never tried: about once in 10^9 searches of
    10^5 evaluations.
    """
    little = rows.astype("<u2", copy=False)
    return [
        int.from_bytes(blake2b(row.tobytes(), digest_size=DIGEST_BYTES).digest(), "little")
        for row in little
    ]

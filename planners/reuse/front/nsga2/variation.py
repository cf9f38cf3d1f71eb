"""New chromosomes from old ones: tournament, crossover, mutation; all chance from one generator."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from random import Random
from typing import cast

import numpy as np
from numpy.typing import NDArray

from planners.reuse.front.nsga2.genome import Rows
from planners.reuse.front.problem import InvalidSearch

WORD = 2**32
Words = NDArray[np.uint64]
Truths = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How the next generation is made. The rates are parts of one, but for `mutated_genes`.

    mutated_genes: how many genes of a child change on average.
    """

    population: int = 100
    crossover_rate: Fraction = Fraction(9, 10)  # of the pairs; the others are copied
    one_point_rate: Fraction = Fraction(1, 2)  # of the crossovers; the others are uniform
    mutated_genes: Fraction = Fraction(1)

    def __post_init__(self) -> None:
        if self.population < 2:
            raise InvalidSearch(f"a population of {self.population}; expected at least 2")
        for name in ("crossover_rate", "one_point_rate"):
            if not 0 <= getattr(self, name) <= 1:
                raise InvalidSearch(f"{name}: found {getattr(self, name)}; expected 0 to 1")
        if self.mutated_genes < 0:
            raise InvalidSearch(f"mutated_genes: found {self.mutated_genes}; expected at least 0")


def words(random: Random, *shape: int) -> Words:
    """Return numbers below 2**32, drawn in one go."""
    count = int(np.prod(shape))
    drawn = np.frombuffer(random.randbytes(4 * count), dtype="<u4")
    return drawn.astype(np.uint64).reshape(shape)


def numbers_below(random: Random, limits: Words, *shape: int) -> Words:
    """Return numbers from 0 to below each limit; the limits are below 2**32 and broadcast."""
    return cast(Words, words(random, *shape) * limits >> np.uint64(32))


def chances(random: Random, rate: Fraction, *shape: int) -> Truths:
    """Return truths of which that part is true on average."""
    return words(random, *shape) < np.uint64(int(rate * WORD))


def coins(random: Random, *shape: int) -> Truths:
    """Return truths of which half are true on average."""
    count = int(np.prod(shape))
    drawn = np.frombuffer(random.randbytes(-(-count // 8)), dtype=np.uint8)
    return np.unpackbits(drawn, count=count).astype(bool).reshape(shape)


def random_rows(random: Random, sizes: Words, count: int) -> Rows:
    """Return chromosomes in which each allele of a gene is as likely as the others."""
    return numbers_below(random, sizes, count, len(sizes)).astype(np.uint16)


def tournament(random: Random, entrants: int, count: int) -> NDArray[np.uint64]:
    """Return the winners of `count` duels; entrants are numbered from the best on."""
    duels = numbers_below(random, np.array(entrants, dtype=np.uint64), count, 2)
    return cast(NDArray[np.uint64], duels.min(axis=1))


def crossed(random: Random, mothers: Rows, fathers: Rows, settings: Settings) -> Rows:
    """Return two children a pair: what one has of its mother, the other has of its father."""
    pairs, genes = mothers.shape
    swaps = coins(random, pairs, genes)
    cuts = numbers_below(random, np.array(genes, dtype=np.uint64), pairs)
    is_one_point = chances(random, settings.one_point_rate, pairs)
    swaps[is_one_point] = np.arange(genes) > cuts[is_one_point, None]
    swaps &= chances(random, settings.crossover_rate, pairs)[:, None]
    return np.concatenate([np.where(swaps, fathers, mothers), np.where(swaps, mothers, fathers)])


def mutated(random: Random, rows: Rows, sizes: Words, rate: Fraction) -> Rows:
    """Return the rows with genes changed at that rate, each to another of its alleles."""
    places, genes = np.nonzero(chances(random, rate, *rows.shape) & (sizes > 1))
    steps = 1 + numbers_below(random, sizes[genes] - 1, len(genes))
    result = rows.copy()
    result[places, genes] = (rows[places, genes] + steps) % sizes[genes]
    return result

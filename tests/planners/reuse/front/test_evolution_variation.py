from fractions import Fraction
from random import Random

import numpy as np
import pytest
from evolution_problems import problem
from hypothesis import given
from hypothesis import strategies as st

from planners.published import nsga2
from planners.published.nsga2 import Genome, Settings
from planners.reuse.problem import InvalidSearch, ReuseProblem

alleles = st.lists(
    st.lists(st.integers(-(10**30), 10**30), min_size=1, max_size=4, unique=True).map(tuple),
    min_size=1,
    max_size=5,
)
seeds = st.integers(0, 2**32)


@given(alleles, seeds)
def test_rows_stand_for_their_chromosomes(values, seed):
    genome = Genome(problem(*values))
    rows = nsga2.random_rows(Random(seed), genome.sizes, 6)
    chromosomes = genome.chromosomes(rows)
    assert (genome.rows(chromosomes) == rows).all()


@given(alleles, seeds, st.fractions(0, 1))
def test_mutation_stays_within_the_alleles_and_changes_what_it_touches(values, seed, rate):
    genome = Genome(problem(*values))
    rows = nsga2.random_rows(Random(seed), genome.sizes, 6)

    def mutated(rate):
        return nsga2.mutated(Random(seed), rows, genome.sizes, rate)

    assert (mutated(rate) < genome.sizes).all()
    assert ((mutated(Fraction(1)) != rows) == (genome.sizes > 1)).all()
    assert (mutated(Fraction(0)) == rows).all()


def test_a_mutation_reaches_every_other_allele_as_often():
    rows = np.full((400, 1), 2, dtype=np.uint16)
    sizes = np.array([5], dtype=np.uint64)
    found = nsga2.mutated(Random(1), rows, sizes, Fraction(1))
    counts = np.bincount(found[:, 0], minlength=5)
    # A fourth of 400 each; four standard deviations are 4 * sqrt(400 * 3 / 16) = 35.
    assert counts[2] == 0
    assert all(65 <= counts[allele] <= 135 for allele in (0, 1, 3, 4))


@given(seeds, st.fractions(0, 1), st.fractions(0, 1))
def test_two_children_share_out_the_genes_of_their_parents(seed, rate, one_point):
    mothers = np.arange(12, dtype=np.uint16).reshape(3, 4)
    fathers = mothers + np.uint16(100)
    settings = Settings(crossover_rate=rate, one_point_rate=one_point)
    children = nsga2.crossed(Random(seed), mothers, fathers, settings)
    both = np.sort(np.stack([children[:3], children[3:]]), axis=0)
    assert (both == np.stack([mothers, fathers])).all()


def test_one_point_crossover_changes_sides_at_most_once():
    mothers = np.zeros((50, 9), dtype=np.uint16)
    settings = Settings(crossover_rate=Fraction(1), one_point_rate=Fraction(1))
    children = nsga2.crossed(Random(1), mothers, mothers + np.uint16(1), settings)
    changes = np.abs(np.diff(children.astype(int), axis=1)).sum(axis=1)
    # A cut after the last of nine genes leaves the parents whole.
    assert set(changes) == {0, 1}


def test_the_better_of_two_entrants_wins():
    winners = nsga2.tournament(Random(1), 10, 40_000)
    # The best of ten enters 1 - (9/10)^2 = 19 % of the duels, the last wins 1 % of them.
    shares = np.bincount(winners.astype(int), minlength=10) / 40_000
    assert shares[0] == pytest.approx(0.19, abs=0.01)
    assert shares[9] == pytest.approx(0.01, abs=0.005)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Settings(population=1), "population of 1"),
        (lambda: Settings(crossover_rate=Fraction(3, 2)), "crossover_rate: found 3/2"),
        (lambda: Settings(mutated_genes=Fraction(-1)), "mutated_genes: found -1"),
        (lambda: problem((1, 1)), r"gene 0: found the alleles \(1, 1\)"),
        (lambda: ReuseProblem(identity="", alleles=(), objectives=("a",)), "at least one gene"),
        (lambda: problem((1, 2)).require_chromosome((3,)), "gene 0: found 3"),
        (lambda: problem((1, 2)).require_chromosome((1,) * 9), r"1, ... 1 more\): 9 genes"),
        (lambda: Genome(problem(tuple(range(2**16 + 1)))), "65537 alleles"),
    ],
)
def test_what_breaks_a_rule_is_refused(build, message):
    with pytest.raises(InvalidSearch, match=message):
        build()

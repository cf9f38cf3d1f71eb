"""Which point of a front meets the demands."""

from fractions import Fraction

import pytest

from csdf.errors import InvalidNetwork
from figures.published.reuse_example import worked_example
from planners.reuse.front.problem import Point, Score
from planners.reuse.front.selection import Demands, selected

# memory, then seconds a frame of CNN1 and of CNN2
FRONT = [
    Point(chromosome=(number,), score=Score(objectives=objectives))
    for number, objectives in enumerate(
        [(10, Fraction(1, 2), 1), (20, Fraction(1, 4), 1), (30, Fraction(1, 10), 2)]
    )
]


def chosen(**demands):
    found = selected(worked_example(), FRONT, Demands(**demands))
    return None if found is None else found.chromosome[0]


def test_without_demands_the_smallest_is_taken():
    assert chosen() == 0


def test_within_a_limit_of_memory_the_fastest_is_taken():
    assert chosen(memory=20) == 1  # 1.25 s for both frames, against 1.5
    assert chosen(memory=30) == 1  # the third takes 2.1


def test_of_those_that_are_fast_enough_the_smallest_is_taken():
    assert chosen(throughput={"CNN1": Fraction(3)}) == 1
    assert chosen(throughput={"CNN1": Fraction(10)}) == 2


def test_demands_that_nothing_meets():
    assert chosen(memory=9) is None
    assert chosen(memory=20, throughput={"CNN1": Fraction(10)}) is None


def test_a_demand_of_an_unknown_network_is_refused():
    with pytest.raises(InvalidNetwork, match="no network 'CNN3'; it has CNN1, CNN2"):
        Demands(throughput={"CNN3": Fraction(1)}).check_names(worked_example())

"""Which point of a front meets the demands."""

from fractions import Fraction

import pytest

from csdf.errors import InvalidNetwork
from figures.published.reuse_example import worked_example
from planners.published.todaes import Chosen, selected_as_published
from planners.reuse.problem import Point
from planners.reuse.selection import Constraints, chosen_point

# memory, then seconds a frame of CNN1 and of CNN2
FRONT = [
    Point(chromosome=(number,), score=objectives)
    for number, objectives in enumerate(
        [(10, Fraction(1, 2), 1), (20, Fraction(1, 4), 1), (30, Fraction(1, 10), 2)]
    )
]


def chosen(**demands):
    found = chosen_point(worked_example(), FRONT, Constraints(**demands))
    return None if found is None else found.chromosome[0]


def test_without_demands_the_smallest_is_taken():
    assert chosen() == 0


def test_within_a_limit_of_memory_the_fastest_is_taken():
    assert chosen(memory=20) == 1  # 1.25 s for both frames, against 1.5
    assert chosen(memory=30) == 1  # the third takes 2.1


def test_of_those_that_are_fast_enough_the_smallest_is_taken():
    assert chosen(throughput={"CNN1": Fraction(3)}) == 1
    assert chosen(throughput={"CNN1": Fraction(10)}) == 2


def test_constraints_that_no_point_meets_give_no_choice():
    assert chosen(memory=9) is None
    assert chosen(memory=20, throughput={"CNN1": Fraction(10)}) is None


def test_a_demand_of_an_unknown_network_is_refused():
    with pytest.raises(InvalidNetwork, match="no network 'CNN3'; it has CNN1, CNN2"):
        Constraints(throughput={"CNN3": Fraction(1)}).check_names(worked_example())


WHOLE = Point(chromosome=(9,), score=(40, Fraction(1, 20), 1))


def published(**demands):
    point, step = selected_as_published(worked_example(), WHOLE, FRONT, Constraints(**demands))
    return point.chromosome[0], step


def test_algorithm_9_takes_all_layers_whole_at_once_where_they_fit():
    # Without a look at throughput, as printed: no network reaches 100 frames.
    assert published(memory=40, throughput={"CNN1": Fraction(100)}) == (9, Chosen.AT_ONCE)


def test_algorithm_9_takes_the_least_memory_of_the_feasible():
    assert published(memory=39) == (0, Chosen.LEAST_FEASIBLE)
    assert published(memory=39, throughput={"CNN1": Fraction(3)}) == (1, Chosen.LEAST_FEASIBLE)


def test_algorithm_9_takes_the_least_of_all_where_nothing_is_feasible():
    assert published(memory=9) == (0, Chosen.LEAST)
    assert published(memory=39, throughput={"CNN2": Fraction(9)}) == (0, Chosen.LEAST)

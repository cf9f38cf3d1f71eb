from fractions import Fraction
from math import inf

import pytest
from evolution_problems import dominates
from hypothesis import given
from hypothesis import strategies as st

from planners.published import nsga2
from planners.reuse.problem import Archive, InvalidSearch, Point, ReuseProblem, integer_ranks

numbers = st.integers(-3, 3) | st.fractions(-2, 2, max_denominator=3)
pairs = st.tuples(numbers, numbers)


@given(st.lists(numbers, min_size=1))
def test_ranks_count_the_smaller_different_values(values):
    expected = [len({other for other in values if other < value}) for value in values]
    assert integer_ranks(values) == expected


def test_ranks_tell_apart_what_floats_do_not():
    # All four have the nearest float 2**60, or are infinite as floats.
    values = [2**60 + 1, 2**60, Fraction(2**61 + 1, 2), 10**400, 10**400 - 1]
    assert integer_ranks(values) == [2, 0, 1, 4, 3]


@pytest.mark.slow
@given(st.lists(pairs, min_size=1, max_size=12))
def test_domination_is_that_of_the_definition(entries):
    found = nsga2.domination(entries)
    assert found.tolist() == [[dominates(a, b) for b in entries] for a in entries]


@pytest.mark.slow
@given(st.lists(pairs, min_size=1, max_size=12))
def test_a_front_is_what_nothing_after_it_dominates(entries):
    fronts = nsga2.sorted_fronts(nsga2.domination(entries), len(entries))
    left = set(range(len(entries)))
    for front in fronts:
        free = {
            one
            for one in left
            if not any(dominates(entries[other], entries[one]) for other in left)
        }
        assert set(front) == free
        left -= free
    assert not left


def test_crowding_is_the_extent_of_the_neighbours():
    # Of 10 wide and 10 high: (3, 7) has neighbours 4 apart in x and 4 in y, 0.4 + 0.4;
    # (4, 6) has 7 apart in both.
    distances = nsga2.crowding_distances([(0, 10), (3, 7), (4, 6), (10, 0)])
    assert distances == [inf, pytest.approx(0.8), pytest.approx(1.4), inf]


def test_both_ends_of_an_objective_are_infinitely_far_from_crowded():
    # Of one objective the ends are one value each: the least, 0, and the greatest, 10.
    assert nsga2.crowding_distances([(3,), (10,), (0,)]) == [1, inf, inf]
    # (2, 2, 9) is the least of no objective and the greatest of the third only.
    distances = nsga2.crowding_distances([(0, 3, 0), (3, 0, 1), (1, 1, 2), (2, 2, 9)])
    assert distances[3] == inf
    assert distances[2] < inf


@pytest.mark.slow
@given(st.lists(st.tuples(numbers, numbers, numbers), min_size=1, max_size=9))
def test_some_least_and_some_greatest_value_of_each_objective_are_infinitely_far(values):
    distances = nsga2.crowding_distances(values)
    for objective in range(3):
        column = [value[objective] for value in values]
        for end in (min(column), max(column)):
            assert inf in [far for far, own in zip(distances, column, strict=True) if own == end]


def test_survivors_are_taken_by_front_and_then_by_room():
    front = [(0, 10), (3, 7), (4, 6), (10, 0)]
    entries = [(11, 11), *front]
    assert nsga2.survivors(entries, 3) == [1, 4, 3]
    assert nsga2.survivors(entries, 9) == [1, 4, 3, 2, 0]


@pytest.mark.slow
@given(st.lists(st.lists(pairs, max_size=6), max_size=4))
def test_the_archive_keeps_the_first_of_each_point_nothing_dominates(batches):
    archive = Archive()
    met = []
    for batch in batches:
        points = [
            Point(chromosome=(len(met) + number,), score=score)
            for number, score in enumerate(batch)
        ]
        met += points
        archive.add(points)
    expected = [
        point
        for place, point in enumerate(met)
        if not any(dominates(other.score, point.score) for other in met)
        and point.score not in [other.score for other in met[:place]]
    ]
    assert list(archive.points) == expected


@pytest.mark.parametrize("objectives", [(), (1.5,), ("3",)])
def test_a_score_is_of_exact_numbers(objectives):
    problem = ReuseProblem(identity="", alleles=((0, 1),), objectives=("a",))
    with pytest.raises(InvalidSearch, match="score"):
        problem.require_score((0,), objectives)

from fractions import Fraction
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planners.reuse.problem import InvalidSearch
from tests.reference.hypervolume import hypervolume

SIDE = 5


def counted(values, reference):
    """The unit cells of a grid whose lowest corner some value is nowhere above."""
    return sum(
        any(all(v <= c for v, c in zip(value, cell, strict=True)) for value in values)
        for cell in product(*(range(limit) for limit in reference))
    )


def on_grid(objectives):
    coordinate = st.integers(0, SIDE)
    return st.lists(st.tuples(*[coordinate] * objectives), max_size=7)


@given(st.one_of([on_grid(objectives) for objectives in (1, 2, 3, 4)]))
def test_it_is_the_number_of_dominated_cells(values):
    reference = (SIDE,) * (len(values[0]) if values else 2)
    assert hypervolume(values, reference) == counted(values, reference)


def test_three_steps_of_a_staircase():
    # Below (4, 4): 1 x 1/2 beyond (3, 7/2) is inside 2 x 2 beyond (2, 2); 3 x 1 beyond (1, 3)
    # adds 1 x 1.
    values = [(1, 3), (2, 2), (3, Fraction(7, 2))]
    assert hypervolume(values, (4, 4)) == 5


@given(on_grid(2), st.fractions(min_value=Fraction(1, 9), max_value=9))
def test_stretching_one_objective_stretches_the_volume(values, factor):
    stretched = [(factor * first, second) for first, second in values]
    volume = hypervolume(values, (SIDE, SIDE))
    assert hypervolume(stretched, (factor * SIDE, SIDE)) == factor * volume


def test_objectives_must_be_as_many_as_those_of_the_reference():
    with pytest.raises(InvalidSearch, match="3 objectives; the reference has 2"):
        hypervolume([(1, 2, 3)], (4, 4))
    with pytest.raises(InvalidSearch, match="no objective"):
        hypervolume([], ())

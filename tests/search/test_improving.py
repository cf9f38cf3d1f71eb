"""Points that no other improves on, beside comparing all pairs."""

from hypothesis import given
from hypothesis import strategies as st

from csdf.search.pareto import improving


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6))))
def test_points_that_others_improve_on_are_left_out(pairs):
    numbered = list(enumerate(pairs))
    expected = [
        (number, (first, second))
        for number, (first, second) in numbered
        if not any(
            one <= first and two <= second and (one < first or two < second or other < number)
            for other, (one, two) in numbered
        )
    ]
    assert improving(numbered, lambda one: one[1]) == sorted(expected, key=lambda one: one[1])

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from csdf.errors import InvalidPlan
from planners.primitives.library.winograd import fourier, toom_cook

fractions = st.fractions(-4, 4, max_denominator=5)


def product_of(matrix, vector):
    return [sum(a * b for a, b in zip(row, vector, strict=True)) for row in matrix]


@pytest.mark.slow
@given(st.integers(1, 4), st.integers(1, 5), st.data())
def test_toom_cook_is_exact_in_fractions(results, taps, data):
    matrices = toom_cook(results, taps)
    tile = data.draw(st.lists(fractions, min_size=results + taps - 1, max_size=results + taps - 1))
    kernel = data.draw(st.lists(fractions, min_size=taps, max_size=taps))
    points = [
        a * b
        for a, b in zip(
            product_of(matrices.forth, tile), product_of(matrices.kernel, kernel), strict=True
        )
    ]
    expected = [sum(tile[i + k] * kernel[k] for k in range(taps)) for i in range(results)]
    assert product_of(matrices.back, points) == expected


def test_the_smallest_winograd_takes_four_products_for_two_results():
    # Lavin and Gray, section 4.1: F(2, 3) needs 2 + 3 - 1 = 4 multiplications instead of 6; its
    # A^T is [[1, 1, 1, 0], [0, 1, -1, 1]] up to the sign of the last point.
    back = toom_cook(2, 3).back
    assert back == ((1, 1, 1, 0), (0, 1, -1, 1))


def test_a_tile_with_too_many_points_is_refused():
    with pytest.raises(InvalidPlan, match=r"F\(6, 5\) wants more points than the 7"):
        toom_cook(6, 5)


@pytest.mark.parametrize(("tile", "taps"), [(8, 3), (8, 5), (16, 7), (16, 2)])
def test_half_a_spectrum_is_enough_for_real_numbers(tile, taps):
    generator = np.random.default_rng(tile + taps)
    values, kernel = generator.standard_normal(tile), generator.standard_normal(taps)
    transform = fourier(tile, taps, is_half=True)
    points = (transform.kernel @ kernel) * (transform.forth @ values)
    expected = [values[i : i + taps] @ kernel for i in range(tile - taps + 1)]
    assert np.allclose((transform.back @ points).real, expected, atol=1e-5)
    assert len(points) == tile // 2 + 1


def test_points_are_whole_numbers_or_halves_so_that_rounding_stays_small():
    assert {value.denominator for row in toom_cook(4, 3).forth for value in row} == {1}
    assert isinstance(toom_cook(4, 3).kernel[0][0], Fraction)

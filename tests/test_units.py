"""Sizes in words: what is needed is rounded up, what is free is rounded down."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from csdf.arguments import bytes_of
from csdf.units import (
    free_bytes_in_words,
    needed_bytes_in_words,
    size_as_given,
)


@given(count=st.integers(1, 10**12))
def test_a_needed_size_read_again_suffices_and_a_free_one_is_there(count):
    needed = bytes_of(needed_bytes_in_words(count))
    free = bytes_of(free_bytes_in_words(count))
    assert free <= count <= needed
    assert needed - free <= max(count // 500, 1)  # one step of the fourth digit, 1 of 1000 at most
    assert bytes_of(size_as_given(count)) == count


@pytest.mark.parametrize(
    ("count", "needed", "free"),
    [(999, "999 B", "999 B"), (36_861, "36.87 kB", "36.86 kB"), (1_000_001, "1.001 MB", "1 MB")],
)
def test_sizes_have_four_digits(count, needed, free):
    assert (needed_bytes_in_words(count), free_bytes_in_words(count)) == (needed, free)

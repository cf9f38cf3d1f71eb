"""Index maps of tensors by the example of their page, and against reshapes of arrays."""

import doctest

import numpy as np
import pytest

from cnn2csdf import index_maps
from cnn2csdf.index_maps import NoIndexMap, flattened, merged, split_digits, whole_axis


def test_the_example_of_the_module_holds():
    results = doctest.testmod(index_maps)
    assert results.attempted > 0
    assert results.failed == 0


@pytest.mark.parametrize("dims", [(8, 2, 2), (2, 4, 4), (4, 8), (2, 2, 2, 2, 2), (32,)])
def test_each_digit_of_a_reshape_is_the_index_of_its_channel_and_row(dims):
    rows, channels = 8, 4
    digits = [*whole_axis("Y", rows), *whole_axis("C", channels)]
    index_map = split_digits(digits, dims)
    for index, number in np.ndenumerate(np.arange(rows * channels).reshape(dims)):
        expected = {"Y": number // channels, "C": number % channels}
        position = {"Y": 0, "C": 0}
        for dim, along in zip(index_map, index, strict=True):
            for digit in reversed(dim):
                along, rest = divmod(along, digit.size)
                position[digit.axis] += rest * digit.stride
        assert position == expected
    assert merged([digit for dim in index_map for digit in dim]) == merged(digits)


def test_a_reshape_that_cuts_an_index_off_its_digits_has_no_form():
    with pytest.raises(NoIndexMap):
        split_digits([*whole_axis("Y", 6), *whole_axis("C", 4)], (4, 6))


def test_digits_of_heads_are_merged_before_a_reshape_splits_them_otherwise():
    heads = split_digits(whole_axis("C", 12), (3, 4))
    assert split_digits(flattened(heads), (2, 6)) == split_digits(whole_axis("C", 12), (2, 6))

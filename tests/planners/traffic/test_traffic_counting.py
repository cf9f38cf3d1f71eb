"""Counts in closed form are what a walk moves, and figures worked out by hand."""

from random import Random

import pytest

from cnn2csdf.geometry import ReceptiveField
from planners.traffic.convolution import ELEMENTS, ConvolutionLoops
from planners.traffic.footprints import input_reads
from planners.traffic.nest import Array, Halo, NestLoop, transfers
from tests.planners.traffic.layers import (
    nest_of,
    published_layer,
    random_convolution,
    random_nest,
)
from tests.reference.loop_nest_walk import walk

INPUT, WEIGHTS, OUTPUT = Array
LAYER = published_layer()
HALVES = (64, 32), (64, 64), (14, 14), (56, 56), (3, 3), (3, 3)


@pytest.mark.parametrize("seed", range(10))
def test_counted_is_walked_to_the_byte_for_any_layer_and_nest(seed):
    random = Random(seed)
    for _ in range(100):
        layer = random_convolution(random, largest=6)
        nest = random_nest(random, layer)
        counted = transfers(layer, nest)
        walked = walk(
            layer, nest, buffer_bytes=4 * sum(counted.held), element_bytes=4
        )  # raises where more is held than counted
        moved = walked.input_bytes, walked.weight_bytes, walked.output_bytes
        assert moved == (4 * counted.input, 4 * counted.weights, 4 * counted.output), (layer, nest)


@pytest.mark.parametrize("halo", [Halo.CACHED, Halo.RELOADED])
def test_counted_is_walked_for_the_published_layer_made_smaller(halo):
    layer, random = published_layer(maps=8, size=14), Random(1)
    for _ in range(4):
        nest = random_nest(random, layer, halo)
        counted = transfers(layer, nest)
        walked = walk(layer, nest, buffer_bytes=sum(counted.held), element_bytes=1)
        assert walked.total_bytes == counted.total_bytes(ELEMENTS)


@pytest.mark.slow
def test_the_published_layer_walked_tile_by_tile():
    # Half of the filters, 14 rows: 64 x 16 x 58 inputs with the halo, less the padding: rows 15, 16,
    # 16, 15 of 56 columns come in for each half; outputs and weights move once.
    nest = nest_of((WEIGHTS, INPUT, OUTPUT), ((32, 32), *HALVES[1:]))
    walked = walk(LAYER, nest, buffer_bytes=2**20, element_bytes=4)
    assert walked.input_bytes == 4 * 2 * 64 * (15 + 16 + 16 + 15) * 56
    assert walked.weight_bytes == 4 * 64 * 64 * 9
    assert walked.output_bytes == 4 * 64 * 56 * 56
    assert walked.most_held_bytes == 4 * (64 * 16 * 56 + 32 * 64 * 9 + 32 * 14 * 56)
    assert walked.total_bytes == 4 * transfers(LAYER, nest).total_bytes(ELEMENTS)
    # All multiplications but those with padding: of 168 pairs of a row and a kernel row, 166.
    assert walked.multiplications == 64 * 64 * 166**2


def test_cached_halos_bring_every_row_once():
    nest = nest_of((WEIGHTS, INPUT, OUTPUT), ((32, 32), *HALVES[1:]), NestLoop.ROWS)
    assert transfers(LAYER, nest).input == 2 * 64 * 56 * 56  # once for each half of the filters


def test_partial_sums_are_read_back_but_the_first_time():
    # Four tiles of channels outside the output tiles: written four times, read three times.
    nest = nest_of(
        (INPUT, WEIGHTS, OUTPUT), ((16, 16), (16, 16), (56, 56), (56, 56), (3, 3), (3, 3))
    )
    assert transfers(LAYER, nest).output == (4 + 3) * 64 * 56 * 56


def test_strides_over_elements_leave_them_outside():
    # A 1 x 1 kernel with stride 2 reads every other row and column of 8 x 8: 16 places.
    layer = ConvolutionLoops(
        name="projection", filters=1, channels=5, input_rows=8, input_columns=8, stride=(2, 2)
    )
    nest = nest_of((INPUT, WEIGHTS, OUTPUT), ((1, 1), (5, 5), (4, 4), (4, 4), (1, 1), (1, 1)))
    assert transfers(layer, nest).input == 5 * 16


def test_a_grouped_convolution_moves_each_array_once():
    # Depthwise: each channel with its own filter, all of it in the buffer; nothing moves twice.
    layer = ConvolutionLoops(
        name="depthwise",
        filters=6,
        channels=6,
        groups=6,
        input_rows=5,
        input_columns=5,
        kernel_rows=3,
        kernel_columns=3,
    )
    whole = nest_of((INPUT, WEIGHTS, OUTPUT), ((1, 1), (1, 1), (3, 3), (3, 3), (3, 3), (3, 3)))
    counted = transfers(layer, whole)
    assert (counted.input, counted.weights, counted.output) == (6 * 25, 6 * 9, 6 * 9)
    assert counted.held == (25, 9, 9)


def test_halos_along_an_axis():
    # 6 outputs of a kernel of 3 over 8 places: tiles of 2 read 4, 4, 4; each shares 2 with the next.
    axis = ReceptiveField(inputs=8, outputs=6, kernel=3)
    assert input_reads(axis, (6, 2), (3, 3)) == (4, (12, 8, 12))

"""Counts in closed form are what a walk moves, and figures worked out by hand."""

from itertools import product
from random import Random

import pytest

from planners.traffic.convolution import Convolution
from planners.traffic.footprints import Axis, reads
from planners.traffic.nest import Halo, Loop, LoopNest, transfers
from planners.traffic.simulator import walk
from tests.planners.traffic.layers import published_layer, random_convolution, random_nest

DIRECT = (  # filters, rows, columns, channels, kernel: outputs stay until they are complete
    Loop.FILTERS,
    Loop.ROWS,
    Loop.COLUMNS,
    Loop.CHANNELS,
    Loop.KERNEL_ROWS,
    Loop.KERNEL_COLUMNS,
)


@pytest.mark.parametrize("seed", range(10))
def test_counted_is_walked_to_the_byte_for_any_layer_and_nest(seed):
    random = Random(seed)
    for _ in range(100):
        layer = random_convolution(random)
        nest = random_nest(random, layer)
        counted = transfers(layer, nest)
        walked = walk(
            layer, nest, buffer_bytes=4 * counted.held_elements, element_bytes=4
        )  # raises where more is held than counted
        moved = walked.input_bytes, walked.weight_bytes, walked.output_bytes
        assert moved == (4 * counted.input, 4 * counted.weights, 4 * counted.output), (layer, nest)


@pytest.mark.parametrize("halo", Halo)
def test_counted_is_walked_for_the_published_layer_made_smaller(halo):
    layer, random = published_layer(maps=8, size=14), Random(1)
    for _ in range(10):
        nest = random_nest(random, layer, halo)
        counted = transfers(layer, nest)
        walked = walk(layer, nest, buffer_bytes=counted.held_elements, element_bytes=1)
        assert walked.total_bytes == counted.total


@pytest.mark.slow
def test_the_published_layer_walked_tile_by_tile():
    # Half of the filters, 14 rows: 64 x 16 x 58 inputs with the halo, less the padding: rows 15, 16,
    # 16, 15 of 56 columns come in for each half; outputs and weights move once.
    layer = published_layer()
    nest = LoopNest(
        order=DIRECT, tiles=(32, 64, 14, 56, 3, 3), levels=(2, 1, 2), halo=Halo.RELOADED
    )
    walked = walk(layer, nest, buffer_bytes=2**20, element_bytes=4)
    assert walked.input_bytes == 4 * 2 * 64 * (15 + 16 + 16 + 15) * 56
    assert walked.weight_bytes == 4 * 64 * 64 * 9
    assert walked.output_bytes == 4 * 64 * 56 * 56
    assert walked.most_held_bytes == 4 * (64 * 16 * 56 + 32 * 64 * 9 + 32 * 14 * 56)
    assert walked.total_bytes == 4 * transfers(layer, nest).total
    # All multiplications but those with padding: of 168 pairs of a row and a kernel row, 166.
    assert walked.multiplications == 64 * 64 * 166**2


def test_kept_halos_bring_every_row_once():
    layer = published_layer()
    nest = LoopNest(order=DIRECT, tiles=(32, 64, 14, 56, 3, 3), levels=(2, 1, 2), halo=Halo.KEPT)
    assert transfers(layer, nest).input == 2 * 64 * 56 * 56  # once for each half of the filters


def test_partial_sums_are_read_back_but_the_first_time():
    # Four tiles of channels outside the output tiles: written four times, read three times.
    order = (Loop.CHANNELS, Loop.FILTERS, *DIRECT[1:3], *DIRECT[4:])
    nest = LoopNest(order=order, tiles=(16, 16, 56, 56, 3, 3), levels=(1, 2, 2))
    assert transfers(published_layer(), nest).output == (4 + 3) * 64 * 56 * 56


def test_strides_over_elements_leave_them_outside():
    # A 1 x 1 kernel with stride 2 reads every other row and column of 8 x 8: 16 places.
    layer = Convolution(
        name="projection", filters=1, channels=5, input_rows=8, input_columns=8, stride=(2, 2)
    )
    nest = LoopNest(order=DIRECT, tiles=(1, 5, 4, 4, 1, 1), levels=(0, 0, 0))
    assert transfers(layer, nest).input == 5 * 16


def test_groups_move_one_after_another():
    # Depthwise: each channel with its own filter, all of it in the buffer; nothing moves twice.
    layer = Convolution(
        name="depthwise",
        filters=6,
        channels=6,
        groups=6,
        input_rows=5,
        input_columns=5,
        kernel_rows=3,
        kernel_columns=3,
    )
    counted = transfers(layer, LoopNest(order=DIRECT, tiles=(1,) * 6, levels=(0, 0, 0)))
    assert (counted.input, counted.weights, counted.output) == (6 * 25, 6 * 9, 6 * 9)
    assert counted.held == (25, 9, 9)


@pytest.mark.parametrize("seed", range(20))
def test_touched_places_are_those_of_the_set(seed):
    random = Random(seed)
    for _ in range(50):
        axis = Axis(
            inputs=random.randint(1, 12),
            outputs=random.randint(1, 9),
            kernel=random.randint(1, 6),
            stride=random.randint(1, 4),
            dilation=random.randint(1, 4),
            padding=random.randint(0, 5),
        )
        outputs = sorted(random.sample(range(axis.outputs + 1), 2))
        kernel = sorted(random.sample(range(axis.kernel + 1), 2))
        places = [
            axis.stride * o + axis.dilation * k - axis.padding
            for o, k in product(range(*outputs), range(*kernel))
        ]
        inside = [place for place in places if 0 <= place < axis.inputs]
        assert axis.pairs(tuple(outputs), tuple(kernel)) == len(inside)
        assert axis.touched(tuple(outputs), tuple(kernel)) == len(set(inside))


def test_halos_along_an_axis():
    # 6 outputs of a kernel of 3 over 8 places: tiles of 2 read 4, 4, 4; each shares 2 with the next.
    axis = Axis(inputs=8, outputs=6, kernel=3, stride=1, dilation=1, padding=0)
    found = reads(axis, 2, 3)
    assert (found.largest, found.reloaded, found.by_outputs) == (4, 12, 8)

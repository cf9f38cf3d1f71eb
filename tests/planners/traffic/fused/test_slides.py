"""The pair of layers in the slides of Liao et al., 512 KB being 524,288 bytes: by hand."""

import pytest

from planners.plan.regions import COLUMNS
from planners.traffic.fused.axis_cuts import axis_cut
from planners.traffic.fused.schedule import CACHED, RECOMPUTED, RELOADED, SPILLED, FusedSchedule
from planners.traffic.fused.search import GroupSearch, answer_of
from tests.planners.traffic.fused.groups import slides_pair

BYTES = 4
BUFFER = 512 * 1024
MAP = 56 * 56 * 64  # elements of input, map between, output: each 802,816 bytes
WEIGHTS = 2 * 64 * 64 * 9  # of both layers


def in_two(halo, input_halo):
    return answer_of(
        FusedSchedule(group=slides_pair(), tiles=(1, 2), halo=halo, input_halo=input_halo)
    )


def test_the_map_between_does_not_fit():
    assert MAP * BYTES == 802_816 > BUFFER


def test_the_first_layer_makes_29_and_27_columns_the_second_28_and_28():
    cut = axis_cut(slides_pair(), COLUMNS, 2, makes_once=True, reads_once=False)
    # Columns 0..27 of the output need 0..28 of the map between; the other half needs 27..55, of
    # which 27 and 28 are there already.
    assert [one.bit_count() for one in cut.computed[2]] == [28, 28]
    assert [one.bit_count() for one in cut.computed[1]] == [29, 27]
    assert [one.bit_count() for one in cut.needed[1]] == [29, 29]


def test_what_stays_is_415_744_bytes_and_one_channel_tile_and_one_vector():
    # The first part reads columns 0..29, the second 28..55: a tile of at most 56 x 30 elements.
    # While the second layer works, a row of 28 outputs and the 576 weights of one filter are less.
    answer = in_two((CACHED, CACHED), (RELOADED, RELOADED))
    maps, tile, vector = 29 * 56 * 64, 56 * 30, 9
    assert maps * BYTES == 415_744
    by_rows = 30 + 64 * 9  # the input by rows, past the vectors of all filters
    assert answer.held == maps + min(tile + vector, by_rows)
    assert (maps + tile + vector) * BYTES <= BUFFER


@pytest.mark.parametrize(
    ("halo", "extra"),
    [
        # Two columns of 56 x 64 elements go out and come back.
        (SPILLED, 2 * 2 * 56 * 64),
        (CACHED, 0),
        # The second part makes columns 27..55 again, so it reads columns 26..55: 30, not 28.
        (RECOMPUTED, 2 * 56 * 64),
    ],
)
def test_traffic_of_two_tiles(halo, extra):
    answer = in_two((halo, halo), (RELOADED, RELOADED))
    # Kept halo: 30 and 28 columns of the input, weights once a part, outputs once.
    assert answer.total == (30 + 28) * 56 * 64 + 2 * WEIGHTS + MAP + extra


def test_five_parts_with_all_weights_in_the_buffer_move_nothing_twice():
    answer = GroupSearch(slides_pair()).best(BUFFER // BYTES)
    assert answer.total == answer.bound == 2 * MAP + WEIGHTS
    assert sum(answer.schedule.stationary_bytes) == WEIGHTS
    # Not with two parts: 29 columns and all weights are 710,656 bytes.
    assert (29 * 56 * 64 + WEIGHTS) * BYTES > BUFFER

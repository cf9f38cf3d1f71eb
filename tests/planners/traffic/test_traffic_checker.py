"""The checker of loop nests finds what does not fit and what was not there."""

import pytest

from csdf.errors import InvalidPlan
from planners.traffic.nest import MOVES, Array, Loop, LoopNest
from planners.traffic.simulator import walk
from tests.planners.traffic.layers import published_layer

LAYER = published_layer(maps=2, size=4)
NEST = LoopNest(order=tuple(Loop), tiles=(1, 1, 2, 2, 3, 1), levels=(6, 6, 6))
UNTILED = LoopNest(order=tuple(Loop), tiles=(2, 2, 4, 4, 3, 3), levels=(0, 0, 0))


def test_a_buffer_one_byte_too_small_overflows():
    # 2 x 2 outputs of one kernel column read 3 rows (one of four is padding) of 2 columns; with 3
    # weights and 4 outputs that makes 13 elements.
    assert walk(LAYER, NEST, buffer_bytes=13, element_bytes=1).most_held_bytes == 13
    with pytest.raises(InvalidPlan, match="the buffer has 12"):
        walk(LAYER, NEST, buffer_bytes=12, element_bytes=1)


def test_every_multiplication_is_done_once_but_those_with_padding():
    # Along each axis 4 outputs times 3 kernel places, less one at either end; 2 filters, 2 channels.
    walked = walk(LAYER, NEST, buffer_bytes=100, element_bytes=1)
    assert walked.multiplications == 2 * 2 * 10 * 10


@pytest.mark.parametrize(
    ("array", "forgotten"),
    [
        (Array.WEIGHTS, Loop.KERNEL_COLUMNS),
        (Array.INPUT, Loop.KERNEL_COLUMNS),
        (Array.OUTPUT, Loop.COLUMNS),
    ],
)
def test_a_tile_that_should_have_been_changed_is_missed(monkeypatch, array, forgotten):
    monkeypatch.setitem(MOVES, array, MOVES[array] - {forgotten})
    with pytest.raises(InvalidPlan, match="is not in the buffer"):
        walk(LAYER, NEST, buffer_bytes=1000, element_bytes=1)


def test_a_loop_that_ends_early_leaves_outputs_incomplete(monkeypatch):
    monkeypatch.setattr("planners.traffic.simulator._iterations", _without_the_last)
    with pytest.raises(InvalidPlan, match="not complete"):
        walk(LAYER, UNTILED, buffer_bytes=1000, element_bytes=1)


def test_a_loop_that_goes_round_too_often_adds_a_term_twice(monkeypatch):
    monkeypatch.setattr("planners.traffic.simulator._iterations", _with_the_first_again)
    with pytest.raises(InvalidPlan, match="a term twice"):
        walk(LAYER, UNTILED, buffer_bytes=1000, element_bytes=1)


WHOLE = {loop: range(size) for loop, size in zip(Loop, (2, 2, 4, 4, 3, 3), strict=True)}


def _without_the_last(layer, nest):
    yield WHOLE | {Loop.CHANNELS: range(1)}


def _with_the_first_again(layer, nest):
    yield WHOLE
    yield WHOLE | {Loop.CHANNELS: range(1)}

"""The checker of loop nests finds what does not fit and what was not there."""

import pytest

from csdf.errors import InvalidPlan
from planners.traffic.nest import Array, NestLoop
from tests.planners.traffic.layers import nest_of, published_layer
from tests.reference.loop_nest_walk import _Buffer, walk

LAYER = published_layer(maps=2, size=4)
NEST = nest_of(
    (Array.OUTPUT, Array.WEIGHTS, Array.INPUT), ((1, 1), (1, 1), (2, 2), (2, 2), (3, 3), (1, 1))
)
UNTILED = nest_of(tuple(Array), ((2, 2), (2, 2), (4, 4), (4, 4), (3, 3), (3, 3)))


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


@pytest.mark.parametrize("forgotten", Array)
def test_a_tile_that_should_have_been_changed_is_missed(monkeypatch, forgotten):
    bring = _Buffer.replace

    def bring_once(buffer, array, *rest, **options):
        if array is not forgotten or not buffer.held[array]:
            bring(buffer, array, *rest, **options)

    monkeypatch.setattr(_Buffer, "replace", bring_once)
    with pytest.raises(InvalidPlan, match="is not in the buffer"):
        walk(LAYER, NEST, buffer_bytes=1000, element_bytes=1)


def test_a_loop_that_ends_early_leaves_outputs_incomplete(monkeypatch):
    monkeypatch.setattr("tests.reference.loop_nest_walk._band", _without_the_last)
    with pytest.raises(InvalidPlan, match="not complete"):
        walk(LAYER, UNTILED, buffer_bytes=1000, element_bytes=1)


def test_a_loop_that_goes_round_too_often_adds_a_term_twice(monkeypatch):
    monkeypatch.setattr("tests.reference.loop_nest_walk._band", _with_the_first_again)
    with pytest.raises(InvalidPlan, match="a term twice"):
        walk(LAYER, UNTILED, buffer_bytes=1000, element_bytes=1)


def _without_the_last(nest, array, ranges):
    yield False, {**ranges, NestLoop.CHANNELS: range(1)}


def _with_the_first_again(nest, array, ranges):
    yield False, ranges
    if array is Array.OUTPUT:
        yield True, {**ranges, NestLoop.CHANNELS: range(1)}

"""The least traffic of one layer: against every nest, and relations that hold for all layers."""

from dataclasses import replace
from functools import cache
from operator import mul
from random import Random

import pytest

from csdf.errors import InvalidPlan
from csdf.kernels import compile as compiler
from csdf.time_limit import Stop
from planners.traffic.convolution import ELEMENTS, ArrayBytes, ConvolutionLoops
from planners.traffic.footprints import one_level
from planners.traffic.nest import Halo, transfers
from planners.traffic.one_layer import NestSearches, minimum_traffic
from tests import both_kernels
from tests.both_kernels import needs_compiled
from tests.planners.traffic.layers import (
    published_layer,
    random_convolution,
    random_nest,
    with_one_level,
)
from tests.reference.loop_nest_walk import walk

LAYER = published_layer()
SMALL_LAYERS = (
    # Three or four loops longer than one each, so that all nests can be tried.
    (Halo.CACHED, {"filters": 2, "channels": 2, "input_rows": 3, "kernel_rows": 2}),
    (Halo.CACHED, {"input_rows": 3, "input_columns": 3, "kernel_rows": 2, "kernel_columns": 2}),
    (Halo.CACHED, {"filters": 2, "input_rows": 5, "kernel_rows": 3, "padding": (1, 0, 1, 0)}),
    (Halo.RELOADED, {"filters": 2, "input_rows": 5, "kernel_rows": 3, "padding": (1, 0, 1, 0)}),
    (Halo.RELOADED, {"channels": 3, "input_rows": 7, "kernel_rows": 2, "stride": (2, 1)}),
    (Halo.CACHED, {"channels": 2, "input_rows": 9, "kernel_rows": 3, "dilation": (2, 1)}),
    (Halo.RELOADED, {"filters": 2, "input_rows": 3, "input_columns": 4}),
    (Halo.CACHED, {"filters": 4, "channels": 3, "input_columns": 3}),
    (Halo.RELOADED, {"input_rows": 4, "kernel_rows": 2, "padding": (3, 0, 2, 0), "filters": 2}),
    (
        Halo.CACHED,
        {"input_columns": 3, "kernel_columns": 3, "padding": (0, 2, 0, 2), "channels": 2},
    ),
)


@cache
def nests_of(number):
    """A small layer, its halo, and what each nest with one level of tiles moves and holds."""
    halo, dims = SMALL_LAYERS[number]
    layer = small(**dims)
    return layer, halo, list(with_one_level(layer, halo))


def small(**sizes):
    return ConvolutionLoops(
        **{"name": "small", "filters": 1, "channels": 1, "input_rows": 1, "input_columns": 1}
        | sizes
    )


@pytest.mark.slow
@pytest.mark.parametrize("sizes", [ArrayBytes(1, 1, 1), ArrayBytes(4, 1, 2)], ids=str)
@pytest.mark.parametrize("number", range(len(SMALL_LAYERS)))
def test_no_nest_with_one_level_of_tiles_moves_less(number, sizes):
    layer, halo, nests = nests_of(number)
    least = {}  # traffic of the best nest that holds so much
    for moved, tiles in nests:
        total, held = (sum(map(mul, one, sizes)) for one in (moved, tiles))
        least[held] = min(total, least.get(held, total))
    searches, smallest = NestSearches(), sum(sizes)
    rooms = sorted({smallest, *least, *(held - 1 for held in least if held > smallest)})
    for room in rooms[:: max(1, len(rooms) // 15)]:
        expected = min(total for held, total in least.items() if held <= room)
        search = searches.of_group(layer, halo, sizes)
        *_, nest = search.better(room, search.most(room), one_level, Stop())
        found = transfers(layer, nest)
        assert found.held_bytes(sizes) <= room
        assert found.total_bytes(sizes) <= expected, room  # less where a tile is cut once more


@pytest.mark.parametrize("seed", range(6))
def test_no_random_nest_of_six_loops_moves_less(seed):
    random = Random(seed)
    for _ in range(5):
        layer, searches = random_convolution(random), NestSearches()
        for _ in range(30):
            nest = random_nest(random, layer)
            found = transfers(layer, nest)
            room = max(3, sum(found.held))
            answer = minimum_traffic(layer, buffer_bytes=room, element_bytes=1, searches=searches)
            assert answer.total_bytes <= found.total_bytes(ELEMENTS)


@pytest.mark.parametrize("seed", range(4))
def test_the_checker_agrees_with_every_answer(seed):
    random = Random(seed)
    for _ in range(10):
        layer = random_convolution(random)
        room = random.randint(3, 60) * 2
        answer = minimum_traffic(layer, buffer_bytes=room, element_bytes=2)
        walked = walk(layer, answer.nest, buffer_bytes=room, element_bytes=2)
        assert walked.total_bytes == answer.total_bytes
        assert walked.most_held_bytes <= answer.held_bytes <= room


@pytest.mark.parametrize("seed", range(4))
def test_the_checker_agrees_where_elements_differ_in_size(seed):
    random = Random(seed)
    for _ in range(10):
        layer = random_convolution(random)
        sizes = ArrayBytes(*(random.choice((1, 2, 4)) for _ in range(3)))
        room = random.randint(sum(sizes), 120)
        answer = minimum_traffic(layer, buffer_bytes=room, element_bytes=sizes)
        walked = walk(layer, answer.nest, buffer_bytes=room, element_bytes=sizes)
        assert walked.total_bytes == answer.total_bytes
        assert walked.most_held_bytes <= answer.held_bytes <= room
        assert answer.total_bytes >= answer.lower_bound_bytes
        uniform = (
            minimum_traffic(layer, buffer_bytes=room, element_bytes=max(sizes))
            if (3 * max(sizes) <= room)
            else None
        )
        assert uniform is None or answer.total_bytes <= uniform.total_bytes


@pytest.mark.slow
def test_the_answer_for_the_published_layer_walks_as_predicted():
    answer = minimum_traffic(LAYER, buffer_bytes=512 * 1024, element_bytes=4)
    walked = walk(LAYER, answer.nest, buffer_bytes=512 * 1024, element_bytes=4)
    assert walked.total_bytes == answer.total_bytes
    # Everything moves once: 64 x 56 x 56 inputs and outputs, 64 x 64 x 9 weights, of 4 bytes.
    assert answer.total_bytes == 4 * (2 * 64 * 56 * 56 + 64 * 64 * 9) == answer.lower_bound_bytes


def test_a_larger_buffer_never_moves_more_and_kept_halos_never_more_than_reloaded():
    known = None
    for room in (1, 2, 4, 8, 16, 32, 64, 128, 256, 512):
        kept, reloaded = (
            minimum_traffic(LAYER, buffer_bytes=room * 1024, element_bytes=4, halo=halo).total_bytes
            for halo in (Halo.CACHED, Halo.RELOADED)
        )
        assert kept <= reloaded
        assert known is None or kept <= known
        known = kept


def test_traffic_scales_with_the_bytes_of_an_element():
    narrow = minimum_traffic(LAYER, buffer_bytes=2**14, element_bytes=1)
    wide = minimum_traffic(LAYER, buffer_bytes=2**16, element_bytes=4)
    assert wide.total_bytes == 4 * narrow.total_bytes
    assert wide.nest == narrow.nest


def test_the_minimum_traffic_of_groups_is_a_sum():
    group = published_layer(maps=8, size=14)
    grouped = replace(group, filters=32, channels=32, groups=4)
    one, all_four = (
        minimum_traffic(layer, buffer_bytes=3000, element_bytes=4) for layer in (group, grouped)
    )
    assert all_four.total_bytes == 4 * one.total_bytes
    assert all_four.held_bytes == one.held_bytes


def test_rows_and_columns_are_alike():
    tall = small(filters=6, channels=5, input_rows=20, input_columns=9, kernel_rows=3)
    wide = small(filters=6, channels=5, input_rows=9, input_columns=20, kernel_columns=3)
    for room in (50, 200, 800):
        one, other = (
            minimum_traffic(layer, buffer_bytes=room, element_bytes=1) for layer in (tall, wide)
        )
        assert one.total_bytes == other.total_bytes


def test_the_smallest_buffer_holds_one_element_of_each_array():
    layer = small(filters=2, channels=2)
    # Four multiplications with a single element each: a step keeps one of input, weight and output.
    # Two inputs, each for both filters: 2 inputs, 4 weights, 2 outputs written twice, read once.
    # Two outputs, each for both channels: 4 inputs, 4 weights, 2 outputs written once.
    answer = minimum_traffic(layer, buffer_bytes=3, element_bytes=1)
    assert answer.total_bytes == 10 == 4 + 4 + 2
    with pytest.raises(InvalidPlan, match="does not hold one element"):
        minimum_traffic(layer, buffer_bytes=11, element_bytes=4)


@needs_compiled
def test_compiled_or_not_the_answer_is_the_same(monkeypatch):
    layer = published_layer(maps=6, size=10)
    answers = []
    for backend in (compiler.PLAIN, compiler.COMPILED):
        both_kernels.use(monkeypatch, backend)
        answers.append(minimum_traffic(layer, buffer_bytes=1000, element_bytes=4))
    assert answers[0] == answers[1]


def test_a_layer_that_sees_padding_alone_writes_its_output():
    # The only output row lies over the row of padding: neither input nor weights are read.
    layer = small(filters=2, stride=(2, 1), padding=(1, 0, 0, 0))
    assert minimum_traffic(layer, buffer_bytes=100, element_bytes=1).total_bytes == 2

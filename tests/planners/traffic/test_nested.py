"""Nests with two levels of tiles: against every such nest, walked by the checker, by hand."""

from functools import cache
from itertools import pairwise, permutations, product
from operator import le
from random import Random

import pytest

from csdf.errors import GaveUp
from csdf.status import told
from csdf.time_limit import Stop
from planners.traffic.convolution import ELEMENTS, ArrayBytes, ConvolutionLoops, axes_of
from planners.traffic.footprints import (
    all_input_reads,
    one_level,
    tile_sizes,
    tiles_of,
    two_levels,
)
from planners.traffic.nest import MOVES, Array, Halo, NestLoop, lengths, listing, transfers
from planners.traffic.one_layer import NestSearches, TilesAlongAxis, minimum_traffic
from tests.planners.traffic.layers import SLIDES, nest_of, random_convolution


def product_of(filters, channels, columns):
    return ConvolutionLoops(
        name="product", filters=filters, channels=channels, input_rows=1, input_columns=columns
    )


@pytest.mark.parametrize(
    ("sizes", "room", "expected"),
    [
        # Outputs of 8 x 8 stay, 8 inputs and a weight pass: 64 + 8 + 1 elements. Weights and inputs
        # come 8 times each, 2 * 8 * 4096, and outputs go once, 4096.
        ((64, 64, 64), 73, 2 * 8 * 4096 + 4096),
        # Outputs of 4 x 4: 16 + 4 + 1 elements; 2 * 4 * 256 and 256.
        ((16, 16, 16), 21, 2 * 4 * 256 + 256),
        # Outputs of 8 x 5: 40 + 5 + 1. Inputs come 8 times, weights 13 times.
        ((64, 64, 64), 46, (8 + 13) * 4096 + 4096),
    ],
)
def test_a_matrix_product_with_tile_loops_and_point_loops(sizes, room, expected):
    layer = product_of(*sizes)
    answer = minimum_traffic(layer, buffer_bytes=room, element_bytes=1)
    assert answer.total_bytes <= expected
    assert answer.lower_bound_bytes <= answer.total_bytes
    assert answer.held_bytes <= room


def test_the_loops_of_a_matrix_product_are_listed():
    layer = product_of(64, 64, 64)
    answer = minimum_traffic(layer, buffer_bytes=73, element_bytes=1)
    assert listing(layer, answer.nest).splitlines() == [
        "for 8 tiles of 8 filters",
        "  for 8 tiles of 8 columns",
        "    clear output 8 x 1 x 8",
        "    for each of 64 channels",
        "      load input 1 x 1 x 8",
        "      for each of 8 filters",
        "        load weights 1 x 1 x 1 x 1",
        "        multiply and add",
        "    write output 8 x 1 x 8",
    ]


def every_nested(layer):
    """All orders, tiles that are the smallest for their number, and sliding loops."""
    pairs = [
        [(outer, inner) for outer in tile_sizes(size) for inner in tile_sizes(outer)]
        for size in lengths(layer)
    ]
    for order, slides in product(permutations(Array), SLIDES):
        for chosen in product(*pairs):
            yield nest_of(order, chosen, slides)


SMALL = (
    {"filters": 4, "channels": 3, "input_columns": 4},
    {"filters": 5, "channels": 1, "input_rows": 5, "kernel_rows": 3, "padding": (1, 0, 1, 0)},
    {"filters": 2, "channels": 2, "input_rows": 6, "kernel_rows": 2, "stride": (1, 1)},
    {"filters": 3, "channels": 2, "input_columns": 7, "kernel_columns": 3, "dilation": (1, 2)},
    {"filters": 2, "input_rows": 4, "input_columns": 4, "kernel_rows": 2, "kernel_columns": 2},
    {"filters": 3, "channels": 2, "input_columns": 7, "kernel_columns": 3, "stride": (1, 2)},
)


@cache
def nested_transfers(**sizes):
    """A small layer, and what each of its nests moves."""
    base = {"name": "small", "filters": 1, "channels": 1, "input_rows": 1, "input_columns": 1}
    layer = ConvolutionLoops(**base | sizes)
    return layer, [transfers(layer, nest) for nest in every_nested(layer)]


def best_nested(layer, room, below, search):
    """The last of the nests that the search finds; None if there is none."""
    found = list(search.better(room, below, two_levels, Stop()))
    totals = [transfers(layer, nest).total_bytes(ELEMENTS) for nest in found]
    assert totals == sorted(totals, reverse=True)
    return found[-1] if found else None


@pytest.mark.parametrize(
    "sizes",
    [one if one == SMALL[1] else pytest.param(one, marks=pytest.mark.slow) for one in SMALL],
    ids=str,
)
def test_no_nest_with_two_levels_of_tiles_moves_less(sizes):
    layer, each = nested_transfers(**sizes)
    least = {}
    for found in each:
        held = sum(found.held)
        moved = found.total_bytes(ELEMENTS)
        least[held] = min(moved, least.get(held, moved))
    rooms = sorted({*least, *(held - 1 for held in least if held - 1 >= min(least))})
    search = NestSearches().of_group(layer, Halo.CACHED)
    for room in rooms[:: max(1, len(rooms) // 12)]:
        expected = min((total for held, total in least.items() if held <= room), default=None)
        answer = best_nested(layer, room, 10**9, search)
        assert transfers(layer, answer).total_bytes(ELEMENTS) == expected, room
        assert sum(transfers(layer, answer).held) <= room
        assert best_nested(layer, room, expected, search) is None


@pytest.mark.parametrize("sizes", SMALL[:3], ids=str)
def test_no_nest_with_two_levels_moves_less_where_elements_differ_in_size(sizes):
    (layer, each), of_arrays = nested_transfers(**sizes), ArrayBytes(4, 1, 2)
    least = {}
    for found in each:
        held = found.held_bytes(of_arrays)
        least[held] = min(found.total_bytes(of_arrays), least.get(held, 10**9))
    rooms = sorted({*least, *(held - 1 for held in least if held - 1 >= min(least))})
    search = NestSearches().of_group(layer, Halo.CACHED, of_arrays)
    for room in rooms[:: max(1, len(rooms) // 15)]:
        expected = min(total for held, total in least.items() if held <= room)
        *_, answer = search.better(room, 10**9, two_levels, Stop())
        assert transfers(layer, answer).total_bytes(of_arrays) == expected, room
        assert transfers(layer, answer).held_bytes(of_arrays) <= room


def random_axis(random):
    """Any stride, dilation and padding; also windows that see padding alone."""
    while True:
        layer = random_convolution(random, largest=20)
        axis = random.choice(axes_of(layer))
        if axis.outputs > 1:
            return axis


def read_places(axis, outputs, taps):
    """The places of the map that some outputs read at some live places of the kernel."""
    read = {
        axis.stride * output + axis.dilation * axis.live[tap] - axis.padding
        for output in outputs
        for tap in taps
    }
    return {place for place in read if 0 <= place < axis.inputs}


def cut(whole, outer, inner):
    """The inner tiles, for each of the outer ones."""
    chunks = [whole[at : at + outer] for at in range(0, len(whole), outer)]
    return [[one[at : at + inner] for at in range(0, len(one), inner)] for one in chunks]


@pytest.mark.parametrize("cuts", [one_level, two_levels])
@pytest.mark.parametrize("seed", range(5))
def test_input_reads_of_all_tiles_agree_with_sets_of_pixels(seed, cuts):
    axis = random_axis(Random(seed))
    places, taps = cuts(axis.outputs), cuts(max(1, len(axis.live)))
    largest, moved = all_input_reads(axis, places, taps)
    for (row, place), (column, tap) in product(enumerate(places), enumerate(taps)):
        downs = cut(range(axis.outputs), *place)
        steps = cut(range(len(axis.live)), *tap) or [[range(0)]]
        sizes, shared_down, shared_step = [], 0, 0
        for chunk, bundle in product(downs, steps):
            each = [[read_places(axis, one, other) for other in bundle] for one in chunk]
            sizes += [len(one) for line in each for one in line]
            for line, after in pairwise(each):
                shared_down += sum(len(a & b) for a, b in zip(line, after, strict=True))
            shared_step += sum(len(a & b) for line in each for a, b in pairwise(line))
        expected = [sum(sizes), sum(sizes) - shared_down, sum(sizes) - shared_step]
        assert largest[row, column] == max(sizes), (axis, place, tap)
        assert moved[:, row, column].tolist() == expected, (axis, place, tap)


@pytest.mark.parametrize("seed", range(5))
def test_tiles_that_are_left_out_along_an_axis_are_no_better_than_one_that_is_not(seed):
    tiles, random = TilesAlongAxis(random_axis(Random(seed)), two_levels), Random(seed)
    order, way = random.choice(list(permutations(Array))), random.randint(0, 2)
    everything = tiles.every(order, way).costs.tolist()
    kept = list(map(tuple, tiles.options(order, way, Stop()).costs.tolist()))
    assert len(set(kept)) == len(kept)
    for one in everything:
        assert any(all(map(le, other, one)) for other in kept)
    for one, other in permutations(kept, 2):
        assert not all(map(le, one, other))


class Looks:
    """Ends a search at a look, and counts them."""

    def __init__(self, last):
        self.last, self.count = last, 0

    def __call__(self, _):
        self.count += 1
        if self.count > self.last:
            raise GaveUp("enough")


def test_a_search_that_ends_early_has_an_answer_at_once_and_a_better_one_later():
    layer = ConvolutionLoops(
        name="wide", filters=22, channels=21, input_rows=1, input_columns=52, kernel_columns=2
    )
    ends = [0, 1, 5, 20, 60, 10**9]
    answers = []
    for last in ends:
        look = Looks(last)
        answers.append(
            minimum_traffic(layer, buffer_bytes=20, element_bytes=1, budget=Stop(report=look))
        )
        assert look.count <= last + 1  # it stops when it is told to
    totals = [one.total_bytes for one in answers]
    assert totals == sorted(totals, reverse=True)
    assert totals[-1] < totals[0]
    assert [one.ended for one in answers] == [told("enough")] * (len(ends) - 1) + [None]
    # What was found before an early end is not taken for the best afterwards.
    look, shared = Looks(5), NestSearches()
    budget = Stop(report=look)
    minimum_traffic(layer, buffer_bytes=20, element_bytes=1, budget=budget, searches=shared)
    after = minimum_traffic(layer, buffer_bytes=20, element_bytes=1, searches=shared)
    assert after.total_bytes == totals[-1]


def test_every_loop_moves_two_arrays():
    for loop in NestLoop:
        assert sum(loop in MOVES[array] for array in Array) == 2


def test_tiles_in_tiles_are_counted_with_what_is_left_over():
    # 11 in tiles of 4 (4, 4, 3) in tiles of 3: 2 + 2 + 1.
    assert tiles_of(11, 4, 3) == 5
    assert tiles_of(11, 4) == 3
    assert tiles_of(11) == 1

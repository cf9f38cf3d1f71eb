"""Nests with two levels of tiles: against every such nest, walked by the checker, by hand."""

from itertools import permutations, product
from operator import le
from random import Random

import pytest

from csdf.errors import GaveUp
from csdf.kernels import compile as compiler
from csdf.outcome import told
from csdf.time_limit import Stop
from planners.traffic.convolution import ArrayBytes, Convolution
from planners.traffic.footprints import axes_of
from planners.traffic.nest import (
    MOVES,
    Array,
    Halo,
    Loop,
    LoopNest,
    NestedTiles,
    input_reads,
    lengths,
    listing,
    nested_transfers,
    tiles_of,
)
from planners.traffic.nested_search import (
    AxisTiles,
    input_reads_of_all,
    movers,
    nested_search,
    pairs_of,
    tile_sizes,
    tiles_along,
)
from planners.traffic.one_layer import least_traffic
from planners.traffic.simulator import walk_nested
from tests.planners.traffic.layers import random_convolution

SLIDES = (None, Loop.ROWS, Loop.COLUMNS, Loop.KERNEL_ROWS, Loop.KERNEL_COLUMNS)


def product_of(filters, channels, columns):
    return Convolution(
        name="product", filters=filters, channels=channels, input_rows=1, input_columns=columns
    )


def nested(order, pairs, slides=None):
    """A nest with these tiles of each loop, in the outer and in the inner array that it moves."""
    tiles = [[1] * len(Loop) for _ in Array]
    for loop, pair in zip(Loop, pairs, strict=True):
        for array, size in zip(movers(order, loop), pair, strict=True):
            tiles[array][loop] = size
    return NestedTiles(order=order, tiles=tuple(map(tuple, tiles)), slides=slides)


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
    answer = least_traffic(layer, buffer_bytes=room, element_bytes=1)
    assert answer.total_bytes <= expected
    assert answer.lower_bound_bytes <= answer.total_bytes
    assert answer.held_bytes <= room


def test_the_loops_of_a_matrix_product_are_listed():
    layer = product_of(64, 64, 64)
    answer = least_traffic(layer, buffer_bytes=73, element_bytes=1)
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


def random_nested(random, layer):
    order = random.choice(list(permutations(Array)))
    pairs = []
    for length in lengths(layer):
        outer = random.randint(1, length)
        pairs.append((outer, random.randint(1, outer)))
    return nested(order, pairs, random.choice(SLIDES))


@pytest.mark.parametrize("seed", range(8))
def test_counted_is_walked_for_any_layer_and_nest(seed):
    random = Random(seed)
    for _ in range(60):
        layer = random_convolution(random, largest=6)
        nest = random_nested(random, layer)
        counted = nested_transfers(layer, nest)
        walked = walk_nested(layer, nest, buffer_bytes=counted.held_elements, element_bytes=1)
        moved = walked.input_bytes, walked.weight_bytes, walked.output_bytes
        assert moved == (counted.input, counted.weights, counted.output), (layer, nest)


def every_nested(layer):
    """All orders, tiles that are the smallest for their number, and sliding loops."""
    pairs = [
        [(outer, inner) for outer in tile_sizes(size) for inner in tile_sizes(outer)]
        for size in lengths(layer)
    ]
    for order, slides in product(permutations(Array), SLIDES):
        for chosen in product(*pairs):
            yield nested(order, chosen, slides)


SMALL = (
    {"filters": 4, "channels": 3, "input_columns": 4},
    {"filters": 5, "channels": 1, "input_rows": 5, "kernel_rows": 3, "padding": (1, 0, 1, 0)},
    {"filters": 2, "channels": 2, "input_rows": 6, "kernel_rows": 2, "stride": (1, 1)},
    {"filters": 3, "channels": 2, "input_columns": 7, "kernel_columns": 3, "dilation": (1, 2)},
    {"filters": 2, "input_rows": 4, "input_columns": 4, "kernel_rows": 2, "kernel_columns": 2},
    {"filters": 3, "channels": 2, "input_columns": 7, "kernel_columns": 3, "stride": (1, 2)},
)


def best_nested(layer, room, below):
    """The last of the nests that the search finds; None if there is none."""
    search = nested_search(layer, Halo.KEPT)
    found = list(search.better(room, below, backend_for=lambda *_: compiler.PLAIN, stop=Stop()))
    totals = [nested_transfers(layer, nest).total for nest in found]
    assert totals == sorted(totals, reverse=True)
    return found[-1] if found else None


@pytest.mark.parametrize(
    "sizes",
    [one if one == SMALL[1] else pytest.param(one, marks=pytest.mark.slow) for one in SMALL],
    ids=str,
)
def test_no_nest_with_two_levels_of_tiles_moves_less(sizes):
    base = {"name": "small", "filters": 1, "channels": 1, "input_rows": 1, "input_columns": 1}
    layer = Convolution(**base | sizes)
    least = {}
    for nest in every_nested(layer):
        found = nested_transfers(layer, nest)
        held = found.held_elements
        least[held] = min(found.total, least.get(held, found.total))
    rooms = sorted({*least, *(held - 1 for held in least if held - 1 >= min(least))})
    for room in rooms[:: max(1, len(rooms) // 25)]:
        expected = min((total for held, total in least.items() if held <= room), default=None)
        answer = best_nested(layer, room, 10**9)
        assert nested_transfers(layer, answer).total == expected, room
        assert nested_transfers(layer, answer).held_elements <= room
        assert best_nested(layer, room, expected) is None


@pytest.mark.parametrize("sizes", SMALL[:3], ids=str)
def test_no_nest_with_two_levels_moves_less_where_elements_differ_in_size(sizes):
    base = {"name": "small", "filters": 1, "channels": 1, "input_rows": 1, "input_columns": 1}
    layer, of_arrays = Convolution(**base | sizes), ArrayBytes(4, 1, 2)
    least = {}
    for nest in every_nested(layer):
        found = nested_transfers(layer, nest)
        held = found.held_bytes(of_arrays)
        least[held] = min(found.total_bytes(of_arrays), least.get(held, 10**9))
    rooms = sorted({*least, *(held - 1 for held in least if held - 1 >= min(least))})
    search = nested_search(layer, Halo.KEPT, of_arrays)
    for room in rooms[:: max(1, len(rooms) // 15)]:
        expected = min(total for held, total in least.items() if held <= room)
        *_, answer = search.better(room, 10**9, backend_for=lambda *_: compiler.PLAIN, stop=Stop())
        assert nested_transfers(layer, answer).total_bytes(of_arrays) == expected, room
        assert nested_transfers(layer, answer).held_bytes(of_arrays) <= room


def random_axis(random):
    """Any stride, dilation and padding; also windows that see padding alone."""
    while True:
        layer = random_convolution(random, largest=20)
        axis = random.choice(axes_of(layer))
        if axis.outputs > 1:
            return axis


@pytest.mark.parametrize("seed", range(5))
def test_input_reads_of_all_tiles_at_once_are_those_of_one_pair_after_another(seed):
    axis = random_axis(Random(seed))
    places, taps = pairs_of(axis.outputs), pairs_of(max(1, len(axis.live)))
    largest, moved = input_reads_of_all(axis, places, taps)
    for (row, place), (column, tap) in product(enumerate(places), enumerate(taps)):
        found = input_reads(axis, place, tap)
        assert found == (largest[row, column], tuple(moved[:, row, column])), (axis, place, tap)


@pytest.mark.parametrize("seed", range(5))
def test_tiles_that_are_left_out_along_an_axis_are_no_better_than_one_that_is_not(seed):
    tiles, random = AxisTiles(random_axis(Random(seed))), Random(seed)
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
    layer = product_of(60, 61, 62)
    ends = [0, 1, 5, 20, 60, 10**9]
    answers = []
    for last in ends:
        nested_search.cache_clear()
        tiles_along.cache_clear()
        look = Looks(last)
        answers.append(
            least_traffic(layer, buffer_bytes=73, element_bytes=1, budget=Stop(report=look))
        )
        assert look.count <= last + 1  # it stops when it is told to
    totals = [one.total_bytes for one in answers]
    assert isinstance(answers[0].nest, LoopNest)  # the best with one level of tiles
    assert totals == sorted(totals, reverse=True)
    assert totals[-1] < totals[0]
    assert [one.ended for one in answers] == [told("enough")] * (len(ends) - 1) + [None]
    # What was found before an early end is not taken for the best afterwards.
    look = Looks(5)
    nested_search.cache_clear()
    least_traffic(layer, buffer_bytes=73, element_bytes=1, budget=Stop(report=look))
    assert least_traffic(layer, buffer_bytes=73, element_bytes=1).total_bytes == totals[-1]


def test_every_loop_moves_two_arrays():
    for loop in Loop:
        assert sum(loop in MOVES[array] for array in Array) == 2


def test_tiles_in_tiles_are_counted_with_what_is_left_over():
    # 11 in tiles of 4 (4, 4, 3) in tiles of 3: 2 + 2 + 1.
    assert tiles_of(11, 4, 3) == 5
    assert tiles_of(11, 4) == 3
    assert tiles_of(11) == 1

"""Traffic by the formulas of Liao et al., against a walk over all places and by hand."""

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cnn2csdf.builder import NetworkBuilder
from cnn2csdf.geometry import ReceptiveField
from cnn2csdf.operators import Convolution, Elementwise, FullyConnected, Softmax, Window
from planners.plan.regions import even_ends
from planners.published.liao import (
    PublishedSearch,
    least_pair_traffic,
    nests,
    pair_traffic,
)
from planners.traffic.fused.accounting import CutTables
from planners.traffic.fused.group import FusedGroup, FusedLayer
from planners.traffic.layer_text import layers_from_text
from planners.traffic.network_traffic import NetworkSearch

SLIDES = "conv:56x56x64,64,3x3,pad=1+conv:64,3x3,pad=1"
BUFFER = 512 * 1024


def layer(rows, columns, channels, filters, kernel, stride, padding):
    reach = [
        ReceptiveField(
            inputs=size,
            outputs=(size + 2 * padding - kernel) // stride + 1,
            kernel=kernel,
            stride=stride,
            padding=padding,
        )
        for size in (rows, columns)
    ]
    return FusedLayer(channels=channels, filters=filters, rows=reach[0], columns=reach[1])


@st.composite
def pairs(draw):
    small = st.integers(1, 3)
    first = layer(
        draw(st.integers(4, 9)), draw(st.integers(4, 9)), draw(small), draw(small),
        draw(small), draw(st.integers(1, 2)), draw(st.integers(0, 1)),
    )  # fmt: skip
    rows, columns = first.rows.outputs, first.columns.outputs
    padding = draw(st.integers(0, 1))
    kernel = draw(st.integers(1, min(rows, columns, 3)))
    second = layer(rows, columns, first.filters, draw(small), kernel, 1, padding)
    ends = second.rows.outputs, second.columns.outputs
    parts = tuple(draw(st.integers(1, end)) for end in ends)
    return FusedGroup(layers=(first, second)), parts


def window(one, place):
    """The places under the window of one output place."""
    rows, columns = one.rows, one.columns
    seen = set()
    for fy, fx in product(range(rows.kernel), range(columns.kernel)):
        y = place[0] * rows.stride + fy - rows.padding
        x = place[1] * columns.stride + fx - columns.padding
        if 0 <= y < rows.inputs and 0 <= x < columns.inputs:
            seen.add((y, x))
    return seen


def live(one, made):
    """The kernel places that lie on the input for some place that is made."""
    return {
        (fy, fx)
        for place in made
        for fy, fx in product(range(one.rows.kernel), range(one.columns.kernel))
        if 0 <= place[0] * one.rows.stride + fy - one.rows.padding < one.rows.inputs
        if 0 <= place[1] * one.columns.stride + fx - one.columns.padding < one.columns.inputs
    }


def walked(group, parts):
    """Input, weights, halo, output and both nests' elements, part by part and place by place."""
    first, second = group.layers
    ends = [
        [*even_ends(length, count)]
        for length, count in zip((second.rows.outputs, second.columns.outputs), parts, strict=True)
    ]
    starts = [[0, *axis[:-1]] for axis in ends]
    cuts = [list(zip(*pair, strict=True)) for pair in zip(starts, ends, strict=True)]
    jobs = []
    for (top, bottom), (left, right) in product(*cuts):
        out = set(product(range(top, bottom), range(left, right)))
        jobs.append((out, set().union(*(window(second, place) for place in out))))
    inputs = halo = 0
    held, there = [0, 0], set()
    for number, (out, needed) in enumerate(jobs):
        fresh = needed - there
        read = set().union(*(window(first, place) for place in fresh)) if fresh else set()
        inputs += first.channels * len(read)
        halo += first.filters * len(needed & there)
        later = set().union(*(other for _, other in jobs[number + 1 :]))
        halo += first.filters * len(fresh & later)
        there |= needed
        held[0] = max(held[0], first.filters * len(fresh) + len(read) + first.filters)
        held[1] = max(held[1], first.filters * len(needed) + len(out) + second.channels)
    weights = len(jobs) * sum(
        len(live(one, made)) * one.channels * one.filters
        for one, made in ((first, there), (second, set().union(*(out for out, _ in jobs))))
    )
    return inputs, weights, halo, 2 * second.outputs, tuple(held)


@given(pairs())
@settings(max_examples=60, deadline=None)
def test_traffic_and_buffer_of_a_pair_equal_a_walk_over_its_pixels(case):
    group, tiles = case
    found = pair_traffic(CutTables(group), tiles)
    assert (found.input, found.weights, found.halo, found.output, found.held) == walked(*case)


def branched(reads_again):
    """Two 3x3 convolutions over 8x8x4 maps; the map between is added, or read by a third layer."""
    build = NetworkBuilder("branched")
    window = Window(kernel=(3, 3), padding=(1, 1, 1, 1))
    build.input((4, 8, 8), name="in")
    build.add(Convolution(filters=4, window=window), "in", name="a")
    build.add(Convolution(filters=4, window=window), "a", name="b")
    if reads_again == "addition":
        build.add(Elementwise(function="add"), "a", "b", name="sum")
        build.output("sum")
    else:
        build.output("b")
        build.add(Softmax(axis=0), "a", name="other")
        build.output(build.add(Softmax(axis=0), "other", name="deeper"))  # which comes later
    return build.network()


@pytest.mark.parametrize(("reads_again", "between"), [("addition", 0), ("branch", 1)])
def test_a_map_between_is_written_once_where_others_read_it_and_added_in_the_buffer(
    reads_again, between
):
    # Maps have 8 * 8 * 4 = 256 elements, weights 4 * 4 * 9 = 144: T_I + T_W + T_W + 2 T_O, and
    # the map between once, in a buffer with room for it, a map and 4 weights.
    found = PublishedSearch(branched(reads_again), 1).best(256 + 64 + 4, 2)
    (pair,) = (group for group in found.groups if len(group.stages) > 1)
    assert pair.total_bytes == 256 + 2 * 144 + 2 * 256 + between * 256


def test_a_pair_of_fully_connected_layers_is_not_cut():
    build = NetworkBuilder("matrices")
    build.input((6, 4, 4), name="in")
    build.add(FullyConnected(units=8), "in", name="a")
    build.output(build.add(FullyConnected(units=5), "a", name="b"))
    (pair,) = PublishedSearch(build.network(), 1).best(100, 2).groups
    # T_I + T_W + T_W + 2 T_O
    assert pair.total_bytes == 96 + 96 * 8 + 8 * 5 + 2 * 5
    assert pair.fused.tiles == (1, 1)


def test_the_search_finds_the_schedule_of_the_slides():
    found = PublishedSearch(layers_from_text(SLIDES), 4).best(BUFFER, 2)
    # Input 430,080 + 401,408; weights 4 * 147,456; halo 2 * 28,672; output 2 * 802,816.
    assert found.total_bytes == 831_488 + 589_824 + 57_344 + 1_605_632 == 3_084_288
    (pair,) = found.groups
    assert pair.fused.tiles == (1, 2)
    # 29 columns of the map between, 30 columns of a map of the input, 64 weights of four bytes.
    assert pair.held_bytes == 415_744 + 6_720 + 256


@pytest.mark.parametrize(
    ("size", "maps", "total"), [(28, 128, 2_383_872), (14, 256, 5_320_704), (7, 512, 19_175_424)]
)
def test_a_pair_that_fits_moves_everything_once_and_its_output_twice(size, maps, total):
    text = f"conv:{size}x{size}x{maps},{maps},3x3,pad=1+conv:{maps},3x3,pad=1"
    found = PublishedSearch(layers_from_text(text), 4).best(BUFFER, 2)
    # size^2 * maps in, twice that out, 2 * 9 * maps^2 weights, four bytes each.
    assert found.total_bytes == total == 4 * (3 * size * size * maps + 18 * maps * maps)


def test_a_layer_alone_reads_and_writes_its_output():
    text = "conv:56x56x64,64,3x3,pad=1"
    found = PublishedSearch(layers_from_text(text), 4).best(BUFFER, 1)
    # The best nest with rows shared by tiles read again, 1,810,432, and the output once more.
    assert found.total_bytes == 1_810_432 + 802_816


@given(pairs(), st.integers(4, 400))
@settings(max_examples=25, deadline=None)
def test_no_feasible_tiling_moves_less_than_the_chosen_tiling(case, room):
    group, parts = case
    other, best = pair_traffic(CutTables(group), parts), least_pair_traffic(group, room)
    is_searched = 1 in parts  # along both axes only the fewest parts of a size are looked at
    if is_searched and max(other.held) <= room:
        assert best is not None
        assert best.total <= other.total


def test_published_traffic_is_never_below_ours():
    network = layers_from_text(f"{SLIDES}+pool:2x2,stride=2+conv:32,1x1")
    own, published = NetworkSearch(network, 4), PublishedSearch(network, 4)
    for size in (32 * 1024, 128 * 1024, BUFFER):
        assert published.best(size, 2).total_bytes >= own.best(size, 2).total_bytes


def test_the_nests_are_those_of_the_slides():
    (pair,) = PublishedSearch(layers_from_text(SLIDES), 4).best(BUFFER, 2).groups
    text = nests(pair.fused)
    # Upper ends are exclusive: 29 and 27 columns of the map between, 28 and 28 of the output.
    columns = [line.split()[3:5] for line in text.splitlines() if "oxx" in line]
    assert columns == [["1,", "30"], ["1,", "29"], ["30,", "57"], ["29,", "57"]]
    assert text.count("mm = 1, 65, step 64") == text.count("cc = 1, 65, step 64") == 2


def test_of_many_parts_the_first_two_and_the_last_are_listed():
    reach = ReceptiveField(inputs=9, outputs=9, kernel=3, padding=1)
    one = FusedLayer(channels=1, filters=1, rows=reach, columns=reach)
    text = nests(pair_traffic(CutTables(FusedGroup(layers=(one, one))), (3, 3)))
    assert [line for line in text.splitlines() if line.startswith("nest")] == [
        f"nest {number}, layer {2 - number % 2}{', into the buffer' if number % 2 else ''}"
        for number in (1, 2, 3, 4, 17, 18)
    ]

"""No schedule at all moves less than a bound: layers and groups, need of places and of weights.

`python -m tests.planners.traffic.tiny_networks` draws as many cases as wanted.
"""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cnn2csdf import operators as op
from cnn2csdf.builder import NetworkBuilder
from cnn2csdf.catalogue.networks import from_catalogue
from planners.traffic.layer_text import layers_from_text
from planners.traffic.network_traffic import NetworkSearch
from tests.planners.traffic.any_schedule import (
    least_of_any_schedule,
    least_with_any_buffer,
    work_of,
)
from tests.planners.traffic.tiny_networks import random_case, random_window

HALF_SEEN = "conv:3x3x1,1,3x3,pad=1+conv:1,1x1,stride=5"
MOSTLY_PADDING = "1x1x4,4,3x3,pad=1,groups=4"


@pytest.mark.parametrize(
    "seed", [*range(7), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(7, 25))]
)
def test_bounds_are_no_more_and_answers_no_less_than_the_best_of_any_schedule(seed):
    random = Random(seed)
    for most_layers in (1, 1, 3):
        case = random_case(random, most_layers)
        assert case.bounds[0] <= case.any_buffer
        if case.least is not None:
            assert max(case.bounds) <= case.least, case
            assert case.found is None or case.least <= case.found, case


def test_the_search_over_any_schedule_knows_a_matrix_product():
    # 2 x 2 by 2 x 2 with room for three: each step holds an input, a weight and an output. Eight
    # steps that change one of them each: 3 in the first, 7 more; no order of them saves a reading.
    work = work_of(layers_from_text("conv:1x2x2,2,1x1"))
    assert least_with_any_buffer(work) == 4 + 4 + 4
    # With five, two outputs stay while an input and two weights pass: 4 + 8 + 4 less what stays.
    assert [least_of_any_schedule(work, room) for room in (3, 4, 5, 9)] == [17, 14, 13, 12]


def test_unused_weights_and_outputs_are_not_in_the_bound_of_a_group():
    network = layers_from_text(HALF_SEEN)
    found = NetworkSearch(network, 1).best(200 * 1024)
    # Of 3x3 places the stride of 5 looks at one, in the corner: it sees 2x2 places with 2x2 weights.
    assert found.total_bytes == found.bound_bytes == 4 + 4 + 1 + 1
    assert found.groups[0].bound_bytes == 10
    assert least_of_any_schedule(work_of(network), 20) == 10


def test_a_layer_and_a_group_leave_the_same_weights_outside():
    # Eight of nine places of each 3x3 kernel only ever see padding.
    alone = NetworkSearch(layers_from_text(f"conv:{MOSTLY_PADDING}"), 1).best(1000)
    assert alone.total_bytes == alone.bound_bytes == alone.groups[0].bound_bytes == 4 + 4 + 4
    behind = layers_from_text("conv:1x1x4,4,1x1+conv:4,3x3,pad=1,groups=4")
    group = NetworkSearch(behind, 1).best(1000)
    # The same behind a layer of 16 weights.
    assert group.total_bytes == group.bound_bytes == 4 + 16 + 4 + 4


def test_the_last_depthwise_layers_of_a_small_mobilenet_are_at_their_bounds():
    network = from_catalogue("mobilenet_v1:width=1/4,resolution=32")
    found = NetworkSearch(network, 1).best(64 * 1024, 1)
    for name in ("conv13_depthwise", "conv14_depthwise"):
        (layer,) = [one for one in found.groups if name in one.stages[0].layers]
        assert layer.total_bytes == layer.bound_bytes


@st.composite
def single_layers(draw):
    """A window on a small map, and the same behind a layer that moves nothing of its own."""
    random = Random(draw(st.integers(0, 10**6)))
    maps = random.randint(1, 3)
    groups = random.choice((1, maps))
    window = random_window(random)
    while window.extent[0] > 3 or window.extent[1] > 4:
        window = random_window(random)
    layer = op.Convolution(filters=groups * 2, window=window, groups=groups, has_bias=False)
    before = op.Pooling(function="max", window=op.Window(kernel=(1, 1)))
    networks = []
    for first in ((), (before,)):
        builder = NetworkBuilder("one")
        source = builder.input((maps, 5, 4))
        for operator in (*first, layer):
            source = builder.add(operator, source)
        builder.output(source)
        networks.append(builder.network())
    return networks


@pytest.mark.slow
@given(single_layers())
@settings(max_examples=60, deadline=None)
def test_one_layer_alone_and_in_a_group_moves_the_same_in_a_large_buffer(networks):
    alone, behind = (NetworkSearch(network, 1).best(100_000) for network in networks)
    assert len(behind.groups) == 1
    assert alone.total_bytes == behind.total_bytes == alone.bound_bytes == behind.bound_bytes
    assert alone.bound_bytes == least_with_any_buffer(work_of(networks[0]))


def test_unread_results_are_neither_written_nor_bounded():
    builder = NetworkBuilder("dead end")
    frame = builder.input((1, 2, 2))
    layer = op.Convolution(filters=1, window=op.Window(kernel=(1, 1)), has_bias=False)
    made = builder.add(layer, frame)
    builder.add(layer, made, name="read by nobody")
    builder.output(builder.add(layer, made))
    found = NetworkSearch(builder.network(), 1).best(1000)
    assert found.total_bytes == found.bound_bytes == 4 + 1 + 1 + 4


def test_an_operand_that_is_the_input_once_more_is_bounded_once():
    builder = NetworkBuilder("twice")
    frame = builder.input((1, 1, 3))
    layer = op.Convolution(filters=1, window=op.Window(kernel=(1, 1)), has_bias=False)
    made = builder.add(layer, frame)
    builder.output(builder.add(op.Elementwise(function="add"), made, frame))
    found = NetworkSearch(builder.network(), 1).best(1000, 1)
    # The stage reads the frame for the layer and for the sum; a schedule can read it once.
    assert found.groups[0].bound_bytes == found.bound_bytes == 3 + 1 + 3
    assert least_of_any_schedule(work_of(builder.network()), 1000) == 7


def test_maps_joined_with_themselves_are_bounded_once():
    builder = NetworkBuilder("joined")
    frame = builder.input((1, 2, 2))
    joined = builder.add(op.Concatenation(), frame, frame)
    layer = op.Convolution(filters=1, window=op.Window(kernel=(1, 1)), has_bias=False)
    builder.output(builder.add(layer, joined))
    found = NetworkSearch(builder.network(), 1).best(1000)
    assert found.groups[0].bound_bytes == found.bound_bytes == 4 + 2 + 4


def test_a_frame_that_a_result_shows_again_need_not_be_read():
    builder = NetworkBuilder("shown")
    frame = builder.input((2, 3, 4))
    half = op.Window(kernel=(1, 1), stride=(3, 4))
    builder.output(builder.add(op.Slice(axis=0, start=0, stop=1), frame))
    builder.output(builder.add(op.Pooling(function="max", window=half), frame))
    found = NetworkSearch(builder.network(), 1).best(1000)
    assert found.bound_bytes == 2 + 2  # a place of each map, in and out


def test_a_slice_needs_only_the_filters_that_make_it():
    builder = NetworkBuilder("sliced")
    frame = builder.input((3, 2, 2))
    layer = op.Convolution(filters=4, window=op.Window(kernel=(1, 1)), has_bias=False)
    made = builder.add(layer, frame)
    builder.output(builder.add(op.Slice(axis=0, start=1, stop=4, step=2), made))
    network = builder.network()
    # Two of four filters of three weights; what the layer writes shows two maps of four places.
    assert NetworkSearch(network, 1).best(1000).bound_bytes == 12 + 2 * 3 + 2 * 4
    assert least_with_any_buffer(work_of(network)) == 26

import sys
import tracemalloc

import numpy as np
import pytest
from convolutions import (
    any_sizes,
    by_channel,
    convolved,
    laid_out,
    output_dims,
    random_case,
    sizes_of,
    square_sizes,
)
from hypothesis import given, settings

from csdf.errors import InvalidPlan
from planners.primitives.library.direct import DIRECT
from planners.primitives.library.layers import PRIMITIVES, applicable, primitive_of
from planners.primitives.library.primitive import map_dims
from planners.primitives.library.winograd import ROUNDING
from planners.primitives.profile import Variant

UNTOUCHED = np.uint32(0x7FC0DEAD)  # bits of a NaN that no arithmetic yields
BEYOND = 64  # elements behind a workspace, to be left alone
EXAMPLES = (
    sizes_of(8, 30, 29, 12, (3, 3)),
    sizes_of(4, 23, 31, 8, (5, 5), padding=(0, 1, 2, 3)),
    sizes_of(16, 31, 30, 8, (1, 1)),
    sizes_of(3, 40, 37, 8, (7, 7), stride=(2, 2)),
    sizes_of(6, 21, 19, 4, (3, 2), stride=(1, 3), dilation=(1, 2), groups=2),
    sizes_of(6, 21, 19, 6, (3, 3), stride=(2, 2), groups=6),
    sizes_of(16, 40, 41, 8, (3, 3)),
)
SMALL_EXAMPLES = (
    sizes_of(2, 5, 6, 4, (3, 2), stride=(2, 1)),
    sizes_of(3, 5, 6, 3, (3, 2), groups=3),
)


def name_of(one):
    return f"{one.name} {one.input_layout}-{one.output_layout}"


def ran(primitive, sizes, seed=0):
    """Output by channel, the workspace with what is behind it, and the definition's output."""
    source, kernel = random_case(sizes, seed)
    prepared = primitive.prepare(sizes, kernel)
    count = primitive.workspace_bytes(sizes) // 4
    memory = np.full(count + BEYOND, UNTOUCHED).view(np.float32)
    dims = map_dims(output_dims(sizes), primitive.output_layout)
    output = np.full(dims, np.nan, np.float32)
    given_map = laid_out(source, primitive.input_layout)
    primitive.run(sizes, given_map, prepared, memory[:count], output)
    found = by_channel(output, primitive.output_layout)
    return found, memory.view(np.uint32), convolved(sizes, source, kernel)


def assert_equal(found, expected, size):
    largest = max(np.abs(expected).max(), 1e-3)
    assert np.abs(found - expected).max() <= size * largest


def test_over_a_hundred_primitives_have_distinct_names():
    ways = {one.variant for one in PRIMITIVES}
    assert len(ways) == len(PRIMITIVES) > 100
    assert all(primitive_of(p.variant) is p for p in PRIMITIVES)


def test_a_primitive_that_does_not_exist_is_refused_by_name():
    with pytest.raises(InvalidPlan, match="no primitive 'im2vol' from CHW to HWC"):
        primitive_of(Variant("im2vol", "CHW", "HWC"))


def test_every_primitive_applies_to_some_example():
    unused = [name_of(p) for p in PRIMITIVES if not any(p.applies(one) for one in EXAMPLES)]
    assert unused == []


@pytest.mark.slow
@pytest.mark.parametrize("primitive", PRIMITIVES, ids=name_of)
def test_a_primitive_computes_the_definition(primitive):
    for sizes in filter(primitive.applies, EXAMPLES):
        found, _, expected = ran(primitive, sizes)
        assert_equal(found, expected, ROUNDING)


@pytest.mark.parametrize("primitive", DIRECT, ids=name_of)
def test_loops_are_the_same_as_plain_python(primitive):
    sizes = next(filter(primitive.applies, SMALL_EXAMPLES))
    source, kernel = random_case(sizes)
    output = np.empty(map_dims(output_dims(sizes), primitive.output_layout), np.float32)
    primitive.loops(
        primitive.view(laid_out(source, primitive.input_layout), primitive.input_layout),
        primitive.prepare(sizes, kernel),
        sizes.steps,
        primitive.view(output, primitive.output_layout),
    )
    assert_equal(by_channel(output, primitive.output_layout), ran(primitive, sizes)[0], 1e-6)


@pytest.mark.slow
@given(any_sizes())
@settings(max_examples=25, deadline=None)
def test_all_that_apply_to_a_convolution_compute_its_definition(sizes):
    source, kernel = random_case(sizes)
    expected = convolved(sizes, source, kernel)
    for primitive in applicable(sizes):
        assert_equal(ran(primitive, sizes)[0], expected, ROUNDING)


@pytest.mark.slow
@given(square_sizes())
@settings(max_examples=12, deadline=None)
def test_transforms_compute_square_kernels_at_any_border(sizes):
    source, kernel = random_case(sizes)
    expected = convolved(sizes, source, kernel)
    for primitive in applicable(sizes):
        assert_equal(ran(primitive, sizes)[0], expected, ROUNDING)


@pytest.mark.slow
@pytest.mark.parametrize("primitive", PRIMITIVES, ids=name_of)
def test_the_workspace_is_written_to_its_last_byte_and_no_further(primitive):
    for sizes in filter(primitive.applies, EXAMPLES):
        _, memory, _ = ran(primitive, sizes)
        count = primitive.workspace_bytes(sizes) // 4
        assert np.count_nonzero(memory[:count] == UNTOUCHED) == 0
        assert np.count_nonzero(memory[count:] == UNTOUCHED) == BEYOND


@pytest.mark.slow
@pytest.mark.parametrize("primitive", PRIMITIVES, ids=name_of)
def test_the_declared_workspace_is_all_that_is_allocated(primitive):
    # numpy reports its arrays to tracemalloc, in a domain of their own among those of Python.
    run, declared = ready(primitive, next(filter(primitive.applies, EXAMPLES)))
    assert array_bytes_at_peak(run) == declared


@pytest.mark.parametrize("primitive", PRIMITIVES, ids=name_of)
def test_nothing_is_hidden_inside_a_call_of_numpy(primitive):
    # The largest example that applies has maps of 13 kB and more; objects of Python, such as views,
    # take some hundred bytes each.
    sizes = max(filter(primitive.applies, EXAMPLES), key=lambda one: one.channels * one.pixels)
    run, declared = ready(primitive, sizes)
    tracemalloc.start()
    try:
        run()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert declared <= peak < declared + 8_000


def ready(primitive, sizes):
    """A run that brings its own workspace, and the bytes declared for that."""
    source, kernel = random_case(sizes)
    prepared = primitive.prepare(sizes, kernel)
    given_map = laid_out(source, primitive.input_layout)
    output = np.empty(map_dims(output_dims(sizes), primitive.output_layout), np.float32)

    def run():
        primitive.run(sizes, given_map, prepared, workspace_of(primitive, sizes), output)

    run()  # kernels are translated, small tables are made
    return run, primitive.workspace_bytes(sizes)


NO_WORKSPACE = np.empty(0, np.float32)  # an array without elements takes a few bytes too


def workspace_of(primitive, sizes):
    count = primitive.workspace_bytes(sizes) // 4
    return np.empty(count, np.float32) if count else NO_WORKSPACE


def array_bytes_at_peak(run):
    """The most bytes of arrays that are there at once: looked at after each line of Python."""
    peak = 0
    domain = tracemalloc.DomainFilter(inclusive=True, domain=np.lib.tracemalloc_domain)

    def look(frame, event, argument):
        nonlocal peak
        if event in ("line", "return"):
            peak = max(peak, sum(trace.size for trace in traces(domain)))
        return look

    tracemalloc.start()
    try:
        sys.settrace(look)
        run()
    finally:
        sys.settrace(None)
        tracemalloc.stop()
    return peak


def traces(domain):
    return tracemalloc.take_snapshot().filter_traces([domain]).traces


@pytest.mark.parametrize("primitive", PRIMITIVES, ids=name_of)
def test_prepared_weights_take_the_declared_bytes(primitive):
    for sizes in filter(primitive.applies, EXAMPLES):
        prepared = primitive.prepare(sizes, random_case(sizes)[1])
        assert prepared.nbytes == primitive.parameter_bytes(sizes)


def test_workspaces_are_those_of_the_literature():
    # 8 channels, 12 filters, 3x3, 30x29 both ways: im2col keeps C*9 elements for each of the
    # H*W places; kn2row keeps M for each place, of one of the 9 kernel places where it accumulates;
    # MEC keeps C*3 for each column and each of H + 2 rows.
    sizes, places = EXAMPLES[0], 30 * 29
    expected = {
        "im2col": 8 * 9 * places,
        "im2row": 8 * 9 * places,
        "kn2row": 9 * 12 * places,
        "kn2row, accumulating": 12 * places,
        "mec": 8 * 3 * 29 * 32,
        "direct, row by row": 0,
    }
    found = {
        name: primitive_of(Variant(name, "CHW", "CHW")).workspace_bytes(sizes) // 4
        for name in expected
    }
    assert found == expected


def test_winograd_keeps_the_elements_of_its_tiles():
    # F(2x2, 3x3): 15 x 15 tiles of 4 x 4 points, of 8 channels and of 12 filters; and the line of
    # scratch, the longer of one of 2*14 + 4 columns and one of 4 points for each of 15 tiles.
    sizes = EXAMPLES[0]
    winograd = primitive_of(Variant("winograd F(2x2, 3x3)", "CHW", "CHW"))
    assert winograd.workspace_bytes(sizes) // 4 == 16 * 15 * 15 * (8 + 12) + 60


LAYOUT_PAIRS = [(source, target) for source in ("CHW", "HWC") for target in ("CHW", "HWC")]


@pytest.mark.parametrize("layouts", LAYOUT_PAIRS)
def test_any_two_layouts_are_connected_for_any_convolution(layouts):
    for sizes in EXAMPLES:
        assert any((p.input_layout, p.output_layout) == layouts for p in applicable(sizes))

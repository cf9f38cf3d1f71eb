"""The row rule: by hand, and against counting rows one by one."""

import pytest
from hypothesis import given, reject
from hypothesis import strategies as st

from cnn2csdf import operators as op
from cnn2csdf.builder import NetworkBuilder
from cnn2csdf.geometry import ceil_overhang, same_padding
from cnn2csdf.granularity import ROWS, WHOLE, Granularity, reading_rates
from cnn2csdf.network import Layer, Shape
from csdf.errors import InvalidNetwork


def window(kernel, stride=1, padding=0, dilation=1):
    sides = (padding,) * 4 if isinstance(padding, int) else padding
    return op.Window(
        kernel=(kernel, kernel), stride=(stride,) * 2, dilation=(dilation,) * 2, padding=sides
    )


def rates_of(operator, height, granularity=ROWS, width=8):
    source = Shape(dims=(4, height, width))
    layer = Layer(name="l", operator=operator, inputs=("i",), shape=operator.output_shape([source]))
    return reading_rates(layer, 0, [source], granularity)


def convolution(*args, **options):
    return op.Convolution(filters=4, window=window(*args, **options))


def test_the_first_layer_of_resnet():
    # semantics.md: 7x7, stride 2, padding 3, 224 rows
    rates = rates_of(convolution(7, 2, 3), 224, width=224)
    assert rates.consumed == (4, *[2] * 110, 0)
    assert rates.released == (0, 1, *[2] * 109, 5)
    assert rates.kept == (4, *[5] * 110, 0)


def test_a_kernel_of_five_rows_with_padding():
    # semantics.md: 5x5, stride 1, padding 2, 28 rows
    rates = rates_of(convolution(5, 1, 2), 28, width=28)
    assert rates.consumed == (3, *[1] * 25, 0, 0)
    assert rates.released == (0, 0, *[1] * 25, 3)


def test_a_stride_larger_than_the_kernel():
    # semantics.md: 1x1, stride 2, 56 rows: the last phase takes what no window needs
    rates = rates_of(convolution(1, 2), 56)
    assert rates.consumed == rates.released == (1, *[2] * 26, 3)


def test_rows_left_over_go_to_the_last_phase():
    # semantics.md: 3x3, stride 3, 14 rows, no padding
    assert rates_of(convolution(3, 3), 14).consumed == (3, 3, 3, 5)


def test_a_whole_layer_takes_all_rows_at_once():
    assert rates_of(convolution(3, 1, 1), 14, WHOLE).consumed == (14,)


def test_parts_of_several_rows_take_the_windows_of_all_their_rows():
    # 3x3 with padding 1 over 8 rows, three rows a part: output rows 0-2 need input rows 0-3,
    # rows 3-5 need up to 6, rows 6-7 the last. Part 1 starts with input row 2, part 2 with row 5.
    rates = rates_of(convolution(3, 1, 1), 8, Granularity(rows=3))
    assert rates.consumed == (4, 3, 1)
    assert rates.released == (2, 3, 3)
    assert rates.kept == (2, 2, 0)


def test_a_granularity_of_no_rows_is_refused():
    with pytest.raises(InvalidNetwork, match="parts of 0 rows"):
        Granularity(rows=0)


def test_a_granularity_for_a_layer_that_is_not_there_is_refused():
    builder = NetworkBuilder("n")
    builder.output(builder.input((1, 4, 4)))
    with pytest.raises(InvalidNetwork, match="no layer 'conv'"):
        Granularity(layers={"conv": 2}).check_names(builder.network())


def brute_force(ends, touched, height):
    """Rates by looking at every row: when it is first needed, and when no later part needs it.

    touched: for each output row, the set of input rows that its windows touch.
    """
    starts = [0, *ends[:-1]]
    by_part = [
        set().union(*(touched[row] for row in range(start, end)))
        for start, end in zip(starts, ends, strict=True)
    ]
    consumed, released = [0] * len(ends), [0] * len(ends)
    for row in range(height):
        # Rows come in order: a row is taken with the first part that needs it or a later row.
        first = next((i for i, rows in enumerate(by_part) if any(r >= row for r in rows)), None)
        first = len(ends) - 1 if first is None else first
        # It is given back after the last part that needs it or an earlier one, and not before it
        # was taken; the part after it must start beyond it.
        consumed[first] += 1
        later = [i for i, rows in enumerate(by_part) if any(r <= row for r in rows)]
        released[max([first, *later])] += 1
    return consumed, released


@st.composite
def windows(draw):
    kernel, stride = draw(st.integers(1, 7)), draw(st.integers(1, 4))
    dilation = draw(st.integers(1, 3))
    padding = tuple(draw(st.integers(-2, 7)) for _ in range(4))
    return op.Window(
        kernel=(kernel, 1), stride=(stride, 1), dilation=(dilation, 1),
        padding=(padding[0], 0, padding[2], 0),
    )  # fmt: skip


@given(windows(), st.integers(1, 40), st.integers(1, 5), st.booleans())
def test_rates_count_the_rows_that_receptive_fields_touch(shape, height, rows, is_ceil):
    if is_ceil:
        overhang = ceil_overhang((height, 3), shape)
        shape = op.Window(
            kernel=shape.kernel, stride=shape.stride, dilation=shape.dilation,
            padding=shape.padding, overhang=overhang,
        )  # fmt: skip
    operator = op.Pooling(function="max", window=shape)
    try:
        out = operator.output_shape([Shape(dims=(4, height, 3))]).height
    except InvalidNetwork:
        reject()  # the window does not fit
    rates = rates_of(operator, height, Granularity(rows=rows), width=3)
    top, extent = shape.padding[0], shape.extent[0]
    ends = [*range(rows, out, rows), out]
    # A window keeps its place between the rows it touches: from its first row to its last.
    touched = [
        set(range(k * shape.stride[0] - top, k * shape.stride[0] - top + extent))
        & set(range(height))
        for k in range(out)
    ]
    assert sum(rates.consumed) == sum(rates.released) == height
    assert min(rates.consumed) >= 0
    assert min(rates.released) >= 0
    assert min(rates.kept) >= 0
    consumed, released = brute_force(ends, touched, height)
    held = 0
    for phase, (taken, given_back) in enumerate(zip(rates.consumed, rates.released, strict=True)):
        held += taken
        window_rows = set().union(*(touched[k] for k in range(([0, *ends])[phase], ends[phase])))
        through = sum(rates.consumed[: phase + 1])
        assert not window_rows or max(window_rows) < through
        assert not window_rows or min(window_rows) >= through - held
        held -= given_back
        assert held == rates.kept[phase]
    assert list(rates.consumed)[:-1] == consumed[:-1] or any(not rows for rows in touched)
    assert list(rates.released)[:-1] == released[:-1] or any(not rows for rows in touched)


@given(windows(), st.integers(1, 60))
def test_same_padding_gives_one_place_for_each_stride(shape, height):
    padding = same_padding((height, 5), shape)
    same = op.Window(
        kernel=shape.kernel, stride=shape.stride, dilation=shape.dilation, padding=padding
    )
    pooling = op.Pooling(function="max", window=same)
    out = pooling.output_shape([Shape(dims=(1, height, 5))])
    assert out.height == -(-height // shape.stride[0])


@given(
    st.integers(1, 9),
    st.integers(1, 30),
    st.sampled_from(["nearest", "linear"]),
    st.sampled_from(["asymmetric", "half pixel", "pytorch half pixel", "align corners"]),
)
def test_rows_of_a_resized_map_need_input_rows_in_order(rows, wanted, kind, places):
    operator = op.Resize(size=(wanted, 8), function=kind, coordinates=places)
    rates = rates_of(operator, rows)
    assert sum(rates.consumed) == rows
    assert min(*rates.consumed, *rates.released, *rates.kept) >= 0


def test_an_upsampled_row_comes_from_one_row():
    rates = rates_of(op.Resize(size=(6, 16), function="nearest"), 3)
    assert rates.consumed == (1, 0, 1, 0, 1, 0)
    assert rates.released == (0, 1, 0, 1, 0, 1)


def test_space_to_depth_takes_a_block_of_rows():
    assert rates_of(op.SpaceToDepth(block=2), 6).consumed == (2, 2, 2)


def test_a_concatenation_of_rows_reads_its_inputs_sequentially():
    shapes = [Shape(dims=(1, 2, 3)), Shape(dims=(1, 3, 3))]
    operator = op.Concatenation(axis=1)
    layer = Layer(
        name="c", operator=operator, inputs=("a", "b"), shape=operator.output_shape(shapes)
    )
    assert reading_rates(layer, 0, shapes, ROWS).consumed == (1, 1, 0, 0, 0)
    assert reading_rates(layer, 1, shapes, ROWS).consumed == (0, 0, 1, 1, 1)


def test_a_scale_for_each_feature_map_is_kept_for_all_rows():
    shapes = [Shape(dims=(4, 3, 3)), Shape(dims=(4, 1, 1))]
    layer = Layer(
        name="m", operator=op.Elementwise(function="multiply"), inputs=("a", "b"), shape=shapes[0]
    )
    scale = reading_rates(layer, 1, shapes, ROWS)
    assert scale.consumed == (1, 0, 0)
    assert scale.released == (0, 0, 1)


def test_global_layers_take_everything_at_once():
    for operator in (
        op.GlobalPooling(function="max"),
        op.FullyConnected(units=3),
        op.Softmax(axis=1),
    ):
        assert rates_of(operator, 7).consumed == (7,)

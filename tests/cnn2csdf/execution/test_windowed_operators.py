from itertools import product

import numpy as np
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st
from onnx_nodes import node_output
from single_layers import SingleLayer, assert_near, row_by_row

from cnn2csdf.geometry import ceil_overhang
from cnn2csdf.operators import Convolution, Pooling, TransposedConvolution, Window
from csdf.errors import InvalidNetwork

ONNX_NAMES = {"max": "MaxPool", "average": "AveragePool"}


def pads(window):
    return list(window.padding)


def attributes(window):
    return {
        "kernel_shape": window.kernel,
        "strides": window.stride,
        "dilations": window.dilation,
        "pads": pads(window),
    }


def naive_windows(window, tensor, places):
    """For each output place the tensor's cells under the window: (row, column, tap, value)."""
    _, height, width = tensor.shape
    top, left, bottom, right = window.padding
    for row, column in product(range(places[0]), range(places[1])):
        cells = []
        for tap in product(range(window.kernel[0]), range(window.kernel[1])):
            y = row * window.stride[0] - top + tap[0] * window.dilation[0]
            x = column * window.stride[1] - left + tap[1] * window.dilation[1]
            is_cell = 0 <= y < min(height, height + bottom) and 0 <= x < min(width, width + right)
            is_padding = not is_cell and -top <= y < height + bottom and -left <= x < width + right
            cells.append((tap, tensor[:, y, x] if is_cell else None, is_padding))
        yield row, column, cells


def naive_convolution(single):
    operator, tensor = single.layer.operator, single.tensors[0]
    result = np.zeros(single.layer.shape.dims, np.float64)
    inner, outer = len(tensor) // operator.groups, operator.filters // operator.groups
    for row, column, cells in naive_windows(operator.window, tensor, result.shape[1:]):
        for filter_, (tap, values, _) in product(range(operator.filters), cells):
            if values is not None:
                first = filter_ // outer * inner
                weights = single.weights["kernel"][filter_, :, tap[0], tap[1]]
                result[filter_, row, column] += weights @ values[first : first + inner]
    return result + single.weights["bias"][:, None, None]


def naive_pooling(single):
    operator, tensor = single.layer.operator, single.tensors[0]
    result = np.zeros(single.layer.shape.dims, np.float64)
    for row, column, cells in naive_windows(operator.window, tensor, result.shape[1:]):
        values = [values for _, values, _ in cells if values is not None]
        if operator.function == "max":
            result[:, row, column] = np.max(values, axis=0) if values else -np.inf
        else:
            counted = len(values)
            if operator.counts_padding:
                counted += sum(is_padding for _, _, is_padding in cells)
            result[:, row, column] = np.sum(values, axis=0) / counted if values else 0
    return result


small = st.integers(1, 7)
shift = st.integers(-2, 4)


@st.composite
def windows(draw, *, least_padding=-2, most_stride=4):
    return Window(
        kernel=(draw(small), draw(st.integers(1, 4))),
        stride=(draw(st.integers(1, most_stride)), draw(st.integers(1, most_stride))),
        dilation=(draw(st.integers(1, 3)), draw(st.integers(1, 2))),
        padding=draw(st.tuples(*(st.integers(least_padding, 4),) * 4)),
    )


@st.composite
def convolutions(draw):
    groups, inner, outer = (draw(st.integers(1, 3)) for _ in range(3))
    operator = Convolution(filters=groups * outer, window=draw(windows()), groups=groups)
    return fitting(operator, (groups * inner, draw(st.integers(3, 14)), draw(st.integers(3, 9))))


@st.composite
def poolings(draw):
    size = (draw(st.integers(3, 14)), draw(st.integers(3, 9)))
    window = draw(windows())
    if draw(st.booleans()):
        try:
            window = Window(
                kernel=window.kernel, stride=window.stride, dilation=window.dilation,
                padding=window.padding, overhang=ceil_overhang(size, window),
            )  # fmt: skip
        except InvalidNetwork:
            reject()
    operator = Pooling(
        function=draw(st.sampled_from(["max", "average"])),
        window=window,
        counts_padding=draw(st.booleans()),
    )
    return fitting(operator, (2, *size))


@st.composite
def transposed_convolutions(draw):
    groups, inner, outer = (draw(st.integers(1, 3)) for _ in range(3))
    operator = TransposedConvolution(
        filters=groups * outer,
        window=draw(windows(least_padding=0, most_stride=3)),
        groups=groups,
        extra=(draw(st.integers(0, 1)), draw(st.integers(0, 1))),
    )
    return fitting(operator, (groups * inner, draw(st.integers(1, 8)), draw(st.integers(1, 6))))


def fitting(operator, *dims):
    try:
        return SingleLayer(operator, *dims)
    except InvalidNetwork:
        return reject()


ends = st.lists(st.integers(1, 30), max_size=5).map(sorted)


def within(single, found):
    return [end for end in found if end < single.layer.shape.rows]


@given(single=convolutions())
@settings(max_examples=25, deadline=None)
def test_a_convolution_is_what_loops_compute(single):
    assert_near(single.whole(), naive_convolution(single))


@given(single=poolings())
@settings(max_examples=25, deadline=None)
def test_a_pooling_is_what_loops_compute(single):
    assert_near(single.whole(), naive_pooling(single))


@given(single=st.one_of(convolutions(), poolings(), transposed_convolutions()), found=ends)
@settings(max_examples=60, deadline=None)
def test_pieces_of_rows_make_the_whole(single, found):
    assert_near(single.in_pieces(within(single, found)), single.whole())


CONVOLUTIONS = [
    (Convolution(filters=6, window=Window(kernel=(3, 3), padding=(1, 1, 1, 1))), (4, 9, 8)),
    (Convolution(filters=6, window=Window(kernel=(1, 1), stride=(2, 2))), (4, 9, 8)),
    (Convolution(filters=6, window=Window(kernel=(1, 1))), (4, 9, 8)),
    (
        Convolution(
            filters=6,
            window=Window(kernel=(7, 5), stride=(2, 3), dilation=(1, 2), padding=(3, 0, 2, 4)),
            groups=2,
        ),
        (4, 20, 21),
    ),
    (Convolution(filters=8, window=Window(kernel=(3, 3), dilation=(2, 2)), groups=4), (4, 9, 8)),
    (
        Convolution(
            filters=4, window=Window(kernel=(5, 5), padding=(2, 2, 2, 2)), groups=4, has_bias=False
        ),
        (4, 9, 8),
    ),
]


@pytest.mark.parametrize(("operator", "dims"), CONVOLUTIONS)
def test_a_convolution_is_that_of_onnx(operator, dims):
    single = SingleLayer(operator, dims)
    expected = node_output(
        "Conv", single.tensors[0], single.weights["kernel"], single.weights.get("bias"),
        group=operator.groups, **attributes(operator.window),
    )  # fmt: skip
    assert_near(single.whole(), expected)
    assert_near(row_by_row(single), expected)


@pytest.mark.parametrize(
    ("window", "extra"),
    [
        (Window(kernel=(2, 2), stride=(2, 2)), (0, 0)),
        (Window(kernel=(3, 3), stride=(2, 2), padding=(1, 1, 1, 1)), (1, 1)),
        (Window(kernel=(4, 3), stride=(3, 2), dilation=(2, 1), padding=(2, 0, 1, 1)), (0, 1)),
        (Window(kernel=(1, 1), stride=(2, 3)), (1, 0)),
    ],
)
@pytest.mark.parametrize("groups", [1, 2])
def test_a_transposed_convolution_is_that_of_onnx(window, extra, groups):
    operator = TransposedConvolution(filters=6, window=window, groups=groups, extra=extra)
    single = SingleLayer(operator, (4, 5, 6))
    expected = node_output(
        "ConvTranspose", single.tensors[0], single.weights["kernel"], single.weights["bias"],
        group=groups, output_padding=extra, **attributes(window),
    )  # fmt: skip
    assert_near(single.whole(), expected)
    assert_near(row_by_row(single), expected)


POOLING_WINDOWS = [
    Window(kernel=(2, 2), stride=(2, 2)),
    Window(kernel=(3, 3), stride=(2, 2), padding=(1, 1, 1, 1)),
    Window(kernel=(3, 2), stride=(1, 2), padding=(0, 1, 2, 0)),
    Window(kernel=(3, 3), stride=(1, 1), dilation=(2, 2), padding=(2, 2, 2, 2)),
]


@pytest.mark.parametrize("window", POOLING_WINDOWS)
@pytest.mark.parametrize("ceil", [False, True])
@pytest.mark.parametrize("size", [(8, 9), (7, 12)])
def test_the_largest_under_a_window_is_that_of_onnx(window, ceil, size):
    single = pooled("max", window, size, ceil=ceil)
    expected = node_output("MaxPool", *single.tensors, ceil_mode=int(ceil), **attributes(window))
    assert_near(single.whole(), expected)
    assert_near(row_by_row(single), expected)


@pytest.mark.parametrize("window", POOLING_WINDOWS)
@pytest.mark.parametrize("ceil", [False, True])
@pytest.mark.parametrize("counts_padding", [False, True])
def test_the_mean_under_a_window_is_that_of_onnx(window, ceil, counts_padding):
    single = pooled("average", window, (8, 9), ceil=ceil, counts_padding=counts_padding)
    expected = node_output(
        "AveragePool", *single.tensors, opset=19, ceil_mode=int(ceil),
        count_include_pad=int(counts_padding), **attributes(window),
    )  # fmt: skip
    assert_near(single.whole(), expected)
    assert_near(row_by_row(single), expected)


def pooled(function, window, size, *, ceil, **options):
    overhang = ceil_overhang(size, window) if ceil else (0, 0)
    full = Window(
        kernel=window.kernel, stride=window.stride, dilation=window.dilation,
        padding=window.padding, overhang=overhang,
    )  # fmt: skip
    return SingleLayer(Pooling(function=function, window=full, **options), (3, *size))


def test_a_large_convolution_computed_in_two_goes_is_the_same():
    # 64 channels x 9 places x 128 columns are 73,728 copied elements a row; 128 rows exceed 2^22.
    operator = Convolution(filters=2, window=Window(kernel=(3, 3), padding=(1, 1, 1, 1)))
    single = SingleLayer(operator, (64, 128, 128))
    assert_near(single.rows(60, 70), single.whole()[:, 60:70])

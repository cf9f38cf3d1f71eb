"""Sizes of convolutions, their definition as loops, and maps in both layouts."""

from itertools import product

import numpy as np
from hypothesis import assume
from hypothesis import strategies as st

from planners.kernels.ranges import Steps
from planners.primitives.library.primitive import ConvolutionSizes


def sizes_of(channels, height, width, filters, kernel, **more):
    """Stride one, dilation one, centred windows and one group, where nothing else is said."""
    stride = more.get("stride", (1, 1))
    dilation = more.get("dilation", (1, 1))
    padding = more.get("padding", (kernel[0] // 2, kernel[1] // 2) * 2)
    spans = (height + padding[0] + padding[2], width + padding[1] + padding[3])
    places = [
        (span - step * (taps - 1) - 1) // down + 1
        for span, step, taps, down in zip(spans, dilation, kernel, stride, strict=True)
    ]
    return ConvolutionSizes(
        channels=channels,
        height=height,
        width=width,
        filters=filters,
        rows=places[0],
        columns=places[1],
        kernel=kernel,
        steps=Steps(stride, dilation, padding[:2]),
        groups=more.get("groups", 1),
    )


@st.composite
def any_sizes(draw):
    """Kernels 1 to 7, strides 1 to 4, dilations, uneven padding, groups; half of them dense."""
    groups = draw(st.sampled_from([1, 1, 2, 3]))
    channels, filters = (groups * draw(st.integers(1, 4)) for _ in range(2))
    kernel = draw(st.tuples(st.integers(1, 7), st.integers(1, 7)))
    small = st.tuples(st.integers(1, 4), st.integers(1, 4))
    is_plain = draw(st.booleans())
    stride = (1, 1) if is_plain else draw(small)
    dilation = (1, 1) if is_plain else draw(st.tuples(st.integers(1, 3), st.integers(1, 3)))
    padding = draw(st.tuples(*(st.integers(-1, 4) for _ in range(4))))
    height, width = draw(st.integers(1, 20)), draw(st.integers(1, 20))
    extent = [step * (taps - 1) + 1 for step, taps in zip(dilation, kernel, strict=True)]
    assume(height + padding[0] + padding[2] >= extent[0])
    assume(width + padding[1] + padding[3] >= extent[1])
    assume(min(height + padding[0], width + padding[1]) >= 1)
    return sizes_of(
        channels,
        height,
        width,
        filters,
        kernel,
        stride=stride,
        dilation=dilation,
        padding=padding,
        groups=groups,
    )


@st.composite
def square_sizes(draw):
    """Dense convolutions with the kernels that transforms are for."""
    side = draw(st.sampled_from([3, 3, 5, 7]))
    height, width = draw(st.integers(side, 24)), draw(st.integers(side, 24))
    channels, filters = draw(st.integers(1, 6)), 4 * draw(st.integers(1, 3))
    padding = draw(st.tuples(*(st.integers(0, side // 2 + 1) for _ in range(4))))
    return sizes_of(channels, height, width, filters, (side, side), padding=padding)


def input_dims(sizes):
    return (sizes.channels, sizes.height, sizes.width)


def output_dims(sizes):
    return (sizes.filters, sizes.rows, sizes.columns)


def kernel_dims(sizes):
    return (sizes.filters, sizes.group_channels, *sizes.kernel)


def random_case(sizes, seed=0):
    """A map (channels, rows, columns) and a kernel."""
    generator = np.random.default_rng(seed)
    dims = (input_dims(sizes), kernel_dims(sizes))
    return tuple(generator.standard_normal(one).astype(np.float32) for one in dims)


def convolved(sizes, source, kernel):
    """The definition, in double precision: a sum over channels and places of the kernel."""
    (down, across), (row_step, column_step), (top, left) = sizes.steps
    rows = np.arange(sizes.rows) * down - top
    columns = np.arange(sizes.columns) * across - left
    result = np.zeros(output_dims(sizes))
    for i, j in product(range(sizes.kernel[0]), range(sizes.kernel[1])):
        y, x = rows + i * row_step, columns + j * column_step
        is_in_row = (y >= 0) & (y < sizes.height)
        is_in_column = (x >= 0) & (x < sizes.width)
        there = np.ix_(range(sizes.channels), y[is_in_row], x[is_in_column])
        seen = source[there].astype(float)
        for f in range(sizes.filters):
            first = f // sizes.group_filters * sizes.group_channels
            group = seen[first : first + sizes.group_channels]
            result[np.ix_([f], is_in_row, is_in_column)] += np.tensordot(
                kernel[f, :, i, j].astype(float), group, 1
            )
    return result


def laid_out(array, layout):
    """A map (channels, rows, columns) as it lies in memory."""
    return np.ascontiguousarray(array if layout == "CHW" else array.transpose(1, 2, 0))


def by_channel(array, layout):
    """A map in memory as (channels, rows, columns)."""
    return array if layout == "CHW" else array.transpose(2, 0, 1)

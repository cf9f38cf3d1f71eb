"""Layers between convolutions, and the copies and sums around convolutions by matrix products.

Maps are float32: by channels (channels, rows, columns), or by places, a place for each pixel (rows,
columns, channels). Layers compute in place or directly into their output, without scratch.

Two convolutions use matrix products. With im2col, `columns` and `rows` copy the windows of the output
pixels into a matrix, `lowered`, whose row 0 is output row `first`. With kn2row, each kernel position
(tap) is a matrix product with the whole map, and `add_by_*` adds its `products` to the output. part:
first and end of the output rows, first and end of the output columns, and the offset from the row and
from the column of an output element to those of its product.

steps: `ranges.Steps`, the stride, dilation and padding of windows. Window elements outside the map are
zero.
"""

from __future__ import annotations

MAXIMUM = 0
MEAN = 1


def finish_by_channels(output, bias, slope, low, high):
    """Add the bias to each map, multiply negative elements by the slope, and clip to low .. high."""
    for f in range(output.shape[0]):
        # Bias, leaky ReLU and clipping are fused into one pass over the map.
        shift = bias[f]
        for y in range(output.shape[1]):
            for x in range(output.shape[2]):
                value = output[f, y, x] + shift
                value = value if value >= 0 else value * slope
                output[f, y, x] = min(max(value, low), high)


def finish_by_places(output, bias, slope, low, high):
    """Compute `finish_by_channels` for a map by places."""
    for y in range(output.shape[0]):
        for x in range(output.shape[1]):
            for f in range(output.shape[2]):
                value = output[y, x, f] + bias[f]
                value = value if value >= 0 else value * slope
                output[y, x, f] = min(max(value, low), high)


def scale_by_channels(source, factor, shift, output):
    """Multiply each map by its factor and shift it."""
    for c in range(output.shape[0]):
        for y in range(output.shape[1]):
            for x in range(output.shape[2]):
                output[c, y, x] = source[c, y, x] * factor[c] + shift[c]


def scale_by_places(source, factor, shift, output):
    """Compute `scale_by_channels` for a map by places."""
    for y in range(output.shape[0]):
        for x in range(output.shape[1]):
            for c in range(output.shape[2]):
                output[y, x, c] = source[y, x, c] * factor[c] + shift[c]


def pool_by_channels(source, kernel, steps, function, outside, counts, output):
    """Pool each window of each map.

    function: MAXIMUM or MEAN. outside: the initial value of each window. counts: (rows, columns) of the
    output, the divisor of each mean.
    """
    down, across = steps.stride
    row_dilation, column_dilation = steps.dilation
    top, left = steps.padding
    height, width = source.shape[1], source.shape[2]
    for c in range(output.shape[0]):
        for y in range(output.shape[1]):
            for x in range(output.shape[2]):
                output[c, y, x] = outside
            for i in range(kernel[0]):
                row = y * down + i * row_dilation - top
                if row < 0 or row >= height:
                    continue
                for j in range(kernel[1]):
                    shift = j * column_dilation - left
                    first = max(0, -(shift // across))
                    end = min(output.shape[2], (width - 1 - shift) // across + 1)
                    if function == MAXIMUM:
                        for x in range(first, end):
                            output[c, y, x] = max(
                                output[c, y, x], source[c, row, x * across + shift]
                            )
                    else:
                        for x in range(first, end):
                            output[c, y, x] += source[c, row, x * across + shift]
            if function == MEAN:
                for x in range(output.shape[2]):
                    # The divisor of each window is an input, so padding may count or not.
                    output[c, y, x] /= counts[y, x]


def pool_by_places(source, kernel, steps, function, outside, counts, output):
    """Compute `pool_by_channels` for a map by places."""
    down, across = steps.stride
    row_dilation, column_dilation = steps.dilation
    top, left = steps.padding
    height, width = source.shape[0], source.shape[1]
    for y in range(output.shape[0]):
        for x in range(output.shape[1]):
            for c in range(output.shape[2]):
                output[y, x, c] = outside
            for i in range(kernel[0]):
                row = y * down + i * row_dilation - top
                if row < 0 or row >= height:
                    continue
                for j in range(kernel[1]):
                    column = x * across + j * column_dilation - left
                    if column < 0 or column >= width:
                        continue
                    if function == MAXIMUM:
                        for c in range(output.shape[2]):
                            output[y, x, c] = max(output[y, x, c], source[row, column, c])
                    else:
                        for c in range(output.shape[2]):
                            output[y, x, c] += source[row, column, c]
            if function == MEAN:
                for c in range(output.shape[2]):
                    output[y, x, c] /= counts[y, x]


def neighbour_squares_by_channels(source, before, after, output):
    """Write the sum of squares over the maps from `before` in front to `after` behind each."""
    channels = source.shape[0]
    for c in range(channels):
        for y in range(source.shape[1]):
            for x in range(source.shape[2]):
                output[c, y, x] = 0.0
            for near in range(max(0, c - before), min(channels, c + after + 1)):
                for x in range(source.shape[2]):
                    output[c, y, x] += source[near, y, x] * source[near, y, x]


def neighbour_squares_by_places(source, before, after, output):
    """Write the sum of squares over the maps from `before` in front to `after` behind each."""
    channels = source.shape[2]
    for y in range(source.shape[0]):
        for x in range(source.shape[1]):
            for c in range(channels):
                output[y, x, c] = 0.0
            for near in range(-before, after + 1):
                for c in range(max(0, -near), min(channels, channels - near)):
                    output[y, x, c] += source[y, x, c + near] * source[y, x, c + near]


def transpose(source, output, block):
    """Write the rows of a matrix as columns, in blocks that stay near; source (m, n), out (n, m)."""
    height, width = source.shape[:2]
    # Loop tiling: strided accesses stay within one block, for locality in the cache.
    for top in range(0, height, block):
        for left in range(0, width, block):
            for j in range(left, min(left + block, width)):
                for i in range(top, min(top + block, height)):
                    output[j, i] = source[i, j]


def columns(source, steps, first, lowered):
    """Copy the windows of a map by channels into a matrix with a column for each output pixel (im2col).

    source: (channels, rows, columns). lowered: out, (channels, kernel rows, kernel columns, output
    rows, output columns).
    """
    down, across = steps.stride
    row_dilation, column_dilation = steps.dilation
    top, left = steps.padding
    height, width = source.shape[1], source.shape[2]
    places = lowered.shape[4]
    for c in range(lowered.shape[0]):
        for i in range(lowered.shape[1]):
            for j in range(lowered.shape[2]):
                shift = j * column_dilation - left
                # im2col: columns begin to end have their tap inside the map, the others are
                # padding.
                begin = min(places, max(0, -(shift // across)))
                end = max(begin, min(places, (width - 1 - shift) // across + 1))
                for y in range(lowered.shape[3]):
                    row = (first + y) * down + i * row_dilation - top
                    if row < 0 or row >= height:
                        for x in range(places):
                            lowered[c, i, j, y, x] = 0.0
                        continue
                    for x in range(begin):
                        lowered[c, i, j, y, x] = 0.0
                    for x in range(begin, end):
                        lowered[c, i, j, y, x] = source[c, row, x * across + shift]
                    for x in range(end, places):
                        lowered[c, i, j, y, x] = 0.0


def rows(source, steps, first, lowered):
    """Copy the windows of a map by places into a matrix with a row for each output pixel (im2row).

    source: (rows, columns, channels). lowered: out, (output rows, output columns, kernel rows, kernel
    columns, channels).
    """
    down, across = steps.stride
    row_dilation, column_dilation = steps.dilation
    top, left = steps.padding
    height, width, channels = source.shape[:3]
    for y in range(lowered.shape[0]):
        for x in range(lowered.shape[1]):
            for i in range(lowered.shape[2]):
                row = (first + y) * down + i * row_dilation - top
                for j in range(lowered.shape[3]):
                    column = x * across + j * column_dilation - left
                    # A row of the matrix is the window of one output pixel, with zeros outside the
                    # map.
                    if 0 <= row < height and 0 <= column < width:
                        for c in range(channels):
                            lowered[y, x, i, j, c] = source[row, column, c]
                    else:
                        for c in range(channels):
                            lowered[y, x, i, j, c] = 0.0


def add_by_channels(products, tap, part, output):
    """Add the products of one tap; products: (taps, filters, rows, columns).

    output: (filters, rows, columns).
    """
    top, bottom, left, right, down, across = part
    for f in range(output.shape[0]):
        for y in range(top, bottom):
            for x in range(left, right):
                output[f, y, x] += products[tap, f, y + down, x + across]


def add_by_places(products, tap, part, output):
    """Add the products of one tap; products: (rows, columns, taps, filters).

    output: (rows, columns, filters).
    """
    top, bottom, left, right, down, across = part
    for y in range(top, bottom):
        for x in range(left, right):
            for f in range(output.shape[2]):
                output[y, x, f] += products[y + down, x + across, tap, f]

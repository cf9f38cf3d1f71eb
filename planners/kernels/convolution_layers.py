"""Layers between convolutions, and what is copied and added up around products of matrices.

Maps of float32: by channels (channels, rows, columns), or by places (rows, columns, channels). Layers
work in place or straight into their output, without scratch.

Convolution by products of matrices: windows are copied out as a matrix. steps: stride down and across,
dilation down and across, padding at the top and on the left. Outside the map there are zeros. first:
the output row that is row 0 of `lowered`. Products of one position of a kernel are added to the output
where they belong. part: from and up to which output row, from and up to which output column, and how
far below and to the right of an output element its product lies among the rows and columns of
`products`.
"""

from __future__ import annotations

MAXIMUM = 0
MEAN = 1


def finish_by_channels(output, bias, slope, low, high):
    """Add its bias to each map, scale what is below zero by the slope, clip to low .. high."""
    for f in range(output.shape[0]):
        # Bias, leaky ReLU and clipping are fused into one pass over the map.
        shift = bias[f]
        for y in range(output.shape[1]):
            for x in range(output.shape[2]):
                value = output[f, y, x] + shift
                value = value if value >= 0 else value * slope
                output[f, y, x] = min(max(value, low), high)


def finish_by_places(output, bias, slope, low, high):
    """Finish all maps of one place after another, as by channels."""
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
    """Scale all maps of one place after another, as by channels."""
    for y in range(output.shape[0]):
        for x in range(output.shape[1]):
            for c in range(output.shape[2]):
                output[y, x, c] = source[y, x, c] * factor[c] + shift[c]


def pool_by_channels(source, kernel, steps, function, outside, counts, output):
    """Fold what each window covers of its map; `outside` is what it starts from.

    steps: stride down and across, dilation down and across, padding at the top and on the left.
    function: MAXIMUM or MEAN. counts: (rows, columns) of the output, what a mean is divided by.
    """
    down, across, row_dilation, column_dilation, top, left = steps
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
                    upto = min(output.shape[2], (width - 1 - shift) // across + 1)
                    if function == MAXIMUM:
                        for x in range(first, upto):
                            output[c, y, x] = max(
                                output[c, y, x], source[c, row, x * across + shift]
                            )
                    else:
                        for x in range(first, upto):
                            output[c, y, x] += source[c, row, x * across + shift]
            if function == MEAN:
                for x in range(output.shape[2]):
                    # The divisor of each window is an input, so padding may count or not.
                    output[c, y, x] /= counts[y, x]


def pool_by_places(source, kernel, steps, function, outside, counts, output):
    """Fold what each window covers of all maps at a time; as by channels."""
    down, across, row_dilation, column_dilation, top, left = steps
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
    """Copy along the columns of the output.

    source: (channels, rows, columns). lowered: out, (channels, kernel rows, kernel columns, output
    rows, output columns).
    """
    down, across, row_dilation, column_dilation, top, left = steps
    channels, kernel_rows, kernel_columns, rows, places = lowered.shape[:5]
    height, width = source.shape[1], source.shape[2]
    for c in range(channels):
        for i in range(kernel_rows):
            for j in range(kernel_columns):
                shift = j * column_dilation - left
                # im2col: columns begin to end have their tap inside the map, the others are
                # padding.
                begin = min(places, max(0, -(shift // across)))
                end = max(begin, min(places, (width - 1 - shift) // across + 1))
                for y in range(rows):
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
    """Copy along the channels.

    source: (rows, columns, channels). lowered: out, (output rows, output columns, kernel rows, kernel
    columns, channels).
    """
    down, across, row_dilation, column_dilation, top, left = steps
    places, columns_out, kernel_rows, kernel_columns, channels = lowered.shape[:5]
    height, width = source.shape[0], source.shape[1]
    for y in range(places):
        for x in range(columns_out):
            for i in range(kernel_rows):
                row = (first + y) * down + i * row_dilation - top
                for j in range(kernel_columns):
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
    """Add products of one place; products: (positions of the kernel, filters, rows, columns).

    output: (filters, rows, columns).
    """
    top, bottom, left, right, down, across = part
    for f in range(output.shape[0]):
        for y in range(top, bottom):
            for x in range(left, right):
                output[f, y, x] += products[tap, f, y + down, x + across]


def add_by_places(products, tap, part, output):
    """Add products of one place; products: (rows, columns, positions of the kernel, filters).

    output: (rows, columns, filters).
    """
    top, bottom, left, right, down, across = part
    for y in range(top, bottom):
        for x in range(left, right):
            for f in range(output.shape[2]):
                output[y, x, f] += products[y + down, x + across, tap, f]

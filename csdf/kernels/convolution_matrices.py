"""Convolution by products of matrices: what is copied out before, and what is added up after.

Windows are copied out as a matrix. steps: stride down and across, dilation down and across, padding at
the top and on the left. Outside the map there are zeros. first: the output row that is row 0 of
`lowered`.

Products of one place of a kernel are added to the output where they belong. part: from and up to which
output row, from and up to which output column, and how far below and to the right of an output element
its product lies among the rows and columns of `products`.
"""

from __future__ import annotations


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
                    if 0 <= row < height and 0 <= column < width:
                        for c in range(channels):
                            lowered[y, x, i, j, c] = source[row, column, c]
                    else:
                        for c in range(channels):
                            lowered[y, x, i, j, c] = 0.0


def add_by_channels(products, tap, part, output):
    """Add products of one place; products: (places of the kernel, filters, rows, columns).

    output: (filters, rows, columns).
    """
    top, bottom, left, right, down, across = part
    for f in range(output.shape[0]):
        for y in range(top, bottom):
            for x in range(left, right):
                output[f, y, x] += products[tap, f, y + down, x + across]


def add_by_places(products, tap, part, output):
    """Add products of one place; products: (rows, columns, places of the kernel, filters).

    output: (rows, columns, filters).
    """
    top, bottom, left, right, down, across = part
    for y in range(top, bottom):
        for x in range(left, right):
            for f in range(output.shape[2]):
                output[y, x, f] += products[y + down, x + across, tap, f]

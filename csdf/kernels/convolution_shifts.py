"""Products of one place of a kernel, added to the output where they belong.

part: from and up to which output row, from and up to which output column, and how far below and to
the right of an output element its product lies among the rows and columns of `products`.
"""

from __future__ import annotations


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

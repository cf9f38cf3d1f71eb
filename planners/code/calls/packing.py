"""Weights of integers in the order in which the kernels read them."""

from __future__ import annotations

import numpy as np

from cnn2csdf.weights import Array
from planners.code.calls.layers import packed_filters

BLOCK = 4  # filters whose weights lie side by side, as in integers.c
QUAD = 4  # values that meet as many weights of each filter in turn


def packed_blocks(kernel: Array, groups: int) -> Array:
    """Return filters as add_products reads them: block by block, tap by tap, input by input."""
    return packed_filters(kernel, groups, BLOCK)


def packed_quads(kernel: Array, groups: int) -> Array:
    """Return filters (filters, inputs, rows, columns) as add_quads and add_products read them.

    As packed_filters, but where the inputs are a multiple of four, four inputs of a filter lie side
    by side, then those of the next filter of a whole block.
    """
    filters, inputs = len(kernel) // groups, kernel.shape[1]
    if inputs % QUAD:
        return packed_blocks(kernel, groups)
    pieces = []
    for first in range(0, len(kernel), filters):
        for begin in range(first, first + filters, BLOCK):
            block = kernel[begin : min(begin + BLOCK, first + filters)].transpose(2, 3, 1, 0)
            if block.shape[-1] == BLOCK:
                block = block.reshape(*block.shape[:2], -1, QUAD, BLOCK).swapaxes(3, 4)
            pieces.append(block.reshape(-1))
    return np.concatenate(pieces)

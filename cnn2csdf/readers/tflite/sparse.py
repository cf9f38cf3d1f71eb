"""Sparse constants of TensorFlow Lite files as dense arrays, which DENSIFY makes of them.

A constant has levels: its axes and the axes inside its blocks, in an order of traversal. A dense level
holds all positions; a compressed one lists those of each node of the level before it, from one segment
to the next. A matrix with compressed blocks of two columns:

    0 0 1 2     order (0, 1, 2): rows, blocks of a row, columns of a block; blocks (1,)
    3 4 0 0     levels 2; segments 0 1 2 with indices 1 0; 2

Source: tensorflow/tensorflow, tensorflow/compiler/mlir/lite/schema/schema.fbs,
SparsityParameters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray

from csdf.errors import UnreadableFile

MOST_BYTES = 2**28
Positions = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class SparseAxis:
    """An axis, or the axis inside its blocks.

    size: its number of positions. segments, indices: of a compressed level, where the positions of
    each node begin, and the positions; None for a dense level.
    """

    size: int
    segments: Positions | None = None
    indices: Positions | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sparsity:
    """The levels of a constant in their order of traversal. blocks: the axes that have blocks.

    order: the number of each level: an axis, or the rank plus the place of an axis in `blocks`.
    """

    order: tuple[int, ...]
    blocks: tuple[int, ...]
    levels: tuple[SparseAxis, ...]


def dense_bytes(
    sparsity: Sparsity, dims: Sequence[int], data: NDArray[np.uint8], width: int
) -> NDArray[np.uint8]:
    """Return the elements of `width` bytes in the order of the axes, zero where none is stored.

    Raises UnreadableFile where levels and elements do not fit each other.
    """
    order, blocks, levels = sparsity.order, sparsity.blocks, sparsity.levels
    rank = len(dims)
    if len(levels) != rank + len(blocks) or sorted(order) != list(range(len(levels))):
        raise _misfit(f"{len(levels)} levels for {rank} axes and {len(blocks)} blocks")
    if any(not 0 <= axis < rank for axis in blocks) or len(set(blocks)) < len(blocks):
        raise _misfit(f"blocks of the axes {blocks}")
    if prod(dims) * width > MOST_BYTES:
        raise _misfit(f"{prod(dims)} elements")
    positions = _positions(levels, order, prod(dims))
    axes, inner = list(positions[:rank]), list(positions[rank:])  # places in axes, in blocks
    sizes = [levels[order.index(rank + number)].size for number in range(len(blocks))]
    for axis, size, place in zip(blocks, sizes, inner, strict=True):
        axes[axis] = axes[axis] * size + place
    is_inside = all(
        (places >= 0).all() and (places < size).all()
        for places, size in zip([*axes, *inner], [*dims, *sizes], strict=True)
    )
    count = positions.shape[1]
    if data.size != count * width or not is_inside:
        raise _misfit(f"{data.size // width} elements at {count} positions")
    flat = np.ravel_multi_index(tuple(axes), tuple(dims))
    is_stored = np.zeros(prod(dims), bool)
    is_stored[flat] = True
    if is_stored.sum() < count:
        raise _misfit("two elements at a position")
    dense = np.zeros((prod(dims), width), np.uint8)
    dense[flat] = data.reshape(-1, width)
    return dense.reshape(-1)


def _positions(levels: Sequence[SparseAxis], order: Sequence[int], most: int) -> Positions:
    """Return the position in each level, by its number, of every element that is stored."""
    positions = np.zeros((len(levels), 1), np.int64)
    for level, number in zip(levels, order, strict=True):
        nodes = positions.shape[1]
        if level.segments is None or level.indices is None:
            size = level.size
            if size < 0 or nodes * size > most:
                raise _misfit(f"a level of {size} positions")
            counts, places = np.full(nodes, size), np.tile(np.arange(size), nodes)
        else:
            segments, indices = level.segments, level.indices
            counts = np.diff(segments)
            if len(segments) != nodes + 1 or (counts < 0).any() or segments[0] != 0:
                raise _misfit(f"{len(counts)} segments for {nodes} nodes")
            if segments[-1] > min(len(indices), most):
                raise _misfit(f"{len(indices)} positions, expected {segments[-1]}")
            places = indices[: segments[-1]]
        positions = np.repeat(positions, counts, axis=1)
        positions[number] = places
    return positions


def _misfit(what: str) -> UnreadableFile:
    return UnreadableFile(f"a sparse constant does not fit: {what}")

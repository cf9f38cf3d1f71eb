"""Sparse constants of TensorFlow Lite files as dense arrays, which DENSIFY makes of them.

A constant has levels: its axes and the axes inside its blocks, in an order of traversal. A dense level
holds all positions; a compressed one lists those of each node of the level before it, from one segment
to the next. Source: tensorflow/tensorflow, tensorflow/compiler/mlir/lite/schema/schema.fbs,
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

    size: how many positions it has. segments, indices: of a compressed one, where the positions of
    each node begin, and the positions; None of a dense one.
    """

    size: int
    segments: Positions | None = None
    indices: Positions | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sparsity:
    """The levels of a constant in their order of traversal. blocks: the axes that have blocks.

    order: the number of each level, where those inside blocks follow all axes.
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
    axes = positions[:rank]
    for number, axis in enumerate(blocks):
        size = levels[order.index(rank + number)].size
        axes[axis] = axes[axis] * size + positions[rank + number]
    values = data.reshape(-1, width) if data.size % width == 0 else data[:0].reshape(-1, width)
    is_inside = all(
        (places >= 0).all() and (places < size).all()
        for places, size in zip(axes, dims, strict=True)
    )
    if len(values) != axes.shape[1] or not is_inside:
        raise _misfit(f"{len(values)} elements at {axes.shape[1]} positions")
    dense = np.zeros((prod(dims), width), np.uint8)
    dense[np.ravel_multi_index(tuple(axes), tuple(dims))] = values
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

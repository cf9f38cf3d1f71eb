"""The arithmetic of the judge: what a layer makes of numbers, at some places."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from planners.traffic.fused.group import FusedGroup, FusedLayer

Array = np.ndarray[Any, Any]

PRIME = 251


def kernel_area(layer: FusedLayer) -> int:
    """Return the places of a kernel."""
    return layer.rows.kernel * layer.columns.kernel


def random_kernel(layer: FusedLayer, random: np.random.Generator) -> Array:
    """Return weights of all filters: (filters, channels of a group, places of the kernel)."""
    shape = layer.filters, layer.channels // layer.groups, kernel_area(layer)
    return random.integers(0, PRIME, shape).astype(float)


def live_places(layer: FusedLayer, made: Array) -> Array:
    """Return which places of a kernel do not see padding alone, for what is made at all."""
    under = _under(layer, np.ones((layer.rows.inputs, layer.columns.inputs)), made, None)
    return np.logical_and(under.any(axis=1), layer.has_weights)


def sums_of(
    layer: FusedLayer, weights: Array, source: Array, made: Array, only: int | None = None
) -> Array:
    """Return what a layer makes at some places: (filters, places); of one filter, if it is named."""
    sums = np.zeros((layer.filters, int(made.sum())))
    per_group = layer.filters // layer.groups
    width = layer.channels // layer.groups
    channels = range(layer.channels)
    if only is not None:
        first = only // per_group * width
        channels = range(first, first + width)
    for channel in channels:
        sums += sums_of_map(layer, weights, source, made, channel)
    return sums if only is None else sums[only : only + 1]


def sums_of_map(
    layer: FusedLayer,
    weights: Array,
    source: Array,
    made: Array,
    channel: int,
    seen: Array | None = None,
) -> Array:
    """Return what one feature map, or its places `seen`, adds to what a layer makes."""
    width, per_group = layer.channels // layer.groups, layer.filters // layer.groups
    first = channel // width * per_group
    under = _under(layer, source[channel], made, seen)
    sums = np.zeros((layer.filters, under.shape[1]))
    kernel = weights[first : first + per_group, channel % width]
    if not layer.has_weights:
        kernel = np.ones_like(kernel)
    sums[first : first + per_group] = kernel @ under
    return sums


def _under(layer: FusedLayer, source: Array, made: Array, seen: Array | None) -> Array:
    """Return the input under each element of the kernel, (area, places); 0 beyond the edges."""
    rows, columns = np.nonzero(made)
    found = np.zeros((kernel_area(layer), len(rows)))
    for number in range(kernel_area(layer)):
        down, across = divmod(number, layer.columns.kernel)
        y = rows * layer.rows.stride - layer.rows.padding + down * layer.rows.dilation
        x = columns * layer.columns.stride - layer.columns.padding
        x = x + across * layer.columns.dilation
        inside = (y >= 0) & (y < source.shape[0]) & (x >= 0) & (x < source.shape[1])
        if seen is not None:
            inside[inside] = seen[y[inside], x[inside]]
        found[number, inside] = source[y[inside], x[inside]]
    return found


def whole_maps(
    group: FusedGroup, frame: Array, weights: Sequence[Array], beside: Sequence[Array]
) -> list[Array]:
    """Return all maps of a group, each layer run as a whole; beside: operands of each layer."""
    whole = [frame]
    for number, one in enumerate(group.layers, 1):
        every = np.ones(group.dims(number)[1:], dtype=bool)
        source = np.concatenate([whole[read] for read in group.read_by(number)])
        sums = sums_of(one, weights[number - 1], source, every).reshape(group.dims(number))
        sums += beside[number - 1].sum(axis=0)
        for added, reader in group.skips:
            if reader == number:
                sums += whole[added]
        whole.append(sums % PRIME)
    return whole

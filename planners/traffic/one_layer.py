"""The least traffic of one layer, over its loop nests with one or two levels of tiles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import chain
from math import factorial, isqrt, prod
from typing import NamedTuple

from csdf.errors import GaveUp, InvalidPlan
from csdf.kernels import compile as compiler
from csdf.outcome import Reason
from csdf.stopping import ENDS, Budget, reason_of, stop_of
from planners.kernels import loop_nests as kernel
from planners.kernels import ranges
from planners.traffic.answers import LayerTraffic
from planners.traffic.bounds import lower_bounds
from planners.traffic.convolution import ELEMENTS, ArrayBytes, Convolution, array_bytes, group_of
from planners.traffic.counting import transfers
from planners.traffic.footprints import axes_of, used_weights
from planners.traffic.nest import Array, Halo, Loop, LoopNest, lengths
from planners.traffic.nested import NestedTiles, nested_transfers
from planners.traffic.nested_search import nested_search
from planners.traffic.structures import Structure, structures
from planners.traffic.tilings import Option, axis_options, tile_sizes

MOST_PAIRS = 10**7  # of output places and kernel places along an axis, each of which is looked at
MOST_TILES = 10**7  # together; maps of 4K with kernels of 3 and 64 filters have half as many


def least_traffic(
    convolution: Convolution,
    *,
    buffer_bytes: int,
    element_bytes: int | ArrayBytes,
    halo: Halo = Halo.KEPT,
    budget: Budget = None,
) -> LayerTraffic:
    """Return the least traffic of the layer over its loop nests that fit the buffer.

    Two kinds of nests are searched. With one level of tiles (`nest`), all orders, tile sizes and
    levels: exact, for what is left out is never better than what is looked at, as `structures`,
    `tilings` and the kernel argue. With two (`nested`), where that does not reach the lower bound:
    all orders of the arrays, and all tiles that are the smallest for their number. No nest of either
    kind moves less; whether another schedule does, the lower bound tells, which holds for any.
    Ties go to one level, and to the first in order. Groups are handled one after another,
    which loses nothing: they share no element, so any schedule of them all holds and moves for each
    group what some schedule of that group alone does.
    budget: a stop, or seconds, for nests with two levels, whose search starts from the best nest with
    one level; it ends that search with the best nest so far, as Ctrl-C does, and `ended` says why.
    element_bytes: of all three arrays, or of each.
    Raises InvalidPlan if the buffer cannot hold one element of each array, GaveUp for a layer so
    large that even its tiles are too many to be listed.
    """
    sizes = array_bytes(element_bytes)
    _check_room(buffer_bytes, sizes)
    check_lengths(convolution)
    group = replace(group_of(convolution), name="group")  # equal shapes are searched once
    nest, evaluated = _best_nest(group, min(buffer_bytes, _bytes_of_all(group, sizes)), halo, sizes)
    bounds = lower_bounds(convolution, buffer_bytes=buffer_bytes, element_bytes=sizes)
    nested: NestedTiles | None = None
    ended: Reason | None = None
    least = max(bound.bytes for bound in bounds) // convolution.groups
    most = transfers(group, nest).total_bytes(sizes)
    if most > least:
        try:
            for nested in nested_search(group, halo, sizes).better(  # noqa: B007 (the last is the best)
                buffer_bytes, most, backend_for=_backend, stop=stop_of(budget)
            ):
                pass
        except ENDS as end:
            ended = reason_of(end)
    found = (
        transfers(convolution, nest) if nested is None else nested_transfers(convolution, nested)
    )
    return LayerTraffic(
        convolution=convolution,
        buffer_bytes=buffer_bytes,
        element_bytes=sizes,
        nest=nest if nested is None else nested,
        input_bytes=found.input * sizes.input,
        weight_bytes=found.weights * sizes.weights,
        output_bytes=found.output * sizes.output,
        held_bytes=found.held_bytes(sizes),
        bounds=bounds,
        space=_space(group),
        evaluated=evaluated,
        ended=ended,
    )


def _check_room(buffer_bytes: int, sizes: ArrayBytes) -> None:
    if min(sizes) < 1 or sum(sizes) > buffer_bytes:
        of_each = (
            f"{' + '.join(map(str, sizes))} bytes"
            if sizes.uniform is None
            else f"{sizes.uniform} bytes"
        )
        raise InvalidPlan(
            f"a buffer of {buffer_bytes} bytes does not hold one element of {of_each} "
            "of input, weights and output each"
        )


def check_lengths(convolution: Convolution) -> None:
    """Raise GaveUp for a layer whose tiles are too many to be listed."""
    rows = convolution.output_rows * convolution.kernel_rows
    columns = convolution.output_columns * convolution.kernel_columns
    # A loop has tiles of twice the root of its length in different sizes.
    maps = isqrt(convolution.group_filters) + isqrt(convolution.group_channels)
    if max(rows, columns) > MOST_PAIRS or 32 * isqrt(rows) * isqrt(columns) * maps > MOST_TILES:
        raise GaveUp(
            f"layer {convolution.name!r} is too large to look at its tiles: "
            f"{convolution.group_filters} filters of {convolution.group_channels}x"
            f"{convolution.kernel_rows}x{convolution.kernel_columns} at "
            f"{convolution.output_rows}x{convolution.output_columns} places"
        )


def _bytes_of_all(group: Convolution, sizes: ArrayBytes) -> int:
    """Bytes of all three arrays; a larger buffer is of no use."""
    elements = group.input_elements, used_weights(group), group.output_elements
    return sum(count * size for count, size in zip(elements, sizes, strict=True))


def _space(group: Convolution) -> int:
    """All orders, levels and tile sizes."""
    orders, levels = factorial(len(Loop)), len(Loop) + 1
    return orders * prod([levels] * len(Array)) * prod(lengths(group))


class _Choices(NamedTuple):
    """The parts from which a nest is put together."""

    ways: tuple[Structure, ...]
    filters: tuple[int, ...]
    channels: tuple[int, ...]
    rows: tuple[Option, ...]
    columns: tuple[Option, ...]


@lru_cache(maxsize=10_000)
def _best_nest(
    group: Convolution, room: int, halo: Halo, element_bytes: ArrayBytes = ELEMENTS
) -> tuple[LoopNest, int]:
    """The first nest with the least traffic, and how many choices were looked at."""
    sizes = lengths(group)
    rows, columns = axes_of(group)
    choices = _Choices(
        ways=structures(frozenset(loop for loop in Loop if sizes[loop] > 1), halo),
        filters=tile_sizes(sizes[Loop.FILTERS]),
        channels=tile_sizes(sizes[Loop.CHANNELS]),
        rows=axis_options(rows),
        columns=axis_options(columns),
    )
    found = _search(choices, group, room, element_bytes)
    way = choices.ways[found[kernel.BEST_STRUCTURE]]
    places, kernel_rows = choices.rows[found[kernel.BEST_ROWS]][:2]
    across, kernel_columns = choices.columns[found[kernel.BEST_COLUMNS]][:2]
    filters = choices.filters[found[kernel.BEST_FILTERS]]
    channels = choices.channels[found[kernel.BEST_CHANNELS]]
    tiles = (filters, channels, places, across, kernel_rows, kernel_columns)
    nest = LoopNest(order=way.order, tiles=tiles, levels=way.levels, halo=halo)
    return nest.canonical(group), found[kernel.LOOKED_AT]


def _search(
    choices: _Choices, group: Convolution, room: int, element_bytes: ArrayBytes
) -> list[int]:
    """The answer of the kernel."""
    sizes = lengths(group)
    largest = ranges.loop_nests(sizes, element_bytes, room)
    backend = _backend(largest)
    answer = backend.array([largest] + [0] * (kernel.ANSWER - 1))
    columns = (
        [number for way in choices.ways for number in _numbers(way)],
        _with_trips(choices.filters, sizes[Loop.FILTERS]),
        _with_trips(choices.channels, sizes[Loop.CHANNELS]),
        chain.from_iterable(choices.rows),
        chain.from_iterable(choices.columns),
    )
    backend.kernel(kernel.least_traffic)(
        backend.kernel(kernel.Choices)(*map(backend.array, columns)),
        backend.kernel(kernel.Layer)(
            group.channels,
            used_weights(group) * element_bytes.weights,
            group.output_elements * element_bytes.output,
            room,
            *element_bytes,
        ),
        answer,
    )
    return backend.take(answer, range(kernel.ANSWER))


def _backend(largest: int) -> compiler.Backend:
    """Compiled where the largest number that the kernel computes is within the limit."""
    return compiler.backend(fits=largest <= compiler.SAFE)


def _numbers(way: Structure) -> tuple[int, ...]:
    """A structure as the kernel wants it."""
    return (*way.moved_by, *way.rounds, int(way.slides))


def _with_trips(tiles: Sequence[int], length: int) -> list[int]:
    return [*tiles, *(-(-length // tile) for tile in tiles)]

"""The least traffic of one layer, over its loop nests with one or two levels of tiles.

The loop nests of a convolution up to what they move, whatever their tiles are.

How much a nest holds and moves depends on its order and levels only through this: which loops lie
outside the level of each array, and which of those go round it: loops that do not move it, outside
one that does. Of the orders and levels with the same of these one is enough, and of two where one is
never better the other one.

Lower bounds of the traffic of a convolution, whatever the loops of its schedule are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cache, lru_cache
from itertools import chain, permutations, product
from math import factorial, isqrt, prod
from typing import NamedTuple

from csdf.errors import GaveUp, InvalidPlan
from csdf.kernels import compile as compiler
from csdf.outcome import Reason
from csdf.time_limit import ENDS, Budget, reason_of, stop_of
from planners.kernels import loop_nests as kernel
from planners.kernels import ranges
from planners.traffic.convolution import ELEMENTS, ArrayBytes, Convolution, array_bytes, group_of
from planners.traffic.footprints import Axis, axes_of, used_weights
from planners.traffic.nest import (
    MOVES,
    Array,
    Halo,
    LayerTraffic,
    Loop,
    LoopNest,
    LowerBound,
    NestedTiles,
    lengths,
    nested_transfers,
    transfers,
)
from planners.traffic.nested_search import Option, axis_options, nested_search, tile_sizes

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


Loops = int  # a set of loops, bit 1 << loop for each
NO_LOOP = len(Loop)
_CHANNELS = 1 << Loop.CHANNELS
_MOVES = tuple(sum(1 << loop for loop in MOVES[array]) for array in Array)


class Structure(NamedTuple):
    """The meaning of an order and levels for the three arrays.

    moved_by: by array, the loops outside its level that reach other tiles of it. rounds: those that
    go round it. slides: the innermost loop that moves the input, NO_LOOP where no halo is kept.
    """

    order: tuple[Loop, ...]
    levels: tuple[int, int, int]
    moved_by: tuple[Loops, Loops, Loops]
    rounds: tuple[Loops, Loops, Loops]
    slides: int


@cache
def structures(loops: frozenset[Loop], halo: Halo) -> tuple[Structure, ...]:
    """Return a structure for each way to move the arrays that is not always beaten.

    loops: those longer than one iteration; the others do not matter, and stand innermost. Another
    way beats one with the same loops that move the input, but for the channels, if no array has
    more loops going round it, none has fewer loops moving it, and it keeps the same halo:
    - its tiles are no larger: a loop that moves an array cuts what is held of it;
    - what one round brings in is as much: tiles of weights, outputs and channels do not overlap;
    - it has no more rounds.
    Loops that move the input along rows or columns are not compared, as halos come with them.
    """
    found: dict[tuple[object, ...], Structure] = {}
    for order in permutations(sorted(loops)):
        for one in _of_order(order, halo):
            found.setdefault((one.moved_by, one.rounds, one.slides), one)
    return tuple(_undominated(found.values()))


def _of_order(order: tuple[Loop, ...], halo: Halo) -> Iterator[Structure]:
    """The structures of an order, but for levels that another of the same order beats."""
    rest = tuple(loop for loop in Loop if loop not in order)
    deepest = [_deepest(order, array) for array in (Array.WEIGHTS, Array.OUTPUT)]
    for inputs, weights, outputs in product(_levels(order, Array.INPUT), *deepest):
        slides = order[inputs[0] - 1] if inputs[0] and halo is Halo.KEPT else NO_LOOP
        yield Structure(
            order=order + rest,
            levels=(inputs[0], weights[0], outputs[0]),
            moved_by=(inputs[1], weights[1], outputs[1]),
            rounds=(inputs[2], weights[2], outputs[2]),
            slides=NO_LOOP if slides == Loop.CHANNELS else slides,  # no halo along channels
        )


def _levels(order: Sequence[Loop], array: Array) -> list[tuple[int, Loops, Loops]]:
    """Levels of an array with the loops that move it and those that go round it.

    Level 0, or right behind a loop that moves it: any other is one of these in effect.
    """
    outside, found = 0, [(0, 0, 0)]
    for level, loop in enumerate(order, start=1):
        outside |= 1 << loop
        if loop in MOVES[array]:
            found.append((level, outside & _MOVES[array], outside & ~_MOVES[array]))
    return found


def _deepest(order: Sequence[Loop], array: Array) -> list[tuple[int, Loops, Loops]]:
    """For each set of loops that go round, the level with the most loops that move the array."""
    return list(
        {rounds: (level, by, rounds) for level, by, rounds in _levels(order, array)}.values()
    )


def _undominated(found: Iterable[Structure]) -> Iterator[Structure]:
    alike: dict[Loops, list[Structure]] = {}
    for one in found:
        alike.setdefault(one.moved_by[Array.INPUT] & ~_CHANNELS, []).append(one)
    for group in alike.values():
        for one in group:
            if not any(_beats(other, one) for other in group if other is not one):
                yield one


def _beats(one: Structure, other: Structure) -> bool:
    """Whether it is never worse; no two structures have all of these the same."""
    return (
        other.slides in (one.slides, NO_LOOP)
        and all(a & ~b == 0 for a, b in zip(one.rounds, other.rounds, strict=True))
        and all(b & ~a == 0 for a, b in zip(one.moved_by, other.moved_by, strict=True))
    )


COMPULSORY = "compulsory"
COMMUNICATION = "communication"
SCALE = 1024  # of square roots, so that little is lost where they are rounded


def lower_bounds(
    convolution: Convolution, *, buffer_bytes: int, element_bytes: int | ArrayBytes
) -> tuple[LowerBound, ...]:
    """Return the lower bounds on the bytes moved between a buffer and the memory outside.

    They hold for all schedules that do each multiplication once, with its three operands in the
    buffer, adding into the output element itself; sums that leave the buffer are written, and read
    to go on. Groups share nothing, so the bounds of one, in all of the buffer, add up.
    Where the arrays have elements of several sizes, the buffer holds no more elements than of the
    smallest size; each element that moves takes that much, and those of the larger arrays the rest,
    at least once each.
    """
    group, sizes = group_of(convolution), array_bytes(element_bytes)
    elements, least = array_elements(group), min(sizes)
    compulsory = sum(count * size for count, size in zip(elements, sizes, strict=True))
    rest = compulsory - least * sum(elements)
    return (
        LowerBound(
            name=COMPULSORY,
            bytes=compulsory * convolution.groups,
            source="each element that takes part moves once",
        ),
        LowerBound(
            name=COMMUNICATION,
            bytes=(communication_elements(group, buffer_bytes // least) * least + rest)
            * convolution.groups,
            source="segments and the Loomis-Whitney inequality, after Smith et al. 2019 and "
            "Chen et al. 2020",
        ),
    )


def array_elements(group: Convolution) -> tuple[int, int, int]:
    """Return the elements of input and weights that some multiplication reads, and of the output."""
    rows, columns = axes_of(group)
    inputs = group.channels * rows.all_touched * columns.all_touched
    return inputs, used_weights(group), group.output_elements


def communication_elements(group: Convolution, room: int) -> int:
    """Return a lower bound on the elements one group moves through a buffer of `room` elements.

    1. Count reads, and for each output a free read of a zero when its sum begins. Cut a schedule
       into segments of T such reads; the last has t < T.
    2. A segment uses what the buffer held before it, at most `room` elements, nothing before the
       first, and what it reads: i inputs, w weights and o outputs with i + w + o <= room + T.
    3. Input rows that differ modulo the stride are read by different kernel rows, and so for
       columns: inputs and weights fall into classes, and so do multiplications. In class k an input
       element stands at most at r_k places of the unfolded input. An output and a weight, an output
       and an unfolded place, or a weight and such a place fix the multiplication; by the inequality
       of Loomis and Whitney, i_k inputs and w_k weights of the class and o outputs allow
       m_k <= sqrt(r_k i_k w_k o) multiplications. By that of Cauchy and Schwarz the sum over the
       classes of m_k / sqrt(r_k), their weight, is at most sqrt(i w o).
    4. So the weight of all multiplications bounds the segments, and with them the reads. Reads
       without the free ones, plus writes, are no fewer: every output is written.
    This holds for each T; several are tried. T = 2 room gives about 2 m / sqrt(r room) where there is
    one class; for a matrix product r is 1, and no larger constant than 2 holds.
    Source: Irony, Toledo, Tiskin, J. Parallel Distrib. Comput. 64(9), 2004 (segments); Smith et al.,
    A Tight I/O Lower Bound for Matrix Multiplication, arXiv 1702.02017 (reads alone, constant 2);
    Demmel, Dinh, Communication-Optimal Convolutional Neural Nets, arXiv 1802.06905, and Chen et al.,
    Communication Lower Bound in Convolution Accelerators, HPCA 2020 (reuse of windows).
    """
    filters = group.filters * group.channels
    weight = sum(
        isqrt((SCALE * filters * down * across) ** 2 // (down_reuse * across_reuse))
        for (down, down_reuse), (across, across_reuse) in product(*map(_classes, axes_of(group)))
    )
    limits = sorted(array_elements(group))
    segments = [sum(limits), *(max(1, room * part // 8) for part in range(1, 49))]
    return max(_reads(weight, limits, room=room, segment=segment) for segment in segments)


def _classes(axis: Axis) -> list[tuple[int, int]]:
    """For each class of places: pairs of output and kernel places, and the most that read one."""
    counts: dict[int, dict[int, int]] = {}
    for output, tap in product(range(axis.outputs), range(axis.kernel)):
        place = axis.stride * output + axis.dilation * tap - axis.padding
        if 0 <= place < axis.inputs:
            of_class = counts.setdefault(axis.dilation * tap % axis.stride, {})
            of_class[place] = of_class.get(place, 0) + 1
    return [(sum(found.values()), max(found.values())) for found in counts.values()]


def _reads(weight: int, limits: Sequence[int], *, room: int, segment: int) -> int:
    """The fewest reads, in segments of so many, that allow for multiplications of that weight."""
    left = weight - _most(segment, limits)
    if left <= 0:
        return _fewest(weight, limits, held=0, segment=segment)
    each = _most(room + segment, limits)
    whole = (left - 1) // each  # segments after the first that are certainly complete
    return segment * (1 + whole) + _fewest(left - whole * each, limits, held=room, segment=segment)


def _fewest(wanted: int, limits: Sequence[int], *, held: int, segment: int) -> int:
    """The fewest reads, up to a segment, that allow for multiplications of that weight."""
    low, high = 0, segment
    while low < high:  # by halves; `bisect` counts up to 2^63 only
        read = (low + high) // 2
        if _most(held + read, limits) < wanted:
            low = read + 1
        else:
            high = read
    return low


def _most(elements: int, limits: Sequence[int]) -> int:
    """The most that the scaled weight of a segment can be, rounded up.

    The product of three numbers with a given sum, each at most its limit (they rise), is largest
    where they are as equal as they can be.
    """
    together, left = 1, elements
    for place, limit in enumerate(limits):
        taken = min(limit, left // (len(limits) - place))
        together *= taken
        left -= taken
    return isqrt(SCALE**2 * together) + 1

"""The nest with two levels of tiles that moves least.

All orders of the arrays, and all tiles that are the smallest for their number, but for choices that
cannot be better: of a loop whose tiles in an array repeat nothing, that array holds one element; where
all of its tiles are around the third array, both arrays hold the same. With the input, whose tiles
overlap, every pair of sizes is looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import permutations, product
from math import prod
from typing import Any, NamedTuple

from csdf.kernels import compile as compiler
from csdf.kernels import loop_nests as kernel
from planners.traffic.convolution import Convolution
from planners.traffic.counting import AXES
from planners.traffic.footprints import Axis, axes_of, used_weights
from planners.traffic.nest import MOVES, Array, Halo, Loop, lengths
from planners.traffic.nested import NestedTiles, input_reads, tiles_of
from planners.traffic.tilings import tile_sizes

Order = tuple[Array, Array, Array]
Pair = tuple[int, int]  # tiles of a loop in the first array that it moves, and in the second
# What slides along rows and along columns: no loop, that of places (1), that of the kernel (2).
SLIDES: tuple[Pair, ...] = ((0, 0), (1, 0), (2, 0), (0, 1), (0, 2))
BackendFor = Callable[[int, int], compiler.Backend]


class AxisOption(NamedTuple):
    """Tiles along rows or columns, and what they cost."""

    output: int  # places in a tile of the output
    weights: int
    input: int
    reads: int
    weight_rounds: int
    output_rounds: int
    places: Pair
    kernel: Pair

    @property
    def costs(self) -> tuple[int, ...]:
        """What they cost, as the kernel wants it."""
        return (
            self.output,
            self.weights,
            self.input,
            self.reads,
            self.weight_rounds,
            self.output_rounds,
        )


Axes = tuple[AxisOption, ...]


class LoopOption(NamedTuple):
    """Tiles of filters or channels: in the two arrays, and the rounds of the third."""

    first: int
    second: int
    rounds: int


class _Choice(NamedTuple):
    """An order of arrays and a loop that slides, with the tiles to choose from."""

    order: Order
    slides: Pair  # along rows, along columns
    options: tuple[Sequence[LoopOption], Sequence[LoopOption], Axes, Axes]


def best_nested(
    group: Convolution, room: int, below: int, *, halo: Halo, backend_for: BackendFor
) -> NestedTiles | None:
    """Return the nest that moves least, if it moves less than `below` elements; None if none does.

    backend_for: told how many combinations there are, and the largest sum.
    """
    choices = list(_choices(group, halo))
    backend = backend_for(
        sum(prod(map(len, choice.options)) for choice in choices), 4 * prod(lengths(group))
    )
    best, found = below, None
    for choice in choices:
        total, *places = _search(choice, group, room, best, backend)
        if total < best:
            picked = [one[at] for one, at in zip(choice.options, places, strict=True)]
            best, found = total, _nest(choice, picked)
    return found


def _choices(group: Convolution, halo: Halo) -> Iterator[_Choice]:
    sizes, (rows, columns) = lengths(group), axes_of(group)
    for one, other, third in permutations(Array):
        order = one, other, third
        filters = loop_options(order, Loop.FILTERS, sizes[Loop.FILTERS])
        channels = loop_options(order, Loop.CHANNELS, sizes[Loop.CHANNELS])
        for slides in SLIDES if halo is Halo.KEPT else SLIDES[:1]:
            down, across = slides
            along = axis_options(rows, order, down), axis_options(columns, order, across)
            yield _Choice(order, slides, (filters, channels, *along))


def _search(
    choice: _Choice, group: Convolution, room: int, below: int, backend: compiler.Backend
) -> list[int]:
    """The answer of the kernel."""
    filters, channels, rows, columns = choice.options
    answer = backend.array([below] + [0] * (kernel.NESTED_ANSWER - 1))
    backend.kernel(kernel.nested_traffic)(
        backend.array(_flat(filters, choice.order, Loop.FILTERS)),
        backend.array(_flat(channels, choice.order, Loop.CHANNELS)),
        backend.array([number for one in rows for number in one.costs]),
        backend.array([number for one in columns for number in one.costs]),
        group.channels,
        used_weights(group),
        group.output_elements,
        room,
        answer,
    )
    return backend.take(answer, range(kernel.NESTED_ANSWER))


def _nest(choice: _Choice, picked: Sequence[Any]) -> NestedTiles:
    filters, channels, rows, columns = picked
    order = choice.order
    pairs = {Loop.FILTERS: filters[:2], Loop.CHANNELS: channels[:2]}
    for option, (place, step) in zip((rows, columns), AXES, strict=True):
        pairs |= {place: option.places, step: option.kernel}
    tiles = [[1] * len(Loop) for _ in Array]
    for loop, pair in pairs.items():
        for array, size in zip(movers(order, loop), pair, strict=True):
            tiles[array][loop] = size
    sliding = [loops[way - 1] for way, loops in zip(choice.slides, AXES, strict=True) if way]
    return NestedTiles(
        order=order,
        tiles=(tuple(tiles[0]), tuple(tiles[1]), tuple(tiles[2])),
        slides=sliding[0] if sliding else None,
    )


def movers(order: Order, loop: Loop) -> tuple[Array, Array]:
    """Return the two arrays that a loop moves, the outer one first."""
    first, second = (array for array in order if loop in MOVES[array])
    return first, second


def _bands_around(order: Order, loop: Loop) -> int:
    """How many of the loop's two bands lie around the array that it does not move."""
    (third,) = (array for array in order if loop not in MOVES[array])
    return order.index(third)


def loop_options(order: Order, loop: Loop, length: int) -> list[LoopOption]:
    """Return the tiles of filters or channels that are worth a try, the largest first."""
    bands = _bands_around(order, loop)
    if bands == 0:
        return [LoopOption(1, 1, 1)]
    return [
        LoopOption(tile, tile if bands == 2 else 1, -(-length // tile))
        for tile in tile_sizes(length)
    ]


def _flat(options: Sequence[LoopOption], order: Order, loop: Loop) -> list[int]:
    """Options as the kernel wants them: of filters output, weights, rounds; of channels input, ..."""
    first, _ = movers(order, loop)
    turned = first is Array.WEIGHTS
    return [
        number
        for one in options
        for number in ((one.second, one.first) if turned else one[:2]) + (one.rounds,)
    ]


@lru_cache(maxsize=1000)
def axis_options(axis: Axis, order: Order, way: int) -> tuple[AxisOption, ...]:
    """Return the tiles along an axis that no other ones beat, where `way` says what slides."""
    return tuple(_front(_axis_options(axis, order, way)))


def _axis_options(axis: Axis, order: Order, way: int) -> Iterator[AxisOption]:
    place, step = AXES[0]
    taps = max(1, len(axis.live))
    around_weights, around_output = _bands_around(order, place), _bands_around(order, step)
    for places, taken in product(_pairs(axis.outputs, order, place), _pairs(taps, order, step)):
        by_place = dict(zip(movers(order, place), places, strict=True))
        by_step = dict(zip(movers(order, step), taken, strict=True))
        around = [
            pair if movers(order, loop)[1] is Array.INPUT else (length, pair[0])
            for loop, pair, length in ((place, places, axis.outputs), (step, taken, taps))
        ]
        found = input_reads(axis, *around)
        yield AxisOption(
            by_place[Array.OUTPUT],
            by_step[Array.WEIGHTS],
            found.largest,
            found.moved[way],
            tiles_of(axis.outputs, *places[:around_weights]),
            tiles_of(taps, *taken[:around_output]),
            places,
            taken,
        )


def _pairs(length: int, order: Order, loop: Loop) -> list[Pair]:
    """Tiles, with smaller ones in them, that are the smallest for their number.

    All of them, but for an inner array whose tiles cost nothing: one that is not the input, with no
    third array inside that would come again for them. It holds one element.
    """
    _, second = movers(order, loop)
    is_free = second is not Array.INPUT and _bands_around(order, loop) < 2
    return [
        (outer, inner)
        for outer in tile_sizes(length)
        for inner in ((1,) if is_free else tile_sizes(outer))
    ]


def _front(options: Iterable[AxisOption]) -> Iterator[AxisOption]:
    """Those that no other one beats or equals, fewest reads first."""
    kept: list[AxisOption] = []
    for one in sorted(
        options, key=lambda one: (one.reads * one.weight_rounds * one.output_rounds, one)
    ):
        if not any(_is_no_worse(known, one) for known in kept):
            kept.append(one)
    yield from kept


def _is_no_worse(known: AxisOption, one: AxisOption) -> bool:
    return all(cost <= other for cost, other in zip(known.costs, one.costs, strict=True))

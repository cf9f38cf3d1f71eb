"""The nest with two levels of tiles that moves least.

All orders of the arrays, and all tiles that are the smallest for their number, but for choices that
cannot be better: of a loop whose tiles in an array repeat nothing, that array holds one element; where
all of its tiles are around the third array, both arrays hold the same. With the input, whose tiles
overlap, every pair of sizes is looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from itertools import permutations
from typing import NamedTuple

from csdf.kernels import compile as compiler
from csdf.stopping import Stop
from planners.kernels import loop_nests as kernel
from planners.kernels import ranges
from planners.traffic.convolution import ELEMENTS, ArrayBytes, Convolution
from planners.traffic.counting import AXES
from planners.traffic.footprints import axes_of, used_weights
from planners.traffic.nest import Array, Halo, Loop, lengths
from planners.traffic.nested import NestedTiles
from planners.traffic.nested_axes import (
    AxisOptions,
    Order,
    Pair,
    bands_around,
    movers,
    tiles_along,
)
from planners.traffic.tilings import tile_sizes

# What slides along rows and along columns: no loop, that of places (1), that of the kernel (2).
SLIDES: tuple[Pair, ...] = ((0, 0), (1, 0), (2, 0), (0, 1), (0, 2))
BackendFor = Callable[[int], compiler.Backend]
MOST_PAIRS = 1_000_000  # of options of rows and columns between looks at the clock


class LoopOption(NamedTuple):
    """Tiles of filters or channels: in the two arrays, and the rounds of the third."""

    first: int
    second: int
    rounds: int


class _Choice(NamedTuple):
    """An order of arrays and a loop that slides, with the tiles to choose from."""

    order: Order
    slides: Pair  # along rows, along columns
    filters: Sequence[LoopOption]
    channels: Sequence[LoopOption]
    rows: AxisOptions
    columns: AxisOptions


@lru_cache(maxsize=10_000)
def nested_search(group: Convolution, halo: Halo, sizes: ArrayBytes = ELEMENTS) -> NestedSearch:
    """Return the search for a layer of one group; equal ones share it."""
    return NestedSearch(group, halo, sizes)


class NestedSearch:
    """Finds the best nest of one layer for one buffer after another."""

    def __init__(self, group: Convolution, halo: Halo, sizes: ArrayBytes) -> None:
        self._group = group
        self._halo = halo
        self._sizes = sizes
        self._known: dict[tuple[int, int], NestedTiles | None] = {}

    def better(
        self, room: int, below: int, *, backend_for: BackendFor, stop: Stop
    ) -> Iterator[NestedTiles]:
        """Yield nests that move less than `below` bytes, and less and less; the last is the best.

        backend_for: told the largest number of the kernel. stop: may
        end the search by GaveUp, and no nest that was yielded is then known to be best.
        """
        if (room, below) not in self._known:
            best, found = below, None
            for choice in self._choices(stop):
                for total, nest in self._of(choice, room, best, backend_for, stop):
                    best, found = total, nest
                    yield nest
            self._known[room, below] = found
            return
        known = self._known[room, below]
        if known is not None:
            yield known

    def _choices(self, stop: Stop) -> Iterator[_Choice]:
        sizes, axes = lengths(self._group), axes_of(self._group)
        rows, columns = map(tiles_along, axes)
        for one, other, third in permutations(Array):
            order = one, other, third
            filters = loop_options(order, Loop.FILTERS, sizes[Loop.FILTERS])
            channels = loop_options(order, Loop.CHANNELS, sizes[Loop.CHANNELS])
            for slides in SLIDES if self._halo is Halo.KEPT else SLIDES[:1]:
                along = (
                    axis.options(order, way, stop)
                    for axis, way in zip((rows, columns), slides, strict=True)
                )
                yield _Choice(order, slides, filters, channels, *along)

    def _of(
        self, choice: _Choice, room: int, below: int, backend_for: BackendFor, stop: Stop
    ) -> Iterator[tuple[int, NestedTiles]]:
        """Better and better nests of a choice, with what they move: rows of the maps in blocks."""
        for rows in choice.rows.blocks(MOST_PAIRS // len(choice.columns.costs) + 1):
            stop.look()
            part = choice._replace(rows=rows)
            backend = backend_for(ranges.loop_nests(lengths(self._group), self._sizes, room))
            total, *places = _search(part, self._group, self._sizes, room, below, backend)
            if total < below:
                below = total
                yield total, _nest(part, places)


def _search(
    choice: _Choice,
    group: Convolution,
    sizes: ArrayBytes,
    room: int,
    below: int,
    backend: compiler.Backend,
) -> list[int]:
    """The answer of the kernel."""
    answer = backend.array([below] + [0] * (kernel.NESTED_ANSWER - 1))
    choices = backend.kernel(kernel.Choices)(
        backend.blank(0),
        backend.array(_flat(choice.filters, choice.order, Loop.FILTERS)),
        backend.array(_flat(choice.channels, choice.order, Loop.CHANNELS)),
        backend.view(choice.rows.costs.ravel().tolist()),
        backend.view(choice.columns.costs.ravel().tolist()),
    )
    layer = backend.kernel(kernel.Layer)(
        group.channels,
        used_weights(group) * sizes.weights,
        group.output_elements * sizes.output,
        room,
        *sizes,
    )
    backend.kernel(kernel.nested_traffic)(choices, layer, answer)
    return backend.take(answer, range(kernel.NESTED_ANSWER))


def _nest(choice: _Choice, places: Sequence[int]) -> NestedTiles:
    order = choice.order
    filters, channels, row, column = places
    pairs: dict[Loop, Sequence[int]] = {
        Loop.FILTERS: choice.filters[filters][:2],
        Loop.CHANNELS: choice.channels[channels][:2],
    }
    for (place, step), axis, at in zip(
        AXES, (choice.rows, choice.columns), (row, column), strict=True
    ):
        tiles = axis.tiles[at].tolist()
        pairs |= {place: tiles[:2], step: tiles[2:]}
    held = [[1] * len(Loop) for _ in Array]
    for loop, pair in pairs.items():
        for array, size in zip(movers(order, loop), pair, strict=True):
            held[array][loop] = size
    sliding = [loops[way - 1] for way, loops in zip(choice.slides, AXES, strict=True) if way]
    return NestedTiles(
        order=order,
        tiles=(tuple(held[0]), tuple(held[1]), tuple(held[2])),
        slides=sliding[0] if sliding else None,
    )


def loop_options(order: Order, loop: Loop, length: int) -> list[LoopOption]:
    """Return the tiles of filters or channels that are worth a try, the largest first."""
    bands = bands_around(order, loop)
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

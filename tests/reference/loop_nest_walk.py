"""The checker of loop nests: walks one, with the buffer as sets of elements, and counts what moves.

It knows the rules of the nest, and nothing of how traffic is counted without walking.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import product

from csdf.errors import InvalidPlan
from planners.traffic.convolution import ArrayBytes, ConvolutionLoops, array_bytes
from planners.traffic.nest import MOVES, Array, LoopNest, NestLoop

Element = tuple[int, ...]
Ranges = Mapping[NestLoop, range]


@dataclass(frozen=True, slots=True, kw_only=True)
class Walk:
    """The bytes that a walk moved, and the most it held at one time."""

    input_bytes: int
    weight_bytes: int
    output_bytes: int
    most_held_bytes: int
    multiplications: int

    @property
    def total_bytes(self) -> int:
        """All bytes moved."""
        return self.input_bytes + self.weight_bytes + self.output_bytes


def walk(
    convolution: ConvolutionLoops,
    nest: LoopNest,
    *,
    buffer_bytes: int,
    element_bytes: int | ArrayBytes,
) -> Walk:
    """Walk the nest, band by band; slow, with every element in a set.

    Raises InvalidPlan, saying where, if the buffer overflows, if an operand of a multiplication is
    not in it, if a multiplication is done twice, or if an output does not end up complete outside.
    """
    state = _Buffer(convolution, buffer_bytes, array_bytes(element_bytes))
    for group in range(convolution.groups):
        _run(state, nest, 0, whole_loops(convolution), group)
        state.leave()
    state.check_complete()
    return state.result()


def _run(state: _Buffer, nest: LoopNest, depth: int, ranges: Ranges, group: int) -> None:
    """Run the bands from one on, inside the tiles that those around it stand at."""
    if depth == len(nest.order):
        state.check_room(ranges)
        state.multiply(ranges, group)
        return
    array = nest.order[depth]
    for is_step, tile in _band(nest, array, ranges):
        state.replace(array, tile, group, keeps=is_step and array is Array.INPUT)
        _run(state, nest, depth + 1, tile, group)


def _band(nest: LoopNest, array: Array, ranges: Ranges) -> Iterator[tuple[bool, Ranges]]:
    """The tiles of an array, and whether just the sliding loop made a step to reach each."""
    loops = sorted(MOVES[array], key=lambda loop: loop is nest.slides)
    cuts = []
    for loop in loops:
        size, places = nest.tiles[array][loop], ranges[loop]
        cuts.append([places[at : at + size] for at in range(0, len(places), size)])
    before: tuple[range, ...] = ()
    for tile in product(*cuts):
        is_step = bool(before) and before[:-1] == tile[:-1] and loops[-1] is nest.slides
        yield is_step, {**ranges, **dict(zip(loops, tile, strict=True))}
        before = tile


def whole_loops(convolution: ConvolutionLoops) -> Ranges:
    """Return all iterations of each loop."""
    groups = convolution.groups
    return {
        NestLoop.FILTERS: range(convolution.filters // groups),
        NestLoop.CHANNELS: range(convolution.channels // groups),
        NestLoop.ROWS: range(convolution.output_rows),
        NestLoop.COLUMNS: range(convolution.output_columns),
        NestLoop.KERNEL_ROWS: range(max(1, len(_live(convolution, 0)))),
        NestLoop.KERNEL_COLUMNS: range(max(1, len(_live(convolution, 1)))),
    }


@lru_cache(maxsize=1000)
def _live(layer: ConvolutionLoops, axis: int) -> tuple[int, ...]:
    """The places of the kernel along an axis that lie on the map for some output."""
    kernel, inputs, outputs = (
        (layer.kernel_columns, layer.input_columns, layer.output_columns)
        if axis
        else (layer.kernel_rows, layer.input_rows, layer.output_rows)
    )
    return tuple(
        step
        for step in range(kernel)
        if any(
            0 <= o * layer.stride[axis] + step * layer.dilation[axis] - layer.padding[axis] < inputs
            for o in range(outputs)
        )
    )


class _Buffer:
    """The buffer, and what is known of the output outside.

    The terms of an output are the bits of a number: one for each channel and kernel place.
    """

    def __init__(self, convolution: ConvolutionLoops, room: int, sizes: ArrayBytes) -> None:
        self.convolution, self.room, self.sizes = convolution, room, sizes
        self.held: dict[Array, set[Element]] = {array: set() for array in Array}
        self.moved = dict.fromkeys(Array, 0)
        self.inside: dict[Element, int] = {}  # terms in the sums of the buffer
        self.outside: dict[Element, int] = {}  # terms in the copies outside
        self.most_held = 0
        self._terms = lru_cache(maxsize=None)(self._terms_of)

    def replace(self, array: Array, region: Ranges, group: int, *, keeps: bool) -> None:
        """Make the buffer hold just the tile of an array, keeping what of it is there or not."""
        wanted = self._elements(array, region, group)
        kept = self.held[array] & wanted if keeps else set()
        self._leave(array, self.held[array] - kept)
        self._enter(array, wanted - kept)
        self.held[array] = wanted

    def result(self) -> Walk:
        """Return what was moved and held so far."""
        return Walk(
            input_bytes=self.moved[Array.INPUT] * self.sizes.input,
            weight_bytes=self.moved[Array.WEIGHTS] * self.sizes.weights,
            output_bytes=self.moved[Array.OUTPUT] * self.sizes.output,
            most_held_bytes=self.most_held,
            multiplications=sum(terms.bit_count() for terms in self.outside.values()),
        )

    def _elements(self, array: Array, region: Ranges, group: int) -> set[Element]:
        filters, channels, rows, columns, down, across = (region[loop] for loop in NestLoop)
        places: Iterator[Element]
        match array:
            case Array.WEIGHTS:
                rows_of = [u for u in down if u < len(_live(self.convolution, 0))]
                columns_of = [v for v in across if v < len(_live(self.convolution, 1))]
                places = product(filters, channels, rows_of, columns_of)
            case Array.OUTPUT:
                places = product(filters, rows, columns)
            case Array.INPUT:
                places = product(
                    channels,
                    {row for y in rows for u in down for row in self._input_row(y, u)},
                    {
                        column
                        for x in columns
                        for v in across
                        for column in self._input_column(x, v)
                    },
                )
        return {(group, *place) for place in places}

    def _input_row(self, y: int, u: int) -> tuple[int, ...]:
        """The row that output row y reads at live kernel row u; none if that is padding."""
        layer, live = self.convolution, _live(self.convolution, 0)
        row = y * layer.stride[0] + live[u] * layer.dilation[0] - layer.padding[0] if live else -1
        return (row,) if 0 <= row < layer.input_rows else ()

    def _input_column(self, x: int, v: int) -> tuple[int, ...]:
        layer, live = self.convolution, _live(self.convolution, 1)
        if not live:
            return ()
        column = x * layer.stride[1] + live[v] * layer.dilation[1] - layer.padding[1]
        return (column,) if 0 <= column < layer.input_columns else ()

    def _enter(self, array: Array, elements: set[Element]) -> None:
        if array is Array.OUTPUT:
            again = {element: self.outside[element] for element in elements & self.outside.keys()}
            self.inside = dict.fromkeys(elements, 0) | again
            self.moved[array] += len(again)
        else:
            self.moved[array] += len(elements)

    def _leave(self, array: Array, elements: set[Element]) -> None:
        if array is Array.OUTPUT:
            self.moved[array] += len(elements)
            self.outside.update(self.inside)

    def check_room(self, iteration: Ranges) -> None:
        """Raise InvalidPlan if the buffer holds more than it can."""
        used = sum(len(elements) * self.sizes[array] for array, elements in self.held.items())
        self.most_held = max(self.most_held, used)
        if used > self.room:
            raise InvalidPlan(
                f"convolution {self.convolution.name!r}: {used} bytes at {iteration}, "
                f"but the buffer has {self.room}"
            )

    def multiply(self, iteration: Ranges, group: int) -> None:
        """Do all multiplications of one iteration; their operands are in the buffer or it raises."""
        for array in Array:
            missing = self._elements(array, iteration, group) - self.held[array]
            if missing:
                raise InvalidPlan(
                    f"convolution {self.convolution.name!r}: {array.name.lower()} element "
                    f"{min(missing)} is not in the buffer at {iteration}"
                )
        filters, channels, rows, columns, down, across = (iteration[loop] for loop in NestLoop)
        for y, x in product(rows, columns):
            terms = self._terms(y, x, channels, down, across)
            for element in ((group, f, y, x) for f in filters):
                if self.inside[element] & terms:
                    raise InvalidPlan(
                        f"convolution {self.convolution.name!r}: output {element} gets a term "
                        f"twice at {iteration}"
                    )
                self.inside[element] |= terms

    def _terms_of(self, y: int, x: int, channels: range, down: range, across: range) -> int:
        """The multiplications of one output in an iteration; those with padding are none."""
        layer, terms = self.convolution, 0
        kernel_rows = [u for u in down if self._input_row(y, u)]
        kernel_columns = [v for v in across if self._input_column(x, v)]
        for c, u, v in product(channels, kernel_rows, kernel_columns):
            terms |= 1 << ((c * layer.kernel_rows + u) * layer.kernel_columns + v)
        return terms

    def leave(self) -> None:
        """Send back what is left of the output and forget the rest."""
        self._leave(Array.OUTPUT, self.held[Array.OUTPUT])
        self.held = {array: set() for array in Array}
        self.inside = {}

    def check_complete(self) -> None:
        """Raise InvalidPlan unless every output is outside with all its terms."""
        whole = whole_loops(self.convolution)
        filters, channels, rows, columns, down, across = (whole[loop] for loop in NestLoop)
        for group, f, y, x in product(range(self.convolution.groups), filters, rows, columns):
            if self.outside.get((group, f, y, x)) != self._terms(y, x, channels, down, across):
                raise InvalidPlan(
                    f"convolution {self.convolution.name!r}: output {(group, f, y, x)} "
                    "is not complete outside"
                )

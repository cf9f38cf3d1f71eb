"""Elements that a loop nest holds and moves, counted without walking it."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from planners.traffic.convolution import ArrayBytes, Convolution
from planners.traffic.footprints import Reads, axes_of, reads, used_weights
from planners.traffic.nest import MOVES, Array, Halo, Loop, LoopNest, lengths

AXES = ((Loop.ROWS, Loop.KERNEL_ROWS), (Loop.COLUMNS, Loop.KERNEL_COLUMNS))


@dataclass(frozen=True, slots=True, kw_only=True)
class Transfers:
    """Elements that a nest moves and holds, by Array."""

    input: int
    weights: int
    output: int  # written, and read back
    held: tuple[int, int, int]  # the largest tile of each array

    @property
    def total(self) -> int:
        """All elements moved."""
        return self.input + self.weights + self.output

    def total_bytes(self, sizes: ArrayBytes) -> int:
        """All bytes moved."""
        return self.input * sizes.input + self.weights * sizes.weights + self.output * sizes.output

    def held_bytes(self, sizes: ArrayBytes) -> int:
        """Bytes of the buffer that are taken."""
        return sum(held * size for held, size in zip(self.held, sizes, strict=True))

    @property
    def held_elements(self) -> int:
        """Elements of the buffer that are taken."""
        return sum(self.held)


def transfers(convolution: Convolution, nest: LoopNest) -> Transfers:
    """Return what the nest moves and holds, exactly.

    Tiles of the weights and of the output are apart, so one round over their loops moves the array
    once, and every loop that goes round it outside repeats that. Input tiles overlap: along each
    axis all tiles are added up, clipped to the map; as the axes are independent, the sums multiply.
    """
    nest = nest.canonical(convolution)
    rounds = {array: _rounds(convolution, nest, array) for array in Array}
    held = tuple(prod(largest_tile(convolution, nest, array)) for array in Array)
    return Transfers(
        input=_input_of_a_round(convolution, nest) * rounds[Array.INPUT],
        weights=used_weights(convolution) * rounds[Array.WEIGHTS],
        output=convolution.output_elements * (2 * rounds[Array.OUTPUT] - 1),
        held=(held[0], held[1], held[2]),
    )


def largest_tile(convolution: Convolution, nest: LoopNest, array: Array) -> tuple[int, ...]:
    """Return the extents of the largest tile of the array, along its dimensions."""
    extents = tuple(_extent(convolution, nest, array, loop) for loop in Loop)
    if array is not Array.INPUT:
        return tuple(extents[loop] for loop in sorted(MOVES[array]))
    rows, columns = (found.largest for found in _input_reads(convolution, nest))
    return extents[Loop.CHANNELS], rows, columns


def _extent(convolution: Convolution, nest: LoopNest, array: Array, loop: Loop) -> int:
    whole = lengths(convolution)[loop]
    return min(nest.tiles[loop], whole) if loop in nest.outside(array) else whole


def _input_reads(convolution: Convolution, nest: LoopNest) -> tuple[Reads, Reads]:
    """Return what the input tiles read along rows and along columns."""
    extents = [_extent(convolution, nest, Array.INPUT, loop) for loop in Loop]
    rows, columns = (
        reads(axis, extents[place], extents[kernel])
        for axis, (place, kernel) in zip(axes_of(convolution), AXES, strict=True)
    )
    return rows, columns


def _input_of_a_round(convolution: Convolution, nest: LoopNest) -> int:
    """Input elements that come in while the loops that move the input go once through their tiles.

    The nest is canonical: the last loop outside the level is the innermost that moves the input.
    """
    outside = nest.outside(Array.INPUT)
    innermost = outside[-1] if outside and nest.halo is Halo.KEPT else None
    read = convolution.channels
    for found, (place, kernel) in zip(_input_reads(convolution, nest), AXES, strict=True):
        if innermost is place:
            read *= found.by_outputs
        else:
            read *= found.by_kernel if innermost is kernel else found.reloaded
    return read


def _rounds(convolution: Convolution, nest: LoopNest, array: Array) -> int:
    """How often the loops that do not move the array go round it. The nest is canonical."""
    trips = nest.trips(convolution)
    return prod(trips[loop] for loop in nest.outside(array) if loop not in MOVES[array])

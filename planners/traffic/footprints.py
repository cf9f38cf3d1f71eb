"""Numbers of elements that tiles touch along one axis of the maps: rows or columns.

Output place o and kernel place k read input place stride * o + dilation * k - padding, if it lies in
the map. A kernel place is live if it does so for some output. A tile is a range of output places
times a range of live kernel places.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from math import gcd

from planners.traffic.convolution import Convolution

Range = tuple[int, int]  # first, and one past the last


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """A convolution along its rows or its columns."""

    inputs: int  # places of the input
    outputs: int
    kernel: int
    stride: int
    dilation: int
    padding: int  # before the first place

    def pairs(self, outputs: Range, kernel: Range) -> int:
        """Pairs of an output and a kernel place that read a place in the map."""
        total = 0
        for place in range(*kernel):
            before = self.padding - self.dilation * place
            first = -(-before // self.stride)
            end = -(-(self.inputs + before) // self.stride)
            total += max(0, min(outputs[1], end) - max(outputs[0], first))
        return total

    def touched(self, outputs: Range, kernel: Range) -> int:
        """Different input places that a tile reads.

        Pairs that read one place differ by multiples of (dilation / g, -stride / g), where g is the
        greatest common divisor. Those of them in a tile follow one another without a hole, so the
        places are the pairs, less those whose successor is in the tile too.
        """
        common = gcd(self.stride, self.dilation)
        step, back = self.dilation // common, self.stride // common
        if outputs[0] >= outputs[1] or kernel[0] >= kernel[1]:
            return 0
        linked = self.pairs((outputs[0], outputs[1] - step), (kernel[0] + back, kernel[1]))
        return self.pairs(outputs, kernel) - linked

    @property
    def live(self) -> tuple[int, ...]:
        """The kernel places that read a place in the map for some output; the others see padding."""
        whole = (0, self.outputs)
        return tuple(k for k in range(self.kernel) if self.pairs(whole, (k, k + 1)))

    @property
    def all_touched(self) -> int:
        """Input places that are read at all."""
        return self.touched((0, self.outputs), (0, self.kernel))


@lru_cache(maxsize=10_000)
def axes_of(convolution: Convolution) -> tuple[Axis, Axis]:
    """Return rows and columns."""
    return (
        Axis(
            inputs=convolution.input_rows,
            outputs=convolution.output_rows,
            kernel=convolution.kernel_rows,
            stride=convolution.stride[0],
            dilation=convolution.dilation[0],
            padding=convolution.padding[0],
        ),
        Axis(
            inputs=convolution.input_columns,
            outputs=convolution.output_columns,
            kernel=convolution.kernel_columns,
            stride=convolution.stride[1],
            dilation=convolution.dilation[1],
            padding=convolution.padding[1],
        ),
    )


def used_weights(convolution: Convolution) -> int:
    """Return the elements of all filters that take part: those that do not see padding alone."""
    rows, columns = axes_of(convolution)
    kernel = len(rows.live) * len(columns.live)
    return convolution.filters * convolution.group_channels * kernel


def cut(length: int, tile: int) -> tuple[Range, ...]:
    """Return the ranges of the tiles of a loop."""
    return tuple((first, min(first + tile, length)) for first in range(0, length, tile))


@dataclass(frozen=True, slots=True, kw_only=True)
class Reads:
    """Input places that tiles along one axis read, all tiles together and at most at one time."""

    largest: int
    reloaded: int  # every tile whole
    by_outputs: int  # steps to the next output tile bring what is new, others the whole tile
    by_kernel: int  # the same of steps to the next kernel tile


@lru_cache(maxsize=100_000)
def reads(axis: Axis, places: int, kernel: int) -> Reads:
    """Return what tiles of so many output places and so many live kernel places read."""
    live = axis.live
    outputs = cut(axis.outputs, places)
    kernels = [(live[first], live[end - 1] + 1) for first, end in cut(len(live), kernel)]
    if not kernels:
        return Reads(largest=0, reloaded=0, by_outputs=0, by_kernel=0)
    each = {(o, k): axis.touched(o, k) for o in outputs for k in kernels}
    reloaded = sum(each.values())
    shared_by_outputs = sum(
        each[before, k] + each[after, k] - axis.touched((before[0], after[1]), k)
        for before, after in pairwise(outputs)
        for k in kernels
    )
    shared_by_kernel = sum(
        each[o, before] + each[o, after] - axis.touched(o, (before[0], after[1]))
        for o in outputs
        for before, after in pairwise(kernels)
    )
    return Reads(
        largest=max(each.values()),
        reloaded=reloaded,
        by_outputs=reloaded - shared_by_outputs,
        by_kernel=reloaded - shared_by_kernel,
    )

"""Windows over the rows and columns of a map: their number, and the positions that each covers.

One rule for both axes: the window at output position o covers the input positions from
o * stride - before to o * stride - before + extent - 1. Positions outside the input are padding.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from itertools import product
from typing import NamedTuple

from csdf.errors import InvalidNetwork

Pair = tuple[int, int]  # vertical, horizontal
Range = tuple[int, int]  # first, and one past the last
PositionSet = int  # a set of positions: bit k for position k


class Overlap(Enum):
    """The channel that stores the rows that neighbouring windows share.

    WINDOW: the input channel, which releases a row after its last use. SELF_LOOP: a channel of the
    layer to itself, as in Minakova and Stefanov, Buffer Sizes Reduction for Memory-efficient
    CNN Inference, SAMOS 2020; while a phase runs, those rows are counted twice.
    """

    WINDOW = "window"
    SELF_LOOP = "self-loop"


class PaddedInterval(NamedTuple):
    """Positions [first, upto) along an axis; only positions [0, limit) hold elements."""

    first: int
    upto: int
    limit: int

    @property
    def length(self) -> int:
        """The number of positions covered."""
        return self.upto - self.first

    @property
    def held(self) -> Range:
        """The positions that hold elements."""
        return (min(max(self.first, 0), self.limit), min(max(self.upto, 0), self.limit))


class Region(NamedTuple):
    """A rectangle of every feature map of a tensor."""

    rows: Range
    columns: Range

    @property
    def height(self) -> int:
        """Rows."""
        return self.rows[1] - self.rows[0]

    @property
    def width(self) -> int:
        """Columns."""
        return self.columns[1] - self.columns[0]

    @property
    def pixels(self) -> int:
        """Elements of one feature map."""
        return self.height * self.width


class Axis(NamedTuple):
    """A window along its rows or its columns.

    before, after: padding; negative padding crops. overhang: positions after the padding that the last
    windows may cover.
    """

    kernel: int
    stride: int = 1
    dilation: int = 1
    before: int = 0
    after: int = 0
    overhang: int = 0

    @property
    def extent(self) -> int:
        """Positions from the first to the last element of the dilated kernel."""
        return self.dilation * (self.kernel - 1) + 1

    def span(self, length: int) -> int:
        """Return the positions that windows over an input of that length may cover."""
        return length + self.before + self.after + self.overhang

    def outputs(self, length: int) -> int:
        """Return how many windows fit over an input of that length; below 1 where none does."""
        return (self.span(length) - self.extent) // self.stride + 1

    def covered(self, outputs: Range) -> Range:
        """Return the range of positions that outputs cover, padding included."""
        first, upto = outputs
        return (
            first * self.stride - self.before,
            (upto - 1) * self.stride - self.before + self.extent,
        )

    def read(self, outputs: Range, length: int) -> PaddedInterval:
        """Return the range that outputs cover, and its part within an input of that length."""
        # Negative padding crops the end of the input.
        return PaddedInterval(*self.covered(outputs), limit=min(length, length + self.after))

    def scattered(self, length: int) -> int:
        """Return the length that scattering windows of `length` inputs reach, less the padding."""
        return (length - 1) * self.stride + self.extent - self.before - self.after

    def scattering(self, outputs: Range) -> Range:
        """Return the inputs whose scattering windows reach at least one of the outputs."""
        first, upto = outputs
        # The first input is rounded up (ceiling division), the last is rounded down.
        return (
            -((self.extent - 1 - first - self.before) // self.stride),
            (upto - 1 + self.before) // self.stride + 1,
        )

    def same_padding(self, length: int, *, extra_first: bool) -> Range:
        """Return the padding before and after with which ceil(length / stride) windows fit."""
        total = max(0, (-(-length // self.stride) - 1) * self.stride + self.extent - length)
        small, large = total // 2, total - total // 2
        return (large, small) if extra_first else (small, large)

    def scatters_all(self, inputs: int, outputs: int) -> bool:
        """Return whether each input position, and each tap, adds to an output position.

        In a scattering window, input `place` adds to place * stride + tap * dilation - before.
        """
        pairs = [
            (place, tap)
            for place, tap in product(range(inputs), range(self.kernel))
            if 0 <= place * self.stride + tap * self.dilation - self.before < outputs
        ]
        reached = (len(set(places)) for places in zip(*pairs, strict=True))
        return list(reached) == [inputs, self.kernel]

    def ceil_overhang(self, length: int) -> int:
        """Return the overhang with which no window is lost to rounding down."""
        span = length + self.before + self.after - self.extent
        missing = -span % self.stride
        starts_outside = span + missing >= length + self.before
        return 0 if starts_outside else missing


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """How a kernel moves over the rows and columns of its input.

    padding: top, left, bottom, right; negative padding crops. overhang: rows below and columns to the
    right of the padding that the last windows may cover (ceil mode); they hold no elements, and
    averages do not count them.
    """

    kernel: Pair
    stride: Pair = (1, 1)
    dilation: Pair = (1, 1)
    padding: tuple[int, int, int, int] = (0, 0, 0, 0)
    overhang: Pair = (0, 0)

    def __post_init__(self) -> None:
        for what, values in (
            ("kernel", self.kernel),
            ("stride", self.stride),
            ("dilation", self.dilation),
        ):
            if min(values) < 1:
                raise InvalidNetwork(f"{what} {values[0]}x{values[1]} is not positive")
        if min(self.overhang) < 0:
            raise InvalidNetwork(f"overhang {self.overhang} is negative")

    def fields(self, inputs: Pair, outputs: Pair) -> tuple[ReceptiveField, ReceptiveField]:
        """Return the receptive fields along the rows and along the columns, for maps of these sizes."""
        rows, columns = (
            ReceptiveField(
                inputs=inputs[number],
                outputs=outputs[number],
                kernel=self.kernel[number],
                stride=self.stride[number],
                dilation=self.dilation[number],
                padding=self.padding[number],
            )
            for number in (0, 1)
        )
        return rows, columns

    def _axis(self, number: int) -> Axis:
        return Axis(
            self.kernel[number],
            self.stride[number],
            self.dilation[number],
            self.padding[number],
            self.padding[number + 2],
            self.overhang[number],
        )

    @property
    def rows(self) -> Axis:
        """The window along the rows."""
        return self._axis(0)

    @property
    def columns(self) -> Axis:
        """The window along the columns."""
        return self._axis(1)

    @property
    def extent(self) -> Pair:
        """Rows and columns from the first to the last element of the dilated kernel."""
        return (self.rows.extent, self.columns.extent)

    @property
    def turned(self) -> Window:
        """The window over maps turned around their diagonal."""
        top, left, bottom, right = self.padding
        return Window(
            kernel=self.kernel[::-1],
            stride=self.stride[::-1],
            dilation=self.dilation[::-1],
            padding=(left, top, right, bottom),
            overhang=self.overhang[::-1],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceptiveField:
    """The inputs that each output of a layer depends on along one axis, between two lengths.

    padding: positions before the first; the padding after the last follows from the lengths. Sets of
    positions are bits of integers, since a stride above the kernel size leaves gaps that no window
    covers and ranges cannot describe.
    """

    inputs: int
    outputs: int
    kernel: int = 1
    stride: int = 1
    dilation: int = 1
    padding: int = 0

    def __post_init__(self) -> None:
        if min(self.inputs, self.outputs, self.kernel, self.stride, self.dilation) < 1:
            raise InvalidNetwork(f"{self}: lengths, kernel, stride and dilation are at least 1")

    def reading(self, tap: int) -> Range:
        """Return the outputs for which a kernel position is within the input, not in the padding."""
        before = self.padding - tap * self.dilation
        # Ceiling divisions: -(-a // b).
        first = min(max(0, -(-before // self.stride)), self.outputs)
        upto = min(-(-(self.inputs + before) // self.stride), self.outputs)
        return first, max(first, upto)

    @property
    def live(self) -> tuple[int, ...]:
        """The kernel positions that read the input for an output; all others read only padding."""
        reading = map(self.reading, range(self.kernel))
        return tuple(tap for tap, (first, upto) in enumerate(reading) if first < upto)

    def live_kernel(self, outputs: PositionSet) -> PositionSet:
        """Return the kernel positions that read the input for at least one of these outputs."""
        taps = 0
        for tap in range(self.kernel):
            if outputs & position_set(*self.reading(tap)):
                taps |= 1 << tap
        return taps

    def needed(self, outputs: PositionSet) -> PositionSet:
        """Return the input positions that these outputs need."""
        if not outputs:
            return 0
        first, upto = (outputs & -outputs).bit_length() - 1, outputs.bit_length()
        leaves_no_gap = self.kernel >= self.stride and self.dilation == 1
        if leaves_no_gap and outputs == position_set(first, upto):
            axis = Axis(self.kernel, self.stride, before=self.padding)
            return position_set(*axis.read((first, upto), self.inputs).held)
        positions = 0
        for output in range(first, upto):
            if outputs >> output & 1:
                start = output * self.stride - self.padding
                for position in range(start, start + self.kernel * self.dilation, self.dilation):
                    if 0 <= position < self.inputs:
                        positions |= 1 << position
        return positions


def position_set(first: int, upto: int) -> PositionSet:
    """Return the positions of a range as bits."""
    return (1 << upto) - (1 << first)


def window_places(window: Window, height: int, width: int) -> Pair:
    """Return rows and columns of the output of windows over a map. Raises InvalidNetwork if none."""
    sizes = (window.rows.outputs(height), window.columns.outputs(width))
    if min(sizes) < 1:
        raise InvalidNetwork(
            f"a window of {window.extent[0]}x{window.extent[1]} does not fit into "
            f"{window.rows.span(height)}x{window.columns.span(width)}, padding included"
        )
    return sizes


def same_padding(
    size: Pair, window: Window, *, extra_first: bool = False
) -> tuple[int, int, int, int]:
    """Return top, left, bottom, right such that the output has ceil(size / stride) positions.

    An odd amount has its extra row or column at the end, or at the start where `extra_first`
    (SAME_UPPER and SAME_LOWER of ONNX).
    """
    top, bottom = window.rows.same_padding(size[0], extra_first=extra_first)
    left, right = window.columns.same_padding(size[1], extra_first=extra_first)
    return (top, left, bottom, right)


def ceil_overhang(size: Pair, window: Window) -> Pair:
    """Return the overhang with which no position is lost to rounding down (ceil mode).

    A window that would start beyond the input and its leading padding is left out, as in ONNX,
    PyTorch and Caffe.
    """
    return (window.rows.ceil_overhang(size[0]), window.columns.ceil_overhang(size[1]))


def aligned_slices(shift: int, stride: int, sources: int, targets: int) -> tuple[slice, slice]:
    """Return the sources that are added to a target, and these targets, as slices.

    Source i is added to target i * stride + shift. sources, targets: their numbers.
    """
    first = max(0, -(shift // stride))
    upto = max(first, min(sources, (targets - 1 - shift) // stride + 1))
    start = first * stride + shift
    if first == upto:
        return slice(0, 0), slice(0, 0)
    return slice(first, upto), slice(start, start + (upto - first - 1) * stride + 1, stride)

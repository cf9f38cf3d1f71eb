"""Places along one axis of a map, as the bits of an integer, and which of them a layer needs.

Sets of places rather than ranges: a stride above the kernel leaves gaps that nobody reads.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from csdf.errors import InvalidNetwork
from planners.tiling.regions import even_ends

Places = int  # bit k: place k


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """How the outputs of a layer reach into its input along one axis.

    padding: places before the first; those behind the last follow from the lengths.
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

    def window(self, output: int) -> Places:
        """Return the places under the window of one output; padding is none."""
        start = output * self.stride - self.padding
        found = 0
        for step in range(self.kernel):
            place = start + step * self.dilation
            if 0 <= place < self.inputs:
                found |= 1 << place
        return found

    def live_kernel(self, outputs: Places) -> Places:
        """Return the places of the kernel that lie on the input for some of these outputs.

        The others see padding alone.
        """
        found = 0
        for step in range(self.kernel):
            before = self.padding - step * self.dilation
            first = max(0, -(-before // self.stride))
            upto = max(first, -(-(self.inputs + before) // self.stride))
            if outputs & places(first, upto):
                found |= 1 << step
        return found

    def needed(self, outputs: Places) -> Places:
        """Return the places that these outputs need."""
        if not outputs:
            return 0
        first, upto = (outputs & -outputs).bit_length() - 1, outputs.bit_length()
        if self._leaves_no_gap() and outputs == places(first, upto):
            start = first * self.stride - self.padding
            end = (upto - 1) * self.stride - self.padding + self.kernel
            start, end = min(max(start, 0), self.inputs), min(max(end, 0), self.inputs)
            return places(start, max(start, end))
        found = 0
        for output in range(first, upto):
            if outputs >> output & 1:
                found |= self.window(output)
        return found

    def _leaves_no_gap(self) -> bool:
        """Whether windows side by side see all places between them."""
        return self.kernel >= self.stride and self.dilation == 1


def places(first: int, upto: int) -> Places:
    """Return the places of a range."""
    return (1 << upto) - (1 << first)


def shares(length: int, parts: int) -> tuple[Places, ...]:
    """Return `parts` even shares of an axis, in order. Raises InvalidPlan if one would be empty."""
    return tuple(places(first, upto) for first, upto in pairwise((0, *even_ends(length, parts))))

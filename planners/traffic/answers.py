"""What a search for the least traffic of one layer answers."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from planners.traffic.convolution import Convolution
from planners.traffic.nest import LoopNest


@dataclass(frozen=True, slots=True, kw_only=True)
class LowerBound:
    """Bytes that every schedule of the layer moves at least, loop nest or not."""

    name: str
    bytes: int
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerTraffic:
    """The least traffic of one layer: no loop nest that fits the buffer moves less.

    output_bytes: written, and read back for more sums. held_bytes: the three tiles at their largest.
    space: orders, tiles and levels that there are; evaluated: how many of them were looked at.
    """

    convolution: Convolution
    buffer_bytes: int
    element_bytes: int
    nest: LoopNest
    input_bytes: int
    weight_bytes: int
    output_bytes: int
    held_bytes: int
    bounds: tuple[LowerBound, ...]
    space: int
    evaluated: int

    @property
    def total_bytes(self) -> int:
        """All that moves between the buffer and the memory outside."""
        return self.input_bytes + self.weight_bytes + self.output_bytes

    @property
    def lower_bound_bytes(self) -> int:
        """The best of the lower bounds."""
        return max(bound.bytes for bound in self.bounds)

    @property
    def gap(self) -> Fraction:
        """How far the traffic is above the best bound: (found - bound) / bound."""
        bound = self.lower_bound_bytes
        return Fraction(self.total_bytes - bound, bound)

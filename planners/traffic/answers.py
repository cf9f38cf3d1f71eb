"""Answers of a search for the least traffic of one layer."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from csdf.model.shown import Shown
from csdf.outcome import Reason
from planners.traffic.convolution import ArrayBytes, Convolution
from planners.traffic.nest import LoopNest, NestedTiles, listing


@dataclass(frozen=True, slots=True, kw_only=True)
class LowerBound:
    """Bytes that every schedule of the layer moves at least, loop nest or not."""

    name: str
    bytes: int
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerTraffic(Shown):
    """The least traffic of one layer: no loop nest with one or two levels of tiles moves less.

    output_bytes: written, and read back for more sums. held_bytes: the three tiles at their largest.
    space: orders, tiles and levels that there are with one level of tiles; evaluated: how many of
    them were looked at. ended: why the search of nests with two levels ended early, if it did: then a
    nest may move less.
    """

    convolution: Convolution
    buffer_bytes: int
    element_bytes: ArrayBytes
    nest: LoopNest | NestedTiles
    input_bytes: int
    weight_bytes: int
    output_bytes: int
    held_bytes: int
    bounds: tuple[LowerBound, ...]
    space: int
    evaluated: int
    ended: Reason | None = None

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

    def to_json(self) -> dict[str, Any]:
        """Return traffic, nest and bounds as a JSON value; the gap as text."""
        return {
            "layer": self.convolution.name,
            "buffer_bytes": self.buffer_bytes,
            "element_bytes": self.element_bytes.to_json(),
            "input_bytes": self.input_bytes,
            "weight_bytes": self.weight_bytes,
            "output_bytes": self.output_bytes,
            "traffic_bytes": self.total_bytes,
            "held_bytes": self.held_bytes,
            "bounds": {bound.name: bound.bytes for bound in self.bounds},
            "gap": str(self.gap),
            "nest": listing(self.convolution, self.nest).splitlines(),
        }

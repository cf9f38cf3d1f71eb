"""Computations: the questions of a machine to whoever computes its layers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from cnn2csdf.network import Layer
from cnn2csdf.weights import Array
from planners.tiling.regions import Region


class Computing(Protocol):
    """The values that fill the regions; the judge computes none."""

    def frame_row(self, name: str, row: int) -> Array:
        """Return a row of an input, (columns, channels)."""

    def region(self, layer: Layer, target: Region, inputs: Sequence[tuple[Region, Array]]) -> Array:
        """Return a region of a layer's output, (rows, columns, channels), from those it needs."""

    def add_row(self, layer: Layer, row: int, values: Array, sums: Array) -> None:
        """Add a row of the input, (columns, channels), to the sums of a layer."""

    def finished(self, layer: Layer, sums: Array) -> Array:
        """Return the output that sums stand for, (rows, columns, channels)."""

"""The part of an output that one firing computes: output rows, from rows of the inputs."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from cnn2csdf.arrays import Array
from cnn2csdf.dtypes import Element, Quantization
from cnn2csdf.integers import centred, dequantized
from cnn2csdf.shape import Dims, Shape
from csdf.errors import ExecutionError


class RowReader(Protocol):
    """Gives the rows of one tensor of one frame."""

    @property
    def shape(self) -> Shape:
        """Shape of the whole tensor."""

    def rows(self, first: int, upto: int) -> Array:
        """Return rows [first, upto): (channels, rows, width), or the tensor if it is no map.

        The array may be a view that is valid until the end of the firing; never write into it.
        Raises ExecutionError where a row does not exist.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldRows:
    """Rows of a tensor that lie in one array: those from `begin` on."""

    shape: Shape
    array: Array
    begin: int = 0

    def rows(self, first: int, upto: int) -> Array:
        """Return rows [first, upto), a view. Raises ExecutionError where a row does not exist."""
        if not self.shape.is_map:
            return self.array
        if not self.begin <= first <= upto <= self.begin + self.array.shape[1]:
            raise ExecutionError(
                f"rows {first} to {upto} asked for, rows {self.begin} to "
                f"{self.begin + self.array.shape[1]} are there"
            )
        return self.array[:, first - self.begin : upto - self.begin]


class Types(NamedTuple):
    """How inputs, output and parameters of a quantised operator are quantised.

    None is a tensor of real numbers.
    """

    inputs: Sequence[Quantization | None]
    output: Quantization | None
    weights: Mapping[str, Quantization]  # by role


@dataclass(frozen=True, slots=True)
class RealRows:
    """The rows of a quantised tensor as real numbers."""

    stored: RowReader
    quantization: Quantization

    @property
    def shape(self) -> Shape:
        """Shape of the tensor."""
        return self.stored.shape

    def rows(self, first: int, upto: int) -> Array:
        """Return rows [first, upto) in single precision."""
        return dequantized(self.stored.rows(first, upto), self.quantization)


@dataclass(frozen=True, slots=True)
class CentredRows(RealRows):
    """The rows of a quantised tensor as whole numbers without its zero point, in double precision."""

    def rows(self, first: int, upto: int) -> Array:
        """Return rows [first, upto)."""
        return centred(self.stored.rows(first, upto), self.quantization).astype(np.float64)


class KeptState(NamedTuple):
    """An array that a layer keeps from one frame to the next. begin: each number in the first frame."""

    dims: Dims
    element: Element
    begin: int


class OutputRows(NamedTuple):
    """A part of an output: rows [begin, end), with the inputs and weights from which to compute them.

    Parameters of this type are named `part`.
    """

    inputs: Sequence[RowReader]
    weights: Mapping[str, Array]  # by role
    shape: Shape  # of the whole output
    begin: int
    end: int
    types: Types | None = None  # where an input or the output is quantised
    # What the layer keeps to the next frame, by role.
    kept: MutableMapping[str, Array] | None = None

    @property
    def rows(self) -> int:
        """How many rows are computed."""
        return self.end - self.begin


def whole_tensor(reader: RowReader) -> Array:
    """Return all rows of an input."""
    return reader.rows(0, reader.shape.rows)


def same_rows(part: OutputRows) -> Array:
    """Return the rows of the only input with the same indices as the output rows of the part."""
    return part.inputs[0].rows(part.begin, part.end)


def rows_of_part(tensor: Array, part: OutputRows) -> Array:
    """Return the rows of the part out of the whole output."""
    return tensor[:, part.begin : part.end] if part.shape.is_map else tensor


def along_channels(values: Array, rank: int) -> Array:
    """Return one value a channel such that it spreads over a tensor of that rank."""
    return values.reshape(-1, *(1,) * (rank - 1))

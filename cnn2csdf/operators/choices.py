"""Choosing between tensors, and places chosen by the size of what stands there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from cnn2csdf.arrays import Array
from cnn2csdf.operators.elementwise import broadcast, operand
from cnn2csdf.operators.operands import (
    Constants,
    operand_readers,
    operand_shapes,
    trained_operands,
)
from cnn2csdf.operators.operator import Operator, RowsNeeded, only_input, only_row, same_row
from cnn2csdf.part import Part, same_rows, whole_tensor
from cnn2csdf.shape import Dims, Shape
from csdf.errors import InvalidNetwork


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice(Operator):
    """For each place the second operand where the first is not zero, the third where it is.

    Axes of size one are repeated. constants: operands that are trained numbers.
    """

    constants: Constants = ()

    def output_dims(self, inputs: Sequence[Shape]) -> Dims:
        """Return the dims that all three operands fit."""
        shapes = operand_shapes(inputs, self.constants)
        if len(shapes) != 3:
            raise InvalidNetwork(f"a choice takes three operands, found {len(shapes)}")
        return broadcast([shape.dims for shape in shapes])

    def rows_needed(self, index: int, inputs: Sequence[Shape], output: Shape) -> RowsNeeded | None:
        if not output.is_map:
            return None
        return same_row if inputs[index].rows == output.rows else only_row

    def trained(self, inputs: Sequence[Shape]) -> Mapping[str, Dims]:
        return trained_operands(self.constants)

    def operations(self, inputs: Sequence[Shape], output: Shape) -> int:
        return output.elements

    def computed(self, part: Part) -> Array:
        readers = operand_readers(part, self.constants)
        condition, wanted, otherwise = (operand(reader, part) for reader in readers)
        return np.where(condition != 0, wanted, otherwise)

    def in_words(self) -> str:
        return "where"


class AlongOneAxis(Operator):
    """An operator with one input that combines the elements along one axis."""

    __slots__ = ()
    axis: int

    def rows_needed(self, index: int, inputs: Sequence[Shape], output: Shape) -> RowsNeeded | None:
        """Return the row itself, unless rows are combined."""
        return same_row if self._is_by_rows(inputs[index]) else None

    def _is_by_rows(self, source: Shape) -> bool:
        return source.is_map and self.axis != 1

    def operations(self, inputs: Sequence[Shape], output: Shape) -> int:
        return inputs[0].elements

    def _read(self, part: Part) -> Array:
        by_rows = self._is_by_rows(part.inputs[0].shape)
        return same_rows(part) if by_rows else whole_tensor(part.inputs[0])

    def _written(self, result: Array, part: Part) -> Array:
        """The rows of the part, where all rows of a map were computed."""
        is_all = part.shape.is_map and not self._is_by_rows(part.inputs[0].shape)
        return result[:, part.begin : part.end] if is_all else result

    def _source_dims(self, inputs: Sequence[Shape]) -> Dims:
        dims = only_input(self, inputs).dims
        if not 0 <= self.axis < len(dims):
            raise InvalidNetwork(f"{type(self).__name__} along axis {self.axis} of {inputs[0]}")
        return dims


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtremePlace(AlongOneAxis):
    """The index along an axis of the largest or the smallest element; the axis stays, with size one.

    takes_last: which of several that are equal, the last one or the first.
    """

    function: str  # "max" or "min"
    axis: int
    takes_last: bool = False

    def output_dims(self, inputs: Sequence[Shape]) -> Dims:
        dims = self._source_dims(inputs)
        return (*dims[: self.axis], 1, *dims[self.axis + 1 :])

    def computed(self, part: Part) -> Array:
        values = self._read(part)
        ordered = np.flip(values, self.axis) if self.takes_last else values
        found = (np.argmax if self.function == "max" else np.argmin)(ordered, axis=self.axis)
        places = values.shape[self.axis] - 1 - found if self.takes_last else found
        result = np.expand_dims(places, self.axis).astype(np.float32)
        return self._written(result, part)

    def in_words(self) -> str:
        return f"place of {self.function}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranking(AlongOneAxis):
    """The `count` largest or smallest elements along an axis in their order, or their places.

    Of elements that are equal the one at the lower place comes first.
    """

    axis: int
    count: int
    takes_largest: bool = True
    gives_places: bool = False

    def output_dims(self, inputs: Sequence[Shape]) -> Dims:
        dims = self._source_dims(inputs)
        if not 0 < self.count <= dims[self.axis]:
            raise InvalidNetwork(f"the first {self.count} along axis {self.axis} of {inputs[0]}")
        return (*dims[: self.axis], self.count, *dims[self.axis + 1 :])

    def computed(self, part: Part) -> Array:
        values = self._read(part)
        keys = -values if self.takes_largest else values
        order = np.argsort(keys, axis=self.axis, kind="stable")
        places = np.take(order, np.arange(self.count), axis=self.axis)
        if self.gives_places:
            return self._written(places.astype(np.float32), part)
        return self._written(np.take_along_axis(values, places, axis=self.axis), part)

    def in_words(self) -> str:
        return f"{'largest' if self.takes_largest else 'smallest'} {self.count}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningSum(AlongOneAxis):
    """At each place the sum of the elements up to there along an axis.

    is_exclusive: without the element itself. is_reversed: counted from the end.
    """

    axis: int
    is_exclusive: bool = False
    is_reversed: bool = False

    def output_dims(self, inputs: Sequence[Shape]) -> Dims:
        return self._source_dims(inputs)

    def computed(self, part: Part) -> Array:
        values = self._read(part)
        ordered = np.flip(values, self.axis) if self.is_reversed else values
        sums = np.cumsum(ordered, axis=self.axis)
        if self.is_exclusive:
            sums = sums - ordered
        return self._written(np.flip(sums, self.axis) if self.is_reversed else sums, part)

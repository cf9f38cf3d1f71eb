"""Elements repeated, and elements picked from a list of places; joins with trained numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from cnn2csdf.arrays import Array
from cnn2csdf.operators.moves import Concatenation
from cnn2csdf.operators.operands import (
    Constants,
    operand_place,
    operand_readers,
    operand_shapes,
    trained_operands,
)
from cnn2csdf.operators.operator import Operator, RowsNeeded, only_input, only_row, same_row
from cnn2csdf.part import Part, cut, same_rows, whole_tensor
from cnn2csdf.shape import Dims, Shape
from csdf.errors import InvalidNetwork


@dataclass(frozen=True, slots=True, kw_only=True)
class Repeat(Operator):
    """The tensor several times, one after another along an axis."""

    axis: int
    times: int

    def output_dims(self, inputs: Sequence[Shape]) -> Dims:
        dims = only_input(self, inputs).dims
        if not 0 <= self.axis < len(dims) or self.times < 1:
            raise InvalidNetwork(f"{self.times} times {inputs[0]} along axis {self.axis}")
        return (*dims[: self.axis], dims[self.axis] * self.times, *dims[self.axis + 1 :])

    def rows_needed(self, index: int, inputs: Sequence[Shape], output: Shape) -> RowsNeeded | None:
        """Return the row itself, or the only one; several rows repeated come back from above."""
        if not inputs[index].is_map:
            return None
        if self.axis != 1:
            return same_row
        return only_row if inputs[index].rows == 1 else None

    def computed(self, part: Part) -> Array:
        if not part.shape.is_map:
            return self._repeated(whole_tensor(part.inputs[0]))
        if self.axis != 1:
            return self._repeated(same_rows(part))
        places = np.arange(part.begin, part.end) % part.inputs[0].shape.rows
        return whole_tensor(part.inputs[0])[:, places]

    def _repeated(self, values: Array) -> Array:
        return np.concatenate([values] * self.times, axis=self.axis)

    def in_words(self) -> str:
        return f"repeat {axis_in_words(self.axis)} {self.times} times"


@dataclass(frozen=True, slots=True, kw_only=True)
class Gather(Operator):
    """Elements at a list of places along an axis, in the order of the list."""

    axis: int
    places: tuple[int, ...]

    def output_dims(self, inputs: Sequence[Shape]) -> Dims:
        dims = only_input(self, inputs).dims
        if not 0 <= self.axis < len(dims):
            raise InvalidNetwork(f"places along axis {self.axis} of {inputs[0]}")
        size = dims[self.axis]
        for place in self.places:
            if not 0 <= place < size:
                raise InvalidNetwork(f"place {place} along axis {self.axis} of {inputs[0]}")
        return (*dims[: self.axis], len(self.places), *dims[self.axis + 1 :])

    def rows_needed(self, index: int, inputs: Sequence[Shape], output: Shape) -> RowsNeeded | None:
        """Return the row picked; where rows change their order all are needed."""
        if not inputs[index].is_map:
            return None
        if self.axis != 1:
            return same_row
        rises = all(before <= behind for before, behind in pairwise(self.places))
        return (lambda row: same_row(self.places[row])) if rises else None

    def computed(self, part: Part) -> Array:
        if not part.shape.is_map:
            return np.take(whole_tensor(part.inputs[0]), self.places, axis=self.axis)
        if self.axis != 1:
            return np.take(same_rows(part), self.places, axis=self.axis)
        rows = np.array(self.places[part.begin : part.end])
        first = int(rows.min())
        return part.inputs[0].rows(first, int(rows.max()) + 1)[:, rows - first]

    def in_words(self) -> str:
        return f"gather {len(self.places)} of {axis_in_words(self.axis)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConstantConcatenation(Operator):
    """Inputs and trained numbers one after another along an axis, as a token in front of others."""

    constants: Constants
    axis: int = 0

    def output_dims(self, inputs: Sequence[Shape]) -> Dims:
        return Concatenation(axis=self.axis).output_dims(operand_shapes(inputs, self.constants))

    def rows_needed(self, index: int, inputs: Sequence[Shape], output: Shape) -> RowsNeeded | None:
        shapes = operand_shapes(inputs, self.constants)
        place = operand_place(index, self.constants)
        return Concatenation(axis=self.axis).rows_needed(place, shapes, output)

    def trained(self, inputs: Sequence[Shape]) -> Mapping[str, Dims]:
        return trained_operands(self.constants)

    def computed(self, part: Part) -> Array:
        readers = operand_readers(part, self.constants)
        return Concatenation(axis=self.axis).computed(part._replace(inputs=readers))

    def in_words(self) -> str:
        return "concat with constants"


def axis_in_words(axis: int) -> str:
    """Return the letter of an axis of feature maps, the number of a later one."""
    return "CHW"[axis] if axis < 3 else str(axis)


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorProduct(Operator):
    """Sums of products over the axes that share a letter: `abc,acd->abd` is a matrix product.

    terms: the letters of each operand's axes. constants: operands that are trained numbers.
    """

    terms: tuple[str, ...]
    result: str
    constants: Constants = ()

    def output_dims(self, inputs: Sequence[Shape]) -> Dims:
        sizes = self._sizes(inputs)
        return tuple(sizes[letter] for letter in self.result) or (1,)

    def _sizes(self, inputs: Sequence[Shape]) -> dict[str, int]:
        shapes = operand_shapes(inputs, self.constants)
        sizes: dict[str, int] = {}
        if len(shapes) != len(self.terms):
            raise InvalidNetwork(f"{self.in_words()} of {len(shapes)} tensors")
        for term, shape in zip(self.terms, shapes, strict=True):
            if len(term) != len(shape.dims):
                raise InvalidNetwork(f"{self.in_words()}: {term!r} does not fit {shape}")
            for letter, size in zip(term, shape.dims, strict=True):
                if sizes.setdefault(letter, size) != size:
                    raise InvalidNetwork(
                        f"{self.in_words()}: axis {letter!r} has {sizes[letter]} and {size} places"
                    )
        return sizes

    def trained(self, inputs: Sequence[Shape]) -> Mapping[str, Dims]:
        return trained_operands(self.constants)

    def multiply_accumulates(self, inputs: Sequence[Shape], output: Shape) -> int:
        """Return the products of all letters' sizes, for each operand behind the first."""
        count = 1
        for size in self._sizes(inputs).values():
            count *= size
        return count * (len(self.terms) - 1)

    def computed(self, part: Part) -> Array:
        """Return the rows of the part, from whole operands."""
        tensors = [whole_tensor(reader) for reader in operand_readers(part, self.constants)]
        equation = f"{','.join(self.terms)}->{self.result}"
        product: Array = np.einsum(equation, *tensors, optimize=len(tensors) > 1)
        return cut(np.asarray(product, np.float32).reshape(part.shape.dims), part)

    def in_words(self) -> str:
        return f"einsum {','.join(self.terms)}->{self.result}"

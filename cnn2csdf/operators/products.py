"""Products of matrices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from cnn2csdf.arrays import Array
from cnn2csdf.integers import centred, channel_ratios, has_wide_sums, rescaled_sums
from cnn2csdf.operators.elementwise import broadcast
from cnn2csdf.operators.operator import Operator, RowsNeeded, only_input, quantized_types, same_row
from cnn2csdf.part import Part, Types, cut, same_rows, whole_tensor
from cnn2csdf.shape import Dims, Shape
from csdf.errors import InvalidNetwork


@dataclass(frozen=True, slots=True, kw_only=True)
class FullyConnected(Operator):
    """A matrix times all elements of the input, in (channel, row, column) order."""

    units: int
    has_bias: bool = True

    def output_dims(self, inputs: Sequence[Shape]) -> Dims:
        only_input(self, inputs)
        return (self.units,)

    def trained(self, inputs: Sequence[Shape]) -> Mapping[str, Dims]:
        """Return the matrix (units, elements of the input), and the bias."""
        matrix = {"matrix": (self.units, inputs[0].elements)}
        return matrix | ({"bias": (self.units,)} if self.has_bias else {})

    def multiply_accumulates(self, inputs: Sequence[Shape], output: Shape) -> int:
        return self.units * inputs[0].elements

    def computed(self, part: Part) -> Array:
        product: Array = part.weights["matrix"] @ whole_tensor(part.inputs[0]).reshape(-1)
        return product + part.weights["bias"] if self.has_bias else product

    def computed_in_integers(self, part: Part, types: Types) -> Array:
        """Return the sums, rescaled as those of a convolution are."""
        if "matrix" not in types.weights:
            return super(FullyConnected, self).computed_in_integers(part, types)
        (given, result), weights = quantized_types(self, types), types.weights["matrix"]
        vector = centred(whole_tensor(part.inputs[0]).reshape(-1), given).astype(np.float64)
        matrix = centred(part.weights["matrix"], weights).astype(np.float64)
        sums = matrix @ vector + (part.weights["bias"] if self.has_bias else 0)
        ratios = channel_ratios(given, weights, result, self.units)
        is_wide = has_wide_sums(given, part.weights)
        return rescaled_sums(sums.astype(np.int64), ratios, result, is_wide=is_wide)


@dataclass(frozen=True, slots=True, kw_only=True)
class MatrixProduct(Operator):
    """Product over the last axis of the first input: with the second input, or with weights.

    units: columns of the matrix of weights; None where the matrix is a second input.
    """

    units: int | None = None

    def output_dims(self, inputs: Sequence[Shape]) -> Dims:
        """Return the rows of the first input, the columns of the matrix."""
        if self.units is not None:
            return (*only_input(self, inputs).dims[:-1], self.units)
        if len(inputs) != 2:
            raise InvalidNetwork(f"a matrix product takes two inputs, found {len(inputs)}")
        left, right = (shape.dims for shape in inputs)
        if len(left) < 2 or len(right) < 2 or left[-1] != right[-2]:
            raise InvalidNetwork(f"a matrix product of {inputs[0]} and {inputs[1]} does not exist")
        return (*broadcast((left[:-2], right[:-2])), left[-2], right[-1])

    def rows_needed(self, index: int, inputs: Sequence[Shape], output: Shape) -> RowsNeeded | None:
        return same_row if self.units is not None and inputs[index].is_map else None

    def trained(self, inputs: Sequence[Shape]) -> Mapping[str, Dims]:
        """Return the matrix (columns of the input, units) where it is trained."""
        return {} if self.units is None else {"matrix": (inputs[0].dims[-1], self.units)}

    def multiply_accumulates(self, inputs: Sequence[Shape], output: Shape) -> int:
        return output.elements * inputs[0].dims[-1]

    def computed(self, part: Part) -> Array:
        """Return the rows of the part: those rows of the first input times the matrix."""
        first = part.inputs[0]
        is_cut = part.shape.is_map and first.shape.is_map
        left = same_rows(part) if is_cut else whole_tensor(first)
        right = whole_tensor(part.inputs[1]) if self.units is None else part.weights["matrix"]
        product: Array = np.matmul(left, right)
        return product if is_cut else cut(product, part)

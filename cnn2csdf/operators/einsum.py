"""Tensor product: sums of products over named axes; transpositions and sums are forms of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from cnn2csdf.arrays import Array
from cnn2csdf.operators.operator import (
    Constants,
    Operator,
    operand_readers,
    operand_shapes,
    trained_operands,
)
from cnn2csdf.part import OutputRows
from cnn2csdf.shape import Dims, Shape
from csdf.errors import InvalidNetwork

__all__ = ["TensorProduct"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorProduct(Operator):
    """Sums of products over the axes that share a letter: `abc,acd->abd` is a matrix product.

    terms: the letters of each operand's axes. constants: operands that are parameters.
    """

    depends_on_all = True
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
        """Return the products of all letters' sizes, for each operand after the first."""
        return prod(self._sizes(inputs).values()) * (len(self.terms) - 1)

    def computed(self, part: OutputRows) -> Array:
        """Return the rows of the part, from whole operands."""
        readers = operand_readers(part, self.constants)
        return super(TensorProduct, self).computed(part._replace(inputs=readers))

    def formula(self, tensors: Sequence[Array], part: OutputRows) -> Array:
        equation = f"{','.join(self.terms)}->{self.result}"
        product = np.einsum(equation, *tensors, optimize=len(tensors) > 1)
        return np.asarray(product, np.float32)

    def in_words(self) -> str:
        return f"einsum {','.join(self.terms)}->{self.result}"

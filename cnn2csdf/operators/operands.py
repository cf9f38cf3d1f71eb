"""Trained operands of an operator, among the operands that are tensors of the network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cnn2csdf.part import HeldRows, OutputRows, RowReader
from cnn2csdf.shape import Dims, Shape

Constants = tuple[tuple[int, Dims], ...]
"""Of each trained operand its place among all operands, and its dims; in the order of places."""


def constant_role(place: int) -> str:
    """Return the role of the trained operand at that place."""
    return f"constant {place}"


def trained_operands(constants: Constants) -> Mapping[str, Dims]:
    """Return the dims of each trained operand by its role."""
    return {constant_role(place): dims for place, dims in constants}


def operand_shapes(inputs: Sequence[Shape], constants: Constants) -> list[Shape]:
    """Return the shapes of all operands in their order."""
    shapes = list(inputs)
    for place, dims in constants:
        shapes.insert(place, Shape(dims=dims))
    return shapes


def operand_readers(part: OutputRows, constants: Constants) -> list[RowReader]:
    """Return readers of all operands in their order."""
    readers = list(part.inputs)
    for place, dims in constants:
        array = part.weights[constant_role(place)]
        readers.insert(place, HeldRows(shape=Shape(dims=dims), array=array))
    return readers


def operand_place(index: int, constants: Constants) -> int:
    """Return the position of input `index` among all operands."""
    for place, _ in constants:
        index += place <= index
    return index

"""Elementwise functions of several tensors, products of matrices, reductions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce

import numpy as np

from cnn2csdf import operators as op
from cnn2csdf.execution.part import Part, Reader, cut, same_rows, whole_tensor
from cnn2csdf.weights import Array


def elementwise(operator: op.Elementwise, part: Part) -> Array:
    """Return the rows of the part of a function of the elements at one place."""
    operands = [_operand(reader, part) for reader in part.inputs]
    if operator.constant is not None:
        constant = _matching_rows(part.weights["constant"], part)
        operands.insert(0 if operator.constant_first else len(operands), constant)
    return _ELEMENTWISE[operator.function](operands)


def _operand(reader: Reader, part: Part) -> Array:
    """The rows of an input that meet those of the part; an input of one row meets all."""
    if reader.shape.is_map and part.shape.is_map and reader.shape.height > 1:
        return reader.rows(part.begin, part.end)
    return _matching_rows(whole_tensor(reader), part)


def _matching_rows(tensor: Array, part: Part) -> Array:
    has_rows = part.shape.is_map and tensor.ndim >= 2 and tensor.shape[-2] > 1
    return tensor[..., part.begin : part.end, :] if has_rows else tensor


def _mean(operands: Sequence[Array]) -> Array:
    return reduce(np.add, operands) / np.float32(len(operands))


_ELEMENTWISE: dict[str, Callable[[Sequence[Array]], Array]] = {
    "add": lambda operands: reduce(np.add, operands),
    "subtract": lambda operands: reduce(np.subtract, operands),
    "multiply": lambda operands: reduce(np.multiply, operands),
    "divide": lambda operands: reduce(np.divide, operands),
    "maximum": lambda operands: reduce(np.maximum, operands),
    "minimum": lambda operands: reduce(np.minimum, operands),
    "mean": _mean,
    "power": lambda operands: reduce(np.power, operands),
}


def fully_connected(operator: op.FullyConnected, part: Part) -> Array:
    """Return the matrix times all elements of the input, plus the bias."""
    product: Array = part.weights["matrix"] @ whole_tensor(part.inputs[0]).reshape(-1)
    return product + part.weights["bias"] if operator.has_bias else product


def matrix_product(operator: op.MatrixProduct, part: Part) -> Array:
    """Return the rows of the part: those rows of the first input times the matrix."""
    first = part.inputs[0]
    is_cut = part.shape.is_map and first.shape.is_map
    left = same_rows(part) if is_cut else whole_tensor(first)
    right = whole_tensor(part.inputs[1]) if operator.units is None else part.weights["matrix"]
    product: Array = np.matmul(left, right)
    return product if is_cut else cut(product, part)


def reduction(operator: op.Reduction, part: Part) -> Array:
    """Return the rows of the part; where rows stay rows it needs those rows only."""
    source = part.inputs[0]
    by_rows = source.shape.is_map and operator.keeps and 1 not in operator.axes
    values = same_rows(part) if by_rows else whole_tensor(source)
    result = _REDUCTIONS[operator.function](values, operator.axes, operator.keeps)
    return result if by_rows else cut(result.reshape(part.shape.dims), part)


def _length(values: Array, axes: tuple[int, ...], keeps: bool) -> Array:  # noqa: FBT001
    result: Array = np.sqrt(np.sum(values * values, axis=axes, keepdims=keeps))
    return result


_REDUCTIONS: dict[str, Callable[[Array, tuple[int, ...], bool], Array]] = {
    "mean": lambda values, axes, keeps: np.mean(values, axis=axes, keepdims=keeps),
    "sum": lambda values, axes, keeps: np.sum(values, axis=axes, keepdims=keeps),
    "max": lambda values, axes, keeps: np.max(values, axis=axes, keepdims=keeps),
    "min": lambda values, axes, keeps: np.min(values, axis=axes, keepdims=keeps),
    "l2": _length,
}

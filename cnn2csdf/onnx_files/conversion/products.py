"""Matrix products of ONNX as layers."""

from __future__ import annotations

from math import prod

import numpy as np

from cnn2csdf import operators as op
from cnn2csdf.onnx_files.conversion.assembly import Assembly
from cnn2csdf.onnx_files.conversion.steps import ConversionStep, Numbers
from cnn2csdf.onnx_files.nodes import Node, unsupported
from cnn2csdf.weights import Array
from csdf.errors import UnreadableFile, counted


def gemm(node: Node, assembly: Assembly) -> None:
    """Add a fully connected layer; for several vectors at once, a product and its bias."""
    tensor = assembly.dynamic(node, 0)
    matrix, dims = assembly.trained(node, 1, "the matrix")
    vectors, units = assembly.values.dims(node.outputs[0])
    alpha, is_by_units = node.real("alpha", 1.0), bool(node.integer("transB", 0))
    if dims[is_by_units] * vectors != assembly.shape(tensor).elements:
        raise UnreadableFile(
            f"{node}: a matrix for {counted(dims[is_by_units], 'input')}, "
            f"found {assembly.shape(tensor)}"
        )

    def by_inputs() -> Array:
        value = np.asarray(assembly.values.value(matrix), dtype=np.float32)
        scaled = value if alpha == 1 else value * np.float32(alpha)
        return scaled.T if is_by_units else scaled

    axis = 0 if is_by_units else 1
    if vectors == 1:
        weights: dict[str, Numbers] = {"matrix": Numbers(matrix, lambda: by_inputs().T, axis)}
        if node.input(2) is not None:
            weights["bias"] = _gemm_bias(node, assembly, units)
        operator = op.FullyConnected(units=units, has_bias="bias" in weights)
        assembly.add(node, ConversionStep(operator=operator, weights=weights), inputs=(tensor,))
        return
    if node.integer("transA", 0):
        raise unsupported(node, "transA is not supported for a matrix that is not a vector")
    product = ConversionStep(
        operator=op.MatrixProduct(units=units), weights={"matrix": Numbers(matrix, by_inputs, axis)}
    )
    if node.input(2) is None:
        assembly.add(node, product, inputs=(tensor,))
    else:
        assembly.add(node, product, _gemm_addend(node, assembly), inputs=(tensor,))


def _gemm_bias(node: Node, assembly: Assembly, units: int) -> Numbers:
    numbers = assembly.vector(node, 2, "the bias", units)
    beta = node.real("beta", 1.0)
    return Numbers(numbers.tensor, lambda: np.asarray(beta * numbers.read(), dtype=np.float32))


def _gemm_addend(node: Node, assembly: Assembly) -> ConversionStep:
    tensor, dims = assembly.trained(node, 2, "the bias")
    beta = node.real("beta", 1.0)

    def scaled() -> Array:
        value = assembly.values.value(tensor)
        return np.asarray(beta * value, dtype=np.float32).reshape(dims or (1,))

    operator = op.Elementwise(function="add", constant=dims or (1,))
    return ConversionStep(operator=operator, weights={"constant": Numbers(tensor, scaled)})


def matrix_product(node: Node, assembly: Assembly) -> None:
    """Add a product with a matrix of weights, or of two inputs.

    A third input is a bias, absorbed from the addition behind; the left input is a vector then.
    """
    left, right = assembly.dynamic(node, 0), node.required(1)
    if not assembly.is_static(right):
        assembly.add(node, op.MatrixProduct(), inputs=(left, right))
        return
    dims = assembly.values.dims(right)
    if len(dims) < 2 or prod(dims) != dims[-2] * dims[-1]:
        listed = "x".join(map(str, dims))
        raise unsupported(node, f"a constant operand of shape {listed}, expected one matrix")
    inputs, units = dims[-2:]

    def matrix() -> Array:
        return np.asarray(assembly.values.value(right), dtype=np.float32).reshape(inputs, units)

    if len(assembly.shape(left).dims) > 1:
        product = ConversionStep(
            operator=op.MatrixProduct(units=units),
            weights={"matrix": Numbers(right, matrix, len(dims) - 1)},
        )
        assembly.add(node, product, inputs=(left,))
        return
    weights: dict[str, Numbers] = {"matrix": Numbers(right, lambda: matrix().T, len(dims) - 1)}
    if node.input(2) is not None:
        weights["bias"] = assembly.vector(node, 2, "the bias", units)
    operator = op.FullyConnected(units=units, has_bias="bias" in weights)
    assembly.add(node, ConversionStep(operator=operator, weights=weights), inputs=(left,))

"""Products of matrices of a TensorFlow Lite graph as layers: with weights, or of two inputs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import prod

import numpy as np

from cnn2csdf import operators as op
from cnn2csdf.dtypes import Arithmetic, Element, Runtime
from cnn2csdf.readers.tflite.assembly import (
    TO_MAP,
    Converter,
    TfliteAssembly,
    Trained,
    frame_dims,
    refusal,
)
from cnn2csdf.readers.tflite.model_file import TfliteNode
from cnn2csdf.readers.tflite.options import (
    fused_behind,
    is_hybrid,
    options_of,
    require_one_type,
    require_scales,
    with_types,
)
from cnn2csdf.readers.tflite.windows import biases


def fully_connected(node: TfliteNode, assembly: TfliteAssembly) -> None:
    """Add a fully connected layer; for several vectors at once, a product and its bias.

    The columns of the matrix are in (row, column, channel) order.
    """
    matrix, shape = assembly.constant(node, 1), assembly.shape(node, 0)
    is_hybrid(node, assembly)
    if matrix.ndim != 2 or not matrix.size or shape.elements % matrix.shape[1]:
        raise refusal(node, f"a matrix of {matrix.shape} for an input of {shape}")
    units, columns = matrix.shape
    if shape.elements != columns:
        _add_of_vectors(node, assembly, matrix)
        return
    if assembly.is_map(node.inputs[0]):
        places = (units, shape.height, shape.width, shape.channels)
        matrix = np.moveaxis(matrix.reshape(places), 3, 1).reshape(units, -1)
    bias = biases(node, assembly, units)
    product = op.FullyConnected(units=units, has_bias=bool(bias))
    operator = with_types(node, assembly, product, has_offset=_has_offset(node))
    weights = _of_fully_connected(node, assembly, matrix)
    require_scales(node, weights, units)
    trained = [weights, *bias]
    source = assembly.source(node, 0)
    assembly.add(node, operator, sources=[source], trained=trained, fused=fused_behind(node, 0))


def _add_of_vectors(node: TfliteNode, assembly: TfliteAssembly, matrix: np.ndarray) -> None:
    """Add the product of each vector of the input, in the order of the file, with a matrix."""
    units, columns = matrix.shape
    source = assembly.as_in_file(node, 0)
    if assembly.builder.shape(source).dims[-1] != columns:
        vectors = assembly.builder.shape(source).elements // columns
        source = assembly.prepared(node, source, op.Reshape(dims=(vectors, columns)))
    weights = _of_fully_connected(node, assembly, matrix.T)
    require_scales(node, weights, units)
    bias = biases(node, assembly, units)
    product = op.MatrixProduct(units=units, has_bias=bool(bias))
    operator = with_types(node, assembly, product, has_offset=_has_offset(node))
    _add(node, assembly, operator, [source], [weights, *bias])


def _of_fully_connected(node: TfliteNode, assembly: TfliteAssembly, matrix: np.ndarray) -> Trained:
    """Return the weights of a fully connected layer, and how sums of their products are rounded.

    LiteRT's reference kernel rounds them once, in double precision; products of matrices, convolutions
    and TensorFlow Lite Micro round twice, or 16-bit integers by a multiplier of 16 bits. For uint8
    there is no kernel of TensorFlow Lite Micro.
    """
    weights = assembly.trained(node, 1, "matrix", matrix)
    types = [weights.stored.quantization, assembly.tensor(node, 0).quantization()]
    types.append(assembly.output(node).quantization())
    elements = {quantization and quantization.element for quantization in types}
    is_signed = elements in ({Element.INT8}, {Element.INT8, Element.INT16})
    is_once = elements == {Element.UINT8} or (is_signed and assembly.runtime is Runtime.LITERT)
    quantization = weights.stored.quantization
    if quantization is None or not is_once:
        return weights
    once = replace(quantization, arithmetic=Arithmetic.ROUNDED_ONCE)
    return replace(weights, stored=replace(weights.stored, quantization=once))


def _has_offset(node: TfliteNode) -> bool:
    """Whether the input of weights of int8 may be quantised with a zero point."""
    return node.options is not None and bool(node.options.integer(3, "b"))


def batch_product(node: TfliteNode, assembly: TfliteAssembly) -> None:
    """Add a product of the matrices in the last two axes; either may be transposed first."""
    sources, trained, units = [], [], None
    for index in (0, 1):
        is_turned = bool(options_of(node).integer(index, "b"))
        if index == 1 and not assembly.is_dynamic(node, index):
            matrix = assembly.constant(node, index)
            if matrix.size != prod(matrix.shape[-2:]):
                raise refusal(node, f"a constant operand of {matrix.shape}; expected one matrix")
            rows, columns = matrix.shape[-2:]
            matrix, units = matrix.reshape(rows, columns), rows if is_turned else columns
            matrix = matrix.T if is_turned else matrix
            trained = [assembly.trained(node, index, "matrix", matrix)]
            require_one_type(node, assembly)
            require_scales(node, trained[0], 1)
            continue
        source = assembly.as_in_file(node, index)
        rank = len(assembly.builder.shape(source).dims)
        if is_turned and rank > 1:
            order = (*range(rank - 2), rank - 1, rank - 2)
            source = assembly.prepared(node, source, op.Transpose(permutation=order))
        sources.append(source)
    _add(node, assembly, op.MatrixProduct(units=units), sources, trained)


def _add(
    node: TfliteNode,
    assembly: TfliteAssembly,
    operator: op.Operator,
    sources: list[str],
    trained: list[Trained],
) -> None:
    """Add a product whose result has the axes of the file."""
    output_dims = operator.output_shape([assembly.builder.shape(source) for source in sources]).dims
    wanted = frame_dims(assembly.output(node).dims, is_map=False)
    steps: list[op.Operator] = [operator]
    if output_dims != wanted and prod(output_dims) == prod(wanted):
        steps.append(op.Reshape(dims=wanted))
    if assembly.is_map(node.outputs[0]):
        steps.append(op.Transpose(permutation=TO_MAP))
    fused = fused_behind(node, 0) if node.kind == "FULLY_CONNECTED" else 0
    assembly.add(node, *steps, sources=sources, trained=trained, fused=fused, turns=False)


CONVERTERS: Mapping[str, Converter] = {
    "BATCH_MATMUL": batch_product,
    "FULLY_CONNECTED": fully_connected,
}

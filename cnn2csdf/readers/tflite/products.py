"""Products of matrices of a TensorFlow Lite graph as layers: with weights, or of two inputs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import prod

import numpy as np

from cnn2csdf import operators as op
from cnn2csdf.dtypes import Arithmetic, Element, Runtime
from cnn2csdf.readers.tflite.assembly import Converter, TfliteAssembly, Trained, frame_dims, refusal
from cnn2csdf.readers.tflite.model_file import TfliteNode
from cnn2csdf.readers.tflite.moves import to_output
from cnn2csdf.readers.tflite.options import (
    fused_activation,
    is_hybrid,
    options_of,
    require_one_type,
    require_scales,
    with_types,
)
from cnn2csdf.readers.tflite.windows import biases

# Fields of FullyConnectedOptions and of BatchMatMulOptions: asymmetric_quantize_inputs; adj_x, adj_y.
ASYMMETRIC_INPUTS = 3
ADJ = (0, 1)


def fully_connected(node: TfliteNode, assembly: TfliteAssembly) -> None:
    """Add a fully connected layer; for several vectors at once, a product and its bias.

    The columns of the matrix are in (row, column, channel) order.
    """
    matrix, shape = assembly.constant(node, 1), assembly.shape(node, 0)
    is_hybrid(node, assembly)  # raises for weights of unsupported types
    if matrix.ndim != 2 or not matrix.size or shape.elements % matrix.shape[1]:
        raise refusal(node, f"a matrix of {matrix.shape} for an input of {shape}")
    units, columns = matrix.shape
    if shape.elements != columns:
        _add_of_vectors(node, assembly, matrix)
        return
    if assembly.is_map(node.inputs[0]):
        # To (channel, row, column), the order in which a feature map is stored.
        places = (units, shape.height, shape.width, shape.channels)
        matrix = np.moveaxis(matrix.reshape(places), 3, 1).reshape(units, -1)
    bias = biases(node, assembly, units)
    product = op.FullyConnected(units=units, has_bias=bool(bias))
    operator = with_types(node, assembly, product, has_offset=_has_offset(node))
    weights = _of_fully_connected(node, assembly, matrix)
    require_scales(node, weights, units)
    trained = [weights, *bias]
    assembly.add(node, operator, trained=trained, fused=fused_activation(node, 0))


def _add_of_vectors(node: TfliteNode, assembly: TfliteAssembly, matrix: np.ndarray) -> None:
    """Add the product of each vector of the input, in the order of the file, with a matrix."""
    units, columns = matrix.shape
    source = assembly.source_in_file_axes(node, 0)
    if assembly.builder.shape(source).dims[-1] != columns:
        vectors = assembly.builder.shape(source).elements // columns
        source = assembly.add_moves(node, source, op.Reshape(dims=(vectors, columns)))
    weights = _of_fully_connected(node, assembly, matrix.T)
    require_scales(node, weights, units)
    bias = biases(node, assembly, units)
    product = op.MatrixProduct(units=units, has_bias=bool(bias))
    operator = with_types(node, assembly, product, has_offset=_has_offset(node))
    _add(node, assembly, operator, [source], [weights, *bias], fused=fused_activation(node, 0))


def _of_fully_connected(node: TfliteNode, assembly: TfliteAssembly, matrix: np.ndarray) -> Trained:
    """Return the weights of a fully connected layer, and how sums of their products are rounded.

    The reference kernel of LiteRT rounds the sums of a fully connected layer once, in double precision,
    so the weights become ROUNDED_ONCE. The kernel of TensorFlow Lite Micro rounds them as FIXED_POINT;
    it does not support uint8, whose sums are always rounded once. Tensors in floating point, or of
    which only the weights are integers, have no rescaling.
    """
    weights = assembly.trained(node, 1, "matrix", matrix)
    quantization = weights.stored.quantization
    source, result = assembly.tensor(node, 0).quantization(), assembly.output(node).quantization()
    elements = {types and types.element for types in (quantization, source, result)}
    # A tensor in floating point is None in `elements`: none of the sets below.
    is_signed = elements in ({Element.INT8}, {Element.INT8, Element.INT16})
    is_once = elements == {Element.UINT8} or (is_signed and assembly.runtime is Runtime.LITERT)
    if quantization is None or not is_once:
        return weights
    once = replace(quantization, arithmetic=Arithmetic.ROUNDED_ONCE)
    return replace(weights, stored=replace(weights.stored, quantization=once))


def _has_offset(node: TfliteNode) -> bool:
    """Whether the input of weights of int8 may be quantised with a zero point."""
    return node.options is not None and bool(node.options.integer(ASYMMETRIC_INPUTS, "b"))


def batch_product(node: TfliteNode, assembly: TfliteAssembly) -> None:
    """Add a product of the matrices in the last two axes; either may be transposed first.

    A constant second operand becomes weights, transposed here; an operand that a layer computes gets a
    Transpose layer. `units` stays None where both are computed.
    """
    sources, trained, units = [], [], None
    for index in (0, 1):
        is_transposed = bool(options_of(node).integer(ADJ[index], "b"))
        if index == 1 and not assembly.is_dynamic(node, index):
            matrix = assembly.constant(node, index)
            if matrix.ndim < 2 or matrix.size != prod(matrix.shape[-2:]):
                raise refusal(node, f"a constant operand of {matrix.shape}; expected one matrix")
            rows, columns = matrix.shape[-2:]
            matrix, units = matrix.reshape(rows, columns), rows if is_transposed else columns
            matrix = matrix.T if is_transposed else matrix
            trained = [assembly.trained(node, index, "matrix", matrix)]
            require_one_type(node, assembly)
            require_scales(node, trained[0], 1)
            continue
        source = assembly.source_in_file_axes(node, index)
        rank = len(assembly.builder.shape(source).dims)
        if is_transposed and rank > 1:
            order = (*range(rank - 2), rank - 1, rank - 2)
            source = assembly.add_moves(node, source, op.Transpose(permutation=order))
        sources.append(source)
    _add(node, assembly, op.MatrixProduct(units=units), sources, trained)


def _add(
    node: TfliteNode,
    assembly: TfliteAssembly,
    operator: op.Operator,
    sources: list[str],
    trained: list[Trained],
    fused: int = 0,
) -> None:
    """Add a product whose result has the axes of the file. fused: ActivationFunctionType."""
    output_dims = operator.output_shape([assembly.builder.shape(source) for source in sources]).dims
    reshape, *turn = to_output(node, assembly)
    wanted = frame_dims(assembly.output(node).dims, is_map=False)
    steps = [operator, *turn]
    if output_dims != wanted and prod(output_dims) == prod(wanted):
        steps.insert(1, reshape)
    # has_node_axes=False: `steps` already end with the order of axes of the result.
    assembly.add(node, *steps, sources=sources, trained=trained, fused=fused, has_node_axes=False)


CONVERTERS: Mapping[str, Converter] = {
    "BATCH_MATMUL": batch_product,
    "FULLY_CONNECTED": fully_connected,
}

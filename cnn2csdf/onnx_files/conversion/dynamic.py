"""Nodes by which ONNX stores real numbers as integers, also with scales computed from the frame."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cnn2csdf import operators as op
from cnn2csdf.dtypes import Quantization
from cnn2csdf.onnx_files.conversion.assembly import Numbers, OnnxAssembly, Weighted
from cnn2csdf.onnx_files.nodes import OnnxNode, unsupported
from cnn2csdf.weights import Array
from csdf.errors import UnreadableFile, counted


def dynamic_quantization(node: OnnxNode, assembly: OnnxAssembly) -> None:
    """Add a layer for the scale, for the zero point, and for the integers."""
    tensor = assembly.dynamic(node, 0)
    integers, scale, zero = (*node.outputs, "", "")[:3]
    if not scale or not zero:
        raise unsupported(node, "without its scale or zero point")
    for output, gives in ((scale, "scale"), (zero, "zero point")):
        assembly.add(node, op.DynamicRange(gives=gives), output=output, name=output)
    if assembly.is_read(integers):
        sources = (tensor, scale, zero)
        assembly.add(node, op.DynamicQuantization(), inputs=sources, output=integers)


def zero_points(node: OnnxNode, assembly: OnnxAssembly, indices: Sequence[int]) -> list[str]:
    """Return the zero points among these inputs that the node has; they must depend on the frame."""
    names_present = [name for index in indices if (name := node.input(index)) is not None]
    for name in names_present:
        if assembly.is_static(name):
            raise unsupported(node, f"a constant zero point {name!r} of what depends on the frame")
    return names_present


def without_zero_point(
    node: OnnxNode, assembly: OnnxAssembly, index: int, numbers: Numbers, channels: int
) -> Numbers:
    """Return trained integers less their zero points, along the first axis of a kernel or the last.

    index: of the input with the zero points: one, or `channels`. Raises UnreadableFile for another
    number.
    """
    zero = node.input(index)
    if zero is None:
        return numbers
    zero_points = assembly.integers(node, index, "the zero point of the weights") or ()
    if len(zero_points) not in (1, channels):
        raise UnreadableFile(
            f"{node}: {len(zero_points)} zero points of weights for {counted(channels, 'channel')}"
        )

    def centred() -> Array:
        values = np.asarray(numbers.read(), np.float32)
        zeros = np.asarray(assembly.values.value(zero), np.float32).reshape(-1)
        is_first = values.ndim > 2  # of a kernel; columns of a matrix
        return values - (zeros.reshape(-1, *(1,) * (values.ndim - 1)) if is_first else zeros)

    return numbers._replace(read=centred)


def integer_product(node: OnnxNode, assembly: OnnxAssembly) -> None:
    """Add a product of integers with trained integers, or of two inputs."""
    left, right = assembly.dynamic(node, 0), node.required(1)
    if not assembly.is_static(right):
        zeros = zero_points(node, assembly, (2, 3))
        has = (node.input(2) is not None, node.input(3) is not None)
        assembly.add(node, op.IntegerProduct(has_zeros=has), inputs=(left, right, *zeros))
        return
    matrix, dims = assembly.trained(node, 1, "the matrix")
    if len(dims) != 2:
        raise unsupported(node, f"a constant operand with {len(dims)} axes, expected a matrix")
    zeros = zero_points(node, assembly, (2,))
    operator = op.IntegerProduct(units=dims[1], has_zeros=(bool(zeros), False))
    numbers = without_zero_point(node, assembly, 3, assembly.numbers(matrix), dims[1])
    step = Weighted(operator, {"matrix": numbers})
    assembly.add(node, step, inputs=(left, *zeros))


def quantize(node: OnnxNode, assembly: OnnxAssembly) -> None:
    """Add a layer that stores real numbers as integers."""
    quantization = _one_scale(node, assembly, node.outputs[0])
    assembly.add(node, op.Conversion(), quantization=quantization)


def dequantize(node: OnnxNode, assembly: OnnxAssembly) -> None:
    """Add a layer that makes integers real."""
    tensor = assembly.dynamic(node, 0)
    quantization = _one_scale(node, assembly, tensor)
    if assembly.quantize(tensor, quantization) != quantization:
        raise unsupported(node, f"reads {tensor!r} with another scale than it was stored with")
    assembly.add(node, op.Conversion())


def _one_scale(node: OnnxNode, assembly: OnnxAssembly, tensor: str) -> Quantization:
    quantization = assembly.values.quantization(node, tensor)
    if quantization is None:
        raise unsupported(node, "several scales or zero points of what depends on the frame")
    return quantization

"""Nodes by which ONNX stores real numbers as integers, and makes them real again."""

from __future__ import annotations

from cnn2csdf import operators as op
from cnn2csdf.elements import Quantization
from cnn2csdf.onnx_files.conversion.assembly import Assembly
from cnn2csdf.onnx_files.nodes import Node, unsupported


def quantize(node: Node, assembly: Assembly) -> None:
    """Add a layer that stores real numbers as integers."""
    tensor = assembly.dynamic(node, 0)
    quantization = _one_scale(node, assembly, node.outputs[0])
    assembly.add(node, op.Conversion(), inputs=(tensor,), quantization=quantization)


def dequantize(node: Node, assembly: Assembly) -> None:
    """Add a layer that makes integers real."""
    tensor = assembly.dynamic(node, 0)
    quantization = _one_scale(node, assembly, tensor)
    if assembly.quantize(tensor, quantization) != quantization:
        raise unsupported(node, f"reads {tensor!r} with another scale than it was stored with")
    assembly.add(node, op.Conversion(), inputs=(tensor,))


def _one_scale(node: Node, assembly: Assembly, tensor: str) -> Quantization:
    found = assembly.values.quantization(node, tensor)
    if found is None:
        raise unsupported(node, "several scales or zero points of what depends on the frame")
    return found

"""Windows that ONNX Runtime crops: SAME padding with a stride beyond the window.

The runtime computes a negative padding for such a window and leaves out the first positions of the
input (microsoft/onnxruntime#10086). TensorFlow, TensorFlow Lite and this project pad it by 0. With
the padding of these nodes written out the runtime computes the same.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import onnx
from onnx import helper, shape_inference

from cnn2csdf.geometry import Axis
from cnn2csdf.onnx_files.model_file import read_model_file

WINDOWS = ("Conv", "MaxPool", "AveragePool", "LpPool")  # whose padding the runtime computes so


def cropped_windows(path: str) -> tuple[str, ...]:
    """Return the nodes of a file at which ONNX Runtime crops the input instead of padding by 0."""
    windows = _cropped_windows(read_model_file(path))
    return tuple(f"{node.op_type} {node.name or node.output[0]}" for node, _ in windows)


def with_written_padding(path: str) -> bytes | None:
    """Return the file with the padding of such nodes written out; None where it has none."""
    model = read_model_file(path)
    windows = list(_cropped_windows(model))
    if not windows:
        return None
    for node, pads in windows:
        kept = [
            attribute for attribute in node.attribute if attribute.name not in ("auto_pad", "pads")
        ]
        del node.attribute[:]
        node.attribute.extend([*kept, helper.make_attribute("pads", pads)])
    onnx.load_external_data_for_model(model, os.path.dirname(path))
    return bytes(model.SerializeToString())


def _cropped_windows(model: onnx.ModelProto) -> Iterator[tuple[onnx.NodeProto, list[int]]]:
    """Yield nodes with SAME padding that would begin below 0, and the padding as TensorFlow has it."""
    padded = []
    for node in model.graph.node:
        attributes = {
            attribute.name: helper.get_attribute_value(attribute) for attribute in node.attribute
        }
        if attributes.get("auto_pad") in (b"SAME_UPPER", b"SAME_LOWER"):
            padded.append((node, attributes))
    if not padded:
        return
    graph = shape_inference.infer_shapes(model).graph
    dims = {initializer.name: tuple(initializer.dims) for initializer in graph.initializer}
    for value in [*graph.input, *graph.value_info]:
        sizes = value.type.tensor_type.shape.dim
        dims.setdefault(value.name, tuple(size.dim_value for size in sizes))
    for node, attributes in padded:
        lengths = dims.get(node.input[0], ())[2:]
        kernel = (
            attributes.get("kernel_shape")
            or dims.get(node.input[min(1, len(node.input) - 1)], ())[2:]
        )
        if node.op_type not in WINDOWS or 0 in lengths or len(lengths) != len(kernel):
            continue
        ones = [1] * len(kernel)
        axes = [
            Axis(kernel=size, stride=stride, dilation=dilation)
            for size, stride, dilation in zip(
                kernel,
                attributes.get("strides", ones),
                attributes.get("dilations", ones),
                strict=True,
            )
        ]
        is_lower = attributes["auto_pad"] == b"SAME_LOWER"
        missing = [
            (-(-length // axis.stride) - 1) * axis.stride + axis.extent - length
            for axis, length in zip(axes, lengths, strict=True)
        ]
        # C divides towards 0: a crop of one place in all, or of two with SAME_LOWER, is at the end.
        if any((-total - is_lower) // 2 > 0 for total in missing):
            pairs = [
                axis.same_padding(length, extra_first=is_lower)
                for axis, length in zip(axes, lengths, strict=True)
            ]
            yield node, [before for before, _ in pairs] + [after for _, after in pairs]

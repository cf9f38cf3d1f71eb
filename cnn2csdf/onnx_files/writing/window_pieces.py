"""The ONNX nodes of convolutions and poolings."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from cnn2csdf import operators as op
from cnn2csdf.geometry import ceil_overhang
from cnn2csdf.network import Shape
from cnn2csdf.onnx_files.writing.drawing import Constant, NodePiece
from csdf.errors import InvalidNetwork

Padding = tuple[int, int, int, int]


def pad_piece(padding: Padding, *, mode: str = "constant", value: float = 0.0) -> NodePiece:
    """Return a node that adds rows and columns, or cuts off where negative."""
    top, left, bottom, right = padding
    pads = np.array([0, 0, top, left, 0, 0, bottom, right], dtype=np.int64)
    constants: tuple[Constant, ...] = (("pads", pads),)
    if mode == "constant":
        constants = (*constants, ("value", np.array(value, dtype=np.float32)))
    return NodePiece(op_type="Pad", constants=constants, attributes={"mode": mode})


def convolution(operator: op.Convolution, weights: tuple[Constant, ...]) -> list[NodePiece]:
    """Return the nodes of a convolution; rows of an overhang are zero, as those of padding are."""
    attributes = _attributes(_overhang_as_padding(operator.window)) | {"group": operator.groups}
    piece = NodePiece(op_type="Conv", constants=weights, attributes=attributes)
    return [*_crop(operator.window), piece]


def transposed_convolution(
    operator: op.TransposedConvolution, weights: tuple[Constant, ...]
) -> list[NodePiece]:
    """Return the node of a transposed convolution."""
    window = operator.window
    if min(window.padding) < 0 or any(window.overhang):
        raise InvalidNetwork(
            "a transposed convolution with negative padding or an overhang has no ONNX node"
        )
    attributes = _attributes(window) | {
        "group": operator.groups,
        "output_padding": list(operator.extra),
    }
    return [NodePiece(op_type="ConvTranspose", constants=weights, attributes=attributes)]


def pooling(operator: op.Pooling, shape: Shape) -> list[NodePiece]:
    """Return the nodes of a pooling; an overhang becomes ceil mode, or padding that counts not."""
    window, is_average = operator.window, operator.function == "average"
    top, left, bottom, right = (min(amount, 0) for amount in window.padding)
    kept = (shape.height + top + bottom, shape.width + left + right)
    padded = _positive(window)
    ceils = any(window.overhang) and ceil_overhang(kept, padded) == window.overhang
    if any(window.overhang) and not ceils and is_average and operator.counts_padding:
        raise InvalidNetwork(f"an overhang of {window.overhang} has no ONNX node")
    attributes = _attributes(padded if ceils else _overhang_as_padding(window))
    attributes |= {"kernel_shape": list(window.kernel), "ceil_mode": int(ceils)}
    if is_average:
        attributes["count_include_pad"] = int(operator.counts_padding)
    piece = NodePiece(op_type="AveragePool" if is_average else "MaxPool", attributes=attributes)
    return [*_crop(window), piece]


def _crop(window: op.Window) -> list[NodePiece]:
    """Return a node that cuts off what negative padding leaves out."""
    top, left, bottom, right = (min(amount, 0) for amount in window.padding)
    return [pad_piece((top, left, bottom, right))] if any((top, left, bottom, right)) else []


def _positive(window: op.Window) -> op.Window:
    top, left, bottom, right = (max(amount, 0) for amount in window.padding)
    return replace(window, padding=(top, left, bottom, right))


def _overhang_as_padding(window: op.Window) -> op.Window:
    top, left, bottom, right = _positive(window).padding
    below, beside = window.overhang
    return replace(window, padding=(top, left, bottom + below, right + beside), overhang=(0, 0))


def _attributes(window: op.Window) -> dict[str, Any]:
    return {
        "strides": list(window.stride),
        "dilations": list(window.dilation),
        "pads": list(window.padding),
    }

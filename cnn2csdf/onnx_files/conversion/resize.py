"""Changes of height and width in ONNX, as layers."""

from __future__ import annotations

from functools import partial
from math import inf

import numpy as np

from cnn2csdf import operators as op
from cnn2csdf.network import Shape
from cnn2csdf.onnx_files.conversion.assembly import Assembly
from cnn2csdf.onnx_files.nodes import Node, unsupported
from csdf.errors import UnreadableFile

COORDINATES = {
    "half_pixel": "half pixel",
    "pytorch_half_pixel": "pytorch half pixel",
    "align_corners": "align corners",
    "asymmetric": "asymmetric",
}
ROUNDINGS = {
    "round_prefer_floor": "prefer floor",
    "round_prefer_ceil": "prefer ceil",
    "floor": "floor",
    "ceil": "ceil",
}
SHRINKING = "ceil where smaller"  # before opset 11, where one axis shrinks and one grows


def resize(node: Node, assembly: Assembly) -> None:
    """Add a resize to the size that the onnx package infers."""
    shape = assembly.map_shape(node, 0)
    channels, *size = assembly.values.dims(node.outputs[0])[1:]
    if channels != shape.channels:
        raise unsupported(node, "a resize of another axis than height and width")
    if node.opset >= 11:
        _require_plain(node)
    scales = _scales(node, assembly, shape, (size[0], size[1]))
    function = node.text("mode", "nearest")
    if function not in ("nearest", "linear", "cubic"):
        raise unsupported(node, f"mode {function!r} is not supported")
    coordinates, rounding = _places(node, shape, (size[0], size[1]))
    operator = op.Resize(
        size=(size[0], size[1]),
        function=function,
        coordinates=coordinates,
        rounding=rounding if function == "nearest" else "floor",
        scales=scales,
        cubic=node.real("cubic_coeff_a", -0.75) if function == "cubic" else -0.75,
        skips_outside=function == "cubic" and bool(node.integer("exclude_outside", 0)),
    )
    assembly.add(node, operator, inputs=node.inputs[:1])


def _require_plain(node: Node) -> None:
    if node.integer("antialias", 0):
        raise unsupported(node, "antialias is not supported")
    policy = node.text("keep_aspect_ratio_policy", "stretch")
    if policy != "stretch":
        raise unsupported(node, f"keep_aspect_ratio_policy {policy!r} is not supported")


def _places(node: Node, shape: Shape, size: op.Pair) -> tuple[str, str]:
    """How an output place is found in the input, and how it is rounded."""
    if node.opset < 11:
        grows = size[0] >= shape.height, size[1] >= shape.width
        return ("asymmetric", "floor" if all(grows) else SHRINKING if any(grows) else "ceil")
    mode = node.text("coordinate_transformation_mode", "half_pixel")
    rounding = node.text("nearest_mode", "round_prefer_floor")
    if mode not in COORDINATES:
        raise unsupported(node, f"coordinate_transformation_mode {mode!r} is not supported")
    if rounding not in ROUNDINGS:
        raise unsupported(node, f"nearest_mode {rounding!r} is not supported")
    return (COORDINATES[mode], ROUNDINGS[rounding])


def _scales(
    node: Node, assembly: Assembly, shape: Shape, size: op.Pair
) -> tuple[float, float] | None:
    """The scales of height and width; None where they only say what the size says."""
    if size == shape.dims[1:]:
        return None  # as ONNX Runtime, which copies maps that keep their size, whatever the scales
    place = 1 if node.opset < 11 else 2
    scales = node.reals("scales") or assembly.reals(node, place, "the scales") or ()
    if not scales:
        return None
    axes = node.integers("axes") or tuple(range(len(scales)))
    if len(axes) != len(scales):
        raise UnreadableFile(f"{node}: {len(scales)} scales for {len(axes)} axes")
    for scale in scales:
        if not 0 < scale < inf:
            raise UnreadableFile(f"{node}: a scale of {scale}; expected a positive number")
    given = {axis % 4: scale for axis, scale in zip(axes, scales, strict=True)}
    found = (given.get(2, 1.0), given.get(3, 1.0))
    single = partial(np.array, dtype=np.float32)
    is_plain = np.array_equal(single(found), single(size) / single(shape.dims[1:]))
    return None if is_plain else found

"""Normalisations, softmax and reductions of ONNX as layers."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from cnn2csdf import operators as op
from cnn2csdf.onnx_files.conversion.assembly import Numbers, OnnxAssembly, Weighted
from cnn2csdf.onnx_files.nodes import OnnxNode, unsupported
from cnn2csdf.weights import Array

REDUCTIONS = {
    "ReduceMean": "mean",
    "ReduceSum": "sum",
    "ReduceMax": "max",
    "ReduceMin": "min",
    "ReduceL2": "l2",
}
POOLED = {"mean": "average", "max": "max"}


def batch_normalization(node: OnnxNode, assembly: OnnxAssembly) -> None:
    """Add a normalisation with trained means and variances."""
    if node.integer("training_mode", 0):
        raise unsupported(node, "training_mode is not supported; export the model for inference")
    if not node.integer("spatial", 1):
        raise unsupported(node, "spatial = 0 is not supported")
    tensor, epsilon = assembly.dynamic(node, 0), node.real("epsilon", 1e-5)
    channels = assembly.values.dims(tensor)[1:2] or (1,)
    weights = {
        role: assembly.vector(node, index, f"the {role}", channels[0])
        for index, role in enumerate(("scale", "shift", "mean", "variance"), start=1)
    }
    if not assembly.batch_axes(tensor):
        dims = (*channels, *(1 for _ in assembly.values.dims(tensor)[2:]))
        assembly.add(node, *_affine(weights, dims, epsilon))
        return
    assembly.add(node, Weighted(op.BatchNormalization(epsilon=epsilon), weights))


def _affine(
    weights: Mapping[str, Numbers], dims: tuple[int, ...], epsilon: float
) -> list[Weighted]:
    """A normalisation of many vectors at once, whose channels are not the first axis."""

    def factor() -> Array:
        variance = np.asarray(weights["variance"].read(), np.float32)
        return np.asarray(weights["scale"].read() / np.sqrt(variance + epsilon), np.float32)

    def shift() -> Array:
        return np.asarray(weights["shift"].read() - weights["mean"].read() * factor(), np.float32)

    numbers = (
        ("multiply", Numbers(weights["scale"].tensor, lambda: factor().reshape(dims))),
        ("add", Numbers(weights["shift"].tensor, lambda: shift().reshape(dims))),
    )
    return [
        Weighted(op.Elementwise(function=function, constant=dims), {"constant": array})
        for function, array in numbers
    ]


def instance_normalization(node: OnnxNode, assembly: OnnxAssembly) -> None:
    """Add a normalisation of each feature map by itself."""
    channels = assembly.shape(assembly.dynamic(node, 0)).channels
    weights = {
        "scale": assembly.vector(node, 1, "the scale", channels),
        "shift": assembly.vector(node, 2, "the shift", channels),
    }
    operator = op.InstanceNormalization(epsilon=node.real("epsilon", 1e-5))
    assembly.add(node, Weighted(operator, weights))


def layer_normalization(node: OnnxNode, assembly: OnnxAssembly) -> None:
    """Add a normalisation over the last axes."""
    tensor = assembly.dynamic(node, 0)
    axis = assembly.frame_axis(node, tensor, node.integer("axis", -1))
    dims = assembly.shape(tensor).dims[axis:]
    weights = {"scale": _spread(node, assembly, 1, dims)}
    if node.input(2) is not None:
        weights["shift"] = _spread(node, assembly, 2, dims)
    operator = op.LayerNormalization(
        axis=axis, epsilon=node.real("epsilon", 1e-5), has_bias="shift" in weights
    )
    assembly.add(node, Weighted(operator, weights))


def _spread(node: OnnxNode, assembly: OnnxAssembly, index: int, dims: tuple[int, ...]) -> Numbers:
    tensor, dims_of = assembly.trained(node, index, "the scale or shift")
    fits = len(dims_of) <= len(dims) and all(
        size in (1, wanted) for size, wanted in zip(reversed(dims_of), reversed(dims), strict=False)
    )
    if not fits:
        raise unsupported(node, f"a scale or shift of shape {dims_of}, expected {dims}")
    return Numbers(tensor, lambda: np.broadcast_to(assembly.values.value(tensor), dims))


def local_response_normalization(node: OnnxNode, assembly: OnnxAssembly) -> None:
    """Add a normalisation by the neighbouring feature maps."""
    assembly.map_shape(node, 0)
    size = node.integer("size", 0)
    if size < 1:
        raise unsupported(node, f"size is {size}, expected at least 1")
    operator = op.LocalResponseNormalization(
        size=size,
        alpha=node.real("alpha", 1e-4),
        beta=node.real("beta", 0.75),
        bias=node.real("bias", 1.0),
    )
    assembly.add(node, operator)


def softmax(node: OnnxNode, assembly: OnnxAssembly) -> None:
    """Add a softmax or its logarithm; before opset 13 it spans all axes from the given one on."""
    tensor = assembly.dynamic(node, 0)
    spans = node.opset < 13
    wanted = node.integer("axis", 1 if spans else -1)
    axis = assembly.frame_axis_or_batch(node, tensor, wanted)
    if axis is None and not spans:
        raise unsupported(node, "works along the batch axis")
    first = axis or 0
    wide = [place for place, size in enumerate(assembly.shape(tensor).dims) if size > 1]
    end = max([first, *wide]) if spans else first
    operator = op.Softmax(
        axis=first, last=end if end > first else None, is_logarithm=node.op_type == "LogSoftmax"
    )
    assembly.add(node, operator)


def reduction(node: OnnxNode, assembly: OnnxAssembly) -> None:
    """Add a reduction; over rows and columns of feature maps, as a global pooling."""
    tensor = assembly.dynamic(node, 0)
    function, keeps = REDUCTIONS[node.op_type], bool(node.integer("keepdims", 1))
    # The axes of the layer; the batch has one frame and needs no reduction.
    listed = node.integers("axes")
    if listed is None:
        listed = assembly.integers(node, 1, "the axes")
    if not listed:
        if node.integer("noop_with_empty_axes", 0):
            raise unsupported(node, "a reduction over no axis")
        listed = tuple(range(len(assembly.values.dims(tensor))))
    frame_axes = {assembly.frame_axis_or_batch(node, tensor, axis) for axis in listed}
    axes = tuple(sorted(axis for axis in frame_axes if axis is not None))
    if not axes:
        raise unsupported(node, "a reduction over the batch only")
    shape = assembly.shape(tensor)
    if shape.is_map and axes == (1, 2) and function in POOLED:
        pooling = op.GlobalPooling(function=POOLED[function])
        steps = (pooling,) if keeps else (pooling, op.Reshape(dims=shape.dims[:1]))
        assembly.add(node, *steps)
        return
    assembly.add(node, op.Reduction(function=function, axes=axes, keeps=keeps))

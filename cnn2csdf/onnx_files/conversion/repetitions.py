"""Operators of ONNX that repeat elements or pick them from a list, as layers."""

from __future__ import annotations

from itertools import pairwise

from cnn2csdf import operators as op
from cnn2csdf.network import Shape
from cnn2csdf.onnx_files.conversion.assembly import Assembly
from cnn2csdf.onnx_files.nodes import Node, unsupported
from csdf.errors import UnreadableFile

Dims = tuple[int, ...]


def gather(node: Node, assembly: Assembly) -> None:
    """Add a slice or a list of places; constant indices, no embedding."""
    if assembly.is_static(node.required(0)):
        raise unsupported(node, "a table that the frame looks up (an embedding) is not supported")
    tensor = assembly.dynamic(node, 0)
    indices = assembly.integers(node, 1, "the indices") or ()
    wanted, dims = node.integer("axis", 0), assembly.values.dims(node.outputs[0])
    axis = assembly.frame_axis_or_batch(node, tensor, wanted)
    shape = assembly.values.dims(node.required(1))
    if axis is None:
        if set(indices) - {0, -1} or len(indices) != 1:
            raise unsupported(node, "works along the batch axis")
        steps: list[op.Operator] = []
    else:
        size = assembly.shape(tensor).dims[axis]
        if not all(-size <= index < size for index in indices):
            raise UnreadableFile(f"{node}: indices beyond the {size} places of axis {wanted}")
        steps = [picked(axis, tuple(index % size for index in indices))]
    if axis is None or len(shape) != 1:
        steps.append(op.Reshape(dims=(dims[1:] if dims[:1] == (1,) else dims) or (1,)))
    assembly.add(node, *steps, inputs=(tensor,))


def picked(axis: int, places: Dims) -> op.Operator:
    """Return the operator that takes these places along an axis."""
    steps = {behind - before for before, behind in pairwise(places)} or {1}
    step = steps.pop()
    if not steps and step > 0:
        return op.Slice(axis=axis, start=places[0], stop=places[-1] + 1, step=step)
    return op.Gather(axis=axis, places=places)


def expand(node: Node, assembly: Assembly) -> None:
    """Add a repetition for each axis that grows; nothing where the shape stays."""
    tensor = assembly.dynamic(node, 0)
    source, target = assembly.values.dims(tensor), assembly.values.dims(node.outputs[0])
    aligned = (1,) * (len(target) - len(source)) + source
    times = tuple(wide // size for wide, size in zip(target, aligned, strict=True))
    _repeat(node, assembly, tensor, aligned, times)


def tile(node: Node, assembly: Assembly) -> None:
    """Add a repetition for each axis that is repeated."""
    tensor = assembly.dynamic(node, 0)
    times = assembly.integers(node, 1, "the repeats") or ()
    _repeat(node, assembly, tensor, assembly.values.dims(tensor), times)


def _repeat(node: Node, assembly: Assembly, tensor: str, dims: Dims, times: Dims) -> None:
    """Add layers that give the tensor these dims, then repeat it along each axis."""
    if len(times) != len(dims):
        raise UnreadableFile(f"{node}: {len(times)} repeats for {len(dims)} axes")
    is_batch = dims[0] == 1 == times[0] and len(dims) > 1
    frame, along = (dims[1:], times[1:]) if is_batch else (dims, times)
    steps: list[op.Operator] = []
    if frame != assembly.shape(tensor).dims:
        steps.append(op.Reshape(dims=frame or (1,)))
    order = sorted(range(len(along)), key=lambda axis: frame[axis] > 1)
    steps += [op.Repeat(axis=axis, times=along[axis]) for axis in order if along[axis] > 1]
    assembly.add(node, *(steps or [op.Identity()]), inputs=(tensor,))


def frame_of(dims: Dims) -> Shape:
    """Return the shape of one frame of a tensor with these dims, its batch of one left out."""
    return Shape(dims=(dims[1:] if len(dims) > 1 and dims[0] == 1 else dims) or (1,))

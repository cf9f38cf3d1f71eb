"""ONNX operators that move, repeat or select elements, converted to layers.

Dims of the file include the batch axis, dims of a layer do not: a first axis of size 1 is the batch
axis, unless it is the only axis. Axes of the file are converted by `OnnxAssembly.frame_axis`.
"""

from __future__ import annotations

from itertools import accumulate, pairwise
from math import prod
from typing import Literal

import numpy as np

from cnn2csdf import operators as op
from cnn2csdf.onnx_files.conversion.assembly import OnnxAssembly, Step, Weighted
from cnn2csdf.onnx_files.nodes import OnnxNode, unsupported
from cnn2csdf.shape import Dims, Shape
from csdf.errors import UnreadableFile

Range = tuple[int, int, int]  # start, stop, step


def reshape(node: OnnxNode, assembly: OnnxAssembly) -> None:
    """Add a reshape to the dims of the output, without the batch axis."""
    dims = assembly.values.dims(node.outputs[0])
    if not dims:
        raise unsupported(node, "a tensor without axes is not supported")
    assembly.add(node, op.Reshape(dims=frame_dims(dims)))


def transpose(node: OnnxNode, assembly: OnnxAssembly) -> None:
    """Add a permutation of axes; a batch axis that moves becomes an axis of the frame first."""
    tensor = assembly.dynamic(node, 0)
    rank = len(assembly.values.dims(tensor))
    permutation = node.integers("perm") or tuple(reversed(range(rank)))
    if not assembly.batch_axes(tensor):
        assembly.add(node, op.Transpose(permutation=permutation))
    elif permutation[0] == 0:
        order = tuple(axis - 1 for axis in permutation[1:])
        assembly.add(node, op.Transpose(permutation=order))
    else:
        whole = op.Reshape(dims=assembly.values.dims(tensor))
        assembly.add(node, whole, op.Transpose(permutation=permutation))


def channel_shuffle(node: OnnxNode, assembly: OnnxAssembly) -> None:
    """Add a channel shuffle, which a rewrite found as reshape, transpose and reshape in the file."""
    assembly.add(node, op.ChannelShuffle(groups=node.integer("groups", 1)), inputs=node.inputs)


def concatenation(node: OnnxNode, assembly: OnnxAssembly) -> None:
    """Add a concatenation; constants among its inputs are parameters."""
    operands = [node.required(index) for index in range(len(node.inputs))]
    tensors = [name for name in operands if not assembly.is_static(name)]
    wanted, dims = node.integer("axis", 1), assembly.values.dims
    axes = {assembly.frame_axis_or_batch(node, name, wanted) for name in tensors}
    axis, batched = axes.pop() if len(axes) == 1 else None, assembly.batch_axes(tensors[0])
    if axis is None:
        # A concatenation along the batch axis, such as of two states: this becomes a frame axis.
        axis, batched = wanted % len(dims(operands[0])), 0
        tensors = [assembly.with_dims(node, name, dims(name)) for name in tensors]
    constants, weights = assembly.constant_operands(operands, lambda name: dims(name)[batched:])
    if not constants:
        assembly.add(node, op.Concatenation(axis=axis), inputs=tensors)
        return
    operator = op.ConstantConcatenation(axis=axis, constants=constants)
    assembly.add(node, Weighted(operator, weights), inputs=tensors)


def split(node: OnnxNode, assembly: OnnxAssembly) -> None:
    """Add a slice for each output."""
    tensor = assembly.dynamic(node, 0)
    wanted = node.integer("axis", 0)
    axis = assembly.frame_axis(node, tensor, wanted)
    if "" in node.outputs:
        raise unsupported(node, "an output left out is not supported")
    stops = [0, *accumulate(assembly.values.dims(output)[wanted] for output in node.outputs)]
    for output, (start, stop) in zip(node.outputs, pairwise(stops), strict=True):
        step = op.Slice(axis=axis, start=start, stop=stop)
        assembly.add(node, step, output=output, name=output)


def slices(node: OnnxNode, assembly: OnnxAssembly) -> None:
    """Add a slice for each axis that the node shortens or reverses; an identity without such axes."""
    tensor = assembly.dynamic(node, 0)
    dims = assembly.values.dims(tensor)
    assembly.values.dims(node.outputs[0])  # refuses an empty output
    operators: list[op.Operator] = []
    for axis, (start, stop, step) in _ranges(node, assembly, tensor).items():
        if (start, stop, step) == (0, dims[axis], 1):
            continue
        frame_axis = assembly.frame_axis(node, tensor, axis)
        operators.append(
            op.Slice(axis=frame_axis, start=start, stop=stop, step=step)
            if step > 0
            else picked(frame_axis, tuple(range(start, stop, step)))
        )
    assembly.add(node, *(operators or [op.Identity()]))


def _ranges(node: OnnxNode, assembly: OnnxAssembly, tensor: str) -> dict[int, Range]:
    """Return the retained range of each axis that the node lists."""
    dims = assembly.values.dims(tensor)
    # Starts, stops, axes and steps: attributes before opset 10.
    if node.opset < 10:
        starts, stops = node.integers("starts"), node.integers("ends")
        axes, steps = node.integers("axes"), None
    else:
        starts = assembly.integers(node, 1, "the starts")
        stops = assembly.integers(node, 2, "the ends")
        axes = assembly.integers(node, 3, "the axes")
        steps = assembly.integers(node, 4, "the steps")
    if starts is None or stops is None:
        raise UnreadableFile(f"{node}: starts or ends are missing")
    lists = [starts, stops, axes or tuple(range(len(starts))), steps or (1,) * len(starts)]
    if len({len(values_of_list) for values_of_list in lists}) > 1:
        raise UnreadableFile(f"{node}: starts, ends, axes and steps differ in number")
    ranges: dict[int, Range] = {}
    for start, stop, axis, step in zip(*lists, strict=True):
        if not -len(dims) <= axis < len(dims):
            raise UnreadableFile(f"{node}: axis {axis} of a tensor with {len(dims)} axes")
        if step == 0:
            raise UnreadableFile(f"{node}: a step of 0")
        first, end, _ = slice(start, stop, step).indices(dims[axis])
        ranges[axis % len(dims)] = (first, end, step)
    return ranges


def pad(node: OnnxNode, assembly: OnnxAssembly) -> None:
    """Add constant, reflect or edge padding along any axes; negative padding crops."""
    tensor = assembly.dynamic(node, 0)
    dims, rank = assembly.shape(tensor).dims, len(assembly.values.dims(tensor))
    mode = node.text("mode", "constant")
    if mode not in ("constant", "reflect", "edge"):
        raise unsupported(node, f"mode {mode!r} is not supported")
    # The paddings before all axes, then those after all axes.
    if node.opset < 11:
        listed, axes, value = node.integers("pads") or (), None, node.real("value", 0.0)
    else:
        value = (assembly.reals(node, 2, "the padding value") or (0.0,))[0]
        listed = assembly.integers(node, 1, "the padding") or ()
        axes = assembly.integers(node, 3, "the axes")
    if (types := assembly.quantization(tensor)) is not None:  # then the value is a stored integer
        value = (value - types.zero_point) * types.scale
    padded = range(rank) if axes is None else axes
    if len(listed) != 2 * len(padded) or not all(-rank <= axis < rank for axis in padded):
        raise UnreadableFile(f"{node}: {len(listed)} pads for {len(padded)} axes")
    amounts = [(0, 0)] * len(dims)
    for number, axis in enumerate(padded):
        amount = (listed[number], listed[len(padded) + number])
        frame_axis = assembly.frame_axis_or_batch(node, tensor, axis)
        if frame_axis is not None:
            amounts[frame_axis] = amount
        elif any(amount):
            raise unsupported(node, f"padding of the batch by {amount}")
    steps = op.padding_steps(dims, amounts, mode=mode, value=value if mode == "constant" else 0.0)
    assembly.add(node, *steps)


def depth_to_space(node: OnnxNode, assembly: OnnxAssembly) -> None:
    """Add a layer that spreads channels over blocks of pixels (depth to space)."""
    block = _block(node, assembly.map_shape(node, 0))
    mode = node.text("mode", "DCR")
    if mode not in ("DCR", "CRD"):
        raise unsupported(node, f"mode {mode!r} is not supported")
    order: Literal["block first", "channel first"] = (
        "block first" if mode == "DCR" else "channel first"
    )
    assembly.add(node, op.DepthToSpace(block=block, order=order))


def space_to_depth(node: OnnxNode, assembly: OnnxAssembly) -> None:
    """Add a layer that gathers blocks of pixels into channels (space to depth)."""
    block = _block(node, assembly.map_shape(node, 0))
    assembly.add(node, op.SpaceToDepth(block=block))


def _block(node: OnnxNode, shape: Shape) -> int:
    block = node.integer("blocksize", 0)
    if block < 1:
        raise UnreadableFile(f"{node}: blocks of {block}x{block} of {shape}")
    return block


def gather(node: OnnxNode, assembly: OnnxAssembly) -> None:
    """Add a Slice or Gather for constant indices, an Embedding for a constant table."""
    if assembly.is_static(node.required(0)):
        _embedding(node, assembly)
        return
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
            raise UnreadableFile(f"{node}: indices beyond the {size} elements of axis {wanted}")
        steps = [picked(axis, tuple(index % size for index in indices))]
    if axis is None or len(shape) != 1:
        steps.append(op.Reshape(dims=(dims[1:] if dims[:1] == (1,) else dims) or (1,)))
    assembly.add(node, *steps)


def _embedding(node: OnnxNode, assembly: OnnxAssembly) -> None:
    """Add an embedding: the row of a constant table for each integer of the frame."""
    table, dims = assembly.trained(node, 0, "the table")
    numbers = assembly.dynamic(node, 1)
    if len(dims) != 2 or node.integer("axis", 0) not in (0, -2):
        listed = "x".join(map(str, dims))
        raise unsupported(node, f"a table of {listed} that the frame looks up is not supported")
    count = assembly.shape(numbers).elements
    entries, width = dims
    steps: list[Step] = [
        op.Reshape(dims=(1, count, 1)),
        Weighted(op.Embedding(entries=entries, width=width), {"table": assembly.numbers(table)}),
        op.Transpose(permutation=(1, 2, 0)),
        op.Reshape(dims=frame_dims(assembly.values.dims(node.outputs[0]))),
    ]
    assembly.add(node, *steps, inputs=[numbers])


def gather_nd(node: OnnxNode, assembly: OnnxAssembly) -> None:
    """Add a selection of elements at constant indices, or at indices that another tensor contains."""
    tensor = assembly.dynamic(node, 0)
    if not assembly.is_static(node.required(1)):
        _gather_points(node, assembly, tensor, node.required(1))
        return
    indices = assembly.integers(node, 1, "the indices") or ()
    dims, out = assembly.values.dims(tensor), assembly.values.dims(node.outputs[0])
    depth = assembly.values.dims(node.required(1))[-1]
    if node.integer("batch_dims", 0):
        raise unsupported(node, "batch_dims is not supported")
    numbers = np.array(indices).reshape(-1, depth)
    sizes = np.array(dims[:depth])
    if (numbers < -sizes).any() or (numbers >= sizes).any():
        raise UnreadableFile(f"{node}: indices beyond the dims {'x'.join(map(str, dims))}")
    rows = np.ravel_multi_index(tuple((numbers % sizes).T), tuple(dims[:depth]))
    width, pieces = prod(dims[depth:]), prod(dims[:depth])
    steps: list[Step] = [op.Reshape(dims=(pieces, width))]
    if rows.tolist() != list(range(pieces)):
        steps.append(picked(0, tuple(rows.tolist())))
    assembly.add(node, *steps, op.Reshape(dims=frame_dims(out)))


def _gather_points(node: OnnxNode, assembly: OnnxAssembly, tensor: str, indices: str) -> None:
    """Add a selection at indices from a tensor; both tensors have a batch axis (batch_dims = 1)."""
    axes = (assembly.batch_axes(tensor), assembly.batch_axes(indices))
    if axes != (1, 1) or node.integer("batch_dims", 0) != 1:
        raise unsupported(node, "indices of the frame are read with batch_dims = 1 only")
    shape = assembly.shape(indices)
    if not 0 < shape.dims[-1] <= len(assembly.shape(tensor).dims):
        raise UnreadableFile(f"{node}: indices of {shape.dims[-1]} coordinates")
    steps: list[Step] = [op.GatherPoints()]
    wanted = frame_dims(assembly.values.dims(node.outputs[0]))
    if op.GatherPoints().output_dims([assembly.shape(tensor), shape]) != wanted:
        steps.append(op.Reshape(dims=wanted))
    assembly.add(node, *steps, inputs=(tensor, indices))


def picked(axis: int, indices: Dims) -> op.Operator:
    """Return a Slice for indices in equal steps along an axis, otherwise a Gather."""
    steps = {after - before for before, after in pairwise(indices)} or {1}
    step = steps.pop()
    if not steps and step > 0:
        return op.Slice(axis=axis, start=indices[0], stop=indices[-1] + 1, step=step)
    return op.Gather(axis=axis, places=indices)


def expand(node: OnnxNode, assembly: OnnxAssembly) -> None:
    """Add a repetition for each axis that grows; an identity if the shape is unchanged."""
    expanded(node, assembly, assembly.dynamic(node, 0))


def expanded(node: OnnxNode, assembly: OnnxAssembly, tensor: str) -> None:
    """Add a repetition of a tensor for each axis along which the result of the node is longer."""
    source, target = assembly.values.dims(tensor), assembly.values.dims(node.outputs[0])
    aligned = (1,) * (len(target) - len(source)) + source
    times = tuple(wide // size for wide, size in zip(target, aligned, strict=True))
    _repeat(node, assembly, tensor, aligned, times)


def tile(node: OnnxNode, assembly: OnnxAssembly) -> None:
    """Add a repetition for each axis that is repeated."""
    tensor = assembly.dynamic(node, 0)
    times = assembly.integers(node, 1, "the repeats") or ()
    _repeat(node, assembly, tensor, assembly.values.dims(tensor), times)


def _repeat(node: OnnxNode, assembly: OnnxAssembly, tensor: str, dims: Dims, times: Dims) -> None:
    """Add a reshape to these dims, then a repetition along each axis."""
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


def frame_dims(dims: Dims) -> Dims:
    """Return the dims of a frame of a tensor with these dims: without a batch axis of size 1."""
    return (dims[1:] if len(dims) > 1 and dims[0] == 1 else dims) or (1,)

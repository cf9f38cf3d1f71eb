"""Operators of a TensorFlow Lite graph that only move elements, as layers."""

from __future__ import annotations

from collections.abc import Sequence

from cnn2csdf import operators as op
from cnn2csdf.readers.tflite.assembly import Assembly, refusal
from cnn2csdf.readers.tflite.model_file import Dims, Node
from cnn2csdf.readers.tflite.options import fused_behind, options_of, our_axis
from cnn2csdf.shape import Shape
from csdf.errors import UnreadableFile


def reshape_steps(shape: Shape, wanted: Dims) -> list[op.Operator]:
    """Return the steps of a reshape in (row, column, channel) order; wanted: with the batch."""
    steps: list[op.Operator] = []
    if shape.is_map and min(shape.channels, shape.height * shape.width) > 1:
        steps.append(op.Transpose(permutation=(1, 2, 0)))
    if len(wanted) != 4:
        return [*steps, op.Reshape(dims=wanted[1:] if len(wanted) > 1 else wanted or (1,))]
    _, height, width, channels = wanted
    if min(channels, height * width) == 1:
        return [*steps, op.Reshape(dims=(channels, height, width))]
    steps.append(op.Reshape(dims=(height, width, channels)))
    return [*steps, op.Transpose(permutation=(2, 0, 1))]


def reshape(node: Node, assembly: Assembly) -> None:
    """Add a reshape of elements in (row, column, channel) order."""
    steps = reshape_steps(assembly.shape(node, 0), assembly.output(node).dims)
    assembly.add(node, *steps, sources=[assembly.source(node, 0)])


def pack(node: Node, assembly: Assembly) -> None:
    """Add a concatenation along a new axis."""
    dims = assembly.output(node).dims
    if not dims:
        raise UnreadableFile(f"{node}: an output without axes")
    axis = options_of(node).integer(1, "i") % len(dims)
    one = (*dims[:axis], 1, *dims[axis + 1 :])
    sources = [
        assembly.prepared(
            node, assembly.source(node, index), *reshape_steps(assembly.shape(node, index), one)
        )
        for index in range(len(node.inputs))
    ]
    operator = op.Concatenation(axis=our_axis(node, len(dims), axis))
    assembly.add(node, operator, sources=sources)


def unpack(node: Node, assembly: Assembly) -> None:
    """Add a slice for each output, without the axis that is cut."""
    dims = assembly.tensor(node, 0).dims
    axis = options_of(node).integer(1, "i")
    place = our_axis(node, len(dims), axis)
    for number in range(len(node.outputs)):
        piece = op.Slice(axis=place, start=number, stop=number + 1)
        shape = piece.output_shape([assembly.shape(node, 0)])
        steps = reshape_steps(shape, assembly.output(node, number).dims)
        assembly.add(node, piece, *steps, sources=[assembly.source(node, 0)], output=number)


def gather(node: Node, assembly: Assembly) -> None:
    """Add a choice of places along an axis, which are constant."""
    rank, options = len(assembly.tensor(node, 0).dims), options_of(node)
    places = assembly.constant(node, 1)
    if options.integer(1, "i") or places.ndim > 1:
        raise refusal(node, f"places of shape {places.shape}, or one list for each batch")
    axis = our_axis(node, rank, options.integer(0, "i"))
    size = assembly.shape(node, 0).dims[axis]
    chosen = tuple(int(one) for one in places.reshape(-1))
    if not all(0 <= one < size for one in chosen):
        raise UnreadableFile(f"{node}: a place of {chosen[:4]} in an axis of {size}")
    operator = op.Gather(axis=axis, places=chosen)
    shape = operator.output_shape([assembly.shape(node, 0)])
    steps = [] if places.ndim else reshape_steps(shape, assembly.output(node).dims)
    assembly.add(node, operator, *steps, sources=[assembly.source(node, 0)])


def transpose(node: Node, assembly: Assembly) -> None:
    """Add a transposition that leaves the batch where it is."""
    order = assembly.integers(node, 1)
    rank = len(assembly.tensor(node, 0).dims)
    if sorted(order) != list(range(rank)) or rank < 2 or order[0] != 0:
        raise refusal(node, f"a transposition by {order}")
    ours = [our_axis(node, rank, axis) for axis in order[1:]]
    permutation = (ours[2], ours[0], ours[1]) if rank == 4 else tuple(ours)
    operator = op.Transpose(permutation=permutation)
    assembly.add(node, operator, sources=[assembly.source(node, 0)])


def concatenation(node: Node, assembly: Assembly) -> None:
    """Add a concatenation of tensors that are stored in the same way."""
    rank = len(assembly.output(node).dims)
    axis = our_axis(node, rank, options_of(node).integer(0, "i"))
    sources = [assembly.source(node, index) for index in range(len(node.inputs))]
    operator = op.Concatenation(axis=axis)
    assembly.add(node, operator, sources=sources, fused=fused_behind(node, 1))


def split(node: Node, assembly: Assembly) -> None:
    """Add a slice for each output; the axis is the first input."""
    _add_pieces(node, assembly, source=1, axis=assembly.integers(node, 0)[:1])


def split_by_sizes(node: Node, assembly: Assembly) -> None:
    """Add a slice for each output; the axis is the third input."""
    _add_pieces(node, assembly, source=0, axis=assembly.integers(node, 2)[:1])


def _add_pieces(node: Node, assembly: Assembly, *, source: int, axis: tuple[int, ...]) -> None:
    rank, begin = len(assembly.tensor(node, source).dims), 0
    place = our_axis(node, rank, axis[0] if axis else rank)
    for number in range(len(node.outputs)):
        dims = assembly.output(node, number).dims
        if len(dims) != rank:
            raise UnreadableFile(f"{node}: an output of {dims} from {rank} axes")
        size = dims[axis[0] % rank]
        operator = op.Slice(axis=place, start=begin, stop=begin + size)
        assembly.add(node, operator, sources=[assembly.source(node, source)], output=number)
        begin += size


def slices(node: Node, assembly: Assembly) -> None:
    """Add a slice along each axis that is not taken whole; a size of -1 is all that is left."""
    dims = assembly.tensor(node, 0).dims
    begins, sizes = assembly.integers(node, 1), assembly.integers(node, 2)
    if not len(begins) == len(sizes) == len(dims):
        raise UnreadableFile(f"{node}: a slice by {sizes} of a tensor with {len(dims)} axes")
    spans = [
        (begin, length if size == -1 else begin + size, 1)
        for begin, size, length in zip(begins, sizes, dims, strict=True)
    ]
    _add_slices(node, assembly, spans)


def strided_slice(node: Node, assembly: Assembly) -> None:
    """Add a slice along each axis that is not taken whole; axes may be dropped behind it."""
    options, dims = options_of(node), assembly.tensor(node, 0).dims
    if any(options.integer(field, "i") for field in (2, 3)):
        raise refusal(node, "ellipses and new axes are not supported")
    begins, ends, steps = (assembly.integers(node, index) for index in (1, 2, 3))
    if not len(begins) == len(ends) == len(steps) == len(dims) or min(steps, default=0) < 1:
        raise refusal(node, f"a slice by {steps} of a tensor with {len(dims)} axes")
    spans = []
    for axis, size in enumerate(dims):
        begin = 0 if options.integer(0, "i") >> axis & 1 else begins[axis]
        end = size if options.integer(1, "i") >> axis & 1 else ends[axis]
        if options.integer(4, "i") >> axis & 1:  # one place, and the axis goes
            end = begins[axis] % size + 1
            begin = end - 1
        spans.append(slice(begin, end, steps[axis]).indices(size))
    _add_slices(node, assembly, spans)


def _add_slices(node: Node, assembly: Assembly, spans: Sequence[tuple[int, int, int]]) -> None:
    """spans: begin, end and step along each axis of the tensor."""
    dims, shape = assembly.tensor(node, 0).dims, assembly.shape(node, 0)
    found: list[op.Operator] = []
    for axis, (span, size) in enumerate(zip(spans, dims, strict=True)):
        if span != (0, size, 1) and not (size == 1 and span[:2] == (0, 1)):
            begin, end, step = span
            place = our_axis(node, len(dims), axis)
            found.append(op.Slice(axis=place, start=begin, stop=end, step=step))
            shape = found[-1].output_shape([shape])
    wanted = assembly.output(node).dims
    if len(wanted) != len(dims):
        found += reshape_steps(shape, wanted)
    assembly.add(node, *(found or [op.Identity()]), sources=[assembly.source(node, 0)])

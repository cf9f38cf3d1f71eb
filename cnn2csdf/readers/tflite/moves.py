"""Operators of a TensorFlow Lite graph that only move elements, as layers.

`dims` are those of the file, with the batch, and an `axis` indexes them; a `frame_axis` is an axis of
the layer. Elements of one tensor keep their order in a reshape only in the axes of the file: layers of
feature maps are transposed before it and after it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from math import prod

import numpy as np

from cnn2csdf import operators as op
from cnn2csdf.dtypes import Element, Stored
from cnn2csdf.operators.operands import constant_role
from cnn2csdf.readers.tflite.assembly import (
    TO_MAP,
    TO_MATRIX,
    Converter,
    TfliteAssembly,
    Trained,
    frame_dims,
    layer_axes,
    refusal,
)
from cnn2csdf.readers.tflite.model_file import Dims, TfliteNode
from cnn2csdf.readers.tflite.options import frame_axis, fused_activation, options_of
from cnn2csdf.shape import Shape
from csdf.errors import UnreadableFile

MOST_SCATTERED = 2**20  # positions of a result that updates are scattered to
DEEPEST_ONE_HOT = 2**20

# Fields of options, by operator.
PACK_AXIS = 1
UNPACK_AXIS = 1
ONE_HOT_AXIS = 0
GATHER_AXIS = 0
GATHER_BATCH_DIMS = 1
CONCATENATION_AXIS = 0
CONCATENATION_ACTIVATION = 1
SLICE_MASKS = range(5)  # begin, end, ellipsis, new axes, dropped axes
SLICE_OFFSET = 5


def reshape_steps(
    shape: Shape, wanted: Dims, *, from_map: bool = True, to_map: bool = True
) -> list[op.Operator]:
    """Return the steps of a reshape in the order of the file; wanted: with the batch.

    from_map, to_map: whether the tensor before, and after, is a feature map if it has four axes.
    """
    steps: list[op.Operator] = []
    is_map = from_map and shape.is_map
    if is_map and min(shape.channels, shape.height * shape.width) > 1:
        steps.append(op.Transpose(permutation=TO_MATRIX))
    if len(wanted) != 4 or not to_map:
        return [*steps, op.Reshape(dims=frame_dims(wanted, is_map=False))]
    _, height, width, channels = wanted
    if min(channels, height * width) == 1:
        return [*steps, op.Reshape(dims=(channels, height, width))]
    steps.append(op.Reshape(dims=(height, width, channels)))
    return [*steps, op.Transpose(permutation=TO_MAP)]


def with_axes_of(
    node: TfliteNode, assembly: TfliteAssembly, shape: Shape, source: Dims, wanted: Dims
) -> list[op.Operator]:
    """Return the steps of a reshape between tensors as a node sees them.

    shape: of the layer; source: dims of that tensor in the file, with as many axes.
    """
    is_map = assembly.works_on_maps(node)
    return reshape_steps(shape, wanted, from_map=is_map and len(source) == 4, to_map=is_map)


def reshape(node: TfliteNode, assembly: TfliteAssembly) -> None:
    """Add a reshape of elements in the order of the file."""
    source = assembly.source_as_stored(node, 0)
    steps = reshape_steps(
        assembly.builder.shape(source),
        assembly.output(node).dims,
        from_map=assembly.is_map(node.inputs[0]),
        to_map=assembly.is_map(node.outputs[0]),
    )
    assembly.add(node, *steps, sources=[source], has_node_axes=False)


def pack(node: TfliteNode, assembly: TfliteAssembly) -> None:
    """Add a concatenation along a new axis."""
    dims = assembly.output(node).dims
    if not dims:
        raise UnreadableFile(f"{node}: an output without axes")
    axis = options_of(node).integer(PACK_AXIS, "i") % len(dims)
    _add_concatenation(node, assembly, axis, (*dims[:axis], 1, *dims[axis + 1 :]))


def _add_concatenation(
    node: TfliteNode, assembly: TfliteAssembly, axis: int, dims: Dims | None = None, fused: int = 0
) -> None:
    """Add a concatenation along an axis of the result; some of its operands may be constants.

    dims: of each operand, where the tensors of the file have an axis less.
    """
    result = assembly.output(node).dims
    joined_axis = frame_axis(node, assembly, result, axis)
    sources, constants, trained = [], [], []
    for index in range(len(node.inputs)):
        if assembly.is_dynamic(node, index):
            source, input_dims = assembly.source(node, index), assembly.tensor(node, index).dims
            if dims is not None:
                shape = assembly.builder.shape(source)
                steps = with_axes_of(node, assembly, shape, input_dims, dims)
                source = assembly.add_moves(node, source, *steps)
            sources.append(source)
            continue
        value = assembly.constant(node, index)
        if dims is not None and value.size != prod(dims):
            raise UnreadableFile(f"{node}: a constant of {value.shape}; expected {dims}")
        value = value if dims is None else value.reshape(dims)
        # The axes of the constant in the order of the layer, which drops the batch.
        axes = assembly.axes(node, value.shape)
        value = np.moveaxis(value, axes, range(-len(axes), 0)).reshape(
            [value.shape[number] for number in axes]
        )
        constants.append((index, value.shape))
        trained.append(assembly.trained(node, index, constant_role(index), value))
    operator: op.Operator = op.Concatenation(axis=joined_axis)
    if constants:
        operator = op.ConstantConcatenation(constants=tuple(constants), axis=joined_axis)
    assembly.add(node, operator, sources=sources, trained=trained, fused=fused)


def unpack(node: TfliteNode, assembly: TfliteAssembly) -> None:
    """Add a slice for each output, without the axis that is cut."""
    dims = assembly.tensor(node, 0).dims
    axis = options_of(node).integer(UNPACK_AXIS, "i")
    cut_axis = frame_axis(node, assembly, dims, axis)
    for number in range(len(node.outputs)):
        piece = op.Slice(axis=cut_axis, start=number, stop=number + 1)
        shape = piece.output_shape([assembly.shape(node, 0)])
        steps = with_axes_of(node, assembly, shape, dims, assembly.output(node, number).dims)
        assembly.add(node, piece, *steps, output=number)


def reverse(node: TfliteNode, assembly: TfliteAssembly) -> None:
    """Add a selection of the positions along each axis in reverse order."""
    dims, axes = assembly.tensor(node, 0).dims, assembly.integers(node, 1)
    sizes = assembly.shape(node, 0).dims
    reversed_axes = [frame_axis(node, assembly, dims, axis) for axis in axes]
    steps = [
        op.Gather(axis=axis, places=tuple(reversed(range(sizes[axis])))) for axis in reversed_axes
    ]
    assembly.add(node, *steps)


def embedding(
    node: TfliteNode, assembly: TfliteAssembly, *, table: int = 1, numbers: int = 0
) -> None:
    """Add rows of a constant table at numbers that the frame computes."""
    rows = assembly.constant(node, table)
    stored, types = assembly.tensor(node, table), assembly.tensor(node, table).quantization()
    if rows.ndim < 2 or not rows.size:
        raise refusal(node, f"a table of {rows.shape}")
    entries, width = rows.shape[0], prod(rows.shape[1:])
    is_real = types is None and stored.element in (Element.FLOAT32, Element.FLOAT16)
    scales = _scales_of_rows(node, assembly, table, entries)
    if not (is_real or scales) and (types is None or types != assembly.output(node).quantization()):
        raise refusal(
            node,
            f"a table of {stored.element and stored.element.value}; expected float32, int8 for a "
            "result in real numbers, or quantised integers with the scale of the result",
        )
    source = assembly.source_in_file_axes(node, numbers)
    count = assembly.builder.shape(source).elements
    source = assembly.add_moves(node, source, op.Reshape(dims=(1, count, 1)))
    operator = op.Embedding(entries=entries, width=width)
    if scales:
        operator = op.ScaledEmbedding(entries=entries, width=width, scales=scales)
    steps = [operator, op.Transpose(permutation=(1, 2, 0)), *to_output(node, assembly)]
    trained = [assembly.trained(node, table, "table", rows.reshape(entries, width))]
    assembly.add(node, *steps, sources=[source], trained=trained, has_node_axes=False)


def _scales_of_rows(
    node: TfliteNode, assembly: TfliteAssembly, table: int, entries: int
) -> tuple[float, ...]:
    """Return the scales of a table of int8 that EMBEDDING_LOOKUP reads in floating point, else none.

    As LiteRT's kernel, which takes one scale or one for each row, and no zero point.
    """
    stored = assembly.tensor(node, table)
    types = stored.quantization()
    is_real = assembly.output(node).quantization() is None and node.kind == "EMBEDDING_LOOKUP"
    if types is None or not is_real or types.element is not Element.INT8 or types.zero_point:
        return ()
    by_row = len(types.scales) == entries and stored.axis == 0
    return types.scales if len(types.scales) == 1 or by_row else ()


def to_output(
    node: TfliteNode, assembly: TfliteAssembly, dims: Dims | None = None
) -> list[op.Operator]:
    """Return the steps from elements in the order of the file to the output of a node.

    dims: of the output in the file, where the file leaves them to an input.
    """
    file_dims = assembly.output(node).dims if dims is None else dims
    steps: list[op.Operator] = [op.Reshape(dims=frame_dims(file_dims, is_map=False))]
    if assembly.is_map(node.outputs[0]):
        steps.append(op.Transpose(permutation=TO_MAP))
    return steps


def one_hot(node: TfliteNode, assembly: TfliteAssembly) -> None:
    """Add a one-hot encoding along a new last axis: 1 at the index, 0 elsewhere."""
    depths, dims = assembly.integers(node, 1), assembly.tensor(node, 0).dims
    arrays = [assembly.constant(node, index).reshape(-1) for index in (2, 3)]
    if len(depths) != 1 or any(len(array) != 1 for array in arrays):
        raise UnreadableFile(f"{node}: a depth of {depths}, and values of {[*map(len, arrays)]}")
    depth, values = depths[0], [float(array[0]) for array in arrays]
    if not 0 < depth <= DEEPEST_ONE_HOT:
        raise refusal(node, f"a depth of {depth}, expected 1 to {DEEPEST_ONE_HOT}")
    if values != [1.0, 0.0]:
        raise refusal(node, f"values of {values[0]:g} and {values[1]:g}, expected 1 and 0")
    if options_of(node).integer(ONE_HOT_AXIS, "i") not in (-1, len(dims)):
        raise refusal(node, "a new axis that is not the last one")
    source = assembly.source_in_file_axes(node, 0)
    count = assembly.builder.shape(source).elements
    source = assembly.add_moves(node, source, op.Reshape(dims=(count, 1)))
    steps: list[op.Operator] = [op.Elementwise(function="equal", constant=(1, depth))]
    steps += to_output(node, assembly)
    classes = np.arange(depth, dtype=np.float32).reshape(1, depth)
    trained = [Trained(array=classes, stored=Stored(role="constant"))]
    assembly.add(node, *steps, sources=[source], trained=trained, has_node_axes=False)


def gather(node: TfliteNode, assembly: TfliteAssembly) -> None:
    """Add a selection of positions along an axis, or of rows of a constant table by index."""
    fields = (GATHER_AXIS, GATHER_BATCH_DIMS)
    file_axis, batch_dims = (options_of(node).integer(field, "i") for field in fields)
    if assembly.tensor(node, 0).is_constant and assembly.is_dynamic(node, 1):
        if file_axis or batch_dims:
            raise refusal(node, "a choice in a constant along another axis than the first")
        embedding(node, assembly, table=0, numbers=1)
        return
    dims = assembly.tensor(node, 0).dims
    places = assembly.constant(node, 1)
    if batch_dims or places.ndim > 1:
        raise refusal(node, f"places of shape {places.shape}, or one list for each batch")
    axis = frame_axis(node, assembly, dims, file_axis)
    size = assembly.shape(node, 0).dims[axis]
    chosen = tuple(map(int, places.reshape(-1)))
    if not all(0 <= place < size for place in chosen):
        raise UnreadableFile(f"{node}: a place of {chosen[:4]} in an axis of {size}")
    operator = op.Gather(axis=axis, places=chosen)
    shape = operator.output_shape([assembly.shape(node, 0)])
    wanted = assembly.output(node).dims
    steps = [] if places.ndim == 1 else with_axes_of(node, assembly, shape, dims, wanted)
    assembly.add(node, operator, *steps)


def scatter(node: TfliteNode, assembly: TfliteAssembly) -> None:
    """Add zeros with elements, or slices along the last axes, at constant positions.

    The result selects for each position a row of the updates, or a row of zeros after them.
    """
    indices, dims = assembly.constant(node, 0), assembly.integers(node, 2)
    depth = indices.shape[-1] if indices.ndim else 0
    lead = dims[:depth]
    if not 0 < depth <= len(dims) or not 0 < prod(lead) <= MOST_SCATTERED or min(dims) < 1:
        raise refusal(node, f"positions of shape {indices.shape} in a tensor of {dims[:8]}")
    is_inside = indices.dtype.kind in "iu" and bool(((indices >= 0) & (indices < lead)).all())
    if not is_inside:
        raise UnreadableFile(f"{node}: a position outside of {dims}")
    coordinates = tuple(np.moveaxis(indices, -1, 0))
    rows_written = np.ravel_multi_index(coordinates, tuple(lead)).reshape(-1)
    if len(np.unique(rows_written)) < len(rows_written):
        raise refusal(node, "positions that repeat, whose updates are added up")
    types = assembly.tensor(node, 1).quantization()
    if types != assembly.output(node).quantization() or (types is not None and types.zero_point):
        raise refusal(node, "integers with a zero point, or another scale than the result")
    count, width = len(rows_written), prod(dims[depth:])
    if prod(assembly.tensor(node, 1).dims) != count * width:
        raise UnreadableFile(f"{node}: updates of {assembly.tensor(node, 1).dims} for {dims}")
    row_of_zeros = count  # after the updates
    update_of_row = np.full(prod(lead), row_of_zeros)
    update_of_row[rows_written] = np.arange(count)
    steps: list[op.Operator] = [op.Reshape(dims=(count, width))]
    if count < len(update_of_row):
        steps += op.padding_steps((count, width), [(0, 1), (0, 0)], mode="constant", value=0.0)
    steps.append(op.Gather(axis=0, places=tuple(update_of_row.tolist())))
    steps += to_output(node, assembly, tuple(dims))
    assembly.add(node, *steps, sources=[assembly.source_in_file_axes(node, 1)], has_node_axes=False)


def gather_points(node: TfliteNode, assembly: TfliteAssembly) -> None:
    """Add elements, or slices along the last axes, at positions that may depend on the frame."""
    dims = assembly.tensor(node, 0).dims
    positions = assembly.tensor(node, 1).dims
    if not positions or not 0 < positions[-1] <= len(dims):
        raise UnreadableFile(f"{node}: positions of shape {positions} in a tensor of {dims}")
    sources, steps = [assembly.source_in_file_axes(node, 0)], list[op.Operator]()
    if assembly.is_dynamic(node, 1):
        sources.append(_without_batch(node, assembly, dims, positions))
        steps.append(op.GatherPoints())
    else:
        indices = assembly.constant(node, 1)
        if indices.dtype.kind not in "iu":
            raise UnreadableFile(f"{node}: positions of {indices.dtype}; expected integers")
        coordinates = np.moveaxis(indices, -1, 0)
        lead = dims[: positions[-1]]
        places = np.ravel_multi_index(tuple(coordinates), lead, mode="clip").reshape(-1)
        rest = dims[positions[-1] :] or (1,)
        steps.append(op.Reshape(dims=(prod(lead), *rest)))
        steps.append(op.Gather(axis=0, places=tuple(places.tolist())))
    steps += to_output(node, assembly)
    assembly.add(node, *steps, sources=sources, has_node_axes=False)


def _without_batch(node: TfliteNode, assembly: TfliteAssembly, dims: Dims, positions: Dims) -> str:
    """Return the layer of the positions, without coordinates of axes that a layer does not have."""
    source, count = assembly.source_in_file_axes(node, 1), positions[-1]
    skipped = len(dims) - len(frame_dims(dims, is_map=False))
    if not skipped:
        return source
    if skipped == count:
        raise refusal(node, "positions along the batch only")
    axis = len(assembly.builder.shape(source).dims) - 1
    return assembly.add_moves(node, source, op.Slice(axis=axis, start=skipped, stop=count))


def tile(node: TfliteNode, assembly: TfliteAssembly) -> None:
    """Add a tensor several times along each axis."""
    dims, times = assembly.tensor(node, 0).dims, assembly.integers(node, 1)
    if len(times) != len(dims):
        raise UnreadableFile(f"{node}: {times} times a tensor of {dims}")
    _add_repeats(node, assembly, assembly.source(node, 0), dims, times)


def broadcast(node: TfliteNode, assembly: TfliteAssembly) -> None:
    """Add a tensor whose axes of size one are repeated."""
    dims, wanted = assembly.tensor(node, 0).dims, assembly.output(node).dims
    full = (1,) * (len(wanted) - len(dims)) + dims
    if len(full) != len(wanted) or any(
        size not in (1, target) for size, target in zip(full, wanted, strict=True)
    ):
        raise UnreadableFile(f"{node}: a tensor of {dims} for a result of {wanted}")
    source = assembly.source(node, 0)
    steps = with_axes_of(node, assembly, assembly.builder.shape(source), dims, full)
    if len(full) != len(dims):
        source = assembly.add_moves(node, source, *steps)
    times = [target // size for size, target in zip(full, wanted, strict=True)]
    _add_repeats(node, assembly, source, full, times)


def _add_repeats(
    node: TfliteNode, assembly: TfliteAssembly, source: str, dims: Dims, times: Sequence[int]
) -> None:
    """Add repeats along axes, the last axis first. dims, times: of each axis of the file's tensor."""
    if min(times, default=1) < 1:
        raise UnreadableFile(f"{node}: {tuple(times)} times a tensor of {dims}")
    repeated = [axis for axis, count in enumerate(times) if count > 1]
    steps: list[op.Operator] = [
        op.Repeat(axis=frame_axis(node, assembly, dims, axis), times=times[axis])
        for axis in reversed(repeated)
    ]
    assembly.add(node, *(steps or [op.Identity()]), sources=[source])


def transpose(node: TfliteNode, assembly: TfliteAssembly) -> None:
    """Add a transposition; the batch of one stays the first axis."""
    order, dims = assembly.integers(node, 1), assembly.tensor(node, 0).dims
    result = assembly.output(node).dims
    is_order = sorted(order) == list(range(len(dims))) and len(dims) > 1
    if not is_order or ((1 in (dims[0], result[0])) and order[0] != 0):
        raise refusal(node, f"a transposition by {order}")
    input_axes = layer_axes(dims, is_map=assembly.is_map(node.inputs[0]))
    output_axes = layer_axes(result, is_map=assembly.is_map(node.outputs[0]))
    permutation = tuple(input_axes.index(order[axis]) for axis in output_axes)
    operator = op.Transpose(permutation=permutation)
    assembly.add(node, operator, sources=[assembly.source_as_stored(node, 0)], has_node_axes=False)


def concatenation(node: TfliteNode, assembly: TfliteAssembly) -> None:
    """Add a concatenation of tensors or constants along the axis in the options."""
    axis = options_of(node).integer(CONCATENATION_AXIS, "i")
    fused = fused_activation(node, CONCATENATION_ACTIVATION)
    _add_concatenation(node, assembly, axis, fused=fused)


def split(node: TfliteNode, assembly: TfliteAssembly, *, source: int, axis_input: int) -> None:
    """Add a slice for each output; source, axis_input: the inputs that are cut, and where."""
    axis = assembly.integers(node, axis_input)[:1]
    input_dims, begin = assembly.tensor(node, source).dims, 0
    rank = len(input_dims)
    if len(node.outputs) == 1:  # the batch of one may be split too
        assembly.add(node, op.Identity(), sources=[assembly.source(node, source)])
        return
    cut_axis = frame_axis(node, assembly, input_dims, axis[0] if axis else rank)
    for number in range(len(node.outputs)):
        dims = assembly.output(node, number).dims
        if len(dims) != rank:
            raise UnreadableFile(f"{node}: an output of {dims} from {rank} axes")
        size = dims[axis[0] % rank]
        operator = op.Slice(axis=cut_axis, start=begin, stop=begin + size)
        assembly.add(node, operator, sources=[assembly.source(node, source)], output=number)
        begin += size


def slices(node: TfliteNode, assembly: TfliteAssembly) -> None:
    """Add a slice along each axis that is not taken whole; a size of -1 is all that is left."""
    dims = assembly.tensor(node, 0).dims
    begins, sizes = assembly.integers(node, 1), assembly.integers(node, 2)
    if not len(begins) == len(sizes) == len(dims):
        raise UnreadableFile(f"{node}: a slice by {sizes} of a tensor with {len(dims)} axes")
    ranges = [
        range(begin, length if size == -1 else begin + size)
        for begin, size, length in zip(begins, sizes, dims, strict=True)
    ]
    _add_slices(node, assembly, ranges)


def strided_slice(node: TfliteNode, assembly: TfliteAssembly) -> None:
    """Add a slice along each axis that is read in part; axes of one index may then be dropped.

    The file lists slices as Python writes them between brackets, and each mask has a bit for each of
    them. Of the four slices x[1:, ..., None, 3], the second is the ellipsis of all axes that no other
    slice reads, the third is a new axis of one element, and the fourth drops its axis.
    """
    options, dims = options_of(node), assembly.tensor(node, 0).dims
    if options.integer(SLICE_OFFSET, "b"):
        raise refusal(node, "the option offset: ends that count from begins")
    begins, ends, steps = (assembly.integers(node, index) for index in (1, 2, 3))
    begin_mask, end_mask, ellipsis, new_axes, dropped = (
        options.integer(field, "I") for field in SLICE_MASKS
    )
    if not len(begins) == len(ends) == len(steps) or 0 in steps or ellipsis.bit_count() > 1:
        raise refusal(node, f"a slice by {steps} of a tensor with {len(dims)} axes")
    count_of_whole = len(dims) - sum(
        not (ellipsis | new_axes) >> number & 1 for number in range(len(begins))
    )
    if count_of_whole < 0:
        raise refusal(node, f"a slice by {steps} of a tensor with {len(dims)} axes")
    slices_of_axes: list[int | None] = []  # the number of its slice; None: the axis is read whole
    for position in range(len(begins)):
        if ellipsis >> position & 1:
            slices_of_axes += [None] * count_of_whole
        elif not new_axes >> position & 1:
            slices_of_axes.append(position)
    slices_of_axes += [None] * (len(dims) - len(slices_of_axes))
    ranges = []
    for size, number in zip(dims, slices_of_axes, strict=True):
        if number is None:
            ranges.append(range(size))
            continue
        begin = None if begin_mask >> number & 1 else begins[number]
        end = None if end_mask >> number & 1 else ends[number]
        indices = range(size)[slice(begin, end, steps[number])]
        if dropped >> number & 1:
            first = slice(begin, None, steps[number]).indices(size)[0]
            if not 0 <= first < size:
                raise refusal(node, f"place {begins[number]} of an axis of {size}")
            indices = range(first, first + 1)
        ranges.append(indices)
    _add_slices(node, assembly, ranges, keeps_axes=not new_axes | dropped)


def _add_slices(
    node: TfliteNode,
    assembly: TfliteAssembly,
    ranges: Sequence[range],
    *,
    keeps_axes: bool = True,
) -> None:
    """Add slices, or selections of positions where the step is negative.

    ranges: the indices read along each axis of the file's tensor. keeps_axes: none goes, none is new.
    """
    dims, shape = assembly.tensor(node, 0).dims, assembly.shape(node, 0)
    operators: list[op.Operator] = []
    for axis, (indices, size) in enumerate(zip(ranges, dims, strict=True)):
        begin, end, step = indices.start, indices.stop, indices.step
        if (begin, end, step) == (0, size, 1) or (size == 1 and (begin, end) == (0, 1)):
            continue
        cut_axis = frame_axis(node, assembly, dims, axis)
        if step > 0:
            operators.append(op.Slice(axis=cut_axis, start=begin, stop=end, step=step))
        else:
            operators.append(op.Gather(axis=cut_axis, places=tuple(indices)))
        shape = operators[-1].output_shape([shape])
    wanted = assembly.output(node).dims
    if not keeps_axes or len(wanted) != len(dims):
        operators += with_axes_of(node, assembly, shape, dims, wanted)
    assembly.add(node, *(operators or [op.Identity()]))


CONVERTERS: Mapping[str, Converter] = {
    "BROADCAST_TO": broadcast,
    "CONCATENATION": concatenation,
    "EMBEDDING_LOOKUP": embedding,
    "ONE_HOT": one_hot,
    "EXPAND_DIMS": reshape,
    "GATHER": gather,
    "GATHER_ND": gather_points,
    "PACK": pack,
    "RESHAPE": reshape,
    "REVERSE_V2": reverse,
    "SCATTER_ND": scatter,
    "SLICE": slices,
    "SPLIT": partial(split, source=1, axis_input=0),
    "SPLIT_V": partial(split, source=0, axis_input=2),
    "SQUEEZE": reshape,
    "STRIDED_SLICE": strided_slice,
    "TILE": tile,
    "TRANSPOSE": transpose,
    "UNPACK": unpack,
}

"""SPACE_TO_BATCH_ND and BATCH_TO_SPACE_ND of a TensorFlow Lite graph.

TensorFlow writes a dilated convolution as SPACE_TO_BATCH_ND, a convolution of neighbouring pixels,
and BATCH_TO_SPACE_ND: each entry of the batch holds one phase of the pixels. Blocks of 2 divide a line
of pixels 0 to 5 into the phases 0, 2, 4 and 1, 3, 5. A section between the two operators is read in the
first of these forms that gives the same elements:

1. dilated convolutions over the whole map, where each operator of the section has a stride of one;
2. copies of the section, one for each phase;
3. operator by operator, where layers compute tensors with a batch.

An axis of blocks is an axis whose pixels the operators divide. Its ends are the pixels that the first
operator pads, or that the last crops, before and after the axis.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import NamedTuple

import numpy as np

from cnn2csdf import operators as op
from cnn2csdf.dtypes import Element
from cnn2csdf.readers.tflite.assembly import (
    RESHAPES,
    TO_MATRIX,
    Converter,
    TfliteAssembly,
    layer_axes,
    refusal,
)
from cnn2csdf.readers.tflite.model_file import Tensor, TfliteGraph, TfliteNode
from cnn2csdf.readers.tflite.moves import to_output
from cnn2csdf.readers.tflite.options import PADDING, SAME
from csdf.errors import UnreadableFile

SPLIT, JOIN = "SPACE_TO_BATCH_ND", "BATCH_TO_SPACE_ND"
LONGEST = 2**24  # elements of an end of an axis: padding and crops
MOST_COPIES = 1024  # operators of all copies of a section
CONVOLUTIONS = frozenset({"CONV_2D", "DEPTHWISE_CONV_2D"})
POINTWISE = frozenset(
    {
        "ABS", "ADD", "CEIL", "DEQUANTIZE", "DIV", "ELU", "EXP", "FLOOR", "GELU", "HARD_SWISH",
        "LEAKY_RELU", "LOGISTIC", "MAXIMUM", "MINIMUM", "MUL", "NEG", "PRELU", "QUANTIZE", "RELU",
        "RELU6", "RELU_0_TO_1", "RELU_N1_TO_1", "RSQRT", "SQRT", "SQUARE", "SQUARED_DIFFERENCE",
        "SUB", "TANH",
    }
)  # fmt: skip
IN_EACH_PHASE = (  # kinds that compute each entry of a batch alone
    POINTWISE | CONVOLUTIONS | RESHAPES | {"AVERAGE_POOL_2D", "MAX_POOL_2D", "PAD", "SOFTMAX"}
)


class _NotExactError(Exception):
    """The section has no such form with the same elements."""


Ends = Sequence[tuple[int, int]]
"""Elements before and after each axis: padding of SPACE_TO_BATCH_ND, or crops of BATCH_TO_SPACE_ND."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Blocks:
    """Blocks of pixels along the first axes after the batch: sizes, and ends of each axis."""

    sizes: tuple[int, ...]
    ends: Ends


@dataclass(frozen=True, slots=True, kw_only=True)
class _Section:
    """Nodes from SPACE_TO_BATCH_ND to BATCH_TO_SPACE_ND in their order; tensors: those between."""

    split: TfliteNode
    inner: tuple[TfliteNode, ...]
    joins: tuple[TfliteNode, ...]
    tensors: frozenset[int]


class _Form(NamedTuple):
    """All tensors of a graph, and the nodes that replace each node of a section, by its `id`."""

    tensors: Sequence[Tensor]
    replacements: Mapping[int, Sequence[TfliteNode]]


def without_batches(graph: TfliteGraph) -> TfliteGraph:
    """Return the graph where dilated convolutions, or copies, replace sections with a batch.

    Raises UnreadableFile for blocks that do not fit their tensors.
    """
    for split in [node for node in graph.nodes if node.kind == SPLIT]:
        for form_of in (_dilated, _copied):
            try:
                form = form_of(graph, _section(graph, split))
            except _NotExactError:
                continue
            nodes = [
                new for node in graph.nodes for new in form.replacements.get(id(node), (node,))
            ]
            graph = replace(graph, tensors=tuple(form.tensors), nodes=tuple(nodes))
            break
    return graph


def _section(graph: TfliteGraph, split: TfliteNode) -> _Section:
    """Return the nodes that read what an operator writes to the batch, up to the other operator.

    Raises _NotExactError where the section writes a result of the graph, or reads other batches.
    """
    tensors, inner, joins = set(split.outputs), [], []
    if len(tensors) != 1:
        raise _NotExactError
    for node in graph.nodes:
        if tensors.isdisjoint(node.inputs):
            continue
        if node.kind == JOIN:
            if node.inputs[0] not in tensors or not tensors.isdisjoint(node.inputs[1:]):
                raise _NotExactError
            joins.append(node)
        else:
            inner.append(node)
            tensors.update(node.outputs)
    if not joins or not tensors.isdisjoint(graph.outputs):
        raise _NotExactError
    return _Section(split=split, inner=tuple(inner), joins=tuple(joins), tensors=frozenset(tensors))


def _blocks_of(graph: TfliteGraph, node: TfliteNode) -> _Blocks:
    """Return the constant blocks of a node. Raises _NotExactError where the frame computes them."""
    if len(node.inputs) < 3 or min(node.inputs) < 0:
        raise UnreadableFile(f"{node}: {len(node.inputs)} inputs; expected 3")
    source, *constants = (graph.tensors[number] for number in node.inputs[:3])
    if not all(tensor.is_constant for tensor in constants):
        raise _NotExactError
    if not all(tensor.array().dtype.kind == "i" for tensor in constants):
        raise UnreadableFile(f"{node}: blocks and ends that are no integers")
    sizes, flat = (tuple(map(int, tensor.array().reshape(-1))) for tensor in constants)
    result = graph.tensors[node.outputs[0]].dims
    map_dims, phase_dims = (source.dims, result) if node.kind == SPLIT else (result, source.dims)
    phase_count = len(node.outputs) if node.kind == SPLIT else len(node.inputs) - 2
    ends, count = tuple(zip(flat[::2], flat[1::2], strict=False)), len(sizes)
    is_fitting = (
        0 < count < len(map_dims) == len(phase_dims)
        and len(flat) == 2 * count
        and min(sizes) >= 1
        and 0 <= min(flat) <= max(flat) <= LONGEST
        and map_dims[0] * prod(sizes) == phase_dims[0] * phase_count
        and map_dims[1 + count :] == phase_dims[1 + count :]
        and all(
            length + sum(end) == size * phase_length
            for length, end, size, phase_length in zip(
                map_dims[1:], ends, sizes, phase_dims[1:], strict=False
            )
        )
    )
    if not is_fitting:
        raise UnreadableFile(
            f"{node}: blocks of {sizes} and ends of {ends} between {source.dims} and {result}"
        )
    return _Blocks(sizes=sizes, ends=ends)


def _dilated(graph: TfliteGraph, section: _Section) -> _Form:
    """Return the section over the whole map, with dilated convolutions.

    Phase i of blocks of B pixels has the pixels k * B + i, so a kernel over neighbours in a phase is a
    kernel over each B-th pixel of the map.
    """
    split, joins = section.split, section.joins
    blocks = _blocks_of(graph, split)
    crops = {_blocks_of(graph, join) for join in joins}
    convolutions = [node for node in section.inner if node.kind in CONVOLUTIONS]
    is_plain = len(crops) == 1 and graph.tensors[split.inputs[0]].dims[0] == 1
    if not is_plain or not convolutions:
        raise _NotExactError
    crop = crops.pop()
    if crop.sizes != blocks.sizes:
        raise _NotExactError
    axes = _axes_of_blocks(graph, section, blocks)
    # Pixels that the section does not compute, because its end crops them; the end crops the others.
    left_out = _ends_cropped_first(graph, section, blocks.ends, crop.ends)
    tensors = list(graph.tensors)
    for number, axes_of_blocks in axes.items():
        dims = [1, *graph.tensors[number].dims[1:]]
        for axis, size, ends in zip(axes_of_blocks, blocks.sizes, left_out, strict=True):
            dims[axis] = dims[axis] * size - sum(ends)
        tensors[number] = replace(tensors[number], dims=tuple(dims))
    nodes: dict[int, Sequence[TfliteNode]] = {}
    nodes[id(split)] = _with_ends(tensors, split, _differences(blocks.ends, left_out))
    for join in joins:
        nodes[id(join)] = _with_ends(tensors, join, _differences(left_out, crop.ends))
    for node in convolutions:
        size_of_axis = dict(zip(axes[node.inputs[0]], blocks.sizes, strict=True))
        dilation = (size_of_axis.get(1, 1), size_of_axis.get(2, 1))  # of rows and columns
        nodes[id(node)] = [replace(node, dilation=dilation)]
    return _Form(tensors, nodes)


def _ends_cropped_first(graph: TfliteGraph, section: _Section, padding: Ends, crops: Ends) -> Ends:
    """Return the crops where the section may run without the cropped pixels, else crops of nothing.

    Crops before the section reduce its padding, unless a kernel pads by itself, or no pixel is left.
    """
    pads_itself = any(
        node.options and node.options.integer(PADDING, "b") == SAME
        for node in section.inner
        if node.kind in CONVOLUTIONS
    )
    lengths = graph.tensors[section.split.inputs[0]].dims[1:]
    leaves_nothing = any(
        length <= max(first - before, 0) + max(last - after, 0)
        for length, (before, after), (first, last) in zip(lengths, padding, crops, strict=False)
    )
    return [(0, 0) for _ in crops] if pads_itself or leaves_nothing else crops


def _differences(minuends: Ends, subtrahends: Ends) -> Ends:
    """The elements before and after each axis of the first ends less those of the second."""
    pairs = zip(minuends, subtrahends, strict=True)
    return [(before - first, after - last) for (before, after), (first, last) in pairs]


def _axes_of_blocks(
    graph: TfliteGraph, section: _Section, blocks: _Blocks
) -> dict[int, tuple[int, ...]]:
    """Return the axis of each block in each tensor of the section.

    Raises _NotExactError for an operator that does not compute each pixel, or each window, alone:
    one that broadcasts along an axis of blocks, or whose constants differ along such an axis.
    """
    first = tuple(range(1, 1 + len(blocks.sizes)))
    axes = {section.split.outputs[0]: first}
    for node in section.inner:
        inside = [number for number in node.inputs if number in axes]
        positions = axes[inside[0]]
        outside = [
            graph.tensors[number] for number in node.inputs if number >= 0 and number not in axes
        ]
        is_plain = len(node.outputs) == 1 and all(tensor.is_constant for tensor in outside)
        is_alone = node.kind in POINTWISE or inside == [node.inputs[0]]
        if not (is_plain and is_alone) or any(axes[number] != positions for number in inside):
            raise _NotExactError
        if node.kind in RESHAPES:
            positions = _reshaped_axes(graph, node, positions)
        elif node.kind in CONVOLUTIONS:
            _require_stride_of_one(graph, node)
        elif node.kind in POINTWISE:
            _require_like_sizes(graph, inside, positions, outside)
        else:
            raise _NotExactError
        if max(positions) >= len(graph.tensors[node.outputs[0]].dims):
            raise _NotExactError
        axes[node.outputs[0]] = positions
    if any(axes.get(join.inputs[0]) != first for join in section.joins):
        raise _NotExactError
    return axes


def _require_like_sizes(
    graph: TfliteGraph, inside: list[int], positions: tuple[int, ...], constants: list[Tensor]
) -> None:
    """Raise _NotExactError for tensors that a function of single elements broadcasts over pixels.

    Constants may differ along the last axis where it is no axis of blocks.
    """
    sizes = {
        (len(dims), *(dims[axis] for axis in positions))
        for dims in (graph.tensors[number].dims for number in inside)
    }
    last = len(graph.tensors[inside[0]].dims) - 1
    fixed = (constant.dims if last in positions else constant.dims[:-1] for constant in constants)
    if len(sizes) > 1 or any(prod(dims) > 1 for dims in fixed):
        raise _NotExactError


def _require_stride_of_one(graph: TfliteGraph, node: TfliteNode) -> None:
    """Raise _NotExactError for strides, and for an input that each phase quantises by its range."""
    operands = node.inputs[:2]
    if len(operands) < 2 or min(operands) < 0:
        raise _NotExactError
    source, weights = (graph.tensors[number] for number in operands)
    is_hybrid = source.quantization() is None and weights.quantization() is not None
    strides = () if node.options is None else tuple(node.options.integer(f, "i") for f in (1, 2))
    if is_hybrid or strides != (1, 1) or len(source.dims) != 4:
        raise _NotExactError


def _reshaped_axes(
    graph: TfliteGraph, node: TfliteNode, positions: tuple[int, ...]
) -> tuple[int, ...]:
    """Return the axes of blocks after a reshape that only adds or drops axes of one element."""
    before, after = (graph.tensors[number].dims for number in (node.inputs[0], node.outputs[0]))
    wide_before, wide_after = (
        [axis for axis in range(1, len(dims)) if dims[axis] > 1] for dims in (before, after)
    )
    sizes_before = [before[axis] for axis in wide_before]
    is_alike = sizes_before == [after[axis] for axis in wide_after] and before[:1] == after[:1]
    if not is_alike or not set(positions) <= set(wide_before):
        raise _NotExactError
    return tuple(wide_after[wide_before.index(axis)] for axis in positions)


def _with_ends(tensors: list[Tensor], node: TfliteNode, ends: Ends) -> list[TfliteNode]:
    """Return nodes that crop axes by their negative ends, and pad them by their positive ends.

    ends: of the axes after the batch.
    """
    source, output = node.inputs[0], node.outputs[0]
    dims = list(tensors[source].dims)
    rest = len(dims) - 1 - len(ends)
    cropped = [(max(-before, 0), max(-after, 0)) for before, after in ends]
    added = [(max(before, 0), max(after, 0)) for before, after in ends]
    is_padded = any(map(any, added))
    nodes = []
    if any(map(any, cropped)):
        begins = [0, *(before for before, _ in cropped), *[0] * rest]
        for axis, lost in enumerate(cropped, 1):
            dims[axis] -= sum(lost)
        result = output
        if is_padded:  # the result of the crop is a new tensor, which the padding reads
            result = len(tensors)
            tensors.append(replace(tensors[source], dims=tuple(dims)))
        operands = (source, _integers(tensors, begins), _integers(tensors, dims))
        nodes.append(node.instead("SLICE", operands, result))
        source = result
    if is_padded:
        padding = [(0, 0), *added, *[(0, 0)] * rest]
        nodes.append(node.instead("PAD", (source, _integers(tensors, padding)), output))
    return nodes or [node.instead("RESHAPE", (source,), output)]


def _copied(graph: TfliteGraph, section: _Section) -> _Form:
    """Return the section with copies of its operators, one for each phase.

    The first operator then has an output for each phase, and the last reads them after its constants.
    """
    split, joins = section.split, section.joins
    _blocks_of(graph, split)
    phases = graph.tensors[split.outputs[0]].dims[0]
    is_frame = graph.tensors[split.inputs[0]].dims[0] == 1
    is_closed = is_frame and all(
        number in section.tensors or number < 0 or graph.tensors[number].is_constant
        for node in section.inner
        for number in node.inputs
    )
    has_phases = all(graph.tensors[number].dims[:1] == (phases,) for number in section.tensors)
    kinds = {node.kind for node in section.inner}
    is_small = phases * len(section.inner) <= MOST_COPIES
    if not (is_closed and has_phases and is_small and kinds and kinds <= IN_EACH_PHASE):
        raise _NotExactError
    tensors, copies = list(graph.tensors), []
    for phase in range(phases):
        copies.append(dict[int, int]())
        for number in sorted(section.tensors):
            tensor = graph.tensors[number]
            name, dims = f"{tensor.name or number} phase {phase}", (1, *tensor.dims[1:])
            copies[phase][number] = len(tensors)
            tensors.append(replace(tensor, name=name, dims=dims))
    nodes: dict[int, Sequence[TfliteNode]] = {
        id(node): [_renumbered(node, copy) for copy in copies] for node in section.inner
    }
    outputs = tuple(copy[split.outputs[0]] for copy in copies)
    nodes[id(split)] = [replace(split, outputs=outputs)]
    for join in joins:
        first, *further_inputs = (copy[join.inputs[0]] for copy in copies)
        nodes[id(join)] = [replace(join, inputs=(first, *join.inputs[1:], *further_inputs))]
    return _Form(tensors, nodes)


def _renumbered(node: TfliteNode, numbers: Mapping[int, int]) -> TfliteNode:
    return replace(
        node,
        inputs=tuple(numbers.get(number, number) for number in node.inputs),
        outputs=tuple(numbers[number] for number in node.outputs),
    )


def _integers(tensors: list[Tensor], values: Sequence[object]) -> int:
    """Add a constant of whole numbers; return its number."""
    array = np.array(values, "<i4")
    constant = Tensor(
        name="",
        dims=array.shape,
        element=Element.INT32,
        scales=np.zeros(0, np.float32),
        zero_points=np.zeros(0, np.int64),
        axis=0,
        data=np.frombuffer(array.tobytes(), np.uint8),
        buffer=len(tensors),
        is_variable=False,
        width=array.itemsize,
    )
    tensors.append(constant)
    return len(tensors) - 1


def space_to_batch(node: TfliteNode, assembly: TfliteAssembly) -> None:
    """Add phases of pixels as a batch, or as a tensor for each phase."""
    blocks, dims = _constant_blocks(node, assembly), assembly.tensor(node, 0).dims
    is_map, count = assembly.is_map(node.inputs[0]), len(blocks.sizes)
    axes, source = layer_axes(dims, is_map=is_map), assembly.source_as_stored(node, 0)
    axes_of_blocks = [axes.index(axis) for axis in range(1, 1 + count)]
    if any(map(any, blocks.ends)):
        ends = [(0, 0) for _ in axes]
        for axis, end in zip(axes_of_blocks, blocks.ends, strict=True):
            ends[axis] = end
        steps = op.padding_steps(assembly.builder.shape(source).dims, ends)
        source = assembly.add_moves(node, source, *steps)
    if len(node.outputs) > 1:
        # An output for each phase: each size-th row and column from the phase on.
        padded = assembly.builder.shape(source).dims
        for phase, starts in enumerate(np.ndindex(blocks.sizes)):
            slices: list[op.Operator] = [
                op.Slice(axis=axis, start=start, stop=padded[axis], step=size)
                for axis, start, size in zip(axes_of_blocks, starts, blocks.sizes, strict=True)
                if size > 1
            ]
            assembly.add(node, *slices, sources=[source], output=phase, has_node_axes=False)
        return
    if is_map:
        source = assembly.add_moves(node, source, op.Transpose(permutation=TO_MATRIX))
    # From batch x (blocks x phase of each axis) x rest to phases x batch x blocks x rest.
    divided = [dims[0]]
    for length, end, size in zip(dims[1:], blocks.ends, blocks.sizes, strict=False):
        divided += [(length + sum(end)) // size, size]
    blocks_at, phases_at = range(1, 1 + 2 * count, 2), range(2, 2 + 2 * count, 2)
    rest_at = range(1 + 2 * count, len(dims) + count)
    moves = [
        op.Reshape(dims=(*divided, *dims[1 + count :])),
        op.Transpose(permutation=(*phases_at, 0, *blocks_at, *rest_at)),
    ]
    assembly.add(node, *moves, *to_output(node, assembly), sources=[source], has_node_axes=False)


def batch_to_space(node: TfliteNode, assembly: TfliteAssembly) -> None:
    """Add a map from its phases, which are a batch or a tensor each."""
    blocks, dims = _constant_blocks(node, assembly), assembly.tensor(node, 0).dims
    source, count = assembly.source_in_file_axes(node, 0), len(blocks.sizes)
    pieces = [0, *range(3, len(node.inputs))]
    if len(pieces) > 1:
        layer, wide = assembly.builder.layer(source), op.Reshape(dims=dims)
        written = [assembly.source_in_file_axes(node, index) for index in pieces]
        source = assembly.builder.add(
            op.Concatenation(axis=0),
            *(assembly.add_moves(node, piece, wide) for piece in written),
            name=f"{assembly.output(node).name} phases",
            element=layer.element,
            quantization=layer.quantization,
        )
    batch = len(pieces) * dims[0] // prod(blocks.sizes)
    # From phases x batch x blocks x rest to batch x (blocks x phase of each axis) x rest.
    order = [count]
    for axis in range(count):
        order += [count + 1 + axis, axis]
    order += range(2 * count + 1, len(dims) + count)
    whole = [length * size for length, size in zip(dims[1:], blocks.sizes, strict=False)]
    slices = [
        op.Slice(axis=axis, start=before, stop=length - after)
        for axis, (length, (before, after)) in enumerate(zip(whole, blocks.ends, strict=True), 1)
        if before or after
    ]
    moves = [
        op.Reshape(dims=(*blocks.sizes, batch, *dims[1:])),
        op.Transpose(permutation=tuple(order)),
        op.Reshape(dims=(batch, *whole, *dims[1 + count :])),
        *slices,
    ]
    assembly.add(node, *moves, *to_output(node, assembly), sources=[source], has_node_axes=False)


def _constant_blocks(node: TfliteNode, assembly: TfliteAssembly) -> _Blocks:
    try:
        return _blocks_of(assembly.graph, node)
    except _NotExactError:
        raise refusal(node, "its blocks are computed from the frame") from None


CONVERTERS: Mapping[str, Converter] = {JOIN: batch_to_space, SPLIT: space_to_batch}

"""Sizes of all tensors of a TensorFlow Lite graph after its inputs have other sizes.

A converter writes a size of one for a dim that it leaves open, and lists the open dims in the signature
of the shape. Runtimes infer the other tensors from the inputs, node by node; so does this module. The
dims of a node's outputs are the shapes of its results if it computes constants, else they follow from
its rule in `RULES`, else from the layers that its converter would add.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from math import prod

import numpy as np

from cnn2csdf.operators import Operator
from cnn2csdf.readers.tflite.assembly import Converter, TfliteAssembly, dims_after, quantization_of
from cnn2csdf.readers.tflite.folding import (
    ELEMENT_LIMIT,
    FOLDING_RULES,
    Array,
    Operands,
    constant_of,
    evaluated,
    is_foldable,
)
from cnn2csdf.readers.tflite.model_file import Dims, Tensor, TfliteGraph, TfliteNode
from cnn2csdf.readers.tflite.options import options_of
from cnn2csdf.readers.usual_sizes import IMAGES, LENGTHS
from csdf.errors import InvalidNetwork, UnreadableFile, UnsupportedOperator

IMAGE_AXES = 4
COLOURS = 3
MOST_ELEMENTS = 2**31 - 1


Sizes = Sequence[int | None]


class OpenDims(UnreadableFile):
    """The refusal of images whose height or width is open. sizes: of inputs with open dims."""

    def __init__(self, message: str, sizes: Mapping[str, Sizes]) -> None:
        super().__init__(message)
        self.sizes = sizes


@dataclass(frozen=True, kw_only=True)
class _Inputs:
    """A node and its tensors, without the inputs that are left out."""

    graph: TfliteGraph
    node: TfliteNode
    inputs: Sequence[Tensor]
    outputs: Sequence[Tensor]  # with the dims of the file

    @cached_property
    def dims(self) -> list[Dims]:
        """The dims of the inputs."""
        return [tensor.dims for tensor in self.inputs]

    @cached_property
    def arrays(self) -> list[Array | None]:
        """The inputs that are constants; None: others."""
        return [tensor.array() if tensor.is_constant else None for tensor in self.inputs]

    def integers(self, index: int) -> tuple[int, ...]:
        """Return a constant input. Raises UnreadableFile where the frame computes it."""
        array = self.arrays[index] if index < len(self.arrays) else None
        if array is None:
            raise UnreadableFile(f"{self.node}: the size of its output depends on the frame")
        return tuple(map(int, array.reshape(-1)))

    def option(self, field: int, form: str = "i") -> int:
        """Return a whole number among the options."""
        return options_of(self.node).integer(field, form)


Infer = Callable[[_Inputs], Sequence[Dims]]


def resized(
    graph: TfliteGraph, shapes: Mapping[str, Dims], converters: Mapping[str, Converter]
) -> TfliteGraph:
    """Return the graph for inputs of these dims, by name, with the batch in front.

    Raises OpenDims for images without a size, UnreadableFile for dims that the graph does not take.
    """
    names = {graph.tensors[number].name: number for number in graph.inputs}
    for name, dims in shapes.items():
        if name not in names:
            listed = ", ".join(map(repr, names)) or "none"
            raise UnreadableFile(f"there is no input {name!r} to give a shape; inputs: {listed}")
        rank = len(graph.tensors[names[name]].dims)
        if len(dims) != rank:
            raise UnreadableFile(
                f"input {name!r} has {rank} dims, the shape given for it {len(dims)}"
            )
        if prod(dims) > MOST_ELEMENTS:
            raise UnreadableFile(
                f"input {name!r} of {prod(dims)} elements; expected at most {MOST_ELEMENTS}"
            )
    _require_sizes(graph, shapes)
    if not shapes:
        return graph
    tensors = list(graph.tensors)
    for name, dims in shapes.items():
        tensors[names[name]] = replace(tensors[names[name]], dims=dims)
    return replace(graph, tensors=tuple(_inferred(graph, tensors, converters)))


def _require_sizes(graph: TfliteGraph, shapes: Mapping[str, Dims]) -> None:
    """Raise OpenDims for all images with an open height or width that no shape fixes."""
    sizes = open_sizes(graph, shapes)
    # A sequence of frames of other than three channels may well have a single frame.
    images = [
        dims
        for dims in sizes.values()
        if len(dims) == IMAGE_AXES and (dims[1:3] == [None, None] or dims[3] in (None, COLOURS))
    ]
    if images:
        clauses = [
            f"input {name!r} of shape {_text(dims, '?' * len(dims))}: "
            f"dims {', '.join(str(axis) for axis, size in enumerate(dims) if size is None)} are open"
            for name, dims in sizes.items()
        ]
        raise OpenDims(f"{'; '.join(clauses)}{words_about(sizes)}", sizes)


def open_sizes(graph: TfliteGraph, shapes: Mapping[str, Dims]) -> dict[str, Sizes]:
    """Return the sizes of inputs that have a size of one for open dims, and no shape; None: open."""
    sizes: dict[str, Sizes] = {}
    for number in graph.inputs:
        tensor = graph.tensors[number]
        first = 1 if len(tensor.dims) > 1 else 0  # a batch that is left open is one
        axes = [axis for axis in tensor.open_axes if axis >= first and tensor.dims[axis] == 1]
        if axes and tensor.name not in shapes:
            dims = enumerate(tensor.dims)
            sizes[tensor.name] = [None if axis in axes else size for axis, size in dims]
    return sizes


def words_about(sizes: Mapping[str, Sizes]) -> str:
    """Return a clause with words that fix open dims; empty where there are none."""
    words = [
        f"--shape {name}={_text(dims, 'NHWC' if len(dims) == IMAGE_AXES else 'N' * len(dims))}"
        for name, dims in sizes.items()
    ]
    return f"; give sizes, as in {' '.join(words)}" if words else ""


def _text(dims: Sizes, letters: str) -> str:
    pairs = zip(dims, letters, strict=True)
    return "x".join(letter if size is None else str(size) for size, letter in pairs)


def usual_shapes(sizes: Mapping[str, Sizes]) -> Iterator[dict[str, Dims]]:
    """Yield usual sizes of all inputs with open dims."""
    for (height, width), length in zip(IMAGES, LENGTHS, strict=True):
        shapes = {}
        for name, dims in sizes.items():
            is_image = len(dims) == IMAGE_AXES
            usual = (1, height, width, COLOURS) if is_image else (length,) * len(dims)
            shapes[name] = tuple(
                usual_size if size is None else size
                for size, usual_size in zip(dims, usual, strict=True)
            )
        yield shapes


def _inferred(
    graph: TfliteGraph, tensors: list[Tensor], converters: Mapping[str, Converter]
) -> list[Tensor]:
    """Return the tensors with the dims that follow from those of the inputs."""
    values = list(tensors)  # with the constants that shapes are computed by
    for node in graph.nodes:
        if node.kind in FOLDING_RULES and is_foldable(graph, node, values):
            results = evaluated(node, values)
            if results is not None:
                for number, result in zip(node.outputs, results, strict=True):
                    tensors[number] = replace(tensors[number], dims=np.shape(result))
                    values[number] = constant_of(values[number], result, number)
                continue
        inputs = [number for number in node.inputs if number >= 0]
        is_resized = any(graph.tensors[n].dims != values[n].dims for n in inputs)
        if not is_resized or not node.outputs:
            continue
        infer = RULES.get(node.kind)
        if infer is None and node.kind in converters:
            infer = partial(_by_operator, convert=converters[node.kind])
        if infer is None:
            raise UnsupportedOperator(f"{node}: its sizes do not follow from other sizes of inputs")
        operands = _Inputs(
            graph=graph,
            node=node,
            inputs=[values[number] for number in inputs],
            outputs=[tensors[number] for number in node.outputs],
        )
        for number, dims in zip(node.outputs, _dims_of(infer, operands), strict=True):
            tensors[number] = replace(tensors[number], dims=dims)
            values[number] = replace(values[number], dims=dims)
    return tensors


def _dims_of(infer: Infer, operands: _Inputs) -> list[Dims]:
    """Return the dims of the outputs of a node. Raises UnreadableFile where sizes do not fit."""
    node, listed = operands.node, ", ".join("x".join(map(str, dims)) for dims in operands.dims)
    try:
        results = [tuple(map(int, dims)) for dims in infer(operands)]
    except (ValueError, IndexError, TypeError, ZeroDivisionError) as error:
        raise UnreadableFile(f"{node}: tensors of {listed} do not fit: {error}") from None
    if len(results) != len(node.outputs):
        raise UnreadableFile(f"{node}: {len(node.outputs)} outputs, expected {len(results)}")
    for dims in results:
        if min(dims, default=1) < 1 or prod(dims) > MOST_ELEMENTS:
            shown = "x".join(map(str, dims))
            raise UnreadableFile(f"{node}: tensors of {listed} give an output of {shown}")
    return results


class _DimsOfNode(TfliteAssembly):
    """The dims of the outputs of one node, as its layers compute them."""

    def __init__(self, graph: TfliteGraph) -> None:
        super().__init__(graph, "dims of one node")
        self.dims: dict[int, Dims] = {}
        for number in graph.inputs:
            types = quantization_of(graph.tensors[number])
            dims = self.frame_dims(number)
            self._layers[number] = self.builder.input(dims, str(number), quantization=types)

    def add(
        self,
        node: TfliteNode,
        *steps: Operator,
        sources: Sequence[str] | None = None,
        output: int = 0,
        dims: Dims | None = None,
        **_: object,
    ) -> None:
        """Record the dims after these layers, with the axes of the file and a batch of one."""
        names = [self.source(node, 0)] if sources is None else sources
        shapes, rank = list(map(self.builder.shape, names)), len(self.output(node, output).dims)
        computed = dims or dims_after(steps, shapes)
        if len(computed) == 3 and rank == IMAGE_AXES and self.works_on_maps(node):
            computed = (*computed[1:], computed[0])
        while len(computed) > rank and computed[0] == 1:
            computed = computed[1:]
        self.dims[output] = (*(1,) * (rank - len(computed)), *computed)


def _dims_of_rank(rank: int, operands: _Inputs) -> Dims:
    """Return dims for a result of which only the rank is known: zeros, which no layer can depend on.

    The first dim is not zero: whether it is one decides whether layers leave out that axis.
    """
    first = max((dims[0] for dims in operands.dims if len(dims) == rank > 0), default=1)
    return (1 if rank == IMAGE_AXES else first, *(0,) * (rank - 1))[:rank]


def _by_operator(operands: _Inputs, convert: Converter) -> Sequence[Dims]:
    """Return the dims of the layers of a node: of a graph of this node, for one image of the batch.

    The file says nothing of the outputs here: a node whose layers depend on their dims is refused, and
    has a rule among RULES.
    """
    batch, inputs = 1, []
    for tensor in operands.inputs:
        if len(tensor.dims) == IMAGE_AXES and not tensor.is_constant:
            batch = max(batch, tensor.dims[0])
            tensor = replace(tensor, dims=(1, *tensor.dims[1:]))
        inputs.append(tensor)
    outputs = [
        replace(tensor, dims=_dims_of_rank(len(tensor.dims), operands))
        for tensor in operands.outputs
    ]
    numbers = iter(range(len(inputs)))
    node = replace(
        operands.node,
        inputs=tuple(-1 if number < 0 else next(numbers) for number in operands.node.inputs),
        outputs=tuple(range(len(inputs), len(inputs) + len(outputs))),
    )
    graph = replace(
        operands.graph,
        tensors=(*inputs, *outputs),
        nodes=(node,),
        inputs=tuple(
            number
            for number, tensor in enumerate(inputs)
            if not (tensor.is_constant or tensor.is_variable)
        ),
        outputs=node.outputs,
    )
    assembly = _DimsOfNode(graph)
    try:
        convert(node, assembly)
    except InvalidNetwork as error:
        raise ValueError(str(error)) from None
    results = [dims for _, dims in sorted(assembly.dims.items())]
    return [(batch, *dims[1:]) if len(dims) == IMAGE_AXES else dims for dims in results]


def _by_evaluation(operands: _Inputs) -> Sequence[Dims]:
    """Return the dims that the evaluator of constants gives for arrays of ones."""
    if sum(map(prod, operands.dims)) > ELEMENT_LIMIT:
        raise ValueError(f"more than {ELEMENT_LIMIT} elements")
    single = np.ones((), np.int8)
    arrays = [
        np.broadcast_to(single, dims) if array is None else array
        for dims, array in zip(operands.dims, operands.arrays, strict=True)
    ]
    tensors = [replace(operands.outputs[0], dims=dims, scales=NO_SCALES) for dims in operands.dims]
    node = operands.node
    evaluate = FOLDING_RULES[node.kind].evaluate
    return [np.shape(a) for a in evaluate(Operands(node=node, tensors=tensors, arrays=arrays))]


def _fully_connected(operands: _Inputs) -> Sequence[Dims]:
    units, columns = operands.dims[1]
    if operands.node.options is not None and operands.option(2, "b"):
        return [(*operands.dims[0][:-1], units)]
    return [(prod(operands.dims[0]) // columns, units)]


def _matrix_product(operands: _Inputs) -> Sequence[Dims]:
    (*first_batch, rows, inner), (*second_batch, depth, columns) = operands.dims
    if operands.option(0, "b"):
        rows, inner = inner, rows
    if operands.option(1, "b"):
        depth, columns = columns, depth
    if inner != depth:
        raise ValueError(f"{inner} columns and {depth} rows")
    return [(*np.broadcast_shapes(tuple(first_batch), tuple(second_batch)), rows, columns)]


def _batches(operands: _Inputs, *, is_split: bool) -> Sequence[Dims]:
    sizes, ends = operands.integers(1), operands.integers(2)
    batch, *dims = operands.dims[0]
    for axis, (size, before, after) in enumerate(zip(sizes, ends[::2], ends[1::2], strict=True)):
        if not is_split:
            dims[axis] = dims[axis] * size - before - after
            continue
        padded = dims[axis] + before + after
        if padded % size:
            raise ValueError(f"{padded} pixels are no blocks of {size}")
        dims[axis] = padded // size
    count = prod(sizes)
    return [(batch * count if is_split else batch // count, *dims)]


def _without_axis(operands: _Inputs) -> Sequence[Dims]:
    dims, (axis,) = operands.dims[0], operands.integers(1)
    if not -len(dims) <= axis < len(dims):
        raise ValueError(f"axis {axis}")
    axis %= len(dims)
    return [(*dims[:axis], *dims[axis + 1 :])]


def _pieces(operands: _Inputs) -> Sequence[Dims]:
    dims, sizes, (axis,) = operands.dims[0], operands.integers(1), operands.integers(2)
    rest = dims[axis] - sum(size for size in sizes if size >= 0)
    lengths = [rest if size < 0 else size for size in sizes]
    axis %= len(dims)
    return [(*dims[:axis], length, *dims[axis + 1 :]) for length in lengths]


NO_SCALES = np.zeros(0, np.float32)
EVALUATED = (
    "BROADCAST_TO", "CONCATENATION", "EXPAND_DIMS", "GATHER", "GATHER_ND", "MEAN", "PACK", "PAD",
    "PADV2", "REDUCE_ALL", "REDUCE_ANY", "REDUCE_MAX", "REDUCE_MIN", "RESHAPE", "SLICE", "SPLIT",
    "SQUEEZE", "STRIDED_SLICE", "SUM", "TILE", "TRANSPOSE", "UNPACK",
)  # fmt: skip
RULES: Mapping[str, Infer] = {
    **dict.fromkeys(EVALUATED, _by_evaluation),
    "ARG_MAX": _without_axis,
    "ARG_MIN": _without_axis,
    "BATCH_MATMUL": _matrix_product,
    "BATCH_TO_SPACE_ND": partial(_batches, is_split=False),
    "FULLY_CONNECTED": _fully_connected,
    "SPACE_TO_BATCH_ND": partial(_batches, is_split=True),
    "SPLIT_V": _pieces,
    "TRANSPOSE_CONV": lambda operands: [operands.integers(0)],
}

"""Constant folding of a TensorFlow Lite graph: nodes that depend on constants and static shapes alone.

Converters write shapes as arithmetic (SHAPE, STRIDED_SLICE, PACK, FILL ...), and weights of two bytes
before DEQUANTIZE. Each of these nodes is evaluated once, here, and its outputs become constants of
the graph.

`FOLDING_RULES` has a rule for each kind of node. Its pattern is the kind, its condition `is_foldable`,
its replacement the arrays that it evaluates. The worked example of a rule lists the constants that the
node reads, its options by the number of their field, and its outputs. For GATHER along axis 0:

    [5, 6, 7], [2, 0], {0: 0} -> [7, 5]
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cnn2csdf.arrays import are_halves
from cnn2csdf.dtypes import Element
from cnn2csdf.readers.tflite.model_file import Record, Tensor, TfliteGraph, TfliteNode
from csdf.errors import UnreadableFile

Array = NDArray[Any]

# Elements of all folded constants together: 512 MB in single precision. A damaged file asks for
# more; the largest file tried, of 26 MB, has 12 million.
ELEMENT_LIMIT = 2**27
FLOATS = {Element.FLOAT16, Element.FLOAT32, Element.FLOAT64}
WITH_STATIC_SHAPE = ("SHAPE", "RANK", "ZEROS_LIKE")  # only the dims of the input count
# Least and largest result by ActivationFunctionType; a TANH is not folded.
FUSED_LIMITS = {1: (0, None), 2: (-1, 1), 3: (0, 6)}


class _NotFolded(Exception):
    """The node has a form that is not evaluated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Operands:
    """Inputs of a node that is evaluated: the tensors, and their elements as stored."""

    node: TfliteNode
    tensors: Sequence[Tensor]
    arrays: Sequence[Array]

    @property
    def options(self) -> Record:
        """Return the options. Raises UnreadableFile where there are none."""
        if self.node.options is None:
            raise UnreadableFile(f"{self.node} has no options")
        return self.node.options

    def integer(self, field: int, form: str = "i") -> int:
        """Return a whole number among the options."""
        return self.options.integer(field, form)

    def integers(self, index: int) -> list[int]:
        """Return an input as whole numbers."""
        return [int(element) for element in self.arrays[index].reshape(-1)]

    @property
    def is_quantized(self) -> bool:
        """Whether the first input stands for real numbers by a scale."""
        return self.tensors[0].quantization() is not None


Evaluate = Callable[[Operands], Sequence[Array]]


class FoldingRule(NamedTuple):
    """How the nodes of a kind are evaluated, with a worked example.

    `evaluate` raises ValueError if the operands do not fit the node.
    """

    example: str
    evaluate: Evaluate


def folded(graph: TfliteGraph) -> TfliteGraph:
    """Return the graph where nodes of constants are evaluated, without those nodes.

    Raises UnreadableFile for a node whose constants do not fit each other.
    """
    tensors, nodes = list(graph.tensors), []
    elements = 0
    for node in graph.nodes:
        results = None
        if node.kind in FOLDING_RULES and is_foldable(graph, node, tensors):
            results = evaluated(node, tensors)
        if results is None:
            nodes.append(node)
            continue
        elements += sum(map(np.size, results))
        if elements > ELEMENT_LIMIT:
            raise UnreadableFile(
                f"{node}: constants of {elements} elements, expected at most {ELEMENT_LIMIT}"
            )
        sources = [tensors[number] for number in node.inputs if number != -1]
        for number, result in zip(node.outputs, results, strict=True):
            # Constants of the file have the numbers of their buffers, which are not negative.
            constant = constant_of(tensors[number], result, -1 - number)
            tensors[number] = replace(constant, is_of_halves=_is_of_halves(constant, sources))
    return replace(graph, tensors=tuple(tensors), nodes=tuple(nodes))


def _is_of_halves(constant: Tensor, sources: Sequence[Tensor]) -> bool:
    """Whether numbers of a constant in single precision fit float16, and follow from float16 alone."""
    types = {Element.FLOAT16 if source.is_of_halves else source.element for source in sources}
    if constant.element is not Element.FLOAT32 or types & FLOATS != {Element.FLOAT16}:
        return False
    return are_halves(constant.array())


def is_foldable(graph: TfliteGraph, node: TfliteNode, tensors: Sequence[Tensor]) -> bool:
    """Whether a node depends on constants, or static shapes, alone.

    A node whose output is listed as an input of the graph is not folded: the caller sets that tensor.
    """
    if not set(graph.inputs).isdisjoint(node.outputs):
        return False
    if node.kind in WITH_STATIC_SHAPE:
        return True
    sources = [tensors[number] for number in node.inputs if number != -1]
    if not all(_is_constant(tensor) for tensor in sources):
        return False
    # LiteRT rescales the inputs of a concatenation to the scale of its output.
    numbers = (*node.inputs, *node.outputs)
    is_joined = node.kind == "CONCATENATION"
    return not is_joined or len({tensors[number].quantization() for number in numbers}) == 1


def _is_constant(tensor: Tensor) -> bool:
    return not tensor.is_variable and (tensor.is_constant or 0 in tensor.dims)


def evaluated(node: TfliteNode, tensors: Sequence[Tensor]) -> Sequence[Array] | None:
    """Return the outputs of a node of constants; None where the form is not evaluated."""
    sources = [tensors[number] for number in node.inputs if number != -1]
    has_elements = node.kind not in WITH_STATIC_SHAPE
    arrays = [_array_of(tensor) if has_elements else np.zeros(0) for tensor in sources]
    operands = Operands(node=node, tensors=sources, arrays=arrays)
    try:
        with np.errstate(all="ignore"):
            results = FOLDING_RULES[node.kind].evaluate(operands)
    except _NotFolded:
        return None
    except (ValueError, IndexError, OverflowError, TypeError) as error:
        raise UnreadableFile(f"{node}: its constants do not fit: {error}") from None
    if len(results) != len(node.outputs):
        raise UnreadableFile(f"{node}: {len(node.outputs)} outputs, expected {len(results)}")
    return results


def _array_of(tensor: Tensor) -> Array:
    if 0 in tensor.dims and tensor.element is not None:
        return np.zeros(tensor.dims, tensor.element.value)
    return tensor.array()


def constant_of(tensor: Tensor, value: Array, buffer: int) -> Tensor:
    """Return a tensor as a constant. buffer: a number for the array; equal numbers are shared."""
    if tensor.element is None:
        raise UnreadableFile(f"constant {tensor.name!r} is of a type that is not supported")
    dtype = np.dtype(tensor.element.value).newbyteorder("<")
    with np.errstate(all="ignore"):
        stored = np.ascontiguousarray(value, dtype)
        if dtype.kind in "iu" and value.dtype.kind == "f":  # saturated, as LiteRT casts
            limits = np.iinfo(dtype)
            stored = np.where(np.isnan(value), 0, stored)
            stored = np.where(value >= limits.max, limits.max, stored)
            stored = np.where(value <= limits.min, limits.min, stored).astype(dtype)
    data = np.frombuffer(stored.tobytes(), np.uint8)
    return replace(tensor, dims=tuple(np.shape(value)), data=data, buffer=buffer)


def _require_size(dims: Sequence[int]) -> None:
    if any(size < 0 for size in dims) or prod(dims) > ELEMENT_LIMIT:
        raise ValueError(f"a constant of {'x'.join(map(str, dims))} elements")


def _zeros(operands: Operands) -> Sequence[Array]:
    _require_size(operands.tensors[0].dims)
    return [np.zeros(operands.tensors[0].dims)]


def _activated(operands: Operands, field: int, value: Array) -> Array:
    """The value after the activation that this field of the options fuses into the node."""
    fused = 0 if operands.node.options is None else operands.integer(field, "b")
    if not fused:
        return value
    if fused not in FUSED_LIMITS or operands.is_quantized:
        raise _NotFolded
    clipped: Array = np.clip(value, *FUSED_LIMITS[fused])
    return clipped


def _of_real(function: Callable[..., Array], count: int, activation: int | None = None) -> Evaluate:
    """Return an evaluator of floating-point arithmetic; quantised operands are not folded.

    count: the number of operands. activation: the field of a fused activation.
    """

    def evaluate(operands: Operands) -> Sequence[Array]:
        if any(tensor.quantization() is not None for tensor in operands.tensors):
            raise _NotFolded
        if len(operands.arrays) != count:
            raise ValueError(f"{len(operands.arrays)} operands, expected {count}")
        _require_size(np.broadcast_shapes(*(array.shape for array in operands.arrays)))
        value = function(*operands.arrays)
        return [value if activation is None else _activated(operands, activation, value)]

    return evaluate


def _selected(operands: Operands) -> Sequence[Array]:
    """Elements of two arrays; a condition with one axis selects along the first axis."""
    condition, first, second = operands.arrays
    if condition.ndim == 1:
        condition = condition.reshape(-1, *(1 for _ in first.shape[1:]))
    return _of_real(np.where, 3)(replace(operands, arrays=(condition, first, second)))


def _strided_slice(operands: Operands) -> Sequence[Array]:
    # Masks with a bit for each of the slices that the file lists (readers.tflite.moves).
    begin_mask, end_mask, ellipsis, new_axis, shrink = map(operands.integer, range(5))
    has_offset = bool(operands.integer(5, "b"))  # ends count from begins
    index: list[Any] = []
    limits = zip(*(operands.integers(place) for place in (1, 2, 3)), strict=True)
    for axis, (begin, end, step) in enumerate(limits):
        bit = 1 << axis
        if ellipsis & bit:
            index.append(...)
        elif new_axis & bit:
            index.append(None)
        elif shrink & bit:
            index.append(0 if begin_mask & bit else begin)
        else:
            first = None if begin_mask & bit else begin
            if has_offset and min(first or 0, step) < 0:
                raise _NotFolded
            last = None if end_mask & bit else end + (first or 0) * has_offset
            index.append(slice(first, last, step))
    return [operands.arrays[0][tuple(index)]]


def _slice(operands: Operands) -> Sequence[Array]:
    (source, *_), begins, sizes = operands.arrays, operands.integers(1), operands.integers(2)
    spans = zip(begins, sizes, source.shape, strict=True)
    slices = (slice(first, end if size == -1 else first + size) for first, size, end in spans)
    return [source[tuple(slices)]]


def _reshaped(operands: Operands) -> Sequence[Array]:
    dims = operands.integers(1) if len(operands.arrays) > 1 else operands.options.integers(0)
    return [operands.arrays[0].reshape(dims)]


def _squeezed(operands: Operands) -> Sequence[Array]:
    axes = () if operands.node.options is None else operands.options.integers(0)
    return [np.squeeze(operands.arrays[0], axes or None)]


def _split(operands: Operands) -> Sequence[Array]:
    count, axis = len(operands.node.outputs), operands.integers(0)[0]
    return np.split(operands.arrays[1], count, axis)


def _gathered(operands: Operands) -> Sequence[Array]:
    if operands.integer(1):  # a list of positions for each batch
        raise _NotFolded
    (source, positions), axis = operands.arrays, operands.integer(0)
    _require_size((*source.shape[:axis], *positions.shape, *source.shape[axis:][1:]))
    return [np.take(source, positions, axis)]


def _filled(operands: Operands) -> Sequence[Array]:
    dims = operands.integers(0)
    _require_size(dims)
    return [np.full(dims, operands.arrays[1].reshape(()))]


def _tiled(operands: Operands) -> Sequence[Array]:
    source, times = operands.arrays[0], operands.integers(1)
    _require_size([size * count for size, count in zip(source.shape, times, strict=True)])
    return [np.tile(source, times)]


def _broadcast(operands: Operands) -> Sequence[Array]:
    dims = operands.integers(1)
    _require_size(dims)
    return [np.broadcast_to(operands.arrays[0], dims)]


def _broadcast_dims(operands: Operands) -> Sequence[Array]:
    shapes = [tuple(operands.integers(index)) for index in range(len(operands.arrays))]
    for dims in shapes:
        _require_size(dims)
    return [np.array(np.broadcast_shapes(*shapes))]


def _range(operands: Operands) -> Sequence[Array]:
    limits: list[Any] = [array.reshape(())[()] for array in operands.arrays]
    begin, end, step = limits
    if not step or not abs(float(end) - float(begin)) <= ELEMENT_LIMIT * abs(float(step)):
        raise ValueError(f"a range from {begin} to {end} by {step}")
    steps = np.full(len(np.arange(begin, end, step)), step)
    steps[:1] = begin
    # As LiteRT, which adds the step again and again and rounds each sum.
    return [np.add.accumulate(steps, dtype=steps.dtype)]


def _reduced(function: Callable[..., Array]) -> Evaluate:
    def evaluate(operands: Operands) -> Sequence[Array]:
        if operands.is_quantized:
            raise _NotFolded
        values, keeps = operands.arrays[0], bool(operands.integer(0, "b"))
        # An axis may be listed twice.
        axes = {axis + (axis < 0) * values.ndim for axis in operands.integers(1)}
        return [function(values, axis=tuple(axes), keepdims=keeps)]

    return evaluate


def _mean(values: Array, *, axis: tuple[int, ...], keepdims: bool) -> Array:
    """Return the mean; a mean of integers is the quotient of the sum, rounded towards zero."""
    if values.dtype.kind not in "iu":
        mean: Array = np.mean(values, axis, keepdims=keepdims)
        return mean
    total: Array = np.array(np.sum(values, axis, np.int64, keepdims=keepdims))
    return _divided(total, np.array(values.size // max(total.size, 1)))


def _padded(operands: Operands) -> Sequence[Array]:
    source, pairs = operands.arrays[0], operands.arrays[1].reshape(-1, 2).astype(int)
    types = operands.tensors[0].quantization()
    number: Any = 0 if types is None else types.zero_point
    if len(operands.arrays) > 2:
        number = operands.arrays[2].reshape(())[()]
    _require_size((np.array(source.shape) + pairs.sum(1)).tolist())
    return [np.pad(source, pairs, constant_values=number)]


def _real_numbers(operands: Operands) -> Sequence[Array]:
    """Return the numbers that a constant stands for, in single precision as DEQUANTIZE computes."""
    tensor, values = operands.tensors[0], operands.arrays[0]
    if tensor.element is None or not tensor.element.is_integer or not tensor.scales.size:
        return [values.astype(np.float32)]
    dims = [1] * values.ndim
    if tensor.scales.size > 1:
        dims[tensor.axis] = -1
    zeros = tensor.zero_points if tensor.zero_points.size else np.zeros(1, np.int64)
    centred = values.astype(np.int64) - zeros.reshape(dims if zeros.size > 1 else (1,))
    scales = tensor.scales.astype(np.float32)
    return [centred.astype(np.float32) * scales.reshape(dims if scales.size > 1 else (1,))]


def _divided(first: Array, second: Array) -> Array:
    if first.dtype.kind not in "iu":
        return np.divide(first, second)
    if not second.all():
        raise ValueError("a division by zero")
    signs = np.sign(first) * np.sign(second)
    # Towards zero, as C divides integers.
    quotient: Array = signs * (np.abs(first) // np.abs(second))
    return quotient


def _quotient(first: Array, second: Array) -> Array:
    if not second.all():
        raise ValueError("a division by zero")
    if first.dtype.kind in "iu":
        return np.floor_divide(first, second)
    return np.floor(np.divide(first, second, dtype=np.float64))


def _remainder(first: Array, second: Array) -> Array:
    if first.dtype.kind in "iu" and not second.all():
        raise ValueError("a division by zero")
    return np.mod(first, second)


FOLDING_RULES: Mapping[str, FoldingRule] = {
    "ABS": FoldingRule("[-1.5, 2.0] -> [1.5, 2.0]", _of_real(np.abs, 1)),
    "ADD": FoldingRule("[1.0, 2.0], [0.5, 0.5] -> [1.5, 2.5]", _of_real(np.add, 2, activation=0)),
    "BROADCAST_ARGS": FoldingRule("[1, 3], [2, 1] -> [2, 3]", _broadcast_dims),
    "BROADCAST_TO": FoldingRule("[4.0], [3] -> [4.0, 4.0, 4.0]", _broadcast),
    "CAST": FoldingRule("[2, 3] -> [2.0, 3.0]", lambda operands: [operands.arrays[0]]),
    "CEIL": FoldingRule("[0.5, -0.5] -> [1.0, -0.0]", _of_real(np.ceil, 1)),
    "CONCATENATION": FoldingRule(
        "[1], [2, 3], {0: 0} -> [1, 2, 3]",
        lambda operands: [
            _activated(operands, 1, np.concatenate(operands.arrays, operands.integer(0)))
        ],
    ),
    "COS": FoldingRule("[0.0] -> [1.0]", _of_real(np.cos, 1)),
    "DENSIFY": FoldingRule("[0, 7] -> [0, 7]", lambda operands: [operands.arrays[0]]),
    "DEQUANTIZE": FoldingRule("[3, 5] -> [3.0, 5.0]", _real_numbers),
    "DIV": FoldingRule("[7, -7], [2, 2] -> [3, -3]", _of_real(_divided, 2, activation=0)),
    "EQUAL": FoldingRule("[1, 2], [1, 3] -> [True, False]", _of_real(np.equal, 2)),
    "EXP": FoldingRule("[0.0] -> [1.0]", _of_real(np.exp, 1)),
    "EXPAND_DIMS": FoldingRule(
        "[5, 6], [1] -> [[5], [6]]",
        lambda operands: [np.expand_dims(operands.arrays[0], operands.integers(1)[0])],
    ),
    "FILL": FoldingRule("[3], [2.5] -> [2.5, 2.5, 2.5]", _filled),
    "FLOOR": FoldingRule("[0.5, -0.5] -> [0.0, -1.0]", _of_real(np.floor, 1)),
    "FLOOR_DIV": FoldingRule("[7, -7], [2, 2] -> [3, -4]", _of_real(_quotient, 2)),
    "FLOOR_MOD": FoldingRule("[7, -7], [2, 2] -> [1, 1]", _of_real(_remainder, 2)),
    "GATHER": FoldingRule("[5, 6, 7], [2, 0], {0: 0} -> [7, 5]", _gathered),
    "GATHER_ND": FoldingRule(
        "[[1, 2], [3, 4]], [[1, 0], [0, 1]] -> [3, 2]",
        lambda operands: [operands.arrays[0][tuple(np.moveaxis(operands.arrays[1], -1, 0))]],
    ),
    "GREATER": FoldingRule("[1, 3], [2, 2] -> [False, True]", _of_real(np.greater, 2)),
    "GREATER_EQUAL": FoldingRule("[2, 1], [2, 2] -> [True, False]", _of_real(np.greater_equal, 2)),
    "LESS": FoldingRule("[1, 3], [2, 2] -> [True, False]", _of_real(np.less, 2)),
    "LESS_EQUAL": FoldingRule("[2, 3], [2, 2] -> [True, False]", _of_real(np.less_equal, 2)),
    "LOGICAL_AND": FoldingRule(
        "[True, True], [True, False] -> [True, False]", _of_real(np.logical_and, 2)
    ),
    "LOGICAL_NOT": FoldingRule("[True, False] -> [False, True]", _of_real(np.logical_not, 1)),
    "LOGICAL_OR": FoldingRule(
        "[True, False], [False, False] -> [True, False]", _of_real(np.logical_or, 2)
    ),
    "MAXIMUM": FoldingRule("[1, 5], [3, 4] -> [3, 5]", _of_real(np.maximum, 2)),
    "MEAN": FoldingRule("[[1.0, 2.0], [3.0, 4.0]], [1] -> [1.5, 3.5]", _reduced(_mean)),
    "MINIMUM": FoldingRule("[1, 5], [3, 4] -> [1, 4]", _of_real(np.minimum, 2)),
    "MUL": FoldingRule("[2, 3], [4, 5] -> [8, 15]", _of_real(np.multiply, 2, activation=0)),
    "NEG": FoldingRule("[1.0, -2.0] -> [-1.0, 2.0]", _of_real(np.negative, 1)),
    "NOT_EQUAL": FoldingRule("[1, 2], [1, 3] -> [False, True]", _of_real(np.not_equal, 2)),
    "PACK": FoldingRule(
        "[1, 2], [3, 4], {1: 1} -> [[1, 3], [2, 4]]",
        lambda operands: [np.stack(operands.arrays, operands.integer(1))],
    ),
    "PAD": FoldingRule("[1, 2], [[1, 2]] -> [0, 1, 2, 0, 0]", _padded),
    "PADV2": FoldingRule("[1, 2], [[1, 0]], [9] -> [9, 1, 2]", _padded),
    "RANGE": FoldingRule("[1], [7], [2] -> [1, 3, 5]", _range),
    "RANK": FoldingRule(
        "[[1, 2]] -> 2", lambda operands: [np.array(len(operands.tensors[0].dims))]
    ),
    "REDUCE_ALL": FoldingRule(
        "[[True, False], [True, True]], [1] -> [False, True]", _reduced(np.all)
    ),
    "REDUCE_ANY": FoldingRule(
        "[[True, False], [False, False]], [1] -> [True, False]", _reduced(np.any)
    ),
    "REDUCE_MAX": FoldingRule("[[1, 5], [3, 2]], [1] -> [5, 3]", _reduced(np.max)),
    "REDUCE_MIN": FoldingRule("[[1, 5], [3, 2]], [1] -> [1, 2]", _reduced(np.min)),
    "REDUCE_PROD": FoldingRule("[[1, 5], [3, 2]], [1] -> [5, 6]", _reduced(np.prod)),
    "RESHAPE": FoldingRule("[1, 2], [2, 1] -> [[1], [2]]", _reshaped),
    "RSQRT": FoldingRule(
        "[4.0] -> [0.5]", _of_real(lambda values: np.float32(1) / np.sqrt(values), 1)
    ),
    "SELECT": FoldingRule("[True, False], [1, 2], [3, 4] -> [1, 4]", _selected),
    "SELECT_V2": FoldingRule("[True, False], [1, 2], [3] -> [1, 3]", _of_real(np.where, 3)),
    "SHAPE": FoldingRule(
        "[[1, 2, 3]] -> [1, 3]", lambda operands: [np.array(operands.tensors[0].dims)]
    ),
    "SIN": FoldingRule("[0.0] -> [0.0]", _of_real(np.sin, 1)),
    "SLICE": FoldingRule("[5, 6, 7, 8], [1], [2] -> [6, 7]", _slice),
    "SPLIT": FoldingRule("[0], [1, 2] -> [1], [2]", _split),
    "SQRT": FoldingRule("[4.0] -> [2.0]", _of_real(np.sqrt, 1)),
    "SQUARE": FoldingRule("[-3.0] -> [9.0]", _of_real(np.square, 1)),
    "SQUEEZE": FoldingRule("[[1, 2]] -> [1, 2]", _squeezed),
    "STRIDED_SLICE": FoldingRule("[5, 6, 7, 8], [1], [4], [2], {1: 1} -> [6, 8]", _strided_slice),
    "SUB": FoldingRule("[5, 2], [1, 3] -> [4, -1]", _of_real(np.subtract, 2, activation=0)),
    "SUM": FoldingRule("[[1, 5], [3, 2]], [1] -> [6, 5]", _reduced(np.sum)),
    "TILE": FoldingRule("[1, 2], [2] -> [1, 2, 1, 2]", _tiled),
    "TRANSPOSE": FoldingRule(
        "[[1, 2, 3]], [1, 0] -> [[1], [2], [3]]",
        lambda operands: [operands.arrays[0].transpose(operands.integers(1))],
    ),
    "UNPACK": FoldingRule(
        "[[1, 2], [3, 4]], {1: 1} -> [1, 3], [2, 4]",
        lambda operands: list(np.moveaxis(operands.arrays[0], operands.integer(1), 0)),
    ),
    "ZEROS_LIKE": FoldingRule("[[1.0, 2.0]] -> [[0.0, 0.0]]", _zeros),
}

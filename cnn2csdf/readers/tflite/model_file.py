"""A TensorFlow Lite file as values: tensors and operators of its graph, initial values of variables.

The file is a flatbuffer; each offset is checked against the end of the file. A table begins with the
distance to its vtable, which contains the offset of each field. The flatbuffers package follows
offsets without a check (a negative offset counts from the end of the file), so it is unsuitable for
files that may be corrupt. Fields are numbered in the order of the TensorFlow Lite schema,
tensorflow/lite/schema/schema.fbs.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import isfinite, prod

import numpy as np
from numpy.typing import NDArray

from cnn2csdf.dtypes import Element, Quantization
from cnn2csdf.readers.tflite.sparse import SparseAxis, Sparsity, dense_bytes
from csdf.errors import UnreadableFile, UnsupportedOperator

Dims = tuple[int, ...]

ELEMENTS = {
    0: Element.FLOAT32,
    1: Element.FLOAT16,
    2: Element.INT32,
    3: Element.UINT8,
    4: Element.INT64,
    6: Element.BOOL,
    7: Element.INT16,
    9: Element.INT8,
    10: Element.FLOAT64,
}
WIDTHS = {kind: element.bytes for kind, element in ELEMENTS.items()}
WIDTHS |= {8: 8, 11: 16, 12: 8, 13: 4, 15: 4, 16: 2}  # of types that no layer has
POSITIONS = {1: "i4", 2: "u2", 3: "u1"}  # types of the positions of sparse constants
NAMES = {  # numbers of BuiltinOperator
    0: "ADD", 1: "AVERAGE_POOL_2D", 2: "CONCATENATION", 3: "CONV_2D", 4: "DEPTHWISE_CONV_2D",
    5: "DEPTH_TO_SPACE", 6: "DEQUANTIZE", 7: "EMBEDDING_LOOKUP", 8: "FLOOR", 9: "FULLY_CONNECTED",
    10: "HASHTABLE_LOOKUP", 11: "L2_NORMALIZATION", 12: "L2_POOL_2D",
    13: "LOCAL_RESPONSE_NORMALIZATION", 14: "LOGISTIC", 15: "LSH_PROJECTION", 16: "LSTM",
    17: "MAX_POOL_2D", 18: "MUL", 19: "RELU", 20: "RELU_N1_TO_1", 21: "RELU6", 22: "RESHAPE",
    23: "RESIZE_BILINEAR", 24: "RNN", 25: "SOFTMAX", 26: "SPACE_TO_DEPTH", 27: "SVDF", 28: "TANH",
    29: "CONCAT_EMBEDDINGS", 30: "SKIP_GRAM", 31: "CALL", 32: "CUSTOM",
    33: "EMBEDDING_LOOKUP_SPARSE", 34: "PAD", 35: "UNIDIRECTIONAL_SEQUENCE_RNN", 36: "GATHER",
    37: "BATCH_TO_SPACE_ND", 38: "SPACE_TO_BATCH_ND", 39: "TRANSPOSE", 40: "MEAN", 41: "SUB",
    42: "DIV", 43: "SQUEEZE", 44: "UNIDIRECTIONAL_SEQUENCE_LSTM", 45: "STRIDED_SLICE",
    46: "BIDIRECTIONAL_SEQUENCE_RNN", 47: "EXP", 48: "TOPK_V2", 49: "SPLIT", 50: "LOG_SOFTMAX",
    52: "BIDIRECTIONAL_SEQUENCE_LSTM", 53: "CAST", 54: "PRELU", 55: "MAXIMUM", 56: "ARG_MAX",
    57: "MINIMUM", 58: "LESS", 59: "NEG", 60: "PADV2", 61: "GREATER", 62: "GREATER_EQUAL",
    63: "LESS_EQUAL", 64: "SELECT", 65: "SLICE", 66: "SIN", 67: "TRANSPOSE_CONV",
    68: "SPARSE_TO_DENSE", 69: "TILE", 70: "EXPAND_DIMS", 71: "EQUAL", 72: "NOT_EQUAL", 73: "LOG",
    74: "SUM", 75: "SQRT", 76: "RSQRT", 77: "SHAPE", 78: "POW", 79: "ARG_MIN", 80: "FAKE_QUANT",
    81: "REDUCE_PROD", 82: "REDUCE_MAX", 83: "PACK", 84: "LOGICAL_OR", 85: "ONE_HOT",
    86: "LOGICAL_AND", 87: "LOGICAL_NOT", 88: "UNPACK", 89: "REDUCE_MIN", 90: "FLOOR_DIV",
    91: "REDUCE_ANY", 92: "SQUARE", 93: "ZEROS_LIKE", 94: "FILL", 95: "FLOOR_MOD", 96: "RANGE",
    97: "RESIZE_NEAREST_NEIGHBOR", 98: "LEAKY_RELU", 99: "SQUARED_DIFFERENCE", 100: "MIRROR_PAD",
    101: "ABS", 102: "SPLIT_V", 103: "UNIQUE", 104: "CEIL", 105: "REVERSE_V2", 106: "ADD_N",
    107: "GATHER_ND", 108: "COS", 109: "WHERE", 110: "RANK", 111: "ELU", 112: "REVERSE_SEQUENCE",
    113: "MATRIX_DIAG", 114: "QUANTIZE", 115: "MATRIX_SET_DIAG", 116: "ROUND", 117: "HARD_SWISH",
    118: "IF", 119: "WHILE", 120: "NON_MAX_SUPPRESSION_V4", 121: "NON_MAX_SUPPRESSION_V5",
    122: "SCATTER_ND", 123: "SELECT_V2", 124: "DENSIFY", 125: "SEGMENT_SUM", 126: "BATCH_MATMUL",
    128: "CUMSUM", 129: "CALL_ONCE", 130: "BROADCAST_TO", 131: "RFFT2D", 132: "CONV_3D",
    133: "IMAG", 134: "REAL", 135: "COMPLEX_ABS", 136: "HASHTABLE", 137: "HASHTABLE_FIND",
    138: "HASHTABLE_IMPORT", 139: "HASHTABLE_SIZE", 140: "REDUCE_ALL", 141: "CONV_3D_TRANSPOSE",
    142: "VAR_HANDLE", 143: "READ_VARIABLE", 144: "ASSIGN_VARIABLE", 145: "BROADCAST_ARGS",
    146: "RANDOM_STANDARD_NORMAL", 147: "BUCKETIZE", 148: "RANDOM_UNIFORM", 149: "MULTINOMIAL",
    150: "GELU", 151: "DYNAMIC_UPDATE_SLICE", 152: "RELU_0_TO_1", 153: "UNSORTED_SEGMENT_PROD",
    154: "UNSORTED_SEGMENT_MAX", 155: "UNSORTED_SEGMENT_SUM", 156: "ATAN2",
    157: "UNSORTED_SEGMENT_MIN", 158: "SIGN", 159: "BITCAST", 160: "BITWISE_XOR",
    161: "RIGHT_SHIFT", 203: "DILATE", 205: "REDUCE_WINDOW",
}  # fmt: skip
MOST_LINKS = 1024  # tensors that one operator reads or writes


@dataclass(frozen=True, slots=True, kw_only=True)
class Tensor:
    """A tensor of the graph; data: the bytes of a constant, else empty. buffer: their number.

    open_axes: axes whose size the file leaves open, where it writes a size of one or the size of the
    last conversion. is_variable: whether it keeps its numbers from invocation to invocation. width:
    bytes of an element; None: not known. is_of_halves: whether it is computed from constants of
    float16 alone, and each number is one of float16.
    """

    name: str
    dims: Dims
    element: Element | None  # None: of a type that no layer has
    scales: NDArray[np.float32]
    zero_points: NDArray[np.int64]
    axis: int  # along which the scales lie
    data: NDArray[np.uint8]
    buffer: int
    is_variable: bool
    width: int | None
    open_axes: tuple[int, ...] = ()
    is_of_halves: bool = False

    @property
    def is_constant(self) -> bool:
        """Whether its numbers are in the file."""
        return self.data.size > 0

    def array(self) -> NDArray[np.generic]:
        """Return the numbers of a constant. Raises UnreadableFile where there are too few."""
        if self.element is None:
            raise UnreadableFile(f"constant {self.name!r} is of a type that is not supported")
        dtype = np.dtype(self.element.value).newbyteorder("<")
        if self.data.size != prod(self.dims) * dtype.itemsize:
            raise UnreadableFile(
                f"constant {self.name!r}: {self.data.size} bytes, expected those of {self.dims}"
            )
        return np.frombuffer(self.data.tobytes(), dtype).reshape(self.dims)

    def quantization(self) -> Quantization | None:
        """Return how the tensor is quantised; None if it has no scale or real numbers."""
        is_real = self.element is None or not self.element.is_integer
        if self.element is None or is_real or self.element is Element.BOOL or not self.scales.size:
            return None
        if self.zero_points.size and self.zero_points.min() != self.zero_points.max():
            raise UnreadableFile(f"tensor {self.name!r} has several zero points; expected one")
        scales = tuple(map(float, self.scales))
        if not all(isfinite(scale) and scale > 0 for scale in scales):
            raise UnreadableFile(f"tensor {self.name!r}: scales {scales[:4]}; expected above 0")
        zero = int(self.zero_points[0]) if self.zero_points.size else 0
        limits = np.iinfo(self.element.value)
        if not limits.min <= zero <= limits.max:
            raise UnreadableFile(f"tensor {self.name!r}: a zero point of {zero}")
        return Quantization(element=self.element, scales=scales, zero_point=zero)


@dataclass(frozen=True, slots=True, kw_only=True)
class TfliteNode:
    """An operator of the graph. inputs: numbers of tensors; -1 is an input left out.

    custom: the options of an operator that is no part of the schema, as bytes. dilation: of rows and
    columns, in addition to that in the options.
    """

    number: int
    kind: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    options: Record | None
    custom: bytes = b""
    dilation: tuple[int, int] = (1, 1)

    def instead(self, kind: str, inputs: tuple[int, ...], output: int) -> TfliteNode:
        """Return an operator without options that replaces this one, or is a part of it."""
        return TfliteNode(
            number=self.number, kind=kind, inputs=inputs, outputs=(output,), options=None
        )

    def __str__(self) -> str:
        return f"operator {self.number} ({self.kind})"


@dataclass(frozen=True, slots=True, kw_only=True)
class TfliteGraph:
    """A graph of the file.

    handles: names of variables, by the tensors that stand for them. initial: their first values.
    further: the graphs after the first in the file.
    """

    tensors: tuple[Tensor, ...]
    nodes: tuple[TfliteNode, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    handles: Mapping[int, str] = field(default_factory=dict)
    initial: Mapping[str, Tensor] = field(default_factory=dict)
    further: tuple[TfliteGraph, ...] = ()


def parse_graph(content: bytes) -> TfliteGraph:
    """Return the graph of a file, with the first values of its variables.

    Raises UnreadableFile for a file that is damaged, UnsupportedOperator for first values of variables
    that are no constants.
    """
    first, *rest = graphs_of(content)
    initial: dict[str, Tensor] = {}
    for node in first.nodes:
        if node.kind == "CALL_ONCE":
            place = 0 if node.options is None else node.options.integer(0, "i")
            if not 1 <= place <= len(rest):
                raise UnreadableFile(f"{node} calls graph {place} of {1 + len(rest)}")
            initial |= _initial_values(rest[place - 1], place)
    for node in first.nodes:
        if node.kind == "VAR_HANDLE":
            name = first.handles.get(node.outputs[0])
            if name is None:
                raise UnreadableFile(f"{node} has no options")
            if name not in initial:
                raise UnsupportedOperator(
                    f"{node}: no CALL_ONCE gives variable {name!r} a first value"
                )
    return replace(first, initial=initial, further=tuple(rest))


def graphs_of(content: bytes) -> list[TfliteGraph]:
    """Return all graphs of a file as they stand in it. Raises UnreadableFile for one without."""
    model = root_record(content)
    buffers = [buffer.vector(0, "u1") for buffer in model.records(4)]
    kinds = [_kind(code) for code in model.records(1)]
    graphs = [_graph(record, buffers, kinds) for record in model.records(2)]
    if not graphs:
        raise UnreadableFile("has no graph")
    return graphs


def _graph(
    record: Record, buffers: Sequence[NDArray[np.generic]], kinds: Sequence[str]
) -> TfliteGraph:
    nodes = tuple(
        _node(number, operator, kinds) for number, operator in enumerate(record.records(3))
    )
    graph = TfliteGraph(
        tensors=tuple(_tensor(tensor, buffers) for tensor in record.records(0)),
        nodes=nodes,
        inputs=record.integers(1),
        outputs=record.integers(2),
        handles={
            node.outputs[0]: "/".join(filter(None, map(node.options.text, (0, 1))))
            for node in nodes
            if node.kind == "VAR_HANDLE" and node.options is not None
        },
    )
    _require_tensors(graph)
    return graph


def _initial_values(graph: TfliteGraph, number: int) -> dict[str, Tensor]:
    """The constants that a graph assigns to variables, by their names; it does nothing else."""
    initial_values = {}
    for node in graph.nodes:
        if node.kind == "VAR_HANDLE":
            continue
        if node.kind != "ASSIGN_VARIABLE" or len(node.inputs) != 2:
            raise UnsupportedOperator(
                f"graph {number}, {node}: a graph that CALL_ONCE runs only assigns constants"
            )
        handle, value = node.inputs
        if handle not in graph.handles or not graph.tensors[value].is_constant:
            raise UnsupportedOperator(f"graph {number}, {node}: expected a variable and a constant")
        initial_values[graph.handles[handle]] = graph.tensors[value]
    return initial_values


def _kind(code: Record) -> str:
    number = max(code.integer(0, "b"), code.integer(3, "i"))
    if number == 32:
        return f"CUSTOM:{code.text(1)!r}"
    return NAMES.get(number, f"operator number {number}")


def _tensor(found: Record, buffers: Sequence[NDArray[np.generic]]) -> Tensor:
    number, dims = found.integer(2, "I"), found.integers(0)
    name = found.text(3).partition(";")[0]  # a converter lists all that it fused
    if number >= len(buffers):
        raise UnreadableFile(f"tensor {name!r} is in buffer {number} of {len(buffers)}")
    signature = found.integers(7)
    if len(signature) != len(dims):
        signature = dims
    open_axes = tuple(axis for axis, size in enumerate(signature) if size < 0)
    dims = tuple(1 if size == -1 else size for size in dims)
    if min(dims, default=1) < 0 or len(dims) > 8 or prod(dims) > 2**31:
        raise UnreadableFile(f"tensor {name!r} of shape {dims[:8]}; expected fixed sizes")
    scales, sparsity, data = found.record(4), found.record(6), buffers[number]
    width = WIDTHS.get(found.integer(1, "b"))
    if sparsity is not None and data.size and width is not None:
        data = dense_bytes(_sparsity(sparsity), dims, data, width)  # type: ignore[arg-type]
    return Tensor(
        name=name,
        dims=dims,
        element=ELEMENTS.get(found.integer(1, "b")),
        scales=np.zeros(0, np.float32) if scales is None else scales.vector(2, "f4"),  # type: ignore[arg-type]
        zero_points=np.zeros(0, np.int64) if scales is None else scales.vector(3, "i8"),  # type: ignore[arg-type]
        axis=0 if scales is None else scales.integer(6, "i"),
        data=data,  # type: ignore[arg-type]
        buffer=number,
        is_variable=bool(found.integer(5, "b")),
        width=width,
        open_axes=open_axes,
    )


def _sparsity(table: Record) -> Sparsity:
    levels = []
    for level in table.records(2):
        vectors = [_positions(level, field) for field in (2, 4)]
        is_compressed = level.integer(0, "b") != 0
        segments, indices = vectors if is_compressed else (None, None)
        levels.append(SparseAxis(size=level.integer(1, "i"), segments=segments, indices=indices))
    return Sparsity(order=table.integers(0), blocks=table.integers(1), levels=tuple(levels))


def _positions(level: Record, field: int) -> NDArray[np.int64]:
    """Return the numbers of a vector of one of three types; empty if left out."""
    form, table = POSITIONS.get(level.integer(field, "B")), level.record(field + 1)
    if form is None or table is None:
        return np.zeros(0, np.int64)
    return table.vector(0, form).astype(np.int64)


def _node(number: int, found: Record, kinds: Sequence[str]) -> TfliteNode:
    code, inputs, outputs = found.integer(0, "I"), found.vector(1, "i4"), found.vector(2, "i4")
    if code >= len(kinds):
        raise UnreadableFile(f"operator {number} is of kind {code} of {len(kinds)}")
    writes_none = kinds[code] in ("CALL_ONCE", "ASSIGN_VARIABLE")
    if max(inputs.size, outputs.size) > MOST_LINKS or not (outputs.size or writes_none):
        raise UnreadableFile(
            f"operator {number} reads {inputs.size} tensors and writes {outputs.size}"
        )
    return TfliteNode(
        number=number,
        kind=kinds[code],
        inputs=tuple(inputs.tolist()),
        outputs=tuple(outputs.tolist()),
        options=found.record(4),
        custom=bytes(found.vector(5, "u1")),
    )


def _require_tensors(graph: TfliteGraph) -> None:
    """Raise UnreadableFile if a node, an input or an output refers to a missing tensor."""
    used = [*graph.inputs, *graph.outputs]
    for node in graph.nodes:
        used += [number for number in node.inputs if number != -1]
        used += node.outputs
    for number in used:
        if not 0 <= number < len(graph.tensors):
            raise UnreadableFile(f"there is no tensor {number}; the file has {len(graph.tensors)}")


IDENTIFIER = b"TFL3"
CORRUPT = "is not a TensorFlow Lite model, or is corrupt"


class Record:
    """A table of the file."""

    def __init__(self, content: bytes, position: int) -> None:
        """Look at a position. Raises UnreadableFile where no table can lie there."""
        self._content, self._position = content, position
        self._vtable = position - int(self._number("i", position))
        self._size = int(self._number("H", self._vtable))

    @property
    def begin(self) -> int:
        """The position of the table in the file."""
        return self._position

    def _number(self, form: str, position: int) -> float:
        if not 0 <= position <= len(self._content) - struct.calcsize(f"<{form}"):
            raise UnreadableFile(CORRUPT)
        number: float = struct.unpack_from(f"<{form}", self._content, position)[0]
        return number

    def _place(self, field: int) -> int | None:
        """Return the position of the field; None where the file leaves it out."""
        entry = 4 + 2 * field
        if entry + 2 > self._size:
            return None
        offset = int(self._number("H", self._vtable + entry))
        return self._position + offset if offset else None

    def _pointed(self, place: int) -> int:
        return place + int(self._number("I", place))

    def integer(self, field: int, form: str, default: int = 0) -> int:
        """Return a whole number; form: as in struct, such as b for a byte, i for 32 bits."""
        place = self._place(field)
        return default if place is None else int(self._number(form, place))

    def real(self, field: int, default: float = 0.0) -> float:
        """Return a number in single precision."""
        place = self._place(field)
        return default if place is None else self._number("f", place)

    def vector(self, field: int, dtype: str) -> NDArray[np.generic]:
        """Return a vector of numbers of that NumPy type; empty if left out."""
        place, width = self._place(field), np.dtype(dtype).itemsize
        if place is None:
            return np.zeros(0, dtype)
        start, count = self._vector(place, width)
        return np.frombuffer(self._content, np.dtype(dtype).newbyteorder("<"), count, start)

    def position(self, field: int) -> int | None:
        """Return where in the file the table, text or vector begins; None where it is left out."""
        place = self._place(field)
        return None if place is None else self._pointed(place)

    def integers(self, field: int, dtype: str = "i4") -> tuple[int, ...]:
        """Return a vector as integers."""
        return tuple(self.vector(field, dtype).tolist())

    def text(self, field: int) -> str:
        """Return a text; empty if left out."""
        return bytes(self.vector(field, "u1")).decode("utf-8", "replace")

    def record(self, field: int) -> Record | None:
        """Return another table; None where it is left out."""
        place = self._place(field)
        return None if place is None else Record(self._content, self._pointed(place))

    def records(self, field: int) -> list[Record]:
        """Return a vector of tables."""
        place = self._place(field)
        if place is None:
            return []
        start, count = self._vector(place, 4)
        return [Record(self._content, self._pointed(start + 4 * number)) for number in range(count)]

    def _vector(self, place: int, width: int) -> tuple[int, int]:
        """Return the position of the first element of a vector, and the number of elements."""
        start = self._pointed(place)
        count = int(self._number("I", start))
        if start + 4 + count * width > len(self._content):
            raise UnreadableFile(CORRUPT)
        return start + 4, count


def root_record(content: bytes) -> Record:
    """Return the outermost table of a file. Raises UnreadableFile for one of another kind."""
    if not content:
        raise UnreadableFile("is empty; expected a TensorFlow Lite model")
    if content[4:8] != IDENTIFIER:
        raise UnreadableFile(CORRUPT)
    return Record(content, struct.unpack_from("<I", content)[0])

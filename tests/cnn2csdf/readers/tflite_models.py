"""TensorFlow Lite files made for tests, with the flatbuffers package."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest

from cnn2csdf.readers.tflite.model_file import root_record

flatbuffers = pytest.importorskip("flatbuffers")

CODES = {
    "ADD_N": 106, "ATAN2": 156,
    "CAST": 53, "CUMSUM": 128, "EQUAL": 71, "FLOOR_DIV": 90, "FLOOR_MOD": 95,
    "GATHER": 36, "GATHER_ND": 107, "GELU": 150, "GREATER": 61, "GREATER_EQUAL": 62, "IF": 118,
    "LESS": 58, "LESS_EQUAL": 63, "LOGICAL_AND": 86, "LOGICAL_NOT": 87, "LOGICAL_OR": 84,
    "L2_POOL_2D": 12, "REDUCE_ALL": 140, "REDUCE_ANY": 91, "REDUCE_MIN": 89,
    "NEG": 59, "NOT_EQUAL": 72, "ONE_HOT": 85, "RELU_0_TO_1": 152, "SELECT": 64,
    "SELECT_V2": 123, "SIGN": 158, "SQUARE": 92,
    "BATCH_TO_SPACE_ND": 37, "SPACE_TO_BATCH_ND": 38,
    "BROADCAST_TO": 130, "FILL": 94, "RANGE": 96, "SHAPE": 77, "TILE": 69,
    "ABS": 101, "ADD": 0, "AVERAGE_POOL_2D": 1, "BATCH_MATMUL": 126, "CONCATENATION": 2, "CONV_2D": 3,
    "DEPTHWISE_CONV_2D": 4, "DEPTH_TO_SPACE": 5, "DEQUANTIZE": 6, "DIV": 42, "ELU": 111,
    "FULLY_CONNECTED": 9, "HARD_SWISH": 117, "LEAKY_RELU": 98, "LOGISTIC": 14, "MAXIMUM": 55,
    "MAX_POOL_2D": 17, "MEAN": 40, "MINIMUM": 57, "MIRROR_PAD": 100, "MUL": 18, "PACK": 83, "PAD": 34,
    "PADV2": 60,
    "PRELU": 54, "QUANTIZE": 114, "REDUCE_MAX": 82, "RELU": 19, "RELU6": 21, "RESHAPE": 22,
    "RESIZE_BILINEAR": 23, "RESIZE_NEAREST_NEIGHBOR": 97, "RSQRT": 76, "SLICE": 65, "SOFTMAX": 25,
    "SPACE_TO_DEPTH": 26, "SPLIT": 49, "SPLIT_V": 102, "SQUARED_DIFFERENCE": 99, "STRIDED_SLICE": 45,
    "DENSIFY": 124, "EMBEDDING_LOOKUP": 7, "L2_NORMALIZATION": 11,
    "REVERSE_V2": 105,
    "SUB": 41, "SUM": 74, "SVDF": 27, "TOPK_V2": 48, "TANH": 28, "TRANSPOSE": 39,
    "TRANSPOSE_CONV": 67, "UNIDIRECTIONAL_SEQUENCE_LSTM": 44, "UNPACK": 88, "WHERE": 109,
    "BROADCAST_ARGS": 145, "CEIL": 104, "COS": 108, "EXP": 47, "EXPAND_DIMS": 70, "FLOOR": 8,
    "RANK": 110, "REDUCE_PROD": 81, "SIN": 66, "SQRT": 75, "SQUEEZE": 43, "ZEROS_LIKE": 93,
}  # fmt: skip
OPTIONS = {  # numbers of the union BuiltinOptions
    "L2_NORMALIZATION": 12, "SVDF": 6,
    "L2_POOL_2D": 5, "REDUCE_ALL": 27, "REDUCE_ANY": 27, "REDUCE_MIN": 27,
    "CUMSUM": 102, "GATHER": 23, "GELU": 118, "IF": 92,
    "ABS": 78, "ADD": 11, "AVERAGE_POOL_2D": 5, "BATCH_MATMUL": 101, "CONCATENATION": 10, "CONV_2D": 1,
    "DEPTHWISE_CONV_2D": 2, "DEPTH_TO_SPACE": 94, "DIV": 29, "FULLY_CONNECTED": 8,
    "HARD_SWISH": 91, "LEAKY_RELU": 75, "MAX_POOL_2D": 5, "MAXIMUM": 39, "MEAN": 27,
    "MINIMUM": 39, "MIRROR_PAD": 77, "ONE_HOT": 61, "MUL": 21, "PACK": 59, "PAD": 22, "REDUCE_MAX": 27,
    "RESIZE_BILINEAR": 15, "RESIZE_NEAREST_NEIGHBOR": 74, "SLICE": 48, "SOFTMAX": 9,
    "SPACE_TO_DEPTH": 19, "SPLIT": 35, "SPLIT_V": 79,
    "SQUARED_DIFFERENCE": 76, "STRIDED_SLICE": 32, "SUB": 28, "SUM": 27,
    "TRANSPOSE": 26, "TRANSPOSE_CONV": 49, "UNIDIRECTIONAL_SEQUENCE_LSTM": 71, "UNPACK": 64,
}  # fmt: skip
TYPES = {
    "float32": 0,
    "float16": 1,
    "int32": 2,
    "uint8": 3,
    "int64": 4,
    "bool": 6,
    "int16": 7,
    "int8": 9,
}
FORMS = {"b": "Int8", "i": "Int32", "f": "Float32"}


@dataclass
class Tensor:
    """scales, zero: how it is quantised; array: of a constant."""

    name: str
    dims: tuple[int, ...]
    dtype: str = "float32"
    scales: tuple[float, ...] = ()
    zero: int = 0
    array: np.ndarray | None = None
    axis: int = 0  # along which the scales lie
    is_variable: bool = False
    sparsity: tuple | None = None  # traversal order, axes of blocks, levels
    signature: tuple[int, ...] = ()  # the dims, with -1 for each that is open


def constant(name, array, scales=(), zero=0):
    array = np.asarray(array)
    return Tensor(name, array.shape, str(array.dtype), tuple(scales), zero, array)


@dataclass
class Node:
    """options: (field, form, value) of its table of options; links: numbers of tensors.

    custom: options of an operator of a kind such as CUSTOM:Name, as bytes.
    """

    kind: str
    inputs: list[int]
    outputs: list[int]
    options: list[tuple[int, str, float]] = field(default_factory=list)
    custom: bytes = b""


def tflite_bytes(tensors, nodes, inputs, outputs, others=()):
    """The file of a graph; others: graphs that its nodes choose, each as these arguments."""
    b = flatbuffers.Builder(1024)
    graphs = [(tensors, nodes, inputs, outputs), *others]
    arrays = [one.array for graph in graphs for one in graph[0] if one.array is not None]
    buffers = [_table(b, 1, {} if one is None else {0: _bytes(b, one)}) for one in (None, *arrays)]
    kinds = sorted({node.kind for graph in graphs for node in graph[1]})
    codes = [_code(b, kind) for kind in kinds]
    number, tables = 0, []
    for own, steps, begin, end in graphs:
        made = []
        for one in own:
            number += one.array is not None
            made.append(_tensor(b, one, number if one.array is not None else 0))
        operators = [_operator(b, node, kinds.index(node.kind)) for node in steps]
        fields = {
            0: _offsets(b, made),
            1: _vector(b, begin, "i4"),
            2: _vector(b, end, "i4"),
            3: _offsets(b, operators),
        }
        tables.append(_table(b, 5, fields))
    model = _table(
        b,
        5,
        {1: _offsets(b, codes), 2: _offsets(b, tables), 4: _offsets(b, buffers)},
        [(0, "i", 3)],
    )
    b.Finish(model, file_identifier=b"TFL3")
    return bytes(b.Output())


def _code(b, kind):
    name = kind.partition("CUSTOM:")[2]
    code = 32 if name else CODES[kind]
    fields = {1: b.CreateString(name)} if name else {}
    return _table(b, 4, fields, [(0, "b", min(code, 127)), (3, "i", code)])


def _tensor(b, one, number):
    fields = {0: _vector(b, one.dims, "i4"), 3: b.CreateString(one.name)}
    if one.scales:
        zeros = [one.zero] * len(one.scales)
        offsets = {2: _vector(b, one.scales, "f4"), 3: _vector(b, zeros, "i8")}
        fields[4] = _table(b, 7, offsets, [(6, "i", one.axis)])
    if one.signature:
        fields[7] = _vector(b, one.signature, "i4")
    if one.sparsity is not None:
        fields[6] = _sparsity(b, *one.sparsity)
    numbers = [(1, "b", TYPES[one.dtype]), (2, "i", number), (5, "b", one.is_variable)]
    return _table(b, 8, fields, numbers)


def _sparsity(b, order, blocks, levels):
    """levels: the size of a dense one, or segments and indices."""
    made = []
    for level in levels:
        if isinstance(level, int):
            made.append(_table(b, 2, {}, [(1, "i", level)]))
            continue
        form, vectors = {"int32": 1, "uint16": 2, "uint8": 3}[level[1].dtype.name], []
        for array in level:
            vectors.append(_table(b, 1, {0: _vector(b, array, array.dtype.str[1:])}))
        numbers = [(0, "b", 1), (2, "b", form), (4, "b", form)]
        made.append(_table(b, 6, {3: vectors[0], 5: vectors[1]}, numbers))
    fields = {0: _vector(b, order, "i4"), 1: _vector(b, blocks, "i4"), 2: _offsets(b, made)}
    return _table(b, 3, fields)


def _operator(b, node, code):
    fields = {1: _vector(b, node.inputs, "i4"), 2: _vector(b, node.outputs, "i4")}
    if node.options:
        fields[4] = _table(b, 1 + max(place for place, _, _ in node.options), {}, node.options)
    if node.custom:
        fields[5] = _bytes(b, np.frombuffer(node.custom, np.uint8))
    numbers = [(0, "i", code), (3, "b", OPTIONS.get(node.kind, 0) if node.options else 0)]
    return _table(b, 6, fields, numbers)


def _table(b, size, offsets, numbers=()):
    b.StartObject(size)
    for place, form, value in numbers:
        getattr(b, f"Prepend{FORMS[form]}Slot")(place, value, 0)
    for place, offset in offsets.items():
        b.PrependUOffsetTRelativeSlot(place, offset, 0)
    return b.EndObject()


def _vector(b, values, dtype):
    return b.CreateNumpyVector(np.asarray(values, dtype))


def _bytes(b, array):
    return b.CreateNumpyVector(np.frombuffer(np.ascontiguousarray(array).tobytes(), np.uint8))


def _offsets(b, found):
    b.StartVector(4, len(found), 4)
    for one in reversed(found):
        b.PrependUOffsetTRelative(one)
    return b.EndVector()


def with_state_reset(path):
    """The bytes of a file whose state begins anew with each invocation: no tensor is variable."""
    content = bytearray(path.read_bytes())
    for tensor in root_record(bytes(content)).records(2)[0].records(0):
        place = tensor._place(5)  # is_variable
        if place is not None:
            content[place] = 0
    return bytes(content)


def one_node(kind, inputs, output, options=(), custom=b""):
    """A file of one operator; inputs without an array come in with the frame."""
    tensors = [*inputs, *(output if isinstance(output, list) else [output])]
    count = len(inputs)
    outputs = list(range(count, len(tensors)))
    frames = [number for number, one in enumerate(inputs) if one.array is None]
    return tflite_bytes(
        tensors, [Node(kind, list(range(count)), outputs, list(options), custom)], frames, outputs
    )


def small_network():
    """An int8 network with most kinds of layers, for mutants and errors."""
    generator = np.random.default_rng(0)

    def weights(name, *dims, scales=(0.01,)):
        return constant(name, generator.integers(-127, 128, dims).astype(np.int8), scales)

    def biases(name, count):
        return constant(name, generator.integers(-99, 99, count).astype(np.int32))

    tensors = [
        Tensor("x", (1, 8, 6, 3), "int8", (0.05,), -3),
        weights("w1", 4, 3, 3, 3, scales=(0.01, 0.02, 0.005, 0.01)),
        biases("b1", 4),
        Tensor("conv", (1, 4, 3, 4), "int8", (0.1,), 2),
        weights("w2", 1, 3, 3, 4),
        biases("b2", 4),
        Tensor("depthwise", (1, 4, 3, 4), "int8", (0.2,), -5),
        Tensor("sum", (1, 4, 3, 4), "int8", (0.3,), 1),
        Tensor("pooled", (1, 2, 1, 4), "int8", (0.3,), 1),
        constant("shape", np.array([1, 8], np.int32)),
        Tensor("flat", (1, 8), "int8", (0.3,), 1),
        weights("w3", 5, 8),
        biases("b3", 5),
        Tensor("logits", (1, 5), "int8", (0.1,), 0),
        Tensor("shares", (1, 5), "int8", (1 / 256,), -128),
    ]
    strides = [(1, "i", 2), (2, "i", 2)]
    nodes = [
        Node("CONV_2D", [0, 1, 2], [3], [*strides, (3, "b", 1), (4, "i", 1), (5, "i", 1)]),
        Node("DEPTHWISE_CONV_2D", [3, 4, 5], [6],
             [(1, "i", 1), (2, "i", 1), (3, "i", 1), (4, "b", 3)]),
        Node("ADD", [3, 6], [7], [(0, "b", 1)]),
        Node("AVERAGE_POOL_2D", [7], [8], [(0, "b", 1), *strides, (3, "i", 2), (4, "i", 2)]),
        Node("RESHAPE", [8, 9], [10]),
        Node("FULLY_CONNECTED", [10, 11, 12], [13], [(0, "b", 0)]),
        Node("SOFTMAX", [13], [14], [(0, "f", 1.0)]),
    ]  # fmt: skip
    return tflite_bytes(tensors, nodes, [0], [14])

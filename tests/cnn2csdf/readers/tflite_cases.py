"""Random files of one quantised operator each, as TensorFlow Lite's converter writes them."""

from __future__ import annotations

import numpy as np

from tests.cnn2csdf.readers.tflite_models import Tensor, constant, one_node

LIMITS = {"int8": (-128, 127), "int16": (-32768, 32767)}


class Draw:
    """Random shapes, scales and weights for one case."""

    def __init__(self, seed, dtype):
        self.random = np.random.default_rng(seed)
        self.dtype = dtype
        self.is_byte = dtype in ("int8", "uint8")
        self.offset = 128 * (dtype == "uint8")  # more than integers with a sign

    def size(self, low=1, high=7):
        return int(self.random.integers(low, high + 1))

    def scale(self, largest=8.0):
        """Of a tensor with numbers up to about that size."""
        steps = 128 if self.is_byte else 32768
        return float(np.float32(largest * self.random.uniform(0.3, 1) / steps))

    def zero(self):
        return int(self.random.integers(-128, 128)) + self.offset if self.is_byte else 0

    def dims(self):
        return (1, self.size(), self.size(), self.size(1, 5))

    def tensor(self, name, dims, scale=None, zero=None):
        scale = self.scale() if scale is None else scale
        return Tensor(name, dims, self.dtype, (scale,), self.zero() if zero is None else zero)

    def weights(self, dims, channels=1, dtype="int8"):
        if self.dtype == "uint8":  # one scale and a zero point, as converters of TensorFlow 1 write
            array = self.random.integers(0, 256, dims).astype(np.uint8)
            scale = float(np.float32(self.random.uniform(0.001, 0.02)))
            return constant("weights", array, (scale,), int(self.random.integers(0, 256)))
        low, high = LIMITS[dtype]
        array = self.random.integers(low + 1, high + 1, dims).astype(dtype)
        scales = np.float32(self.random.uniform(0.001, 0.02, channels)).tolist()
        return constant("weights", array, scales)

    def bias(self, count, kind=None):
        wide = self.dtype == "int16" if kind is None else kind == "int64"
        array = self.random.integers(-2000, 2000, count)
        return constant("bias", array.astype(np.int64 if wide else np.int32))

    def fused(self):
        return int(self.random.choice([0, 1, 3]))


def indices(name, *values):
    return constant(name, np.array(values, np.int32))


def same_or_valid(size, kernel, stride, is_same):
    return -(-size // stride) if is_same else -(-(size - kernel + 1) // stride)


def convolution(d, *, is_depthwise=False):
    kernel = (d.size(1, 3), d.size(1, 3))
    dims = (1, d.size(4, 8), d.size(4, 8), d.size(1, 4))
    strides, is_same = (d.size(1, 2), d.size(1, 2)), bool(d.size(0, 1))
    multiple = d.size(1, 2)
    filters = dims[3] * multiple if is_depthwise else d.size(1, 5)
    rows, columns = (same_or_valid(dims[1 + i], kernel[i], strides[i], is_same) for i in (0, 1))
    weights = (1, *kernel, filters) if is_depthwise else (filters, *kernel, dims[3])
    found = d.weights(weights, filters)
    found.axis = 3 if is_depthwise else 0
    options = [(0, "b", 0 if is_same else 1), (1, "i", strides[1]), (2, "i", strides[0])]
    if is_depthwise:
        options += [(3, "i", multiple), (4, "b", d.fused()), (5, "i", 1), (6, "i", 1)]
    else:
        options += [(3, "b", d.fused()), (4, "i", 1), (5, "i", 1)]
    kind = None if is_depthwise or d.is_byte else ("int32", "int64")[d.size(0, 1)]
    return one_node(
        "DEPTHWISE_CONV_2D" if is_depthwise else "CONV_2D",
        [d.tensor("x", dims), found, d.bias(filters, kind)],
        d.tensor("y", (1, rows, columns, filters), scale=d.scale(40)),
        options,
    )


def transposed_convolution(d):
    kernel, stride = d.size(2, 4), d.size(1, 3)
    stride = min(stride, kernel)
    dims, filters, is_same = (
        (1, d.size(2, 5), d.size(2, 5), d.size(1, 3)),
        d.size(1, 4),
        bool(d.size(0, 1)),
    )
    rows, columns = (
        size * stride if is_same else (size - 1) * stride + kernel for size in dims[1:3]
    )
    found = d.weights((filters, kernel, kernel, dims[3]), filters)
    found.axis = 0
    out = (1, rows, columns, filters)
    options = [(0, "b", 0 if is_same else 1), (1, "i", stride), (2, "i", stride)]
    return one_node(
        "TRANSPOSE_CONV",
        [indices("size", *out), found, d.tensor("x", dims), d.bias(filters)],
        d.tensor("y", out, scale=d.scale(40)),
        options,
    )


def fully_connected(d):
    units, dims = d.size(1, 8), (1, d.size(1, 20))
    channels = d.size(0, 1) and units > 1 and units
    return one_node(
        "FULLY_CONNECTED",
        [d.tensor("x", dims), d.weights((units, dims[1]), channels or 1), d.bias(units)],
        d.tensor("y", (1, units), scale=d.scale(40)),
        [(0, "b", d.fused())],
    )


def product_of_vectors(d):
    units, dims = d.size(1, 8), (1, d.size(2, 6), d.size(1, 20))
    scales = 1 if d.is_byte else units
    return one_node(
        "FULLY_CONNECTED",
        [d.tensor("x", dims), d.weights((units, dims[2]), scales), d.bias(units)],
        d.tensor("y", (1, dims[1], units), scale=d.scale(40)),
        [(0, "b", d.fused()), (2, "b", 1)],
    )


def batch_product(d):
    batch, rows, inner, columns = ([], [d.size()])[d.size(0, 1)], d.size(), d.size(1, 20), d.size()
    turned = d.size(0, 1), d.size(0, 1)
    left, right = ((rows, inner), (inner, columns))
    left = (1, *batch, *(left[::-1] if turned[0] else left))
    right = (1, *batch, *(right[::-1] if turned[1] else right))
    return one_node(
        "BATCH_MATMUL",
        [d.tensor("a", left), d.tensor("b", right)],
        d.tensor("y", (1, *batch, rows, columns), scale=d.scale(40)),
        [(0, "b", turned[0]), (1, "b", turned[1])],
    )


def squared_difference(d):
    dims = (1, d.size(), d.size(1, 9))
    other = [dims, (1, dims[1], 1), (1, 1, dims[2])][d.size(0, 2)]
    tensors = [d.tensor("a", dims), d.tensor("b", other)]
    return one_node("SQUARED_DIFFERENCE", tensors, d.tensor("y", dims, d.scale(60)))


def inverse_root(d):
    dims = (1, d.size(), 1)
    x = d.tensor("x", dims, zero=-128)
    return one_node("RSQRT", [x], d.tensor("y", dims, scale=d.scale(3)))


def mean_of_vectors(d):
    dims = (1, d.size(), d.size(1, 20))
    y = d.tensor("y", (1, dims[1], 1))
    return one_node("MEAN", [d.tensor("x", dims), indices("axes", 2)], y, [(0, "b", 1)])


def pooling(d, kind):
    dims, kernel, stride = d.dims(), d.size(1, 3), d.size(1, 2)
    is_same = min(dims[1:3]) < kernel or bool(d.size(0, 1))
    rows, columns = (same_or_valid(dims[i], kernel, stride, is_same) for i in (1, 2))
    x = d.tensor("x", dims)
    return one_node(
        kind,
        [x],
        d.tensor("y", (1, rows, columns, dims[3]), x.scales[0], x.zero),
        [(0, "b", 0 if is_same else 1), (1, "i", stride), (2, "i", stride), (3, "i", kernel),
         (4, "i", kernel), (5, "b", d.fused())],
    )  # fmt: skip


def binary(d, kind):
    dims = d.dims()
    other = [dims, (1, 1, 1, dims[3]), (dims[3],)][d.size(0, 2)]
    if kind == "DIV":  # by a constant so small that no shift has 32 bits, which C leaves undefined
        numbers = d.random.integers(1, 8, other).astype(d.dtype)
        second = constant("b", numbers, (0.02,))
    else:
        second = d.tensor("b", other)
    return one_node(
        kind, [d.tensor("a", dims), second], d.tensor("y", dims, d.scale(16)),
        [(0, "b", d.fused())],
    )  # fmt: skip


def extremes(d, kind):
    dims = d.dims()
    x = d.tensor("a", dims)
    one = (x.scales[0], x.zero)
    return one_node(kind, [x, d.tensor("b", dims, *one)], d.tensor("y", dims, *one))


def unary(d, kind, result=None, options=(), largest=8.0):
    dims = d.dims()
    scale, zero = result or (None, None)
    x = d.tensor("x", dims, d.scale(largest))
    return one_node(kind, [x], d.tensor("y", dims, scale, zero), options)


def limit(d, kind):
    dims = d.dims()
    x = d.tensor("x", dims)
    if kind == "RELU6":
        x.scales = (7 * x.scales[0] / 8 + d.scale(8),)
        x.zero = d.offset - 128 if d.is_byte else 0
    y = d.tensor("y", dims, *((x.scales[0], x.zero) if kind == "RELU6" else ()))
    return one_node(kind, [x], y)


def prelu(d):
    dims = d.dims()
    slope = d.weights((1, 1, dims[3]))
    return one_node("PRELU", [d.tensor("x", dims), slope], d.tensor("y", dims))


def resize(d, kind):
    dims, size = d.dims(), (d.size(1, 12), d.size(1, 12))
    manner = d.size(0, 2)
    first = 2 if kind == "RESIZE_BILINEAR" else 0
    x = d.tensor("x", dims)
    return one_node(
        kind,
        [x, indices("size", *size)],
        d.tensor("y", (1, *size, dims[3]), x.scales[0], x.zero),
        [(first, "b", int(manner == 1)), (first + 1, "b", int(manner == 2))],
    )


def reduction(d, kind):
    dims, keeps = d.dims(), d.size(0, 1)
    axes = [(1, 2), (1,), (2,), (3,), (2, 3)][d.size(0, 4)]
    left = tuple(
        1 if axis in axes else size for axis, size in enumerate(dims) if keeps or axis not in axes
    )
    x = d.tensor("x", dims)
    y = d.tensor("y", left, *((x.scales[0], x.zero) if kind == "REDUCE_MAX" else ()))
    return one_node(kind, [x, indices("axes", *axes)], y, [(0, "b", keeps)])


def softmax(d):
    dims = (1, d.size(1, 30))
    scale, zero = (1 / 256, d.offset - 128) if d.is_byte else (1 / 32768, 0)
    return one_node(
        "SOFTMAX", [d.tensor("x", dims)], d.tensor("y", dims, scale, zero), [(0, "f", 1.0)]
    )


def wide_softmax(d):
    dims = (1, d.size(1, 30))
    y = Tensor("y", dims, "int16", (1 / 65536,), -32768)
    return one_node("SOFTMAX", [d.tensor("x", dims)], y, [(0, "f", 1.0)])


def conversion(d, target):
    dims = d.dims()
    zero = 0 if target == "int16" else int(d.random.integers(-128, 128))
    zero += 128 * (target == "uint8")
    scale = float(np.float32(d.random.uniform(0.01, 0.1) / (256 if target == "int16" else 1)))
    return one_node("QUANTIZE", [d.tensor("x", dims)], Tensor("y", dims, target, (scale,), zero))


def moved(d, kind):
    dims = (1, d.size(2, 6), d.size(2, 6), d.size(2, 5))
    x = d.tensor("x", dims)
    one = (x.scales[0], x.zero)
    half = (1, 1, dims[2], dims[3])
    match kind:
        case "SLICE":
            sizes = [1, dims[1] - 1, -1, 1]
            out = (1, dims[1] - 1, dims[2], 1)
            given = [x, indices("begin", 0, 1, 0, 1), indices("size", *sizes)]
            return one_node(kind, given, d.tensor("y", out, *one))
        case "STRIDED_SLICE":
            out = (1, -(-dims[1] // 2), dims[3])
            given = [x, indices("b", 0, 0, 1, 0), indices("e", 1, dims[1], 2, dims[3]),
                     indices("s", 1, 2, 1, 1)]  # fmt: skip
            return one_node(kind, given, d.tensor("y", out, *one), [(4, "i", 4)])
        case "SPLIT":
            x.dims = (1, 4, *dims[2:])
            outs = [d.tensor(n, (1, 2, *dims[2:]), *one) for n in "ab"]
            return one_node(kind, [indices("axis", 1), x], outs, [(0, "i", 2)])
        case "SPLIT_V":
            rest = (1, dims[1] - 1, *dims[2:])
            outs = [d.tensor("a", half, *one), d.tensor("b", rest, *one)]
            given = [x, indices("sizes", 1, dims[1] - 1), indices("axis", 1)]
            return one_node(kind, given, outs, [(0, "i", 2)])
        case "PACK":
            out = (1, dims[1], 2, dims[3])
            given = [d.tensor(n, (1, dims[1], dims[3]), *one) for n in "ab"]
            return one_node(kind, given, d.tensor("y", out, *one), [(0, "i", 2), (1, "i", 2)])
        case "UNPACK":
            outs = [d.tensor(f"y{n}", (1, dims[1], dims[3]), *one) for n in range(dims[2])]
            return one_node(kind, [x], outs, [(0, "i", dims[2]), (1, "i", 2)])
        case "CONCATENATION":
            out = (1, dims[1], dims[2], 2 * dims[3])
            given = [d.tensor(n, dims, *one) for n in "ab"]
            return one_node(kind, given, d.tensor("y", out, *one), [(0, "i", 3)])
        case "DEPTH_TO_SPACE":
            x.dims = (1, dims[1], dims[2], 4 * dims[3])
            out = (1, 2 * dims[1], 2 * dims[2], dims[3])
        case _:
            x.dims = (1, 2 * dims[1], 2 * dims[2], dims[3])
            out = (1, dims[1], dims[2], 4 * dims[3])
    return one_node(kind, [x], d.tensor("y", out, *one), [(0, "i", 2)])


def concatenation_of_scales(d):
    dims = d.dims()
    tensors = [d.tensor(name, dims) for name in "abc"]
    out = (1, dims[1], dims[2], 3 * dims[3])
    return one_node("CONCATENATION", tensors, d.tensor("y", out), [(0, "i", 3)])


def padding(d, kind, *, has_channels=False):
    dims, around = d.dims(), [d.size(0, 2) for _ in range(4)]
    around += [d.size(0, 3) for _ in range(2)] if has_channels else [0, 0]
    pairs = [[0, 0], around[:2], around[2:4], around[4:]]
    out = tuple(size + sum(pair) for size, pair in zip(dims, pairs, strict=True))
    x = d.tensor("x", dims)
    amounts = constant("p", np.array(pairs, np.int32))
    given = [x, amounts]
    if kind == "PADV2":
        given.append(constant("v", np.array([7], d.dtype), x.scales, x.zero))
    return one_node(kind, given, d.tensor("y", out, x.scales[0], x.zero))


BYTES = ("int8",)
BOTH = ("int8", "int16")
CASES = {  # operator: what makes a file of it, and the types that TensorFlow Lite Micro computes
    "CONV_2D": (convolution, BOTH),
    "DEPTHWISE_CONV_2D": (lambda d: convolution(d, is_depthwise=True), BOTH),
    "TRANSPOSE_CONV": (transposed_convolution, BOTH),
    "FULLY_CONNECTED": (fully_connected, BOTH),
    "FULLY_CONNECTED of vectors": (product_of_vectors, BOTH),
    "BATCH_MATMUL": (batch_product, BOTH),
    "SQUARED_DIFFERENCE": (squared_difference, BYTES),
    "RSQRT": (inverse_root, BYTES),
    "MEAN of vectors": (mean_of_vectors, BYTES),
    "AVERAGE_POOL_2D": (lambda d: pooling(d, "AVERAGE_POOL_2D"), BOTH),
    "MAX_POOL_2D": (lambda d: pooling(d, "MAX_POOL_2D"), BOTH),
    "ADD": (lambda d: binary(d, "ADD"), BOTH),
    "SUB": (lambda d: binary(d, "SUB"), BOTH),
    "MUL": (lambda d: binary(d, "MUL"), BOTH),
    "DIV": (lambda d: binary(d, "DIV"), BYTES),
    "MAXIMUM": (lambda d: extremes(d, "MAXIMUM"), BYTES),
    "MINIMUM": (lambda d: extremes(d, "MINIMUM"), BYTES),
    "ABS": (lambda d: unary(d, "ABS"), BOTH),
    "ELU": (lambda d: unary(d, "ELU"), BYTES),
    "HARD_SWISH": (lambda d: unary(d, "HARD_SWISH", largest=20.0), BYTES),
    "LEAKY_RELU": (
        lambda d: unary(d, "LEAKY_RELU", None, [(0, "f", d.random.uniform(0.01, 0.5))]), BOTH,
    ),
    "LOGISTIC": (
        lambda d: unary(
            d, "LOGISTIC", (1 / 256, d.offset - 128) if d.is_byte else (1 / 32768, 0), largest=15.0
        ),
        BOTH,
    ),
    "TANH": (
        lambda d: unary(
            d, "TANH", (1 / 128, d.offset) if d.is_byte else (1 / 32768, 0), largest=10.0
        ),
        BOTH,
    ),
    "RELU": (lambda d: limit(d, "RELU"), BOTH),
    "RELU6": (lambda d: limit(d, "RELU6"), BOTH),
    "PRELU": (prelu, BOTH),
    "RESIZE_BILINEAR": (lambda d: resize(d, "RESIZE_BILINEAR"), BYTES),
    "RESIZE_NEAREST_NEIGHBOR": (lambda d: resize(d, "RESIZE_NEAREST_NEIGHBOR"), BOTH),
    "MEAN": (lambda d: reduction(d, "MEAN"), BOTH),
    "SUM": (lambda d: reduction(d, "SUM"), BOTH),
    "REDUCE_MAX": (lambda d: reduction(d, "REDUCE_MAX"), BYTES),
    "SOFTMAX": (softmax, BOTH),
    "SOFTMAX to int16": (wide_softmax, BYTES),
    "QUANTIZE to int8": (lambda d: conversion(d, "int8"), BOTH),
    "QUANTIZE to int16": (lambda d: conversion(d, "int16"), BOTH),
    "QUANTIZE to uint8": (lambda d: conversion(d, "uint8"), BYTES),
    "PAD": (lambda d: padding(d, "PAD"), BOTH),
    "PADV2": (lambda d: padding(d, "PADV2"), BYTES),
    "CONCATENATION of scales": (concatenation_of_scales, ()),
    "PAD of channels": (lambda d: padding(d, "PAD", has_channels=True), BOTH),
    **{
        kind: (lambda d, kind=kind: moved(d, kind), types)
        for kind, types in {
            "SLICE": BOTH, "STRIDED_SLICE": BOTH, "SPLIT": BOTH, "SPLIT_V": BOTH, "PACK": BYTES,
            "UNPACK": BYTES, "CONCATENATION": BOTH, "DEPTH_TO_SPACE": BYTES,
            "SPACE_TO_DEPTH": BYTES,
        }.items()
    },
}  # fmt: skip
WITHOUT_UNSIGNED = {  # operators that TensorFlow Lite does not compute with uint8
    "BATCH_MATMUL", "SQUARED_DIFFERENCE", "RSQRT", "ABS", "ELU",
}  # fmt: skip
UNSIGNED = [kind for kind in CASES if kind not in WITHOUT_UNSIGNED]
NAMES = [(kind, dtype) for kind, (_, types) in CASES.items() for dtype in types]


def case(kind, dtype, seed):
    """A file of that operator."""
    return CASES[kind][0](Draw(seed, dtype))

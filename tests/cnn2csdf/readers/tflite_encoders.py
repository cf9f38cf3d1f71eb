"""Vision transformers of 8-bit integers as TensorFlow Lite's converter writes them."""

from __future__ import annotations

import numpy as np

from tests.cnn2csdf.readers.tflite_models import Node, Tensor, constant, tflite_bytes


class _Graph:
    """Tensors and nodes of a file; each method adds some and returns the number of a tensor."""

    def __init__(self, seed):
        self.random = np.random.default_rng(seed)
        self.tensors, self.nodes = [], []

    def tensor(self, name, dims, scale=0.05, zero=0):
        self.tensors.append(Tensor(name, dims, "int8", (float(np.float32(scale)),), zero))
        return len(self.tensors) - 1

    def constant(self, array, scales=(), axis=0):
        self.tensors.append(constant(f"constant {len(self.tensors)}", array, scales))
        self.tensors[-1].axis = axis
        return len(self.tensors) - 1

    def weights(self, *dims):
        scales = np.float32(self.random.uniform(0.002, 0.004, dims[0])).tolist()
        return self.constant(self.random.integers(-127, 128, dims).astype(np.int8), scales)

    def bias(self, count):
        return self.constant(self.random.integers(-500, 500, count).astype(np.int32))

    def indices(self, *values):
        return self.constant(np.array(values, np.int32))

    def dims(self, number):
        return self.tensors[number].dims

    def node(self, kind, inputs, dims, options=(), scale=0.05, zero=0):
        output = self.tensor(f"{kind} {len(self.nodes)}", tuple(dims), scale, zero)
        self.nodes.append(Node(kind, list(inputs), [output], list(options)))
        return output

    def reshaped(self, source, *dims):
        (scale,), zero = self.tensors[source].scales, self.tensors[source].zero
        return self.node("RESHAPE", [source, self.indices(*dims)], dims, (), scale, zero)

    def transposed(self, source, *permutation):
        (scale,), zero = self.tensors[source].scales, self.tensors[source].zero
        dims = [self.dims(source)[axis] for axis in permutation]
        return self.node("TRANSPOSE", [source, self.indices(*permutation)], dims, (), scale, zero)

    def dense(self, source, units, *, has_relu=False):
        *lead, width = self.dims(source)
        inputs = [source, self.weights(units, width), self.bias(units)]
        options = [(0, "b", int(has_relu)), (2, "b", 1)]
        return self.node("FULLY_CONNECTED", inputs, (*lead, units), options)

    def normalised(self, source):
        """A layer normalisation written out: the converter has no operator of this name."""
        dims = self.dims(source)
        axis, width = self.indices(len(dims) - 1), dims[-1]
        narrow = (*dims[:-1], 1)
        byte = self.random.integers(60, 127, width).astype(np.int8)
        mean = self.node("MEAN", [source, axis], narrow, [(0, "b", 1)], 0.01, 0)
        squares = self.node("SQUARED_DIFFERENCE", [source, mean], dims, (), 0.1, -128)
        variance = self.node("MEAN", [squares, axis], narrow, [(0, "b", 1)], 0.03, -128)
        raised = self.node(
            "ADD", [variance, self.constant(np.int8([1]), [0.001])], narrow, (), 0.03, -128
        )
        inverse = self.node("RSQRT", [raised], narrow, (), 0.05, -128)
        gain = self.constant(byte, [0.01])
        scaled = self.node("MUL", [inverse, gain], dims, (), 0.05, -128)
        first = self.node("MUL", [source, scaled], dims, (), 0.03, 0)
        second = self.node("MUL", [mean, scaled], dims, (), 0.03, 0)
        offset = self.constant(byte // 2, [0.01])
        shift = self.node("SUB", [offset, second], dims, (), 0.03, 0)
        return self.node("ADD", [first, shift], dims, (), 0.03, 0)

    def attention(self, source, tokens, heads):
        """Scaled dot products of all tokens, head by head; batch is the first axis."""
        width = self.dims(source)[-1]
        part = width // heads
        query, key, value = (
            self.transposed(self.reshaped(one, 1, tokens, heads, part), 0, 2, 1, 3)
            for one in [self.dense(source, width) for _ in range(3)]
        )
        turned = [(1, "b", 1)]  # adj_y
        scores = self.node("BATCH_MATMUL", [query, key], (1, heads, tokens, tokens), turned, 0.2)
        factor = self.constant(np.int8([127]), [part**-0.5 / 127])
        scores = self.node("MUL", [scores, factor], self.dims(scores), (), 0.05)
        shares = self.node("SOFTMAX", [scores], self.dims(scores), [(0, "f", 1.0)], 1 / 256, -128)
        plain = [(0, "b", 0), (1, "b", 0)]
        seen = self.node("BATCH_MATMUL", [shares, value], (1, heads, tokens, part), plain)
        joined = self.reshaped(self.transposed(seen, 0, 2, 1, 3), 1, tokens, width)
        return self.dense(joined, width)

    def add(self, left, right):
        return self.node("ADD", [left, right], self.dims(left))


def vision_transformer(*, image=32, patch=4, width=96, heads=3, blocks=2, classes=10, seed=0):
    """Return the file: patches by a convolution, positions, blocks of attention, and a classifier."""
    graph = _Graph(seed)
    frame = graph.tensor("image", (1, image, image, 3))
    side = image // patch
    kernel = graph.weights(width, patch, patch, 3)
    stride = [(0, "b", 1), (1, "i", patch), (2, "i", patch), (4, "i", 1), (5, "i", 1)]
    patches = graph.node(
        "CONV_2D", [frame, kernel, graph.bias(width)], (1, side, side, width), stride
    )
    tokens = side * side
    stream = graph.reshaped(patches, 1, tokens, width)
    positions = graph.constant(
        graph.random.integers(-60, 60, (1, tokens, width)).astype(np.int8), [0.02]
    )
    stream = graph.add(stream, positions)
    for _ in range(blocks):
        stream = graph.add(stream, graph.attention(graph.normalised(stream), tokens, heads))
        hidden = graph.dense(graph.normalised(stream), 2 * width, has_relu=True)
        stream = graph.add(stream, graph.dense(hidden, width))
    pooled = graph.node(
        "MEAN", [graph.normalised(stream), graph.indices(1)], (1, width), [(0, "b", 0)]
    )
    logits = graph.dense(pooled, classes)
    return tflite_bytes(graph.tensors, graph.nodes, [frame], [logits])

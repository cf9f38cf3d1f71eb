"""Writes a small int8 network for the commands of the README: ONNX with QuantizeLinear, seeded weights.

    python models/networks/make_int8.py model.onnx

The layers are those of a depthwise-separable network for keyword spotting (49 x 10 features, 12 words).
Nothing is trained: weights are drawn with a fixed seed, with the variance that keeps activations in
the range of their scales. Shapes, bytes and times are those of a real file, outputs mean nothing.
"""

import sys
from math import sqrt

import numpy as np
from onnx import TensorProto, helper, numpy_helper, save

CHANNELS, BLOCKS, WORDS = 64, 4, 12
ROWS, COLUMNS = 49, 10  # of the features: time, coefficients
SEED = 20240607
ACTIVATION = 6.0 / 255, -128  # scale and zero point behind ReLU; float 0 to 6
SIGNED = 8.0 / 255, 0  # of features and of the result


class Writer:
    """The nodes and constants of a graph, as they are added; `last` is the latest tensor."""

    def __init__(self) -> None:
        self.nodes, self.constants = [], []
        self.random = np.random.default_rng(SEED)

    def constant(self, name, values):
        """Add a constant and return its name."""
        self.constants.append(numpy_helper.from_array(np.asarray(values), name))
        return name

    def node(self, operator, name, inputs, **attributes):
        """Add a node with one output of its own name, and return that."""
        self.nodes.append(helper.make_node(operator, inputs, [name], name=name, **attributes))
        return name

    def quantized(self, source, scale_and_zero_point):
        """Round a tensor to int8 and back."""
        scale, zero_point = scale_and_zero_point
        terms = [
            self.constant(f"{source}_scale", np.float32(scale)),
            self.constant(f"{source}_zero", np.int8(zero_point)),
        ]
        whole = self.node("QuantizeLinear", f"{source}_int8", [source, *terms])
        return self.node("DequantizeLinear", f"{source}_out", [whole, *terms])

    def weights(self, name, shape, scale_of_input):
        """Add int8 weights with a scale for each channel, and int32 biases; return both names."""
        real = self.random.normal(0, sqrt(2 / np.prod(shape[1:])), shape)
        scales = np.abs(real).reshape(shape[0], -1).max(axis=1) / 127
        whole = np.round(real / scales.reshape(-1, *[1] * (len(shape) - 1))).astype(np.int8)
        biases = self.random.integers(-500, 500, shape[0], dtype=np.int32)
        names = []
        for kind, values, scale in (
            ("weights", whole, scales),
            ("biases", biases, scales * scale_of_input),
        ):
            terms = [
                self.constant(f"{name}_{kind}_int", values),
                self.constant(f"{name}_{kind}_scale", scale.astype(np.float32)),
                self.constant(f"{name}_{kind}_zero", np.zeros(shape[0], values.dtype)),
            ]
            names.append(self.node("DequantizeLinear", f"{name}_{kind}", terms, axis=0))
        return names

    def convolution(self, name, source, shape, scale_of_input, **attributes):
        """Add a convolution with ReLU."""
        terms = self.weights(name, shape, scale_of_input)
        result = self.node("Conv", name, [source, *terms], kernel_shape=shape[2:], **attributes)
        return self.quantized(self.node("Relu", f"{name}_relu", [result]), ACTIVATION)


def network():
    """Return the model."""
    writer = Writer()
    tensor = writer.quantized("features", SIGNED)
    tensor = writer.convolution(
        "conv", tensor, (CHANNELS, 1, 10, 4), SIGNED[0], strides=[2, 2], pads=[4, 1, 5, 1]
    )
    for number in range(1, BLOCKS + 1):
        tensor = writer.convolution(
            f"depthwise{number}", tensor, (CHANNELS, 1, 3, 3), ACTIVATION[0],
            pads=[1, 1, 1, 1], group=CHANNELS,
        )  # fmt: skip
        tensor = writer.convolution(
            f"pointwise{number}", tensor, (CHANNELS, CHANNELS, 1, 1), ACTIVATION[0]
        )
    mean = writer.quantized(writer.node("GlobalAveragePool", "mean", [tensor]), ACTIVATION)
    flat = writer.quantized(writer.node("Flatten", "flat", [mean]), ACTIVATION)
    terms = writer.weights("words", (WORDS, CHANNELS), ACTIVATION[0])
    result = writer.quantized(writer.node("Gemm", "words", [flat, *terms], transB=1), SIGNED)
    graph = helper.make_graph(
        writer.nodes,
        "keyword_spotting_int8",
        [helper.make_tensor_value_info("features", TensorProto.FLOAT, [1, 1, ROWS, COLUMNS])],
        [helper.make_tensor_value_info(result, TensorProto.FLOAT, [1, WORDS])],
        writer.constants,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


if __name__ == "__main__":
    path = sys.argv[1] if len(sys.argv) > 1 else "model.onnx"
    save(network(), path)
    sys.stdout.write(f"wrote {path}: int8, seeded weights, not trained\n")

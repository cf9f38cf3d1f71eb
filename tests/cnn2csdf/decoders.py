"""Small causal decoders with random weights as ONNX files: a step of one token, or all tokens at once.

A step takes a token, its position, a mask, and the keys and values of tokens before; it gives logits,
and keys and values with those of the token behind them, as exporters write it.
"""

from typing import NamedTuple

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import CalibrationDataReader, QuantType, quantize_static

FAR = np.float32(-1e4)  # added to scores of what a token does not see


class Sizes(NamedTuple):
    """Of a decoder. kind: llama (RMSNorm, rotary embedding, SwiGLU) or gpt2 (LayerNorm, GELU).

    shared: heads that share a head of keys and values.
    """

    kind: str = "llama"
    width: int = 16
    heads: int = 2
    hidden: int = 24
    blocks: int = 2
    entries: int = 32
    positions: int = 64
    shared: int = 1


class _Writing:
    def __init__(self, sizes, rows, past, seed):
        self.sizes, self.rows, self.past = sizes, rows, past
        self.random = np.random.default_rng(seed)
        self.nodes, self.constants = [], {}

    def node(self, kind, *inputs, name=None, **attributes):
        name = name or f"{kind.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [name], name=name, **attributes))
        return name

    def constant(self, value, name=None):
        name = name or f"constant_{len(self.constants)}"
        self.constants[name] = np.asarray(value)
        return name

    def weights(self, *dims, name):
        drawn = self.random.normal(size=dims) / np.sqrt(dims[0] if len(dims) > 1 else 4)
        return self.constant(drawn.astype(np.float32), name)

    def product(self, x, columns, rows, name):
        return self.node("MatMul", x, self.weights(rows, columns, name=f"{name}.weight"), name=name)

    def normalised(self, x, name):
        width = self.sizes.width
        gamma = self.constant(1 + 0.1 * self.random.normal(size=width).astype(np.float32), name)
        if self.sizes.kind == "gpt2":
            beta = self.weights(width, name=f"{name}.bias")
            return self.node("LayerNormalization", x, gamma, beta, epsilon=1e-5)
        squares = self.node("Pow", x, self.constant(np.float32(2)))
        mean = self.node("ReduceMean", squares, axes=[-1], keepdims=1)
        root = self.node("Sqrt", self.node("Add", mean, self.constant(np.float32(1e-5))))
        return self.node("Mul", gamma, self.node("Div", x, root))

    def by_heads(self, x, heads):
        size = self.sizes.width // self.sizes.heads
        dims = self.constant(np.array([1, self.rows, heads, size]))
        return self.node("Transpose", self.node("Reshape", x, dims), perm=[0, 2, 1, 3])

    def for_all_heads(self, x):
        """Each head of keys or values several times, as exporters write it."""
        heads, shared = self.sizes.heads, self.sizes.shared
        if shared == 1:
            return x
        size, rows = self.sizes.width // heads, self.rows + (self.past or 0)
        x = self.node("Unsqueeze", x, self.constant(np.array([2])))
        dims = self.constant(np.array([1, heads // shared, shared, rows, size]))
        dims_of_all = self.constant(np.array([1, heads, rows, size]))
        return self.node("Reshape", self.node("Expand", x, dims), dims_of_all)

    def rotated(self, x):
        half = self.sizes.width // self.sizes.heads // 2
        ends = (np.array([0]), np.array([half])), (np.array([half]), np.array([2 * half]))
        axes = self.constant(np.array([3]))
        first, second = (
            self.node("Slice", x, self.constant(one), self.constant(other), axes)
            for one, other in ends
        )
        turned = self.node("Concat", self.node("Neg", second), first, axis=-1)
        one = self.node("Mul", x, "cosines")
        return self.node("Add", one, self.node("Mul", turned, "sines"))

    def block(self, x, number):
        sizes, place = self.sizes, f"layers.{number}"
        width, heads = sizes.width, sizes.heads
        given = self.normalised(x, f"{place}.norm")
        counts = {"q": heads, "k": heads // sizes.shared, "v": heads // sizes.shared}
        q, k, v = (
            self.by_heads(self.product(given, width // heads * n, width, f"{place}.{one}"), n)
            for one, n in counts.items()
        )
        if sizes.kind == "llama":
            q, k = self.rotated(q), self.rotated(k)
        if self.past:
            k = self.node("Concat", f"past.{number}.key", k, axis=2, name=f"present.{number}.key")
            v = self.node(
                "Concat", f"past.{number}.value", v, axis=2, name=f"present.{number}.value"
            )
        k, v = self.for_all_heads(k), self.for_all_heads(v)
        scores = self.node("MatMul", q, self.node("Transpose", k, perm=[0, 1, 3, 2]))
        root = self.constant(np.float32(np.sqrt(width // heads)))
        scores = self.node("Add", self.node("Div", scores, root), "mask")
        found = self.node("MatMul", self.node("Softmax", scores, axis=-1), v)
        found = self.node("Transpose", found, perm=[0, 2, 1, 3])
        found = self.node("Reshape", found, self.constant(np.array([1, self.rows, width])))
        x = self.node("Add", x, self.product(found, width, width, f"{place}.o"))
        given = self.normalised(x, f"{place}.norm2")
        up = self.product(given, sizes.hidden, width, f"{place}.up")
        if sizes.kind == "llama":
            gate = self.product(given, sizes.hidden, width, f"{place}.gate")
            gate = self.node("Mul", gate, self.node("Sigmoid", gate))
            up = self.node("Mul", gate, up)
        else:
            part = self.node("Erf", self.node("Div", up, self.constant(np.float32(np.sqrt(2)))))
            part = self.node("Add", part, self.constant(np.float32(1)))
            up = self.node("Mul", self.node("Mul", up, part), self.constant(np.float32(0.5)))
        return self.node("Add", x, self.product(up, width, sizes.hidden, f"{place}.down"))

    def model(self):
        sizes, width, size = self.sizes, self.sizes.width, self.sizes.width // self.sizes.heads
        table = self.weights(sizes.entries, width, name="embeddings")
        x = self.node("Gather", table, "token")
        if sizes.kind == "llama":
            angles = np.outer(np.arange(sizes.positions), 1e4 ** (-np.arange(0, size, 2) / size))
            for name, function in (("cosines", np.cos), ("sines", np.sin)):
                values = np.tile(function(angles), (1, 2)).astype(np.float32)
                found = self.node(
                    "Gather", self.constant(values, f"{name} of positions"), "position"
                )
                self.node("Unsqueeze", found, self.constant(np.array([1])), name=name)
        else:
            table = self.weights(sizes.positions, width, name="positions")
            x = self.node("Add", x, self.node("Gather", table, "position"))
        for number in range(sizes.blocks):
            x = self.block(x, number)
        self.product(self.normalised(x, "norm"), sizes.entries, width, "logits")
        kinds = {"token": TensorProto.INT64, "position": TensorProto.INT64}
        seen = self.rows + (self.past or 0)
        inputs = {"token": (1, self.rows), "position": (1, self.rows)}
        inputs["mask"] = (1, 1, self.rows, seen)
        outputs = {"logits": (1, self.rows, sizes.entries)}
        if self.past:
            for number in range(sizes.blocks):
                for one in ("key", "value"):
                    heads = sizes.heads // sizes.shared
                    inputs[f"past.{number}.{one}"] = (1, heads, self.past, size)
                    outputs[f"present.{number}.{one}"] = (1, heads, seen, size)

        def values(found):
            return [
                helper.make_tensor_value_info(name, kinds.get(name, TensorProto.FLOAT), dims)
                for name, dims in found.items()
            ]

        constants = [numpy_helper.from_array(one, name) for name, one in self.constants.items()]
        graph = helper.make_graph(self.nodes, "decoder", values(inputs), values(outputs), constants)
        opset = [helper.make_opsetid("", 17)]
        return helper.make_model(graph, opset_imports=opset, ir_version=min(8, onnx.IR_VERSION))


def step_model(sizes, tokens, seed=0):
    """A decoder's step: a token, and the keys and values of `tokens` - 1 tokens before."""
    return _Writing(sizes, 1, tokens - 1, seed).model()


def whole_model(sizes, tokens, seed=0):
    """The same decoder over all tokens, without keys and values from before."""
    return _Writing(sizes, tokens, None, seed).model()


def causal_mask(tokens, window):
    """Numbers added to scores: zero for the last `window` tokens up to the one of the query."""
    back = np.arange(tokens)[:, None] - np.arange(tokens)
    return np.where((back >= 0) & (back < window), np.float32(0), FAR)[None, None]


def step_mask(number, window):
    """The mask of the token of that number, over the rows kept and itself."""
    return np.where(np.arange(window) >= window - 1 - number, np.float32(0), FAR)[None, None, None]


def steps(session, tokens, window):
    """Run a step model of onnxruntime token by token; yield its inputs and outputs by name."""
    names = [one.name for one in session.get_outputs()]
    kept = {
        one.name: np.zeros(one.shape, np.float32)
        for one in session.get_inputs()
        if one.name.startswith("past")
    }
    for number, token in enumerate(tokens):
        given = {"token": np.array([[token]]), "position": np.array([[number]])}
        given |= {"mask": step_mask(number, window), **kept}
        found = dict(zip(names, session.run(None, given), strict=True))
        kept = {name: found[name.replace("past", "present")][:, :, 1:] for name in kept}
        yield given, found


def quantized(path, tokens, window, folder):
    """Quantise a step model to int8 as onnxruntime does; return the path.

    Keys and values of tokens before get the scales of those with the token behind them: ranges of the
    calibration differ, since the last token is never one before.
    """
    frames = iter([given for given, _ in steps(ort.InferenceSession(path), tokens, window)])

    class Frames(CalibrationDataReader):
        def get_next(self):
            return next(frames, None)

    made = str(folder / "int8.onnx")
    kinds = {"activation_type": QuantType.QInt8, "weight_type": QuantType.QInt8}
    operators = ["MatMul", "Gather", "Concat"]
    quantize_static(path, made, Frames(), op_types_to_quantize=operators, **kinds)
    model = onnx.load(made)
    known = {one.name: one for one in model.graph.initializer}
    for name, one in known.items():
        if name.startswith("past"):
            one.CopyFrom(known[name.replace("past", "present")])
            one.name = name
    onnx.save(model, made)
    return made

"""Operators of ONNX Runtime as standard ONNX nodes.

An operator between integers (QLinearConv and its like) becomes nodes that dequantise its inputs, the
operator of real numbers, and a node that quantises its output; quantized_layers reads these nodes as
one layer again. Operators of the domain com.microsoft become the standard nodes that they fuse.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import onnx
from onnx import helper

from csdf.errors import UnreadableFile, UnsupportedOperator

RUNTIME = "com.microsoft"
# Standard operator, and number of inputs: each is followed by its scale and zero point, and the
# last two inputs are scale and zero point of the output.
BETWEEN_INTEGERS = {
    ("", "QLinearMatMul"): ("MatMul", 2),
    (RUNTIME, "QLinearAdd"): ("Add", 2),
    (RUNTIME, "QLinearMul"): ("Mul", 2),
    (RUNTIME, "QLinearAveragePool"): ("AveragePool", 1),
    (RUNTIME, "QLinearGlobalAveragePool"): ("GlobalAveragePool", 1),
    (RUNTIME, "QLinearLeakyRelu"): ("LeakyRelu", 1),
    (RUNTIME, "QLinearSigmoid"): ("Sigmoid", 1),
    (RUNTIME, "QLinearSoftmax"): ("Softmax", 1),
}
FIRST_WITH_AXES = 13  # opset in which a tensor may have a scale for each index of an axis
QUICK_GELU_ALPHA = 1.702  # default of ONNX Runtime
SKIP_EPSILON = 1e-12  # default of ONNX Runtime
SOFTMAX_AXIS = -1  # default of ONNX Runtime, for all opsets
INTEGER_ATTRIBUTES = ("channels_last", "opset")  # attributes of the integer operators only


def standard_nodes(node: onnx.NodeProto) -> Iterable[onnx.NodeProto]:
    """Return the standard nodes that compute an operator of ONNX Runtime; others as they are."""
    key = ("" if node.domain == "ai.onnx" else node.domain, node.op_type)
    if key in BETWEEN_INTEGERS:
        kind, count = BETWEEN_INTEGERS[key]
        axes = [1 if kind == "MatMul" and number == 1 else None for number in range(count)]
        reals = [(3 * number, axis) for number, axis in enumerate(axes)]
        return _OperatorExpansion(node).between_integers(kind, reals, stored=3 * count)
    return EXPANSIONS[key](_OperatorExpansion(node)) if key in EXPANSIONS else [node]


def opsets_of(
    proto: onnx.NodeProto, source: onnx.NodeProto, opsets: Mapping[str, int]
) -> Mapping[str, int]:
    """Return the opsets by which a node is read. source: the node of the file that it stems from.

    Opset 13 or newer if its scales have an axis; a QLinearSoftmax states the opset of its softmax.
    """
    is_along_axis = any(attribute.name == "axis" for attribute in proto.attribute)
    if proto.op_type == "Softmax":
        stated = [attribute.i for attribute in source.attribute if attribute.name == "opset"]
        return {**opsets, "": stated[0]} if stated else opsets
    if proto.op_type not in ("QuantizeLinear", "DequantizeLinear") or not is_along_axis:
        return opsets
    return {**opsets, "": max(opsets.get("", FIRST_WITH_AXES), FIRST_WITH_AXES)}


class _OperatorExpansion:
    """The standard nodes of an operator; the names of their tensors begin with its output."""

    def __init__(self, node: onnx.NodeProto) -> None:
        self.node = node
        self.output = node.output[0] if node.output else ""
        self.inputs = list(node.input)

    def input(self, index: int) -> str:
        """Return the name of an input; empty where it is left out."""
        return self.inputs[index] if index < len(self.inputs) else ""

    def name(self, suffix: str) -> str:
        """Return the name of a tensor between the nodes."""
        return f"{self.output} {suffix}"

    def real(self, name: str, default: float) -> float:
        """Return an attribute of type float."""
        return next(
            (attribute.f for attribute in self.node.attribute if attribute.name == name), default
        )

    def between_integers(
        self,
        kind: str,
        reals: Sequence[tuple[int, int | None]],
        *,
        stored: int,
        bias: int | None = None,
    ) -> Iterator[onnx.NodeProto]:
        """Dequantise the inputs, compute an operator of real numbers, quantise its result.

        reals: the positions of the inputs, each followed by its scale and zero point, and the axis of
        several scales. stored: the position of the scale and zero point of the result. bias: the
        position of a bias, whose scale is the product of the scales of inputs 0 and 3.
        """
        real_inputs = [self.name(f"real {number}") for number in range(len(reals))]
        for real, (index, axis) in zip(real_inputs, reals, strict=True):
            names = [self.input(index), self.input(index + 1), self.input(index + 2)]
            if not names[0] or not names[1]:
                raise UnreadableFile(f"node {self.node.name!r}: input {index} has no scale")
            yield helper.make_node("DequantizeLinear", names, [real], axis=axis)
        if bias is not None and self.input(bias):
            scale = self.name("scale")
            yield helper.make_node("Mul", [self.input(1), self.input(4)], [scale])
            real_inputs.append(self.name(f"real {len(real_inputs)}"))
            names = [self.input(bias), scale]
            yield helper.make_node("DequantizeLinear", names, real_inputs[-1:], axis=0)
        is_real = kind == "Gemm" and not self.input(stored)
        result = self.output if is_real else self.name("result")
        node = helper.make_node(kind, real_inputs, [result], name=self.node.name)
        for attribute in self.node.attribute:
            if attribute.name not in INTEGER_ATTRIBUTES:
                node.attribute.append(attribute)
            elif attribute.name == "channels_last" and attribute.i:
                raise UnsupportedOperator(
                    f"node {self.node.name!r} ({self.node.op_type}): channels_last = {attribute.i} is "
                    "not supported; save the model before ONNX Runtime optimises it"
                )
        if kind == "Softmax" and "axis" not in {attribute.name for attribute in node.attribute}:
            node.attribute.append(helper.make_attribute("axis", SOFTMAX_AXIS))
        yield node
        names = [result, self.input(stored), self.input(stored + 1)]
        if not is_real and not names[1]:
            raise UnreadableFile(f"node {self.node.name!r}: its output has no scale")
        if not is_real:
            yield helper.make_node("QuantizeLinear", names, [self.output])


def _gemm(expansion: _OperatorExpansion) -> Iterator[onnx.NodeProto]:
    by_units = any(
        attribute.name == "transB" and attribute.i for attribute in expansion.node.attribute
    )
    reals = [(0, None), (3, 0 if by_units else 1)]
    for node in expansion.between_integers("Gemm", reals, bias=6, stored=7):
        if node.op_type == "Gemm":  # alpha multiplies the bias, too: it is among its scales
            node.attribute.append(helper.make_attribute("beta", expansion.real("alpha", 1.0)))
        yield node


def _concatenation(expansion: _OperatorExpansion) -> Iterator[onnx.NodeProto]:
    count = (len(expansion.inputs) - 2) // 3
    reals = [(2 + 3 * number, None) for number in range(count)]
    return expansion.between_integers("Concat", reals, stored=0)


def _as_standard(expansion: _OperatorExpansion) -> Iterator[onnx.NodeProto]:
    """The standard operator of the same name, which ONNX Runtime extended to more types first."""
    copy = onnx.NodeProto()
    copy.CopyFrom(expansion.node)
    copy.domain = ""
    yield copy


def _gelu_of_sum(expansion: _OperatorExpansion) -> Iterator[onnx.NodeProto]:
    """A GELU after an optional bias; FastGelu is the approximation by tanh."""
    source = expansion.input(0)
    if expansion.input(1):
        source = expansion.name("sum")
        yield helper.make_node("Add", [expansion.input(0), expansion.input(1)], [source])
    attributes = {"approximate": "tanh"} if expansion.node.op_type == "FastGelu" else {}
    yield helper.make_node("Gelu", [source], [expansion.output], expansion.node.name, **attributes)


def _quick_gelu(expansion: _OperatorExpansion) -> Iterator[onnx.NodeProto]:
    """An element times the sigmoid of alpha times the element."""
    alpha = expansion.real("alpha", QUICK_GELU_ALPHA)
    factor, scaled, share = (expansion.name(suffix) for suffix in ("alpha", "scaled", "share"))
    yield helper.make_node("Constant", [], [factor], value_float=alpha)
    yield helper.make_node("Mul", [expansion.input(0), factor], [scaled])
    yield helper.make_node("Sigmoid", [scaled], [share])
    yield helper.make_node(
        "Mul", [expansion.input(0), share], [expansion.output], expansion.node.name
    )


def _skip_normalization(expansion: _OperatorExpansion) -> Iterator[onnx.NodeProto]:
    """The layer normalisation of a sum of two tensors and a bias; the sum may be an output too."""
    outputs = [*expansion.node.output, "", "", "", ""]
    if outputs[1] or outputs[2]:
        raise UnreadableFile(f"node {expansion.node.name!r}: its mean or deviation as an output")
    total = outputs[3] or expansion.name("sum")
    first = expansion.name("sum without bias") if expansion.input(4) else total
    yield helper.make_node("Add", [expansion.input(0), expansion.input(1)], [first])
    if expansion.input(4):
        yield helper.make_node("Add", [first, expansion.input(4)], [total])
    epsilon = expansion.real("epsilon", SKIP_EPSILON)
    names = [total, expansion.input(2), *filter(None, [expansion.input(3)])]
    yield helper.make_node(
        "LayerNormalization", names, [expansion.output], expansion.node.name, epsilon=epsilon
    )


def _dynamic_product(expansion: _OperatorExpansion) -> Iterator[onnx.NodeProto]:
    """A real matrix, quantised by its own range, times a trained matrix."""
    names = [expansion.name(suffix) for suffix in ("integers", "scale", "zero point")]
    yield helper.make_node("DynamicQuantizeLinear", [expansion.input(0)], names)
    zeros = [names[2], expansion.input(3)]
    yield from _rescaled_product(expansion, names[0], zeros, [names[1], expansion.input(2)], bias=4)


def _real_product(expansion: _OperatorExpansion) -> Iterator[onnx.NodeProto]:
    zeros = [expansion.input(4), expansion.input(5)]
    scales = [expansion.input(2), expansion.input(3)]
    yield from _rescaled_product(expansion, expansion.input(0), zeros, scales, bias=6)


def _rescaled_product(
    expansion: _OperatorExpansion, left: str, zeros: list[str], scales: list[str], *, bias: int
) -> Iterator[onnx.NodeProto]:
    """A product of integers, times both scales, plus a bias."""
    sums, real, scale = (expansion.name(suffix) for suffix in ("sums", "real sums", "scales"))
    result = expansion.name("rescaled") if expansion.input(bias) else expansion.output
    yield helper.make_node("MatMulInteger", [left, expansion.input(1), *zeros], [sums])
    yield helper.make_node("Cast", [sums], [real], to=onnx.TensorProto.FLOAT)
    yield helper.make_node("Mul", scales, [scale])
    yield helper.make_node("Mul", [real, scale], [result])
    if expansion.input(bias):
        yield helper.make_node("Add", [result, expansion.input(bias)], [expansion.output])


EXPANSIONS: Mapping[tuple[str, str], Callable[[_OperatorExpansion], Iterator[onnx.NodeProto]]] = {
    ("", "QLinearConv"): lambda expansion: expansion.between_integers(
        "Conv", [(0, None), (3, 0)], bias=8, stored=6
    ),
    (RUNTIME, "QGemm"): _gemm,
    (RUNTIME, "QLinearConcat"): _concatenation,
    (RUNTIME, "QuantizeLinear"): _as_standard,
    (RUNTIME, "DequantizeLinear"): _as_standard,
    (RUNTIME, "Gelu"): _as_standard,
    (RUNTIME, "BiasGelu"): _gelu_of_sum,
    (RUNTIME, "FastGelu"): _gelu_of_sum,
    (RUNTIME, "QuickGelu"): _quick_gelu,
    (RUNTIME, "SkipLayerNormalization"): _skip_normalization,
    (RUNTIME, "DynamicQuantizeMatMul"): _dynamic_product,
    (RUNTIME, "MatMulIntegerToFloat"): _real_product,
}


def kinds() -> list[str]:
    """Return the operators that are expanded; names of another domain begin with it and a point."""
    return sorted(
        f"{domain}.{kind}".lstrip(".") for domain, kind in (*BETWEEN_INTEGERS, *EXPANSIONS)
    )

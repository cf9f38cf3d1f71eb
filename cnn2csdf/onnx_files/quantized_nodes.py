"""Operators of ONNX Runtime between integers, as the three steps that they stand for.

QLinearConv and its like read integers with scale and zero point and write integers. Here each of
them becomes nodes that make its inputs real, the operator itself, and one that stores its output;
those are read as one layer again (quantized_layers).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

import onnx
from onnx import helper

from csdf.errors import UnreadableFile

RUNTIME = "com.microsoft"
PLAIN = {  # each input is followed by its scale and zero point; those of the output come last
    ("", "QLinearMatMul"): ("MatMul", 2),
    (RUNTIME, "QLinearAdd"): ("Add", 2),
    (RUNTIME, "QLinearMul"): ("Mul", 2),
    (RUNTIME, "QLinearAveragePool"): ("AveragePool", 1),
    (RUNTIME, "QLinearGlobalAveragePool"): ("GlobalAveragePool", 1),
    (RUNTIME, "QLinearLeakyRelu"): ("LeakyRelu", 1),
    (RUNTIME, "QLinearSigmoid"): ("Sigmoid", 1),
    (RUNTIME, "QLinearSoftmax"): ("Softmax", 1),
}
FIRST_WITH_AXES = 13  # opset in which tensors may have a scale for each place along an axis
DROPPED = ("channels_last", "opset")  # attributes that only the integer operators have


def opened(nodes: Iterable[onnx.NodeProto]) -> list[onnx.NodeProto]:
    """Return the nodes, where operators between integers are the steps that they stand for."""
    return [step for node in nodes for step in _steps(node)]


def _steps(node: onnx.NodeProto) -> Iterable[onnx.NodeProto]:
    domain = "" if node.domain == "ai.onnx" else node.domain
    if (domain, node.op_type) in PLAIN:
        return _plain(_Steps(node), *PLAIN[domain, node.op_type])
    if (domain, node.op_type) in SPECIAL:
        return SPECIAL[domain, node.op_type](_Steps(node))
    return [node]


def with_axes(proto: onnx.NodeProto, opsets: Mapping[str, int]) -> Mapping[str, int]:
    """Return the opsets by which a node is read: an axis of scales came with opset 13."""
    is_along_axis = any(one.name == "axis" for one in proto.attribute)
    if proto.op_type not in ("QuantizeLinear", "DequantizeLinear") or not is_along_axis:
        return opsets
    return {**opsets, "": max(opsets.get("", FIRST_WITH_AXES), FIRST_WITH_AXES)}


class _Steps:
    """Makes the nodes of one operator; their tensors are called after its output."""

    def __init__(self, node: onnx.NodeProto) -> None:
        self.node = node
        self.output = node.output[0] if node.output else ""
        self.inputs = list(node.input)

    def input(self, place: int) -> str:
        """Return an input; empty where it is left out."""
        return self.inputs[place] if place < len(self.inputs) else ""

    def real(self, number: int, place: int, axis: int | None = None) -> onnx.NodeProto:
        """Make an input real by the scale and zero point behind it."""
        names = [self.input(place), self.input(place + 1), self.input(place + 2)]
        if not names[0] or not names[1]:
            raise UnreadableFile(f"node {self.node.name!r}: input {place} has no scale")
        found = helper.make_node("DequantizeLinear", names, [self.name(f"real {number}")])
        if axis is not None:
            found.attribute.append(helper.make_attribute("axis", axis))
        return found

    def name(self, what: str) -> str:
        """Return the name of a tensor between the steps."""
        return f"{self.output} {what}"

    def operator(self, kind: str, inputs: list[str]) -> onnx.NodeProto:
        """Make the operator itself, with the attributes that it knows."""
        found = helper.make_node(kind, inputs, [self.name("result")], name=self.node.name)
        found.attribute.extend(one for one in self.node.attribute if one.name not in DROPPED)
        return found

    def stored(self, place: int) -> onnx.NodeProto:
        """Store the result by the scale and zero point at that place."""
        names = [self.name("result"), self.input(place), self.input(place + 1)]
        if not names[1]:
            raise UnreadableFile(f"node {self.node.name!r}: its output has no scale")
        return helper.make_node("QuantizeLinear", names, [self.output])

    def bias(self, place: int) -> Iterator[onnx.NodeProto]:
        """Make a bias real: its scale is that of the products, which are of inputs 0 and 3."""
        scale = self.name("scale")
        yield helper.make_node("Mul", [self.input(1), self.input(4)], [scale])
        real = helper.make_node(
            "DequantizeLinear", [self.input(place), scale], [self.name("real 2")]
        )
        real.attribute.append(helper.make_attribute("axis", 0))
        yield real


def _plain(steps: _Steps, kind: str, count: int) -> Iterator[onnx.NodeProto]:
    for number in range(count):
        is_matrix = kind == "MatMul" and number == 1
        yield steps.real(number, 3 * number, axis=1 if is_matrix else None)
    yield steps.operator(kind, [steps.name(f"real {number}") for number in range(count)])
    yield steps.stored(3 * count)


def _convolution(steps: _Steps) -> Iterator[onnx.NodeProto]:
    inputs = [steps.name("real 0"), steps.name("real 1")]
    yield steps.real(0, 0)
    yield steps.real(1, 3, axis=0)
    if steps.input(8):
        yield from steps.bias(8)
        inputs.append(steps.name("real 2"))
    yield steps.operator("Conv", inputs)
    yield steps.stored(6)


def _gemm(steps: _Steps) -> Iterator[onnx.NodeProto]:
    inputs = [steps.name("real 0"), steps.name("real 1")]
    by_units = any(one.name == "transB" and one.i for one in steps.node.attribute)
    yield steps.real(0, 0)
    yield steps.real(1, 3, axis=0 if by_units else 1)
    if steps.input(6):
        yield from steps.bias(6)
        inputs.append(steps.name("real 2"))
    result = steps.operator("Gemm", inputs)
    if steps.input(7):
        yield result
        yield steps.stored(7)
    else:
        del result.output[:]
        result.output.append(steps.output)
        yield result


def _concatenation(steps: _Steps) -> Iterator[onnx.NodeProto]:
    count = (len(steps.inputs) - 2) // 3
    for number in range(count):
        yield steps.real(number, 2 + 3 * number)
    yield steps.operator("Concat", [steps.name(f"real {number}") for number in range(count)])
    yield steps.stored(0)


def _as_standard(steps: _Steps) -> Iterator[onnx.NodeProto]:
    """The runtime's own form, which took other types before the standard did."""
    found = onnx.NodeProto()
    found.CopyFrom(steps.node)
    found.domain = ""
    yield found


def _dynamic_product(steps: _Steps) -> Iterator[onnx.NodeProto]:
    """A real matrix, quantised by its own range, times a trained one."""
    names = [steps.name(what) for what in ("integers", "scale", "zero point")]
    yield helper.make_node("DynamicQuantizeLinear", [steps.input(0)], names)
    zeros = [names[2], steps.input(3)]
    yield from _rescaled_product(steps, names[0], zeros, [names[1], steps.input(2)], bias=4)


def _real_product(steps: _Steps) -> Iterator[onnx.NodeProto]:
    zeros, scales = [steps.input(4), steps.input(5)], [steps.input(2), steps.input(3)]
    yield from _rescaled_product(steps, steps.input(0), zeros, scales, bias=6)


def _rescaled_product(
    steps: _Steps, left: str, zeros: list[str], scales: list[str], *, bias: int
) -> Iterator[onnx.NodeProto]:
    """A product of integers made real by both scales, and a bias added."""
    sums, real, scale = (steps.name(what) for what in ("sums", "real sums", "scales"))
    result = steps.name("rescaled") if steps.input(bias) else steps.output
    yield helper.make_node("MatMulInteger", [left, steps.input(1), *zeros], [sums])
    yield helper.make_node("Cast", [sums], [real], to=onnx.TensorProto.FLOAT)
    yield helper.make_node("Mul", scales, [scale])
    yield helper.make_node("Mul", [real, scale], [result])
    if steps.input(bias):
        yield helper.make_node("Add", [result, steps.input(bias)], [steps.output])


SPECIAL: Mapping[tuple[str, str], Callable[[_Steps], Iterator[onnx.NodeProto]]] = {
    ("", "QLinearConv"): _convolution,
    (RUNTIME, "QGemm"): _gemm,
    (RUNTIME, "QLinearConcat"): _concatenation,
    (RUNTIME, "QuantizeLinear"): _as_standard,
    (RUNTIME, "DequantizeLinear"): _as_standard,
    (RUNTIME, "DynamicQuantizeMatMul"): _dynamic_product,
    (RUNTIME, "MatMulIntegerToFloat"): _real_product,
}


def kinds() -> list[str]:
    """Return the operators that are opened, those of the runtime with its domain in front."""
    found = [f"{domain}.{kind}".lstrip(".") for domain, kind in (*PLAIN, *SPECIAL)]
    return sorted(found)

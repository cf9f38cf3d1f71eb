"""Rules that replace several nodes of an ONNX graph by one node, tried from the last node to the first.

A rule is a function of the last node of its pattern and the context: it returns the node in place of
the pattern, or None. `PATTERNS` lists the rules of each type of last node, in the order of trial.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import isclose, pi, prod, sqrt
from typing import Any, NamedTuple

import onnx

from cnn2csdf.onnx_files.graph_values import GraphValues
from cnn2csdf.onnx_files.nodes import OnnxNode, node_of

TOLERANCE = 1e-3  # of a constant that exporters round, such as 1/6 or the square root of 2
STACKED = {"ReduceSum": "Sum", "ReduceMean": "Mean", "ReduceMax": "Max", "ReduceMin": "Min"}
PRODUCTS = {"Conv": 2, "ConvTranspose": 2, "Gemm": 2, "MatMul": 2}  # where the bias is an input


class PatternOperands(NamedTuple):
    """The operands of a node of which the frame computes only the first."""

    tensor: str
    constant: float


class Centred(NamedTuple):
    """A tensor less its mean. mean: the node that computes the mean."""

    source: str
    mean: OnnxNode


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """Who writes each tensor, how often it is read, and what is known of it."""

    writers: Mapping[str, OnnxNode]
    readers: Mapping[str, int]
    values: GraphValues

    def unshared(self, tensor: str, *op_types: str) -> OnnxNode | None:
        """Return the node of one of these types that writes a tensor that no other node reads."""
        is_shared = self.readers[tensor] != 1 or self.values.is_static(tensor)
        return None if is_shared else self.writer(tensor, *op_types)

    def writer(self, tensor: str, *op_types: str) -> OnnxNode | None:
        """Return the standard node that writes a tensor; None for a node of another type."""
        node = self.writers.get(tensor)
        return node if node and not node.domain and node.op_type in op_types else None

    def scalar(self, tensor: str | None) -> float | None:
        """Return the value of a static tensor of one element."""
        if tensor is None or not self.values.is_static(tensor):
            return None
        if prod(self.values.dims(tensor)) != 1:
            return None
        return float(self.values.value(tensor).reshape(-1)[0])

    def operands(self, node: OnnxNode) -> PatternOperands | None:
        """Return the operands of a node that combines a tensor with a number, in either order."""
        if len(node.inputs) != 2:
            return None
        for tensor, constant in (node.inputs, node.inputs[::-1]):
            value = self.scalar(constant)
            if value is not None and not self.values.is_static(tensor):
                return PatternOperands(tensor, value)
        return None


Pattern = Callable[[OnnxNode, Context], OnnxNode | None]


def layer_nodes(
    nodes: Sequence[OnnxNode],
    outputs: Sequence[str],
    values: GraphValues,
    *,
    finds_patterns: bool = True,
) -> tuple[list[OnnxNode], set[str]]:
    """Return the nodes that become layers, in running order, and the tensors that are read.

    Nodes that no frame changes are left out, as are nodes that became part of another node.
    finds_patterns: whether several nodes may become one.
    """
    context = Context(
        writers={name: node for node in nodes for name in node.outputs},
        readers=Counter([*outputs, *(name for node in nodes for name in node.inputs)]),
        values=values,
    )
    needed = set(outputs)
    backwards: list[OnnxNode] = []
    for node in reversed(nodes):
        is_needed = not needed.isdisjoint(node.outputs)
        if not is_needed or values.is_static(next(filter(None, node.outputs))):
            continue
        is_last = finds_patterns and not node.domain
        patterns = PATTERNS.get(node.op_type, ()) if is_last else ()
        layer = next(filter(None, (pattern(node, context) for pattern in patterns)), node)
        backwards.append(layer)
        needed.update(filter(None, layer.inputs))
    return backwards[::-1], needed


def _in_place_of(node: OnnxNode, op_type: str, *sources: str, **attributes: Any) -> OnnxNode:
    """The node in place of a pattern, with the name and the output of its last node."""
    proto = onnx.helper.make_node(op_type, sources, node.outputs[:1], name=node.name, **attributes)
    return node_of(proto, {"": node.opset})


def bias_addition(node: OnnxNode, context: Context) -> OnnxNode | None:
    """A product without a bias, and the addition of one constant a channel after it.

    before: p = Conv(x, w); y = Add(p, [[[[1.0]], [[2.0]]]])
    after:  y = Conv(x, w, [[[[1.0]], [[2.0]]]])
    """
    for source, constant in (node.inputs, node.inputs[::-1]):
        product = context.unshared(source, *PRODUCTS)
        if product is None or product.input(2) is not None:
            continue
        if context.values.is_static(constant) and _is_bias(product, constant, node, context):
            proto = onnx.helper.make_node(
                product.op_type, [*product.inputs[:2], constant], node.outputs[:1], product.name
            )
            kept = [attribute for name, attribute in product.attributes.items() if name != "beta"]
            proto.attribute.extend(kept)
            return node_of(proto, {"": product.opset})
    return None


def _is_bias(product: OnnxNode, constant: str, addition: OnnxNode, context: Context) -> bool:
    dims = context.values.dims(product.outputs[0])
    if context.values.dims(addition.outputs[0]) != dims or len(dims) < 2 or dims[0] != 1:
        return False
    if product.op_type in ("MatMul", "Gemm") and (
        len(dims) != 2 or not context.values.is_static(product.inputs[1])
    ):
        return False
    added = context.values.dims(constant)
    aligned = (1,) * (len(dims) - len(added)) + added
    return aligned[1] in (1, dims[1]) and prod(aligned) == aligned[1]


def gated_activation(node: OnnxNode, context: Context) -> OnnxNode | None:
    """An input times a function of itself: SiLU, hard swish, Mish.

    before: s = Softplus(x); t = Tanh(s); y = Mul(x, t)
    after:  y = Mish(x)
    """
    for source, gate in (node.inputs, node.inputs[::-1]):
        sigmoid = context.unshared(gate, "Sigmoid")
        if sigmoid is not None and sigmoid.inputs[0] == source:
            return _in_place_of(node, "Swish", source)
        hard = context.unshared(gate, "HardSigmoid")
        if hard is not None and hard.inputs[0] == source and hard.real("beta", 0.5) == 0.5:
            if isclose(hard.real("alpha", 0.2), 1 / 6, rel_tol=TOLERANCE):
                return _in_place_of(node, "HardSwish", source)
        tanh = context.unshared(gate, "Tanh")
        softplus = tanh and context.unshared(tanh.inputs[0], "Softplus")
        if softplus and softplus.inputs[0] == source:
            return _in_place_of(node, "Mish", source)
    return None


def gelu(node: OnnxNode, context: Context) -> OnnxNode | None:
    """The product of x, 0.5 and 1 + erf(x / sqrt 2) or its approximation by tanh, in any order.

    before: d = Div(x, 1.414214); e = Erf(d); a = Add(e, 1.0); p = Mul(x, a); y = Mul(p, 0.5)
    after:  y = Gelu(x)
    """
    factors = _three_factors(node, context)
    halves = [name for name in factors if context.scalar(name) == 0.5]
    remaining = [name for name in factors if name not in halves]
    if len(halves) != 1 or len(remaining) != 2:
        return None
    for source, gate in (remaining, remaining[::-1]):
        addition = context.unshared(gate, "Add")
        summands = addition and context.operands(addition)
        if not summands or summands.constant != 1:
            continue
        if _scaled_error_function(summands.tensor, context) == source:
            return _in_place_of(node, "Gelu", source)
        if _is_tanh_of_cubic(summands.tensor, source, context):
            return _in_place_of(node, "Gelu", source, approximate="tanh")
    return None


def _three_factors(node: OnnxNode, context: Context) -> list[str]:
    """The factors of a product of three that two nodes compute; of another product, none."""
    for source, factor in (node.inputs, node.inputs[::-1]):
        if inner := context.unshared(source, "Mul"):
            return [*inner.inputs, factor]
    return []


def _is_tanh_of_cubic(tensor: str, source: str, context: Context) -> bool:
    """Whether a tensor is tanh(sqrt(2 / pi) * (x + 0.044715 * x ** 3))."""
    tanh = context.unshared(tensor, "Tanh")
    inner = tanh and _times(tanh.inputs[0], sqrt(2 / pi), context)
    addition = inner and context.unshared(inner, "Add")
    if not addition or source not in addition.inputs:
        return False
    first, second = addition.inputs
    cube = _times(second if first == source else first, 0.044715, context)
    power = cube and context.unshared(cube, "Pow", "Mul")
    if not power:
        return False
    if power.op_type == "Pow":
        return power.inputs[0] == source and context.scalar(power.inputs[1]) == 3
    square = next((name for name in power.inputs if name != source), source)
    squaring = context.unshared(square, "Mul")
    return source in power.inputs and squaring is not None and set(squaring.inputs) == {source}


def _times(tensor: str, factor: float, context: Context) -> str | None:
    """The dynamic operand of a product with a constant that is about this factor."""
    product = context.unshared(tensor, "Mul")
    operands = product and context.operands(product)
    is_product = operands and isclose(operands.constant, factor, rel_tol=TOLERANCE)
    return operands.tensor if operands and is_product else None


def layer_normalization(node: OnnxNode, context: Context) -> OnnxNode | None:
    """A tensor less its mean, over its deviation along the last axes, scaled and shifted.

    before: m = ReduceMean(x, axes=[-1]); d = Sub(x, m); q = Pow(d, 2.0);
            v = ReduceMean(q, axes=[-1]); a = Add(v, 0.25); r = Sqrt(a); n = Div(d, r);
            p = Mul(n, 3.0); y = Add(p, 4.0)
    after:  y = LayerNormalization(x, 3.0, 4.0, axis=3, epsilon=0.25)
    """
    for scaled, shift in (node.inputs, node.inputs[::-1]):
        product = context.unshared(scaled, "Mul")
        if product is None or not context.values.is_static(shift):
            continue
        for standard, scale in (product.inputs, product.inputs[::-1]):
            is_scaled = context.values.is_static(scale)
            if is_scaled and (standardised := _standardised(standard, context)):
                source, axis, epsilon = standardised
                names = (source, scale, shift)
                rank = len(context.values.dims(source)) - axis
                if any(len(context.values.dims(tensor)) > rank for tensor in (scale, shift)):
                    continue
                return _in_place_of(node, "LayerNormalization", *names, axis=axis, epsilon=epsilon)
    return None


def _standardised(tensor: str, context: Context) -> tuple[str, int, float] | None:
    """The x of d / sqrt(mean(d ** 2) + epsilon), its first averaged axis, and epsilon; d = x - mean(x).

    Either use of d may have a subtraction and a mean of its own.
    """
    division = context.unshared(tensor, "Div")
    root = division and context.unshared(division.inputs[1], "Sqrt")
    addition = root and context.unshared(root.inputs[0], "Add")
    summands = addition and context.operands(addition)  # the variance and epsilon
    averaging = summands and context.unshared(summands.tensor, "ReduceMean")
    square = averaging and context.unshared(averaging.inputs[0], "Pow", "Mul")
    if not (division and summands and averaging and square):
        return None
    base, exponent = square.inputs
    is_square = base == exponent if square.op_type == "Mul" else context.scalar(exponent) == 2
    if not is_square:
        return None
    dividend = _centred(division.inputs[0], context)
    squared = _centred(base, context)
    if dividend is None or squared is None or dividend.source != squared.source:
        return None
    source, rank = squared.source, len(context.values.dims(squared.source))
    means = (averaging, dividend.mean, squared.mean)
    axes = {_listed(mean, context, rank) for mean in means}
    if len(axes) != 1 or not all(mean.integer("keepdims", 1) for mean in means):
        return None
    (along,) = axes
    if not along or sorted(along) != list(range(min(along), rank)) or min(along) == 0:
        return None
    return source, min(along), summands.constant


def _centred(tensor: str, context: Context) -> Centred | None:
    """The x of x - mean(x), and the node of the mean."""
    subtraction = context.writer(tensor, "Sub")
    mean = subtraction and context.writer(subtraction.inputs[1], "ReduceMean")
    is_centred = subtraction and mean and mean.inputs[0] == subtraction.inputs[0]
    return Centred(mean.inputs[0], mean) if mean and is_centred else None


def _scaled_error_function(tensor: str, context: Context) -> str | None:
    """The x of erf(x / sqrt 2)."""
    erf = context.unshared(tensor, "Erf")
    scaling = erf and context.unshared(erf.inputs[0], "Div", "Mul")
    operands = scaling and context.operands(scaling)
    if not scaling or not operands or scaling.inputs[0] != operands.tensor:
        return None
    expected = sqrt(2) if scaling.op_type == "Div" else sqrt(0.5)
    return operands.tensor if isclose(operands.constant, expected, rel_tol=TOLERANCE) else None


def channel_shuffle(node: OnnxNode, context: Context) -> OnnxNode | None:
    """Channels cut into groups, groups and positions in them exchanged, and joined again.

    before: c = Reshape(x, [1, 2, 3, 4, 5]); t = Transpose(c, perm=[0, 2, 1, 3, 4]);
            y = Reshape(t, [1, 6, 4, 5])
    after:  y = ChannelShuffle(x, groups=2)
    """
    swap = context.unshared(node.inputs[0], "Transpose")
    cut = swap and context.unshared(swap.inputs[0], "Reshape")
    if not swap or not cut:
        return None
    before, middle = context.values.dims(cut.inputs[0]), context.values.dims(cut.outputs[0])
    if before != context.values.dims(node.outputs[0]) or len(before) != 4:
        return None
    if len(middle) not in (4, 5) or swap.integers("perm") != (0, 2, 1, *range(3, len(middle))):
        return None
    batch, channels, *_ = before
    batch_of_groups, groups, channels_of_group, *_ = middle
    is_shuffle = batch == batch_of_groups == 1 and groups * channels_of_group == channels
    return (
        _in_place_of(node, "ChannelShuffle", cut.inputs[0], groups=groups) if is_shuffle else None
    )


def stacked_reduction(node: OnnxNode, context: Context) -> OnnxNode | None:
    """Tensors stacked along a new axis and reduced along it again: a function of their elements.

    before: a = Unsqueeze(x, axes=[0]); b = Unsqueeze(z, axes=[0]); c = Concat(a, b, axis=0);
            y = ReduceMax(c, axes=[0], keepdims=0)
    after:  y = Max(x, z)
    """
    stack = context.unshared(node.inputs[0], "Concat")
    if stack is None or node.integer("keepdims", 1):
        return None
    rank = len(context.values.dims(stack.outputs[0]))
    axis = stack.integer("axis", 0) % rank
    if _listed(node, context, rank) != (axis,):
        return None
    sources = []
    for name in stack.inputs:
        unsqueezed = context.unshared(name, "Unsqueeze")
        if unsqueezed is None or _listed(unsqueezed, context, rank) != (axis,):
            return None
        sources.append(unsqueezed.inputs[0])
    return _in_place_of(node, STACKED[node.op_type], *sources)


def _listed(node: OnnxNode, context: Context, rank: int) -> tuple[int, ...] | None:
    """The axes of a node, an attribute or an input, counted from the front."""
    axes = node.integers("axes")
    tensor = node.input(1)
    if axes is None and tensor is not None and context.values.is_static(tensor):
        axes = tuple(int(number) for number in context.values.value(tensor).reshape(-1))
    return None if axes is None else tuple(axis % rank for axis in axes)


def zero_for_nan(node: OnnxNode, context: Context) -> OnnxNode | None:
    """The zero that exporters write instead of the softmax of a token that meets no key.

    before: n = IsNaN(x); y = Where(n, 0.0, x)
    after:  y = ZeroForNan(x)
    """
    test = context.unshared(node.inputs[0], "IsNaN")
    if test is None or test.inputs[0] != node.inputs[2] or context.scalar(node.inputs[1]) != 0:
        return None
    return _in_place_of(node, "ZeroForNan", node.inputs[2])


PATTERNS: Mapping[str, tuple[Pattern, ...]] = {
    "Add": (bias_addition, layer_normalization),
    "Mul": (gated_activation, gelu),
    "Reshape": (channel_shuffle,),
    "Where": (zero_for_nan,),
    **dict.fromkeys(STACKED, (stacked_reduction,)),
}

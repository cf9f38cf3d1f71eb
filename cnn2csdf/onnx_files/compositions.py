"""ONNX operators that are read as a composition of others: one-hot, attention, and functions.

The standard defines some operators as functions: their schemas contain the nodes. Other compositions
follow the specifications of the operators.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod, sqrt
from typing import Any

import numpy as np
import onnx
from onnx import defs, helper, numpy_helper

from cnn2csdf.onnx_files.graph_values import GraphValues
from cnn2csdf.onnx_files.nodes import OnnxNode, node_of, unsupported
from csdf.errors import counted

STATISTICS = (3, 4)  # inputs of a batch normalisation: mean and variance
LEAST = -1e30  # the score of a masked key; the sum of two is still a single-precision number
HEADS = ("q_num_heads", "kv_num_heads", "kv_num_heads")  # of queries, keys and values
WINDOWS = ("left_window_size", "right_window_size")  # of keys that a query attends; -1: all
SUMS = ("ReduceL1", "ReduceLogSum", "ReduceSumSquare")
FUNCTIONS = ("GroupNormalization", "MeanVarianceNormalization", "RMSNormalization", "Shrink")


def composition(node: OnnxNode, values: GraphValues) -> list[OnnxNode] | None:
    """Return the nodes that replace a node, in execution order; None for a node that stays.

    Constants of the composition are recorded. Raises UnsupportedOperator for a form of an operator
    that no composition covers.
    """
    if node.domain:
        return None
    if node.op_type == "BatchNormalization" and all(
        values.is_static(node.required(index)) for index in STATISTICS
    ):
        return None
    compose = COMPOSITIONS.get(node.op_type)
    return None if compose is None else compose(node, values)


class _Composition:
    """The nodes of one operator; the names of tensors between them begin with its name."""

    opsets: Mapping[str, int] = {"": 17}
    separator = " "  # before the number of a node in its name

    def __init__(self, node: OnnxNode, values: GraphValues) -> None:
        self.node, self.values = node, values
        self.nodes: list[OnnxNode] = []

    def add(self, op_type: str, *inputs: str, output: str = "", **attributes: Any) -> str:
        """Add a node, and return the name of its output."""
        name = output or f"{self.node.name}/{op_type}{self.separator}{len(self.nodes)}"
        proto = helper.make_node(op_type, inputs, [name], name=name, **attributes)
        self.nodes.append(node_of(proto, self.opsets))
        return name

    def constant(self, value: Any) -> str:
        """Add a constant, and return its name."""
        array = np.asarray(value)
        name = f"{self.node.name}/constant {len(self.nodes)} {array.shape} {array.size}"
        name = f"{name} {array.reshape(-1)[:2].tolist()}"
        self.values.add_constants({name: numpy_helper.from_array(array, name)})
        return name


def _one_hot(node: OnnxNode, values: GraphValues) -> list[OnnxNode]:
    """The numbers along a new axis compared with 0 to depth - 1; negative numbers count from depth."""
    steps = _Composition(node, values)
    if not all(values.is_static(node.required(index)) for index in (1, 2)):
        raise unsupported(node, "a depth or values that are computed from the frame")
    indices, rank = node.required(0), len(values.dims(node.required(0)))
    depth = int(values.value(node.required(1)).reshape(-1)[0])
    off, on = values.value(node.required(2)).reshape(-1)
    axis = node.integer("axis", -1) % (rank + 1)
    kind = helper.tensor_dtype_to_np_dtype(values.element_type(indices))
    if not np.issubdtype(kind, np.unsignedinteger):
        zero, size = steps.constant(np.zeros(1, kind)), steps.constant(np.full(1, depth, kind))
        from_end = steps.add("Add", indices, size)
        indices = steps.add("Where", steps.add("Less", indices, zero), from_end, indices)
    column = steps.add("Unsqueeze", indices, steps.constant(np.array([axis])))
    dims = [depth if place == axis else 1 for place in range(rank + 1)]
    is_hot = steps.add("Equal", column, steps.constant(np.arange(depth, dtype=kind).reshape(dims)))
    filled = steps.constant(np.array([on])), steps.constant(np.array([off]))
    steps.add("Where", is_hot, *filled, output=node.outputs[0])
    return steps.nodes


def _sum(node: OnnxNode, values: GraphValues) -> list[OnnxNode]:
    """A sum of a function of elements, or a function of the sum."""
    steps, source = _Composition(node, values), node.required(0)
    if node.op_type == "ReduceL1":
        source = steps.add("Abs", source)
    elif node.op_type == "ReduceSumSquare":
        source = steps.add("Mul", source, source)
    axes, listed = node.integers("axes"), node.input(1)
    if axes is not None:
        listed = steps.constant(np.array(axes))
    attributes = {
        name: node.integer(name, default)
        for name, default in (("keepdims", 1), ("noop_with_empty_axes", 0))
    }
    names = (source,) if listed is None else (source, listed)
    is_logarithm = node.op_type == "ReduceLogSum"
    output = "" if is_logarithm else node.outputs[0]
    total = steps.add("ReduceSum", *names, output=output, **attributes)
    if is_logarithm:
        steps.add("Log", total, output=node.outputs[0])
    return steps.nodes


def _normalised_by_frame(node: OnnxNode, values: GraphValues) -> list[OnnxNode]:
    """A batch normalisation by means and variances that the frame gives."""
    if node.integer("training_mode", 0):
        raise unsupported(node, "training_mode is not supported; export the model for inference")
    steps, rank = _Composition(node, values), len(values.dims(node.required(0)))
    dims = steps.constant(np.array([1, -1, *(1 for _ in range(rank - 2))]))
    scale, shift, mean, variance = (
        steps.add("Reshape", node.required(index), dims) for index in range(1, 5)
    )
    epsilon = steps.constant(np.array([node.real("epsilon", 1e-5)], np.float32))
    deviation = steps.add("Sqrt", steps.add("Add", variance, epsilon))
    factor = steps.add("Div", scale, deviation)
    centred = steps.add("Sub", node.required(0), mean)
    scaled = steps.add("Mul", centred, factor)
    steps.add("Add", scaled, shift, output=node.outputs[0])
    return steps.nodes


def _cast_like(node: OnnxNode, values: GraphValues) -> list[OnnxNode]:
    steps = _Composition(node, values)
    kind = values.element_type(node.required(1))
    steps.add("Cast", node.required(0), output=node.outputs[0], to=kind)
    return steps.nodes


def _function(node: OnnxNode, values: GraphValues) -> list[OnnxNode] | None:
    """The nodes of the function that the standard defines an operator as; None without one."""
    try:
        schema: Any = defs.get_schema(node.op_type, node.opset, "")
    except defs.SchemaError:
        return None
    function = onnx.FunctionProto()
    if schema.has_context_dependent_function:
        types = [values.type_of(name).SerializeToString() for name in node.inputs if name]
        text = schema.get_context_dependent_function(node.proto.SerializeToString(), types)
        function.ParseFromString(text)
    elif schema.has_function:
        function.CopyFrom(schema.function_body)
    if not function.node:
        return None
    opsets = {imported.domain: imported.version for imported in function.opset_import}
    names = {"": "", **dict(zip(function.input, node.inputs, strict=False))}
    names |= dict.fromkeys(function.input[len(node.inputs) :], "")
    names |= dict(zip(function.output, node.outputs, strict=False))
    defaults = {attribute.name: attribute for attribute in function.attribute_proto}
    defaults |= {
        attribute.name: attribute.default_value
        for attribute in schema.attributes.values()
        if attribute.default_value.type
    }
    attributes = defaults | dict(node.attributes)
    nodes: list[OnnxNode] = []
    for inner in function.node:
        proto = onnx.NodeProto()
        proto.CopyFrom(inner)
        for tensors in (proto.input, proto.output):
            tensors[:] = [names.get(name, f"{node.name}/{name}") for name in tensors]
        proto.name = f"{node.name}/{inner.op_type} {len(nodes)}"
        _bind(proto, attributes)
        nodes.append(node_of(proto, opsets))
    return nodes


def _bind(proto: onnx.NodeProto, given: Mapping[str, onnx.AttributeProto]) -> None:
    """Put values instead of the names of attributes of a function."""
    bound = []
    for attribute in proto.attribute:
        if not attribute.ref_attr_name:
            bound.append(attribute)
        elif attribute.ref_attr_name in given:
            copy = onnx.AttributeProto()
            copy.CopyFrom(given[attribute.ref_attr_name])
            copy.name = attribute.name
            bound.append(copy)
    del proto.attribute[:]
    proto.attribute.extend(bound)


def _normalised_by_length(node: OnnxNode, values: GraphValues) -> list[OnnxNode]:
    """The elements over their sum of magnitudes or length along an axis; zeros stay zeros."""
    steps, power = _Composition(node, values), node.integer("p", 2)
    if power not in (1, 2):
        raise unsupported(node, f"p = {power}; expected 1 or 2")
    axes = steps.constant(np.array([node.integer("axis", -1)]))
    source = node.required(0)
    if power == 1:
        length = steps.add("ReduceSum", steps.add("Abs", source), axes, keepdims=1)
    else:
        squares = steps.add("ReduceSum", steps.add("Mul", source, source), axes, keepdims=1)
        length = steps.add("Sqrt", squares)
    smallest = steps.constant(np.array([np.finfo(np.float32).tiny]))
    divisor = steps.add("Max", length, smallest)
    steps.add("Div", source, divisor, output=node.outputs[0])
    return steps.nodes


def _triangle(node: OnnxNode, values: GraphValues) -> list[OnnxNode]:
    """The elements on one side of a diagonal of the last two axes, zeros on the other."""
    steps, second = _Composition(node, values), node.input(1)
    if second is not None and not values.is_static(second):
        raise unsupported(node, "a diagonal that is computed from the frame")
    diagonal = np.zeros((), np.int64) if second is None else values.value(second)
    dims = values.dims(node.required(0))
    if len(dims) < 2:
        raise unsupported(node, f"a triangle of a tensor of rank {len(dims)}; expected 2 or more")
    if diagonal.size != 1 or diagonal.dtype.kind != "i":
        numbers = f"{counted(diagonal.size, 'number')} of {diagonal.dtype}"
        raise unsupported(node, f"a diagonal of {numbers}; expected an integer")
    limit, (rows, columns) = int(diagonal.reshape(())), dims[-2:]
    distance = np.arange(columns) - np.arange(rows)[:, None]
    is_kept = distance >= limit if node.integer("upper", 1) else distance <= limit
    dtype = helper.tensor_dtype_to_np_dtype(values.element_type(node.required(0)))
    mask, zero = steps.constant(is_kept), steps.constant(np.zeros(1, dtype))
    steps.add("Where", mask, node.required(0), zero, output=node.outputs[0])
    return steps.nodes


def _matrix_product(node: OnnxNode, values: GraphValues) -> list[OnnxNode] | None:
    """An einsum of two operands that is a product of matrices, with axes in another order.

    Axes that are summed up, and those of the second operand alone, count as one axis each meanwhile.
    None for another einsum: with sums in one operand alone, or an axis in neither.
    """
    before, _, result = node.text("equation", "").replace(" ", "").partition("->")
    terms, names = before.split(","), [name for name in node.inputs if name]
    is_plain = all(len(set(term)) == len(term) and term.isalpha() for term in (*terms, result))
    if len(terms) != 2 or len(names) != 2 or not is_plain:
        return None
    sizes: dict[str, int] = {}
    for term, name in zip(terms, names, strict=True):
        if len(term) != len(values.dims(name)):
            return None
        sizes |= dict(zip(term, values.dims(name), strict=True))
    left, right = map(set, terms)
    inner = "".join(letter for letter in terms[0] if letter in right and letter not in result)
    lead = "".join(letter for letter in result if letter in left & right)
    rows = "".join(letter for letter in result if letter in left - right)
    columns = "".join(letter for letter in result if letter in right - left)
    is_product = set(lead + rows + inner) == left and set(lead + inner + columns) == right
    is_product = is_product and set(result) <= left | right
    if not (is_product and inner and rows and columns):
        return None
    is_trained = values.is_static(names[1])
    if values.is_static(names[0]) or (lead and (len(rows) > 1 or is_trained)):
        return None
    # Sums over rows and columns of two maps need no whole map: a layer adds them row by row.
    if len(inner) > 1 and not is_trained:
        return None
    steps = _Composition(node, values)

    def arranged(name: str, term: str, *groups: str) -> str:
        """Add the operand with these groups of axes behind each other, each of the last as one."""
        order = [term.index(letter) for letter in "".join(groups)]
        if order != sorted(order):
            name = steps.add("Transpose", name, perm=order)
        if any(len(group) > 1 for group in groups[1:]):
            dims = [sizes[letter] for letter in groups[0]]
            dims += [prod(sizes[letter] for letter in group) for group in groups[1:]]
            name = steps.add("Reshape", name, steps.constant(np.array(dims)))
        return name

    first = arranged(names[0], terms[0], lead + rows, inner)
    second = arranged(names[1], terms[1], lead, inner, columns)
    made = lead + rows + columns
    turn = [made.index(letter) for letter in result]
    is_wide, is_turned = len(columns) > 1, made != result
    output = steps.add(
        "MatMul", first, second, output="" if is_wide or is_turned else node.outputs[0]
    )
    if is_wide:
        dims = steps.constant(np.array([sizes[letter] for letter in made]))
        output = steps.add("Reshape", output, dims, output="" if is_turned else node.outputs[0])
    if is_turned:
        steps.add("Transpose", output, output=node.outputs[0], perm=turn)
    return steps.nodes


class _Attention(_Composition):
    """Attention (opset 23) as matrix products, softmax and moves.

    Queries, keys and values have 4 axes (batch, heads, tokens, elements of a head), or 3 axes (batch,
    tokens, elements of all heads, head by head). Scores are the products of queries and keys, one for
    each pair of tokens. A softmax turns the scores of a query into the weights of a sum of the values.
    """

    opsets: Mapping[str, int] = {"": 23}
    separator = "_"

    def __init__(self, node: OnnxNode, values: GraphValues) -> None:
        super().__init__(node, values)
        if any(node.input(index) is not None for index in (4, 5)) or any(node.outputs[1:]):
            raise unsupported(node, "keys and values of earlier tokens, or an output of the scores")
        if node.input(6) is not None:
            raise unsupported(node, "keys whose number, nonpad_kv_seqlen, an input gives")
        if any(node.integer(side, -1) != -1 for side in WINDOWS):
            raise unsupported(node, "a window of keys around each query")
        names = [node.required(index) for index in range(3)]
        self._dims = [values.dims(name) for name in names]
        ranks = {len(dims) for dims in self._dims}
        if ranks not in ({3}, {4}):
            raise unsupported(node, f"queries, keys and values of {sorted(ranks)} axes")
        self._has_axis, self._names = ranks == {4}, names
        self._heads = [
            dims[1] if self._has_axis else node.integer(heads, 0)
            for dims, heads in zip(self._dims, HEADS, strict=True)
        ]
        if min(self._heads) < 1 or self._heads[0] % self._heads[1]:
            raise unsupported(node, f"{self._heads[0]} heads of queries, {self._heads[1]} of keys")

    def composed(self) -> list[OnnxNode]:
        """Return all nodes."""
        node, (query, keys, _) = self.node, self._dims
        width = query[-1] if self._has_axis else query[-1] // self._heads[0]
        scores = self.add("MatMul", self._by_heads(0), self._by_heads(1, is_turned=True))
        scale = node.real("scale", 1 / sqrt(width))
        scores = self.add("Mul", scores, self.constant(np.float32(scale)))
        limit = node.real("softcap", 0.0)
        if limit:
            bound = self.constant(np.float32(limit))
            scores = self.add("Mul", self.add("Tanh", self.add("Div", scores, bound)), bound)
        if node.integer("is_causal", 0):
            later = np.triu(np.full((query[-2], keys[-2]), LEAST, np.float32), 1)
            scores = self.add("Add", scores, self.constant(later))
        mask = node.input(3)
        if mask is not None:
            if self.values.element_type(mask) == onnx.TensorProto.BOOL:
                numbers = [self.constant(np.float32(constant)) for constant in (0, LEAST)]
                mask = self.add("Where", mask, *numbers)
            scores = self.add("Add", scores, mask)
        shares = self.add("Softmax", scores, axis=-1)
        if self._has_axis:
            self.add("MatMul", shares, self._by_heads(2), output=node.outputs[0])
            return self.nodes
        weighed = self.add("MatMul", shares, self._by_heads(2))
        joined = self.add("Transpose", weighed, perm=[0, 2, 1, 3])
        self.add("Reshape", joined, self.constant(np.array([0, 0, -1])), output=node.outputs[0])
        return self.nodes

    def _by_heads(self, index: int, *, is_turned: bool = False) -> str:
        """Queries, keys or values as (1, heads, tokens, elements of a head).

        is_turned: exchange the last two axes. Keys and values are repeated for queries that share them.
        """
        name, heads = self._names[index], self._heads[index]
        if self._has_axis:
            name = self.add("Transpose", name, perm=[0, 1, 3, 2]) if is_turned else name
        else:
            # In Reshape, 0 copies a dimension and -1 is inferred.
            cut = self.constant(np.array([0, 0, heads, -1]))
            order = [0, 2, 3, 1] if is_turned else [0, 2, 1, 3]
            name = self.add("Transpose", self.add("Reshape", name, cut), perm=order)
        if heads == self._heads[0]:
            return name
        places = np.repeat(np.arange(heads), self._heads[0] // heads)
        return self.add("Gather", name, self.constant(places), axis=1)


COMPOSITIONS: Mapping[str, Callable[[OnnxNode, GraphValues], list[OnnxNode] | None]] = {
    "Attention": lambda node, values: _Attention(node, values).composed(),
    "BatchNormalization": _normalised_by_frame,
    "CastLike": _cast_like,
    "Einsum": _matrix_product,
    "LpNormalization": _normalised_by_length,
    "OneHot": _one_hot,
    **dict.fromkeys(SUMS, _sum),
    "Trilu": _triangle,
    **dict.fromkeys(FUNCTIONS, _function),
}

"""Expansion of ONNX Attention (opset 23) into matrix products, softmax and moves.

Scores are the products of queries and keys, one for each pair of tokens. A softmax turns the scores of
a query into the weights of a sum of the values.
"""

from __future__ import annotations

from math import sqrt
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from cnn2csdf.onnx_files.graph_values import GraphValues
from cnn2csdf.onnx_files.nodes import OnnxNode, node_of, unsupported

OPSET = {"": 23}
LEAST = -1e30  # the score of a masked key; the sum of two is still a single-precision number
HEADS = ("q_num_heads", "kv_num_heads", "kv_num_heads")  # of queries, keys and values


def attention_nodes(node: OnnxNode, values: GraphValues) -> list[OnnxNode]:
    """Return the nodes of an Attention in execution order; their constants are added to the values.

    Queries, keys and values have 4 axes (batch, heads, tokens, elements of a head), or 3 axes (batch,
    tokens, elements of all heads, head by head). Raises UnsupportedOperator for keys and values of
    earlier tokens, and for an output of the scores.
    """
    if any(node.input(index) is not None for index in (4, 5)) or any(node.outputs[1:]):
        raise unsupported(node, "keys and values of earlier tokens, or an output of the scores")
    return _Expansion(node, values).nodes()


class _Expansion:
    """The nodes of one Attention; their tensors have names that begin with its name."""

    def __init__(self, node: OnnxNode, values: GraphValues) -> None:
        self._node, self._values = node, values
        self._nodes: list[OnnxNode] = []
        self._constants = 0
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

    def nodes(self) -> list[OnnxNode]:
        """Return all nodes."""
        node, (query, keys, _) = self._node, self._dims
        width = query[-1] if self._has_axis else query[-1] // self._heads[0]
        scores = self._add("MatMul", self._by_heads(0), self._by_heads(1, is_turned=True))
        scale = node.real("scale", 1 / sqrt(width))
        scores = self._add("Mul", scores, self._constant(np.float32(scale)))
        limit = node.real("softcap", 0.0)
        if limit:
            bound = self._constant(np.float32(limit))
            scores = self._add("Mul", self._add("Tanh", self._add("Div", scores, bound)), bound)
        if node.integer("is_causal", 0):
            later = np.triu(np.full((query[-2], keys[-2]), LEAST, np.float32), 1)
            scores = self._add("Add", scores, self._constant(later))
        mask = node.input(3)
        if mask is not None:
            if self._values.element_type(mask) == onnx.TensorProto.BOOL:
                numbers = [self._constant(np.float32(constant)) for constant in (0, LEAST)]
                mask = self._add("Where", mask, *numbers)
            scores = self._add("Add", scores, mask)
        shares = self._add("Softmax", scores, axis=-1)
        if self._has_axis:
            self._add("MatMul", shares, self._by_heads(2), output=node.outputs[0])
            return self._nodes
        weighed = self._add("MatMul", shares, self._by_heads(2))
        joined = self._add("Transpose", weighed, perm=[0, 2, 1, 3])
        self._add("Reshape", joined, self._constant(np.array([0, 0, -1])), output=node.outputs[0])
        return self._nodes

    def _by_heads(self, index: int, *, is_turned: bool = False) -> str:
        """Queries, keys or values as (1, heads, tokens, elements of a head).

        is_turned: exchange the last two axes. Keys and values are repeated for queries that share them.
        """
        name, heads = self._names[index], self._heads[index]
        if self._has_axis:
            name = self._add("Transpose", name, perm=[0, 1, 3, 2]) if is_turned else name
        else:
            # In Reshape, 0 copies a dimension and -1 is inferred.
            cut = self._constant(np.array([0, 0, heads, -1]))
            order = [0, 2, 3, 1] if is_turned else [0, 2, 1, 3]
            name = self._add("Transpose", self._add("Reshape", name, cut), perm=order)
        if heads == self._heads[0]:
            return name
        places = np.repeat(np.arange(heads), self._heads[0] // heads)
        return self._add("Gather", name, self._constant(places), axis=1)

    def _add(self, op_type: str, *inputs: str, output: str = "", **attributes: Any) -> str:
        name = output or f"{self._node.name}/{op_type}_{len(self._nodes)}"
        proto = helper.make_node(op_type, inputs, [name], name=name, **attributes)
        self._nodes.append(node_of(proto, OPSET))
        return name

    def _constant(self, value: Any) -> str:
        self._constants += 1
        name = f"{self._node.name}/constant_{self._constants}"
        self._values.add_constants({name: numpy_helper.from_array(np.asarray(value), name)})
        return name

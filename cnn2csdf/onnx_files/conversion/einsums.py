"""Einsum of ONNX as a layer."""

from __future__ import annotations

from cnn2csdf import operators as op
from cnn2csdf.onnx_files.conversion.assembly import Assembly
from cnn2csdf.onnx_files.conversion.steps import ConversionStep, Numbers
from cnn2csdf.onnx_files.nodes import Node, unsupported
from cnn2csdf.operators.operands import constant_role
from csdf.errors import counted


def einsum(node: Node, assembly: Assembly) -> None:
    """Add sums of products over axes of the same letter; the batch of one is left out."""
    terms, result = _letters(node)
    weights, constants, tensors, ours = {}, [], [], []
    for place, (name, term) in enumerate(zip(node.inputs, terms, strict=True)):
        dims = assembly.values.dims(name)
        if len(dims) != len(term):
            raise unsupported(node, f"equation term {term!r} for a tensor with {len(dims)} axes")
        if assembly.is_static(name):
            weights[constant_role(place)] = assembly.numbers(name)
            constants.append((place, dims))
            ours.append(term)
        else:
            tensors.append(name)
            ours.append(term[assembly.batch_axes(name) :])
    left = "".join(letter for letter in result if letter in "".join(ours))
    operator = op.TensorProduct(terms=tuple(ours), result=left, constants=tuple(constants))
    found = assembly.values.dims(node.outputs[0])
    frame = (found[1:] if len(found) > 1 and found[0] == 1 else found) or (1,)
    made = operator.output_dims([assembly.shape(name) for name in tensors])
    ends = () if made in (frame, found) else (op.Reshape(dims=frame),)
    named: dict[str, Numbers] = weights
    assembly.add(node, ConversionStep(operator=operator, weights=named), *ends, inputs=tensors)


def _letters(node: Node) -> tuple[list[str], str]:
    """The letters of each operand and of the result."""
    equation = node.text("equation", "").replace(" ", "")
    if "." in equation:
        raise unsupported(node, f"an ellipsis in equation {equation!r} is not supported")
    before, arrow, result = equation.partition("->")
    terms = before.split(",")
    if len(terms) != len(node.inputs):
        raise unsupported(node, f"equation {equation!r} for {counted(len(node.inputs), 'input')}")
    if not arrow:
        everything = "".join(terms)
        result = "".join(sorted(one for one in set(everything) if everything.count(one) == 1))
    for term in (*terms, result):
        if len(set(term)) != len(term) or (not term.isalpha() and term):
            raise unsupported(node, f"equation {equation!r} is not supported")
    if not set(result) <= set("".join(terms)):
        raise unsupported(node, f"equation {equation!r} is not supported")
    return terms, result

"""Operators of ONNX that choose, compare places, or sum up to a place, as layers."""

from __future__ import annotations

from collections.abc import Sequence

from cnn2csdf import operators as op
from cnn2csdf.onnx_files.conversion.assembly import Assembly
from cnn2csdf.onnx_files.conversion.steps import ConversionStep, Numbers
from cnn2csdf.onnx_files.nodes import Node, unsupported
from cnn2csdf.operators.operands import Constants, constant_role
from csdf.errors import UnreadableFile

EXTREMES = {"ArgMax": "max", "ArgMin": "min"}


def where(node: Node, assembly: Assembly) -> None:
    """Add a choice between two tensors or constants by a third."""
    operands = [node.required(index) for index in range(3)]
    constants, weights = _constant_operands(node, assembly, operands)
    tensors = [name for name in operands if not assembly.is_static(name)]
    step = ConversionStep(operator=op.Choice(constants=constants), weights=weights)
    assembly.add(node, step, inputs=tensors)


def extreme_place(node: Node, assembly: Assembly) -> None:
    """Add the place of the largest or smallest element; the axis goes behind it."""
    tensor = assembly.dynamic(node, 0)
    axis = assembly.frame_axis(node, tensor, node.integer("axis", 0))
    operator = op.ExtremePlace(
        function=EXTREMES[node.op_type],
        axis=axis,
        takes_last=bool(node.integer("select_last_index", 0)),
    )
    dims = assembly.shape(tensor).dims
    rest = (*dims[:axis], *dims[axis + 1 :]) or (1,)
    without = () if node.integer("keepdims", 1) else (op.Reshape(dims=rest),)
    assembly.add(node, operator, *without, inputs=(tensor,))


def ranking(node: Node, assembly: Assembly) -> None:
    """Add the largest elements, their places, or both, as they are read."""
    tensor = assembly.dynamic(node, 0)
    count = (
        node.integer("k", 0) if node.opset < 10 else (assembly.integers(node, 1, "k") or (0,))[0]
    )
    axis = assembly.frame_axis(node, tensor, node.integer("axis", -1))
    if not 0 < count <= assembly.shape(tensor).dims[axis]:
        raise unsupported(node, f"the first {count} of {assembly.shape(tensor).dims[axis]}")
    read = [one for one in node.outputs if one and assembly.is_read(one)]
    for gives_places, output in enumerate(node.outputs):
        if output in read:
            operator = op.Ranking(
                axis=axis,
                count=count,
                takes_largest=bool(node.integer("largest", 1)),
                gives_places=bool(gives_places),
            )
            name = output if len(read) > 1 else None
            assembly.add(node, operator, inputs=(tensor,), output=output, name=name)


def running_sum(node: Node, assembly: Assembly) -> None:
    """Add a sum of all elements up to each one."""
    tensor = assembly.dynamic(node, 0)
    axes = assembly.integers(node, 1, "the axis") or ()
    if len(axes) != 1:
        raise UnreadableFile(f"{node}: {len(axes)} axes, expected one")
    operator = op.RunningSum(
        axis=assembly.frame_axis(node, tensor, axes[0]),
        is_exclusive=bool(node.integer("exclusive", 0)),
        is_reversed=bool(node.integer("reverse", 0)),
    )
    assembly.add(node, operator, inputs=(tensor,))


def _constant_operands(
    node: Node, assembly: Assembly, operands: Sequence[str]
) -> tuple[Constants, dict[str, Numbers]]:
    """Places and dims of the static ones among operands, and their numbers by role.

    A batch axis of one is left out where an operand has as many axes as the result.
    """
    found: dict[int, tuple[int, ...]] = {}
    weights: dict[str, Numbers] = {}
    for place, name in enumerate(operands):
        if assembly.is_static(name):
            found[place] = assembly.frame_dims(node, name)
            weights[constant_role(place)] = assembly.reshaped(name, found[place])
    return tuple(found.items()), weights

"""Operators of other packages, found by the names of their nodes in files.

An entry point in the group csdf.operators has the name of the operator in files: the type of an ONNX
node of a domain of its own, or the code of a custom operator of TensorFlow Lite. Its module has

    operator_of(attributes)   the operator of a node, given the attributes of the node by name
    C                         its C: planners.code.extensions.StepInC or KernelInC; may be missing

It defines the class of the operator, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import ModuleType
from typing import Any, TypeVar

import csdf.entries as entries
from cnn2csdf.operators.operator import Operator
from cnn2csdf.shape import Shape
from csdf.errors import CsdfError, UnreadableFile, counted

Constant = TypeVar("Constant")


def extension(name: str) -> ModuleType | None:
    """Return the module that defines the operator of that name; None where no package has it.

    Raises CsdfError where two packages define the operator, or where its module cannot be imported.
    """
    points = entries.all_entries(entries.OPERATORS)
    return entries.loaded(points[name]) if name in points else None


def operator_of(module: ModuleType, node: object, attributes: Mapping[str, Any]) -> Operator:
    """Return the operator of a node. Raises CsdfError where the module has no such function.

    Raises UnreadableFile, naming the node, for attributes that the function refuses.
    """
    make = getattr(module, "operator_of", None)
    if make is None:
        raise CsdfError(f"{module.__name__}: operator_of(attributes) is missing")
    try:
        operator = make(dict(attributes))
    except (KeyError, TypeError, ValueError) as error:
        raise UnreadableFile(
            f"{node}: {module.__name__}.operator_of refuses the attributes {dict(attributes)}: "
            f"{type(error).__name__}: {error}"
        ) from None
    if not isinstance(operator, Operator):
        raise CsdfError(f"{module.__name__}: operator_of gives {operator!r}; expected an Operator")
    return operator


def by_role(
    node: object, roles: Iterable[str], constants: Sequence[Constant]
) -> dict[str, Constant]:
    """Return the constants of a node by the roles of the operator's parameters, in their order."""
    names = list(roles)
    if len(names) != len(constants):
        raise UnreadableFile(
            f"{node}: {counted(len(constants), 'constant')}, but the operator has "
            f"{counted(len(names), 'array')} of parameters"
        )
    return dict(zip(names, constants, strict=True))


def output_dims(operator: Operator, inputs: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """Return the dims of the output, with the batch of one that the inputs have."""
    shapes = [Shape(dims=dims[1:] if len(dims) > 1 else dims) for dims in inputs]
    dims = operator.output_dims(shapes)
    return (1, *dims) if any(len(input_dims) > 1 for input_dims in inputs) else dims

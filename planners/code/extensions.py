"""C of operators of other packages, which the module of the operator's class has as its `C`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cnn2csdf.operators.operator import Operator
from planners.code.parts import add_source

if TYPE_CHECKING:
    from planners.code.layer_descriptor import KernelCall, LayerNode

OWN_OPERATORS = "cnn2csdf.operators."


@dataclass(frozen=True, slots=True, kw_only=True)
class StepInC:
    """C of a pointwise operator in single precision, as an expression.

    name: suffix of the name of the C function. expression: in the element `x` and the parameters
    `s->a` and `s->b`. numbers: returns up to two of these parameters for an operator. helpers: C
    functions that the expression calls, separated by empty lines.
    """

    name: str
    expression: str
    numbers: Callable[[Any], tuple[float, ...]] = lambda _: ()
    helpers: str = ""

    @property
    def text(self) -> str:
        """Definitions of the C function and its helpers."""
        return f"{self.helpers}\n\nEACH_ELEMENT(step_{self.name}, {self.expression})\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelInC:
    """C of an operator in single precision: definitions of structures and functions.

    call: returns the C function of a layer and its structure: `layer.call("function", "structure",
    field=value, ...)`. The C function has the arguments of the kernels in `planners/code/c/reals.c`.
    """

    text: str
    call: Callable[[LayerNode, Any], KernelCall]


def c_of(operator: Operator) -> StepInC | KernelInC | None:
    """Return the C of an operator of another package, whose definitions a library can use then."""
    module = type(operator).__module__
    if module.startswith(OWN_OPERATORS):
        return None
    source = getattr(sys.modules.get(module), "C", None)
    if isinstance(source, StepInC | KernelInC):
        add_source(f"{module}.c", source.text)
        return source
    return None

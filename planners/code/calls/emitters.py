"""Registry of the functions that write C calls: one emitter for an operator class and an arithmetic.

Each module of calls registers its emitters on import. `LayerCalls` looks up the emitter of a
layer by its operator and its arithmetic.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any

from cnn2csdf.operators import Operator
from planners.code.layer_descriptor import KernelCall, LayerNode

Emitter = Callable[[LayerNode, Any], KernelCall]


class Numbers(Enum):
    """The arithmetic of a kernel: what its inputs and its result are."""

    REAL = "floating point"
    FIXED = "integers, rescaled in fixed point"
    SINGLE = "integers, rescaled in single precision"
    TO_REAL = "integers in, floating point out"
    MIXED = "integers beside floating point, such as indices"
    WIDE = "integers of 8 and of 16 bits"
    RUN_TIME = "integers whose scale is found in the frame"


_EMITTERS: dict[tuple[Numbers, type], Emitter] = {}


def register(numbers: Numbers, emitters: Mapping[type, Emitter]) -> None:
    """Register the emitter of each operator class for one arithmetic."""
    _EMITTERS.update({(numbers, kind): emitter for kind, emitter in emitters.items()})


def emitter_of(operator: Operator, *arithmetics: Numbers) -> Emitter | None:
    """Return the emitter of an operator in the first of these arithmetics that has an emitter."""
    emitters = (_EMITTERS.get((numbers, type(operator))) for numbers in arithmetics)
    return next((emitter for emitter in emitters if emitter is not None), None)


def kinds_in(*arithmetics: Numbers) -> frozenset[type]:
    """Return the operator classes that have an emitter in one of these arithmetics."""
    return frozenset(kind for numbers, kind in _EMITTERS if numbers in arithmetics)

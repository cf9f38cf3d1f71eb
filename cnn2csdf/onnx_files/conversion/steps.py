"""An operator with its trained numbers, as a node of ONNX gives them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from cnn2csdf import operators as op
from cnn2csdf.weights import Array


class Numbers(NamedTuple):
    """Trained numbers: the tensor they come from, read or computed when they are wanted."""

    tensor: str
    read: Callable[[], Array]
    axis: int = 0  # of the tensor, along which the output channels lie


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversionStep:
    """An operator with its trained numbers."""

    operator: op.Operator
    weights: Mapping[str, Numbers] = field(default_factory=dict)


def on_lines(step: ConversionStep | op.Operator) -> ConversionStep | None:
    """Return the step on maps of one column; None where it is no function of single elements."""
    found = step if isinstance(step, ConversionStep) else ConversionStep(operator=step)
    match found.operator:
        case op.Activation() | op.BatchNormalization() | op.Identity():
            return found
        case op.Elementwise(constant=None):
            return found
        case op.Elementwise(constant=tuple(dims)) as operator:
            numbers = found.weights["constant"]
            column = Numbers(numbers.tensor, lambda: numbers.read()[..., None])
            wide = replace(operator, constant=(*dims, 1))
            return ConversionStep(operator=wide, weights={"constant": column})
    return None

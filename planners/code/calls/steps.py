"""The functions of single elements that a library applies behind a layer."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from cnn2csdf import operators as op
from cnn2csdf.weights import Array
from planners.code.calls.layers import laid_constant
from planners.code.described import Described
from planners.code.names import number
from planners.code.parts import defined_names
from planners.code.tables import NULL

POINTWISE = (op.Activation, op.BatchNormalization, op.LocalResponseNormalization)


def steps_of(one: Described) -> list[str]:
    """Return the initialisers of the steps behind a layer, its own first if it is one."""
    found = []
    if isinstance(one.layer.operator, POINTWISE):
        found.append(_step(one, one.layer.operator, one.weights, ""))
    for place, operator in enumerate(one.layer.epilogue):
        prefix = f"{place}."
        weights = {
            role.removeprefix(prefix): array
            for role, array in one.weights.items()
            if role.startswith(prefix)
        }
        found.append(_step(one, operator, weights, f"{place}_"))
    return found


def most_neighbours(one: Described) -> int:
    """Return the most channels before its own that a normalisation of the layer reads."""
    operators = (one.layer.operator, *one.layer.epilogue)
    sizes = [each.size for each in operators if isinstance(each, op.LocalResponseNormalization)]
    return max(((size - 1) // 2 for size in sizes), default=0)


def _step(one: Described, operator: op.Operator, weights: Mapping[str, Array], prefix: str) -> str:
    match operator:
        case op.Activation(function="prelu"):
            slope = one.symbol(f"{prefix}slope", _spread(one, weights["slope"]))
            return _text(one, "step_prelu", values=slope)
        case op.Activation(function=function, parameters=parameters):
            name = f"step_{function.replace(' ', '_')}"
            return _text(one, name, *parameters)
        case op.BatchNormalization():
            return _affine(one, operator, weights, prefix)
        case op.LocalResponseNormalization():
            return _neighbours(one, operator, prefix)
        case op.Elementwise(constant=tuple()):
            return _constant(one, operator, weights, prefix)
        case op.Identity():
            return _text(one, "step_clip", -np.inf, np.inf)
    raise one.refusal(f"with {type(operator).__name__} fused behind it")


def _text(
    one: Described,
    function: str,
    a: float = 0.0,
    b: float = 0.0,
    *,
    values: str = NULL,
    more: str = NULL,
    steps: tuple[int, int] = (0, 0),
) -> str:
    if function not in defined_names("steps.c"):
        raise one.refusal(f"of the function {function.removeprefix('step_')!r}")
    one.tables.wanted.add(function)
    fields = (function, number(a), number(b), values, more, *map(str, steps))
    return "{" + ", ".join(fields) + "}"


def _spread(one: Described, values: Array) -> Array:
    """Return a number for each element of a place; a tensor that is no map lies in one row."""
    if one.layer.shape.is_map:
        return values
    return np.repeat(values, one.layer.shape.elements // len(values))


def _affine(
    one: Described, operator: op.BatchNormalization, weights: Mapping[str, Array], prefix: str
) -> str:
    factor = weights["scale"] / np.sqrt(weights["variance"] + np.float32(operator.epsilon))
    offset = weights["shift"] - weights["mean"] * factor
    values = one.symbol(f"{prefix}scale", _spread(one, factor.astype(np.float32)))
    more = one.symbol(f"{prefix}shift", _spread(one, offset.astype(np.float32)))
    return _text(one, "step_affine", values=values, more=more)


def _neighbours(one: Described, operator: op.LocalResponseNormalization, prefix: str) -> str:
    if not one.layer.shape.is_map and one.layer.shape.elements != one.layer.shape.channels:
        raise one.refusal("with a normalisation over channels, on a tensor that is no map")
    factor = np.asarray([operator.alpha / operator.size], np.float32)
    steps = (operator.size, (operator.size - 1) // 2)
    more = one.computed(f"{prefix}factor", factor)
    return _text(one, "step_neighbours", operator.beta, operator.bias, more=more, steps=steps)


def _constant(
    one: Described, operator: op.Elementwise, weights: Mapping[str, Array], prefix: str
) -> str:
    symbol, (channel, _, column) = laid_constant(one, weights["constant"], f"{prefix}constant")
    function = operator.function.replace(" ", "_")
    is_ordered = f"step_constant_{function}_first" in defined_names("steps.c")
    first = "_first" if operator.constant_first and is_ordered else ""
    name = f"step_constant_{function}{first}"
    return _text(one, name, values=symbol, steps=(channel, column))

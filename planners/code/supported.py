"""Which kinds of layers C computes, in which types, as the calls of layers say."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from cnn2csdf import operators as op
from cnn2csdf.builder import NetworkBuilder
from cnn2csdf.dtypes import Element, Quantization
from cnn2csdf.operators.operator import Operator
from cnn2csdf.weights import Model
from csdf.errors import UnsupportedOperator
from planners.code.c_text import Tables
from planners.code.calls.by_data_type import LayerCalls
from planners.code.calls.emitters import Numbers, kinds_in
from planners.code.unsigned_as_signed import as_signed

MOST_NAMED = 12  # layers in one message
TYPES = (Element.FLOAT32, Element.INT8, Element.INT16)
DIMS = (4, 4, 4)  # of the input of a layer that is tried
MOVES_BESIDE = (op.Identity, op.Repeat, op.Reshape, op.Slice, op.Transpose)  # around a layer
SCALE = 0.05

Attributes = Mapping[str, Any]

# Kinds of which the calls refuse some functions, or some types: how many tensors they read, and one of
# them to be tried.
TRIED: Mapping[type[Operator], tuple[int, Callable[[Attributes], Operator]]] = {
    op.Activation: (
        1,
        lambda has: op.Activation(function=has["function"], parameters=has.get("parameters", ())),
    ),
    op.Elementwise: (2, lambda has: op.Elementwise(function=has["function"])),
    op.MatrixProduct: (2, lambda _: op.MatrixProduct()),
    op.Reduction: (1, lambda has: op.Reduction(function=has["function"], axes=(1, 2), keeps=True)),
    op.Resize: (
        1,
        lambda has: op.Resize(
            size=(8, 8), function=has["function"], coordinates="half pixel", rounding="floor"
        ),
    ),
}


def types_in_c(
    kinds: Sequence[type[Operator]], attributes: Attributes, types: Sequence[Element] = TYPES
) -> tuple[Element, ...]:
    """Return in which of the types C computes an operator that becomes layers of these kinds."""
    main = [kind for kind in kinds if kind not in MOVES_BESIDE]
    if not main:
        return tuple(types)
    return tuple(
        element for element in types if any(_is_in_c(kind, attributes, element) for kind in main)
    )


def kinds_without_c(kinds: Sequence[type[Operator]]) -> list[type[Operator]]:
    """Return the kinds that no type has in C."""
    numeric_kinds = kinds_in(*Numbers)
    return [kind for kind in kinds if kind not in numeric_kinds]


def require_c(model: Model) -> None:
    """Raise UnsupportedOperator, naming all layers that no kernel of C computes."""
    signed = as_signed(model)
    calls = LayerCalls(signed, Tables("tried"))
    refusals = []
    for layer in signed.network.layers:
        if layer.operator.is_input or layer.operator.is_state:
            continue
        node = calls.node(layer)
        try:
            calls.epilogue_steps(node)
            with suppress(UnsupportedOperator):  # of a layer that adds up its input row by row
                calls.stage_calls("INTO_SUMS", [node], {})
                continue
            calls.stage_calls("BY_ROWS", [node], {})
        except UnsupportedOperator as error:
            refusals.append(str(error))
    if refusals:
        more = f" (and {len(refusals) - MOST_NAMED} more)" if len(refusals) > MOST_NAMED else ""
        raise UnsupportedOperator("; ".join(refusals[:MOST_NAMED]) + more)


def _is_in_c(kind: type[Operator], attributes: Attributes, element: Element) -> bool:
    if kind in kinds_in(Numbers.RUN_TIME):
        return element is not Element.INT16
    is_tried = kind in TRIED and (kind is op.MatrixProduct or "function" in attributes)
    if is_tried:
        return _is_called(kind, attributes, element)
    if element is Element.FLOAT32:
        return kind in kinds_in(Numbers.REAL)
    is_moved = kind.moves and kind in kinds_in(Numbers.REAL)
    return is_moved or kind.converts or kind in kinds_in(Numbers.FIXED, Numbers.TO_REAL)


def _is_called(kind: type[Operator], attributes: Attributes, element: Element) -> bool:
    """Whether a layer of that kind has a call."""
    count, operator_of = TRIED[kind]
    types = None
    if element is not Element.FLOAT32:
        types = Quantization(element=element, scales=(SCALE,))
    builder = NetworkBuilder()
    sources = [
        builder.input(DIMS, f"input{number}", element=element, quantization=types)
        for number in range(count)
    ]
    name = builder.add(operator_of(attributes), *sources, quantization=types)
    builder.output(name)
    network = builder.network()
    calls = LayerCalls(Model(network=network, weights={}), Tables("tried"))
    node = calls.node(network.layer(name))
    try:
        calls.stage_calls("BY_ROWS", [node], {})
        calls.epilogue_steps(node)
    except UnsupportedOperator:
        return False
    return True

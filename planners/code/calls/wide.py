"""C calls for layers between integers of different widths: what changes scales, and softmax."""

from __future__ import annotations

from math import prod

from cnn2csdf import operators as op
from cnn2csdf.elements import Element, Quantization
from cnn2csdf.integers import multiplier
from planners.code.calls.folds import cube_fields
from planners.code.calls.rescaling import powers_of
from planners.code.described import Call, Described

GIVEN = (Element.INT8, Element.INT16)
MADE = (*GIVEN, Element.INT32)


def is_wide(one: Described) -> bool:
    """Whether it reads or makes integers of other widths than those of the arena."""
    types = [found for found in (*one.given, one.layer.quantization) if found is not None]
    return any(found.element is not one.element for found in types)


def wide_call(one: Described) -> Call:
    """Return the call for a layer between integers of different widths."""
    operator, given, result = one.layer.operator, one.given[0], one.layer.quantization
    if given is None or result is None or one.element is not Element.INT8:
        raise one.refusal("between integers of 8 and of 16 bits")
    if not (given.is_fixed_point and result.is_fixed_point) or one.layer.epilogue:
        raise one.refusal("between integers of 8 and of 16 bits")
    if isinstance(operator, op.Conversion) and given.element in GIVEN and result.element in MADE:
        return _rescaled(one, given, result)
    if isinstance(operator, op.Softmax):
        return _softmax(one, operator, given, result)
    raise one.refusal("between integers of 8 and of 16 bits")


def _rescaled(one: Described, given: Quantization, result: Quantization) -> Call:
    fields = (
        *multiplier(given.scale / result.scale),
        *(given.zero_point, result.zero_point, given.element.bytes, result.element.bytes),
    )
    return Call("widen_region", one.structure("widening", *fields))


def _softmax(
    one: Described, operator: op.Softmax, given: Quantization, result: Quantization
) -> Call:
    """Of 8-bit integers that lie side by side, to shares in 16 bits."""
    shape = one.layer.shape
    last = operator.axis if operator.last is None else operator.last
    is_together = prod(shape.dims[operator.axis : last + 1]) == shape.row_elements // shape.width
    elements = (given.element, result.element)
    if elements != (Element.INT8, Element.INT16) or operator.is_logarithm or not is_together:
        raise one.refusal(f"of {elements[0].value} to {elements[1].value}")
    axes = "{" + ", ".join(cube_fields(one, range(operator.axis, last + 1))) + "}"
    return Call("softmax_wide", one.structure("softmax_over", axes, *powers_of(one)))

"""C calls for integers whose scale is computed from the frame."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cnn2csdf import operators as op
from cnn2csdf.weights import Array
from planners.code.calls.folds import product_fields
from planners.code.calls.layers import call_of, window_text
from planners.code.calls.packing import packed_quads
from planners.code.described import Call, Described
from planners.code.tables import NULL

REAL = 4  # elements of one byte that a real number takes
DYNAMIC = (op.DynamicRange, op.DynamicQuantization, op.IntegerConvolution, op.IntegerProduct)


class Bytes(NamedTuple):
    """Trained integers in a byte each, and their zero point."""

    values: Array
    zero: int


def dynamic_call(one: Described) -> Call:
    """Return the call for a layer that reads or writes integers with a scale of the frame."""
    match one.layer.operator:
        case op.DynamicRange(gives=gives):
            return Call("find_range", one.structure("ranging", int(gives != "scale")))
        case op.DynamicQuantization():
            return Call("quantize_by_range")
        case op.IntegerConvolution() as operator:
            return _convolution(one, operator)
        case op.IntegerProduct() as operator:
            return _product(one, operator)
        case operator if operator.moves:
            return call_of(one)
    raise one.refusal(
        "of integers whose scale depends on the frame; leave its input in real numbers"
    )


def _in_bytes(one: Described, role: str) -> Bytes:
    """Return trained integers, which lie there less their zero points, as signed bytes."""
    array = one.weights[role]
    least, most = int(array.min()), int(array.max())
    zero = 0 if least >= -128 and most <= 127 else -128 - least
    if most + zero > 127:
        raise one.refusal(f"whose {role} takes more than 8 bits less its zero points")
    return Bytes((array + zero).astype(np.int8), zero)


def _convolution(one: Described, operator: op.IntegerConvolution) -> Call:
    kernel = _in_bytes(one, "kernel")
    fields = (
        window_text(operator.window),
        operator.groups,
        one.inputs[0].channels // operator.groups,
        operator.filters // operator.groups,
        one.symbol("kernel", packed_quads(kernel.values, operator.groups)),
        f"{{NULL, NULL, 0, 0, 0, 0, {kernel.zero}}}",
    )
    return Call("convolve_by_range", one.structure("convolution", *fields))


def _product(one: Described, operator: op.IntegerProduct) -> Call:
    values, zero = NULL, 0
    if operator.units is not None:
        matrix = _in_bytes(one, "matrix")
        values, zero = one.symbol("matrix", matrix.values), matrix.zero
    places = iter(range(1 if operator.units is not None else 2, len(one.inputs)))
    zeros = [next(places) if has else -1 for has in operator.has_zeros]
    fields = product_fields(one, operator.units, REAL)
    return Call("multiply_by_range", one.structure("product", *fields, values, *zeros, zero))

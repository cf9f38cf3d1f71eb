"""C calls for layers of 16-bit integers that have kernels of their own: curves and softmax."""

from __future__ import annotations

import numpy as np

from cnn2csdf import operators as op
from cnn2csdf.fixed_point.flash import is_limit
from cnn2csdf.fixed_point.short_functions import (
    EXACT_SHIFTS,
    curve_steps,
    exponential_table,
    reciprocal_table,
    sigmoid_table,
    softmax_multiplier,
)
from cnn2csdf.integers import multiplier
from planners.code.calls.folds import cube_fields
from planners.code.calls.rescaling import given_types, result_types
from planners.code.described import Call, Described


def short_activation(one: Described, operator: op.Activation) -> Call:
    """Return the call for a curve, or for numbers with another slope below zero."""
    given, result = given_types(one), result_types(one)
    if is_limit(operator, given, result):
        return Call("copy_region")
    above = multiplier(given.scale / result.scale)
    match operator:
        case op.Activation(function="sigmoid" | "tanh" as function):
            factor, shift = curve_steps(given.scale, EXACT_SHIFTS[function])
            table = one.computed("curve", sigmoid_table().astype(np.int32))
            fields = (table, factor, (1 << shift) >> 1, shift, int(function == "tanh"))
            return Call("curve_region", one.structure("curve", *fields))
        case op.Activation(function="relu"):
            return Call("bend_region", one.structure("bending", *above, 0, 0, 1))
        case op.Activation(function="leaky relu", parameters=(slope,)):
            single = float(np.float32(slope))
            below = multiplier(given.scale * abs(single) / result.scale)
            sign = 1 if single >= 0 else -1
            return Call("bend_region", one.structure("bending", *above, *below, sign))
    raise one.refusal(f"of integers of 16 bits: {operator.in_words()}")


def short_softmax_call(one: Described, operator: op.Softmax) -> Call:
    """Return the call for shares of 2 ** 15."""
    if operator.is_logarithm:
        raise one.refusal("of quantised integers: its logarithm")
    result_types(one)
    last = operator.axis if operator.last is None else operator.last
    cube = cube_fields(one, range(operator.axis, last + 1))
    tables = [
        one.computed("powers", exponential_table().astype(np.int32)),
        one.computed("reciprocals", reciprocal_table().astype(np.int32)),
    ]
    axes, ratio = "{" + ", ".join(cube) + "}", softmax_multiplier(given_types(one).scale)
    return Call("softmax_short", one.structure("softmax_by_tables", axes, *tables, *ratio))

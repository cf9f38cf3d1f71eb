"""C calls for recurrent layers of quantised integers."""

from __future__ import annotations

from collections.abc import Sequence
from math import log2

import numpy as np

from cnn2csdf import operators as op
from cnn2csdf.elements import Quantization
from cnn2csdf.fixed_point.short_functions import power_steps, sigmoid_table
from cnn2csdf.integers import multiplier
from cnn2csdf.operators.quantized_cells import GATE_POWER, GATES, SHORT, sum_multiplier
from cnn2csdf.weights import Array
from planners.code.calls.packing import packed_quads
from planners.code.calls.rescaling import given_types, result_types, stored_types
from planners.code.described import Call, Described

POWERS = range(-30, 3)  # of two: scales of cells whose steps have room in 32 bits


def lstm_call(one: Described, operator: op.QuantizedLstm) -> Call:
    """Return the call for an LSTM of integers, whose cells have 16 bits."""
    given, result = given_types(one), result_types(one)
    power = round(log2(operator.cell_scale))
    if not result.is_fixed_point or power not in POWERS:
        raise one.refusal(f"of quantised integers with cells of the scale {operator.cell_scale}")
    factor, half, shift = power_steps(power)
    table = one.computed("curve", sigmoid_table().astype(np.int32))
    frames, elements = one.inputs[0].dims
    limit = SHORT if operator.clip is None else operator.clip
    one.tables.wanted.update(("gate", "curve"))
    fields = (
        _braced([_gate(one, gate, given, result) for gate in GATES]),
        _braced([table, factor, half, shift, 1]),
        *(operator.units, frames, elements, given.zero_point, result.zero_point, limit),
        *_factors(operator, result),
    )
    return Call("recur_in_integers", one.structure("cells", *fields))


def _gate(one: Described, gate: str, given: Quantization, result: Quantization) -> str:
    fields: list[object] = []
    ratios: list[int] = []
    for role, read in ((f"{gate} matrix", given), (f"{gate} recurrent matrix", result)):
        types = stored_types(one, role)
        if types.zero_point or len(types.scales) > 1:
            raise one.refusal(f"whose {role} has a zero point, or a scale for each unit")
        fields.append(one.symbol(role, _packed(one.weights[role])))
        ratios += sum_multiplier(read, types)
    fields.append(one.symbol(f"{gate} bias", one.weights[f"{gate} bias"].astype(np.int32)))
    return _braced([*fields, *ratios])


def _packed(matrix: Array) -> Array:
    return packed_quads(matrix[:, :, None, None], 1)


def _factors(operator: op.QuantizedLstm, result: Quantization) -> tuple[str, str]:
    """Return the multipliers and the exponents of what a cell keeps, adds and gives."""
    pairs = [
        multiplier(2.0**GATE_POWER),
        multiplier(2.0 ** (2 * GATE_POWER) / operator.cell_scale),
        multiplier(2.0 ** (2 * GATE_POWER) / result.scale),
    ]
    first, second = zip(*pairs, strict=True)
    return _braced(first), _braced(second)


def _braced(fields: Sequence[object]) -> str:
    return "{" + ", ".join(map(str, fields)) + "}"


def svdf_call(one: Described, operator: op.QuantizedSvdf) -> Call:
    """Return the call for a filter over time in low rank, of which the last place in time counts."""
    given, result, state = given_types(one), result_types(one), operator.state
    filters = one.layer.stored_as("filters").quantization
    if one.inputs[0].is_map or not result.is_fixed_point or filters is None:
        raise one.refusal("of quantised integers that are a map, or rescaled in single precision")
    limits = np.iinfo(state.element.value)
    scale = stored_types(one, "matrix").scale
    fields = (
        one.symbol("matrix", _packed(one.weights["matrix"])),
        one.symbol("filters", one.weights["filters"][:, -1].astype(np.int16)),
        one.symbol("bias", one.weights["bias"].astype(np.int32)),
        *(operator.units, operator.rank, one.inputs[0].elements),
        *(given.zero_point, state.zero_point, result.zero_point, limits.min, limits.max),
        *multiplier(given.scale * scale / state.scale),
        *multiplier(state.scale * filters.scale / result.scale),
    )
    return Call("filter_in_time", one.structure("filtering", *map(str, fields)))

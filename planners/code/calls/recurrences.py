"""Recurrent layers: the call for them, and the room that they keep their state in."""

from __future__ import annotations

import numpy as np

from cnn2csdf import operators as op
from cnn2csdf.operators.recurrences import DIRECTIONS, GATES
from planners.code.described import Call, Described
from planners.code.names import number
from planners.code.tables import NULL

CELL_BYTES = 2  # of an LSTM of integers, among elements of one byte
KINDS = {"lstm": "LSTM", "gru": "GRU", "rnn": "PLAIN"}
GIVEN = {"all": "GIVES_ALL", "last": "GIVES_LAST", "cell": "GIVES_CELL"}


def recurrence_call(one: Described, operator: op.Recurrence) -> Call:
    """Return the call for a recurrent layer."""
    frames, sequences, elements = one.inputs[0].dims
    senses = [int(sense < 0) for sense in DIRECTIONS[operator.direction]]
    one.tables.wanted.update((KINDS[operator.kind], GIVEN[operator.gives]))
    fields: tuple[str | int, ...] = (
        *(KINDS[operator.kind], GIVEN[operator.gives], int(operator.resets_after)),
        *(GATES[operator.kind], operator.units, frames, sequences, elements, len(senses)),
        "{" + ", ".join(map(str, (*senses, 0)[:2])) + "}",
        *(one.symbol(role, one.weights[role]) for role in ("matrix", "recurrent matrix")),
        one.optional("bias"),
        one.optional("state") if operator.has_state else NULL,
        one.optional("cell") if operator.has_cell else NULL,
        number(np.inf if operator.cell_limit is None else operator.cell_limit),
    )
    return Call("recur", one.structure("recurrence", *fields))


def scratch_elements(operator: op.Operator) -> int:
    """Return how many numbers an operator keeps while it works, beside input and output."""
    match operator:
        case op.Recurrence(kind=kind, units=units):
            return units * (2 + GATES[kind])
        case op.QuantizedLstm(units=units):
            return units * CELL_BYTES
    return 0

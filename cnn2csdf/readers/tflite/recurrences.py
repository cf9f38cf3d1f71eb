"""Recurrent operators of a TensorFlow Lite graph as layers.

States that are variable tensors are retained from invocation to invocation; otherwise each frame
begins with a state of zero.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import log2, prod

import numpy as np

from cnn2csdf import operators as op
from cnn2csdf.operators.recurrences import CELL_GATES
from cnn2csdf.readers.tflite.assembly import (
    Converter,
    TfliteAssembly,
    Trained,
    quantization_of,
    refusal,
)
from cnn2csdf.readers.tflite.model_file import TfliteNode
from cnn2csdf.readers.tflite.options import fused_behind, options_of, require_centred
from cnn2csdf.readers.tflite.recurrent_steps import add_hybrid_lstm, add_real_svdf
from csdf.errors import UnreadableFile

FIRST_MATRIX, FIRST_RECURRENT, FIRST_BIAS = 1, 5, 12  # inputs: one for each of CELL_GATES
OPTIONAL = (9, 10, 11, 16, 17, 20, 21, 22, 23)  # peepholes, projection, normalisation
HIDDEN, CELL = 18, 19
SVDF_STATE = 4
TANH = 4
ONNX_ORDER = ("input", "output", "forget", "cell")


def lstm(node: TfliteNode, assembly: TfliteAssembly) -> None:
    """Add an LSTM over a sequence."""
    options, dims = options_of(node), assembly.tensor(node, 0).dims
    if any(assembly.has(node, index) for index in OPTIONAL):
        raise refusal(node, "peepholes, projections and normalised gates are not supported")
    if len(dims) != 3 or dims[0] != 1 or options.integer(3, "b"):
        raise refusal(node, f"an input of {dims}; expected 1 x frames x elements")
    if options.integer(0, "b") != TANH:
        raise refusal(node, f"the activation {options.integer(0, 'b')}, expected tanh")
    for index in (HIDDEN, CELL):
        _require_at_rest(node, assembly, index)
    state = assembly.tensor(node, HIDDEN).dims
    if len(state) != 2 or not prod(state):
        raise UnreadableFile(f"{node}: a state of {state}")
    units = state[-1]
    for place, gate in enumerate(CELL_GATES):
        _require(node, assembly, FIRST_MATRIX + place, (units, dims[2]), gate)
        _require(node, assembly, FIRST_RECURRENT + place, (units, units), gate)
        _require(node, assembly, FIRST_BIAS + place, (units,), gate)
    keeps = _keeps_states(node, assembly, HIDDEN, CELL)
    has_integers = any(
        assembly.tensor(node, first + place).quantization() is not None
        for first in (FIRST_MATRIX, FIRST_RECURRENT)
        for place in range(len(CELL_GATES))
    )
    if quantization_of(assembly.tensor(node, 0)) is None and has_integers:
        add_hybrid_lstm(
            node,
            assembly,
            units,
            firsts=(FIRST_MATRIX, FIRST_RECURRENT, FIRST_BIAS),
            states=(HIDDEN, CELL) if keeps else None,
        )
    elif quantization_of(assembly.tensor(node, 0)) is None:
        # As the LSTM of ONNX: gates one behind another, a sequence of its own as second axis.
        frames = assembly.shape(node, 0).dims[0]
        places = [CELL_GATES.index(gate) for gate in ONNX_ORDER]
        matrix, recurrent, bias = (
            np.concatenate([assembly.constant(node, first + place) for place in places])[None]
            for first in (FIRST_MATRIX, FIRST_RECURRENT, FIRST_BIAS)
        )
        source = assembly.source(node, 0)
        wide = assembly.prepared(node, source, op.Reshape(dims=(frames, 1, matrix.shape[2])))
        trained = [
            assembly.trained(node, FIRST_MATRIX, "matrix", matrix),
            assembly.trained(node, FIRST_RECURRENT, "recurrent matrix", recurrent),
            assembly.trained(
                node, FIRST_BIAS, "bias", np.concatenate([bias, np.zeros_like(bias)], axis=1)
            ),
        ]
        limit = options_of(node).real(1)
        states = []
        if keeps:
            states = [assembly.state_before(node, i, (1, 1, units)) for i in (HIDDEN, CELL)]
        operator = op.Recurrence(
            kind="lstm",
            units=units,
            cell_limit=limit if limit > 0 else None,
            given=("state", "cell") if states else (),
        )
        sources = [wide, *states]
        assembly.add(
            node, operator, op.Reshape(dims=(frames, units)), sources=sources, trained=trained
        )
        if states:
            hidden, cells = states
            last = op.Slice(axis=0, start=frames - 1, stop=frames)
            output = assembly.prepared(node, assembly.written(node), last)
            assembly.state_after(hidden, op.Reshape(dims=(1, 1, units)), [output])
            assembly.state_after(cells, replace(operator, gives="cell"), sources, trained)
    else:
        _add_quantized(node, assembly, units, keeps=keeps)


def _keeps_states(node: TfliteNode, assembly: TfliteAssembly, *indices: int) -> bool:
    """Whether states stay from invocation to invocation: they are variable tensors.

    Raises UnsupportedOperator where some of them do, or where a tensor is the state of another input.
    """
    kept = [index for index in indices if assembly.tensor(node, index).is_variable]
    if kept and len(kept) < len(indices):
        raise refusal(
            node, "one of hidden state and cells stays from invocation to invocation only"
        )
    for index in kept:
        assembly.keep_state(node, index)
    return bool(kept)


def _require_at_rest(node: TfliteNode, assembly: TfliteAssembly, index: int) -> None:
    """Raise UnsupportedOperator for a state that begins at other numbers than zero."""
    tensor, types = assembly.tensor(node, index), quantization_of(assembly.tensor(node, index))
    if assembly.is_dynamic(node, index):
        raise refusal(node, f"the state {tensor.name!r} depends on the frame; expected zeros")
    if tensor.is_constant and (tensor.array() != (types.zero_point if types else 0)).any():
        raise refusal(node, f"the state {tensor.name!r} begins at other numbers than zero")


def _require(
    node: TfliteNode, assembly: TfliteAssembly, index: int, wanted: tuple[int, ...], gate: str
) -> None:
    gate_dims = assembly.constant(node, index).shape
    if gate_dims != wanted:
        raise UnreadableFile(
            f"{node}: the {gate} gate reads {gate_dims} of input {index}, not {wanted}"
        )


def _add_quantized(node: TfliteNode, assembly: TfliteAssembly, units: int, *, keeps: bool) -> None:
    cell = quantization_of(assembly.tensor(node, CELL))
    if cell is None or cell.element.value != "int16" or log2(cell.scale) % 1:
        raise refusal(node, "cells that are not int16 with a power of two as scale")
    hidden = quantization_of(assembly.tensor(node, HIDDEN))
    if hidden != quantization_of(assembly.output(node)) or hidden is None:
        raise refusal(node, "a state that is stored in another way than the output")
    if {
        types_of_state.element.value
        for types_of_state in (hidden, quantization_of(assembly.tensor(node, 0)))
        if types_of_state
    } != {"int8"}:
        raise refusal(node, "an input or a state of other than int8")
    clip = options_of(node).real(1)
    operator = op.QuantizedLstm(
        units=units,
        cell_scale=cell.scale,
        clip=int(min(clip / cell.scale, 2**15 - 1)) if clip > 0 else None,
        keeps=hidden.zero_point if keeps else None,
    )
    trained = []
    for place, gate in enumerate(CELL_GATES):
        for first, role in (
            (FIRST_MATRIX, "matrix"),
            (FIRST_RECURRENT, "recurrent matrix"),
        ):
            array_stored = _as_stored(node, assembly, first + place, f"{gate} {role}")
            require_centred(node, array_stored)
            trained.append(array_stored)
        trained.append(_as_stored(node, assembly, FIRST_BIAS + place, f"{gate} bias"))
    assembly.add(node, operator, sources=[assembly.source(node, 0)], trained=trained)


def _as_stored(node: TfliteNode, assembly: TfliteAssembly, index: int, role: str) -> Trained:
    array_trained = assembly.trained(node, index, role, assembly.constant(node, index))
    if not role.endswith("bias") and array_trained.stored.quantization is None:
        raise refusal(node, f"weights without a scale (input {index}) for quantised integers")
    return array_trained


def svdf(node: TfliteNode, assembly: TfliteAssembly) -> None:
    """Add a filter over time in low rank."""
    rank, matrix = options_of(node).integer(0, "i"), assembly.constant(node, 1)
    _require_at_rest(node, assembly, SVDF_STATE)
    state = quantization_of(assembly.tensor(node, SVDF_STATE))
    filters = assembly.constant(node, 2)
    elements = assembly.shape(node, 0).elements
    if rank < 1 or matrix.ndim != 2 or filters.ndim != 2 or matrix.shape[1] != elements:
        raise UnreadableFile(f"{node}: rank {rank}, a matrix of {matrix.shape} for {elements}")
    if len(matrix) % rank or len(filters) != len(matrix) or not filters.shape[1]:
        raise UnreadableFile(
            f"{node}: {len(matrix)} filters of rank {rank}, {len(filters)} in time"
        )
    keeps = _keeps_states(node, assembly, SVDF_STATE)
    if quantization_of(assembly.tensor(node, 0)) is None and state is None:
        kept = SVDF_STATE if keeps else None
        add_real_svdf(node, assembly, rank, kept, fused_behind(node, 1))
        return
    if quantization_of(assembly.tensor(node, 0)) is None or state is None:
        raise refusal(node, "real numbers and quantised integers together")
    if not assembly.has(node, 3):
        raise refusal(node, "without a bias")
    units = len(matrix) // rank
    operator = op.QuantizedSvdf(
        units=units,
        rank=rank,
        places=filters.shape[1],
        state=state,
        keeps=keeps,
    )
    bias = assembly.constant(node, 3)
    if bias.shape != (units,):
        raise UnreadableFile(f"{node}: biases of shape {bias.shape} for {units} units")
    trained = [
        _as_stored(node, assembly, 1, "matrix"),
        _as_stored(node, assembly, 2, "filters"),
        _as_stored(node, assembly, 3, "bias"),
    ]
    assembly.add(node, operator, sources=[assembly.source(node, 0)], trained=trained)


CONVERTERS: Mapping[str, Converter] = {
    "SVDF": svdf,
    "UNIDIRECTIONAL_SEQUENCE_LSTM": lstm,
}

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
from cnn2csdf.dtypes import Element
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

# Inputs of an LSTM: the first of four consecutive inputs, one for each gate in the order of CELL_GATES:
# input, forget, cell, output.
FIRST_MATRIX = 1
FIRST_RECURRENT = 5
FIRST_BIAS = 12
OPTIONAL = (9, 10, 11, 16, 17, 20, 21, 22, 23)  # peepholes, projection, normalisation
HIDDEN = 18
CELL = 19
# Fields of the options of an LSTM.
ACTIVATION = 0
CELL_CLIP = 1
TIME_MAJOR = 3
TANH = 4  # an ActivationFunctionType
SVDF_STATE = 4  # input of an SVDF
SVDF_RANK = 0  # fields of its options
SVDF_ACTIVATION = 1
ONNX_ORDER = ("input", "output", "forget", "cell")


def lstm(node: TfliteNode, assembly: TfliteAssembly) -> None:
    """Add an LSTM over a sequence."""
    units = _supported_units(node, assembly)
    keeps = _keeps_states(node, assembly, HIDDEN, CELL)
    if quantization_of(assembly.tensor(node, 0)) is not None:
        _add_quantized(node, assembly, units, keeps=keeps)
        return
    has_integer_weights = any(
        assembly.tensor(node, first + gate).quantization() is not None
        for first in (FIRST_MATRIX, FIRST_RECURRENT)
        for gate in range(len(CELL_GATES))
    )
    if has_integer_weights:
        add_hybrid_lstm(
            node,
            assembly,
            units,
            firsts=(FIRST_MATRIX, FIRST_RECURRENT, FIRST_BIAS),
            states=(HIDDEN, CELL) if keeps else None,
        )
    else:
        _add_real(node, assembly, units, keeps=keeps)


def _supported_units(node: TfliteNode, assembly: TfliteAssembly) -> int:
    """Return the units of an LSTM. Raises UnsupportedOperator or UnreadableFile for other forms."""
    options, dims = options_of(node), assembly.tensor(node, 0).dims
    if any(assembly.has(node, index) for index in OPTIONAL):
        raise refusal(node, "peepholes, projections and normalised gates are not supported")
    if len(dims) != 3 or dims[0] != 1 or options.integer(TIME_MAJOR, "b"):
        raise refusal(node, f"an input of {dims}; expected 1 x frames x elements")
    activation = options.integer(ACTIVATION, "b")
    if activation != TANH:
        raise refusal(node, f"the activation {activation}, expected tanh")
    for index in (HIDDEN, CELL):
        _require_at_rest(node, assembly, index)
    state = assembly.tensor(node, HIDDEN).dims
    if len(state) != 2 or not prod(state):
        raise UnreadableFile(f"{node}: a state of {state}")
    units = state[-1]
    for number, gate in enumerate(CELL_GATES):
        _require_gate_shape(node, assembly, FIRST_MATRIX + number, (units, dims[2]), gate)
        _require_gate_shape(node, assembly, FIRST_RECURRENT + number, (units, units), gate)
        _require_gate_shape(node, assembly, FIRST_BIAS + number, (units,), gate)
    return units


def _add_real(node: TfliteNode, assembly: TfliteAssembly, units: int, *, keeps: bool) -> None:
    """Add an LSTM of real numbers in the form of ONNX: gates concatenated, batch as second axis.

    `assembly.add_moves` adds moves (reshapes, slices) after a layer and returns the last of them. Of a
    Recurrence, `given` are the inputs in addition to the sequence, and `gives` is the output.
    """
    frames = assembly.shape(node, 0).dims[0]
    matrix, recurrent, bias = _onnx_arrays(node, assembly)
    dims = (frames, 1, matrix.array.shape[2])
    sequence = assembly.add_moves(node, assembly.source(node, 0), op.Reshape(dims=dims))
    trained = [matrix, recurrent, bias]
    states = []
    if keeps:
        states = [assembly.state_before(node, index, (1, 1, units)) for index in (HIDDEN, CELL)]
    clip = options_of(node).real(CELL_CLIP)
    operator = op.Recurrence(
        kind="lstm",
        units=units,
        cell_limit=clip if clip > 0 else None,
        given=("state", "cell") if states else (),
    )
    sources = [sequence, *states]
    as_matrix = op.Reshape(dims=(frames, units))
    assembly.add(node, operator, as_matrix, sources=sources, trained=trained)
    if states:
        hidden, cells = states
        last = op.Slice(axis=0, start=frames - 1, stop=frames)
        output = assembly.add_moves(node, assembly.layer_of_output(node), last)
        assembly.state_after(hidden, op.Reshape(dims=(1, 1, units)), [output])
        # A layer has one output: a second LSTM of the same inputs returns the last cells.
        assembly.state_after(cells, replace(operator, gives="cell"), sources, trained)


def _onnx_arrays(node: TfliteNode, assembly: TfliteAssembly) -> tuple[Trained, Trained, Trained]:
    """Matrix, recurrent matrix and bias of all gates, in the order of the LSTM of ONNX."""
    gates = [CELL_GATES.index(gate) for gate in ONNX_ORDER]
    matrix, recurrent, bias = (
        np.concatenate([assembly.constant(node, first + gate) for gate in gates])[None]
        for first in (FIRST_MATRIX, FIRST_RECURRENT, FIRST_BIAS)
    )
    # ONNX adds a second bias, of the recurrent product.
    biases = np.concatenate([bias, np.zeros_like(bias)], axis=1)
    return (
        assembly.trained(node, FIRST_MATRIX, "matrix", matrix),
        assembly.trained(node, FIRST_RECURRENT, "recurrent matrix", recurrent),
        assembly.trained(node, FIRST_BIAS, "bias", biases),
    )


def _keeps_states(node: TfliteNode, assembly: TfliteAssembly, *indices: int) -> bool:
    """Whether the states are retained from invocation to invocation, as variable tensors are.

    Raises UnsupportedOperator where only one state is, or where a tensor is the state of two inputs.
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


def _require_gate_shape(
    node: TfliteNode, assembly: TfliteAssembly, index: int, expected: tuple[int, ...], gate: str
) -> None:
    """Raise UnreadableFile for an array of a gate with other dims."""
    gate_dims = assembly.constant(node, index).shape
    if gate_dims != expected:
        raise UnreadableFile(
            f"{node}: the {gate} gate reads {gate_dims} of input {index}, not {expected}"
        )


def _add_quantized(node: TfliteNode, assembly: TfliteAssembly, units: int, *, keeps: bool) -> None:
    """Add an LSTM of int8 with cells of int16."""
    cell = quantization_of(assembly.tensor(node, CELL))
    if cell is None or cell.element is not Element.INT16 or log2(cell.scale) % 1:
        raise refusal(node, "cells that are not int16 with a power of two as scale")
    hidden = quantization_of(assembly.tensor(node, HIDDEN))
    if hidden != quantization_of(assembly.output(node)) or hidden is None:
        raise refusal(node, "a state that is stored in another way than the output")
    source = quantization_of(assembly.tensor(node, 0))
    elements = {types.element for types in (hidden, source) if types is not None}
    if elements != {Element.INT8}:
        raise refusal(node, "an input or a state of other than int8")
    clip = options_of(node).real(CELL_CLIP)
    operator = op.QuantizedLstm(
        units=units,
        cell_scale=cell.scale,
        clip=int(min(clip / cell.scale, 2**15 - 1)) if clip > 0 else None,
        keeps=hidden.zero_point if keeps else None,
    )
    trained = []
    for number, gate in enumerate(CELL_GATES):
        for first, role in (
            (FIRST_MATRIX, "matrix"),
            (FIRST_RECURRENT, "recurrent matrix"),
        ):
            weights = _scaled(node, assembly, first + number, f"{gate} {role}")
            require_centred(node, weights)
            trained.append(weights)
        trained.append(_array(node, assembly, FIRST_BIAS + number, f"{gate} bias"))
    assembly.add(node, operator, trained=trained)


def _array(node: TfliteNode, assembly: TfliteAssembly, index: int, role: str) -> Trained:
    """The constant array of an input, as stored."""
    return assembly.trained(node, index, role, assembly.constant(node, index))


def _scaled(node: TfliteNode, assembly: TfliteAssembly, index: int, role: str) -> Trained:
    """The weights of an input. Raises UnsupportedOperator for weights without a scale."""
    weights = _array(node, assembly, index, role)
    if weights.stored.quantization is None:
        raise refusal(node, f"weights without a scale (input {index}) for quantised integers")
    return weights


def svdf(node: TfliteNode, assembly: TfliteAssembly) -> None:
    """Add an SVDF: a filter over time and features of low rank."""
    rank, matrix = options_of(node).integer(SVDF_RANK, "i"), assembly.constant(node, 1)
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
        add_real_svdf(node, assembly, rank, kept, fused_behind(node, SVDF_ACTIVATION))
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
        _scaled(node, assembly, 1, "matrix"),
        _scaled(node, assembly, 2, "filters"),
        _array(node, assembly, 3, "bias"),
    ]
    assembly.add(node, operator, trained=trained)


CONVERTERS: Mapping[str, Converter] = {
    "SVDF": svdf,
    "UNIDIRECTIONAL_SEQUENCE_LSTM": lstm,
}

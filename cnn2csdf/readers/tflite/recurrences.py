"""Recurrent operators of a TensorFlow Lite graph as layers.

States that are variable tensors are retained from invocation to invocation; otherwise each frame
begins with a state of zero. An LSTM with weights of int8 and an SVDF of floating point are composed of
layers for each frame; inputs and states are quantised by their own range before each product.

Described from tensorflow/tensorflow, tensorflow/lite/kernels: lstm_eval.cc, svdf.cc and
internal/reference/svdf.h.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import log2, prod

import numpy as np

from cnn2csdf import operators as op
from cnn2csdf.arrays import Array
from cnn2csdf.dtypes import Element, Stored
from cnn2csdf.operators.recurrences import CELL_GATES
from cnn2csdf.readers.tflite.assembly import (
    Converter,
    TfliteAssembly,
    Trained,
    quantization_of,
    refusal,
)
from cnn2csdf.readers.tflite.model_file import TfliteNode
from cnn2csdf.readers.tflite.options import (
    fused_activation,
    is_hybrid,
    options_of,
    require_centred,
    require_scale,
    require_scales,
)
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
LSTM_OFFSET = 4  # whether inputs are quantised with a zero point
TANH = 4  # an ActivationFunctionType
SVDF_STATE = 4  # input of an SVDF
SVDF_RANK = 0  # fields of its options
SVDF_ACTIVATION = 1
SVDF_OFFSET = 2
LONGEST = 64  # frames of a sequence, each of about 20 layers
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
        _add_hybrid_lstm(node, assembly, units, keeps=keeps)
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
        _add_real_svdf(node, assembly, rank, kept, fused_activation(node, SVDF_ACTIVATION))
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


@dataclass(frozen=True, slots=True, kw_only=True)
class _RecurrentLayers:
    """Adds layers of floating point before the output of a node."""

    node: TfliteNode
    assembly: TfliteAssembly

    def add(
        self, operator: op.Operator, *sources: str, trained: Sequence[Trained] = (), what: str = ""
    ) -> str:
        """Add a layer; return its name."""
        return self.assembly.add_inner(self.node, operator, sources, trained, what)

    def combined(self, function: str, *sources: str) -> str:
        """Add a function of the elements at one position of all sources."""
        return self.add(op.Elementwise(function=function), *sources)

    def with_constant(self, function: str, source: str, array: Array) -> str:
        """Add a function of each element and the constant at its position."""
        stored = Trained(array=array.astype(np.float32), stored=Stored(role="constant"))
        operator = op.Elementwise(function=function, constant=array.shape)
        return self.add(operator, source, trained=[stored])

    def slice(self, source: str, axis: int, start: int, stop: int) -> str:
        """Add a slice of a tensor."""
        return self.add(op.Slice(axis=axis, start=start, stop=stop), source)


def _add_hybrid_lstm(
    node: TfliteNode, assembly: TfliteAssembly, units: int, *, keeps: bool
) -> None:
    """Add an LSTM over a sequence with weights of int8 and a floating-point input."""
    steps, source = _RecurrentLayers(node=node, assembly=assembly), assembly.source(node, 0)
    frames, elements = assembly.builder.shape(source).dims
    if frames > LONGEST:
        raise refusal(node, f"weights of int8 for {frames} frames; at most {LONGEST}")
    options = options_of(node)
    limit, has_offset = options.real(CELL_CLIP), bool(options.integer(LSTM_OFFSET, "b"))
    entering = _gates(node, assembly, FIRST_MATRIX)
    again = _gates(node, assembly, FIRST_RECURRENT)
    bias = np.concatenate(
        [assembly.constant(node, FIRST_BIAS + gate) for gate in range(len(CELL_GATES))]
    )
    hidden, cell = "", ""
    if keeps:
        hidden, cell = (assembly.state_before(node, index, (units,)) for index in (HIDDEN, CELL))
    before, outputs = (hidden, cell), []
    stored_bias = assembly.trained(node, FIRST_BIAS, "bias", bias).stored
    shared = replace(stored_bias, name=f"{stored_bias.name} and further gates")
    biases = [Trained(array=bias, stored=shared)]
    for frame in range(frames):
        row = steps.slice(source, 0, frame, frame + 1) if frames > 1 else source
        vector = steps.add(op.Reshape(dims=(elements,)), row)
        sums = _product(steps, vector, entering, biases, has_offset=has_offset)
        if hidden:
            recurrent = _product(steps, hidden, again, [], has_offset=has_offset)
            sums = steps.combined("add", sums, recurrent)
        cell = _next_cell(steps, sums, cell, units, limit)
        out = steps.slice(sums, 0, 3 * units, 4 * units)
        bounded = steps.add(op.Activation(function="tanh"), cell)
        out = steps.add(op.Activation(function="sigmoid"), out)
        hidden = steps.combined("multiply", out, bounded)
        outputs.append(steps.add(op.Reshape(dims=(1, units)), hidden))
    whole: op.Operator = op.Concatenation(axis=0) if frames > 1 else op.Identity()
    assembly.add(node, whole, sources=outputs)
    if keeps:
        assembly.state_after(before[0], op.Identity(), [hidden])
        assembly.state_after(before[1], op.Identity(), [cell])


def _next_cell(steps: _RecurrentLayers, sums: str, cell: str, units: int, limit: float) -> str:
    """Add what the gates let pass of the cells and of the frame; cell: empty for zeros."""
    places = {gate: place for place, gate in enumerate(CELL_GATES)}

    def gate_of(gate: str, function: str) -> str:
        begin = places[gate] * units
        return steps.add(
            op.Activation(function=function), steps.slice(sums, 0, begin, begin + units)
        )

    new = steps.combined("multiply", gate_of("cell", "tanh"), gate_of("input", "sigmoid"))
    if cell:
        kept = steps.combined("multiply", gate_of("forget", "sigmoid"), cell)
        new = steps.combined("add", kept, new)
    if limit > 0:
        new = steps.add(op.Activation(function="clip", parameters=(-limit, limit)), new)
    return new


def _gates(node: TfliteNode, assembly: TfliteAssembly, first: int) -> Trained:
    """Return the matrices of all gates, concatenated, with a scale for each row."""
    arrays, scales = [], list[float]()
    for place in range(len(CELL_GATES)):
        types = assembly.tensor(node, first + place).quantization()
        array = assembly.constant(node, first + place)
        if types is None or types.element is not Element.INT8 or types.zero_point:
            raise refusal(node, "weights that are not all int8 with a zero point of 0")
        arrays.append(array)
        rows = types.scales if len(types.scales) > 1 else types.scales * len(array)
        if len(rows) != len(array):
            raise UnreadableFile(f"{node}: {len(rows)} scales of {len(array)} rows")
        scales += rows
    trained = assembly.trained(node, first, "matrix", np.concatenate(arrays))
    types = trained.stored.quantization
    assert types is not None
    stored = replace(trained.stored, quantization=replace(types, scales=tuple(scales)))
    return replace(trained, stored=replace(stored, name=f"{trained.stored.name} and further gates"))


def _product(
    steps: _RecurrentLayers,
    source: str,
    matrix: Trained,
    bias: Sequence[Trained],
    *,
    has_offset: bool,
) -> str:
    """Add the product of a vector and a matrix, of int8 or of floating point."""
    units, types = len(matrix.array), matrix.stored.quantization
    product = op.FullyConnected(units=units, has_bias=bool(bias))
    if types is None:
        return steps.add(product, source, trained=[matrix, *bias])
    scales = types.scales
    hybrid = op.HybridProduct(product=product, scales=scales, has_offset=has_offset)
    return steps.add(hybrid, source, trained=[matrix, *bias])


def _add_real_svdf(
    node: TfliteNode, assembly: TfliteAssembly, rank: int, state: int | None, fused: int
) -> None:
    """Add a filter over time in low rank of floating point; its weights may be of int8.

    state: index of the features of earlier frames, where they stay from invocation to invocation.
    """
    steps, source = _RecurrentLayers(node=node, assembly=assembly), assembly.source(node, 0)
    matrix = assembly.trained(node, 1, "matrix", assembly.constant(node, 1))
    is_hybrid(node, assembly)  # refuses other integers than int8, and a zero point
    require_scales(node, matrix, len(matrix.array))
    times = _real(assembly, node, 2)
    filters, places = times.shape
    units = filters // rank
    vector = steps.add(op.Reshape(dims=(matrix.array.shape[1],)), source)
    has_offset = node.options is not None and bool(node.options.integer(SVDF_OFFSET, "b"))
    features = _product(steps, vector, matrix, [], has_offset=has_offset)
    newest = steps.add(op.Reshape(dims=(filters, 1)), features)
    if state is None or places == 1:
        weighed = steps.with_constant("multiply", newest, times[:, -1:])
    else:
        before = assembly.state_before(node, state, (filters, places - 1))
        line = steps.add(op.Concatenation(axis=1), before, newest)
        weighed = steps.with_constant("multiply", line, times)
        after = steps.slice(line, 1, 1, places) if places > 2 else newest
        assembly.state_after(before, op.Identity(), [after])
    sums = steps.add(op.Reduction(function="sum", axes=(1,), keeps=False), weighed)
    if rank > 1:
        ranks = steps.add(op.Reshape(dims=(units, rank)), sums)
        sums = steps.add(op.Reduction(function="sum", axes=(1,), keeps=False), ranks)
    bias = _real(assembly, node, 3).reshape(-1) if assembly.has(node, 3) else np.zeros(units)
    if bias.shape != (units,):
        raise UnreadableFile(f"{node}: biases of shape {bias.shape} for {units} units")
    stored = Trained(array=bias.astype(np.float32), stored=Stored(role="constant"))
    operator = op.Elementwise(function="add", constant=(units,))
    assembly.add(node, operator, sources=[sums], trained=[stored], fused=fused)


def _real(assembly: TfliteAssembly, node: TfliteNode, index: int) -> Array:
    """Return a constant as the real numbers that it stands for."""
    array, types = assembly.constant(node, index), assembly.tensor(node, index).quantization()
    require_scale(node, assembly.tensor(node, index))
    if types is None:
        return array.astype(np.float32)
    if len(types.scales) != 1:
        raise refusal(node, f"{len(types.scales)} scales of filters over time")
    return (array.astype(np.float32) - types.zero_point) * np.float32(types.scale)


CONVERTERS: Mapping[str, Converter] = {
    "SVDF": svdf,
    "UNIDIRECTIONAL_SEQUENCE_LSTM": lstm,
}

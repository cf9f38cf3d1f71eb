"""LSTM with weights of int8 and SVDF of floating point, composed of layers for each frame.

Described from tensorflow/tensorflow, tensorflow/lite/kernels: lstm_eval.cc, svdf.cc and
internal/reference/svdf.h. Inputs and states are quantised by their own range before each product.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from cnn2csdf import operators as op
from cnn2csdf.arrays import Array
from cnn2csdf.dtypes import Element, Stored
from cnn2csdf.operators.recurrences import CELL_GATES
from cnn2csdf.readers.tflite.assembly import TfliteAssembly, Trained, refusal
from cnn2csdf.readers.tflite.model_file import TfliteNode
from cnn2csdf.readers.tflite.options import is_hybrid, require_scale, require_scales
from csdf.errors import UnreadableFile

LONGEST = 64  # frames of a sequence, each of about 20 layers


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


def add_hybrid_lstm(
    node: TfliteNode,
    assembly: TfliteAssembly,
    units: int,
    *,
    firsts: tuple[int, int, int],
    states: tuple[int, int] | None,
) -> None:
    """Add an LSTM over a sequence with weights of int8 and a floating-point input.

    firsts: indices of the first matrix, recurrent matrix and bias among the inputs. states: indices of
    the hidden state and the cells where they stay from invocation to invocation.
    """
    steps, source = _RecurrentLayers(node=node, assembly=assembly), assembly.source(node, 0)
    frames, elements = assembly.builder.shape(source).dims
    if frames > LONGEST:
        raise refusal(node, f"weights of int8 for {frames} frames; at most {LONGEST}")
    assert node.options is not None
    limit, has_offset = node.options.real(1), bool(node.options.integer(4, "b"))
    entering = _gates(node, assembly, firsts[0])
    again = _gates(node, assembly, firsts[1])
    bias = np.concatenate(
        [assembly.constant(node, firsts[2] + gate) for gate in range(len(CELL_GATES))]
    )
    hidden, cell = "", ""
    if states is not None:
        hidden, cell = (assembly.state_before(node, index, (units,)) for index in states)
    before, outputs = (hidden, cell), []
    stored_bias = assembly.trained(node, firsts[2], "bias", bias).stored
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
    if states is not None:
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
    """Return the matrices of all gates, one behind another, with a scale for each row."""
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


def add_real_svdf(
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
    has_offset = node.options is not None and bool(node.options.integer(2, "b"))
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

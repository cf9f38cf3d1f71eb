"""Recurrent cells of quantised integers, bit by bit as TensorFlow Lite Micro computes them.

Each frame begins with a state of zero; readers refuse files whose state is kept from frame to frame.
Described from tensorflow/tflite-micro, tensorflow/lite/micro/kernels: lstm_eval.h,
lstm_eval_common.cc and svdf_common.cc.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log2

import numpy as np

from cnn2csdf.arrays import Array
from cnn2csdf.elements import Quantization
from cnn2csdf.fixed_point.short_functions import power_hyperbolic_tangent, short_sigmoid
from cnn2csdf.integers import Integers, centred, multiplier, rescaled, stored
from cnn2csdf.operators.operator import Operator, only_input, quantized_types
from cnn2csdf.part import Part, Types, whole_tensor
from cnn2csdf.shape import Dims, Shape
from csdf.errors import ExecutionError, InvalidNetwork

GATES = ("input", "forget", "cell", "output")
SUM_POWER, GATE_POWER = -12, -15  # of two: scales of what enters a gate, and of what leaves it
SHORT = 2**15


def _short(values: Integers) -> Integers:
    return np.clip(values, -SHORT, SHORT - 1)


def _product(left: Integers, right: Integers, ratio: float) -> Integers:
    return rescaled(left * right, *multiplier(ratio))


class _InIntegers(Operator):
    """An operator that has no form in real numbers."""

    __slots__ = ()

    def computed(self, part: Part) -> Array:
        raise ExecutionError(f"{self.in_words()} is computed with quantised integers only")


@dataclass(frozen=True, slots=True, kw_only=True)
class QuantizedLstm(_InIntegers):
    """An LSTM over the rows of (frames, elements); its cells are integers of 16 bits.

    cell_scale: a power of two. clip: largest size of a cell in its steps; None for no limit.
    """

    units: int
    cell_scale: float
    clip: int | None = None

    def output_dims(self, inputs: Sequence[Shape]) -> Dims:
        shape = only_input(self, inputs)
        if len(shape.dims) != 2:
            raise InvalidNetwork(f"an LSTM of integers needs frames x elements, found {shape}")
        return (shape.dims[0], self.units)

    def trained(self, inputs: Sequence[Shape]) -> Mapping[str, Dims]:
        """Return for each gate the matrices of the input and of the state, and the bias."""
        found: dict[str, Dims] = {}
        for gate in GATES:
            found[f"{gate} matrix"] = (self.units, inputs[0].dims[1])
            found[f"{gate} recurrent matrix"] = (self.units, self.units)
            found[f"{gate} bias"] = (self.units,)
        return found

    def multiply_accumulates(self, inputs: Sequence[Shape], output: Shape) -> int:
        frames, elements = inputs[0].dims
        return frames * len(GATES) * self.units * (elements + self.units)

    def computed_in_integers(self, part: Part, types: Types) -> Array:
        """Return what it gives for every frame."""
        given, result = quantized_types(self, types)
        frames = centred(whole_tensor(part.inputs[0]), given)
        hidden = np.zeros(self.units, np.int64)
        cell = np.zeros(self.units, np.int64)
        found = []
        for frame in frames:
            gates = {gate: self._gate(gate, frame, hidden, part, types) for gate in GATES}
            cell = self._next_cell(cell, gates)
            ratio = 2.0 ** (2 * GATE_POWER) / result.scale
            bounded = power_hyperbolic_tangent(cell, round(log2(self.cell_scale)))
            out = stored(_product(bounded, gates["output"], ratio), result)
            hidden = centred(out, result)
            found.append(out)
        return np.stack(found)

    def _gate(
        self, gate: str, frame: Integers, hidden: Integers, part: Part, types: Types
    ) -> Integers:
        given, result = quantized_types(self, types)
        bias = part.weights[f"{gate} bias"].astype(np.int64)
        matrix, recurrent = (f"{gate} matrix", f"{gate} recurrent matrix")
        entering = _sums(frame, part.weights[matrix], bias, given, types.weights[matrix])
        again = _sums(hidden, part.weights[recurrent], 0, result, types.weights[recurrent])
        sums = _short(entering + again)
        if gate == "cell":
            return power_hyperbolic_tangent(sums, SUM_POWER)
        return short_sigmoid(sums, 2.0**SUM_POWER)

    def _next_cell(self, cell: Integers, gates: Mapping[str, Integers]) -> Integers:
        kept = _short(_product(gates["forget"], cell, 2.0**GATE_POWER))
        ratio = 2.0 ** (2 * GATE_POWER) / self.cell_scale
        new = _short(_product(gates["input"], gates["cell"], ratio))
        found = _short(kept + new)
        return found if self.clip is None else np.clip(found, -self.clip, self.clip)

    def in_words(self) -> str:
        return "lstm"


def _sums(
    vector: Integers, matrix: Array, bias: Array | int, given: Quantization, trained: Quantization
) -> Integers:
    """A product of integers in the steps that enter a gate."""
    sums = matrix.astype(np.int64) @ vector + bias
    return _short(rescaled(sums, *sum_multiplier(given, trained)))


def sum_multiplier(given: Quantization, trained: Quantization) -> tuple[int, int]:
    """Return the factor from sums to the steps that enter a gate; of the scales in single precision."""
    scale = float(np.float32(given.scale) * np.float32(trained.scale))
    return multiplier(scale / 2.0**SUM_POWER)


@dataclass(frozen=True, slots=True, kw_only=True)
class QuantizedSvdf(_InIntegers):
    """A filter over time in low rank, for the frame after a pause: only its last place counts.

    state: how what is kept between frames is quantised.
    """

    units: int
    rank: int
    places: int  # in time
    state: Quantization

    def output_dims(self, inputs: Sequence[Shape]) -> Dims:
        only_input(self, inputs)
        return (self.units,)

    def trained(self, inputs: Sequence[Shape]) -> Mapping[str, Dims]:
        """Return the matrix of the features, the filters over time, and the bias."""
        filters = self.units * self.rank
        return {
            "matrix": (filters, inputs[0].elements),
            "filters": (filters, self.places),
            "bias": (self.units,),
        }

    def multiply_accumulates(self, inputs: Sequence[Shape], output: Shape) -> int:
        return self.units * self.rank * (inputs[0].elements + self.places)

    def computed_in_integers(self, part: Part, types: Types) -> Array:
        """Return the sums over the filters of a unit."""
        given, result = quantized_types(self, types)
        matrix, filters = types.weights["matrix"], types.weights["filters"]
        vector = centred(whole_tensor(part.inputs[0]).reshape(-1), given)
        sums = part.weights["matrix"].astype(np.int64) @ vector
        ratio = given.scale * matrix.scale / self.state.scale
        limits = np.iinfo(self.state.element.value)
        features = np.clip(rescaled(sums, *multiplier(ratio)), limits.min, limits.max)
        # the kept place is stored with a zero point, and may wrap around
        kept = (features + self.state.zero_point).astype(limits.dtype).astype(np.int64)
        last = part.weights["filters"][:, -1].astype(np.int64)
        weighed = last * (kept - self.state.zero_point)
        sums = part.weights["bias"] + weighed.reshape(self.units, self.rank).sum(axis=1)
        ratio = self.state.scale * filters.scale / result.scale
        return stored(rescaled(sums, *multiplier(ratio)), result)

    def in_words(self) -> str:
        return "svdf"

"""LSTM, GRU and plain recurrences by the formulas of ONNX; LSTM and SVDF of quantised integers.

Those of integers are bit by bit as TensorFlow Lite Micro computes them, each frame from a state of
zero or from that in which the frame before ended. Described from
tensorflow/tflite-micro, tensorflow/lite/micro/kernels: lstm_eval.h, lstm_eval_common.cc and
svdf_common.cc.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log2, prod

import numpy as np

from cnn2csdf.arrays import Array
from cnn2csdf.dtypes import Element, Quantization
from cnn2csdf.fixed_point.functions import sigmoid_int16, sigmoid_table, tanh_int16
from cnn2csdf.integers import Integers, centred, multiplier, rescaled, stored
from cnn2csdf.operators.activations import sigmoid
from cnn2csdf.operators.kernel_loops import filter_loops
from cnn2csdf.operators.operator import (
    KernelLoops,
    KernelUse,
    Operator,
    RowsNeeded,
    only_input,
    quantized_types,
    same_row,
)
from cnn2csdf.part import KeptState, OutputRows, Types, same_rows, whole_tensor
from cnn2csdf.shape import Dims, Shape
from csdf.errors import ExecutionError, InvalidNetwork

__all__ = ["QuantizedLstm", "QuantizedSvdf", "Recurrence"]

GATES = {"lstm": 4, "gru": 3, "rnn": 1}
DIRECTIONS = {"forward": (1,), "reverse": (-1,), "bidirectional": (1, -1)}
# The hidden state, which is the output of a time step, and the cells of an LSTM.
State = tuple[Array, Array]


@dataclass(frozen=True, slots=True, kw_only=True)
class Recurrence(Operator):
    """A recurrent layer: each time step of a sequence is computed with the state after the step before.

    Reads (steps, sequences, elements). gives: the output; "all" are the hidden states of all steps
    (steps, directions, sequences, units), "last" is the last hidden state, "cell" are the last cells
    (directions, sequences, units). resets_after: whether a GRU applies its reset gate after the product
    with the recurrent matrix. cell_limit: largest magnitude of a cell. has_state, has_cell: whether the
    initial hidden state, and the initial cells, are trained. given: which of "state" and "cell" are
    inputs after the sequence instead.
    """

    depends_on_all = True
    half_roles = ("matrix", "recurrent matrix")
    kind: str
    units: int
    direction: str = "forward"
    resets_after: bool = False
    gives: str = "all"
    has_bias: bool = True
    has_state: bool = False
    has_cell: bool = False
    cell_limit: float | None = None
    given: tuple[str, ...] = ()

    def scratch_elements(self, inputs: Sequence[Shape]) -> int:
        return self.units * (2 + GATES[self.kind])

    def kernel_loops(self, use: KernelUse) -> KernelLoops:
        frames, sequences, _ = use.inputs[0].dims
        steps = frames * sequences * self.directions
        products = self.multiply_accumulates(use.inputs, use.output)
        counts = {"frames": steps, "units": steps * self.units, "products": products}
        return f"{self.kernel}.{self.kind}", counts

    def __post_init__(self) -> None:
        if self.kind not in GATES or self.direction not in DIRECTIONS or self.units < 1:
            raise InvalidNetwork(
                f"there is no recurrence {self.kind!r} {self.direction!r} of {self.units} units"
            )

    @property
    def directions(self) -> int:
        """The number of passes over the sequence."""
        return len(DIRECTIONS[self.direction])

    def output_dims(self, inputs: Sequence[Shape]) -> Dims:
        shape = only_input(self, inputs[:1])
        if not shape.is_map:
            raise InvalidNetwork(f"a recurrence needs frames x sequences x elements, found {shape}")
        state = (self.directions, shape.dims[1], self.units)
        if [state_shape.dims for state_shape in inputs[1:]] != [state] * len(self.given):
            raise InvalidNetwork(f"a recurrence with states of {inputs[1:]}, expected {state}")
        return (shape.dims[0], *state) if self.gives == "all" else state

    def trained(self, inputs: Sequence[Shape]) -> Mapping[str, Dims]:
        """Return the matrices of the input and of the state, the bias of both, and initial states."""
        directions, rows = self.directions, GATES[self.kind] * self.units
        dims_of_weights: dict[str, Dims] = {
            "matrix": (directions, rows, inputs[0].dims[-1]),
            "recurrent matrix": (directions, rows, self.units),
        }
        if self.has_bias:
            dims_of_weights["bias"] = (directions, 2 * rows)
        state = (directions, inputs[0].dims[1], self.units)
        dims_of_weights |= {"state": state} if self.has_state else {}
        return dims_of_weights | ({"cell": state} if self.has_cell else {})

    def multiply_accumulates(self, inputs: Sequence[Shape], output: Shape) -> int:
        rows = self.directions * GATES[self.kind] * self.units
        return inputs[0].dims[0] * inputs[0].dims[1] * rows * (inputs[0].dims[-1] + self.units)

    def formula(self, tensors: Sequence[Array], part: OutputRows) -> Array:
        states = dict(zip(self.given, tensors[1:], strict=True))
        part = part._replace(weights={**part.weights, **states})
        passes = [self._pass(number, tensors[0], part) for number in range(self.directions)]
        if self.gives == "all":
            return np.stack([outputs for outputs, _ in passes], axis=1)
        return np.stack([cell if self.gives == "cell" else hidden for _, (hidden, cell) in passes])

    def _pass(self, direction: int, steps: Array, part: OutputRows) -> tuple[Array, State]:
        """The output of each time step, in their order, and the last state of one direction."""
        weights = {role: array[direction] for role, array in part.weights.items()}
        zeros = np.zeros((steps.shape[1], self.units), np.float32)
        state = (
            weights["state"] if self.has_state or "state" in self.given else zeros,
            weights["cell"] if self.has_cell or "cell" in self.given else zeros,
        )
        rows = GATES[self.kind] * self.units
        bias = weights["bias"] if self.has_bias else np.zeros(2 * rows, np.float32)
        input_sums = steps @ weights["matrix"].T + bias[:rows]
        outputs = np.empty((*steps.shape[:2], self.units), np.float32)
        for step in range(len(steps))[:: DIRECTIONS[self.direction][direction]]:
            state = self._next(input_sums[step], state, weights["recurrent matrix"], bias[rows:])
            outputs[step] = state[0]
        return outputs, state

    def _next(self, input_sums: Array, state: State, matrix: Array, bias: Array) -> State:
        """The state after a time step. input_sums: products of its input with the input matrix."""
        hidden, cell = state
        if self.kind == "gru":
            return self._next_gru(input_sums, hidden, matrix, bias), cell
        sums = input_sums + hidden @ matrix.T + bias
        if self.kind == "rnn":
            return np.tanh(sums), cell
        input_gate, output_gate, forget_gate, candidate = np.split(sums, 4, axis=1)
        cell = sigmoid(forget_gate) * cell + sigmoid(input_gate) * np.tanh(candidate)
        if self.cell_limit is not None:
            cell = np.clip(cell, -self.cell_limit, self.cell_limit)
        return sigmoid(output_gate) * np.tanh(cell), cell

    def _next_gru(self, input_sums: Array, hidden: Array, matrix: Array, bias: Array) -> Array:
        two_gates = 2 * self.units  # rows of the update gate and of the reset gate
        gates = input_sums[:, :two_gates] + hidden @ matrix[:two_gates].T + bias[:two_gates]
        update, reset = np.split(sigmoid(gates), 2, axis=1)
        sums, matrix, bias = input_sums[:, two_gates:], matrix[two_gates:], bias[two_gates:]
        if self.resets_after:
            new = np.tanh(sums + reset * (hidden @ matrix.T + bias))
        else:
            new = np.tanh(sums + (reset * hidden) @ matrix.T + bias)
        result: Array = (1 - update) * new + update * hidden
        return result

    def in_words(self) -> str:
        return self.kind if self.direction == "forward" else f"{self.kind} {self.direction}"


CELL_GATES = ("input", "forget", "cell", "output")
SUM_POWER, GATE_POWER = -12, -15  # of two: scales of the sums that a gate reads, and of its result
SHORT = 2**15
CELL_BYTES = 2  # of a cell of 16 bits


def _short(values: Integers) -> Integers:
    return np.clip(values, -SHORT, SHORT - 1)


def _product(left: Integers, right: Integers, ratio: float) -> Integers:
    return rescaled(left * right, *multiplier(ratio))


class _InIntegers(Operator):
    """An operator that has no form in real numbers."""

    __slots__ = ()

    def computed(self, part: OutputRows) -> Array:
        raise ExecutionError(f"{self.in_words()} is computed with quantised integers only")


@dataclass(frozen=True, slots=True, kw_only=True)
class QuantizedLstm(_InIntegers):
    """An LSTM over the rows of (steps, elements) or of a map of one column; its cells have 16 bits.

    cell_scale: a power of two. clip: largest magnitude of a cell in its steps; None for no limit.
    keeps: if the hidden state and the cells are retained from inference to inference, the initial
    number of the hidden state; None if each inference begins with a state of zero.
    """

    depends_on_all = True
    words = "lstm"
    units: int
    cell_scale: float
    clip: int | None = None
    keeps: int | None = None

    @property
    def is_stateful_sequence(self) -> bool:
        return self.keeps is not None

    def kernel_loops(self, use: KernelUse) -> KernelLoops:
        frames, elements = self.sequence(use.inputs[0])
        recurrent = frames - (self.keeps is None)  # the first frame has no state to multiply
        counts = Counter(filter_loops(4 * frames, 1, elements, self.units))
        counts.update(filter_loops(4 * recurrent, 1, self.units, self.units))
        return "Lstm", dict(counts) | {"frames": frames, "units": frames * self.units}

    def derived_arrays(self, types: Types, output: Shape) -> Mapping[str, Array]:
        return {"curve": sigmoid_table().astype(np.int32)}

    def scratch_elements(self, inputs: Sequence[Shape]) -> int:
        """The cells, in elements of one byte, where they are not retained."""
        return self.units * CELL_BYTES if self.keeps is None else 0

    def scratch_bytes(self, inputs: Sequence[Shape], element_bytes: int) -> int:
        return element_bytes * self.scratch_elements(inputs)

    def output_dims(self, inputs: Sequence[Shape]) -> Dims:
        shape = only_input(self, inputs)
        if len(shape.dims) != 2 and not (shape.is_map and shape.width == 1):
            raise InvalidNetwork(f"an LSTM of integers needs frames x elements, found {shape}")
        return (self.units, shape.rows, 1) if shape.is_map else (shape.dims[0], self.units)

    def rows_needed(self, index: int, inputs: Sequence[Shape], output: Shape) -> RowsNeeded | None:
        """Return the row itself of a map, which are made in their order, each once."""
        return same_row if output.is_map else None

    @staticmethod
    def sequence(shape: Shape) -> tuple[int, int]:
        """Return the frames and elements of an input."""
        return (shape.rows, shape.channels) if shape.is_map else (shape.dims[0], shape.dims[1])

    def trained(self, inputs: Sequence[Shape]) -> Mapping[str, Dims]:
        """Return for each gate the matrices of the input and of the state, and the bias."""
        dims_of_weights: dict[str, Dims] = {}
        for gate in CELL_GATES:
            dims_of_weights[f"{gate} matrix"] = (self.units, self.sequence(inputs[0])[1])
            dims_of_weights[f"{gate} recurrent matrix"] = (self.units, self.units)
            dims_of_weights[f"{gate} bias"] = (self.units,)
        return dims_of_weights

    def kept(self, inputs: Sequence[Shape]) -> Mapping[str, KeptState]:
        """Return the hidden state and the cells."""
        if self.keeps is None:
            return {}
        return {
            "hidden": KeptState((self.units,), Element.INT8, self.keeps),
            "cell": KeptState((self.units,), Element.INT16, 0),
        }

    def multiply_accumulates(self, inputs: Sequence[Shape], output: Shape) -> int:
        frames, elements = self.sequence(inputs[0])
        return frames * len(CELL_GATES) * self.units * (elements + self.units)

    def computed_in_integers(self, part: OutputRows, types: Types) -> Array:
        """Return the hidden state after each time step."""
        input_types, result = quantized_types(self, types)
        steps = centred(same_rows(part), input_types)
        steps = steps[:, :, 0].T if part.shape.is_map else steps
        hidden = np.zeros(self.units, np.int64)
        cell = np.zeros(self.units, np.int64)
        if part.kept is not None:
            hidden, cell = centred(part.kept["hidden"], result), part.kept["cell"].astype(np.int64)
        outputs = []
        for step in steps:
            gates = {gate: self._gate(gate, step, hidden, part, types) for gate in CELL_GATES}
            cell = self._next_cell(cell, gates)
            ratio = 2.0 ** (2 * GATE_POWER) / result.scale
            bounded = tanh_int16(cell, round(log2(self.cell_scale)))
            out = stored(_product(bounded, gates["output"], ratio), result)
            hidden = centred(out, result)
            outputs.append(out)
        if part.kept is not None:
            part.kept["hidden"], part.kept["cell"] = out, cell.astype(np.int16)
        stacked = np.stack(outputs)
        return stacked.T[:, :, None] if part.shape.is_map else stacked

    def _gate(
        self, gate: str, step: Integers, hidden: Integers, part: OutputRows, types: Types
    ) -> Integers:
        input_types, result = quantized_types(self, types)
        bias = part.weights[f"{gate} bias"].astype(np.int64)
        matrix, recurrent = (f"{gate} matrix", f"{gate} recurrent matrix")
        input_sums = _sums(step, part.weights[matrix], bias, input_types, types.weights[matrix])
        state_sums = _sums(hidden, part.weights[recurrent], 0, result, types.weights[recurrent])
        sums = _short(input_sums + state_sums)
        if gate == "cell":
            return tanh_int16(sums, SUM_POWER)
        return sigmoid_int16(sums, 2.0**SUM_POWER)

    def _next_cell(self, cell: Integers, gates: Mapping[str, Integers]) -> Integers:
        kept = _short(_product(gates["forget"], cell, 2.0**GATE_POWER))
        ratio = 2.0 ** (2 * GATE_POWER) / self.cell_scale
        new = _short(_product(gates["input"], gates["cell"], ratio))
        clipped = _short(kept + new)
        return clipped if self.clip is None else np.clip(clipped, -self.clip, self.clip)


def _sums(
    vector: Integers, matrix: Array, bias: Array | int, source: Quantization, trained: Quantization
) -> Integers:
    """A product of a matrix and a vector of integers, plus a bias, in steps of 2 ** SUM_POWER."""
    sums = matrix.astype(np.int64) @ vector + bias
    return _short(rescaled(sums, *sum_multiplier(source, trained)))


def sum_multiplier(source: Quantization, trained: Quantization) -> tuple[int, int]:
    """Return the factor from sums of products to steps of 2 ** SUM_POWER."""
    return multiplier(source.scale * trained.scale / 2.0**SUM_POWER)


@dataclass(frozen=True, slots=True, kw_only=True)
class QuantizedSvdf(_InIntegers):
    """SVDF: a matrix gives features, and filters over time sum the features of the last inferences.

    The product of matrix and filters is a filter over features and time of low rank. places: the
    inferences that a filter spans, the newest last. rank: filters of a unit, which are added. state:
    how the features are quantised. keeps: whether the features of earlier inferences are retained;
    otherwise they are zero, and only the newest counts.
    """

    words = "svdf"
    short_roles = ("filters",)
    units: int
    rank: int
    places: int  # in time
    state: Quantization
    keeps: bool = False

    def kernel_loops(self, use: KernelUse) -> KernelLoops:
        filters = self.units * self.rank
        kept = filters * (self.places - 1) * self.keeps
        counts = filter_loops(1, 1, use.inputs[0].elements, filters) | {"filters": filters}
        is_wide = self.state.element is Element.INT16
        counts |= {"wide places" if is_wide else "places in time": kept, "units": self.units}
        return "Svdf", counts | {"filters kept": filters * self.keeps}

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

    def elements_in_flash(self, role: str, dims: Dims, output: Shape, *, is_fused: bool) -> int:
        """Return the elements; of filters without a state only those of the newest position."""
        is_newest = role == "filters" and not self.keeps
        return dims[0] if is_newest else prod(dims)

    def multiply_accumulates(self, inputs: Sequence[Shape], output: Shape) -> int:
        return self.units * self.rank * (inputs[0].elements + self.places)

    def kept(self, inputs: Sequence[Shape]) -> Mapping[str, KeptState]:
        """Return the features of earlier inferences, from the oldest on."""
        if not self.keeps or self.places == 1:
            return {}
        dims = self.units * self.rank, self.places - 1
        return {"places": KeptState(dims, self.state.element, self.state.zero_point)}

    def computed_in_integers(self, part: OutputRows, types: Types) -> Array:
        """Return the sums over the filters of a unit."""
        input_types, result = quantized_types(self, types)
        matrix, filters = types.weights["matrix"], types.weights["filters"]
        vector = centred(whole_tensor(part.inputs[0]).reshape(-1), input_types)
        sums = part.weights["matrix"].astype(np.int64) @ vector
        limits = np.iinfo(self.state.element.value)
        ratio = multiplier(svdf_ratio(input_types, matrix, self.state))
        features = np.clip(rescaled(sums, *ratio), limits.min, limits.max)
        # A feature is stored with a zero point, and may wrap around.
        newest = (features + self.state.zero_point).astype(limits.dtype)
        places = np.full((len(newest), self.places), self.state.zero_point, limits.dtype)
        if part.kept is not None and self.places > 1:
            places[:, :-1] = part.kept["places"]
            part.kept["places"] = np.column_stack([places[:, 1:-1], newest])
        places[:, -1] = newest
        weighed = (centred(places, self.state) * part.weights["filters"]).sum(axis=1)
        sums = part.weights["bias"] + weighed.reshape(self.units, self.rank).sum(axis=1)
        ratio = multiplier(svdf_ratio(self.state, filters, result))
        return stored(rescaled(sums, *ratio), result)


def svdf_ratio(source: Quantization, trained: Quantization, result: Quantization) -> float:
    """Return the factor from sums to steps of a result."""
    return source.scale * trained.scale / result.scale

"""Recurrent layers: LSTM, GRU and plain ones, each computed as a whole.

Formulas, order of gates and outputs are those of ONNX.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from cnn2csdf.arrays import Array
from cnn2csdf.operators.operator import Operator, only_input
from cnn2csdf.part import Part, cut, whole_tensor
from cnn2csdf.shape import Dims, Shape
from csdf.errors import InvalidNetwork

GATES = {"lstm": 4, "gru": 3, "rnn": 1}
DIRECTIONS = {"forward": (1,), "reverse": (-1,), "bidirectional": (1, -1)}
State = tuple[Array, Array]  # what it gives, what an LSTM keeps besides


@dataclass(frozen=True, slots=True, kw_only=True)
class Recurrence(Operator):
    """A recurrent layer: each frame of a sequence is computed with the state left by the frame before.

    Reads (frames, sequences, elements). gives: "all" (frames, directions, sequences, units), "last"
    or "cell" (directions, sequences, units). resets_after: whether a GRU's reset is
    applied behind the matrix. cell_limit: largest size of what an LSTM keeps.
    """

    kind: str
    units: int
    direction: str = "forward"
    resets_after: bool = False
    gives: str = "all"
    has_bias: bool = True
    has_state: bool = False
    has_cell: bool = False
    cell_limit: float | None = None

    def __post_init__(self) -> None:
        if self.kind not in GATES or self.direction not in DIRECTIONS or self.units < 1:
            raise InvalidNetwork(
                f"there is no recurrence {self.kind!r} {self.direction!r} of {self.units} units"
            )

    @property
    def directions(self) -> int:
        """How often the sequence is gone through."""
        return len(DIRECTIONS[self.direction])

    def output_dims(self, inputs: Sequence[Shape]) -> Dims:
        shape = only_input(self, inputs)
        if not shape.is_map:
            raise InvalidNetwork(f"a recurrence needs frames x sequences x elements, found {shape}")
        state = (self.directions, shape.dims[1], self.units)
        return (shape.dims[0], *state) if self.gives == "all" else state

    def trained(self, inputs: Sequence[Shape]) -> Mapping[str, Dims]:
        """Return the matrices of the input and of the state, the bias of both, and first states."""
        directions, rows = self.directions, GATES[self.kind] * self.units
        found: dict[str, Dims] = {
            "matrix": (directions, rows, inputs[0].dims[-1]),
            "recurrent matrix": (directions, rows, self.units),
        }
        if self.has_bias:
            found["bias"] = (directions, 2 * rows)
        state = (directions, inputs[0].dims[1], self.units)
        found |= {"state": state} if self.has_state else {}
        return found | ({"cell": state} if self.has_cell else {})

    def multiply_accumulates(self, inputs: Sequence[Shape], output: Shape) -> int:
        rows = self.directions * GATES[self.kind] * self.units
        return inputs[0].dims[0] * inputs[0].dims[1] * rows * (inputs[0].dims[-1] + self.units)

    def computed(self, part: Part) -> Array:
        frames = whole_tensor(part.inputs[0])
        gone = [self._gone_through(place, frames, part) for place in range(self.directions)]
        if self.gives == "all":
            found = np.stack([every for every, _, _ in gone], axis=1)
        else:
            found = np.stack([cell if self.gives == "cell" else last for _, last, cell in gone])
        return cut(found.reshape(part.shape.dims), part)

    def _gone_through(self, place: int, frames: Array, part: Part) -> tuple[Array, Array, Array]:
        """Return the outputs of a direction for every frame, in order, and its last state."""
        sense = DIRECTIONS[self.direction][place]
        weights = {role: array[place] for role, array in part.weights.items()}
        zeros = np.zeros((frames.shape[1], self.units), np.float32)
        state = (
            weights["state"] if self.has_state else zeros,
            weights["cell"] if self.has_cell else zeros,
        )
        rows = GATES[self.kind] * self.units
        bias = weights["bias"] if self.has_bias else np.zeros(2 * rows, np.float32)
        entering = frames @ weights["matrix"].T + bias[:rows]
        found = np.empty((*frames.shape[:2], self.units), np.float32)
        for frame in range(len(frames))[::sense]:
            state = self._next(entering[frame], state, weights["recurrent matrix"], bias[rows:])
            found[frame] = state[0]
        return found, state[0], state[1]

    def _next(self, entering: Array, state: State, matrix: Array, bias: Array) -> State:
        hidden, cell = state
        if self.kind == "gru":
            return self._next_gru(entering, hidden, matrix, bias), cell
        sums = entering + hidden @ matrix.T + bias
        if self.kind == "rnn":
            return np.tanh(sums), cell
        enters, leaves, forgets, new = np.split(sums, 4, axis=1)
        cell = _sigmoid(forgets) * cell + _sigmoid(enters) * np.tanh(new)
        if self.cell_limit is not None:
            cell = np.clip(cell, -self.cell_limit, self.cell_limit)
        return _sigmoid(leaves) * np.tanh(cell), cell

    def _next_gru(self, entering: Array, hidden: Array, matrix: Array, bias: Array) -> Array:
        units = self.units
        gates = entering[:, : 2 * units] + hidden @ matrix[: 2 * units].T + bias[: 2 * units]
        update, reset = np.split(_sigmoid(gates), 2, axis=1)
        own, shift = matrix[2 * units :], bias[2 * units :]
        if self.resets_after:
            new = np.tanh(entering[:, 2 * units :] + reset * (hidden @ own.T + shift))
        else:
            new = np.tanh(entering[:, 2 * units :] + (reset * hidden) @ own.T + shift)
        result: Array = (1 - update) * new + update * hidden
        return result

    def in_words(self) -> str:
        return self.kind if self.direction == "forward" else f"{self.kind} {self.direction}"


def _sigmoid(values: Array) -> Array:
    result: Array = np.tanh(values * np.float32(0.5)) * np.float32(0.5) + np.float32(0.5)
    return result

"""Reference execution: each layer with its epilogue is computed at once, from whole feature maps.

A layer has several steps: its operator, then the operators of its epilogue. In a quantised layer each
step computes integers; but a layer by table (`goes_by_table`) computes in real numbers from its first
step to its last, which quantises the result.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from cnn2csdf import operators as op
from cnn2csdf.network import Layer, Network, Shape
from cnn2csdf.part import HeldRows, OutputRows, RowReader, Types
from cnn2csdf.quantized_layers import goes_by_table
from cnn2csdf.weights import Array, Model
from csdf.arguments import public
from csdf.errors import ExecutionError

States = dict[str, dict[str, Array]]  # of a layer, by role: arrays retained for the next frame


@public
def first_states(model: Model) -> States:
    """Return the state of each layer with a state, before the first frame."""
    network, first_states = model.network, States()
    initial_states = network.initial_states
    for layer in network.layers:
        if layer.name in initial_states:
            begin = initial_states[layer.name].begin
            initial = (model.weights or {}).get(layer.name, {}).get("initial")
            value = np.full(layer.shape.dims, begin) if begin is not None else initial
            first_states[layer.name] = {"value": np.asarray(value, layer.array_type)}
        elif kept := layer.operator.kept(network.input_shapes(layer)):
            first_states[layer.name] = {
                role: np.full(variable.dims, variable.begin, variable.element.value)
                for role, variable in kept.items()
            }
    return first_states


@public
def run_layer_by_layer(
    model: Model, frame: Mapping[str, Array], states: States | None = None
) -> dict[str, Array]:
    """Return the output of each output layer, by name.

    frame: an array without batch for each input layer, by name. states: the state after the previous
    frame, changed to the state for the next one; by default the initial state. Raises ExecutionError
    where an input is missing or has another shape.
    """
    maps = run_layers(model, frame, states)
    return {layer.name: maps[layer.name].copy() for layer in model.network.outputs}


def run_layers(
    model: Model, frame: Mapping[str, Array], states: States | None = None
) -> dict[str, Array]:
    """Return the output of every layer, by name; all at once in memory, and some may be views."""
    values, network = checked_frame(model.network, frame), model.network
    states = first_states(model) if states is None else states
    for previous, _ in network.variables:
        values[previous.name] = states[previous.name]["value"]
    maps: dict[str, Array] = {}
    for layer in network.layers:
        readers = layer_readers(network, layer, maps, values)
        kept = states.get(layer.name)
        maps[layer.name] = computation(model, layer).rows(readers, 0, layer.shape.rows, kept)
    for previous, following in network.variables:
        value, shape = maps[following.name], previous.shape
        if shape.is_map:
            value = value[:, value.shape[1] - shape.rows :]
        states[previous.name]["value"] = value.copy()
    return maps


def layer_readers(
    network: Network, layer: Layer, maps: Mapping[str, Array], frame: Mapping[str, Array]
) -> list[RowReader]:
    """Return readers of what the layer reads: whole maps, or the frame for an input layer."""
    if layer.is_input:
        return [HeldRows(shape=layer.shape, array=frame[layer.name])]
    return [
        HeldRows(shape=network.layer(source).shape, array=maps[source]) for source in layer.inputs
    ]


def checked_frame(network: Network, frame: Mapping[str, Array]) -> dict[str, Array]:
    """Return the frame in the array types of the inputs.

    Raises ExecutionError where an input does not fit.
    """
    values = {}
    for layer in network.inputs:
        if layer.name not in frame:
            listed = ", ".join(repr(name) for name in frame) or "nothing"
            raise ExecutionError(f"the frame has no input {layer.name!r}, only {listed}")
        array = np.asarray(frame[layer.name], layer.array_type)
        array = layer.operator.tensor_of_frame(array)
        if array.shape != layer.shape.dims:
            raise ExecutionError(
                f"input {layer.name!r} of shape {array.shape}, expected {layer.shape.dims}"
            )
        values[layer.name] = array
    return values


class OperatorStep(NamedTuple):
    """An operator with its parameters by role."""

    operator: op.Operator
    weights: Mapping[str, Array]
    types: Types | None = None

    def rows(
        self,
        inputs: Sequence[RowReader],
        shape: Shape,
        begin: int,
        end: int,
        kept: dict[str, Array] | None = None,
    ) -> Array:
        """Return rows [begin, end) of its output of this shape.

        kept: the state after the previous frame, changed in place to the state for the next one.
        """
        part = OutputRows(inputs, self.weights, shape, begin, end, self.types, kept)
        with np.errstate(all="ignore"):  # roots of negative numbers are NaN, without a warning
            if self.types is None:
                return self.operator.computed(part)
            return self.operator.computed_in_integers(part, self.types)


@dataclass(frozen=True, slots=True, kw_only=True)
class Computation:
    """A layer ready to compute any of its rows.

    A layer that executes row by row computes the requested rows only. Any other layer computes its
    whole result, of which the requested rows are cut.
    """

    shape: Shape
    first_step: OperatorStep
    epilogue: tuple[OperatorStep, ...]

    def rows(
        self,
        inputs: Sequence[RowReader],
        begin: int,
        end: int,
        kept: dict[str, Array] | None = None,
    ) -> Array:
        """Return output rows [begin, end); of a tensor that is no feature map, all elements.

        May be a view of an input. kept: the state of a layer with a state, changed in place. Raises
        ExecutionError where an input row does not exist.
        """
        rows_computed = self.first_step.rows(inputs, self.shape, begin, end, kept)
        for step in self.epilogue:
            held = HeldRows(shape=self.shape, array=rows_computed, begin=begin)
            rows_computed = step.rows((held,), self.shape, begin, end)
        return rows_computed


def computation(model: Model, layer: Layer) -> Computation:
    """Return the computation of a layer. Raises ExecutionError where there are no weights."""
    if model.weights is None:
        raise ExecutionError(
            f"network {model.network.name!r} has no weights; read them, or take random_weights"
        )
    weights, result = model.weights.get(layer.name, {}), layer.quantization
    weight_types, by_table = layer.types(()).weights, goes_by_table(layer)
    operators = (layer.operator, *layer.epilogue)
    steps = []
    for number, operator in enumerate(operators):
        if number == 0:
            step_weights, types_read = weights, tuple(model.network.input_types(layer))
        else:
            prefix, types_read = f"{number - 1}.", (result,)
            step_weights = {
                role.removeprefix(prefix): array
                for role, array in weights.items()
                if role.startswith(prefix)
            }
        types = None
        if result is not None or any(types_read):
            if by_table and number:
                types_read = (None,)
            is_integer = not by_table or number + 1 == len(operators)
            # An input layer has no inputs: it reads a frame of its own type.
            types = Types(types_read or (result,), result if is_integer else None, weight_types)
        steps.append(OperatorStep(operator, step_weights, types))
    return Computation(shape=layer.shape, first_step=steps[0], epilogue=tuple(steps[1:]))

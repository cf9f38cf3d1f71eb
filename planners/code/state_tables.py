"""C tables of the state between frames: `joints`, `variables` and `beginnings`.

variables    copies after the last reader of a state variable: its buffer, the tensor with new rows
joints       windows of rings: the last rows of a variable, and the new rows of a frame, in order
beginnings   contents of variables, and of the states of layers, before the first frame
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from cnn2csdf.execution.layer_by_layer import first_states
from cnn2csdf.operators.moves import to_memory_order
from cnn2csdf.weights import Array, Model
from planners.code.c_text import identifier, table_row
from planners.code.calls.by_data_type import LayerCalls
from planners.code.tensor_table import TensorTable
from planners.plan.plan import Kind
from planners.plan.state import state_updates

MOST_PRODUCT = 255 * 128  # magnitude of (int8 minus zero point) * int8 weight
STATE_KINDS = (Kind.KEPT, Kind.STATE)


def joint_rows(tensors: TensorTable) -> list[str]:
    """Return initialisers of windows of rings: window, new rows, number of the variable."""
    variables = [previous.name for previous, _ in tensors.network.variables]
    return [
        table_row(
            window=f"&tensors[{tensors.number(window)}]",
            made=f"&tensors[{tensors.number(ring.new)}]",
            variable_number=variables.index(ring.previous),
        )
        for window, ring in tensors.rings.items()
    ]


def variable_rows(tensors: TensorTable) -> list[str]:
    """Return initialisers of variables: target, source, and the group after which C copies."""
    return [
        table_row(
            variable,
            kept=f"&tensors[{tensors.number(variable)}]",
            made=f"&tensors[{tensors.number(source)}]",
            group=group,
        )
        for variable, (group, source) in _updates(tensors).items()
    ]


def _updates(tensors: TensorTable) -> dict[str, tuple[int, str]]:
    """The group after which each state variable is updated, and the tensor with its new rows."""
    updates = {
        variable: (group, source)
        for group, variable, source in state_updates(tensors.network, tensors.plan)
    }
    new_rows = {window: ring.new for window, ring in tensors.rings.items()}
    ordered = {}
    for previous, _ in tensors.network.variables:
        group, source = updates[previous.name]
        ordered[previous.name] = group, new_rows.get(source, source)
    return ordered


def fresh_elements(tensors: TensorTable) -> dict[str, int]:
    """Return the elements of each state variable that a frame writes over its oldest rows."""
    elements = {}
    for variable, (_, source) in _updates(tensors).items():
        shape = tensors.network.layer(variable).shape
        rows = min(tensors.network.layer(source).shape.rows, shape.rows)
        elements[variable] = rows * shape.row_elements
    return elements


def beginning_rows(model: Model, tensors: TensorTable) -> Iterator[str]:
    """Yield initialisers of initial state: offset, length of a pattern, its repetitions, the pattern.

    Adds the patterns to the parameters of the library.
    """
    tables = tensors.calls.tables
    for name, roles in first_states(model).items():
        # A plan for elements of another width is refused for that, not for an odd offset.
        tensors.width_of(name)
        offset = tensors.elements(tensors.buffer(name, STATE_KINDS, 0).offset)
        for role, array in roles.items():
            pattern, times = _pattern(array, tensors.calls)
            symbol = tables.weights(f"{tables.name_of(name)}_{identifier(role)}", pattern)
            fields = {"offset": offset, "length": len(pattern), "times": times, "numbers": symbol}
            yield table_row(f"{name}: {role}", **fields)
            offset += len(pattern) * times


def _pattern(array: Array, calls: LayerCalls) -> tuple[Array, int]:
    """The arena elements of an initial state, as a pattern and its repetitions.

    Equal elements are repetitions of a pattern, so zeros take no flash. In an arena of int8, two int32
    of value 1 are (1, 0, 0, 0) twice, and two int32 of value 0 are (0) eight times.
    """
    pattern, times = np.ascontiguousarray(to_memory_order(array)), 1
    if pattern.size and (pattern == pattern[0]).all():
        pattern, times = pattern[:1], pattern.size
    if calls.is_integer:
        pattern = pattern.view({1: np.int8, 2: np.int16}[calls.unit])
        if times > 1 and len(pattern) > 1 and (pattern == pattern[0]).all():
            pattern, times = pattern[:1], times * len(pattern)
    return pattern, times


class PersistentAccumulators(NamedTuple):
    """A set of 32-bit accumulators: memory, offset in its elements, number, largest magnitude."""

    memory: int
    offset: int
    number: int
    largest: int


def persistent_accumulators(tensors: TensorTable) -> Iterator[PersistentAccumulators]:
    """Yield the accumulators that persist between frames.

    A layer that sums over F frames has F - 1 sets of accumulators. The set for the next result has
    received F - 1 inputs, the set for the last result one input.
    """
    network = tensors.network
    for layer in network.layers:
        frames, units = layer.operator.frames_per_output, layer.shape.elements
        if tensors.calls.is_integer and frames > 1:
            offset = tensors.elements(tensors.buffer(layer.name, STATE_KINDS, 0).offset)
            (shape,) = network.input_shapes(layer)
            for inputs in range(frames - 1, 0, -1):
                largest = inputs * shape.elements * MOST_PRODUCT
                memory, offset_in_memory = tensors.memory_and_offset(offset)
                yield PersistentAccumulators(memory, offset_in_memory, units, largest)
                offset += tensors.elements(4 * units)

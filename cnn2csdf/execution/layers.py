"""The rows of a layer: its own operator, then the ones fused behind it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from cnn2csdf import operators as op
from cnn2csdf.elements import Quantization
from cnn2csdf.network import Layer, Shape
from cnn2csdf.part import HeldRows, Part, Reader, Types
from cnn2csdf.weights import Array, Model
from csdf.errors import ExecutionError


class Step(NamedTuple):
    """An operator with its trained numbers by role."""

    operator: op.Operator
    weights: Mapping[str, Array]
    types: Types | None = None

    def rows(self, inputs: Sequence[Reader], shape: Shape, begin: int, end: int) -> Array:
        """Return rows of its output, which has that shape."""
        part = Part(inputs, self.weights, shape, begin, end, self.types)
        if self.types is None:
            return self.operator.computed(part)
        return self.operator.computed_in_integers(part, self.types)


@dataclass(frozen=True, slots=True, kw_only=True)
class Computation:
    """A layer ready to compute any of its rows.

    What operators that need all rows compute is cut to the rows asked for, so that any rows of any
    layer are right; but only those of a layer that works by parts cost no more than their share.
    """

    shape: Shape
    own: Step
    epilogue: tuple[Step, ...]

    def rows(self, inputs: Sequence[Reader], begin: int, end: int) -> Array:
        """Return output rows [begin, end), or the whole tensor if it is no stack of maps.

        May be a view of an input. Raises ExecutionError where an input row is not there.
        """
        found = self.own.rows(inputs, self.shape, begin, end)
        for step in self.epilogue:
            held = HeldRows(shape=self.shape, array=found, begin=begin)
            found = step.rows((held,), self.shape, begin, end)
        return found


def computation(model: Model, layer: Layer) -> Computation:
    """Return the computation of a layer. Raises ExecutionError where there are no weights."""
    if model.weights is None:
        raise ExecutionError(
            f"network {model.network.name!r} has no weights; read them, or take random_weights"
        )
    weights = model.weights.get(layer.name, {})
    inputs = [model.network.layer(source).quantization for source in layer.inputs]
    return Computation(
        shape=layer.shape,
        own=Step(layer.operator, weights, _types(layer, inputs)),
        epilogue=tuple(
            Step(operator, _fused_weights(weights, place), _types(layer, [layer.quantization]))
            for place, operator in enumerate(layer.epilogue)
        ),
    )


def _types(layer: Layer, inputs: Sequence[Quantization | None]) -> Types | None:
    if layer.quantization is None and not any(inputs):
        return None
    weights = {one.role: one.quantization for one in layer.stored if one.quantization is not None}
    # what comes in at an input layer is what goes out
    return Types(tuple(inputs) or (layer.quantization,), layer.quantization, weights)


def _fused_weights(weights: Mapping[str, Array], place: int) -> Mapping[str, Array]:
    prefix = f"{place}."
    return {
        role.removeprefix(prefix): array
        for role, array in weights.items()
        if role.startswith(prefix)
    }

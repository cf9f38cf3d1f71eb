"""The rows of a layer: its own operator, then the ones fused behind it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from cnn2csdf import operators as op
from cnn2csdf.network import Layer, Shape
from cnn2csdf.part import HeldRows, Part, Reader
from cnn2csdf.weights import Array, Model
from csdf.errors import ExecutionError


class Step(NamedTuple):
    """One operator with its trained numbers by role."""

    operator: op.Operator
    weights: Mapping[str, Array]


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
        part = Part(inputs, self.own.weights, self.shape, begin, end)
        found = self.own.operator.computed(part)
        for step in self.epilogue:
            held = HeldRows(shape=self.shape, array=found, begin=begin)
            part = Part((held,), step.weights, self.shape, begin, end)
            found = step.operator.computed(part)
        return found


def computation(model: Model, layer: Layer) -> Computation:
    """Return the computation of a layer. Raises ExecutionError where there are no weights."""
    if model.weights is None:
        raise ExecutionError(
            f"network {model.network.name!r} has no weights; read them, or take random_weights"
        )
    weights = model.weights.get(layer.name, {})
    return Computation(
        shape=layer.shape,
        own=Step(layer.operator, weights),
        epilogue=tuple(
            Step(operator, _fused_weights(weights, place))
            for place, operator in enumerate(layer.epilogue)
        ),
    )


def _fused_weights(weights: Mapping[str, Array], place: int) -> Mapping[str, Array]:
    prefix = f"{place}."
    return {
        role.removeprefix(prefix): array
        for role, array in weights.items()
        if role.startswith(prefix)
    }

"""The rows of a layer: its own operator, then the ones fused behind it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from cnn2csdf import operators as op
from cnn2csdf.execution import (
    activations,
    arithmetic,
    convolution,
    normalization,
    pooling,
    rearrangement,
    resampling,
)
from cnn2csdf.execution.part import HeldRows, Part, Reader
from cnn2csdf.network import Layer, Shape
from cnn2csdf.weights import Array, Model
from csdf.errors import ExecutionError

Compute = Callable[[Any, Part], Array]

_COMPUTE: dict[type, Compute] = {
    op.Input: rearrangement.identity,  # of the frame
    op.Output: rearrangement.identity,
    op.Convolution: convolution.convolution,
    op.TransposedConvolution: convolution.transposed_convolution,
    op.Pooling: pooling.pooling,
    op.GlobalPooling: pooling.global_pooling,
    op.FullyConnected: arithmetic.fully_connected,
    op.MatrixProduct: arithmetic.matrix_product,
    op.BatchNormalization: normalization.batch_normalization,
    op.InstanceNormalization: normalization.instance_normalization,
    op.LayerNormalization: normalization.layer_normalization,
    op.LocalResponseNormalization: normalization.local_response_normalization,
    op.Activation: activations.activation,
    op.Elementwise: arithmetic.elementwise,
    op.Concatenation: rearrangement.concatenation,
    op.Slice: rearrangement.slice_of,
    op.ChannelShuffle: rearrangement.channel_shuffle,
    op.Resize: resampling.resize,
    op.Pad: resampling.pad,
    op.SpaceToDepth: rearrangement.space_to_depth,
    op.DepthToSpace: rearrangement.depth_to_space,
    op.Reshape: rearrangement.reshape,
    op.Transpose: rearrangement.transpose,
    op.Identity: rearrangement.identity,
    op.Softmax: normalization.softmax,
    op.Reduction: arithmetic.reduction,
}


class Step(NamedTuple):
    """One operator with its trained numbers by role."""

    compute: Compute
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
        found = self.own.compute(self.own.operator, part)
        for step in self.epilogue:
            held = HeldRows(shape=self.shape, array=found, begin=begin)
            found = step.compute(step.operator, Part((held,), step.weights, self.shape, begin, end))
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
        own=Step(_COMPUTE[type(layer.operator)], layer.operator, weights),
        epilogue=tuple(
            Step(_COMPUTE[type(operator)], operator, _fused_weights(weights, place))
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

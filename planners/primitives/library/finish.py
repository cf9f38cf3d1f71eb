"""The end of a layer, in place on its output: the bias and the fused operators."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cnn2csdf import operators as op
from cnn2csdf.execution.layers import Step, computation
from cnn2csdf.network import Layer, Shape
from cnn2csdf.part import HeldRows, Part
from cnn2csdf.weights import Array, Model
from planners.kernels import convolution_layers as kernels
from planners.primitives.library.normalization import respond_by_rows, row_elements
from planners.primitives.library.primitive import by_channels, compiled, float_bytes
from planners.primitives.profile import CHW


@dataclass(frozen=True, slots=True, kw_only=True)
class Finish:
    """A bias, an activation that clips or bends, and whatever else is fused behind.

    steps: the rest, in order. A normalisation of responses goes row by row through the workspace;
    all else the executor of cnn2csdf computes, with arrays of its own.
    """

    shape: Shape
    bias: Array | None
    slope: np.float32
    low: np.float32
    high: np.float32
    steps: tuple[Step, ...]
    parameter_bytes: int

    @property
    def allocates(self) -> bool:
        """Whether it makes temporary arrays."""
        return None in map(self._response, self.steps)

    @property
    def workspace_bytes(self) -> int:
        """Bytes of the workspace that it writes."""
        is_used = any(map(self._response, self.steps))
        return float_bytes(row_elements(self.shape)) if is_used else 0

    def apply(self, output: Array, layout: str, workspace: Array) -> None:
        """Change the output of the layer, which lies in this layout."""
        if self.bias is not None:
            dims = output.shape if output.ndim == 3 else (output.size, 1, 1)
            finish = kernels.finish_by_channels if layout == CHW else kernels.finish_by_places
            compiled(finish)(output.reshape(dims), self.bias, self.slope, self.low, self.high)
        view = by_channels(output, layout) if output.ndim == 3 else output
        for step in self.steps:
            response = self._response(step)
            if response is not None:
                respond_by_rows(response, view, workspace)
                continue
            held = HeldRows(shape=self.shape, array=view)
            part = Part((held,), step.weights, self.shape, 0, self.shape.rows)
            view[...] = step.operator.computed(part)

    def _response(self, step: Step) -> op.LocalResponseNormalization | None:
        """The operator, if it normalises the responses of maps."""
        if isinstance(step.operator, op.LocalResponseNormalization) and self.shape.is_map:
            return step.operator
        return None


def finish_of(model: Model, layer: Layer) -> Finish:
    """Return what follows the layer's own operator."""
    computed = computation(model, layer)
    is_biased = isinstance(layer.operator, op.Convolution | op.FullyConnected)
    bias = computed.own.weights.get("bias") if is_biased else None
    bends = bool(computed.epilogue) and _bend(computed.epilogue[0].operator) is not None
    slope, low, high = (_bend(computed.epilogue[0].operator) if bends else None) or PLAIN
    if bends and bias is None:
        bias = np.zeros(layer.shape.dims[0], np.float32)
    rest = computed.epilogue[bends:]
    return Finish(
        shape=layer.shape,
        bias=bias,
        slope=np.float32(slope),
        low=np.float32(low),
        high=np.float32(high),
        steps=rest,
        parameter_bytes=_bytes(bias, rest),
    )


PLAIN = (1.0, -np.inf, np.inf)  # slope, low, high of no activation


def _bend(operator: op.Operator) -> tuple[float, float, float] | None:
    """Slope below zero, low, high of an activation of that kind; None of another operator."""
    match operator:
        case op.Activation(function="relu"):
            return (1.0, 0.0, np.inf)
        case op.Activation(function="leaky relu", parameters=(slope,)):
            return (slope, -np.inf, np.inf)
        case op.Activation(function="clip", parameters=(low, high)):
            return (1.0, low, high)
    return None


def _bytes(bias: Array | None, steps: Sequence[Step]) -> int:
    fused = sum(array.nbytes for step in steps for array in step.weights.values())
    return fused + (0 if bias is None else bias.nbytes)

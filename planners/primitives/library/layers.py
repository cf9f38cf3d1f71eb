"""Layers that are no convolution, in either layout, straight into a place given.

The usual ones need no temporary array, or a small one that they declare. For any other the executor
of cnn2csdf computes, with arrays of its own; such a layer runs in "CHW" only.

The end of a layer, in place on its output: the bias and the fused operators.

Poolings in either layout, without temporary arrays.

Normalisations and softmax in either layout, straight into a place given.

A layer made ready to run in one way: weights prepared, workspace known.

A change of layout of one map.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from cnn2csdf import operators as op
from cnn2csdf.execution.layer_by_layer import Step, computation
from cnn2csdf.network import Layer, Network, Shape
from cnn2csdf.operators import Convolution
from cnn2csdf.part import HeldRows, Part
from cnn2csdf.weights import Array, Model
from csdf.errors import InvalidPlan
from planners.kernels import convolution_layers as kernels
from planners.kernels import ranges
from planners.primitives.library.primitive import (
    by_channels,
    compiled,
    convolution_sizes,
    float_bytes,
)
from planners.primitives.library.primitives import Way, applicable, primitive_of
from planners.primitives.profile import CHW, HWC, LAYER, LAYOUTS

Compute = Callable[[Sequence[Array], Array], None]  # inputs in their layout, output

AXES = {CHW: {0: 0, 1: 1, 2: 2}, HWC: {0: 2, 1: 0, 2: 1}}  # where an axis of a map lies
FUNCTIONS: dict[str, np.ufunc] = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "divide": np.divide,
    "maximum": np.maximum,
    "minimum": np.minimum,
}


class Computed(NamedTuple):
    """How a layer computes its own operator; allocates: temporary arrays nobody declared."""

    run: Compute
    workspace_bytes: int = 0
    parameter_bytes: int = 0
    allocates: bool = False


def layouts_of(network: Network, layer: Layer) -> tuple[str, ...]:
    """Return the layouts in which a layer that is no convolution can run."""
    shapes = (layer.shape, *network.input_shapes(layer))
    if not all(shape.is_map for shape in shapes):
        return (CHW,)
    return LAYOUTS if _runs_in_both(layer) else (CHW,)


def _runs_in_both(layer: Layer) -> bool:
    match layer.operator:
        case op.Pooling(window=window):
            return is_plain(window)
        case op.Elementwise(function=function, constant=None):
            return function in FUNCTIONS
        case op.Softmax(axis=0, last=None | 0, is_logarithm=False):
            return _is_column(layer)
        case op.Activation(function="relu" | "clip"):
            return True
    return isinstance(
        layer.operator,
        op.GlobalPooling
        | op.Concatenation
        | op.Identity
        | op.BatchNormalization
        | op.LocalResponseNormalization,
    )


def _is_column(layer: Layer) -> bool:
    """Whether the layer has one element a channel."""
    return layer.shape.elements == layer.shape.dims[0]


def computed_layer(model: Model, layer: Layer, layout: str) -> Computed:
    """Return how to compute the layer's own operator in a layout it can run in."""
    weights = (model.weights or {}).get(layer.name, {})
    match layer.operator:
        case op.Input() | op.Output() | op.Identity():
            return Computed(_copy)
        case op.Reshape():
            return Computed(_reshape)
        case op.Pooling(window=window) as operator if is_plain(window):
            source = model.network.input_shapes(layer)[0]
            return Computed(*pooling(operator, source, layer.shape, layout))
        case op.GlobalPooling(function=function):
            return Computed(partial(global_pooling, function, layout))
        case op.Elementwise(function=function, constant=None) if function in FUNCTIONS:
            return Computed(partial(_elementwise, FUNCTIONS[function]))
        case op.Concatenation(axis=axis):
            return Computed(partial(_concatenate, AXES[layout].get(axis, axis)))
        case op.Activation(function="relu"):
            return Computed(partial(_clip, 0.0, np.inf))
        case op.Activation(function="clip", parameters=(low, high)):
            return Computed(partial(_clip, low, high))
        case op.BatchNormalization() as operator if layer.shape.is_map:
            return Computed(*batch_normalization(operator, weights, layout))
        case op.LocalResponseNormalization() as operator if layer.shape.is_map:
            return Computed(partial(local_response, operator, layout))
        case op.FullyConnected():
            matrix = weights["matrix"]
            return Computed(partial(_multiply, matrix), parameter_bytes=matrix.nbytes)
        case op.Softmax(axis=0, last=None | 0, is_logarithm=False) if _is_column(layer):
            return Computed(softmax)
    return _executed(model, layer)


def _copy(inputs: Sequence[Array], output: Array) -> None:
    np.copyto(output, inputs[0])


def _reshape(inputs: Sequence[Array], output: Array) -> None:
    np.copyto(output.reshape(-1), inputs[0].reshape(-1))


def _elementwise(function: np.ufunc, inputs: Sequence[Array], output: Array) -> None:
    np.copyto(output, inputs[0])
    for one in inputs[1:]:
        function(output, one, out=output)


def _concatenate(axis: int, inputs: Sequence[Array], output: Array) -> None:
    np.concatenate(inputs, axis=axis, out=output)


def _clip(low: float, high: float, inputs: Sequence[Array], output: Array) -> None:
    np.maximum(inputs[0], np.float32(low), out=output)
    if high < np.inf:
        np.minimum(output, np.float32(high), out=output)


def _multiply(matrix: Array, inputs: Sequence[Array], output: Array) -> None:
    np.matmul(matrix, inputs[0].reshape(-1), out=output.reshape(-1))


def _executed(model: Model, layer: Layer) -> Computed:
    """As the executor of cnn2csdf computes it, without what is fused behind."""
    own = computation(model, layer).own
    shapes = model.network.input_shapes(layer)

    def run(inputs: Sequence[Array], output: Array) -> None:
        readers = [
            HeldRows(shape=shape, array=array) for shape, array in zip(shapes, inputs, strict=True)
        ]
        part = Part(readers, own.weights, layer.shape, 0, layer.shape.rows)
        output[...] = own.operator.computed(part)

    parameters = {role: array for role, array in own.weights.items() if not role[0].isdigit()}
    return Computed(run, 0, sum(array.nbytes for array in parameters.values()), allocates=True)


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


def is_plain(window: op.Window) -> bool:
    """Whether no window hangs over a border that is cropped."""
    return min(window.padding[2:]) >= 0 or max(window.overhang) == 0


def pooling(operator: op.Pooling, source: Shape, shape: Shape, layout: str) -> tuple[Any, int, int]:
    """Return how to pool, the bytes of its workspace, and those of the counts it divides by."""
    window = operator.window
    steps = (*window.stride, *window.dilation, *window.padding[:2])
    if operator.function == "max":
        counts = np.empty((0, 0), np.float32)
        known = (window.kernel, steps, kernels.MAXIMUM, np.float32(-np.inf), counts)
    else:
        rows = _counts(operator, 0, shape.height, source.height)
        columns = _counts(operator, 1, shape.width, source.width)
        counts = np.maximum(np.outer(rows, columns), 1).astype(np.float32)
        known = (window.kernel, steps, kernels.MEAN, np.float32(0), counts)
    return partial(_pool, layout, known), 0, counts.nbytes


def _pool(layout: str, known: tuple[Any, ...], inputs: Sequence[Array], output: Array) -> None:
    pool = kernels.pool_by_channels if layout == CHW else kernels.pool_by_places
    window, steps, *_ = known
    rows = slice(1, 3) if layout == CHW else slice(0, 2)
    largest = ranges.windows(steps, window, inputs[0].shape[rows], output.shape[rows])
    compiled(pool, largest)(inputs[0], *known, output)


def _counts(operator: op.Pooling, axis: int, places: int, length: int) -> list[int]:
    """Elements along an axis that count in the mean, for each place of the output."""
    window = operator.window
    before, after = window.padding[axis], window.padding[axis + 2]
    low, high = (-before, length + after) if operator.counts_padding else (0, length)
    return [
        sum(
            low <= place * window.stride[axis] - before + tap * window.dilation[axis] < high
            for tap in range(window.kernel[axis])
        )
        for place in range(places)
    ]


def global_pooling(function: str, layout: str, inputs: Sequence[Array], output: Array) -> None:
    """Write one element a map."""
    axes = (1, 2) if layout == CHW else (0, 1)
    if function == "max":
        np.max(inputs[0], axis=axes, keepdims=True, out=output)
    else:
        np.mean(inputs[0], axis=axes, keepdims=True, out=output)


def batch_normalization(
    operator: op.BatchNormalization, weights: Mapping[str, Array], layout: str
) -> tuple[Any, int, int]:
    """Return how to normalise maps, the bytes of its workspace, those of factors and shifts."""
    factor = weights["scale"] / np.sqrt(weights["variance"] + np.float32(operator.epsilon))
    shift = weights["shift"] - weights["mean"] * factor
    scale = kernels.scale_by_channels if layout == CHW else kernels.scale_by_places

    def run(inputs: Sequence[Array], output: Array) -> None:
        compiled(scale)(inputs[0], factor, shift, output)

    return run, 0, factor.nbytes + shift.nbytes


def local_response(
    operator: op.LocalResponseNormalization, layout: str, inputs: Sequence[Array], output: Array
) -> None:
    """Write each element over a power of the squares of its neighbours."""
    before = (operator.size - 1) // 2
    after = operator.size - 1 - before
    channels = inputs[0].shape[0 if layout == CHW else 2]
    squares = (
        kernels.neighbour_squares_by_channels
        if layout == CHW
        else kernels.neighbour_squares_by_places
    )
    compiled(squares)(inputs[0], min(before, channels), min(after, channels), output)
    np.multiply(output, np.float32(operator.alpha / operator.size), out=output)
    np.add(output, np.float32(operator.bias), out=output)
    np.power(output, np.float32(-operator.beta), out=output)
    np.multiply(output, inputs[0], out=output)


def row_elements(shape: Shape) -> int:
    """Return the elements that `respond_by_rows` holds aside: a row of all maps, and its answer."""
    return 2 * shape.channels * shape.width


def respond_by_rows(operator: op.LocalResponseNormalization, view: Array, workspace: Array) -> None:
    """Do the same to maps in place; view: by (channel, row, column), however it lies in memory."""
    channels, rows, columns = view.shape
    row, output = workspace[: 2 * channels * columns].reshape(2, channels, 1, columns)
    for number in range(rows):
        row[:, 0] = view[:, number]
        local_response(operator, CHW, (row,), output)
        view[:, number] = output[:, 0]


def softmax(inputs: Sequence[Array], output: Array) -> None:
    """Write exponentials over their sum, of all elements."""
    np.subtract(inputs[0], np.max(inputs[0]), out=output)
    np.exp(output, out=output)
    np.divide(output, np.sum(output), out=output)


class PreparedLayer(NamedTuple):
    """run(inputs, workspace, output): the whole layer, with its bias and fused operators.

    allocates: whether it makes temporary arrays beyond the workspace that it declares.
    """

    way: Way
    run: Callable[[Sequence[Array], Array, Array], None]
    workspace_bytes: int
    parameter_bytes: int
    allocates: bool


def ways_of(network: Network, layer: Layer) -> tuple[Way, ...]:
    """Return each way in which the layer can run: primitive, input layout, output layout.

    Raises InvalidPlan for a quantised layer: all primitives compute in single precision.
    """
    if layer.quantization is not None:
        raise InvalidPlan(f"layer {layer.name!r} is quantised; primitives compute real numbers")
    if isinstance(layer.operator, Convolution):
        sizes = convolution_sizes(layer, network.input_shapes(layer)[0])
        return tuple((one.name, one.input_layout, one.output_layout) for one in applicable(sizes))
    return tuple((LAYER, layout, layout) for layout in layouts_of(network, layer))


def prepared_layer(model: Model, layer: Layer, way: Way) -> PreparedLayer:
    """Return the layer ready to run in one way. Raises InvalidPlan where it cannot."""
    if isinstance(layer.operator, Convolution):
        return _prepared_convolution(model, layer, way)
    if way not in ways_of(model.network, layer):
        raise InvalidPlan(f"layer {layer.name!r} cannot run as {way[0]!r} {way[1]} to {way[2]}")
    finish = finish_of(model, layer)
    computed = computed_layer(model, layer, way[1])

    def run(inputs: Sequence[Array], workspace: Array, output: Array) -> None:
        computed.run(inputs, output)
        finish.apply(output, way[2], workspace)

    return PreparedLayer(
        way,
        run,
        max(computed.workspace_bytes, finish.workspace_bytes),
        computed.parameter_bytes + finish.parameter_bytes,
        computed.allocates or finish.allocates,
    )


def _prepared_convolution(model: Model, layer: Layer, way: Way) -> PreparedLayer:
    primitive = primitive_of(way)
    sizes = convolution_sizes(layer, model.network.input_shapes(layer)[0])
    if not primitive.applies(sizes):
        raise InvalidPlan(f"layer {layer.name!r}: {primitive.name!r} cannot compute it")
    weights = primitive.prepare(sizes, computation(model, layer).own.weights["kernel"])
    finish = finish_of(model, layer)

    def run(inputs: Sequence[Array], workspace: Array, output: Array) -> None:
        primitive.run(sizes, inputs[0], weights, workspace, output)
        finish.apply(output, way[2], workspace)

    return PreparedLayer(
        way,
        run,
        max(primitive.workspace_bytes(sizes), finish.workspace_bytes),
        primitive.parameter_bytes(sizes) + finish.parameter_bytes,
        finish.allocates,
    )


BLOCK = 16  # elements on a side: whole cache lines on both sides


def change_layout(source: Array, source_layout: str, output: Array) -> None:
    """Write the map in the other layout; no workspace."""
    channels = source.shape[0] if source_layout == CHW else source.shape[2]
    if source_layout == CHW:
        matrix, result = source.reshape(channels, -1), output.reshape(-1, channels)
    else:
        matrix, result = source.reshape(-1, channels), output.reshape(channels, -1)
    compiled(kernels.transpose)(matrix, result, BLOCK)

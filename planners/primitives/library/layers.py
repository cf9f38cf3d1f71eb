"""Variants of a layer: its primitives in each layout, prepared as callables.

A variant is a primitive with its layouts. A `PreparedLayer` is a function that computes a layer in a
variant, with the bytes of its workspace and of its weights. A convolution is computed by a primitive of
the library. Common other layers write directly into their output, with no temporary array or a small
declared workspace. All remaining layers are computed by the executor of cnn2csdf with arrays of its
own, in "CHW" only. Bias and fused operators are applied in place on the output.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from cnn2csdf import operators as op
from cnn2csdf.execution.layer_by_layer import OperatorStep, computation
from cnn2csdf.network import Connection, Layer, Network, Shape
from cnn2csdf.part import HeldRows, OutputRows
from cnn2csdf.weights import Array, Model
from csdf.errors import InvalidPlan
from planners.kernels import convolution_layers as kernels
from planners.kernels import ranges
from planners.primitives.library.direct import DIRECT
from planners.primitives.library.im2col import LOWERED, MEMORY_EFFICIENT, POINTWISE
from planners.primitives.library.kn2row import SHIFTED
from planners.primitives.library.primitive import (
    ConvolutionSizes,
    Primitive,
    by_channels,
    compiled,
    convolution_sizes,
    float_bytes,
)
from planners.primitives.library.winograd import TILED, TILED_ROWS
from planners.primitives.profile import CHW, HWC, LAYER, LAYOUTS, Variant

Compute = Callable[[Sequence[Array], Array], None]  # inputs in their layout, output

PRIMITIVES: tuple[Primitive, ...] = (
    *(*DIRECT, *LOWERED, *POINTWISE, *SHIFTED, *MEMORY_EFFICIENT, *TILED, *TILED_ROWS),
)
_BY_VARIANT: Mapping[Variant, Primitive] = MappingProxyType(
    {primitive.variant: primitive for primitive in PRIMITIVES}
)
AXES = {CHW: {0: 0, 1: 1, 2: 2}, HWC: {0: 2, 1: 0, 2: 1}}  # the array axis of an axis of a map
FUNCTIONS: dict[str, np.ufunc] = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "divide": np.divide,
    "maximum": np.maximum,
    "minimum": np.minimum,
}
NO_ACTIVATION = (1.0, -np.inf, np.inf)  # slope below zero, minimum, maximum
# Side of a transposed block: 16 floats are a cache line, in the source and in the result.
BLOCK = 16


class PreparedLayer(NamedTuple):
    """A layer, or only its operator or its epilogue: run(inputs, workspace, output).

    allocates: whether it allocates temporary arrays in addition to the declared workspace.
    """

    run: Callable[[Sequence[Array], Array, Array], None]
    parameter_bytes: int = 0
    workspace_bytes: int = 0
    allocates: bool = False


def primitive_of(variant: Variant) -> Primitive:
    """Return the primitive of this name and these layouts. Raises InvalidPlan if there is none."""
    if variant not in _BY_VARIANT:
        raise InvalidPlan(f"there is no primitive {variant}")
    return _BY_VARIANT[variant]


def applicable(sizes: ConvolutionSizes) -> tuple[Primitive, ...]:
    """Return the primitives that can compute a convolution of these sizes."""
    return tuple(primitive for primitive in PRIMITIVES if primitive.applies(sizes))


def layer_variants(network: Network, layer: Layer) -> tuple[Variant, ...]:
    """Return the variants that can compute a layer.

    Raises InvalidPlan for a quantised layer: all primitives compute in single precision.
    """
    if layer.quantization is not None:
        raise InvalidPlan(f"layer {layer.name!r} is quantised; primitives compute real numbers")
    if layer.operator.filter_bank is not None:
        sizes = convolution_sizes(layer, network.input_shapes(layer)[0])
        return tuple(primitive.variant for primitive in applicable(sizes))
    return tuple(Variant(LAYER, layout, layout) for layout in layouts_of(network, layer))


def layout_changes(
    network: Network, variants: Collection[tuple[str, Variant]]
) -> Iterator[tuple[Connection, str, str]]:
    """Yield each possible layout transformation: connection, old and new layout.

    variants: all variants of all layers, each with the name of its layer.
    """
    reads = {(layer, variant.input_layout) for layer, variant in variants}
    writes = {(layer, variant.output_layout) for layer, variant in variants}
    for link in network.connections:
        for source, target in (LAYOUTS, LAYOUTS[::-1]):
            is_asked = (link.producer, source) in writes and (link.consumer, target) in reads
            if network.layer(link.producer).shape.is_map and is_asked:
                yield link, source, target


def layouts_of(network: Network, layer: Layer) -> tuple[str, ...]:
    """Return the layouts in which a layer other than a convolution can run."""
    runs_in_both = False
    match layer.operator:
        case op.GlobalPooling() | op.Concatenation() | op.Identity() | op.BatchNormalization():
            runs_in_both = True
        case op.LocalResponseNormalization() | op.Activation(function="relu" | "clip"):
            runs_in_both = True
        case op.Pooling(window=window):
            runs_in_both = is_plain(window)
        case op.Elementwise(function=function, constant=None):
            runs_in_both = function in FUNCTIONS
        case op.Softmax(axis=0, last=None | 0, is_logarithm=False):
            runs_in_both = is_column(layer)
    shapes = (layer.shape, *network.input_shapes(layer))
    return LAYOUTS if runs_in_both and all(shape.is_map for shape in shapes) else (CHW,)


def is_column(layer: Layer) -> bool:
    """Whether the layer has one element per channel."""
    return layer.shape.elements == layer.shape.dims[0]


def is_plain(window: op.Window) -> bool:
    """Whether no window extends beyond the map at a cropped border, whose padding is below zero."""
    return min(window.padding[2:]) >= 0 or max(window.overhang) == 0


def prepared_layer(model: Model, layer: Layer, variant: Variant) -> PreparedLayer:
    """Return the layer in a variant, with prepared weights. Raises InvalidPlan for another variant."""
    if layer.operator.filter_bank is not None:
        computed = _convolution(model, layer, variant)
    elif variant in layer_variants(model.network, layer):
        computed = _computed(model, layer, variant.input_layout)
    else:
        raise InvalidPlan(f"layer {layer.name!r} cannot run as {variant}")
    finish = _epilogue(model, layer, variant.output_layout)

    def run(inputs: Sequence[Array], workspace: Array, output: Array) -> None:
        computed.run(inputs, workspace, output)
        finish.run(inputs, workspace, output)

    return PreparedLayer(
        run,
        parameter_bytes=computed.parameter_bytes + finish.parameter_bytes,
        workspace_bytes=max(computed.workspace_bytes, finish.workspace_bytes),
        allocates=computed.allocates or finish.allocates,
    )


def _convolution(model: Model, layer: Layer, variant: Variant) -> PreparedLayer:
    """Return the convolution of a layer by one primitive."""
    primitive = primitive_of(variant)
    sizes = convolution_sizes(layer, model.network.input_shapes(layer)[0])
    if not primitive.applies(sizes):
        raise InvalidPlan(f"layer {layer.name!r}: {primitive.name!r} cannot compute it")
    weights = primitive.prepare(sizes, computation(model, layer).first_step.weights["kernel"])

    def run(inputs: Sequence[Array], workspace: Array, output: Array) -> None:
        primitive.run(sizes, inputs[0], weights, workspace, output)

    return PreparedLayer(run, primitive.parameter_bytes(sizes), primitive.workspace_bytes(sizes))


def _computed(model: Model, layer: Layer, layout: str) -> PreparedLayer:
    """Return the operator of a layer other than a convolution, without its epilogue, in a layout."""
    weights = (model.weights or {}).get(layer.name, {})
    run: Compute
    parameter_bytes = 0
    match layer.operator:
        case op.Input() | op.Output() | op.Identity() | op.Reshape():
            run = _copy
        case op.Pooling(window=window) as operator if is_plain(window):
            source = model.network.input_shapes(layer)[0]
            pooling, parameter_bytes = _pooling(operator, source, layer.shape)
            run = partial(pool, layout, pooling)
        case op.GlobalPooling(function=function):
            axes = (1, 2) if layout == CHW else (0, 1)
            run = partial(_reduce, np.max if function == "max" else np.mean, axes)
        case op.Elementwise(function=function, constant=None) if function in FUNCTIONS:
            run = partial(_elementwise, FUNCTIONS[function])
        case op.Concatenation(axis=axis):
            run = partial(_concatenate, AXES[layout].get(axis, axis))
        case op.Activation(function="relu"):
            run = partial(_clip, 0.0, np.inf)
        case op.Activation(function="clip", parameters=(low, high)):
            run = partial(_clip, low, high)
        case op.BatchNormalization() as operator if layer.shape.is_map:
            factor, shift = operator.factors_and_offsets(weights)
            run = partial(_scale, layout, factor, shift)
            parameter_bytes = factor.nbytes + shift.nbytes
        case op.LocalResponseNormalization() as operator if layer.shape.is_map:
            run = partial(_respond, operator, layout)
        case op.FullyConnected():
            run = partial(_multiply, weights["matrix"])
            parameter_bytes = weights["matrix"].nbytes
        case op.Softmax(axis=0, last=None | 0, is_logarithm=False) if is_column(layer):
            run = _softmax
        case _:
            return _executed(model, layer)
    return PreparedLayer(lambda inputs, _, output: run(inputs, output), parameter_bytes)


def _executed(model: Model, layer: Layer) -> PreparedLayer:
    """Return the operator of a layer as computed by the executor of cnn2csdf, without its epilogue."""
    layer_computation = computation(model, layer).first_step
    shapes = model.network.input_shapes(layer)

    def run(inputs: Sequence[Array], _: Array, output: Array) -> None:
        readers = [
            HeldRows(shape=shape, array=array) for shape, array in zip(shapes, inputs, strict=True)
        ]
        part = OutputRows(readers, layer_computation.weights, layer.shape, 0, layer.shape.rows)
        output[...] = layer_computation.operator.computed(part)

    # Roles of fused operators begin with their number, as "1.scale": `_epilogue` counts their arrays.
    weights = layer_computation.weights
    size = sum(array.nbytes for role, array in weights.items() if not role[0].isdigit())
    return PreparedLayer(run, size, allocates=True)


def _copy(inputs: Sequence[Array], output: Array) -> None:
    np.copyto(output.reshape(-1), inputs[0].reshape(-1))


def _elementwise(function: np.ufunc, inputs: Sequence[Array], output: Array) -> None:
    np.copyto(output, inputs[0])
    for input_map in inputs[1:]:
        function(output, input_map, out=output)


def _concatenate(axis: int, inputs: Sequence[Array], output: Array) -> None:
    np.concatenate(inputs, axis=axis, out=output)


def _clip(low: float, high: float, inputs: Sequence[Array], output: Array) -> None:
    np.maximum(inputs[0], np.float32(low), out=output)
    if high < np.inf:
        np.minimum(output, np.float32(high), out=output)


def _multiply(matrix: Array, inputs: Sequence[Array], output: Array) -> None:
    np.matmul(matrix, inputs[0].reshape(-1), out=output.reshape(-1))


def _pooling(operator: op.Pooling, source: Shape, shape: Shape) -> tuple[tuple[Any, ...], int]:
    """Return the constant arguments of a pooling, and the bytes of its divisors."""
    window = operator.window
    steps = ranges.Steps(window.stride, window.dilation, window.padding[:2])
    if operator.function == "max":
        counts = np.empty((0, 0), np.float32)
        return (window.kernel, steps, kernels.MAXIMUM, np.float32(-np.inf), counts), 0
    # Along each axis, for each output position: the number of elements that count in the mean.
    counted = []
    for axis, (positions, length) in enumerate(
        ((shape.height, source.height), (shape.width, source.width))
    ):
        before, after = window.padding[axis], window.padding[axis + 2]
        low, high = (-before, length + after) if operator.counts_padding else (0, length)
        taps = [tap * window.dilation[axis] - before for tap in range(window.kernel[axis])]
        starts = (index * window.stride[axis] for index in range(positions))
        counted.append([sum(low <= start + tap < high for tap in taps) for start in starts])
    rows, columns = counted
    counts = np.maximum(np.outer(rows, columns), 1).astype(np.float32)
    return (window.kernel, steps, kernels.MEAN, np.float32(0), counts), counts.nbytes


def pool(layout: str, pooling: tuple[Any, ...], inputs: Sequence[Array], output: Array) -> None:
    """Pool a map; pooling: window, steps, kind, first value and counts, the arguments of a kernel."""
    function = kernels.pool_by_channels if layout == CHW else kernels.pool_by_places
    window, steps, *_ = pooling
    rows = slice(1, 3) if layout == CHW else slice(0, 2)
    largest = ranges.windows(steps, window, inputs[0].shape[rows], output.shape[rows])
    compiled(function, largest)(inputs[0], *pooling, output)


def _reduce(
    function: Callable[..., Any], axes: tuple[int, int], inputs: Sequence[Array], output: Array
) -> None:
    function(inputs[0], axis=axes, keepdims=True, out=output)


def _scale(
    layout: str, factor: Array, shift: Array, inputs: Sequence[Array], output: Array
) -> None:
    scale = kernels.scale_by_channels if layout == CHW else kernels.scale_by_places
    compiled(scale)(inputs[0], factor, shift, output)


def _respond(operator: Any, layout: str, inputs: Sequence[Array], output: Array) -> None:
    """Divide each element by a power of its bias plus the mean square of its neighbour channels."""
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


def _softmax(inputs: Sequence[Array], output: Array) -> None:
    np.subtract(inputs[0], np.max(inputs[0]), out=output)
    np.exp(output, out=output)
    np.divide(output, np.sum(output), out=output)


def _epilogue(model: Model, layer: Layer, layout: str) -> PreparedLayer:
    """Return bias, activation and further fused operators of a layer, in place on its output.

    A local response normalisation is computed row by row in a workspace of two rows of all maps. All
    other operators after the activation are computed by the executor of cnn2csdf, with arrays of its
    own.
    """
    bias, activation, steps = _fused_operators(model, layer)
    shape = layer.shape
    parameter_bytes = sum(array.nbytes for step in steps for array in step.weights.values())
    if bias is not None:
        parameter_bytes += bias.nbytes
    # Local response normalisations of maps, which need no arrays of the executor.
    responds = [step.operator.normalizes_responses and shape.is_map for step in steps]

    def run(_: Sequence[Array], workspace: Array, output: Array) -> None:
        if bias is not None:
            dims = output.shape if output.ndim == 3 else (output.size, 1, 1)
            finish = kernels.finish_by_channels if layout == CHW else kernels.finish_by_places
            compiled(finish)(output.reshape(dims), bias, *map(np.float32, activation))
        view = by_channels(output, layout) if output.ndim == 3 else output
        for step, is_response in zip(steps, responds, strict=True):
            if is_response:
                _respond_in_place(step.operator, view, workspace)
                continue
            held = HeldRows(shape=shape, array=view)
            part = OutputRows((held,), step.weights, shape, 0, shape.rows)
            view[...] = step.operator.computed(part)

    workspace_bytes = float_bytes(2 * shape.channels * shape.width) if any(responds) else 0
    return PreparedLayer(run, parameter_bytes, workspace_bytes, allocates=not all(responds))


def _respond_in_place(operator: Any, view: Array, workspace: Array) -> None:
    """Normalise the responses of a map by (channel, row, column), one row after the other."""
    channels, rows, columns = view.shape
    cells = workspace[: 2 * channels * columns]
    row, answer = cells.reshape(2, channels, 1, columns)
    for number in range(rows):
        row[:, 0] = view[:, number]
        _respond(operator, CHW, (row,), answer)
        view[:, number] = answer[:, 0]


def _fused_operators(
    model: Model, layer: Layer
) -> tuple[Array | None, tuple[float, float, float], tuple[OperatorStep, ...]]:
    """Return bias, activation and further steps after the operator of a layer, in this order.

    The activation is its slope below zero, its minimum and its maximum, as NO_ACTIVATION.
    """
    computed = computation(model, layer)
    is_biased = layer.operator.bias_axis == 0
    bias = computed.first_step.weights.get("bias") if is_biased else None
    activation, steps = NO_ACTIVATION, computed.epilogue
    match [step.operator for step in steps[:1]]:
        case [op.Activation(function="relu")]:
            activation = (1.0, 0.0, np.inf)
        case [op.Activation(function="leaky relu", parameters=(slope,))]:
            activation = (slope, -np.inf, np.inf)
        case [op.Activation(function="clip", parameters=(low, high))]:
            activation = (1.0, low, high)
    if activation is not NO_ACTIVATION:
        steps = steps[1:]
        bias = np.zeros(layer.shape.dims[0], np.float32) if bias is None else bias
    return bias, activation, steps


def change_layout(source: Array, source_layout: str, output: Array) -> None:
    """Write the map in the other layout; no workspace."""
    channels = source.shape[0] if source_layout == CHW else source.shape[2]
    if source_layout == CHW:
        matrix, result = source.reshape(channels, -1), output.reshape(-1, channels)
    else:
        matrix, result = source.reshape(-1, channels), output.reshape(channels, -1)
    compiled(kernels.transpose)(matrix, result, BLOCK)

"""A layer made ready to run in one way: weights prepared, workspace known."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from cnn2csdf.execution.layers import computation
from cnn2csdf.network import Layer, Network
from cnn2csdf.operators import Convolution
from cnn2csdf.weights import Array, Model
from csdf.errors import InvalidPlan
from planners.primitives.library.convolution import convolution_sizes
from planners.primitives.library.finish import finish_of
from planners.primitives.library.layers import computed_layer, layouts_of
from planners.primitives.library.primitives import Way, applicable, primitive_of
from planners.primitives.profile import LAYER


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

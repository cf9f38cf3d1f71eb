"""Trained parameters and work of a layer: shapes, counts, bytes, multiply-accumulates."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import NamedTuple

from cnn2csdf.dtypes import Element, Stored
from cnn2csdf.network import Layer, Network
from cnn2csdf.shape import Dims, Shape
from csdf.arguments import public


class StoredArray(NamedTuple):
    """An array of parameters, however many layers use it. layer: the first of them."""

    elements: int
    element: Element
    layer: str


def parameter_shapes(layer: Layer, inputs: Sequence[Shape]) -> dict[str, Dims]:
    """Return the dims of each array of parameters, by its role.

    Roles of fused operators have the position in the epilogue in front: "0.scale" is the scale of
    the first operator behind the layer's own.
    """
    roles = dict(layer.operator.trained(inputs))
    for place, operator in enumerate(layer.epilogue):
        fused = operator.trained((layer.shape,))
        roles |= {f"{place}.{role}": dims for role, dims in fused.items()}
    return roles


def with_named_arrays(network: Network, layer: Layer) -> Layer:
    """Return the layer with named arrays, which are stored once for the layer and its copies."""
    roles = parameter_shapes(layer, network.input_shapes(layer))
    return replace(layer, stored=tuple(named_array(layer, role) for role in roles))


def named_array(layer: Layer, role: str) -> Stored:
    """Return an array of a layer with a name."""
    stored = layer.stored_as(role)
    return replace(stored, name=stored.name or f"{layer.name} {role}")


@public
def layer_parameters(network: Network) -> Mapping[str, int]:
    """Return the number of parameters that each layer uses.

    An array that several layers share counts for each of them; stored_arrays counts it once.
    """
    return {
        layer.name: sum(
            prod(dims) for dims in parameter_shapes(layer, network.input_shapes(layer)).values()
        )
        for layer in network.layers
    }


def stored_arrays(network: Network) -> Sequence[StoredArray]:
    """Return the arrays of parameters; an array that several layers share is stored once."""
    arrays: dict[str | tuple[str, str], StoredArray] = {}
    for layer in network.layers:
        shapes = parameter_shapes(layer, network.input_shapes(layer))
        for role, dims in shapes.items():
            stored = layer.stored_as(role)
            array = StoredArray(prod(dims), stored.element, layer.name)
            key = stored.name or (layer.name, role)
            first = arrays.get(key, array)
            array = array._replace(layer=first.layer)
            arrays[key] = max(first, array, key=lambda stored: stored.elements)
    return tuple(arrays.values())


def parameter_bytes(network: Network, number_bytes: int | None = None) -> int:
    """Return the bytes of all parameters, shared arrays once.

    number_bytes: of one number; by default each array is stored as in the file of the network.
    """
    return sum(
        array.elements * (array.element.bytes if number_bytes is None else number_bytes)
        for array in stored_arrays(network)
    )


def layer_parameter_bytes(
    layer: Layer, inputs: Sequence[Shape], number_bytes: int | None = None
) -> int:
    """Return the bytes of the parameters that a layer uses."""
    return sum(
        prod(dims) * (number_bytes or layer.stored_as(role).element.bytes)
        for role, dims in parameter_shapes(layer, inputs).items()
    )


def uniform_bytes(network: Network) -> int | None:
    """Return the bytes of each element and each parameter; None where they differ."""
    sizes = {layer.element_bytes for layer in network.layers}
    sizes |= {array.element.bytes for array in stored_arrays(network)}
    return sizes.pop() if len(sizes) == 1 else None


class ElementSizes:
    """Knows the bytes of an element of every tensor and of all weights of a network.

    alike: bytes of every element and every parameter; None: as the network stores them.
    """

    def __init__(self, network: Network, alike: int | None) -> None:
        self._network = network
        self._alike = alike

    def of(self, name: str) -> int:
        """Bytes of one element of what a layer writes."""
        return self._alike or self._network.layer(name).element_bytes

    def of_weights(self, layer: Layer) -> int:
        """Bytes of one weight of a convolution or a fully connected layer; 1 where it has none."""
        roles = layer.operator.trained(self._network.input_shapes(layer))
        stored = [layer.stored_as(role).element.bytes for role in roles if role != "bias"]
        return self._alike or max(stored, default=1)

    def of_parameters(self, layer: Layer) -> int:
        """Bytes of all parameters of a layer."""
        return layer_parameter_bytes(layer, self._network.input_shapes(layer), self._alike)

    @property
    def all(self) -> tuple[int, ...]:
        """The different bytes of elements that the tensors of the network have, the least first."""
        return tuple(sorted({self.of(layer.name) for layer in self._network.layers}))


@public
def multiply_accumulates(layer: Layer, inputs: Sequence[Shape]) -> int:
    """Return the multiply-accumulates of one frame: convolutions and matrix products only."""
    return layer.operator.multiply_accumulates(inputs, layer.shape)


def network_multiply_accumulates(network: Network) -> int:
    """Return the multiply-accumulates of a frame in which each layer is computed once."""
    return sum(multiply_accumulates(layer, network.input_shapes(layer)) for layer in network.layers)


def operations(layer: Layer, inputs: Sequence[Shape]) -> int:
    """Return the arithmetic operations of one frame.

    Two for a multiply-accumulate; one for each element that a pooling window, an elementwise
    function or a fused operator touches; none for moving elements.
    """
    fused = layer.shape.elements * len(layer.epilogue)
    return layer.operator.operations(inputs, layer.shape) + fused


def with_shared_names(network: Network) -> Network:
    """Return the network where only arrays that several layers share have names."""
    uses = Counter(stored.name for layer in network.layers for stored in layer.stored)
    return replace(
        network,
        layers=tuple(
            replace(layer, stored=tuple(_told(layer.stored, uses))) for layer in network.layers
        ),
    )


def _told(stored: Iterable[Stored], uses: Mapping[str | None, int]) -> Iterator[Stored]:
    """Return what has to be said of stored arrays: the layer that shares them, types of their own."""
    for reference in stored:
        kept = reference if uses[reference.name] > 1 else replace(reference, name=None)
        if kept != Stored(role=reference.role):
            yield kept

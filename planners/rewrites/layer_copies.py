"""Copies of layers in a network: the form of rematerialisation, heads in sequence and column tiles.

A copy computes its original, one head of it or some of its columns, under a name of its own, and
shares the arrays of the original. A rewrite adds copies with `LayerCopies`, and writes the network with
`replaced_layers`. planners.rewrites.copied_layers proves that such a network computes the same.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Generic, NamedTuple, TypeVar

from cnn2csdf import operators as op
from cnn2csdf.dtypes import Stored
from cnn2csdf.geometry import Range
from cnn2csdf.network import Layer, Network
from cnn2csdf.parameters import parameter_shapes
from cnn2csdf.shape import Dims, Shape
from cnn2csdf.weights import Array
from csdf.names import free_name

CHANNELS, ROWS, COLUMNS = range(3)  # axes

Part = TypeVar("Part")


class Copy(NamedTuple):
    """The original of a copied layer.

    begin: where the part that the copy computes begins on its axis, as a fraction of the axis.
    """

    layer: str
    begin: Fraction = Fraction(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewritten(Generic[Part]):
    """A network with copies of layers. copies: the original of each copy, by name.

    parts: the layers of the span that is rewritten, by group of tokens, by tile, or all together.
    """

    network: Network
    copies: Mapping[str, Copy]
    parts: tuple[Part, ...]


class LayerCopies:
    """Builder of copied layers. made, copies: the new layers and their originals, by name."""

    def __init__(self, network: Network) -> None:
        """Set the network whose layers are copied."""
        self.network = network
        self.made: dict[str, Layer] = {}
        self.copies: dict[str, Copy] = {}
        self._names = {layer.name for layer in network.layers}

    def layer(self, name: str) -> Layer:
        """Return a new layer, or a layer of the network."""
        return self.made.get(name) or self.network.layer(name)

    def shape_of(self, layer: Layer) -> Shape:
        """Return the shape that the operator of a layer gives its result."""
        return layer.operator.output_shape([self.layer(name).shape for name in layer.inputs])

    def add(self, layer: Layer, wanted: str, origin: Copy) -> str:
        """Add a layer with the shape that its operator gives; return its name, `wanted` if free."""
        name = free_name(wanted, self._names)
        self._names.add(name)
        self.made[name] = replace(layer, name=name, shape=self.shape_of(layer))
        self.copies[name] = origin
        return name

    def cut(self, base: str, axis: int, span: Range, wanted: str, source: str) -> str:
        """Add a slice of tensor `base`, whose original is `source`; return its name."""
        operator = op.Slice(axis=axis, start=span[0], stop=span[1])
        layer = replace(self.layer(base), operator=operator, inputs=(base,), epilogue=(), stored=())
        return self.add(layer, wanted, Copy(source))


def replaced_layers(
    network: Network,
    before: str,
    added: Sequence[Layer],
    *,
    without: Collection[str],
    shared: Collection[str] = (),
) -> tuple[Layer, ...]:
    """Return the layers with some added before a layer, and without some others.

    shared: layers that have copies, whose arrays get names.
    """
    layers: list[Layer] = []
    for layer in network.layers:
        if layer.name == before:
            layers += added
        if layer.name not in without:
            layers.append(sharing(network, layer) if layer.name in shared else layer)
    return tuple(layers)


def side_by_side(layer: Layer, parts: Sequence[str], axis: int) -> Layer:
    """Return the layer turned into a concatenation of the parts of its result along an axis."""
    operator = op.Concatenation(axis=axis)
    return replace(layer, operator=operator, inputs=tuple(parts), epilogue=(), stored=())


def needed_for(network: Network, inside: Collection[str], wanted: Collection[str]) -> set[str]:
    """Return the wanted layers and their ancestors within a span."""
    needed = set(wanted)
    for name in reversed(list(inside)):
        if name in needed:
            needed |= set(network.layer(name).inputs) & set(inside)
    return needed


def sharing(network: Network, layer: Layer) -> Layer:
    """Return the layer with named arrays, which are stored once for the layer and its copies."""
    roles = parameter_shapes(layer, network.input_shapes(layer))
    return replace(layer, stored=tuple(named(layer.stored_as(role), layer) for role in roles))


def named(stored: Stored, layer: Layer) -> Stored:
    """Return an array of a layer with a name."""
    return replace(stored, name=stored.name or f"{layer.name} {stored.role}")


def arrays_of(
    copy: Copy, arrays: Mapping[str, Array], shapes: Mapping[str, tuple[int, ...]]
) -> dict[str, Array]:
    """Return the arrays of a copy: its slice along each axis that is shorter.

    arrays: the arrays of the original, by role. shapes: the shapes of the arrays of the copy, by role.
    """
    parts_by_role = {}
    for role, dims in shapes.items():
        array = arrays[role]
        part = tuple(
            slice(None) if size == whole else _slice_of(copy.begin, size, whole)
            for size, whole in zip(dims, array.shape, strict=True)
        )
        parts_by_role[role] = array[part]
    return parts_by_role


def stored_part(
    layer: Layer, dims: Mapping[str, Dims], shapes: Mapping[str, Dims], begin: Fraction, part: str
) -> tuple[Stored, ...]:
    """Return how the arrays of a copy are stored that computes a part of a layer.

    dims, shapes: of the arrays of the layer, and of the copy, by role. begin: as in Copy. part: name of
    the part.
    """
    stored_arrays = []
    for role, size in shapes.items():
        array = named(layer.stored_as(role), layer)
        if size != dims[role]:
            array = replace(array, name=f"{array.name}, {part}")
            types = array.quantization
            if types is not None and len(types.scales) > 1:
                scales = types.scales[_slice_of(begin, size[0], dims[role][0])]
                array = replace(array, quantization=replace(types, scales=scales))
        stored_arrays.append(array)
    return tuple(stored_arrays)


def _slice_of(begin: Fraction, size: int, whole: int) -> slice:
    """The places of a part of an axis of `whole` places. begin: as in Copy."""
    first = int(begin * whole)
    return slice(first, first + size)

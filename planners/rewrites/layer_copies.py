"""Copies of layers in a network, as all rewrites of this folder write them.

Rematerialisation copies whole layers, attention heads in sequence copy a layer for each head, column
tiles copy a layer for each range of columns, and inputs of a concatenation for each range of channels.
A copy has a new name and shares the arrays of its original, or parts of these. A rewrite adds copies
with `LayerCopies`, and writes the network with `replaced_layers`. planners.rewrites.copied_layers
proves that such a network computes the same.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Generic, NamedTuple, TypeVar

from cnn2csdf import operators as op
from cnn2csdf.geometry import Range
from cnn2csdf.network import Layer, Network
from cnn2csdf.parameters import named_array, parameter_shapes, with_named_arrays
from cnn2csdf.shape import Dims, Shape
from cnn2csdf.weights import Array
from csdf.names import free_name

CHANNELS, ROWS, COLUMNS = range(3)  # axes

Part = TypeVar("Part")


class Copy(NamedTuple):
    """The original of a copied layer.

    begin: where the channels or heads of the copy begin, as a fraction of those of the original; cut
    arrays begin at the same fraction. Example: the second of 4 heads begins at 1/4. Copies that use
    whole arrays, or have none, such as slices, begin at 0.
    """

    layer: str
    begin: Fraction = Fraction(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewritten(Generic[Part]):
    """A network with copies of layers. copies: the original of each copy, by name.

    A rewrite replaces the layers of a span. parts: the replacing layers in the form of the rewrite:
    `HeadLayers` for each group of tokens, `ColumnTile` for each tile, or one tuple of names in
    execution order.
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

    def add(self, layer: Layer, preferred_name: str, origin: Copy) -> str:
        """Add a layer with the shape of its operator's result; return its name.

        preferred_name: the name of the layer unless taken, else the name gets a number.
        """
        name = free_name(preferred_name, self._names)
        self._names.add(name)
        self.made[name] = replace(layer, name=name, shape=self.shape_of(layer))
        self.copies[name] = origin
        return name

    def add_part(self, part: Layer, preferred_name: str, origin: Copy, suffix: str) -> str:
        """Add a layer that computes a part of a layer of the network; return its name.

        part: the layer, with the operators and the inputs of the part. origin: the original in the
        network of the plan, and where the part begins. suffix: of the names of arrays that are cut.
        Several scales belong to the first axis of their array.
        """
        layer = self.network.layer(part.name)
        part = replace(part, shape=self.shape_of(part), stored=())
        inputs = [self.layer(name).shape for name in part.inputs]
        whole_shapes = parameter_shapes(layer, self.network.input_shapes(layer))
        stored_arrays = []
        for role, dims in parameter_shapes(part, inputs).items():
            array = named_array(layer, role)
            if dims != whole_shapes[role]:
                array = replace(array, name=f"{array.name}, {suffix}")
                types = array.quantization
                if types is not None and len(types.scales) > 1:
                    first_axis, *_ = _part_slices(origin.begin, dims, whole_shapes[role])
                    types = replace(types, scales=types.scales[first_axis])
                    array = replace(array, quantization=types)
            stored_arrays.append(array)
        return self.add(replace(part, stored=tuple(stored_arrays)), preferred_name, origin)

    def cut(self, tensor: str, axis: int, span: Range, preferred_name: str, original: str) -> str:
        """Add a slice of a tensor; return its name.

        tensor: a tensor of the network, or a copy or slice of one. span: places in this tensor.
        original: the tensor of the network whose elements it holds.
        """
        start, stop = span
        operator = op.Slice(axis=axis, start=start, stop=stop)
        sliced = self.layer(tensor)
        layer = replace(sliced, operator=operator, inputs=(tensor,), epilogue=(), stored=())
        return self.add(layer, preferred_name, Copy(original))


def replaced_layers(
    network: Network,
    before: str,
    added: Sequence[Layer],
    *,
    without: Collection[str],
    shared: Collection[str] = (),
) -> tuple[Layer, ...]:
    """Return the layers of a rewritten network.

    before: the layer of the network that `added` precede. without: layers that are removed. shared:
    layers that have copies, whose arrays get names.
    """
    layers: list[Layer] = []
    for layer in network.layers:
        if layer.name == before:
            layers += added
        if layer.name not in without:
            layers.append(with_named_arrays(network, layer) if layer.name in shared else layer)
    return tuple(layers)


def side_by_side(layer: Layer, parts: Sequence[str], axis: int) -> Layer:
    """Return the layer turned into a concatenation of the parts of its result along an axis."""
    operator = op.Concatenation(axis=axis)
    return replace(layer, operator=operator, inputs=tuple(parts), epilogue=(), stored=())


def needed_for(network: Network, inside: Sequence[str], wanted: Collection[str]) -> set[str]:
    """Return the wanted layers and their ancestors within a span, in topological order."""
    needed = set(wanted)
    for name in reversed(inside):
        if name in needed:
            needed |= set(network.layer(name).inputs) & set(inside)
    return needed


def arrays_of(
    copy: Copy, arrays: Mapping[str, Array], shapes: Mapping[str, Dims]
) -> dict[str, Array]:
    """Return the arrays of a copy: the parts of the arrays of its original, by role.

    arrays: of the original. shapes: of the arrays of the copy.
    """
    return {
        role: arrays[role][_part_slices(copy.begin, dims, arrays[role].shape)]
        for role, dims in shapes.items()
    }


def _part_slices(begin: Fraction, part: Dims, whole: Dims) -> tuple[slice, ...]:
    """Return the slice of each axis: of an axis with fewer places in the part, from `begin` on.

    Only the axis of channels or heads is shorter, so one fraction suffices. Example: filters of
    (16, 8, 1, 1) in (64, 8, 1, 1), beginning at 1/4, are [16:32, :, :, :].
    """
    firsts = (
        int(begin * length) if length != size else 0
        for size, length in zip(part, whole, strict=True)
    )
    return tuple(slice(first, first + size) for first, size in zip(firsts, part, strict=True))

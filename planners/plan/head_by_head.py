"""Heads of attention in sequence: a network in which each head has layers of its own.

A head needs only its own output channels of the projections to queries, keys and values. So each
projection is split into one layer per head, each with its slice of the filters: no weight is stored
twice, and no MAC is repeated. The layers before the projections (a normalisation) are copied for each
projection. The attention result is the concatenation of the heads along the columns. So keys and values
of only one head are live at a time.

Where attention is restricted to groups of tokens, the groups run in sequence as well, each on its rows
of the tensors before and after the attention.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from cnn2csdf import operators as op
from cnn2csdf.dtypes import Stored
from cnn2csdf.network import Layer, Network
from cnn2csdf.parameters import multiply_accumulates, parameter_bytes, parameter_shapes
from cnn2csdf.shape import Shape
from cnn2csdf.weights import Array
from csdf.names import free_name

CHANNELS, ROWS, COLUMNS = range(3)  # axes


class Copy(NamedTuple):
    """The original of a copied layer, and the head that the copy computes; 0 for a whole copy."""

    layer: str
    head: int = 0


class HeadLayers(NamedTuple):
    """The layers of one group of tokens, in execution order: of each head, then after all heads.

    slices: the layers that cut the rows of the group out of its inputs, where there are several groups.
    joined: the layer that concatenates the results of the heads along the columns. rest: the layers
    after it.
    """

    slices: tuple[str, ...]
    heads: tuple[tuple[str, ...], ...]
    joined: str
    rest: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadByHead:
    """A network with layers for each head of one attention, and for each group of its tokens.

    joined: the layer that concatenates the results of several groups along the rows; None for a single
    group. copies: the original of each layer that is a copy, or computes one head or group only.
    """

    network: Network
    parts: tuple[HeadLayers, ...]
    joined: str | None
    copies: Mapping[str, Copy]


class _Whole(Exception):
    """The heads or groups of a tensor cannot be computed separately."""


def head_by_head(network: Network, inside: Sequence[str]) -> HeadByHead | None:
    """Return the network where each head of the attention in a span has layers of its own.

    inside: consecutive layers whose only result is the last layer. None unless the span has exactly one
    attention with several heads, and its heads can be computed separately without storing weights
    twice.
    """
    attention = [
        product
        for layer in map(network.layer, inside)
        if (product := layer.operator.attention) is not None and product.heads > 1
    ]
    if [product.gives for product in attention] != ["scores", "values"]:
        return None
    groups, stored = attention[0].groups, parameter_bytes(network)
    if groups > 1 and network.layer(inside[-1]).operator.rereads_rows:
        return None  # its rows would lie in a tensor of columns in one of rows
    copies: dict[str, Copy] = {}
    spans: list[tuple[tuple[str, ...], tuple[str, ...]]] = [((), tuple(inside))]
    parts: list[HeadLayers] = []
    try:
        if groups > 1:
            network, spans = _Groups(network, inside, groups, copies).apart()
        for slices, layers in spans:
            heads = _Heads(network, layers, copies)
            network = heads.apart()
            parts.append(HeadLayers(slices, heads.heads, heads.joined, heads.rest))
    except _Whole:
        return None
    if parameter_bytes(network) > stored:
        return None
    names = {layer.name for layer in network.layers}
    copies = {name: copy for name, copy in copies.items() if name in names}
    joined = inside[-1] if groups > 1 else None
    return HeadByHead(network=network, parts=tuple(parts), joined=joined, copies=copies)


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
    return replace(layer, stored=tuple(_named(layer.stored_as(role), layer) for role in roles))


def _named(stored: Stored, layer: Layer) -> Stored:
    return replace(stored, name=stored.name or f"{layer.name} {stored.role}")


def arrays_of(
    copy: Copy, arrays: Mapping[str, Array], shapes: Mapping[str, tuple[int, ...]]
) -> dict[str, Array]:
    """Return the arrays of a copy: the slice of its head along each axis that is shorter.

    arrays: the arrays of the original, by role. shapes: the shapes of the arrays of the copy, by role.
    """
    parts_by_role = {}
    for role, dims in shapes.items():
        array = arrays[role]
        part = tuple(
            slice(None) if size == all_of_it else slice(copy.head * size, (copy.head + 1) * size)
            for size, all_of_it in zip(dims, array.shape, strict=True)
        )
        parts_by_role[role] = array[part]
    return parts_by_role


def side_by_side(layer: Layer, parts: Sequence[str], axis: int) -> Layer:
    """The layer turned into a concatenation of the parts of its result along an axis."""
    operator = op.Concatenation(axis=axis)
    return replace(layer, operator=operator, inputs=tuple(parts), epilogue=(), stored=())


class _Groups:
    """A span of layers that is split by groups of rows: each group gets layers of its own."""

    def __init__(
        self, network: Network, inside: Sequence[str], groups: int, copies: dict[str, Copy]
    ) -> None:
        self._network, self._inside, self._groups, self._copies = network, inside, groups, copies
        self._taken = {layer.name for layer in network.layers}
        self._made: dict[str, Layer] = {}
        for name in inside:
            self._require_rows(network.layer(name))

    def _require_rows(self, layer: Layer) -> None:
        """Require that a row group of a layer needs only the same row group of each input."""
        shapes = self._network.input_shapes(layer)
        constants = [step.constant_dims for step in (layer.operator, *layer.epilogue)]
        if any(dims is not None and len(dims) == 3 and dims[1] > 1 for dims in constants):
            raise _Whole
        for index, shape in enumerate(shapes):
            rows = layer.shape.rows // self._groups
            needed = layer.operator.rows_needed(index, shapes, layer.shape)
            read = shape.rows // self._groups
            if needed is None or layer.shape.rows % self._groups or shape.rows % self._groups:
                raise _Whole
            for row in range(layer.shape.rows):
                first, end = needed(row)
                if first < row // rows * read or end > (row // rows + 1) * read:
                    raise _Whole

    def apart(self) -> tuple[Network, list[tuple[tuple[str, ...], tuple[str, ...]]]]:
        """Return the network, and for each group the slices before it and its layers."""
        spans, results = [], []
        for group in range(self._groups):
            names: dict[str, str] = {}
            slices: list[str] = []
            for name in self._inside:
                layer = self._network.layer(name)
                for source in layer.inputs:
                    if source not in self._inside and source not in names:
                        names[source] = self._slice(source, group)
                        slices.append(names[source])
                inputs = tuple(names[source] for source in layer.inputs)
                made = replace(
                    sharing(self._network, layer),
                    operator=layer.operator.of_one_group(),
                    inputs=inputs,
                )
                names[name] = self._add(made, name, group)
            results.append(names[self._inside[-1]])
            spans.append((tuple(slices), tuple(names[name] for name in self._inside)))
        joined = side_by_side(self._network.layer(self._inside[-1]), results, ROWS)
        layers: list[Layer] = []
        for layer in self._network.layers:
            if layer.name == self._inside[0]:
                layers += [*self._made.values(), joined]
            if layer.name not in self._inside:
                layers.append(layer)
        return replace(self._network, layers=tuple(layers)), spans

    def _slice(self, source: str, group: int) -> str:
        layer = self._network.layer(source)
        rows = layer.shape.rows // self._groups
        operator = op.Slice(axis=ROWS, start=group * rows, stop=(group + 1) * rows)
        made = replace(layer, operator=operator, inputs=(source,), epilogue=(), stored=())
        return self._add(made, source, group)

    def _add(self, made: Layer, name: str, group: int) -> str:
        """Add the layer of a group, a copy of layer `name`; return the name of the copy."""
        layer_name = free_name(f"{name}, group {group + 1}", self._taken)
        self._taken.add(layer_name)
        shapes = [
            (self._made.get(source) or self._network.layer(source)).shape for source in made.inputs
        ]
        shape = made.operator.output_shape(shapes)
        self._made[layer_name] = replace(made, name=layer_name, shape=shape)
        self._copies[layer_name] = Copy(name)
        return layer_name


class _Heads:
    """An attention whose heads get layers of their own."""

    def __init__(self, network: Network, inside: Sequence[str], copies: dict[str, Copy]) -> None:
        """Analyse the span around an attention; its copies are added to the given copies."""
        self._network, self._inside, self._copies = network, inside, copies
        self._products = [
            layer for layer in map(network.layer, inside) if layer.operator.attention is not None
        ]
        self._values = values = self._products[-1]
        assert values.operator.attention is not None
        self._count = values.operator.attention.heads
        self._axes: dict[str, int] = {}  # of the layers whose heads come apart
        self._front: set[str] = set()
        self._come_apart(values.name)
        readers = network.consumers
        if any(set(readers[name]) - set(self._axes) for name in self._axes if name != values.name):
            raise _Whole
        front = self._front = needed_for(network, inside, self._front & set(inside))
        works = map(network.layer, front)
        if front & set(self._axes) or any(
            multiply_accumulates(work, network.input_shapes(work)) for work in works
        ):
            raise _Whole
        self._taken = {layer.name for layer in network.layers}
        self._made: list[Layer] = []
        self._shapes: dict[str, Shape] = {}

    def _come_apart(self, name: str) -> None:
        """Require separable heads of a tensor and of its producers, back to the projections."""
        if name in self._axes:
            return
        layer = self._network.layer(name)
        operator, shape = layer.operator, layer.shape
        is_there = name in self._inside and shape.is_map
        if not is_there or len(getattr(layer.quantization, "scales", (1,))) > 1:
            raise _Whole
        axis = COLUMNS if shape.width == self._count else CHANNELS
        is_product = operator.splits_filters and operator.mixes_channels
        if shape.dims[axis] % self._count or (axis == CHANNELS and shape.width > 1):
            raise _Whole
        steps = (operator, *layer.epilogue)
        if any(step.of_head(axis, self._count) is None for step in steps):
            raise _Whole
        self._axes[name] = axis
        if is_product and axis == CHANNELS:
            self._front |= set(layer.inputs)
            return
        shapes = self._network.input_shapes(layer)
        if operator.attention is None and any(source.dims != shape.dims for source in shapes):
            raise _Whole
        for source in layer.inputs:
            self._come_apart(source)

    def apart(self) -> Network:
        """Return the network with layers for each head; set heads, joined and rest to their names."""
        self.heads = tuple(tuple(self._head(head)) for head in range(self._count))
        self.joined = self._values.name
        joined = side_by_side(self._values, [head[-1] for head in self.heads], COLUMNS)
        left = [name for name in self._inside if name not in self._axes]
        behind = needed_for(self._network, left, {self._inside[-1]} & set(left))
        self.rest = tuple(name for name in left if name in behind)
        gone = set(self._axes) | (set(left) - behind)
        layers: list[Layer] = []
        for layer in self._network.layers:
            if layer.name == self._inside[0]:
                layers += [*self._made, joined]
            if layer.name not in gone:
                is_copied = layer.name in self._front
                layers.append(sharing(self._network, layer) if is_copied else layer)
        return replace(self._network, layers=tuple(layers))

    def _head(self, head: int) -> list[str]:
        """The layers of a head in execution order: for its keys, for its values, then all others."""
        begin, names = len(self._made), dict[str, str]()
        kept = [source for layer in self._products for source in layer.inputs[1:]]
        for wanted in (*kept, self._values.name):
            for name in self._front:
                names.pop(name, None)
            left = [candidate for candidate in self._inside if candidate not in names]
            needed = needed_for(self._network, left, {wanted})
            for name in (candidate for candidate in left if candidate in needed):
                names[name] = self._copied(name, names, head)
        return [layer.name for layer in self._made[begin:]]

    def _copied(self, name: str, names: Mapping[str, str], head: int) -> str:
        """Add the copy of a layer for a head; return the name of the copy."""
        layer = self._network.layer(name)
        is_front = name in self._front
        wanted = f"{name} again" if is_front else f"{name}, head {head + 1}"
        layer_name = free_name(wanted, self._taken)
        self._taken.add(layer_name)
        inputs = tuple(names.get(source, source) for source in layer.inputs)
        if is_front:
            made = replace(sharing(self._network, layer), name=layer_name, inputs=inputs)
        else:
            made = self._part(replace(layer, name=layer_name, inputs=inputs), layer, head)
        origin = self._copies.get(name, Copy(name)).layer
        self._copies[layer_name] = Copy(origin, 0 if is_front else head)
        self._shapes[layer_name] = made.shape
        self._made.append(made)
        return layer_name

    def _part(self, made: Layer, layer: Layer, head: int) -> Layer:
        """A layer of a head alone, beside the layer of all heads."""
        axis = self._axes[layer.name]
        parts = (step.of_head(axis, self._count) for step in (layer.operator, *layer.epilogue))
        operators = [part for part in parts if part is not None]
        inputs = [
            self._shapes.get(source) or self._network.layer(source).shape for source in made.inputs
        ]
        shape = operators[0].output_shape(inputs)
        made = replace(
            made, operator=operators[0], epilogue=tuple(operators[1:]), shape=shape, stored=()
        )
        dims = parameter_shapes(layer, self._network.input_shapes(layer))
        stored = []
        for role, size in parameter_shapes(made, inputs).items():
            array = _named(layer.stored_as(role), layer)
            if size != dims[role]:
                array = replace(array, name=f"{array.name}, head {head + 1} of {self._count}")
                types = array.quantization
                if types is not None and len(types.scales) > 1:
                    scales = types.scales[head * size[0] : (head + 1) * size[0]]
                    array = replace(array, quantization=replace(types, scales=scales))
            stored.append(array)
        return replace(made, stored=tuple(stored))

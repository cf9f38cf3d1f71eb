"""Heads of attention one after another: a network in which each head has layers of its own.

A head reads some filters of the products that make queries, keys and values, so these are there once
for each head, each with its filters: no number is stored twice, none multiplied twice. What the
products read (a normalisation) is there once for each of them. The results of the heads are the
columns of one tensor, which is their concatenation. So only one head has keys and values at a time.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from cnn2csdf import operators as op
from cnn2csdf.dtypes import Stored
from cnn2csdf.network import Layer, Network
from cnn2csdf.parameters import multiply_accumulates, parameter_shapes
from cnn2csdf.shape import Shape
from cnn2csdf.weights import Array
from csdf.names import free_name

CHANNELS, COLUMNS = 0, 2  # axes along which the heads of a tensor follow one another
ANYWHERE = (op.Activation, op.Conversion, op.Elementwise, op.Identity)
IN_COLUMNS = (*ANYWHERE, op.Softmax, op.LayerNormalization, op.AttentionProduct)


class Copy(NamedTuple):
    """The layer that a copy repeats, and the head of it that it computes, if not all."""

    layer: str
    head: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadByHead:
    """A network with layers for each head of one attention.

    heads: the layers of each, in order. joined: the layer whose columns are their results. rest: the
    layers behind it, in order. copies: of each layer that is there several times, or for a head alone.
    """

    network: Network
    heads: tuple[tuple[str, ...], ...]
    joined: str
    rest: tuple[str, ...]
    copies: Mapping[str, Copy]


class _Whole(Exception):
    """The heads of a tensor do not come apart."""


def head_by_head(network: Network, inside: Sequence[str]) -> HeadByHead | None:
    """Return the network where the heads of the attention among some layers have their own.

    inside: layers that follow one another, of which only the last is read behind them. None where
    there is no attention, more than one, or one whose heads cannot be computed apart.
    """
    attention = [
        one
        for one in map(network.layer, inside)
        if isinstance(one.operator, op.AttentionProduct) and one.operator.heads > 1
    ]
    if [getattr(one.operator, "gives", "") for one in attention] != ["scores", "values"]:
        return None
    try:
        return _Heads(network, inside, attention[1]).apart()
    except _Whole:
        return None


def needed_for(network: Network, inside: Collection[str], wanted: Collection[str]) -> set[str]:
    """Return the layers of a span from which others are computed, these included."""
    needed = set(wanted)
    for name in reversed(list(inside)):
        if name in needed:
            needed |= set(network.layer(name).inputs) & set(inside)
    return needed


def sharing(network: Network, layer: Layer) -> Layer:
    """Return the layer whose arrays have names, so that they are stored once for it and its copy."""
    roles = parameter_shapes(layer, network.input_shapes(layer))
    return replace(layer, stored=tuple(_named(layer.stored_as(role), layer) for role in roles))


def _named(stored: Stored, layer: Layer) -> Stored:
    return replace(stored, name=stored.name or f"{layer.name} {stored.role}")


def arrays_of(
    copy: Copy, arrays: Mapping[str, Array], shapes: Mapping[str, tuple[int, ...]]
) -> dict[str, Array]:
    """Return the arrays of a copy, of which its head has a part along each axis that is shorter.

    arrays: of the layer. shapes: of the arrays of the copy, by their roles.
    """
    found = {}
    for role, dims in shapes.items():
        array = arrays[role]
        part = tuple(
            slice(None) if size == all_of_it else slice(copy.head * size, (copy.head + 1) * size)
            for size, all_of_it in zip(dims, array.shape, strict=True)
        )
        found[role] = array[part]
    return found


class _Heads:
    """An attention whose heads get layers of their own."""

    def __init__(self, network: Network, inside: Sequence[str], values: Layer) -> None:
        assert isinstance(values.operator, op.AttentionProduct)
        self._network, self._inside, self._values = network, inside, values
        self._heads = values.operator.heads
        self._axes: dict[str, int] = {}  # of the layers whose heads come apart
        self._front: set[str] = set()
        self._come_apart(values.name)
        readers = network.consumers
        if any(set(readers[name]) - set(self._axes) for name in self._axes if name != values.name):
            raise _Whole
        front = self._front = needed_for(network, inside, self._front & set(inside))
        works = map(network.layer, front)
        if front & set(self._axes) or any(
            multiply_accumulates(one, network.input_shapes(one)) for one in works
        ):
            raise _Whole
        self._taken = {layer.name for layer in network.layers}
        self._copies: dict[str, Copy] = {}
        self._made: list[Layer] = []
        self._shapes: dict[str, Shape] = {}

    def _come_apart(self, name: str) -> None:
        """Require that the heads of a tensor come apart, and those of all that it is computed from."""
        if name in self._axes:
            return
        layer = self._network.layer(name)
        operator, shape = layer.operator, layer.shape
        is_there = name in self._inside and shape.is_map
        if not is_there or len(getattr(layer.quantization, "scales", (1,))) > 1:
            raise _Whole
        axis = COLUMNS if shape.width == self._heads else CHANNELS
        kinds = IN_COLUMNS if axis == COLUMNS else ANYWHERE
        is_product = isinstance(operator, op.Convolution) and operator.groups == 1
        if shape.dims[axis] % self._heads or (axis == CHANNELS and shape.width > 1):
            raise _Whole
        if not all(isinstance(one, kinds) for one in (operator, *layer.epilogue)[is_product:]):
            raise _Whole
        self._axes[name] = axis
        if is_product and axis == CHANNELS:
            self._front |= set(layer.inputs)
            return
        if isinstance(operator, op.AttentionProduct):
            if (operator.heads, operator.groups) != (self._heads, 1):
                raise _Whole
        elif any(one.dims != shape.dims for one in self._network.input_shapes(layer)):
            raise _Whole
        for source in layer.inputs:
            self._come_apart(source)

    def apart(self) -> HeadByHead:
        """Return the network, in which each head has layers."""
        heads = tuple(tuple(self._head(head)) for head in range(self._heads))
        results = tuple(one[-1] for one in heads)
        joined = replace(
            self._values,
            operator=op.Concatenation(axis=COLUMNS),
            inputs=results,
            epilogue=(),
            stored=(),
        )
        left = [name for name in self._inside if name not in self._axes]
        behind = needed_for(self._network, left, {self._inside[-1]} & set(left))
        rest = tuple(name for name in left if name in behind)
        gone = set(self._axes) | (set(left) - behind)
        layers: list[Layer] = []
        for layer in self._network.layers:
            if layer.name == self._inside[0]:
                layers += [*self._made, joined]
            if layer.name not in gone:
                is_copied = layer.name in self._front
                layers.append(sharing(self._network, layer) if is_copied else layer)
        return HeadByHead(
            network=replace(self._network, layers=tuple(layers)),
            heads=heads,
            joined=joined.name,
            rest=rest,
            copies=self._copies,
        )

    def _head(self, head: int) -> list[str]:
        """The layers of a head: those of its keys, those of its values, and all others."""
        begin, names = len(self._made), dict[str, str]()
        kept = [
            source
            for name in self._inside
            if isinstance(self._network.layer(name).operator, op.AttentionProduct)
            for source in self._network.layer(name).inputs[1:]
        ]
        for wanted in (*kept, self._values.name):
            for name in self._front:
                names.pop(name, None)
            left = [one for one in self._inside if one not in names]
            needed = needed_for(self._network, left, {wanted})
            for name in (one for one in left if one in needed):
                names[name] = self._copied(name, names, head)
        return [one.name for one in self._made[begin:]]

    def _copied(self, name: str, names: Mapping[str, str], head: int) -> str:
        """Add a layer as a head has it; return its name."""
        layer = self._network.layer(name)
        is_front = name in self._front
        wanted = f"{name} again" if is_front else f"{name}, head {head + 1}"
        found = free_name(wanted, self._taken)
        self._taken.add(found)
        inputs = tuple(names.get(source, source) for source in layer.inputs)
        if is_front:
            made = replace(sharing(self._network, layer), name=found, inputs=inputs)
        else:
            made = self._part(replace(layer, name=found, inputs=inputs), layer, head)
        self._copies[found] = Copy(name, 0 if is_front else head)
        self._shapes[found] = made.shape
        self._made.append(made)
        return found

    def _part(self, made: Layer, layer: Layer, head: int) -> Layer:
        """A layer of a head alone, beside the layer of all heads."""
        axis = self._axes[layer.name]
        operators = [self._of_head(one, axis) for one in (layer.operator, *layer.epilogue)]
        inputs = [self._shapes.get(one) or self._network.layer(one).shape for one in made.inputs]
        shape = operators[0].output_shape(inputs)
        made = replace(
            made, operator=operators[0], epilogue=tuple(operators[1:]), shape=shape, stored=()
        )
        dims = parameter_shapes(layer, self._network.input_shapes(layer))
        stored = []
        for role, size in parameter_shapes(made, inputs).items():
            one = _named(layer.stored_as(role), layer)
            if size != dims[role]:
                one = replace(one, name=f"{one.name}, head {head + 1} of {self._heads}")
                types = one.quantization
                if types is not None and len(types.scales) > 1:
                    some = types.scales[head * size[0] : (head + 1) * size[0]]
                    one = replace(one, quantization=replace(types, scales=some))
            stored.append(one)
        return replace(made, stored=tuple(stored))

    def _of_head(self, operator: op.Operator, axis: int) -> Any:
        """The operator of one head, of the heads along an axis."""
        match operator:
            case op.Convolution(filters=filters):
                return replace(operator, filters=filters // self._heads)
            case op.AttentionProduct():
                return replace(operator, heads=1)
            case op.Elementwise(constant=tuple(dims)) if len(dims) == 3 and dims[axis] > 1:
                some = (*dims[:axis], dims[axis] // self._heads, *dims[axis + 1 :])
                return replace(operator, constant=some)
        return operator

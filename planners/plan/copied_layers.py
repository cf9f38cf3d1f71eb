"""Checker of a network with copies of layers, whole or by heads: whether it computes the same.

Every layer is one of the network, a copy of one, or one head of it: some channels of a convolution, or
the columns of attention, and what works on these alone. Shares no code with what makes such networks.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import NamedTuple

from cnn2csdf import operators as op
from cnn2csdf.network import Layer, Network
from csdf.errors import InvalidPlan

COPY = re.compile(r"(.*?)(?: again| again \d+|, head (\d+)(?: \d+)?)", re.DOTALL)
OF_PLACES = (op.Activation, op.Conversion, op.Elementwise, op.Identity)
OF_COLUMNS = (*OF_PLACES, op.Softmax, op.LayerNormalization, op.AttentionProduct)


class _Origin(NamedTuple):
    """The layer that another is a copy of. head: its number from 1 on; 0 for all of the layer."""

    layer: str
    head: int = 0


def require_same(network: Network, worked: Network) -> None:
    """Raise InvalidPlan unless a network with copies of layers computes what the network does."""
    known = {layer.name: layer for layer in network.layers}
    origins: dict[str, _Origin] = {}
    for layer in worked.layers:
        origin = _origin(layer.name, known)
        sources = [origins.get(source, _Origin("")) for source in layer.inputs]
        one = known.get(origin.layer)
        if one is None or not (
            _is_part(network, layer, one, origin.head, sources)
            if origin.head
            else _is_whole(worked, layer, one, sources)
        ):
            raise InvalidPlan(f"layer {layer.name!r} is no copy of a layer of {network.name!r}")
        origins[layer.name] = origin
    if not set(known) <= {one.layer for one in origins.values()}:
        raise InvalidPlan(f"layers of {network.name!r} are missing among those that work twice")


def _origin(name: str, known: dict[str, Layer]) -> _Origin:
    head = 0
    while name not in known and (found := COPY.fullmatch(name)):
        name, head = found[1], int(found[2] or 0)
    return _Origin(name, head)


def _is_whole(worked: Network, layer: Layer, one: Layer, sources: list[_Origin]) -> bool:
    """Whether a layer is another or a copy of it, or puts its heads side by side."""
    alike = replace(one, name=layer.name, inputs=layer.inputs, stored=layer.stored)
    if layer == alike:
        return [*sources] == [_Origin(name) for name in one.inputs]
    heads = one.shape.width
    joined = replace(alike, operator=op.Concatenation(axis=2), epilogue=())
    widths = {worked.layer(name).shape.width for name in layer.inputs}
    in_order = [_Origin(one.name, head + 1) for head in range(heads)]
    return layer == joined and widths == {1} and sources == in_order


def _is_part(network: Network, layer: Layer, one: Layer, head: int, sources: list[_Origin]) -> bool:
    """Whether a layer computes the channels or columns of one head of another."""
    whole, part = one.shape.dims, layer.shape.dims
    axes = [axis for axis in range(len(whole)) if part[axis : axis + 1] != whole[axis : axis + 1]]
    if len(part) != 3 or axes not in ([0], [2]) or whole[axes[0]] % part[axes[0]]:
        return False
    (axis,) = axes
    heads = whole[axis] // part[axis]
    operators = (one.operator, *one.epilogue), (layer.operator, *layer.epilogue)
    if head > heads or len(operators[0]) != len(operators[1]):
        return False
    if not all(_is_of_head(*pair, axis, heads) for pair in zip(*operators, strict=True)):
        return False
    alike = replace(one, name=layer.name, inputs=layer.inputs, stored=layer.stored)
    alike = replace(alike, operator=layer.operator, epilogue=layer.epilogue, shape=layer.shape)
    if isinstance(one.operator, op.Convolution):
        return layer == alike and sources == [_Origin(name) for name in one.inputs]
    is_attention = isinstance(one.operator, op.AttentionProduct)
    is_even = all(shape.dims == whole for shape in network.input_shapes(one))
    of_head = [_Origin(name, head) for name in one.inputs]
    return layer == alike and sources == of_head and (is_attention or is_even)


def _is_of_head(one: op.Operator, part: op.Operator, axis: int, heads: int) -> bool:
    """Whether an operator does for one head what another does for all of an axis."""
    match one:
        case op.Convolution(groups=1, filters=filters) if axis == 0:
            return part == replace(one, filters=filters // heads)
        case op.AttentionProduct(groups=1, heads=all_heads) if axis == 2:
            return all_heads == heads and part == replace(one, heads=1)
        case op.Elementwise(constant=tuple(dims)) if len(dims) == 3 and dims[axis] > 1:
            some = (*dims[:axis], dims[axis] // heads, *dims[axis + 1 :])
            return part == replace(one, constant=some)
    return part == one and isinstance(one, OF_COLUMNS if axis == 2 else OF_PLACES)

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

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import NamedTuple

from cnn2csdf.network import Layer, Network
from cnn2csdf.parameters import multiply_accumulates, parameter_bytes, with_named_arrays
from planners.rewrites.layer_copies import (
    CHANNELS,
    COLUMNS,
    ROWS,
    Copy,
    LayerCopies,
    Rewritten,
    needed_for,
    replaced_layers,
    side_by_side,
)


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


class _Inseparable(Exception):
    """The heads or groups of a tensor cannot be computed separately."""


def head_by_head(network: Network, inside: Sequence[str]) -> Rewritten[HeadLayers] | None:
    """Return the network where each head of the attention in a span has layers of its own.

    inside: consecutive layers whose only result is the last layer. None unless the span has exactly one
    attention with several heads, and its heads can be computed separately without storing weights
    twice. If there are several groups of tokens, the last layer of the span joins their results.
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
        return None  # heads are joined along the columns, groups along the rows
    copies: dict[str, Copy] = {}
    spans: list[tuple[tuple[str, ...], tuple[str, ...]]] = [((), tuple(inside))]
    parts: list[HeadLayers] = []
    try:
        if groups > 1:
            network, spans = _by_groups(network, inside, groups, copies)
        for slices, layers in spans:
            network, head_layers = _Heads(network, layers, copies).separated(slices)
            parts.append(head_layers)
    except _Inseparable:
        return None
    if parameter_bytes(network) > stored:
        return None
    names = {layer.name for layer in network.layers}
    copies = {name: copy for name, copy in copies.items() if name in names}
    return Rewritten(network=network, copies=copies, parts=tuple(parts))


def _by_groups(
    network: Network, inside: Sequence[str], groups: int, copies: dict[str, Copy]
) -> tuple[Network, list[tuple[tuple[str, ...], tuple[str, ...]]]]:
    """Return the network in which each group of rows of a span gets layers of its own.

    Also the slices before each group, and its layers. The copies are added to `copies`.
    """
    for name in inside:
        _require_rows(network, network.layer(name), groups)
    added, spans = LayerCopies(network), []
    for group in range(groups):
        names: dict[str, str] = {}
        slices: list[str] = []
        suffix = f"group {group + 1}"
        for name in inside:
            layer = network.layer(name)
            for source in layer.inputs:
                if source not in inside and source not in names:
                    rows = network.layer(source).shape.rows // groups
                    span = group * rows, (group + 1) * rows
                    names[source] = added.cut(source, ROWS, span, f"{source}, {suffix}", source)
                    slices.append(names[source])
            inputs = tuple(names[source] for source in layer.inputs)
            operator = layer.operator.of_one_group()
            copy = replace(with_named_arrays(network, layer), operator=operator, inputs=inputs)
            names[name] = added.add(copy, f"{name}, {suffix}", Copy(name))
        spans.append((tuple(slices), tuple(names[name] for name in inside)))
    copies |= added.copies
    results = [layers[-1] for _, layers in spans]
    joined = side_by_side(network.layer(inside[-1]), results, ROWS)
    layers_added = [*added.made.values(), joined]
    layers = replaced_layers(network, inside[0], layers_added, without=inside)
    return replace(network, layers=layers), spans


def _require_rows(network: Network, layer: Layer, groups: int) -> None:
    """Require that a row group of a layer needs only the same row group of each input."""
    shapes = network.input_shapes(layer)
    constants = [step.constant_dims for step in (layer.operator, *layer.epilogue)]
    if any(dims is not None and len(dims) == 3 and dims[1] > 1 for dims in constants):
        raise _Inseparable
    for index, shape in enumerate(shapes):
        rows = layer.shape.rows // groups
        needed = layer.operator.rows_needed(index, shapes, layer.shape)
        read = shape.rows // groups
        if needed is None or layer.shape.rows % groups or shape.rows % groups:
            raise _Inseparable
        for row in range(layer.shape.rows):
            first, end = needed(row)
            if first < row // rows * read or end > (row // rows + 1) * read:
                raise _Inseparable


class _Heads:
    """An attention whose heads get layers of their own.

    Each layer of the span is of heads, from the projections to the attention (`_axes`); or before the
    projections, copied for each (`_before`); or after the attention.
    """

    def __init__(self, network: Network, inside: Sequence[str], copies: dict[str, Copy]) -> None:
        """Analyse the span around an attention; `separated` adds its copies to `copies`."""
        self._network, self._inside, self._copies = network, inside, copies
        self._added = LayerCopies(network)
        self._products = [
            layer for layer in map(network.layer, inside) if layer.operator.attention is not None
        ]
        self._values = values = self._products[-1]
        assert values.operator.attention is not None
        self._count = values.operator.attention.heads
        self._axes: dict[str, int] = {}  # axis of the heads, by layer
        self._before: set[str] = set()
        self._require_heads(values.name)
        readers = network.consumers
        if any(set(readers[name]) - set(self._axes) for name in self._axes if name != values.name):
            raise _Inseparable
        self._before = needed_for(network, inside, self._before & set(inside))
        layers_before = map(network.layer, self._before)
        if self._before & set(self._axes) or any(
            multiply_accumulates(layer, network.input_shapes(layer)) for layer in layers_before
        ):
            raise _Inseparable

    def _require_heads(self, name: str) -> None:
        """Require separable heads of a tensor and of its producers, back to the projections.

        The producers are added to `_axes`, and the inputs of the projections to `_before`.
        """
        if name in self._axes:
            return
        layer = self._network.layer(name)
        operator, shape = layer.operator, layer.shape
        is_map = name in self._inside and shape.is_map
        if not is_map or len(getattr(layer.quantization, "scales", (1,))) > 1:
            raise _Inseparable
        axis = COLUMNS if shape.width == self._count else CHANNELS
        if shape.dims[axis] % self._count or (axis == CHANNELS and shape.width > 1):
            raise _Inseparable
        steps = (operator, *layer.epilogue)
        if any(step.of_head(axis, self._count) is None for step in steps):
            raise _Inseparable
        self._axes[name] = axis
        is_projection = operator.splits_filters and operator.mixes_channels and axis == CHANNELS
        if is_projection:
            self._before |= set(layer.inputs)
            return
        shapes = self._network.input_shapes(layer)
        if operator.attention is None and any(source.dims != shape.dims for source in shapes):
            raise _Inseparable
        for source in layer.inputs:
            self._require_heads(source)

    def separated(self, slices: tuple[str, ...]) -> tuple[Network, HeadLayers]:
        """Return the network with layers for each head, and the names of these layers."""
        heads = tuple(tuple(self._head(head)) for head in range(self._count))
        joined = side_by_side(self._values, [head[-1] for head in heads], COLUMNS)
        remaining = [name for name in self._inside if name not in self._axes]
        after = needed_for(self._network, remaining, {self._inside[-1]} & set(remaining))
        rest = tuple(name for name in remaining if name in after)
        removed = set(self._axes) | (set(remaining) - after)
        added = [*self._added.made.values(), joined]
        self._copies |= self._added.copies
        layers = replaced_layers(
            self._network, self._inside[0], added, without=removed, shared=self._before
        )
        network = replace(self._network, layers=layers)
        return network, HeadLayers(slices, heads, joined.name, rest)

    def _head(self, head: int) -> list[str]:
        """The layers of a head in execution order: for its keys, for its values, then all remaining."""
        begin, names = len(self._added.made), dict[str, str]()
        keys_and_values = [source for layer in self._products for source in layer.inputs[1:]]
        for wanted in (*keys_and_values, self._values.name):
            # The layers before the projections are copied again for each of them.
            for name in self._before:
                names.pop(name, None)
            missing = [candidate for candidate in self._inside if candidate not in names]
            needed = needed_for(self._network, missing, {wanted})
            for name in (candidate for candidate in missing if candidate in needed):
                names[name] = self._copied(name, names, head)
        return list(self._added.made)[begin:]

    def _copied(self, name: str, names: Mapping[str, str], head: int) -> str:
        """Add the copy of a layer for a head; return the name of the copy."""
        layer = self._network.layer(name)
        inputs = tuple(names.get(source, source) for source in layer.inputs)
        origin = self._copies.get(name, Copy(name)).layer  # a group is a copy itself
        if name in self._before:
            copy = replace(with_named_arrays(self._network, layer), inputs=inputs)
            return self._added.add(copy, f"{name} again", Copy(origin))
        axis = self._axes[name]
        parts = (step.of_head(axis, self._count) for step in (layer.operator, *layer.epilogue))
        operator, *epilogue = [part for part in parts if part is not None]
        part = replace(layer, inputs=inputs, operator=operator, epilogue=tuple(epilogue))
        copy_of_head = Copy(origin, Fraction(head, self._count))
        words = f"head {head + 1}"
        return self._added.add_part(
            part, f"{name}, {words}", copy_of_head, f"{words} of {self._count}"
        )

"""Aliases: tensors stored inside other tensors (hosts), so that concatenations and slices copy nothing.

The inputs of a concatenation along channels are written directly into its result: each pixel of the
result holds the channels of all inputs side by side, so pixels of an input are as far apart as pixels
of the host. Nested concatenations, each a longer one of the same tensors (DenseNet), are all stored in
the longest. Along rows, or of vectors, the inputs follow each other in the host. For example, a
concatenation `c` of `a` with 8 channels and `b` with 4 holds both; `b` begins at channel 8 of `c`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from math import prod
from typing import NamedTuple

from cnn2csdf.network import Layer, Network, Shape
from planners.arena.problem import loads
from planners.plan.plan import Alias

CHANNELS, ROWS, COLUMNS = 0, 1, 2  # axes


class _Range(NamedTuple):
    """Consecutive channels, rows or columns of a tensor."""

    tensor: str
    first: int
    length: int


def aliases_of(
    network: Network, element_bytes: Callable[[str], int], outside: Collection[str] = ()
) -> dict[str, Alias]:
    """Return the positions of tensors that may be stored inside other tensors, longest host first.

    Hosts are results of concatenations and what slices are cut from. outside: tensors in other memory,
    or that come row by row. These, and inputs and results of the network, are stored by themselves.
    """
    aliases: dict[str, Alias] = {}
    for axis in (CHANNELS, ROWS, COLUMNS):
        _AxisTensors(network, axis, element_bytes, outside).add_to(aliases)
    return aliases


class _AxisTensors:
    """Contents of all tensors along one axis, as ranges of tensors, to find tensors inside others."""

    def __init__(
        self,
        network: Network,
        axis: int,
        element_bytes: Callable[[str], int],
        outside: Collection[str],
    ) -> None:
        self._network, self._axis, self._element_bytes = network, axis, element_bytes
        self._results = network.results
        ends = {layer.name for layer in (*network.inputs, *network.outputs)}
        self._own_buffers = ends | set(outside)
        self._hosts: list[str] = []
        self._contents: dict[str, tuple[_Range, ...]] = {}
        for layer in network.layers:
            self._contents[layer.name] = _merged(self._content(layer))

    def _content(self, layer: Layer) -> Iterator[_Range]:
        """The ranges that a tensor consists of: itself, unless it is a concatenation or a slice."""
        sources = [self._network.layer(name) for name in layer.inputs]
        moves = not layer.epilogue and all(self._are_alike(layer, source) for source in sources)
        axis, cut = layer.operator.joined_axis, layer.operator.sliced_range
        if axis is not None and moves and self._is_along(axis, layer.shape):
            self._hosts.append(layer.name)
            for name in layer.inputs:
                yield from self._contents[name]
        elif cut and cut.step == 1 and moves and self._is_along(cut.axis, sources[0].shape):
            self._hosts.append(layer.inputs[0])
            # Of a vector the axis may be an outer dimension: its elements per index.
            elements = 1 if layer.shape.is_map else prod(layer.shape.dims[cut.axis + 1 :])
            first, length = cut.start * elements, self._length(layer.shape)
            yield from _cut(self._contents[layer.inputs[0]], first, first + length)
        else:
            yield _Range(layer.name, 0, self._length(layer.shape))

    def _are_alike(self, first: Layer, second: Layer) -> bool:
        """Whether the elements of both are equal, bit by bit."""
        same = (first.element, first.quantization) == (second.element, second.quantization)
        return same and self._element_bytes(first.name) == self._element_bytes(second.name)

    def _is_along(self, axis: int, shape: Shape) -> bool:
        """Whether an axis of a tensor is this axis; a vector has channels only."""
        if shape.is_map:
            return axis == self._axis
        return self._axis == CHANNELS and prod(shape.dims[:axis]) == 1

    def _length(self, shape: Shape) -> int:
        return _lengths(shape)[self._axis]

    def add_to(self, aliases: dict[str, Alias]) -> None:
        """Add the tensors that are stored in a host, hosts with most elements first."""
        elements = {name: self._network.layer(name).shape.elements for name in self._hosts}
        for host in sorted(elements, key=lambda name: -elements[name]):
            if host not in aliases and host not in self._own_buffers:
                self._fill(host, aliases)

    def _fill(self, host: str, aliases: dict[str, Alias]) -> None:
        """Add the tensors whose contents are part of those of a host."""
        hosts = {alias.host for alias in aliases.values()}
        for layer in self._network.layers:
            if layer.name in aliases or layer.name in hosts:
                continue
            first = _position_in(self._contents[host], self._contents[layer.name])
            if first is not None and self._may_be_in(layer, host):
                position = [
                    first if axis == self._axis else 0 for axis in (ROWS, COLUMNS, CHANNELS)
                ]
                aliases[layer.name] = Alias(layer.name, host, *position)

    def _may_be_in(self, layer: Layer, host: str) -> bool:
        """Whether a tensor may be stored in a host: equal types, and lengths along the other axes."""
        if layer.name in self._own_buffers | self._results or layer.name == host:
            return False
        host_layer = self._network.layer(host)
        return (
            self._differ_only_along_axis(layer.shape, host_layer.shape)
            and self._are_alike(layer, host_layer)
            and is_reached(self._network, layer, in_one_piece=self._axis == ROWS)
        )

    def _differ_only_along_axis(self, inner: Shape, outer: Shape) -> bool:
        lengths = zip(_lengths(inner), _lengths(outer), strict=True)
        return inner.is_map == outer.is_map and all(
            length == of_host or axis == self._axis
            for axis, (length, of_host) in enumerate(lengths)
        )


def is_reached(network: Network, layer: Layer, *, in_one_piece: bool) -> bool:
    """Whether the producer and all readers of a tensor can access its pixels inside a host.

    in_one_piece: whether the pixels of the tensor are consecutive in the host. Otherwise the producer
    and all readers have to address each pixel. A tensor of one pixel is always consecutive.
    """
    if in_one_piece or layer.shape.height * layer.shape.width == 1:
        return True
    readers = map(network.layer, network.consumers[layer.name])
    return layer.operator.writes_by_pixels and all(reader.operator.by_pixels for reader in readers)


def _lengths(shape: Shape) -> tuple[int, int, int]:
    """The length along each of the axes CHANNELS, ROWS and COLUMNS."""
    return shape.pixel_elements, shape.height, shape.width


def _merged(ranges: Iterator[_Range]) -> tuple[_Range, ...]:
    """The ranges, with each range joined to its predecessor if it continues it."""
    merged: list[_Range] = []
    for piece in ranges:
        if merged and merged[-1].tensor == piece.tensor and sum(merged[-1][1:]) == piece.first:
            merged[-1] = merged[-1]._replace(length=merged[-1].length + piece.length)
        else:
            merged.append(piece)
    return tuple(merged)


def _cut(ranges: tuple[_Range, ...], first: int, end: int) -> Iterator[_Range]:
    """The part of a sequence of ranges between two positions in it."""
    position = 0
    for piece in ranges:
        begin, upto = max(first, position), min(end, position + piece.length)
        if begin < upto:
            yield _Range(piece.tensor, piece.first + begin - position, upto - begin)
        position += piece.length


def _position_in(outer: tuple[_Range, ...], inner: tuple[_Range, ...]) -> int | None:
    """The first position at which the inner ranges occur in the outer ranges."""
    length, position = sum(piece.length for piece in inner), 0
    for piece in outer:
        end = piece.first + piece.length
        if piece.tensor == inner[0].tensor and piece.first <= inner[0].first < end:
            first = position + inner[0].first - piece.first
            if _merged(_cut(outer, first, first + length)) == inner:
                return first
        position += piece.length
    return None


def without_costly_aliases(
    aliases: Mapping[str, Alias],
    lives: Mapping[str, tuple[int, int]],
    sizes: Mapping[str, int],
) -> dict[str, Alias]:
    """Return the aliases, except for aliases whose removal lowers the peak of live bytes.

    A host is live while any tensor inside it is live; lives and sizes are of each tensor by itself.
    Greedy: remove all aliases of a host, then single aliases, while that lowers the peak.
    """
    kept = dict(aliases)
    least = most_bytes(kept, lives, sizes)
    is_lower = True
    while is_lower:
        is_lower = False
        for fewer in _fewer(kept):
            peak = most_bytes(fewer, lives, sizes)
            if peak < least:
                kept, least, is_lower = fewer, peak, True
                break
    return kept


def _fewer(aliases: Mapping[str, Alias]) -> Iterator[dict[str, Alias]]:
    """Yield the aliases without all of a host, for each host; then without a single one."""
    for host in dict.fromkeys(alias.host for alias in aliases.values()):
        yield {name: alias for name, alias in aliases.items() if alias.host != host}
    for removed in aliases:
        yield {name: alias for name, alias in aliases.items() if name != removed}


def most_bytes(
    aliases: Mapping[str, Alias],
    lives: Mapping[str, tuple[int, int]],
    sizes: Mapping[str, int],
) -> int:
    """Return the peak of the live bytes of all tensors."""
    joint = joint_lives(aliases, lives)
    return max(
        loads((*life, sizes[name]) for name, life in joint.items()).values(),
        default=0,
    )


def joint_lives(
    aliases: Mapping[str, Alias], lives: Mapping[str, tuple[int, int]]
) -> dict[str, tuple[int, int]]:
    """Return the lifetimes of tensors outside hosts; a host is live while a tensor inside it is."""
    joint = {name: life for name, life in lives.items() if name not in aliases}
    for name, alias in aliases.items():
        (begin, end), (begin_inside, end_inside) = joint[alias.host], lives[name]
        joint[alias.host] = min(begin, begin_inside), max(end, end_inside)
    return joint

"""A group of fused layers: each reads results of earlier layers from the buffer.

It represents positions along an axis, and boxes of elements, as the bits of integers.

They are sets rather than ranges: a stride above the kernel leaves gaps that are never read.

Sets of elements as boxes: along each axis of a tensor a set of places, as the bits of an integer. A
box holds the elements whose place along every axis is in the set of that axis. What several readers
need of one tensor is the union of their boxes, which need not be a box itself.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from math import prod
from operator import or_

from cnn2csdf.geometry import Places, ReceptiveField, places
from csdf.errors import InvalidPlan, counted
from planners.plan.regions import even_ends

INPUT = 0  # an operand that is the input of the group once more
PART_OF_OTHERS = -1  # an operand that shares elements with the input or another operand

Skip = tuple[int, int]  # numbers of a map and of a layer that reads it at the same places


@dataclass(frozen=True, slots=True, kw_only=True)
class FusedLayer:
    """A layer that slides a window over maps, with what works element by element after it.

    groups: each filter reads channels / groups maps. A layer without weights (pooling, addition)
    has as many groups as channels. beside: operands of its size that come from DRAM, element by
    element. output_bytes, weight_bytes: of one element of what it makes, of its weights;
    operand_bytes: of each of beside; none given: like what it makes.
    """

    channels: int
    filters: int
    rows: ReceptiveField
    columns: ReceptiveField
    groups: int = 1
    has_weights: bool = True
    beside: int = 0
    output_bytes: int = 1
    weight_bytes: int = 1
    operand_bytes: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if self.operand_bytes and len(self.operand_bytes) != self.beside:
            raise InvalidPlan(f"bytes {self.operand_bytes} of {counted(self.beside, 'operand')}")
        if self.channels % self.groups or self.filters % self.groups:
            raise InvalidPlan(
                f"{self.groups} groups do not divide {counted(self.channels, 'channel')}, "
                f"{counted(self.filters, 'filter')}"
            )

    @property
    def beside_bytes(self) -> tuple[int, ...]:
        """Bytes of one element of each operand that is read from DRAM."""
        return self.operand_bytes or (self.output_bytes,) * self.beside

    @property
    def widest_beside(self) -> int:
        """Bytes of the largest element of an operand from DRAM; 0 without any."""
        return max(self.beside_bytes, default=0)

    def live_kernels(self, made: Boxes) -> int:
        """Return the elements of a kernel over one map that contribute to the computed output.

        made: rows and columns of the output. Elements that see padding alone take no tile.
        """
        if not self.has_weights:
            return 0
        live = (
            (self.rows.live_kernel(down), self.columns.live_kernel(across)) for down, across in made
        )
        return count(union(live))

    def weights(self, made: Boxes) -> int:
        """Return the elements of all filters that contribute to the computed output."""
        return self.live_kernels(made) * self.filters * self.channels // self.groups

    @property
    def whole(self) -> Boxes:
        """All rows and columns of the output."""
        return ((places(0, self.rows.outputs), places(0, self.columns.outputs)),)

    @property
    def outputs(self) -> int:
        """The number of output elements."""
        return self.filters * self.rows.outputs * self.columns.outputs

    @property
    def is_channelwise(self) -> bool:
        """Whether each output map depends on a single input map (depthwise)."""
        return self.groups == self.channels == self.filters

    @property
    def operations(self) -> int:
        """Products, or elements compared, for one output element."""
        return self.channels // self.groups * self.rows.kernel * self.columns.kernel


@dataclass(frozen=True, slots=True, kw_only=True)
class FusedGroup:
    """At least two layers; map 0 is the input, map k the output of layer k.

    sources: for each layer, the maps that its window slides over, concatenated if there are several;
    by default the output of the preceding layer. skips: maps that later layers read again,
    elementwise, and that remain in the buffer until then. written: inner maps that layers outside the
    group read, so that they are written to DRAM as well. The outputs of the group, which no layer of
    the group reads, are always written, and have equal numbers of rows and columns. operands: for
    each layer, the tensor of each operand from DRAM: INPUT, PART_OF_OTHERS, or a number from 1; by
    default all differ. maps_apart: maps of the input that share no elements; by default all maps.
    input_bytes: bytes of an element of the input.
    """

    layers: tuple[FusedLayer, ...]
    sources: tuple[tuple[int, ...], ...] = ()
    skips: tuple[Skip, ...] = ()
    written: frozenset[int] = frozenset()
    operands: tuple[tuple[int, ...], ...] = ()
    maps_apart: int | None = None
    input_bytes: int = 1

    def __post_init__(self) -> None:
        if len(self.layers) < 2:
            raise InvalidPlan(f"a group of {len(self.layers)} layers; fusing takes two at least")
        if self.sources and len(self.sources) != len(self.layers):
            raise InvalidPlan(f"sources of {len(self.sources)} of {len(self.layers)} layers")
        for number in range(1, len(self.layers) + 1):
            self._check_sources(number)
        for source, layer in self.skips:
            if not 0 <= source < layer <= len(self.layers):
                raise InvalidPlan(f"layer {layer} cannot read map {source} once more")
            if self.dims(source) != self.dims(layer):
                raise InvalidPlan(
                    f"map {source} of {self.dims(source)} skips to layer {layer}, "
                    f"which makes {self.dims(layer)}"
                )
        self._check_ends()

    def _check_sources(self, number: int) -> None:
        sources, layer = self.read_by(number), self.layers[number - 1]
        if not all(0 <= source < number for source in sources) or not sources:
            raise InvalidPlan(f"layer {number} cannot read maps {sources}")
        maps = sum(self.dims(source)[0] for source in sources)
        left = {(maps, *self.dims(source)[1:]) for source in sources}
        right = layer.channels, layer.rows.inputs, layer.columns.inputs
        if left != {right}:
            sizes = " and ".join(map(str, sorted(left)))
            raise InvalidPlan(f"maps {sources} are {sizes}, layer {number} reads {right}")

    def _check_ends(self) -> None:
        ends = self.ends
        sizes = {self.dims(end)[1:] for end in ends}
        if len(sizes) > 1 or 0 in ends:
            raise InvalidPlan(
                f"the ends of a group, maps {ends}, are cut alike, and not of {sorted(sizes)}"
            )

    @property
    def length(self) -> int:
        """Layers."""
        return len(self.layers)

    @property
    def is_chain(self) -> bool:
        """Whether each window slides over what the layer before it makes, and nothing else."""
        return all(self.read_by(number) == (number - 1,) for number in range(1, self.length + 1))

    def read_by(self, layer: int) -> tuple[int, ...]:
        """Return the maps that the window of a layer slides over."""
        return self.sources[layer - 1] if self.sources else (layer - 1,)

    @property
    def readers(self) -> tuple[tuple[int, ...], ...]:
        """Of each map, the layers whose windows slide over it."""
        readers: list[list[int]] = [[] for _ in range(self.length + 1)]
        for layer in range(1, self.length + 1):
            for source in self.read_by(layer):
                readers[source].append(layer)
        return tuple(map(tuple, readers))

    @property
    def last_readers(self) -> tuple[int, ...]:
        """Of each map, the last layer that reads it, also in a view; of an end, its producer."""
        last = [max((number, *readers)) for number, readers in enumerate(self.readers)]
        for source, layer in self.skips:
            last[source] = max(last[source], layer)
        return tuple(last)

    @property
    def input_waits(self) -> bool:
        """Whether the input is read by more than the window of the first layer."""
        return self.readers[0] != (1,) or any(source == 0 for source, _ in self.skips)

    @property
    def ends(self) -> tuple[int, ...]:
        """The maps that no layer reads."""
        return tuple(number for number, last in enumerate(self.last_readers) if number == last)

    @property
    def inner(self) -> tuple[int, ...]:
        """The maps that layers of the group make and read."""
        return tuple(number for number, last in enumerate(self.last_readers) if 0 < number < last)

    @property
    def outputs(self) -> tuple[int, ...]:
        """The maps that go to DRAM."""
        return tuple(sorted({*self.ends, *self.written}))

    def dims(self, number: int) -> tuple[int, int, int]:
        """Feature maps, rows and columns of a map."""
        if number == 0:
            first = self.layers[0]
            return first.channels, first.rows.inputs, first.columns.inputs
        layer = self.layers[number - 1]
        return layer.filters, layer.rows.outputs, layer.columns.outputs

    def element_bytes(self, number: int) -> int:
        """Bytes of one element of a map."""
        return self.layers[number - 1].output_bytes if number else self.input_bytes

    def bytes(self, number: int) -> int:
        """Bytes of a map."""
        return self.elements(number) * self.element_bytes(number)

    def elements(self, number: int) -> int:
        """Elements of a map."""
        return prod(self.dims(number))


def shares(length: int, tiles: int) -> tuple[Places, ...]:
    """Return `tiles` even shares of an axis, in order. Raises InvalidPlan if one would be empty."""
    return tuple(places(first, upto) for first, upto in pairwise((0, *even_ends(length, tiles))))


Box = tuple[Places, ...]
Boxes = tuple[Box, ...]  # their union


def union(boxes: Iterable[Box]) -> Boxes:
    """Return the same elements in fewer boxes: none empty, none inside another, halves joined."""
    merged: list[Box] = []
    for box in boxes:
        if not all(box):
            continue
        joined = _joined_with_one(box, merged)
        while joined is not None:
            box = joined
            joined = _joined_with_one(box, merged)
        merged.append(box)
    return tuple(merged)


def _joined_with_one(box: Box, found: list[Box]) -> Box | None:
    """The box with one of those found, which leaves the list, if both together are a box."""
    for place, present in enumerate(found):
        pairs = list(zip(box, present, strict=True))
        is_box = sum(left != right for left, right in pairs) <= 1
        is_inside = all(left | right == left for left, right in pairs)
        if is_box or is_inside or all(left | right == right for left, right in pairs):
            del found[place]
            return tuple(or_(left, right) for left, right in pairs)
    return None


def count(boxes: Boxes) -> int:
    """Return how many elements are in some box."""
    if len(boxes) <= 1:
        return sum(map(_size, boxes))
    if not boxes[0]:
        return 1
    total = 0
    for shared, members in _slabs(boxes):
        total += shared.bit_count() * count(union(box[1:] for box in members))
    return total


def _slabs(boxes: Boxes) -> list[tuple[Places, list[Box]]]:
    """The positions of the first axis, apart by the boxes that they are in."""
    slabs: list[tuple[Places, list[Box]]] = []
    for box in boxes:
        left, cut = box[0], []
        for shared, members in slabs:
            cut += [(shared & box[0], [*members, box]), (shared & ~box[0], members)]
            left &= ~shared
        slabs = [(shared, members) for shared, members in [*cut, (left, [box])] if shared]
    return slabs


def _size(box: Box) -> int:
    size = 1
    for shared in box:
        size *= shared.bit_count()
    return size

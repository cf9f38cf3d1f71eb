"""A group of fused layers, and sets of tensor elements as unions of boxes.

The group's tensors are called maps and numbered: map 0 is the input, map k the result of layer k.
Each layer reads maps with smaller numbers from the buffer. In this residual block the second
convolution slides over map 1 and adds map 0 to its result:

    layers = (conv, conv), sources = ((0,), (1,)), skips = ((0, 2),)

Along one axis a set of positions is an integer, bit i for position i: `0b10111` is {0, 1, 2, 4}.
A range would not do, because a stride larger than the kernel leaves gaps. A box is a tuple of
such sets, one for each axis, and contains the elements whose position is in the set of every
axis. The elements of a tensor that several readers need are a union of boxes, which need not be a
box itself.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from math import prod
from operator import or_

from cnn2csdf.geometry import PositionSet, ReceptiveField, position_set
from csdf.errors import InvalidPlan, counted
from planners.plan.regions import even_ends

# Numbers of operands in `FusedGroup.operands`; other operands are numbered from 1.
INPUT = 0  # the input of the group, read a second time
ALIASED_OPERAND = -1  # a tensor that shares elements with the input or another operand

Skip = tuple[int, int]  # (map, layer): the layer reads the map elementwise, outside its window


@dataclass(frozen=True, slots=True, kw_only=True)
class FusedLayer:
    """A layer that slides a window over maps, with the elementwise layers that follow it in place.

    channels, filters: input and output feature maps.
    rows, columns: the window along each axis.
    groups: each filter reads channels / groups maps; equals channels for layers without weights.
    has_weights: false for pooling and addition.
    dram_operands: number of operands, of the size of the output, that are read from DRAM.
    output_bytes, weight_bytes: bytes per element of the output, per weight.
    operand_bytes: bytes per element of each operand; by default `output_bytes`.
    """

    channels: int
    filters: int
    rows: ReceptiveField
    columns: ReceptiveField
    groups: int = 1
    has_weights: bool = True
    dram_operands: int = 0
    output_bytes: int = 1
    weight_bytes: int = 1
    operand_bytes: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if self.operand_bytes and len(self.operand_bytes) != self.dram_operands:
            raise InvalidPlan(
                f"bytes {self.operand_bytes} of {counted(self.dram_operands, 'operand')}"
            )
        if self.channels % self.groups or self.filters % self.groups:
            raise InvalidPlan(
                f"{self.groups} groups do not divide {counted(self.channels, 'channel')}, "
                f"{counted(self.filters, 'filter')}"
            )

    @property
    def bytes_by_operand(self) -> tuple[int, ...]:
        """Bytes per element of each operand that is read from DRAM."""
        return self.operand_bytes or (self.output_bytes,) * self.dram_operands

    @property
    def widest_operand(self) -> int:
        """Bytes per element of the widest operand from DRAM; 0 without operands."""
        return max(self.bytes_by_operand, default=0)

    def live_kernels(self, outputs: Boxes) -> int:
        """Return the kernel elements over one map that contribute to these outputs.

        outputs: boxes of rows and columns. A kernel element that only ever meets padding is not
        counted.
        """
        if not self.has_weights:
            return 0
        live = (
            (self.rows.live_kernel(down), self.columns.live_kernel(across))
            for down, across in outputs
        )
        return count(union(live))

    def weights(self, outputs: Boxes) -> int:
        """Return the weights of all filters that contribute to these outputs."""
        return self.live_kernels(outputs) * self.filters * self.channels // self.groups

    @property
    def full_box(self) -> Boxes:
        """All rows and columns of the output, as one box."""
        return ((position_set(0, self.rows.outputs), position_set(0, self.columns.outputs)),)

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
        """MACs, or elements compared, per output element."""
        return self.channels // self.groups * self.rows.kernel * self.columns.kernel


@dataclass(frozen=True, slots=True, kw_only=True)
class FusedGroup:
    """At least two layers that run fused.

    layers: in execution order; layer k produces map k.
    sources: for each layer, the maps that its window slides over, concatenated if there are
    several; by default the result of the preceding layer.
    skips: pairs (map, layer) of further, elementwise reads; the map stays in the buffer until
    then.
    written: inner maps that are also written to DRAM, because layers outside the group read them.
    Maps that no layer of the group reads (the ends) are always written, and have equal rows and
    columns.
    operands: for each layer, the tensors it reads from DRAM: INPUT, ALIASED_OPERAND, or a number
    from 1; by default all differ.
    distinct_maps: feature maps of the input that share no elements; by default all.
    input_bytes: bytes per element of the input.
    """

    layers: tuple[FusedLayer, ...]
    sources: tuple[tuple[int, ...], ...] = ()
    skips: tuple[Skip, ...] = ()
    written: frozenset[int] = frozenset()
    operands: tuple[tuple[int, ...], ...] = ()
    distinct_maps: int | None = None
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
        """Raise InvalidPlan unless the sources of a layer precede it and have the size of its input."""
        sources, layer = self.read_by(number), self.layers[number - 1]
        if not all(0 <= source < number for source in sources) or not sources:
            raise InvalidPlan(f"layer {number} cannot read maps {sources}")
        maps = sum(self.dims(source)[0] for source in sources)
        actual_sizes = {(maps, *self.dims(source)[1:]) for source in sources}
        expected_size = layer.channels, layer.rows.inputs, layer.columns.inputs
        if actual_sizes != {expected_size}:
            sizes = " and ".join(map(str, sorted(actual_sizes)))
            raise InvalidPlan(f"maps {sources} are {sizes}, layer {number} reads {expected_size}")

    def _check_ends(self) -> None:
        """Raise InvalidPlan unless all ends have equal rows and columns, and the input is no end."""
        ends = self.ends
        sizes = {self.dims(end)[1:] for end in ends}
        if len(sizes) > 1 or 0 in ends:
            raise InvalidPlan(
                f"the ends of a group, maps {ends}, are cut alike, and not of {sorted(sizes)}"
            )

    @property
    def length(self) -> int:
        """The number of layers."""
        return len(self.layers)

    @property
    def is_chain(self) -> bool:
        """Whether each window slides over the result of the preceding layer alone."""
        return all(self.read_by(number) == (number - 1,) for number in range(1, self.length + 1))

    def read_by(self, layer: int) -> tuple[int, ...]:
        """Return the maps that the window of a layer slides over."""
        return self.sources[layer - 1] if self.sources else (layer - 1,)

    @property
    def readers(self) -> tuple[tuple[int, ...], ...]:
        """For each map, the layers whose windows slide over it."""
        readers: list[list[int]] = [[] for _ in range(self.length + 1)]
        for layer in range(1, self.length + 1):
            for source in self.read_by(layer):
                readers[source].append(layer)
        return tuple(map(tuple, readers))

    @property
    def last_readers(self) -> tuple[int, ...]:
        """For each map, the last layer that reads it, by window or skip; for an end, its producer."""
        last = [max((number, *readers)) for number, readers in enumerate(self.readers)]
        for source, layer in self.skips:
            last[source] = max(last[source], layer)
        return tuple(last)

    @property
    def input_waits(self) -> bool:
        """Whether any layer besides the first reads the input, so that it must stay in the buffer."""
        return self.readers[0] != (1,) or any(source == 0 for source, _ in self.skips)

    @property
    def ends(self) -> tuple[int, ...]:
        """The maps that no layer of the group reads."""
        return tuple(number for number, last in enumerate(self.last_readers) if number == last)

    @property
    def inner(self) -> tuple[int, ...]:
        """The maps that one layer of the group produces and another reads."""
        return tuple(number for number, last in enumerate(self.last_readers) if 0 < number < last)

    @property
    def outputs(self) -> tuple[int, ...]:
        """The maps that are written to DRAM."""
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


def shares(length: int, tiles: int) -> tuple[PositionSet, ...]:
    """Return the positions of `tiles` equal tiles of an axis (up to rounding), in order.

    Raises InvalidPlan if a tile would be empty.
    """
    return tuple(
        position_set(first, end) for first, end in pairwise((0, *even_ends(length, tiles)))
    )


Box = tuple[PositionSet, ...]
Boxes = tuple[Box, ...]  # the union of these boxes


def union(boxes: Iterable[Box]) -> Boxes:
    """Return an equal union of fewer boxes: none empty, none inside another, neighbours merged."""
    merged: list[Box] = []
    for box in boxes:
        if not all(box):
            continue
        joined = _pop_mergeable(box, merged)
        while joined is not None:
            box = joined
            joined = _pop_mergeable(box, merged)
        merged.append(box)
    return tuple(merged)


def _pop_mergeable(box: Box, boxes: list[Box]) -> Box | None:
    """Remove the first of the boxes whose union with `box` is a box; return that union."""
    for index, candidate in enumerate(boxes):
        axes = list(zip(box, candidate, strict=True))
        differ_in_one_axis = sum(left != right for left, right in axes) <= 1
        contains_candidate = all(left | right == left for left, right in axes)
        is_contained = all(left | right == right for left, right in axes)
        if differ_in_one_axis or contains_candidate or is_contained:
            del boxes[index]
            return tuple(or_(left, right) for left, right in axes)
    return None


def count(boxes: Boxes) -> int:
    """Return the number of elements in the union of the boxes.

    The first axis is split into sets of positions that lie in the same boxes; on each of these
    sets the union is a product, so the remaining axes are counted recursively.
    """
    if len(boxes) <= 1:
        return sum(prod(positions.bit_count() for positions in box) for box in boxes)
    if not boxes[0]:
        return 1
    total = 0
    for positions, members in _slabs(boxes):
        total += positions.bit_count() * count(union(box[1:] for box in members))
    return total


def _slabs(boxes: Boxes) -> list[tuple[PositionSet, list[Box]]]:
    """A partition of the positions of the first axis, each part with the boxes that contain it."""
    slabs: list[tuple[PositionSet, list[Box]]] = []
    for box in boxes:
        uncovered, refined = box[0], []
        for positions, members in slabs:
            refined += [(positions & box[0], [*members, box]), (positions & ~box[0], members)]
            uncovered &= ~positions
        slabs = [
            (positions, members)
            for positions, members in [*refined, (uncovered, [box])]
            if positions
        ]
    return slabs
